//! Preview of the changes that the sets of a cluster would make to the existing variants.

use std::collections::BTreeMap;

use groundwork_api::{
    PackageRevision, PackageRevisionSet, PackageVariant, PackageVariantSet, ResourceExt as _,
};
use groundwork_controller::{ApiError, Objects, ReconcileError, Workers};
use groundwork_fleet::{Attributes, Objects as Selectable, Preview, Unavailable, preview};
use serde::{Deserialize, Serialize};

use crate::inputs::{pairs, read_inputs};

/// Computes the changes that the sets of a namespace would make, read with the rights of `objects`.
/// Without `given`, these are the changes that their controller is about to make; there are none if
/// all sets are reconciled. With `given`, they are the changes after the given sets were applied.
///
/// # Errors
/// The API server does not answer, or refuses a read.
pub async fn preview_namespace(
    namespace: &str,
    given: Vec<PackageVariantSet>,
    objects: &Objects,
) -> Result<Preview, ReconcileError> {
    let workers = Workers::default();
    let inputs = PreviewInputs::read(namespace, given, objects, &workers).await?;
    let planned = workers.run(move || groundwork_sandbox::evaluate(|| inputs.preview()));
    planned.await.map_err(|error| ReconcileError::new(error.to_string()))
}

/// Everything that a preview depends on. This is sent to worker processes and must not contain a
/// credential.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct PreviewInputs {
    sets: Vec<PackageVariantSet>,
    revision_sets: Vec<PackageRevisionSet>,
    repositories: Vec<Attributes>,
    #[serde(with = "pairs")]
    others: BTreeMap<(String, String), Result<Vec<Attributes>, Unavailable>>,
    revisions: Option<Vec<PackageRevision>>,
    variants: Vec<PackageVariant>,
}

impl PreviewInputs {
    /// Reads the inputs of [`preview_namespace`].
    pub(crate) async fn read(
        namespace: &str,
        given: Vec<PackageVariantSet>,
        objects: &Objects,
        workers: &Workers,
    ) -> Result<Self, ReconcileError> {
        let present = objects.list::<PackageVariantSet>(namespace, "").await?;
        let sets = if given.is_empty() { present } else { applied(namespace, given, present) };
        let (mut repositories, mut others, mut revision_sets) =
            (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let mut has_revisions = false;
        for set in &sets {
            let inputs = read_inputs(set, objects, workers).await?;
            has_revisions |= inputs.revisions.is_some();
            repositories.extend(inputs.repositories.into_iter().map(|found| (found.name.clone(), found)));
            others.extend(inputs.others);
            revision_sets.extend(inputs.revision_sets.into_iter().map(|found| (found.name_any(), found)));
        }
        let variants = objects.list::<PackageVariant>(namespace, "").await?;
        // Revisions of the existing variants are needed too: they show the effect of a deletion.
        let revisions = match has_revisions {
            true => Some(objects.list::<PackageRevision>(namespace, "").await?),
            false => None,
        };
        let repositories = repositories.into_values().collect();
        let revision_sets = revision_sets.into_values().collect();
        Ok(Self { sets, revision_sets, repositories, others, revisions, variants })
    }

    /// Returns the inputs for sets in an otherwise empty namespace.
    #[cfg(test)]
    pub(crate) fn of(sets: Vec<PackageVariantSet>, inputs: crate::inputs::SetInputs) -> Self {
        let crate::inputs::SetInputs { revisions, revision_sets, repositories, others, .. } = inputs;
        Self { sets, revision_sets, repositories, others, revisions, variants: Vec::new() }
    }

    /// Computes the changes of the sets.
    pub(crate) fn preview(&self) -> Preview {
        let selectable = Selectable {
            revision_sets: &self.revision_sets,
            repositories: &self.repositories,
            others: &self.others,
        };
        Preview::new(preview(&self.sets, selectable, self.revisions.as_deref(), &self.variants))
    }
}

/// Returns the sets of the namespace after the given sets were applied.
fn applied(
    namespace: &str,
    given: Vec<PackageVariantSet>,
    present: Vec<PackageVariantSet>,
) -> Vec<PackageVariantSet> {
    let mut present: BTreeMap<String, PackageVariantSet> =
        present.into_iter().map(|set| (set.name_any(), set)).collect();
    let merged = given.into_iter().map(|mut set| {
        set.metadata.namespace = Some(namespace.to_owned());
        match present.remove(&set.name_any()) {
            Some(before) => merged(set, before),
            None => set,
        }
    });
    merged.collect()
}

/// Merges a given set into the present one. The generation is raised if the spec changes, as the
/// API server would do.
fn merged(given: PackageVariantSet, mut present: PackageVariantSet) -> PackageVariantSet {
    if given.spec != present.spec {
        present.metadata.generation = present.metadata.generation.map(|generation| generation + 1);
        present.spec = given.spec;
    }
    if let Some(labels) = given.metadata.labels {
        present.metadata.labels.get_or_insert_default().extend(labels);
    }
    if let Some(annotations) = given.metadata.annotations {
        present.metadata.annotations.get_or_insert_default().extend(annotations);
    }
    present
}

/// Writes sets, unless one of them has changed since it was read here.
///
/// # Errors
/// The API server refuses one; those before it are written.
pub async fn apply_sets(
    namespace: &str,
    given: Vec<PackageVariantSet>,
    objects: &Objects,
) -> Result<Vec<PackageVariantSet>, ApiError> {
    let mut written = Vec::new();
    for mut set in given {
        set.metadata.namespace = Some(namespace.to_owned());
        set.status = None;
        let present = objects.get::<PackageVariantSet>(namespace, &set.name_any()).await?;
        written.push(match present {
            Some(present) => objects.replace(&merged(set, present)).await?,
            None => objects.create(&set).await?,
        });
    }
    Ok(written)
}
