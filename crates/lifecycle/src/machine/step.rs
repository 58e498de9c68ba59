//! Types of the interface between machine and caller: reads, writes, and the needs of a job.

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

/// External inputs of a step.
#[derive(Debug, Clone)]
pub struct Moment {
    /// Current time, in whole seconds as in a status.
    pub now: Time,
    /// Id for a job that starts in this step.
    pub job_id: String,
    /// Time that a deployer may take to pick an item up; `None` switches the limit off.
    pub pickup_timeout: Option<SignedDuration>,
}

/// Next step for the caller.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// Read objects and put them into the Tree.
    Read(Read),
    /// Read the inputs of the job, render, and put the result into
    /// [`Tree`](super::Tree)`::prepared`.
    Prepare,
    /// Read the inputs of the job and the objects in the Installation's own scope, render the
    /// exports, and put the result into [`Tree`](super::Tree)`::completion`.
    Complete,
    /// Read the imported objects again and put their hash into
    /// [`Tree`](super::Tree)`::imports_hash`.
    HashImports,
    /// Execute these writes, in any order and concurrently, and put the stored objects into the
    /// Tree.
    Write(Vec<Write>),
    /// Do nothing until an object changes.
    Rest,
    /// Do nothing, for this tree, until another Installation makes progress. Its event announces
    /// that. Because an event may get lost, check again from time to time.
    Wait,
}

/// One or several objects to read directly from the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Read {
    Installation,
    /// Existence of the owner with this name, for [`Tree`](super::Tree)`::has_parent`.
    Parent(String),
    Execution,
    /// All DeployItems with the label of the Execution.
    ListItems,
    /// DeployItems by name.
    Items(Vec<String>),
    /// Values that DeployItems export: names of Secrets, by template name.
    Exports(Vec<(String, String)>),
    /// Existence of a Target with this name, for [`Tree`](super::Tree)`::targets`.
    Target(String),
    /// Names of DataObjects and Targets in the Installation's own scope that an earlier job wrote.
    StaleCopies,
    /// Names of DataObjects and Targets that the Installation exported in former jobs.
    OwnExports,
    /// All nested Installations with the label of the Installation.
    ListChildren,
    /// Nested installations by name.
    Children(Vec<String>),
    /// Siblings whose exports the Installation imports, for [`Tree`](super::Tree)`::predecessors`.
    Predecessors,
    /// Names of the siblings that import the Installation's exports, for
    /// [`Tree`](super::Tree)`::dependents`.
    Dependents,
    /// Siblings that import the Installation's exports, for [`Tree`](super::Tree)`::successors`.
    Successors,
}

/// A sibling as read from the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sibling {
    pub name: String,
    pub job_id: String,
    pub job_id_finished: String,
    pub phase: Phase,
    /// True if a requested job has not begun.
    pub requests_job: bool,
}

impl Sibling {
    pub fn of(installation: &Installation) -> Self {
        let job = installation.job();
        let metadata = &installation.metadata;
        let observed = installation.status.as_ref().map_or(0, |status| status.observed_generation);
        // `installations.md` 3.4: with `reconcile-if-changed`, a changed spec counts as a request.
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

/// Siblings that an Installation depends on (`installations.md` 5.2).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Predecessors {
    /// Siblings that exist.
    pub found: Vec<Sibling>,
    pub ambiguous: BTreeMap<DataName, BTreeSet<String>>,
    pub cycle: Option<Vec<String>>,
}

/// Largest number of writes in one step, so that a caller can serve other objects between two
/// steps.
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
    /// State that an execution keeps from one job to the next.
    Secret(Change<Secret>),
}

/// Change of an object. Every change of an existing object carries the resourceVersion that the
/// decision was based on.
#[derive(Debug, Clone, PartialEq)]
pub enum Change<K> {
    /// Create the object. If it exists already, the caller reads it, and the step does not count as
    /// a failure.
    Create(K),
    /// Create the object, or replace the object of the same name.
    Ensure(K),
    /// Create or replace the object, unless another Installation owns the object of the same name.
    Publish(K),
    Replace(K),
    /// Replace the status.
    Status(K),
    Metadata(MetadataPatch),
    /// Delete the object with exactly this UID and, if given, only at this version.
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
    /// Returns the name of the object that changes.
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

/// Merge patch of metadata. Annotations and finalizers of users stay.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MetadataPatch {
    pub name: String,
    pub resource_version: Option<String>,
    /// Complete new list; `None` if it does not change.
    pub finalizers: Option<Vec<String>>,
    /// Annotations to set, and with `None` to remove.
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

/// Object or value that a job cannot do without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Read access to the export values of the items.
    Exports,
    /// The DataObject with the exports of the items.
    ExportHolder,
    Item,
    Execution,
    /// Status of the Execution, which names all items.
    ExecutionStatus,
    /// Copy of a data import or of a target import.
    DataCopy,
    TargetCopy,
    Child,
    /// Export to the scope of the siblings.
    DataExport,
    TargetExport,
    State,
}

impl Need {
    /// Returns the need that a write serves; `None` if a rejected write does not end the job and is
    /// retried.
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

/// Reports whether a DataObject stores the exports of an Execution.
fn is_export(metadata: &ObjectMeta) -> bool {
    let source = metadata.labels.as_ref().and_then(|labels| labels.get(label::DATA_SOURCE));
    source.is_some_and(|source| source.starts_with("Exec."))
}

/// Returns a step with a single write.
pub(super) fn write(write: Write) -> Next {
    Next::Write(vec![write])
}

/// Returns a step with as many of these writes as it may have; `None` if there are none.
pub(super) fn write_some(writes: impl Iterator<Item = Write>) -> Option<Next> {
    let writes: Vec<Write> = writes.take(MOST_WRITES).collect();
    (!writes.is_empty()).then_some(Next::Write(writes))
}
