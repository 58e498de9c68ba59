//! What the console knows of the cluster: one row for each object that a page shows, from the console's own feed of the stream.
//!
//! ```text
//! stream ──feed──> follow ──take──> Landscape: rows by place, who belongs to whom, the last events ──> pages
//!                                        └──changed──> live updates of open pages
//! ```
//!
//! Rows hold what a list shows and nothing else, so that tens of thousands of them are read in milliseconds. Whoever needs more
//! of one object reads it from the API server.

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

/// Events that are kept for the page of events.
const MOST_EVENTS: usize = 2_000;
/// Changes that an open page may be behind before it is told that it has missed some.
const CHANGES: usize = 256;

/// Namespace and name. The text of a namespace is shared by all of its objects.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place {
    pub(crate) namespace: Arc<str>,
    pub(crate) name: Arc<str>,
}

impl Place {
    pub(crate) fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// Another object of the same namespace.
    pub(crate) fn beside(&self, name: &str) -> Self {
        Self { namespace: Arc::clone(&self.namespace), name: name.into() }
    }
}

/// How far the console had read when a page was made: its life, and the events that it had taken in.
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

    /// As a page carries it.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (life, taken) = text.split_once('-')?;
        Some(Self { life: life.parse().ok()?, taken: taken.parse().ok()? })
    }
}

/// The landscape. Clones are the same one.
#[derive(Debug, Clone)]
pub(crate) struct Landscape(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    content: RwLock<Content>,
    /// Holds no objects: which kinds are complete.
    index: Index,
    changes: broadcast::Sender<ObjectId>,
    /// When it began, in microseconds: tells one life of the console from another.
    life: i64,
}

/// Everything that is known.
#[derive(Debug, Default)]
pub(crate) struct Content {
    pub(crate) installations: BTreeMap<Place, InstallationRow>,
    pub(crate) executions: BTreeMap<Place, PartRow>,
    pub(crate) items: BTreeMap<Place, PartRow>,
    pub(crate) sets: BTreeMap<Place, SetRow>,
    pub(crate) variants: BTreeMap<Place, VariantRow>,
    pub(crate) events: VecDeque<SeenEvent>,
    pub(crate) reactions: Reactions,
    /// Events that were taken in, those that are not kept any more included.
    taken: u64,
    /// Names of nested Installations by their parents.
    children: HashMap<Place, BTreeSet<Arc<str>>>,
    /// Names of items by their Executions.
    items_of: HashMap<Place, BTreeSet<Arc<str>>>,
    /// Names of variants by the UIDs of their sets.
    variants_of: HashMap<Arc<str>, BTreeSet<Place>>,
    siblings: SiblingIndex,
    texts: BTreeSet<Arc<str>>,
}

/// The kinds whose objects are rows.
fn row_kinds() -> [Kind; 5] {
    [
        Kind::of::<Installation>(),
        Kind::of::<Execution>(),
        Kind::of::<DeployItem>(),
        Kind::of::<PackageVariantSet>(),
        Kind::of::<PackageVariant>(),
    ]
}

/// All kinds that the console follows: what the watcher publishes unasked, and what it publishes for the package store while there is one.
pub(crate) fn kinds() -> Vec<Kind> {
    let unasked = view::WATCHED.iter().map(|watched| Kind::new(watched.group, watched.plural));
    unasked.chain([Kind::of::<PackageRevision>()]).collect()
}

impl Landscape {
    /// An empty landscape, and what fills it. `namespaces` are those that the watcher was told; empty for all.
    pub(crate) fn new(namespaces: Vec<String>) -> (Self, Filler) {
        let index = Index::in_namespaces(namespaces);
        let part = index.part(kinds());
        let changes = broadcast::Sender::new(CHANGES);
        let life = Timestamp::now().as_microsecond();
        let landscape = Self(Arc::new(Inner { content: RwLock::default(), index, changes, life }));
        (landscape.clone(), Filler { landscape, part })
    }

    /// What is known now. To be held for as long as a page is made, and never across a pause.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Content> {
        self.0.content.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether all objects that pages list are known.
    pub(crate) fn is_complete(&self) -> bool {
        self.0.index.synced(&row_kinds())
    }

    /// How far it has read.
    pub(crate) fn position(&self) -> Position {
        Position { life: self.0.life, taken: self.read().taken }
    }

    /// What has changed since a position; `None` if that is not known any more.
    pub(crate) fn changed_since(&self, position: Position) -> Option<Vec<ObjectId>> {
        let content = self.read();
        let events = content.taken.checked_sub(position.taken)?;
        let first = content.events.len().checked_sub(usize::try_from(events).ok()?)?;
        let changed = content.events.range(first..).map(|event| event.object.clone());
        (position.life == self.0.life).then(|| changed.collect())
    }

    /// Every change from now on.
    pub(crate) fn changes(&self) -> broadcast::Receiver<ObjectId> {
        self.0.changes.subscribe()
    }
}

/// Fills a landscape from a feed.
#[derive(Debug)]
pub(crate) struct Filler {
    landscape: Landscape,
    part: IndexPart,
}

impl Filler {
    /// Takes in one step of the feed.
    pub(crate) fn take(&self, feed: &Feed) {
        let inner = &self.landscape.0;
        let mut content = inner.content.write().unwrap_or_else(PoisonError::into_inner);
        match feed {
            Feed::Reset => {
                // What was there before may be gone without a word: no position before this is known any more.
                *content = Content { taken: content.taken + 1, ..Content::default() };
                self.part.apply(feed);
            }
            Feed::Record { record: Record::Object(event), .. } => {
                content.take(event);
                drop(content);
                // Nobody may be looking.
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
    /// The Installations nested in one, in the order of their names in the blueprint.
    pub(crate) fn children(&self, parent: &Place) -> Vec<(Place, &InstallationRow)> {
        let names = self.children.get(parent).into_iter().flatten();
        let places =
            names.map(|name| Place { namespace: Arc::clone(&parent.namespace), name: Arc::clone(name) });
        let mut found: Vec<_> =
            places.filter_map(|place| self.installations.get(&place).map(|row| (place, row))).collect();
        found.sort_by(|(a, one), (b, other)| (&one.template, a).cmp(&(&other.template, b)));
        found
    }

    /// The items of an Execution, in the order of their names in the blueprint.
    pub(crate) fn items_of(&self, execution: &Place) -> Vec<(Place, &PartRow)> {
        let names = self.items_of.get(execution).into_iter().flatten();
        let places =
            names.map(|name| Place { namespace: Arc::clone(&execution.namespace), name: Arc::clone(name) });
        let mut found: Vec<_> =
            places.filter_map(|place| self.items.get(&place).map(|row| (place, row))).collect();
        found.sort_by(|(a, one), (b, other)| (&one.template, a).cmp(&(&other.template, b)));
        found
    }

    /// The variants that a set owns, by namespace and name.
    pub(crate) fn variants_of(&self, set: &SetRow) -> impl Iterator<Item = (&Place, &VariantRow)> {
        let places = self.variants_of.get(&set.uid).into_iter().flatten();
        places.filter_map(|place| self.variants.get_key_value(place))
    }

    /// The siblings whose exports an Installation imports.
    pub(crate) fn predecessors(&self, place: &Place) -> Vec<Place> {
        let names = self.siblings.predecessors_of(&place.namespace, &place.name);
        names.iter().map(|name| place.beside(name)).collect()
    }

    /// The siblings that import what an Installation exports.
    pub(crate) fn successors(&self, place: &Place) -> Vec<Place> {
        let names = self.siblings.successors_of(&place.namespace, &place.name).1;
        names.iter().map(|name| place.beside(name)).collect()
    }

    /// The Installation whose page tells of an object: itself, or what it belongs to. Owners in a circle end.
    pub(crate) fn roots(&self, object: &ObjectId) -> Vec<Place> {
        let Some(namespace) = &object.namespace else { return Vec::new() };
        let place = Place::new(namespace, &object.name);
        let mut next = match object.kind.plural() {
            // An Execution has the name of its Installation.
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

    /// Namespaces in which there is something of a kind that pages list.
    pub(crate) fn namespaces(&self) -> BTreeSet<Arc<str>> {
        let places = self.installations.keys().chain(self.sets.keys()).chain(self.variants.keys());
        places.map(|place| Arc::clone(&place.namespace)).collect()
    }

    fn take(&mut self, event: &Event) {
        let object = &event.object;
        let namespace = self.shared(object.namespace.as_deref().unwrap_or_default());
        let place = Place { namespace, name: object.name.as_str().into() };
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

    /// Since when an object was seen to wait for a service.
    fn waits_since(&self, plural: &str, place: &Place) -> Option<Timestamp> {
        match plural {
            Installation::PLURAL => self.installations.get(place)?.waits_since,
            DeployItem::PLURAL => self.items.get(place)?.waits_since,
            _ => None,
        }
    }

    fn remove(&mut self, plural: &str, place: &Place) {
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

    /// A text as it is kept already: thousands of rows name the same namespaces, components and repositories.
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
