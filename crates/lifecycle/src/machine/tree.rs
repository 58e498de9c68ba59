//! Cache of the known state of an Installation and the objects that it owns.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use groundwork_api::kubernetes::ResourceVersion;
use groundwork_api::{
    DeployItem, DeployItemTemplate, DeployItemsError, Execution, Installation, ResourceExt,
};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};

use super::children::Children;
use super::items::{Items, waiting_since};
use super::step::{Predecessors, Sibling};
use crate::prepare::{Completion, Prepared};

/// Known state of one object.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Known<T> {
    /// Not known. The object must be read before a decision depends on it.
    #[default]
    Unread,
    Absent,
    /// Object as last read, or as stored by our last write.
    Present(Arc<T>),
}

impl<T> Known<T> {
    pub fn get(&self) -> Option<&T> {
        match self {
            Self::Present(object) => Some(object),
            Self::Unread | Self::Absent => None,
        }
    }

    pub fn is_unread(&self) -> bool {
        matches!(self, Self::Unread)
    }
}

impl<T> From<Option<T>> for Known<T> {
    fn from(object: Option<T>) -> Self {
        object.map_or(Self::Absent, |object| Self::Present(Arc::new(object)))
    }
}

impl<T: ResourceExt> Known<T> {
    /// Stores an object that the API server returned after a write. An object that lost its last
    /// finalizer during its deletion is gone.
    pub fn store(&mut self, object: T) {
        let metadata = object.meta();
        let is_gone =
            metadata.deletion_timestamp.is_some() && metadata.finalizers.iter().flatten().next().is_none();
        *self = if is_gone { Self::Absent } else { Self::Present(Arc::new(object)) };
    }

    /// Forgets the object if a newer version of it has been seen. `None` means that it was deleted,
    /// which counts as newer than every version, and so does a version that cannot be compared.
    pub fn outdate(&mut self, seen: Option<&str>) {
        let known = self.get().and_then(ResourceExt::resource_version);
        let known = known.and_then(|version| ResourceVersion::parse(&version));
        let seen = seen.and_then(ResourceVersion::parse);
        let is_current = seen.is_some() && known >= seen;
        if !is_current {
            *self = Self::Unread;
        }
    }
}

impl<T: ResourceExt> Known<T> {
    /// Forgets an object that differs from the newest version known elsewhere. `None` means that
    /// the object does not exist there or, with `is_fresh`, that its event has not arrived yet.
    fn compare(&mut self, newest: Option<&str>, is_fresh: bool) {
        match (&self, newest) {
            (Self::Present(_), Some(newest)) => self.outdate(Some(newest)),
            (Self::Present(_), None) if is_fresh => {}
            (Self::Present(_), None) | (Self::Absent, Some(_)) => *self = Self::Unread,
            (Self::Absent, None) | (Self::Unread, _) => {}
        }
    }
}

/// Part of a [`Tree`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part<'a> {
    Installation,
    Execution,
    Item(&'a str),
    Child(&'a str),
}

/// DataObject or Target that an earlier job of an Installation left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaleCopy {
    pub is_target: bool,
    pub name: String,
    pub uid: String,
    /// Version in which the object was found to be left over; absent if its UID is enough.
    pub resource_version: Option<String>,
}

/// Templates of an Execution, decoded once for each of its versions.
#[derive(Debug)]
pub(super) struct Templates {
    version: Option<String>,
    pub(super) list: Vec<DeployItemTemplate>,
    names: HashSet<String>,
}

impl Templates {
    pub(super) fn contains(&self, name: &str) -> bool {
        self.names.contains(name)
    }
}

/// One Installation with its Execution and DeployItems.
#[derive(Debug, Clone, Default)]
pub struct Tree {
    pub namespace: String,
    /// Name of the Installation, and of its Execution.
    pub name: String,
    pub installation: Known<Installation>,
    pub execution: Known<Execution>,
    pub items: Items,
    /// Nested Installations.
    pub children: Children<Installation>,
    /// Result of the rendering in the current pass of `Init`.
    pub prepared: Option<Prepared>,
    /// Rendered exports of the current pass of `Completing`.
    pub completion: Option<Completion>,
    /// Hash of the imports as last read.
    pub imports_hash: Option<String>,
    /// Export values of the items by template name, while the Execution completes.
    pub exports: Option<Map<String, Value>>,
    /// Leftover objects in the Installation's own scope, as last found.
    pub stale_copies: Option<Vec<StaleCopy>>,
    /// Exports of earlier jobs, as last found.
    pub own_exports: Option<Vec<StaleCopy>>,
    /// Siblings whose exports the Installation imports, as last read.
    pub predecessors: Option<Predecessors>,
    /// State of the predecessors at the start of the current pass of `Init`.
    pub(super) sampled: Option<Predecessors>,
    /// Names of the siblings that import the exports, read at the end of a job.
    pub dependents: Option<Vec<String>>,
    pub successors: Option<Vec<Sibling>>,
    /// Number of dependents that have been triggered.
    pub(super) triggered: usize,
    /// Id of the job, once it is known to export no values.
    pub(super) exports_nothing: Option<String>,
    /// Number of import copies, states and exports written in this pass.
    pub(super) copies_written: usize,
    /// True once the DataObject with the exports of this pass has been written.
    pub(super) exports_written: bool,
    /// True while the annotation that started the current job is still on the object.
    pub(super) request_taken: bool,
    /// Id of the job whose rendering this process has begun without dying so far.
    pub(super) begun: Option<String>,
    /// Id of the job that the tree was filled for.
    pub(super) job: Option<String>,
    /// Version of the Installation from which this process learned that the job begins. A cache
    /// that has seen this version by events also contains all changes that users made before they
    /// requested the job.
    pub asked_in: Option<String>,
    /// True while the attempt that filled the tree continues.
    pub goes_on: bool,
    /// Id of the job whose warnings have been reported.
    pub warned: Option<String>,
    /// True if the parent of a nested Installation exists, as last read.
    pub has_parent: Option<bool>,
    /// True if the Execution, or items, of a former owner may be left, so that the machine has to
    /// search for them.
    pub looks_for_left: bool,
    /// True if children or items exist that never had a job. A job that starts then lists the
    /// objects below, even if it is the first.
    pub has_unstarted: bool,
    /// Existence of the Targets that overdue items name, as last read.
    pub targets: BTreeMap<String, bool>,
    templates: Option<Arc<Templates>>,
}

impl Tree {
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into(), ..Self::default() }
    }

    /// Forgets outdated parts: other replicas may have changed them, and this replica may not have
    /// received the events.
    ///
    /// `newest` returns the known version of a part, or `None` if the part does not exist. While an
    /// attempt continues in several parts, an object that it has just created may not have an event
    /// yet, so `None` does not count as a deletion then.
    pub fn outdate(&mut self, newest: impl Fn(Part<'_>) -> Option<String>) {
        let is_fresh = std::mem::take(&mut self.goes_on);
        self.installation.compare(newest(Part::Installation).as_deref(), is_fresh);
        self.execution.compare(newest(Part::Execution).as_deref(), is_fresh);
        self.items.for_each(|name, item| item.compare(newest(Part::Item(name)).as_deref(), is_fresh));
        self.children.for_each(|name, child| child.compare(newest(Part::Child(name)).as_deref(), is_fresh));
        // The tree receives no events about siblings and the parent.
        self.predecessors = None;
        self.successors = None;
        self.has_parent = None;
    }

    /// Returns the earliest deadline for the pickup of an item (`installations.md` 7.6).
    pub fn pickup_deadline(&self, timeout: SignedDuration) -> Option<Timestamp> {
        let deadline = |item: &DeployItem| waiting_since(item)?.checked_add(timeout).ok();
        self.items.present().filter_map(deadline).min()
    }

    /// Returns the tree for the next attempt after a failed one: empty except for facts that no
    /// object contains.
    pub fn forget(self) -> Self {
        Self { begun: self.begun, warned: self.warned, ..Self::new(self.namespace, self.name) }
    }

    /// Sets the id of the running job. If the tree has data of another job, drops that data:
    /// another replica has begun the running job in the meantime.
    pub(super) fn follow_job(&mut self, id: &str) {
        if self.job.as_deref().is_some_and(|job| job != id) {
            let kept = std::mem::take(self);
            let (installation, goes_on) = (kept.installation.clone(), kept.goes_on);
            *self = Self { installation, goes_on, ..kept.forget() };
        }
        self.job = Some(id.to_owned());
    }

    /// Returns the templates of the Execution in its current version.
    pub(super) fn templates(&mut self, execution: &Execution) -> Result<Arc<Templates>, DeployItemsError> {
        let version = execution.resource_version();
        if let Some(templates) =
            self.templates.as_ref().filter(|known| known.version == version && version.is_some())
        {
            return Ok(Arc::clone(templates));
        }
        let list = execution.spec.templates()?.into_owned();
        let names = list.iter().map(|template| template.name.clone()).collect();
        let templates = Arc::new(Templates { version, list, names });
        self.templates = Some(Arc::clone(&templates));
        // New templates may want other items, so earlier checks are void.
        self.items.forget_checks();
        Ok(templates)
    }

    /// Drops the data of an earlier job.
    pub(super) fn forget_job(&mut self) {
        self.forget_pass();
        self.own_exports = None;
        self.dependents = None;
        self.successors = None;
        self.exports_nothing = None;
        self.triggered = 0;
    }

    /// Drops the data of one pass before the next one.
    pub(super) fn forget_pass(&mut self) {
        self.prepared = None;
        self.completion = None;
        self.imports_hash = None;
        self.stale_copies = None;
        self.predecessors = None;
        self.sampled = None;
        self.copies_written = 0;
    }
}
