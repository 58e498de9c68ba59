//! What sets would do to the variants that are there, before they do it.
//!
//! The same decisions as for a cluster (`packagevariants.md` 4.6, 4.7), told to people and programs.

mod fields;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

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

/// What would happen to the variants of sets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
        let is_empty =
            |set: &SetPreview| set.created.is_empty() && set.changed.is_empty() && set.deleted.is_empty();
        self.sets.iter().all(is_empty)
    }
}

/// What would happen to the variants of one set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SetPreview {
    pub namespace: String,
    pub name: String,
    /// What the upstream stands for; absent where no revisions are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream: Option<UpstreamPreview>,
    /// The same of a set that has several, as far as they stand for something.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub upstreams: Vec<UpstreamPreview>,
    /// How many repositories or objects each target selects.
    pub target_counts: Vec<usize>,
    pub created: Vec<Created>,
    pub changed: Vec<Changed>,
    pub deleted: Vec<Deleted>,
    pub unchanged: Vec<Site>,
    /// Wanted, but being deleted: they come back when they are gone.
    pub going: Vec<Site>,
    /// What fails in a set that isolates its targets; nothing is deleted then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<Refused>,
    /// Why nothing would happen. The variants that are there are `unchanged` then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<Refused>,
    /// The writes themselves, in their order. A preview that was written as JSON has none.
    #[serde(skip)]
    pub actions: Vec<Action>,
}

impl SetPreview {
    /// How much would happen, such as `2 created, 0 changed, 1 deleted, 5 unchanged`.
    pub fn summary(&self) -> String {
        let Self { created, changed, deleted, unchanged, going, .. } = self;
        let mut counts = vec![
            format!("{} created", created.len()),
            format!("{} changed", changed.len()),
            format!("{} deleted", deleted.len()),
            format!("{} unchanged", unchanged.len()),
        ];
        if !going.is_empty() {
            counts.push(format!("{} come back once they are gone", going.len()));
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
    /// Why the new variant could not make its package.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocked: Option<Refused>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Changed {
    #[serde(flatten)]
    pub site: Site,
    /// Every difference by its path.
    pub fields: Vec<Field>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Deleted {
    #[serde(flatten)]
    pub site: Site,
    /// What its deletion policy does to the revisions that it owns, as far as they are known.
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
    /// It stays, without an owner.
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

/// As a condition would say it.
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
    let mut world: World = variants.iter().map(|variant| (variant.name_any(), variant.clone())).collect();
    // A name is not free before the object is gone.
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

/// The variants of a namespace by their names, in whatever order they were read.
type World = BTreeMap<String, PackageVariant>;

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

/// Tells what a plan does.
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

/// Nothing is written but the spec and the owner.
fn changes(before: &PackageVariant, after: &PackageVariant) -> Vec<Field> {
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

/// The variants after a write, and the name that it is about.
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

/// Of several variants for one package the oldest has it (4.6); what is new is younger than what is there.
fn oldest<'a>(world: &'a World, new: &BTreeSet<String>) -> BTreeMap<Package<'a>, &'a str> {
    let age = |name: &str, variant: &PackageVariant| {
        let created = variant.metadata.creation_timestamp.as_ref().map(|time| time.0.to_string());
        (new.contains(name), created)
    };
    let mut oldest: BTreeMap<Package<'_>, (&str, _)> = BTreeMap::new();
    // By their names, so that of two of one age the first one stays.
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
