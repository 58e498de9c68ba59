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
    /// Covers every text and number in these values, and the keys of maps that are no names: those that the author has not written in
    /// `known`, and that are more than letters.
    pub(crate) fn of<'a>(values: impl IntoIterator<Item = &'a Value>, known: &str) -> Self {
        let mut secrets = Vec::new();
        let is_name = |key: &str| key.bytes().all(|byte| byte.is_ascii_alphabetic()) || known.contains(key);
        for value in values {
            collect(value, &is_name, &mut secrets);
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
        let redaction = Redaction::of([&values], "{{ index .imports \"known-key\" }}");
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
