//! What the stream holds of each object, in a few bytes.

use std::collections::HashMap;
use std::fmt;

use groundwork_bus::{Change, Kind, ObjectId};
use groundwork_kubernetes::ResourceVersion;
use uuid::Uuid;

/// A UID without its text, as long as it is written the way Kubernetes writes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Uid {
    Uuid(Uuid),
    Text(Box<str>),
}

impl Uid {
    pub(crate) fn new(text: &str) -> Self {
        match Uuid::try_parse(text) {
            Ok(uuid) if uuid.hyphenated().encode_lower(&mut Uuid::encode_buffer()) == text => {
                Self::Uuid(uuid)
            }
            _ => Self::Text(text.into()),
        }
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uuid(uuid) => uuid.hyphenated().fmt(f),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// A resourceVersion, or none that can be compared: then nothing is known about which of two is newer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Version(Option<ResourceVersion>);

impl Version {
    pub(crate) const UNKNOWN: Self = Self(None);

    pub(crate) fn new(text: &str) -> Self {
        Self(ResourceVersion::parse(text))
    }

    /// Whether it is surely newer.
    pub(crate) fn is_after(self, other: Self) -> bool {
        other.0.is_some() && self.0 > other.0
    }

    /// Whether it is surely newer or the same.
    pub(crate) fn covers(self, other: Self) -> bool {
        other.0.is_some() && self.0 >= other.0
    }

    pub(crate) fn max(self, other: Self) -> Self {
        Self(self.0.max(other.0))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(version) => version.fmt(f),
            None => f.write_str("0"),
        }
    }
}

/// What the last message of a subject says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum State {
    #[default]
    Nothing,
    Alive {
        uid: Uid,
        version: Version,
    },
    Deleted {
        uid: Uid,
        version: Version,
    },
}

impl State {
    pub(crate) fn of(change: &Change) -> Self {
        let (uid, version) = (Uid::new(change.uid()), Version::new(change.resource_version()));
        match change {
            Change::Applied(_) => Self::Alive { uid, version },
            Change::Deleted { .. } => Self::Deleted { uid, version },
        }
    }

    pub(crate) fn is_alive(&self) -> bool {
        matches!(self, Self::Alive { .. })
    }

    fn version(&self) -> Version {
        match self {
            Self::Nothing => Version::UNKNOWN,
            Self::Alive { version, .. } | Self::Deleted { version, .. } => *version,
        }
    }
}

/// The last message of a subject, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Known {
    /// Its sequence, the fence of the next one; 0 for none.
    pub(crate) sequence: u64,
    pub(crate) state: State,
}

/// Namespace and name in one text; a slash is in neither.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key(Box<str>);

impl Key {
    pub(crate) fn new(namespace: Option<&str>, name: &str) -> Self {
        Self(format!("{}/{name}", namespace.unwrap_or_default()).into())
    }

    fn parts(&self) -> (&str, &str) {
        self.0.split_once('/').unwrap_or(("", &self.0))
    }

    pub(crate) fn namespace(&self) -> Option<&str> {
        Some(self.parts().0).filter(|namespace| !namespace.is_empty())
    }

    pub(crate) fn name(&self) -> &str {
        self.parts().1
    }

    pub(crate) fn object(&self, kind: &Kind) -> ObjectId {
        ObjectId::new(kind.clone(), self.namespace(), self.name())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.trim_start_matches('/'))
    }
}

#[derive(Debug, Default)]
struct Entry {
    known: Known,
    /// The list that had it last.
    list: u32,
}

/// What the stream holds of the objects of one watch.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    entries: HashMap<Key, Entry>,
    alive: u64,
    /// The newest resourceVersion that was seen on the stream.
    highest: Version,
    list: u32,
}

impl Ledger {
    /// Takes what the stream holds of an object.
    pub(crate) fn load(&mut self, object: &ObjectId, change: &Change, sequence: u64) {
        let key = Key::new(object.namespace.as_deref(), &object.name);
        self.set(key, Known { sequence, state: State::of(change) });
    }

    pub(crate) fn known(&self, key: &Key) -> Known {
        self.entries.get(key).map(|entry| entry.known.clone()).unwrap_or_default()
    }

    pub(crate) fn set(&mut self, key: Key, known: Known) {
        self.highest = self.highest.max(known.state.version());
        let is_alive = known.state.is_alive();
        let entry = self.entries.entry(key).or_default();
        let was_alive = entry.known.state.is_alive();
        entry.known = known;
        self.alive = self.alive + u64::from(is_alive) - u64::from(was_alive);
    }

    /// Number of objects that are on the stream and exist.
    pub(crate) fn alive(&self) -> u64 {
        self.alive
    }

    pub(crate) fn highest(&self) -> Version {
        self.highest
    }

    /// A list begins: objects that it does not [have](Self::listed) are [missing](Self::missing) afterwards.
    pub(crate) fn begin_list(&mut self) {
        self.list = self.list.wrapping_add(1);
    }

    pub(crate) fn listed(&mut self, key: &Key) {
        let list = self.list;
        match self.entries.get_mut(key) {
            Some(entry) => entry.list = list,
            None => {
                self.entries.insert(key.clone(), Entry { known: Known::default(), list });
            }
        }
    }

    /// Whether a complete list proves that the cluster was set back: at a resourceVersion that is not older than what the stream holds, it
    /// shows an older state of an object, or one that was deleted.
    pub(crate) fn contradicts(&self, key: &Key, uid: &str, version: &str, list: Version) -> bool {
        let Some(entry) = self.entries.get(key) else { return false };
        match &entry.known.state {
            State::Nothing => false,
            State::Alive { uid: known, version: stored } => {
                list.covers(*stored) && stored.is_after(Version::new(version)) && *known == Uid::new(uid)
            }
            State::Deleted { uid: known, version: stored } => list.covers(*stored) && *known == Uid::new(uid),
        }
    }

    /// What the list did not have, whatever its state.
    pub(crate) fn missing(&self) -> Vec<Key> {
        let missing = |(key, entry): (&Key, &Entry)| (entry.list != self.list).then(|| key.clone());
        self.entries.iter().filter_map(missing).collect()
    }

    /// All objects that are on the stream and exist.
    pub(crate) fn living(&self) -> impl Iterator<Item = &Key> {
        self.entries.iter().filter(|(_, entry)| entry.known.state.is_alive()).map(|(key, _)| key)
    }

    /// Forgets objects that do not exist, except those that are needed. Should one come again, its fence is read from the stream.
    pub(crate) fn forget_dead(&mut self, is_needed: impl Fn(&Key) -> bool) {
        self.entries.retain(|key, entry| entry.known.state.is_alive() || is_needed(key));
        self.entries.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use groundwork_bus::Snapshot;

    use super::*;

    fn applied(uid: &str, version: &str) -> Change {
        let (uid, resource_version) = (uid.to_owned(), version.to_owned());
        Change::Applied(Snapshot { uid, resource_version, ..Snapshot::default() })
    }

    #[test]
    fn uids_come_back_as_they_were() {
        for text in
            ["0d5b4d8a-1c7c-4f5e-9f0a-2b3c4d5e6f70", "0D5B4D8A-1C7C-4F5E-9F0A-2B3C4D5E6F70", "", "odd"]
        {
            assert_eq!(Uid::new(text).to_string(), text);
        }
        assert!(matches!(Uid::new("0d5b4d8a-1c7c-4f5e-9f0a-2b3c4d5e6f70"), Uid::Uuid(_)));
    }

    #[test]
    fn nothing_is_known_of_a_version_that_is_no_number() {
        let (old, new, odd) = (Version::new("9"), Version::new("10"), Version::new("a1"));
        assert!(new.is_after(old) && !old.is_after(new) && new.covers(new) && !new.is_after(new));
        assert!(!new.covers(odd) && !odd.covers(new) && !odd.covers(odd) && !new.is_after(odd));
    }

    #[test]
    fn what_a_list_does_not_have_is_missing() {
        let kind = Kind::new("", "secrets");
        let mut ledger = Ledger::default();
        for (name, version) in [("a", "5"), ("b", "7")] {
            ledger.load(&ObjectId::new(kind.clone(), Some("n"), name), &applied(name, version), 1);
        }
        ledger.begin_list();
        ledger.listed(&Key::new(Some("n"), "a"));
        ledger.listed(&Key::new(Some("n"), "c"));
        let missing = Key::new(Some("n"), "b");
        assert_eq!(ledger.missing(), std::slice::from_ref(&missing));
        assert_eq!((ledger.alive(), ledger.highest()), (2, Version::new("7")));
        let deleted = Change::Deleted { uid: "b".into(), resource_version: "7".into() };
        ledger.set(missing.clone(), Known { sequence: 3, state: State::of(&deleted) });
        assert_eq!((ledger.alive(), ledger.known(&missing).sequence), (1, 3));
        ledger.forget_dead(|_| false);
        assert_eq!((ledger.known(&missing).sequence, ledger.highest()), (0, Version::new("7")));
        assert_eq!(ledger.living().count(), 1);
    }

    #[test]
    fn a_list_can_prove_that_the_cluster_was_set_back() {
        let (kind, key) = (Kind::new("", "secrets"), Key::new(Some("n"), "a"));
        let mut ledger = Ledger::default();
        let list = Version::new("20");
        assert!(!ledger.contradicts(&key, "u", "5", list));
        for (version, is_proof) in [("5", false), ("6", true), ("20", true), ("21", false), ("x", false)] {
            ledger.load(&key.object(&kind), &applied("u", version), 1);
            assert_eq!(ledger.contradicts(&key, "u", "5", list), is_proof, "{version}");
            assert!(!ledger.contradicts(&key, "v", "5", list), "another object");
        }
        let deleted = Change::Deleted { uid: "u".into(), resource_version: "4".into() };
        ledger.load(&key.object(&kind), &deleted, 2);
        assert!(ledger.contradicts(&key, "u", "5", list) && !ledger.contradicts(&key, "v", "5", list));
    }

    #[test]
    fn keys_name_their_object() {
        let kind = Kind::new("", "namespaces");
        for object in [ObjectId::new(kind.clone(), None, "a"), ObjectId::new(kind.clone(), Some("n"), "a.b")]
        {
            assert_eq!(Key::new(object.namespace.as_deref(), &object.name).object(&kind), object);
        }
        assert_eq!(Key::new(None, "a").to_string(), "a");
        assert_eq!(Key::new(Some("n"), "a").to_string(), "n/a");
    }

    #[test]
    fn an_entry_is_small() {
        assert!(size_of::<Entry>() <= 56, "{}", size_of::<Entry>());
    }
}
