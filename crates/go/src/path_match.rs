//! Go's `path.Match`: `*` and `?` do not match a slash, `[...]` is a class, `\` makes the next
//! character literal.

/// The pattern is malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("syntax error in pattern")]
pub struct BadPattern;

/// Reports whether the whole name matches. As in Go, the function may miss a fault in the part of
/// the pattern behind the place that decides the result.
///
/// # Errors
///
/// The pattern is malformed.
pub fn matches(pattern: &str, name: &str) -> Result<bool, BadPattern> {
    let mut pattern = pattern;
    let mut name = name;
    while !pattern.is_empty() {
        let (star, chunk, rest) = scan_chunk(pattern);
        pattern = rest;
        if star && chunk.is_empty() {
            // A star at the end matches everything up to a slash.
            return Ok(!name.contains('/'));
        }
        match match_chunk(chunk, name)? {
            Some(after) if after.is_empty() || !pattern.is_empty() => {
                name = after;
                continue;
            }
            _ => {}
        }
        let skipped = if star { after_skipping(chunk, name, pattern.is_empty())? } else { None };
        match skipped {
            Some(after) => name = after,
            None => {
                // Go checks the rest of the pattern, so that a malformed one is an error.
                while !pattern.is_empty() {
                    let (_, chunk, rest) = scan_chunk(pattern);
                    pattern = rest;
                    match_chunk(chunk, "")?;
                }
                return Ok(false);
            }
        }
    }
    Ok(name.is_empty())
}

/// Returns the rest of the name behind the chunk, after skipping some characters.
fn after_skipping<'n>(chunk: &str, name: &'n str, is_last: bool) -> Result<Option<&'n str>, BadPattern> {
    for (at, c) in name.char_indices() {
        if c == '/' {
            break;
        }
        if let Some(after) = match_chunk(chunk, &name[at + c.len_utf8()..])?
            && (!is_last || after.is_empty())
        {
            return Ok(Some(after));
        }
    }
    Ok(None)
}

/// Splits off leading stars and the piece up to the next star.
fn scan_chunk(pattern: &str) -> (bool, &str, &str) {
    let piece = pattern.trim_start_matches('*');
    let star = piece.len() < pattern.len();
    let (mut in_range, mut escaped) = (false, false);
    for (at, c) in piece.char_indices() {
        if std::mem::take(&mut escaped) {
            continue;
        }
        match c {
            '\\' => escaped = true,
            '[' => in_range = true,
            ']' => in_range = false,
            '*' if !in_range => return (star, &piece[..at], &piece[at..]),
            _ => {}
        }
    }
    (star, piece, "")
}

/// Matches a piece without stars at the start of a text. Returns the rest of the text.
fn match_chunk<'t>(chunk: &str, text: &'t str) -> Result<Option<&'t str>, BadPattern> {
    let (mut chunk, mut text) = (chunk, text);
    // After a mismatch the rest of the piece is only checked for faults.
    let mut failed = false;
    while let Some(c) = chunk.chars().next() {
        failed |= text.is_empty();
        let found = text.chars().next().filter(|_| !failed);
        let after = &text[found.map_or(0, char::len_utf8)..];
        match c {
            '[' => {
                let (is_member, rest) = class(&chunk[1..], found)?;
                chunk = rest;
                failed |= !is_member;
            }
            '?' => {
                failed |= found == Some('/');
                chunk = &chunk[1..];
            }
            _ => {
                let literal = if c == '\\' { &chunk[1..] } else { chunk };
                let wanted = literal.chars().next().ok_or(BadPattern)?;
                failed |= found != Some(wanted);
                chunk = &literal[wanted.len_utf8()..];
            }
        }
        text = after;
    }
    Ok((!failed).then_some(text))
}

/// Reads a class behind its bracket. Returns whether the character is in it, and the text behind
/// the class.
fn class(body: &str, found: Option<char>) -> Result<(bool, &str), BadPattern> {
    let mut body = body;
    let negated = body.starts_with('^');
    if negated {
        body = &body[1..];
    }
    let (mut is_member, mut ranges) = (false, 0);
    loop {
        if ranges > 0 && body.starts_with(']') {
            return Ok((is_member != negated, &body[1..]));
        }
        let (low, rest) = class_character(body)?;
        body = rest;
        let mut high = low;
        if let Some(rest) = body.strip_prefix('-') {
            (high, body) = class_character(rest)?;
        }
        is_member |= found.is_some_and(|c| (low..=high).contains(&c));
        ranges += 1;
    }
}

fn class_character(body: &str) -> Result<(char, &str), BadPattern> {
    let first = body.chars().next().filter(|c| !matches!(c, '-' | ']')).ok_or(BadPattern)?;
    let literal = if first == '\\' { &body[1..] } else { body };
    let c = literal.chars().next().ok_or(BadPattern)?;
    let rest = &literal[c.len_utf8()..];
    if rest.is_empty() { Err(BadPattern) } else { Ok((c, rest)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answers are those of Go's `path.Match`.
    #[test]
    fn patterns_match_as_in_go() {
        let table: &[(&str, &str, Result<bool, BadPattern>)] = &[
            ("abc", "abc", Ok(true)),
            ("*", "abc", Ok(true)),
            ("*c", "abc", Ok(true)),
            ("a*", "a", Ok(true)),
            ("a*", "ab/c", Ok(false)),
            ("a*/b", "abc/b", Ok(true)),
            ("a*/b", "a/c/b", Ok(false)),
            ("a*b*c*d*e*/f", "axbxcxdxe/f", Ok(true)),
            ("a*b*c*d*e*/f", "axbxcxdxexxx/fff", Ok(false)),
            ("a*b?c*x", "abxbbxdbxebxczzx", Ok(true)),
            ("ab[c]", "abc", Ok(true)),
            ("ab[e-g]", "abc", Ok(false)),
            ("ab[^e-g]", "abc", Ok(true)),
            ("a\\*b", "a*b", Ok(true)),
            ("a?b", "aüb", Ok(true)),
            ("a???b", "aüb", Ok(false)),
            ("a?b", "a/b", Ok(false)),
            ("[\\]a]", "]", Ok(true)),
            ("[]a]", "]", Err(BadPattern)),
            ("[-]", "-", Err(BadPattern)),
            ("[x-]", "x", Err(BadPattern)),
            ("[", "a", Err(BadPattern)),
            ("[^bc", "a", Err(BadPattern)),
            ("a[", "ab", Err(BadPattern)),
            ("a[", "x", Err(BadPattern)),
            ("*x", "xxx", Ok(true)),
            ("\\", "a", Err(BadPattern)),
        ];
        for (pattern, name, expected) in table {
            assert_eq!(matches(pattern, name), *expected, "{pattern} {name}");
        }
    }
}
