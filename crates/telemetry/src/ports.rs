//! Ports that are open to untrusted clients.
//!
//! ```text
//! Port ──accept──> Visit (a connection, and its place) ──> server of the protocol
//! server ──first request──> Guest::has_asked
//! Visit: ends with an error after 5 s without a request, or when its place is needed
//! ```
//!
//! One address gets only a part of the places of a port, and a quarter of them is kept for
//! addresses without connections. If all places are taken, a new connection replaces the oldest one
//! that has not sent a request yet. If all have sent one, the new connection is closed.

mod http;
mod places;
mod port;
mod visit;

pub use http::serve;
pub use places::{IsProxy, Limits, network_of};
pub use port::Port;
pub use visit::{Guest, Visit};
