//! Floats as text in keys, names and YAML output: Go's `%g` with the shortest digits, and YAML's
//! own names.

use groundwork_go::strconv;

/// Returns the shortest text that reads back as the same double, in Go's `%g` layout: exponent form
/// below 1e-4 and from 1e6 on (`blueprints.md` 5.5.1).
pub fn format_g64(value: f64) -> String {
    name(value).map_or_else(|| strconv::format_g(value), str::to_owned)
}

/// Returns the text with the digits of single precision, which keys and names have (`blueprints.md`
/// 5.1, 12).
pub fn format_g32(value: f64) -> String {
    // The loss of precision is intended: the Go tools round to single precision here.
    #[allow(clippy::cast_possible_truncation)]
    let single = value as f32;
    name(f64::from(single)).map_or_else(|| strconv::format_g32(single), str::to_owned)
}

/// Returns YAML's name of a value without digits, such as infinity.
fn name(value: f64) -> Option<&'static str> {
    match value {
        _ if value.is_nan() => Some(".nan"),
        f64::INFINITY => Some(".inf"),
        f64::NEG_INFINITY => Some("-.inf"),
        _ => None,
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
            (999_999.0, "999999"),
            (1_000_000.0, "1e+06"),
            (123_456.5, "123456.5"),
            (0.00001, "1e-05"),
            (4_503_599_627_370_496.5, "4.503599627370496e+15"),
            (f64::INFINITY, ".inf"),
            (f64::NEG_INFINITY, "-.inf"),
            (f64::NAN, ".nan"),
        ] {
            assert_eq!(format_g64(value), text);
        }
    }

    /// The texts of `blueprints.md` 5.1 step 6.
    #[test]
    fn single_precision_layout() {
        for (value, text) in [
            (1.1, "1.1"),
            (1000.0, "1000"),
            (1e6, "1e+06"),
            (12_345_678.5, "1.2345678e+07"),
            (1.0, "1"),
            (1e300, ".inf"),
        ] {
            assert_eq!(format_g32(value), text);
        }
    }
}
