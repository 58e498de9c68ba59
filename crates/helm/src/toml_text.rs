//! The functions `toToml` and `fromToml` (`helm.md` 6.5), in the layout of BurntSushi/toml.

use groundwork_go::time::Instant;
use groundwork_gotemplate::{CallError, Context, Element, List, Map, Str, Value};

/// Maximum levels of tables that are written; deeper ones are refused.
const DEEPEST: usize = 100;

/// Writes a value as TOML. For a value that TOML lacks, the result is the text of the error.
pub(crate) fn encode(context: &mut Context<'_>, value: &Value) -> Result<String, CallError> {
    let mut encoder = Encoder { context, out: String::new(), key: Vec::new() };
    match encoder.top(value) {
        Ok(()) => {
            let Encoder { context, out, .. } = encoder;
            context.spend(out.len())?;
            context.check_text(out.len())?;
            Ok(out)
        }
        Err(Trouble::Unencodable(problem)) => Ok(problem.to_owned()),
        Err(Trouble::Call(error)) => Err(error),
    }
}

enum Trouble {
    /// A value that TOML lacks. The text becomes the result of the function.
    Unencodable(&'static str),
    Call(CallError),
}

impl From<CallError> for Trouble {
    fn from(error: CallError) -> Trouble {
        Trouble::Call(error)
    }
}

const NIL_ELEMENT: Trouble = Trouble::Unencodable("toml: cannot encode array with nil element");

struct Encoder<'e, 'r> {
    context: &'e mut Context<'r>,
    out: String,
    key: Vec<Str>,
}

impl Encoder<'_, '_> {
    fn top(&mut self, value: &Value) -> Result<(), Trouble> {
        match value {
            Value::Absent | Value::Nil => {
                Err(CallError::from("reflect: call of reflect.Value.Type on zero Value").into())
            }
            Value::Map(map) => self.members(map),
            Value::List(list) if is_list_of_tables(list)? => {
                Err(Trouble::Unencodable("toml: top-level values must be Go maps or structs"))
            }
            other => self.element(other),
        }
    }

    /// Writes plain members first, then tables, each sorted.
    fn members(&mut self, map: &Map) -> Result<(), Trouble> {
        let (mut plain, mut tables) = (Vec::new(), Vec::new());
        for (key, value) in map.entries() {
            match value {
                value if is_nil(&value) => {}
                value if is_table(&value)? => tables.push((key, value)),
                value => plain.push((key, value)),
            }
        }
        for (key, value) in plain.into_iter().chain(tables) {
            self.context.spend(1)?;
            if self.key.len() > DEEPEST {
                return Err(Trouble::Call("toToml: tables are nested too deep".into()));
            }
            self.key.push(key);
            self.member(&value)?;
            self.key.pop();
        }
        Ok(())
    }

    fn member(&mut self, value: &Value) -> Result<(), Trouble> {
        let indent = "  ".repeat(self.key.len() - 1);
        match value {
            Value::Map(map) => {
                if self.key.len() == 1 {
                    self.line();
                }
                let key = self.dotted();
                self.out.push_str(&format!("{indent}[{key}]\n"));
                self.members(map)
            }
            Value::List(list) if is_list_of_tables(list)? => {
                for item in list.items() {
                    let Value::Map(map) = item else { continue };
                    self.line();
                    let key = self.dotted();
                    self.out.push_str(&format!("{indent}[[{key}]]\n"));
                    self.members(map)?;
                }
                Ok(())
            }
            value => {
                let key = self.key.last().map(|key| quoted_key(key)).unwrap_or_default();
                self.out.push_str(&format!("{indent}{key} = "));
                self.element(value)?;
                self.out.push('\n');
                Ok(())
            }
        }
    }

    /// Writes a line break, unless the output is empty.
    fn line(&mut self) {
        if !self.out.is_empty() {
            self.out.push('\n');
        }
    }

    fn dotted(&self) -> String {
        self.key.iter().map(|key| quoted_key(key)).collect::<Vec<_>>().join(".")
    }

    /// Writes a value behind its key, on one line.
    fn element(&mut self, value: &Value) -> Result<(), Trouble> {
        self.context.spend(1)?;
        self.context.check_text(self.out.len())?;
        match value {
            Value::Str(text) => quote_into(&mut self.out, text),
            Value::Bool(flag) => self.out.push_str(if *flag { "true" } else { "false" }),
            Value::Int(..) => self.out.push_str(&value.as_integer().unwrap_or_default().to_string()),
            Value::Float(float) => push_float(&mut self.out, *float),
            Value::Number(number) => push_float(&mut self.out, number.as_f64()),
            Value::Bytes(bytes) => {
                let items: Vec<String> = bytes.iter().map(u8::to_string).collect();
                self.out.push_str(&format!("[{}]", items.join(", ")));
            }
            Value::List(list) => {
                self.out.push('[');
                for (at, item) in list.items().iter().enumerate() {
                    if at > 0 {
                        self.out.push_str(", ");
                    }
                    if is_nil(item) {
                        return Err(NIL_ELEMENT);
                    }
                    self.nested(|encoder| encoder.element(item))?;
                }
                self.out.push(']');
            }
            Value::Map(map) => self.nested(|encoder| encoder.inline(map))?,
            Value::Object(object) => quote_into(&mut self.out, object.text().as_bytes()),
            Value::Complex(..) => return Err(Trouble::Unencodable("unsupported type: complex128")),
            Value::Absent | Value::Nil => return Err(NIL_ELEMENT),
        }
        Ok(())
    }

    fn nested(&mut self, write: impl FnOnce(&mut Self) -> Result<(), Trouble>) -> Result<(), Trouble> {
        if self.key.len() > DEEPEST {
            return Err(Trouble::Call("toToml: values are nested too deep".into()));
        }
        self.key.push(Str::default());
        write(self)?;
        self.key.pop();
        Ok(())
    }

    /// Writes a table in braces. As in Helm, a nil element keeps the comma behind the element
    /// before it.
    fn inline(&mut self, map: &Map) -> Result<(), Trouble> {
        let (mut plain, mut tables) = (Vec::new(), Vec::new());
        for (key, value) in map.entries() {
            if !is_nil(&value) && is_table(&value)? { &mut tables } else { &mut plain }.push((key, value));
        }
        self.out.push('{');
        for (members, goes_on) in [(&plain, !tables.is_empty()), (&tables, false)] {
            for (at, (key, value)) in members.iter().enumerate() {
                if is_nil(value) {
                    continue;
                }
                let key = quoted_key(key);
                self.out.push_str(&format!("{key} = "));
                self.element(value)?;
                if goes_on || at + 1 < members.len() {
                    self.out.push_str(", ");
                }
            }
        }
        self.out.push('}');
        Ok(())
    }
}

fn is_nil(value: &Value) -> bool {
    match value {
        Value::Map(map) => map.is_nil(),
        Value::List(list) => list.is_nil(),
        other => other.is_nil(),
    }
}

fn is_table(value: &Value) -> Result<bool, Trouble> {
    match value {
        Value::Map(_) => Ok(true),
        Value::List(list) => is_list_of_tables(list),
        _ => Ok(false),
    }
}

/// Reports whether all elements are tables, and there is at least one. A nil element is an error at
/// any depth.
fn is_list_of_tables(list: &List) -> Result<bool, Trouble> {
    let mut all = !list.is_empty();
    for item in list.items() {
        if is_nil(item) {
            return Err(NIL_ELEMENT);
        }
        if let Value::List(inner) = item {
            is_list_of_tables(inner)?;
        }
        all &= matches!(item, Value::Map(_));
    }
    Ok(all)
}

fn push_float(out: &mut String, float: f64) {
    if float.is_nan() {
        return out.push_str("nan");
    }
    if float.is_infinite() {
        return out.push_str(if float < 0.0 { "-inf" } else { "inf" });
    }
    // Rust prints doubles without an exponent, as Go does here.
    let text = format!("{float}");
    out.push_str(&text);
    if !text.contains('.') {
        out.push_str(".0");
    }
}

fn quoted_key(key: &[u8]) -> String {
    let is_bare = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let mut out = String::new();
    if !key.is_empty() && key.iter().all(is_bare) {
        out.push_str(&String::from_utf8_lossy(key));
    } else {
        quote_into(&mut out, key);
    }
    out
}

fn quote_into(out: &mut String, text: &[u8]) {
    out.push('"');
    for c in String::from_utf8_lossy(text).chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            c if c < ' ' || c == '\u{7f}' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Parses a text into a map, or returns the error.
pub(crate) fn decode(text: &str) -> Result<Map, String> {
    let table: ::toml::Table = text.parse().map_err(|error: ::toml::de::Error| {
        let at = error.span().map_or(0, |span| span.start);
        let line = 1 + text.as_bytes().iter().take(at).filter(|&&byte| byte == b'\n').count();
        match value_missing(text) {
            Some((line, key)) => {
                format!("toml: line {line} (last key {key:?}): unexpected EOF; expected value")
            }
            None => format!("toml: line {line}: {}", error.message()),
        }
    })?;
    Ok(map(table))
}

/// Returns the line and the key of a text that ends where a value is expected.
fn value_missing(text: &str) -> Option<(usize, &str)> {
    let key = text.lines().last()?.trim_end().strip_suffix('=')?;
    (!text.ends_with('\n')).then(|| (text.lines().count(), key.trim()))
}

fn map(table: ::toml::Table) -> Map {
    table.into_iter().map(|(key, value)| (key.into(), from_toml(value))).collect()
}

fn from_toml(value: ::toml::Value) -> Value {
    match value {
        ::toml::Value::String(text) => Value::from(text),
        ::toml::Value::Integer(number) => Value::int64(number),
        ::toml::Value::Float(number) => Value::Float(number),
        ::toml::Value::Boolean(flag) => Value::Bool(flag),
        ::toml::Value::Datetime(time) => time_of(&time),
        ::toml::Value::Table(table) => Value::Map(map(table)),
        ::toml::Value::Array(items) => {
            let tables = !items.is_empty() && items.iter().all(::toml::Value::is_table);
            let element = if tables { Element::Map } else { Element::Any };
            Value::List(List::typed(element, items.into_iter().map(from_toml).collect()))
        }
    }
}

/// Converts a date and time, or a part of one. Missing parts of a local time are those of Go's zero
/// time.
fn time_of(time: &::toml::value::Datetime) -> Value {
    let date = time.date.map_or_else(|| "0000-01-01".to_owned(), |date| date.to_string());
    let clock = time.time.map_or_else(|| "00:00:00".to_owned(), |clock| clock.to_string());
    let zone = time.offset.map_or_else(|| "Z".to_owned(), |offset| offset.to_string());
    let parsed: Result<Instant, String> = groundwork_go::time::parse(
        b"2006-01-02T15:04:05.999999999Z07:00",
        format!("{date}T{clock}{zone}").as_bytes(),
    );
    parsed.map_or_else(|_| Value::from(time.to_string()), Value::from)
}
