//! The function `rand` (`spiff.md` 11.5).

use super::arguments::{count, fits, int};
use super::calling::{Outcome, Source};
use super::patterns::compile;
use crate::issue::Issue;
use crate::value::Value;

/// Numbers of a source, which draws random bytes for several of them at a time.
struct Dice<'s> {
    source: &'s mut dyn Source,
    drawn: Vec<[u8; 8]>,
    /// Numbers that may still be needed.
    count: usize,
}

impl<'s> Dice<'s> {
    /// Random numbers that are drawn at a time, at most.
    const MOST: usize = 512;

    fn new(source: &'s mut dyn Source, count: usize) -> Self {
        Self { source, drawn: Vec::new(), count }
    }

    fn number(&mut self) -> Result<u64, Issue> {
        if self.drawn.is_empty() {
            self.drawn = vec![[0; 8]; self.count.clamp(1, Self::MOST)];
            self.count = self.count.saturating_sub(Self::MOST);
            self.source.fill(self.drawn.as_flattened_mut())?;
        }
        Ok(u64::from_le_bytes(self.drawn.pop().unwrap_or_default()))
    }

    /// Returns a number below `limit`, each with the same probability. `limit` must not be 0.
    fn below(&mut self, limit: u64) -> Result<u64, Issue> {
        let unfair = u64::MAX - u64::MAX % limit;
        loop {
            let number = self.number()?;
            if number < unfair {
                return Ok(number % limit);
            }
        }
    }
}

fn below(source: &mut dyn Source, limit: u64) -> Result<u64, Issue> {
    Dice::new(source, 1).below(limit)
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
    let set = format!("^[{class}]$");
    let mut matching = |range: std::ops::RangeInclusive<char>| -> Result<Vec<char>, Issue> {
        source.pattern(&set, range.clone().count())?;
        let pattern = compile(&set)
            .map_err(|_| Issue::new(format!("invalid rand character set specification {class:?}")))?;
        Ok(range.filter(|c| pattern.regex().is_match(c.encode_utf8(&mut [0; 4]))).collect())
    };
    let mut characters = matching('\0'..='\u{7f}')?;
    if characters.is_empty() {
        characters = matching('\u{80}'..='\u{ffff}')?;
    }
    let limit = u64::try_from(characters.len()).unwrap_or(0);
    if limit == 0 {
        return Err(Issue::new(format!("rand: no character is in the set {class:?}")));
    }
    source.spend(length)?;
    let mut result = String::new();
    let mut dice = Dice::new(source, length);
    for _ in 0..length {
        let position = usize::try_from(dice.below(limit)?).unwrap_or(0);
        result.extend(characters.get(position));
    }
    Ok(Value::string(result))
}
