//! Preview of the changes that sets would make to the present variants.
//!
//! The preview uses the same decisions as the controller (`packagevariants.md` 4.6, 4.7), and
//! returns them in a form for users and programs.

mod fields;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use groundwork_api::metadata::annotation::PAUSE_UPSTREAM;
use groundwork_api::{
    ObjectMeta, OwnerReference, PackageRevision, PackageVariant, PackageVariantSet, PackageVariantSpec,
    ResourceExt as _,
};
use serde::{Deserialize, Serialize};

use crate::children::{Action, Plan, is_child, plan};
use crate::downstream::{Withdrawal, release};
use crate::error::VariantError;
use crate::expand::{ExpandError, Inputs, Objects, expand};
use crate::package::{Package, commit};
use crate::upstream::resolve;
use crate::upstreams;

pub use fields::{Field, differences};

/// Changes to the variants of sets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Preview {
    /// SHA-256 of the other fields, in hexadecimal. It changes if any change differs, or is based
    /// on another revision or commit. With it, a caller can apply exactly the preview that it has
    /// read.
    pub hash: String,
    /// Previews by namespace and name.
    pub sets: Vec<SetPreview>,
}

impl Preview {
    /// Combines the previews of sets, which may be in several namespaces.
    pub fn new(mut sets: Vec<SetPreview>) -> Self {
        sets.sort_by(|one, other| (&one.namespace, &one.name).cmp(&(&other.namespace, &other.name)));
        // A preview contains only values that JSON can represent, so this cannot fail.
        let value = serde_json::to_value(&sets).unwrap_or_default();
        Self { hash: fields::hash(&value), sets }
    }

    /// Reports whether the preview has no changes, because there are no differences or the sets are
    /// refused.
    pub fn is_empty(&self) -> bool {
        let is_empty =
            |set: &SetPreview| set.created.is_empty() && set.changed.is_empty() && set.deleted.is_empty();
        self.sets.iter().all(is_empty)
    }
}

/// Changes to the variants of one set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SetPreview {
    pub namespace: String,
    pub name: String,
    /// Revision that the upstream resolves to; absent if no revisions are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream: Option<UpstreamPreview>,
    /// Upstreams of a set with several, as far as they resolve to a revision.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub upstreams: Vec<UpstreamPreview>,
    /// Number of selected repositories or objects of each target.
    pub target_counts: Vec<usize>,
    pub created: Vec<Created>,
    pub changed: Vec<Changed>,
    pub deleted: Vec<Deleted>,
    pub unchanged: Vec<Site>,
    /// Wanted variants that are being deleted; they are created again after they are gone.
    pub going: Vec<Site>,
    /// Failures of a set that isolates its targets; then no variant is deleted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<Refused>,
    /// Reason why the set changes no variant. The present variants are in `unchanged` then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<Refused>,
    /// Writes in their order. A preview that was read from JSON has none.
    #[serde(skip)]
    pub actions: Vec<Action>,
}

impl SetPreview {
    /// Returns the number of changes, such as `2 created, 0 changed, 1 deleted, 5 unchanged`.
    pub fn summary(&self) -> String {
        let Self { created, changed, deleted, unchanged, going, .. } = self;
        let mut counts = vec![
            format!("{} created", created.len()),
            format!("{} changed", changed.len()),
            format!("{} deleted", deleted.len()),
            format!("{} unchanged", unchanged.len()),
        ];
        if !going.is_empty() {
            counts.push(format!("{} created again after deletion", going.len()));
        }
        counts.join(", ")
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UpstreamPreview {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
}

/// A variant, and the package that it makes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Site {
    pub name: String,
    pub repo: String,
    pub package: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Created {
    #[serde(flatten)]
    pub site: Site,
    pub spec: PackageVariantSpec,
    /// Reason why the new variant could not make its package.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocked: Option<Refused>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Changed {
    #[serde(flatten)]
    pub site: Site,
    pub fields: Vec<Field>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Deleted {
    #[serde(flatten)]
    pub site: Site,
    /// Effect of the deletion policy on the variant's revisions, as far as they are known.
    pub revisions: Vec<ReleasedRevision>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleasedRevision {
    pub name: String,
    pub fate: Fate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Fate {
    Deleted,
    ProposedForDeletion,
    /// The revision stays, without an owner.
    Orphaned,
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Deleted => "is deleted",
            Self::ProposedForDeletion => "is proposed for deletion",
            Self::Orphaned => "stays without an owner",
        })
    }
}

/// Reason and message, as in a condition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    pub reason: String,
    pub message: String,
}

impl Refused {
    fn of(error: &ExpandError) -> Self {
        Self { reason: error.reason().to_owned(), message: error.to_string() }
    }
}

/// Computes the changes of the sets of one namespace, one set after the other. `variants` and
/// `revisions` are the present ones. Without revisions, the upstream is not resolved.
pub fn preview(
    sets: &[PackageVariantSet],
    objects: Objects<'_>,
    revisions: Option<&[PackageRevision]>,
    variants: &[PackageVariant],
) -> Vec<SetPreview> {
    let mut sets: Vec<PackageVariantSet> = sets.iter().map(|set| identified(set, variants)).collect();
    sets.sort_by_key(groundwork_api::ResourceExt::name_any);
    let mut world: World = variants.iter().map(|variant| (variant.name_any(), variant.clone())).collect();
    // A deleted variant keeps its name until it is gone, so names are never removed.
    let mut names: BTreeSet<String> = world.keys().cloned().collect();
    let mut previews = Vec::with_capacity(sets.len());
    for set in &sets {
        let preview = preview_set(set, objects, revisions, &world, &names);
        for action in &preview.actions {
            names.insert(carry_out(action, &mut world));
        }
        previews.push(preview);
    }
    let new = previews.iter().flat_map(|preview| &preview.created).map(|created| created.site.name.clone());
    let oldest = oldest(&world, &new.collect());
    for created in previews.iter_mut().flat_map(|preview| &mut preview.created) {
        created.blocked = contended(&created.site, &oldest);
    }
    previews
}

/// Variants of a namespace by name, so that the order in which they were read does not matter.
type World = BTreeMap<String, PackageVariant>;

/// Returns a set with its UID. A set from a file has none, but its variants contain it.
fn identified(set: &PackageVariantSet, variants: &[PackageVariant]) -> PackageVariantSet {
    let mut set = set.clone();
    if set.uid().is_some_and(|uid| !uid.is_empty()) {
        return set;
    }
    let name = set.name_any();
    let is_set = |owner: &&OwnerReference| owner.kind == "PackageVariantSet" && owner.name == name;
    let owners = variants.iter().filter_map(|found| found.owner_references().iter().find(is_set));
    let uids: BTreeSet<&str> = owners.map(|owner| owner.uid.as_str()).collect();
    // With several UIDs, the variants belong to successive sets of the same name, and the right one
    // is unknown.
    if let [uid] = Vec::from_iter(uids).as_slice() {
        set.metadata.uid = Some((*uid).to_owned());
    }
    set
}

fn preview_set(
    set: &PackageVariantSet,
    objects: Objects<'_>,
    revisions: Option<&[PackageRevision]>,
    world: &World,
    names: &BTreeSet<String>,
) -> SetPreview {
    let children: Vec<PackageVariant> =
        world.values().filter(|variant| is_child(variant, set)).cloned().collect();
    let mut preview = SetPreview {
        namespace: set.namespace().unwrap_or_default(),
        name: set.name_any(),
        ..SetPreview::default()
    };
    for named in upstreams::named(set, objects.revision_sets).unwrap_or_default() {
        let found = revisions.and_then(|revisions| resolve(named.upstream, revisions).ok()).map(upstream_of);
        match named.place {
            None => preview.upstream = found,
            Some(_) => preview.upstreams.extend(found),
        }
    }
    let planned = expand(&Inputs { set, revisions, objects }).and_then(|expansion| {
        preview.target_counts.clone_from(&expansion.target_counts);
        preview.failed = expansion.failures.iter().map(Refused::of).collect();
        plan(set, &expansion, &children, |name| names.contains(name))
    });
    match planned {
        Ok(plan) => describe(&mut preview, plan, &children, revisions.unwrap_or_default()),
        Err(error) => refuse(&mut preview, &error, &children),
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

fn refuse(preview: &mut SetPreview, error: &ExpandError, children: &[PackageVariant]) {
    preview.refused = Some(Refused::of(error));
    preview.unchanged = sorted(children.iter().map(site).collect());
}

/// Describes the writes of a plan.
fn describe(
    preview: &mut SetPreview,
    plan: Plan,
    children: &[PackageVariant],
    revisions: &[PackageRevision],
) {
    let before: BTreeMap<String, &PackageVariant> =
        children.iter().map(|child| (child.name_any(), child)).collect();
    let mut owned: BTreeMap<&str, Vec<&PackageRevision>> = BTreeMap::new();
    for revision in revisions {
        for owner in revision.owner_references().iter().filter(|owner| !owner.uid.is_empty()) {
            owned.entry(&owner.uid).or_default().push(revision);
        }
    }
    let mut touched = BTreeSet::new();
    for action in &plan.actions {
        let variant = action.variant();
        touched.insert(variant.name_any());
        let site = site(variant);
        match action {
            Action::Create(_) => {
                preview.created.push(Created { site, spec: variant.spec.clone(), blocked: None });
            }
            Action::Adopt(_) | Action::Update(_) => {
                let before = before.get(&site.name);
                let fields = before.map(|before| changes(before, variant)).unwrap_or_default();
                preview.changed.push(Changed { site, fields });
            }
            Action::Delete(_) => {
                let uid = variant.uid().unwrap_or_default();
                let owned = owned.get(uid.as_str()).map(Vec::as_slice).unwrap_or_default();
                preview.deleted.push(Deleted { site, revisions: released(variant, owned) });
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

/// Compares the spec and the owner, since other fields are never written.
fn changes(before: &PackageVariant, after: &PackageVariant) -> Vec<Field> {
    let shown = |variant: &PackageVariant| {
        let owners = ObjectMeta {
            owner_references: variant.metadata.owner_references.clone(),
            // The only annotation that sets write.
            annotations: variant
                .annotations()
                .get(PAUSE_UPSTREAM)
                .map(|value| [(PAUSE_UPSTREAM.to_owned(), value.clone())].into()),
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

/// Returns the effect on the revisions of a deleted variant (`packagevariants.md` 2.9).
fn released(variant: &PackageVariant, owned: &[&PackageRevision]) -> Vec<ReleasedRevision> {
    let policy = variant.spec.deletion_policy.as_deref();
    let mut released: Vec<ReleasedRevision> = owned
        .iter()
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

/// Applies a write to the variants, and returns the name of the variant.
fn carry_out(action: &Action, world: &mut World) -> String {
    let variant = action.variant();
    let name = variant.name_any();
    match action {
        Action::Delete(_) => world.remove(&name),
        Action::Create(_) | Action::Adopt(_) | Action::Update(_) => {
            world.insert(name.clone(), variant.clone())
        }
    };
    name
}

/// Returns the oldest variant of each package, which is the one that makes it (`packagevariants.md`
/// 4.6). New variants are younger than present ones.
fn oldest<'a>(world: &'a World, new: &BTreeSet<String>) -> BTreeMap<Package<'a>, &'a str> {
    let age = |name: &str, variant: &PackageVariant| {
        let created = variant.metadata.creation_timestamp.as_ref().map(|time| time.0.to_string());
        (new.contains(name), created)
    };
    let mut oldest: BTreeMap<Package<'_>, (&str, _)> = BTreeMap::new();
    // Names are in order, so of two variants of the same age the first one stays.
    for (name, variant) in world {
        let age = age(name, variant);
        let first = oldest.entry(Package::downstream_of(variant)).or_insert_with(|| (name, age.clone()));
        if age < first.1 {
            *first = (name, age);
        }
    }
    oldest.into_iter().map(|(package, (name, _))| (package, name)).collect()
}

fn contended(site: &Site, oldest: &BTreeMap<Package<'_>, &str>) -> Option<Refused> {
    let other = *oldest.get(&Package { repository: &site.repo, path: &site.package })?;
    if other == site.name {
        return None;
    }
    let error = VariantError::DownstreamContended {
        package: site.package.clone(),
        repo: site.repo.clone(),
        other: other.to_owned(),
    };
    Some(Refused { reason: error.reason().to_owned(), message: error.to_string() })
}

#[cfg(test)]
mod tests;
