//! Lambda values and calls of them (`spiff.md` 8.1 and 8.2).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::arguments::Waiting;
use super::{Eval, EvalError, Evaluated, Readiness, arguments, define, evaluate};
use crate::env::Env;
use crate::issue::Issue;
use crate::operators::concatenate::{lambda_text, names_text};
use crate::run::Run;
use crate::syntax::ast::{Arguments, Expr, LambdaExpr, Link, Name};
use crate::syntax::parse_lambda;
use crate::value::{Lambda, Value};

/// Arguments of a call.
#[derive(Debug, Default)]
pub(crate) struct Given {
    pub(crate) named: Vec<(Name, Value)>,
    pub(crate) positional: Vec<Value>,
}

impl Given {
    pub(crate) fn positional(positional: Vec<Value>) -> Self {
        Self { positional, ..Self::default() }
    }
}

/// Evaluates `lambda EXPR`: a lambda, or a text that contains one. A pending operand fails in this
/// pass.
pub(super) fn of(run: &mut Run<'_>, operand: &Expr, env: &Env<'_>) -> Eval {
    let operand = evaluate(run, operand, env)?;
    match operand.value {
        None => Err(operand.info.issue().into()),
        Some(Value::Lambda(lambda)) => {
            Ok(Evaluated { value: Some(Value::Lambda(lambda)), info: operand.info })
        }
        Some(Value::String(text)) => {
            let parsed = parse_lambda(&text).map_err(|error| {
                EvalError::issue(format!("cannot parse lamba expression '{text}': {error}"))
            })?;
            match parsed {
                Some(expression) => define(run, &expression, env),
                None => Err(EvalError::issue(format!("'{text}' is no lambda expression"))),
            }
        }
        Some(_) => Err(EvalError::issue("lambda reference must resolve to lambda value or string")),
    }
}

/// Evaluates the arguments of a call of `lambda`, and calls it. The remaining expression of a
/// pending call is a chain of only that call.
pub(super) fn call_with(
    run: &mut Run<'_>,
    lambda: &Arc<Lambda>,
    arguments: &Arguments,
    curry: bool,
    env: &Env<'_>,
) -> Eval {
    let given = match arguments::evaluated(run, arguments, env)? {
        Readiness::Ready(given) => given,
        Readiness::Pending(pending) => return Ok(waiting(pending, Expr::Nil, curry)),
    };
    let positional = given.positional.into_iter().map(|node| node.value).collect();
    let mut result = call(run, lambda, Given { named: given.named, positional }, curry, env)?.whole();
    result.info.join(given.info);
    Ok(result)
}

/// Returns a call of `function` that waits for its arguments.
pub(super) fn waiting(waiting: Waiting, function: Expr, curry: bool) -> Evaluated {
    let mut info = waiting.info;
    info.rest = waiting
        .rest
        .map(|arguments| Arc::new(Expr::Chain(Box::new(function), vec![Link::Call { arguments, curry }])));
    Evaluated::pending(info)
}

/// Calls a lambda. With fewer arguments than parameters it returns the lambda of the remaining
/// parameters.
pub(crate) fn call(
    run: &mut Run<'_>,
    lambda: &Arc<Lambda>,
    given: Given,
    curry: bool,
    env: &Env<'_>,
) -> Eval {
    let expression = &lambda.expression;
    let count = expression.parameters.len();
    let last_has_default = lambda.defaults.last().is_some_and(Option::is_some);
    let fewer = given.positional.len() < count;
    if curry || (fewer && given.named.is_empty() && !expression.variadic && !last_has_default) {
        return Evaluated::ok(Value::Lambda(Arc::new(curried(lambda, given)?)));
    }
    call_bound(run, lambda, given, env)
}

/// Calls a lambda on behalf of a function or control. With fewer arguments than parameters the call
/// fails; it is not curried.
pub(crate) fn call_whole(
    run: &mut Run<'_>,
    lambda: &Arc<Lambda>,
    arguments: Vec<Value>,
    env: &Env<'_>,
) -> Eval {
    call_bound(run, lambda, Given::positional(arguments), env)
}

fn call_bound(run: &mut Run<'_>, lambda: &Arc<Lambda>, given: Given, env: &Env<'_>) -> Eval {
    let mut names = bind(lambda, given)?;
    let shown = names.clone();
    names.push((Arc::from("_"), Value::Lambda(Arc::clone(lambda))));
    let redacted = run.settings.redacted;
    body(run, lambda, names, env).map_err(|fault| failed(fault, lambda, &shown, redacted))
}

/// Calls a lambda that was written in the brackets of a mapping form, `catch` or `sync`. Unlike
/// other lambdas it does not bind `_`.
pub(super) fn call_inline(
    run: &mut Run<'_>,
    lambda: &Arc<Lambda>,
    arguments: Vec<Value>,
    env: &Env<'_>,
) -> Eval {
    let names = bind(lambda, Given::positional(arguments))?;
    let shown = names.clone();
    let redacted = run.settings.redacted;
    body(run, lambda, names, env).map_err(|fault| failed(fault, lambda, &shown, redacted))
}

fn body(run: &mut Run<'_>, lambda: &Lambda, names: Vec<(Name, Value)>, env: &Env<'_>) -> Eval {
    let mut all = lambda.statics.clone();
    all.extend(names);
    let local = env.with_local(all);
    let evaluated = run.called(|run| run.inside(|run| evaluate(run, &lambda.expression.body, &local)))?;
    Ok(evaluated.whole())
}

fn failed(fault: EvalError, lambda: &Lambda, names: &[(Name, Value)], redacted: bool) -> EvalError {
    match fault {
        EvalError::Issue(cause) => {
            let all = lambda.statics.iter().chain(names);
            let (what, arguments) = if redacted {
                let types: Vec<_> =
                    all.map(|(name, value)| format!("{name}: {}", value.type_name())).collect();
                (lambda.expression.to_string(), format!("{{{}}}", types.join(", ")))
            } else {
                (lambda_text(lambda), names_text(all))
            };
            let message = format!("evaluation of lambda expression failed: {what}: {arguments}");
            Issue::caused(message, *cause).into()
        }
        EvalError::Abort => EvalError::Abort,
    }
}

/// Returns named arguments by the position of their parameter. They are given by its name, or by
/// its position counted from 1.
fn named_positions(
    expression: &LambdaExpr,
    named: Vec<(Name, Value)>,
) -> Result<BTreeMap<usize, Value>, EvalError> {
    let parameters = &expression.parameters;
    let mut positions = BTreeMap::new();
    let mut unknown = None;
    for (name, value) in named {
        let position = match name.parse::<i64>() {
            Ok(place) if place < 1 => {
                return Err(EvalError::issue(format!("invalid argument index {place}")));
            }
            Ok(place) => {
                let position =
                    usize::try_from(place - 1).ok().filter(|position| *position < parameters.len());
                let too_large =
                    || format!("argument index {place} too large for {} parameters", parameters.len());
                position.ok_or_else(|| EvalError::issue(too_large()))?
            }
            Err(_) => match parameters.iter().position(|parameter| parameter.name == name) {
                Some(position) => position,
                None => {
                    unknown.get_or_insert(name);
                    continue;
                }
            },
        };
        if positions.insert(position, value).is_some() {
            let name = &parameters[position].name;
            return Err(EvalError::issue(format!("named argument {name} given by name and index")));
        }
    }
    match unknown {
        Some(name) => Err(EvalError::issue(format!("no lambda parameter found for named argument {name}"))),
        None => Ok(positions),
    }
}

/// Assigns the given arguments to the parameters.
fn assign(lambda: &Lambda, given: Given) -> Result<Vec<Option<Value>>, EvalError> {
    let expression = &lambda.expression;
    let count = expression.parameters.len();
    let Given { named, mut positional } = given;
    let named = if named.is_empty() { BTreeMap::new() } else { named_positions(expression, named)? };
    if expression.variadic && count > 0 && positional.len() >= count {
        let rest = positional.split_off(count - 1);
        positional.push(Value::list(rest));
    }
    if positional.len() > count {
        let message = format!("found {} argument(s), but expects {count}", positional.len());
        return Err(EvalError::issue(message));
    }
    let mut values: Vec<Option<Value>> = positional.into_iter().map(Some).collect();
    values.resize(count, None);
    for (position, value) in named {
        let parameter = &expression.parameters[position].name;
        let place = position + 1;
        if values[position].is_some() {
            return Err(EvalError::issue(format!(
                "both, positional ({place}) and named argument found for lambda parameter {parameter}"
            )));
        }
        if expression.variadic && place == count && !matches!(value, Value::List(_)) {
            return Err(EvalError::issue(format!(
                "named varargs argument {place} ({parameter}) must be a list"
            )));
        }
        values[position] = Some(value);
    }
    Ok(values)
}

fn bind(lambda: &Lambda, given: Given) -> Result<Vec<(Name, Value)>, EvalError> {
    let expression = &lambda.expression;
    let count = expression.parameters.len();
    let had_named = !given.named.is_empty();
    let found = given.positional.len();
    let values = assign(lambda, given)?;
    let mut names = Vec::with_capacity(count + 1);
    for (position, (parameter, value)) in expression.parameters.iter().zip(values).enumerate() {
        let default = || lambda.defaults.get(position).cloned().flatten();
        let rest = || (expression.variadic && position + 1 == count).then(|| Value::list([]));
        let Some(value) = value.or_else(default).or_else(rest) else {
            return Err(missing(lambda, &parameter.name, had_named, found));
        };
        names.push((Arc::clone(&parameter.name), value));
    }
    Ok(names)
}

fn missing(lambda: &Lambda, name: &str, had_named: bool, found: usize) -> EvalError {
    let count = lambda.expression.parameters.len();
    let optional = lambda.defaults.iter().filter(|default| default.is_some()).count()
        + usize::from(lambda.expression.variadic);
    EvalError::issue(if had_named {
        format!("missing named argument for {name}")
    } else if optional == 0 {
        format!("expected {count} arguments, but found {found}")
    } else {
        format!("expected at least {} arguments ({optional} optional), but found {found}", count - optional)
    })
}

/// Returns the lambda of the parameters without a value. The given values become part of its
/// captured names.
fn curried(lambda: &Lambda, given: Given) -> Result<Lambda, EvalError> {
    let expression = &lambda.expression;
    let mut statics = lambda.statics.clone();
    let values = assign(lambda, given)?;
    let (mut parameters, mut defaults) = (Vec::new(), Vec::new());
    for (position, value) in values.into_iter().enumerate() {
        let parameter = &expression.parameters[position];
        match value {
            Some(value) => statics.push((Arc::clone(&parameter.name), value)),
            None => {
                parameters.push(parameter.clone());
                defaults.push(lambda.defaults.get(position).cloned().flatten());
            }
        }
    }
    let last_is_open = parameters.last() == expression.parameters.last();
    let variadic = expression.variadic && last_is_open && !parameters.is_empty();
    let expression = Arc::new(LambdaExpr { parameters, variadic, body: expression.body.clone() });
    Ok(Lambda { expression, defaults, statics, scope: lambda.scope.clone() })
}
