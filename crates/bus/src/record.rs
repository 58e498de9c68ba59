//! What the stream holds.

use groundwork_api::view::Snapshot;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::object::{Kind, ObjectId};

/// What happened to an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// It exists, and looks like this.
    Applied(Snapshot),
    /// It is gone, and looked like this; the resourceVersion is the last that was seen. Its message stays as a tombstone until it is
    /// pruned.
    Deleted(Snapshot),
}

impl Change {
    /// The object as it is, or was.
    pub fn snapshot(&self) -> &Snapshot {
        match self {
            Self::Applied(snapshot) | Self::Deleted(snapshot) => snapshot,
        }
    }

    /// UID of the object.
    pub fn uid(&self) -> &str {
        &self.snapshot().uid
    }

    /// resourceVersion of the object; of a deleted one the last that was seen.
    pub fn resource_version(&self) -> &str {
        &self.snapshot().resource_version
    }
}

/// A change of one object.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    pub object: ObjectId,
    /// What happened to it.
    pub change: Change,
    /// W3C `traceparent` of the trace that the event belongs to. One that is not printable ASCII is not sent.
    pub trace: Option<String>,
    /// Set when the event is published again on purpose, so that it is no duplicate of its first publication.
    pub replay: Option<String>,
    /// When the publisher saw the change.
    pub time: Timestamp,
}

/// Says that the objects of a kind are all on the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncMarker {
    pub kind: Kind,
    /// The namespace that was listed; none for all.
    pub namespace: Option<String>,
    /// resourceVersion of the complete list.
    pub resource_version: String,
    /// How many objects the list held.
    pub count: u64,
}

/// Which cluster the stream is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterIdentity {
    /// UID of the namespace `kube-system`.
    pub uid: String,
    /// The mark of whoever filled the stream, which no other stream has. Streams of older versions have none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub mark: String,
}

/// Somebody's wish that a kind be watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interest {
    pub kind: Kind,
    /// The namespace; none for all.
    pub namespace: Option<String>,
    /// Who wishes it.
    pub holder: String,
    /// When the wish ends unless it is renewed.
    pub expires: Timestamp,
}

/// One message of the stream.
#[expect(clippy::large_enum_variant, reason = "nearly all records are objects")]
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// A change of an object.
    Object(Event),
    /// The objects of a kind are complete.
    Synced(SyncMarker),
    /// Which cluster this is.
    Cluster(ClusterIdentity),
    /// A kind that somebody wants watched.
    Interest(Interest),
}

/// A record as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    /// Its sequence on the stream; the fence for the next record of the same subject.
    pub sequence: u64,
    pub record: Record,
    /// When the stream took it.
    pub time: Timestamp,
}

/// Answer to a publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// Where it is stored; of a duplicate, where its first publication was stored.
    pub sequence: u64,
    /// True if a message with this id was taken within the last two minutes, and this one was not stored. The
    /// subject may hold something else meanwhile: count it, and look.
    pub duplicate: bool,
}

/// State of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamState {
    /// True if [`Bus::ensure_stream`](crate::Bus::ensure_stream) or [`Bus::rebuild`](crate::Bus::rebuild) has just
    /// created it.
    pub created: bool,
    /// Messages on it: one a subject.
    pub messages: u64,
    /// Their size in bytes, as the server counts it.
    pub bytes: u64,
    /// Sequence of the oldest message.
    pub first_sequence: u64,
    /// Sequence of the newest message, be it still there or not.
    pub last_sequence: u64,
    /// When it was created. A stream that was lost and made again has another time: it identifies the incarnation.
    pub created_at: Timestamp,
}

/// State of a work queue, for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkState {
    /// Messages that wait for their first delivery.
    pub pending: u64,
    /// Messages that were delivered and not acknowledged: in flight, or delayed.
    pub unacknowledged: u64,
}

/// Which part of the stream is read.
#[derive(Clone, Copy, Debug)]
pub enum Filter<'a> {
    /// All of it.
    Everything,
    /// Objects and sync markers of these kinds, and the identity of the cluster.
    Kinds(&'a [Kind]),
    /// Who wants which kinds to be watched.
    Interests,
}
