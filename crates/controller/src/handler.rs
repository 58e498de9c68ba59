use std::time::Duration;

use async_trait::async_trait;
use groundwork_bus::{Change, Index, ObjectId, Snapshot};
use jiff::Timestamp;

use crate::error::ApiError;
use crate::objects::Objects;

/// What is worked on: an object, and everything that belongs to it.
pub type Key = ObjectId;

/// Decides what to do for a key. Deciding proper belongs into a pure function; a handler reads, asks it, and writes.
#[async_trait]
pub trait Handler: Send + Sync + 'static {
    /// The keys that a change concerns. Also the place to pass over what concerns nobody.
    ///
    /// The index has passed the change when this is asked.
    fn keys(&self, object: &ObjectId, change: &Change, index: &Index) -> Vec<Key>;

    /// Keys to look at although no event will come, and when: work that a process left behind (now), time-outs.
    ///
    /// Asked whenever the index learns of an object, `is_start` while it is filled for the first time. An object
    /// that changes is asked again; the former answer is void.
    fn deadline(&self, object: &ObjectId, snapshot: &Snapshot, is_start: bool) -> Option<(Key, Timestamp)> {
        let _ = (object, snapshot, is_start);
        None
    }

    /// The stream was rebuilt, perhaps for a cluster that was set back: versions that were seen mean nothing any more.
    fn reset(&self) {}

    /// Brings a key to where nothing is left to do but wait for a change.
    ///
    /// # Errors
    ///
    /// It is called again after a pause.
    async fn handle(&self, wake: Wake<'_>) -> Result<Settled, Failed>;
}

/// Why a key is handled.
#[derive(Debug)]
pub struct Wake<'a> {
    pub key: &'a Key,
    /// The API server, in the name of this key.
    pub objects: &'a Objects,
    pub index: &'a Index,
    /// Versions of objects that events told of since the key was handled last.
    pub changed: &'a [(ObjectId, String)],
}

/// The end of a successful attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Settled {
    /// Look again after this time even if nothing changes. Kept in memory only: use it to poll, not to remember.
    pub look_again: Option<Duration>,
    /// There is more to do, and other keys get their turn before it is done.
    pub has_more: bool,
}

impl Settled {
    /// Look again after this time.
    pub fn after(time: Duration) -> Self {
        Self { look_again: Some(time), ..Self::default() }
    }

    /// The end of a part of a long attempt: the key is handled again after the others that wait.
    pub fn has_more() -> Self {
        Self { has_more: true, ..Self::default() }
    }
}

/// The end of an attempt that has to be repeated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failed {
    pub message: String,
    /// Another writer was faster; a short pause is enough.
    pub is_conflict: bool,
}

impl Failed {
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), is_conflict: false }
    }
}

impl From<ApiError> for Failed {
    fn from(error: ApiError) -> Self {
        Self { is_conflict: matches!(error, ApiError::Conflict(_)), message: error.to_string() }
    }
}
