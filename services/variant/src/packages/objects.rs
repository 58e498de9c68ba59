//! PackageRevision objects that mirror git (`packagevariants.md` 6.14).

use std::collections::BTreeMap;

use groundwork_api::metadata::label;
use groundwork_api::{PackageRevision, ResourceExt as _};
use groundwork_controller::{ApiError, Objects, ReconcileError};
use groundwork_packages::git::{GitRepository, Revision};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::edits::edits;

/// Finalizer that keeps an object until its revision is deleted from git.
pub(crate) const FINALIZER: &str = "groundwork/package-store";

/// Attributes of a revision that only the cluster knows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Attributes {
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) annotations: BTreeMap<String, String>,
    pub(crate) owner: Option<OwnerReference>,
}

/// Answer of the store to one generation of an object.
#[derive(Debug, Clone, Default)]
pub(crate) struct Answer {
    /// Reason why the request was refused. After a refusal the object shows the lifecycle in git
    /// again.
    pub(crate) refusal: Option<String>,
    /// Text for users about a revision that waits.
    pub(crate) note: Option<String>,
}

/// Returns the object that a revision should have, based on the present one: fields that the store
/// does not own stay unchanged.
pub(crate) fn wanted(
    repository: &GitRepository,
    revision: &Revision,
    is_latest: Option<bool>,
    present: Option<&PackageRevision>,
    answer: Option<&Answer>,
) -> PackageRevision {
    let in_store = revision.object(&repository.settings().place());
    let mut object = present.cloned().unwrap_or_default();
    object.metadata.name = in_store.metadata.name;
    object.metadata.namespace = in_store.metadata.namespace;
    let labels = object.metadata.labels.get_or_insert_default();
    match is_latest {
        Some(true) => drop(labels.insert(label::LATEST_REVISION.to_owned(), "true".to_owned())),
        Some(false) => drop(labels.remove(label::LATEST_REVISION)),
        // A caller that knows only this revision leaves the label to the sync, which knows them
        // all.
        None => {}
    }
    if labels.is_empty() {
        object.metadata.labels = None;
    }
    let finalizers = object.metadata.finalizers.get_or_insert_default();
    if !finalizers.iter().any(|name| name == FINALIZER) {
        finalizers.push(FINALIZER.to_owned());
    }
    let status = object.status.get_or_insert_default();
    let store_status = in_store.status.unwrap_or_default();
    let in_git = in_store.spec.lifecycle.clone();
    // A change in git counts, even if a user has asked for another lifecycle in the meantime.
    let was_changed_in_git = status.lifecycle != in_git;
    let is_refused = answer.is_some_and(|answer| answer.refusal.is_some());
    let asked_for = object.spec.lifecycle.clone();
    let asked_for = asked_for.filter(|_| present.is_some() && !was_changed_in_git && !is_refused);
    object.spec = groundwork_api::PackageRevisionSpec {
        lifecycle: asked_for.or_else(|| in_git.clone()),
        parent: object.spec.parent.take(),
        ..in_store.spec
    };
    // A refusal stays in the status until the lifecycle changes: setting the lifecycle back is a
    // new generation that asks for no change.
    let former = status.message.take().filter(|_| !was_changed_in_git);
    let told = answer.and_then(|answer| answer.refusal.clone().or_else(|| answer.note.clone()));
    let message = told.or(former);
    let observed = answer.map_or(status.observed_generation, |_| object.metadata.generation);
    *status = groundwork_api::PackageRevisionStatus {
        lifecycle: in_git,
        observed_generation: observed,
        message,
        ..store_status
    };
    object
}

/// Creates or updates an object so that it mirrors git. An unchanged object is not written.
pub(crate) async fn ensure(
    repository: &GitRepository,
    revision: &Revision,
    is_latest: Option<bool>,
    present: Option<PackageRevision>,
    attributes: Attributes,
    answer: Option<&Answer>,
    objects: &Objects,
) -> Result<PackageRevision, ApiError> {
    // An edit that a user has just made is saved by the reconcile of the revision itself. Do not
    // overwrite it with the state of git before that.
    let present = match present {
        Some(present) if answer.is_none() && edits(repository, revision, &present).is_some() => {
            return Ok(present);
        }
        present => present,
    };
    let wanted = wanted(repository, revision, is_latest, present.as_ref(), answer);
    let mut status = wanted.status.clone();
    let stored = match present {
        Some(present) if same_but_status(&present, &wanted) => present,
        Some(_) => objects.replace(&wanted).await?,
        None => {
            let mut new = wanted;
            new.status = None;
            new.metadata.labels.get_or_insert_default().extend(attributes.labels);
            new.metadata.annotations.get_or_insert_default().extend(attributes.annotations);
            new.metadata.owner_references = attributes.owner.map(|owner| vec![owner]);
            let created = objects.create(&new).await?;
            // An object that mirrors git asks for no change, so its first generation counts as
            // observed.
            if let Some(status) = &mut status {
                status.observed_generation = created.metadata.generation;
            }
            created
        }
    };
    if stored.status == status {
        return Ok(stored);
    }
    objects.replace_status(&PackageRevision { status, ..stored }).await
}

fn same_but_status(one: &PackageRevision, other: &PackageRevision) -> bool {
    one.spec == other.spec && one.metadata == other.metadata
}

/// Removes the finalizer of an object whose revision is gone from git, or stays in git without the
/// object.
pub(crate) async fn release(object: &PackageRevision, objects: &Objects) -> Result<(), ReconcileError> {
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    if object.finalizers().iter().any(|name| name == FINALIZER) {
        let others = object.finalizers().iter().filter(|name| *name != FINALIZER).cloned().collect();
        let change = groundwork_controller::Metadata {
            resource_version: object.resource_version(),
            finalizers: Some(others),
            ..groundwork_controller::Metadata::default()
        };
        match objects.patch_metadata::<PackageRevision>(&namespace, &name, &change).await {
            Ok(_) | Err(ApiError::NotFound(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    if object.metadata.deletion_timestamp.is_none() {
        objects.delete::<PackageRevision>(&namespace, &name, object.uid().as_deref(), None).await?;
    }
    Ok(())
}
