//! The functions `camelcase`, `snakecase` and `kebabcase` (`gotemplate.md` 12.12).

use unicode_general_category::{GeneralCategory as Category, get_general_category};

use super::casing::{is_upper, to_lower, to_upper};
use super::strings::mapped;
use crate::functions::{Functions, Signature, Type};
use crate::text;

/// Memory of a letter while words are separated, its place in the result included.
const LETTER_BYTES: usize = size_of::<Letter<'_>>();

pub(super) fn register(functions: &mut Functions) {
    let one = Signature::fixed(&[Type::String]);
    functions
        .add("camelcase", one.clone(), |context, args| {
            // `camelcase` works on characters; the other two also keep invalid bytes.
            Ok(pascal_case(&characters(mapped(context, args, 3)?)).into())
        })
        .add("snakecase", one.clone(), |context, args| {
            Ok(separate_words(mapped(context, args, LETTER_BYTES)?, '_').into())
        })
        .add("kebabcase", one, |context, args| {
            Ok(separate_words(mapped(context, args, LETTER_BYTES)?, '-').into())
        });
}

fn characters(subject: &[u8]) -> Vec<char> {
    text::runes(subject).map(|(c, _)| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
}

fn is_connector(c: char) -> bool {
    c == '-' || c == '_' || text::is_space(c)
}

fn is_number(c: char) -> bool {
    matches!(
        get_general_category(c),
        Category::DecimalNumber | Category::LetterNumber | Category::OtherNumber
    )
}

fn is_punctuation(c: char) -> bool {
    matches!(
        get_general_category(c),
        Category::ConnectorPunctuation
            | Category::DashPunctuation
            | Category::OpenPunctuation
            | Category::ClosePunctuation
            | Category::InitialPunctuation
            | Category::FinalPunctuation
            | Category::OtherPunctuation
    )
}

/// Reports whether a character is a letter other than the ideographs that sprig knows.
fn is_alphabet(c: char) -> bool {
    text::is_letter(c)
        && !matches!(c, '\u{3400}'..='\u{4d85}' | '\u{4e00}'..='\u{9fcc}' | '\u{20000}'..='\u{2b81d}')
}

/// Gives each word a capital. Connectors between words are dropped, those around the text kept.
fn pascal_case(chars: &[char]) -> String {
    let lead = chars.iter().take_while(|&&c| is_connector(c)).count();
    let mut out: String = chars[..lead].iter().collect();
    let Some((&first, rest)) = chars[lead..].split_first() else {
        // If the text has only connectors, sprig writes the last one twice.
        out.extend(chars.last());
        return out;
    };
    let mut lowers_capitals = is_upper(first);
    let mut previous = to_upper(first);
    for &c in rest {
        let current = match (is_connector(previous), is_connector(c)) {
            (true, false) => {
                // The connector before this letter is dropped, as the capital marks the start of
                // the word.
                lowers_capitals = is_upper(c);
                previous = to_upper(c);
                continue;
            }
            (true, true) => c,
            (false, _) if lowers_capitals && is_upper(c) => to_lower(c),
            (false, _) => {
                lowers_capitals = false;
                c
            }
        };
        out.push(previous);
        previous = current;
    }
    out.push(previous);
    out
}

/// A character of a text together with the invalid bytes around it.
struct Letter<'s> {
    shown: char,
    raw: &'s [u8],
}

/// Splits a text into letters. Invalid bytes belong to the character behind them, those at the end
/// to the one in front.
fn letters(subject: &[u8]) -> Vec<Letter<'_>> {
    let mut letters: Vec<Letter<'_>> = Vec::with_capacity(subject.len());
    let (mut from, mut to) = (0, 0);
    for (c, raw) in text::runes(subject) {
        to += raw.len();
        if let Some(shown) = c.filter(|&c| c != char::REPLACEMENT_CHARACTER) {
            letters.push(Letter { shown, raw: &subject[from..to] });
            from = to;
        }
    }
    let rest = &subject[from..];
    match letters.last_mut() {
        _ if rest.is_empty() => {}
        Some(last) => last.raw = &subject[from - last.raw.len()..],
        None => letters.push(Letter { shown: char::REPLACEMENT_CHARACTER, raw: rest }),
    }
    letters
}

/// The kind of a run of characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    End,
    Number,
    Upper,
    Lower,
    Connector,
    Punctuation,
    Other,
}

impl Kind {
    /// Reports whether a connector belongs between a word and this one.
    fn needs_connector(self) -> bool {
        !matches!(self, Kind::End | Kind::Connector | Kind::Punctuation)
    }

    fn continues_number(self) -> bool {
        matches!(self, Kind::Lower | Kind::Number)
    }
}

/// Takes the next run off the front.
fn next_word<'c>(chars: &'c [Letter<'c>]) -> (Kind, &'c [Letter<'c>], &'c [Letter<'c>]) {
    let Some(&Letter { shown: first, .. }) = chars.first() else { return (Kind::End, chars, chars) };
    let run = |belongs: fn(char) -> bool| chars.iter().take_while(|c| belongs(c.shown)).count();
    let is_lower = |c: char| is_alphabet(c) && !is_upper(c);
    let (kind, length) = if is_connector(first) {
        (Kind::Connector, run(is_connector))
    } else if is_punctuation(first) {
        (Kind::Punctuation, run(is_punctuation))
    } else if is_upper(first) {
        let capitals = run(is_upper);
        let follower = chars.get(capitals).map(|c| c.shown);
        let length = match (capitals, follower) {
            // The lower-case letters after a single capital belong to its word.
            (1, _) => 1 + chars[1..].iter().take_while(|c| is_lower(c.shown)).count(),
            // The last of several capitals starts the next word.
            (_, Some(c)) if is_alphabet(c) => capitals - 1,
            _ => capitals,
        };
        (Kind::Upper, length)
    } else if is_alphabet(first) {
        (Kind::Lower, chars.iter().take_while(|c| is_lower(c.shown)).count())
    } else if is_number(first) {
        (Kind::Number, run(is_number))
    } else {
        let is_other = |c| !is_connector(c) && !is_alphabet(c) && !is_number(c) && !is_punctuation(c);
        (Kind::Other, 1 + chars[1..].iter().take_while(|c| is_other(c.shown)).count())
    };
    let (word, rest) = chars.split_at(length);
    (kind, word, rest)
}

/// A result in the making: words in lower case, joined by a connector.
struct Joiner {
    out: Vec<u8>,
    connector: char,
}

impl Joiner {
    fn word(&mut self, kind: Kind, word: &[Letter]) {
        match kind {
            Kind::Upper | Kind::Connector => {
                for c in word.iter().flat_map(|letter| characters(letter.raw)) {
                    self.push(if is_connector(c) { self.connector } else { to_lower(c) });
                }
            }
            _ => word.iter().for_each(|letter| self.out.extend(letter.raw)),
        }
    }

    fn push(&mut self, c: char) {
        self.out.extend(c.encode_utf8(&mut [0; 4]).as_bytes());
    }

    fn connect_before(&mut self, kind: Kind) {
        if kind.needs_connector() {
            self.push(self.connector);
        }
    }

    /// Adds the lower-case letters and digits behind a number to its word. Returns the word after
    /// them.
    fn number_tail<'c>(
        &mut self,
        mut next: (Kind, &'c [Letter<'c>], &'c [Letter<'c>]),
    ) -> (Kind, &'c [Letter<'c>], &'c [Letter<'c>]) {
        while next.0.continues_number() {
            self.word(next.0, next.1);
            next = next_word(next.2);
        }
        self.connect_before(next.0);
        next
    }
}

fn separate_words(subject: &[u8], connector: char) -> Vec<u8> {
    let letters = letters(subject);
    let mut joiner = Joiner { out: Vec::with_capacity(subject.len() + 8), connector };
    let (mut kind, mut word, mut rest) = next_word(&letters);
    while !rest.is_empty() {
        joiner.word(kind, word);
        let previous = kind;
        (kind, word, rest) = next_word(rest);
        match previous {
            Kind::Number => (kind, word, rest) = joiner.number_tail((kind, word, rest)),
            Kind::Connector | Kind::Punctuation => {}
            _ if kind != Kind::Number => joiner.connect_before(kind),
            _ if rest.is_empty() => {}
            _ => {
                // Digits belong to the word before them, unless lower-case letters follow.
                let digits = word;
                let after = next_word(rest);
                if after.0 == Kind::Lower {
                    joiner.push(connector);
                    joiner.word(Kind::Number, digits);
                    (kind, word, rest) = joiner.number_tail(after);
                } else {
                    joiner.word(Kind::Number, digits);
                    joiner.connect_before(after.0);
                    (kind, word, rest) = after;
                }
            }
        }
    }
    joiner.word(kind, word);
    joiner.out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn camelcase_is_pascal_case() {
        let check = |input: &str, expected: &str| {
            assert_eq!(pascal_case(&characters(input.as_bytes())), expected, "{input}");
        };
        check("GOLANG_IS_GREAT", "GolangIsGreat");
        check("foo_Bar-BAZ qux", "FooBarBazQux");
        check("_complex__case_", "_Complex_Case_");
        check("HTTPServer", "Httpserver");
        check("no_https", "NoHttps");
        check("a- b", "A-B");
        check("a -b", "A B");
        check("a -_b", "A -B");
        check("", "");
        check("__", "___");
    }

    #[test]
    fn snakecase_splits_words() {
        let check = |input: &str, connector: char, expected: &str| {
            assert_eq!(separate_words(input.as_bytes(), connector), expected.as_bytes(), "{input}");
        };
        check("Bld4Floor3rd", '_', "bld4_floor_3rd");
        check("http2xx", '_', "http_2xx");
        check("HTTP20xOK", '_', "http_20x_ok");
        check("Duration2m3s", '_', "duration_2m3s");
        check("a.b:c", '_', "a.b:c");
        check("fooBar.bazQux_1a", '-', "foo-bar.baz-qux-1a");
        check("HTTPServer", '_', "http_server");
        check("NoHTTPS", '_', "no_https");
        check("GO PATH", '_', "go_path");
        check("ۄ+a テスト漢字b", '_', "ۄ_+_a_テスト_漢字_b");
        check("", '_', "");
        assert_eq!(separate_words(b"bad\xffutf Ab\xfe", '_'), b"bad\xffutf_ab\xef\xbf\xbd");
        assert_eq!(separate_words(b"\xff", '_'), b"\xff");
    }
}
