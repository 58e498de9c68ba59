//! Index of the objects that a replica knows.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock};

use groundwork_api::kubernetes::ResourceVersion;
use groundwork_api::view::Snapshot;
use tokio::sync::watch;

use crate::feed::Feed;
use crate::object::{Kind, ObjectId};
use crate::record::{Change, Record};

/// The latest known state of every object of some kinds. Cheap to clone; clones are the same index.
/// Each part has a feed of its own, so a kind whose feed lags does not delay the others.
///
/// The index names candidates; the API server decides. After [`Feed::Reset`] a part is empty and
/// not synced until the new content and its sync markers have arrived, because content of the
/// former stream could name objects that are gone without a tombstone. Callers must check
/// [`Index::synced`] before they delete an object or conclude anything because an object is absent.
#[derive(Clone, Debug)]
pub struct Index {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    content: RwLock<Content>,
    /// Notifies waiters that a part has applied a step.
    progress: watch::Sender<()>,
    /// Namespaces that the watcher lists; empty for the whole cluster.
    namespaces: Vec<String>,
}

/// Some kinds of an index, filled by one feed. Dropping the part removes its objects from the
/// index.
#[derive(Debug)]
pub struct IndexPart {
    index: Index,
    kinds: Vec<Kind>,
    /// Distinguishes this part from an earlier part of the same kinds.
    number: u64,
    position: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Content {
    /// Number of the part that fills a kind.
    parts: HashMap<Kind, u64>,
    last_part: u64,
    kinds: HashMap<Kind, Objects>,
    synced: HashSet<(Kind, Option<String>)>,
    owned: HashMap<String, HashSet<ObjectId>>,
    cluster: Option<String>,
}

/// Objects by namespace, then by name.
type Objects = BTreeMap<Option<String>, BTreeMap<String, Packed>>;

/// A snapshot as JSON. A `Snapshot` with its maps of a few entries would take several times the
/// memory, for every object of a cluster.
#[derive(Debug)]
struct Packed {
    /// Copy of the resourceVersion, because callers read it much more often than the rest.
    version: Option<ResourceVersion>,
    json: Box<[u8]>,
}

impl Packed {
    fn new(snapshot: &Snapshot) -> Self {
        let version = ResourceVersion::parse(&snapshot.resource_version);
        Self { version, json: serde_json::to_vec(snapshot).unwrap_or_default().into_boxed_slice() }
    }

    fn version(&self) -> String {
        self.version.map_or_else(|| self.unpack().resource_version, |version| version.to_string())
    }

    /// Decodes the snapshot. Decoding cannot fail, since [`Packed::new`] encoded it; the fallback
    /// is never used.
    fn unpack(&self) -> Snapshot {
        serde_json::from_slice(&self.json).unwrap_or_default()
    }
}

impl Default for Index {
    fn default() -> Self {
        Self::new()
    }
}

impl Index {
    /// Creates an empty index of a whole cluster.
    pub fn new() -> Self {
        Self::in_namespaces(Vec::new())
    }

    /// Creates an empty index for a watcher that lists some namespaces only. A namespaced kind is
    /// synced when the markers of all these namespaces have arrived.
    pub fn in_namespaces(namespaces: Vec<String>) -> Self {
        let inner = Inner { content: RwLock::default(), progress: watch::Sender::new(()), namespaces };
        Self { inner: Arc::new(inner) }
    }

    /// Assigns these kinds to a new feed, and forgets their known objects.
    pub fn part(&self, kinds: Vec<Kind>) -> IndexPart {
        let mut content = self.write();
        content.last_part += 1;
        let number = content.last_part;
        content.forget(&kinds);
        content.parts.extend(kinds.iter().map(|kind| (kind.clone(), number)));
        drop(content);
        IndexPart { index: self.clone(), kinds, number, position: watch::Sender::new(0) }
    }

    /// Returns the last seen state of the object; `None` if it is unknown or deleted.
    pub fn get(&self, object: &ObjectId) -> Option<Snapshot> {
        let content = self.read();
        content.kinds.get(&object.kind)?.get(&object.namespace)?.get(&object.name).map(Packed::unpack)
    }

    /// Returns the last seen resourceVersion of an object.
    pub fn version(&self, object: &ObjectId) -> Option<String> {
        let content = self.read();
        content.kinds.get(&object.kind)?.get(&object.namespace)?.get(&object.name).map(Packed::version)
    }

    /// Returns all objects of a kind, or those in one namespace, sorted by namespace and name.
    pub fn of_kind(&self, kind: &Kind, namespace: Option<&str>) -> Vec<(ObjectId, Snapshot)> {
        let content = self.read();
        let Some((kind, objects)) = content.kinds.get_key_value(kind) else { return Vec::new() };
        let found = |namespace: &Option<String>, names: &BTreeMap<String, Packed>| {
            let id = |name: &String| ObjectId {
                kind: kind.clone(),
                namespace: namespace.clone(),
                name: name.clone(),
            };
            names.iter().map(|(name, snapshot)| (id(name), snapshot.unpack())).collect::<Vec<_>>()
        };
        match namespace {
            Some(namespace) => {
                let namespace = Some(namespace.to_owned());
                objects.get(&namespace).map(|names| found(&namespace, names)).unwrap_or_default()
            }
            None => objects.iter().flat_map(|(namespace, names)| found(namespace, names)).collect(),
        }
    }

    /// Returns all objects that name this UID as an owner, sorted.
    pub fn owned_by(&self, uid: &str) -> Vec<ObjectId> {
        let mut owned: Vec<_> = self.read().owned.get(uid).into_iter().flatten().cloned().collect();
        owned.sort();
        owned
    }

    /// Returns the UID of the cluster that the stream describes, once it is known.
    pub fn cluster(&self) -> Option<String> {
        self.read().cluster.clone()
    }

    /// Returns the number of known objects.
    pub fn len(&self) -> usize {
        self.read().kinds.values().flat_map(BTreeMap::values).map(BTreeMap::len).sum()
    }

    /// Reports whether the index knows no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Waits until the index knows an object in this version or a later one. Returns at once for a
    /// version that cannot be compared.
    pub async fn knows(&self, object: &ObjectId, version: &str) {
        let Some(wanted) = ResourceVersion::parse(version) else { return };
        let known = || self.version(object).and_then(|known| ResourceVersion::parse(&known));
        let has_come = |(): &()| known().is_some_and(|known| known >= wanted);
        // `self` keeps the sender alive, so `wait_for` never fails.
        let _ = self.inner.progress.subscribe().wait_for(has_come).await;
    }

    /// Reports whether all objects of these kinds are known: their sync markers have arrived, after
    /// all records that were on the stream.
    pub fn synced(&self, kinds: &[Kind]) -> bool {
        let content = self.read();
        kinds.iter().all(|kind| {
            let has =
                |namespace: Option<&String>| content.synced.contains(&(kind.clone(), namespace.cloned()));
            let namespaces = &self.inner.namespaces;
            has(None) || !namespaces.is_empty() && namespaces.iter().all(|namespace| has(Some(namespace)))
        })
    }

    /// Waits until [`Index::synced`] is true for these kinds.
    pub async fn until_synced(&self, kinds: &[Kind]) {
        let _ = self.inner.progress.subscribe().wait_for(|()| self.synced(kinds)).await;
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Content> {
        self.inner.content.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, Content> {
        self.inner.content.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl IndexPart {
    /// Applies one step of the part's feed.
    pub fn apply(&self, feed: &Feed) {
        self.apply_if(feed, |_, _| true);
    }

    /// Applies one step of the feed, and keeps only objects whose latest state `is_held` accepts.
    pub fn apply_if(&self, feed: &Feed, is_held: impl Fn(&ObjectId, &Snapshot) -> bool) {
        let position = {
            let mut content = self.index.write();
            match feed {
                // A newer part fills these kinds by now, so this step is obsolete.
                _ if !self.is_current(&content) => return,
                Feed::Reset => {
                    content.forget(&self.kinds);
                    content.cluster = None;
                    0
                }
                Feed::Record { position, record } => {
                    content.apply(record, is_held);
                    *position
                }
            }
        };
        // Markers are held back, so positions may arrive out of order.
        self.position.send_modify(|progress| *progress = position.max(*progress));
        self.index.inner.progress.send_modify(|()| {});
    }

    /// Returns the highest position that this part has applied; see [`Feed`].
    pub fn position(&self) -> u64 {
        *self.position.borrow()
    }

    /// Waits until this part has applied this position or a later one.
    pub async fn passed(&self, position: u64) {
        // `self` keeps the sender alive, so `wait_for` never fails.
        let _ = self.position.subscribe().wait_for(|progress| *progress >= position).await;
    }

    /// Reports whether all objects of this part's kinds are known.
    pub fn synced(&self) -> bool {
        self.index.synced(&self.kinds)
    }

    /// Waits until [`IndexPart::synced`] is true.
    pub async fn until_synced(&self) {
        self.index.until_synced(&self.kinds).await;
    }

    /// Returns the kinds that this part fills.
    pub fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    fn is_current(&self, content: &Content) -> bool {
        self.kinds.iter().all(|kind| content.parts.get(kind) == Some(&self.number))
    }
}

impl Drop for IndexPart {
    fn drop(&mut self) {
        let mut content = self.index.write();
        if self.is_current(&content) {
            content.forget(&self.kinds);
            for kind in &self.kinds {
                content.parts.remove(kind);
            }
        }
    }
}

impl Content {
    /// Forgets all objects and sync markers of these kinds.
    fn forget(&mut self, kinds: &[Kind]) {
        for kind in kinds {
            self.kinds.remove(kind);
        }
        self.synced.retain(|(kind, _)| !kinds.contains(kind));
        self.owned.retain(|_, owned| {
            owned.retain(|object| !kinds.contains(&object.kind));
            !owned.is_empty()
        });
    }

    fn apply(&mut self, record: &Record, is_held: impl Fn(&ObjectId, &Snapshot) -> bool) {
        match record {
            Record::Object(event) => match &event.change {
                Change::Applied(snapshot) if is_held(&event.object, snapshot) => {
                    self.insert(&event.object, snapshot);
                }
                Change::Applied(_) | Change::Deleted(_) => self.remove(&event.object),
            },
            Record::Synced(marker) => {
                self.synced.insert((self.shared(&marker.kind), marker.namespace.clone()));
            }
            Record::Cluster(identity) => self.cluster = Some(identity.uid.clone()),
            Record::Interest(_) => {}
        }
    }

    fn insert(&mut self, object: &ObjectId, snapshot: &Snapshot) {
        self.remove(object);
        let kind = self.shared(&object.kind);
        for owner in &snapshot.owner_references {
            let id = ObjectId { kind: kind.clone(), ..object.clone() };
            self.owned.entry(owner.uid.clone()).or_default().insert(id);
        }
        let namespaces = self.kinds.entry(kind).or_default();
        let names = namespaces.entry(object.namespace.clone()).or_default();
        names.insert(object.name.clone(), Packed::new(snapshot));
    }

    fn remove(&mut self, object: &ObjectId) {
        let Some(namespaces) = self.kinds.get_mut(&object.kind) else { return };
        let Some(names) = namespaces.get_mut(&object.namespace) else { return };
        let Some(snapshot) = names.remove(&object.name) else { return };
        if names.is_empty() {
            namespaces.remove(&object.namespace);
        }
        for owner in &snapshot.unpack().owner_references {
            if let Some(owned) = self.owned.get_mut(&owner.uid) {
                owned.remove(object);
                if owned.is_empty() {
                    self.owned.remove(&owner.uid);
                }
            }
        }
    }

    /// Returns the index's own copy of the kind, so that thousands of objects share its text.
    fn shared(&self, kind: &Kind) -> Kind {
        self.kinds.get_key_value(kind).map_or_else(|| kind.clone(), |(kept, _)| kept.clone())
    }
}

#[cfg(test)]
mod tests {
    use groundwork_api::view::Owner;

    use super::*;
    use crate::record::{ClusterIdentity, Event, SyncMarker};

    fn kind(plural: &str) -> Kind {
        Kind::new("", plural)
    }

    fn id(namespace: Option<&str>, name: &str) -> ObjectId {
        ObjectId::new(kind("secrets"), namespace, name)
    }

    fn object(position: u64, object: ObjectId, change: Change) -> Feed {
        let time = jiff::Timestamp::UNIX_EPOCH;
        Feed::Record {
            position,
            record: Record::Object(Event { object, change, trace: None, replay: None, time }),
        }
    }

    fn applied(position: u64, id: ObjectId, owner: Option<&str>) -> Feed {
        let owner = owner.map(|uid| Owner { uid: uid.to_owned(), ..Owner::default() });
        let snapshot = Snapshot {
            resource_version: position.to_string(),
            owner_references: owner.into_iter().collect(),
            ..Snapshot::default()
        };
        object(position, id, Change::Applied(snapshot))
    }

    fn deleted(position: u64, id: ObjectId) -> Feed {
        object(
            position,
            id,
            Change::Deleted(Snapshot { resource_version: "1".into(), ..Snapshot::default() }),
        )
    }

    fn marker(position: u64, plural: &str, namespace: Option<&str>) -> Feed {
        let record = Record::Synced(SyncMarker {
            kind: kind(plural),
            namespace: namespace.map(str::to_owned),
            resource_version: "1".into(),
            count: 1,
        });
        Feed::Record { position, record }
    }

    fn part(index: &Index) -> IndexPart {
        index.part(vec![kind("secrets"), kind("namespaces")])
    }

    fn names(index: &Index, namespace: Option<&str>) -> Vec<String> {
        index.of_kind(&kind("secrets"), namespace).iter().map(|(id, _)| id.to_string()).collect()
    }

    #[test]
    fn objects_come_change_and_go() {
        let index = Index::new();
        let part = part(&index);
        for feed in [
            Feed::Reset,
            applied(1, id(Some("b"), "x"), None),
            applied(2, id(Some("a"), "y"), Some("owner")),
            applied(3, id(None, "z"), None),
            applied(4, id(Some("a"), "x"), Some("owner")),
        ] {
            part.apply(&feed);
        }
        assert_eq!(names(&index, None), ["secrets z", "secrets a/x", "secrets a/y", "secrets b/x"]);
        assert_eq!(names(&index, Some("a")), ["secrets a/x", "secrets a/y"]);
        assert_eq!(names(&index, Some("c")), Vec::<String>::new());
        assert_eq!(index.owned_by("owner"), [id(Some("a"), "x"), id(Some("a"), "y")]);
        assert_eq!((index.len(), part.position()), (4, 4));
        assert_eq!(index.version(&id(Some("a"), "y")).as_deref(), Some("2"));
        assert_eq!(index.version(&id(Some("a"), "nobody")), None);

        part.apply(&applied(5, id(Some("a"), "y"), Some("other")));
        part.apply(&deleted(6, id(Some("a"), "x")));
        part.apply(&deleted(7, id(Some("a"), "unknown")));
        assert_eq!(
            index.get(&id(Some("a"), "y")).map(|found| found.resource_version.clone()),
            Some("5".into())
        );
        assert_eq!(index.get(&id(Some("a"), "x")), None);
        assert_eq!(index.owned_by("owner"), []);
        assert_eq!(index.owned_by("other"), [id(Some("a"), "y")]);
        assert_eq!((index.len(), part.position()), (3, 7));
    }

    #[test]
    fn what_nobody_looks_up_is_not_held() {
        let index = Index::new();
        let part = part(&index);
        let is_held = |_: &ObjectId, snapshot: &Snapshot| !snapshot.owner_references.is_empty();
        for (feed, held) in [
            (Feed::Reset, vec![]),
            (applied(1, id(Some("a"), "x"), Some("owner")), vec!["secrets a/x"]),
            (applied(2, id(Some("a"), "y"), None), vec!["secrets a/x"]),
            (marker(3, "secrets", None), vec!["secrets a/x"]),
            (applied(4, id(Some("a"), "x"), None), vec![]),
        ] {
            part.apply_if(&feed, is_held);
            assert_eq!(names(&index, None), held);
        }
        assert_eq!((index.owned_by("owner"), part.position()), (vec![], 4));
        assert!(index.synced(&[kind("secrets")]), "it has seen all of them");
    }

    #[test]
    fn a_snapshot_comes_back_as_it_was() {
        let text = |entries: &[(&str, &str)]| {
            entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let fields = serde_json::json!({"jobID": "7", "imports": [{"dataRef": "a"}], "none": null, "big": 9_007_199_254_740_993_u64});
        let snapshot = Snapshot {
            uid: "u".into(),
            resource_version: "7".into(),
            generation: Some(3),
            deletion_timestamp: Some("2026-01-01T00:00:00Z".into()),
            owner_references: vec![Owner { uid: "o".into(), controller: true, ..Owner::default() }],
            labels: text(&[("a", "b")]),
            annotations: text(&[("c", "d \u{1f}")]),
            finalizers: vec!["f".into()],
            fields: fields.as_object().cloned().unwrap(),
        };
        let index = Index::new();
        let part = part(&index);
        part.apply(&object(1, id(None, "x"), Change::Applied(snapshot.clone())));
        assert_eq!(index.get(&id(None, "x")), Some(snapshot));
    }

    #[test]
    fn after_a_reset_nothing_is_known_and_nothing_synced() {
        let index = Index::new();
        let part = part(&index);
        let identity = Record::Cluster(ClusterIdentity { uid: "c".into(), ..ClusterIdentity::default() });
        part.apply(&applied(8, id(None, "z"), Some("owner")));
        part.apply(&marker(3, "secrets", None));
        part.apply(&Feed::Record { position: 9, record: identity });
        assert!(index.synced(&[kind("secrets")]) && index.cluster().is_some());
        assert_eq!(part.position(), 9, "a late marker takes nothing back");
        part.apply(&Feed::Reset);
        assert!(index.is_empty() && !index.synced(&[kind("secrets")]));
        assert_eq!((index.cluster(), index.owned_by("owner")), (None, Vec::new()));
        assert_eq!(part.position(), 9);
    }

    #[test]
    fn a_kind_is_synced_when_all_that_was_listed_is_there() {
        let (both, one) = ([kind("secrets"), kind("namespaces")], [kind("secrets")]);
        let cluster = Index::new();
        let all = part(&cluster);
        all.apply(&marker(1, "secrets", Some("a")));
        assert!(!cluster.synced(&one));
        all.apply(&marker(2, "secrets", None));
        assert!(cluster.synced(&one) && !cluster.synced(&both) && cluster.synced(&[]));

        let some = Index::in_namespaces(vec!["a".into(), "b".into()]);
        let named = part(&some);
        named.apply(&marker(1, "secrets", Some("a")));
        named.apply(&marker(2, "namespaces", None));
        assert!(!some.synced(&one));
        named.apply(&marker(3, "secrets", Some("b")));
        assert!(some.synced(&both));
    }

    #[tokio::test]
    async fn who_waits_is_woken() {
        let index = Index::new();
        let part = part(&index);
        let kinds = [kind("secrets")];
        let feeding = async {
            for feed in
                [applied(4, id(None, "z"), None), marker(2, "secrets", None), applied(6, id(None, "y"), None)]
            {
                tokio::task::yield_now().await;
                part.apply(&feed);
            }
        };
        let object = id(None, "y");
        tokio::join!(part.passed(5), index.until_synced(&kinds), index.knows(&object, "6"), feeding);
        index.knows(&object, "5").await;
        index.knows(&object, "not a version").await;
        assert!(part.position() == 6 && index.synced(&kinds));
    }

    /// Dropping a part keeps the objects of other parts, and a late feed of an earlier part no
    /// longer changes the index.
    #[test]
    fn parts_come_and_go() {
        let index = Index::new();
        let secrets = index.part(vec![kind("secrets")]);
        secrets.apply(&applied(1, id(None, "z"), Some("owner")));
        secrets.apply(&marker(2, "secrets", None));
        let pods = index.part(vec![kind("pods")]);
        pods.apply(&Feed::Reset);
        let pod = ObjectId::new(kind("pods"), None, "p");
        pods.apply(&object(7, pod.clone(), Change::Applied(Snapshot::default())));
        pods.apply(&marker(8, "pods", None));
        assert!(index.synced(&[kind("secrets"), kind("pods")]));
        assert_eq!((secrets.position(), pods.position(), index.len()), (2, 8, 2));
        let again = index.part(vec![kind("pods")]);
        pods.apply(&object(9, pod.clone(), Change::Applied(Snapshot::default())));
        assert!(index.get(&pod).is_none() && !again.synced() && index.synced(&[kind("secrets")]));
        again.apply(&object(9, pod.clone(), Change::Applied(Snapshot::default())));
        drop(pods);
        assert!(index.get(&pod).is_some(), "it was the former one that went");
        drop(again);
        assert_eq!((index.len(), index.owned_by("owner")), (1, vec![id(None, "z")]));
        secrets.apply(&Feed::Reset);
        assert!(index.is_empty());
    }
}
