//! The control `<<for`.

use std::sync::Arc;

use super::{Control, ControlOutcome, text};
use crate::env::Env;
use crate::eval::{EvalError, Evaluated, Growing, instantiate};
use crate::flow::Walker;
use crate::issue::Issue;
use crate::issue::quote;
use crate::limits::LimitError;
use crate::operators::concatenate::short;
use crate::syntax::ast::Name;
use crate::value::{Flags, Map, Node, Template, Value};

/// One loop variable.
struct Variable {
    name: Name,
    /// Name of the index or key, by default `index-NAME`.
    index: Name,
    /// Index or key with the value, in order.
    values: Vec<(Value, Value)>,
}

/// The body and the names around it.
struct Loop<'a, 's> {
    variables: Vec<Variable>,
    body: Arc<Template>,
    key: Option<Arc<Template>>,
    env: &'a Env<'s>,
}

/// Results of the rounds that have run.
#[derive(Default)]
struct Results {
    list: Vec<Node>,
    fields: Vec<(Arc<str>, Node)>,
    /// Rounds that failed.
    problems: Vec<Issue>,
    /// True if a round cannot be decided yet.
    pending: bool,
    growing: Growing,
}

pub(super) fn run(
    walker: &mut Walker<'_, '_>,
    control: &Control<'_>,
    env: &Env<'_>,
) -> Result<ControlOutcome, EvalError> {
    let Some(body) = template(control, "<<do") else {
        return Ok(ControlOutcome::Failed(Issue::new("do field required")));
    };
    if control.value.has(Flags::UNDEFINED) {
        return Ok(ControlOutcome::Undefined);
    }
    let variables = match variables(&control.value.value) {
        Ok(variables) => variables,
        Err(message) => return Ok(ControlOutcome::Failed(Issue::new(message))),
    };
    let key = template(control, "<<mapkey");
    if key.as_ref().is_some_and(|key| !matches!(key.content.value, Value::Expression(_))) {
        return Ok(ControlOutcome::Failed(Issue::new("mapkey must be an expression")));
    }
    let keyed = key.is_some();
    let rounds = Loop { variables, body, key, env };
    let mut results = Results::default();
    rounds.level(walker, 0, &mut Vec::new(), &mut results)?;
    let Results { list, fields, problems, pending, .. } = results;
    Ok(if !problems.is_empty() {
        let message = "error evaluating body".to_owned();
        ControlOutcome::Retry(Issue { message, nested: problems, sequence: false })
    } else if pending {
        ControlOutcome::Pending
    } else if keyed {
        ControlOutcome::Value(Node::new(Value::Map(Arc::new(Map::new(fields)))))
    } else {
        ControlOutcome::Value(Node::new(Value::List(Arc::new(list.into_iter().collect()))))
    })
}

fn template(control: &Control<'_>, option: &str) -> Option<Arc<Template>> {
    match &control.option(option)?.value {
        Value::Template(template) => Some(Arc::clone(template)),
        _ => None,
    }
}

/// Returns the variables, the outermost loop first: of a map in alphabetical order, of a list in
/// its order.
fn variables(value: &Value) -> Result<Vec<Variable>, String> {
    match value {
        Value::Map(map) => map.iter().map(|(key, node)| from_key(key, &node.value)).collect(),
        Value::List(list) => list.values().map(from_entry).collect(),
        other => Err(format!("value field must be map but got {}", other.type_name())),
    }
}

/// Parses a variable in the form `VAR: values` or `IDX,VAR: values`.
fn from_key(key: &str, values: &Value) -> Result<Variable, String> {
    let parts: Vec<&str> = key.split(',').map(str::trim).collect();
    match parts.as_slice() {
        [name] => variable(name, None, values),
        [index, name] => variable(name, Some(index), values),
        _ => Err(format!("invalid control variable spec {}", quote(key))),
    }
}

/// Parses a variable in the form `{ name, values, index? }`.
fn from_entry(entry: &Value) -> Result<Variable, String> {
    let Value::Map(map) = entry else {
        return Err(format!("control variable list entry requires may but got {}", entry.type_name()));
    };
    let Some(name) = map.get("name") else {
        return Err("control variable list entry requires name field".to_owned());
    };
    let index = match map.get("index").map(|node| &node.value) {
        None => None,
        Some(Value::String(index)) => Some(&**index),
        Some(other) => {
            let found = other.type_name();
            return Err(format!("control index variable name must be of type string but got {found}"));
        }
    };
    let Some(values) = map.get("values") else {
        return Err("control variable list entry requires values field".to_owned());
    };
    let variable = variable(name.value.as_str().unwrap_or_default(), index, &values.value)?;
    if map.len() > 3 {
        let fields = "two or three fields: name, values and optionally index";
        return Err(format!("control variable list entry requires {fields}"));
    }
    match map.keys().find(|key| !matches!(&***key, "name" | "values" | "index")) {
        Some(unknown) => Err(format!("invalid control variable list entry field {}", quote(unknown))),
        None => Ok(variable),
    }
}

fn variable(name: &str, index: Option<&str>, values: &Value) -> Result<Variable, String> {
    let values = match values {
        Value::List(list) => {
            let number = |position: usize| Value::Int(i64::try_from(position).unwrap_or(i64::MAX));
            list.values().enumerate().map(|(position, value)| (number(position), value.clone())).collect()
        }
        Value::Map(map) => {
            map.iter().map(|(key, node)| (Value::String(Arc::clone(key)), node.value.clone())).collect()
        }
        other => {
            let (name, found) = (quote(name), other.type_name());
            return Err(format!("control variable {name} requires list or map value, but got {found}"));
        }
    };
    check_name("range", name)?;
    let index = match index.filter(|index| !index.is_empty()) {
        Some(index) => {
            check_name("index", index)?;
            Arc::from(index)
        }
        None => Arc::from(format!("index-{name}")),
    };
    Ok(Variable { name: Arc::from(name), index, values })
}

/// Checks a name: it needs at least one letter, digit or underscore.
fn check_name(kind: &str, name: &str) -> Result<(), String> {
    if name.chars().any(|c| c.is_ascii_alphanumeric() || c == '_') {
        return Ok(());
    }
    Err(format!("invalid {kind} variable name {} (must be [a-zA-Z0-9_]+)", quote(name)))
}

impl Loop<'_, '_> {
    /// Runs all rounds of the variable number `level` and those nested in it.
    fn level(
        &self,
        walker: &mut Walker<'_, '_>,
        level: usize,
        names: &mut Vec<(Name, Value)>,
        results: &mut Results,
    ) -> Result<(), EvalError> {
        let Some(variable) = self.variables.get(level) else { return self.round(walker, names, results) };
        for (index, value) in &variable.values {
            names.push((Arc::clone(&variable.index), index.clone()));
            names.push((Arc::clone(&variable.name), value.clone()));
            self.level(walker, level + 1, names, results)?;
            names.truncate(names.len() - 2);
        }
        Ok(())
    }

    fn round(
        &self,
        walker: &mut Walker<'_, '_>,
        names: &[(Name, Value)],
        results: &mut Results,
    ) -> Result<(), EvalError> {
        let limit = walker.run.settings.limits.nodes;
        if results.list.len() + results.fields.len() + results.problems.len() >= limit {
            return Err(walker.run.stop(LimitError::Nodes(limit)));
        }
        walker.run.spend(16)?;
        let env = self.env.with_local(names.to_vec());
        let key = match &self.key {
            Some(key) => match instance(walker, key, &env, names, results)? {
                // A nil key leaves the round out, like an undefined one.
                None | Some(Value::Nil) => return Ok(()),
                Some(Value::String(key)) => Some(key),
                Some(other) => {
                    let problem = format!("map key must be string, but found {}", other.type_name());
                    let redacted = walker.run.settings.redacted;
                    results.problems.push(with_variables(Issue::new(problem), names, redacted));
                    return Ok(());
                }
            },
            None => None,
        };
        let Some(value) = instance(walker, &self.body, &env, names, results)? else { return Ok(()) };
        match key {
            Some(key) => {
                results.growing.add(walker.run, &value)?;
                results.fields.push((key, Node::new(value)));
            }
            None => {
                results.growing.add(walker.run, &value)?;
                results.list.push(Node::new(value));
            }
        }
        Ok(())
    }
}

/// Evaluates an instance of the body. Returns `None` if it is undefined, or has no value for the
/// reason noted in the results.
fn instance(
    walker: &mut Walker<'_, '_>,
    template: &Arc<Template>,
    env: &Env<'_>,
    names: &[(Name, Value)],
    results: &mut Results,
) -> Result<Option<Value>, EvalError> {
    match instantiate(walker.run, template, env) {
        Ok(Evaluated { value: None, .. }) => results.pending = true,
        Ok(evaluated) if evaluated.info.undefined() => {}
        Ok(evaluated) => return Ok(evaluated.value),
        Err(EvalError::Issue(issue)) => {
            let redacted = walker.run.settings.redacted;
            results.problems.push(with_variables(*issue, names, redacted));
        }
        Err(EvalError::Abort) => return Err(EvalError::Abort),
    }
    Ok(None)
}

/// Adds to the issue of a round the values of its variables, the innermost first.
fn with_variables(issue: Issue, names: &[(Name, Value)], redacted: bool) -> Issue {
    let shown: Vec<_> = names
        .chunks(2)
        .rev()
        .filter_map(|pair| match pair {
            [(_, index), (name, value)] => {
                let index = if redacted { index.type_name().to_owned() } else { short(index) };
                Some(format!(" {name}[{index}]={}", text(value, redacted)))
            }
            _ => None,
        })
        .collect();
    Issue { message: format!("control variables: {}: {}", shown.join(";"), issue.message), ..issue }
}
