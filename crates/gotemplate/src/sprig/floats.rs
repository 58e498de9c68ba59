//! Functions for float arithmetic (`gotemplate.md` 12.4).

use super::cast::to_float;
use super::decimal::Decimal;
use super::registration::{Outcome, any_rest};
use crate::context::Context;
use crate::error::CallError;
use crate::functions::arguments::Arguments;
use crate::functions::{Functions, Signature, Type};
use crate::options::NumberMode;
use crate::value::{DataNumber, Value};

pub(super) fn register(functions: &mut Functions) {
    let one = Signature::fixed(&[Type::Any]);
    let some = any_rest(&[Type::Any]);
    functions
        .add("addf", any_rest(&[]), |context, args| combined(context, Decimal::zero(), args, plus))
        .add("add1f", one.clone(), |context, args| combined(context, Decimal::from_integer(1), args, plus))
        .add("subf", some.clone(), |context, args| {
            combined(context, operand(args.value(0))?, args.rest(1), |a, b| Ok(a.add(&b.clone().negated())))
        })
        .add("mulf", some.clone(), |context, args| {
            combined(context, operand(args.value(0))?, args.rest(1), |a, b| Ok(a.multiply(b)))
        })
        .add("divf", some.clone(), |context, args| {
            combined(context, operand(args.value(0))?, args.rest(1), |a, b| {
                a.divide(b).ok_or_else(|| "decimal division by 0".into())
            })
        })
        .add("maxf", some.clone(), |context, args| Ok(extreme(context, args, true)))
        .add("minf", some, |context, args| Ok(extreme(context, args, false)))
        .add("ceil", one.clone(), |context, args| Ok(context.float(to_float(args.value(0)).ceil())))
        .add("floor", one, |context, args| Ok(context.float(to_float(args.value(0)).floor())))
        .add("round", Signature::variadic(&[Type::Any, Type::Int], Type::Float64), round);
}

fn plus(a: &Decimal, b: &Decimal) -> Result<Decimal, CallError> {
    Ok(a.add(b))
}

/// Returns an operand in its shortest decimal form. Integral data numbers keep their exact value.
fn operand(value: &Value) -> Result<Decimal, CallError> {
    if let Value::Number(number) = value
        && let Some(integer) = number.integral()
    {
        return Ok(Decimal::from_integer(integer));
    }
    let f = to_float(value);
    Decimal::from_float(f).ok_or_else(|| {
        let shown = match f {
            f if f.is_nan() => "NaN",
            f if f > 0.0 => "+Inf",
            _ => "-Inf",
        };
        format!("Cannot create a Decimal from {shown}").into()
    })
}

fn combined(
    context: &mut Context<'_>,
    start: Decimal,
    args: &[Value],
    combine: fn(&Decimal, &Decimal) -> Result<Decimal, CallError>,
) -> Outcome {
    let mut result = start;
    for arg in args {
        result = combine(&result, &operand(arg)?)?;
    }
    Ok(match (context.options().numbers, result.to_integer().and_then(DataNumber::from_integer)) {
        // In the data number mode, an integral result stays an exact integer.
        (NumberMode::Data, Some(number)) => Value::Number(number),
        _ => context.float(result.to_float()),
    })
}

/// Returns Go's `math.Max` or `math.Min` over all arguments: the winning infinity beats NaN, and
/// NaN beats the rest.
fn extreme(context: &Context<'_>, args: &[Value], largest: bool) -> Value {
    let infinity = if largest { f64::INFINITY } else { f64::NEG_INFINITY };
    let pick = |a: f64, b: f64| {
        if a == infinity || b == infinity {
            infinity
        } else if a.is_nan() || b.is_nan() {
            f64::NAN
        } else if a == 0.0 && b == 0.0 {
            if a.is_sign_negative() == largest { b } else { a }
        } else if largest {
            a.max(b)
        } else {
            a.min(b)
        }
    };
    let result = args.iter().map(to_float).reduce(pick);
    context.float(result.unwrap_or(0.0))
}

fn round(context: &mut Context<'_>, args: &[Value]) -> Outcome {
    let threshold = args.get(2).map_or(0.5, to_float);
    let places = i32::try_from(args.int(1)).unwrap_or(if args.int(1) < 0 { i32::MIN } else { i32::MAX });
    let power = 10f64.powi(places);
    let scaled = power * to_float(args.value(0));
    let rounded = if scaled - scaled.trunc() >= threshold { scaled.ceil() } else { scaled.floor() };
    Ok(context.float(rounded / power))
}
