//! The operators for equality and order (`spiff.md` 7.5).

use std::cmp::Ordering;
use std::sync::Arc;

use super::arithmetic::as_float;
use super::concatenate::lambda_text;
use crate::issue::Issue;
use crate::syntax::ast::Operator;
use crate::value::{List, Map, Value};

/// Evaluates `A == B`, by the type of A.
///
/// # Errors
///
/// Nil beside any other value (without a message), and a string beside a value without a text.
pub(crate) fn equal(first: &Value, second: &Value) -> Result<bool, Issue> {
    Ok(match (first, second) {
        (Value::Nil, Value::Nil) => true,
        (Value::Nil, _) | (_, Value::Nil) => return Err(Issue::default()),
        (Value::String(text), other) => match other {
            Value::String(other) => text == other,
            Value::Int(number) | Value::Data(number) => number.to_string() == **text,
            Value::Bool(flag) => flag.to_string() == **text,
            Value::Lambda(lambda) => lambda_text(lambda) == **text,
            _ => return Err("types uncomparable".into()),
        },
        (Value::Int(number) | Value::Data(number), other) => match other {
            Value::Int(other) | Value::Data(other) => number == other,
            Value::String(text) => text.parse() == Ok(*number),
            Value::Bool(flag) => *number == i64::from(*flag),
            _ => numerically_equal(first, second),
        },
        (Value::Bool(flag), Value::Bool(other)) => flag == other,
        (Value::Bool(flag), Value::String(text)) => go_bool(text) == Some(*flag),
        (Value::Float(_), _) => numerically_equal(first, second),
        (Value::List(list), Value::List(other)) => Arc::ptr_eq(list, other) || lists(list, other, loosely),
        (Value::Map(map), Value::Map(other)) => Arc::ptr_eq(map, other) || maps(map, other, loosely),
        (Value::Lambda(lambda), Value::Lambda(other)) => lambda.expression == other.expression,
        (Value::Template(template), Value::Template(other)) => {
            same(&template.content.value, &other.content.value)
        }
        (Value::Binary(bytes), Value::Binary(other)) => bytes == other,
        _ => false,
    })
}

fn loosely(first: &Value, second: &Value) -> bool {
    equal(first, second).unwrap_or(false)
}

fn numerically_equal(first: &Value, second: &Value) -> bool {
    as_float(first).zip(as_float(second)).is_some_and(|(first, second)| first == second)
}

fn lists(first: &List, second: &List, entries: fn(&Value, &Value) -> bool) -> bool {
    first.len() == second.len()
        && first.values().zip(second.values()).all(|(first, second)| entries(first, second))
}

fn maps(first: &Map, second: &Map, entries: fn(&Value, &Value) -> bool) -> bool {
    first.len() == second.len()
        && first
            .iter()
            .zip(second)
            .all(|(first, second)| first.0 == second.0 && entries(&first.1.value, &second.1.value))
}

/// Parses a boolean as Go does, in any letter case.
pub(crate) fn go_bool(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "t" | "true" => Some(true),
        "0" | "f" | "false" => Some(false),
        _ => None,
    }
}

/// Evaluates `A < B` and the other order operators.
///
/// # Errors
///
/// An int or a string beside another type. Other types on the left are neither less nor greater.
pub(crate) fn order(operator: Operator, first: &Value, second: &Value) -> Result<bool, Issue> {
    let ordering = match (first, second) {
        (Value::Int(first) | Value::Data(first), Value::Int(second) | Value::Data(second)) => {
            Some(first.cmp(second))
        }
        (Value::String(first), Value::String(second)) => Some(first.cmp(second)),
        _ => match (as_float(first), as_float(second)) {
            (Some(first), Some(second)) => first.partial_cmp(&second),
            (Some(_), None) if first.as_int().is_some() => {
                return Err(only_for(operator, "integers or strings"));
            }
            _ if first.as_str().is_some() => return Err(only_for(operator, "strings or integers")),
            _ => None,
        },
    };
    Ok(ordering.is_some_and(|ordering| match operator {
        Operator::Less => ordering == Ordering::Less,
        Operator::LessEqual => ordering != Ordering::Greater,
        Operator::Greater => ordering == Ordering::Greater,
        _ => ordering != Ordering::Less,
    }))
}

fn only_for(operator: Operator, types: &str) -> Issue {
    Issue::new(format!("comparision {} only for {types}", operator.text()))
}

/// Reports whether two values are the same in type and content. The stop test, where NaN equals
/// NaN, and `case` use this. Lambdas and templates are the same if their sources are. Annotations
/// are not compared.
pub(crate) fn same(first: &Value, second: &Value) -> bool {
    match (first, second) {
        (Value::Nil, Value::Nil) => true,
        (Value::Bool(first), Value::Bool(second)) => first == second,
        (Value::Int(first) | Value::Data(first), Value::Int(second) | Value::Data(second)) => first == second,
        (Value::Float(first), Value::Float(second)) => first == second || first.is_nan() && second.is_nan(),
        (Value::String(first), Value::String(second)) => Arc::ptr_eq(first, second) || first == second,
        (Value::Binary(first), Value::Binary(second)) => first == second,
        (Value::List(first), Value::List(second)) => Arc::ptr_eq(first, second) || lists(first, second, same),
        (Value::Map(first), Value::Map(second)) => Arc::ptr_eq(first, second) || maps(first, second, same),
        (Value::Expression(first), Value::Expression(second)) => {
            Arc::ptr_eq(&first.0, &second.0) || first.0 == second.0
        }
        (Value::Lambda(first), Value::Lambda(second)) => {
            Arc::ptr_eq(first, second) || first.expression == second.expression
        }
        (Value::Template(first), Value::Template(second)) => {
            Arc::ptr_eq(first, second) || same(&first.content.value, &second.content.value)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::string(text)
    }

    #[test]
    fn equality_goes_by_the_left_type() {
        let empty_list = || Value::list([]);
        let empty_map = || Value::map::<&str>([]);
        for (first, second, result) in [
            (Value::Int(1), text("1"), Ok(true)),
            (text("1"), Value::Int(1), Ok(true)),
            (Value::Int(1), Value::Bool(true), Ok(true)),
            (Value::Bool(true), Value::Int(1), Ok(false)),
            (Value::Bool(true), text("T"), Ok(true)),
            (Value::Bool(false), text("no"), Ok(false)),
            (text("true"), Value::Bool(true), Ok(true)),
            (Value::Int(5), empty_list(), Ok(false)),
            (Value::Int(5), text("x"), Ok(false)),
            (empty_map(), empty_map(), Ok(true)),
            (empty_list(), empty_map(), Ok(false)),
            (Value::Float(1.5), Value::Float(1.5), Ok(true)),
            (Value::Float(1.0), Value::Int(1), Ok(true)),
            (Value::Int(1), Value::Float(1.0), Ok(true)),
            (Value::Data(1), Value::Int(1), Ok(true)),
            (Value::Float(f64::NAN), Value::Float(f64::NAN), Ok(false)),
            (Value::Float(1.5), text("1.5"), Ok(false)),
            (Value::Nil, Value::Nil, Ok(true)),
            (Value::Nil, Value::Int(0), Err("")),
            (Value::Int(5), Value::Nil, Err("")),
            (text("1.5"), Value::Float(1.5), Err("types uncomparable")),
            (text(""), empty_list(), Err("types uncomparable")),
            (Value::list([Value::Int(1), Value::Int(2)]), Value::list([text("1"), text("2")]), Ok(true)),
            (Value::list([Value::Nil]), Value::list([Value::Int(1)]), Ok(false)),
            (Value::map([("a", Value::Int(1))]), Value::map([("a", text("1"))]), Ok(true)),
            (Value::map([("a", Value::Int(1))]), Value::map([("b", Value::Int(1))]), Ok(false)),
        ] {
            let outcome = equal(&first, &second).map_err(|issue| issue.message);
            assert_eq!(outcome.as_ref().map_err(String::as_str).copied(), result, "{first:?} {second:?}");
        }
    }

    #[test]
    fn order_is_for_numbers_and_for_strings() {
        use Operator::{Greater, GreaterEqual, Less, LessEqual};
        for (first, operator, second, result) in [
            (Value::Int(2), Less, Value::Int(10), Ok(true)),
            (text("2"), Less, text("10"), Ok(false)),
            (Value::Int(2), GreaterEqual, Value::Data(2), Ok(true)),
            (Value::Int(2), LessEqual, Value::Float(1.5), Ok(false)),
            (Value::Float(2.5), Greater, Value::Int(2), Ok(true)),
            (Value::Float(f64::NAN), LessEqual, Value::Float(f64::NAN), Ok(false)),
            (Value::Nil, Less, Value::Int(1), Ok(false)),
            (Value::Float(1.0), Less, text("2"), Ok(false)),
            (Value::Int(1), Less, text("2"), Err("comparision < only for integers or strings")),
            (text("1"), GreaterEqual, Value::Int(2), Err("comparision >= only for strings or integers")),
        ] {
            let outcome = order(operator, &first, &second).map_err(|issue| issue.message);
            assert_eq!(outcome.as_ref().map_err(String::as_str).copied(), result, "{first:?} {second:?}");
        }
    }

    #[test]
    fn sameness_is_strict_and_reflexive() {
        let nan = Value::list([Value::Float(f64::NAN)]);
        assert!(same(&nan, &Value::list([Value::Float(f64::NAN)])));
        assert!(!same(&Value::Int(1), &text("1")));
        assert!(!same(&Value::Int(1), &Value::Float(1.0)));
        assert!(same(&Value::Int(1), &Value::Data(1)));
        assert!(!same(&Value::map([("a", Value::Nil)]), &Value::map([("b", Value::Nil)])));
    }
}
