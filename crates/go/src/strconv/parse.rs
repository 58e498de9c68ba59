//! Go's number syntax: integers with base prefixes, floats with underscores and hexadecimal
//! mantissas.

/// Converts a float. NaN and everything out of range give the minimum `i64`, as on amd64
/// (`gotemplate.md` 14).
pub fn float_to_i64(f: f64) -> i64 {
    const TWO_POW_63: f64 = 9_223_372_036_854_775_808.0;
    if (-TWO_POW_63..TWO_POW_63).contains(&f) { f as i64 } else { i64::MIN }
}

/// Go's `strconv.ParseUint(text, 0, 64)`.
pub fn parse_uint(text: &[u8]) -> Option<u64> {
    let (digits, radix) = match text {
        [b'0', b'x' | b'X', digits @ ..] => (digits, 16),
        [b'0', b'b' | b'B', digits @ ..] => (digits, 2),
        [b'0', b'o' | b'O', digits @ ..] => (digits, 8),
        [b'0', digits @ ..] if !digits.is_empty() => (digits, 8),
        digits => (digits, 10),
    };
    if digits.contains(&b'_') && !underscores_separate_digits(text) {
        return None;
    }
    let mut value: Option<u64> = None;
    for &b in digits.iter().filter(|&&b| b != b'_') {
        let digit = char::from(b).to_digit(radix)?;
        let shifted = value.unwrap_or(0).checked_mul(u64::from(radix))?;
        value = Some(shifted.checked_add(u64::from(digit))?);
    }
    value
}

/// Go's `strconv.ParseInt(text, 0, 64)`.
pub fn parse_int(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let magnitude = parse_uint(digits)?;
    if negative {
        (magnitude <= 1 << 63).then(|| magnitude.wrapping_neg().cast_signed())
    } else {
        i64::try_from(magnitude).ok()
    }
}

/// Checks that underscores separate digits, or follow a base prefix.
fn underscores_separate_digits(text: &[u8]) -> bool {
    let body = match text {
        [b'+' | b'-', rest @ ..] => rest,
        rest => rest,
    };
    let (body, hex) = match body {
        [b'0', b'x' | b'X', rest @ ..] => (rest, true),
        [b'0', b'b' | b'B' | b'o' | b'O', rest @ ..] => (rest, false),
        rest => return separate(rest, false, b'^'),
    };
    separate(body, hex, b'0')
}

fn separate(body: &[u8], hex: bool, mut last: u8) -> bool {
    for &b in body {
        let is_digit = b.is_ascii_digit() || (hex && b.is_ascii_hexdigit());
        last = match (b, last) {
            _ if is_digit => b'0',
            (b'_', b'0') => b'_',
            (b'_', _) | (_, b'_') => return false,
            _ => b'!',
        };
    }
    last != b'_'
}

/// Go's `strconv.ParseFloat(text, 64)`; an overflow is a failure.
pub fn parse_float(text: &[u8]) -> Option<f64> {
    let (negative, body) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let sign = if negative { -1.0 } else { 1.0 };
    if body.first().is_some_and(|b| b.is_ascii_digit() || *b == b'.') {
        // Most numbers have neither underscores nor the hexadecimal prefix, and need no copy.
        if let Some(value) = std::str::from_utf8(body).ok().and_then(|text| text.parse::<f64>().ok()) {
            return value.is_finite().then_some(sign * value);
        }
        if !body.iter().any(|b| matches!(b, b'_' | b'x' | b'X')) {
            return None;
        }
    }
    let magnitude = match body.to_ascii_lowercase().as_slice() {
        b"inf" | b"infinity" => f64::INFINITY,
        b"nan" if text.len() == 3 => return Some(f64::NAN),
        lower => {
            if lower.contains(&b'_') && !underscores_separate_digits(lower) {
                return None;
            }
            let plain: String = lower.iter().filter(|&&b| b != b'_').map(|&b| char::from(b)).collect();
            let value = match plain.strip_prefix("0x") {
                Some(hex) => parse_hex_float(hex)?,
                None if lower.first().is_some_and(|b| b.is_ascii_digit() || *b == b'.') => {
                    plain.parse().ok()?
                }
                None => return None,
            };
            if value.is_infinite() {
                return None;
            }
            value
        }
    };
    Some(sign * magnitude)
}

/// Parses a hexadecimal mantissa with a mandatory binary exponent, rounded to nearest even.
fn parse_hex_float(text: &str) -> Option<f64> {
    let (mantissa, exponent) = text.split_once('p')?;
    let mut exponent: i64 = parse_exponent(exponent)?;
    let mut value: u128 = 0;
    let (mut digits, mut seen_point) = (0, false);
    for c in mantissa.chars() {
        if c == '.' && !seen_point {
            seen_point = true;
            continue;
        }
        let digit = c.to_digit(16)?;
        digits += 1;
        if value >> 120 == 0 {
            value = value << 4 | u128::from(digit);
            exponent -= if seen_point { 4 } else { 0 };
        } else {
            // These digits are beyond the precision. For rounding it matters only whether one of
            // them is not zero.
            value |= u128::from(digit != 0);
            exponent += if seen_point { 0 } else { 4 };
        }
    }
    (digits > 0).then(|| scale(value, exponent))
}

fn parse_exponent(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let valid = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    valid.then(|| text.parse().unwrap_or(if text.starts_with('-') { -100_000 } else { 100_000 }))
}

/// Returns `value * 2^exponent`, rounded once.
fn scale(value: u128, exponent: i64) -> f64 {
    if value == 0 {
        return 0.0;
    }
    let bits = 128 - i64::from(value.leading_zeros());
    // The lowest bit that the result can represent: 53 significant bits, fewer for subnormal
    // numbers.
    let lowest = (exponent + bits - 53).max(-1074);
    let drop = lowest - exponent;
    let rounded = if drop <= 0 {
        value << (-drop).min(127)
    } else if drop > 127 {
        0
    } else {
        let (kept, rest, half) = (value >> drop, value & ((1 << drop) - 1), 1u128 << (drop - 1));
        kept + u128::from(rest > half || (rest == half && kept & 1 == 1))
    };
    if lowest > 1023 {
        return f64::INFINITY;
    }
    // Two exact factors, because one power of two alone may be out of range.
    let half = lowest / 2;
    rounded as f64 * 2f64.powi(half as i32) * 2f64.powi((lowest - half) as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_follow_their_prefix() {
        let check =
            |text: &str, expected: Option<i64>| assert_eq!(parse_int(text.as_bytes()), expected, "{text}");
        check("0x1F", Some(31));
        check("010", Some(8));
        check("0o17", Some(15));
        check("0b11", Some(3));
        check("1_000", Some(1000));
        check("0_7", Some(7));
        check("0x_1F", Some(31));
        check("-9223372036854775808", Some(i64::MIN));
        for bad in ["", "-", "09", "1__0", "_1", "1_", "9223372036854775808", "0x", "1e3", " 3", "3.0"] {
            check(bad, None);
        }
    }

    #[test]
    fn floats_follow_the_go_syntax() {
        let check =
            |text: &str, expected: Option<f64>| assert_eq!(parse_float(text.as_bytes()), expected, "{text}");
        check("1.5", Some(1.5));
        check(".5", Some(0.5));
        check("1.", Some(1.0));
        check("1E3", Some(1000.0));
        check("1_0.5", Some(10.5));
        check("-1_0.5", Some(-10.5));
        check("-1.5", Some(-1.5));
        check("0X1P-2", Some(0.25));
        check("0x1p-2", Some(0.25));
        check("0x1.8p+1", Some(3.0));
        check("0x1.fffffffffffffp1023", Some(f64::MAX));
        check("0x1p-1074", Some(5e-324));
        check("-Inf", Some(f64::NEG_INFINITY));
        for bad in [
            "", "1e400", "-1e400", "1_0e400", "10.0.0.1", "1,5", "+-1", "0x1", "1__0.5", "e5", "1.5x", ".",
            "0x1p", "infx",
        ] {
            check(bad, None);
        }
    }

    #[test]
    fn float_to_integer_overflows_to_the_minimum() {
        assert_eq!(float_to_i64(-2.9), -2);
        assert_eq!(float_to_i64(1e300), i64::MIN);
        assert_eq!(float_to_i64(f64::NAN), i64::MIN);
    }
}
