//! Events of cluster objects on one stream: on NATS JetStream, or in one process.
//!
//! The stream is a compacted log: it holds at most one message a subject, the latest known state of every object. The
//! watcher writes it; every replica of a service reads it in two ways:
//!
//! - [`Bus::index`]: an ordered feed of its own, from which it builds an [`Index`] and stays live.
//! - [`Bus::work`]: deliveries that the replicas of the service share, one queue a kind.
//!
//! Beside it lies the journal, a bounded log of what services have decided and why: [`Entry`].
//!
//! # Permissions on NATS
//!
//! [`users_conf`] writes them, `k8s/nats/users.conf` holds them, and `tests/users.rs` of this crate asks a server about each. A user who
//! logs in by name and password gets answers in `_INBOX_<user>.>`, other users in `_INBOX.>`. A user of the table makes consumers of the
//! names that the table gives it ([`USERS`]). Another user, or one with a key or credentials, makes them with names that were never used; it needs
//! `$JS.API.CONSUMER.CREATE.GROUNDWORK.>`, `$JS.API.CONSUMER.MSG.NEXT.GROUNDWORK.*` and, so that they go at once,
//! `$JS.API.CONSUMER.DELETE.GROUNDWORK.*`, beside the queues of its service.

mod backoff;
mod bus;
mod delivery;
mod epochs;
mod error;
mod feed;
mod index;
mod journal;
mod local;
mod nats;
mod object;
mod record;
mod retry;
mod rights;
mod step;
mod subject;
mod wire;
mod work;

use std::time::Duration;

pub use backoff::Backoff;
pub use bus::Bus;
pub use delivery::{Delivery, Receipt};
pub use error::{BusError, PublishError};
pub use feed::{Feed, IndexFeed};
pub use groundwork_api::view::{Owner, Snapshot};
pub use index::{Index, IndexPart};
pub use journal::{About, Entry, JournalLimits, JournalPart, What};
pub use nats::{Login, NatsOptions};
pub use object::{Kind, ObjectId};
pub use record::{
    Change, ClusterIdentity, Event, Filter, Interest, Published, Record, Stored, StreamState, SyncMarker,
    WorkState,
};
pub use rights::{USERS, User, users_conf};
pub use subject::SubjectError;
pub use work::WorkQueue;

/// Name of the stream.
pub const STREAM: &str = "GROUNDWORK";
/// Name of the stream that the journal is.
pub const JOURNAL: &str = "GROUNDWORK_JOURNAL";
/// Bytes that the stream may have unless something else is asked for: room for half a million objects.
pub const MAX_BYTES: u64 = 512 * 1024 * 1024;
/// Largest body of an event, in bytes.
pub const MAX_EVENT_BYTES: usize = 64 * 1024;
/// A delivery that is neither acknowledged nor in progress for this long is delivered again.
pub const ACK_WAIT: Duration = Duration::from_secs(30);
