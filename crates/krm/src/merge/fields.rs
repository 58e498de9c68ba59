//! Three-way merge of one value (`packagevariants.md` 7.5; for Kptfiles 7.6).

use std::collections::{BTreeSet, HashMap};

use groundwork_yaml::tree::{Content, Mapping, Node, Notation, Pair, Scalar};

use crate::schema::Schema;

/// Versions of a value: local, original, updated.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sides<'a> {
    pub(super) local: Option<&'a Node>,
    pub(super) original: Option<&'a Node>,
    pub(super) updated: Option<&'a Node>,
}

/// Variant of the merge rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rules {
    Object,
    Kptfile,
}

/// Field whose versions have different types.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: wrong node kind: expected {expected} but got {got}")]
pub(super) struct KindMismatch {
    path: String,
    expected: &'static str,
    got: &'static str,
}

/// Merger for the fields of one object.
pub(super) struct Fields<'a> {
    pub(super) rules: Rules,
    pub(super) crds: &'a crate::crd::Schemas,
    /// Warnings for users, without the path of the file.
    pub(super) warnings: Vec<String>,
}

impl<'a> Sides<'a> {
    pub(super) fn new(
        local: Option<&'a Node>,
        original: Option<&'a Node>,
        updated: Option<&'a Node>,
    ) -> Self {
        Self { local, original, updated }
    }

    fn in_order(&self) -> [Option<&'a Node>; 3] {
        [self.local, self.original, self.updated]
    }

    fn map(self, change: impl Fn(&'a Node) -> Option<&'a Node>) -> Self {
        let change = |side: Option<&'a Node>| side.and_then(&change);
        Self { local: change(self.local), original: change(self.original), updated: change(self.updated) }
    }

    /// Returns the pairs of each side by their keys.
    fn pairs(&self) -> [HashMap<&'a str, &'a Pair>; 3] {
        self.in_order().map(|side| {
            let pairs = side.and_then(Node::as_mapping).into_iter().flat_map(|mapping| &mapping.pairs);
            pairs.map(|pair| (pair.name(), pair)).collect()
        })
    }
}

fn kind_name(node: &Node) -> &'static str {
    match node.content {
        Content::Mapping(_) => "MappingNode",
        Content::Sequence(_) => "SequenceNode",
        Content::Scalar(_) => "ScalarNode",
    }
}

/// Returns the path of a member.
pub(super) fn member(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

impl Fields<'_> {
    /// Returns the merged value; `None` to remove it.
    pub(super) fn merge(
        &mut self,
        sides: Sides<'_>,
        schema: &Schema<'_>,
        path: &str,
    ) -> Result<Option<Node>, KindMismatch> {
        let present = sides.map(|node| (!node.is_null()).then_some(node));
        let mut kinds = present.in_order().into_iter().flatten();
        let Some(first) = kinds.next() else { return Ok(None) };
        if let Some(other) = kinds.find(|other| kind_name(other) != kind_name(first)) {
            let (expected, got) = (kind_name(first), kind_name(other));
            return Err(KindMismatch { path: path.to_owned(), expected, got });
        }
        if self.is_cleared(&sides, &present) {
            return Ok(None);
        }
        match first.content {
            Content::Mapping(_) => self.merge_maps(present, schema, path),
            Content::Sequence(_) => self.merge_lists(present, schema, path),
            Content::Scalar(_) => Ok(merge_scalars(present)),
        }
    }

    /// Reports whether an explicit null removes the value.
    fn is_cleared(&self, sides: &Sides<'_>, present: &Sides<'_>) -> bool {
        let is_null = |side: Option<&Node>| side.is_some_and(Node::is_null);
        let nulls = is_null(sides.local) || is_null(sides.updated);
        match self.rules {
            Rules::Object => nulls && !is_null(sides.original),
            Rules::Kptfile => {
                nulls
                    && present
                        .in_order()
                        .into_iter()
                        .flatten()
                        .any(|node| matches!(node.content, Content::Scalar(_)))
            }
        }
    }

    pub(super) fn merge_maps(
        &mut self,
        sides: Sides<'_>,
        schema: &Schema<'_>,
        path: &str,
    ) -> Result<Option<Node>, KindMismatch> {
        if sides.local.is_none() && sides.updated.is_none() {
            return Ok(None);
        }
        // In a field without a schema, an embedded object names its own type.
        let own = if schema.is_open() && !path.is_empty() {
            Schema::of(sides.in_order(), self.crds)
        } else {
            Schema::Unknown
        };
        let schema = if matches!(own, Schema::Unknown) { schema } else { &own };
        let mut pairs = Vec::new();
        let by_key = sides.pairs();
        for key in keys(&sides) {
            let [local, original, updated] = [0, 1, 2].map(|side: usize| by_key[side].get(key).copied());
            let below = Sides::new(
                local.map(|pair| &pair.value),
                original.map(|pair| &pair.value),
                updated.map(|pair| &pair.value),
            );
            if let Some(mut value) = self.merge(below, &schema.member(key), &member(path, key))? {
                // The comment after a map in flow form belongs to the map, but documents its key.
                if let (None, Some(updated), Content::Mapping(_)) = (original, updated, &value.content) {
                    value.comments.line.clone_from(&updated.value.comments.line);
                }
                pairs.push(Pair { key: merged_key(local, original, updated, key), value });
            }
        }
        Ok(self.finish_map(sides, pairs))
    }

    /// Puts the pairs into the local map, if there is one. Decides whether an empty result is kept.
    fn finish_map(&self, sides: Sides<'_>, pairs: Vec<Pair>) -> Option<Node> {
        let is_empty = |node: &Node| node.as_mapping().is_some_and(|mapping| mapping.pairs.is_empty());
        if let Some(local) = sides.local {
            if pairs.is_empty() && self.rules == Rules::Kptfile && !is_empty(local) {
                return None;
            }
            let mut node = local.clone();
            if let Some(mapping) = node.as_mapping_mut() {
                mapping.pairs = pairs;
            }
            return Some(node);
        }
        let updated = sides.updated?;
        if pairs.is_empty() {
            let is_new = self.rules == Rules::Object && is_empty(updated) && sides.original.is_none();
            return is_new.then(|| updated.clone());
        }
        let content = Content::Mapping(Mapping { pairs, is_flow: false });
        let mut node = Node::from(content);
        node.comments = updated.comments.clone();
        Some(node)
    }

    fn merge_lists(
        &mut self,
        sides: Sides<'_>,
        schema: &Schema<'_>,
        path: &str,
    ) -> Result<Option<Node>, KindMismatch> {
        let keys = match self.rules {
            Rules::Object => schema.keys(),
            Rules::Kptfile => super::kptfile::keys(sides.in_order(), path),
        };
        if let Some(keys) = keys {
            return self.merge_elements(sides, &keys, schema, path);
        }
        let merged = match (sides.original, sides.updated) {
            (None, None) => sides.local,
            (Some(original), Some(updated)) if original.equals(updated) => sides.local,
            (_, updated) => updated,
        };
        let is_kept = |node: &&Node| {
            self.rules == Rules::Object || node.as_sequence().is_some_and(|list| !list.items.is_empty())
        };
        Ok(merged.filter(is_kept).cloned())
    }
}

/// Returns the keys of all sides: those of the local map in its order, then new ones in byte order.
fn keys<'a>(sides: &Sides<'a>) -> Vec<&'a str> {
    let names = |side: Option<&'a Node>| {
        side.and_then(Node::as_mapping).into_iter().flat_map(|mapping| mapping.pairs.iter().map(Pair::name))
    };
    let mut keys: Vec<&str> = names(sides.local).collect();
    let known: BTreeSet<&str> = keys.iter().copied().collect();
    let others: BTreeSet<&str> = names(sides.original).chain(names(sides.updated)).collect();
    keys.extend(others.difference(&known));
    keys
}

/// Returns the key with the local comments, or with the upstream's if the upstream has added the
/// key.
fn merged_key(local: Option<&Pair>, original: Option<&Pair>, updated: Option<&Pair>, key: &str) -> Node {
    let is_new = original.is_none();
    match (local, updated) {
        (Some(local), Some(updated)) if is_new => {
            Node { comments: updated.key.comments.clone(), ..local.key.clone() }
        }
        (Some(local), _) => local.key.clone(),
        (None, updated) => updated.or(original).map_or_else(|| Node::string(key), |pair| pair.key.clone()),
    }
}

fn merge_scalars(sides: Sides<'_>) -> Option<Node> {
    match (sides.original, sides.updated) {
        (None, None) => sides.local.cloned(),
        (Some(_), None) => None,
        (Some(original), Some(updated)) if original.text() == updated.text() => sides.local.cloned(),
        (_, Some(updated)) => Some(in_style_of(sides.local, updated)),
    }
}

/// Returns the upstream's value, quoted like the local one unless that would change its type.
fn in_style_of(local: Option<&Node>, updated: &Node) -> Node {
    let Some(Content::Scalar(Scalar { notation, .. })) = local.map(|local| &local.content) else {
        return updated.clone();
    };
    let text = updated.text().unwrap_or_default();
    let fits = match notation {
        Notation::Plain => {
            // Plain is possible if the upstream's value is plain too, or would be if it were
            // written anew.
            let is_plain =
                matches!(&updated.content, Content::Scalar(scalar) if scalar.notation == Notation::Plain);
            is_plain
                || matches!(Node::string(text).content, Content::Scalar(scalar) if scalar.notation == Notation::Plain)
        }
        Notation::SingleQuoted | Notation::DoubleQuoted => !text.contains('\n'),
        Notation::Literal | Notation::Folded => text.contains('\n'),
    };
    let mut node = updated.clone();
    if let (true, Content::Scalar(scalar)) = (fits && updated.tag.is_none(), &mut node.content) {
        scalar.notation = *notation;
    }
    if node.kind() == updated.kind() { node } else { updated.clone() }
}
