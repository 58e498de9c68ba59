//! `math.star`.

use std::f64::consts::{E, PI, TAU};

use crate::fault::Fault;
use crate::format::whole;
use crate::values::{Answer, Given, Heap, Member, Module, Native, Run, Value, mismatch};

/// Creates a member that computes a float from one number.
macro_rules! unary {
    ($name:literal, $function:expr) => {
        (
            $name,
            Member::Function(&Native { name: $name, run: Run::Plain(|_, given| of_one(given, $function)) }),
        )
    };
}

/// Creates a member that computes a float from two numbers.
macro_rules! binary {
    ($name:literal, $function:expr) => {
        (
            $name,
            Member::Function(&Native { name: $name, run: Run::Plain(|_, given| of_two(given, $function)) }),
        )
    };
}

pub(super) static MODULE: Module = Module {
    name: "math",
    members: &[
        ("ceil", Member::Function(&Native { name: "ceil", run: Run::Plain(ceil) })),
        ("floor", Member::Function(&Native { name: "floor", run: Run::Plain(floor) })),
        ("log", Member::Function(&Native { name: "log", run: Run::Plain(log) })),
        ("e", Member::Float(E)),
        ("pi", Member::Float(PI)),
        unary!("fabs", f64::abs),
        unary!("round", f64::round),
        unary!("exp", f64::exp),
        unary!("sqrt", f64::sqrt),
        unary!("acos", f64::acos),
        unary!("asin", f64::asin),
        unary!("atan", f64::atan),
        unary!("cos", f64::cos),
        unary!("sin", f64::sin),
        unary!("tan", f64::tan),
        unary!("degrees", |x| 360.0 * x / TAU),
        unary!("radians", |x| TAU * x / 360.0),
        unary!("acosh", f64::acosh),
        unary!("asinh", f64::asinh),
        unary!("atanh", f64::atanh),
        unary!("cosh", f64::cosh),
        unary!("sinh", f64::sinh),
        unary!("tanh", f64::tanh),
        unary!("gamma", gamma),
        binary!("copysign", f64::copysign),
        binary!("mod", |x, y| x % y),
        binary!("pow", f64::powf),
        binary!("remainder", remainder),
        binary!("atan2", f64::atan2),
        binary!("hypot", f64::hypot),
    ],
};

fn number(given: &Given, at: usize) -> Result<f64, Fault> {
    match given.at(at) {
        Value::Int(value) => value.finite(),
        Value::Float(value) => Ok(*value),
        other => Err(mismatch(&(at + 1).to_string(), other, "float or int")),
    }
}

fn of_one(given: &Given, function: fn(f64) -> f64) -> Answer {
    given.count(1, 1)?;
    Ok(Value::Float(function(number(given, 0)?)))
}

fn of_two(given: &Given, function: fn(f64, f64) -> f64) -> Answer {
    given.count(2, 2)?;
    Ok(Value::Float(function(number(given, 0)?, number(given, 1)?)))
}

/// Rounds a float to an integer.
fn rounded(given: &Given, round: fn(f64) -> f64) -> Answer {
    given.count(1, 1)?;
    match given.at(0) {
        Value::Int(value) => Ok(Value::Int(value.clone())),
        Value::Float(value) => whole(&Value::Float(round(*value))).map(Value::Int).map_err(Fault::new),
        other => Err(Fault::new(format!("got {}, want float or int", other.kind()))),
    }
}

fn ceil(_: &mut Heap, given: &Given) -> Answer {
    rounded(given, f64::ceil)
}

fn floor(_: &mut Heap, given: &Given) -> Answer {
    rounded(given, f64::floor)
}

fn log(_: &mut Heap, given: &Given) -> Answer {
    given.count(1, 2)?;
    let value = number(given, 0)?;
    let base = if given.get(1).is_some() { number(given, 1)? } else { E };
    if base == 1.0 {
        return Err(Fault::new("division by zero"));
    }
    Ok(Value::Float(value.ln() / base.ln()))
}

/// Returns the remainder of a division that rounds to the nearest integer, and to the even one of
/// two.
fn remainder(x: f64, y: f64) -> f64 {
    if x.is_infinite() || y == 0.0 {
        return f64::NAN;
    }
    if y.is_infinite() {
        return x;
    }
    let divisor = y.abs();
    let rest = x.abs() % divisor;
    let is_odd = (x.abs() % (2.0 * divisor)) >= divisor;
    let half = divisor / 2.0;
    let rest = if rest > half || rest == half && is_odd { rest - divisor } else { rest };
    if x < 0.0 { -rest } else { rest }
}

/// Computes the gamma function with the approximation of Lanczos; factorials are exact products.
fn gamma(x: f64) -> f64 {
    const COEFFICIENTS: [f64; 9] = [
        0.999_999_999_999_809_9,
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    if x.is_infinite() {
        return if x > 0.0 { x } else { f64::NAN };
    }
    if x.fract() == 0.0 {
        if x == 0.0 {
            return f64::INFINITY.copysign(x);
        }
        if x < 0.0 {
            return f64::NAN;
        }
        let factors = (1..200).map(f64::from).take_while(|factor| *factor < x);
        return if x > 171.0 { f64::INFINITY } else { factors.product() };
    }
    if x < 0.5 {
        return PI / ((PI * x).sin() * gamma(1.0 - x));
    }
    let x = x - 1.0;
    let terms = COEFFICIENTS.iter().skip(1).zip(1..);
    let sum = terms.fold(COEFFICIENTS[0], |sum, (factor, at)| sum + factor / (x + f64::from(at)));
    let base = x + 7.5;
    TAU.sqrt() * base.powf(x + 0.5) * (-base).exp() * sum
}
