//! The flow of one node in one pass (`spiff.md` 3).

use std::sync::{Arc, OnceLock};

use super::inert::is_inert;
use super::patch::{Change, Patch};
use super::{Flowed, Walker};
use crate::dependencies::{Attention, Place, ROOT};
use crate::env::Env;
use crate::eval::{EvalError, Evaluated, Info, RED_ZONE, STACK, evaluate, instantiate, markers};
use crate::issue::Issue;
use crate::operators::compare::same;
use crate::run::{Catching, is_resolved};
use crate::scope::dotted;
use crate::syntax;
use crate::syntax::ast::{Expr, Marked, Marker, Reference, Step};
use crate::value::{Flags, Node, Pending, Template, Value};

/// The step that follows an evaluation.
enum Next {
    Return(Flowed),
    /// The node as evaluated, which a stub may still override.
    Override(Node),
}

impl Walker<'_, '_> {
    pub(super) fn put(&mut self, place: Place, node: Node) {
        self.patches.push(Patch { place, change: Change::Put(node) });
    }

    pub(super) fn patch(&mut self, place: Place, change: Change) {
        self.patches.push(Patch { place, change });
    }

    pub(super) fn child_place(&mut self, place: Place, step: &Step) -> Place {
        self.run.document_mut(self.id).dependencies.child(place, step)
    }

    /// Flows `node` if its parent's attention covers it, or if it is marked itself.
    pub(crate) fn visit(
        &mut self,
        node: &Node,
        env: &Env<'_>,
        place: Place,
        over: bool,
        attention: Attention,
    ) -> Result<Flowed, EvalError> {
        let attention = attention.max(self.run.document_mut(self.id).dependencies.take(place));
        if attention == Attention::None {
            return Ok(Flowed::Same);
        }
        let no_stub = env.nomerge || env.cursor.is_empty();
        if attention == Attention::Deep && no_stub && !self.run.settings.whole_passes && is_inert(node) {
            return Ok(Flowed::Same);
        }
        let redirected = node.redirect().map(|path| env.redirected(path));
        let env = redirected.as_ref().unwrap_or(env);
        // The stub has its own instance of the same template, which must not be merged into the
        // instance made here.
        let made_here = env.find_in_stubs().is_some_and(|stub| is_made_of(node, stub));
        let kept = made_here.then(|| Env { nomerge: true, ..env.clone() });
        let env = kept.as_ref().unwrap_or(env);
        let flowed =
            stacker::maybe_grow(RED_ZONE, STACK, || self.flow_value(node, env, place, over, attention))?;
        // A tag in an insertion field belongs to the map or list around it.
        Ok(if self.is_insertion(place) { flowed } else { self.register_tag(node, flowed, env) })
    }

    fn flow_value(
        &mut self,
        node: &Node,
        env: &Env<'_>,
        place: Place,
        over: bool,
        attention: Attention,
    ) -> Result<Flowed, EvalError> {
        if node.has(Flags::REPLACE) {
            return Ok(Flowed::Same);
        }
        let merged = node.has(Flags::MERGED);
        let next = match &node.value {
            Value::Expression(expression) => self.flow_expression(node, expression, env, place, over)?,
            _ if merged => Next::Return(Flowed::Same),
            Value::Map(map) => match self.flow_map(node, map, env, place, attention)? {
                Flowed::New(new) if self.is_finished_control(map, &new) => Next::Override(new),
                flowed => Next::Return(flowed),
            },
            Value::List(list) => Next::Return(self.flow_list(node, list, env, place, attention)?),
            Value::String(text) => match self.parse(text, env) {
                Some(expression) => Next::Return(Flowed::New(with_value(node, expression))),
                None => Next::Override(node.clone()),
            },
            _ => Next::Override(node.clone()),
        };
        match next {
            Next::Return(flowed) => Ok(flowed),
            Next::Override(new) => {
                let result = self.overridden(&new, env, over).unwrap_or(new);
                Ok(if same_node(node, &result) { Flowed::Same } else { Flowed::New(result) })
            }
        }
    }

    /// Returns the expression of a string; `None` if it is not an expression, or cannot be parsed.
    pub(super) fn parse(&self, text: &str, env: &Env<'_>) -> Option<Value> {
        let parsed = match syntax::strings::is_dynaml(text) {
            Some(expression) if may_look_elsewhere(expression) => {
                syntax::parse_redirected(expression, elsewhere_in_stubs(expression, env))
            }
            Some(expression) => {
                if let Some(known) = self.run.known_expression(expression) {
                    return Some(Value::Expression(Pending(known)));
                }
                syntax::parse(expression)
            }
            None if self.run.settings.features.interpolation => syntax::strings::interpolate(text)?,
            None => return None,
        };
        parsed.ok().map(|expression| Value::Expression(Pending(Arc::new(expression))))
    }

    /// Applies a stub to a scalar field of a map. A fast path: most nodes of a document are such
    /// scalars.
    pub(super) fn override_field(&self, node: &Node, env: &Env<'_>, step: &Step) -> Option<Node> {
        if env.nomerge || env.cursor.is_empty() || node.has_any(FINAL) || node.redirect().is_some() {
            return None;
        }
        let stub = env.cursor.find_child(step)?;
        if is_made_of(node, stub) {
            return None;
        }
        let new = arrived(replaced_by(node, stub)?, stub);
        (!same_node(node, &new)).then_some(new)
    }

    /// Returns the stubs' value for a node, if there is one that may replace it.
    fn overridden(&self, node: &Node, env: &Env<'_>, over: bool) -> Option<Node> {
        let redirected = node.redirect().is_some_and(|path| !path.is_empty());
        if !over || env.nomerge || redirected || node.has_any(Flags::MERGED | Flags::REPLACE) {
            return None;
        }
        let stub = env.find_in_stubs()?;
        replaced_by(node, stub).map(|new| arrived(new, stub))
    }

    fn flow_expression(
        &mut self,
        node: &Node,
        expression: &Pending,
        env: &Env<'_>,
        place: Place,
        over: bool,
    ) -> Result<Next, EvalError> {
        let evaluated = match self.evaluate_node(expression, node, env, place) {
            Ok(evaluated) => evaluated,
            Err(EvalError::Abort) => {
                self.run.stopped_at(node);
                return Err(EvalError::Abort);
            }
            Err(EvalError::Issue(issue)) => {
                let mut failed = node.clone();
                failed.flags = failed.flags.difference(Flags::FAILED).union(Flags::ERROR);
                mark(&mut failed, &expression.0);
                if self.has_met {
                    failed.flags |= Flags::CAUGHT;
                }
                // A failure without a message does not erase the message of an earlier pass.
                if *issue != Issue::default() || failed.issue().is_none() {
                    fail(&mut failed, *issue, env);
                }
                // A dynamic node already took its value from the stub, so the stub cannot override
                // it again.
                return Ok(if failed.dynamic().is_none() {
                    Next::Override(failed)
                } else if same_node(node, &failed) {
                    Next::Return(Flowed::Same)
                } else {
                    Next::Return(Flowed::New(failed))
                });
            }
        };
        let Evaluated { value, info } = evaluated;
        let Some(value) = value else { return Ok(Next::Return(self.still_pending(node, &info, env))) };
        let new = self.evaluated(node, value, &info, env);
        let is_final =
            matches!(new.value, Value::Expression(_)) || new.has_any(Flags::MERGED | Flags::PREFERRED);
        Ok(if is_final || !over { Next::Return(Flowed::New(new)) } else { Next::Override(new) })
    }

    /// Evaluates the expression of the node at `place`. If it gets no value, the node waits for the
    /// places that it read.
    fn evaluate_node(
        &mut self,
        expression: &Pending,
        node: &Node,
        env: &Env<'_>,
        place: Place,
    ) -> crate::eval::Eval {
        let volatile = std::mem::replace(&mut self.run.volatile, false);
        let catching = Catching { waits: !node.has(Flags::CAUGHT), ..Catching::default() };
        let catching = std::mem::replace(&mut self.run.catching, catching);
        let elsewhere = env.written_in(&node.origin.source);
        let env = elsewhere.as_ref().unwrap_or(env);
        let before = self.run.begin_reads(self.id);
        let result = match (node.dynamic(), &*expression.0) {
            (Some(template), expression) if *expression == instance_to_be() => {
                instantiate(self.run, template, env)
            }
            (_, Expr::Control(_)) => {
                Err(node.issue().map(|issue| (**issue).clone()).unwrap_or_default().into())
            }
            (_, Expr::Marked(marked)) if marked.markers.contains(&Marker::Template) => {
                self.template_value(marked, node, env)
            }
            (_, expression) => evaluate(self.run, expression, env),
        };
        let waits = !matches!(result, Ok(Evaluated { value: Some(_), .. }));
        self.run.end_reads(self.id, before, waits.then_some(place));
        if waits && self.run.volatile {
            self.volatile.push(place);
        }
        self.run.volatile |= volatile;
        self.has_met = std::mem::replace(&mut self.run.catching, catching).met;
        result
    }

    /// Returns `&template ( EXPR )` as a value.
    fn template_value(&mut self, marked: &Marked, node: &Node, env: &Env<'_>) -> crate::eval::Eval {
        let Some(content) = content_of(marked, node) else {
            return Err(EvalError::issue("empty template value"));
        };
        let original = Value::Expression(Pending(Arc::new(Expr::Marked(Box::new(marked.clone())))));
        let template = self.template(content, original, env);
        let (flags, tag) = markers(marked);
        let mut info = Info::flagged(flags);
        info.notes_mut().tag = tag;
        Ok(Evaluated { value: Some(Value::Template(template)), info })
    }

    pub(super) fn template(&self, content: Node, original: Value, env: &Env<'_>) -> Arc<Template> {
        let path = Arc::from(dotted(&env.path.steps()));
        Arc::new(Template { content, original, path, scope: env.scope.clone(), parsed: OnceLock::new() })
    }

    fn still_pending(&self, node: &Node, info: &Info, env: &Env<'_>) -> Flowed {
        let mut pending = node.clone();
        let state = info.flags.intersection(Flags::MARKERS | Flags::FAILED | Flags::PREFERRED);
        pending.flags = pending.flags.difference(Flags::FAILED | Flags::ERROR).union(state);
        if self.has_met {
            pending.flags |= Flags::CAUGHT;
        }
        if let Some(tag) = info.notes().and_then(|notes| notes.tag.clone()) {
            pending.notes_mut().tag = Some(tag);
        }
        let issue = info.notes().and_then(|notes| notes.issue.as_ref()).map(|issue| (**issue).clone());
        fail(&mut pending, issue.unwrap_or_default(), env);
        // The remaining expression replaces the whole one: an alternative that failed for good is
        // not tried again.
        if let Some(rest) = &info.rest {
            pending.value = Value::Expression(Pending(Arc::clone(rest)));
        }
        if same_node(node, &pending) { Flowed::Same } else { Flowed::New(pending) }
    }

    /// Returns the node of a value, with the annotations of the evaluation.
    fn evaluated(&self, node: &Node, value: Value, info: &Info, env: &Env<'_>) -> Node {
        let own = Flags::MARKERS | Flags::INJECTED | Flags::IMPLIED | Flags::PREFERRED;
        let kept = node.flags.intersection(own);
        let mut new = Node::at(value, node.origin.clone());
        new.flags = kept.union(info.flags.difference(Flags::FAILED | Flags::ERROR));
        if let Value::String(text) = &new.value
            && let Some(expression) = self.parse_result(text, env)
        {
            new.value = expression;
        }
        let notes = info.notes();
        let redirect =
            notes.and_then(|notes| notes.redirect.clone()).or_else(|| node.redirect().map(<[Step]>::to_vec));
        let key_name = notes.and_then(|notes| notes.key_name.clone()).or_else(|| node.key_name().cloned());
        let tag = notes.and_then(|notes| notes.tag.clone()).or_else(|| node.tag().cloned());
        let dynamic = node.dynamic().cloned();
        if redirect.is_some() || key_name.is_some() || tag.is_some() || dynamic.is_some() {
            let own = new.notes_mut();
            (own.redirect, own.key_name, own.tag, own.dynamic) = (redirect, key_name, tag, dynamic);
        }
        if info.flags.contains(Flags::DYNAMIC) { dynamic_node(new) } else { new }
    }

    /// Parses a resulting text: one that looks like an expression is an expression (E49).
    /// Interpolation applies only to the texts of a document.
    fn parse_result(&self, text: &str, env: &Env<'_>) -> Option<Value> {
        let text = syntax::strings::is_dynaml(text)?;
        let expression = syntax::parse_redirected(text, elsewhere_in_stubs(text, env)).ok()?;
        Some(Value::Expression(Pending(Arc::new(expression))))
    }

    /// Defines the tag of a node that has become final. If the tag is already defined, the node
    /// gets an error.
    fn register_tag(&mut self, node: &Node, flowed: Flowed, env: &Env<'_>) -> Flowed {
        let current = match &flowed {
            Flowed::New(new) => new,
            Flowed::Same => node,
            Flowed::Patched => return flowed,
        };
        let Some(tag) = current.tag() else { return flowed };
        if !is_resolved(current, self.run.control()) || current.has(Flags::UNDEFINED) {
            return flowed;
        }
        let place = dotted(&env.path.steps());
        let Err(message) = self.run.tags.define(tag, &place, current.value.clone()) else { return flowed };
        let mut failed = current.clone();
        failed.flags |= Flags::ERROR;
        if matches!((&failed.value, &node.value), (Value::Nil, Value::Expression(_))) {
            // The value is nil only because of the marker, so the message shows the expression with
            // the marker.
            failed.value = node.value.clone();
        }
        fail(&mut failed, Issue::new(message), env);
        if same_node(node, &failed) { Flowed::Same } else { Flowed::New(failed) }
    }

    fn is_insertion(&self, place: Place) -> bool {
        let dependencies = &self.run.document(self.id).dependencies;
        place != ROOT
            && matches!(dependencies.step(place), Step::Field(name) if matches!(&**name, "<<" | "<<<"))
    }
}

/// Reports whether the meaning of an expression depends on the stub path of its node.
pub(super) fn may_look_elsewhere(expression: &str) -> bool {
    expression.contains("merge")
}

/// Returns the path at which stubs are read for a place, if it is another path and the expression
/// may use it.
fn elsewhere_in_stubs(expression: &str, env: &Env<'_>) -> Option<Vec<Step>> {
    if !may_look_elsewhere(expression) {
        return None;
    }
    Some(env.stub_path.steps()).filter(|steps| *steps != env.path.steps())
}

/// Returns the content that the markers of a template at `node` apply to, with its parentheses.
pub(super) fn content_of(marked: &Marked, node: &Node) -> Option<Node> {
    let expression = Expr::Group(Box::new(marked.expression.clone()?));
    Some(Node::at(Value::Expression(Pending(Arc::new(expression))), node.origin.clone()))
}

/// Returns the expression that stands for the instance of a dynamic node until the next pass makes
/// that instance.
fn instance_to_be() -> Expr {
    let template = Reference { tag: None, absolute: false, steps: vec![Step::Field(Arc::from("_"))] };
    Expr::Substitute(Box::new(Expr::Reference(template)))
}

/// Makes a node whose value is a template dynamic: it becomes an instance of the template, here and
/// at each node that receives it (`spiff.md` 10.3).
pub(super) fn dynamic_node(mut node: Node) -> Node {
    if let Value::Template(template) = &node.value {
        let template = Arc::clone(template);
        node.value = Value::Expression(Pending(Arc::new(instance_to_be())));
        node.notes_mut().dynamic = Some(template);
    }
    node
}

/// Returns `new`, a node that came from `stub`. If the stub's node is dynamic, the result gets its
/// template and makes an instance of its own, in place of the stub's instance.
pub(super) fn arrived(new: Node, stub: &Node) -> Node {
    match stub.dynamic() {
        Some(template) => dynamic_node(Node { value: Value::Template(Arc::clone(template)), ..new }),
        None => new,
    }
}

/// Reports whether a node already has the template of a stub's dynamic node.
fn is_made_of(node: &Node, stub: &Node) -> bool {
    node.dynamic().is_some() && same_template(node, stub)
}

/// Flags of nodes that no stub overrides.
const FINAL: Flags = Flags::MERGED.union(Flags::REPLACE).union(Flags::INJECTED);

/// Records why a node has no value, and the path at which it was evaluated. A control moves its
/// chosen node up to another path; if the node fails as before, it keeps the first path.
pub(crate) fn fail(node: &mut Node, issue: Issue, env: &Env<'_>) {
    let path = env.path.steps();
    let is_known = node.issue().is_some_and(|known| **known == issue);
    let notes = node.notes_mut();
    if is_known && notes.path.as_ref().is_some_and(|(known, _)| known.len() > path.len()) {
        return;
    }
    notes.path = Some((path, env.stub_path.steps()));
    notes.issue = Some(Arc::new(issue));
}

/// Applies the markers of an expression to its node, even if it has no value, because a stub may
/// supply one.
fn mark(node: &mut Node, expression: &Expr) {
    let Expr::Marked(marked) = expression else { return };
    let (flags, tag) = markers(marked);
    node.flags |= flags;
    if tag.is_some() {
        node.notes_mut().tag = tag;
    }
}

fn with_value(node: &Node, value: Value) -> Node {
    Node { value, ..node.clone() }
}

/// Returns `node` with the value of a stub. Its own annotations stay.
fn replaced_by(node: &Node, stub: &Node) -> Option<Node> {
    let is_default = stub.has(Flags::DEFAULT) && !stub.has(Flags::INJECT);
    if is_default || node.has(Flags::INJECTED) {
        return None;
    }
    let mut own = node.flags.intersection(Flags::MARKERS | Flags::REPLACE | Flags::IMPLIED);
    if own.contains(Flags::DEFAULT) {
        // For nearer documents the overridden default counts as a value, no longer as a default.
        own = own.difference(Flags::DEFAULT).union(Flags::INJECT);
    }
    let mut new = Node::at(stub.value.clone(), stub.origin.clone());
    let mut taken = Flags::MARKERS;
    if matches!(stub.value, Value::List(_)) {
        // A list keeps the flag that stubs have injected their entries, so that no later node
        // injects them again.
        taken |= Flags::INJECTED;
    }
    new.flags = stub.flags.intersection(taken).union(own);
    let key_name = node.key_name().or_else(|| stub.key_name()).cloned();
    let redirect = node.redirect().map(<[Step]>::to_vec);
    let tag = node.tag().cloned();
    if key_name.is_some() || redirect.is_some() || tag.is_some() {
        let notes = new.notes_mut();
        (notes.key_name, notes.redirect, notes.tag) = (key_name, redirect, tag);
    }
    Some(new)
}

/// Compares nodes for the stop test (`spiff.md` 1.3, rule 3): values and annotations.
pub(crate) fn same_node(left: &Node, right: &Node) -> bool {
    left.flags == right.flags && same_notes(left, right) && same(&left.value, &right.value)
}

fn same_notes(left: &Node, right: &Node) -> bool {
    left.redirect() == right.redirect()
        && left.key_name() == right.key_name()
        && left.tag() == right.tag()
        && left.issue() == right.issue()
        && same_template(left, right)
}

/// Reports whether both are instances of the same dynamic template, or neither is an instance.
fn same_template(left: &Node, right: &Node) -> bool {
    match (left.dynamic(), right.dynamic()) {
        (None, None) => true,
        (Some(left), Some(right)) => Arc::ptr_eq(left, right),
        _ => false,
    }
}
