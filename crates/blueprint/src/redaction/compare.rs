//! Comparison of a message with the messages of the same step for other values. A part that differs
//! depends on values.

use super::REDACTED;
use super::words::Words;

/// Limit for looking up single words. In a longer message all words are withheld, because the
/// lookup would take too long.
const MOST_TOKENS: usize = 4000;

/// Returns the parts of a message that do not depend on values.
///
/// `others` are the messages for other values, `None` if the step did not fail with them. Against
/// `None`, only words of the author or the engine remain.
pub(super) fn without_differences(message: &str, others: &[Option<&str>], words: &Words<'_>) -> String {
    let tokens = tokens(message);
    // Number of bytes to show of each token.
    let mut shown: Vec<usize> = tokens.iter().map(|token| token.len()).collect();
    for other in others {
        match other {
            Some(other) if *other == message => {}
            Some(other) => keep_what_is_equal(&tokens, &self::tokens(other), &mut shown),
            None if tokens.len() > MOST_TOKENS => shown.fill(0),
            None => words.keep_known(&tokens, &mut shown),
        }
    }
    write(&tokens, &shown)
}

/// Splits a message into words, with adjacent punctuation that does not separate, and single
/// separators.
pub(super) fn tokens(message: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = message;
    while let Some(first) = rest.chars().next() {
        let length = match rest.find(is_separator) {
            Some(0) => first.len_utf8(),
            Some(length) => length,
            None => rest.len(),
        };
        let (token, after) = rest.split_at(length);
        tokens.push(token);
        rest = after;
    }
    tokens
}

pub(super) fn is_separator(character: char) -> bool {
    character.is_whitespace() || "\"'`()[]{}<>,;:=|".contains(character)
}

/// Keeps equal tokens. Messages with the same number of tokens are compared one by one, others from
/// both ends, because equal tokens in the middle could be a coincidence.
fn keep_what_is_equal(tokens: &[&str], others: &[&str], shown: &mut [usize]) {
    if tokens.len() == others.len() {
        for (index, shown) in shown.iter_mut().enumerate() {
            *shown = equal_part(tokens[index], others[index]).min(*shown);
        }
        return;
    }
    let shorter = tokens.len().min(others.len());
    let before = tokens.iter().zip(others).position(|(token, other)| token != other).unwrap_or(shorter);
    let ends = tokens.iter().rev().zip(others.iter().rev());
    let after = ends.take(shorter - before).position(|(token, other)| token != other);
    let after = tokens.len() - after.unwrap_or(shorter - before);
    shown[before..after].fill(0);
}

/// Returns the length of the common prefix, up to its last character that is not a letter or digit.
fn equal_part(token: &str, other: &str) -> usize {
    if token == other {
        return token.len();
    }
    let pairs = token.char_indices().zip(other.chars()).take_while(|((_, one), other)| one == other);
    let marks = pairs.filter(|((_, one), _)| !one.is_alphanumeric());
    marks.last().map_or(0, |((at, mark), _)| at + mark.len_utf8())
}

/// Joins the shown parts. Adjacent withheld parts become one mark, so that their number stays
/// hidden.
fn write(tokens: &[&str], shown: &[usize]) -> String {
    let mut text = String::new();
    // Separators after a withheld part. They are dropped if the next part is withheld too.
    let mut between: Option<String> = None;
    for (token, shown) in tokens.iter().zip(shown) {
        let separates = !token.contains(|next: char| next.is_alphanumeric() || "\n\t".contains(next));
        let is_whole = *shown == token.len() || token.chars().all(char::is_whitespace);
        match &mut between {
            Some(held) if is_whole && separates => held.push_str(token),
            Some(held) if !is_whole && *shown == 0 => held.clear(),
            _ => {
                text.push_str(&between.take().unwrap_or_default());
                text.push_str(if is_whole { token } else { &token[..*shown] });
                if !is_whole {
                    text.push_str(REDACTED);
                    between = Some(String::new());
                }
            }
        }
    }
    text + &between.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compared(message: &str, others: &[Option<&str>]) -> String {
        let words = Words::new(vec!["fail (printf \"host %s is too long for 3 bytes\")".into()], &[]);
        without_differences(message, others, &words)
    }

    #[test]
    fn what_differs_is_withheld() {
        for (message, others, expected) in [
            ("host a-b is bad", [Some("host c-d is bad"), None], "host [...] bad"),
            (
                "host web-b is bad",
                [Some("host web-d is bad"), Some("host web-b is bad")],
                "host web-[...] is bad",
            ),
            ("host ab is bad", [Some("host cd is bad"), Some("host ab is bad")], "host [...] is bad"),
            ("host a b is bad", [Some("host c d is bad"), Some("host a b is bad")], "host [...] is bad"),
            ("map[u1:80] \"x\"", [Some("map[z4:13] \"x\""), Some("map[u1:80] \"x\"")], "map[[...]] \"x\""),
            ("one a is long", [Some("one is long"), Some("one a is long")], "one [...] is long"),
            ("flag true", [Some("flag true"), Some("flag false")], "flag [...]"),
        ] {
            assert_eq!(compared(message, &others), expected, "{message}");
        }
    }

    /// Without a message to compare with, only words of the author and of the engines remain.
    #[test]
    fn what_is_known_remains() {
        for (message, expected) in [
            ("host h-1 is too long for 3 bytes", "host [...] is too long for 3 bytes"),
            ("host h-1 is too long for 4 bytes", "host [...] is too long for [...] bytes"),
            ("p o l l", "[...]"),
            ("expected integer; found HUNTER2", "expected integer; found [...]"),
        ] {
            assert_eq!(compared(message, &[None]), expected, "{message}");
        }
    }
}
