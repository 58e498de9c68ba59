//! Recognition of strings that are expressions, and the escaping of strings that only look like one
//! (`spiff.md` 13).

use std::fmt::Write as _;

use super::ast::Expr;
use super::error::ParseError;
use super::parser::parse;

/// Returns the text of the expression in a string: `((` … `))` without `!` behind the opening
/// (`spiff.md` 13.1).
pub(crate) fn is_dynaml(text: &str) -> Option<&str> {
    text.strip_prefix("((")?.strip_suffix("))").filter(|inner| !inner.starts_with('!'))
}

/// Reports whether a string could be or contain an expression. A quick test: `false` is always
/// right, `true` may be wrong.
pub(crate) fn may_be_dynaml(text: &str) -> bool {
    text.len() >= 4 && text.contains("((")
}

/// Returns the expression that joins the parts of a string with embedded expressions (`spiff.md`
/// 13.1, feature `interpolation`). `None`: plain text.
pub(crate) fn interpolate(text: &str) -> Option<Result<Expr, ParseError>> {
    // A string that is an expression as a whole, or is escaped, is not interpolated.
    if !text.contains("((") || !text.contains("))") || is_enclosed(text) {
        return None;
    }
    let mut joined = String::new();
    let mut has_expression = false;
    for part in parts(text, "!") {
        match part {
            Part::Expression(inner) => {
                has_expression = true;
                separate(&mut joined);
                let _ = write!(joined, "( {} )", inner.trim());
            }
            Part::Text(text) if text.is_empty() => {}
            Part::Text(text) => {
                separate(&mut joined);
                push_quoted(&mut joined, &text);
            }
        }
    }
    has_expression.then(|| parse(&joined))
}

fn separate(joined: &mut String) {
    if !joined.is_empty() {
        joined.push(' ');
    }
}

fn is_enclosed(text: &str) -> bool {
    text.starts_with("((") && text.ends_with("))")
}

/// Removes one `!` from `((! … ))`; with `interpolation` from embedded expressions, too. `None`:
/// the text is not escaped (`spiff.md` 13.2).
pub(crate) fn unescape_value(text: &str, interpolation: bool) -> Option<String> {
    if is_enclosed(text) {
        return text.strip_prefix("((!").filter(|rest| rest.len() >= 2).map(|rest| format!("(({rest}"));
    }
    if !interpolation || !text.contains("((!") {
        return None;
    }
    let mut result = String::with_capacity(text.len());
    for part in parts(text, "") {
        match part {
            // The evaluation has left no expression. A text that still looks like one was not
            // escaped, so it stays.
            Part::Expression(_) => return None,
            Part::Text(text) => result.push_str(&text),
        }
    }
    (result != text).then_some(result)
}

/// Removes one `!` from the keys `<<!` and `<<<!`, and with the feature `control` from `<<!name`
/// (`spiff.md` 13.2).
pub(crate) fn unescape_key(key: &str, control: bool) -> Option<String> {
    let rest = key.strip_prefix("<<")?;
    let (third, rest) = rest.strip_prefix('<').map_or(("", rest), |rest| ("<", rest));
    let rest = rest.strip_prefix('!')?;
    (control || rest.bytes().all(|byte| byte == b'!')).then(|| format!("<<{third}{rest}"))
}

enum Part<'text> {
    Text(String),
    /// The text without its brackets.
    Expression(&'text str),
}

/// Splits a text into the parts outside and inside of `((` … `))`.
///
/// An opening is the last two of a run of at least two `(`. Inside, brackets are counted and quoted
/// strings skipped. As in spiff++, the first character behind the opening is not examined. The `!`
/// of an escaped expression becomes `escape`.
fn parts<'text>(text: &'text str, escape: &str) -> Vec<Part<'text>> {
    let mut parts = Vec::new();
    let mut literal = String::new();
    let mut rest = text;
    while let Some((before, inside)) = opening(rest) {
        let Some((expression, behind)) = closing(inside) else { break };
        literal.push_str(before);
        if let Some(escaped) = expression.strip_prefix('!') {
            let _ = write!(literal, "(({escape}{escaped}))");
        } else {
            parts.push(Part::Text(std::mem::take(&mut literal)));
            parts.push(Part::Expression(expression));
        }
        rest = behind;
    }
    literal.push_str(rest);
    parts.push(Part::Text(literal));
    parts
}

fn opening(text: &str) -> Option<(&str, &str)> {
    let start = text.find("((")?;
    let run = text[start..].bytes().take_while(|&byte| byte == b'(').count();
    let inside = start + run;
    Some((&text[..inside - 2], &text[inside..]))
}

fn closing(inside: &str) -> Option<(&str, &str)> {
    let mut level = 0_usize;
    let mut closed = 0;
    let mut quoted = false;
    let mut escaped = false;
    let first = inside.chars().next()?.len_utf8();
    for (at, byte) in inside.bytes().enumerate().skip(first) {
        if quoted {
            quoted = byte != b'"' || escaped;
            escaped = byte == b'\\' && !escaped;
            continue;
        }
        match byte {
            b'(' => level += 1,
            b')' if level > 0 => level -= 1,
            b')' => {
                closed += 1;
                if closed == 2 {
                    return Some((&inside[..at - 1], &inside[at + 1..]));
                }
            }
            b'"' => quoted = true,
            _ => {}
        }
        if byte != b')' {
            closed = 0;
        }
    }
    None
}

/// The reason why the escapes of a string are invalid.
pub(super) struct EscapeError(pub(super) String);

/// Reads the escapes of JSON in a text between quotes. Half of a surrogate pair becomes U+FFFD.
pub(super) fn unquote(text: &str) -> Result<String, EscapeError> {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c == '\\' || c < ' ') {
        result.push_str(&rest[..at]);
        let mut chars = rest[at..].chars();
        if let Some(c) = chars.next().filter(|c| *c != '\\') {
            return Err(invalid(c, "string literal"));
        }
        let escape = chars.next();
        rest = chars.as_str();
        let c = match escape {
            Some(c @ ('"' | '\\' | '/')) => c,
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('u') => {
                let (c, behind) = unicode_escape(rest)?;
                rest = behind;
                c
            }
            Some(c) => return Err(invalid(c, "string escape code")),
            None => return Err(EscapeError("a backslash ends the string".to_owned())),
        };
        result.push(c);
    }
    result.push_str(rest);
    Ok(result)
}

fn invalid(c: char, place: &str) -> EscapeError {
    let shown = match c {
        '"' => c.to_string(),
        '\'' => "\\'".to_owned(),
        c if c < ' ' && !matches!(c, '\n' | '\r' | '\t') => format!("\\x{:02x}", u32::from(c)),
        c => c.escape_debug().to_string(),
    };
    EscapeError(format!("invalid character '{shown}' in {place}"))
}

/// Reads the character of four hexadecimal digits, or of a surrogate pair of four each. Returns
/// also the text behind it.
fn unicode_escape(text: &str) -> Result<(char, &str), EscapeError> {
    let broken = || {
        let other = text.chars().find(|c| !c.is_ascii_hexdigit());
        invalid(other.unwrap_or('"'), "\\u hexadecimal character escape")
    };
    let (high, behind) = four_digits(text).ok_or_else(broken)?;
    if let Some(c) = char::from_u32(high) {
        return Ok((c, behind));
    }
    let pair = behind.strip_prefix("\\u").and_then(four_digits);
    if let Some((low, behind)) = pair
        && (0xd800..0xdc00).contains(&high)
        && (0xdc00..0xe000).contains(&low)
    {
        let code = 0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00);
        return Ok((char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), behind));
    }
    Ok((char::REPLACEMENT_CHARACTER, behind))
}

fn four_digits(text: &str) -> Option<(u32, &str)> {
    let digits = text.get(..4).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    Some((u32::from_str_radix(digits, 16).ok()?, &text[4..]))
}

/// Appends `text` in quotes, so that the parser reads it back.
pub(super) fn push_quoted(out: &mut String, text: &str) {
    out.push('"');
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' => out.push_str("\\\""),
            // The scanner reads a backslash before the closing quote as an escaped quote.
            '\\' if chars.peek().is_none() => out.push_str("\\u005c"),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_an_expression_by_13_1() {
        for (text, expression) in [
            ("(( a ))", Some(" a ")),
            ("((a))", Some("a")),
            ("(())", Some("")),
            ("((\n a\n))", Some("\n a\n")),
            ("((! a ))", None),
            ("(( a ))\n", None),
            (" (( a ))", None),
            ("(( a )", None),
            ("(()", None),
            ("(( a ))-(( b ))", Some(" a ))-(( b ")),
        ] {
            assert_eq!(is_dynaml(text), expression, "{text}");
        }
    }

    #[test]
    fn texts_with_expressions_become_concatenations() {
        for (text, expected) in [
            ("postgres://(( host )):(( port ))/main", r#""postgres://" ( host ) ":" ( port ) "/main""#),
            (r#"<(( "))" host ))>"#, r#""<" ( "))" host ) ">""#),
            ("x(((f(1))))", r#""x(" ( f(1) ) ")""#),
            ("((! a )) (( b ))!", r#""((! a )) " ( b ) "!""#),
            ("x(( a ", ""),
            ("no (expression) here", ""),
            ("x ((! host ))", ""),
            ("(( a ))-(( b ))", ""),
        ] {
            let printed = interpolate(text).map(|parsed| parsed.unwrap().to_string());
            assert_eq!(printed.unwrap_or_default(), expected, "{text}");
        }
        assert!(interpolate("x (( a && b ))").unwrap().is_err());
    }

    #[test]
    fn every_level_of_escape_is_removed_once() {
        for (text, interpolation, expected) in [
            ("((! x ))", false, Some("(( x ))")),
            ("((!! x ))", false, Some("((! x ))")),
            ("(( x ))", false, None),
            ("a ((! x ))", false, None),
            ("a ((! x )) ((!! y ))", true, Some("a (( x )) ((! y ))")),
            ("a ((! x", true, None),
            ("((!", false, None),
        ] {
            assert_eq!(unescape_value(text, interpolation).as_deref(), expected, "{text}");
        }
        for (key, control, expected) in [
            ("<<!", false, Some("<<")),
            ("<<<!", false, Some("<<<")),
            ("<<!!", false, Some("<<!")),
            ("<<!if", false, None),
            ("<<!if", true, Some("<<if")),
            ("<<if", true, None),
            ("a!", true, None),
        ] {
            assert_eq!(unescape_key(key, control).as_deref(), expected, "{key}");
        }
    }

    #[test]
    fn escapes_are_those_of_json() {
        for (text, expected) in [
            (r#"a\"b\\c\/\n\t"#, "a\"b\\c/\n\t"),
            (r"\u00e9\ud83d\ude00 \ud800x", "é😀 \u{fffd}x"),
            ("日本", "日本"),
        ] {
            assert_eq!(unquote(text).ok().as_deref(), Some(expected), "{text}");
        }
        for text in ["\\x", "\\u12", "a\nb", "\\"] {
            assert!(unquote(text).is_err(), "{text:?}");
        }
    }
}
