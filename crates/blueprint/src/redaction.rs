//! Removal of imported values from messages (`blueprints.md` 10).
//!
//! A failed step is repeated with other values of the same shape. Parts of the message that change
//! then depend on values, even after any computation in a template, and are withheld. If the step
//! does not fail with other values, only words of the blueprint's author or of an engine remain. In
//! addition, literal values are searched and removed.

mod compare;
mod others;
mod words;

use std::borrow::Cow;

use serde_json::{Map, Value};

pub(crate) use words::Words;

use crate::filesystem::Filesystem;
use others::Kind;

/// Returns a value of the same shape in which every text, number and boolean differs. Keys stay.
///
/// A result that is equal for both values does not depend on the value.
pub fn other_value(value: &Value) -> Value {
    let other = others::other(value, Kind::Texts, &|_: &str| true);
    others::other(&other, Kind::Booleans, &|_: &str| true)
}

/// Returns a message without the parts that depend on values.
///
/// `written` are the texts of the author. `again` repeats the step with other values of the same
/// shapes, in the same order, and returns the new message. It returns `None` if the step does not
/// fail or cannot be repeated. In that case, only words of the author or an engine remain.
pub fn withheld<'a>(
    message: &str,
    values: &[&Value],
    written: Vec<Cow<'a, str>>,
    mut again: impl FnMut(Vec<Value>) -> Option<String>,
) -> String {
    let guard = Guard::new(values, None, written);
    let is_name = |name: &str| guard.is_written(name);
    let mut messages = Vec::new();
    for kind in [Kind::Texts, Kind::Booleans] {
        let others: Vec<Value> = values.iter().map(|value| others::other(value, kind, &is_name)).collect();
        if others.iter().ne(values.iter().copied()) {
            messages.push(again(others));
        }
    }
    let messages: Vec<Option<&str>> = messages.iter().map(Option::as_deref).collect();
    guard.message(message, &messages)
}

/// Removes literal values from texts. `written` are texts of the author, whose words may stay.
pub fn withhold_values(texts: &mut [String], values: &[&Value], written: Vec<Cow<'_, str>>) {
    if texts.is_empty() {
        return;
    }
    let guard = Guard::new(values, None, written);
    for text in texts {
        *text = guard.redaction.apply(text);
    }
}

/// Maximum total bytes of files that are searched for words. Words in further files count as
/// unknown and are withheld.
const LONGEST_SEARCHED: usize = 1 << 20;
/// Shortest text that is removed. Shorter texts occur by chance in any message, and their removal
/// would make it unreadable.
const SHORTEST_SECRET: usize = 4;
/// Mark that replaces a value.
pub const REDACTED: &str = "[...]";

/// Texts that must not appear in messages.
///
/// They are found literally, quoted, and line by line. [`Guard`] covers all other forms.
#[derive(Debug, Clone, Default)]
struct Redaction {
    /// Longest first, so that a shorter text does not leave the rest of a longer one.
    secrets: Vec<String>,
}

impl Redaction {
    /// Collects every text and number in these values, and the keys of maps that are not names. A
    /// key is a name if it consists of letters only or the author has written it.
    fn of<'a>(values: impl IntoIterator<Item = &'a Value>, is_written: impl Fn(&str) -> bool) -> Self {
        let mut secrets = Vec::new();
        let is_name = |key: &str| key.bytes().all(|byte| byte.is_ascii_alphabetic()) || is_written(key);
        for value in values {
            collect(value, &is_name, &mut secrets);
        }
        secrets.sort_by_key(|text| std::cmp::Reverse(text.len()));
        secrets.dedup();
        Self { secrets }
    }

    /// Returns the message without the values.
    fn apply(&self, message: &str) -> String {
        self.secrets.iter().fold(message.to_owned(), |text, secret| {
            if text.contains(secret.as_str()) { text.replace(secret.as_str(), REDACTED) } else { text }
        })
    }
}

/// Redaction of messages about one set of values.
#[derive(Debug)]
pub(crate) struct Guard<'a> {
    redaction: Redaction,
    words: Words<'a>,
}

impl<'a> Guard<'a> {
    /// Creates the redaction. `public` are the author's texts beside the files, and other texts
    /// that may be shown.
    pub(crate) fn new(
        values: &[&Value],
        files: Option<&'a Filesystem>,
        mut public: Vec<Cow<'a, str>>,
    ) -> Self {
        let mut left = LONGEST_SEARCHED;
        for content in files.into_iter().flat_map(Filesystem::contents) {
            if content.len() <= left {
                left -= content.len();
                public.push(String::from_utf8_lossy(content));
            }
        }
        let words = Words::new(public, values);
        Self { redaction: Redaction::of(values.iter().copied(), |key| words.are_written(key)), words }
    }

    /// Reports whether the author's texts contain this name.
    pub(crate) fn is_written(&self, name: &str) -> bool {
        self.words.are_written(name)
    }

    /// Returns up to two sets of other values of the same shape, without those that equal the
    /// original.
    pub(crate) fn others(&self, values: &Map<String, Value>) -> Vec<Map<String, Value>> {
        let is_name = |name: &str| self.is_written(name);
        let others = [Kind::Texts, Kind::Booleans].map(|kind| others::other_members(values, kind, &is_name));
        others.into_iter().filter(|others| others != values).collect()
    }

    /// Returns a message without the parts that depend on values. `others` are the messages for the
    /// values of [`Guard::others`], `None` if the step did not fail.
    pub(crate) fn message(&self, message: &str, others: &[Option<&str>]) -> String {
        self.redaction.apply(&compare::without_differences(message, others, &self.words))
    }

    /// Redacts all texts of an error in the same way.
    pub(crate) fn withhold<T: Texts>(&self, mut error: T, others: Vec<Option<T>>) -> T {
        let copies = |mut other: T| other.texts().into_iter().map(|text| text.clone()).collect();
        let others: Vec<Option<Vec<String>>> = others.into_iter().map(|other| other.map(copies)).collect();
        let count = error.texts().len();
        for (index, text) in error.texts().into_iter().enumerate() {
            let same = |texts: &'_ &Vec<String>| texts.len() == count;
            let others: Vec<Option<&str>> =
                others.iter().map(|other| Some(other.as_ref().filter(same)?[index].as_str())).collect();
            *text = self.message(text, &others);
        }
        error
    }
}

/// Access to the texts of an error that may contain values.
pub(crate) trait Texts {
    fn texts(&mut self) -> Vec<&mut String>;
}

impl Texts for String {
    fn texts(&mut self) -> Vec<&mut String> {
        vec![self]
    }
}

impl Texts for Vec<String> {
    fn texts(&mut self) -> Vec<&mut String> {
        self.iter_mut().collect()
    }
}

/// Collects the forms in which a message may contain a value.
fn collect(value: &Value, is_name: &impl Fn(&str) -> bool, texts: &mut Vec<String>) {
    match value {
        Value::String(text) => collect_text(text, texts),
        Value::Number(number) => {
            let mut forms = vec![number.to_string()];
            if let Some(float) = number.as_f64().filter(|float| float.fract() != 0.0) {
                // `printf` may round the number. A whole number needs no such forms, because it
                // appears before its zeros unchanged.
                forms.extend((1..=6).map(|digits| format!("{float:.digits$}")));
                forms.extend((1..=6).map(|digits| {
                    format!("{float:.digits$e}").split('e').next().unwrap_or_default().to_owned()
                }));
            }
            texts.extend(forms.into_iter().filter(|form| form.len() >= SHORTEST_SECRET));
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, is_name, texts)),
        Value::Object(members) => {
            for (key, value) in members {
                if !is_name(key) {
                    collect_text(key, texts);
                }
                collect(value, is_name, texts);
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
}

fn collect_text(text: &str, texts: &mut Vec<String>) {
    let quoted = format!("{text:?}");
    let json = Value::from(text).to_string();
    // Go escapes these characters in JSON.
    let escapes = [
        ('<', "\\u003c"),
        ('>', "\\u003e"),
        ('&', "\\u0026"),
        ('\u{2028}', "\\u2028"),
        ('\u{2029}', "\\u2029"),
    ];
    let escaped = escapes.iter().fold(json, |json, (from, to)| json.replace(*from, to));
    let forms = [text, quoted.trim_matches('"'), escaped.trim_matches('"')];
    let forms = forms.into_iter().chain(text.lines().map(str::trim));
    texts.extend(forms.filter(|form| form.len() >= SHORTEST_SECRET).map(str::to_owned));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn forms_of_values() {
        let values = json!({
            "password": "hunter2", "user-4711": {"port": 80}, "known-key": 1, "rate": 3.17159, "line": "a\u{2028}secret", "html": "<b>x",
        });
        let redaction = Redaction::of([&values], |key| key == "known-key");
        for (message, expected) in [
            ("hunter2", "[...]"),
            ("map[user-4711:80]", "map[[...]:80]"),
            ("known-key of password", "known-key of password"),
            ("3.17 3.172 3.17159 3.171590", "[...] [...] [...] [...]"),
            (r#""a\u2028secret""#, "\"[...]\""),
            (r#""\u003cb\u003ex""#, "\"[...]\""),
        ] {
            assert_eq!(redaction.apply(message), expected, "{message}");
        }
    }
}
