//! Records of package revisions: what git cannot hold, and a copy of git for readers
//! (`packagevariants.md` 6.14).
//!
//! ```text
//! git: Revision ──wanted──> RevisionRecord <──attributes── requests of users
//!                                │
//!                             served ──> PackageRevision
//! ```

use std::collections::BTreeMap;

use groundwork_api::metadata::label;
use groundwork_api::{
    GitLock, List, Map, ObjectMeta, PackageCondition, PackageRevision, PackageRevisionStatus,
    ResourceExt as _, RevisionRecord,
};
use groundwork_controller::{ApiError, Objects, ReconcileError};
use groundwork_packages::git::{GitRepository, Revision};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use sha2::{Digest as _, Sha256};

/// Attributes of a new revision that only the cluster knows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Attributes {
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) annotations: BTreeMap<String, String>,
    pub(crate) finalizers: Vec<String>,
    pub(crate) owners: Vec<OwnerReference>,
}

/// Text for users about a revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Note<'a> {
    /// The former text stays until the lifecycle changes.
    Kept,
    Told(&'a str),
}

/// Returns the PackageRevision of a record.
pub(crate) fn served(record: &RevisionRecord) -> PackageRevision {
    let attributes = &record.attributes;
    let pairs = |map: &Map<String>| (!map.is_empty()).then(|| (**map).clone());
    let texts = |list: &List<String>| (!list.is_empty()).then(|| list.to_vec());
    let owners = attributes.owner_references.to_vec();
    let metadata = ObjectMeta {
        name: record.metadata.name.clone(),
        namespace: record.metadata.namespace.clone(),
        uid: record.metadata.uid.as_deref().map(uid_of),
        resource_version: record.metadata.resource_version.clone(),
        creation_timestamp: record.metadata.creation_timestamp.clone(),
        deletion_timestamp: attributes.deletion_timestamp.clone(),
        deletion_grace_period_seconds: attributes.deletion_timestamp.as_ref().map(|_| 0),
        labels: pairs(&attributes.labels),
        annotations: pairs(&attributes.annotations),
        finalizers: texts(&attributes.finalizers),
        owner_references: (!owners.is_empty()).then_some(owners),
        ..ObjectMeta::default()
    };
    let mut status = record.status.clone().unwrap_or_default();
    if !attributes.conditions.is_empty() {
        status.conditions = conditions(&status.conditions, &attributes.conditions).into();
    }
    PackageRevision { metadata, spec: record.spec.clone(), status: Some(status) }
}

/// Returns the conditions of the Kptfile, and those that programs have written. These win.
fn conditions(in_git: &[PackageCondition], written: &[PackageCondition]) -> Vec<PackageCondition> {
    let is_written =
        |condition: &&PackageCondition| written.iter().all(|found| found.type_ != condition.type_);
    in_git.iter().filter(is_written).chain(written).cloned().collect()
}

/// Returns the UID of the PackageRevision of a record. Two objects must not share a UID, because
/// the garbage collector takes them for one.
fn uid_of(record: &str) -> String {
    let hash = Sha256::digest(record.as_bytes());
    let mut bytes: Vec<u8> = hash.iter().take(16).copied().collect();
    // The bits of a UUID of version 8, which is free to say where it comes from.
    bytes[6] = bytes[6] & 0x0f | 0x80;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    [&text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..]].join("-")
}

/// Returns the record that a revision should have, based on the present one.
pub(crate) fn wanted(
    repository: &GitRepository,
    revision: &Revision,
    is_latest: Option<bool>,
    present: Option<&RevisionRecord>,
    note: Note<'_>,
) -> RevisionRecord {
    let mut in_git = revision.object(&repository.settings().place());
    if let Some(lock) = upstream_lock(&mut in_git.status) {
        // A tree never changes, and the lookup reads from disk.
        let mut former = present.and_then(|present| present.status.clone());
        let known = upstream_lock(&mut former).filter(|former| {
            former.commit == lock.commit && former.repo == lock.repo && former.directory == lock.directory
        });
        let known = known.and_then(|former| former.tree.clone());
        lock.tree = known.or_else(|| repository.tree_of(lock));
    }
    let mut record = present.cloned().unwrap_or_default();
    record.metadata.name = in_git.metadata.name;
    record.metadata.namespace = in_git.metadata.namespace;
    let mut labels = (*record.attributes.labels).clone();
    match is_latest {
        Some(true) => drop(labels.insert(label::LATEST_REVISION.to_owned(), "true".to_owned())),
        Some(false) => drop(labels.remove(label::LATEST_REVISION)),
        // A caller that knows only this revision leaves the label to the sync, which knows them
        // all.
        None => {}
    }
    record.attributes.labels = Map::unless_empty(labels);
    let has_moved = record.spec.lifecycle != in_git.spec.lifecycle;
    let former = record.status.take().and_then(|status| status.message).filter(|_| !has_moved);
    let message = match note {
        Note::Kept => former,
        Note::Told(text) => Some(text.to_owned()).filter(|text| !text.is_empty()),
    };
    record.spec = in_git.spec;
    record.status = Some(PackageRevisionStatus { message, ..in_git.status.unwrap_or_default() });
    record
}

fn upstream_lock(status: &mut Option<PackageRevisionStatus>) -> Option<&mut GitLock> {
    status.as_mut()?.upstream_lock.as_mut()?.git.as_mut()
}

/// Creates or updates a record so that it mirrors git. An unchanged record is not written.
/// `attributes` are those of a new record.
pub(crate) async fn ensure(
    repository: &GitRepository,
    revision: &Revision,
    is_latest: Option<bool>,
    present: Option<RevisionRecord>,
    attributes: Attributes,
    note: Note<'_>,
    objects: &Objects,
) -> Result<RevisionRecord, ApiError> {
    let mut wanted = wanted(repository, revision, is_latest, present.as_ref(), note);
    match present {
        Some(present) if present == wanted => Ok(present),
        Some(_) => objects.replace(&wanted).await,
        None => {
            let Attributes { labels, annotations, finalizers, owners } = attributes;
            let own = std::mem::take(&mut wanted.attributes.labels);
            wanted.attributes.labels = Map::unless_empty(own.into_iter().chain(labels).collect());
            wanted.attributes.annotations = Map::unless_empty(annotations);
            wanted.attributes.finalizers = List::unless_empty(finalizers);
            wanted.attributes.owner_references = List::unless_empty(owners);
            objects.create(&wanted).await
        }
    }
}

/// Replaces labels, annotations, finalizers and owners of a record.
pub(crate) fn with_metadata(record: &mut RevisionRecord, metadata: &ObjectMeta) {
    record.attributes.labels = Map::unless_empty(metadata.labels.clone().unwrap_or_default());
    record.attributes.annotations = Map::unless_empty(metadata.annotations.clone().unwrap_or_default());
    record.attributes.finalizers = List::unless_empty(metadata.finalizers.clone().unwrap_or_default());
    record.attributes.owner_references =
        List::unless_empty(metadata.owner_references.clone().unwrap_or_default());
}

/// Removes a record whose revision is gone from git, or stays in git without one.
pub(crate) async fn release(record: &RevisionRecord, objects: &Objects) -> Result<(), ReconcileError> {
    let (namespace, name) = (record.namespace().unwrap_or_default(), record.name_any());
    objects.delete::<RevisionRecord>(&namespace, &name, record.uid().as_deref(), None).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_record_is_served() {
        let record: RevisionRecord = serde_json::from_value(json!({
            "metadata": {"name": "edge.dns.w", "namespace": "fleet", "uid": "u", "resourceVersion": "7",
                "creationTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["own"], "labels": {"own": "x"}},
            "attributes": {"labels": {"a": "b"}, "finalizers": ["f"], "deletionTimestamp": "2026-01-02T00:00:00Z",
                "ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "n", "uid": "o", "controller": true}],
                "conditions": [{"type": "A", "status": "True"}]},
            "spec": {"packageName": "dns", "repository": "edge", "workspaceName": "w", "lifecycle": "Draft"},
            "status": {"conditions": [{"type": "A", "status": "False"}, {"type": "B", "status": "True"}]},
        }))
        .unwrap();
        let served = serde_json::to_value(served(&record)).unwrap();
        assert_eq!(served["kind"], "PackageRevision");
        let metadata = &served["metadata"];
        assert_eq!(metadata["labels"], json!({"a": "b"}));
        assert_eq!(metadata["finalizers"], json!(["f"]));
        assert_eq!(metadata["deletionTimestamp"], "2026-01-02T00:00:00Z");
        assert_eq!(metadata["ownerReferences"][0]["uid"], "o");
        assert_eq!(metadata["resourceVersion"], "7");
        assert!(metadata["uid"] != "u" && metadata["uid"].as_str().unwrap().len() == 36, "{metadata}");
        assert_eq!(
            served["status"]["conditions"],
            json!([{"type": "B", "status": "True"}, {"type": "A", "status": "True"}])
        );
    }
}
