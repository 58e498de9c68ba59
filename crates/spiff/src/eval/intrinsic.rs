//! Functions whose arguments are not evaluated in advance (`spiff.md` 11.1), and the bracket forms
//! of `catch` and `sync`.

use std::sync::Arc;

use super::{Depth, Eval, EvalError, Evaluated, Info, Readiness, define, evaluate, evaluate_to, lambda};
use crate::env::Env;
use crate::issue::Issue;
use crate::issue::quote;
use crate::run::{Run, shown};
use crate::scope::dotted;
use crate::syntax::ast::{Arguments, Expr, LambdaExpr, Step, Sync};
use crate::value::{Flags, Value};

/// An intrinsic function; it evaluates its arguments itself.
type Intrinsic = fn(&mut Run<'_>, &[&Expr], &Env<'_>) -> Eval;

/// Returns the intrinsic function `name`.
pub(super) fn find(name: &str) -> Option<Intrinsic> {
    let function: Intrinsic = match name {
        "defined" => defined,
        "valid" => valid,
        "require" => require,
        "optional" => optional,
        "catch" => catch,
        "stub" => stub,
        "sync" => sync_function,
        _ => return None,
    };
    Some(function)
}

/// Calls an intrinsic function.
pub(super) fn call(
    run: &mut Run<'_>,
    function: Intrinsic,
    name: &str,
    arguments: &Arguments,
    curry: bool,
    env: &Env<'_>,
) -> Eval {
    if curry {
        return Err(EvalError::issue(format!("no currying for intrinsic builtin function ({name})")));
    }
    let named = arguments.named.iter().map(|(_, expression)| expression);
    let expressions: Vec<&Expr> =
        named.chain(arguments.positional.iter().map(|item| &item.expression)).collect();
    function(run, &expressions, env)
}

/// Runs `defined`. A pending argument counts only if none before it fails, and has no message.
fn defined(run: &mut Run<'_>, arguments: &[&Expr], env: &Env<'_>) -> Eval {
    let mut pending = false;
    for argument in arguments {
        match evaluate_to(run, argument, env, Depth::Local) {
            Err(EvalError::Abort) => return Err(EvalError::Abort),
            Ok(Evaluated { value: None, .. }) => pending = true,
            Ok(evaluated) if pending || !evaluated.info.undefined() => {}
            Err(EvalError::Issue(_)) if pending => {}
            Ok(_) | Err(EvalError::Issue(_)) => return Evaluated::ok(Value::Bool(false)),
        }
    }
    if pending { Ok(Evaluated::pending(Info::default())) } else { Evaluated::ok(Value::Bool(true)) }
}

/// Runs `valid`: like [`defined`], but nil decides only if no argument is pending.
fn valid(run: &mut Run<'_>, arguments: &[&Expr], env: &Env<'_>) -> Eval {
    let (mut pending, mut valid) = (false, true);
    for argument in arguments {
        match evaluate_to(run, argument, env, Depth::Local) {
            Err(EvalError::Abort) => return Err(EvalError::Abort),
            Ok(Evaluated { value: None, .. }) => pending = true,
            Ok(Evaluated { value: Some(value), .. }) => valid &= !matches!(value, Value::Nil),
            Err(EvalError::Issue(_)) if pending => {}
            Err(EvalError::Issue(_)) => return Evaluated::ok(Value::Bool(false)),
        }
    }
    if pending { Ok(Evaluated::pending(Info::default())) } else { Evaluated::ok(Value::Bool(valid)) }
}

fn require(run: &mut Run<'_>, arguments: &[&Expr], env: &Env<'_>) -> Eval {
    let [argument] = arguments else { return Err(EvalError::issue("one argument expected for 'require'")) };
    match evaluate_to(run, argument, env, Depth::Local) {
        Err(EvalError::Abort) => Err(EvalError::Abort),
        Ok(Evaluated { value: None, .. }) => Ok(Evaluated::pending(Info::default())),
        Ok(Evaluated { value: Some(value), .. }) if !matches!(value, Value::Nil) => Evaluated::ok(value),
        Ok(_) | Err(EvalError::Issue(_)) => {
            let argument = quote(&argument.to_string());
            Err(EvalError::issue(format!("required expression {argument} undefined")))
        }
    }
}

fn optional(run: &mut Run<'_>, arguments: &[&Expr], env: &Env<'_>) -> Eval {
    let [condition, value] = arguments else {
        return Err(EvalError::issue("condition and template required for optional()"));
    };
    let condition = match evaluate(run, condition, env) {
        Err(EvalError::Abort) => return Err(EvalError::Abort),
        Err(EvalError::Issue(_)) => return evaluate(run, &Expr::Undefined, env),
        Ok(condition) => condition,
    };
    match condition.value {
        None => Ok(Evaluated::pending(condition.info).whole()),
        Some(holds) if condition.info.undefined() || !holds.is_truthy() => {
            evaluate(run, &Expr::Undefined, env)
        }
        Some(_) => {
            let mut evaluated = evaluate(run, value, env)?.in_place_of(value);
            let rest = evaluated.info.rest.take();
            evaluated.info.join(condition.info);
            evaluated.info.rest = rest;
            Ok(evaluated)
        }
    }
}

fn catch(run: &mut Run<'_>, arguments: &[&Expr], env: &Env<'_>) -> Eval {
    let [argument] = arguments else { return Err(EvalError::issue("catch requires a single argument")) };
    if run.catching.waits && run.catching.inside == 0 {
        run.catching.met = true;
        return Ok(Evaluated::pending(Info::default()));
    }
    let (valid, error, value) = match evaluate(run, argument, env) {
        Err(EvalError::Abort) => return Err(EvalError::Abort),
        Err(EvalError::Issue(issue)) => (false, issue.message, None),
        Ok(Evaluated { value: None, info }) => return Ok(Evaluated::pending(info).whole()),
        Ok(Evaluated { value, .. }) => (true, String::new(), value),
    };
    let mut entries = vec![("valid", Value::Bool(valid)), ("error", Value::string(error))];
    entries.extend(value.map(|value| ("value", value)));
    Evaluated::ok(Value::map(entries))
}

/// Runs `catch[EXPR|v,e|->body]`: the lambda gets value and message, one of them nil.
pub(super) fn catch_with(run: &mut Run<'_>, expression: &Expr, handler: &Expr, env: &Env<'_>) -> Eval {
    let (evaluated, inline) = match handler {
        Expr::Lambda(expression) => (define(run, expression, env)?, true),
        expression => (evaluate(run, expression, env)?, false),
    };
    let lambda = match evaluated.value {
        None => return Ok(Evaluated::pending(evaluated.info).whole()),
        Some(Value::Lambda(lambda)) => lambda,
        Some(_) => return Err(EvalError::issue("catch requires a lambda value")),
    };
    let count = lambda.expression.parameters.len();
    if count > 2 {
        return Err(EvalError::issue("catch function takes a maximum of 2 arguments"));
    }
    let (value, error) = match evaluate(run, expression, env) {
        Err(EvalError::Abort) => return Err(EvalError::Abort),
        Err(EvalError::Issue(issue)) => (Value::Nil, Value::string(issue.message)),
        Ok(Evaluated { value: None, info }) => return Ok(Evaluated::pending(info).whole()),
        Ok(Evaluated { value: Some(value), .. }) => (value, Value::Nil),
    };
    let arguments = match count {
        1 => vec![value],
        2 => vec![value, error],
        _ => return Err(EvalError::issue("catch function takes one or two arguments")),
    };
    let called = if inline {
        lambda::call_inline(run, &lambda, arguments, env)
    } else {
        lambda::call(run, &lambda, lambda::Given::positional(arguments), false, env)
    };
    Ok(called?.whole())
}

/// Runs `stub()`, `stub(ref)`, `stub("a.b")`, `stub([…])`. A reference is not evaluated; its path
/// is used.
fn stub(run: &mut Run<'_>, arguments: &[&Expr], env: &Env<'_>) -> Eval {
    let steps: Vec<Step> = match arguments {
        [] => env.path.steps(),
        [Expr::Reference(reference)] if reference.absolute => {
            let path = shown(&reference.steps, true);
            return Err(EvalError::issue(format!("'{path}' not found in any stub")));
        }
        [Expr::Reference(reference)] => reference.steps.clone(),
        [argument] => {
            let evaluated = evaluate_to(run, argument, env, Depth::Local)?;
            match evaluated.value {
                None => return Ok(Evaluated::pending(evaluated.info).whole()),
                Some(Value::String(text)) => components(&text),
                Some(Value::List(list)) => {
                    let parts: Option<Vec<_>> = list.values().map(Value::as_str).collect();
                    let parts =
                        parts.ok_or_else(|| EvalError::issue("stub() requires a string entries in list"))?;
                    parts.into_iter().map(step).collect()
                }
                Some(_) if evaluated.info.undefined() => env.path.steps(),
                Some(_) => return Err(EvalError::issue("stub() requires a string or reference argument")),
            }
        }
        _ => return Err(EvalError::issue("a maximum of one argument expected for 'stub'")),
    };
    match env.find_stub_path(&steps) {
        Some(node) => Evaluated::ok(node.value.clone()),
        None => Err(EvalError::issue(format!("'{}' not found in any stub", dotted(&steps)))),
    }
}

/// Splits a path that is written as `a.b[0].c` into steps.
fn components(text: &str) -> Vec<Step> {
    let mut parts = vec![String::new()];
    for c in text.chars() {
        match (c, parts.last_mut()) {
            ('.', _) => parts.push(String::new()),
            ('[', Some(last)) if !last.is_empty() => parts.push('['.into()),
            (c, Some(last)) => last.push(c),
            (_, None) => {}
        }
    }
    if parts.last().is_some_and(String::is_empty) {
        parts.pop();
    }
    parts.iter().map(|part| step(part)).collect()
}

fn step(text: &str) -> Step {
    let index =
        text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).and_then(|digits| digits.parse().ok());
    index.map_or_else(|| Step::Field(text.into()), Step::Index)
}

/// Runs `type(x)` on evaluated arguments. It is defined also for an undefined argument, whose type
/// is `undef`.
pub(super) fn type_of(arguments: &[Value], info: Info) -> Eval {
    let mut info = info;
    if info.undefined() {
        info.flags.remove(Flags::UNDEFINED);
        return Ok(Evaluated { value: Some(Value::string("undef")), info });
    }
    let [argument] = arguments else {
        return Err(EvalError::issue("exactly one argument required for function 'type'"));
    };
    Ok(Evaluated { value: Some(Value::string(argument.type_name())), info })
}

/// The values of a `sync` expression that its parts can read.
struct Awaited {
    value: Value,
    /// The reason why the awaited expression has no value.
    error: Option<Issue>,
}

/// Evaluates the expression of a `sync`.
fn awaited(run: &mut Run<'_>, expression: &Expr, env: &Env<'_>) -> Result<Readiness<Awaited>, EvalError> {
    match evaluate(run, expression, env) {
        Err(EvalError::Abort) => Err(EvalError::Abort),
        Err(EvalError::Issue(issue)) => {
            Ok(Readiness::Ready(Awaited { value: Value::Nil, error: Some(*issue) }))
        }
        Ok(Evaluated { value: None, info }) => Ok(Readiness::Pending(info)),
        Ok(Evaluated { value: Some(value), .. }) => Ok(Readiness::Ready(Awaited { value, error: None })),
    }
}

/// Waits because the condition is false: the next pass tries again. Once the document is at rest,
/// the `sync` fails.
fn keep_waiting(run: &mut Run<'_>, error: Option<Issue>) -> Eval {
    let issue = error.unwrap_or_else(|| Issue::new("sync timeout reached"));
    run.volatile = true;
    if run.syncing.over {
        return Err(issue.into());
    }
    run.syncing.waiting = true;
    Ok(Evaluated::pending(Info::pending(issue)))
}

fn holds(condition: &Value) -> Result<bool, EvalError> {
    match condition {
        Value::Bool(holds) => Ok(*holds),
        _ => Err(EvalError::issue("condition must evaluate to bool")),
    }
}

/// Runs `sync(e, cond [, value [, timeout]])`: the parts see `value`, `error` and `valid`.
fn sync_function(run: &mut Run<'_>, arguments: &[&Expr], env: &Env<'_>) -> Eval {
    let (expression, condition, result) = match arguments {
        [expression, condition] => (expression, condition, None),
        [expression, condition, result] | [expression, condition, result, _] => {
            (expression, condition, Some(result))
        }
        _ => return Err(EvalError::issue("2 or 3 arguments required for sync")),
    };
    let awaited = match awaited(run, expression, env)? {
        Readiness::Ready(awaited) => awaited,
        Readiness::Pending(info) => return Ok(Evaluated::pending(info).whole()),
    };
    let message = awaited.error.as_ref().map(|issue| issue.message.clone()).unwrap_or_default();
    let names = [
        ("value", awaited.value.clone()),
        ("error", Value::string(message)),
        ("valid", Value::Bool(awaited.error.is_none())),
    ];
    let names = names.into_iter().map(|(name, value)| (name.into(), value)).collect();
    let inner = env.with_local(names);
    let condition = run.inside(|run| evaluate(run, condition, &inner))?;
    let Some(condition_value) = &condition.value else { return Ok(condition.whole()) };
    if !holds(condition_value)? {
        return keep_waiting(run, awaited.error);
    }
    match result {
        Some(result) => Ok(run.inside(|run| evaluate(run, result, &inner))?.whole()),
        None => Evaluated::ok(awaited.value),
    }
}

/// Runs `sync[…]`. No input of an expression changes from outside, so the document at rest decides
/// instead of the timeout **[D31]**.
pub(super) fn sync(run: &mut Run<'_>, sync: &Sync, env: &Env<'_>) -> Eval {
    let awaited = match awaited(run, &sync.expression, env)? {
        Readiness::Ready(awaited) => awaited,
        Readiness::Pending(info) => return Ok(Evaluated::pending(info).whole()),
    };
    let error = awaited.error.as_ref().map_or(Value::Nil, |issue| Value::string(issue.message.clone()));
    let call = |run: &mut Run<'_>, lambda: &Expr, problem: &str| -> Eval {
        let evaluated = match lambda {
            Expr::Lambda(expression) => define(run, expression, env)?,
            expression => evaluate(run, expression, env)?,
        };
        let lambda = match evaluated.value {
            None => return Ok(Evaluated::pending(evaluated.info).whole()),
            Some(Value::Lambda(lambda)) => lambda,
            Some(_) => return Err(EvalError::issue(problem)),
        };
        let mut arguments = vec![awaited.value.clone(), error.clone()];
        arguments.truncate(lambda.expression.parameters.len());
        Ok(lambda::call_inline(run, &lambda, arguments, env)?.whole())
    };
    let condition = call(run, &sync.condition, "sync condition must evaluate to a lambda value")?;
    let Some(condition_value) = &condition.value else { return Ok(condition) };
    if !holds(condition_value)? {
        return keep_waiting(run, awaited.error);
    }
    match (&sync.value, &sync.condition) {
        (None, _) => Evaluated::ok(awaited.value),
        (Some(value), Expr::Lambda(condition)) if sync.value_shares_parameters => {
            let shared = LambdaExpr { body: value.clone(), ..(**condition).clone() };
            call(run, &Expr::Lambda(Arc::new(shared)), "")
        }
        (Some(value), _) => call(run, value, "sync value must evaluate to a lambda value"),
    }
}
