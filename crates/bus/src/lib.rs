//! Events of cluster objects on one stream: on NATS JetStream, or in one process.
//!
//! The stream is a compacted log: it keeps at most one message for each subject, the latest known
//! state of every object. The watcher writes it; every replica of a service reads it in two ways:
//!
//! - [`Bus::index`]: an ordered feed of its own, from which it builds an [`Index`] and keeps it
//!   current.
//! - [`Bus::work`]: deliveries that the replicas of the service share, with one queue for each
//!   kind.
//!
//! Beside the stream lies the journal, a bounded log of what services decided and why: [`Entry`].
//!
//! # Permissions on NATS
//!
//! [`users_conf`] writes the permissions, `k8s/nats/users.conf` contains them, and `tests/users.rs`
//! of this crate checks each of them against a server. A user who logs in by name and password gets
//! answers in `_INBOX_<user>.>`, other users in `_INBOX.>`. A user of the table creates consumers
//! only under the names that the table ([`USERS`]) gives it. Another user, or one with a key or
//! credentials, creates consumers under unique names. Beside the queues of its service, such a user
//! needs `$JS.API.CONSUMER.CREATE.GROUNDWORK.>`, `$JS.API.CONSUMER.MSG.NEXT.GROUNDWORK.*` and, so
//! that its consumers are deleted at once, `$JS.API.CONSUMER.DELETE.GROUNDWORK.*`.

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
/// Name of the journal's stream.
pub const JOURNAL: &str = "GROUNDWORK_JOURNAL";
/// Default size limit of the stream in bytes: room for half a million objects.
pub const MAX_BYTES: u64 = 512 * 1024 * 1024;
/// Largest body of an event, in bytes.
pub const MAX_EVENT_BYTES: usize = 64 * 1024;
/// Time after which the bus delivers an event again that is neither acknowledged nor in progress.
pub const ACK_WAIT: Duration = Duration::from_secs(30);
