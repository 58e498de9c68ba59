//! The form of an expression for its evaluation: names are resolved, and conversions of constants
//! are done.

use std::sync::Arc;

use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue};
use groundwork_budget::Steps;

use crate::Declarations;
use crate::check::{Resolved, plain};
use crate::convert::is_conversion;
use crate::eval::Frame;
use crate::functions::Host;
use crate::operators;
use crate::value::{EvalError, Value};

#[derive(Debug)]
pub(crate) enum Node {
    Constant(Value),
    /// A variable of the host.
    Global(String),
    /// A variable of a loop, by its position among the variables of all enclosing loops.
    Local(usize),
    /// `operand.field`, or the test whether the field exists.
    Select {
        operand: Box<Node>,
        field: Value,
        is_test: bool,
    },
    Index {
        operand: Box<Node>,
        at: Box<Node>,
    },
    List(Vec<Node>),
    Map(Vec<(Node, Node)>),
    And(Vec<Node>),
    Or(Vec<Node>),
    Conditional(Box<[Node; 3]>),
    Equal {
        operands: Box<[Node; 2]>,
        is_negated: bool,
    },
    NotStrictlyFalse(Box<Node>),
    Binary {
        operator: String,
        operands: Box<[Node; 2]>,
    },
    Call {
        function: String,
        only: Option<usize>,
        arguments: Vec<Node>,
    },
    /// `matches` with a constant pattern.
    Matches {
        text: Box<Node>,
        pattern: Arc<str>,
    },
    /// `list + [item]` where the list is the accumulated value of a loop: it grows in place,
    /// without a copy for each element.
    Append {
        list: usize,
        items: Vec<Node>,
    },
    Loop(Box<Loop>),
}

#[derive(Debug)]
pub(crate) struct Loop {
    pub(crate) range: Node,
    pub(crate) begin: Node,
    pub(crate) condition: Node,
    pub(crate) step: Node,
    pub(crate) result: Node,
}

/// Names of types, which are constants in expressions.
const TYPES: [&str; 10] =
    ["string", "bytes", "int", "uint", "double", "bool", "null_type", "list", "map", "type"];

/// Plans a checked expression.
///
/// # Errors
///
/// A conversion of a constant that fails, and a constant pattern that is invalid, even in a branch
/// that would never be evaluated.
pub(crate) fn plan(
    root: &IdedExpr,
    resolved: &Resolved,
    declared: &dyn Declarations,
) -> Result<Node, EvalError> {
    Planner { resolved, declared, locals: Vec::new() }.plan(root)
}

struct Planner<'a> {
    resolved: &'a Resolved,
    declared: &'a dyn Declarations,
    /// Names of the variables of the enclosing loops. Each loop has one for its accumulated value
    /// and one for the element.
    locals: Vec<&'a str>,
}

/// A host without variables, for evaluating constants.
struct Nothing;

impl Host for Nothing {
    fn variable(&self, _: &str) -> Option<Value> {
        None
    }

    fn matches(&self, _: &str, _: &str) -> Result<bool, EvalError> {
        Err(EvalError::no_overload())
    }
}

impl<'a> Planner<'a> {
    fn plan(&mut self, node: &'a IdedExpr) -> Result<Node, EvalError> {
        Ok(match &node.expr {
            Expr::Unspecified | Expr::Struct(_) => return Err(EvalError::new("unsupported expression")),
            Expr::Literal(literal) => Node::Constant(value_of(literal)),
            Expr::Ident(name) => self.name(name),
            Expr::Select(select) => Node::Select {
                operand: Box::new(self.plan(&select.operand)?),
                field: Value::from(select.field.as_str()),
                is_test: select.test,
            },
            Expr::List(list) => constant(Node::List(self.all(&list.elements)?)),
            Expr::Map(map) => {
                let mut entries = Vec::with_capacity(map.entries.len());
                for entry in &map.entries {
                    let EntryExpr::MapEntry(entry) = &entry.expr else { continue };
                    entries.push((self.plan(&entry.key)?, self.plan(&entry.value)?));
                }
                constant(Node::Map(entries))
            }
            Expr::Call(call) => self.call(node.id, call)?,
            Expr::Comprehension(made) => self.comprehension(made)?,
        })
    }

    fn all(&mut self, nodes: &'a [IdedExpr]) -> Result<Vec<Node>, EvalError> {
        nodes.iter().map(|node| self.plan(node)).collect()
    }

    fn name(&self, name: &str) -> Node {
        if let Some(position) = self.locals.iter().rposition(|local| *local == name) {
            return Node::Local(position);
        }
        let name = name.strip_prefix('.').unwrap_or(name);
        match TYPES.iter().find(|known| **known == name) {
            Some(known) => Node::Constant(Value::Type(known)),
            None => Node::Global(name.to_owned()),
        }
    }

    fn call(&mut self, id: u64, call: &'a CallExpr) -> Result<Node, EvalError> {
        let mut arguments = match &call.target {
            Some(target) => vec![self.plan(target)?],
            None => Vec::new(),
        };
        arguments.extend(self.all(&call.args)?);
        let function = plain(&call.func_name);
        let only = self.resolved.get(&id).copied();
        match function {
            "_&&_" => Ok(Node::And(arguments)),
            "_||_" => Ok(Node::Or(arguments)),
            "_?_:_" => Ok(Node::Conditional(exactly(arguments)?)),
            "_==_" | "_!=_" => {
                Ok(Node::Equal { operands: exactly(arguments)?, is_negated: function == "_!=_" })
            }
            "_[_]" => index(*exactly(arguments)?),
            "@in" => Ok(is_in(exactly(arguments)?, only)),
            "@not_strictly_false" => {
                let [operand] = *exactly(arguments)?;
                Ok(Node::NotStrictlyFalse(Box::new(operand)))
            }
            "matches" => self.matches(*exactly(arguments)?, only),
            _ if function.starts_with('_') => {
                Ok(Node::Binary { operator: function.to_owned(), operands: exactly(arguments)? })
            }
            _ => call_of(function, only, arguments),
        }
    }

    /// Plans `matches`. A constant pattern is checked here.
    fn matches(&self, arguments: [Node; 2], only: Option<usize>) -> Result<Node, EvalError> {
        match arguments {
            [text, Node::Constant(Value::String(pattern))] => {
                self.declared.check_pattern(&pattern)?;
                Ok(Node::Matches { text: Box::new(text), pattern })
            }
            arguments => Ok(Node::Call { function: "matches".to_owned(), only, arguments: arguments.into() }),
        }
    }

    fn comprehension(&mut self, made: &'a ComprehensionExpr) -> Result<Node, EvalError> {
        let begin = self.plan(&made.accu_init)?;
        let range = self.plan(&made.iter_range)?;
        let gathered = self.locals.len();
        self.locals.push(&made.accu_var);
        self.locals.push(&made.iter_var);
        let condition = self.plan(&made.loop_cond)?;
        let step = in_place(self.plan(&made.loop_step)?, gathered);
        self.locals.truncate(gathered + 1);
        let result = self.plan(&made.result)?;
        self.locals.truncate(gathered);
        Ok(Node::Loop(Box::new(Loop { range, begin, condition, step, result })))
    }
}

/// Returns the arguments as an array. The type check has verified their number.
fn exactly<const N: usize>(arguments: Vec<Node>) -> Result<Box<[Node; N]>, EvalError> {
    let boxed: Result<Box<[Node; N]>, _> = arguments.into_boxed_slice().try_into();
    boxed.map_err(|_| EvalError::no_overload())
}

fn index([operand, at]: [Node; 2]) -> Result<Node, EvalError> {
    if let Node::Constant(at) = &at {
        operators::check_index(at)?;
    }
    Ok(Node::Index { operand: Box::new(operand), at: Box::new(at) })
}

/// Plans `in`. For an empty list the result is false, and as in cel-go the left operand is not even
/// evaluated.
fn is_in(operands: Box<[Node; 2]>, only: Option<usize>) -> Node {
    match &operands[1] {
        Node::Constant(Value::List(list)) if list.is_empty() && only == Some(0) => {
            Node::Constant(Value::Bool(false))
        }
        _ => Node::Binary { operator: "@in".to_owned(), operands },
    }
}

fn call_of(function: &str, only: Option<usize>, arguments: Vec<Node>) -> Result<Node, EvalError> {
    let is_constant = matches!(arguments.as_slice(), [Node::Constant(_)]);
    let call = Node::Call { function: function.to_owned(), only, arguments };
    if is_constant && is_conversion(function) {
        return Frame::new(&Nothing, &Steps::new(u64::MAX)).evaluate(&call).map(Node::Constant);
    }
    Ok(call)
}

/// Turns a literal of constants into a constant, unless its evaluation fails.
fn constant(literal: Node) -> Node {
    let is_constant = |node: &Node| matches!(node, Node::Constant(_));
    let all = match &literal {
        Node::List(nodes) => nodes.iter().all(is_constant),
        Node::Map(entries) => entries.iter().all(|(key, value)| is_constant(key) && is_constant(value)),
        _ => false,
    };
    if !all {
        return literal;
    }
    Frame::new(&Nothing, &Steps::new(u64::MAX)).evaluate(&literal).map_or(literal, Node::Constant)
}

/// Turns a loop step that appends to its list into one without a copy of the list.
fn in_place(step: Node, gathered: usize) -> Node {
    match step {
        Node::Binary { operator, operands } if operator == "_+_" => match *operands {
            [Node::Local(list), Node::List(items)] if list == gathered => Node::Append { list, items },
            [Node::Local(list), Node::Constant(Value::List(items))] if list == gathered => {
                Node::Append { list, items: items.iter().cloned().map(Node::Constant).collect() }
            }
            operands => Node::Binary { operator, operands: Box::new(operands) },
        },
        Node::Conditional(three) => {
            let [condition, yes, no] = *three;
            Node::Conditional(Box::new([condition, in_place(yes, gathered), no]))
        }
        other => other,
    }
}

fn value_of(literal: &LiteralValue) -> Value {
    match literal {
        LiteralValue::Boolean(truth) => Value::Bool(*truth.inner()),
        LiteralValue::Bytes(bytes) => Value::Bytes(bytes.inner().into()),
        LiteralValue::Double(number) => Value::Double(*number.inner()),
        LiteralValue::Int(number) => Value::Int(*number.inner()),
        LiteralValue::Null => Value::Null,
        LiteralValue::String(text) => Value::from(text.inner()),
        LiteralValue::UInt(number) => Value::Uint(*number.inner()),
    }
}
