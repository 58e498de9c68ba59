//! From text to tokens, with indentation as tokens of its own.

use num_bigint::BigInt;

use super::literal;
use super::token::{KEYWORDS, MARKS, RESERVED, Token};
use crate::fault::{Fault, Position};

/// Depth of blocks, as many as Python has.
const MOST_INDENTS: usize = 100;

pub(super) struct Lexer<'a> {
    text: &'a str,
    /// Place of the next byte.
    at: usize,
    place: Position,
    /// Columns of the open blocks; the first is 0.
    indents: Vec<u32>,
    /// Outdents that have not been handed out.
    outdents: usize,
    /// Number of open brackets, within which lines do not end.
    brackets: usize,
    is_line_start: bool,
    /// True if a line has begun that has no end yet.
    is_line_open: bool,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        Self {
            text,
            at: 0,
            place: Position { line: 1, column: 1 },
            indents: vec![0],
            outdents: 0,
            brackets: 0,
            is_line_start: true,
            is_line_open: false,
        }
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn bump(&mut self) -> Option<char> {
        let found = self.peek()?;
        self.at += found.len_utf8();
        if found == '\n' {
            self.place.line += 1;
            self.place.column = 1;
        } else {
            self.place.column += 1;
        }
        Some(found)
    }

    fn skip(&mut self, bytes: usize) {
        let end = self.at + bytes;
        while self.at < end && self.bump().is_some() {}
    }

    /// Returns the next token and its place.
    pub(super) fn next(&mut self) -> Result<(Token, Position), Fault> {
        if self.is_line_start && self.brackets == 0 {
            self.is_line_start = false;
            if let Some(token) = self.indentation()? {
                return Ok((token, self.place));
            }
        }
        if self.outdents > 0 {
            self.outdents -= 1;
            return Ok((Token::Outdent, self.place));
        }
        self.blanks();
        let place = self.place;
        let Some(first) = self.peek() else { return Ok((self.end(), place)) };
        if first == '\n' {
            self.bump();
            self.is_line_start = true;
            self.is_line_open = false;
            return Ok((Token::Newline, place));
        }
        self.is_line_open = true;
        self.token(first, place).map(|token| (token, place))
    }

    /// Returns the tokens at the end of the text: the end of its last line and of its blocks.
    fn end(&mut self) -> Token {
        if self.is_line_open && self.brackets == 0 {
            self.is_line_open = false;
            return Token::Newline;
        }
        if self.indents.len() > 1 {
            self.indents.pop();
            return Token::Outdent;
        }
        Token::End
    }

    /// Reads the blanks at the start of a line that is not empty.
    fn indentation(&mut self) -> Result<Option<Token>, Fault> {
        let mut column;
        loop {
            column = 0;
            while let Some(blank @ (' ' | '\t')) = self.peek() {
                column = if blank == ' ' { column + 1 } else { (column / 8 + 1) * 8 };
                self.bump();
            }
            match self.peek() {
                Some('#') => self.comment(),
                Some('\r') if self.rest().starts_with("\r\n") => drop(self.bump()),
                Some('\n') => {}
                None => return Ok(None),
                Some(_) => break,
            }
            self.bump();
        }
        let open = self.indents.last().copied().unwrap_or_default();
        if column > open {
            if self.indents.len() >= MOST_INDENTS {
                return Err(Fault::at(self.place, "blocks are nested too deeply"));
            }
            self.indents.push(column);
            return Ok(Some(Token::Indent));
        }
        while self.indents.last().is_some_and(|open| *open > column) {
            self.indents.pop();
            self.outdents += 1;
        }
        if self.indents.last() != Some(&column) {
            return Err(Fault::at(self.place, "unindent does not match any outer indentation level"));
        }
        Ok(None)
    }

    fn comment(&mut self) {
        while self.peek().is_some_and(|found| found != '\n') {
            self.bump();
        }
    }

    /// Skips blanks, comments, escaped ends of lines and, within brackets, all ends of lines.
    fn blanks(&mut self) {
        loop {
            match self.peek() {
                Some(' ' | '\t' | '\r') => drop(self.bump()),
                Some('#') => self.comment(),
                Some('\n') if self.brackets > 0 => drop(self.bump()),
                Some('\\') if self.rest().starts_with("\\\n") => self.skip(2),
                Some('\\') if self.rest().starts_with("\\\r\n") => self.skip(3),
                _ => return,
            }
        }
    }

    fn token(&mut self, first: char, place: Position) -> Result<Token, Fault> {
        if let Some(prefix) = self.quote_prefix() {
            return self.string(prefix, place);
        }
        if first == '_' || first.is_alphabetic() {
            return Ok(self.word());
        }
        let is_fraction = first == '.' && self.rest().as_bytes().get(1).is_some_and(u8::is_ascii_digit);
        if first.is_ascii_digit() || is_fraction {
            return self.number(place);
        }
        let rest = self.rest();
        let found = if rest.starts_with("!=") || first != '!' {
            MARKS.iter().find(|mark| rest.starts_with(**mark))
        } else {
            None
        };
        let Some(mark) = found else {
            return Err(Fault::at(place, format!("unexpected input character {first:?}")));
        };
        match *mark {
            "(" | "[" | "{" => self.brackets += 1,
            ")" | "]" | "}" => self.brackets = self.brackets.saturating_sub(1),
            _ => {}
        }
        self.skip(mark.len());
        Ok(Token::Mark(mark))
    }

    fn word(&mut self) -> Token {
        let rest = self.rest();
        let end = rest.find(|found: char| found != '_' && !found.is_alphanumeric()).unwrap_or(rest.len());
        let word = rest.get(..end).unwrap_or_default();
        self.skip(end);
        if let Some(keyword) = KEYWORDS.iter().find(|keyword| **keyword == word) {
            return Token::Mark(keyword);
        }
        if RESERVED.contains(&word) { Token::Reserved } else { Token::Name(word.into()) }
    }

    /// Returns the letters in front of a quote: none, `r`, `b` or `rb`.
    fn quote_prefix(&self) -> Option<&'a str> {
        let rest = self.rest();
        ["rb", "r", "b", ""].into_iter().find_map(|prefix| {
            let behind = rest.strip_prefix(prefix)?;
            behind.starts_with(['"', '\'']).then(|| rest.get(..prefix.len()).unwrap_or_default())
        })
    }

    fn string(&mut self, prefix: &str, place: Position) -> Result<Token, Fault> {
        self.skip(prefix.len());
        let rest = self.rest();
        let quote = rest.get(..1).unwrap_or_default();
        let triple = quote.repeat(3);
        let is_triple = rest.starts_with(&triple);
        let close = if is_triple { triple.as_str() } else { quote };
        self.skip(close.len());
        let start = self.at;
        loop {
            if self.rest().starts_with(close) {
                break;
            }
            match self.bump() {
                Some('\\') => drop(self.bump()),
                Some('\n') if !is_triple => return Err(Fault::at(place, "unexpected newline in string")),
                Some(_) => {}
                None => return Err(Fault::at(place, "unexpected EOF in string")),
            }
        }
        let inner = self.text.get(start..self.at).unwrap_or_default();
        self.skip(close.len());
        let (is_raw, is_bytes) = (prefix.contains('r'), prefix.contains('b'));
        literal::unquote(inner, is_raw, is_bytes).map_err(|problem| Fault::at(place, problem))
    }

    fn number(&mut self, place: Position) -> Result<Token, Fault> {
        let rest = self.rest();
        let wrong = |text: &str| Fault::at(place, text.to_owned());
        for (prefix, radix) in [("0x", 16), ("0o", 8), ("0b", 2), ("0X", 16), ("0O", 8), ("0B", 2)] {
            let Some(digits) = rest.strip_prefix(prefix) else { continue };
            let end = digits.find(|found: char| !found.is_ascii_alphanumeric()).unwrap_or(digits.len());
            let digits = digits.get(..end).unwrap_or_default();
            self.skip(prefix.len() + end);
            let value = literal::integer(digits, radix).map_err(|problem| Fault::at(place, problem))?;
            return Ok(Token::Int(value));
        }
        let digits = |text: &str| text.find(|found: char| !found.is_ascii_digit()).unwrap_or(text.len());
        let behind = |at: usize| rest.get(at..).unwrap_or_default();
        let whole = digits(rest);
        let mut end = whole;
        if behind(end).starts_with('.') {
            end += 1;
            end += digits(behind(end));
        }
        if behind(end).starts_with(['e', 'E']) {
            let sign = usize::from(behind(end + 1).starts_with(['+', '-']));
            let exponent = digits(behind(end + 1 + sign));
            if exponent == 0 {
                return Err(wrong("invalid float literal"));
            }
            end += 1 + sign + exponent;
        }
        let text = rest.get(..end).unwrap_or_default();
        self.skip(end);
        if end > whole {
            let value = text.parse().ok().filter(|value: &f64| value.is_finite());
            return value.map(Token::Float).ok_or_else(|| wrong("invalid float literal"));
        }
        if text.len() > 1 && text.starts_with('0') && text.bytes().any(|digit| digit != b'0') {
            let rest = text.trim_start_matches('0');
            return Err(wrong(&format!("obsolete form of octal literal; use 0o{rest}")));
        }
        let value: BigInt = literal::integer(text, 10).map_err(|problem| Fault::at(place, problem))?;
        Ok(Token::Int(value))
    }
}
