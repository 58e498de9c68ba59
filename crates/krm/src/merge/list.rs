//! Merge of associative lists, whose elements are identified by keys and merged one by one
//! (`packagevariants.md` 7.5).

use std::collections::HashSet;

use groundwork_yaml::tree::{Comments, Content, Mapping, Node, Pair, Sequence};

use super::fields::{Fields, KindMismatch, Rules, Sides};
use crate::schema::{Key, Keys, Schema};
use crate::value::canonical;

/// Identity of an element.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Name {
    /// Texts of its key fields.
    Fields(Vec<Option<String>>),
    /// Canonical text of the whole element, which has no key fields.
    Value(String),
}

/// Elements of one source by identity; of equal ones the first.
struct Elements<'a>(Vec<(Name, &'a Node)>);

impl<'a> Elements<'a> {
    fn of(list: Option<&'a Node>, keys: &Keys) -> Self {
        let items = list.and_then(Node::as_sequence).into_iter().flat_map(|list| &list.items);
        let mut known = HashSet::new();
        let named = items.filter(|item| !item.is_null()).map(|item| (name(item, keys), item));
        Self(named.filter(|(name, _)| known.insert(name.clone())).collect())
    }

    fn get(&self, name: &Name) -> Option<&'a Node> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, item)| *item)
    }
}

fn name(item: &Node, keys: &Keys) -> Name {
    let fields = match keys {
        Keys::Fields(fields) => fields.as_slice(),
        Keys::Value => &[],
    };
    let text = |key: &Key| {
        item.get(&key.name).filter(|value| !value.is_null()).and_then(Node::text).map(str::to_owned)
    };
    match fields.first().map(text) {
        Some(Some(_)) => {
            Name::Fields(fields.iter().map(|key| text(key).or_else(|| key.default.clone())).collect())
        }
        _ => Name::Value(canonical(item)),
    }
}

fn shown(name: &Name) -> String {
    match name {
        Name::Fields(texts) => {
            texts.iter().map(|text| text.as_deref().unwrap_or_default()).collect::<Vec<_>>().join(",")
        }
        Name::Value(_) => String::new(),
    }
}

impl Fields<'_> {
    pub(super) fn merge_elements(
        &mut self,
        sides: Sides<'_>,
        keys: &Keys,
        schema: &Schema<'_>,
        path: &str,
    ) -> Result<Option<Node>, KindMismatch> {
        let is_removed = self.rules == Rules::Object && sides.updated.is_none() && sides.original.is_some();
        if is_removed || sides.local.is_none() && sides.updated.is_none() {
            return Ok(None);
        }
        let (local, original, updated) = (
            Elements::of(sides.local, keys),
            Elements::of(sides.original, keys),
            Elements::of(sides.updated, keys),
        );
        let mut known = HashSet::new();
        let all = local.0.iter().chain(&original.0).chain(&updated.0).map(|(name, _)| name);
        let names: Vec<&Name> = all.filter(|name| known.insert(*name)).collect();
        let mut items = Vec::new();
        for name in names {
            let element = Sides::new(local.get(name), original.get(name), updated.get(name));
            let merged = match name {
                Name::Value(_) => by_value(element),
                Name::Fields(_) => self.merge_element(element, keys, schema, path, &shown(name))?,
            };
            items.extend(merged);
        }
        Ok(self.finish_list(sides, items))
    }

    fn finish_list(&self, sides: Sides<'_>, items: Vec<Node>) -> Option<Node> {
        let is_empty = |node: &Node| node.as_sequence().is_some_and(|list| list.items.is_empty());
        if let Some(local) = sides.local {
            if items.is_empty() && self.rules == Rules::Kptfile && !is_empty(local) {
                return None;
            }
            let mut node = local.clone();
            if let Some(list) = node.as_sequence_mut() {
                list.items = items;
            }
            return Some(node);
        }
        let updated = sides.updated?;
        if items.is_empty() {
            let is_new = self.rules == Rules::Object && is_empty(updated) && sides.original.is_none();
            return is_new.then(|| updated.clone());
        }
        let mut node = Node::from(Content::Sequence(Sequence { items, is_flow: false }));
        node.comments = updated.comments.clone();
        Some(node)
    }

    fn merge_element(
        &mut self,
        element: Sides<'_>,
        keys: &Keys,
        schema: &Schema<'_>,
        path: &str,
        name: &str,
    ) -> Result<Option<Node>, KindMismatch> {
        let here = format!("{path}[{name}]");
        let item = schema.item();
        let is_function = self.rules == Rules::Kptfile && path.starts_with("pipeline.");
        match (element.local, element.original, element.updated) {
            (local, None, None) => Ok(local.cloned()),
            (None, None, updated) => Ok(updated.cloned()),
            (None, Some(_), None) => Ok(None),
            // The upstream has changed a part of a function that was removed here. That part alone
            // would be a function without its config, so the function stays removed.
            (None, Some(_), Some(_)) if is_function => Ok(None),
            (Some(local), _, Some(_)) => {
                let merged = self.merge_maps(element, &item, &here)?;
                Ok(merged.map(|node| with_comments_of(node, local)))
            }
            (None, Some(_), Some(updated)) => {
                let merged = self.merge_maps(element, &item, &here)?;
                Ok(self.stub(merged, updated, keys, path, name))
            }
            (Some(local), Some(_), None) => {
                let merged = self.merge_maps(element, &item, &here)?;
                Ok(self.stub(merged, local, keys, path, name))
            }
        }
    }

    /// Returns the key fields of an element, and the fields that only one side has in it, if any.
    fn stub(
        &mut self,
        merged: Option<Node>,
        source: &Node,
        keys: &Keys,
        path: &str,
        name: &str,
    ) -> Option<Node> {
        let Keys::Fields(fields) = keys else { return None };
        let is_key = |pair: &Pair| fields.iter().any(|key| key.name == pair.name());
        let Some(Node { content: Content::Mapping(Mapping { pairs, .. }), comments, .. }) = merged else {
            return None;
        };
        let rest: Vec<Pair> = pairs.into_iter().filter(|pair| !is_key(pair)).collect();
        if !rest.iter().any(|pair| holds_anything(&pair.value)) {
            return None;
        }
        let Mapping { pairs: source_pairs, is_flow } = source.as_mapping()?;
        let mut kept: Vec<Pair> = source_pairs.iter().filter(|pair| is_key(pair)).cloned().collect();
        // The keys keep their position from the source, in front of the fields that follow them
        // there.
        let position =
            |name: &str| source_pairs.iter().position(|pair| pair.name() == name).unwrap_or(usize::MAX);
        let is_local = rest.iter().all(|pair| position(pair.name()) != usize::MAX);
        kept.extend(rest);
        if is_local {
            kept.sort_by_key(|pair| position(pair.name()));
        }
        // A function without its image is dropped later (`packagevariants.md` 7.6), so it needs no
        // warning.
        if !(self.rules == Rules::Kptfile && path.starts_with("pipeline.")) {
            self.warnings.push(format!(
                "{path}: element {name} is incomplete: upstream and local changes exclude one another"
            ));
        }
        let mut node = Node::from(Content::Mapping(Mapping { pairs: kept, is_flow: *is_flow }));
        node.comments = comments;
        Some(node)
    }
}

/// Reports whether a value contains anything besides empty maps.
fn holds_anything(node: &Node) -> bool {
    match &node.content {
        Content::Mapping(mapping) => mapping.pairs.iter().any(|pair| holds_anything(&pair.value)),
        _ => true,
    }
}

fn with_comments_of(mut node: Node, local: &Node) -> Node {
    if node.comments == Comments::default() {
        node.comments = local.comments.clone();
    }
    node
}

/// Merges an element without keys: it is either present or absent.
fn by_value(element: Sides<'_>) -> Option<Node> {
    let is_kept = match (element.original.is_some(), element.updated.is_some()) {
        (true, false) => false,
        (false, true) => true,
        _ => element.local.is_some(),
    };
    element.local.or(element.updated).filter(|_| is_kept).cloned()
}
