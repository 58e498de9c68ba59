//! Durations as Go's `time.Duration` prints and reads them.

use std::fmt;

/// Nanoseconds per second.
const SECOND: u64 = 1_000_000_000;
/// Nanoseconds of the longest duration. Only a negative one can have this many.
const LARGEST: u64 = 1 << 63;

/// The reason why a text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DurationError {
    source: Vec<u8>,
    kind: DurationErrorKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum DurationErrorKind {
    Syntax,
    Overflow,
    NoUnit,
    UnknownUnit(Vec<u8>),
}

impl DurationError {
    /// Reports whether the text is a duration, but one beyond 292 years.
    pub fn is_too_long(&self) -> bool {
        self.kind == DurationErrorKind::Overflow
    }
}

/// The message of Go's `time.ParseDuration`.
impl fmt::Display for DurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = quote(&self.source);
        match &self.kind {
            DurationErrorKind::Syntax | DurationErrorKind::Overflow => {
                write!(f, "time: invalid duration {source}")
            }
            DurationErrorKind::NoUnit => write!(f, "time: missing unit in duration {source}"),
            DurationErrorKind::UnknownUnit(unit) => {
                write!(f, "time: unknown unit {} in duration {source}", quote(unit))
            }
        }
    }
}

impl std::error::Error for DurationError {}

/// Returns the text of this many nanoseconds, such as `1h2m3.5s`.
pub fn text(nanoseconds: i64) -> String {
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let rest = nanoseconds.unsigned_abs();
    if rest == 0 {
        return "0s".to_owned();
    }
    if rest < SECOND {
        let (digits, unit) = match rest {
            0..1_000 => (0, "ns"),
            1_000..1_000_000 => (3, "µs"),
            _ => (6, "ms"),
        };
        return format!("{sign}{}{unit}", with_fraction(rest, digits));
    }
    let seconds = format!("{}s", with_fraction(rest % (60 * SECOND), 9));
    match (rest / SECOND / 3_600, rest / SECOND / 60 % 60) {
        (0, 0) => format!("{sign}{seconds}"),
        (0, minutes) => format!("{sign}{minutes}m{seconds}"),
        (hours, minutes) => format!("{sign}{hours}h{minutes}m{seconds}"),
    }
}

/// Formats a number whose last `digits` digits are its fraction, without trailing zeros.
fn with_fraction(number: u64, digits: u32) -> String {
    let scale = 10_u64.pow(digits);
    let fraction = format!("{:0width$}", number % scale, width = digits as usize);
    match fraction.trim_end_matches('0') {
        "" => (number / scale).to_string(),
        fraction => format!("{}.{fraction}", number / scale),
    }
}

/// Reads a duration such as `-1.5h30m`, in nanoseconds.
///
/// # Errors
///
/// The text is not a duration, or the duration is too long.
pub fn parse(source: &[u8]) -> Result<i64, DurationError> {
    let because = |kind| DurationError { source: source.to_vec(), kind };
    let too_long = || because(DurationErrorKind::Overflow);
    let (negative, mut rest) = match source {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    if rest == b"0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(because(DurationErrorKind::Syntax));
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (whole, after_whole) = digits(rest);
        let (fraction, after) = match after_whole {
            [b'.', tail @ ..] => digits(tail),
            _ => (&b""[..], after_whole),
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(because(DurationErrorKind::Syntax));
        }
        let length = after.iter().take_while(|b| **b != b'.' && !b.is_ascii_digit()).count();
        let (name, tail) = after.split_at(length);
        if name.is_empty() {
            return Err(because(DurationErrorKind::NoUnit));
        }
        let unit = unit(name).ok_or_else(|| because(DurationErrorKind::UnknownUnit(name.to_vec())))?;
        let part = scaled(whole, fraction, unit).ok_or_else(too_long)?;
        total = total.checked_add(part).filter(|total| *total <= LARGEST).ok_or_else(too_long)?;
        rest = tail;
    }
    if negative {
        // 2^63 nanoseconds wrap to the smallest i64, which is the longest negative duration.
        return Ok(0_i64.wrapping_sub_unsigned(total));
    }
    i64::try_from(total).map_err(|_| too_long())
}

fn digits(text: &[u8]) -> (&[u8], &[u8]) {
    text.split_at(text.iter().take_while(|b| b.is_ascii_digit()).count())
}

/// Returns the nanoseconds of a unit.
fn unit(name: &[u8]) -> Option<u64> {
    Some(match std::str::from_utf8(name).ok()? {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => SECOND,
        "m" => 60 * SECOND,
        "h" => 3_600 * SECOND,
        _ => return None,
    })
}

/// Returns the nanoseconds of a number with a unit, or `None` if there are too many. The fraction
/// is multiplied with the unit in floating point, as Go does it.
fn scaled(whole: &[u8], fraction: &[u8], unit: u64) -> Option<u64> {
    let whole = whole.iter().try_fold(0, |number, digit| append(number, *digit))?;
    let whole = whole.checked_mul(unit).filter(|whole| *whole <= LARGEST)?;
    // Digits beyond the range of the integer are below a nanosecond, so they are dropped.
    let (mut part, mut scale) = (0, 1.0);
    for digit in fraction {
        let Some(more) = append(part, *digit) else { break };
        part = more;
        scale *= 10.0;
    }
    let part = part as f64 * (unit as f64 / scale);
    whole.checked_add(part as u64).filter(|sum| *sum <= LARGEST)
}

/// Appends a digit to a number.
fn append(number: u64, digit: u8) -> Option<u64> {
    let number = number.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
    (number <= LARGEST).then_some(number)
}

/// Quotes as Go's package `time` does in errors: everything that is not printable ASCII as `\xHH`.
pub fn quote(text: &[u8]) -> String {
    let mut out = String::from("\"");
    for &byte in text {
        match byte {
            b'"' | b'\\' => {
                out.push('\\');
                out.push(char::from(byte));
            }
            b' '..=0x7f => out.push(char::from(byte)),
            _ => out.push_str(&format!("\\x{byte:02x}")),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    #[test]
    fn durations_print_as_in_go() {
        for (nanoseconds, expected) in [
            (0, "0s"),
            (1, "1ns"),
            (1_100, "1.1µs"),
            (2_200_000, "2.2ms"),
            (3_300 * 1_000_000, "3.3s"),
            (245 * SECOND, "4m5s"),
            (245 * SECOND + 1_000_000, "4m5.001s"),
            (18_367 * SECOND + 1_000_000, "5h6m7.001s"),
            (480 * SECOND + 1, "8m0.000000001s"),
            (i64::MAX, "2562047h47m16.854775807s"),
            (i64::MIN, "-2562047h47m16.854775808s"),
        ] {
            assert_eq!(text(nanoseconds), expected);
        }
    }

    #[test]
    fn durations_are_read_as_in_go() {
        for (source, expected) in [
            ("0", Ok(0)),
            ("5s", Ok(5 * SECOND)),
            ("-1.5h", Ok(-5_400 * SECOND)),
            ("+.5m", Ok(30 * SECOND)),
            ("5.s", Ok(5 * SECOND)),
            ("3h30m", Ok(12_600 * SECOND)),
            ("10.5s4m", Ok(250 * SECOND + SECOND / 2)),
            ("52763797000ns", Ok(52_763_797_000)),
            ("-9223372036854775808ns", Ok(i64::MIN)),
            ("", Err(r#"time: invalid duration """#)),
            ("3", Err(r#"time: missing unit in duration "3""#)),
            ("-", Err(r#"time: invalid duration "-""#)),
            (".s", Err(r#"time: invalid duration ".s""#)),
            ("1d", Err(r#"time: unknown unit "d" in duration "1d""#)),
            ("9223372036854775808ns", Err(r#"time: invalid duration "9223372036854775808ns""#)),
            ("bad", Err(r#"time: invalid duration "bad""#)),
            ("1é", Err(r#"time: unknown unit "\xc3\xa9" in duration "1\xc3\xa9""#)),
        ] {
            assert_eq!(
                parse(source.as_bytes()).map_err(|invalid| invalid.to_string()),
                expected.map_err(str::to_owned),
                "{source}"
            );
        }
    }

    /// Case: Go multiplies fractions in floating point, so that long ones are rounded up.
    #[test]
    fn fractions_are_rounded_as_in_go() {
        for (source, expected) in [
            ("0.3333333333333333333h", 1_200 * SECOND),
            ("0.333333333333333333333h", 1_200 * SECOND),
            ("0.9223372036854775807h", 3_320_413_933_267),
            ("0.100000000000000000000h", 360 * SECOND),
            ("9007199254.740993ms", 9_007_199_254_740_993),
            ("1.999999999999999999s", 2 * SECOND),
            ("1.0000000000000000000000001s", SECOND),
            ("-.9999999999999999999h", -3_600 * SECOND),
            ("0.1ns", 0),
        ] {
            assert_eq!(parse(source.as_bytes()), Ok(expected), "{source}");
        }
    }

    #[test]
    fn what_is_too_long_is_told_from_what_is_no_duration() {
        for (source, is_too_long) in [
            ("2562048h", true),
            ("99999999999999999999h", true),
            ("9223372036854775808ns", true),
            ("5", false),
            ("1..5s", false),
        ] {
            assert_eq!(parse(source.as_bytes()).unwrap_err().is_too_long(), is_too_long, "{source}");
        }
    }
}
