//! Choices: `<<if`, `<<switch`, `<<type`.

use super::{Control, ControlOutcome, text};
use crate::env::Env;
use crate::eval::{EvalError, Evaluated, call_whole};
use crate::flow::Walker;
use crate::issue::Issue;
use crate::issue::quote;
use crate::operators::compare::same;
use crate::value::{Flags, Map, Node, Value};

fn failed(message: impl Into<String>) -> ControlOutcome {
    ControlOutcome::Failed(Issue::new(message))
}

fn chosen(node: Option<&Node>) -> ControlOutcome {
    node.map_or(ControlOutcome::Undefined, |node| ControlOutcome::Value(node.clone()))
}

pub(super) fn condition(control: &Control<'_>) -> ControlOutcome {
    let holds = match &control.value.value {
        Value::Bool(holds) => *holds,
        Value::Nil => false,
        other => return failed(format!("invalid condition value type: {}", other.type_name())),
    };
    chosen(control.option(if holds { "<<then" } else { "<<else" }))
}

/// Runs `<<switch` with regular fields: the value names the field to choose.
pub(super) fn switch(control: &Control<'_>) -> ControlOutcome {
    match &control.value.value {
        Value::Nil => default(control, || "invalid switch value: %!q(<nil>)".to_owned()),
        Value::String(name) => by_name(control, name),
        other => failed(format!("invalid switch value type: {}", other.type_name())),
    }
}

pub(super) fn by_type(control: &Control<'_>) -> ControlOutcome {
    by_name(
        control,
        if control.value.has(Flags::UNDEFINED) { "undef" } else { control.value.value.type_name() },
    )
}

fn by_name(control: &Control<'_>, name: &str) -> ControlOutcome {
    match control.regular().find(|(key, _)| &**key == name).map(|(_, node)| node) {
        Some(node) => chosen(Some(node)),
        None => default(control, || format!("invalid switch value: {}", quote(name))),
    }
}

fn default(control: &Control<'_>, problem: impl FnOnce() -> String) -> ControlOutcome {
    match control.option("<<default") {
        Some(node) => chosen(Some(node)),
        None => failed(problem()),
    }
}

/// Runs `<<switch` with `<<cases`: the first case whose conditions are all true.
pub(super) fn matching(
    walker: &mut Walker<'_, '_>,
    control: &Control<'_>,
    env: &Env<'_>,
) -> Result<ControlOutcome, EvalError> {
    let Some(Value::List(cases)) = control.option("<<cases").map(|node| &node.value) else {
        return Ok(failed("cases must be a list"));
    };
    for (position, case) in cases.values().enumerate() {
        let Value::Map(case) = case else {
            return Ok(failed(format!("case {position} requires field 'case'")));
        };
        if let Some(unknown) = case.keys().find(|key| !matches!(&***key, "case" | "match" | "value")) {
            return Ok(failed(format!("case {position} invalid field {}", quote(unknown))));
        }
        if case.get("case").is_none() && case.get("match").is_none() {
            return Ok(failed(format!("case {position} requires 'case' or `'match' field")));
        }
        match holds(walker, (position, case), control, env)? {
            CaseMatch::Holds => return Ok(chosen(case.get("value"))),
            CaseMatch::Differs => {}
            CaseMatch::Undecided(outcome) => return Ok(outcome),
        }
    }
    let redacted = walker.run.settings.redacted;
    Ok(default(control, || format!("invalid switch value: {}", text(&control.value.value, redacted))))
}

/// Result of the conditions of a case for the value.
enum CaseMatch {
    Holds,
    Differs,
    /// The condition cannot be decided in this pass, or is invalid; the whole `<<switch` gets this
    /// outcome.
    Undecided(ControlOutcome),
}

/// Evaluates a condition. One that fails counts as false; one that is not a lambda counts as true.
fn holds(
    walker: &mut Walker<'_, '_>,
    (position, case): (usize, &Map),
    control: &Control<'_>,
    env: &Env<'_>,
) -> Result<CaseMatch, EvalError> {
    let value = &control.value.value;
    if case.get("case").is_some_and(|node| !same(&node.value, value)) {
        return Ok(CaseMatch::Differs);
    }
    let Some(Value::Lambda(lambda)) = case.get("match").map(|node| &node.value) else {
        return Ok(CaseMatch::Holds);
    };
    Ok(match call_whole(walker.run, lambda, vec![value.clone()], env) {
        Ok(Evaluated { value: None, .. }) => CaseMatch::Undecided(ControlOutcome::Pending),
        Ok(Evaluated { value: Some(Value::Bool(true)), .. }) => CaseMatch::Holds,
        Ok(Evaluated { value: Some(Value::Bool(false)), .. }) | Err(EvalError::Issue(_)) => {
            CaseMatch::Differs
        }
        Ok(Evaluated { value: Some(other), .. }) => {
            let found = other.type_name();
            let message = format!("case {position} boolean match result required, but got {found}");
            CaseMatch::Undecided(failed(message))
        }
        Err(EvalError::Abort) => return Err(EvalError::Abort),
    })
}
