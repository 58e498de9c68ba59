//! The escapers behind `html`, `js` and `urlquery` (`gotemplate.md` 8).

use std::io::Write;

use crate::text;

pub(super) fn html(input: &[u8], out: &mut Vec<u8>) {
    for &byte in input {
        let replacement: &[u8] = match byte {
            b'"' => b"&#34;",
            b'\'' => b"&#39;",
            b'&' => b"&amp;",
            b'<' => b"&lt;",
            b'>' => b"&gt;",
            0 => "\u{fffd}".as_bytes(),
            other => {
                out.push(other);
                continue;
            }
        };
        out.extend_from_slice(replacement);
    }
}

pub(super) fn js(input: &[u8], out: &mut Vec<u8>) {
    for (c, raw) in text::runes(input) {
        let c = c.unwrap_or(char::REPLACEMENT_CHARACTER);
        let code = u32::from(c);
        match c {
            '\\' | '\'' | '"' => out.extend_from_slice(&[b'\\', raw[0]]),
            '<' | '>' | '&' | '=' => push_escape(out, code),
            c if c < ' ' => push_escape(out, code),
            c if c.is_ascii() || text::is_print(c) => out.extend_from_slice(raw),
            _ => push_escape(out, code),
        }
    }
}

fn push_escape(out: &mut Vec<u8>, code: u32) {
    // Writing to a vector cannot fail.
    let _ = write!(out, "\\u{code:04X}");
}

pub(super) fn url_query(input: &[u8], out: &mut Vec<u8>) {
    for &byte in input {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(byte),
            b' ' => out.push(b'+'),
            // Writing to a vector cannot fail.
            _ => drop(write!(out, "%{byte:02X}")),
        }
    }
}
