//! Binary operators (`spiff.md` 7.3 to 7.7).

use std::sync::Arc;

use super::{Eval, EvalError, Evaluated, Info, merge};
use crate::env::Env;
use crate::issue::Issue;
use crate::operators::{arithmetic, compare, concatenate, logic};
use crate::run::Run;
use crate::syntax::ast::{Expr, Operator};
use crate::value::{Flags, Value};

pub(super) fn evaluate(
    run: &mut Run<'_>,
    operator: Operator,
    left: &Expr,
    right: &Expr,
    env: &Env<'_>,
) -> Eval {
    match operator {
        Operator::Otherwise => otherwise(run, left, right, env),
        Operator::OtherwiseValid => otherwise_valid(run, left, right, env),
        Operator::And | Operator::Or => logic(run, operator, left, right, env),
        _ => {
            let mut first = super::evaluate(run, left, env)?;
            let first_rest = first.info.rest.take();
            if operator == Operator::Modulo {
                integer(first.value.as_ref())?;
            }
            let mut second = super::evaluate(run, right, env)?;
            let second_rest = second.info.rest.take();
            let mut info = first.info;
            info.join(second.info);
            if operator == Operator::Modulo {
                integer(second.value.as_ref())?;
            }
            let (Some(first), Some(second)) = (first.value, second.value) else {
                info.rest = rest(operator, (left, first_rest), (right, second_rest));
                return Ok(Evaluated::pending(info));
            };
            run.spend(cost(operator, &first, &second))?;
            let value = apply(operator, &first, &second, left, right)?;
            Ok(Evaluated { value: Some(value), info })
        }
    }
}

/// Checks one operand of `%`. An operand of another type fails even if the other operand is
/// pending.
fn integer(operand: Option<&Value>) -> Result<(), EvalError> {
    match operand {
        Some(value) if value.as_int().is_none() => Err(EvalError::issue("integer operand required")),
        _ => Ok(()),
    }
}

type Operand<'a> = (&'a Expr, Option<Arc<Expr>>);

/// Returns the remaining expression of an operator, if a part of its operands was evaluated.
fn rest(operator: Operator, left: Operand<'_>, right: Operand<'_>) -> Option<Arc<Expr>> {
    if left.1.is_none() && right.1.is_none() {
        return None;
    }
    Some(Arc::new(Expr::Binary(operator, Box::new(left_over(left)), Box::new(left_over(right)))))
}

fn left_over((whole, rest): Operand<'_>) -> Expr {
    rest.map_or_else(|| whole.clone(), Arc::unwrap_or_clone)
}

/// Returns the steps of an operator, besides those for its operands. A step compares four nodes, or
/// searches as much text as they would count for.
fn cost(operator: Operator, first: &Value, second: &Value) -> u64 {
    match operator {
        Operator::Equal
        | Operator::NotEqual
        | Operator::Less
        | Operator::LessEqual
        | Operator::Greater
        | Operator::GreaterEqual => u64::from(first.size().min(second.size())) / 4,
        Operator::Concatenate => made(first).saturating_add(made(second)),
        // Both operands are searched for an address.
        _ => [first, second].into_iter().filter_map(Value::as_str).map(|text| text.len() as u64 / 128).sum(),
    }
}

/// Returns the steps for making the top level of a value: one for each entry, and for four bytes of
/// text. That is more than the time of copying them, because it bounds the memory of all texts of a
/// run, which are not among the live bytes.
pub(super) fn made(value: &Value) -> u64 {
    match value {
        Value::String(text) => text.len() as u64 / 4,
        Value::Binary(bytes) => bytes.len() as u64 / 4,
        Value::List(list) => list.len() as u64,
        Value::Map(map) => map.len() as u64,
        _ => 0,
    }
}

fn apply(
    operator: Operator,
    first: &Value,
    second: &Value,
    left: &Expr,
    right: &Expr,
) -> Result<Value, EvalError> {
    let value = match operator {
        Operator::Add => arithmetic::add(first, second)?,
        Operator::Subtract => arithmetic::subtract(first, second)?,
        Operator::Multiply => arithmetic::multiply(first, second)?,
        Operator::Divide => arithmetic::divide(first, second)?,
        Operator::Modulo => arithmetic::modulo(first, second)?,
        Operator::Equal => Value::Bool(compare::equal(first, second)?),
        Operator::NotEqual => Value::Bool(!compare::equal(first, second)?),
        Operator::Less | Operator::LessEqual | Operator::Greater | Operator::GreaterEqual => {
            Value::Bool(compare::order(operator, first, second)?)
        }
        Operator::Concatenate => concatenate::concatenate(first, second, left, right)?,
        Operator::And | Operator::Or | Operator::Otherwise | Operator::OtherwiseValid => Value::Nil,
    };
    Ok(value)
}

/// Evaluates `A || B`.
fn otherwise(run: &mut Run<'_>, left: &Expr, right: &Expr, env: &Env<'_>) -> Eval {
    let info = match run.inside(|run| super::evaluate(run, left, env)) {
        Err(EvalError::Abort) => return Err(EvalError::Abort),
        Ok(mut first) if first.value.is_none() || !first.info.undefined() => {
            first.info.rest = None;
            return Ok(first);
        }
        Ok(first) => first.info,
        Err(EvalError::Issue(issue)) => failed_info(left, *issue),
    };
    alternative(run, info, right, env)
}

/// Evaluates `A // B`. If A is pending as it was before, it fails in this pass.
fn otherwise_valid(run: &mut Run<'_>, left: &Expr, right: &Expr, env: &Env<'_>) -> Eval {
    let info = match run.inside(|run| super::evaluate(run, left, env)) {
        Err(EvalError::Abort) => return Err(EvalError::Abort),
        Ok(mut first) if first.value.is_none() => {
            if first.info.rest.take().is_some() {
                return Ok(first);
            }
            return Err(first.info.issue().into());
        }
        Ok(first) if !first.info.undefined() && !matches!(first.value, Some(Value::Nil)) => return Ok(first),
        Ok(first) => first.info,
        Err(EvalError::Issue(issue)) => failed_info(left, *issue),
    };
    alternative(run, info, right, env)
}

/// Evaluates the right side of an alternative whose left side has failed for good. The result keeps
/// annotations of the left side, such as the path that the left side was to be merged from.
fn alternative(run: &mut Run<'_>, mut info: Info, right: &Expr, env: &Env<'_>) -> Eval {
    let mut second = super::evaluate(run, right, env)?;
    let rest = second.info.rest.take();
    let undefined = second.info.undefined();
    info.join(second.info);
    if !undefined {
        info.flags.remove(Flags::UNDEFINED);
    }
    if second.value.is_none() {
        info.rest = Some(rest.unwrap_or_else(|| Arc::new(right.clone())));
        return Ok(Evaluated::pending(info));
    }
    Ok(Evaluated { value: second.value, info: info.settled() })
}

/// Returns the annotations of a failing expression: a `merge` has a path and a key even if it finds
/// no value.
fn failed_info(expression: &Expr, issue: Issue) -> Info {
    let mut info = Info::pending(issue);
    match expression {
        Expr::Group(inner) => return failed_info(inner, info.issue()),
        Expr::Merge(expression) => merge::annotate(expression, &mut info),
        _ => {}
    }
    info
}

/// Evaluates `-and` and `-or`. Both operands are evaluated. If one decides alone, the other may
/// fail, unless the deciding one is an int (`spiff.md` 7.6).
fn logic(run: &mut Run<'_>, operator: Operator, left: &Expr, right: &Expr, env: &Env<'_>) -> Eval {
    let mut first = match super::evaluate(run, left, env) {
        Err(EvalError::Issue(_)) => return Err(EvalError::issue("")),
        first => first?,
    };
    first.info.rest = None;
    let Some(first_value) = first.value.take() else { return Ok(first) };
    match super::evaluate(run, right, env) {
        Ok(second) => {
            let mut info = first.info;
            info.join(second.info);
            let Some(second_value) = second.value else { return Ok(Evaluated::pending(info)) };
            Ok(Evaluated { value: Some(logic::combine(operator, &first_value, &second_value)), info })
        }
        Err(EvalError::Issue(_))
            if first_value.as_int().is_none() && first_value.is_truthy() == (operator == Operator::Or) =>
        {
            Ok(Evaluated { value: Some(Value::Bool(operator == Operator::Or)), info: first.info })
        }
        Err(fault) => Err(fault),
    }
}
