//! Helpers for the provider configurations of all deployers.

/// Returns only the part of a decoder's message that says what was expected. The rest quotes the
/// value, which may be secret.
pub(crate) fn problem(error: &serde_json::Error) -> String {
    let text = error.to_string();
    if let Some(field) = text.strip_prefix("missing field ") {
        return format!("{} is missing", field.split(" at line").next().unwrap_or_default());
    }
    if let Some((_, allowed)) =
        text.split_once("unknown variant ").and_then(|(_, rest)| rest.split_once(", expected "))
    {
        return format!(
            "a word is unknown, expected {}",
            allowed.split(" at line").next().unwrap_or_default()
        );
    }
    match text.split_once(", expected ") {
        Some((found, expected)) => {
            let kind =
                found.trim_start_matches("invalid type: ").split([' ', ',']).next().unwrap_or_default();
            format!("found a {kind}, expected {}", expected.split(" at line").next().unwrap_or_default())
        }
        None => "it does not have the expected form".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::{Value, json};

    use super::*;

    #[derive(Debug, Deserialize)]
    struct Sample {
        #[allow(dead_code)]
        word: Word,
        #[allow(dead_code)]
        count: u8,
    }

    #[derive(Debug, Deserialize)]
    enum Word {
        #[serde(rename = "good")]
        Good,
    }

    #[test]
    fn nothing_is_quoted() {
        let message = |value: Value| problem(&serde_json::from_value::<Sample>(value).unwrap_err());
        assert_eq!(message(json!({"word": "canary", "count": 1})), "a word is unknown, expected `good`");
        assert_eq!(message(json!({"word": "good"})), "`count` is missing");
        assert_eq!(message(json!({"word": "good", "count": "canary"})), "found a string, expected u8");
        assert!(!message(json!({"word": "good", "count": 1234567})).contains("1234567"));
    }
}
