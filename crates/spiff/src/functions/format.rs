//! `format` and `error` (`spiff.md` 11.2).

use groundwork_go::fmt::{Scalar, sprintf};

use super::arguments::writable;
use super::calling::{Answer, Caller};
use crate::issue::Issue;
use crate::operators::concatenate::lambda_text;
use crate::value::Value;
use crate::yaml::write;

/// `format(fmt, x…)`
pub(super) fn format(caller: &mut dyn Caller, arguments: &[Value]) -> Answer {
    formatted(caller, "format", arguments).map(|text| Some(Value::string(text)))
}

/// `error(fmt, x…)`
pub(super) fn error(caller: &mut dyn Caller, arguments: &[Value]) -> Answer {
    Err(Issue::new(formatted(caller, "error", arguments)?))
}

fn formatted(caller: &dyn Caller, function: &str, arguments: &[Value]) -> Result<String, Issue> {
    let Some((format, rest)) = arguments.split_first() else {
        return Err(Issue::new(format!("alt least one argument required for '{function}'")));
    };
    let limits = caller.limits();
    let mut values = Vec::with_capacity(rest.len());
    for argument in rest {
        values.push(match argument {
            Value::Nil => Scalar::Nil,
            Value::Bool(flag) => Scalar::Bool(*flag),
            Value::Int(number) | Value::Data(number) => Scalar::Int(*number),
            Value::Float(number) => Scalar::Float(*number),
            Value::String(text) => Scalar::Text(text.to_string()),
            Value::Lambda(lambda) => Scalar::Text(lambda_text(lambda)),
            other => {
                writable(other, function, limits)?;
                Scalar::Text(write(other))
            }
        });
    }
    let format = match format {
        Value::String(format) => format.to_string(),
        // spiff++ converts these to text before it uses them as the format.
        Value::List(_) | Value::Map(_) | Value::Template(_) => {
            writable(format, function, limits)?;
            write(format)
        }
        _ => return Err(Issue::new(format!("{function}: format must be string"))),
    };
    let limit = limits.string_bytes;
    sprintf(&format, &values, limit)
        .ok_or_else(|| Issue::new(format!("{function}: the result would have more than {limit} bytes")))
}
