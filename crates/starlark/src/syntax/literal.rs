//! Values of literals: escapes in strings and bytes, digits of integers.

use std::rc::Rc;

use num_bigint::BigInt;

use super::token::Token;

/// Digits of an integer that a script may write or parse. The work grows with their square.
pub(crate) const MOST_DIGITS: usize = 10_000;

/// Parses digits, without a sign.
pub(crate) fn integer(digits: &str, radix: u32) -> Result<BigInt, String> {
    if digits.len() > MOST_DIGITS {
        return Err(format!("integer has more than {MOST_DIGITS} digits"));
    }
    let is_valid = !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix));
    let value = is_valid.then(|| BigInt::parse_bytes(digits.as_bytes(), radix)).flatten();
    value.ok_or_else(|| "invalid int literal".to_owned())
}

/// Replaces the escapes between the quotes of a string.
pub(super) fn unquote(inner: &str, is_raw: bool, is_bytes: bool) -> Result<Token, String> {
    let mut out: Vec<u8> = Vec::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(first) = rest.chars().next() {
        let escape = if first == '\\' && !is_raw { rest.get(1..) } else { None };
        if let Some(behind) = escape {
            rest = unescape(behind, is_bytes, &mut out)?;
            continue;
        }
        let skipped = usize::from(first == '\r' && rest.starts_with("\r\n"));
        rest = rest.get(skipped..).unwrap_or_default();
        let length = rest.chars().next().map_or(0, char::len_utf8);
        let (copied, behind) = rest.split_at(length);
        out.extend_from_slice(copied.as_bytes());
        rest = behind;
    }
    if is_bytes {
        return Ok(Token::Bytes(out.into()));
    }
    let text: Rc<str> = String::from_utf8_lossy(&out).into();
    Ok(Token::Text(text))
}

/// Reads an escape behind its backslash, and returns the rest.
fn unescape<'a>(behind: &'a str, is_bytes: bool, out: &mut Vec<u8>) -> Result<&'a str, String> {
    let Some(letter) = behind.chars().next() else { return Err("truncated escape sequence \\".to_owned()) };
    let rest = behind.get(letter.len_utf8()..).unwrap_or_default();
    let simple = match letter {
        '\n' => return Ok(rest),
        '\r' => return Ok(rest.strip_prefix('\n').unwrap_or(rest)),
        'a' => 7,
        'b' => 8,
        'f' => 12,
        'n' => b'\n',
        'r' => b'\r',
        't' => b'\t',
        'v' => 11,
        '\\' => b'\\',
        '\'' => b'\'',
        '"' => b'"',
        '0'..='7' => return octal(behind, is_bytes, out),
        'x' => return hexadecimal(rest, is_bytes, out),
        'u' => return unicode(rest, 4, out),
        'U' => return unicode(rest, 8, out),
        _ => return Err(format!("invalid escape sequence \\{letter}")),
    };
    out.push(simple);
    Ok(rest)
}

fn octal<'a>(behind: &'a str, is_bytes: bool, out: &mut Vec<u8>) -> Result<&'a str, String> {
    let length = behind.bytes().take(3).take_while(|digit| (b'0'..=b'7').contains(digit)).count();
    let (digits, rest) = behind.split_at(length);
    let value = u32::from_str_radix(digits, 8).unwrap_or_default();
    match u8::try_from(value) {
        Ok(value) if is_bytes || value < 0x80 => out.push(value),
        Ok(_) => {
            return Err(format!(
                "non-ASCII octal escape \\{digits} (use \\u{value:04X} for the UTF-8 encoding of U+{value:04X})"
            ));
        }
        Err(_) => return Err(format!("invalid escape sequence \\{digits}")),
    }
    Ok(rest)
}

fn hexadecimal<'a>(rest: &'a str, is_bytes: bool, out: &mut Vec<u8>) -> Result<&'a str, String> {
    let digits = rest.get(..2).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
    let value = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
    let (Some(digits), Some(value)) = (digits, value) else {
        let shown: String = rest.chars().take(2).collect();
        return Err(format!("invalid escape sequence \\x{shown}"));
    };
    if !is_bytes && value >= 0x80 {
        return Err(format!(
            "non-ASCII hex escape \\x{digits} (use \\u{value:04X} for the UTF-8 encoding of U+{value:04X})"
        ));
    }
    out.push(value);
    Ok(rest.get(2..).unwrap_or_default())
}

fn unicode<'a>(rest: &'a str, length: usize, out: &mut Vec<u8>) -> Result<&'a str, String> {
    let digits = rest.get(..length).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
    let value = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
    let Some(found) = value.and_then(char::from_u32) else {
        let (letter, shown): (char, String) =
            (if length == 4 { 'u' } else { 'U' }, rest.chars().take(length).collect());
        return Err(format!("invalid Unicode code point \\{letter}{shown}"));
    };
    out.extend_from_slice(found.encode_utf8(&mut [0; 4]).as_bytes());
    Ok(rest.get(length..).unwrap_or_default())
}
