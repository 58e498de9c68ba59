//! Events to work: the only way in which a service touches bus and API server.
//!
//! ```text
//! bus ──index feed──> Index ──deadlines──┐
//!  └───work queues──> Handler::keys ─────┴──> Queue (one task a key, back-off a key) ──> Handler::handle
//!                                                                                          └─ Objects ──> API server
//! ```
//!
//! - A work key is the object that owns what changed. One key is handled by one task at a time in a process; across
//!   replicas every write carries the resourceVersion that it was decided on.
//! - An event is acknowledged when nothing is left to do for its key. One that shows nothing but what the handler of
//!   that key has read or written already is acknowledged without being handled.
//! - Back-off is kept for a key. A failing key is tried again from memory, and its event is given back to the bus
//!   with a longer delay, so that another replica takes over if this one dies.
//! - What must happen later follows from the state of objects: [`Handler::deadline`] is asked for every object that
//!   the index holds, also after a restart.

mod arguments;
mod backoff;
mod connection;
mod error;
mod guard;
mod handler;
mod metrics;
mod objects;
mod program;
mod queue;
mod readiness;
mod report;
mod run;
mod seen;
mod ticket;
mod workers;

pub use arguments::{BusArguments, ClusterArguments, ConnectError};
pub use backoff::Backoff;
pub use connection::told_by_readiness;
pub use error::ApiError;
pub use guard::{GuardArguments, LANDSCAPER, Original, OriginalAtWork, PORCH};
pub use handler::{Failed, Handler, Key, Settled, Wake};
pub use metrics::Metrics;
pub use objects::{Metadata, Objects, Stored};
pub use program::{Failure, ServiceArguments, Surroundings, main};
pub use report::Report;
pub use run::{Controller, Options};
pub use workers::{Interrupted, Workers};
