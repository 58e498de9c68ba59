//! Functions for dates and durations (`gotemplate.md` 12.11).

use groundwork_go::duration;
use groundwork_go::time::{self, Instant, SECOND, Zone};

use super::moments::{TIME, TimeObject};
use super::registration::{Outcome, add_all};
use crate::context::Context;
use crate::error::CallError;
use crate::functions::arguments::Arguments;
use crate::functions::{Functions, Signature, Type};
use crate::value::{IntKind, Value};

const DAY: &[u8] = b"2006-01-02";

pub(super) fn register(functions: &mut Functions) {
    functions
        .add("now", Signature::fixed(&[]), |context, _| Ok(object(Instant::now(context.now("now")?))))
        .add("date", Signature::fixed(&[Type::String, Type::Any]), |context, args| {
            shown(context, "date", args.string(0), args.value(1), b"Local")
        })
        .add("htmlDate", Signature::fixed(&[Type::Any]), |context, args| {
            shown(context, "htmlDate", DAY, args.value(0), b"Local")
        })
        .add("htmlDateInZone", Signature::fixed(&[Type::Any, Type::String]), |context, args| {
            shown(context, "htmlDateInZone", DAY, args.value(0), args.string(1))
        });
    let in_zone = Signature::fixed(&[Type::String, Type::Any, Type::String]);
    add_all(functions, &["dateInZone", "date_in_zone"], &in_zone, |context, args| {
        shown(context, "dateInZone", args.string(0), args.value(1), args.string(2))
    });
    let modify = Signature::fixed(&[Type::String, Type::Object(TIME)]);
    add_all(functions, &["dateModify", "date_modify"], &modify, |_, args| {
        let moved = duration::parse(args.string(0)).ok().and_then(|by| moved(args.value(1), by).ok());
        Ok(moved.unwrap_or_else(|| args.value(1).clone()))
    });
    add_all(functions, &["mustDateModify", "must_date_modify"], &modify, |_, args| {
        let by = duration::parse(args.string(0)).map_err(|invalid| invalid.to_string())?;
        Ok(moved(args.value(1), by)?)
    });
    let two = Signature::fixed(&[Type::String, Type::String]);
    functions
        .add("toDate", two.clone(), |_, args| {
            Ok(object(time::parse(args.string(0), args.string(1)).unwrap_or_else(|_| Instant::zero())))
        })
        .add("mustToDate", two, |_, args| Ok(object(time::parse(args.string(0), args.string(1))?)))
        .add("unixEpoch", Signature::fixed(&[Type::Object(TIME)]), |_, args| {
            let seconds = TimeObject::of(args.value(0)).map_or(0, |time| time.seconds);
            Ok(seconds.to_string().into())
        })
        .add("ago", Signature::fixed(&[Type::Any]), ago)
        .add("duration", Signature::fixed(&[Type::Any]), |_, args| {
            let seconds = match args.value(0) {
                Value::Str(text) => seconds(text),
                Value::Int(IntKind::Int64, seconds) => *seconds,
                _ => 0,
            };
            Ok(duration::text(seconds.wrapping_mul(SECOND)).into())
        })
        .add("durationRound", Signature::fixed(&[Type::Any]), rounded);
}

fn object(instant: Instant) -> Value {
    TimeObject::value(instant)
}

/// Returns a time, or the time of seconds since 1970. Any other value means now, data numbers
/// included.
fn instant(context: &Context<'_>, function: &'static str, value: &Value) -> Result<Instant, CallError> {
    match value {
        Value::Int(IntKind::Int | IntKind::Int64, seconds) => Ok(Instant::new(*seconds, 0, Zone::Local)),
        other => match TimeObject::of(other) {
            Some(time) => Ok(time.clone()),
            None => Ok(Instant::now(context.now(function)?)),
        },
    }
}

fn shown(
    context: &mut Context<'_>,
    function: &'static str,
    layout: &[u8],
    time: &Value,
    zone: &[u8],
) -> Outcome {
    context.check_text(layout.len().saturating_mul(10))?;
    let instant = instant(context, function, time)?;
    let zone = std::str::from_utf8(zone).ok().and_then(Zone::find).unwrap_or(Zone::Utc);
    Ok(instant.within(zone).format(layout).into())
}

fn moved(time: &Value, by: i64) -> Result<Value, String> {
    let time = TimeObject::of(time).ok_or(super::registration::NIL_POINTER)?;
    Ok(object(time.add(by)))
}

/// Reads a decimal number. A number out of range becomes the nearest in it, and any other text 0.
fn seconds(text: &[u8]) -> i64 {
    let text = std::str::from_utf8(text).unwrap_or_default();
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return 0;
    }
    text.parse().unwrap_or(if text.starts_with('-') { i64::MIN } else { i64::MAX })
}

fn ago(context: &mut Context<'_>, args: &[Value]) -> Outcome {
    let then = instant(context, "ago", args.value(0))?;
    let passed = Instant::now(context.now("ago")?).since(&then);
    // Go rounds to whole seconds, half a second away from zero.
    let whole = passed / SECOND + (passed % SECOND) / (SECOND / 2);
    Ok(duration::text(whole.saturating_mul(SECOND)).into())
}

/// Returns the largest unit that the duration exceeds, without its sign.
fn rounded(context: &mut Context<'_>, args: &[Value]) -> Outcome {
    const HOUR: u64 = 3_600 * SECOND.unsigned_abs();
    const UNITS: [(u64, &str); 6] = [
        (365 * 24 * HOUR, "y"),
        (30 * 24 * HOUR, "mo"),
        (24 * HOUR, "d"),
        (HOUR, "h"),
        (HOUR / 60, "m"),
        (HOUR / 3_600, "s"),
    ];
    let nanoseconds = match args.value(0) {
        Value::Str(text) => duration::parse(text).unwrap_or(0),
        Value::Int(IntKind::Int64, nanoseconds) => *nanoseconds,
        other => match TimeObject::of(other) {
            Some(time) => Instant::now(context.now("durationRound")?).since(time),
            None => 0,
        },
    };
    let nanoseconds = nanoseconds.unsigned_abs();
    let unit = UNITS.iter().find(|(length, _)| nanoseconds > *length);
    Ok(unit
        .map_or_else(|| "0s".to_owned(), |(length, name)| format!("{}{name}", nanoseconds / length))
        .into())
}
