//! Cache of documents and templates after their first pass.
//!
//! Parsing a string takes a pass of its own. Without stubs, and if only strings have to be parsed,
//! that pass is the same in each run. It is done once, and later runs begin with the second pass.
//! The dependencies between nodes are the same in both cases, since the skipped pass evaluates no
//! expression.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use super::node::may_look_elsewhere;
use crate::settings::Settings;
use crate::syntax;
use crate::syntax::ast::Expr;
use crate::syntax::strings::is_dynaml;
use crate::value::{List, Map, Node, Pending, Value};

/// The cached first pass of a document, for all runs with it.
#[derive(Debug, Default)]
pub(crate) struct Parsed {
    after_first_pass: OnceLock<Option<Node>>,
    expressions: OnceLock<HashMap<Arc<str>, Arc<Expr>, foldhash::fast::RandomState>>,
}

impl Parsed {
    /// Returns the document after its first pass, if that is the same in all runs.
    pub(crate) fn after_first_pass(&self, document: &Node, settings: &Settings) -> Option<&Node> {
        if !is_simple(settings) {
            return None;
        }
        self.after_first_pass.get_or_init(|| first_pass(document, &mut |text| parse(text))).as_ref()
    }

    /// Returns the expression of a string in the document.
    pub(crate) fn expression(&self, document: &Node, text: &str) -> Option<Arc<Expr>> {
        let all = || {
            let mut expressions = HashMap::default();
            collect(document, &mut expressions);
            expressions
        };
        self.expressions.get_or_init(all).get(text).cloned()
    }
}

/// Returns the content of a template after its first pass, if that is the same for all of its uses.
pub(crate) fn content(
    content: &Node,
    settings: &Settings,
    known: impl Fn(&str) -> Option<Arc<Expr>>,
) -> Option<Node> {
    if !is_simple(settings) {
        return None;
    }
    first_pass(content, &mut |text| known(text).or_else(|| parse(text)))
}

/// Reports whether the first pass only parses strings, under these settings.
fn is_simple(settings: &Settings) -> bool {
    let features = settings.features;
    // A limit on passes counts the first one, too, so it must not be skipped.
    !features.control && !features.interpolation && !settings.whole_passes && settings.limits.passes.is_none()
}

fn parse(expression: &str) -> Option<Arc<Expr>> {
    syntax::parse(expression).ok().map(Arc::new)
}

fn first_pass(node: &Node, parse: &mut impl FnMut(&str) -> Option<Arc<Expr>>) -> Option<Node> {
    let mut new = node.clone();
    enter(&mut new, parse)?;
    Some(new)
}

/// Parses the strings of a node. Returns `None` if the first pass does more than parsing here, or
/// does it at another time.
fn enter(node: &mut Node, parse: &mut impl FnMut(&str) -> Option<Arc<Expr>>) -> Option<()> {
    if !node.flags.is_empty() || node.notes.is_some() {
        return None;
    }
    match &mut node.value {
        Value::String(text) => {
            let Some(expression) = is_dynaml(text) else { return Some(()) };
            if may_look_elsewhere(expression) {
                return None;
            }
            if let Some(expression) = parse(expression) {
                node.value = Value::Expression(Pending(expression));
            }
        }
        Value::Map(map) if !map.known_inert() => {
            let mut entries = Vec::with_capacity(map.len());
            for (key, field) in map.iter() {
                if key.starts_with("<<") || key.starts_with("key:") {
                    return None;
                }
                let mut field = field.clone();
                enter_within(&mut field, parse)?;
                entries.push((Arc::clone(key), field));
            }
            *map = Arc::new(Map::new(entries));
        }
        Value::List(list) if !list.known_inert() => {
            let mut entries = Vec::with_capacity(list.len());
            for entry in list.iter() {
                if has_computed_name(entry) {
                    return None;
                }
                let mut entry = entry.clone();
                enter_within(&mut entry, parse)?;
                entries.push(entry);
            }
            *list = Arc::new(List::new(entries));
        }
        Value::Expression(_) | Value::Lambda(_) | Value::Template(_) => return None,
        _ => {}
    }
    Some(())
}

fn enter_within(node: &mut Node, parse: &mut impl FnMut(&str) -> Option<Arc<Expr>>) -> Option<()> {
    stacker::maybe_grow(crate::eval::RED_ZONE, crate::eval::STACK, || enter(node, parse))
}

/// Reports whether the name of a list entry is an expression. Such names are computed at another
/// time than other fields.
fn has_computed_name(entry: &Node) -> bool {
    let Value::Map(map) = &entry.value else { return false };
    matches!(map.get("name").map(|name| &name.value), Some(Value::String(text)) if is_dynaml(text).is_some())
}

fn collect(node: &Node, expressions: &mut HashMap<Arc<str>, Arc<Expr>, foldhash::fast::RandomState>) {
    stacker::maybe_grow(crate::eval::RED_ZONE, crate::eval::STACK, || match &node.value {
        Value::String(text) => {
            let Some(inner) = is_dynaml(text).filter(|inner| !may_look_elsewhere(inner)) else { return };
            if !expressions.contains_key(inner)
                && let Some(expression) = parse(inner)
            {
                expressions.insert(Arc::from(inner), expression);
            }
        }
        Value::Map(map) => map.iter().for_each(|(_, field)| collect(field, expressions)),
        Value::List(list) => list.iter().for_each(|entry| collect(entry, expressions)),
        _ => {}
    });
}
