//! Ports whose connections strangers open.
//!
//! ```text
//! Port ──accept──> Visit (a connection, and its place) ──> whatever serves it ──first request──> Guest::has_asked
//!                     └── ends with an error after 5 s without a request, or when its place is needed
//! ```
//!
//! Of the places of a port one address holds a part at most, and a quarter is kept for addresses that hold none. When there is no place for a
//! newcomer, the oldest connection goes that has not asked anything yet; where all have asked, the newcomer is closed.

mod places;
mod port;
mod visit;

pub use places::{IsProxy, Limits, network_of};
pub use port::Port;
pub use visit::{Guest, Visit};
