//! What is known of an Installation and of what it owns.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use groundwork_api::{
    DeployItem, DeployItemTemplate, DeployItemsError, Execution, Installation, ResourceExt,
};
use groundwork_kubernetes::ResourceVersion;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};

use super::children::Children;
use super::items::{Items, waiting_since};
use super::step::{Predecessors, Sibling};
use crate::prepare::{Completion, Prepared};

/// What is known of one object.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Known<T> {
    /// Nothing; it has to be read before something rests on it.
    #[default]
    Unread,
    Absent,
    /// As last read, or as stored by our last write.
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
    /// Takes in an object that the API server answered a write with. One that lost its last finalizer while it
    /// was being deleted is gone.
    pub fn store(&mut self, object: T) {
        let metadata = object.meta();
        let is_gone =
            metadata.deletion_timestamp.is_some() && metadata.finalizers.iter().flatten().next().is_none();
        *self = if is_gone { Self::Absent } else { Self::Present(Arc::new(object)) };
    }

    /// Forgets the object if a newer version of it has been seen, or `None`: its deletion, which is newer than every version. What cannot be
    /// compared is taken for newer.
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
    /// Forgets what differs from the newest version that is known elsewhere; `None`: it is not there, or `is_fresh` not yet.
    fn compare(&mut self, newest: Option<&str>, is_fresh: bool) {
        match (&self, newest) {
            (Self::Present(_), Some(newest)) => self.outdate(Some(newest)),
            (Self::Present(_), None) if is_fresh => {}
            (Self::Present(_), None) | (Self::Absent, Some(_)) => *self = Self::Unread,
            (Self::Absent, None) | (Self::Unread, _) => {}
        }
    }
}

/// A part of a [`Tree`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part<'a> {
    Installation,
    Execution,
    Item(&'a str),
    Child(&'a str),
}

/// A DataObject or Target that an earlier job of an Installation left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaleCopy {
    pub is_target: bool,
    pub name: String,
    pub uid: String,
    /// Version in which it was found to be left over; absent where its UID is enough.
    pub resource_version: Option<String>,
}

/// The templates of an Execution, decoded once for each of its versions.
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
    /// The nested installations.
    pub children: Children<Installation>,
    /// What the current pass of `Init` has rendered.
    pub prepared: Option<Prepared>,
    /// The exports that the current pass of `Completing` has rendered.
    pub completion: Option<Completion>,
    /// Hash of the imports as read last.
    pub imports_hash: Option<String>,
    /// Export values of the items by template name, while the Execution completes.
    pub exports: Option<Map<String, Value>>,
    /// What is left over in the own scope, as found last.
    pub stale_copies: Option<Vec<StaleCopy>>,
    /// What former jobs exported, as found last.
    pub own_exports: Option<Vec<StaleCopy>>,
    /// Siblings whose exports are imported, as read last.
    pub predecessors: Option<Predecessors>,
    /// The same as they were when the current pass of `Init` began.
    pub(super) sampled: Option<Predecessors>,
    /// Siblings that import what is exported: their names at the end of a job, and what they look like before a deletion.
    pub dependents: Option<Vec<String>>,
    pub successors: Option<Vec<Sibling>>,
    /// How many of the dependents have been triggered.
    pub(super) triggered: usize,
    /// The current job is known to export nothing.
    pub(super) exports_nothing: Option<String>,
    /// How many import copies and states of this pass, or exports, have been written.
    pub(super) copies_written: usize,
    /// The export holder of this pass has been written.
    pub(super) exports_written: bool,
    /// The annotation that started the current job is still on the object.
    pub(super) request_taken: bool,
    /// The job whose rendering this process has begun, and lived through so far.
    pub(super) begun: Option<String>,
    /// The job that it was filled for.
    pub(super) job: Option<String>,
    /// The version of the Installation in which its job was found to begin. Whoever knows that version by events knows all that people did
    /// before they asked for the job.
    pub asked_in: Option<String>,
    /// The attempt that filled it goes on.
    pub goes_on: bool,
    /// The job whose warnings have been told.
    pub warned: Option<String>,
    /// The parent of a nested Installation exists, as read last.
    pub has_parent: Option<bool>,
    /// Items may be left whose Execution is gone, so that they have to be looked for.
    pub looks_for_left_items: bool,
    /// Whether Targets that late items name exist, as read last.
    pub targets: BTreeMap<String, bool>,
    templates: Option<Arc<Templates>>,
}

impl Tree {
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into(), ..Self::default() }
    }

    /// Forgets what is not the newest: others may have changed it, and their events may have gone elsewhere.
    /// `newest` gives the version that is known of a part, or `None` if it is not there.
    ///
    /// While an attempt goes on in parts, what it has just made may not have come round yet: nothing follows from its absence then.
    pub fn outdate(&mut self, newest: impl Fn(Part<'_>) -> Option<String>) {
        let is_fresh = std::mem::take(&mut self.goes_on);
        self.installation.compare(newest(Part::Installation).as_deref(), is_fresh);
        self.execution.compare(newest(Part::Execution).as_deref(), is_fresh);
        self.items.for_each(|name, item| item.compare(newest(Part::Item(name)).as_deref(), is_fresh));
        self.children.for_each(|name, child| child.compare(newest(Part::Child(name)).as_deref(), is_fresh));
        // Nobody tells this tree when others change.
        self.predecessors = None;
        self.successors = None;
        self.has_parent = None;
    }

    /// When the first of the items that nobody has picked up yet must have been (7.6).
    pub fn pickup_deadline(&self, timeout: SignedDuration) -> Option<Timestamp> {
        let deadline = |item: &DeployItem| waiting_since(item)?.checked_add(timeout).ok();
        self.items.present().filter_map(deadline).min()
    }

    /// What remains of it after a failed attempt: nothing but what no object tells.
    pub fn forget(self) -> Self {
        Self { begun: self.begun, warned: self.warned, ..Self::new(self.namespace, self.name) }
    }

    /// Drops what was kept for another job than the one that runs: another replica has begun that.
    pub(super) fn follow_job(&mut self, id: &str) {
        if self.job.as_deref().is_some_and(|job| job != id) {
            let kept = std::mem::take(self);
            let (installation, goes_on) = (kept.installation.clone(), kept.goes_on);
            *self = Self { installation, goes_on, ..kept.forget() };
        }
        self.job = Some(id.to_owned());
    }

    /// The templates of the Execution as it is known now.
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
        // What an item should be like follows from the Execution.
        self.items.forget_checks();
        Ok(templates)
    }

    /// Drops what a former job left.
    pub(super) fn forget_job(&mut self) {
        self.forget_pass();
        self.own_exports = None;
        self.dependents = None;
        self.successors = None;
        self.exports_nothing = None;
        self.triggered = 0;
    }

    /// Drops what one pass gathered, before the next one.
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
