//! The evaluation of a planned expression.

use std::sync::Arc;

use groundwork_budget::Steps;

use crate::compile::{Loop, Node};
use crate::functions::{Host, call};
use crate::operators::{binary, check_index, go_type, member, missing};
use crate::value::{EvalError, Key, Map, Value};

type Outcome = Result<Value, EvalError>;

/// The variables of one evaluation.
pub(crate) struct Frame<'h> {
    host: &'h dyn Host,
    steps: &'h Steps,
    /// Variables of the enclosing loops: for each its accumulated value and its element. The
    /// accumulated value may be an error, which a later element can still replace, as in `||`.
    locals: Vec<Outcome>,
}

impl<'h> Frame<'h> {
    pub(crate) fn new(host: &'h dyn Host, steps: &'h Steps) -> Self {
        Self { host, steps, locals: Vec::new() }
    }

    fn spend(&self, steps: usize) -> Result<(), EvalError> {
        if self.steps.spend(steps) { Ok(()) } else { Err(EvalError::too_many_steps()) }
    }

    pub(crate) fn evaluate(&mut self, node: &Node) -> Outcome {
        self.spend(1)?;
        match node {
            Node::Constant(value) => Ok(value.clone()),
            Node::Global(name) => self
                .host
                .variable(name)
                .ok_or_else(|| EvalError::new(format!("no such attribute(s): {name}"))),
            Node::Local(position) => self.local(*position),
            Node::Select { operand, field, is_test } => self.select(operand, field, *is_test),
            Node::Index { operand, at } => {
                let (operand, at) = (self.evaluate(operand)?, self.evaluate(at)?);
                check_index(&at)?;
                member(&operand, &at)?.ok_or_else(|| missing(&operand, &at))
            }
            Node::List(nodes) => Ok(Value::List(Arc::new(self.all(nodes)?))),
            Node::Map(entries) => self.map(entries),
            Node::And(nodes) => self.logic(nodes, false),
            Node::Or(nodes) => self.logic(nodes, true),
            Node::Conditional(three) => match self.evaluate(&three[0])? {
                Value::Bool(true) => self.evaluate(&three[1]),
                Value::Bool(false) => self.evaluate(&three[2]),
                _ => Err(EvalError::no_overload()),
            },
            Node::Equal { operands, is_negated } => {
                let (left, right) = (self.evaluate(&operands[0]), self.evaluate(&operands[1]));
                Ok(Value::Bool(left?.equals(&right?, self.steps) != *is_negated))
            }
            // An error counts as true, so that `all` and `exists` visit the remaining elements,
            // which may still decide.
            Node::NotStrictlyFalse(operand) => {
                Ok(Value::Bool(!matches!(self.evaluate(operand), Ok(Value::Bool(false)))))
            }
            Node::Binary { operator, operands } => {
                let (left, right) = (self.evaluate(&operands[0])?, self.evaluate(&operands[1])?);
                binary(operator, &left, &right, self.steps)
            }
            Node::Call { function, only, arguments } => {
                let arguments = self.all(arguments)?;
                self.spend(arguments.iter().map(Value::reading_steps).sum())?;
                call(self.host, function, *only, &arguments, self.steps)
            }
            Node::Matches { text, pattern } => match self.evaluate(text)? {
                Value::String(text) => self.host.matches(&text, pattern).map(Value::Bool),
                _ => Err(EvalError::no_overload()),
            },
            Node::Append { list, items } => self.append(*list, items),
            Node::Loop(made) => self.repeat(made),
        }
    }

    fn local(&self, position: usize) -> Outcome {
        self.locals.get(position).cloned().unwrap_or_else(|| Err(EvalError::no_overload()))
    }

    fn all(&mut self, nodes: &[Node]) -> Result<Vec<Value>, EvalError> {
        nodes.iter().map(|node| self.evaluate(node)).collect()
    }

    fn select(&mut self, operand: &Node, field: &Value, is_test: bool) -> Outcome {
        let operand = self.evaluate(operand)?;
        let found = member(&operand, field)?;
        if is_test {
            return Ok(Value::Bool(found.is_some()));
        }
        found.ok_or_else(|| missing(&operand, field))
    }

    fn map(&mut self, entries: &[(Node, Node)]) -> Outcome {
        let mut map = Map::new();
        for (key, value) in entries {
            let (key, value) = (self.evaluate(key)?, self.evaluate(value)?);
            let Some(key) = Key::of(&key) else {
                return Err(EvalError::new(format!("unsupported key type: {}", key.type_name())));
            };
            // The CEL specification requires this error; cel-go keeps the last value.
            if map.insert(key, value).is_some() {
                return Err(EvalError::new("a map has the same key twice"));
            }
        }
        Ok(Value::Map(Arc::new(map)))
    }

    /// Evaluates `&&` and `||`: one operand that decides is enough, even if others are errors.
    fn logic(&mut self, nodes: &[Node], decides: bool) -> Outcome {
        let mut error = None;
        for node in nodes {
            match self.evaluate(node) {
                Ok(Value::Bool(truth)) if truth == decides => return Ok(Value::Bool(decides)),
                Ok(Value::Bool(_)) => {}
                Ok(_) => {
                    error.get_or_insert(EvalError::no_overload());
                }
                Err(found) => {
                    error.get_or_insert(found);
                }
            }
        }
        error.map_or(Ok(Value::Bool(!decides)), Err)
    }

    fn append(&mut self, list: usize, items: &[Node]) -> Outcome {
        if let Some(Err(error)) = self.locals.get(list) {
            return Err(error.clone());
        }
        let items = self.all(items)?;
        let Some(slot) = self.locals.get_mut(list) else { return Err(EvalError::no_overload()) };
        let Ok(Value::List(mut gathered)) = std::mem::replace(slot, Ok(Value::Null)) else {
            return Err(EvalError::no_overload());
        };
        Arc::make_mut(&mut gathered).extend(items);
        Ok(Value::List(gathered))
    }

    fn repeat(&mut self, made: &Loop) -> Outcome {
        let elements = match self.evaluate(&made.range)? {
            Value::List(list) => list,
            Value::Map(map) => {
                self.spend(map.len())?;
                Arc::new(map.keys().map(Key::to_value).collect())
            }
            other => {
                return Err(EvalError::new(format!("got '{}', expected iterable type", go_type(&other))));
            }
        };
        let begin = self.evaluate(&made.begin);
        let depth = self.locals.len();
        self.locals.push(begin);
        for element in elements.iter() {
            self.spend(1)?;
            self.locals.truncate(depth + 1);
            self.locals.push(Ok(element.clone()));
            if matches!(self.evaluate(&made.condition), Ok(Value::Bool(false))) {
                break;
            }
            let gathered = self.evaluate(&made.step);
            if let Some(slot) = self.locals.get_mut(depth) {
                *slot = gathered;
            }
        }
        self.locals.truncate(depth + 1);
        let result = self.evaluate(&made.result);
        self.locals.truncate(depth);
        result
    }
}
