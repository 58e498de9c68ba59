//! The notation of `--set` and its family for single values: `a.b[0]=x,c={1,2}`.

use serde_json::Value;

use super::{Table, floats};

/// Maximum levels of nested keys that are accepted, as in Helm.
const DEEPEST: usize = 30;
const LARGEST_INDEX: usize = 65_536;

/// Interpretation of the right side of an assignment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setter {
    /// `--set`: booleans, null, integers, else texts; several assignments, lists in braces.
    Typed,
    /// `--set-string`: texts only.
    Text,
    /// `--set-json`: JSON; an empty right side is null.
    Json,
    /// `--set-file`: the right side names a file, whose text is the value.
    File,
    /// `--set-literal`: one assignment, whose right side is taken literally.
    Literal,
}

/// The reason why a text is not an assignment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SetError {
    #[error("key {0:?} has no value")]
    NoValue(String),
    #[error("key {0:?} has no value (cannot end with ,)")]
    EndsWithComma(String),
    #[error("key map {0:?} has no value")]
    EmptyTable(String),
    #[error("error parsing index: {0:?} is not a number")]
    Index(String),
    #[error("index of {0} is greater than maximum supported index of {LARGEST_INDEX}")]
    LargeIndex(usize),
    #[error("unexpected data at end of array index: {0:?}")]
    BehindIndex(String),
    #[error("list must terminate with '}}'")]
    UnendedList,
    #[error("value name nested level is greater than maximum supported nested level of {DEEPEST}")]
    TooDeep,
    #[error("unable to parse key: {0:?} already has a value of another type")]
    OtherKind(String),
    #[error("the value of {0:?} is not valid JSON")]
    Json(String),
    #[error("{0}")]
    File(String),
}

/// One part of the left side.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Key(String),
    Index(usize),
}

impl Setter {
    /// Applies the assignments of a text. `read` returns the text of a file, for [`Setter::File`].
    ///
    /// # Errors
    ///
    /// The text is malformed, or a path continues through a value that is neither a table nor a
    /// list. The assignments before that in the text have been applied.
    pub fn apply(
        self,
        text: &str,
        values: &mut Table,
        read: &mut dyn FnMut(&str) -> Result<String, String>,
    ) -> Result<(), SetError> {
        let mut scanner = Scanner { rest: text, setter: self };
        while !scanner.rest.is_empty() {
            let path = scanner.path()?;
            let value = scanner.value(&path, read)?;
            // A trailing dot or an empty name sets no value.
            match path.last() {
                Some(Step::Key(key)) if key.is_empty() => {
                    if let [.., Step::Key(table), _] = &path[..] {
                        return Err(SetError::EmptyTable(table.clone()));
                    }
                }
                _ => put(values, &path, value)?,
            }
        }
        Ok(())
    }
}

struct Scanner<'t> {
    rest: &'t str,
    setter: Setter,
}

impl Scanner<'_> {
    /// Reads up to the first of the stops, which is consumed too. A backslash makes the next
    /// character literal.
    fn until(&mut self, stops: &[char]) -> (String, Option<char>) {
        let mut text = String::new();
        let mut chars = self.rest.char_indices();
        while let Some((at, c)) = chars.next() {
            if stops.contains(&c) {
                self.rest = &self.rest[at + c.len_utf8()..];
                return (text, Some(c));
            }
            match c {
                '\\' if self.setter != Setter::Literal => text.extend(chars.next().map(|(_, c)| c)),
                c => text.push(c),
            }
        }
        self.rest = "";
        (text, None)
    }

    /// Reads the left side, and the `=` behind it.
    fn path(&mut self) -> Result<Vec<Step>, SetError> {
        let stops: &[char] =
            if self.setter == Setter::Literal { &['=', '[', '.'] } else { &['=', '[', ',', '.'] };
        let mut path = Vec::new();
        loop {
            let (key, stop) = self.until(stops);
            if path.len() > DEEPEST {
                return Err(SetError::TooDeep);
            }
            match stop {
                None => return Err(SetError::NoValue(key)),
                Some(',') => return Err(SetError::EndsWithComma(key)),
                Some(stop) => {
                    path.push(Step::Key(key));
                    match stop {
                        '=' => return Ok(path),
                        '[' if self.indexes(&mut path)? => return Ok(path),
                        _ => {}
                    }
                }
            }
        }
    }

    /// Reads indexes behind an opened bracket. Returns whether the left side ends there.
    fn indexes(&mut self, path: &mut Vec<Step>) -> Result<bool, SetError> {
        loop {
            let (number, _) = self.until(&[']']);
            let index: usize = number.parse().map_err(|_| SetError::Index(number))?;
            if index > LARGEST_INDEX {
                return Err(SetError::LargeIndex(index));
            }
            path.push(Step::Index(index));
            let (between, stop) = self.until(&['[', '.', '=']);
            if !between.is_empty() {
                return Err(SetError::BehindIndex(between));
            }
            match stop {
                Some('[') if path.len() <= DEEPEST => {}
                Some('[') => return Err(SetError::TooDeep),
                Some('.') => return Ok(false),
                Some(_) => return Ok(true),
                None => return Err(SetError::NoValue(index.to_string())),
            }
        }
    }

    fn value(
        &mut self,
        path: &[Step],
        read: &mut dyn FnMut(&str) -> Result<String, String>,
    ) -> Result<Value, SetError> {
        match self.setter {
            Setter::Literal => Ok(std::mem::take(&mut self.rest).into()),
            Setter::Json => self.json(path),
            Setter::Typed | Setter::Text | Setter::File => {
                let Some(rest) = self.rest.strip_prefix('{') else {
                    let (text, _) = self.until(&[',']);
                    return self.scalar(text, read);
                };
                self.rest = rest;
                let mut items = Vec::new();
                loop {
                    let (text, stop) = self.until(&[',', '}']);
                    let stop = stop.ok_or(SetError::UnendedList)?;
                    items.push(self.scalar(text, read)?);
                    if stop == '}' {
                        self.rest = self.rest.strip_prefix(',').unwrap_or(self.rest);
                        return Ok(Value::Array(items));
                    }
                }
            }
        }
    }

    fn json(&mut self, path: &[Step]) -> Result<Value, SetError> {
        let trimmed = self.rest.trim_start();
        if trimmed.is_empty() || trimmed.starts_with(',') {
            self.rest = trimmed.get(1..).unwrap_or_default();
            return Ok(Value::Null);
        }
        let mut values = serde_json::Deserializer::from_str(trimmed).into_iter::<Value>();
        let Some(Ok(value)) = values.next() else {
            let keys = path.iter().map(|step| match step {
                Step::Key(key) => key.clone(),
                Step::Index(index) => index.to_string(),
            });
            return Err(SetError::Json(keys.collect::<Vec<_>>().join(".")));
        };
        let behind = trimmed[values.byte_offset()..].trim_start();
        self.rest = behind.strip_prefix(',').unwrap_or(behind);
        let mut holder = floats(Table::from_iter([(String::new(), value)]));
        Ok(holder.remove("").unwrap_or_default())
    }

    fn scalar(
        &self,
        text: String,
        read: &mut dyn FnMut(&str) -> Result<String, String>,
    ) -> Result<Value, SetError> {
        Ok(match self.setter {
            Setter::File => read(&text).map_err(SetError::File)?.into(),
            Setter::Typed => typed(text),
            _ => text.into(),
        })
    }
}

/// Converts a text to its type. Numbers that begin with a zero stay texts.
fn typed(text: String) -> Value {
    match text.to_ascii_lowercase().as_str() {
        "true" => true.into(),
        "false" => false.into(),
        "null" => Value::Null,
        "0" => 0.into(),
        _ if text.starts_with('0') => text.into(),
        _ => text.parse::<i64>().map_or_else(|_| text.into(), Value::from),
    }
}

/// Sets the value, and creates the tables and lists on the way. A list entry that is not a table is
/// replaced by one.
fn put(values: &mut Table, path: &[Step], value: Value) -> Result<(), SetError> {
    let [Step::Key(first), rest @ ..] = path else { return Ok(()) };
    if first.is_empty() {
        return Ok(());
    }
    let missing = match rest.first() {
        Some(Step::Key(_)) => Value::Object(Table::new()),
        Some(Step::Index(_)) => Value::Array(Vec::new()),
        None => Value::Null,
    };
    let mut name = first.clone();
    let mut place = values.entry(first.clone()).or_insert(missing);
    for (at, step) in rest.iter().enumerate() {
        let other_kind = || SetError::OtherKind(name.clone());
        place = match step {
            Step::Key(key) => {
                let in_list = at > 0 && matches!(rest[at - 1], Step::Index(_));
                if in_list && !place.is_object() || at > 0 && place.is_null() {
                    *place = Value::Object(Table::new());
                }
                let table = place.as_object_mut().ok_or_else(other_kind)?;
                name.clone_from(key);
                table.entry(key.clone()).or_insert(match rest.get(at + 1) {
                    Some(Step::Key(_)) => Value::Object(Table::new()),
                    _ => Value::Null,
                })
            }
            Step::Index(index) => {
                let is_new = place.is_null() && (at > 0 || matches!(rest.get(at), Some(Step::Index(_))));
                if is_new {
                    *place = Value::Array(Vec::new());
                }
                let list = place.as_array_mut().ok_or_else(other_kind)?;
                if list.len() <= *index {
                    list.resize(index + 1, Value::Null);
                }
                &mut list[*index]
            }
        };
    }
    *place = value;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(setter: Setter, texts: &[&str]) -> String {
        let mut values = Table::new();
        for text in texts {
            let read = &mut |name: &str| Ok(format!("<{name}>"));
            if let Err(error) = setter.apply(text, &mut values, read) {
                return error.to_string();
            }
        }
        Value::Object(values).to_string()
    }

    #[test]
    fn assignments() {
        let check = |text: &str, expected: &str| assert_eq!(set(Setter::Typed, &[text]), expected, "{text}");
        check("a=1,b=x,c=true,d=null,e=007,f=", r#"{"a":1,"b":"x","c":true,"d":null,"e":"007","f":""}"#);
        check("a.b.c=1,a.b.d=2", r#"{"a":{"b":{"c":1,"d":2}}}"#);
        check("a={1,x,true}", r#"{"a":[1,"x",true]}"#);
        check("a[1]=x,a[0].b=2", r#"{"a":[{"b":2},"x"]}"#);
        check("a[0][1]=x", r#"{"a":[[null,"x"]]}"#);
        check(r"a=b\,c,d\.e=1", r#"{"a":"b,c","d.e":1}"#);
        check("a=b=c", r#"{"a":"b=c"}"#);
        check("a", r#"key "a" has no value"#);
        check("a,b=1", r#"key "a" has no value (cannot end with ,)"#);
        check("a={1", "list must terminate with '}'");
        check("a=1,a.b=2", r#"unable to parse key: "a" already has a value of another type"#);
        check("a[-1]=1", r#"error parsing index: "-1" is not a number"#);
        check("a[70000]=1", "index of 70000 is greater than maximum supported index of 65536");
        assert_eq!(set(Setter::Typed, &["a={1,2}", "a[1]=3"]), r#"{"a":[1,3]}"#);
    }

    #[test]
    fn other_notations() {
        assert_eq!(set(Setter::Text, &["a=1,b={true}"]), r#"{"a":"1","b":["true"]}"#);
        assert_eq!(set(Setter::Literal, &[r"a.b=1,x={\"]), r#"{"a":{"b":"1,x={\\"}}"#);
        assert_eq!(set(Setter::File, &["a=f,b=g"]), r#"{"a":"<f>","b":"<g>"}"#);
        let json = [r#"a={"k":[1,null]} ,b="x",c="#];
        assert_eq!(set(Setter::Json, &json), r#"{"a":{"k":[1.0,null]},"b":"x","c":null}"#);
        assert_eq!(set(Setter::Json, &["a.b={"]), r#"the value of "a.b" is not valid JSON"#);
    }
}
