//! `encoding/json.star`.

use crate::fault::Fault;
use crate::stack::deeper;
use crate::syntax::literal;
use crate::values::{
    Answer, Given, Heap, Int, MOST_LEVELS, Member, Module, Native, Run, Value, float_text, mismatch,
};

pub(super) static MODULE: Module = Module {
    name: "json",
    members: &[
        ("decode", Member::Function(&Native { name: "json.decode", run: Run::Plain(decode) })),
        ("encode", Member::Function(&Native { name: "json.encode", run: Run::Plain(encode) })),
        ("indent", Member::Function(&Native { name: "json.indent", run: Run::Plain(indent) })),
    ],
};

fn encode(heap: &mut Heap, given: &Given) -> Answer {
    given.count(1, 1)?;
    let mut encoder = Encoder { heap, out: String::new(), open: Vec::new() };
    encoder.push(given.at(0))?;
    let out = encoder.out;
    heap.text(out)
}

struct Encoder<'a> {
    heap: &'a Heap,
    out: String,
    /// Lists and dicts around the value that is written.
    open: Vec<(&'static str, usize)>,
}

impl Encoder<'_> {
    fn write(&mut self, text: &str) -> Result<(), Fault> {
        self.heap.allocate(text.len())?;
        self.out.push_str(text);
        Ok(())
    }

    fn push(&mut self, value: &Value) -> Result<(), Fault> {
        let heap = self.heap;
        match value {
            Value::None => self.write("null"),
            Value::Bool(truth) => self.write(if *truth { "true" } else { "false" }),
            Value::Int(_) => self.write(&heap.repr(value)?),
            Value::Float(value) if !value.is_finite() => {
                Err(Fault::new(format!("cannot encode non-finite float {}", float_text(*value))))
            }
            Value::Float(value) => self.write(&float_text(*value)),
            Value::Text(text) => self.write(&quoted(text)),
            Value::Dict(id) => self.nested(value, *id, |encoder| encoder.members(*id)),
            Value::List(id) | Value::Tuple(id) | Value::Set(id) => {
                self.nested(value, *id, |encoder| encoder.elements(value))
            }
            Value::Range(_) | Value::View(_) => self.elements(value),
            Value::Struct(of) => {
                let mut fields: Vec<&(&str, Value)> = of.fields.iter().collect();
                fields.sort_unstable_by_key(|(name, _)| *name);
                self.write("{")?;
                for (at, (name, value)) in fields.into_iter().enumerate() {
                    self.write(if at > 0 { "," } else { "" })?;
                    self.write(&quoted(name))?;
                    self.write(":")?;
                    self.push(value).map_err(|fault| fault.of(&format!("in field .{name}")))?;
                }
                self.write("}")
            }
            _ => Err(Fault::new(format!("cannot encode {} as JSON", value.kind()))),
        }
    }

    fn elements(&mut self, value: &Value) -> Result<(), Fault> {
        self.write("[")?;
        for (at, item) in self.heap.elements(value)?.unwrap_or_default().iter().enumerate() {
            self.write(if at > 0 { "," } else { "" })?;
            self.push(item).map_err(|fault| fault.of(&format!("at {} index {at}", value.kind())))?;
        }
        self.write("]")
    }

    fn members(&mut self, id: usize) -> Result<(), Fault> {
        let heap = self.heap;
        heap.allocate_items(heap.table(id).len())?;
        let mut members = Vec::with_capacity(heap.table(id).len());
        for (name, value) in heap.table(id).iter() {
            let Value::Text(text) = name else {
                return Err(Fault::new(format!("dict has {} key, want string", name.kind())));
            };
            members.push((text, value));
        }
        members.sort_unstable_by_key(|(name, _)| *name);
        self.write("{")?;
        for (at, (name, value)) in members.into_iter().enumerate() {
            self.write(if at > 0 { "," } else { "" })?;
            self.write(&quoted(name))?;
            self.write(":")?;
            self.push(value).map_err(|fault| fault.of(&format!("in dict key {}", quoted(name))))?;
        }
        self.write("}")
    }

    fn nested(
        &mut self,
        value: &Value,
        id: usize,
        inner: impl FnOnce(&mut Self) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let place = (value.kind(), id);
        if self.open.contains(&place) {
            return Err(Fault::new("cycle in JSON structure"));
        }
        if self.open.len() >= MOST_LEVELS {
            return Err(Heap::too_deep());
        }
        self.open.push(place);
        deeper(|| inner(self))?;
        self.open.pop();
        Ok(())
    }
}

/// Returns a string as JSON. As in Go, a text of ASCII characters keeps its `<`, `>` and `&`.
fn quoted(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    if text.bytes().all(|byte| (0x20..0x80).contains(&byte)) {
        return quoted;
    }
    let mut out = String::with_capacity(quoted.len());
    for found in quoted.chars() {
        match found {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(found)));
            }
            _ => out.push(found),
        }
    }
    out
}

fn decode(heap: &mut Heap, given: &Given) -> Answer {
    let [text, default] = given.bind(["x", "default"], 1)?;
    if given.positional.is_empty() {
        return Err(Fault::new("unexpected keyword argument x"));
    }
    let text = text.unwrap_or(Value::None);
    let Value::Text(text) = &text else { return Err(mismatch("x", &text, "string")) };
    heap.spend(text.len())?;
    let mut decoder = Decoder { heap, text, at: 0 };
    let found = decoder.document();
    match (found, default) {
        (Err(fault), Some(default)) if !fault.is_limit() => Ok(default),
        (found, _) => found,
    }
}

struct Decoder<'a> {
    heap: &'a mut Heap,
    text: &'a str,
    at: usize,
}

impl Decoder<'_> {
    fn fault(&self, problem: &str) -> Fault {
        Fault::new(format!("at offset {}, {problem}", self.at))
    }

    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Returns the next character that is not a blank.
    fn peek(&mut self) -> Option<char> {
        let rest = self.rest();
        let blanks = rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r']).len();
        self.at += blanks;
        self.rest().chars().next()
    }

    fn next(&mut self) -> Result<char, Fault> {
        self.peek().ok_or_else(|| self.fault("unexpected end of file"))
    }

    fn document(&mut self) -> Answer {
        let value = self.value(MOST_LEVELS)?;
        match self.peek() {
            Some(found) => Err(self.fault(&format!("unexpected character {found:?} after value"))),
            None => Ok(value),
        }
    }

    fn value(&mut self, levels: usize) -> Answer {
        let levels = levels.checked_sub(1).ok_or_else(Heap::too_deep)?;
        match self.next()? {
            '"' => self.string(),
            '[' => deeper(|| self.array(levels)),
            '{' => deeper(|| self.object(levels)),
            '-' | '0'..='9' => self.number(),
            other => {
                let words =
                    [("null", Value::None), ("true", Value::Bool(true)), ("false", Value::Bool(false))];
                for (word, value) in words {
                    if self.rest().starts_with(word) {
                        self.at += word.len();
                        return Ok(value);
                    }
                }
                Err(self.fault(&format!("unexpected character {other:?}")))
            }
        }
    }

    fn string(&mut self) -> Answer {
        let mut end = None;
        let mut is_escaped = false;
        for (at, byte) in self.rest().bytes().enumerate().skip(1) {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' => is_escaped = true,
                b'"' => {
                    end = Some(at + 1);
                    break;
                }
                _ => {}
            }
        }
        let end = end.ok_or_else(|| self.fault("unclosed string literal"))?;
        let literal = self.rest().get(..end).unwrap_or_default();
        let inner = literal.get(1..end - 1).unwrap_or_default();
        let text: String = if inner.contains('\\') {
            serde_json::from_str(literal).map_err(|_| self.fault("invalid string literal"))?
        } else {
            inner.to_owned()
        };
        self.at += end;
        self.heap.text(text)
    }

    fn number(&mut self) -> Answer {
        let is_part = |found: char| found.is_ascii_digit() || matches!(found, '+' | '-' | '.' | 'e' | 'E');
        let length = self.rest().find(|found| !is_part(found)).unwrap_or(self.rest().len());
        let literal = self.rest().get(..length).unwrap_or_default().to_owned();
        self.at += length;
        let invalid = || self.fault(&format!("invalid number: {literal}"));
        let digits = literal.strip_prefix('-').unwrap_or(&literal);
        let has_zero = digits.len() > 1 && digits.starts_with('0') && !digits.starts_with("0.");
        let is_float = literal.contains(['.', 'e', 'E']);
        if has_zero && !is_float
            || digits.is_empty()
            || !digits.starts_with(|first: char| first.is_ascii_digit())
        {
            return Err(invalid());
        }
        if is_float {
            let value = literal.parse().ok().filter(|value: &f64| value.is_finite());
            return value.map(Value::Float).ok_or_else(invalid);
        }
        self.heap.spend(digits.len().min(literal::MOST_DIGITS).pow(2))?;
        let value = Int::from(literal::integer(digits, 10).map_err(|_| invalid())?);
        Ok(Value::Int(if literal.starts_with('-') { value.negate() } else { value }))
    }

    fn array(&mut self, levels: usize) -> Answer {
        self.at += 1;
        let mut items = Vec::new();
        if self.next()? != ']' {
            loop {
                items.push(self.value(levels)?);
                self.heap.allocate_items(1)?;
                match self.next()? {
                    ',' => self.at += 1,
                    ']' => break,
                    other => return Err(self.fault(&format!("got {other:?}, want ',' or ']'"))),
                }
            }
        }
        self.at += 1;
        self.heap.new_list(items)
    }

    fn object(&mut self, levels: usize) -> Answer {
        self.at += 1;
        let dict = self.heap.new_dict()?;
        if self.next()? != '}' {
            loop {
                let name = self.value(levels)?;
                if !matches!(name, Value::Text(_)) {
                    return Err(self.fault(&format!("got {} for object key, want string", name.kind())));
                }
                match self.next()? {
                    ':' => self.at += 1,
                    other => return Err(self.fault(&format!("after object key, got {other:?}, want ':'"))),
                }
                let value = self.value(levels)?;
                self.heap.insert(dict, &name, value)?;
                match self.next()? {
                    ',' => self.at += 1,
                    '}' => break,
                    other => return Err(self.fault(&format!("in object, got {other:?}, want ',' or '}}'"))),
                }
            }
        }
        self.at += 1;
        Ok(Value::Dict(dict))
    }
}

fn indent(heap: &mut Heap, given: &Given) -> Answer {
    let option = |name: &str, default: &str| {
        let found = given.named.iter().find(|(known, _)| &**known == name);
        match found {
            Some((_, Value::Text(text))) => Ok(text.clone()),
            Some((_, other)) => Err(mismatch(name, other, "string")),
            None => Ok(default.into()),
        }
    };
    let (prefix, step) = (option("prefix", "")?, option("indent", "\t")?);
    if let Some((name, _)) = given.named.iter().find(|(name, _)| !matches!(&**name, "prefix" | "indent")) {
        return Err(Fault::new(format!("unexpected keyword argument \"{name}\"")));
    }
    Given::of(given.positional.clone()).count(1, 1)?;
    let text = given.text(0)?;
    heap.spend(text.len())?;
    Decoder { heap, text, at: 0 }.document()?;
    let out = indented(heap, text, &prefix, &step)?;
    heap.text(out)
}

/// Lays out valid JSON on several lines.
fn indented(heap: &Heap, text: &str, prefix: &str, step: &str) -> Result<String, Fault> {
    let mut out = String::new();
    let mut levels = 0_usize;
    let (mut in_string, mut is_escaped) = (false, false);
    let mut counted = 0;
    let mut rest = text.chars().peekable();
    while let Some(found) = rest.next() {
        let line = |out: &mut String, levels: usize| {
            heap.allocate(prefix.len() + step.len().saturating_mul(levels) + 1)?;
            out.push('\n');
            out.push_str(prefix);
            (0..levels).for_each(|_| out.push_str(step));
            Ok::<_, Fault>(())
        };
        if in_string {
            out.push(found);
            in_string = is_escaped || found != '"';
            is_escaped = !is_escaped && found == '\\';
            continue;
        }
        match found {
            ' ' | '\t' | '\n' | '\r' => {}
            '[' | '{' => {
                out.push(found);
                while rest.next_if(|next| matches!(next, ' ' | '\t' | '\n' | '\r')).is_some() {}
                if let Some(close) = rest.next_if(|next| matches!(next, ']' | '}')) {
                    out.push(close);
                } else {
                    levels += 1;
                    line(&mut out, levels)?;
                }
            }
            ']' | '}' => {
                levels = levels.saturating_sub(1);
                line(&mut out, levels)?;
                out.push(found);
            }
            ',' => {
                out.push(',');
                line(&mut out, levels)?;
            }
            ':' => out.push_str(": "),
            _ => {
                in_string = found == '"';
                out.push(found);
            }
        }
        heap.allocate(out.len() - counted)?;
        counted = out.len();
    }
    Ok(out)
}
