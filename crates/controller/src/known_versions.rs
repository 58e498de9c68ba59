//! Which versions of objects the handling of a key has read or written, so that events about them are no news.

use std::collections::HashMap;

use groundwork_bus::ObjectId;
use groundwork_kubernetes::ResourceVersion;

/// The version of each object that the handling of one key has decided on: the first that it has read, or the last that it has written.
/// Nothing says that what was read again later was looked at by what was decided before.
#[derive(Debug, Clone, Default)]
pub(crate) struct KnownVersions(HashMap<ObjectId, ResourceVersion>);

impl KnownVersions {
    /// Adds a version that was read, unless one is known. One that is no number is not comparable, and left out.
    pub(crate) fn read(&mut self, object: ObjectId, version: &str) {
        if let Some(version) = ResourceVersion::parse(version) {
            self.0.entry(object).or_insert(version);
        }
    }

    /// Adds a version that was written, or whose event an attempt is about.
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

#[cfg(test)]
mod tests {
    use groundwork_bus::Kind;

    use super::*;

    fn object(name: &str) -> ObjectId {
        ObjectId::new(Kind::new("g", "things"), Some("team"), name)
    }

    /// What an attempt reads a second time may be newer than what it has decided on, so the event about it is news.
    #[test]
    fn the_first_read_counts() {
        let mut known = KnownVersions::default();
        known.read(object("a"), "5");
        known.read(object("a"), "7");
        assert!(known.covers(&object("a"), "5"));
        assert!(!known.covers(&object("a"), "7"));
        assert!(!known.covers(&object("b"), "1"));
        known.add(object("a"), "8");
        known.read(object("a"), "9");
        assert!(known.covers(&object("a"), "8"));
        assert!(!known.covers(&object("a"), "9"));
        known.read(object("b"), "opaque");
        assert!(!known.covers(&object("b"), "opaque"));
    }

    /// Of two attempts the later one has seen more.
    #[test]
    fn attempts_add_up() {
        let (mut one, mut other) = (KnownVersions::default(), KnownVersions::default());
        one.read(object("a"), "5");
        other.read(object("a"), "7");
        one.merge(other);
        assert!(one.covers(&object("a"), "7"));
    }
}
