//! What a plan says, for people and programs. Members are only ever added.

use groundwork_api::{ComponentVersionOverwrites, Context, DataObject, Installation, Kind as _, Target};
use groundwork_component::{Reference, RepositoryContext};
use groundwork_fleet::Field;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// What would happen if objects were applied.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// What applying itself changes, by kind, namespace and name.
    pub applied: Vec<ObjectChange>,
    /// Root Installations whose job would do something else than the last one, or would run: in the order in which they run.
    pub installations: Vec<PlannedInstallation>,
    /// What stands in the way of some jobs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

impl Plan {
    /// Whether nothing would change and no job would run.
    pub fn is_empty(&self) -> bool {
        self.applied.iter().all(|object| object.change == Change::Unchanged)
            && self.installations.is_empty()
            && self.problems.is_empty()
    }

    /// Every planned Installation, parents first.
    pub fn all(&self) -> Vec<&PlannedInstallation> {
        self.installations.iter().flat_map(PlannedInstallation::all).collect()
    }
}

/// What becomes of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Change {
    Created,
    Changed,
    Deleted,
    Unchanged,
    /// It is not known before deployers have run.
    Unknown,
}

/// An object that is applied.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ObjectChange {
    #[serde(deserialize_with = "read_kind")]
    pub kind: KindName,
    pub namespace: String,
    pub name: String,
    pub change: Change,
    /// Every difference by its path, of a changed object. What may be secret is hidden.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<Field>,
}

/// When the job of a root begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Start {
    /// It is asked for by what is applied.
    Now,
    /// When the jobs of those end that it imports from.
    AfterPredecessors,
    /// Nothing that is applied asks for it: whenever the next job runs.
    NextJob,
}

/// Why a job would run, or would do something else.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "camelCase")]
pub enum Reason {
    New,
    SpecChanged,
    /// A job is asked for although the spec stays.
    Requested,
    /// The Context, overwrites or its spec lead to another component version.
    Redirected,
    /// `from` is the object that changes; `exporter` the planned Installation that changes it, if one does.
    ImportChanged {
        import: String,
        from: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        exporter: Option<String>,
    },
    /// Jobs of Installations that it imports from wake it, also if they export what they did.
    PredecessorsRun {
        predecessors: Vec<String>,
    },
}

/// A place in what an Installation refers to that leads elsewhere.
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

/// The name of a kind. Written as a reference, derived code would take it from the text that is read.
type KindName = &'static str;

/// The kinds of objects that plans speak of.
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
    known.ok_or_else(|| D::Error::custom(format!("no plan speaks of the kind {name:?}")))
}

/// A reference by the names of its members.
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

/// What the job of an Installation would do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedInstallation {
    pub namespace: String,
    /// Absent where it depends on a UID that nobody knows yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The name of the root and the templates that lead from there.
    pub path: Vec<String>,
    pub change: Change,
    /// Of roots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<Start>,
    /// Of roots.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<Reason>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub redirected: Vec<Redirection>,
    /// Differences of the spec.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<Field>,
    /// Why the job would fail; what it holds stays as it is then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Why it is not known before other jobs have run what this one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    pub items: Vec<PlannedItem>,
    pub exports: Vec<PlannedExport>,
    /// Nested installations in the order in which they run, then those that go.
    pub nested: Vec<PlannedInstallation>,
}

impl PlannedInstallation {
    /// It and all that are nested in it.
    pub fn all(&self) -> Vec<&Self> {
        let mut all = vec![self];
        all.extend(self.nested.iter().flat_map(Self::all));
        all
    }
}

/// A DeployItem. One that stays as it is is deployed again all the same, unless it says `updateOnChangeOnly`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedItem {
    /// Absent where it depends on a UID that nobody knows yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub template: String,
    #[serde(rename = "type")]
    pub type_: String,
    pub change: Change,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<Field>,
}

/// A DataObject or Target that an Installation publishes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedExport {
    #[serde(deserialize_with = "read_kind")]
    pub kind: KindName,
    /// Of the object.
    pub name: String,
    /// As the Installation calls it.
    pub key: String,
    pub change: Change,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<Field>,
    /// Why it is not known what it will be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Names of the Installations beside it that import it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wakes: Vec<String>,
}
