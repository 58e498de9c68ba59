//! Taking imported values out of messages (`blueprints.md` 10).

use serde_json::Value;

/// Shorter texts would be found by chance in any message, and make it unreadable.
const SHORTEST_SECRET: usize = 4;
/// Stands for a value.
pub(crate) const REDACTED: &str = "[...]";

/// The texts that must not show.
///
/// This finds values as they are, quoted, and line by line. What a template makes of a value (upper case, base64)
/// and puts into a message of its own, or hands to a function whose error quotes it, is beyond it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Redaction {
    /// Longer ones first, so that no part of one is left over.
    secrets: Vec<String>,
}

impl Redaction {
    /// Covers every text and number in these values.
    pub(crate) fn of<'a>(values: impl IntoIterator<Item = &'a Value>) -> Self {
        let mut secrets = Vec::new();
        for value in values {
            collect(value, &mut secrets);
        }
        secrets.sort_by_key(|text| std::cmp::Reverse(text.len()));
        secrets.dedup();
        Self { secrets }
    }

    /// The message without the values.
    pub(crate) fn apply(&self, message: &str) -> String {
        self.secrets.iter().fold(message.to_owned(), |text, secret| {
            if text.contains(secret.as_str()) { text.replace(secret.as_str(), REDACTED) } else { text }
        })
    }

    /// The same for a value that is part of a message.
    pub(crate) fn apply_to_value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::from(self.apply(text)),
            Value::Array(items) => items.iter().map(|item| self.apply_to_value(item)).collect(),
            other => other.clone(),
        }
    }
}

/// The forms in which a message may hold a value.
fn collect(value: &Value, texts: &mut Vec<String>) {
    match value {
        Value::String(text) => {
            let quoted = format!("{text:?}");
            let escaped =
                value.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
            let forms = [text.as_str(), quoted.trim_matches('"'), escaped.trim_matches('"')];
            let forms = forms.into_iter().chain(text.lines().map(str::trim));
            texts.extend(forms.filter(|form| form.len() >= SHORTEST_SECRET).map(str::to_owned));
        }
        Value::Number(number) => {
            let text = number.to_string();
            texts.extend((text.len() >= SHORTEST_SECRET).then_some(text));
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, texts)),
        Value::Object(members) => members.values().for_each(|value| collect(value, texts)),
        Value::Null | Value::Bool(_) => {}
    }
}
