//! Messages of the Go tools about YAML that they cannot read.
//!
//! The Go reader and ours find the same faults at the same places, but name them differently. Users
//! search for Go's messages, so they are derived here: from our message, and from the text around
//! the place if several Go messages correspond to one of ours.

use groundwork_yaml::{self as yaml, Error, Position};
use serde_json::Value;

const PREFIX: &str = "error converting YAML to JSON: ";

/// Returns the bytes as text, if they are UTF-8.
pub(crate) fn text_of(bytes: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(bytes).map_err(|error| {
        let problem = match error.error_len() {
            None => "incomplete UTF-8 octet sequence",
            Some(_) => match bytes[error.valid_up_to()] {
                0x80..=0xbf | 0xf8..=0xff => "invalid leading UTF-8 octet",
                _ => "invalid trailing UTF-8 octet",
            },
        };
        format!("{PREFIX}yaml: {problem}")
    })
}

/// The part of Go's reader that finds an error. It decides which line the message names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Finder {
    /// The scanner: its messages name the line of the error.
    Scanner,
    /// The parser: its messages name the line before that of the error.
    Parser,
    /// Other parts: their messages name no line.
    Other,
}

/// Returns the error in the words of the Go tools.
pub(crate) fn words(text: &str, error: &Error) -> String {
    let place = FaultPosition::new(text, error.position());
    if let Some(number) = place.not_finite(error.message()) {
        return format!("{PREFIX}json: unsupported value: {number}");
    }
    let (finder, line, problem) = place.problem(error.message());
    let line = match finder {
        Finder::Scanner if line > 1 => format!("line {line}: "),
        Finder::Parser if line > 1 => format!("line {}: ", line - 1),
        _ => String::new(),
    };
    format!("{PREFIX}yaml: {line}{problem}")
}

/// The place in a text at which reading failed.
struct FaultPosition<'t> {
    text: &'t str,
    /// Line, from 1.
    line: usize,
    before: &'t str,
    behind: &'t str,
}

impl<'t> FaultPosition<'t> {
    fn new(text: &'t str, Position { line, column }: Position) -> FaultPosition<'t> {
        let start = text.split_inclusive('\n').take(line - 1).map(str::len).sum::<usize>();
        let inside = text[start..].char_indices().nth(column - 1).map_or(text.len() - start, |(at, _)| at);
        let (before, behind) = text.split_at(start + inside);
        // Go's reader counts more characters as line breaks than ours does.
        let line = line + before.matches(['\u{85}', '\u{2028}', '\u{2029}']).count();
        FaultPosition { text, line, before, behind }
    }

    /// Returns a number that JSON lacks, such as infinity.
    fn not_finite(&self, message: &str) -> Option<&'static str> {
        if !message.contains("infinity") {
            return None;
        }
        Some(match self.behind.as_bytes() {
            [b'-', ..] => "-Inf",
            [b'.', b'n' | b'N', ..] => "NaN",
            _ => "+Inf",
        })
    }

    fn problem(&self, message: &str) -> (Finder, usize, String) {
        let told = |finder, problem: &str| (finder, self.line, problem.to_owned());
        let at_end = |finder, problem: &str| (finder, self.lines(), problem.to_owned());
        let has = |words: &str| message.contains(words);
        if has("simple key expected") {
            let line = self.line + 1 + self.lines_that_go_on();
            return (Finder::Scanner, line, "could not find expected ':'".to_owned());
        }
        if has("unknown anchor") {
            let name: String = self
                .behind
                .chars()
                .skip(1)
                .take_while(|c| c.is_alphanumeric() || matches!(c, '_' | '-'))
                .collect();
            return told(Finder::Other, &format!("unknown anchor '{name}' referenced"));
        }
        if has("alias to itself") {
            let name: String = self
                .behind
                .chars()
                .skip(1)
                .take_while(|c| c.is_alphanumeric() || matches!(c, '_' | '-'))
                .collect();
            return told(Finder::Other, &format!("anchor '{name}' value contains itself"));
        }
        if has("merge key") {
            return told(Finder::Other, "map merge requires map or sequence of maps as the value");
        }
        if has("a list or a map is not allowed as a key") {
            return told(Finder::Other, &format!("invalid map key: {}", self.key_literal()));
        }
        if has("excessive aliasing") {
            return told(Finder::Other, "document contains excessive aliasing");
        }
        if has("unclosed quote") || has("invalid indentation in multiline quoted") {
            return at_end(Finder::Scanner, "found unexpected end of stream");
        }
        if has("unclosed bracket") {
            let (missing, line) = (self.unclosed(), self.lines() + 1);
            return (Finder::Parser, line, missing.to_owned());
        }
        self.problem_of_tokens(message)
    }

    /// Returns the message about a character or bracket that is not allowed at its place.
    fn problem_of_tokens(&self, message: &str) -> (Finder, usize, String) {
        let told = |finder, problem: &str| (finder, self.line, problem.to_owned());
        let has = |words: &str| message.contains(words);
        if has("mismatched bracket") {
            let missing = if has("'['") {
                "did not find expected ',' or ']'"
            } else {
                "did not find expected ',' or '}'"
            };
            return told(Finder::Parser, missing);
        }
        if has("illegal placement of ':'") {
            return told(Finder::Parser, self.in_flow().unwrap_or("did not find expected node content"));
        }
        if has("misplaced bracket") {
            let starts = self.before.trim_end().is_empty() || self.before.trim_end().ends_with([':', '-']);
            let problem = if starts { "did not find expected node content" } else { self.expected() };
            return told(Finder::Parser, problem);
        }
        if has("trailing content after") {
            return told(Finder::Parser, self.expected());
        }
        if has("unexpected EOF") || has("only valid inside a block") {
            return told(Finder::Parser, "did not find expected node content");
        }
        if has("unexpected character") {
            return match self
                .text
                .contains(|c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t' | '\u{85}'))
            {
                true => told(Finder::Other, "control characters are not allowed"),
                false => told(Finder::Scanner, "found character that cannot start any token"),
            };
        }
        if has("tabs disallowed") {
            return told(Finder::Scanner, "found character that cannot start any token");
        }
        if has("found a tab") {
            return told(Finder::Scanner, "found a tab character that violates indentation");
        }
        if has("handle wasn't declared") {
            return told(Finder::Parser, "found undefined tag handle");
        }
        if has("hexadecimal") {
            return told(Finder::Scanner, "did not find expected hexdecimal number");
        }
        if has("missing explicit document end") {
            return told(Finder::Scanner, "found unknown directive name");
        }
        self.problem_as_told(message)
    }

    /// Returns the message of our reader without its context; that part is the same in Go's reader.
    fn problem_as_told(&self, message: &str) -> (Finder, usize, String) {
        let told = |finder, problem: &str| (finder, self.line, problem.to_owned());
        let has = |words: &str| message.contains(words);
        let problem = message
            .rsplit_once("while ")
            .map_or(message, |(_, rest)| rest.split_once(", ").map_or(message, |(_, problem)| problem));
        let is_of_parser = has("while parsing a") && !has("quoted scalar") || has("document start");
        if problem.starts_with("expected ',' or") {
            return told(Finder::Parser, &format!("did not find {problem}"));
        }
        told(if is_of_parser { Finder::Parser } else { Finder::Scanner }, problem)
    }

    /// Returns the number of further lines of an unquoted text that begins here: those with a
    /// deeper indentation.
    fn lines_that_go_on(&self) -> usize {
        let indent = |line: &str| line.len() - line.trim_start_matches(' ').len();
        let mut lines = self.text.lines().skip(self.line - 1);
        let own = lines.next().map_or(0, indent);
        lines.take_while(|line| line.is_empty() || indent(line) > own).filter(|line| !line.is_empty()).count()
    }

    /// Returns the number of lines. A final line break does not begin a line.
    fn lines(&self) -> usize {
        self.text.lines().count().max(1)
    }

    /// Returns the message about a text that ends inside a bracket.
    fn unclosed(&self) -> &'static str {
        match self.text.trim_end().as_bytes() {
            [.., b'[' | b'{' | b','] => "did not find expected node content",
            _ => match self.open_brackets(self.text).last() {
                Some('{') => "did not find expected ',' or '}'",
                _ => "did not find expected ',' or ']'",
            },
        }
    }

    /// Returns the message about an unexpected text behind a value.
    fn expected(&self) -> &'static str {
        self.in_flow().unwrap_or_else(|| {
            let line = self.before.rsplit('\n').next().unwrap_or_default().trim_start();
            let goes_on_with_key = self.behind.lines().next().is_some_and(|rest| rest.contains(':'));
            if line.starts_with("- ") && !line.contains(": ") && !goes_on_with_key {
                "did not find expected '-' indicator"
            } else {
                "did not find expected key"
            }
        })
    }

    fn in_flow(&self) -> Option<&'static str> {
        match self.open_brackets(self.before).last()? {
            '{' => Some("did not find expected ',' or '}'"),
            _ => Some("did not find expected ',' or ']'"),
        }
    }

    /// Returns the brackets that are open at the end of a text, as far as its last lines show.
    fn open_brackets(&self, text: &str) -> Vec<char> {
        let mut open = Vec::new();
        let mut quote = None;
        for c in text.chars() {
            match (quote, c) {
                (Some(mark), c) if mark == c => quote = None,
                (Some(_), _) => {}
                (None, '"' | '\'') => quote = Some(c),
                (None, '[' | '{') => open.push(c),
                (None, ']' | '}') => drop(open.pop()),
                _ => {}
            }
        }
        open
    }

    /// Returns a list or map in the place of a key, as Go prints it.
    fn key_literal(&self) -> String {
        let mut depth = 0;
        let end = self.behind.char_indices().find_map(|(at, c)| {
            match c {
                '[' | '{' => depth += 1,
                ']' | '}' => depth -= 1,
                _ => {}
            }
            (depth == 0).then_some(at + c.len_utf8())
        });
        let key = &self.behind[..end.unwrap_or(self.behind.len())];
        let inside = key.trim_start_matches('{').trim_end_matches('}').trim();
        if key.starts_with('{') && !inside.contains([',', ':', '{', '[']) {
            let name = yaml::from_str(inside).unwrap_or_default();
            return format!("map[interface {{}}]interface {{}}{{{}:interface {{}}(nil)}}", go_literal(&name));
        }
        go_literal(&yaml::from_str(key).unwrap_or_default())
    }
}

fn go_literal(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::String(text) => groundwork_go::text::quote(text.as_bytes()),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(go_literal).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(members) => {
            let member = |(key, value): (&String, &Value)| {
                format!("{}:{}", groundwork_go::text::quote(key.as_bytes()), go_literal(value))
            };
            let members: Vec<String> = members.iter().map(member).collect();
            format!("map[interface {{}}]interface {{}}{{{}}}", members.join(", "))
        }
        other => other.to_string(),
    }
}
