//! Encoder from values to JSON, in the form of Go's encoder (`gotemplate.md` 12.6).

use groundwork_go::strconv;

use crate::context::Context;
use crate::encoding;
use crate::error::CallError;
use crate::format::{self, Sink};
use crate::stack;
use crate::text;
use crate::value::{DataNumber, Value};

/// The three layouts of sprig.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Compact,
    /// Indented by two spaces.
    Pretty,
    /// Compact, with `<`, `>` and `&` as they are.
    Raw,
}

pub(super) fn encode(context: &mut Context<'_>, value: &Value, style: Style) -> Result<Vec<u8>, CallError> {
    let mut encoder = Encoder { sink: format::sink(context.budget()), context, style, depth: 0 };
    encoder.value(value)?;
    let Encoder { sink, context, .. } = encoder;
    Ok(format::finish(sink, context.budget())?)
}

struct Encoder<'e, 'r> {
    sink: Sink,
    context: &'e mut Context<'r>,
    style: Style,
    depth: usize,
}

impl Encoder<'_, '_> {
    fn value(&mut self, value: &Value) -> Result<(), CallError> {
        self.context.budget().check_value_depth(self.depth)?;
        self.context.spend(1)?;
        if let Some(error) = self.sink.error() {
            return Err(self.context.budget().refusal(error).into());
        }
        match value {
            Value::Absent | Value::Nil => self.sink.push(b"null"),
            Value::Bool(b) => self.sink.push(if *b { b"true" } else { b"false" }),
            Value::Int(kind, bits) if kind.is_unsigned() => {
                self.sink.push(bits.cast_unsigned().to_string().as_bytes());
            }
            Value::Int(_, i) => self.sink.push(i.to_string().as_bytes()),
            Value::Float(f) => self.float(*f)?,
            Value::Number(DataNumber::Int(i)) => self.sink.push(i.to_string().as_bytes()),
            Value::Number(DataNumber::Uint(u)) => self.sink.push(u.to_string().as_bytes()),
            Value::Number(DataNumber::Float(f)) => self.float(*f)?,
            Value::Complex(..) => return Err("json: unsupported type: complex128".into()),
            Value::Str(s) => self.string(s),
            Value::Bytes(bytes) => {
                self.sink.push(format!("\"{}\"", encoding::base64_encode(bytes)).as_bytes());
            }
            Value::List(list) if list.is_nil() => self.sink.push(b"null"),
            Value::List(list) => {
                stack::guarded(|| self.container(*b"[]", list.items(), Encoder::value))?;
            }
            Value::Map(map) if map.is_nil() => self.sink.push(b"null"),
            Value::Map(map) => stack::guarded(|| {
                self.container(*b"{}", &map.entries(), |encoder, (key, value)| {
                    encoder.string(key);
                    encoder.sink.push(if encoder.style == Style::Pretty { b": " } else { b":" });
                    encoder.value(value)
                })
            })?,
            Value::Object(object) => match object.json_fields() {
                Some(fields) => stack::guarded(|| {
                    self.container(*b"{}", &fields, |encoder, (key, value)| {
                        encoder.string(key.as_bytes());
                        encoder.sink.push(if encoder.style == Style::Pretty { b": " } else { b":" });
                        encoder.value(value)
                    })
                })?,
                None => {
                    let json = object.json();
                    stack::guarded(|| self.value(&json))?;
                }
            },
        }
        Ok(())
    }

    fn container<T>(
        &mut self,
        [open, close]: [u8; 2],
        items: &[T],
        mut write: impl FnMut(&mut Self, &T) -> Result<(), CallError>,
    ) -> Result<(), CallError> {
        self.sink.push(&[open]);
        self.depth += 1;
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                self.sink.push(b",");
            }
            self.line();
            write(self, item)?;
        }
        self.depth -= 1;
        if !items.is_empty() {
            self.line();
        }
        self.sink.push(&[close]);
        Ok(())
    }

    /// Starts a new line in the pretty layout.
    fn line(&mut self) {
        if self.style == Style::Pretty {
            self.sink.push(b"\n");
            self.sink.pad(b' ', 2 * self.depth);
        }
    }

    fn float(&mut self, f: f64) -> Result<(), CallError> {
        if !f.is_finite() {
            return Err(format!("json: unsupported value: {}", strconv::format_g(f)).into());
        }
        let mut number = Vec::new();
        strconv::append_json(&mut number, f);
        self.sink.push(&number);
        Ok(())
    }

    fn string(&mut self, bytes: &[u8]) {
        let escapes_html = self.style != Style::Raw;
        self.sink.push(b"\"");
        for (c, raw) in text::runes(bytes) {
            match c {
                None => self.sink.push("\u{fffd}".as_bytes()),
                Some('"') => self.sink.push(b"\\\""),
                Some('\\') => self.sink.push(b"\\\\"),
                Some('\u{8}') => self.sink.push(b"\\b"),
                Some('\u{c}') => self.sink.push(b"\\f"),
                Some('\n') => self.sink.push(b"\\n"),
                Some('\r') => self.sink.push(b"\\r"),
                Some('\t') => self.sink.push(b"\\t"),
                Some(c) if c < ' ' || matches!(c, '\u{2028}' | '\u{2029}') => self.escape(c),
                Some(c @ ('<' | '>' | '&')) if escapes_html => self.escape(c),
                Some(_) => self.sink.push(raw),
            }
        }
        self.sink.push(b"\"");
    }

    fn escape(&mut self, c: char) {
        self.sink.push(format!("\\u{:04x}", u32::from(c)).as_bytes());
    }
}
