//! States of objects that the handling of a key has read or written, so that events about them
//! count as known.

use std::collections::HashMap;

use groundwork_api::kubernetes::ResourceVersion;
use groundwork_bus::{Change, ObjectId};

/// State in which an event shows an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sight {
    /// The object exists, in this resourceVersion.
    Alive(String),
    /// The object is gone. A watcher that was down during the deletion knows only the last
    /// resourceVersion of the living object. So the deletion counts as later than every living
    /// version up to and including this one.
    Gone(String),
}

impl Sight {
    /// Returns the state that a change shows.
    pub fn of(change: &Change) -> Self {
        let version = change.resource_version().to_owned();
        match change {
            Change::Applied(_) => Self::Alive(version),
            Change::Deleted(_) => Self::Gone(version),
        }
    }

    /// Returns the resourceVersion that the event carries.
    pub fn version(&self) -> &str {
        match self {
            Self::Alive(version) | Self::Gone(version) => version,
        }
    }

    /// Returns the resourceVersion of a living object; `None` if it is gone.
    pub fn alive(&self) -> Option<&str> {
        match self {
            Self::Alive(version) => Some(version),
            Self::Gone(_) => None,
        }
    }

    /// Reports whether this state certainly precedes another state of the same object.
    pub(crate) fn is_before(&self, other: &Self) -> bool {
        let versions = (ResourceVersion::parse(self.version()), ResourceVersion::parse(other.version()));
        let (Some(own), Some(others)) = versions else { return false };
        own < others || own == others && matches!((self, other), (Self::Alive(_), Self::Gone(_)))
    }
}

/// The state of each object on which the handling of one key is based: the first version that it
/// has read, or the last that it has written. A version that is read again later does not count,
/// because earlier decisions did not see it.
#[derive(Debug, Clone, Default)]
pub(crate) struct KnownVersions {
    alive: HashMap<ObjectId, ResourceVersion>,
    /// Deletions that events have shown.
    gone: HashMap<ObjectId, ResourceVersion>,
}

impl KnownVersions {
    /// Adds a version that was read, unless a version of the object is known. A version that is not
    /// a number cannot be compared and is left out.
    pub(crate) fn read(&mut self, object: ObjectId, version: &str) {
        if let Some(version) = ResourceVersion::parse(version) {
            self.alive.entry(object).or_insert(version);
        }
    }

    /// Adds a version that was written.
    pub(crate) fn add(&mut self, object: ObjectId, version: &str) {
        add(&mut self.alive, object, ResourceVersion::parse(version));
    }

    /// Adds the state of an event that an attempt handles.
    pub(crate) fn add_told(&mut self, object: ObjectId, sight: &Sight) {
        let version = ResourceVersion::parse(sight.version());
        match sight {
            Sight::Alive(_) => add(&mut self.alive, object, version),
            Sight::Gone(_) => add(&mut self.gone, object, version),
        }
    }

    /// Reports whether an event about this state is already known. A version that is not a number
    /// is always new. A living version never covers a deletion.
    pub(crate) fn covers(&self, object: &ObjectId, sight: &Sight) -> bool {
        let Some(version) = ResourceVersion::parse(sight.version()) else { return false };
        let has = |known: &HashMap<ObjectId, ResourceVersion>| {
            known.get(object).is_some_and(|known| *known >= version)
        };
        has(&self.gone) || matches!(sight, Sight::Alive(_)) && has(&self.alive)
    }

    pub(crate) fn merge(&mut self, other: Self) {
        for (object, version) in other.alive {
            add(&mut self.alive, object, Some(version));
        }
        for (object, version) in other.gone {
            add(&mut self.gone, object, Some(version));
        }
    }
}

fn add(known: &mut HashMap<ObjectId, ResourceVersion>, object: ObjectId, version: Option<ResourceVersion>) {
    if let Some(version) = version {
        let known = known.entry(object).or_insert(version);
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

    fn alive(version: &str) -> Sight {
        Sight::Alive(version.to_owned())
    }

    fn gone(version: &str) -> Sight {
        Sight::Gone(version.to_owned())
    }

    /// The second read of an attempt may be newer than the state that its decisions saw, so the
    /// event about it is new.
    #[test]
    fn the_first_read_counts() {
        let mut known = KnownVersions::default();
        known.read(object("a"), "5");
        known.read(object("a"), "7");
        assert!(known.covers(&object("a"), &alive("5")));
        assert!(!known.covers(&object("a"), &alive("7")));
        assert!(!known.covers(&object("b"), &alive("1")));
        known.add(object("a"), "8");
        known.read(object("a"), "9");
        assert!(known.covers(&object("a"), &alive("8")));
        assert!(!known.covers(&object("a"), &alive("9")));
        known.read(object("b"), "opaque");
        assert!(!known.covers(&object("b"), &alive("opaque")));
    }

    /// The later of two attempts has seen the newer state.
    #[test]
    fn attempts_add_up() {
        let (mut one, mut other) = (KnownVersions::default(), KnownVersions::default());
        one.read(object("a"), "5");
        other.read(object("a"), "7");
        other.add_told(object("b"), &gone("3"));
        one.merge(other);
        assert!(one.covers(&object("a"), &alive("7")) && one.covers(&object("b"), &gone("3")));
    }

    /// The version of a tombstone may be one that this key has written itself, so a living version
    /// must not cover it.
    #[test]
    fn a_deletion_is_covered_by_no_version_of_the_living() {
        let mut known = KnownVersions::default();
        known.add(object("a"), "9");
        assert!(!known.covers(&object("a"), &gone("9")) && !known.covers(&object("a"), &gone("4")));
        known.add_told(object("b"), &gone("9"));
        assert!(known.covers(&object("b"), &gone("9")), "it was told of");
        assert!(known.covers(&object("b"), &alive("9")), "the living came before");
        assert!(!known.covers(&object("b"), &alive("10")), "another one has its name");
    }

    #[test]
    fn a_deletion_comes_after_the_version_that_it_carries() {
        assert!(alive("9").is_before(&gone("9")) && !gone("9").is_before(&alive("9")));
        assert!(gone("9").is_before(&alive("10")) && !alive("10").is_before(&gone("9")));
        assert!(!alive("x").is_before(&gone("9")) && !alive("9").is_before(&alive("9")));
    }
}
