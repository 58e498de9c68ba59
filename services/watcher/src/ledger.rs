//! Ledger of the objects on the stream, with a few bytes for each object: enough to decide whether
//! a state is newer, and to publish with a fence.

use std::collections::HashMap;
use std::fmt;

use groundwork_api::kubernetes::ResourceVersion;
use groundwork_bus::{Change, Kind, ObjectId};
use uuid::Uuid;

/// A UID in binary form, if it has the format that Kubernetes uses.
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

/// A resourceVersion; `None` if it cannot be compared, and then it is unknown which of two is
/// newer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Version(Option<ResourceVersion>);

impl Version {
    pub(crate) const UNKNOWN: Self = Self(None);

    pub(crate) fn new(text: &str) -> Self {
        Self(ResourceVersion::parse(text))
    }

    /// Reports whether this version can be compared with others.
    pub(crate) fn is_known(self) -> bool {
        self.0.is_some()
    }

    /// Reports whether this version is certainly newer.
    pub(crate) fn is_after(self, other: Self) -> bool {
        other.0.is_some() && self.0 > other.0
    }

    /// Reports whether this version is certainly newer or the same.
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

/// State of an object in its last message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum State {
    /// There is no message, or an unreadable one.
    #[default]
    Absent,
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
            Change::Deleted(_) => Self::Deleted { uid, version },
        }
    }

    pub(crate) fn is_alive(&self) -> bool {
        matches!(self, Self::Alive { .. })
    }

    fn version(&self) -> Version {
        match self {
            Self::Absent => Version::UNKNOWN,
            Self::Alive { version, .. } | Self::Deleted { version, .. } => *version,
        }
    }
}

/// The last message about an object that this replica knows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct LastMessage {
    /// Sequence of the message, which is the fence for the next one; 0 if there is none.
    pub(crate) sequence: u64,
    pub(crate) state: State,
}

/// Namespace and name in one text, separated by a slash, which neither can contain.
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
    last: LastMessage,
    /// Number of the last list that contained the object.
    list: u32,
}

/// Contents of the stream for the objects of one watch.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    entries: HashMap<Key, Entry>,
    alive: u64,
    /// Newest resourceVersion on the stream.
    highest: Version,
    /// Number of the current or last list.
    list: u32,
}

impl Ledger {
    /// Adds an object's record from the stream.
    pub(crate) fn load(&mut self, object: &ObjectId, change: &Change, sequence: u64) {
        let key = Key::new(object.namespace.as_deref(), &object.name);
        self.set_last_message(key, LastMessage { sequence, state: State::of(change) });
    }

    /// Returns the last message about an object.
    pub(crate) fn last_message(&self, key: &Key) -> LastMessage {
        self.entries.get(key).map(|entry| entry.last.clone()).unwrap_or_default()
    }

    pub(crate) fn set_last_message(&mut self, key: Key, last: LastMessage) {
        self.highest = self.highest.max(last.state.version());
        let is_alive = last.state.is_alive();
        let entry = self.entries.entry(key).or_default();
        let was_alive = entry.last.state.is_alive();
        entry.last = last;
        self.alive = self.alive + u64::from(is_alive) - u64::from(was_alive);
    }

    /// Returns the number of objects on the stream that exist.
    pub(crate) fn count_alive(&self) -> u64 {
        self.alive
    }

    /// Returns the newest resourceVersion on the stream, including that of forgotten objects.
    pub(crate) fn highest_version(&self) -> Version {
        self.highest
    }

    /// Begins a list. Objects that are not [marked](Self::mark_listed) until its end are
    /// [unlisted](Self::unlisted).
    pub(crate) fn begin_list(&mut self) {
        self.list = self.list.wrapping_add(1);
    }

    /// Notes that the current list contains this object.
    pub(crate) fn mark_listed(&mut self, key: &Key) {
        let list = self.list;
        match self.entries.get_mut(key) {
            Some(entry) => entry.list = list,
            None => {
                self.entries.insert(key.clone(), Entry { last: LastMessage::default(), list });
            }
        }
    }

    /// Reports whether a complete list proves that the cluster was restored: the resourceVersion of
    /// the list is not older than the stream, but the list shows an older state of an object, or an
    /// object that was deleted.
    pub(crate) fn proves_restore(&self, key: &Key, uid: &str, version: &str, list: Version) -> bool {
        let Some(entry) = self.entries.get(key) else { return false };
        match &entry.last.state {
            State::Absent => false,
            State::Alive { uid: known, version: stored } => {
                list.covers(*stored) && stored.is_after(Version::new(version)) && *known == Uid::new(uid)
            }
            State::Deleted { uid: known, version: stored } => list.covers(*stored) && *known == Uid::new(uid),
        }
    }

    /// Returns the objects that the last list did not contain, including those that the stream
    /// shows as deleted.
    pub(crate) fn unlisted(&self) -> Vec<Key> {
        let unlisted = |(key, entry): (&Key, &Entry)| (entry.list != self.list).then(|| key.clone());
        self.entries.iter().filter_map(unlisted).collect()
    }

    /// Returns all objects on the stream that exist.
    pub(crate) fn alive(&self) -> impl Iterator<Item = &Key> {
        self.entries.iter().filter(|(_, entry)| entry.last.state.is_alive()).map(|(key, _)| key)
    }

    /// Forgets objects that do not exist, except those that are needed. If one is created again,
    /// its first publication fails for lack of a fence, and the fence is then read from the stream.
    pub(crate) fn forget_deleted(&mut self, is_needed: impl Fn(&Key) -> bool) {
        self.entries.retain(|key, entry| entry.last.state.is_alive() || is_needed(key));
        self.entries.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use groundwork_bus::Snapshot;

    use super::*;

    fn snapshot(uid: &str, version: &str) -> Snapshot {
        let (uid, resource_version) = (uid.to_owned(), version.to_owned());
        Snapshot { uid, resource_version, ..Snapshot::default() }
    }

    fn applied(uid: &str, version: &str) -> Change {
        Change::Applied(snapshot(uid, version))
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
    fn what_a_list_does_not_have_is_unlisted() {
        let kind = Kind::new("", "secrets");
        let mut ledger = Ledger::default();
        for (name, version) in [("a", "5"), ("b", "7")] {
            ledger.load(&ObjectId::new(kind.clone(), Some("n"), name), &applied(name, version), 1);
        }
        ledger.begin_list();
        ledger.mark_listed(&Key::new(Some("n"), "a"));
        ledger.mark_listed(&Key::new(Some("n"), "c"));
        let missing = Key::new(Some("n"), "b");
        assert_eq!(ledger.unlisted(), std::slice::from_ref(&missing));
        assert_eq!((ledger.count_alive(), ledger.highest_version()), (2, Version::new("7")));
        let deleted = Change::Deleted(snapshot("b", "7"));
        ledger.set_last_message(missing.clone(), LastMessage { sequence: 3, state: State::of(&deleted) });
        assert_eq!((ledger.count_alive(), ledger.last_message(&missing).sequence), (1, 3));
        ledger.forget_deleted(|_| false);
        assert_eq!(
            (ledger.last_message(&missing).sequence, ledger.highest_version()),
            (0, Version::new("7"))
        );
        assert_eq!(ledger.alive().count(), 1);
    }

    #[test]
    fn a_list_can_prove_that_the_cluster_was_set_back() {
        let (kind, key) = (Kind::new("", "secrets"), Key::new(Some("n"), "a"));
        let mut ledger = Ledger::default();
        let list = Version::new("20");
        assert!(!ledger.proves_restore(&key, "u", "5", list));
        for (version, is_proof) in [("5", false), ("6", true), ("20", true), ("21", false), ("x", false)] {
            ledger.load(&key.object(&kind), &applied("u", version), 1);
            assert_eq!(ledger.proves_restore(&key, "u", "5", list), is_proof, "{version}");
            assert!(!ledger.proves_restore(&key, "v", "5", list), "another object");
        }
        let deleted = Change::Deleted(snapshot("u", "4"));
        ledger.load(&key.object(&kind), &deleted, 2);
        assert!(ledger.proves_restore(&key, "u", "5", list) && !ledger.proves_restore(&key, "v", "5", list));
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
