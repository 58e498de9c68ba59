//! Plan as shown to users and programs. The format is only ever extended by members.

use groundwork_api::{ComponentVersionOverwrites, Context, DataObject, Installation, Kind as _, Target};
use groundwork_component::{Reference, RepositoryContext};
use groundwork_fleet::Field;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// Effects of applying objects.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// Changes of the applied objects themselves, by kind, namespace and name.
    pub applied: Vec<ObjectChange>,
    /// Root Installations whose job would run, or would have another result than the last one, in
    /// the order in which they run.
    pub installations: Vec<PlannedInstallation>,
    /// Problems that prevent some jobs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

impl Plan {
    /// Reports whether no object changes and no job runs.
    pub fn is_empty(&self) -> bool {
        self.applied.iter().all(|object| object.change == Change::Unchanged)
            && self.installations.is_empty()
            && self.problems.is_empty()
    }

    /// Returns every planned Installation, parents first.
    pub fn all(&self) -> Vec<&PlannedInstallation> {
        self.installations.iter().flat_map(PlannedInstallation::all).collect()
    }
}

/// Change of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Change {
    Created,
    Changed,
    Deleted,
    Unchanged,
    /// The change is unknown until deployers have run.
    Unknown,
}

/// Applied object.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ObjectChange {
    #[serde(deserialize_with = "read_kind")]
    pub kind: KindName,
    pub namespace: String,
    pub name: String,
    pub change: Change,
    /// Differences of a changed object, by path. Values that may be secret are hidden.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<Field>,
}

/// Start of a root's job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Start {
    /// The applied objects request the job.
    Now,
    /// The job starts after the jobs of the Installations that it imports from.
    AfterPredecessors,
    /// The applied objects do not request the job. It starts with the next request.
    NextJob,
}

/// Reason for a job to run, or to have another result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "camelCase")]
pub enum Reason {
    New,
    SpecChanged,
    /// A job is requested without a change of the spec.
    Requested,
    /// The spec, the Context or its overwrites lead to another component version.
    Redirected,
    /// `from` is the changed object. `exporter` is the planned Installation that changes it, if
    /// there is one.
    ImportChanged {
        import: String,
        from: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        exporter: Option<String>,
    },
    /// Jobs of other Installations, from which this one imports, trigger its job, even if their
    /// exports stay the same.
    PredecessorsRun {
        predecessors: Vec<String>,
    },
}

/// Reference of an Installation that leads to another version.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Redirection {
    /// Local names from the component on; empty for the component itself.
    pub path: String,
    #[serde(
        serialize_with = "reference",
        deserialize_with = "read_reference",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub before: Option<Reference>,
    #[serde(
        serialize_with = "reference",
        deserialize_with = "read_reference",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub after: Option<Reference>,
}

fn reference<S: Serializer>(reference: &Option<Reference>, serializer: S) -> Result<S::Ok, S::Error> {
    let reference = reference.as_ref();
    let members = reference.map(|reference| {
        serde_json::json!({
            "repositoryContext": reference.repository.as_ref().map(RepositoryContext::as_value),
            "componentName": reference.name, "version": reference.version,
        })
    });
    members.serialize(serializer)
}

/// Name of a kind. A type alias is used, because derived code would borrow a plain reference from
/// the parsed text.
type KindName = &'static str;

/// Kinds of objects in plans.
const KINDS: [&str; 7] = [
    Installation::KIND,
    Context::KIND,
    ComponentVersionOverwrites::KIND,
    DataObject::KIND,
    Target::KIND,
    "Secret",
    "ConfigMap",
];

fn read_kind<'de, D: Deserializer<'de>>(deserializer: D) -> Result<KindName, D::Error> {
    let name = String::deserialize(deserializer)?;
    let known = KINDS.into_iter().find(|kind| *kind == name);
    known.ok_or_else(|| D::Error::custom(format!("plans do not contain the kind {name:?}")))
}

/// Reference with named members, for serialization.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Members {
    #[serde(default)]
    repository_context: Value,
    component_name: String,
    version: String,
}

fn read_reference<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Reference>, D::Error> {
    let members = Option::<Members>::deserialize(deserializer)?;
    Ok(members.map(|members| Reference {
        repository: RepositoryContext::new(members.repository_context),
        name: members.component_name,
        version: members.version,
    }))
}

/// Effects of an Installation's job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedInstallation {
    pub namespace: String,
    /// Absent if the name depends on a UID that the API server has not assigned yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Name of the root, followed by the templates that lead to this Installation.
    pub path: Vec<String>,
    pub change: Change,
    /// Start of the job, for roots only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<Start>,
    /// Reasons for the job, for roots only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<Reason>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub redirected: Vec<Redirection>,
    /// Differences of the spec.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<Field>,
    /// Error of the job. Its objects stay unchanged then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Reason why the effects of this job are unknown before other jobs have run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    pub items: Vec<PlannedItem>,
    pub exports: Vec<PlannedExport>,
    /// Nested Installations in the order in which they run, then those that are deleted.
    pub nested: Vec<PlannedInstallation>,
}

impl PlannedInstallation {
    /// Returns the Installation and all Installations nested in it.
    pub fn all(&self) -> Vec<&Self> {
        let mut all = vec![self];
        all.extend(self.nested.iter().flat_map(Self::all));
        all
    }
}

/// DeployItem of the plan. An unchanged item is deployed again all the same, unless it sets
/// `updateOnChangeOnly`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedItem {
    /// Absent if the name depends on a UID that the API server has not assigned yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub template: String,
    #[serde(rename = "type")]
    pub type_: String,
    pub change: Change,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<Field>,
}

/// DataObject or Target that an Installation publishes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedExport {
    #[serde(deserialize_with = "read_kind")]
    pub kind: KindName,
    /// Name of the object.
    pub name: String,
    /// Name of the export in the Installation.
    pub key: String,
    pub change: Change,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<Field>,
    /// Reason why the new value is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Names of the sibling Installations that import the object.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wakes: Vec<String>,
}
