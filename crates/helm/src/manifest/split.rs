//! Splitter of a rendered file into documents, where Helm's expression `(?:^|\s*\n)---\s*` matches
//! (`helm.md` 7.1 step 3).

use groundwork_go::text::is_space;

/// Reports whether `\s` of the expression matches a byte.
fn is_blank(byte: u8) -> bool {
    matches!(byte, b'\t' | b'\n' | 0x0c | b'\r' | b' ')
}

/// Returns the documents of a text, trimmed; empty ones are dropped.
pub fn documents(text: &str) -> Vec<&str> {
    let text = text.trim_matches(is_space);
    let bytes = text.as_bytes();
    let mut pieces = Vec::new();
    let mut from = 0;
    while let Some((start, end)) = separator(bytes, from) {
        pieces.push(&text[from..start]);
        from = end;
    }
    pieces.push(&text[from..]);
    pieces.into_iter().map(|piece| piece.trim_matches(is_space)).filter(|piece| !piece.is_empty()).collect()
}

/// Returns the first match at or behind a position: dashes at the start of the text or of a line,
/// with the white space around them.
fn separator(bytes: &[u8], from: usize) -> Option<(usize, usize)> {
    let mut at = from;
    loop {
        let dashes = at + memchr::memmem::find(&bytes[at..], b"---")?;
        let starts_line = match dashes.checked_sub(1) {
            None => true,
            // An earlier match may have consumed the line break; then these dashes do not match.
            Some(before) => before >= from && bytes[before] == b'\n',
        };
        if !starts_line {
            at = dashes + 1;
            continue;
        }
        let mut start = dashes;
        while start > from && is_blank(bytes[start - 1]) {
            start -= 1;
        }
        let mut end = dashes + 3;
        while bytes.get(end).copied().is_some_and(is_blank) {
            end += 1;
        }
        return Some((start, end));
    }
}
