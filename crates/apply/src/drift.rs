//! Detection and repair of objects that differ from the state that the last job left
//! (`installations.md` 7.9, drift).
//!
//! ```text
//! record ──GET──> suspects: another fingerprint ──manifests──> dry run ──> differences: field, manager ──repair──> written again
//! ```
//!
//! A check of unchanged objects costs one read of each, and needs no manifest.

mod fields;
mod settings;

use std::collections::HashMap;

use futures::stream::{self, StreamExt as _};
use serde_json::{Map, Value};

use crate::cluster::{Cluster, ResourceKind};
use crate::configuration::{Manifest, Policy, UpdateStrategy};
use crate::declared::{Declared, create_declared};
use crate::error::ApplyError;
use crate::object::{Reference, is_being_deleted, merge_over};
use crate::ownership::{Marked, Owner, Whose};
use crate::prepare::{annotate, expand, kind_of, prepare};
use crate::record::{Applied, ManagedResource};
use crate::server_side::{ServerSideApply, server_side_apply, would_be};
use crate::update::merge;
pub use fields::{FieldChange, FieldChangeKind};
pub use settings::{Drift, DriftMode, IgnoreRule};

/// Maximum objects of an item that are read or compared concurrently. Jobs use more.
const SIDE_BY_SIDE: usize = 4;

/// An item, and the data with which its objects are compared.
#[derive(Debug)]
pub struct DriftCheck<'a> {
    pub cluster: &'a Cluster,
    pub owner: &'a Owner,
    pub drift: &'a Drift,
    pub strategy: UpdateStrategy,
    /// Record of the last job.
    pub applied: &'a [ManagedResource],
    /// Findings of the previous check for the same job.
    pub before: &'a Findings,
}

/// Desired state of an object.
#[derive(Debug, Clone)]
pub struct Wanted {
    pub reference: Reference,
    pub kind: ResourceKind,
    pub policy: Policy,
    /// Manifest with the marks (labels and annotations) of its owner.
    pub manifest: Value,
    /// Annotations for an object that is created.
    pub annotations: Map<String, Value>,
    /// Patch that a job merges over the manifest after everything is ready.
    pub patch: Option<Value>,
}

/// Findings of a check, by object.
pub type Findings = HashMap<Reference, Finding>;

/// A difference, with the fingerprint of the object that has it. While the fingerprint stays the
/// same, the object is not compared again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    live: Option<String>,
    pub difference: Option<Difference>,
}

impl Finding {
    /// Creates a finding without a fingerprint, so that the object is compared anew each time.
    pub fn of(difference: Difference) -> Self {
        Self { live: None, difference: Some(difference) }
    }
}

/// Difference between an object and its desired state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {
    Gone(Manifested),
    /// The object carries the mark of another item or release, which has taken it over.
    Taken(Marked),
    Fields(Manifested, Vec<FieldChange>),
}

/// The current manifest of an object, compared with the one that the job has applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manifested {
    Same,
    /// The manifest differs because it has random parts. So the comparison finds only changes by
    /// other field managers, and a write would also change the random parts.
    Otherwise,
}

/// An object whose fingerprint differs from the one in the job's record.
#[derive(Debug)]
pub struct Suspect {
    reference: Reference,
    live: Option<Value>,
}

/// Result of a check.
#[derive(Debug, Default)]
pub struct DriftReport {
    pub findings: Findings,
    /// Objects that could not be compared, with the reason.
    pub problems: Vec<String>,
    /// Objects that were written again, with their earlier differences.
    pub repaired: Vec<(Reference, Difference)>,
}

impl DriftReport {
    /// Reports whether any difference can be repaired by a write.
    pub fn is_repairable(&self) -> bool {
        self.findings
            .values()
            .filter_map(|finding| finding.difference.as_ref())
            .any(Difference::is_repairable)
    }

    /// Returns the objects that differ, sorted by name.
    pub fn differences(&self) -> Vec<(&Reference, &Difference)> {
        let differences = self.findings.iter();
        let mut differences: Vec<_> = differences
            .filter_map(|(reference, finding)| Some((reference, finding.difference.as_ref()?)))
            .collect();
        differences.sort_unstable_by_key(|(reference, _)| *reference);
        differences
    }
}

/// Returns the desired objects of manifests, as a job would apply them.
///
/// # Errors
///
/// As for a job: manifests that cannot be used, or a kind that the cluster does not know.
pub async fn wanted(
    cluster: &Cluster,
    manifests: &[Manifest],
    owner: &Owner,
    default_namespace: Option<&str>,
) -> Result<Vec<Wanted>, ApplyError> {
    let objects = expand(manifests).map_err(|problems| ApplyError::Configuration(problems.join("; ")))?;
    let groups = prepare(cluster, objects, owner, default_namespace).await?;
    let mut wanted = Vec::new();
    for member in groups.into_iter().flatten() {
        let Some(kind) = kind_of(cluster, &member).await? else { continue };
        let Manifest { policy, manifest, .. } = member.manifest;
        let (annotations, patch) =
            (member.manifest.annotate_before_create, member.manifest.patch_after_deployment);
        wanted.push(Wanted { reference: member.reference, kind, policy, manifest, annotations, patch });
    }
    Ok(wanted)
}

impl DriftCheck<'_> {
    /// Reads the objects of the record. Returns the earlier findings that are still true, and the
    /// suspects that must be compared.
    ///
    /// # Errors
    ///
    /// The cluster does not answer, or refuses.
    pub async fn suspects(&self) -> Result<(DriftReport, Vec<Suspect>), ApplyError> {
        let mut recorded: Vec<&ManagedResource> = self.applied.iter().collect();
        recorded.retain(|managed| managed.policy != Policy::Ignore && !self.drift.ignores(&managed.resource));
        let reads: Vec<_> = recorded.iter().map(|managed| self.cluster.get(&managed.resource)).collect();
        let answers: Vec<_> = stream::iter(reads).buffered(SIDE_BY_SIDE).collect().await;
        let (mut report, mut suspects) = (DriftReport::default(), Vec::new());
        for (managed, live) in recorded.into_iter().zip(answers) {
            let (reference, live) = (managed.resource.clone(), live?);
            let fingerprint = live.as_ref().map(fingerprint);
            let job = managed.applied.as_ref().map(|applied| &applied.live);
            match self.before.get(&reference).filter(|finding| finding.live == fingerprint) {
                Some(finding) => drop(report.findings.insert(reference, finding.clone())),
                None if fingerprint.is_some() && fingerprint.as_ref() == job => {}
                None => suspects.push(Suspect { reference, live }),
            }
        }
        Ok((report, suspects))
    }

    /// Compares suspects with their desired state. A suspect that is no longer in the manifests is
    /// left to the next job.
    pub async fn compare(&self, suspects: Vec<Suspect>, wanted: &[Wanted], report: &mut DriftReport) {
        let mut work = Vec::new();
        for suspect in suspects {
            if let Some(wanted) = wanted.iter().find(|wanted| wanted.reference.is_same(&suspect.reference)) {
                work.push(self.finding(suspect, wanted));
            }
        }
        let answers: Vec<_> = stream::iter(work).buffered(SIDE_BY_SIDE).collect().await;
        for answer in answers {
            match answer {
                Ok((reference, finding)) => drop(report.findings.insert(reference, finding)),
                Err(error) => report.problems.push(error.to_string()),
            }
        }
        report.problems.sort_unstable();
    }

    async fn finding(&self, suspect: Suspect, wanted: &Wanted) -> Result<(Reference, Finding), ApplyError> {
        let difference = self.difference(&suspect, wanted).await?;
        let live = suspect.live.as_ref().map(fingerprint);
        Ok((suspect.reference, Finding { live, difference }))
    }

    async fn difference(&self, suspect: &Suspect, wanted: &Wanted) -> Result<Option<Difference>, ApplyError> {
        let record = self.applied.iter().find(|managed| managed.resource == suspect.reference);
        let applied = record.and_then(|managed| managed.applied.as_ref());
        let now = Applied::new(&wanted.manifest, suspect.live.as_ref().unwrap_or(&Value::Null));
        let manifested = match applied.is_none_or(|applied| applied.manifest == now.manifest) {
            true => Manifested::Same,
            false => Manifested::Otherwise,
        };
        let Some(live) = &suspect.live else {
            return Ok((!goes_by_itself(&wanted.manifest)).then_some(Difference::Gone(manifested)));
        };
        // A deletion in progress is intended by a user, so it is not drift.
        if is_being_deleted(live) || wanted.policy == Policy::Immutable {
            return Ok(None);
        }
        if let Whose::Another(marked) = self.owner.whose(live) {
            return Ok(Some(Difference::Taken(marked)));
        }
        if wanted.policy == Policy::Fallback && !self.owner.is_labelled(live) {
            return Ok(None);
        }
        // The only differences were in annotations that the cluster writes and the manifest also
        // sets. Compared together with the manifest, the fingerprints match.
        if applied == Some(&now) {
            return Ok(None);
        }
        let manifest = self.manifest(wanted, live);
        let should_be = self.should_be(&wanted.kind, &manifest, live).await?;
        let manager = self.cluster.manager();
        let mut changes = fields::changes(live, &should_be, &Declared::new(&manifest).object, manager);
        if manifested == Manifested::Otherwise {
            changes.retain(|change| change.manager.as_deref().is_some_and(|other| other != manager));
        }
        Ok((!changes.is_empty()).then_some(Difference::Fields(manifested, changes)))
    }

    /// Returns the object that a write would produce from a live one.
    async fn should_be(
        &self,
        kind: &ResourceKind,
        manifest: &Value,
        live: &Value,
    ) -> Result<Value, ApplyError> {
        if matches!(self.strategy, UpdateStrategy::Merge | UpdateStrategy::MergeOverwrite) {
            let merged = merge(self.strategy, self.owner, manifest, live);
            return Ok(merged.unwrap_or_else(|| live.clone()));
        }
        Ok(would_be(self.cluster, kind, manifest, live).await?)
    }

    /// Returns the manifest with its patch, and with the live values of fields whose changes do not
    /// count.
    fn manifest(&self, wanted: &Wanted, live: &Value) -> Value {
        let mut manifest = wanted.manifest.clone();
        if let Some(patch) = &wanted.patch {
            merge_over(&mut manifest, patch);
        }
        for pointer in self.drift.pointers(&wanted.reference) {
            keep(&mut manifest, live, pointer);
        }
        manifest
    }

    /// Writes the differing objects again. Objects that another owner has taken, and objects with
    /// random parts in their manifest, are left to the next job.
    pub async fn repair(&self, wanted: &[Wanted], report: &mut DriftReport) {
        let differing: Vec<(Reference, Difference)> = report
            .differences()
            .into_iter()
            .filter(|(_, difference)| difference.is_repairable())
            .map(|(reference, difference)| (reference.clone(), difference.clone()))
            .collect();
        for (reference, difference) in differing {
            let Some(wanted) = wanted.iter().find(|wanted| wanted.reference.is_same(&reference)) else {
                continue;
            };
            match self.write(wanted).await {
                Ok(Some(stored)) => {
                    let live = Some(fingerprint(&stored));
                    report.findings.insert(reference.clone(), Finding { live, difference: None });
                    report.repaired.push((reference, difference));
                }
                Ok(None) => {}
                Err(error) => report.problems.push(format!("{reference} could not be repaired: {error}")),
            }
        }
    }

    /// Writes an object; `None` if it was replaced by another one meanwhile.
    async fn write(&self, wanted: &Wanted) -> Result<Option<Value>, ApplyError> {
        let live = self.cluster.get_of(&wanted.kind, &wanted.reference).await?;
        let answer = match &live {
            None => {
                let mut object = wanted.manifest.clone();
                annotate(&mut object, &wanted.annotations);
                create_declared(self.cluster, &wanted.kind, &object).await.map_err(ApplyError::from)
            }
            Some(live) if is_being_deleted(live) || matches!(self.owner.whose(live), Whose::Another(_)) => {
                return Ok(None);
            }
            Some(live) => self.write_over(wanted, live).await,
        };
        answer.map(|(stored, _)| Some(stored))
    }

    async fn write_over(&self, wanted: &Wanted, live: &Value) -> Result<(Value, Option<String>), ApplyError> {
        let manifest = self.manifest(wanted, live);
        if matches!(self.strategy, UpdateStrategy::Merge | UpdateStrategy::MergeOverwrite) {
            return Ok(match merge(self.strategy, self.owner, &manifest, live) {
                None => (live.clone(), None),
                Some(object) => (self.cluster.replace(&wanted.kind, &object).await?, None),
            });
        }
        let apply = ServerSideApply {
            kind: &wanted.kind,
            manifest: &manifest,
            live,
            former: None,
            predecessors: &[],
            is_repeated: false,
            // A new job may have begun since the manifest was read, so guard the write with the
            // version.
            is_guarded: true,
        };
        server_side_apply(self.cluster, &apply).await
    }
}

impl Difference {
    fn is_repairable(&self) -> bool {
        matches!(self, Self::Gone(Manifested::Same) | Self::Fields(Manifested::Same, _))
    }

    /// Formats a difference as a clause about the object, with names of fields and their managers.
    pub fn told(&self, reference: &Reference) -> String {
        match self {
            Self::Gone(_) => format!("{reference} is gone"),
            Self::Taken(marked) => format!("{reference} belongs to {marked} now"),
            Self::Fields(_, changes) => format!("{reference}: {}", fields::told(changes)),
        }
    }
}

/// Reports whether the object is a Job with a time to live, which its controller deletes after its
/// end.
fn goes_by_itself(manifest: &Value) -> bool {
    Reference::of(manifest).group() == "batch"
        && manifest["kind"] == "Job"
        && !manifest["spec"]["ttlSecondsAfterFinished"].is_null()
}

/// Returns the fingerprint of a live object without its manifest. Annotations that the cluster
/// writes do not count.
fn fingerprint(live: &Value) -> String {
    Applied::new(&Value::Null, live).live
}

/// Copies a field of the live object into the manifest, if the manifest gives the field.
fn keep(manifest: &mut Value, live: &Value, pointer: &str) {
    if manifest.pointer(pointer).is_none() {
        return;
    }
    if let Some(value) = live.pointer(pointer) {
        if let Some(given) = manifest.pointer_mut(pointer) {
            *given = value.clone();
        }
        return;
    }
    let Some((parent, name)) = pointer.rsplit_once('/') else { return };
    if let Some(Value::Object(members)) = manifest.pointer_mut(parent) {
        members.remove(&name.replace("~1", "/").replace("~0", "~"));
    }
}
