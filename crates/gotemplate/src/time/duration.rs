//! Go durations: their text, and reading it.

use super::{SECOND, quote};

/// The text of so many nanoseconds, such as `1h2m3.5s`.
pub(crate) fn text(nanoseconds: i64) -> String {
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let rest = nanoseconds.unsigned_abs();
    let second = SECOND.unsigned_abs();
    if rest == 0 {
        return "0s".to_owned();
    }
    if rest < second {
        let (digits, unit) = match rest {
            0..1_000 => (0, "ns"),
            1_000..1_000_000 => (3, "µs"),
            _ => (6, "ms"),
        };
        return format!("{sign}{}{unit}", with_fraction(rest, digits));
    }
    let seconds = format!("{}s", with_fraction(rest % (60 * second), 9));
    match (rest / second / 3_600, rest / second / 60 % 60) {
        (0, 0) => format!("{sign}{seconds}"),
        (0, minutes) => format!("{sign}{minutes}m{seconds}"),
        (hours, minutes) => format!("{sign}{hours}h{minutes}m{seconds}"),
    }
}

/// A number whose last `digits` digits are its fraction, without trailing zeros.
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
/// The message of the original.
pub(crate) fn parse(source: &[u8]) -> Result<i64, String> {
    let invalid = || format!("time: invalid duration {}", quote(source));
    let (negative, mut rest) = match source {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    if rest == b"0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (whole, after_whole) = digits(rest);
        let (fraction, after) = match after_whole {
            [b'.', tail @ ..] => digits(tail),
            _ => (&b""[..], after_whole),
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(invalid());
        }
        let length = after.iter().take_while(|b| **b != b'.' && !b.is_ascii_digit()).count();
        let (name, tail) = after.split_at(length);
        if name.is_empty() {
            return Err(format!("time: missing unit in duration {}", quote(source)));
        }
        let unit = unit(name)
            .ok_or_else(|| format!("time: unknown unit {} in duration {}", quote(name), quote(source)))?;
        let part = scaled(whole, fraction, unit).ok_or_else(invalid)?;
        total = total.checked_add(part).filter(|total| *total <= 1 << 63).ok_or_else(invalid)?;
        rest = tail;
    }
    if negative {
        return Ok(0_i64.wrapping_sub_unsigned(total));
    }
    i64::try_from(total).map_err(|_| invalid())
}

fn digits(text: &[u8]) -> (&[u8], &[u8]) {
    text.split_at(text.iter().take_while(|b| b.is_ascii_digit()).count())
}

/// Nanoseconds of a unit.
fn unit(name: &[u8]) -> Option<u64> {
    let second = SECOND.unsigned_abs();
    Some(match std::str::from_utf8(name).ok()? {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => second,
        "m" => 60 * second,
        "h" => 3_600 * second,
        _ => return None,
    })
}

fn scaled(whole: &[u8], fraction: &[u8], unit: u64) -> Option<u64> {
    let number = |digits: &[u8]| {
        digits.iter().try_fold(0_u64, |number, digit| {
            let number = number.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
            (number <= 1 << 63).then_some(number)
        })
    };
    let whole = number(whole)?.checked_mul(unit).filter(|whole| *whole <= 1 << 63)?;
    // Digits that no longer fit are below a nanosecond.
    let fraction = &fraction[..fraction.len().min(18)];
    let scale = 10_f64.powi(i32::try_from(fraction.len()).unwrap_or(0));
    let part = number(fraction)? as f64 * (unit as f64 / scale);
    whole.checked_add(part as u64).filter(|sum| *sum <= 1 << 63)
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(parse(source.as_bytes()), expected.map_err(str::to_owned), "{source}");
        }
    }
}
