//! Functions for conversion and integer arithmetic (`gotemplate.md` 12.3).

use super::cast::{to_float, to_int};
use super::registration::{Outcome, add_all, any_rest};
use crate::context::Context;
use crate::format;
use crate::functions::arguments::Arguments;
use crate::functions::{Functions, Signature, Type};
use crate::value::{Element, List, Value};

pub(super) fn register(functions: &mut Functions) {
    let one = Signature::fixed(&[Type::Any]);
    let two = Signature::fixed(&[Type::Any, Type::Any]);
    let some = any_rest(&[Type::Any]);
    functions
        .add("atoi", Signature::fixed(&[Type::String]), |_, args| Ok(Value::int(atoi(args.string(0)))))
        .add("int", one.clone(), |_, args| Ok(Value::int(to_int(args.value(0)))))
        .add("int64", one.clone(), |_, args| Ok(Value::int64(to_int(args.value(0)))))
        .add("float64", one.clone(), to_float64)
        .add("toDecimal", one.clone(), octal)
        .add("add", any_rest(&[]), |_, args| Ok(fold(args, 0, i64::wrapping_add)))
        .add("add1", one, |_, args| Ok(Value::int64(to_int(args.value(0)).wrapping_add(1))))
        .add("sub", two.clone(), |_, args| {
            Ok(Value::int64(to_int(args.value(0)).wrapping_sub(to_int(args.value(1)))))
        })
        .add("mul", some.clone(), |_, args| Ok(fold(args, 1, i64::wrapping_mul)))
        .add("div", two.clone(), |_, args| divide(args, i64::wrapping_div))
        .add("mod", two, |_, args| divide(args, i64::wrapping_rem))
        .add("min", some.clone(), |_, args| Ok(fold(args, i64::MAX, i64::min)));
    add_all(functions, &["max", "biggest"], &some, |_, args| Ok(fold(args, i64::MIN, i64::max)));
    functions
        .add("until", Signature::fixed(&[Type::Int]), |context, args| {
            let stop = args.int(0);
            int_list(context, Steps::new(0, stop, if stop < 0 { -1 } else { 1 }))
        })
        .add("untilStep", Signature::fixed(&[Type::Int, Type::Int, Type::Int]), |context, args| {
            int_list(context, Steps::new(args.int(0), args.int(1), args.int(2)))
        })
        .add("seq", Signature::variadic(&[], Type::Int), seq);
}

fn fold(args: &[Value], start: i64, combine: fn(i64, i64) -> i64) -> Value {
    Value::int64(args.iter().map(to_int).fold(start, combine))
}

fn divide(args: &[Value], operation: fn(i64, i64) -> i64) -> Outcome {
    match to_int(args.value(1)) {
        0 => Err("runtime error: integer divide by zero".into()),
        divisor => Ok(Value::int64(operation(to_int(args.value(0)), divisor))),
    }
}

/// Reads an integer as Go's `strconv.Atoi` without its error: a number out of range becomes the
/// nearest in it, any other text 0. The digits are read from the left, so that an overflow is seen
/// before a bad character behind it.
fn atoi(text: &[u8]) -> i64 {
    let (sign, digits) = match text {
        [b'-', digits @ ..] => (-1, digits),
        [b'+', digits @ ..] => (1, digits),
        digits => (1, digits),
    };
    let mut magnitude: u64 = 0;
    for byte in digits {
        let Some(digit) = char::from(*byte).to_digit(10) else { return 0 };
        match magnitude.checked_mul(10).and_then(|shifted| shifted.checked_add(u64::from(digit))) {
            Some(next) => magnitude = next,
            None => return if sign < 0 { i64::MIN } else { i64::MAX },
        }
    }
    let value = i128::from(magnitude) * sign;
    i64::try_from(value).unwrap_or(if sign < 0 { i64::MIN } else { i64::MAX })
}

/// Runs `toFloat64`. A data number keeps its exact value.
fn to_float64(context: &mut Context<'_>, args: &[Value]) -> Outcome {
    match args.value(0) {
        number @ Value::Number(_) => Ok(number.clone()),
        other => Ok(context.float(to_float(other))),
    }
}

/// Runs `toDecimal`, which reads the printed value as an octal number.
fn octal(context: &mut Context<'_>, args: &[Value]) -> Outcome {
    let text = format::to_bytes(args.value(0), context.budget())?;
    let plain = std::str::from_utf8(&text).ok().filter(|text| !text.contains('_'));
    Ok(Value::int64(plain.and_then(|text| i64::from_str_radix(text, 8).ok()).unwrap_or(0)))
}

/// The numbers from a start to a stop, exclusive.
#[derive(Clone, Copy)]
struct Steps {
    start: i64,
    step: i64,
    count: usize,
}

impl Steps {
    fn new(start: i64, stop: i64, step: i64) -> Steps {
        let distance = i128::from(stop) - i128::from(start);
        let runs = (distance < 0 && step < 0) || (distance > 0 && step > 0);
        let count = if runs { (distance.abs() - 1) / i128::from(step).abs() + 1 } else { 0 };
        Steps { start, step, count: usize::try_from(count).unwrap_or(usize::MAX) }
    }

    fn numbers(self) -> impl Iterator<Item = i64> {
        (0..self.count).map(move |index| self.start.wrapping_add(self.step.wrapping_mul(index as i64)))
    }
}

fn int_list(context: &mut Context<'_>, steps: Steps) -> Outcome {
    context.spend(steps.count)?;
    Ok(Value::List(List::typed(Element::Int, steps.numbers().map(Value::int).collect())))
}

fn seq(context: &mut Context<'_>, args: &[Value]) -> Outcome {
    let (start, step, end) = match args.len() {
        1 => (1, None, args.int(0)),
        2 => (args.int(0), None, args.int(1)),
        3 => (args.int(0), Some(args.int(1)), args.int(2)),
        _ => return Ok(Value::str("")),
    };
    let direction = if end < start { -1 } else { 1 };
    if direction < 0 && step.is_some_and(|step| step > 0) {
        return Ok(Value::str(""));
    }
    let steps = Steps::new(start, end.wrapping_add(direction), step.unwrap_or(direction));
    context.check_text(steps.count.saturating_mul(2))?;
    context.spend(steps.count)?;
    let texts: Vec<String> = steps.numbers().map(|number| number.to_string()).collect();
    Ok(texts.join(" ").into())
}
