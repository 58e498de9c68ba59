//! Indexes and bounds of slices.

use super::{Range, Value};
use crate::fault::Fault;

pub(crate) fn signed(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Returns the number of an index.
pub(crate) fn small_index(value: &Value) -> Result<i64, Fault> {
    match value {
        Value::Int(value) => {
            let small = value.small().filter(|value| i32::try_from(*value).is_ok());
            small.ok_or_else(|| Fault::new(format!("{value} out of range")))
        }
        _ => Err(Fault::new(format!("got {}, want int", value.kind()))),
    }
}

/// Returns the place of an index, which counts from the end if it is negative.
pub(crate) fn place(index: i64, length: usize, of: &Value) -> Result<usize, Fault> {
    let at = if index < 0 { index + signed(length) } else { index };
    usize::try_from(at).ok().filter(|at| *at < length).ok_or_else(|| out_of_range(index, length, of.kind()))
}

pub(crate) fn out_of_range(index: i64, length: usize, kind: &str) -> Fault {
    Fault::new(if length == 0 {
        format!("index {index} out of range: empty {kind}")
    } else {
        format!("{kind} index {index} out of range [-{length}:{}]", length - 1)
    })
}

/// Returns a bound relative to the end if it is negative.
fn relative(value: &Value, length: i64, default: i64, name: &str) -> Result<i64, Fault> {
    if matches!(value, Value::None) {
        return Ok(default);
    }
    let at = small_index(value).map_err(|fault| fault.of(&format!("invalid {name} index")))?;
    Ok(if at < 0 { at + length } else { at })
}

/// Returns the bounds of a slice, or of a search in a string.
pub(crate) fn bounds(
    low: &Value,
    high: &Value,
    is_forward: bool,
    length: usize,
) -> Result<(usize, usize), Fault> {
    if !is_forward {
        return Ok((0, 0));
    }
    let end = signed(length);
    let start = relative(low, end, 0, "start")?.clamp(0, end);
    let stop = relative(high, end, end, "end")?.clamp(0, end);
    let small = |value: i64| usize::try_from(value).unwrap_or_default();
    Ok((small(start), small(stop.max(start))))
}

/// Returns the places of a slice with a negative step.
pub(crate) fn reversed(low: &Value, high: &Value, step: i64, length: usize) -> Result<Range, Fault> {
    let end = signed(length);
    let start = relative(low, end, end - 1, "start")?.min(end - 1);
    let stop = relative(high, end, -1, "end")?.max(-1);
    Ok(Range { start: start.max(stop), stop, step })
}
