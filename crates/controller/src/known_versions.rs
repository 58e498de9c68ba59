//! Which versions of objects the handling of a key has read or written, so that events about them are no news.

use std::collections::HashMap;

use groundwork_bus::ObjectId;
use groundwork_kubernetes::ResourceVersion;

/// The newest version of each object that the handling of one key has read or written.
#[derive(Debug, Clone, Default)]
pub(crate) struct KnownVersions(HashMap<ObjectId, ResourceVersion>);

impl KnownVersions {
    /// Adds a version. One that is no number is not comparable, and left out.
    pub(crate) fn add(&mut self, object: ObjectId, version: &str) {
        if let Some(version) = ResourceVersion::parse(version) {
            self.insert(object, version);
        }
    }

    /// Whether an event about this version says nothing new. What is no number is new.
    pub(crate) fn covers(&self, object: &ObjectId, version: &str) -> bool {
        let version = ResourceVersion::parse(version);
        version.is_some_and(|version| self.0.get(object).is_some_and(|known| *known >= version))
    }

    pub(crate) fn merge(&mut self, other: Self) {
        for (object, version) in other.0 {
            self.insert(object, version);
        }
    }

    fn insert(&mut self, object: ObjectId, version: ResourceVersion) {
        let known = self.0.entry(object).or_insert(version);
        *known = version.max(*known);
    }
}
