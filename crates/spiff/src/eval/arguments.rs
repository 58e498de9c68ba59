//! Evaluation of list entries and positional arguments: both are items, some with `...` behind
//! them.

use std::sync::Arc;

use super::{EvalError, Info, Readiness, evaluate};
use crate::env::Env;
use crate::run::Run;
use crate::syntax::ast::{Arguments, Expr, Item, Name};
use crate::syntax::strings::is_dynaml;
use crate::value::{Node, Origin, Value};

/// Evaluated arguments.
#[derive(Debug, Default)]
pub(super) struct Given {
    pub(super) named: Vec<(Name, Value)>,
    pub(super) positional: Vec<Node>,
    /// Annotations of all arguments together.
    pub(super) info: Info,
}

/// Arguments of which at least one is pending.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) info: Info,
    /// The remaining arguments, if a part of one was evaluated.
    pub(super) rest: Option<Arguments>,
}

/// Evaluates arguments in order. Later ones are evaluated even if one is pending, because one of
/// them may fail.
pub(super) fn evaluated(
    run: &mut Run<'_>,
    arguments: &Arguments,
    env: &Env<'_>,
) -> Result<Readiness<Given, Waiting>, EvalError> {
    let mut given = Given::default();
    let mut pending = false;
    let mut named: Option<Vec<(Name, Expr)>> = None;
    for (position, (name, argument)) in arguments.named.iter().enumerate() {
        let mut evaluated = evaluate(run, argument, env)?;
        if let Some(rest) = evaluated.info.rest.take() {
            named.get_or_insert_with(|| arguments.named.clone())[position].1 = Arc::unwrap_or_clone(rest);
        }
        given.info.join(evaluated.info);
        match evaluated.value {
            Some(value) => given.named.push((Arc::clone(name), value)),
            None => pending = true,
        }
    }
    let (info, items) = match positional(run, &arguments.positional, env, given)? {
        Readiness::Ready(given) if !pending => return Ok(Readiness::Ready(given)),
        Readiness::Ready(given) => (given.info, None),
        Readiness::Pending(waiting) => waiting,
    };
    if named.is_none() && items.is_none() {
        return Ok(Readiness::Pending(Waiting { info, rest: None }));
    }
    let named = named.unwrap_or_else(|| arguments.named.clone());
    let positional = items.unwrap_or_else(|| arguments.positional.clone());
    Ok(Readiness::Pending(Waiting { info, rest: Some(Arguments { named, positional }) }))
}

type WaitingItems = (Info, Option<Vec<Item>>);

/// Adds the values of positional arguments to `given`.
fn positional(
    run: &mut Run<'_>,
    items: &[Item],
    env: &Env<'_>,
    mut given: Given,
) -> Result<Readiness<Given, WaitingItems>, EvalError> {
    let mut pending = false;
    let mut misplaced = false;
    let mut rest: Option<Vec<Item>> = None;
    given.positional.reserve(items.len());
    for (position, item) in items.iter().enumerate() {
        let mut evaluated = evaluate(run, &item.expression, env)?;
        if let Some(left) = evaluated.info.rest.take() {
            rest.get_or_insert_with(|| items.to_vec())[position].expression = Arc::unwrap_or_clone(left);
        }
        given.info.join(evaluated.info);
        match evaluated.value {
            Some(Value::List(list)) if item.expand => given.positional.extend(list.iter().cloned()),
            _ if item.expand => misplaced = true,
            Some(value) => given.positional.push(made(value, env)),
            None => pending = true,
        }
    }
    if misplaced {
        return Err(EvalError::issue("argument expansion required list argument"));
    }
    Ok(if pending { Readiness::Pending((given.info, rest)) } else { Readiness::Ready(given) })
}

/// Evaluates items without names as [`evaluated`] does. `whole` makes an expression from the items
/// that are left.
pub(super) fn items(
    run: &mut Run<'_>,
    items: &[Item],
    env: &Env<'_>,
    whole: impl FnOnce(Vec<Item>) -> Expr,
) -> Result<Readiness<Given>, EvalError> {
    Ok(match positional(run, items, env, Given::default())? {
        Readiness::Ready(given) => Readiness::Ready(given),
        Readiness::Pending((mut info, rest)) => {
            info.rest = rest.map(|rest| Arc::new(whole(rest)));
            Readiness::Pending(info)
        }
    })
}

/// Returns the node of a value that an expression made. Its origin matters only if it is itself an
/// expression, which may fail.
pub(super) fn made(value: Value, env: &Env<'_>) -> Node {
    match &value {
        Value::String(text) if is_dynaml(text).is_some() => {
            Node::at(value, Origin { source: made_by(&env.source), line: 0, column: 0 })
        }
        _ => Node::new(value),
    }
}

/// Returns the source name of nodes that the expressions of a document make.
fn made_by(source: &Arc<str>) -> Arc<str> {
    if source.starts_with("dynaml@") {
        Arc::clone(source)
    } else if source.is_empty() {
        Arc::from("dynaml")
    } else {
        Arc::from(format!("dynaml@{source}"))
    }
}
