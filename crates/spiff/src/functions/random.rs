//! The function `rand` (`spiff.md` 11.5).

use super::arguments::{count, fits, int};
use super::calling::{Outcome, Source, bytes};
use super::patterns::compile;
use crate::issue::Issue;
use crate::value::Value;

/// Returns a number below `limit`, each with the same probability. `limit` must not be 0.
fn below(source: &mut dyn Source, limit: u64) -> Result<u64, Issue> {
    let unfair = u64::MAX - u64::MAX % limit;
    loop {
        let number = u64::from_le_bytes(bytes(source)?);
        if number < unfair {
            return Ok(number % limit);
        }
    }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// `rand([int|bool|charset [, n]])`
pub(super) fn rand(source: &mut dyn Source, arguments: &[Value]) -> Outcome {
    count(arguments, 0..=2, "rand takes a maximum of 2 arguments")?;
    let Some(kind) = arguments.first() else {
        return Ok(Value::Int(signed(below(source, i64::MAX.unsigned_abs())?)));
    };
    match kind {
        Value::Int(limit) | Value::Data(limit) => {
            count(arguments, 1..=1, "rand int takes only one argument")?;
            if *limit == 0 {
                return Err("zero range not possible for integer random values".into());
            }
            let number = signed(below(source, limit.unsigned_abs())?);
            Ok(Value::Int(if *limit < 0 { -number } else { number }))
        }
        Value::Bool(_) => {
            count(arguments, 1..=1, "rand bool takes only one argument")?;
            Ok(Value::Bool(below(source, 2)? == 1))
        }
        Value::String(class) => random_text(source, class, arguments.get(1)),
        _ => Err("rand takes an integer, a bool or a set of characters".into()),
    }
}

fn random_text(source: &mut dyn Source, class: &str, length: Option<&Value>) -> Outcome {
    let length = match length {
        None => 1,
        Some(length) => {
            let kind = length.type_name();
            let length = int(length, &format!("rand length must be an integer, found {kind}"))?;
            usize::try_from(length)
                .ok()
                .filter(|length| *length > 0)
                .ok_or_else(|| Issue::new(format!("rand length must be positive, found {length}")))?
        }
    };
    // A character has at most four bytes.
    fits(length.saturating_mul(4), "rand", source.limits())?;
    let pattern = compile(&format!("^[{class}]$"))
        .map_err(|_| Issue::new(format!("invalid rand character set specification {class:?}")))?;
    let matching = |range: std::ops::RangeInclusive<char>| -> Vec<char> {
        range.filter(|c| pattern.regex().is_match(c.encode_utf8(&mut [0; 4]))).collect()
    };
    let mut characters = matching('\0'..='\u{7f}');
    if characters.is_empty() {
        characters = matching('\u{80}'..='\u{ffff}');
    }
    let limit = u64::try_from(characters.len()).unwrap_or(0);
    if limit == 0 {
        return Err(Issue::new(format!("rand: no character is in the set {class:?}")));
    }
    let mut result = String::new();
    for _ in 0..length {
        let position = usize::try_from(below(source, limit)?).unwrap_or(0);
        result.extend(characters.get(position));
    }
    Ok(Value::string(result))
}
