//! Decisions of a variant about the revisions of its package (`packagevariants.md` 2.6 to 2.9).

mod base;
mod freshness;
mod newer;
mod release;

use std::collections::BTreeMap;

use groundwork_api::{
    Kind as _, Lifecycle, ObjectMeta, OwnerReference, PackageRevision, PackageVariant, ResourceExt as _,
};

use crate::error::VariantError;
use crate::package::{Package, UNNUMBERED, by_workspace, is_published, number};

pub use base::{Base, base};
pub use freshness::{Freshness, derives_from, equal_content, freshness, is_made_of};
pub use newer::{Upgradable, upgradable};
pub use release::{Release, Withdrawal, deletes, release};

/// Revisions of a namespace, sorted from the point of view of one variant (`packagevariants.md`
/// 2.7); each list is in ascending order of workspaces.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selection<'a> {
    /// Owned revisions of another package than the variant makes now; the deletion policy applies
    /// to them.
    pub released: Vec<&'a PackageRevision>,
    /// Revisions of others that this variant adopts, including published ones that it does not
    /// update.
    pub adoptions: Vec<Adoption<'a>>,
    /// Revisions to update: all Draft and Proposed ones, or else the highest published one, if
    /// there is any. Adopted revisions are in their state before the adoption.
    pub targets: Vec<&'a PackageRevision>,
    /// Problems that prevent the variant from owning its package. No revision may be created while
    /// there are any.
    pub problems: Vec<VariantError>,
}

impl Selection<'_> {
    /// Reports whether the first draft has to be made.
    pub fn is_new(&self) -> bool {
        self.targets.is_empty() && self.problems.is_empty()
    }
}

/// Metadata to write to a revision for its adoption; whole maps and lists.
#[derive(Clone, Debug, PartialEq)]
pub struct Adoption<'a> {
    pub revision: &'a PackageRevision,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub owner_references: Vec<OwnerReference>,
}

/// Sorts the revisions of a namespace into those that a variant updates, adopts, releases and
/// ignores.
///
/// Placeholders and tags (revision -1) are not candidates, and revisions that are being deleted are
/// left alone.
pub fn select<'a>(variant: &PackageVariant, revisions: &'a [PackageRevision]) -> Selection<'a> {
    let uid = variant.uid().unwrap_or_default();
    let downstream = Package::downstream_of(variant);
    let adopts = variant.spec.adoption_policy.as_deref() == Some("adoptExisting");
    let is_candidate =
        |found: &&PackageRevision| number(found) != UNNUMBERED && found.metadata.deletion_timestamp.is_none();
    let mut candidates: Vec<&PackageRevision> = revisions.iter().filter(is_candidate).collect();
    candidates.sort_by(|one, other| by_workspace(one, other));
    let mut selection = Selection::default();
    let mut kept = Vec::new();
    for revision in candidates {
        match (is_owned(revision, &uid), Package::of(revision) == downstream) {
            (true, true) => kept.push(revision),
            (true, false) => selection.released.push(revision),
            // A revision with an unknown lifecycle is not adopted.
            (false, true) if adopts && revision.spec.lifecycle().is_some() => {
                match adopt(variant, revision) {
                    Ok(adoption) => {
                        selection.adoptions.push(adoption);
                        kept.push(revision);
                    }
                    Err(conflict) => selection.problems.push(conflict),
                }
            }
            (false, _) => {}
        }
    }
    selection.targets = targets(&kept);
    let is_published = || downstream.revisions(revisions).any(is_published);
    if selection.is_new() && is_published() {
        selection.problems.push(VariantError::DownstreamExists {
            package: downstream.path.to_owned(),
            repo: downstream.repository.to_owned(),
        });
    }
    selection
}

fn targets<'a>(kept: &[&'a PackageRevision]) -> Vec<&'a PackageRevision> {
    let is_open = |found: &&&PackageRevision| {
        matches!(found.spec.lifecycle(), Some(Lifecycle::Draft | Lifecycle::Proposed))
    };
    let open: Vec<_> = kept.iter().filter(is_open).copied().collect();
    if !open.is_empty() {
        return open;
    }
    let published = kept.iter().filter(|found| is_published(found)).copied();
    published.max_by_key(|found| number(found)).into_iter().collect()
}

/// Reports whether the variant with this UID owns a revision.
pub fn is_owned(revision: &PackageRevision, uid: &str) -> bool {
    !uid.is_empty() && revision.owner_references().iter().any(|owner| owner.uid == uid)
}

/// Merges the variant's labels and annotations over the present ones. A revision with another
/// controller cannot be adopted.
fn adopt<'a>(variant: &PackageVariant, revision: &'a PackageRevision) -> Result<Adoption<'a>, VariantError> {
    let mut owner_references = revision.owner_references().to_vec();
    if let Some(other) = owner_references.iter().find(|owner| owner.controller == Some(true)) {
        return Err(VariantError::AdoptionConflict {
            downstream: revision.name_any(),
            kind: other.kind.clone(),
            name: other.name.clone(),
        });
    }
    owner_references.push(owner_reference(variant));
    let overlaid = |under: &BTreeMap<String, String>, over: &BTreeMap<String, String>| {
        let mut merged = under.clone();
        merged.extend(over.clone());
        merged
    };
    Ok(Adoption {
        revision,
        labels: overlaid(revision.labels(), &variant.spec.labels),
        annotations: overlaid(revision.annotations(), &variant.spec.annotations),
        owner_references,
    })
}

/// Returns the owner reference for the revisions that a variant makes or adopts. It lacks
/// `blockOwnerDeletion`, which needs an additional right: the finalizer keeps the variant until its
/// revisions are gone.
pub fn owner_reference(variant: &PackageVariant) -> OwnerReference {
    OwnerReference {
        api_version: PackageVariant::API_VERSION.to_owned(),
        kind: PackageVariant::KIND.to_owned(),
        name: variant.name_any(),
        uid: variant.uid().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: None,
    }
}

/// Returns the metadata of a revision without the owner with this UID.
pub fn orphaned(revision: &PackageRevision, uid: &str) -> ObjectMeta {
    let mut metadata = revision.metadata.clone();
    if let Some(owners) = &mut metadata.owner_references {
        owners.retain(|owner| owner.uid != uid);
    }
    metadata.owner_references = metadata.owner_references.filter(|owners| !owners.is_empty());
    metadata
}

#[cfg(test)]
mod tests;
