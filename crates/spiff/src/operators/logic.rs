//! The operators `-and` and `-or` (`spiff.md` 7.6).

use crate::syntax::ast::Operator;
use crate::value::Value;

/// Combines two ints bit by bit, and other values by truthiness.
pub(crate) fn combine(operator: Operator, first: &Value, second: &Value) -> Value {
    let is_and = operator == Operator::And;
    match (first, second) {
        (Value::Int(first), Value::Int(second)) => {
            Value::Int(if is_and { first & second } else { first | second })
        }
        (Value::Int(first) | Value::Data(first), Value::Int(second) | Value::Data(second)) => {
            Value::Data(if is_and { first & second } else { first | second })
        }
        _ => {
            let (first, second) = (first.is_truthy(), second.is_truthy());
            Value::Bool(if is_and { first && second } else { first || second })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ints_are_combined_bit_by_bit() {
        use Operator::{And, Or};
        for (first, operator, second, result) in [
            (Value::Int(5), Or, Value::Int(6), "Int(7)"),
            (Value::Int(5), And, Value::Int(6), "Int(4)"),
            (Value::Data(5), And, Value::Int(6), "Data(4)"),
            (Value::Bool(true), And, Value::string(""), "Bool(false)"),
            (Value::Int(0), Or, Value::string("x"), "Bool(true)"),
            (Value::Nil, Or, Value::Float(0.0), "Bool(true)"),
        ] {
            assert_eq!(format!("{:?}", combine(operator, &first, &second)), result);
        }
    }
}
