//! The words in which the machine and its caller speak: what to read, what to write, and what a job cannot do without.

use std::collections::{BTreeMap, BTreeSet};

use groundwork_api::metadata::{annotation, label, operation};
use groundwork_api::{
    DataObject, DeployItem, Execution, Installation, ObjectMeta, ResourceExt, Target, Time,
};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Secret;

use super::metadata::{annotation as annotation_of, is_set};
use super::phase::Phase;
use super::protocol::HasJob as _;
use crate::siblings::DataName;

/// What a step takes from the outside.
#[derive(Debug, Clone)]
pub struct Moment {
    /// The current time; statuses hold whole seconds.
    pub now: Time,
    /// The id of a job, should one start in this step.
    pub job_id: String,
    /// How long a deployer may take to pick an item up; `None` switches the limit off.
    pub pickup_timeout: Option<SignedDuration>,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// Read something and put it into the Tree.
    Read(Read),
    /// Read the inputs of the job, render, and put the result into [`Tree`](super::Tree)`::prepared`.
    Prepare,
    /// Read the inputs of the job and what lies in the own scope, render the exports, and put the result into
    /// [`Tree`](super::Tree)`::completion`.
    Complete,
    /// Read the imported objects again and put their hash into [`Tree`](super::Tree)`::imports_hash`.
    HashImports,
    /// Write these, in any order and side by side, and put the objects as stored into the Tree.
    Write(Vec<Write>),
    /// Nothing, until an object changes.
    Rest,
    /// Nothing, here and below, until another Installation has come further. Its event says so; since that may get lost, look again now and
    /// then.
    Wait,
}

/// An object or several to read directly from the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Read {
    Installation,
    /// The existence of the owner of the Installation, which has this name, for [`Tree`](super::Tree)`::has_parent`.
    Parent(String),
    Execution,
    /// All DeployItems with the label of the Execution.
    ListItems,
    /// DeployItems by name.
    Items(Vec<String>),
    /// Values that DeployItems export: names of Secrets, by template name.
    Exports(Vec<(String, String)>),
    /// Whether a Target of this name exists, for [`Tree`](super::Tree)`::targets`.
    Target(String),
    /// Names of DataObjects and Targets in the Installation's own scope that stem from another job.
    StaleCopies,
    /// Names of DataObjects and Targets that the Installation exported in former jobs.
    OwnExports,
    /// All nested installations with the label of the Installation.
    ListChildren,
    /// Nested installations by name.
    Children(Vec<String>),
    /// The siblings whose exports the Installation imports, for [`Tree`](super::Tree)`::predecessors`.
    Predecessors,
    /// Names of the siblings that import its exports, for [`Tree`](super::Tree)`::dependents`.
    Dependents,
    /// The siblings that import its exports, for [`Tree`](super::Tree)`::successors`.
    Successors,
}

/// A sibling as read from the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sibling {
    pub name: String,
    pub job_id: String,
    pub job_id_finished: String,
    pub phase: Phase,
    /// A job was asked for that has not begun.
    pub requests_job: bool,
}

impl Sibling {
    pub fn of(installation: &Installation) -> Self {
        let job = installation.job();
        let metadata = &installation.metadata;
        let observed = installation.status.as_ref().map_or(0, |status| status.observed_generation);
        // 3.4: who follows its spec has asked by changing it.
        let follows = is_set(metadata, annotation::RECONCILE_IF_CHANGED)
            && metadata.generation.unwrap_or_default() != observed;
        let asks = annotation_of(metadata, annotation::OPERATION) == Some(operation::RECONCILE);
        Self {
            name: installation.name_any(),
            job_id: job.id.to_owned(),
            job_id_finished: job.finished.to_owned(),
            phase: installation.phase(),
            requests_job: (asks || follows) && !installation.is_deleting(),
        }
    }
}

/// What the siblings of an Installation have to do with it (5.2).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Predecessors {
    /// Those that exist.
    pub found: Vec<Sibling>,
    pub ambiguous: BTreeMap<DataName, BTreeSet<String>>,
    pub cycle: Option<Vec<String>>,
}

/// The most writes of one step, so that a caller can let others go between two steps.
pub(super) const MOST_WRITES: usize = 32;

/// One write of an object of a job, by its kind.
#[allow(clippy::large_enum_variant, reason = "few are held at a time")]
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    Installation(Change<Installation>),
    /// A nested installation.
    Child(Change<Installation>),
    /// Another Installation of the same scope.
    Sibling(MetadataPatch),
    Execution(Change<Execution>),
    DeployItem(Change<DeployItem>),
    DataObject(Change<DataObject>),
    Target(Change<Target>),
    /// What an execution keeps from one job to the next.
    Secret(Change<Secret>),
}

/// What happens to an object. Every change of something that exists carries the resourceVersion it was decided on.
#[derive(Debug, Clone, PartialEq)]
pub enum Change<K> {
    /// Create it; that it exists already is an answer, not a failure.
    Create(K),
    /// Create it, or replace what has its name.
    Ensure(K),
    /// The same, unless another Installation owns what has its name.
    Publish(K),
    Replace(K),
    /// Replace the status.
    Status(K),
    Metadata(MetadataPatch),
    /// Only exactly this object, and with a version only while it is in it.
    Delete {
        name: String,
        uid: Option<String>,
        resource_version: Option<String>,
    },
}

impl<K> Change<K> {
    pub(super) fn delete(metadata: &ObjectMeta) -> Self {
        Self::Delete {
            name: metadata.name.clone().unwrap_or_default(),
            uid: metadata.uid.clone(),
            resource_version: None,
        }
    }
}

impl<K: ResourceExt> Change<K> {
    /// Name of the object that changes.
    pub fn name(&self) -> String {
        match self {
            Self::Create(object)
            | Self::Ensure(object)
            | Self::Publish(object)
            | Self::Replace(object)
            | Self::Status(object) => object.name_any(),
            Self::Metadata(MetadataPatch { name, .. }) | Self::Delete { name, .. } => name.clone(),
        }
    }
}

/// A merge patch of metadata. Users' annotations and finalizers stay.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MetadataPatch {
    pub name: String,
    pub resource_version: Option<String>,
    /// The whole list, if it changes.
    pub finalizers: Option<Vec<String>>,
    /// Values to set, and annotations to remove.
    pub annotations: Vec<(&'static str, Option<String>)>,
}

impl MetadataPatch {
    pub(super) fn of(metadata: &ObjectMeta) -> Self {
        Self {
            name: metadata.name.clone().unwrap_or_default(),
            resource_version: metadata.resource_version.clone(),
            ..Self::default()
        }
    }
}

/// Something that a job cannot do without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Export values of the items can be read.
    Exports,
    /// The DataObject with the exports of the items.
    ExportHolder,
    Item,
    Execution,
    /// The status of the Execution, which names all items.
    ExecutionStatus,
    /// The copy of a data import, or of a target import.
    DataCopy,
    TargetCopy,
    Child,
    /// What is published in the scope of the siblings.
    DataExport,
    TargetExport,
    State,
}

impl Need {
    /// What a write is needed for; `None` where a refusal ends nothing and the write is tried again.
    pub fn of(write: &Write) -> Option<Self> {
        match write {
            Write::DeployItem(Change::Create(_) | Change::Replace(_)) => Some(Self::Item),
            Write::DataObject(Change::Ensure(object)) if is_export(&object.metadata) => {
                Some(Self::ExportHolder)
            }
            Write::DataObject(Change::Ensure(_)) => Some(Self::DataCopy),
            Write::Target(Change::Ensure(_)) => Some(Self::TargetCopy),
            Write::DataObject(Change::Publish(_)) => Some(Self::DataExport),
            Write::Target(Change::Publish(_)) => Some(Self::TargetExport),
            Write::Child(Change::Create(_) | Change::Replace(_)) => Some(Self::Child),
            Write::Secret(_) => Some(Self::State),
            Write::Execution(Change::Create(_) | Change::Replace(_)) => Some(Self::Execution),
            Write::Execution(Change::Status(_)) => Some(Self::ExecutionStatus),
            Write::Installation(_)
            | Write::Child(_)
            | Write::Sibling(_)
            | Write::Execution(_)
            | Write::DeployItem(_)
            | Write::DataObject(_)
            | Write::Target(_) => None,
        }
    }
}

/// Whether a DataObject holds what an Execution exports.
fn is_export(metadata: &ObjectMeta) -> bool {
    let source = metadata.labels.as_ref().and_then(|labels| labels.get(label::DATA_SOURCE));
    source.is_some_and(|source| source.starts_with("Exec."))
}

/// A step of a single write.
pub(super) fn write(write: Write) -> Next {
    Next::Write(vec![write])
}

/// As many of these writes as one step may have; `None` if there are none.
pub(super) fn write_some(writes: impl Iterator<Item = Write>) -> Option<Next> {
    let writes: Vec<Write> = writes.take(MOST_WRITES).collect();
    (!writes.is_empty()).then_some(Next::Write(writes))
}
