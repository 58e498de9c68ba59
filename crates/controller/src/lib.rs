//! Controllers: how services come from events to work, and the only way in which they touch the bus and the API server.
//!
//! ```text
//! bus ──index feed──> Index ──schedule───┐
//!  └───work queues──> Handler::keys ─────┴──> Queue (one task a key, back-off a key) ──> Handler::reconcile
//!                                                                                          └─ Objects ──> API server
//! ```
//!
//! - A work key is the object that owns what changed. One key is handled by one task at a time in a process; across
//!   replicas every write carries the resourceVersion that it was decided on.
//! - An event is acknowledged when nothing is left to do for its key. One that shows nothing but what the handler of
//!   that key has read or written already is acknowledged without being handled. A deletion is never known from a version of the
//!   living: its event reaches every handler that it concerns.
//! - Back-off is kept for a key. A failing key is tried again from memory, and its event is given back to the bus
//!   with a longer delay, so that another replica takes over if this one dies.
//! - What must happen later follows from the state of objects: [`Handler::schedule`] is called for every object that
//!   the index holds, also after a restart.
//! - An event can be lost. So what is not at rest ([`Handler::sees_to`]) is looked at again, with nothing taken from memory: when a service
//!   starts, when a feed begins anew, and every five minutes at the latest. What such a look finds without an event is counted.
//! - A process may die of what it handles. The next one takes up last, one at a time, what was in hand then ([`Casualties`]), and a handler is
//!   told to set aside what was in hand at three deaths in a row.
//! - What is decided is told in the journal by a [`Scribe`], which nobody waits for.

mod arguments;
mod casualties;
mod cause;
mod connection;
mod controller;
mod error;
mod feeders;
mod findings;
mod index_follower;
mod journal;
mod known_versions;
mod levels;
mod metrics;
mod object_event;
mod objects;
mod puller;
mod queue;
mod readiness;
mod reconcile;
mod request;
mod service;
mod shared_delivery;
mod sources;
mod takeover;
mod worker;
mod workers;

pub use arguments::{BusArguments, ClusterArguments, ConnectError, StateArguments};
pub use casualties::{AdmittedCall, Casualties};
pub use connection::spawn_bus_health_check;
pub use controller::{Controller, Options};
pub use error::{ApiError, Unasked};
pub use journal::{Journal, Note, Scribe};
pub use known_versions::Sight;
pub use levels::LONGEST as LONGEST_LOOK;
pub use metrics::Metrics;
pub use object_event::ObjectEvent;
pub use objects::{Metadata, Objects, Stored};
pub use reconcile::{Handler, Key, ReconcileError, ReconcileRequest, Reconciled, SetAside, Waker};
pub use service::{ProcessContext, RunningService, ServiceArguments, ServiceError, main, started};
pub use sources::{SourceChanges, Sources, sources};
pub use takeover::{LANDSCAPER, OriginalAtWorkError, OriginalController, PORCH, TakeoverArguments};
pub use workers::{WorkError, Workers};
