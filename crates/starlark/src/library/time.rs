//! `time.star`: times and durations of Go. `time.now` fails, so that a package renders to the same
//! objects on every day.

use std::rc::Rc;

use groundwork_go::duration;
use groundwork_go::time::{Date, Instant, Zone, parse};

use crate::fault::Fault;
use crate::syntax::Binary;
use crate::values::{Answer, Given, Heap, Member, Method, Module, Native, Run, Value, mismatch};

const SECOND: i64 = 1_000_000_000;
/// Layout of times without another one.
const RFC3339: &str = "2006-01-02T15:04:05Z07:00";

pub(super) static MODULE: Module = Module {
    name: "time",
    members: &[
        (
            "from_timestamp",
            Member::Function(&Native { name: "from_timestamp", run: Run::Plain(from_timestamp) }),
        ),
        (
            "is_valid_timezone",
            Member::Function(&Native { name: "is_valid_timezone", run: Run::Plain(is_valid_timezone) }),
        ),
        ("now", Member::Function(&Native { name: "now", run: Run::Plain(now) })),
        (
            "parse_duration",
            Member::Function(&Native { name: "parse_duration", run: Run::Plain(parse_duration) }),
        ),
        ("parse_time", Member::Function(&Native { name: "parse_time", run: Run::Plain(parse_time) })),
        ("time", Member::Function(&Native { name: "time", run: Run::Plain(time) })),
        ("nanosecond", Member::Duration(1)),
        ("microsecond", Member::Duration(1_000)),
        ("millisecond", Member::Duration(1_000_000)),
        ("second", Member::Duration(SECOND)),
        ("minute", Member::Duration(60 * SECOND)),
        ("hour", Member::Duration(3_600 * SECOND)),
    ],
};

pub(crate) static METHODS: &[Method] =
    &[Method { name: "format", run: format }, Method { name: "in_location", run: in_location }];

pub(crate) const TIME_FIELDS: &[&str] =
    &["year", "month", "day", "hour", "minute", "second", "nanosecond", "unix", "unix_nano"];
pub(crate) const DURATION_FIELDS: &[&str] =
    &["hours", "minutes", "seconds", "milliseconds", "microseconds", "nanoseconds"];

fn now(_: &mut Heap, _: &Given) -> Answer {
    Err(Fault::new("time.now() is not available"))
}

fn zone(name: &str) -> Result<Zone, Fault> {
    Zone::find(name).ok_or_else(|| Fault::new(format!("unknown time zone {name}")))
}

fn from_timestamp(_: &mut Heap, given: &Given) -> Answer {
    given.count(1, 2)?;
    let nanoseconds = if given.get(1).is_some() { given.int(1)? } else { 0 };
    let seconds = given.int(0)?.saturating_add(nanoseconds.div_euclid(SECOND));
    Ok(Value::Time(Rc::new(Instant::new(seconds, nanoseconds.rem_euclid(SECOND), Zone::Utc))))
}

fn is_valid_timezone(_: &mut Heap, given: &Given) -> Answer {
    given.count(1, 1)?;
    Ok(Value::Bool(Zone::find(given.text(0)?).is_some()))
}

fn parse_duration(_: &mut Heap, given: &Given) -> Answer {
    given.count(1, 1)?;
    match given.at(0) {
        Value::Duration(duration) => Ok(Value::Duration(*duration)),
        Value::Text(text) => {
            let parsed = duration::parse(text.as_bytes());
            parsed.map(Value::Duration).map_err(|problem| Fault::new(problem.to_string()))
        }
        other => Err(Fault::new(format!("got {}, want a duration, string, or int", other.kind()))),
    }
}

fn text(name: &str, value: Option<Value>, default: &str) -> Result<Rc<str>, Fault> {
    match value {
        Some(Value::Text(text)) => Ok(text),
        Some(other) => Err(mismatch(name, &other, "string")),
        None => Ok(default.into()),
    }
}

fn parse_time(heap: &mut Heap, given: &Given) -> Answer {
    let [value, layout, location] = given.bind(["x", "format", "location"], 1)?;
    let (value, layout) = (text("x", value, "")?, text("format", layout, RFC3339)?);
    let zone = zone(&text("location", location, "UTC")?)?;
    heap.spend(value.len().saturating_mul(10).saturating_add(layout.len().saturating_mul(10)))?;
    let parsed = parse(layout.as_bytes(), value.as_bytes()).map_err(Fault::new)?;
    let instant = match parsed.zone {
        // The text names no zone, so it is in the given one.
        Zone::Local | Zone::Utc => {
            let wall = parsed.wall();
            let seconds = (wall.hour * 60 + wall.minute) * 60 + wall.second;
            let zone = if matches!(parsed.zone, Zone::Utc) { Zone::Utc } else { zone };
            Instant::from_wall(wall.date, seconds, parsed.nanoseconds, zone)
        }
        _ => parsed,
    };
    Ok(Value::Time(Rc::new(instant)))
}

fn time(_: &mut Heap, given: &Given) -> Answer {
    if !given.positional.is_empty() {
        return Err(Fault::new("unexpected positional arguments"));
    }
    let names = ["year", "month", "day", "hour", "minute", "second", "nanosecond", "location"];
    let [year, month, day, hour, minute, second, nanosecond, location] = given.bind(names, 0)?;
    // Numbers of this size keep all sums below within 64 bits.
    let number = |name: &str, value: Option<Value>| match value {
        None => Ok(0),
        Some(Value::Int(value)) => value
            .small()
            .filter(|value| i32::try_from(*value).is_ok())
            .ok_or_else(|| Fault::new(format!("{value} out of range"))),
        Some(other) => Err(mismatch(name, &other, "int")),
    };
    let (year, month) = (number("year", year)?, number("month", month)?);
    let (day, hour) = (number("day", day)?, number("hour", hour)?);
    let (minute, second) = (number("minute", minute)?, number("second", second)?);
    let nanosecond = number("nanosecond", nanosecond)?;
    let zone = zone(&text("location", location, "")?)?;
    let seconds = hour * 3_600 + minute * 60 + second;
    let instant = Instant::from_wall(Date { year, month, day }, seconds, nanosecond, zone);
    Ok(Value::Time(Rc::new(instant)))
}

fn instant(of: &Value) -> Instant {
    match of {
        Value::Time(time) => time.as_ref().clone(),
        _ => Instant::zero(),
    }
}

fn format(heap: &mut Heap, of: &Value, given: &Given) -> Answer {
    given.count(1, 1)?;
    let layout = given.text(0)?;
    heap.spend(layout.len().saturating_mul(10))?;
    let text = instant(of).format(layout.as_bytes());
    heap.text(String::from_utf8_lossy(&text))
}

fn in_location(_: &mut Heap, of: &Value, given: &Given) -> Answer {
    given.count(1, 1)?;
    let zone = zone(given.text(0)?)?;
    Ok(Value::Time(Rc::new(instant(of).within(zone))))
}

/// Returns a field of a time.
pub(crate) fn time_field(time: &Instant, name: &str) -> Option<Value> {
    let wall = time.wall();
    Some(Value::int(match name {
        "year" => wall.date.year,
        "month" => wall.date.month,
        "day" => wall.date.day,
        "hour" => wall.hour,
        "minute" => wall.minute,
        "second" => wall.second,
        "nanosecond" => time.nanoseconds,
        "unix" => time.seconds,
        "unix_nano" => time.seconds.wrapping_mul(SECOND).wrapping_add(time.nanoseconds),
        _ => return None,
    }))
}

/// Returns a field of a duration.
pub(crate) fn duration_field(duration: i64, name: &str) -> Option<Value> {
    #[expect(clippy::cast_precision_loss, reason = "Go's durations lose it, too")]
    let float = |unit: i64| (duration / unit) as f64 + (duration % unit) as f64 / unit as f64;
    Some(match name {
        "hours" => Value::Float(float(3_600 * SECOND)),
        "minutes" => Value::Float(float(60 * SECOND)),
        "seconds" => Value::Float(float(SECOND)),
        "milliseconds" => Value::int(duration / 1_000_000),
        "microseconds" => Value::int(duration / 1_000),
        "nanoseconds" => Value::int(duration),
        _ => return None,
    })
}

/// Evaluates an operator with a time or a duration on one side.
pub(crate) fn operation(operation: Binary, left: &Value, right: &Value) -> Result<Option<Value>, Fault> {
    let time = |time: &Instant, duration: i64| Ok(Some(Value::Time(Rc::new(time.add(duration)))));
    let by_zero = || Err(Fault::new("time.duration division by zero"));
    #[expect(clippy::cast_precision_loss, reason = "Go divides floats, too")]
    let float = |value: i64| value as f64;
    match (operation, left, right) {
        (Binary::Add, Value::Time(of), Value::Duration(by))
        | (Binary::Add, Value::Duration(by), Value::Time(of)) => time(of, *by),
        (Binary::Subtract, Value::Time(of), Value::Duration(by)) => time(of, by.wrapping_neg()),
        (Binary::Subtract, Value::Time(of), Value::Time(other)) => Ok(Some(Value::Duration(of.since(other)))),
        (Binary::Add, Value::Duration(left), Value::Duration(right)) => {
            Ok(Some(Value::Duration(left.wrapping_add(*right))))
        }
        (Binary::Subtract, Value::Duration(left), Value::Duration(right)) => {
            Ok(Some(Value::Duration(left.wrapping_sub(*right))))
        }
        (Binary::Divide | Binary::FloorDivide, Value::Duration(_), Value::Duration(0)) => by_zero(),
        (Binary::Divide, Value::Duration(left), Value::Duration(right)) => {
            Ok(Some(Value::Float(float(*left) / float(*right))))
        }
        (Binary::FloorDivide, Value::Duration(left), Value::Duration(right)) => {
            Ok(Some(Value::int(left.wrapping_div(*right))))
        }
        (Binary::Divide, Value::Duration(left), Value::Int(right)) => match right.small() {
            Some(0) => by_zero(),
            Some(right) => Ok(Some(Value::Duration(left.wrapping_div(right)))),
            None => Err(Fault::new("int value out of range (want signed 64-bit value)")),
        },
        (Binary::Divide, Value::Duration(_), Value::Float(0.0)) => by_zero(),
        #[expect(clippy::cast_possible_truncation, reason = "a cast to an integer ends at its bounds")]
        (Binary::Divide, Value::Duration(left), Value::Float(right)) => {
            Ok(Some(Value::Duration((float(*left) / right) as i64)))
        }
        (Binary::Multiply, Value::Duration(left), Value::Int(right))
        | (Binary::Multiply, Value::Int(right), Value::Duration(left)) => match right.small() {
            Some(right) => Ok(Some(Value::Duration(left.wrapping_mul(right)))),
            None => Err(Fault::new("int value out of range (want signed 64-bit value)")),
        },
        _ => Ok(None),
    }
}
