//! Types of the interface between machine and caller: reads, steps, and the needs of a job.

use std::collections::{BTreeMap, BTreeSet};

use groundwork_api::metadata::{annotation, label, operation};
use groundwork_api::{Installation, ObjectMeta, ResourceExt, Time};
use jiff::SignedDuration;

use super::metadata::{annotation as annotation_of, is_set};
use crate::phase::Phase;
use crate::protocol::HasJob as _;
use crate::siblings::DataName;
use crate::write::{Change, Write};

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
    /// Do nothing for this tree until another Installation makes progress. An event of that
    /// Installation announces the progress. Because an event may get lost, check again from time to
    /// time.
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
