//! Values of literals: strings, characters and numbers (`gotemplate.md` 2.3 and 2.4).

use groundwork_go::strconv::{float_to_i64, parse_float, parse_int, parse_uint};

use super::token::TokenKind;
use crate::text;

/// A number literal in every type that can represent it exactly.
#[derive(Clone, Debug, Default)]
pub(crate) struct NumberLiteral {
    pub(crate) int: Option<i64>,
    pub(crate) float: Option<f64>,
    pub(crate) complex: Option<(f64, f64)>,
    /// Marks a literal that is written as a float, and so is a float64 where no type is wanted.
    pub(crate) prefers_float: bool,
}

impl NumberLiteral {
    pub(crate) fn parse(source: &[u8], kind: TokenKind) -> Result<NumberLiteral, String> {
        match kind {
            TokenKind::CharConstant => char_constant(source),
            TokenKind::Complex => complex_constant(source),
            _ => number(source),
        }
    }

    fn with_complex(re: f64, im: f64) -> NumberLiteral {
        let mut literal = if im == 0.0 { NumberLiteral::exact_float(re) } else { NumberLiteral::default() };
        literal.complex = Some((re, im));
        literal
    }

    /// Returns a float, and the integers that equal it.
    fn exact_float(f: f64) -> NumberLiteral {
        let int = float_to_i64(f);
        NumberLiteral { int: (int as f64 == f).then_some(int), float: Some(f), ..NumberLiteral::default() }
    }
}

fn illegal(source: &[u8]) -> String {
    format!("illegal number syntax: {}", text::quote(source))
}

fn number(source: &[u8]) -> Result<NumberLiteral, String> {
    if let Some(imaginary) = source.strip_suffix(b"i").and_then(parse_float) {
        return Ok(NumberLiteral::with_complex(0.0, imaginary));
    }
    let written_as_float = source.iter().any(|b| b".eEpP".contains(b));
    let int = parse_int(source);
    // A literal above the signed range is a number, but not a Go `int`.
    let uint = parse_uint(source);
    if int.is_some() || uint.is_some() {
        let float = int.map(|i| i as f64).or(uint.map(|u| u as f64));
        return Ok(NumberLiteral { int, float, ..NumberLiteral::default() });
    }
    match parse_float(source) {
        Some(_) if !written_as_float => Err(format!("integer overflow: {}", text::quote(source))),
        Some(f) => Ok(NumberLiteral { prefers_float: true, ..NumberLiteral::exact_float(f) }),
        None => Err(illegal(source)),
    }
}

fn complex_constant(source: &[u8]) -> Result<NumberLiteral, String> {
    const UNREADABLE: &str = "syntax error scanning complex number";
    let body = source.strip_suffix(b"i").ok_or(UNREADABLE)?;
    // The sign between the real and the imaginary part is the last sign outside an exponent.
    let is_exponent =
        |at: usize| matches!(body[at - 1], b'e' | b'E' | b'p' | b'P') && !is_hex_digit_position(body, at);
    let split = (1..body.len()).rev().find(|&at| matches!(body[at], b'+' | b'-') && !is_exponent(at));
    let (re, im) = body.split_at(split.ok_or(UNREADABLE)?);
    let part = |part: &[u8]| {
        parse_float(part)
            .ok_or_else(|| format!("strconv.ParseFloat: parsing {}: {INVALID}", text::quote(part)))
    };
    Ok(NumberLiteral::with_complex(part(re)?, part(im)?))
}

/// Reports whether the `e` before a sign is a hexadecimal digit and not an exponent mark.
fn is_hex_digit_position(body: &[u8], sign: usize) -> bool {
    let digits = body.strip_prefix(b"+").or(body.strip_prefix(b"-")).unwrap_or(body);
    let is_hex = digits.starts_with(b"0x") || digits.starts_with(b"0X");
    is_hex && matches!(body[sign - 1], b'e' | b'E')
}

fn char_constant(source: &[u8]) -> Result<NumberLiteral, String> {
    let (unit, rest) = unquote_unit(&source[1..], b'\'')?;
    if rest != b"'" {
        return Err(format!("malformed character constant: {}", crate::text::lossy(source)));
    }
    let code = match unit {
        Unit::Char(c) => u32::from(c),
        Unit::Byte(b) => u32::from(b),
    };
    let (int, float) = (Some(i64::from(code)), Some(f64::from(code)));
    Ok(NumberLiteral { int, float, ..NumberLiteral::default() })
}

const INVALID: &str = "invalid syntax";

/// Returns the bytes of a quoted or raw string literal.
pub(crate) fn unquote(source: &[u8]) -> Result<Vec<u8>, String> {
    let Some((&quote, rest)) = source.split_first() else { return Err(INVALID.to_string()) };
    let Some((_, body)) = rest.split_last() else { return Err(INVALID.to_string()) };
    if quote == b'`' {
        return Ok(body.iter().copied().filter(|&b| b != b'\r').collect());
    }
    let mut out = Vec::with_capacity(body.len());
    let mut rest = body;
    while !rest.is_empty() {
        let (unit, tail) = unquote_unit(rest, quote)?;
        match unit {
            Unit::Char(c) => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            Unit::Byte(b) => out.push(b),
        }
        rest = tail;
    }
    Ok(out)
}

/// The meaning of one character or escape sequence.
enum Unit {
    Char(char),
    Byte(u8),
}

fn unquote_unit(source: &[u8], quote: u8) -> Result<(Unit, &[u8]), String> {
    let invalid = || INVALID.to_string();
    let (c, width) = text::decode(source).ok_or_else(invalid)?;
    let rest = &source[width..];
    match c {
        Some(c) if u32::from(c) == u32::from(quote) => return Err(invalid()),
        Some('\\') => {}
        c => return Ok((Unit::Char(c.unwrap_or(char::REPLACEMENT_CHARACTER)), rest)),
    }
    let (&escape, rest) = rest.split_first().ok_or_else(invalid)?;
    let simple = |c: char| Ok((Unit::Char(c), rest));
    match escape {
        b'a' => simple('\u{7}'),
        b'b' => simple('\u{8}'),
        b'f' => simple('\u{c}'),
        b'n' => simple('\n'),
        b'r' => simple('\r'),
        b't' => simple('\t'),
        b'v' => simple('\u{b}'),
        b'\\' => simple('\\'),
        b'\'' | b'"' if escape == quote => simple(char::from(escape)),
        b'0'..=b'7' => {
            let (code, rest) = digits(&source[1..], 3, 8).ok_or_else(invalid)?;
            Ok((Unit::Byte(u8::try_from(code).map_err(|_| invalid())?), rest))
        }
        b'x' => {
            let (code, rest) = digits(rest, 2, 16).ok_or_else(invalid)?;
            Ok((Unit::Byte(u8::try_from(code).map_err(|_| invalid())?), rest))
        }
        b'u' | b'U' => {
            let (code, rest) = digits(rest, if escape == b'u' { 4 } else { 8 }, 16).ok_or_else(invalid)?;
            Ok((Unit::Char(char::from_u32(code).ok_or_else(invalid)?), rest))
        }
        _ => Err(invalid()),
    }
}

/// Reads exactly `count` digits of a radix.
fn digits(source: &[u8], count: usize, radix: u32) -> Option<(u32, &[u8])> {
    let (head, rest) = source.split_at_checked(count)?;
    let mut code: u32 = 0;
    for &b in head {
        code = code.checked_mul(radix)?.checked_add(char::from(b).to_digit(radix)?)?;
    }
    Some((code, rest))
}

#[cfg(test)]
mod tests {
    use crate::testing::check_all;

    #[test]
    fn numbers_take_their_natural_type() {
        check_all(&[
            ("{{1_000}} {{-3}} {{+3}} {{010}} {{0o10}} {{0x1F}} {{0b101}}", "1000 -3 3 8 8 31 5"),
            ("{{1.5}} {{.5}} {{1.}} {{1e3}} {{-0.0}} {{-0}} {{0x1p-2}}", "1.5 0.5 1 1000 -0 0 0.25"),
            ("{{'a'}} {{'\\n'}} {{'\\''}} {{'\\u00e9'}}", "97 10 39 233"),
            ("{{3i}} {{1+2i}} {{-1-2i}}", "(0+3i) (1+2i) (-1-2i)"),
            ("{{typeOf 1e3}} {{typeOf 0x1}} {{typeOf 'a'}} {{typeOf 1i}}", "float64 int int complex128"),
            (r#"{{repeat 3.0 "x"}}{{repeat 1e0 "y"}}"#, "xxxy"),
            ("{{09}}", r#"error 1: integer overflow: "09""#),
            ("{{1+_2i}}", r#"error 1: strconv.ParseFloat: parsing "+_2": invalid syntax"#),
            ("{{1__0}}", r#"error 1: illegal number syntax: "1__0""#),
            ("{{1e400}}", r#"error 1: illegal number syntax: "1e400""#),
            ("{{1a}}", r#"error 1: bad number syntax: "1a""#),
            ("{{1+2}}", r#"error 1: bad number syntax: "1+2""#),
            (
                "{{9223372036854775808}}",
                r#"error 1:2: executing "t" at <9223372036854775808>: 9223372036854775808 overflows int"#,
            ),
            ("{{18446744073709551616}}", r#"error 1: integer overflow: "18446744073709551616""#),
        ]);
    }

    #[test]
    fn strings_follow_the_go_escapes() {
        check_all(&[
            (r#"{{"\a\b\f\n\r\t\v\\\"\101\x41\u00e9\U0001F600"}}"#, "\u{7}\u{8}\u{c}\n\r\t\u{b}\\\"AAé😀"),
            ("{{`a\\n\r\nb`}}", "a\\n\nb"),
            (r#"{{"\'"}}"#, "error 1: invalid syntax"),
            (r#"{{"\z"}}"#, "error 1: invalid syntax"),
            (r#"{{"\ud800"}}"#, "error 1: invalid syntax"),
            ("{{''}}", "error 1: invalid syntax"),
            ("{{'ab'}}", "error 1: malformed character constant: 'ab'"),
            ("{{\"a\nb\"}}", "error 1: unterminated quoted string"),
        ]);
    }
}
