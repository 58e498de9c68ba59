//! PackageRevisions that say what git holds (`packagevariants.md` 6.14).

use std::collections::BTreeMap;

use groundwork_api::metadata::label;
use groundwork_api::{PackageRevision, ResourceExt as _};
use groundwork_controller::{ApiError, Objects, ReconcileError};
use groundwork_packages::{GitRepository, Revision};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::edits::edits;

/// Keeps an object until git has lost the revision.
pub(crate) const FINALIZER: &str = "groundwork/package-store";

/// What only the cluster knows of a revision.
#[derive(Debug, Clone, Default)]
pub(crate) struct Attributes {
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) annotations: BTreeMap<String, String>,
    pub(crate) owner: Option<OwnerReference>,
}

/// What the store answers to the generation of an object that it has looked at.
#[derive(Debug, Clone, Default)]
pub(crate) struct Answer {
    /// Why what is asked for is not done; then git's word counts again.
    pub(crate) refusal: Option<String>,
}

/// The object that should be, made from the one that is: whatever is not the store's stays as it is.
pub(crate) fn wanted(
    repository: &GitRepository,
    revision: &Revision,
    is_latest: Option<bool>,
    present: Option<&PackageRevision>,
    answer: Option<&Answer>,
) -> PackageRevision {
    let told = revision.object(&repository.settings().place());
    let mut object = present.cloned().unwrap_or_default();
    object.metadata.name = told.metadata.name;
    object.metadata.namespace = told.metadata.namespace;
    let labels = object.metadata.labels.get_or_insert_default();
    match is_latest {
        Some(true) => drop(labels.insert(label::LATEST_REVISION.to_owned(), "true".to_owned())),
        Some(false) => drop(labels.remove(label::LATEST_REVISION)),
        // Who knows only this revision leaves that to the exchange with the remote.
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
    let told_status = told.status.unwrap_or_default();
    let in_git = told.spec.lifecycle.clone();
    // What was changed in git counts, even if somebody has asked for something else meanwhile.
    let was_changed_in_git = status.lifecycle != in_git;
    let is_refused = answer.is_some_and(|answer| answer.refusal.is_some());
    let asked_for = object.spec.lifecycle.clone();
    let asked_for = asked_for.filter(|_| present.is_some() && !was_changed_in_git && !is_refused);
    object.spec = groundwork_api::PackageRevisionSpec {
        lifecycle: asked_for.or_else(|| in_git.clone()),
        parent: object.spec.parent.take(),
        ..told.spec
    };
    // An answer stays until the lifecycle changes: setting it back is a generation in which nobody asks for anything.
    let former = status.message.take().filter(|_| !was_changed_in_git);
    let message = answer.and_then(|answer| answer.refusal.clone()).or(former);
    let observed = answer.map_or(status.observed_generation, |_| object.metadata.generation);
    *status = groundwork_api::PackageRevisionStatus {
        lifecycle: in_git,
        observed_generation: observed,
        message,
        ..told_status
    };
    object
}

/// Makes or changes an object so that it says what git holds. Nothing is written where nothing differs.
pub(crate) async fn ensure(
    repository: &GitRepository,
    revision: &Revision,
    is_latest: Option<bool>,
    present: Option<PackageRevision>,
    attributes: Attributes,
    answer: Option<&Answer>,
    objects: &Objects,
) -> Result<PackageRevision, ApiError> {
    // What people have just written is for the revision's own round, which saves it before git's word is written over it.
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
            // Nobody asks for anything in an object that says what git holds.
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

/// Lets an object go; git has lost its revision already, or keeps it.
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
