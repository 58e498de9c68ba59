//! Taking imported values out of messages (`blueprints.md` 10).
//!
//! What fails is done again with other values of the same shape. What the message then says in other words depends on values, whatever
//! a template has made of them, and is withheld. Where the same step does not fail with other values, only words remain that the author of
//! the blueprint or of an engine has written. Besides, values are looked for as they are.

mod compare;
mod others;
mod words;

use std::borrow::Cow;

use serde_json::{Map, Value};

pub(crate) use words::Words;

use crate::filesystem::Filesystem;
use others::Kind;

/// A value of the same shape in which every text, number, true and false is another one. What comes out the same with it does not depend on
/// the value. Keys stay.
pub fn other_value(value: &Value) -> Value {
    let other = others::other(value, Kind::Texts, &|_: &str| true);
    others::other(&other, Kind::Booleans, &|_: &str| true)
}

/// A message about what was done with values, without what depends on them. `written` is what the author of the work has written. `again` does
/// the work with other values of the same shapes, in the same order, and gives the message then; `None` if it does not fail, or cannot be done:
/// then words remain that the author or an engine has written.
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

/// Takes values out of texts where they stand as they are. `written` is what the author of the texts has written.
pub fn withhold_values(texts: &mut [String], values: &[&Value], written: Vec<Cow<'_, str>>) {
    if texts.is_empty() {
        return;
    }
    let guard = Guard::new(values, None, written);
    for text in texts {
        *text = guard.redaction.apply(text);
    }
}

/// Files beyond this many bytes, all together, are not searched for words: what they hold is withheld.
const LONGEST_SEARCHED: usize = 1 << 20;
/// Shorter texts would be found by chance in any message, and make it unreadable.
const SHORTEST_SECRET: usize = 4;
/// Stands for a value.
pub const REDACTED: &str = "[...]";

/// The texts that must not show.
///
/// This finds values as they are, quoted, and line by line; [`Guard`] does the rest.
#[derive(Debug, Clone, Default)]
struct Redaction {
    /// Longer ones first, so that no part of one is left over.
    secrets: Vec<String>,
}

impl Redaction {
    /// Covers every text and number in these values, and the keys of maps that are no names: those that the author has not written, and
    /// that are more than letters.
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

    /// The message without the values.
    fn apply(&self, message: &str) -> String {
        self.secrets.iter().fold(message.to_owned(), |text, secret| {
            if text.contains(secret.as_str()) { text.replace(secret.as_str(), REDACTED) } else { text }
        })
    }
}

/// What messages are cleaned with.
#[derive(Debug)]
pub(crate) struct Guard<'a> {
    redaction: Redaction,
    words: Words<'a>,
}

impl<'a> Guard<'a> {
    /// `public` is what the author has written besides the files, and what else may be seen.
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

    /// Whether the author has written this.
    pub(crate) fn is_written(&self, name: &str) -> bool {
        self.words.are_written(name)
    }

    /// Other values of the same shape, twice; only those that are other ones.
    pub(crate) fn others(&self, values: &Map<String, Value>) -> Vec<Map<String, Value>> {
        let is_name = |name: &str| self.is_written(name);
        let others = [Kind::Texts, Kind::Booleans].map(|kind| others::other_members(values, kind, &is_name));
        others.into_iter().filter(|others| others != values).collect()
    }

    /// A message without what depends on values. `others` are the messages for [`Guard::others`], none where there was none.
    pub(crate) fn message(&self, message: &str, others: &[Option<&str>]) -> String {
        self.redaction.apply(&compare::without_differences(message, others, &self.words))
    }

    /// The same for all texts of an error.
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

/// An error, as the texts in it that may hold values.
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

/// The forms in which a message may hold a value.
fn collect(value: &Value, is_name: &impl Fn(&str) -> bool, texts: &mut Vec<String>) {
    match value {
        Value::String(text) => collect_text(text, texts),
        Value::Number(number) => {
            let mut forms = vec![number.to_string()];
            if let Some(float) = number.as_f64().filter(|float| float.fract() != 0.0) {
                // As `printf` rounds it; a whole number stands in front of its zeros as it is.
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
    // As Go writes JSON.
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
