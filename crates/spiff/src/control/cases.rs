//! Choices: `<<if`, `<<switch`, `<<type`.

use super::{Control, Outcome};
use crate::env::Env;
use crate::eval::{Fault, Given, call};
use crate::flow::Walker;
use crate::issue::Issue;
use crate::operators::compare::same;
use crate::value::{Flags, Map, Node, Value};

fn failed(message: impl Into<String>) -> Outcome {
    Outcome::Failed(Issue::new(message))
}

fn chosen(node: Option<&Node>) -> Outcome {
    node.map_or(Outcome::Undefined, |node| Outcome::Value(node.clone()))
}

pub(super) fn condition(control: &Control<'_>) -> Outcome {
    let holds = match &control.value.value {
        Value::Bool(holds) => *holds,
        Value::Nil => false,
        other => return failed(format!("invalid condition value type: {}", other.type_name())),
    };
    chosen(control.option(if holds { "<<then" } else { "<<else" }))
}

pub(super) fn switch(control: &Control<'_>) -> Outcome {
    if control.value.has(Flags::UNDEFINED) {
        return Outcome::Undefined;
    }
    match &control.value.value {
        Value::Nil => match control.option("<<default") {
            Some(node) => chosen(Some(node)),
            None => failed("invalid switch value type: nil"),
        },
        Value::String(name) => by_name(control, name, "invalid switch value"),
        other => failed(format!("invalid switch value type: {}", other.type_name())),
    }
}

pub(super) fn by_type(control: &Control<'_>) -> Outcome {
    let name = if control.value.has(Flags::UNDEFINED) { "undef" } else { control.value.value.type_name() };
    by_name(control, name, "invalid type switch type")
}

fn by_name(control: &Control<'_>, name: &str, problem: &str) -> Outcome {
    match control.regular().find(|(key, _)| &**key == name).map(|(_, node)| node) {
        Some(node) => chosen(Some(node)),
        None => match control.option("<<default") {
            Some(node) => chosen(Some(node)),
            None => failed(format!("{problem}: \"{name}\"")),
        },
    }
}

/// `<<switch` with `<<cases`: the first case whose conditions all hold.
pub(super) fn matching(
    walker: &mut Walker<'_, '_>,
    control: &Control<'_>,
    env: &Env<'_>,
) -> Result<Outcome, Fault> {
    let Some(Value::List(cases)) = control.option("<<cases").map(|node| &node.value) else {
        return Ok(failed("cases must be a list of maps"));
    };
    for (position, case) in cases.values().enumerate() {
        let Value::Map(case) = case else { return Ok(failed(format!("case {position} must be a map"))) };
        if case.get("case").is_none() && case.get("match").is_none() {
            return Ok(failed(format!("case {position} requires case or match")));
        }
        match holds(walker, case, control, env)? {
            Ok(true) => return Ok(chosen(case.get("value"))),
            Ok(false) => {}
            Err(outcome) => return Ok(outcome),
        }
    }
    Ok(match control.option("<<default") {
        Some(node) => chosen(Some(node)),
        None => failed("no matching case found"),
    })
}

fn holds(
    walker: &mut Walker<'_, '_>,
    case: &Map,
    control: &Control<'_>,
    env: &Env<'_>,
) -> Result<Result<bool, Outcome>, Fault> {
    let value = &control.value.value;
    if case.get("case").is_some_and(|node| !same(&node.value, value)) {
        return Ok(Ok(false));
    }
    let Some(condition) = case.get("match") else { return Ok(Ok(true)) };
    let Value::Lambda(lambda) = &condition.value else {
        return Ok(Err(failed("match must be a lambda value")));
    };
    let given = Given::positional(vec![value.clone()]);
    match call(walker.run, lambda, given, false, env) {
        Ok(evaluated) => Ok(evaluated.value.map(|value| value.is_truthy()).ok_or(Outcome::Pending)),
        Err(Fault::Issue(issue)) => Ok(Err(Outcome::Retry(*issue))),
        Err(Fault::Abort) => Err(Fault::Abort),
    }
}
