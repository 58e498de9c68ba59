//! What Kubernetes says about labels it does not take.

const NAME: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
const NAME_EXAMPLES: &str = "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
                             '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end \
                     with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is \
                     '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const PREFIX: &str = "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
                      start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
                      '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LONGEST_NAME: usize = 63;
const LONGEST_PREFIX: usize = 253;

/// What is wrong with a key.
pub(super) fn key_problems(key: &str) -> Vec<String> {
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
    } else if name.len() > LONGEST_NAME {
        problems.push(format!("name part must be no more than {LONGEST_NAME} characters"));
    }
    if !is_name(name) {
        problems.push(format!("name part {NAME} {NAME_EXAMPLES}"));
    }
    problems
}

fn prefix_problems(prefix: &str) -> Vec<String> {
    if prefix.is_empty() {
        return vec!["prefix part must be non-empty".to_owned()];
    }
    let mut problems = Vec::new();
    if prefix.len() > LONGEST_PREFIX {
        problems.push(format!("prefix part must be no more than {LONGEST_PREFIX} characters"));
    }
    let is_label = |label: &str| {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        !label.is_empty() && label.bytes().all(inner) && !label.starts_with('-') && !label.ends_with('-')
    };
    if !prefix.split('.').all(is_label) {
        problems.push(PREFIX.to_owned());
    }
    problems
}

/// What is wrong with a value.
pub(super) fn value_problems(value: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if value.len() > LONGEST_NAME {
        problems.push(format!("must be no more than {LONGEST_NAME} characters"));
    }
    if !value.is_empty() && !is_name(value) {
        problems.push(VALUE.to_owned());
    }
    problems
}

/// Without regard to its length.
pub(super) fn is_name(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let ends = [text.bytes().next(), text.bytes().next_back()];
    text.bytes().all(inner)
        && ends.into_iter().all(|byte| byte.is_some_and(|byte| byte.is_ascii_alphanumeric()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_values() {
        for key in ["a", "A.b_c-9", "example.org/Name", &"x".repeat(63)] {
            assert_eq!(key_problems(key), Vec::<String>::new(), "{key}");
        }
        for (key, start) in [
            ("", "name part must be non-empty"),
            ("-a", "name part must consist of alphanumeric characters"),
            ("/a", "prefix part must be non-empty"),
            ("UP/a", "prefix part a lowercase RFC 1123 subdomain"),
            ("a/b/c", "a qualified name must consist of"),
            (&"x".repeat(64), "name part must be no more than 63 characters"),
        ] {
            assert!(key_problems(key)[0].starts_with(start), "{key}: {:?}", key_problems(key));
        }
        assert_eq!(value_problems(""), Vec::<String>::new());
        assert!(value_problems("a b")[0].starts_with("a valid label must be an empty string or consist of"));
        assert_eq!(value_problems(&"x".repeat(64)), ["must be no more than 63 characters"]);
    }
}
