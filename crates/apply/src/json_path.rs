//! Paths into objects as `kubectl` and Landscaper write them
//! (`.status.conditions[?(@.type=="Ready")].status`). They are translated for a library of RFC
//! 9535, which is stricter about names.

use jsonpath_rust::parser::model::JpQuery;
use jsonpath_rust::parser::parse_json_path;
use jsonpath_rust::query::{QueryRef, js_path_process};
use serde_json::Value;

/// A parsed path.
#[derive(Debug, Clone)]
pub struct JsonPath {
    query: JpQuery,
}

/// Reason why a text is not a path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonPathError {
    #[error("is not a valid JSON path: a bracket or quote is not closed")]
    Unclosed,
    #[error("is not a valid JSON path; write a path such as .status.conditions[?(@.type==\"Ready\")].status")]
    Syntax,
}

impl JsonPath {
    /// Parses a path. The leading dot and surrounding braces are optional.
    ///
    /// # Errors
    ///
    /// The text is not a path.
    pub fn parse(text: &str) -> Result<Self, JsonPathError> {
        let trimmed = text.trim();
        let inner = trimmed.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or(trimmed);
        let inner = inner.trim().trim_start_matches(['$', '@']);
        let start = if inner.is_empty() || inner.starts_with(['.', '[']) { "" } else { "." };
        let standard = format!("${}", standard(&format!("{start}{inner}"))?);
        parse_json_path(&standard).map(|query| Self { query }).map_err(|_| JsonPathError::Syntax)
    }

    /// Returns all values that the path matches.
    pub fn find<'a>(&self, object: &'a Value) -> Vec<&'a Value> {
        // The query fails only for a function with a wrong argument; that counts as no match.
        js_path_process(&self.query, object).into_iter().flatten().map(QueryRef::val).collect()
    }
}

/// Writes names after dots in brackets and quotes, since kubectl allows hyphens in them, and dots
/// after a backslash.
fn standard(text: &str) -> Result<String, JsonPathError> {
    let mut result = String::with_capacity(text.len() + 16);
    let mut characters = text.chars().peekable();
    let mut brackets = 0_usize;
    let mut previous = ' ';
    while let Some(character) = characters.next() {
        match character {
            '\'' | '"' => {
                result.push(character);
                quoted(&mut characters, character, &mut result)?;
            }
            '[' | ']' => {
                brackets = if character == '[' { brackets + 1 } else { brackets.saturating_sub(1) };
                result.push(character);
            }
            // Inside brackets a dot begins a name unless it follows a digit, where it belongs to a
            // number.
            '.' if brackets == 0 || !previous.is_ascii_digit() => {
                if characters.next_if_eq(&'.').is_some() {
                    result.push_str("..");
                }
                name(&mut characters, &mut result);
            }
            other => result.push(other),
        }
        previous = character;
    }
    if brackets > 0 { Err(JsonPathError::Unclosed) } else { Ok(result) }
}

type Characters<'a> = std::iter::Peekable<std::str::Chars<'a>>;

/// Copies the rest of a quoted text unchanged.
fn quoted(characters: &mut Characters<'_>, quote: char, result: &mut String) -> Result<(), JsonPathError> {
    while let Some(character) = characters.next() {
        result.push(character);
        if character == quote {
            return Ok(());
        }
        if character == '\\' {
            result.extend(characters.next());
        }
    }
    Err(JsonPathError::Unclosed)
}

fn name(characters: &mut Characters<'_>, result: &mut String) {
    if characters.next_if_eq(&'*').is_some() {
        result.push_str("[*]");
        return;
    }
    let mut name = String::new();
    while let Some(character) = characters.next_if(|next| !".[]()=!<>&|, \t\"'".contains(*next)) {
        match character {
            '\\' => name.extend(characters.next()),
            other => name.push(other),
        }
    }
    if !name.is_empty() {
        result.push_str(&format!("['{}']", name.replace('\\', r"\\").replace('\'', r"\'")));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_of_landscaper() {
        let object = json!({
            "data": {"color": "blue", "my-key": 1, "a.b/c": 2},
            "items": [{"name": "x", "sub-name": "s"}, {"name": "y", "size": 3}],
            "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "False"}]},
        });
        for (path, expected) in [
            (".data.color", json!(["blue"])),
            ("data.color", json!(["blue"])),
            ("{.data.color}", json!(["blue"])),
            ("$.data.color", json!(["blue"])),
            (".data.my-key", json!([1])),
            (r".data.a\.b/c", json!([2])),
            (".data['a.b/c']", json!([2])),
            (".items[0].name", json!(["x"])),
            (".items[-1].name", json!(["y"])),
            (".items[*].name", json!(["x", "y"])),
            (".items.*.name", json!(["x", "y"])),
            ("..size", json!([3])),
            (r#".status.conditions[?(@.type=="Ready")].status"#, json!(["True"])),
            (r#".status.conditions[?(@.type == 'Other')].status"#, json!(["False"])),
            (r#".items[?(@.sub-name=="s")].name"#, json!(["x"])),
            (".items[?(@.size > 2.5)].name", json!(["y"])),
            (".nothing.at.all", json!([])),
        ] {
            let found = JsonPath::parse(path).unwrap().find(&object).into_iter().cloned().collect::<Vec<_>>();
            assert_eq!(Value::Array(found), expected, "{path}");
        }
        assert_eq!(JsonPath::parse(".").unwrap().find(&object), [&object]);
    }

    #[test]
    fn what_is_no_path() {
        for path in [".a[", ".a['b", ".a[?(@.b=]", ".a[?(", ".a[x]"] {
            assert!(JsonPath::parse(path).is_err(), "{path}");
        }
    }

    proptest::proptest! {
        /// Any text must be handled without a panic.
        #[test]
        fn any_text(text in ".{0,40}") {
            let _ = JsonPath::parse(&text).map(|path| path.find(&json!({"a": [1]})).len());
        }
    }
}
