//! Formats as gojsonschema 1.2.0, the validator of Landscaper, checks them (`blueprints.md` 3.7.1):
//! with Go's parsers, which accept more than the standards that the formats name.

use std::net::IpAddr;

use groundwork_go::regexp;
use groundwork_go::time::parse;
use groundwork_go::url::Url;

/// Checks a text.
pub(super) type Check = fn(&str) -> bool;

/// Formats that are asserted; others are ignored.
pub(super) const CHECKS: [(&str, Check); 17] = [
    ("date", |text| is_of(text, &["2006-01-02"])),
    ("time", |text| is_of(text, &["15:04:05", "15:04:05Z07:00"])),
    ("date-time", |text| {
        is_of(text, &["15:04:05", "15:04:05Z07:00", "2006-01-02", "2006-01-02T15:04:05Z07:00"])
    }),
    ("hostname", is_hostname),
    ("email", is_email),
    ("idn-email", is_email),
    ("ipv4", |text| text.parse::<IpAddr>().is_ok() && text.contains('.')),
    ("ipv6", |text| text.parse::<IpAddr>().is_ok() && text.contains(':')),
    ("uri", is_uri),
    ("iri", is_uri),
    ("uri-reference", |text| reference(text).is_some()),
    ("iri-reference", |text| reference(text).is_some()),
    ("uri-template", |text| reference(text).is_some_and(|url| is_template(&url.path))),
    ("uuid", is_uuid),
    ("regex", regexp::is_valid),
    ("json-pointer", |text| text.is_empty() || is_pointer(text)),
    ("relative-json-pointer", is_relative_pointer),
];

/// Reports whether a text is a time in one of some layouts.
fn is_of(text: &str, layouts: &[&str]) -> bool {
    layouts.iter().any(|layout| parse(layout.as_bytes(), text.as_bytes()).is_ok())
}

fn is_hostname(text: &str) -> bool {
    let is_label = |label: &str| {
        let inner = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
        (1..=63).contains(&label.len())
            && label.bytes().all(inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.len() < 256 && text.split('.').all(is_label)
}

/// Parses a URL reference without a backslash.
fn reference(text: &str) -> Option<Url> {
    Url::parse(text.as_bytes()).ok().filter(|_| !text.contains('\\'))
}

fn is_uri(text: &str) -> bool {
    reference(text).is_some_and(|url| !url.scheme.is_empty())
}

/// Reports whether each opening brace has a closing one.
fn is_template(path: &[u8]) -> bool {
    let mut rest = path;
    while let Some(open) = rest.iter().position(|b| *b == b'{') {
        rest = &rest[open..];
        let Some(close) = rest.iter().position(|b| *b == b'}') else { return false };
        rest = &rest[close..];
    }
    true
}

fn is_uuid(text: &str) -> bool {
    let is_lower = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    let parts: Vec<&str> = text.split('-').collect();
    parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12])
        && parts.iter().all(|part| part.bytes().all(is_lower))
}

fn is_pointer(text: &str) -> bool {
    text.starts_with('/') && text.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']))
}

fn is_relative_pointer(text: &str) -> bool {
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let number = &text[..text.len() - rest.len()];
    let is_number = number == "0" || (!number.is_empty() && !number.starts_with('0'));
    is_number && (rest.is_empty() || rest == "#" || is_pointer(rest))
}

/// Reports whether a text is one address as Go's `net/mail` reads it, with or without a name.
fn is_email(text: &str) -> bool {
    let mut reader = Address { rest: text };
    reader.address().is_some() && reader.skip_comments().is_some() && reader.rest.is_empty()
}

/// Parser of an address, with the rest of the text.
struct Address<'t> {
    rest: &'t str,
}

impl Address<'_> {
    fn take(&mut self, wanted: char) -> Option<()> {
        self.rest = self.rest.strip_prefix(wanted)?;
        Some(())
    }

    fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t']);
    }

    /// Skips blanks and comments, which may be nested.
    fn skip_comments(&mut self) -> Option<()> {
        self.skip_blanks();
        while self.rest.starts_with('(') {
            let mut depth = 0_usize;
            let mut is_escaped = false;
            let end = self.rest.char_indices().find(|(_, c)| {
                match c {
                    _ if is_escaped => is_escaped = false,
                    '\\' => is_escaped = true,
                    '(' => depth += 1,
                    ')' => depth -= 1,
                    _ => {}
                }
                depth == 0
            });
            self.rest = &self.rest[end?.0 + 1..];
            self.skip_blanks();
        }
        Some(())
    }

    fn address(&mut self) -> Option<()> {
        self.skip_blanks();
        let start = self.rest;
        if self.specification().is_some() {
            return Some(());
        }
        self.rest = start;
        if !self.rest.starts_with('<') {
            self.phrase()?;
            self.skip_blanks();
        }
        self.take('<')?;
        self.specification()?;
        self.take('>')
    }

    /// Reads `local@domain`.
    fn specification(&mut self) -> Option<()> {
        self.skip_blanks();
        if self.rest.starts_with('"') {
            self.quoted(false)?;
        } else {
            self.atom(true)?;
        }
        self.take('@')?;
        self.skip_blanks();
        if self.rest.starts_with('[') {
            let end = self.rest.find(']')?;
            let is_address =
                self.rest[1..end].strip_prefix("IPv6:").unwrap_or(&self.rest[1..end]).parse::<IpAddr>();
            self.rest = &self.rest[end + 1..];
            return is_address.ok().map(drop);
        }
        self.atom(true)
    }

    /// Reads a name: words, each an atom or quoted.
    fn phrase(&mut self) -> Option<()> {
        let mut words = 0;
        loop {
            self.skip_blanks();
            let read = match self.rest.chars().next() {
                Some('"') => self.quoted(true),
                Some(c) if is_atom(c) || c == '.' => self.word(),
                _ => break,
            };
            read?;
            words += 1;
        }
        (words > 0).then_some(())
    }

    /// Reads a word of a name, in which dots are allowed anywhere.
    fn word(&mut self) -> Option<()> {
        self.rest = self.rest.trim_start_matches(|c| is_atom(c) || c == '.');
        Some(())
    }

    fn atom(&mut self, with_dots: bool) -> Option<()> {
        let rest = self.rest.trim_start_matches(|c| is_atom(c) || (with_dots && c == '.'));
        let atom = &self.rest[..self.rest.len() - rest.len()];
        self.rest = rest;
        let is_whole =
            !atom.is_empty() && !atom.starts_with('.') && !atom.ends_with('.') && !atom.contains("..");
        is_whole.then_some(())
    }

    fn quoted(&mut self, may_be_empty: bool) -> Option<()> {
        let mut is_escaped = false;
        let end = self.rest.char_indices().skip(1).find(|(_, c)| match c {
            _ if is_escaped => {
                is_escaped = false;
                false
            }
            '\\' => {
                is_escaped = true;
                false
            }
            c => *c == '"',
        });
        let end = end?.0;
        let text = &self.rest[1..end];
        self.rest = &self.rest[end + 1..];
        let is_printable = text.chars().all(|c| c == '\t' || !c.is_control());
        (is_printable && (may_be_empty || !text.is_empty())).then_some(())
    }
}

fn is_atom(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c) || !c.is_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected results were recorded from gojsonschema.
    #[test]
    fn recorded_answers() {
        let recorded: Vec<(String, String, bool)> =
            serde_json::from_str(include_str!("recorded.json")).expect("the file is JSON");
        let wrong: Vec<_> = recorded
            .iter()
            .filter(|(format, text, fits)| {
                CHECKS.iter().find(|(name, _)| name == format).is_none_or(|(_, check)| check(text) != *fits)
            })
            .collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}
