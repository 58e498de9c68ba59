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
//! `k8s/nats/users.conf` is the example, and `tests/users.rs` of this crate its table. A user who logs in by name and password gets
//! answers in `_INBOX_<user>.>`, other users in `_INBOX.>`. A service makes and reads an ephemeral consumer for its index, each time
//! of another name, so it may use `$JS.API.CONSUMER.CREATE.GROUNDWORK.*` and `$JS.API.CONSUMER.MSG.NEXT.GROUNDWORK.*`, but for the names
//! of queues that are not its own: those are denied one by one, since NATS has no wildcard within a token. Queues whose names no file can
//! know are found by their user alone: [`Bus::private_work`].

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
