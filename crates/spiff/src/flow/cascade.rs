//! The cascade: stubs from the far end, then the template (`spiff.md` 1.2).

use std::sync::Arc;

use super::{Unresolved, flow};
use crate::env::{Cursor, Env};
use crate::eval::EvalError;
use crate::run::Run;
use crate::scope::{Path, ScopeRef};
use crate::value::{Flags, Node, Value};

/// The reason why a document has no result.
#[derive(Debug)]
pub(crate) enum CascadeError {
    /// Nodes have no value at the end (`spiff.md` 15.1).
    Unresolved(Vec<Unresolved>),
    /// The evaluation ended before the document came to rest.
    Evaluation(EvalError),
}

impl From<EvalError> for CascadeError {
    fn from(error: EvalError) -> Self {
        Self::Evaluation(error)
    }
}

/// Processes the stubs, nearest first in `stubs`, and the template with them. `outer`: scopes
/// around all documents. Tags belong to the document that is processed.
pub(crate) fn cascade(
    run: &mut Run<'_>,
    template: Node,
    stubs: Vec<Node>,
    outer: Option<ScopeRef>,
    source: &Arc<str>,
) -> Result<Node, CascadeError> {
    let stubs = prepare(run, stubs, outer.as_ref(), source, false)?;
    apply(run, template, &stubs, outer, source)
}

/// Processes the stubs, the farthest first. `own_tags` means that each is a document of a stream,
/// whose tags end with it.
pub(crate) fn prepare(
    run: &mut Run<'_>,
    stubs: Vec<Node>,
    outer: Option<&ScopeRef>,
    source: &Arc<str>,
    own_tags: bool,
) -> Result<Vec<Node>, CascadeError> {
    let mut processed: Vec<Node> = Vec::with_capacity(stubs.len());
    for stub in stubs.into_iter().rev() {
        if own_tags {
            run.tags.next_document();
        }
        let mut node = document(run, stub, &processed, outer.cloned(), source)?;
        remove(&mut node, Flags::LOCAL);
        processed.insert(0, node);
    }
    Ok(processed)
}

/// Flows a template with finished stubs, and removes temporary and local nodes.
pub(crate) fn apply(
    run: &mut Run<'_>,
    template: Node,
    stubs: &[Node],
    outer: Option<ScopeRef>,
    source: &Arc<str>,
) -> Result<Node, CascadeError> {
    let mut node = document(run, template, stubs, outer, source)?;
    remove(&mut node, Flags::LOCAL | Flags::TEMPORARY);
    Ok(node)
}

/// Flows one document with finished stubs, without removing nodes.
fn document(
    run: &mut Run<'_>,
    root: Node,
    stubs: &[Node],
    outer: Option<ScopeRef>,
    source: &Arc<str>,
) -> Result<Node, CascadeError> {
    let source =
        if root.origin.source.is_empty() { Arc::clone(source) } else { Arc::clone(&root.origin.source) };
    let id = run.open(root);
    let env = Env {
        outside: outer.is_some(),
        scope: outer,
        root: id,
        path: Path::default(),
        stub_path: Path::default(),
        stubs,
        cursor: Cursor::roots(stubs),
        nomerge: false,
        source,
    };
    let unresolved = flow(run, id, &env, true)?;
    if unresolved.is_empty() {
        Ok(run.document(id).root.clone())
    } else {
        Err(CascadeError::Unresolved(unresolved))
    }
}

/// Removes every node with one of the flags, but never the root.
fn remove(node: &mut Node, flags: Flags) {
    if !holds(&node.value, flags) {
        return;
    }
    match &mut node.value {
        Value::Map(map) => {
            let kept = map.iter().filter(|(_, node)| !node.has_any(flags)).cloned();
            let mut new: Vec<(Arc<str>, Node)> = kept.collect();
            for (_, node) in &mut new {
                remove(node, flags);
            }
            *map = Arc::new(new.into_iter().collect());
        }
        Value::List(list) => {
            let mut new: Vec<Node> = list.iter().filter(|node| !node.has_any(flags)).cloned().collect();
            for node in &mut new {
                remove(node, flags);
            }
            *list = Arc::new(new.into_iter().collect());
        }
        _ => {}
    }
}

/// Reports whether a node inside has one of the flags.
fn holds(value: &Value, flags: Flags) -> bool {
    let any = |node: &Node| node.has_any(flags) || holds(&node.value, flags);
    match value {
        Value::Map(map) => map.iter().any(|(_, node)| any(node)),
        Value::List(list) => list.iter().any(any),
        _ => false,
    }
}
