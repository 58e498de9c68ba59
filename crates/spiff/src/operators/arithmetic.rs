//! The operators `+ - * / %` (`spiff.md` 7.3) on ints, floats, data numbers, addresses and
//! networks.

use super::address::{Address, Cidr};
use crate::issue::Issue;
use crate::value::Value;

type Outcome = Result<Value, Issue>;

/// Two operands of one kind. An int and a float become floats, an int and a data number become data
/// numbers (`spiff.md` 14.2).
enum Numbers {
    Ints(i64, i64),
    Data(i64, i64),
    Floats(f64, f64),
}

/// Returns the operands as numbers, or `message` if one is not a number.
fn numbers(first: &Value, second: &Value, message: &'static str) -> Result<Numbers, Issue> {
    Ok(match (first, second) {
        (Value::Int(first), Value::Int(second)) => Numbers::Ints(*first, *second),
        (Value::Int(first) | Value::Data(first), Value::Int(second) | Value::Data(second)) => {
            Numbers::Data(*first, *second)
        }
        _ => match (as_float(first), as_float(second)) {
            (Some(first), Some(second)) => Numbers::Floats(first, second),
            _ => return Err(message.into()),
        },
    })
}

/// Returns any number as a double.
#[expect(clippy::cast_precision_loss, reason = "ints become doubles beside a double")]
pub(crate) fn as_float(value: &Value) -> Option<f64> {
    match value {
        Value::Int(number) | Value::Data(number) => Some(*number as f64),
        Value::Float(number) => Some(*number),
        _ => None,
    }
}

/// Returns a data number. Data numbers are doubles to spiff++, so an overflow gives a double
/// instead of wrapping.
fn data(result: Option<i64>, otherwise: f64) -> Value {
    result.map_or(Value::Float(otherwise), Value::Data)
}

#[expect(clippy::cast_precision_loss, reason = "what is beyond 64 bits is a double")]
fn doubles(first: i64, second: i64) -> (f64, f64) {
    (first as f64, second as f64)
}

/// Evaluates `A + B`.
///
/// # Errors
///
/// Operands that are neither numbers nor an address and an int; addresses out of range.
pub(crate) fn add(first: &Value, second: &Value) -> Outcome {
    if let Value::String(text) = first {
        let place = AddressOperand::parse(text)
            .ok_or("first argument for addition must be IP address, CIDR or number")?;
        let offset =
            second.as_int().ok_or("addition argument for an IP address requires an integer argument")?;
        return place.moved(i128::from(offset));
    }
    Ok(match numbers(first, second, "non-IP address addition requires number arguments")? {
        Numbers::Ints(first, second) => Value::Int(first.wrapping_add(second)),
        Numbers::Data(first, second) => {
            let (a, b) = doubles(first, second);
            data(first.checked_add(second), a + b)
        }
        Numbers::Floats(first, second) => Value::Float(first + second),
    })
}

/// Evaluates `A - B`.
///
/// # Errors
///
/// Operands that are neither numbers nor an address and an int or address; addresses out of range.
pub(crate) fn subtract(first: &Value, second: &Value) -> Outcome {
    if let Value::String(text) = first {
        let place = AddressOperand::parse(text)
            .ok_or("first argument for substraction must be IP address, CIDR or number")?;
        return subtract_from(&place, second);
    }
    Ok(match numbers(first, second, "non-IP address subtration requires number arguments")? {
        Numbers::Ints(first, second) => Value::Int(first.wrapping_sub(second)),
        Numbers::Data(first, second) => {
            let (a, b) = doubles(first, second);
            data(first.checked_sub(second), a - b)
        }
        Numbers::Floats(first, second) => Value::Float(first - second),
    })
}

fn subtract_from(place: &AddressOperand, second: &Value) -> Outcome {
    if let Some(offset) = second.as_int() {
        return place.moved(-i128::from(offset));
    }
    let Value::String(text) = second else {
        return Err("second argument of IP address subtraction must be IP address or integer".into());
    };
    let other = AddressOperand::parse(text)
        .ok_or("second argument for substraction must be IP address, CIDR or number")?;
    if !place.address().is_same_kind(other.address()) {
        return Err("IP type mismatch".into());
    }
    Ok(Value::Int(place.address().distance(other.address())))
}

/// Evaluates `A * B`.
///
/// # Errors
///
/// Operands that are neither numbers nor a network and an int; networks out of range.
pub(crate) fn multiply(first: &Value, second: &Value) -> Outcome {
    if let Value::String(text) = first {
        let cidr = network(text, "multiplication")?;
        let count = second.as_int().ok_or("CIDR multiplication requires an integer argument")?;
        return cidr.times(count).map(|network| Value::string(network.to_string()));
    }
    Ok(match numbers(first, second, "non-CIDR multiplication requires number arguments")? {
        Numbers::Ints(first, second) => Value::Int(first.wrapping_mul(second)),
        Numbers::Data(first, second) => {
            let (a, b) = doubles(first, second);
            data(first.checked_mul(second), a * b)
        }
        Numbers::Floats(first, second) => Value::Float(first * second),
    })
}

/// Evaluates `A / B`.
///
/// # Errors
///
/// Division by zero; operands that are neither numbers nor a network and an int; networks that are
/// too small.
pub(crate) fn divide(first: &Value, second: &Value) -> Outcome {
    if let Value::String(text) = first {
        let cidr = network(text, "division")?;
        let count = second.as_int().ok_or("IP address division requires an integer argument")?;
        return cidr.split(count).map(|network| Value::string(network.to_string()));
    }
    let numbers = numbers(first, second, "non-CIDR division requires number arguments")?;
    Ok(match numbers {
        Numbers::Ints(_, 0) | Numbers::Data(_, 0) | Numbers::Floats(_, 0.0) => {
            return Err("division by zero".into());
        }
        Numbers::Ints(first, second) => Value::Int(first.wrapping_div(second)),
        Numbers::Data(first, second) => {
            let (a, b) = doubles(first, second);
            let exact =
                first.checked_div(second).filter(|quotient| quotient.checked_mul(second) == Some(first));
            data(exact, a / b)
        }
        Numbers::Floats(first, second) => Value::Float(first / second),
    })
}

/// Evaluates `A % B`, with the sign of A.
///
/// # Errors
///
/// Division by zero; operands that are not integral.
pub(crate) fn modulo(first: &Value, second: &Value) -> Outcome {
    let required = "integer operand required";
    match numbers(first, second, required)? {
        Numbers::Ints(_, 0) | Numbers::Data(_, 0) => Err("division by zero".into()),
        Numbers::Ints(first, second) => Ok(Value::Int(first.wrapping_rem(second))),
        Numbers::Data(first, second) => Ok(Value::Data(first.wrapping_rem(second))),
        Numbers::Floats(..) => Err(required.into()),
    }
}

fn network(text: &str, operation: &str) -> Result<Cidr, Issue> {
    Cidr::parse(text).ok_or_else(|| {
        Issue::new(format!(
            "first argument of {operation} must be CIDR or number: invalid CIDR address: {text}"
        ))
    })
}

/// An address, alone or with its network.
enum AddressOperand {
    Address(Address),
    Network(Cidr),
}

impl AddressOperand {
    fn parse(text: &str) -> Option<Self> {
        Address::parse(text).map(Self::Address).or_else(|| Cidr::parse(text).map(Self::Network))
    }

    fn address(&self) -> Address {
        match self {
            Self::Address(address) => *address,
            Self::Network(network) => network.address,
        }
    }

    fn moved(&self, offset: i128) -> Outcome {
        let text = match self {
            Self::Address(address) => {
                address.plus(offset).ok_or("resulting ip address not in range")?.to_string()
            }
            Self::Network(network) => network.plus(offset)?.to_string(),
        };
        Ok(Value::string(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::ast::Expr;
    use crate::syntax::parse;

    /// Applies the operator of `A op B`. Operands are literals; a `d` before a number makes it a
    /// data number.
    fn apply(text: &str) -> String {
        let mut parts = text.splitn(3, ' ');
        let mut next = || parts.next().unwrap();
        let first = value(next());
        let function = match next() {
            "+" => add,
            "-" => subtract,
            "*" => multiply,
            "/" => divide,
            "%" => modulo,
            other => unreachable!("{other}"),
        };
        match function(&first, &value(next())) {
            Ok(Value::String(text)) => text.to_string(),
            Ok(value) => format!("{value:?}"),
            Err(issue) => format!("!{issue}"),
        }
    }

    fn value(text: &str) -> Value {
        if let Some(number) = text.strip_prefix('d') {
            return Value::Data(number.parse().unwrap());
        }
        match parse(text).unwrap() {
            Expr::Int(number) => Value::Int(number),
            Expr::Float(number) => Value::Float(number),
            Expr::String(text) => Value::String(text),
            Expr::Bool(flag) => Value::Bool(flag),
            Expr::Nil => Value::Nil,
            other => unreachable!("{other}"),
        }
    }

    #[test]
    fn numbers_by_7_3() {
        for (text, result) in [
            ("7 / 2", "Int(3)"),
            ("-7 / 2", "Int(-3)"),
            ("-7 % 3", "Int(-1)"),
            ("7.0 / 2", "Float(3.5)"),
            ("1 + 2.5", "Float(3.5)"),
            ("2 * 1.25", "Float(2.5)"),
            ("5 - 7", "Int(-2)"),
            ("9223372036854775807 + 1", "Int(-9223372036854775808)"),
            ("-9223372036854775808 / -1", "Int(-9223372036854775808)"),
            ("-9223372036854775808 % -1", "Int(0)"),
            ("1 / 0", "!division by zero"),
            ("1.0 / 0", "!division by zero"),
            ("1 % 0", "!division by zero"),
            ("1.5 % 2", "!integer operand required"),
            ("true % 2", "!integer operand required"),
            ("1 + \"x\"", "!non-IP address addition requires number arguments"),
            ("~ - 1", "!non-IP address subtration requires number arguments"),
            ("true * 1", "!non-CIDR multiplication requires number arguments"),
            ("1 / true", "!non-CIDR division requires number arguments"),
        ] {
            assert_eq!(apply(text), result, "{text}");
        }
    }

    #[test]
    fn data_numbers_by_14_2() {
        for (text, result) in [
            ("d7 / 2", "Float(3.5)"),
            ("d8 / 2", "Data(4)"),
            ("d7 % 3", "Data(1)"),
            ("1 + d2", "Data(3)"),
            ("d2 * 1.5", "Float(3.0)"),
            ("d9223372036854775807 + d1", "Float(9.223372036854776e18)"),
            ("d-9223372036854775808 / -1", "Float(9.223372036854776e18)"),
            ("d1 / d0", "!division by zero"),
            ("\"10.0.0.1\" + d2", "10.0.0.3"),
        ] {
            assert_eq!(apply(text), result, "{text}");
        }
    }

    #[test]
    fn addresses_and_networks_by_7_3() {
        for (text, result) in [
            ("10.0.0.250 + 10", "10.0.1.4"),
            ("10.0.1.0 - 10.0.0.0", "Int(256)"),
            ("10.0.0.0 - 10.0.1.0", "Int(-256)"),
            ("10.0.1.0 - \"10.0.0.5/24\"", "Int(251)"),
            ("10.0.0.1 - 2", "9.255.255.255"),
            ("\"10.0.0.5/24\" + 3", "10.0.0.8/24"),
            ("\"10.0.0.5/24\" - 3", "10.0.0.2/24"),
            ("\"10.0.0.5/24\" - 6", "!resulting ip address not in CIDR range"),
            ("\"10.0.0.0/24\" * 2", "10.0.2.0/24"),
            ("\"10.0.0.7/24\" * 0", "10.0.0.0/24"),
            ("\"10.1.0.0/16\" / 5", "10.1.0.0/19"),
            ("\"10.1.0.0/16\" / 1", "10.1.0.0/16"),
            ("\"10.1.0.0/16\" / 256", "10.1.0.0/24"),
            ("\"10.1.0.0/30\" / 8", "!divisor too large for CIDR network size"),
            ("\"10.0.0.0/8\" / 0", "!IP address division requires a positive integer argument"),
            ("\"10.0.0.0/8\" / -1", "!IP address division requires a positive integer argument"),
            ("255.255.255.255 + 1", "!resulting ip address not in range"),
            ("0.0.0.0 - 1", "!resulting ip address not in range"),
            ("\"255.0.0.0/8\" * 1", "!resulting ip address not in range"),
            ("\"::1\" + 65535", "::1:0"),
            ("\"fe80::/64\" + 1", "fe80::1/64"),
            ("\"::ffff:10.0.0.1\" + 1", "10.0.0.2"),
            ("\"::1\" - 10.0.0.1", "!IP type mismatch"),
            ("\"x\" + 1", "!first argument for addition must be IP address, CIDR or number"),
            ("\"10.0.0.1\" + \"x\"", "!addition argument for an IP address requires an integer argument"),
            (
                "\"x\" * 2",
                "!first argument of multiplication must be CIDR or number: invalid CIDR address: x",
            ),
            (
                "\"10.0.0.0/33\" / 2",
                "!first argument of division must be CIDR or number: invalid CIDR address: 10.0.0.0/33",
            ),
        ] {
            assert_eq!(apply(text), result, "{text}");
        }
    }
}
