//! Index of the cluster for the console: one row for each object that a page shows, filled from the
//! console's own feed of the stream.
//!
//! ```text
//! stream ──feed──> follow ──take──> Landscape: rows by place, owners, the last events ──> pages
//!                                        └──changed──> live updates of open pages
//! ```
//!
//! Rows hold only the columns of the lists, so that tens of thousands of rows are read in
//! milliseconds. A page that needs more of one object reads that object from the API server
//! (`objects.rs`).

mod reactions;
mod rows;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use groundwork_api::{
    DeployItem, Execution, Installation, Kind as _, PackageRevision, PackageVariant, PackageVariantSet, view,
};
use groundwork_bus::{Change, Event, Feed, Index, IndexPart, Kind, ObjectId, Record};
use groundwork_lifecycle::{Scope, SiblingIndex};
use jiff::Timestamp;
use tokio::sync::broadcast;

pub(crate) use reactions::{Reactions, Taker};
pub(crate) use rows::{InstallationRow, Job, PackageState, PartRow, SeenEvent, SetRow, State, VariantRow};

/// Limit for the events that are kept for the page of events, and for pages that ask for changes
/// since a position.
const MOST_EVENTS: usize = 2_000;
/// Limit for the changes that queue for an open page. A page that falls further behind is refreshed
/// without a look at the changes it missed.
const CHANGES: usize = 256;

/// Namespace and name of an object. All objects of a namespace share the text of its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NamespacedName {
    pub(crate) namespace: Arc<str>,
    pub(crate) name: Arc<str>,
}

impl NamespacedName {
    pub(crate) fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// Returns the place of another object in the same namespace.
    pub(crate) fn beside(&self, name: &str) -> Self {
        Self { namespace: Arc::clone(&self.namespace), name: name.into() }
    }
}

/// Progress of the console when it made a page: the run of the console, and the number of events
/// read in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    life: i64,
    taken: u64,
}

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.life, self.taken)
    }
}

impl Position {
    #[cfg(test)]
    pub(crate) const START: Self = Self { life: 0, taken: 0 };

    /// Parses the form in which a page carries its position.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (life, taken) = text.split_once('-')?;
        Some(Self { life: life.parse().ok()?, taken: taken.parse().ok()? })
    }
}

/// Handle of the landscape. Clones share the same data.
#[derive(Debug, Clone)]
pub(crate) struct Landscape(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    content: RwLock<Content>,
    /// Tracks which kinds have been read completely. It holds no objects.
    index: Index,
    changes: broadcast::Sender<ObjectId>,
    /// Start of the console in microseconds. It tells positions of this run from those of an
    /// earlier one.
    life: i64,
}

/// All rows, with the indexes over them.
#[derive(Debug, Default)]
pub(crate) struct Content {
    pub(crate) installations: BTreeMap<NamespacedName, InstallationRow>,
    pub(crate) executions: BTreeMap<NamespacedName, PartRow>,
    pub(crate) items: BTreeMap<NamespacedName, PartRow>,
    pub(crate) sets: BTreeMap<NamespacedName, SetRow>,
    pub(crate) variants: BTreeMap<NamespacedName, VariantRow>,
    pub(crate) events: VecDeque<SeenEvent>,
    pub(crate) reactions: Reactions,
    /// Number of all events read, including those no longer kept.
    taken: u64,
    /// Names of nested Installations by their parents.
    children: HashMap<NamespacedName, BTreeSet<Arc<str>>>,
    /// Names of items by their Executions.
    items_of: HashMap<NamespacedName, BTreeSet<Arc<str>>>,
    /// Names of variants by the UIDs of their sets.
    variants_of: HashMap<Arc<str>, BTreeSet<NamespacedName>>,
    siblings: SiblingIndex,
    texts: BTreeSet<Arc<str>>,
}

/// Returns the kinds that have rows.
fn row_kinds() -> [Kind; 5] {
    [
        Kind::of::<Installation>(),
        Kind::of::<Execution>(),
        Kind::of::<DeployItem>(),
        Kind::of::<PackageVariantSet>(),
        Kind::of::<PackageVariant>(),
    ]
}

/// Returns all kinds that the console follows: those that the watcher always publishes, and
/// PackageRevisions, which the watcher publishes while a package store runs.
pub(crate) fn kinds() -> Vec<Kind> {
    let unasked = view::WATCHED.iter().map(|watched| Kind::new(watched.group, watched.plural));
    unasked.chain([Kind::of::<PackageRevision>()]).collect()
}

impl Landscape {
    /// Creates an empty landscape and its filler. `namespaces` are those that the watcher is
    /// limited to; empty for all.
    pub(crate) fn new(namespaces: Vec<String>) -> (Self, Filler) {
        let index = Index::in_namespaces(namespaces);
        let part = index.part(kinds());
        let changes = broadcast::Sender::new(CHANGES);
        let life = Timestamp::now().as_microsecond();
        let landscape = Self(Arc::new(Inner { content: RwLock::default(), index, changes, life }));
        (landscape.clone(), Filler { landscape, part })
    }

    /// Locks the content for reading. Hold the lock only while a page is made, and never across an
    /// `await`.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Content> {
        self.0.content.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports whether all objects that pages list have been read.
    pub(crate) fn is_complete(&self) -> bool {
        self.0.index.synced(&row_kinds())
    }

    /// Returns how far the landscape has read.
    pub(crate) fn position(&self) -> Position {
        Position { life: self.0.life, taken: self.read().taken }
    }

    /// Returns the objects that changed since a position, or `None` if the events since then are no
    /// longer kept.
    pub(crate) fn changed_since(&self, position: Position) -> Option<Vec<ObjectId>> {
        let content = self.read();
        let events = content.taken.checked_sub(position.taken)?;
        let first = content.events.len().checked_sub(usize::try_from(events).ok()?)?;
        let changed = content.events.range(first..).map(|event| event.object.clone());
        (position.life == self.0.life).then(|| changed.collect())
    }

    /// Subscribes to changes from now on.
    pub(crate) fn changes(&self) -> broadcast::Receiver<ObjectId> {
        self.0.changes.subscribe()
    }
}

/// Writer of the landscape, fed by `follow` in `lib.rs`.
#[derive(Debug)]
pub(crate) struct Filler {
    landscape: Landscape,
    part: IndexPart,
}

impl Filler {
    /// Applies one step of the feed.
    pub(crate) fn take(&self, feed: &Feed) {
        let inner = &self.landscape.0;
        let mut content = inner.content.write().unwrap_or_else(PoisonError::into_inner);
        match feed {
            Feed::Reset => {
                // A reset loses events, and objects may have been deleted unnoticed. `taken` grows
                // although `events` is empty, so that `changed_since` returns `None` for every
                // earlier position.
                *content = Content { taken: content.taken + 1, ..Content::default() };
                self.part.apply(feed);
            }
            Feed::Record { record: Record::Object(event), .. } => {
                content.take(event);
                drop(content);
                // Sending fails when no page is open.
                let _ = inner.changes.send(event.object.clone());
            }
            Feed::Record { .. } => self.part.apply(feed),
        }
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.landscape.is_complete()
    }
}

impl Content {
    /// Returns the Installations nested in one, ordered by their names in the blueprint.
    pub(crate) fn children(&self, parent: &NamespacedName) -> Vec<(NamespacedName, &InstallationRow)> {
        let names = self.children.get(parent).into_iter().flatten();
        let places = names
            .map(|name| NamespacedName { namespace: Arc::clone(&parent.namespace), name: Arc::clone(name) });
        let mut found: Vec<_> =
            places.filter_map(|place| self.installations.get(&place).map(|row| (place, row))).collect();
        found.sort_by(|(a, one), (b, other)| (&one.template, a).cmp(&(&other.template, b)));
        found
    }

    /// Returns the items of an Execution, ordered by their names in the blueprint.
    pub(crate) fn items_of(&self, execution: &NamespacedName) -> Vec<(NamespacedName, &PartRow)> {
        let names = self.items_of.get(execution).into_iter().flatten();
        let places = names.map(|name| NamespacedName {
            namespace: Arc::clone(&execution.namespace),
            name: Arc::clone(name),
        });
        let mut found: Vec<_> =
            places.filter_map(|place| self.items.get(&place).map(|row| (place, row))).collect();
        found.sort_by(|(a, one), (b, other)| (&one.template, a).cmp(&(&other.template, b)));
        found
    }

    /// Returns the variants that a set owns, by namespace and name.
    pub(crate) fn variants_of(&self, set: &SetRow) -> impl Iterator<Item = (&NamespacedName, &VariantRow)> {
        let places = self.variants_of.get(&set.uid).into_iter().flatten();
        places.filter_map(|place| self.variants.get_key_value(place))
    }

    /// Returns the siblings whose exports an Installation imports.
    pub(crate) fn predecessors(&self, place: &NamespacedName) -> Vec<NamespacedName> {
        let names = self.siblings.predecessors_of(&place.namespace, &place.name);
        names.iter().map(|name| place.beside(name)).collect()
    }

    /// Returns the siblings that import an export of an Installation.
    pub(crate) fn successors(&self, place: &NamespacedName) -> Vec<NamespacedName> {
        let names = self.siblings.successors_of(&place.namespace, &place.name).1;
        names.iter().map(|name| place.beside(name)).collect()
    }

    /// Returns the Installations whose pages show an object: the Installation itself or the owner
    /// of the object, then its parents up to the root. A circle of owners ends the walk.
    pub(crate) fn roots(&self, object: &ObjectId) -> Vec<NamespacedName> {
        let Some(namespace) = &object.namespace else { return Vec::new() };
        let place = NamespacedName::new(namespace, &object.name);
        let mut next = match object.kind.plural() {
            // An Execution has the same name as its Installation.
            Installation::PLURAL | Execution::PLURAL => Some(place),
            DeployItem::PLURAL => {
                self.items.get(&place).and_then(|row| row.owner.as_deref()).map(|owner| place.beside(owner))
            }
            _ => None,
        };
        let mut roots = Vec::new();
        while let Some(place) = next.filter(|place| !roots.contains(place)) {
            next = self
                .installations
                .get(&place)
                .and_then(|row| row.parent.as_deref())
                .map(|parent| place.beside(parent));
            roots.push(place);
        }
        roots
    }

    /// Returns the namespaces that contain an object of a listed kind.
    pub(crate) fn namespaces(&self) -> BTreeSet<Arc<str>> {
        let places = self.installations.keys().chain(self.sets.keys()).chain(self.variants.keys());
        places.map(|place| Arc::clone(&place.namespace)).collect()
    }

    fn take(&mut self, event: &Event) {
        let object = &event.object;
        let namespace = self.shared(object.namespace.as_deref().unwrap_or_default());
        let place = NamespacedName { namespace, name: object.name.as_str().into() };
        self.taken += 1;
        self.events.push_back(SeenEvent::of(event));
        if self.events.len() > MOST_EVENTS {
            self.events.pop_front();
        }
        if object.kind.group() != Installation::GROUP && object.kind.group() != PackageVariant::GROUP {
            return;
        }
        let waited_since = self.waits_since(object.kind.plural(), &place);
        self.remove(object.kind.plural(), &place);
        let Change::Applied(snapshot) = &event.change else { return };
        match object.kind.plural() {
            Installation::PLURAL => {
                let mut row = InstallationRow::of(snapshot, |text| self.shared(text));
                let of = || (Arc::clone(&place.namespace), Taker::Renderer);
                row.waits_since = self.reactions.take(waited_since, row.requested.is_some(), event.time, of);
                if let Some(parent) = &row.parent {
                    let siblings = self.children.entry(place.beside(parent)).or_default();
                    siblings.insert(Arc::clone(&place.name));
                }
                let scope = Scope {
                    namespace: place.namespace.to_string(),
                    parent: row.parent.as_deref().map(str::to_owned),
                };
                self.siblings.insert(scope, &place.name, row.interface.clone());
                self.installations.insert(place, row);
            }
            Execution::PLURAL => {
                self.executions.insert(place, PartRow::of_execution(snapshot));
            }
            DeployItem::PLURAL => {
                let mut row = PartRow::of_item(snapshot, |text| self.shared(text));
                let waits = view::DeployItem(snapshot).waits_since().is_some();
                let of = || (Arc::clone(&place.namespace), Taker::Deployer(Arc::clone(&row.type_)));
                row.waits_since = self.reactions.take(waited_since, waits, event.time, of);
                if let Some(owner) = &row.owner {
                    let items = self.items_of.entry(place.beside(owner)).or_default();
                    items.insert(Arc::clone(&place.name));
                }
                self.items.insert(place, row);
            }
            PackageVariantSet::PLURAL => {
                self.sets.insert(place, SetRow::of(snapshot));
            }
            PackageVariant::PLURAL => {
                let row = VariantRow::of(snapshot, |text| self.shared(text));
                if let Some(set) = &row.set {
                    self.variants_of.entry(Arc::clone(set)).or_default().insert(place.clone());
                }
                self.variants.insert(place, row);
            }
            _ => {}
        }
    }

    /// Returns the time of the event that first showed an object waiting for a service.
    fn waits_since(&self, plural: &str, place: &NamespacedName) -> Option<Timestamp> {
        match plural {
            Installation::PLURAL => self.installations.get(place)?.waits_since,
            DeployItem::PLURAL => self.items.get(place)?.waits_since,
            _ => None,
        }
    }

    fn remove(&mut self, plural: &str, place: &NamespacedName) {
        match plural {
            Installation::PLURAL => {
                self.siblings.remove(&place.namespace, &place.name);
                let parent = self.installations.remove(place).and_then(|row| row.parent);
                if let Some(parent) = parent {
                    forget(&mut self.children, &place.beside(&parent), &place.name);
                }
            }
            Execution::PLURAL => drop(self.executions.remove(place)),
            DeployItem::PLURAL => {
                if let Some(owner) = self.items.remove(place).and_then(|row| row.owner) {
                    forget(&mut self.items_of, &place.beside(&owner), &place.name);
                }
            }
            PackageVariantSet::PLURAL => drop(self.sets.remove(place)),
            PackageVariant::PLURAL => {
                if let Some(set) = self.variants.remove(place).and_then(|row| row.set) {
                    forget(&mut self.variants_of, &set, place);
                }
            }
            _ => {}
        }
    }

    /// Returns the shared copy of a text. Thousands of rows name the same namespaces, components
    /// and repositories, and each text is kept once.
    fn shared(&mut self, text: &str) -> Arc<str> {
        if let Some(kept) = self.texts.get(text) {
            return Arc::clone(kept);
        }
        let kept: Arc<str> = text.into();
        self.texts.insert(Arc::clone(&kept));
        kept
    }
}

fn forget<K, V>(sets: &mut HashMap<K, BTreeSet<V>>, key: &K, value: &V)
where
    K: std::hash::Hash + Eq,
    V: Ord,
{
    if let Some(set) = sets.get_mut(key) {
        set.remove(value);
        if set.is_empty() {
            sets.remove(key);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
