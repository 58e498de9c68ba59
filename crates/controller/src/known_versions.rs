//! Which versions of objects the handling of a key has read or written, so that events about them are no news.

use std::collections::HashMap;

use groundwork_bus::ObjectId;

/// The newest version of each object that the handling of one key has read or written.
///
/// Versions are numbers that grow; the API server says so since 1.35, and it has been true before.
#[derive(Debug, Clone, Default)]
pub(crate) struct KnownVersions(HashMap<ObjectId, u64>);

impl KnownVersions {
    /// Adds a version. One that is no number is not comparable, and left out.
    pub(crate) fn add(&mut self, object: ObjectId, version: &str) {
        let Ok(version) = version.parse::<u64>() else { return };
        let known = self.0.entry(object).or_default();
        *known = version.max(*known);
    }

    /// Whether an event about this version says nothing new. What is no number is new.
    pub(crate) fn covers(&self, object: &ObjectId, version: &str) -> bool {
        match (self.0.get(object), version.parse::<u64>()) {
            (Some(known), Ok(version)) => *known >= version,
            _ => false,
        }
    }

    pub(crate) fn merge(&mut self, other: Self) {
        for (object, version) in other.0 {
            let known = self.0.entry(object).or_default();
            *known = version.max(*known);
        }
    }
}
