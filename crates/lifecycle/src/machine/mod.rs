//! The state machine of an Installation and what it owns: observed state in, next step out
//! (`installations.md` 2, 7, 8, 10).
//!
//! ```text
//! Tree (Installation, Execution, DeployItems as last read or written)
//!    └─ next ──> Read | Prepare | Write | Rest
//!          the caller does it, puts what came back into the Tree, and asks again
//! ```
//!
//! One step is one write, or several that do not depend on one another, so a process may die between any two and another one
//! finds its way: whatever a step needs is read from the objects. What a Tree remembers beyond them only saves reads.

mod execution;
mod installation;
mod items;
pub mod phase;
mod protocol;
mod status;
#[cfg(test)]
mod tests;
mod tree;

pub use installation::{MOST_ATTEMPTS, report};
pub use items::Items;
pub use protocol::{Job, is_final};
pub use status::{READY, RECONCILING, STALLED};
pub use tree::{Known, Part, StaleCopy, Tree};

use groundwork_api::metadata::label;
use groundwork_api::{
    DataObject, DeployItem, Execution, Installation, ObjectMeta, ResourceExt, Target, Time,
};

use jiff::SignedDuration;

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
    /// Read the inputs of the job, render, and put the result into [`Tree`]`::prepared`.
    Prepare,
    /// Read the imported objects again and put their hash into [`Tree`]`::imports_hash`.
    HashImports,
    /// Write these, in any order and side by side, and put the objects as stored into the Tree.
    Write(Vec<Write>),
    /// Nothing, until an object changes.
    Rest,
}

/// An object or several to read directly from the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Read {
    Installation,
    Execution,
    /// All DeployItems with the label of the Execution.
    ListItems,
    /// DeployItems by name.
    Items(Vec<String>),
    /// Values that DeployItems export: names of Secrets, by template name.
    Exports(Vec<(String, String)>),
    /// Whether a Target of this name exists, for [`Tree`]`::targets`.
    Target(String),
    /// Names of DataObjects and Targets in the Installation's own scope that stem from another job.
    StaleCopies,
}

/// The most writes of one step, so that a caller can let others go between two steps.
const MOST_WRITES: usize = 32;

/// One write.
#[allow(clippy::large_enum_variant, reason = "few are held at a time")]
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    Installation(Change<Installation>),
    Execution(Change<Execution>),
    DeployItem(Change<DeployItem>),
    DataObject(Change<DataObject>),
    Target(Change<Target>),
}

/// What happens to an object. Every change of something that exists carries the resourceVersion it was decided on.
#[derive(Debug, Clone, PartialEq)]
pub enum Change<K> {
    /// Create it; that it exists already is an answer, not a failure.
    Create(K),
    /// Create it, or replace what has its name.
    Ensure(K),
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
    fn delete(metadata: &ObjectMeta) -> Self {
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
            Self::Create(object) | Self::Ensure(object) | Self::Replace(object) | Self::Status(object) => {
                object.name_any()
            }
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
    fn of(metadata: &ObjectMeta) -> Self {
        Self {
            name: metadata.name.clone().unwrap_or_default(),
            resource_version: metadata.resource_version.clone(),
            ..Self::default()
        }
    }
}

/// The next step for a tree.
///
/// Repeating a step that has been done gives the following one, so a caller that lost an answer reads again.
pub fn next(tree: &mut Tree, moment: &Moment) -> Next {
    let step = installation::next(tree, moment);
    if step == Next::Rest { execution::next(tree, moment) } else { step }
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
            Write::Execution(Change::Create(_) | Change::Replace(_)) => Some(Self::Execution),
            Write::Execution(Change::Status(_)) => Some(Self::ExecutionStatus),
            _ => None,
        }
    }
}

/// What follows from the API server's final no to something that a job needs: its end. `None` if no job runs.
///
/// A job that can never end would hold off every other one, and its deletion too (2.1, 2.2).
pub fn refused(tree: &Tree, need: Need, cause: &str, moment: &Moment) -> Option<Write> {
    let of_execution = |reason| execution::refused(tree.execution.get()?, reason, cause, moment);
    match need {
        Need::Exports | Need::ExportHolder => of_execution("collectAndUpdateExports"),
        Need::Item | Need::ExecutionStatus => of_execution("CreateOrUpdateDeployItem"),
        Need::DataCopy => installation::refused(tree, "CreateDataObjects", cause, moment),
        Need::TargetCopy => installation::refused(tree, "CreateTargets", cause, moment),
        Need::Execution => installation::refused(tree, "CreateOrUpdateExecution", cause, moment),
    }
}

/// Whether a DataObject holds what an Execution exports.
fn is_export(metadata: &ObjectMeta) -> bool {
    let source = metadata.labels.as_ref().and_then(|labels| labels.get(label::DATA_SOURCE));
    source.is_some_and(|source| source.starts_with("Exec."))
}

fn write(write: Write) -> Next {
    Next::Write(vec![write])
}

/// As many of these writes as one step may have; `None` if there are none.
fn write_some(writes: impl Iterator<Item = Write>) -> Option<Next> {
    let writes: Vec<Write> = writes.take(MOST_WRITES).collect();
    (!writes.is_empty()).then_some(Next::Write(writes))
}

fn annotation<'a>(metadata: &'a ObjectMeta, name: &str) -> Option<&'a str> {
    metadata.annotations.as_ref().and_then(|annotations| annotations.get(name)).map(String::as_str)
}

fn is_set(metadata: &ObjectMeta, name: &str) -> bool {
    annotation(metadata, name) == Some("true")
}

fn has_finalizer(metadata: &ObjectMeta) -> bool {
    metadata.finalizers.iter().flatten().any(|finalizer| finalizer == groundwork_api::metadata::FINALIZER)
}

/// The patch that adds our finalizer.
fn with_finalizer(metadata: &ObjectMeta) -> MetadataPatch {
    let ours = groundwork_api::metadata::FINALIZER.to_owned();
    let finalizers = metadata.finalizers.iter().flatten().cloned().chain([ours]).collect();
    MetadataPatch { finalizers: Some(finalizers), ..MetadataPatch::of(metadata) }
}

/// The patch that takes our finalizer away.
fn without_finalizer(metadata: &ObjectMeta) -> MetadataPatch {
    let others =
        metadata.finalizers.iter().flatten().filter(|name| *name != groundwork_api::metadata::FINALIZER);
    MetadataPatch { finalizers: Some(others.cloned().collect()), ..MetadataPatch::of(metadata) }
}
