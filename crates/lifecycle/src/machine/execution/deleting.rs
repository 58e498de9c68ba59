//! `InitDelete` and `Deleting`: deletion of items, dependencies last (`installations.md` 7.3, 8).

use groundwork_api::metadata::annotation;
use groundwork_api::{DeployItem, DeployItemCache, Execution};

use super::installing::{delete_items, name_of, trigger_items};
use super::interrupting::expire_items;
use super::{enter, failed, patch, status};
use crate::machine::causes;
use crate::machine::items::classify_deletion;
use crate::machine::metadata::{has_finalizer, is_set, without_finalizer};
use crate::machine::step::{Moment, Next, write_some};
use crate::machine::tree::Tree;
use crate::objects;
use crate::phase::Phase;
use crate::protocol::HasJob as _;
use crate::reason::Reason;
use crate::write::{Change, MetadataPatch, Write};

pub(super) fn init(tree: &Tree, execution: &Execution, moment: &Moment) -> Next {
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
    // Without its owner, an item would end without an uninstallation (`installations.md` 8.7).
    let lost = tree.items.present().filter_map(|item| objects::taken_over(item, execution));
    if let Some(step) = write_some(lost.map(|item| Write::DeployItem(Change::Replace(item)))) {
        return step;
    }
    if let Some(step) = delete_items(tree.items.present()) {
        return step;
    }
    let items = tree.items.present().map(name_of).collect();
    status(execution, |status| {
        enter(status, Phase::Deleting, &moment.now);
        status.transition_times.get_or_insert_default().wait_time = Some(moment.now.clone());
        // All items are orphans now. Another replica that takes over reads them by the names in
        // this cache.
        status.deploy_item_cache =
            Some(DeployItemCache { orphaned_dis: items, ..DeployItemCache::default() });
    })
}

pub(super) fn next(tree: &Tree, execution: &Execution, moment: &Moment) -> Next {
    let id = execution.job().id;
    if let Some(step) = expire_items(tree, id, moment) {
        return step;
    }
    let items: Vec<&DeployItem> = tree.items.present().collect();
    if items.is_empty() {
        // Finalizers of other controllers may keep the Execution for a while.
        let is_ours = has_finalizer(&execution.metadata);
        return if is_ours { patch(without_finalizer(&execution.metadata)) } else { Next::Rest };
    }
    // `installations.md` 8.4: no deployer uninstalls the items, so their finalizers are removed
    // directly.
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
    let message = match classes.failed.is_empty() {
        true => "has pending items".to_owned(),
        false => causes::of_items(causes::UNDELETED_ITEMS, &classes.failed),
    };
    failed(execution, moment, Phase::DeleteFailed, Reason::HandlePhaseDeleting, &message)
}
