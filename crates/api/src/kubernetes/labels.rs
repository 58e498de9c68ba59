//! Checks keys and values of labels and annotations. Messages are those of the library version that
//! Landscaper uses; current API servers use others in places.

use crate::kubernetes::names::{LONGEST_SUBDOMAIN, looks_like_dns_subdomain};

const NAME: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
const NAME_EXAMPLES: &str = "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
                             '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end \
                     with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is \
                     '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const PREFIX: &str = "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
                      start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
                      '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
/// Maximum bytes of a label's value, and of the name in a key.
const LONGEST: usize = 63;

/// Reports whether a text is a valid key of a label.
pub fn is_label_key(key: &str) -> bool {
    label_key_problems(key).is_empty()
}

/// Reports whether a text is a valid key of an annotation: as for a label, but the prefix may have
/// upper case.
pub fn is_annotation_key(key: &str) -> bool {
    is_label_key(&key.to_ascii_lowercase())
}

/// Reports whether a text is a valid value of a label.
pub fn is_label_value(value: &str) -> bool {
    value.is_empty() || value.len() <= LONGEST && looks_like_name(value)
}

/// Returns the errors in the key of a label.
pub fn label_key_problems(key: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let name = match key.split('/').collect::<Vec<_>>()[..] {
        [name] => name,
        [prefix, name] => {
            problems.extend(prefix_problems(prefix));
            name
        }
        _ => {
            return vec![format!(
                "a qualified name {NAME} {NAME_EXAMPLES} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        problems.push("name part must be non-empty".to_owned());
    } else if name.len() > LONGEST {
        problems.push(format!("name part must be no more than {LONGEST} characters"));
    }
    if !looks_like_name(name) {
        problems.push(format!("name part {NAME} {NAME_EXAMPLES}"));
    }
    problems
}

fn prefix_problems(prefix: &str) -> Vec<String> {
    if prefix.is_empty() {
        return vec!["prefix part must be non-empty".to_owned()];
    }
    let mut problems = Vec::new();
    if prefix.len() > LONGEST_SUBDOMAIN {
        problems.push(format!("prefix part must be no more than {LONGEST_SUBDOMAIN} characters"));
    }
    if !looks_like_dns_subdomain(prefix) {
        problems.push(PREFIX.to_owned());
    }
    problems
}

/// Returns the errors in the value of a label.
pub fn label_value_problems(value: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if value.len() > LONGEST {
        problems.push(format!("must be no more than {LONGEST} characters"));
    }
    if !value.is_empty() && !looks_like_name(value) {
        problems.push(VALUE.to_owned());
    }
    problems
}

/// Checks the characters, but not the length.
fn looks_like_name(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let ends = [text.bytes().next(), text.bytes().next_back()];
    text.bytes().all(is_inner)
        && ends.into_iter().all(|byte| byte.is_some_and(|byte| byte.is_ascii_alphanumeric()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_values() {
        for key in ["a", "A.b_c-9", "example.org/Name", &"x".repeat(63)] {
            assert_eq!(label_key_problems(key), Vec::<String>::new(), "{key}");
        }
        for (key, start) in [
            ("", "name part must be non-empty"),
            ("-a", "name part must consist of alphanumeric characters"),
            ("/a", "prefix part must be non-empty"),
            ("UP/a", "prefix part a lowercase RFC 1123 subdomain"),
            ("a/b/c", "a qualified name must consist of"),
            (&"x".repeat(64), "name part must be no more than 63 characters"),
        ] {
            assert!(label_key_problems(key)[0].starts_with(start), "{key}: {:?}", label_key_problems(key));
        }
        assert_eq!(label_value_problems(""), Vec::<String>::new());
        assert!(
            label_value_problems("a b")[0].starts_with("a valid label must be an empty string or consist of")
        );
        assert_eq!(label_value_problems(&"x".repeat(64)), ["must be no more than 63 characters"]);
    }

    #[test]
    fn keys_of_annotations_may_have_capitals_before_the_slash() {
        assert!(is_annotation_key("Example.org/Name") && !is_label_key("Example.org/Name"));
        assert!(is_label_key("example.org/Name") && !is_annotation_key("-a") && !is_annotation_key("a/b/c"));
        assert!(is_label_value("") && is_label_value("A.b_c-9") && !is_label_value("-a"));
    }
}
