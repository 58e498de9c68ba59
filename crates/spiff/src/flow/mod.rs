//! The flow: from a document with expressions to one without (`spiff.md` 1.3 and 3).
//!
//! ```text
//! pass: walker (reads the tree of the pass before) --patches--> patch::apply
//!       --> dependencies: the nodes that the next pass evaluates
//! until a pass changes no node; then `unresolved` reports the nodes without a value
//! ```

mod cascade;
mod inert;
mod list;
mod map;
mod node;
mod parsed;
mod patch;
mod state;
mod unresolved;

pub(crate) use cascade::{CascadeError, apply, cascade, prepare};
pub(crate) use node::{fail, same_node};
pub(crate) use parsed::{Parsed, content as parsed_content};
pub(crate) use state::{root_state_of, state_of};
pub use unresolved::Unresolved;

use crate::dependencies::{Attention, Place, ROOT};
use crate::env::Env;
use crate::eval::EvalError;
use crate::limits::{EVALUATION, LimitError};
use crate::run::Run;
use crate::scope::DocumentId;
use crate::value::{Flags, Node, Value};
use patch::Patch;

/// Passes that any document may take, however small it is. Larger ones may take one more for each
/// node.
const FREE_PASSES: usize = 100;

/// One pass over one document.
#[derive(Debug)]
pub(crate) struct Walker<'r, 'e> {
    pub(crate) run: &'r mut Run<'e>,
    pub(crate) id: DocumentId,
    /// Changes that are applied at the end of the pass.
    patches: Vec<Patch>,
    /// Places that must be evaluated in each pass.
    volatile: Vec<Place>,
    /// True if the last evaluated expression postponed a function `catch` to the next pass.
    has_met: bool,
}

/// Result of flowing a node.
#[derive(Debug)]
pub(crate) enum Flowed {
    Same,
    /// Parts of the node change, as the patches say.
    Patched,
    /// The node is replaced, or dropped if the new one is undefined.
    New(Node),
}

/// Flows document `id` to its fixed point. `over`: stubs may override the root as a whole.
pub(crate) fn flow(
    run: &mut Run<'_>,
    id: DocumentId,
    env: &Env<'_>,
    over: bool,
) -> Result<Vec<Unresolved>, EvalError> {
    let mut passes = 0;
    let mut allowed = run.settings.limits.passes.unwrap_or(FREE_PASSES);
    let mut volatile = Vec::new();
    run.syncing.depth += 1;
    if run.syncing.depth == 1 {
        run.syncing.over = false;
    }
    while pass(run, id, env, over, &mut volatile)? || gives_up(run, id, &mut volatile) {
        passes += 1;
        if passes > allowed {
            let nodes = count(&run.document(id).root);
            if nodes > run.settings.limits.nodes {
                return Err(run.stop(LimitError::Nodes(run.settings.limits.nodes)));
            }
            let more = run.settings.limits.passes.is_none().then_some(nodes + FREE_PASSES);
            match more.filter(|more| passes <= *more) {
                Some(more) => allowed = more,
                None => return Err(run.stop(LimitError::Passes(passes))),
            }
        }
    }
    run.syncing.depth -= 1;
    let nodes = unresolved::find(&run.document(id).root);
    Ok(nodes)
}

/// Reports whether a `sync` waits in a document at rest. No later change can fulfil its condition,
/// so it fails from now on.
fn gives_up(run: &mut Run<'_>, id: DocumentId, volatile: &mut Vec<Place>) -> bool {
    // The outermost document decides: instances of templates wait with the document that contains
    // them.
    if run.syncing.depth > 1 || run.syncing.over || !std::mem::replace(&mut run.syncing.waiting, false) {
        return false;
    }
    run.syncing.over = true;
    for place in volatile.drain(..) {
        run.document_mut(id).dependencies.mark(place, Attention::Own);
    }
    true
}

/// Runs one pass. Returns whether it changed any node.
fn pass(
    run: &mut Run<'_>,
    id: DocumentId,
    env: &Env<'_>,
    over: bool,
    volatile: &mut Vec<Place>,
) -> Result<bool, EvalError> {
    if run.settings.whole_passes {
        run.document_mut(id).dependencies.mark(ROOT, Attention::Deep);
    }
    run.document_mut(id).dependencies.begin_pass();
    let root = run.document(id).root.clone();
    if root.has(Flags::UNDEFINED) {
        return Ok(false);
    }
    let mut walker =
        Walker { run, id, patches: Vec::new(), volatile: std::mem::take(volatile), has_met: false };
    if let Flowed::New(mut node) = walker.visit(&root, env, ROOT, over, Attention::None)? {
        if node.has(Flags::UNDEFINED) {
            node.value = Value::Nil;
        }
        walker.put(ROOT, node);
    }
    let Walker { patches, volatile: looked, .. } = walker;
    drop(root);
    *volatile = looked;
    if patches.is_empty() {
        return Ok(false);
    }
    let document = run.document_mut(id);
    patch::apply(&mut document.root, &document.dependencies, ROOT, &patches);
    for patch in &patches {
        patch.wake(&mut document.dependencies);
    }
    for place in volatile.drain(..) {
        document.dependencies.mark(place, Attention::Own);
    }
    let put = patches.iter().map(Patch::size).sum();
    run.spend(EVALUATION * patches.len() as u64)?;
    run.grow(id, put)?;
    Ok(true)
}

fn count(node: &Node) -> usize {
    1 + match &node.value {
        Value::Map(map) => map.iter().map(|(_, node)| count(node)).sum(),
        Value::List(list) => list.iter().map(count).sum(),
        _ => 0,
    }
}
