//! Functions for numbers (`spiff.md` 11.3).

use super::arguments::count;
use super::calling::Outcome;
use crate::issue::Issue;
use crate::operators::arithmetic::as_float;
use crate::value::Value;

/// Returns the mathematical function `name`.
pub(super) fn find(name: &str) -> Option<fn(&[Value]) -> Outcome> {
    macro_rules! rounding {
        ($name:literal, $function:expr) => {
            |arguments| rounded($name, $function, arguments)
        };
    }
    macro_rules! floating {
        ($name:literal, $function:expr) => {
            |arguments| computed($name, $function, arguments)
        };
    }
    Some(match name {
        "floor" => rounding!("floor", f64::floor),
        "ceil" => rounding!("ceil", f64::ceil),
        "round" => rounding!("round", f64::round),
        "roundtoeven" => rounding!("roundtoeven", f64::round_ties_even),
        "abs" => abs,
        "sin" => floating!("sin", f64::sin),
        "cos" => floating!("cos", f64::cos),
        "sinh" => floating!("sinh", f64::sinh),
        "cosh" => floating!("cosh", f64::cosh),
        "asin" => floating!("asin", f64::asin),
        "acos" => floating!("acos", f64::acos),
        "asinh" => floating!("asinh", f64::asinh),
        "acosh" => floating!("acosh", f64::acosh),
        "sqrt" => floating!("sqrt", f64::sqrt),
        "exp" => floating!("exp", f64::exp),
        "log" => floating!("log", f64::ln),
        "log10" => floating!("log10", f64::log10),
        _ => return None,
    })
}

fn number(name: &str, arguments: &[Value]) -> Result<f64, Issue> {
    count(arguments, 1..=1, &format!("{name} takes exactly one argument"))?;
    as_float(&arguments[0]).ok_or_else(|| Issue::new(format!("{name}: number argument required")))
}

fn rounded(name: &str, function: fn(f64) -> f64, arguments: &[Value]) -> Outcome {
    let number = number(name, arguments)?;
    if let Some(int) = arguments[0].as_int() {
        return Ok(Value::Int(int));
    }
    #[expect(clippy::cast_possible_truncation, reason = "what is beyond 64 bits becomes the nearest int")]
    let result = function(number) as i64;
    Ok(Value::Int(result))
}

fn computed(name: &str, function: fn(f64) -> f64, arguments: &[Value]) -> Outcome {
    let result = function(number(name, arguments)?);
    if result.is_nan() {
        return Err(Issue::new(format!("{name}: NaN")));
    }
    Ok(Value::Float(result))
}

fn abs(arguments: &[Value]) -> Outcome {
    let number = number("abs", arguments)?;
    Ok(match &arguments[0] {
        Value::Int(int) => Value::Int(int.wrapping_abs()),
        Value::Data(int) => int.checked_abs().map_or(Value::Float(number.abs()), Value::Data),
        _ => Value::Float(number.abs()),
    })
}
