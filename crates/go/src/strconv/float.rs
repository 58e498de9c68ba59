//! Floats in the layouts of Go's `strconv.FormatFloat` (`gotemplate.md` 7.1 and 7.2) and
//! `encoding/json` (`gotemplate.md` 12.6).

use std::io::Write;

use smallvec::SmallVec;

/// Decimal exponent from which on the shortest digits are written in exponent form.
const EXPONENT_FROM: i32 = 6;

/// The layouts of floats. Callers turn letters into capitals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FloatVerb {
    /// `%e`.
    Exponent,
    /// `%f`.
    Decimal,
    /// `%g`. Without precision, exponent form begins at the given decimal exponent.
    General { exponent_from: i32 },
    /// `%b`: decimal mantissa and binary exponent.
    Binary,
    /// `%x`: hexadecimal mantissa and binary exponent.
    Hexadecimal,
}

impl FloatVerb {
    /// The layout of `%v` and `%g`.
    pub const GENERAL: FloatVerb = FloatVerb::General { exponent_from: EXPONENT_FROM };
}

/// Largest number of decimals of a double; further ones are zeros.
const MAX_DECIMALS: usize = 1074;

/// Smallest number of digits of a double at which two equally short texts may be equally near and
/// both read back.
const LEAST_TIE: usize = 16;
const LEAST_TIE_32: usize = 8;

/// Appends the float. Without a precision, the shortest digits that read back are written.
pub fn append_float(out: &mut Vec<u8>, f: f64, verb: FloatVerb, precision: Option<usize>) {
    if f.is_nan() {
        return out.extend_from_slice(b"NaN");
    }
    if f.is_infinite() {
        return out.extend_from_slice(if f > 0.0 { b"+Inf" } else { b"-Inf" });
    }
    if f.is_sign_negative() {
        out.push(b'-');
    }
    let f = f.abs();
    match (verb, precision) {
        (FloatVerb::Decimal, Some(precision)) if append_fixed(out, f, precision).is_some() => {}
        (FloatVerb::Decimal, Some(precision)) => {
            let exact = precision.min(MAX_DECIMALS);
            append(out, format_args!("{f:.exact$}"));
            out.resize(out.len() + (precision - exact), b'0');
        }
        (FloatVerb::Decimal, None) => append_plain(out, &Digits::shortest(f)),
        (FloatVerb::Exponent, Some(precision)) => {
            let digits = Digits::rounded(f, precision.min(MAX_DECIMALS) + 1);
            append_exponent_form(out, &digits, precision);
        }
        (FloatVerb::Exponent, None) => {
            let digits = Digits::shortest(f);
            append_exponent_form(out, &digits, digits.len() - 1);
        }
        (FloatVerb::General { exponent_from }, precision) => append_general(out, f, exponent_from, precision),
        (FloatVerb::Binary, _) => {
            let (mantissa, exponent) = decompose(f);
            append(out, format_args!("{mantissa}p{exponent:+}"));
        }
        (FloatVerb::Hexadecimal, precision) => append_hexadecimal(out, f, precision),
    }
}

/// Formats as `strconv.FormatFloat(f, 'g', -1, 64)`: `3`, `0.1`, `1e+06`, `+Inf`, `NaN`. The
/// exponent form begins where `%v` and the writers of YAML begin it.
pub fn format_g(f: f64) -> String {
    let mut out = Vec::with_capacity(24);
    append_float(&mut out, f, FloatVerb::GENERAL, None);
    ascii(out)
}

/// Formats as [`format_g`], with the digits of single precision.
pub fn format_g32(f: f32) -> String {
    if !f.is_finite() || f == 0.0 {
        return format_g(f64::from(f));
    }
    let mut out = Vec::with_capacity(24);
    if f.is_sign_negative() {
        out.push(b'-');
    }
    append_shortest(&mut out, &Digits::shortest32(f.abs()), EXPONENT_FROM);
    ascii(out)
}

/// Appends a finite float as `encoding/json` writes it: with an exponent only below 1e-6 and from
/// 1e21 on, of one digit if one is enough.
pub fn append_json(out: &mut Vec<u8>, f: f64) {
    if f == 0.0 || (1e-6..1e21).contains(&f.abs()) {
        return append_float(out, f, FloatVerb::Decimal, None);
    }
    append_float(out, f, FloatVerb::Exponent, None);
    if let [.., b'e', b'-', b'0', digit] = out[..] {
        out.truncate(out.len() - 2);
        out.push(digit);
    }
}

/// Returns the text that [`append_json`] appends.
pub fn format_json(f: f64) -> String {
    let mut out = Vec::with_capacity(24);
    append_json(&mut out, f);
    ascii(out)
}

fn ascii(digits: Vec<u8>) -> String {
    String::from_utf8(digits).expect("digits, points, signs and letters of numbers are ASCII")
}

/// Appends fixed decimals by exact arithmetic in 128 bits, for the usual sizes. This is much faster
/// than the general way.
fn append_fixed(out: &mut Vec<u8>, f: f64, precision: usize) -> Option<()> {
    let (mantissa, exponent) = decompose(f);
    let decimals = u32::try_from(precision).ok().filter(|decimals| *decimals <= 15)?;
    let shift = u32::try_from(-exponent).ok().filter(|shift| *shift < 127)?;
    let scaled = u128::from(mantissa) * u128::from(10_u64.pow(decimals));
    let (whole, rest, half) = (scaled >> shift, scaled & ((1 << shift) - 1), (1_u128 << shift) >> 1);
    let rounds_up = rest > half || (rest == half && shift > 0 && whole & 1 == 1);
    let mut whole = u64::try_from(whole).ok()? + u64::from(rounds_up);
    let mut digits = [b'0'; 24];
    let mut at = digits.len();
    // There is at least one digit before the point.
    while whole > 0 || digits.len() - at <= precision {
        at -= 1;
        digits[at] = b'0' + (whole % 10) as u8;
        whole /= 10;
    }
    let (front, back) = digits[at..].split_at(digits.len() - at - precision);
    out.extend_from_slice(front);
    if precision > 0 {
        out.push(b'.');
        out.extend_from_slice(back);
    }
    Some(())
}

fn append(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    // Writing to a vector cannot fail.
    let _ = out.write_fmt(text);
}

fn append_general(out: &mut Vec<u8>, f: f64, exponent_from: i32, precision: Option<usize>) {
    let Some(precision) = precision else {
        return append_shortest(out, &Digits::shortest(f), exponent_from);
    };
    let digits = Digits::rounded(f, precision.clamp(1, MAX_DECIMALS)).without_trailing_zeros();
    let point = digits.exponent + 1;
    let count = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    let precision = i32::try_from(precision.max(1)).unwrap_or(i32::MAX);
    let exponent_from = if precision > count && count >= point { count } else { precision };
    append_shortest(out, &digits, exponent_from);
}

/// Appends exactly these digits: in exponent form if the exponent is below -4 or at least
/// `exponent_from`, otherwise in plain form.
fn append_shortest(out: &mut Vec<u8>, digits: &Digits, exponent_from: i32) {
    if digits.exponent < -4 || digits.exponent >= exponent_from {
        append_exponent_form(out, digits, digits.len() - 1);
    } else {
        append_plain(out, digits);
    }
}

/// Decimal digits `d.ddd * 10^exponent` of a finite, non-negative float.
struct Digits {
    digits: SmallVec<[u8; 24]>,
    exponent: i32,
}

impl Digits {
    fn shortest(f: f64) -> Digits {
        let digits = Digits::parse(format_args!("{f:e}"));
        if digits.len() < LEAST_TIE {
            return digits;
        }
        // If two equally short texts are equally near, Go takes the one with the even digit.
        let even = Digits::rounded(f, digits.len());
        if even.value() == Some(f) { even } else { digits }
    }

    fn shortest32(f: f32) -> Digits {
        let digits = Digits::parse(format_args!("{f:e}"));
        if digits.len() < LEAST_TIE_32 {
            return digits;
        }
        let even = Digits::rounded(f64::from(f), digits.len());
        if even.value() == Some(f) { even } else { digits }
    }

    /// Parses the digits as a number.
    fn value<F: std::str::FromStr>(&self) -> Option<F> {
        let digits = std::str::from_utf8(&self.digits).ok()?;
        let (first, rest) = digits.split_at_checked(1)?;
        format!("{first}.{rest}e{}", self.exponent).parse().ok()
    }

    /// Returns the float, correctly rounded to `count` digits.
    fn rounded(f: f64, count: usize) -> Digits {
        let decimals = count - 1;
        Digits::parse(format_args!("{f:.decimals$e}"))
    }

    fn parse(text: std::fmt::Arguments<'_>) -> Digits {
        let mut written =
            Scientific { digits: SmallVec::new(), exponent: SmallVec::new(), in_exponent: false };
        // `Scientific` accepts every text, so this cannot fail.
        let _ = std::fmt::Write::write_fmt(&mut written, text);
        let exponent = std::str::from_utf8(&written.exponent).ok().and_then(|text| text.parse().ok());
        Digits { digits: written.digits, exponent: exponent.unwrap_or(0) }
    }

    fn len(&self) -> usize {
        self.digits.len()
    }

    fn without_trailing_zeros(mut self) -> Digits {
        while self.digits.len() > 1 && self.digits.last() == Some(&b'0') {
            self.digits.pop();
        }
        self
    }

    fn as_bytes(&self) -> &[u8] {
        &self.digits
    }
}

/// A writer that splits a number in scientific notation into digits and exponent, without a text in
/// between.
struct Scientific {
    digits: SmallVec<[u8; 24]>,
    exponent: SmallVec<[u8; 8]>,
    in_exponent: bool,
}

impl std::fmt::Write for Scientific {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        for b in text.bytes() {
            match b {
                b'e' => self.in_exponent = true,
                _ if self.in_exponent => self.exponent.push(b),
                b'0'..=b'9' => self.digits.push(b),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Appends `d.ddde±XX` with the given number of decimals, filled up with zeros.
fn append_exponent_form(out: &mut Vec<u8>, digits: &Digits, decimals: usize) {
    let (first, rest) = digits.as_bytes().split_at(1);
    out.extend_from_slice(first);
    if decimals > 0 {
        out.push(b'.');
        out.extend_from_slice(rest);
        out.resize(out.len() + decimals.saturating_sub(rest.len()), b'0');
    }
    append_exponent(out, b'e', digits.exponent);
}

/// Appends a signed exponent of at least two digits.
fn append_exponent(out: &mut Vec<u8>, mark: u8, exponent: i32) {
    let sign = if exponent < 0 { '-' } else { '+' };
    append(out, format_args!("{}{sign}{:02}", char::from(mark), exponent.unsigned_abs()));
}

/// Appends exactly these digits in plain decimal notation.
fn append_plain(out: &mut Vec<u8>, digits: &Digits) {
    let text = digits.as_bytes();
    let Ok(point) = usize::try_from(digits.exponent + 1) else {
        return append_fraction(out, text, digits.exponent.unsigned_abs() as usize - 1);
    };
    if point == 0 {
        return append_fraction(out, text, 0);
    }
    if text.len() <= point {
        out.extend_from_slice(text);
        out.resize(out.len() + point - text.len(), b'0');
    } else {
        out.extend_from_slice(&text[..point]);
        out.push(b'.');
        out.extend_from_slice(&text[point..]);
    }
}

fn append_fraction(out: &mut Vec<u8>, digits: &[u8], zeros: usize) {
    out.extend_from_slice(b"0.");
    out.resize(out.len() + zeros, b'0');
    out.extend_from_slice(digits);
}

/// Returns mantissa and exponent with `f = mantissa * 2^exponent`.
fn decompose(f: f64) -> (u64, i32) {
    let bits = f.to_bits();
    let fraction = bits & ((1 << 52) - 1);
    match (bits >> 52) & 0x7ff {
        0 => (fraction, -1074),
        biased => (fraction | 1 << 52, biased as i32 - 1075),
    }
}

fn append_hexadecimal(out: &mut Vec<u8>, f: f64, precision: Option<usize>) {
    let (mut mantissa, mut exponent) = decompose(f);
    if mantissa == 0 {
        exponent = 0;
    } else {
        let shift = mantissa.leading_zeros() - 11;
        mantissa <<= shift;
        exponent += 52 - shift as i32;
    }
    // A double has one leading digit and 13 hexadecimal decimals.
    let decimals = match precision {
        Some(precision) if precision < 13 => {
            let drop = 4 * (13 - precision);
            let (rest, half) = (mantissa & ((1 << drop) - 1), 1u64 << (drop - 1));
            mantissa >>= drop;
            mantissa += u64::from(rest > half || (rest == half && mantissa & 1 == 1));
            mantissa <<= drop;
            if mantissa >> 53 != 0 {
                mantissa >>= 1;
                exponent += 1;
            }
            precision
        }
        Some(precision) => precision,
        None => 13 - (mantissa.trailing_zeros() as usize / 4).min(13),
    };
    append(out, format_args!("0x{}", mantissa >> 52));
    if decimals > 0 {
        out.push(b'.');
        let shown = decimals.min(13);
        append(out, format_args!("{:0shown$x}", (mantissa & ((1 << 52) - 1)) >> (4 * (13 - shown))));
        out.resize(out.len() + decimals - shown, b'0');
    }
    append_exponent(out, b'p', exponent);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(f: f64, verb: FloatVerb, precision: Option<usize>) -> String {
        let mut out = Vec::new();
        append_float(&mut out, f, verb, precision);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn default_format_follows_the_float_rule() {
        let check = |f: f64, expected: &str| {
            assert_eq!(text(f, FloatVerb::GENERAL, None), expected);
            assert_eq!(format_g(f), expected);
        };
        check(0.0, "0");
        check(0.1, "0.1");
        check(-1.5, "-1.5");
        check(123_456.5, "123456.5");
        check(1_234_567.5, "1.2345675e+06");
        check(1.5e-7, "1.5e-07");
        check(1e8, "1e+08");
        check(1e21, "1e+21");
        check(1e300, "1e+300");
        check(f64::INFINITY, "+Inf");
        check(f64::NEG_INFINITY, "-Inf");
        check(f64::NAN, "NaN");
        check(100000.0, "100000");
        check(999999.0, "999999");
        check(1000000.0, "1e+06");
        check(1234567.0, "1.234567e+06");
        check(123456789.0, "1.23456789e+08");
        check(12345678.9, "1.23456789e+07");
        check(0.0001, "0.0001");
        check(0.00001, "1e-05");
        check(1e20, "1e+20");
        check(3.0, "3");
        check(-0.0, "-0");
        check(9007199254740992.0, "9.007199254740992e+15");
        check(1e100, "1e+100");
    }

    /// Case: of two texts of the same length that both read back, Go takes the one with the even
    /// digit.
    #[test]
    fn ties_go_to_the_even_digit() {
        for (f, expected) in [
            (4_503_599_627_370_496.5, "4.503599627370496e+15"),
            (4_503_599_627_370_497.5, "4.503599627370498e+15"),
            (1_125_899_906_842_624.125, "1.125899906842624e+15"),
            (1_125_899_906_842_624.5, "1.1258999068426245e+15"),
            (9_007_199_254_740_993e3, "9.007199254740993e+18"),
            (1e23, "1e+23"),
            (5e-324, "5e-324"),
        ] {
            assert_eq!(format_g(f), expected);
        }
        for (quarters, expected) in [(8_388_609.0_f32, "2.0971522e+06"), (8_388_611.0, "2.0971528e+06")] {
            assert_eq!(format_g32(quarters / 4.0), expected);
        }
    }

    #[test]
    fn single_precision_has_its_own_digits() {
        for (f, expected) in [
            (1.1_f32, "1.1"),
            (1000.0, "1000"),
            (1e6, "1e+06"),
            (12_345_678.5, "1.2345678e+07"),
            (-0.0, "-0"),
            (-2.5, "-2.5"),
            (f32::INFINITY, "+Inf"),
            (f32::NAN, "NaN"),
        ] {
            assert_eq!(format_g32(f), expected);
        }
    }

    #[test]
    fn json_has_exponents_at_the_ends_only() {
        for (f, expected) in [
            (1e21, "1e+21"),
            (1e-7, "1e-7"),
            (1.5e-10, "1.5e-10"),
            (1e20, "100000000000000000000"),
            (0.000_001, "0.000001"),
            (3.0, "3"),
            (-0.5, "-0.5"),
            (-0.0, "-0"),
            (1_125_899_906_842_624.125, "1125899906842624"),
            (1e300, "1e+300"),
        ] {
            assert_eq!(format_json(f), expected);
        }
    }

    #[test]
    fn data_numbers_use_the_exponent_from_21() {
        let check = |f: f64, expected: &str| {
            assert_eq!(text(f, FloatVerb::General { exponent_from: 21 }, None), expected);
        };
        check(12345678.9, "12345678.9");
        check(1e20, "100000000000000000000");
        check(1e21, "1e+21");
        check(0.00001, "1e-05");
    }

    #[test]
    fn precision_rounds_half_to_even_on_the_exact_value() {
        let decimal = |f: f64| text(f, FloatVerb::Decimal, Some(0));
        assert_eq!([decimal(0.5), decimal(1.5), decimal(2.5)], ["0", "2", "2"]);
        assert_eq!(text(1234.5, FloatVerb::Exponent, Some(6)), "1.234500e+03");
        assert_eq!(text(0.0, FloatVerb::Exponent, Some(2)), "0.00e+00");
        assert_eq!(text(100000.0, FloatVerb::GENERAL, Some(3)), "1e+05");
        assert_eq!(text(100.0, FloatVerb::GENERAL, Some(3)), "100");
        assert_eq!(text(1234567.0, FloatVerb::GENERAL, Some(20)), "1234567");
        assert_eq!(text(1.0, FloatVerb::Decimal, Some(1080)).len(), 1082);
        // The fast and the general way to fixed decimals agree.
        for f in
            [0.0, 0.005, 0.015, 0.5, 1.005, 2.675, 99.995, 1e-9, 123456789.125, 1e15, 1e18, 1e22, 5e-324, 1.5]
        {
            for precision in 0..16 {
                assert_eq!(text(f, FloatVerb::Decimal, Some(precision)), format!("{f:.precision$}"), "{f}");
            }
        }
    }

    #[test]
    fn binary_and_hexadecimal_forms() {
        assert_eq!(text(1.5, FloatVerb::Binary, None), "6755399441055744p-52");
        assert_eq!(text(1.5, FloatVerb::Hexadecimal, None), "0x1.8p+00");
        assert_eq!(text(0.0, FloatVerb::Hexadecimal, None), "0x0p+00");
        assert_eq!(text(1.999, FloatVerb::Hexadecimal, Some(1)), "0x1.0p+01");
        assert_eq!(text(1.0, FloatVerb::Hexadecimal, Some(3)), "0x1.000p+00");
    }
}
