//! Waiting for servers, as health checks of containers and `groundwork wait` do it.

pub mod wait;
