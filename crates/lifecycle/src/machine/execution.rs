//! The phases of an Execution (`installations.md` 2.3, 3.2, 7).

use std::borrow::Cow;
use std::sync::Arc;

use groundwork_api::metadata::{FINALIZER, annotation, operation};
use groundwork_api::{
    DataObject, DeployItem, DeployItemCache, DeployItemTemplate, ErrorCode, Execution, ExecutionStatus,
    Installation, LastError, List, NamePair, ObjectReference, Time,
};
use serde_json::Value;

use super::items::{Classes, classify, classify_deletion, waiting_since};
use super::metadata::{annotation as annotation_of, has_finalizer, is_set, without_finalizer};
use super::phase::Phase;
use super::protocol::{self, HasJob as _, started};
use super::step::{Change, MOST_WRITES, MetadataPatch, Moment, Next, Read, Write, write, write_some};
use super::tree::{Known, Templates, Tree};
use crate::deployer::{end, record};
use crate::error::OperationError;
use crate::{data, objects};

const OPERATION: &str = "handleReconcilePhase";
const PROGRESSING: &str = "handlePhaseProgressing";
const DELETING: &str = "handlePhaseDeleting";

pub(super) fn next(tree: &mut Tree, moment: &Moment) -> Next {
    let is_idle = |installation: &Installation| !installation.job().is_running();
    let execution = match &tree.execution {
        // Work on an Execution comes from the job of its Installation.
        Known::Unread if tree.installation.get().is_some_and(is_idle) => return Next::Rest,
        Known::Unread => return Next::Read(Read::Execution),
        Known::Absent => return Next::Rest,
        Known::Present(execution) => Arc::clone(execution),
    };
    if is_set(&execution.metadata, annotation::IGNORE) {
        return Next::Rest;
    }
    if annotation_of(&execution.metadata, annotation::OPERATION) == Some(operation::INTERRUPT) {
        return interrupt(tree, &execution, moment);
    }
    if !execution.job().is_running() {
        return Next::Rest;
    }
    if execution.phase().is_final() {
        return start(tree, &execution, moment);
    }
    let templates = match tree.templates(&execution) {
        Ok(templates) => templates,
        Err(error) => {
            let error = OperationError::new(OPERATION, "GetDeployItems", error.to_string());
            return finish(&execution, moment, Phase::Failed, Some(&error));
        }
    };
    let current = execution.phase();
    if current != Phase::Completing
        && let Some(step) = read_items(tree, &execution)
    {
        return step;
    }
    match current {
        Phase::Init => init(tree, &execution, &templates, moment),
        Phase::Progressing => progressing(tree, &execution, &templates, moment),
        Phase::Completing => completing(tree, &execution, &templates, moment),
        Phase::InitDelete => init_delete(tree, &execution, moment),
        Phase::Deleting => deleting(tree, &execution, moment),
        Phase::None
        | Phase::ObjectsCreated
        | Phase::Succeeded
        | Phase::Failed
        | Phase::TriggerDelete
        | Phase::DeleteFailed
        | Phase::Unknown => Next::Rest,
    }
}

pub(super) fn patch(patch: MetadataPatch) -> Next {
    write(Write::Execution(Change::Metadata(patch)))
}

fn status(execution: &Execution, change: impl FnOnce(&mut ExecutionStatus)) -> Next {
    let mut execution = execution.clone();
    change(execution.status.get_or_insert_default());
    write(Write::Execution(Change::Status(execution)))
}

/// The Execution with a job, which begins in the same write unless another one is under way.
pub(super) fn begun(tree: &mut Tree, execution: &Execution, id: &str, now: &Time) -> Execution {
    let mut given = execution.clone();
    let status = given.status.get_or_insert_default();
    status.job_id = Some(id.to_owned());
    status.transition_times = Some(protocol::triggered(now));
    if execution.phase().is_final() { started_execution(tree, &given, now) } else { given }
}

/// What to store in place of an Execution, if it is not as it should be. `None` for `wanted` empties it.
pub(super) fn updated(
    found: &Execution,
    installation: &Installation,
    wanted: Option<&Execution>,
) -> Option<Execution> {
    let empty = || Cow::Owned(objects::execution(installation, Vec::new()));
    let wanted = wanted.map_or_else(empty, Cow::Borrowed);
    let same_items = match (found.spec.templates(), wanted.spec.templates()) {
        (Ok(found), Ok(wanted)) => found == wanted,
        _ => false,
    };
    let annotations = found.metadata.annotations.clone().unwrap_or_default();
    let mut wanted_annotations = annotations.clone();
    wanted_annotations.extend(wanted.metadata.annotations.clone().unwrap_or_default());
    // Without the finalizer a deletion would leave the items without an owner (1.6).
    let is_held = has_finalizer(&found.metadata);
    if same_items
        && found.spec.context() == wanted.spec.context()
        && annotations == wanted_annotations
        && is_held
    {
        return None;
    }
    let mut updated = found.clone();
    if !is_held {
        updated.metadata.finalizers.get_or_insert_default().push(FINALIZER.to_owned());
    }
    updated.spec = wanted.spec.clone();
    updated.metadata.annotations = Some(wanted_annotations);
    Some(updated)
}

fn start(tree: &mut Tree, execution: &Execution, moment: &Moment) -> Next {
    let started = started_execution(tree, execution, &moment.now);
    write(Write::Execution(Change::Status(started)))
}

fn started_execution(tree: &mut Tree, execution: &Execution, now: &Time) -> Execution {
    let mut execution = execution.clone();
    let generation = execution.metadata.generation.unwrap_or_default();
    let is_deleting = execution.is_deleting();
    let status = execution.status.get_or_insert_default();
    // The old cache is where the job starts from, and is cleared in the same write (10.3); whoever comes later
    // and does not know it lists by label. One that never had a job has no items.
    match status.deploy_item_cache.take() {
        Some(cache) => tree.items.set_names(cached_names(&cache)),
        None if status.job_id_finished.as_ref().is_none_or(String::is_empty) => tree.items.set_names([]),
        None => {}
    }
    tree.exports = None;
    tree.exports_written = false;
    enter(status, if is_deleting { Phase::InitDelete } else { Phase::Init }, now);
    status.observed_generation = generation;
    status.transition_times = Some(started(status.transition_times.as_ref(), now));
    execution
}

fn enter(status: &mut ExecutionStatus, phase: Phase, now: &Time) {
    if status.phase.as_deref() != Some(phase.as_str()) {
        status.phase = Some(phase.into());
        status.phase_transition_time = Some(now.clone());
    }
    status.last_error = None;
}

fn finish(execution: &Execution, moment: &Moment, phase: Phase, error: Option<&OperationError>) -> Next {
    status(execution, |status| {
        let previous = status.last_error.take();
        enter(status, phase, &moment.now);
        status.last_error = error.map(|error| error.to_last_error(previous.as_ref(), &moment.now));
        status.job_id_finished = status.job_id.clone();
        status.transition_times.get_or_insert_default().finished_time = Some(moment.now.clone());
    })
}

fn failed(execution: &Execution, moment: &Moment, phase: Phase, reason: &'static str, message: &str) -> Next {
    finish(execution, moment, phase, Some(&OperationError::child(OPERATION, reason, message)))
}

fn cached_names(cache: &DeployItemCache) -> Vec<String> {
    let active = cache.active_dis.iter().map(|pair| &pair.object_name);
    active.chain(cache.orphaned_dis.iter()).cloned().collect()
}

/// Makes sure that every item is known as it is.
fn read_items(tree: &mut Tree, execution: &Execution) -> Option<Next> {
    if !tree.items.is_complete() {
        match execution.status.as_ref().and_then(|status| status.deploy_item_cache.as_ref()) {
            Some(cache) => tree.items.set_names(cached_names(cache)),
            None => return Some(Next::Read(Read::ListItems)),
        }
    }
    let unread = tree.items.unread();
    (!unread.is_empty()).then_some(Next::Read(Read::Items(unread)))
}

// === installing ===

fn init(tree: &mut Tree, execution: &Execution, templates: &Templates, moment: &Moment) -> Next {
    if is_given_up(tree) {
        return failed(execution, moment, Phase::Failed, "CreateOrUpdateDeployItem", GIVEN_UP);
    }
    let orphans = tree.items.orphans(|name| templates.contains(name));
    if let Some(step) = delete_items(orphans.iter().copied()) {
        return step;
    }
    let orphaned_dis = orphans.into_iter().map(name_of).collect();
    if let Some(step) = ensure_items(tree, execution, templates, moment) {
        return step;
    }
    // One whose template came back while it is being deleted ends in this job (6.2), then it is made anew.
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

/// A job whose Installation is being deleted starts nothing more, so that the deletion can begin.
fn is_given_up(tree: &Tree) -> bool {
    tree.installation.get().is_some_and(|installation| installation.metadata.deletion_timestamp.is_some())
}

const GIVEN_UP: &str = "the installation is being deleted, so that nothing more is started";

/// What the status says while items run (2.3).
fn waiting_error(execution: &Execution, moment: &Moment) -> LastError {
    let previous = execution.status.as_ref().and_then(|status| status.last_error.as_ref());
    OperationError::waiting(OPERATION, PROGRESSING, "some running items").to_last_error(previous, &moment.now)
}

fn items_of<'a>(tree: &'a Tree, templates: &'a Templates) -> impl Iterator<Item = &'a DeployItem> {
    templates.list.iter().filter_map(|template| tree.items.of_template(&template.name))
}

fn name_of(item: &DeployItem) -> String {
    item.metadata.name.clone().unwrap_or_default()
}

/// Asks for the deletion of those that nobody has asked for yet.
fn delete_items<'a>(items: impl Iterator<Item = &'a DeployItem>) -> Option<Next> {
    let here = items.filter(|item| item.metadata.deletion_timestamp.is_none());
    write_some(here.map(|item| Write::DeployItem(Change::delete(&item.metadata))))
}

/// Creates or updates the items of the templates; `None` when all are as they should be (7.2). Those that are being deleted are passed
/// over.
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
            Some(found) => match update_item(found, objects::deploy_item(execution, template), moment) {
                Some(updated) => Change::Replace(updated),
                None => {
                    checked.push(name_of(found));
                    continue;
                }
            },
            None => {
                let mut wanted = objects::deploy_item(execution, template);
                if let Some(Known::Present(other)) = tree.items.get(&name_of(&wanted)) {
                    let name = name_of(other);
                    let message =
                        format!("the deploy item {name} exists already and belongs to something else");
                    return Some(failed(
                        execution,
                        moment,
                        Phase::Failed,
                        "CreateOrUpdateDeployItem",
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

/// The item as its template wants it; `None` when it is already.
fn update_item(found: &DeployItem, wanted: DeployItem, moment: &Moment) -> Option<DeployItem> {
    let mut updated = found.clone();
    // Labels and annotations are merged: what others put there stays.
    updated.metadata.labels.get_or_insert_default().extend(wanted.metadata.labels.unwrap_or_default());
    let annotations = updated.metadata.annotations.get_or_insert_default();
    let wanted_annotations = wanted.metadata.annotations.unwrap_or_default();
    if !wanted_annotations.contains_key(annotation::DEPENDS_ON) {
        // A dependency of a former job would order the deletion, and two of them could bar each other's way (7.3).
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

fn progressing(tree: &mut Tree, execution: &Execution, templates: &Templates, moment: &Moment) -> Next {
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
        let message = "has failed or missing deploy items";
        return failed(execution, moment, Phase::Failed, PROGRESSING, message);
    }
    if is_given_up && !classes.runnable.is_empty() {
        return failed(execution, moment, Phase::Failed, PROGRESSING, GIVEN_UP);
    }
    if classes.pending > 0 {
        return failed(execution, moment, Phase::Failed, PROGRESSING, "items could not be started");
    }
    let mut execution = execution.clone();
    if let Some(cache) = execution.status.as_mut().and_then(|status| status.deploy_item_cache.as_mut()) {
        cache.orphaned_dis = List::absent();
    }
    // Nobody waits between the end of the items and the end of the job: no write says so.
    if exports_something(tree, &execution) {
        return completing(tree, &execution, templates, moment);
    }
    finish(&execution, moment, Phase::Succeeded, None)
}

/// Triggers the items that may run; nothing is triggered once one has failed.
fn trigger_items(classes: &Classes<'_>, execution: &Execution, moment: &Moment) -> Option<Next> {
    if !classes.failed.is_empty() {
        return None;
    }
    let trigger = |item: &&DeployItem| {
        let mut item = (*item).clone();
        let status = item.status.get_or_insert_default();
        status.job_id = Some(execution.job().id.to_owned());
        status.job_id_generation_time = Some(moment.now.clone());
        status.transition_times = Some(protocol::triggered(&moment.now));
        Write::DeployItem(Change::Status(item))
    };
    write_some(classes.runnable.iter().map(trigger))
}

/// Orphans go before any active item starts, and one that cannot go fails the Execution.
fn remove_orphans(tree: &Tree, orphans: &[&DeployItem], execution: &Execution, moment: &Moment) -> Next {
    if let Some(step) = delete_items(orphans.iter().copied()) {
        return step;
    }
    delete_all(tree, orphans, execution, moment)
}

/// Has items that are being deleted go in this job.
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
        let message = "has failed or missing deploy items";
        return failed(execution, moment, Phase::Failed, PROGRESSING, message);
    }
    Next::Rest
}

/// 7.6: items that no deployer has picked up in time.
fn expire_items(tree: &Tree, id: &str, moment: &Moment) -> Option<Next> {
    let timeout = moment.pickup_timeout?;
    let is_late = |item: &&DeployItem| {
        let since = waiting_since(item);
        item.job().id == id && since.is_some_and(|since| moment.now.0.duration_since(since) >= timeout)
    };
    let late: Vec<&DeployItem> = tree.items.present().filter(is_late).take(MOST_WRITES).collect();
    let target = |item: &&DeployItem| item.spec.target.as_ref().map(|target| target.name.clone());
    if let Some(name) = late.iter().filter_map(target).find(|name| !tree.targets.contains_key(name)) {
        return Some(Next::Read(Read::Target(name)));
    }
    let expire = |item: &DeployItem| {
        let mut message =
            format!("no deployer has reconciled this deployitem within {} seconds", timeout.as_secs());
        if let Some(name) = target(&item).filter(|name| tree.targets.get(name) == Some(&false)) {
            message.push_str(&format!("; its target {name} does not exist"));
        }
        let error = OperationError {
            operation: "WaitingForPickup".into(),
            reason: "PickupTimeout".into(),
            message,
            codes: vec![ErrorCode::Timeout],
        };
        let mut item = item.clone();
        let is_deleting = item.metadata.deletion_timestamp.is_some();
        let generation = item.metadata.generation.unwrap_or_default();
        let status = item.status.get_or_insert_default();
        status.observed_generation = generation;
        end_item(status, is_deleting, &error, &moment.now);
        Write::DeployItem(Change::Status(item))
    };
    write_some(late.into_iter().map(expire))
}

/// Ends the job of an item in the name of its deployer.
fn end_item(
    status: &mut groundwork_api::DeployItemStatus,
    is_deleting: bool,
    error: &OperationError,
    now: &Time,
) {
    record(status, error, now);
    let phase = if is_deleting { Phase::DeleteFailed } else { Phase::Failed };
    end(status, phase, now);
}

/// 3.2: every item that has not finished the job is ended, then the request is removed.
fn interrupt(tree: &mut Tree, execution: &Execution, moment: &Moment) -> Next {
    if let Some(step) = read_items(tree, execution) {
        return step;
    }
    let id = execution.job().id;
    let unfinished = |item: &&DeployItem| item.job().finished != id;
    let end = |item: &DeployItem| {
        let mut item = item.clone();
        let is_deleting = item.metadata.deletion_timestamp.is_some();
        let error = OperationError::child(OPERATION, "InterruptOperation", "the job was interrupted");
        let status = item.status.get_or_insert_default();
        status.job_id = Some(id.to_owned());
        end_item(status, is_deleting, &error, &moment.now);
        Write::DeployItem(Change::Status(item))
    };
    if execution.job().is_running()
        && let Some(step) = write_some(tree.items.present().filter(unfinished).map(end))
    {
        return step;
    }
    let annotations = vec![(annotation::OPERATION, None)];
    patch(MetadataPatch { annotations, ..MetadataPatch::of(&execution.metadata) })
}

// === exports ===

fn export_secret(item: &DeployItem) -> Option<&str> {
    item.status.as_ref()?.export_ref.as_ref().map(|reference| reference.name.as_str())
}

/// Whether there is, or was, something to collect.
fn exports_something(tree: &Tree, execution: &Execution) -> bool {
    tree.items.present().any(|item| export_secret(item).is_some())
        || execution.status.as_ref().is_some_and(|status| status.export_ref.is_some())
}

fn completing(tree: &mut Tree, execution: &Execution, templates: &Templates, moment: &Moment) -> Next {
    let Some(exports) = &tree.exports else {
        if let Some(step) = read_items(tree, execution) {
            return step;
        }
        let secret = |template: &DeployItemTemplate| {
            let item = tree.items.of_template(&template.name)?;
            Some((template.name.clone(), export_secret(item)?.to_owned()))
        };
        return Next::Read(Read::Exports(templates.list.iter().filter_map(secret).collect()));
    };
    let mut values = exports.clone();
    for template in &templates.list {
        values.entry(template.name.clone()).or_insert(Value::Null);
    }
    let holder = data::export_holder(execution, Value::Object(values));
    let reference = ObjectReference {
        name: holder.metadata.name.clone().unwrap_or_default(),
        namespace: holder.metadata.namespace.clone(),
    };
    if !tree.exports_written {
        tree.exports_written = true;
        return write(Write::DataObject(Change::<DataObject>::Ensure(holder)));
    }
    let mut finished = execution.clone();
    finished.status.get_or_insert_default().export_ref = Some(reference);
    finish(&finished, moment, Phase::Succeeded, None)
}

// === deleting ===

fn init_delete(tree: &Tree, execution: &Execution, moment: &Moment) -> Next {
    let without_uninstall = is_set(&execution.metadata, annotation::DELETE_WITHOUT_UNINSTALL);
    let mark = |item: &DeployItem| {
        let annotations = vec![(annotation::DELETE_WITHOUT_UNINSTALL, Some("true".to_owned()))];
        let patch = MetadataPatch { annotations, ..MetadataPatch::of(&item.metadata) };
        Write::DeployItem(Change::Metadata(patch))
    };
    let is_unmarked = |item: &&DeployItem| !is_set(&item.metadata, annotation::DELETE_WITHOUT_UNINSTALL);
    if without_uninstall && let Some(step) = write_some(tree.items.present().filter(is_unmarked).map(mark)) {
        return step;
    }
    if let Some(step) = delete_items(tree.items.present()) {
        return step;
    }
    let items = tree.items.present().map(name_of).collect();
    status(execution, |status| {
        enter(status, Phase::Deleting, &moment.now);
        status.transition_times.get_or_insert_default().wait_time = Some(moment.now.clone());
        // All of them go; whoever takes over in the middle reads them by name.
        status.deploy_item_cache =
            Some(DeployItemCache { orphaned_dis: items, ..DeployItemCache::default() });
    })
}

fn deleting(tree: &Tree, execution: &Execution, moment: &Moment) -> Next {
    let id = execution.job().id;
    if let Some(step) = expire_items(tree, id, moment) {
        return step;
    }
    let items: Vec<&DeployItem> = tree.items.present().collect();
    if items.is_empty() {
        // Finalizers of others keep it a while longer.
        let is_ours = has_finalizer(&execution.metadata);
        return if is_ours { patch(without_finalizer(&execution.metadata)) } else { Next::Rest };
    }
    // 8.4: nobody uninstalls anything, so nobody is asked to.
    if is_set(&execution.metadata, annotation::DELETE_WITHOUT_UNINSTALL) {
        let held = items.iter().filter(|item| has_finalizer(&item.metadata));
        let release =
            |item: &&DeployItem| Write::DeployItem(Change::Metadata(without_finalizer(&item.metadata)));
        if let Some(step) = write_some(held.map(release)) {
            return step;
        }
    }
    let classes = classify_deletion(&items, id);
    if let Some(step) = trigger_items(&classes, execution, moment) {
        return step;
    }
    if !classes.running.is_empty() {
        return Next::Rest;
    }
    let message = if classes.failed.is_empty() { "has pending items" } else { "has failed items" };
    failed(execution, moment, Phase::DeleteFailed, DELETING, message)
}

/// The end of a job one of whose writes the API server will never accept.
pub(super) fn refused(
    execution: &Execution,
    reason: &'static str,
    cause: &str,
    moment: &Moment,
) -> Option<Write> {
    if !execution.job().is_running() {
        return None;
    }
    let is_deleting = matches!(execution.phase(), Phase::InitDelete | Phase::Deleting);
    let phase = if is_deleting { Phase::DeleteFailed } else { Phase::Failed };
    match failed(execution, moment, phase, reason, cause) {
        Next::Write(mut writes) => writes.pop(),
        _ => None,
    }
}
