//! Functions of Kptfiles in a merge (`packagevariants.md` 7.6): the same function in three
//! versions of a list, and the order of the merged list.
//!
//! Functions seldom have names, and their order matters. So they are matched first, and get a
//! temporary identifier for the merge.

use std::collections::{BTreeMap, BTreeSet};

use groundwork_yaml::tree::{Node, Pair};

/// Field with the identifier of a function during a merge.
pub(super) const ID: &str = "_kpt-merge_id";
/// Prefix of the functions that a variant brings. Only the variant itself changes them.
const OF_VARIANT: &str = "PackageVariant.";
/// Lists of functions in a pipeline.
const LISTS: [&str; 2] = ["mutators", "validators"];

/// Identifiers of the functions of each list, in the order of each version.
#[derive(Debug, Default)]
pub(super) struct Orders(BTreeMap<&'static str, Order>);

#[derive(Debug, Default)]
struct Order {
    local: Vec<String>,
    original: Vec<String>,
    updated: Vec<String>,
}

/// Function of a list, as the match sees it.
#[derive(Clone, Copy)]
struct Function<'a> {
    node: &'a Node,
    name: &'a str,
    /// Program, or image without tag and digest.
    runs: &'a str,
    config_path: &'a str,
}

impl<'a> Function<'a> {
    fn of(node: &'a Node) -> Self {
        let text = |field: &str| node.get(field).and_then(Node::text).unwrap_or_default();
        let runs = if node.get("exec").is_some() { text("exec") } else { without_version(text("image")) };
        Self { node, name: text("name"), runs, config_path: text("configPath") }
    }

    /// Returns the image without its registry.
    fn short(&self) -> &'a str {
        self.runs.rsplit('/').next().unwrap_or_default()
    }

    fn has_name_of(&self, other: &Function<'_>) -> bool {
        !self.name.is_empty() && self.name == other.name
    }

    /// Reports whether the names allow both to be the same function: one may have got its name in
    /// between.
    fn may_be(&self, other: &Function<'_>) -> bool {
        let is_free = |name: &str| !name.starts_with(OF_VARIANT);
        (self.name.is_empty() || other.name.is_empty() || self.name == other.name)
            && is_free(self.name)
            && is_free(other.name)
    }

    /// Reports whether both have the same config and the same selection.
    fn has_config_of(&self, other: &Function<'_>) -> bool {
        ["configPath", "configMap", "selectors", "exclude"].into_iter().all(|field| {
            match (self.node.get(field), other.node.get(field)) {
                (Some(own), Some(other)) => own.equals(other),
                (own, other) => own.is_none() == other.is_none(),
            }
        })
    }
}

/// Returns an image without its tag and digest.
fn without_version(image: &str) -> &str {
    let image = image.split('@').next().unwrap_or(image);
    match image.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => name,
        _ => image,
    }
}

type Fits = fn(&Function<'_>, &Function<'_>) -> bool;

/// Tests by which a function is found in the version that both sides began with, the strictest
/// first. Images that differ only in their registry are the same function, since catalogs move.
const FROM_ORIGINAL: [Fits; 7] = [
    |a, b| a.has_name_of(b),
    |a, b| a.may_be(b) && a.runs == b.runs && a.has_config_of(b),
    |a, b| a.may_be(b) && a.runs == b.runs && a.config_path == b.config_path,
    |a, b| a.may_be(b) && a.short() == b.short() && a.has_config_of(b),
    |a, b| a.may_be(b) && a.short() == b.short() && a.config_path == b.config_path,
    |a, b| a.may_be(b) && a.runs == b.runs,
    |a, b| a.may_be(b) && a.short() == b.short(),
];

/// Tests by which both sides have added the same function.
const ADDED: [Fits; 2] = [
    |a, b| a.has_name_of(b),
    |a, b| [a.name, b.name] == ["", ""] && a.short() == b.short() && a.config_path == b.config_path,
];

/// Matches functions by tests in their order. Returns the index of each one's partner.
fn matches(
    base: &[Option<Function<'_>>],
    others: &[Option<Function<'_>>],
    tests: &[Fits],
) -> Vec<Option<usize>> {
    let mut found = vec![None; others.len()];
    let mut taken = BTreeSet::new();
    for fits in tests {
        for (at, other) in others.iter().enumerate() {
            let Some(other) = other.as_ref().filter(|_| found[at].is_none()) else { continue };
            let partner = base.iter().enumerate().find(|(index, candidate)| {
                !taken.contains(index) && candidate.as_ref().is_some_and(|candidate| fits(candidate, other))
            });
            if let Some((index, _)) = partner {
                found[at] = Some(index);
                taken.insert(index);
            }
        }
    }
    found
}

fn list<'a>(root: Option<&'a Node>, name: &str) -> Vec<Option<Function<'a>>> {
    let items = root.and_then(|root| root.at(&["pipeline", name])).and_then(Node::as_sequence);
    let function = |node: &'a Node| node.as_mapping().map(|_| Function::of(node));
    items.into_iter().flat_map(|list| &list.items).map(function).collect()
}

/// Gives each function of the three versions its identifier, and returns the orders of the lists.
pub(super) fn identify(local: &mut Node, original: &mut Option<Node>, updated: &mut Option<Node>) -> Orders {
    let mut orders = Orders::default();
    for name in LISTS {
        let order = {
            let (of_original, of_updated) = (list(original.as_ref(), name), list(updated.as_ref(), name));
            Order::of(&list(Some(local), name), &of_original, &of_updated)
        };
        put_ids(Some(local), name, &order.local);
        put_ids(original.as_mut(), name, &order.original);
        put_ids(updated.as_mut(), name, &order.updated);
        orders.0.insert(name, order);
    }
    orders
}

fn put_ids(root: Option<&mut Node>, name: &str, ids: &[String]) {
    let list = root.and_then(|root| root.get_mut("pipeline")).and_then(|pipeline| pipeline.get_mut(name));
    let items = list.and_then(Node::as_sequence_mut).map(|list| &mut list.items);
    for (item, id) in items.into_iter().flatten().zip(ids) {
        if let Some(mapping) = item.as_mapping_mut() {
            mapping.pairs.insert(0, Pair::new(ID, Node::string(id)));
        }
    }
}

/// Returns the functions that have no partner.
fn new<'a>(functions: &[Option<Function<'a>>], found: &[Option<usize>]) -> Vec<Option<Function<'a>>> {
    let new = functions.iter().zip(found).map(|(function, found)| function.filter(|_| found.is_none()));
    new.collect()
}

impl Order {
    fn of(
        local: &[Option<Function<'_>>],
        original: &[Option<Function<'_>>],
        updated: &[Option<Function<'_>>],
    ) -> Self {
        let mut used = BTreeSet::new();
        let mut new_id = |function: &Option<Function<'_>>| {
            let label = function.map_or("", |function| match function.name {
                "" => function.runs,
                name => name,
            });
            let numbered = (2..).map(|number| format!("{label}#{number}"));
            let id = std::iter::once(label.to_owned()).chain(numbered).find(|id| !used.contains(id));
            let id = id.unwrap_or_default();
            used.insert(id.clone());
            id
        };
        let ids: Vec<String> = original.iter().map(&mut new_id).collect();
        let in_updated = matches(original, updated, &FROM_ORIGINAL);
        let in_local = matches(original, local, &FROM_ORIGINAL);
        let partner = |found: Option<usize>| found.and_then(|index| ids.get(index).cloned());
        let of_updated: Vec<String> = updated
            .iter()
            .zip(in_updated.iter().copied())
            .map(|(function, found)| partner(found).unwrap_or_else(|| new_id(function)))
            .collect();
        let added = matches(&new(updated, &in_updated), &new(local, &in_local), &ADDED);
        let of_local = local
            .iter()
            .zip(in_local.into_iter().zip(added))
            .map(|(function, (found, added))| {
                let added = || added.and_then(|index| of_updated.get(index).cloned());
                partner(found).or_else(added).unwrap_or_else(|| new_id(function))
            })
            .collect();
        Self { local: of_local, original: ids, updated: of_updated }
    }

    /// Returns the order of the merged functions: the upstream's, if it has changed its list.
    /// Local functions stay beside the neighbour that they had.
    fn merged(&self, present: &[String]) -> Vec<String> {
        if self.updated == self.original {
            return present.to_vec();
        }
        let is_present = |id: &&String| present.contains(id);
        let mut ordered: Vec<String> = self.updated.iter().filter(is_present).cloned().collect();
        for id in present {
            if !ordered.contains(id) {
                let at = self.place(id, &ordered);
                ordered.insert(at, id.clone());
            }
        }
        ordered
    }

    /// Returns the place of a local function among those that have theirs.
    fn place(&self, id: &String, ordered: &[String]) -> usize {
        let position = |id: &String| ordered.iter().position(|other| other == id);
        let Some(own) = self.local.iter().position(|other| other == id) else { return ordered.len() };
        let (before, after) = (self.local.get(..own).unwrap_or_default(), self.local.get(own + 1));
        let next_to = before.last().and_then(position).map(|at| at + 1);
        let in_front_of = || after.filter(|_| !before.is_empty()).and_then(position);
        let behind = || before.iter().rev().find_map(position).map(|at| at + 1);
        let last = if before.is_empty() { 0 } else { ordered.len() };
        next_to.or_else(in_front_of).or_else(behind).unwrap_or(last)
    }
}

impl Orders {
    /// Sorts the functions of the merged Kptfile, and removes their identifiers.
    pub(super) fn apply(&self, root: &mut Node) {
        for (name, order) in &self.0 {
            let list = root.get_mut("pipeline").and_then(|pipeline| pipeline.get_mut(name));
            let Some(list) = list.and_then(Node::as_sequence_mut) else { continue };
            let id = |item: &Node| item.get(ID).and_then(Node::text).unwrap_or_default().to_owned();
            let present: Vec<String> = list.items.iter().map(id).collect();
            let ordered = order.merged(&present);
            list.items.sort_by_cached_key(|item| {
                let own = id(item);
                ordered.iter().position(|other| *other == own)
            });
            list.items.iter_mut().for_each(take_id);
        }
    }
}

/// Removes the identifier of a function. Comments above it belong to the field behind it.
fn take_id(function: &mut Node) {
    let Some(mapping) = function.as_mapping_mut() else { return };
    let head = mapping.pair(ID).map(|pair| pair.key.comments.head.clone()).unwrap_or_default();
    mapping.remove(ID);
    if let (false, Some(first)) = (head.is_empty(), mapping.pairs.first_mut()) {
        first.key.comments.head = head;
    }
}
