//! Controllers: the way of services from events to work, and their only access to the bus and the
//! API server.
//!
//! ```text
//! bus ──index feed──> Index ──schedule───┐
//!  └───work queues──> Handler::keys ─────┴──> Queue (one task a key, back-off a key) ──> Handler::reconcile
//!                                                                                          └─ Objects ──> API server
//! ```
//!
//! - A work key is the object that owns the changed object. Within a process one task at a time
//!   handles a key; across replicas every write carries the resourceVersion on which it is based.
//! - An event is acknowledged when all work for its key is done. An event that shows only states
//!   that the handler of that key has already read or written is acknowledged without being
//!   handled. A living version never makes a deletion known: the event of a deletion reaches every
//!   handler that it concerns.
//! - Back-off is kept for each key. A failing key is retried from memory, and its event is given
//!   back to the bus with a longer delay, so that another replica takes over if this one dies.
//! - Work that is due later follows from the state of objects: [`Handler::schedule`] is called for
//!   every object in the index, also after a restart.
//! - An event can be lost. So keys of objects that are not at rest ([`Handler::sees_to`]) are
//!   rechecked without using any cached state: when a service starts, when a feed starts over, and
//!   every five minutes at the latest. A metric counts the changes that such rechecks find without
//!   an event.
//! - A process may die while it handles a key. The next process handles the interrupted keys last
//!   and one at a time ([`Casualties`]). After three deaths in a row the handler is asked to set
//!   the key aside.
//! - A [`Scribe`] records decisions in the journal, without blocking the handler.

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
mod webhooks;
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
pub use takeover::{
    LANDSCAPER, OriginalAtWorkError, OriginalController, PORCH, TakeoverArguments, originals_at_work,
};
pub use webhooks::{Probe, look_for_webhooks};
pub use workers::{WorkError, Workers};
