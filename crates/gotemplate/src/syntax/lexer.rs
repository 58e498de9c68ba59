//! The lexer: bytes to tokens, one at a time (`gotemplate.md` 2).

use super::token::{Token, TokenKind};
use crate::options::Delimiters;
use crate::text;

/// Settings that make words keywords although a function could have their name (`gotemplate.md`
/// 2.3).
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoopWords {
    pub(crate) break_is_keyword: bool,
    pub(crate) continue_is_keyword: bool,
}

#[derive(Debug)]
pub(crate) struct Lexer<'s> {
    source: &'s [u8],
    left: &'s [u8],
    right: &'s [u8],
    loop_words: LoopWords,
    /// Byte offset of the token being read, with its line below.
    start: usize,
    start_line: usize,
    pos: usize,
    line: usize,
    parens: usize,
    in_action: bool,
    message: String,
}

impl<'s> Lexer<'s> {
    pub(crate) fn new(source: &'s [u8], delimiters: &'s Delimiters, loop_words: LoopWords) -> Lexer<'s> {
        Lexer {
            source,
            left: delimiters.left().as_bytes(),
            right: delimiters.right().as_bytes(),
            loop_words,
            start: 0,
            start_line: 1,
            pos: 0,
            line: 1,
            parens: 0,
            in_action: false,
            message: String::new(),
        }
    }

    /// Returns the message of the last error token.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn next_token(&mut self) -> Token {
        if self.in_action { self.inside_action() } else { self.text() }
    }

    fn rest(&self) -> &'s [u8] {
        &self.source[self.pos..]
    }

    fn peek_byte(&self) -> Option<u8> {
        self.source.get(self.pos).copied()
    }

    fn peek_char(&self) -> Option<Option<char>> {
        text::decode(self.rest()).map(|(c, _)| c)
    }

    fn emit(&mut self, kind: TokenKind) -> Token {
        let token = Token { kind, start: self.start, end: self.pos, line: self.start_line };
        self.ignore();
        token
    }

    /// Ends the current token without emitting it.
    fn ignore(&mut self) {
        self.line += self.source[self.start..self.pos].iter().filter(|&&b| b == b'\n').count();
        self.start = self.pos;
        self.start_line = self.line;
    }

    fn error(&mut self, message: impl Into<String>) -> Token {
        self.message = message.into();
        let token = Token { kind: TokenKind::Error, start: self.start, end: self.pos, line: self.start_line };
        // Go stops at the first error, so the rest of the source is skipped.
        self.in_action = false;
        self.pos = self.source.len();
        self.start = self.pos;
        token
    }

    fn accept(&mut self, set: &[u8]) -> bool {
        let found = self.peek_byte().is_some_and(|b| set.contains(&b));
        self.pos += usize::from(found);
        found
    }

    fn accept_run(&mut self, set: &[u8]) {
        while self.accept(set) {}
    }

    // === text between actions ===

    fn text(&mut self) -> Token {
        loop {
            let Some(offset) = text::find(self.rest(), self.left) else {
                self.pos = self.source.len();
                let kind = if self.pos > self.start { TokenKind::Text } else { TokenKind::Eof };
                return self.emit(kind);
            };
            if offset > 0 {
                let action = self.pos + offset;
                let trims = has_left_trim_marker(&self.source[action + self.left.len()..]);
                let text = &self.source[self.pos..action];
                self.pos += if trims { trimmed_length(text) } else { text.len() };
                let token = (self.pos > self.start).then(|| self.emit(TokenKind::Text));
                self.pos = action;
                self.ignore();
                if let Some(token) = token {
                    return token;
                }
            }
            if let Some(token) = self.left_delimiter() {
                return token;
            }
        }
    }

    /// Starts an action. A comment is consumed and gives no token.
    fn left_delimiter(&mut self) -> Option<Token> {
        self.pos += self.left.len();
        let marker = if has_left_trim_marker(self.rest()) { 2 } else { 0 };
        if self.rest()[marker..].starts_with(b"/*") {
            self.pos += marker;
            self.ignore();
            return self.comment();
        }
        let token = self.emit(TokenKind::LeftDelimiter);
        self.in_action = true;
        self.pos += marker;
        self.ignore();
        self.parens = 0;
        Some(token)
    }

    fn comment(&mut self) -> Option<Token> {
        self.pos += 2;
        let Some(length) = text::find(self.rest(), b"*/") else {
            return Some(self.error("unclosed comment"));
        };
        self.pos += length + 2;
        let Some(trims) = self.at_right_delimiter() else {
            return Some(self.error("comment ends before closing delimiter"));
        };
        self.pos += if trims { 2 } else { 0 } + self.right.len();
        if trims {
            self.accept_run(SPACES);
        }
        self.ignore();
        None
    }

    /// Returns `None` if the right delimiter is not next, and otherwise whether a trim marker
    /// precedes it.
    fn at_right_delimiter(&self) -> Option<bool> {
        let rest = self.rest();
        if has_right_trim_marker(rest) && rest[2..].starts_with(self.right) {
            return Some(true);
        }
        rest.starts_with(self.right).then_some(false)
    }

    fn right_delimiter(&mut self, trims: bool) -> Token {
        if trims {
            self.pos += 2;
            self.ignore();
        }
        self.pos += self.right.len();
        let token = self.emit(TokenKind::RightDelimiter);
        if trims {
            self.accept_run(SPACES);
            self.ignore();
        }
        self.in_action = false;
        token
    }

    // === inside an action ===

    fn inside_action(&mut self) -> Token {
        if let Some(trims) = self.at_right_delimiter() {
            if self.parens == 0 {
                return self.right_delimiter(trims);
            }
            return self.error("unclosed left paren");
        }
        let Some((c, width)) = text::decode(self.rest()) else {
            return self.error("unclosed action");
        };
        self.pos += width;
        match c.unwrap_or(char::REPLACEMENT_CHARACTER) {
            ' ' | '\t' | '\r' | '\n' => self.space(),
            '=' => self.emit(TokenKind::Assign),
            ':' if self.accept(b"=") => self.emit(TokenKind::Declare),
            ':' => self.error("expected :="),
            '|' => self.emit(TokenKind::Pipe),
            '"' => self.quoted(b'"', TokenKind::String, "unterminated quoted string"),
            '`' => self.raw_string(),
            '$' => self.word(TokenKind::Variable, TokenKind::Variable),
            '\'' => self.quoted(b'\'', TokenKind::CharConstant, "unterminated character constant"),
            // A dot at the very end of the source is read as a number, as in Go.
            '.' if self.peek_byte().is_some_and(|b| !b.is_ascii_digit()) => {
                self.word(TokenKind::Dot, TokenKind::Field)
            }
            '.' | '+' | '-' | '0'..='9' => {
                self.pos -= 1;
                self.number()
            }
            c if is_alphanumeric(c) => self.identifier(),
            '(' => {
                self.parens += 1;
                self.emit(TokenKind::LeftParen)
            }
            ')' if self.parens == 0 => self.error("unexpected right paren"),
            ')' => {
                self.parens -= 1;
                self.emit(TokenKind::RightParen)
            }
            '!'..='~' => self.emit(TokenKind::Other),
            _ => self.error(format!("unrecognized character in action: {}", text::describe_char(c))),
        }
    }

    fn space(&mut self) -> Token {
        self.accept_run(SPACES);
        // If a trim marker follows, its space is the last one here.
        let last = self.pos - 1;
        if has_right_trim_marker(&self.source[last..]) && self.source[last + 2..].starts_with(self.right) {
            self.pos = last;
            if self.pos == self.start {
                return self.right_delimiter(true);
            }
        }
        self.emit(TokenKind::Space)
    }

    fn identifier(&mut self) -> Token {
        if let Err(token) = self.finish_word() {
            return token;
        }
        let word = &self.source[self.start..self.pos];
        let kind = match TokenKind::keyword(word) {
            Some(TokenKind::Break) if !self.loop_words.break_is_keyword => TokenKind::Identifier,
            Some(TokenKind::Continue) if !self.loop_words.continue_is_keyword => TokenKind::Identifier,
            Some(keyword) => keyword,
            None if word == b"true" || word == b"false" => TokenKind::Bool,
            None => TokenKind::Identifier,
        };
        self.emit(kind)
    }

    /// Reads a field or variable. `bare` is the kind of a lone `.` or `$`, without a name.
    fn word(&mut self, bare: TokenKind, named: TokenKind) -> Token {
        if self.at_terminator() {
            return self.emit(bare);
        }
        match self.finish_word() {
            Ok(()) => self.emit(named),
            Err(token) => token,
        }
    }

    fn finish_word(&mut self) -> Result<(), Token> {
        while let Some((Some(c), width)) = text::decode(self.rest()) {
            if !is_alphanumeric(c) {
                break;
            }
            self.pos += width;
        }
        if self.at_terminator() {
            return Ok(());
        }
        let bad = self.peek_char().flatten();
        Err(self.error(format!("bad character {}", text::describe_char(bad))))
    }

    fn at_terminator(&self) -> bool {
        match self.peek_byte() {
            None | Some(b' ' | b'\t' | b'\r' | b'\n' | b'.' | b',' | b'|' | b':' | b')' | b'(') => true,
            Some(_) => self.rest().starts_with(self.right),
        }
    }

    fn quoted(&mut self, quote: u8, kind: TokenKind, unterminated: &str) -> Token {
        loop {
            let byte = self.peek_byte();
            self.pos += usize::from(byte.is_some());
            match byte {
                Some(b'\\') => match self.peek_byte() {
                    None | Some(b'\n') => return self.error(unterminated),
                    Some(_) => self.pos += 1,
                },
                None | Some(b'\n') => return self.error(unterminated),
                Some(b) if b == quote => return self.emit(kind),
                Some(_) => {}
            }
        }
    }

    fn raw_string(&mut self) -> Token {
        match text::find(self.rest(), b"`") {
            Some(length) => {
                self.pos += length + 1;
                self.emit(TokenKind::RawString)
            }
            None => self.error("unterminated raw quoted string"),
        }
    }

    fn number(&mut self) -> Token {
        let valid = self.scan_number();
        let kind = match self.peek_byte() {
            Some(b'+' | b'-') if valid => {
                if !self.scan_number() || self.source[self.pos - 1] != b'i' {
                    return self.bad_number();
                }
                TokenKind::Complex
            }
            _ => TokenKind::Number,
        };
        if valid { self.emit(kind) } else { self.bad_number() }
    }

    fn bad_number(&mut self) -> Token {
        let literal = text::quote(&self.source[self.start..self.pos]);
        self.error(format!("bad number syntax: {literal}"))
    }

    fn scan_number(&mut self) -> bool {
        const DECIMAL: &[u8] = b"0123456789_";
        const HEX: &[u8] = b"0123456789abcdefABCDEF_";
        self.accept(b"+-");
        let mut digits = DECIMAL;
        if self.accept(b"0") {
            if self.accept(b"xX") {
                digits = HEX;
            } else if self.accept(b"oO") {
                digits = b"01234567_";
            } else if self.accept(b"bB") {
                digits = b"01_";
            }
        }
        self.accept_run(digits);
        if self.accept(b".") {
            self.accept_run(digits);
        }
        let exponent = (digits == DECIMAL && self.accept(b"eE")) || (digits == HEX && self.accept(b"pP"));
        if exponent {
            self.accept(b"+-");
            self.accept_run(DECIMAL);
        }
        self.accept(b"i");
        if let Some((Some(c), width)) = text::decode(self.rest())
            && is_alphanumeric(c)
        {
            self.pos += width;
            return false;
        }
        true
    }
}

const SPACES: &[u8] = b" \t\r\n";

fn is_space(byte: u8) -> bool {
    SPACES.contains(&byte)
}

fn is_alphanumeric(c: char) -> bool {
    c == '_' || text::is_letter(c) || text::is_digit(c)
}

fn has_left_trim_marker(rest: &[u8]) -> bool {
    matches!(rest, [b'-', space, ..] if is_space(*space))
}

fn has_right_trim_marker(rest: &[u8]) -> bool {
    matches!(rest, [space, b'-', ..] if is_space(*space))
}

/// Returns the length without trailing space, tab, CR and LF, the only bytes that markers trim
/// (`gotemplate.md` 2.1).
fn trimmed_length(text: &[u8]) -> usize {
    text.iter().rposition(|&b| !is_space(b)).map_or(0, |last| last + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::check_all;

    /// Returns the kinds of all tokens except spaces, with their text.
    fn tokens(source: &str) -> String {
        let delimiters = Delimiters::default();
        let words = LoopWords { break_is_keyword: true, continue_is_keyword: false };
        let mut lexer = Lexer::new(source.as_bytes(), &delimiters, words);
        let mut shown = Vec::new();
        loop {
            let token = lexer.next_token();
            match token.kind {
                TokenKind::Eof => return shown.join(" "),
                TokenKind::Error => return format!("{} ! {}", shown.join(" "), lexer.message()),
                TokenKind::Space => {}
                kind => shown.push(format!("{kind:?}:{}", &source[token.start..token.end])),
            }
        }
    }

    #[test]
    fn actions_become_tokens() {
        let check = |source: &str, expected: &str| assert_eq!(tokens(source), expected);
        check("a{{- .b.c -}} d", "Text:a LeftDelimiter:{{ Field:.b Field:.c RightDelimiter:}} Text:d");
        check("{{/* }} */}}x", "Text:x");
        check(
            "{{$x := break|continue}}",
            "LeftDelimiter:{{ Variable:$x Declare::= Break:break Pipe:| Identifier:continue RightDelimiter:}}",
        );
        check(
            "{{ -3 1+2i 'a' `r` \"s\" }}",
            "LeftDelimiter:{{ Number:-3 Complex:1+2i CharConstant:'a' RawString:`r` String:\"s\" RightDelimiter:}}",
        );
        check("{{$x+2}}", "LeftDelimiter:{{ ! bad character U+002B '+'");
        check("{{(1}}", "LeftDelimiter:{{ LeftParen:( Number:1 ! unclosed left paren");
    }

    #[test]
    fn trim_markers_and_comments() {
        check_all(&[
            ("a \n{{- 1 -}}\t b", "a1b"),
            ("a {{-1}}", "a -1"),
            ("a\u{a0} {{- 1}}", "a\u{a0}1"),
            ("a {{- /* c */ -}} b", "ab"),
            ("{{{1}}", r#"error 1: unexpected "{" in command"#),
            ("{{1}}}", "1}"),
            ("{{/* x}}", "error 1: unclosed comment"),
            ("{{/* x */ }}", "error 1: comment ends before closing delimiter"),
            ("{{ /* x */}}", r#"error 1: unexpected "/" in command"#),
            ("{{- -}}", r#"error 1: illegal number syntax: "-""#),
        ]);
    }
}
