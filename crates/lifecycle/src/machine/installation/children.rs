//! Nested Installations as their parent handles them (`blueprints.md` 9.5; `installations.md` 6.2,
//! 6.3, 8).

use std::collections::HashMap;

use groundwork_api::metadata::{FINALIZER, annotation};
use groundwork_api::{
    Installation, List, NamePair, NamedObjectReference, ObjectReference, ResourceExt as _,
    SubInstallationCache,
};

use super::{CREATE, INIT, fail};
use crate::error::OperationError;
use crate::machine::causes;
use crate::machine::children::{Child as _, Children};
use crate::machine::metadata::{has_finalizer, is_set};
use crate::machine::step::{MOST_WRITES, Moment, Next, Read, write_some};
use crate::machine::tree::Tree;
use crate::prepare::Prepared;
use crate::protocol::{HasJob as _, triggered};
use crate::reason::Reason;
use crate::write::{Change, MetadataPatch, Write};

/// Starts a job with the children in the old cache, which the same write clears (`installations.md`
/// 10.3). An Installation that never had a job has no children, unless it comes from a backup.
pub(super) fn start(tree: &mut Tree, installation: &Installation) {
    if tree.has_unstarted {
        tree.children = Children::default();
        return;
    }
    let Some(status) = &installation.status else {
        tree.children.set_names([]);
        return;
    };
    match &status.sub_inst_cache {
        Some(cache) => tree.children.set_names(cached_names(cache)),
        None if status.job_id_finished.as_ref().is_none_or(String::is_empty) => tree.children.set_names([]),
        None => {}
    }
}

fn cached_names(cache: &SubInstallationCache) -> impl Iterator<Item = &String> {
    let active = cache.active_subs.iter().map(|pair| &pair.object_name);
    active.chain(cache.orphaned_subs.iter())
}

/// Reads children until the tree contains the current state of each; `None` when it does.
pub(super) fn read(tree: &mut Tree, installation: &Installation) -> Option<Next> {
    match installation.status.as_ref().and_then(|status| status.sub_inst_cache.as_ref()) {
        // The names in the status are needed even for a complete tree: another replica may have
        // created children since the tree was filled.
        Some(cache) => tree.children.set_names(cached_names(cache)),
        None if !tree.children.is_complete() => return Some(Next::Read(Read::ListChildren)),
        None => {}
    }
    let unread = tree.children.unread();
    (!unread.is_empty()).then_some(Next::Read(Read::Children(unread)))
}

/// Creates or updates the children, and deletes those whose template is gone; `None` if no child
/// needs a write.
pub(super) fn ensure(
    tree: &mut Tree,
    installation: &Installation,
    prepared: &Prepared,
    moment: &Moment,
) -> Option<Next> {
    if let Some(step) = read(tree, installation) {
        return Some(step);
    }
    let failed = |reason: Reason, cause: String| {
        let error =
            OperationError::caused_by(INIT, Reason::CreateImportsAndSubobjects, (CREATE, &reason), cause);
        Some(fail(installation, moment, &error, &prepared.conditions))
    };
    if let Some(dangling) = tree.children.present().find(|child| child.template().is_none()) {
        let cause = format!(
            "dangling installation found {}: it has no annotation {}",
            dangling.name_any(),
            annotation::SUBINSTALLATION_NAME
        );
        return failed(Reason::DanglingSubinstallation, cause);
    }
    let wanted: HashMap<&str, &Installation> =
        prepared.children.iter().map(|child| (child.template.as_str(), &child.installation)).collect();
    let orphans = tree.children.orphans(|template| wanted.contains_key(template));
    if let Some(step) = delete_orphans(&orphans) {
        return Some(step);
    }
    let (mut writes, mut checked) = (Vec::new(), Vec::new());
    let mut is_held_up = false;
    for child in &prepared.children {
        if writes.len() >= MOST_WRITES {
            break;
        }
        match tree.children.of_template(&child.template) {
            Some(found) if found.is_deleting() => {
                // The child counts as an orphan of this job (`installations.md` 6.2): its deletion
                // finishes, then a new child is created.
                if found.job().finished == installation.job().id {
                    let mut cause = format!(
                        "an installation {} should be created which is currently under deletion, and that failed",
                        found.name_any()
                    );
                    if let Some(below) = causes::of_child(found) {
                        cause = format!("{cause}: {below}");
                    }
                    return failed(Reason::EnsureSubinstallations, cause);
                }
                is_held_up = true;
                writes.extend(mark(found).or_else(|| give_job(found, installation, moment)));
            }
            Some(found) if tree.children.is_checked(found) => {}
            Some(found) => match updated(found, &child.installation) {
                Some(updated) => writes.push(Write::Child(Change::Replace(updated))),
                None => checked.push(found.name_any()),
            },
            None => {
                let name = child.installation.name_any();
                if tree.children.get(&name).is_some_and(|known| known.get().is_some()) {
                    let cause = format!(
                        "unable to create installation for {}: {name} already exists and belongs to another owner",
                        child.template
                    );
                    return failed(Reason::CreateOrUpdateInstallation, cause);
                }
                writes.push(Write::Child(Change::Create(child.installation.clone())));
            }
        }
    }
    tree.children.check(checked);
    let step = write_some(writes.into_iter());
    step.or_else(|| is_held_up.then_some(Next::Rest))
}

/// Returns the child with spec, labels and annotations of its template, without any change that a
/// user made (`installations.md` 1.7). `None` if the child matches already.
fn updated(found: &Installation, wanted: &Installation) -> Option<Installation> {
    let mut updated = found.clone();
    updated.spec = wanted.spec.clone();
    updated.metadata.labels.clone_from(&wanted.metadata.labels);
    updated.metadata.annotations.clone_from(&wanted.metadata.annotations);
    updated.metadata.owner_references.clone_from(&wanted.metadata.owner_references);
    if !has_finalizer(&found.metadata) {
        updated.metadata.finalizers.get_or_insert_default().push(FINALIZER.to_owned());
    }
    (updated != *found).then_some(updated)
}

/// Marks orphans, then deletes them (`installations.md` 6.2). The mark keeps siblings that import
/// from an orphan from blocking its deletion.
fn delete_orphans(orphans: &[&Installation]) -> Option<Next> {
    if let Some(step) = write_some(orphans.iter().filter_map(|orphan| mark(orphan))) {
        return Some(step);
    }
    let here = orphans.iter().filter(|orphan| !orphan.is_deleting());
    write_some(here.map(|orphan| Write::Child(Change::delete(&orphan.metadata))))
}

fn mark(child: &Installation) -> Option<Write> {
    annotated(child, annotation::DELETE_IGNORE_SUCCESSORS)
}

/// Returns the write that sets an annotation to `true`, or `None` if it has that value.
pub(super) fn annotated(child: &Installation, name: &'static str) -> Option<Write> {
    if is_set(&child.metadata, name) {
        return None;
    }
    let annotations = vec![(name, Some("true".to_owned()))];
    Some(Write::Child(Change::Metadata(MetadataPatch { annotations, ..MetadataPatch::of(&child.metadata) })))
}

/// Returns the write that assigns the parent's job to a child, or `None` if the child has it
/// already or still runs another job.
pub(super) fn give_job(child: &Installation, parent: &Installation, moment: &Moment) -> Option<Write> {
    let id = parent.job().id;
    // A running job is never replaced. It ends on its own.
    if child.job().id == id || child.job().is_running() {
        return None;
    }
    let mut child = child.clone();
    let status = child.status.get_or_insert_default();
    status.job_id = Some(id.to_owned());
    status.transition_times = Some(triggered(&moment.now));
    Some(Write::Child(Change::Status(child)))
}

/// Returns the children for the status: the wanted ones, in the order of the templates, and the
/// orphans.
pub(super) fn known(tree: &Tree, prepared: &Prepared) -> (SubInstallationCache, Vec<NamedObjectReference>) {
    let active = prepared.children.iter().filter_map(|child| {
        let found = tree.children.of_template(&child.template)?;
        Some((child.template.clone(), found.name_any(), found.metadata.namespace.clone()))
    });
    let active: Vec<_> = active.collect();
    let is_active = |template: &str| active.iter().any(|(name, ..)| name == template);
    let orphaned: Vec<String> =
        tree.children.orphans(is_active).into_iter().map(groundwork_api::ResourceExt::name_any).collect();
    let cache = SubInstallationCache {
        active_subs: active
            .iter()
            .map(|(template, name, _)| NamePair { spec_name: template.clone(), object_name: name.clone() })
            .collect(),
        orphaned_subs: if orphaned.is_empty() { List::absent() } else { orphaned.into() },
        ..SubInstallationCache::default()
    };
    let reference = |(template, name, namespace): (String, String, Option<String>)| NamedObjectReference {
        name: template,
        reference: ObjectReference { name, namespace },
        ..NamedObjectReference::default()
    };
    (cache, active.into_iter().map(reference).collect())
}
