//! Byte strings as Go handles them: decoding, character classes and quoting.

use std::borrow::Cow;

use unicode_general_category::{GeneralCategory as Category, get_general_category};

/// Returns the first character of a byte string and its width. Invalid UTF-8 gives `None` and width
/// 1.
pub fn decode(bytes: &[u8]) -> Option<(Option<char>, usize)> {
    let first = *bytes.first()?;
    if first < 0x80 {
        return Some((Some(char::from(first)), 1));
    }
    let window = &bytes[..bytes.len().min(4)];
    let valid = match std::str::from_utf8(window) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&window[..error.valid_up_to()]).unwrap_or_default(),
    };
    Some(valid.chars().next().map_or((None, 1), |c| (Some(c), c.len_utf8())))
}

/// Returns the text of a byte string. Each byte that does not belong to a character becomes U+FFFD.
pub fn lossy(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => {
            runes(bytes).map(|(c, _)| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect::<String>().into()
        }
    }
}

/// Iterates over the characters of a byte string with their bytes; `None` is an invalid byte.
pub fn runes(bytes: &[u8]) -> impl Iterator<Item = (Option<char>, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (c, width) = decode(rest)?;
        let (head, tail) = rest.split_at(width);
        rest = tail;
        Some((c, head))
    })
}

/// Returns the number of characters; each invalid byte counts as one.
pub fn rune_count(bytes: &[u8]) -> usize {
    if bytes.is_ascii() { bytes.len() } else { runes(bytes).count() }
}

/// Returns the position of a needle in a byte string.
pub fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    if needle.is_empty() {
        return Some(0);
    }
    let (&first, rest) = needle.split_first()?;
    let mut from = 0;
    while let Some(at) = memchr::memchr(first, &haystack[from..]) {
        let start = from + at;
        if haystack[start + 1..].starts_with(rest) {
            return Some(start);
        }
        from = start + 1;
    }
    None
}

/// Reports whether a character is of Unicode category L.
pub fn is_letter(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_alphabetic();
    }
    matches!(
        get_general_category(c),
        Category::UppercaseLetter
            | Category::LowercaseLetter
            | Category::TitlecaseLetter
            | Category::ModifierLetter
            | Category::OtherLetter
    )
}

/// Reports whether a character is of Unicode category Nd.
pub fn is_digit(c: char) -> bool {
    if c.is_ascii() { c.is_ascii_digit() } else { get_general_category(c) == Category::DecimalNumber }
}

/// Reports whether Go prints a character unescaped: Unicode categories L, M, N, P, S and the ASCII
/// space.
pub fn is_print(c: char) -> bool {
    if c.is_ascii() {
        return matches!(c, ' '..='~');
    }
    !matches!(
        get_general_category(c),
        Category::Control
            | Category::Format
            | Category::Surrogate
            | Category::PrivateUse
            | Category::Unassigned
            | Category::LineSeparator
            | Category::ParagraphSeparator
            | Category::SpaceSeparator
    )
}

/// Go's `unicode.IsSpace`.
pub fn is_space(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\x0b' | '\x0c' | '\r' | ' ' | '\u{85}' | '\u{a0}')
        || (!c.is_ascii() && c.is_whitespace())
}

/// Returns the text as a Go string literal.
pub fn quote(bytes: &[u8]) -> String {
    let mut out = Vec::with_capacity(bytes.len() + 2);
    quote_into(&mut out, bytes, false);
    lossy(&out).into_owned()
}

/// Appends a Go string literal; with `ascii` it has only ASCII characters.
pub fn quote_into(out: &mut Vec<u8>, bytes: &[u8], ascii: bool) {
    out.push(b'"');
    let mut rest = bytes;
    loop {
        let is_plain = |b: &u8| matches!(b, b' '..=b'~') && !matches!(b, b'"' | b'\\');
        let plain = rest.iter().take_while(|b| is_plain(b)).count();
        out.extend_from_slice(&rest[..plain]);
        rest = &rest[plain..];
        let Some((c, width)) = decode(rest) else { break };
        let raw = &rest[..width];
        rest = &rest[width..];
        match c {
            Some(c) => escape_char(out, c, '"', ascii),
            None => out.extend_from_slice(format!("\\x{:02x}", raw[0]).as_bytes()),
        }
    }
    out.push(b'"');
}

/// Appends a Go character literal.
pub fn quote_char_into(out: &mut Vec<u8>, c: char, ascii: bool) {
    out.push(b'\'');
    escape_char(out, c, '\'', ascii);
    out.push(b'\'');
}

fn escape_char(out: &mut Vec<u8>, c: char, quote: char, ascii: bool) {
    let short = match c {
        '\u{7}' => 'a',
        '\u{8}' => 'b',
        '\u{c}' => 'f',
        '\n' => 'n',
        '\r' => 'r',
        '\t' => 't',
        '\u{b}' => 'v',
        '\\' => '\\',
        c if c == quote => quote,
        c => {
            let code = u32::from(c);
            let plain = is_print(c) && (!ascii || c.is_ascii());
            if plain {
                return out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            }
            let text = if code < 0x20 || code == 0x7f {
                format!("\\x{code:02x}")
            } else if code > 0xffff {
                format!("\\U{code:08x}")
            } else {
                format!("\\u{code:04x}")
            };
            out.extend_from_slice(text.as_bytes());
            return;
        }
    };
    out.push(b'\\');
    out.push(short as u8);
}

/// Reports whether a raw string literal can contain the text unchanged.
pub fn can_backquote(bytes: &[u8]) -> bool {
    runes(bytes).all(|(c, _)| match c {
        None | Some('\u{feff}' | '`' | '\u{7f}') => false,
        Some(c) => c == '\t' || c >= ' ',
    })
}

/// Formats as Go's `%#U`: the code point, with the character itself if it is printable.
pub fn describe_char(c: Option<char>) -> String {
    let c = c.unwrap_or(char::REPLACEMENT_CHARACTER);
    let code = u32::from(c);
    if is_print(c) { format!("U+{code:04X} '{c}'") } else { format!("U+{code:04X}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoting_escapes_what_is_not_printable() {
        let check = |input: &[u8], expected: &str| assert_eq!(quote(input), expected);
        check(b"a\"b\\", r#""a\"b\\""#);
        check("\u{7}\u{8}\u{c}\n\r\t\u{b}".as_bytes(), r#""\a\b\f\n\r\t\v""#);
        check("\u{0}\u{1f}\u{7f}".as_bytes(), r#""\x00\x1f\x7f""#);
        check("\u{a0}é→\u{feff}".as_bytes(), r#""\u00a0é→\ufeff""#);
        check("\u{e0001}".as_bytes(), r#""\U000e0001""#);
        check(b"a\xffb\xc3", r#""a\xffb\xc3""#);
        check(b"it's", r#""it's""#);
    }

    #[test]
    fn decoding_skips_single_invalid_bytes() {
        assert_eq!(
            runes(b"h\xc3\xa9\xff\xe2\x82").map(|(c, _)| c).collect::<Vec<_>>(),
            [Some('h'), Some('é'), None, None, None]
        );
        assert_eq!(rune_count("hé→".as_bytes()), 3);
    }

    #[test]
    fn find_gives_the_first_position() {
        assert_eq!(find(b"aaab", b"ab"), Some(2));
        assert_eq!(find(b"aaa", b"ab"), None);
        assert_eq!(find(b"a", b""), Some(0));
    }
}
