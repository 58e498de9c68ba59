//! References by name (`spiff.md` 5.2 to 5.5).

use super::{Depth, Eval, EvalError, ctx};
use crate::dependencies::{Place, ROOT};
use crate::env::Env;
use crate::run::{Reading, Run, is_locally_resolved, read_value, reading_to_eval, shown};
use crate::scope::{DocumentId, Scope, ScopeKind, ScopeRef};
use crate::syntax::ast::{Name, Reference, Step};
use crate::tags;
use crate::value::{Node, Value};

pub(super) fn evaluate(run: &mut Run<'_>, reference: &Reference, env: &Env<'_>, depth: Depth) -> Eval {
    let full = depth == Depth::Full;
    if let Some(tag) = &reference.tag {
        return tags::evaluate(run, tag, &reference.steps, env, full);
    }
    if reference.absolute {
        return absolute(run, &reference.steps, env, full, true);
    }
    Lookup { steps: &reference.steps, full }.relative(run, env.scope.as_ref(), 0, Some(env))
}

/// Evaluates a reference from the root of the current document. `dotted`: messages show the path
/// with a dot in front.
pub(crate) fn absolute(run: &mut Run<'_>, steps: &[Step], env: &Env<'_>, full: bool, dotted: bool) -> Eval {
    if let Some((Step::Field(name), rest)) = steps.split_first()
        && &**name == "__map"
        && let Some((document, place)) = outermost_map(env)
    {
        let reading = run.read(document, place, rest, full);
        return reading_to_eval(reading, |count| shown(&steps[..=count.min(rest.len())], dotted));
    }
    let reading = run.read(env.root, ROOT, steps, full);
    reading_to_eval(reading, |count| shown(&steps[..count], dotted))
}

fn outermost_map(env: &Env<'_>) -> Option<(DocumentId, Place)> {
    chain(env.scope.as_ref())
        .filter_map(|scope| match scope.kind {
            ScopeKind::Document { document, place } if document == env.root => Some((document, place)),
            _ => None,
        })
        .last()
}

/// Iterates over the scopes of a chain, innermost first.
pub(super) fn chain(scope: Option<&ScopeRef>) -> impl Iterator<Item = &ScopeRef> {
    std::iter::successors(scope, |scope| scope.parent.as_ref())
}

/// A path that begins with a name.
struct Lookup<'a> {
    steps: &'a [Step],
    full: bool,
}

impl Lookup<'_> {
    /// Looks up the steps from `offset` on, the first of them in the scopes from the innermost
    /// outwards. The first scope with the name decides. `env` is the environment that `__ctx`
    /// describes.
    fn relative(
        &self,
        run: &mut Run<'_>,
        scope: Option<&ScopeRef>,
        offset: usize,
        env: Option<&Env<'_>>,
    ) -> Eval {
        let Some(Step::Field(name)) = self.steps.get(offset) else { return Err(self.missing(offset)) };
        if let Some(env) = env
            && &**name == "__ctx"
        {
            let context = Node::new(ctx::context(run, env));
            return self.in_value(run, &context, offset + 1);
        }
        if !name.starts_with("__") {
            return match run.scope_with(chain(scope), name)? {
                Some(own) => {
                    self.in_scope(run, own, name, offset).unwrap_or_else(|| Err(self.missing(offset)))
                }
                None => Err(self.missing(offset)),
            };
        }
        for own in chain(scope) {
            if let Some(found) = self.in_scope(run, own, name, offset) {
                return found;
            }
            if own.boundary || own.parent.is_none() {
                match &**name {
                    "__" => return self.from(run, chain(scope).find(|scope| scope.is_document()), offset),
                    "___" => return self.from(run, chain(scope).last(), offset),
                    _ => {}
                }
            }
        }
        Err(self.missing(offset))
    }

    fn in_scope(&self, run: &mut Run<'_>, scope: &ScopeRef, name: &Name, offset: usize) -> Option<Eval> {
        match &scope.kind {
            ScopeKind::Local(names) => {
                let (_, value) = names.iter().rev().find(|(own, _)| own == name)?;
                Some(self.in_local(run, name, value, offset))
            }
            ScopeKind::Document { document, place } => {
                if !run.has_field(*document, *place, name) {
                    return None;
                }
                let reading = run.read(*document, *place, &self.steps[offset..], self.full);
                Some(reading_to_eval(reading, |count| shown(&self.steps[..offset + count], false)))
            }
            ScopeKind::Bindings(value) => {
                let Value::Map(map) = value else { return None };
                map.get(name)?;
                Some(self.in_value(run, &Node::new(value.clone()), offset))
            }
        }
    }

    /// Looks up steps in a local value. If steps follow the name `_`, a lambda or template of that
    /// name stands for the scope in which it was defined.
    fn in_local(&self, run: &mut Run<'_>, name: &Name, value: &Value, offset: usize) -> Eval {
        if &**name == "_" && self.steps.len() > offset + 1 {
            let scope = match value {
                Value::Lambda(lambda) => lambda.scope.as_ref(),
                Value::Template(template) => template.scope.as_ref(),
                _ => None,
            };
            return self.relative(run, scope, offset + 1, None);
        }
        let node = Node::new(value.clone());
        if !is_locally_resolved(&node, run.control()) {
            // This is an unfinished entry of a list that a mapping form passes to its lambda.
            let incomplete = !matches!(value, Value::Expression(_));
            let pending = Reading::Pending { steps: 0, incomplete, failed: false };
            return reading_to_eval(pending, |_| shown(&self.steps[..=offset], false));
        }
        self.in_value(run, &node, offset + 1)
    }

    /// Takes the steps from `offset` on, inside a value.
    fn in_value(&self, run: &Run<'_>, node: &Node, offset: usize) -> Eval {
        let reading = read_value(node, &self.steps[offset..], self.full, run.control());
        reading_to_eval(reading, |count| shown(&self.steps[..offset + count], false))
    }

    /// Takes the steps behind `__` and `___`, from a scope of the chain.
    fn from(&self, run: &mut Run<'_>, scope: Option<&ScopeRef>, offset: usize) -> Eval {
        match scope {
            Some(scope) if self.steps.len() > offset + 1 => self.relative(run, Some(scope), offset + 1, None),
            Some(scope) => {
                let reading = match &scope.kind {
                    ScopeKind::Document { document, place } => run.read(*document, *place, &[], self.full),
                    ScopeKind::Bindings(value) => {
                        read_value(&Node::new(value.clone()), &[], self.full, run.control())
                    }
                    ScopeKind::Local(_) => return Err(self.missing(offset)),
                };
                reading_to_eval(reading, |_| shown(self.steps, false))
            }
            None => Err(self.missing(offset)),
        }
    }

    fn missing(&self, offset: usize) -> EvalError {
        EvalError::issue(format!(
            "'{}' not found",
            shown(&self.steps[..=offset.min(self.steps.len() - 1)], false)
        ))
    }
}

impl Scope {
    fn is_document(&self) -> bool {
        matches!(self.kind, ScopeKind::Document { .. })
    }
}
