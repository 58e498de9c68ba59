//! Waits for servers, for health checks of containers and `groundwork wait`.

pub mod wait;
