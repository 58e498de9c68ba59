//! The mapping forms `map`, `select`, `filter` and `sum` (`spiff.md` 9).

use std::sync::Arc;

use super::{Depth, Eval, EvalError, Evaluated, arguments, define, evaluate, evaluate_to, lambda};
use groundwork_budget::live_bytes::Held;

use crate::env::Env;
use crate::limits::LimitError;
use crate::run::Run;
use crate::syntax::ast::{Expr, Form, Mapping};
use crate::value::{Lambda, Node, Value};

/// Index or key with the element.
type Element = (Value, Node);

pub(super) fn evaluate_mapping(run: &mut Run<'_>, mapping: &Mapping, env: &Env<'_>) -> Eval {
    let mut source = evaluate_to(run, &mapping.source, env, Depth::Local)?;
    let mut rests = Rests { source: source.info.rest.take(), ..Rests::default() };
    let mut info = source.info;
    let mut pending = source.value.is_none();
    let mut initial = Value::Nil;
    if let Some(expression) = &mapping.initial {
        let mut evaluated = evaluate(run, expression, env)?;
        rests.initial = evaluated.info.rest.take();
        info.join(evaluated.info);
        pending |= evaluated.value.is_none();
        initial = evaluated.value.unwrap_or_default();
    }
    let inline = matches!(mapping.lambda, Expr::Lambda(_));
    let evaluated = match &mapping.lambda {
        Expr::Lambda(expression) => define(run, expression, env),
        expression => evaluate(run, expression, env),
    };
    let mut evaluated = match evaluated {
        // As in spiff++, only `sum` reports why its lambda has no value.
        Err(EvalError::Issue(_)) if mapping.form != Form::Sum => return Err(info.issue().into()),
        evaluated => evaluated?,
    };
    rests.lambda = evaluated.info.rest.take();
    info.join(evaluated.info);
    let (Some(value), Some(lambda), false) = (source.value, evaluated.value, pending) else {
        info.rest = rests.of(mapping);
        return Ok(Evaluated::pending(info));
    };
    let lambda = match lambda {
        Value::Lambda(lambda) => lambda,
        _ if mapping.form == Form::Sum => return Err(EvalError::issue("sum requires a lambda value")),
        _ => return Err(EvalError::issue("mapping requires a lambda value")),
    };
    run.spend(super::operator::made(&value))?;
    let elements = elements(mapping.form, &value)?;
    check_parameters(mapping.form, &lambda)?;
    let call = Call { lambda, inline, env };
    match mapping.form {
        Form::Sum => sum(run, &call, elements, initial),
        form => collect(run, &call, elements, form, matches!(value, Value::Map(_))),
    }
}

/// The remaining expressions of the parts of a pending form.
#[derive(Default)]
struct Rests {
    source: Option<Arc<Expr>>,
    initial: Option<Arc<Expr>>,
    lambda: Option<Arc<Expr>>,
}

impl Rests {
    fn of(self, mapping: &Mapping) -> Option<Arc<Expr>> {
        if self.source.is_none() && self.initial.is_none() && self.lambda.is_none() {
            return None;
        }
        let mut left = mapping.clone();
        let replace = |part: &mut Expr, rest: Option<Arc<Expr>>| {
            if let Some(rest) = rest {
                *part = Arc::unwrap_or_clone(rest);
            }
        };
        replace(&mut left.source, self.source);
        replace(&mut left.lambda, self.lambda);
        if let Some(initial) = &mut left.initial {
            replace(initial, self.initial);
        }
        Some(Arc::new(Expr::Mapping(Box::new(left))))
    }
}

fn check_parameters(form: Form, lambda: &Lambda) -> Result<(), EvalError> {
    let count = lambda.expression.parameters.len();
    let problem = match (form, count) {
        (_, 0) => "mapping requires at least one parameter",
        (Form::Sum, 1) => "mapping expression take a minimum of 2 arguments",
        (Form::Sum, 4..) => "mapping expression take a maximum of 3 arguments",
        (Form::Sum, _) | (_, 1 | 2) => return Ok(()),
        _ => "mapping expression takes a maximum of 2 arguments",
    };
    Err(EvalError::issue(problem))
}

/// Iterates over the elements of a form, made one by one, because a copy of all would take more
/// memory than the value.
fn elements(form: Form, value: &Value) -> Result<Box<dyn Iterator<Item = Element> + '_>, EvalError> {
    let lists = !matches!(form, Form::SelectMap | Form::FilterMap);
    let maps = form != Form::FilterList;
    match value {
        Value::List(list) if lists => {
            let number = |position: usize| Value::Int(i64::try_from(position).unwrap_or(i64::MAX));
            Ok(Box::new(
                list.iter().enumerate().map(move |(position, node)| (number(position), node.clone())),
            ))
        }
        Value::Map(map) if maps => {
            Ok(Box::new(map.iter().map(|(key, node)| (Value::String(Arc::clone(key)), node.clone()))))
        }
        _ if form == Form::Sum => Err(EvalError::issue("map or list required for sum")),
        _ => Err(EvalError::issue(format!(
            "{} does not support {} values",
            form_name(form),
            value.type_name()
        ))),
    }
}

fn form_name(form: Form) -> &'static str {
    match form {
        Form::MapList => "map[]",
        Form::MapMap => "map{}",
        Form::SelectList => "select[]",
        Form::SelectMap => "select{}",
        Form::FilterList => "filter[]",
        Form::FilterMap => "filter{}",
        Form::Sum => "sum[]",
    }
}

struct Call<'a, 's> {
    lambda: Arc<Lambda>,
    inline: bool,
    env: &'a Env<'s>,
}

impl Call<'_, '_> {
    /// Calls the lambda with as many of accumulator, index and element as it has parameters.
    fn call(&self, run: &mut Run<'_>, before: Option<Value>, (index, element): &Element) -> Eval {
        let indexed = self.lambda.expression.parameters.len() > 1 + usize::from(before.is_some());
        let mut arguments = Vec::with_capacity(3);
        arguments.extend(before);
        if indexed {
            arguments.push(index.clone());
        }
        arguments.push(element.value.clone());
        let called = if self.inline {
            lambda::call_inline(run, &self.lambda, arguments, self.env)
        } else {
            lambda::call(run, &self.lambda, lambda::Given::positional(arguments), false, self.env)
        };
        Ok(called?.whole())
    }
}

fn sum(
    run: &mut Run<'_>,
    call: &Call<'_, '_>,
    elements: impl Iterator<Item = Element>,
    initial: Value,
) -> Eval {
    let mut total = initial;
    for element in elements {
        let next = call.call(run, Some(total), &element)?;
        let Some(value) = next.value else { return Ok(next) };
        total = value;
    }
    Evaluated::ok(total)
}

/// A result that grows with each element.
#[derive(Debug, Default)]
pub(crate) struct Growing {
    size: u64,
    held: Held,
}

impl Growing {
    /// Adds a value. Stops the run if the result would become larger than values may be.
    pub(crate) fn add(&mut self, run: &mut Run<'_>, value: &Value) -> Result<(), EvalError> {
        self.size += 1 + u64::from(value.size());
        // The factor 2 is for the growing list and the copy that it is finally made into.
        self.held.add(2 * size_of::<Node>());
        let limit = run.settings.limits.nodes;
        if self.size > limit as u64 { Err(run.stop(LimitError::Nodes(limit))) } else { run.spend(1) }
    }
}

fn collect(
    run: &mut Run<'_>,
    call: &Call<'_, '_>,
    elements: impl Iterator<Item = Element>,
    form: Form,
    from_map: bool,
) -> Eval {
    let to_map = matches!(form, Form::MapMap | Form::SelectMap | Form::FilterMap);
    let maps = matches!(form, Form::MapList | Form::MapMap);
    let mut list = Vec::new();
    let mut fields = Vec::new();
    let mut growing = Growing::default();
    for element in elements {
        let result = call.call(run, None, &element)?;
        let Some(value) = result.value else { return Ok(result) };
        let missing = result.info.undefined() || matches!(value, Value::Nil);
        if missing || !maps && !value.is_truthy() {
            continue;
        }
        let key = if to_map { Some(key(&element, from_map)?) } else { None };
        let entry = if maps { arguments::made(value, call.env) } else { element.1 };
        growing.add(run, &entry.value)?;
        match key {
            Some(key) => fields.push((key, entry)),
            None => list.push(entry),
        }
    }
    Evaluated::ok(if to_map {
        Value::Map(Arc::new(fields.into_iter().collect()))
    } else {
        Value::List(Arc::new(list.into_iter().collect()))
    })
}

/// Returns the field of the result for an element.
fn key((index, element): &Element, from_map: bool) -> Result<Arc<str>, EvalError> {
    let name = if from_map { index } else { &element.value };
    match name {
        Value::String(name) => Ok(Arc::clone(name)),
        other => {
            Err(EvalError::issue(format!("list element must be string, but found {}", other.type_name())))
        }
    }
}
