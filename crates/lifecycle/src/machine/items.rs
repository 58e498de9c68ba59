//! The DeployItems of an Execution and the order in which they run (`installations.md` 7.3).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use groundwork_api::DeployItem;
use groundwork_api::metadata::{annotation, label};
use jiff::Timestamp;

use super::phase;
use super::protocol::Job;
use super::tree::{Known, Templates};

/// What is known of the DeployItems of one Execution, by object name.
#[derive(Debug, Clone, Default)]
pub struct Items {
    items: BTreeMap<String, Known<DeployItem>>,
    /// Names of the items that were made from a template. One that is no longer there, or has another label by now, may be among them.
    by_template: HashMap<String, BTreeSet<String>>,
    /// Items that were found to be as their templates want them.
    checked: HashSet<String>,
    /// Every item that exists is an entry.
    is_complete: bool,
}

impl Items {
    /// Whether the names of all items are known.
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// From here on the names are all there are.
    pub fn set_names(&mut self, names: impl IntoIterator<Item = String>) {
        for name in names {
            self.items.entry(name).or_default();
        }
        self.is_complete = true;
    }

    /// Takes in a complete list.
    pub fn set_list(&mut self, items: impl IntoIterator<Item = DeployItem>) {
        self.items.clear();
        self.by_template.clear();
        self.checked.clear();
        for item in items {
            self.store(item);
        }
        self.is_complete = true;
    }

    pub fn insert(&mut self, name: String, item: Known<DeployItem>) {
        self.note(&name, item.get());
        self.items.insert(name, item);
    }

    /// Keeps the index true for an item that is about to be kept.
    fn note(&mut self, name: &str, item: Option<&DeployItem>) {
        self.checked.remove(name);
        if let Some(template) = item.and_then(template_name) {
            match self.by_template.get_mut(template) {
                Some(names) if names.contains(name) => {}
                Some(names) => drop(names.insert(name.to_owned())),
                None => {
                    self.by_template.insert(template.to_owned(), BTreeSet::from([name.to_owned()]));
                }
            }
        }
    }

    /// Whether the item was found to be as its template wants it, and has not changed since.
    pub(super) fn is_checked(&self, item: &DeployItem) -> bool {
        item.metadata.name.as_ref().is_some_and(|name| self.checked.contains(name))
    }

    pub(super) fn check(&mut self, names: impl IntoIterator<Item = String>) {
        self.checked.extend(names);
    }

    pub(super) fn forget_checks(&mut self) {
        self.checked.clear();
    }

    /// Takes in an item that the API server answered with.
    pub fn store(&mut self, item: DeployItem) {
        let name = item.metadata.name.clone().unwrap_or_default();
        self.note(&name, Some(&item));
        self.items.entry(name).or_default().store(item);
    }

    /// See [`Known::outdate`]; an item that was not known yet is noted.
    pub fn outdate(&mut self, name: &str, seen: &str) {
        self.checked.remove(name);
        self.items.entry(name.to_owned()).or_default().outdate(seen);
    }

    pub(super) fn for_each(&mut self, mut change: impl FnMut(&str, &mut Known<DeployItem>)) {
        for (name, item) in &mut self.items {
            change(name, item);
            if item.is_unread() {
                self.checked.remove(name);
            }
        }
    }

    pub(super) fn unread(&self) -> Vec<String> {
        let unread = self.items.iter().filter(|(_, item)| item.is_unread());
        unread.map(|(name, _)| name.clone()).collect()
    }

    pub(super) fn get(&self, name: &str) -> Option<&Known<DeployItem>> {
        self.items.get(name)
    }

    pub(super) fn present(&self) -> impl Iterator<Item = &DeployItem> {
        self.items.values().filter_map(Known::get)
    }

    /// The item made from a template, which is told by its label.
    pub(super) fn of_template(&self, template: &str) -> Option<&DeployItem> {
        let names = self.by_template.get(template).into_iter().flatten();
        let mut items = names.filter_map(|name| self.items.get(name)?.get());
        items.find(|item| template_name(item) == Some(template))
    }

    /// Items whose template is gone.
    pub(super) fn orphans<'a>(&'a self, templates: &Templates) -> Vec<&'a DeployItem> {
        let is_orphan = |item: &&DeployItem| template_name(item).is_none_or(|name| !templates.contains(name));
        self.present().filter(is_orphan).collect()
    }
}

/// The name of the template that an item was made from.
pub(super) fn template_name(item: &DeployItem) -> Option<&str> {
    item.metadata.labels.as_ref()?.get(label::DEPLOY_ITEM_NAME).map(String::as_str)
}

pub(super) fn job(item: &DeployItem) -> Job<'_> {
    let status = item.status.as_ref();
    Job::new(
        status.and_then(|status| status.job_id.as_ref()),
        status.and_then(|status| status.job_id_finished.as_ref()),
    )
}

/// Since when an item waits to be picked up, if it does (7.6).
pub(super) fn waiting_since(item: &DeployItem) -> Option<Timestamp> {
    let status = item.status.as_ref()?;
    let generated = status.job_id_generation_time.as_ref()?;
    let is_late = status.last_reconcile_time.as_ref().is_none_or(|picked_up| picked_up < generated);
    (job(item).is_running() && is_late).then_some(generated.0)
}

fn item_phase(item: &DeployItem) -> &str {
    item.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

/// Where the items of an Execution stand in a job.
#[derive(Debug, Default)]
pub(super) struct Classes<'a> {
    pub(super) running: Vec<&'a DeployItem>,
    pub(super) succeeded: usize,
    /// Template names, also of items that are missing.
    pub(super) failed: Vec<&'a str>,
    pub(super) runnable: Vec<&'a DeployItem>,
    pub(super) pending: usize,
}

/// The way of an installation: dependencies first.
pub(super) fn classify<'a>(items: &'a Items, templates: &'a Templates, current: &str) -> Classes<'a> {
    let mut classes = Classes::default();
    let is_finished =
        |name: &String| items.of_template(name).is_some_and(|item| job(item).finished == current);
    for template in &templates.list {
        let Some(item) = items.of_template(&template.name) else {
            classes.failed.push(&template.name);
            continue;
        };
        let its = job(item);
        if its.finished == current {
            if item_phase(item) == phase::SUCCEEDED {
                classes.succeeded += 1;
            } else {
                classes.failed.push(&template.name);
            }
        } else if its.id == current {
            classes.running.push(item);
        } else if template.depends_on.iter().all(is_finished) {
            classes.runnable.push(item);
        } else {
            classes.pending += 1;
        }
    }
    classes
}

/// The way of a deletion: what others depend on goes last. Dependencies are those that were written on the items,
/// since orphans have no template any more.
pub(super) fn classify_deletion<'a>(items: &[&'a DeployItem], current: &str) -> Classes<'a> {
    let mut classes = Classes::default();
    let needed: HashSet<&str> = items.iter().flat_map(|item| dependencies(item)).collect();
    let mut pending = Vec::new();
    for item in items {
        let its = job(item);
        let has_failed = matches!(item_phase(item), phase::FAILED | phase::DELETE_FAILED);
        if its.finished == current && has_failed {
            classes.failed.push(template_name(item).unwrap_or_default());
        } else if its.id == current {
            classes.running.push(item);
        } else if template_name(item).is_none_or(|name| !needed.contains(name)) {
            classes.runnable.push(item);
        } else {
            pending.push(*item);
        }
    }
    if classes.running.is_empty() && classes.runnable.is_empty() && classes.failed.is_empty() {
        // They wait for each other, as after a job that died between turning a dependency round on two items: nobody could ever delete
        // them.
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
