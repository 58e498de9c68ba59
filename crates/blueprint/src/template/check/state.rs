//! Finds `&state` markers without effect (`blueprints.md` 4.6).

use std::collections::HashMap;

use groundwork_spiff::{Document, PathStep, Value, WrittenExpression};

use super::super::ExecutionKind;

/// Markers of the nodes of a document. A marker in the field `<<` or `<<<` applies to the map that
/// contains the field.
pub(super) struct Marks<'a> {
    document: &'a Document,
    /// Markers by the path of the node, as text.
    by_node: HashMap<String, Vec<&'static str>>,
    has_templates: bool,
}

impl<'a> Marks<'a> {
    pub(super) fn new(document: &'a Document, expressions: &[WrittenExpression]) -> Self {
        let mut marks = Self { document, by_node: HashMap::new(), has_templates: false };
        for expression in expressions {
            if let Ok(markers) = &expression.markers {
                marks.has_templates |= markers.contains(&"template");
                let node = text(marks.marked(&expression.path));
                marks.by_node.entry(node).or_default().extend(markers);
            }
        }
        marks
    }

    /// Returns the path of the node that markers of an expression belong to.
    fn marked<'p>(&self, path: &'p [PathStep]) -> &'p [PathStep] {
        let Some((PathStep::Key(key), map)) = path.split_last() else { return path };
        if !matches!(key.as_str(), "<<" | "<<<") {
            return path;
        }
        // A marker in an entry without other fields applies to the list that contains the entry.
        match map.split_last() {
            Some((PathStep::Index(_), list)) if self.has_one_field(map) => list,
            _ => map,
        }
    }

    fn has_one_field(&self, path: &[PathStep]) -> bool {
        let mut value = self.document.value();
        for step in path {
            let below = match (step, value) {
                (PathStep::Key(key), Value::Map(map)) => map.get(key),
                (PathStep::Index(index), Value::List(list)) => list.get(*index),
                _ => None,
            };
            let Some(node) = below else { return false };
            value = node.value();
        }
        matches!(value, Value::Map(map) if map.len() == 1)
    }

    fn has(&self, node: &[PathStep], marker: &str) -> bool {
        self.by_node.get(&text(node)).is_some_and(|markers| markers.contains(&marker))
    }

    /// Reports whether an expression is part of a template, or creates one.
    pub(super) fn in_template(&self, path: &[PathStep]) -> bool {
        self.has_templates && (0..=path.len()).any(|length| self.has(&path[..length], "template"))
    }

    /// Returns the reason why marked state is not stored.
    pub(super) fn lost_state(&self, kind: ExecutionKind, expression: &WrittenExpression) -> Option<String> {
        let is_state = expression.markers.as_ref().is_ok_and(|markers| markers.contains(&"state"));
        if !is_state || self.in_template(&expression.path) {
            return None;
        }
        let node = self.marked(&expression.path);
        if kind == ExecutionKind::Import {
            return Some("&state has no effect: import executions have no state".to_owned());
        }
        if let Some(other) = ["temporary", "local"].into_iter().find(|other| self.has(node, other)) {
            return Some(format!("&state has no effect: a node that is also marked &{other} is not stored"));
        }
        match node {
            [] => {
                Some("&state has no effect: the root is not stored as a whole; mark fields of it".to_owned())
            }
            [PathStep::Key(_)] => None,
            // A stored field of the root is stored with all nodes inside it.
            [PathStep::Key(_), ..] if self.is_stored(&node[..1]) => None,
            [PathStep::Key(field), ..] => Some(format!(
                "&state has no effect: only fields of the root are stored; mark {field:?}, or move this node to the \
                 root"
            )),
            [PathStep::Index(_), ..] => {
                Some("&state has no effect: only fields of a map are stored".to_owned())
            }
        }
    }

    fn is_stored(&self, field: &[PathStep]) -> bool {
        self.has(field, "state") && !self.has(field, "temporary") && !self.has(field, "local")
    }
}

fn text(path: &[PathStep]) -> String {
    path.iter()
        .map(|step| match step {
            PathStep::Key(key) => format!(".{key:?}"),
            PathStep::Index(index) => format!("[{index}]"),
        })
        .collect()
}
