//! `Init` and `Progressing`: creates items, triggers them in order and waits for them
//! (`installations.md` 2.3, 7.2, 7.3).

use groundwork_api::metadata::{FINALIZER, annotation};
use groundwork_api::{DeployItem, DeployItemCache, DeployItemTemplate, Execution, LastError, List, NamePair};

use super::interrupting::expire_items;
use super::{OPERATION, completing, enter, failed, finish, status};
use crate::error::OperationError;
use crate::item_types::{TypeChange, refused_types};
use crate::machine::causes;
use crate::machine::items::{Classes, classify, classify_deletion};
use crate::machine::metadata::has_finalizer;
use crate::machine::step::{MOST_WRITES, Moment, Next, write_some};
use crate::machine::tree::{Known, Templates, Tree};
use crate::objects;
use crate::phase::Phase;
use crate::protocol::{self, HasJob as _};
use crate::reason::Reason;
use crate::write::{Change, Write};

pub(super) fn init(tree: &mut Tree, execution: &Execution, templates: &Templates, moment: &Moment) -> Next {
    if is_given_up(tree) {
        return failed(execution, moment, Phase::Failed, Reason::CreateOrUpdateDeployItem, GIVEN_UP);
    }
    // Checked before any write or deletion: a job that fails here leaves all items unchanged.
    if let Some(message) = changed_types(tree, templates) {
        let error = OperationError::new(OPERATION, Reason::CreateOrUpdateDeployItem, message);
        return finish(execution, moment, Phase::Failed, Some(&error));
    }
    let orphans = tree.items.orphans(|name| templates.contains(name));
    if let Some(step) = delete_items(orphans.iter().copied()) {
        return step;
    }
    let orphaned_dis = orphans.into_iter().map(name_of).collect();
    if let Some(step) = ensure_items(tree, execution, templates, moment) {
        return step;
    }
    // An item whose template returned while the item is being deleted finishes its deletion in this
    // job (`installations.md` 6.2). A later job creates it anew.
    let returning: Vec<&DeployItem> =
        items_of(tree, templates).filter(|item| item.metadata.deletion_timestamp.is_some()).collect();
    if !returning.is_empty() {
        return delete_all(tree, &returning, execution, moment);
    }
    let pair = |template: &DeployItemTemplate| {
        let item = tree.items.of_template(&template.name)?;
        Some(NamePair { spec_name: template.name.clone(), object_name: name_of(item) })
    };
    let cache = DeployItemCache {
        active_dis: templates.list.iter().filter_map(pair).collect(),
        orphaned_dis,
        ..DeployItemCache::default()
    };
    let waits = waiting_error(execution, moment);
    status(execution, |status| {
        enter(status, Phase::Progressing, &moment.now);
        status.transition_times.get_or_insert_default().wait_time = Some(moment.now.clone());
        if !cache.active_dis.is_empty() || !cache.orphaned_dis.is_empty() {
            status.last_error = Some(waits);
        }
        status.deploy_item_cache = Some(cache);
    })
}

/// Reports whether the Installation is being deleted. Its job then starts no more items, so that
/// the deletion can begin.
fn is_given_up(tree: &Tree) -> bool {
    tree.installation.get().is_some_and(|installation| installation.metadata.deletion_timestamp.is_some())
}

const GIVEN_UP: &str = "the installation is being deleted, so no more items are started";

/// Returns the status entry shown while items run (`installations.md` 2.3).
fn waiting_error(execution: &Execution, moment: &Moment) -> LastError {
    let previous = execution.status.as_ref().and_then(|status| status.last_error.as_ref());
    OperationError::waiting(OPERATION, Reason::HandlePhaseProgressing, "some running items")
        .to_last_error(previous, &moment.now)
}

/// Returns an error if items would change their type (`installations.md` 1.3). An item that is
/// being deleted may get a new type: it is deleted under its old type, and a later job creates it
/// anew.
fn changed_types(tree: &Tree, templates: &Templates) -> Option<String> {
    refused_types(templates.list.iter().filter_map(|template| {
        let item = tree.items.of_template(&template.name)?;
        let is_here = item.metadata.deletion_timestamp.is_none();
        TypeChange::new(&template.name, &item.spec.type_, &template.type_).filter(|_| is_here)
    }))
}

fn items_of<'a>(tree: &'a Tree, templates: &'a Templates) -> impl Iterator<Item = &'a DeployItem> {
    templates.list.iter().filter_map(|template| tree.items.of_template(&template.name))
}

pub(super) fn name_of(item: &DeployItem) -> String {
    item.metadata.name.clone().unwrap_or_default()
}

/// Deletes the items that are not being deleted yet.
pub(super) fn delete_items<'a>(items: impl Iterator<Item = &'a DeployItem>) -> Option<Next> {
    let here = items.filter(|item| item.metadata.deletion_timestamp.is_none());
    write_some(here.map(|item| Write::DeployItem(Change::delete(&item.metadata))))
}

/// Creates or updates the items of the templates; `None` if all of them match (`installations.md`
/// 7.2). Items that are being deleted are skipped.
fn ensure_items(
    tree: &mut Tree,
    execution: &Execution,
    templates: &Templates,
    moment: &Moment,
) -> Option<Next> {
    let (mut writes, mut checked) = (Vec::new(), Vec::new());
    for template in &templates.list {
        if writes.len() >= MOST_WRITES {
            break;
        }
        let change = match tree.items.of_template(&template.name) {
            Some(found) if found.metadata.deletion_timestamp.is_some() || tree.items.is_checked(found) => {
                continue;
            }
            Some(found) => {
                match update_item(found, objects::deploy_item(execution, template), execution, moment) {
                    Some(updated) => Change::Replace(updated),
                    None => {
                        checked.push(name_of(found));
                        continue;
                    }
                }
            }
            None => {
                let mut wanted = objects::deploy_item(execution, template);
                if let Some(Known::Present(other)) = tree.items.get(&name_of(&wanted)) {
                    let name = name_of(other);
                    let message =
                        format!("the deploy item {name} already exists and belongs to another owner");
                    return Some(failed(
                        execution,
                        moment,
                        Phase::Failed,
                        Reason::CreateOrUpdateDeployItem,
                        &message,
                    ));
                }
                stamp_template_time(&mut wanted, moment);
                Change::Create(wanted)
            }
        };
        writes.push(Write::DeployItem(change));
    }
    tree.items.check(checked);
    write_some(writes.into_iter())
}

/// Returns the item as its template wants it, or `None` if it matches already.
fn update_item(
    found: &DeployItem,
    wanted: DeployItem,
    execution: &Execution,
    moment: &Moment,
) -> Option<DeployItem> {
    let mut updated = objects::taken_over(found, execution).unwrap_or_else(|| found.clone());
    // Labels and annotations are merged, so those of other clients stay.
    updated.metadata.labels.get_or_insert_default().extend(wanted.metadata.labels.unwrap_or_default());
    let annotations = updated.metadata.annotations.get_or_insert_default();
    let wanted_annotations = wanted.metadata.annotations.unwrap_or_default();
    if !wanted_annotations.contains_key(annotation::DEPENDS_ON) {
        // A dependency of an earlier job would still order the deletion. Two reversed dependencies
        // could block each other (`installations.md` 7.3).
        annotations.remove(annotation::DEPENDS_ON);
    }
    annotations.extend(wanted_annotations);
    if !has_finalizer(&found.metadata) {
        updated.metadata.finalizers.get_or_insert_default().push(FINALIZER.to_owned());
    }
    updated.spec = wanted.spec;
    if updated == *found {
        return None;
    }
    stamp_template_time(&mut updated, moment);
    Some(updated)
}

fn stamp_template_time(item: &mut DeployItem, moment: &Moment) {
    let annotations = item.metadata.annotations.get_or_insert_default();
    annotations.insert(annotation::RECONCILE_TIME.to_owned(), moment.now.0.to_string());
}

pub(super) fn progressing(
    tree: &mut Tree,
    execution: &Execution,
    templates: &Templates,
    moment: &Moment,
) -> Next {
    let id = execution.job().id;
    if let Some(step) = expire_items(tree, id, moment) {
        return step;
    }
    let orphans = tree.items.orphans(|name| templates.contains(name));
    if !orphans.is_empty() {
        return remove_orphans(tree, &orphans, execution, moment);
    }
    let classes = classify(&tree.items, templates, id);
    let is_given_up = is_given_up(tree);
    if !is_given_up && let Some(step) = trigger_items(&classes, execution, moment) {
        return step;
    }
    if !classes.running.is_empty() {
        return Next::Rest;
    }
    if !classes.failed.is_empty() {
        let message = causes::of_items(causes::FAILED_ITEMS, &classes.failed);
        return failed(execution, moment, Phase::Failed, Reason::HandlePhaseProgressing, &message);
    }
    if is_given_up && !classes.runnable.is_empty() {
        return failed(execution, moment, Phase::Failed, Reason::HandlePhaseProgressing, GIVEN_UP);
    }
    if classes.pending > 0 {
        return failed(
            execution,
            moment,
            Phase::Failed,
            Reason::HandlePhaseProgressing,
            "items could not be started",
        );
    }
    let mut execution = execution.clone();
    if let Some(cache) = execution.status.as_mut().and_then(|status| status.deploy_item_cache.as_mut()) {
        cache.orphaned_dis = List::absent();
    }
    // The phase `Completing` is never written: the exports are collected at once, in the same step.
    if completing::exports_something(tree, &execution) {
        return completing::next(tree, &execution, templates, moment);
    }
    finish(&execution, moment, Phase::Succeeded, None)
}

/// Triggers the items that may run. After a failure no more items are triggered.
pub(super) fn trigger_items(classes: &Classes<'_>, execution: &Execution, moment: &Moment) -> Option<Next> {
    if !classes.failed.is_empty() {
        return None;
    }
    let given = classes.runnable.iter().map(|item| protocol::with_job(item, execution.job().id, &moment.now));
    write_some(given.map(|item| Write::DeployItem(Change::Status(item))))
}

/// Removes orphans before any active item starts. An orphan that cannot be deleted fails the
/// Execution.
fn remove_orphans(tree: &Tree, orphans: &[&DeployItem], execution: &Execution, moment: &Moment) -> Next {
    if let Some(step) = delete_items(orphans.iter().copied()) {
        return step;
    }
    delete_all(tree, orphans, execution, moment)
}

/// Completes the deletion of items in this job.
fn delete_all(tree: &Tree, items: &[&DeployItem], execution: &Execution, moment: &Moment) -> Next {
    let id = execution.job().id;
    if let Some(step) = expire_items(tree, id, moment) {
        return step;
    }
    let classes = classify_deletion(items, id);
    if let Some(step) = trigger_items(&classes, execution, moment) {
        return step;
    }
    if classes.running.is_empty() && !classes.failed.is_empty() {
        let message = causes::of_items(causes::FAILED_ITEMS, &classes.failed);
        return failed(execution, moment, Phase::Failed, Reason::HandlePhaseProgressing, &message);
    }
    Next::Rest
}
