//! Records of the stream, and the parts of the stream that can be read.

use groundwork_api::view::Snapshot;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::object::{Kind, ObjectId};

/// Change of an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// The object exists in this state.
    Applied(Snapshot),
    /// The object is deleted, and this was its last known state; the resourceVersion is the last
    /// that was seen. The message stays as a tombstone until it is pruned.
    Deleted(Snapshot),
}

impl Change {
    /// Returns the current state of the object, or the last one before its deletion.
    pub fn snapshot(&self) -> &Snapshot {
        match self {
            Self::Applied(snapshot) | Self::Deleted(snapshot) => snapshot,
        }
    }

    /// Returns the UID of the object.
    pub fn uid(&self) -> &str {
        &self.snapshot().uid
    }

    /// Returns the resourceVersion of the object; for a deleted object the last that was seen.
    pub fn resource_version(&self) -> &str {
        &self.snapshot().resource_version
    }
}

/// A change of one object.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    pub object: ObjectId,
    pub change: Change,
    /// W3C `traceparent` of the trace that the event belongs to. A value that is not printable
    /// ASCII is not sent.
    pub trace: Option<String>,
    /// Set when the event is published again on purpose, so that the server does not drop it as a
    /// duplicate.
    pub replay: Option<String>,
    /// Time at which the publisher saw the change.
    pub time: Timestamp,
}

/// Marker that all objects of a kind are on the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncMarker {
    pub kind: Kind,
    /// Namespace that was listed; `None` for all.
    pub namespace: Option<String>,
    /// resourceVersion of the complete list.
    pub resource_version: String,
    /// Number of objects in the list.
    pub count: u64,
}

/// Identity of the cluster that the stream describes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterIdentity {
    /// UID of the namespace `kube-system`.
    pub uid: String,
    /// Unique mark of the leader that filled the stream; empty on streams of older versions.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub mark: String,
}

/// Request of a service or user that the watcher watch a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interest {
    pub kind: Kind,
    /// Namespace to watch; `None` for all.
    pub namespace: Option<String>,
    /// Name of the requester.
    pub holder: String,
    /// Time at which the request ends unless it is renewed.
    pub expires: Timestamp,
}

/// One message of the stream.
#[expect(clippy::large_enum_variant, reason = "nearly all records are objects")]
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// A change of an object.
    Object(Event),
    /// All objects of a kind are on the stream.
    Synced(SyncMarker),
    /// Identity of the cluster.
    Cluster(ClusterIdentity),
    /// Request that a kind be watched.
    Interest(Interest),
}

/// A record as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    /// Sequence of the record on the stream, which is the fence for the next record of the same
    /// subject.
    pub sequence: u64,
    pub record: Record,
    /// Time at which the stream stored the record.
    pub time: Timestamp,
}

/// Answer to a publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// Sequence at which the record is stored; for a duplicate, the sequence of its first
    /// publication.
    pub sequence: u64,
    /// True if the server took a message with this id within the last two minutes, so this one was
    /// not stored. The subject may have a newer message meanwhile: count duplicates, and read the
    /// last message.
    pub duplicate: bool,
}

/// State of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamState {
    /// True if [`Bus::ensure_stream`](crate::Bus::ensure_stream) or
    /// [`Bus::rebuild`](crate::Bus::rebuild) has just created it.
    pub created: bool,
    /// Number of messages, one for each subject.
    pub messages: u64,
    /// Size of the messages in bytes, as the server counts it.
    pub bytes: u64,
    /// Sequence of the oldest message.
    pub first_sequence: u64,
    /// Sequence of the newest message, even if that message is already removed.
    pub last_sequence: u64,
    /// Creation time of the stream. It identifies the incarnation: a stream that was lost and
    /// created again has another time.
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

/// Part of the stream that a caller reads.
#[derive(Clone, Copy, Debug)]
pub enum Filter<'a> {
    /// The whole stream.
    Everything,
    /// Objects and sync markers of these kinds, and the identity of the cluster.
    Kinds(&'a [Kind]),
    /// Requests for kinds to be watched.
    Interests,
}
