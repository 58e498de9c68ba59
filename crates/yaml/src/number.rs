//! Go's `%g` with the shortest digits, which is how floats become text in keys, names and YAML output.

/// The shortest text that reads back as the same double, in Go's `%g` layout: exponent form below 1e-4 and
/// from 1e6 on (`blueprints.md` 5.5.1).
pub fn format_g64(value: f64) -> String {
    layout_g(&format!("{value:e}"), value.is_nan(), value.is_infinite(), value.is_sign_negative())
}

/// The same with the digits of single precision, which is what keys and names get (`blueprints.md` 5.1, 12).
pub fn format_g32(value: f64) -> String {
    // Rounding to single precision is the rule itself here, not an accident.
    #[allow(clippy::cast_possible_truncation)]
    let single = value as f32;
    layout_g(&format!("{single:e}"), single.is_nan(), single.is_infinite(), single.is_sign_negative())
}

/// Lays out Rust's `d.ddde<exp>` (shortest digits) the way Go's `%g` does.
fn layout_g(scientific: &str, nan: bool, infinite: bool, negative: bool) -> String {
    if nan {
        return ".nan".to_owned();
    }
    if infinite {
        return if negative { "-.inf" } else { ".inf" }.to_owned();
    }
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    if !(-4..6).contains(&exponent) {
        let exponent_sign = if exponent < 0 { '-' } else { '+' };
        return format!("{sign}{mantissa}e{exponent_sign}{:02}", exponent.unsigned_abs());
    }
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    // In this branch the exponent is in -4..6, so both casts below keep the value.
    if exponent < 0 {
        let zeros = "0".repeat(exponent.unsigned_abs() as usize - 1);
        return format!("{sign}0.{zeros}{digits}");
    }
    let whole_len = exponent.unsigned_abs() as usize + 1;
    if digits.len() <= whole_len {
        let zeros = "0".repeat(whole_len - digits.len());
        format!("{sign}{digits}{zeros}")
    } else {
        let (whole, fraction) = digits.split_at(whole_len);
        format!("{sign}{whole}.{fraction}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn double_precision_layout() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (0.1, "0.1"),
            (1.5, "1.5"),
            (100_000.0, "100000"),
            (999_999.0, "999999"),
            (1_000_000.0, "1e+06"),
            (1_234_567.5, "1.2345675e+06"),
            (123_456.5, "123456.5"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1e20, "1e+20"),
            (1e100, "1e+100"),
        ] {
            assert_eq!(format_g64(value), text);
        }
    }

    /// The texts of `blueprints.md` 5.1 step 6.
    #[test]
    fn single_precision_layout() {
        for (value, text) in
            [(1.1, "1.1"), (1000.0, "1000"), (1e6, "1e+06"), (12_345_678.5, "1.2345678e+07"), (1.0, "1")]
        {
            assert_eq!(format_g32(value), text);
        }
    }
}
