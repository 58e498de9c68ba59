//! What sets would do to the variants that are there, before they do it.
//!
//! The same decisions as for a cluster (`packagevariants.md` 4.6, 4.7), told to people and programs.

mod fields;

use std::collections::BTreeSet;

use groundwork_api::{
    ObjectMeta, OwnerReference, PackageRevision, PackageVariant, PackageVariantSet, PackageVariantSpec,
    ResourceExt as _,
};
use serde::Serialize;

use crate::children::{Action, Plan, is_child, plan};
use crate::downstream::{Withdrawal, is_owned, release};
use crate::error::VariantError;
use crate::expand::{ExpandError, Inputs, Objects, expand};
use crate::package::{Package, commit};
use crate::upstream::resolve;

pub use fields::Field;

/// What would happen to the variants of sets.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Preview {
    /// SHA-256 of all that follows, in hexadecimal. It is another one as soon as anything else would happen, or be made of another
    /// revision or commit; who has read a preview can so ask for just that.
    pub hash: String,
    /// By namespace and name.
    pub sets: Vec<SetPreview>,
}

impl Preview {
    /// One preview of the sets of several namespaces.
    pub fn new(mut sets: Vec<SetPreview>) -> Self {
        sets.sort_by(|one, other| (&one.namespace, &one.name).cmp(&(&other.namespace, &other.name)));
        // Values that cannot be written as JSON are none of a preview.
        let value = serde_json::to_value(&sets).unwrap_or_default();
        Self { hash: fields::hash(&value), sets }
    }

    /// Whether nothing would happen, for want of a difference or because it is refused.
    pub fn is_empty(&self) -> bool {
        self.sets.iter().all(|set| set.actions.is_empty())
    }
}

/// What would happen to the variants of one set.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SetPreview {
    pub namespace: String,
    pub name: String,
    /// What the upstream stands for; absent where no revisions are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream: Option<UpstreamPreview>,
    /// How many repositories or objects each target selects.
    pub target_counts: Vec<usize>,
    pub created: Vec<Created>,
    pub changed: Vec<Changed>,
    pub deleted: Vec<Deleted>,
    pub unchanged: Vec<Site>,
    /// Wanted, but being deleted: they come back when they are gone.
    pub going: Vec<Site>,
    /// Why nothing would happen. The variants that are there are `unchanged` then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<Refused>,
    /// The writes themselves, in their order.
    #[serde(skip)]
    pub actions: Vec<Action>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UpstreamPreview {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
}

/// A variant, and the package that it makes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Site {
    pub name: String,
    pub repo: String,
    pub package: String,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Created {
    #[serde(flatten)]
    pub site: Site,
    pub spec: PackageVariantSpec,
    /// Why the new variant could not make its package.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocked: Option<Refused>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Changed {
    #[serde(flatten)]
    pub site: Site,
    /// Every difference by its path.
    pub fields: Vec<Field>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Deleted {
    #[serde(flatten)]
    pub site: Site,
    /// What its deletion policy does to the revisions that it owns, as far as they are known.
    pub revisions: Vec<ReleasedRevision>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReleasedRevision {
    pub name: String,
    pub fate: Fate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Fate {
    Deleted,
    ProposedForDeletion,
    /// It stays, without an owner.
    Orphaned,
}

/// As a condition would say it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refused {
    pub reason: String,
    pub message: String,
}

/// What the sets of one namespace would do, one after the other. `variants` and `revisions` are those that are there; without
/// revisions the upstream is not looked up.
pub fn preview(
    sets: &[PackageVariantSet],
    objects: Objects<'_>,
    revisions: Option<&[PackageRevision]>,
    variants: &[PackageVariant],
) -> Vec<SetPreview> {
    let mut sets: Vec<PackageVariantSet> = sets.iter().map(|set| identified(set, variants)).collect();
    sets.sort_by_key(groundwork_api::ResourceExt::name_any);
    let mut world = variants.to_vec();
    // In whatever order they were read, the answer is the same.
    world.sort_by_key(groundwork_api::ResourceExt::name_any);
    // A name is not free before the object is gone.
    let mut names: BTreeSet<String> = variants.iter().map(groundwork_api::ResourceExt::name_any).collect();
    let mut previews = Vec::with_capacity(sets.len());
    for set in &sets {
        let preview = preview_set(set, objects, revisions, &world, &names);
        for action in &preview.actions {
            names.insert(carry_out(action, &mut world));
        }
        previews.push(preview);
    }
    let new = previews.iter().flat_map(|preview| &preview.created).map(|created| created.site.name.clone());
    let new: BTreeSet<String> = new.collect();
    for created in previews.iter_mut().flat_map(|preview| &mut preview.created) {
        created.blocked = contended(&created.site, &world, &new);
    }
    previews
}

/// A set as it is in the cluster. One from a file has no UID, but its variants know it.
fn identified(set: &PackageVariantSet, variants: &[PackageVariant]) -> PackageVariantSet {
    let mut set = set.clone();
    if set.uid().is_some_and(|uid| !uid.is_empty()) {
        return set;
    }
    let name = set.name_any();
    let is_set = |owner: &&OwnerReference| owner.kind == "PackageVariantSet" && owner.name == name;
    let owners = variants.iter().filter_map(|found| found.owner_references().iter().find(is_set));
    let uids: BTreeSet<&str> = owners.map(|owner| owner.uid.as_str()).collect();
    // Several are of sets that had the name one after the other; nobody can say which one is meant.
    if let [uid] = Vec::from_iter(uids).as_slice() {
        set.metadata.uid = Some((*uid).to_owned());
    }
    set
}

fn preview_set(
    set: &PackageVariantSet,
    objects: Objects<'_>,
    revisions: Option<&[PackageRevision]>,
    world: &[PackageVariant],
    names: &BTreeSet<String>,
) -> SetPreview {
    let (children, others): (Vec<_>, Vec<_>) =
        world.iter().cloned().partition(|variant| is_child(variant, set));
    let resolved = set.spec.upstream.as_ref().zip(revisions);
    let mut preview = SetPreview {
        namespace: set.namespace().unwrap_or_default(),
        name: set.name_any(),
        upstream: resolved
            .and_then(|(upstream, revisions)| resolve(upstream, revisions).ok())
            .map(upstream_of),
        ..SetPreview::default()
    };
    let is_own = |name: &str| children.iter().any(|child| child.metadata.name.as_deref() == Some(name));
    let is_taken = |name: &str| {
        others.iter().any(|other| other.name_any() == name) || (names.contains(name) && !is_own(name))
    };
    let planned = expand(&Inputs { set, revisions, objects }).and_then(|expansion| {
        preview.target_counts.clone_from(&expansion.target_counts);
        plan(set, &expansion, &children, is_taken)
    });
    match planned {
        Ok(plan) => describe(&mut preview, plan, &children, revisions.unwrap_or_default()),
        Err(error) => refuse(&mut preview, error.reason(), &error, &children),
    }
    preview
}

fn upstream_of(revision: &PackageRevision) -> UpstreamPreview {
    UpstreamPreview {
        name: revision.name_any(),
        revision: revision.spec.revision,
        commit: commit(revision).map(str::to_owned),
    }
}

fn refuse(preview: &mut SetPreview, reason: &str, error: &ExpandError, children: &[PackageVariant]) {
    preview.refused = Some(Refused { reason: reason.to_owned(), message: error.to_string() });
    preview.unchanged = sorted(children.iter().map(site).collect());
}

/// Tells what a plan does.
fn describe(
    preview: &mut SetPreview,
    plan: Plan,
    children: &[PackageVariant],
    revisions: &[PackageRevision],
) {
    let mut touched = BTreeSet::new();
    for action in &plan.actions {
        let (Action::Create(variant)
        | Action::Adopt(variant)
        | Action::Update(variant)
        | Action::Delete(variant)) = action;
        touched.insert(variant.name_any());
        let site = site(variant);
        match action {
            Action::Create(variant) => {
                preview.created.push(Created { site, spec: variant.spec.clone(), blocked: None });
            }
            Action::Adopt(variant) | Action::Update(variant) => {
                let before = children.iter().find(|child| child.metadata.name == variant.metadata.name);
                let fields = before.map(|before| differences(before, variant)).unwrap_or_default();
                preview.changed.push(Changed { site, fields });
            }
            Action::Delete(variant) => {
                preview.deleted.push(Deleted { site, revisions: released(variant, revisions) });
            }
        }
    }
    let untouched = children.iter().filter(|child| !touched.contains(&child.name_any()));
    let (going, unchanged): (Vec<_>, Vec<_>) =
        untouched.partition(|child| child.metadata.deletion_timestamp.is_some());
    let wanted: BTreeSet<&String> = plan.names.iter().collect();
    let comes_back = |child: &&&PackageVariant| wanted.contains(&child.name_any());
    preview.going = sorted(going.iter().filter(comes_back).map(|child| site(child)).collect());
    preview.unchanged = sorted(unchanged.into_iter().map(site).collect());
    preview.refused = plan.guarded.map(|message| Refused { reason: "DeletionGuarded".to_owned(), message });
    preview.actions = plan.actions;
}

fn site(variant: &PackageVariant) -> Site {
    let package = Package::downstream_of(variant);
    Site { name: variant.name_any(), repo: package.repository.to_owned(), package: package.path.to_owned() }
}

fn sorted(mut sites: Vec<Site>) -> Vec<Site> {
    sites.sort_by(|one, other| {
        (&one.repo, &one.package, &one.name).cmp(&(&other.repo, &other.package, &other.name))
    });
    sites
}

/// Nothing is written but the spec and the owner.
fn differences(before: &PackageVariant, after: &PackageVariant) -> Vec<Field> {
    let shown = |variant: &PackageVariant| {
        let owners = ObjectMeta {
            owner_references: variant.metadata.owner_references.clone(),
            ..ObjectMeta::default()
        };
        [
            serde_json::to_value(owners).unwrap_or_default(),
            serde_json::to_value(&variant.spec).unwrap_or_default(),
        ]
    };
    let ([owners, spec], [new_owners, new_spec]) = (shown(before), shown(after));
    let mut fields = fields::differences("metadata", &owners, &new_owners);
    fields.extend(fields::differences("spec", &spec, &new_spec));
    fields
}

/// What becomes of the revisions of a variant that goes (2.9).
fn released(variant: &PackageVariant, revisions: &[PackageRevision]) -> Vec<ReleasedRevision> {
    let uid = variant.uid().unwrap_or_default();
    let policy = variant.spec.deletion_policy.as_deref();
    let mut released: Vec<ReleasedRevision> = revisions
        .iter()
        .filter(|revision| is_owned(revision, &uid))
        .map(|revision| {
            let fate = match release(policy, revision, true).withdrawal {
                Some(Withdrawal::Delete) => Fate::Deleted,
                Some(Withdrawal::ProposeDeletion) => Fate::ProposedForDeletion,
                None => Fate::Orphaned,
            };
            ReleasedRevision { name: revision.name_any(), fate }
        })
        .collect();
    released.sort_by(|one, other| one.name.cmp(&other.name));
    released
}

/// The variants after a write, and the name that it is about.
fn carry_out(action: &Action, world: &mut Vec<PackageVariant>) -> String {
    let (Action::Create(variant)
    | Action::Adopt(variant)
    | Action::Update(variant)
    | Action::Delete(variant)) = action;
    world.retain(|other| other.metadata.name != variant.metadata.name);
    if !matches!(action, Action::Delete(_)) {
        world.push((**variant).clone());
    }
    variant.name_any()
}

/// Of several variants for one package the oldest has it (4.6); what is new is younger than what is there.
fn contended(site: &Site, world: &[PackageVariant], new: &BTreeSet<String>) -> Option<Refused> {
    let age = |variant: &PackageVariant| {
        let created = variant.metadata.creation_timestamp.as_ref().map(|time| time.0.to_string());
        (new.contains(&variant.name_any()), created, variant.name_any())
    };
    let package = Package { repository: &site.repo, path: &site.package };
    let rivals = world.iter().filter(|variant| Package::downstream_of(variant) == package);
    let oldest = rivals.min_by_key(|variant| age(variant))?.name_any();
    if oldest == site.name {
        return None;
    }
    let error = VariantError::DownstreamContended {
        package: site.package.clone(),
        repo: site.repo.clone(),
        other: oldest,
    };
    Some(Refused { reason: error.reason().to_owned(), message: error.to_string() })
}

#[cfg(test)]
mod tests;
