//! The DeployItems of an Execution and the order in which they run (`installations.md` 7.3).

use std::collections::HashSet;

use groundwork_api::DeployItem;
use groundwork_api::metadata::annotation;
use jiff::Timestamp;

use super::causes::FailedItem;
use super::children::{Child as _, Children};
use super::tree::Templates;
use crate::phase::Phase;
use crate::protocol::{HasJob as _, Standing};

/// Known DeployItems of one Execution.
pub type Items = Children<DeployItem>;

/// Returns the time since when an item waits for a deployer to pick it up, if it does
/// (`installations.md` 7.6).
pub(super) fn waiting_since(item: &DeployItem) -> Option<Timestamp> {
    let status = item.status.as_ref()?;
    let generated = status.job_id_generation_time.as_ref()?;
    let is_late = status.last_reconcile_time.as_ref().is_none_or(|picked_up| picked_up < generated);
    (item.job().is_running() && is_late).then_some(generated.0)
}

/// Items of an Execution, grouped by their progress in a job.
#[derive(Debug, Default)]
pub(super) struct Classes<'a> {
    pub(super) running: Vec<&'a DeployItem>,
    pub(super) succeeded: usize,
    /// Failed items, including missing ones.
    pub(super) failed: Vec<FailedItem<'a>>,
    pub(super) runnable: Vec<&'a DeployItem>,
    pub(super) pending: usize,
}

/// Groups the items for an installation: dependencies run first.
pub(super) fn classify<'a>(items: &'a Items, templates: &'a Templates, current: &str) -> Classes<'a> {
    let mut classes = Classes::default();
    let is_finished =
        |name: &String| items.of_template(name).is_some_and(|item| item.job().finished == current);
    for template in &templates.list {
        let Some(item) = items.of_template(&template.name) else {
            classes.failed.push(FailedItem { template: &template.name, item: None });
            continue;
        };
        match item.standing(current) {
            Standing::Succeeded => classes.succeeded += 1,
            Standing::Failed => {
                classes.failed.push(FailedItem { template: &template.name, item: Some(item) });
            }
            Standing::Running => classes.running.push(item),
            Standing::Waiting if template.depends_on.iter().all(is_finished) => classes.runnable.push(item),
            Standing::Waiting => classes.pending += 1,
        }
    }
    classes
}

/// Groups the items for a deletion: dependencies go last. The dependencies come from the
/// annotations of the items, because orphans no longer have a template.
pub(super) fn classify_deletion<'a>(items: &[&'a DeployItem], current: &str) -> Classes<'a> {
    let mut classes = Classes::default();
    let needed: HashSet<&str> = items.iter().flat_map(|item| dependencies(item)).collect();
    let mut pending = Vec::new();
    for item in items {
        let its = item.job();
        let has_failed = matches!(item.phase(), Phase::Failed | Phase::DeleteFailed);
        if its.finished == current && has_failed {
            let template = item.template().unwrap_or_default();
            classes.failed.push(FailedItem { template, item: Some(item) });
        } else if its.id == current {
            classes.running.push(item);
        } else if item.template().is_none_or(|name| !needed.contains(name)) {
            classes.runnable.push(item);
        } else {
            pending.push(*item);
        }
    }
    if classes.running.is_empty() && classes.runnable.is_empty() && classes.failed.is_empty() {
        // The remaining items depend on one another, for example after a job died between the two
        // writes that reverse a dependency. Without this exception they could never be deleted.
        classes.runnable = pending;
    } else {
        classes.pending = pending.len();
    }
    classes
}

fn dependencies(item: &DeployItem) -> impl Iterator<Item = &str> {
    let written = item.metadata.annotations.as_ref().and_then(|all| all.get(annotation::DEPENDS_ON));
    written.map(String::as_str).unwrap_or_default().split(',').filter(|name| !name.is_empty())
}
