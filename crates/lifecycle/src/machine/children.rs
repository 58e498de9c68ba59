//! Objects created from the templates of a parent: DeployItems of an Execution, nested
//! Installations of an Installation.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use groundwork_api::metadata::{annotation, label};
use groundwork_api::{DeployItem, Installation};

use super::metadata::annotation as annotation_of;
use super::tree::Known;
use crate::protocol::HasJob;

/// Object that was created from a template of its parent.
pub trait Child: HasJob {
    /// Returns the name of the template.
    fn template(&self) -> Option<&str>;
}

impl Child for DeployItem {
    fn template(&self) -> Option<&str> {
        self.metadata.labels.as_ref()?.get(label::DEPLOY_ITEM_NAME).map(String::as_str)
    }
}

impl Child for Installation {
    fn template(&self) -> Option<&str> {
        annotation_of(&self.metadata, annotation::SUBINSTALLATION_NAME)
    }
}

/// Known children of one object, by object name.
#[derive(Debug, Clone)]
pub struct Children<K> {
    children: BTreeMap<String, Known<K>>,
    /// Names of the children by template. The index may contain children that are gone or that have
    /// another template by now.
    by_template: HashMap<String, BTreeSet<String>>,
    /// Names of the children that already match their templates.
    checked: HashSet<String>,
    /// True if every existing child is an entry.
    is_complete: bool,
}

impl<K> Default for Children<K> {
    fn default() -> Self {
        Self {
            children: BTreeMap::new(),
            by_template: HashMap::new(),
            checked: HashSet::new(),
            is_complete: false,
        }
    }
}

impl<K: Child> Children<K> {
    /// Reports whether the names of all children are known.
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Adds names. Together with the known children they are the complete list.
    pub fn set_names<'a>(&mut self, names: impl IntoIterator<Item = &'a String>) {
        for name in names {
            // Most names are known already. The check avoids a copy of the name for them.
            if !self.children.contains_key(name) {
                self.children.insert(name.clone(), Known::default());
            }
        }
        self.is_complete = true;
    }

    /// Replaces all entries by a complete list.
    pub fn set_list(&mut self, children: impl IntoIterator<Item = K>) {
        *self = Self::default();
        for child in children {
            self.store(child);
        }
        self.is_complete = true;
    }

    pub fn insert(&mut self, name: String, child: Known<K>) {
        self.note(&name, child.get());
        self.children.insert(name, child);
    }

    /// Updates the indexes for a child that is about to be stored.
    fn note(&mut self, name: &str, child: Option<&K>) {
        self.checked.remove(name);
        if let Some(template) = child.and_then(Child::template) {
            match self.by_template.get_mut(template) {
                Some(names) if names.contains(name) => {}
                Some(names) => drop(names.insert(name.to_owned())),
                None => {
                    self.by_template.insert(template.to_owned(), BTreeSet::from([name.to_owned()]));
                }
            }
        }
    }

    /// Reports whether the child matches its template and has not changed since that check.
    pub(super) fn is_checked(&self, child: &K) -> bool {
        child.meta().name.as_ref().is_some_and(|name| self.checked.contains(name))
    }

    pub(super) fn check(&mut self, names: impl IntoIterator<Item = String>) {
        self.checked.extend(names);
    }

    pub(super) fn forget_checks(&mut self) {
        self.checked.clear();
    }

    /// Stores a child that the API server returned.
    pub fn store(&mut self, child: K) {
        let name = child.name_any();
        self.note(&name, Some(&child));
        self.children.entry(name).or_default().store(child);
    }

    /// Calls [`Known::outdate`] for a child, and adds an entry if the child is unknown.
    pub fn outdate(&mut self, name: &str, seen: Option<&str>) {
        self.checked.remove(name);
        self.children.entry(name.to_owned()).or_default().outdate(seen);
    }

    pub(super) fn for_each(&mut self, mut change: impl FnMut(&str, &mut Known<K>)) {
        for (name, child) in &mut self.children {
            change(name, child);
            if child.is_unread() {
                self.checked.remove(name);
            }
        }
    }

    pub(super) fn unread(&self) -> Vec<String> {
        let unread = self.children.iter().filter(|(_, child)| child.is_unread());
        unread.map(|(name, _)| name.clone()).collect()
    }

    pub fn get(&self, name: &str) -> Option<&Known<K>> {
        self.children.get(name)
    }

    pub fn present(&self) -> impl Iterator<Item = &K> {
        self.children.values().filter_map(Known::get)
    }

    /// Returns the child created from a template.
    pub(super) fn of_template(&self, template: &str) -> Option<&K> {
        let names = self.by_template.get(template).into_iter().flatten();
        let mut children = names.filter_map(|name| self.children.get(name)?.get());
        children.find(|child| child.template() == Some(template))
    }

    /// Returns the children whose template no longer exists.
    pub(super) fn orphans(&self, has_template: impl Fn(&str) -> bool) -> Vec<&K> {
        let is_orphan = |child: &&K| child.template().is_none_or(|name| !has_template(name));
        self.present().filter(is_orphan).collect()
    }
}
