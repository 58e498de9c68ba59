//! Go's `Sprintf` for the values that `format` knows.

use std::fmt::Write as _;

use super::convert::in_base;
use crate::number::format_g;

/// Widths and precisions beyond this are an error in the output, as in Go.
const LARGEST: usize = 1_000_000;

pub(super) enum Argument {
    Nil,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
}

/// What stands between `%` and the verb.
#[derive(Default, Clone)]
struct Spec {
    minus: bool,
    plus: bool,
    sharp: bool,
    zero: bool,
    blank: bool,
    width: Option<usize>,
    precision: Option<usize>,
}

/// Formats `arguments`; `None`: the result would have more than `limit` bytes.
pub(super) fn printf(format: &str, arguments: &[Argument], limit: usize) -> Option<String> {
    let mut out = String::new();
    let mut arguments =
        Arguments { all: arguments, next: 0, reordered: false, is_good: true, after_index: false };
    let mut rest = format;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        let mut directive = Directive { rest: &rest[at + 1..], spec: Spec::default() };
        let complaints = directive.read(&mut arguments);
        out.push_str(&complaints);
        let (spec, mut chars) = (directive.spec, directive.rest.chars());
        // Of the width all is filled, of the precision at most as much.
        if out.len() + spec.width.unwrap_or(0) + spec.precision.unwrap_or(0) > limit {
            return None;
        }
        match chars.next() {
            None => out.push_str("%!(NOVERB)"),
            Some('%') => out.push('%'),
            Some(verb) if !arguments.is_good => {
                let _ = write!(out, "%!{verb}(BADINDEX)");
            }
            Some(verb) => match arguments.next() {
                None => {
                    let _ = write!(out, "%!{verb}(MISSING)");
                }
                Some(argument) => one(&mut out, verb, &spec, argument),
            },
        }
        rest = chars.as_str();
        if out.len() > limit {
            return None;
        }
    }
    out.push_str(rest);
    // Who picks arguments by number need not use all of them.
    if !arguments.reordered {
        surplus(&mut out, arguments.all.iter().skip(arguments.next));
    }
    (out.len() <= limit).then_some(out)
}

fn surplus<'a>(out: &mut String, arguments: impl Iterator<Item = &'a Argument>) {
    let mut separator = "%!(EXTRA ";
    for argument in arguments {
        out.push_str(separator);
        separator = ", ";
        if let Argument::Nil = argument {
            out.push_str("<nil>");
        } else {
            let _ = write!(out, "{}=", argument.type_name());
            one(out, 'v', &Spec::default(), argument);
        }
    }
    if separator == ", " {
        out.push(')');
    }
}

/// The arguments, taken in turn or by the number in `[N]`.
struct Arguments<'a> {
    all: &'a [Argument],
    next: usize,
    reordered: bool,
    /// Whether the numbers of the directive in work are ones of arguments.
    is_good: bool,
    /// Whether a number was the last thing read: no width may follow.
    after_index: bool,
}

impl<'a> Arguments<'a> {
    fn next(&mut self) -> Option<&'a Argument> {
        let argument = self.all.get(self.next);
        self.next += usize::from(argument.is_some());
        argument
    }

    /// Reads `[N]` at the start of `text`; the result is what follows it.
    fn index<'t>(&mut self, text: &'t str) -> &'t str {
        let Some(inside) = text.strip_prefix('[') else { return text };
        self.reordered = true;
        let Some((number, rest)) = inside.split_once(']') else {
            self.is_good = false;
            return inside;
        };
        self.after_index = true;
        let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        let position =
            number.parse::<usize>().ok().filter(|_| digits).and_then(|number| number.checked_sub(1));
        match position.filter(|position| *position < self.all.len()) {
            Some(position) => self.next = position,
            None => self.is_good = false,
        }
        rest
    }
}

struct Directive<'a> {
    rest: &'a str,
    spec: Spec,
}

impl Directive<'_> {
    /// Reads flags, width and precision; the result is what Go writes about those that it does not take.
    fn read(&mut self, arguments: &mut Arguments<'_>) -> String {
        let mut complaints = String::new();
        (arguments.is_good, arguments.after_index) = (true, false);
        while let Some(flag) = self.rest.chars().next() {
            match flag {
                '-' => self.spec.minus = true,
                '+' => self.spec.plus = true,
                '#' => self.spec.sharp = true,
                '0' => self.spec.zero = true,
                ' ' => self.spec.blank = true,
                _ => break,
            }
            self.rest = &self.rest[1..];
        }
        self.rest = arguments.index(self.rest);
        if let Some(rest) = self.rest.strip_prefix('*') {
            self.rest = rest;
            arguments.after_index = false;
            match star(arguments) {
                Some(width) => {
                    self.spec.minus |= width < 0;
                    self.spec.width = usize::try_from(width.unsigned_abs()).ok();
                }
                None => complaints.push_str("%!(BADWIDTH)"),
            }
        } else {
            self.spec.width = self.number(&mut complaints);
            arguments.is_good &= !(arguments.after_index && self.spec.width.is_some());
        }
        if let Some(rest) = self.rest.strip_prefix('.') {
            arguments.is_good &= !arguments.after_index;
            arguments.after_index = false;
            self.rest = arguments.index(rest);
            if let Some(rest) = self.rest.strip_prefix('*') {
                self.rest = rest;
                arguments.after_index = false;
                match star(arguments) {
                    Some(precision) => self.spec.precision = usize::try_from(precision).ok(),
                    None => complaints.push_str("%!(BADPREC)"),
                }
            } else {
                self.spec.precision = Some(self.number(&mut complaints).unwrap_or(0));
            }
        }
        if !arguments.after_index {
            self.rest = arguments.index(self.rest);
        }
        // A flag for the left takes the zeros away.
        self.spec.zero &= !self.spec.minus;
        complaints
    }

    fn number(&mut self, complaints: &mut String) -> Option<usize> {
        let end = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
        let (digits, rest) = self.rest.split_at(end);
        self.rest = rest;
        if digits.is_empty() {
            return None;
        }
        let number = digits.parse().ok().filter(|number| *number <= LARGEST);
        if number.is_none() {
            complaints.push_str("%!(BADWIDTH)");
        }
        number
    }
}

fn star(arguments: &mut Arguments<'_>) -> Option<i64> {
    match arguments.next() {
        Some(Argument::Int(number)) => {
            Some(*number).filter(|number| usize::try_from(number.unsigned_abs()).is_ok_and(|n| n <= LARGEST))
        }
        _ => None,
    }
}

impl Argument {
    fn type_name(&self) -> &'static str {
        match self {
            Self::Nil => "<nil>",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int64",
            Self::Float(_) => "float64",
            Self::Text(_) => "string",
        }
    }
}

fn one(out: &mut String, verb: char, spec: &Spec, argument: &Argument) {
    if verb == 'T' {
        return padded(out, spec, argument.type_name());
    }
    let done = match argument {
        Argument::Nil if verb == 'v' => {
            padded(out, spec, "<nil>");
            true
        }
        Argument::Nil => {
            let _ = write!(out, "%!{verb}(<nil>)");
            true
        }
        Argument::Bool(flag) if matches!(verb, 'v' | 't') => {
            padded(out, spec, if *flag { "true" } else { "false" });
            true
        }
        Argument::Bool(_) => false,
        Argument::Int(number) => int(out, verb, spec, *number),
        Argument::Float(number) => float(out, verb, spec, *number),
        Argument::Text(text) => string(out, verb, spec, text),
    };
    if !done {
        let _ = write!(out, "%!{verb}({}=", argument.type_name());
        one(out, 'v', spec, argument);
        out.push(')');
    }
}

fn padded(out: &mut String, spec: &Spec, text: &str) {
    let missing = spec.width.unwrap_or(0).saturating_sub(text.chars().count());
    let fill = if spec.zero { '0' } else { ' ' };
    let padding = std::iter::repeat_n(fill, missing);
    if spec.minus {
        out.push_str(text);
        out.extend(padding);
    } else {
        out.extend(padding);
        out.push_str(text);
    }
}

/// Pads with zeros behind the sign.
fn padded_number(out: &mut String, spec: &Spec, sign: &str, digits: &str) {
    if spec.zero {
        out.push_str(sign);
        let width = spec.width.map(|width| width.saturating_sub(sign.len()));
        padded(out, &Spec { width, ..spec.clone() }, digits);
    } else {
        padded(out, spec, &format!("{sign}{digits}"));
    }
}

fn sign_of(spec: &Spec, is_negative: bool) -> &'static str {
    if is_negative {
        "-"
    } else if spec.plus {
        "+"
    } else if spec.blank {
        " "
    } else {
        ""
    }
}

fn int(out: &mut String, verb: char, spec: &Spec, number: i64) -> bool {
    let (base, prefix) = match verb {
        'v' | 'd' => (10, ""),
        'b' => (2, "0b"),
        'o' => (8, "0"),
        'O' => (8, "0o"),
        'x' => (16, "0x"),
        'X' => (16, "0X"),
        'c' | 'q' | 'U' => {
            let c = u32::try_from(number).ok().and_then(char::from_u32);
            let c = c.unwrap_or(char::REPLACEMENT_CHARACTER);
            let text = match verb {
                'c' => c.to_string(),
                'q' if c == '\'' => "'\\''".to_owned(),
                'q' => format!("'{}'", quoted(&c.to_string()).trim_matches('"').replace("\\\"", "\"")),
                _ => format!("U+{number:04X}"),
            };
            padded(out, &Spec { zero: false, ..spec.clone() }, &text);
            return true;
        }
        _ => return false,
    };
    let mut digits = in_base(number, base).trim_start_matches('-').to_owned();
    if verb == 'X' {
        digits.make_ascii_uppercase();
    }
    let mut spec = spec.clone();
    if let Some(precision) = spec.precision {
        spec.zero = false;
        if precision == 0 && number == 0 {
            padded(out, &spec, "");
            return true;
        }
        digits.insert_str(0, &"0".repeat(precision.saturating_sub(digits.len())));
    }
    let with_prefix = verb == 'O' || spec.sharp && !(verb == 'o' && digits.starts_with('0'));
    let sign = format!("{}{}", sign_of(&spec, number < 0), if with_prefix { prefix } else { "" });
    padded_number(out, &spec, &sign, &digits);
    true
}

fn float(out: &mut String, verb: char, spec: &Spec, number: f64) -> bool {
    let size = number.abs();
    let text = match verb {
        _ if !"veEfFgG".contains(verb) => return false,
        _ if size.is_nan() => "NaN".to_owned(),
        _ if size.is_infinite() => "Inf".to_owned(),
        'e' | 'E' => exponent_text(size, spec.precision.unwrap_or(6)),
        'f' | 'F' => format!("{size:.*}", spec.precision.unwrap_or(6)),
        _ => match spec.precision {
            None => format_g(size),
            Some(precision) => significant(size, precision.max(1)),
        },
    };
    let text = if matches!(verb, 'E' | 'G') { text.to_uppercase() } else { text };
    let sign = match sign_of(spec, number.is_sign_negative() && !number.is_nan()) {
        // An infinity always has its sign.
        "" if number == f64::INFINITY => "+",
        sign => sign,
    };
    let spec = Spec { zero: spec.zero && number.is_finite(), ..spec.clone() };
    padded_number(out, &spec, sign, &text);
    true
}

/// `1.500000e+00`
fn exponent_text(size: f64, precision: usize) -> String {
    let text = format!("{size:.precision$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, digits) = exponent.strip_prefix('-').map_or(('+', exponent), |digits| ('-', digits));
    format!("{mantissa}e{sign}{digits:0>2}")
}

/// `%.{precision}g`: that many significant digits, without zeros at the end.
fn significant(size: f64, precision: usize) -> String {
    let text = format!("{size:.*e}", precision - 1);
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i64 = exponent.parse().unwrap_or(0);
    let mantissa =
        if mantissa.contains('.') { mantissa.trim_end_matches('0').trim_end_matches('.') } else { mantissa };
    let digits = mantissa.chars().filter(char::is_ascii_digit).count();
    let precision = i64::try_from(precision).unwrap_or(i64::MAX);
    let digits = i64::try_from(digits).unwrap_or(i64::MAX);
    let largest = if precision > digits && digits > exponent { digits } else { precision };
    if exponent < -4 || exponent >= largest {
        return exponent_text(size, usize::try_from(digits - 1).unwrap_or(0));
    }
    let decimals = usize::try_from(digits - 1 - exponent).unwrap_or(0);
    format!("{size:.decimals$}")
}

fn string(out: &mut String, verb: char, spec: &Spec, text: &str) -> bool {
    let cut: String = match spec.precision {
        Some(precision) => text.chars().take(precision).collect(),
        None => text.to_owned(),
    };
    match verb {
        'v' if spec.sharp => padded(out, spec, &quoted(text)),
        'v' | 's' => padded(out, spec, &cut),
        'q' if spec.sharp && !cut.contains('`') && !cut.contains(char::is_control) => {
            padded(out, spec, &format!("`{cut}`"));
        }
        'q' => padded(out, spec, &quoted(&cut)),
        'x' | 'X' => {
            let bytes = text.as_bytes();
            let bytes = &bytes[..spec.precision.unwrap_or(bytes.len()).min(bytes.len())];
            let hex: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            let hex = hex.join(if spec.blank { " " } else { "" });
            let hex = if spec.sharp { format!("0x{hex}") } else { hex };
            padded(out, spec, &if verb == 'X' { hex.to_uppercase() } else { hex });
        }
        _ => return false,
    }
    true
}

/// A string literal of Go.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        let _ = match c {
            '"' => out.write_str("\\\""),
            '\\' => out.write_str("\\\\"),
            '\n' => out.write_str("\\n"),
            '\r' => out.write_str("\\r"),
            '\t' => out.write_str("\\t"),
            '\u{7}' => out.write_str("\\a"),
            '\u{8}' => out.write_str("\\b"),
            '\u{b}' => out.write_str("\\v"),
            '\u{c}' => out.write_str("\\f"),
            '\0'..='\u{1f}' | '\u{7f}' => write!(out, "\\x{:02x}", u32::from(c)),
            c if c.is_control() => write!(out, "\\u{:04x}", u32::from(c)),
            c => out.write_char(c),
        };
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs_and_flags_are_those_of_go() {
        use Argument::{Bool, Float, Int, Nil, Text};
        let text = |text: &str| Text(text.to_owned());
        for (format, arguments, expected) in [
            (
                "%s-%d-%v-%5.2f-%05d",
                vec![text("a"), Int(3), Bool(true), Float(1.5), Int(42)],
                "a-3-true- 1.50-00042",
            ),
            ("%d", vec![text("x")], "%!d(string=x)"),
            ("%s", vec![Int(5)], "%!s(int64=5)"),
            ("%s", vec![], "%!s(MISSING)"),
            ("a", vec![Int(5), text("x"), Nil], "a%!(EXTRA int64=5, string=x, <nil>)"),
            ("%v|%s|%d", vec![Nil, Nil, Nil], "<nil>|%!s(<nil>)|%!d(<nil>)"),
            ("100%%", vec![], "100%"),
            ("%", vec![], "%!(NOVERB)"),
            ("%z", vec![Int(1)], "%!z(int64=1)"),
            ("%t|%d", vec![Bool(false), Bool(true)], "false|%!d(bool=true)"),
            ("%5s|%-5s|%.2s", vec![text("é"), text("ab"), text("abc")], "    é|ab   |ab"),
            (
                "%+d|% d|%x|%X|%#x|%o|%b|%c",
                vec![Int(5), Int(5), Int(255), Int(255), Int(255), Int(8), Int(5), Int(65)],
                "+5| 5|ff|FF|0xff|10|101|A",
            ),
            (
                "%05d|%-5d|%.3d|%d",
                vec![Int(-42), Int(42), Int(7), Int(i64::MIN)],
                "-0042|42   |007|-9223372036854775808",
            ),
            ("%q|%x|%X", vec![text("a\"\n"), text("hi"), text("hi")], "\"a\\\"\\n\"|6869|6869"),
            (
                "%f|%e|%g|%v|%.3g|%.1f",
                vec![Float(1.5), Float(1.5), Float(1e21), Float(0.1), Float(1234.5), Float(0.25)],
                "1.500000|1.500000e+00|1e+21|0.1|1.23e+03|0.2",
            ),
            (
                "%g|%v|%08.3f|%+.1e",
                vec![Float(100_000.0), Float(1e6), Float(-2.71258), Float(12345.0)],
                "100000|1e+06|-002.713|+1.2e+04",
            ),
            ("%f|%5v", vec![Float(f64::INFINITY), Float(f64::NAN)], "+Inf|  NaN"),
            ("%d", vec![Float(1.5)], "%!d(float64=1.5)"),
            ("%*d|%-*d|%.*f", vec![Int(4), Int(7), Int(3), Int(7), Int(1), Float(2.55)], "   7|7  |2.5"),
            ("%T %T", vec![Int(1), text("x")], "int64 string"),
            ("%U|%q", vec![Int(65), Int(65)], "U+0041|'A'"),
        ] {
            assert_eq!(printf(format, &arguments, 1000).as_deref(), Some(expected), "{format}");
        }
    }

    #[test]
    fn large_results_are_refused_before_they_are_made() {
        assert_eq!(printf("%500000s", &[Argument::Int(1)], 1000), None);
        assert_eq!(printf("%.500000f", &[Argument::Float(1.0)], 1000), None);
        assert_eq!(
            printf("%9999999999s", &[Argument::Int(1)], 1000).as_deref(),
            Some("%!(BADWIDTH)%!s(int64=1)")
        );
    }
}
