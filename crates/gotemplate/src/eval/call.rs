//! Calls of functions and methods: argument count, types of the arguments, the call itself
//! (`gotemplate.md` 5.3).

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use groundwork_budget::BYTES_PER_STEP;
use smallvec::SmallVec;

use super::{Evaluator, Reached, Result};
use crate::error::CallError;
use crate::functions::{Body, FunctionId, Signature, Type};
use crate::sprig::moments::NamedNumber;
use crate::syntax::literal::NumberLiteral;
use crate::syntax::tree::{Kind, NodeId};
use crate::value::{Element, IntKind, List, Map, Value};

/// The arguments of a call. Few calls have more than four, so that most stay off the heap.
pub(super) type Arguments = SmallVec<[Value; 4]>;

/// Steps for a call, besides those for the evaluation of its arguments.
const CALL_STEPS: usize = 5;

/// Arguments of a call as the template gives them: the written operands, and the value that is
/// piped in.
pub(super) type Given<'g> = (&'g [NodeId], Option<Reached>);

impl Evaluator<'_> {
    /// Calls a function. An error of the function shows `node`; until the call, errors show
    /// `identifier`.
    pub(super) fn function(
        &mut self,
        id: FunctionId,
        node: NodeId,
        identifier: NodeId,
        dot: &Reached,
        given: Given<'_>,
    ) -> Result<Reached> {
        let functions = &self.program.functions;
        let function = functions.get(id);
        self.at(identifier);
        let name = function.name();
        match &function.body {
            Body::And => self.short_circuit(name, &function.signature, false, dot, given),
            Body::Or => self.short_circuit(name, &function.signature, true, dot, given),
            Body::Call => {
                let callee = given.0.first().map(|&operand| self.source_of(operand));
                let arguments = self.arguments(name, &function.signature, dot, given)?;
                self.finish_call(call_value(callee, arguments.first().unwrap_or(&Value::Absent)), name, node)
            }
            Body::Plain(implementation) => {
                let arguments = self.arguments(name, &function.signature, dot, given)?;
                let context = &mut self.context;
                // Go also turns a panic of a function into an error of the call. A function of the
                // host must not end the process.
                let result = catch_unwind(AssertUnwindSafe(|| implementation(context, &arguments)))
                    .unwrap_or_else(|panic| Err(panic_text(panic.as_ref()).into()));
                self.finish_call(result, name, node)
            }
        }
    }

    /// Returns the result of a call, or its failure shown at `node`.
    pub(super) fn finish_call(
        &mut self,
        result: std::result::Result<Value, CallError>,
        name: &str,
        node: NodeId,
    ) -> Result<Reached> {
        match result {
            // A nil result is a nil interface. The unwrapping at the end of the pipeline makes it
            // absent.
            Ok(value) => Ok(Reached { boxed: matches!(value, Value::Nil), value }),
            Err(error) => {
                self.at(node);
                Err(self.failure(error.kind(), format!("error calling {name}: {error}")))
            }
        }
    }

    /// Runs `and` and `or`: evaluates arguments until one decides.
    fn short_circuit(
        &mut self,
        name: &str,
        signature: &Signature,
        decisive: bool,
        dot: &Reached,
        (operands, piped): Given<'_>,
    ) -> Result<Reached> {
        self.check_count(name, signature, operands.len(), piped.is_some())?;
        self.spend(CALL_STEPS)?;
        let mut last = Value::Absent;
        for &operand in operands {
            last = self.argument(operand, Type::Raw, dot)?;
            if last.truth() == decisive {
                return Ok(Reached { boxed: matches!(last, Value::Nil), value: last });
            }
        }
        Ok(piped.unwrap_or(Reached { boxed: matches!(last, Value::Nil), value: last }))
    }

    fn check_count(&self, name: &str, signature: &Signature, written: usize, piped: bool) -> Result<()> {
        let total = written + usize::from(piped);
        let wanted = signature.parameters.len();
        if signature.variadic.is_some() {
            if total < wanted {
                return Err(self
                    .fail(format!("wrong number of args for {name}: want at least {wanted} got {written}")));
            }
        } else if total != wanted {
            return Err(self.fail(format!("wrong number of args for {name}: want {wanted} got {total}")));
        }
        Ok(())
    }

    /// Evaluates all arguments and converts them to the types of the signature.
    pub(super) fn arguments(
        &mut self,
        name: &str,
        signature: &Signature,
        dot: &Reached,
        (operands, piped): Given<'_>,
    ) -> Result<Arguments> {
        self.check_count(name, signature, operands.len(), piped.is_some())?;
        let type_at = |index: usize| {
            signature.parameters.get(index).copied().or(signature.variadic).unwrap_or(Type::Any)
        };
        let mut arguments = Arguments::new();
        for (index, &operand) in operands.iter().enumerate() {
            arguments.push(self.argument(operand, type_at(index), dot)?);
        }
        if let Some(piped) = piped {
            arguments.push(self.fit(piped, type_at(operands.len()))?);
        }
        // Most functions read the whole text of an argument, if only to find out that it is not a
        // number.
        let bytes: usize = arguments.iter().filter_map(Value::as_str).map(|text| text.len()).sum();
        self.spend(CALL_STEPS + bytes / BYTES_PER_STEP)?;
        Ok(arguments)
    }

    /// Evaluates a written operand for a parameter type.
    fn argument(&mut self, node: NodeId, wanted: Type, dot: &Reached) -> Result<Value> {
        self.at(node);
        match self.unit.tree.kind(node) {
            Kind::Nil => self.nil_argument(wanted),
            Kind::Bool(_) | Kind::Number { .. } | Kind::String { .. } => {
                self.literal_argument(node, wanted, dot)
            }
            _ => {
                let reached = self.bare_operand(node, dot)?;
                self.fit(reached, wanted)
            }
        }
    }

    fn nil_argument(&self, wanted: Type) -> Result<Value> {
        zero(wanted).ok_or_else(|| self.fail(format!("cannot assign nil to {}", wanted.name())))
    }

    fn literal_argument(&mut self, node: NodeId, wanted: Type, dot: &Reached) -> Result<Value> {
        let kind = self.unit.tree.kind(node);
        let number = match kind {
            Kind::Number { literal, .. } => Some(literal),
            _ => None,
        };
        let int = |kind| {
            let value = number.and_then(|literal: &NumberLiteral| literal.int);
            value.map(|i| Value::Int(kind, i)).ok_or("integer")
        };
        let fitted = match (wanted, kind) {
            (Type::Any | Type::Raw, _) => return Ok(self.constant(node, dot)?.value),
            (Type::Bool, Kind::Bool(value)) => Ok(Value::Bool(*value)),
            (Type::Bool, _) => Err("bool"),
            (Type::String, Kind::String { value, .. }) => Ok(Value::Str(value.clone())),
            (Type::String, _) => Err("string"),
            (Type::Int, _) => int(IntKind::Int),
            (Type::Int64, _) => int(IntKind::Int64),
            (Type::Uint32, _) => {
                let number = number.and_then(|literal| u64::try_from(literal.int?).ok());
                // Go cuts a larger number to its lower 32 bits without an error.
                let bits = number.map(|number| i64::from(number as u32));
                bits.map(|bits| Value::Int(IntKind::Uint64, bits)).ok_or("unsigned integer")
            }
            (Type::Duration, _) => {
                let nanoseconds = number.and_then(|literal| literal.int);
                nanoseconds.map(|number| NamedNumber::Duration.value(number)).ok_or("integer")
            }
            (Type::Float64, _) => {
                let float = number.and_then(|literal| literal.float);
                float.map(|f| self.context.float(f)).ok_or("float")
            }
            (Type::Map | Type::List | Type::Object(_), _) => {
                let source = self.source_of(node);
                return Err(self.fail(format!("can't handle {source} for arg of type {}", wanted.name())));
            }
        };
        fitted.map_err(|class| self.fail(format!("expected {class}; found {}", self.source_of(node))))
    }

    /// Converts an evaluated value to a parameter type. Integral data numbers are accepted as
    /// integers; no other value is converted.
    fn fit(&self, reached: Reached, wanted: Type) -> Result<Value> {
        let expected = wanted.name();
        match reached.value {
            Value::Absent => {
                zero(wanted).ok_or_else(|| self.fail(format!("invalid value; expected {expected}")))
            }
            Value::Nil if matches!(wanted, Type::Any | Type::Raw) => Ok(Value::Nil),
            Value::Nil => Err(self.wrong_type(expected, Type::Any.name())),
            value if wanted.accepts(&value) => Ok(passed(value, wanted)),
            value => match (wanted, whole_number(&value)) {
                (Type::Int, Some(i)) => Ok(Value::int(i)),
                (Type::Int64, Some(i)) => Ok(Value::int64(i)),
                (Type::Uint32, Some(i)) if u32::try_from(i).is_ok() => Ok(Value::Int(IntKind::Uint64, i)),
                _ => Err(self.wrong_type(expected, value.type_name())),
            },
        }
    }

    fn wrong_type(&self, expected: &str, got: &str) -> Box<crate::error::Error> {
        self.fail(format!("wrong type for value; expected {expected}; got {got}"))
    }
}

/// Returns an accepted value in the form that the function gets: a named map as a plain map, an
/// object as the copy that Go would make.
fn passed(value: Value, wanted: Type) -> Value {
    match &value {
        Value::Map(map) if wanted == Type::Map && map.named_type().is_some() => Value::Map(map.plain()),
        Value::Object(object) => match object.copied() {
            Some(copy) if matches!(wanted, Type::Any | Type::Raw) => Value::Object(copy),
            _ => value,
        },
        _ => value,
    }
}

/// Returns the integer of a data number where a parameter asks for an integer (`blueprints.md`
/// 5.2).
fn whole_number(value: &Value) -> Option<i64> {
    match value {
        Value::Number(number) => number.integral().and_then(|i| i64::try_from(i).ok()),
        _ => None,
    }
}

/// Returns nil as a value of the type, if the type has a nil.
fn zero(wanted: Type) -> Option<Value> {
    match wanted {
        Type::Any => Some(Value::Nil),
        Type::Raw => Some(Value::Absent),
        Type::Map => Some(Value::Map(Map::nil())),
        Type::List => Some(Value::List(List::nil(Element::Any))),
        Type::Object(name) if name.starts_with('*') => Some(Value::Nil),
        Type::Bool
        | Type::Int
        | Type::Int64
        | Type::Float64
        | Type::String
        | Type::Uint32
        | Type::Duration
        | Type::Object(_) => None,
    }
}

/// Runs the built-in `call`. Templates have no function values, so it always fails. `callee` is the
/// source of a written operand; for a piped value the error shows the value itself.
fn call_value(callee: Option<String>, value: &Value) -> std::result::Result<Value, CallError> {
    let type_name = value.type_name();
    let callee = match (callee, value) {
        (_, Value::Absent | Value::Nil) => return Err("call of nil".into()),
        (Some(callee), _) => callee,
        (None, Value::Str(text)) => text.to_text().into_owned(),
        (None, _) => format!("<{type_name} Value>"),
    };
    Err(format!("non-function {callee} of type {type_name}").into())
}

/// Returns the message of a panic.
fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "function panicked".to_string())
}

#[cfg(test)]
mod tests {
    use crate::testing::check_all;

    #[test]
    fn arguments_are_counted_and_fitted() {
        check_all(&[
            ("{{len}}", r#"error 1:2: executing "t" at <len>: wrong number of args for len: want 1 got 0"#),
            (
                "{{index}}",
                r#"error 1:2: executing "t" at <index>: wrong number of args for index: want at least 1 got 0"#,
            ),
            ("{{printf 1}}", r#"error 1:9: executing "t" at <1>: expected string; found 1"#),
            ("{{until 1.5}}", r#"error 1:8: executing "t" at <1.5>: expected integer; found 1.5"#),
            (r#"{{ternary 1 2 "x"}}"#, r#"error 1:14: executing "t" at <"x">: expected bool; found "x""#),
            (
                "{{keys 1}}",
                r#"error 1:7: executing "t" at <1>: can't handle 1 for arg of type map[string]interface {}"#,
            ),
            ("{{upper nil}}", r#"error 1:8: executing "t" at <nil>: cannot assign nil to string"#),
            (
                "{{until (add 1 1)}}",
                r#"error 1:15: executing "t" at <1>: wrong type for value; expected int; got int64"#,
            ),
            (
                r#"{{1 | ternary "a" "b"}}"#,
                r#"error 1:18: executing "t" at <"b">: wrong type for value; expected bool; got int"#,
            ),
            ("{{nil}}", r#"error 1:2: executing "t" at <nil>: nil is not a command"#),
            ("{{1 2}}", r#"error 1:2: executing "t" at <1>: can't give argument to non-function 1"#),
            (
                "{{1 | (print)}}",
                r#"error 1:2: executing "t" at <1>: can't give argument to non-function print"#,
            ),
        ]);
    }

    #[test]
    fn and_or_evaluate_only_what_decides() {
        check_all(&[
            ("{{and 1 0 (index 1 1)}} {{or 0 2 (index 1 1)}}", "0 2"),
            ("{{0 | and 1}} {{1 | or 0}} {{2 | or 1}}", "0 1 1"),
            (
                "{{and}}",
                r#"error 1:2: executing "t" at <and>: wrong number of args for and: want at least 1 got 0"#,
            ),
        ]);
    }
}
