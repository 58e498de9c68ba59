//! The parser's rules for single tokens.

use std::sync::Arc;

use super::Parser;
use crate::syntax::ast::{Expr, Name, Reference, Step};
use crate::syntax::error::{Excerpt, ParseError};
use crate::syntax::strings::{self, EscapeError};

impl Parser<'_> {
    pub(super) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    pub(super) fn peek_at(&self, distance: usize) -> Option<u8> {
        self.bytes.get(self.at + distance).copied()
    }

    pub(super) fn byte(&mut self, expected: u8) -> Option<()> {
        (self.peek() == Some(expected)).then(|| self.at += 1)
    }

    pub(super) fn literal(&mut self, expected: &str) -> Option<()> {
        self.bytes[self.at..].starts_with(expected.as_bytes()).then(|| self.at += expected.len())
    }

    /// Consumes bytes as long as `wanted` is true, and returns their number.
    fn run(&mut self, wanted: impl Fn(u8) -> bool) -> usize {
        let start = self.at;
        while self.peek().is_some_and(&wanted) {
            self.at += 1;
        }
        self.at - start
    }

    fn some(&mut self, wanted: impl Fn(u8) -> bool) -> Option<()> {
        (self.run(wanted) > 0).then_some(())
    }

    pub(super) fn space(&mut self) {
        let start = self.at;
        self.run(is_space);
        self.matched(start);
    }

    pub(super) fn some_space(&mut self) -> Option<()> {
        let start = self.at;
        self.some(is_space)?;
        self.matched(start);
        Some(())
    }

    fn since(&self, start: usize) -> &str {
        &self.text[start..self.at]
    }

    fn name_since(&self, start: usize) -> Name {
        Arc::from(self.since(start))
    }

    /// `name`: letters, digits and underscores.
    pub(super) fn name(&mut self) -> Option<Name> {
        let start = self.at;
        self.some(is_word)?;
        self.matched(start);
        Some(self.name_since(start))
    }

    /// `key`: `part` or `part:part`.
    pub(super) fn key(&mut self) -> Option<Name> {
        let start = self.at;
        self.key_part()?;
        self.attempt(|parser| {
            parser.byte(b':')?;
            parser.key_part()
        });
        self.matched(start);
        Some(self.name_since(start))
    }

    fn key_part(&mut self) -> Option<()> {
        self.peek().filter(|&byte| is_word(byte))?;
        self.some(|byte| is_word(byte) || byte == b'-')
    }

    /// `[N]`, `[-N]`.
    pub(super) fn index(&mut self) -> Option<i64> {
        let start = self.at;
        self.attempt(|parser| {
            parser.byte(b'[')?;
            let digits = parser.at;
            let _ = parser.byte(b'-');
            parser.some(|byte| byte.is_ascii_digit())?;
            let index = parser.since(digits).parse().ok()?;
            parser.byte(b']')?;
            parser.matched(start);
            Some(index)
        })
    }

    /// `"." key` or `["."] index`.
    pub(super) fn step(&mut self) -> Option<Step> {
        self.attempt(|parser| {
            if parser.byte(b'.').is_some()
                && let Some(key) = parser.key()
            {
                return Some(Step::Field(key));
            }
            parser.index().map(Step::Index)
        })
    }

    pub(super) fn reference(&mut self) -> Option<Reference> {
        let start = self.at;
        let mut reference = match self.attempt(Self::tagged_start) {
            Some(tagged) => tagged,
            None => self.attempt(|parser| {
                let absolute = parser.byte(b'.').is_some();
                let key = parser.key()?;
                Some(Reference { tag: None, absolute, steps: vec![Step::Field(key)] })
            })?,
        };
        while let Some(step) = self.step() {
            reference.steps.push(step);
        }
        self.matched(start);
        Some(reference)
    }

    fn tagged_start(&mut self) -> Option<Reference> {
        let tag = self.attempt(Self::document_tag).or_else(|| self.attempt(Self::tag_before_path))?;
        if self.byte(b'.').is_some() {
            return Some(Reference { tag: Some(tag), absolute: true, steps: Vec::new() });
        }
        let key = self.key()?;
        Some(Reference { tag: Some(tag), absolute: false, steps: vec![Step::Field(key)] })
    }

    fn document_tag(&mut self) -> Option<Name> {
        let start = self.at;
        self.literal("doc")?;
        self.some_of(b".:")?;
        let _ = self.byte(b'-');
        self.some(|byte| byte.is_ascii_digit())?;
        let tag = self.name_since(start);
        self.literal("::")?;
        Some(tag)
    }

    fn tag_before_path(&mut self) -> Option<Name> {
        let tag = self.tag_name()?;
        self.literal("::")?;
        Some(tag)
    }

    /// `word { ("."|":") word }`, as written.
    pub(super) fn tag_name(&mut self) -> Option<Name> {
        let start = self.at;
        self.tag_word()?;
        while self.attempt(|parser| parser.some_of(b".:").and_then(|()| parser.tag_word())).is_some() {}
        Some(self.name_since(start))
    }

    fn tag_word(&mut self) -> Option<()> {
        self.peek().filter(|&byte| is_word(byte) && !byte.is_ascii_digit())?;
        self.some(is_word)
    }

    fn some_of(&mut self, bytes: &[u8]) -> Option<()> {
        self.peek().filter(|byte| bytes.contains(byte)).map(|_| self.at += 1)
    }

    /// `1.2.3.4` without quotes.
    pub(super) fn address(&mut self) -> Option<Expr> {
        let start = self.at;
        let digit = |byte: u8| byte.is_ascii_digit();
        self.attempt(|parser| {
            parser.some(digit)?;
            for _ in 0..3 {
                parser.byte(b'.')?;
                parser.some(digit)?;
            }
            parser.matched(start);
            Some(Expr::String(parser.name_since(start)))
        })
    }

    /// Parses a number that is not the beginning of `1::…`.
    pub(super) fn number(&mut self) -> Option<Expr> {
        let start = self.at;
        let digit = |byte: u8| byte.is_ascii_digit();
        let is_float = self.attempt(|parser| {
            let _ = parser.byte(b'-');
            parser.peek().filter(u8::is_ascii_digit)?;
            parser.run(|byte| byte.is_ascii_digit() || byte == b'_');
            let fraction = parser.attempt(|parser| {
                parser.byte(b'.')?;
                parser.some(digit)
            });
            let exponent = parser.attempt(|parser| {
                parser.some_of(b"eE")?;
                let _ = parser.byte(b'-');
                parser.some(digit)
            });
            let before_tag = parser.peek() == Some(b':') && parser.peek_at(1) == Some(b':');
            (!before_tag).then_some(fraction.is_some() || exponent.is_some())
        })?;
        self.matched(start);
        let digits = self.since(start).replace('_', "");
        let value = if is_float {
            digits.parse().ok().filter(|value: &f64| value.is_finite()).map(Expr::Float)
        } else {
            digits.parse().ok().map(Expr::Int)
        };
        if value.is_none() {
            self.refuse(start, "the number is out of range");
        }
        value
    }

    /// Parses `"…"` with the escapes of JSON. A backslash before a quote always escapes the quote.
    pub(super) fn string(&mut self) -> Option<Expr> {
        let start = self.at;
        self.attempt(|parser| {
            parser.byte(b'"')?;
            loop {
                match parser.peek()? {
                    b'"' => break,
                    b'\\' if parser.peek_at(1) == Some(b'"') => parser.at += 2,
                    _ => parser.at += 1,
                }
            }
            parser.at += 1;
            parser.matched(start);
            Some(())
        })?;
        match strings::unquote(&self.text[start + 1..self.at - 1]) {
            Ok(text) => Some(Expr::String(Arc::from(text))),
            Err(EscapeError(message)) => {
                self.refuse(start, &message);
                None
            }
        }
    }

    /// `$name`.
    pub(super) fn symbol(&mut self) -> Option<Expr> {
        self.byte(b'$')?;
        self.name().map(Expr::String)
    }

    fn refuse(&mut self, start: usize, why: &str) {
        let excerpt = Excerpt::new(self.text, start, self.at);
        self.fatal.get_or_insert(ParseError::Token(excerpt, why.to_owned()));
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}
