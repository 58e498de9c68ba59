//! Plan of the writes to the children of a set (`packagevariants.md` 4.6, 4.7).

use std::collections::{BTreeMap, BTreeSet};

use groundwork_api::metadata::annotation::PAUSE_UPSTREAM as PAUSE;
use groundwork_api::{
    Kind as _, ObjectMeta, OwnerReference, PackageVariant, PackageVariantSet, ResourceExt as _,
};

use crate::expand::{ExpandError, Expansion, Variant};
use crate::naming::{hashed_name, plain_name};
use crate::upstream::{PAUSED_BY_SET, is_paused};

/// Label of a child with the UID of its set.
pub const OWNER_LABEL: &str = "config.porch.kpt.dev/packagevariantset";
/// Finalizer of a variant; it stays until the deletion policy has been applied.
pub const FINALIZER: &str = "config.porch.kpt.dev/packagevariants";
/// Annotation of a set: the generation in which the user confirms its deletions.
const CONFIRM_DELETE: &str = "groundwork/confirm-delete";
/// Smallest number of children whose deletion needs a confirmation if it leaves the set without any
/// child.
const GUARDED: usize = 5;

/// Write to one child of a set.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    Create(Box<PackageVariant>),
    /// Adopts a child that has the label of the set but no owner: sets the owner and the wanted
    /// spec.
    Adopt(Box<PackageVariant>),
    /// Updates a child with another spec.
    Update(Box<PackageVariant>),
    /// Deletes a child that no target wants.
    Delete(Box<PackageVariant>),
}

impl Action {
    /// Returns the child as written, or as it is before a deletion.
    pub fn variant(&self) -> &PackageVariant {
        match self {
            Self::Create(variant) | Self::Adopt(variant) | Self::Update(variant) | Self::Delete(variant) => {
                variant
            }
        }
    }
}

/// Writes in a safe order: new children are created before old ones are deleted.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub actions: Vec<Action>,
    /// Names of the expansion's variants, in its order: the name of the present child, or of the
    /// one to be created.
    pub names: Vec<String>,
    /// Number of wanted children that exist.
    pub kept: usize,
    /// Number of `kept` children with the condition `Ready` true.
    pub ready: usize,
    /// Set if more children would be deleted than allowed without a confirmation
    /// (`packagevariants.md` 4.7). Then the plan has no writes, and the text says how to confirm.
    pub guarded: Option<String>,
    /// Number of unwanted children that stay because a failing part of the set might want them.
    pub held: usize,
}

/// Reports whether a variant is a child of a set: it has the label, and no other controller.
pub fn is_child(variant: &PackageVariant, set: &PackageVariantSet) -> bool {
    let uid = set.uid().unwrap_or_default();
    let is_labelled = !uid.is_empty() && variant.labels().get(OWNER_LABEL) == Some(&uid);
    is_labelled && controller(variant).is_none_or(|owner| owner.uid == uid)
}

fn controller(variant: &PackageVariant) -> Option<&OwnerReference> {
    variant.owner_references().iter().find(|owner| owner.controller == Some(true))
}

/// Plans the writes after which a set has exactly the variants of its expansion.
///
/// `children` are all PackageVariants for which [`is_child`] returns true. `is_taken` reports
/// whether another object in the namespace has a name. Children that are being deleted are left
/// alone; a wanted one is created again after it is gone.
///
/// # Errors
/// No free name is left for a child.
pub fn plan(
    set: &PackageVariantSet,
    expansion: &Expansion,
    children: &[PackageVariant],
    is_taken: impl Fn(&str) -> bool,
) -> Result<Plan, ExpandError> {
    let mut there: BTreeMap<(&str, &str), Vec<&PackageVariant>> = BTreeMap::new();
    for child in children {
        there.entry(identity(child)).or_default().push(child);
    }
    let mut used: BTreeSet<String> = children.iter().map(groundwork_api::ResourceExt::name_any).collect();
    let mut names = Vec::with_capacity(expansion.variants.len());
    let (mut creates, mut updates) = (Vec::new(), Vec::new());
    let (mut kept, mut ready) = (0, 0);
    for variant in &expansion.variants {
        let twins =
            there.remove(&(variant.repository.as_str(), variant.package.as_str())).unwrap_or_default();
        let Some(child) = twins.iter().min_by_key(|child| seniority(child)).copied() else {
            let name = free_name(set, variant, |name| used.contains(name) || is_taken(name))?;
            used.insert(name.clone());
            names.push(name.clone());
            creates.push(Action::Create(Box::new(self::child(set, &name, variant))));
            continue;
        };
        let others = twins.into_iter().filter(|twin| !std::ptr::eq(*twin, child)).collect();
        there.insert((variant.repository.as_str(), variant.package.as_str()), others);
        names.push(child.name_any());
        // A wanted child that is being deleted keeps its name until it is gone, so it cannot be
        // created again yet.
        if child.metadata.deletion_timestamp.is_some() {
            continue;
        }
        kept += 1;
        ready += usize::from(is_ready(child));
        updates.extend(update(set, child, variant));
    }
    let unwanted = there.into_values().flatten().filter(|child| child.metadata.deletion_timestamp.is_none());
    let mut deletes: Vec<Action> = unwanted.map(|child| Action::Delete(Box::new(child.clone()))).collect();
    let mut held = 0;
    // A failing target may want any of these children, so none is deleted.
    if !expansion.failures.is_empty() {
        held = deletes.len();
        deletes.clear();
    }
    let there = children.iter().filter(|child| child.metadata.deletion_timestamp.is_none()).count();
    let guarded = guard(set, expansion, deletes.len(), there);
    let actions = if guarded.is_some() { Vec::new() } else { [creates, updates, deletes].concat() };
    Ok(Plan { actions, names, kept, ready, guarded, held })
}

/// Returns the sort key of children for the same package: the first one stays. A child that is not
/// being deleted comes first, then the oldest.
fn seniority(child: &PackageVariant) -> (bool, Option<String>, String) {
    let created = child.metadata.creation_timestamp.as_ref().map(|time| time.0.to_string());
    (child.metadata.deletion_timestamp.is_some(), created, child.name_any())
}

fn identity(child: &PackageVariant) -> (&str, &str) {
    let downstream = child.spec.downstream.as_ref();
    (
        downstream.and_then(|downstream| downstream.repo.as_deref()).unwrap_or_default(),
        downstream.and_then(|downstream| downstream.package.as_deref()).unwrap_or_default(),
    )
}

fn is_ready(child: &PackageVariant) -> bool {
    let conditions = child.status.as_ref().map(|status| &status.conditions);
    let ready =
        conditions.and_then(|conditions| conditions.iter().find(|condition| condition.type_ == "Ready"));
    ready
        .is_some_and(|ready| ready.status == "True" && ready.observed_generation == child.metadata.generation)
}

fn free_name(
    set: &PackageVariantSet,
    variant: &Variant,
    is_taken: impl Fn(&str) -> bool,
) -> Result<String, ExpandError> {
    let (set, repository, package) = (set.name_any(), &variant.repository, &variant.package);
    let name = plain_name(&set, repository, package);
    if !is_taken(&name) {
        return Ok(name);
    }
    let hashed = hashed_name(&set, repository, package);
    if !is_taken(&hashed) {
        return Ok(hashed);
    }
    Err(ExpandError::Unexpected(format!(
        "both names for the package variant of {repository}/{package} are taken: delete or rename {name} or {hashed}"
    )))
}

/// Returns a new child. It has no owner if the set has no UID, as in files.
pub fn child(set: &PackageVariantSet, name: &str, variant: &Variant) -> PackageVariant {
    let uid = set.uid().filter(|uid| !uid.is_empty());
    PackageVariant {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: set.namespace(),
            labels: uid.clone().map(|uid| [(OWNER_LABEL.to_owned(), uid)].into()),
            owner_references: uid.map(|uid| vec![owner(set, uid)]),
            // The finalizer is there from the start, so that no child can be deleted without its
            // deletion policy.
            finalizers: Some(vec![FINALIZER.to_owned()]),
            annotations: is_paused(set).then(|| [(PAUSE.to_owned(), PAUSED_BY_SET.to_owned())].into()),
            ..ObjectMeta::default()
        },
        spec: variant.spec.clone(),
        status: None,
    }
}

fn owner(set: &PackageVariantSet, uid: String) -> OwnerReference {
    OwnerReference {
        api_version: PackageVariantSet::API_VERSION.to_owned(),
        kind: PackageVariantSet::KIND.to_owned(),
        name: set.name_any(),
        uid,
        controller: Some(true),
        block_owner_deletion: None,
    }
}

/// Returns the update of a child, if it needs one. The set resets the spec, and restores an owner
/// reference that was lost. Labels and annotations belong to users, so they stay. The only
/// exception is the pause that the set itself has written.
fn update(set: &PackageVariantSet, child: &PackageVariant, variant: &Variant) -> Option<Action> {
    let mut wanted = child.clone();
    wanted.spec = variant.spec.clone();
    set_pause(set, &mut wanted);
    if controller(child).is_none() {
        let owners = wanted.metadata.owner_references.get_or_insert_default();
        let uid = set.uid().unwrap_or_default();
        owners.retain(|owner| owner.uid != uid);
        owners.push(owner(set, uid));
        return Some(Action::Adopt(Box::new(wanted)));
    }
    let is_changed = wanted.spec != child.spec || is_paused(&wanted) != is_paused(child);
    is_changed.then(|| Action::Update(Box::new(wanted)))
}

/// Pauses a child of a paused set, and ends the pause with that of the set. A user's own pause of
/// the child stays.
fn set_pause(set: &PackageVariantSet, child: &mut PackageVariant) {
    let is_by_set = child.annotations().get(PAUSE).is_some_and(|value| value == PAUSED_BY_SET);
    match (is_paused(set), is_paused(child)) {
        (true, false) => drop(child.annotations_mut().insert(PAUSE.to_owned(), PAUSED_BY_SET.to_owned())),
        (false, true) if is_by_set => drop(child.annotations_mut().remove(PAUSE)),
        _ => {}
    }
}

/// Returns the text of a needed confirmation: a mistyped label must not propose the deletion of
/// every package (`packagevariants.md` 4.7).
fn guard(set: &PackageVariantSet, expansion: &Expansion, deletes: usize, there: usize) -> Option<String> {
    let generation = set.metadata.generation?;
    if deletes == 0 || set.annotations().get(CONFIRM_DELETE) == Some(&generation.to_string()) {
        return None;
    }
    let is_unchanged = set.status.as_ref().and_then(|status| status.observed_generation) == Some(generation);
    let allowed = set.spec.max_delete_percent.and_then(|percent| usize::try_from(percent).ok());
    let what = match allowed {
        // `spec.maxDeletePercent` applies after edits of the set, too, since a selector in the spec
        // is mistyped as easily as a label.
        Some(allowed) if deletes * 100 > allowed * there => format!(
            "{deletes} of {there} package variants would be deleted, but spec.maxDeletePercent is {allowed}"
        ),
        _ if expansion.variants.is_empty() && deletes >= GUARDED && is_unchanged => format!(
            "the targets no longer select an object, so all {deletes} package variants would be deleted"
        ),
        _ => return None,
    };
    Some(format!("{what}: to allow it, set the annotation {CONFIRM_DELETE} to \"{generation}\""))
}

#[cfg(test)]
mod tests;
