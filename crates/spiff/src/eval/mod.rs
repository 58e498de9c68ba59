//! Evaluation of expressions (`spiff.md` 7 to 9).

mod arguments;
mod auto;
mod call;
mod chain;
mod ctx;
mod files;
mod intrinsic;
mod lambda;
mod mapping;
mod merge;
mod nested;
mod operator;
mod reference;
mod result;
mod static_ips;
mod template;

use std::sync::Arc;

pub(crate) use lambda::call_whole;
pub(crate) use mapping::Growing;
pub(crate) use reference::absolute;
use result::Readiness;
pub(crate) use result::{Eval, EvalError, Evaluated, Info};
pub(crate) use template::instantiate;

use crate::env::Env;
use crate::issue::Issue;
use crate::run::Run;
use crate::syntax::ast::{Expr, Item, LambdaExpr, Marked, Marker, Name};
use crate::value::{Flags, Lambda, TagMark, Value};

/// Bytes of stack that must be free for one level of evaluation; otherwise the stack grows by
/// `STACK`.
pub(crate) const RED_ZONE: usize = 96 * 1024;
pub(crate) const STACK: usize = 2 * 1024 * 1024;

/// The part of a referenced node that must be resolved (`spiff.md` 5.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    Full,
    /// The node itself has to be resolved, but not the nodes below it.
    Local,
}

/// Evaluates an expression in the document of `env`.
pub(crate) fn evaluate(run: &mut Run<'_>, expression: &Expr, env: &Env<'_>) -> Eval {
    evaluate_to(run, expression, env, Depth::Full)
}

pub(crate) fn evaluate_to(run: &mut Run<'_>, expression: &Expr, env: &Env<'_>, depth: Depth) -> Eval {
    run.step()?;
    let evaluated = stacker::maybe_grow(RED_ZONE, STACK, || dispatch(run, expression, env, depth))?;
    if let Some(value) = &evaluated.value {
        run.check(value)?;
    }
    Ok(evaluated)
}

fn dispatch(run: &mut Run<'_>, expression: &Expr, env: &Env<'_>, depth: Depth) -> Eval {
    match expression {
        Expr::Nil => Evaluated::ok(Value::Nil),
        Expr::Undefined => Ok(Evaluated { value: Some(Value::Nil), info: Info::flagged(Flags::UNDEFINED) }),
        Expr::Bool(flag) => Evaluated::ok(Value::Bool(*flag)),
        Expr::Int(number) => Evaluated::ok(Value::Int(*number)),
        Expr::Float(number) => Evaluated::ok(Value::Float(*number)),
        Expr::String(text) => Evaluated::ok(Value::String(Arc::clone(text))),
        Expr::Auto => auto::evaluate(run, env),
        Expr::Reference(reference) => reference::evaluate(run, reference, env, depth),
        Expr::Merge(expression) => merge::evaluate(expression, env),
        Expr::Not(operand) => {
            let operand = evaluate(run, operand, env)?.wrapped(|rest| Expr::Not(Box::new(rest)));
            Ok(operand.map(|value| Value::Bool(!value.is_truthy())))
        }
        Expr::Substitute(operand) => template::substitute(run, operand, env),
        Expr::Group(inner) => Ok(evaluate_to(run, inner, env, depth)?.in_place_of(inner)),
        Expr::Binary(operator, left, right) => operator::evaluate(run, *operator, left, right, env),
        Expr::Conditional(condition, yes, no) => conditional(run, condition, yes, no, env),
        Expr::List(items) => list(run, items, env),
        Expr::Map(entries) => map(run, entries, env),
        Expr::Range(range) => chain::range(run, range, env),
        Expr::Scope(assignments, body) => scope(run, assignments, body, env, depth),
        Expr::Lambda(lambda) => define(run, lambda, env),
        Expr::LambdaOf(operand) => lambda::of(run, operand, env),
        Expr::Chain(base, links) => chain::evaluate_chain(run, base, links, env, depth),
        Expr::Mapping(mapping) => mapping::evaluate_mapping(run, mapping, env),
        Expr::Catch { expression, handler } => intrinsic::catch_with(run, expression, handler, env),
        Expr::Sync(sync) => intrinsic::sync(run, sync, env),
        Expr::Prefer(inner) => {
            let mut evaluated = evaluate_to(run, inner, env, depth)?.in_place_of(inner);
            evaluated.info.flags |= Flags::PREFERRED;
            Ok(evaluated)
        }
        Expr::Marked(marked) => marked_value(run, marked, env, depth),
        // A node that failed as a control is final, and is never evaluated again.
        Expr::Control(_) => Err(EvalError::issue("")),
    }
}

/// Evaluates a conditional. The result keeps the annotations of the condition.
fn conditional(run: &mut Run<'_>, condition: &Expr, yes: &Expr, no: &Expr, env: &Env<'_>) -> Eval {
    let condition = evaluate(run, condition, env)?;
    let Some(value) = &condition.value else {
        return Ok(condition
            .wrapped(|rest| Expr::Conditional(Box::new(rest), Box::new(yes.clone()), Box::new(no.clone()))));
    };
    let chosen = if value.is_truthy() { yes } else { no };
    let mut evaluated = evaluate(run, chosen, env)?.in_place_of(chosen);
    // If the condition is undefined, so is the result. The remaining expression would lose that
    // while the branch waits, so it is not kept (D32).
    let rest = evaluated.info.rest.take().filter(|_| !condition.info.undefined());
    evaluated.info.join(condition.info);
    evaluated.info.rest = rest;
    Ok(evaluated)
}

fn list(run: &mut Run<'_>, items: &[Item], env: &Env<'_>) -> Eval {
    Ok(match arguments::items(run, items, env, Expr::List)? {
        Readiness::Ready(given) => {
            let list = Value::List(Arc::new(given.positional.into_iter().collect()));
            Evaluated { value: Some(list), info: given.info }
        }
        Readiness::Pending(info) => Evaluated::pending(info),
    })
}

/// Evaluates a map. It does not take over the annotations of its values: an undefined value is nil
/// in it (E50).
fn map(run: &mut Run<'_>, entries: &[(Expr, Expr)], env: &Env<'_>) -> Eval {
    match assignments(run, entries, env)? {
        Readiness::Ready(entries) => Evaluated::ok(Value::Map(Arc::new(
            entries.into_iter().map(|(key, value)| (key, arguments::made(value, env))).collect(),
        ))),
        Readiness::Pending(info) => Ok(Evaluated::pending(info)),
    }
}

/// Evaluates keys and values of a map or scope expression, all in the environment around it.
fn assignments(
    run: &mut Run<'_>,
    entries: &[(Expr, Expr)],
    env: &Env<'_>,
) -> Result<Readiness<Vec<(Name, Value)>>, EvalError> {
    let mut names = Vec::with_capacity(entries.len());
    let pending = |mut info: Info| {
        info.rest = None;
        Ok(Readiness::Pending(info))
    };
    for (key, value) in entries {
        let key = run.inside(|run| evaluate(run, key, env))?;
        let Some(key_value) = key.value else { return pending(key.info) };
        let Value::String(name) = key_value else {
            return Err(EvalError::issue("assignment target must evaluate to string"));
        };
        let value = run.inside(|run| evaluate(run, value, env))?;
        let Some(value) = value.value else { return pending(value.info) };
        names.push((name, value));
    }
    Ok(Readiness::Ready(names))
}

fn scope(run: &mut Run<'_>, entries: &[(Expr, Expr)], body: &Expr, env: &Env<'_>, depth: Depth) -> Eval {
    match assignments(run, entries, env)? {
        Readiness::Ready(names) => {
            let inner = env.with_local(names);
            Ok(run.inside(|run| evaluate_to(run, body, &inner, depth))?.whole())
        }
        Readiness::Pending(info) => Ok(Evaluated::pending(info)),
    }
}

/// Creates a lambda value. Default values are evaluated here (`spiff.md` 8.1).
pub(crate) fn define(run: &mut Run<'_>, expression: &Arc<LambdaExpr>, env: &Env<'_>) -> Eval {
    let mut defaults = Vec::with_capacity(expression.parameters.len());
    for (position, parameter) in expression.parameters.iter().enumerate() {
        let Some(default) = &parameter.default else {
            defaults.push(None);
            continue;
        };
        match evaluate(run, default, env) {
            Ok(Evaluated { value: Some(value), .. }) => defaults.push(Some(value)),
            Ok(pending) => return Ok(pending),
            Err(EvalError::Issue(cause)) => {
                let what = "evaluation of lambda call default argument";
                let message = format!("{what} {position} failed: {expression}: {default}");
                return Err(Issue::caused(message, *cause).into());
            }
            Err(EvalError::Abort) => return Err(EvalError::Abort),
        }
    }
    let statics = env.locals();
    let scope = env.definition_scope(&statics);
    let lambda = Lambda { expression: with_defaults(expression, &defaults), defaults, statics, scope };
    Evaluated::ok(Value::Lambda(Arc::new(lambda)))
}

/// Replaces the defaults by their values, which a lambda value shows.
fn with_defaults(expression: &Arc<LambdaExpr>, defaults: &[Option<Value>]) -> Arc<LambdaExpr> {
    let mut shown = Arc::clone(expression);
    for (position, value) in defaults.iter().enumerate() {
        let Some(literal) = value.as_ref().and_then(call::literal) else { continue };
        if expression.parameters[position].default.as_ref() != Some(&literal) {
            Arc::make_mut(&mut shown).parameters[position].default = Some(literal);
        }
    }
    shown
}

/// Returns the value of a marked expression with its markers. If it is pending, the markers are
/// moved to the node, and the remaining expression has none.
fn marked_value(run: &mut Run<'_>, marked: &Marked, env: &Env<'_>, depth: Depth) -> Eval {
    if marked.markers.contains(&Marker::Template) {
        return Err(EvalError::issue("&template only usable as marker for templates"));
    }
    let (flags, tag) = markers(marked);
    let mut evaluated = match &marked.expression {
        Some(expression) => evaluate_to(run, expression, env, depth),
        None => Evaluated::ok(Value::Nil),
    };
    if flags.contains(Flags::DYNAMIC) {
        let is_template = matches!(&evaluated, Ok(Evaluated { value: Some(Value::Template(_)), .. }));
        if !is_template && !matches!(evaluated, Err(EvalError::Abort)) {
            evaluated = Err(EvalError::issue(NOT_DYNAMIC));
        }
    }
    let mut evaluated = evaluated?;
    if let Some(expression) = &marked.expression {
        evaluated = evaluated.in_place_of(expression);
    }
    evaluated.info.flags |= flags;
    if tag.is_some() {
        evaluated.info.notes_mut().tag = tag;
    }
    Ok(evaluated)
}

/// Message for a dynamic node that is not made of a template (`spiff.md` 10.3).
pub(crate) const NOT_DYNAMIC: &str = "dynamic marker for non-template value node";

/// Returns the flags and the tag of markers.
pub(crate) fn markers(marked: &Marked) -> (Flags, Option<TagMark>) {
    let mut flags = Flags::empty();
    let mut tag = None;
    for marker in &marked.markers {
        let flag = match marker {
            Marker::Temporary => Flags::TEMPORARY,
            Marker::Local => Flags::LOCAL,
            Marker::Inject => Flags::INJECT,
            Marker::State => Flags::STATE,
            Marker::Default => Flags::DEFAULT,
            Marker::Dynamic => Flags::DYNAMIC,
            Marker::Template => Flags::empty(),
            Marker::Tag { name, global } => {
                tag = Some(TagMark { name: Arc::clone(name), global: *global });
                Flags::empty()
            }
        };
        flags |= flag;
    }
    (flags, tag)
}
