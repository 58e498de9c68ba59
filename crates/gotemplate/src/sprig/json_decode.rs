//! Decoder from JSON to values, with the error texts of Go's decoder (`gotemplate.md` 12.6).

use groundwork_go::strconv::parse_float;

use crate::budget::Budget;
use crate::context::Context;
use crate::error::CallError;
use crate::options::NumberMode;
use crate::stack;
use crate::text;
use crate::value::{DataNumber, List, Map, Str, Value};

/// Deepest nesting that Go's decoder accepts.
const MAX_DEPTH: usize = 10_000;

/// Decodes a whole JSON text. Numbers get the types of the render's number mode.
pub(crate) fn decode(context: &mut Context<'_>, source: &[u8]) -> Result<Value, CallError> {
    let numbers = context.options().numbers;
    let mut decoder = Decoder { source, at: 0, depth: 0, numbers, budget: context.budget() };
    let value = decoder.value()?;
    decoder.space();
    match decoder.peek() {
        None => Ok(value),
        Some(_) => Err(decoder.unexpected("after top-level value")),
    }
}

struct Decoder<'s> {
    source: &'s [u8],
    at: usize,
    depth: usize,
    numbers: NumberMode,
    budget: &'s mut Budget,
}

type Decoded<T> = Result<T, CallError>;

impl<'s> Decoder<'s> {
    fn peek(&self) -> Option<u8> {
        self.source.get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn accept(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    /// Returns Go's error about the next byte, between tokens and within strings.
    fn unexpected(&self, place: &str) -> CallError {
        match self.peek() {
            None => "unexpected end of JSON input".into(),
            Some(_) => self.unexpected_inside(place),
        }
    }

    /// Returns Go's error about the next byte within a word, number or escape. At the end of the
    /// text Go's decoder sees a space there.
    fn unexpected_inside(&self, place: &str) -> CallError {
        let shown = match self.peek().unwrap_or(b' ') {
            b'\'' => r"'\''".to_string(),
            b'"' => "'\"'".to_string(),
            byte => {
                let quoted = text::quote(char::from(byte).encode_utf8(&mut [0; 4]).as_bytes());
                format!("'{}'", &quoted[1..quoted.len() - 1])
            }
        };
        format!("invalid character {shown} {place}").into()
    }

    fn value(&mut self) -> Decoded<Value> {
        self.budget.step()?;
        self.space();
        match self.peek() {
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::array),
            Some(b'"') => self.string().map(Value::Str),
            Some(b't') => self.word("true", Value::Bool(true)),
            Some(b'f') => self.word("false", Value::Bool(false)),
            Some(b'n') => self.word("null", Value::Nil),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => Err(self.unexpected("looking for beginning of value")),
        }
    }

    fn nested(&mut self, parse: fn(&mut Self) -> Decoded<Value>) -> Decoded<Value> {
        self.at += 1;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("exceeded max depth".into());
        }
        let value = stack::guarded(|| parse(self));
        self.depth -= 1;
        value
    }

    fn object(&mut self) -> Decoded<Value> {
        let map = Map::default();
        self.space();
        if self.accept(b'}') {
            return Ok(map.into());
        }
        loop {
            self.space();
            if self.peek() != Some(b'"') {
                return Err(self.unexpected("looking for beginning of object key string"));
            }
            let key = self.string()?;
            self.space();
            if !self.accept(b':') {
                return Err(self.unexpected("after object key"));
            }
            let value = self.value()?;
            map.insert(key, value);
            self.space();
            if self.accept(b'}') {
                return Ok(map.into());
            }
            if !self.accept(b',') {
                return Err(self.unexpected("after object key:value pair"));
            }
        }
    }

    fn array(&mut self) -> Decoded<Value> {
        let mut items = Vec::new();
        self.space();
        if self.accept(b']') {
            return Ok(List::new(items).into());
        }
        loop {
            items.push(self.value()?);
            self.space();
            if self.accept(b']') {
                return Ok(List::new(items).into());
            }
            if !self.accept(b',') {
                return Err(self.unexpected("after array element"));
            }
        }
    }

    fn word(&mut self, word: &str, value: Value) -> Decoded<Value> {
        for expected in word.chars() {
            if !self.accept(expected as u8) {
                return Err(self.unexpected_inside(&format!("in literal {word} (expecting '{expected}')")));
            }
        }
        Ok(value)
    }

    fn string(&mut self) -> Decoded<Str> {
        self.at += 1;
        let mut out = Vec::new();
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(out.into());
                }
                Some(b'\\') => {
                    self.at += 1;
                    self.escape(&mut out)?;
                }
                None | Some(..0x20) => return Err(self.unexpected("in string literal")),
                Some(_) => {
                    let (c, width) = text::decode(&self.source[self.at..]).unwrap_or((None, 1));
                    let c = c.unwrap_or(char::REPLACEMENT_CHARACTER);
                    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                    self.at += width;
                }
            }
        }
    }

    fn escape(&mut self, out: &mut Vec<u8>) -> Decoded<()> {
        let plain = match self.peek() {
            Some(b @ (b'"' | b'\\' | b'/')) => b,
            Some(b'b') => 8,
            Some(b'f') => 12,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(b'u') => {
                self.at += 1;
                let c = self.escaped_char()?;
                out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                return Ok(());
            }
            _ => return Err(self.unexpected_inside("in string escape code")),
        };
        self.at += 1;
        out.push(plain);
        Ok(())
    }

    /// Reads the four digits behind `\u`, joined with the second half if they are the first half of
    /// a surrogate pair.
    fn escaped_char(&mut self) -> Decoded<char> {
        let first = self.hex4()?;
        let is_high = (0xd800..0xdc00).contains(&first);
        if is_high && self.source[self.at..].starts_with(b"\\u") {
            let back = self.at;
            self.at += 2;
            let second = self.hex4()?;
            if (0xdc00..0xe000).contains(&second) {
                let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            self.at = back;
        }
        Ok(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    fn hex4(&mut self) -> Decoded<u32> {
        let mut code = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|b| char::from(b).to_digit(16));
            let digit = digit.ok_or_else(|| self.unexpected_inside("in \\u hexadecimal character escape"))?;
            code = code << 4 | digit;
            self.at += 1;
        }
        Ok(code)
    }

    fn digits(&mut self, place: &str) -> Decoded<()> {
        if !self.peek().is_some_and(|b| b.is_ascii_digit()) {
            return Err(self.unexpected_inside(place));
        }
        while self.peek().is_some_and(|b| b.is_ascii_digit()) {
            self.at += 1;
        }
        Ok(())
    }

    fn number(&mut self) -> Decoded<Value> {
        let start = self.at;
        self.accept(b'-');
        if !self.accept(b'0') {
            self.digits("in numeric literal")?;
        }
        if self.accept(b'.') {
            self.digits("after decimal point in numeric literal")?;
        }
        if self.accept(b'e') || self.accept(b'E') {
            let _ = self.accept(b'+') || self.accept(b'-');
            self.digits("in exponent of numeric literal")?;
        }
        self.typed(&self.source[start..self.at])
    }

    /// Returns a number in the type of the number mode.
    fn typed(&self, literal: &'s [u8]) -> Decoded<Value> {
        let literal_text = crate::text::lossy(literal);
        let integer = literal_text.parse::<i64>().ok().filter(|_| literal != b"-0");
        let float = || {
            let complaint =
                || format!("json: cannot unmarshal number {literal_text} into Go value of type float64");
            parse_float(literal).ok_or_else(|| CallError::from(complaint()))
        };
        Ok(match (self.numbers, integer) {
            (NumberMode::Data, Some(i)) => Value::Number(DataNumber::Int(i)),
            (NumberMode::Data, None) => Value::Number(match literal_text.parse::<u64>() {
                Ok(u) => DataNumber::Uint(u),
                Err(_) => DataNumber::Float(float()?),
            }),
            _ => Value::Float(float()?),
        })
    }
}
