//! Events of cluster objects on one stream: on NATS JetStream, or in one process.
//!
//! The stream is a compacted log: it holds at most one message a subject, the latest known state of every object. The
//! watcher writes it; every replica of a service reads it in two ways (design, Events):
//!
//! - [`Bus::index`]: an ordered feed of its own, from which it builds an [`Index`] and stays live.
//! - [`Bus::work`]: deliveries that the replicas of the service share, one queue a kind.
//!
//! # Permissions on NATS
//!
//! The watcher needs to publish to `groundwork.>` and `$JS.API.>`. A service needs to publish to
//! `$JS.API.STREAM.INFO.GROUNDWORK`, `$JS.API.CONSUMER.CREATE.GROUNDWORK.>`, `$JS.API.CONSUMER.INFO.GROUNDWORK.>`,
//! `$JS.API.CONSUMER.DELETE.GROUNDWORK.>`, `$JS.API.CONSUMER.MSG.NEXT.GROUNDWORK.>`, `$JS.API.DIRECT.GET.GROUNDWORK` and
//! `$JS.ACK.GROUNDWORK.>`. Both subscribe to `_INBOX.>`.

mod bus;
mod error;
mod feed;
mod index;
mod local;
mod nats;
mod object;
mod position;
mod record;
mod retry;
mod subject;
mod wire;
mod work;

use std::time::Duration;

pub use bus::Bus;
pub use error::{BusError, PublishError};
pub use feed::{Feed, IndexFeed};
pub use index::Index;
pub use nats::{Login, NatsOptions};
pub use object::{Kind, ObjectId, Owner, Snapshot};
pub use record::{
    Change, ClusterIdentity, Event, Filter, Interest, Published, Record, Stored, StreamState, SyncMarker,
    WorkState,
};
pub use subject::SubjectError;
pub use work::{Delivery, WorkQueue};

/// Name of the stream.
pub const STREAM: &str = "GROUNDWORK";
/// Bytes that the stream may have unless something else is asked for: room for half a million objects.
pub const MAX_BYTES: u64 = 512 * 1024 * 1024;
/// Largest body of an event, in bytes (design, Events).
pub const LARGEST: usize = 64 * 1024;
/// A delivery that is neither acknowledged nor in progress for this long is delivered again.
pub const ACK_WAIT: Duration = Duration::from_secs(30);
