//! Label selectors with the semantics of Kubernetes.

use std::collections::BTreeMap;

use groundwork_api::kubernetes::{label_key_problems, label_value_problems};
use groundwork_api::{LabelSelector, LabelSelectorRequirement};

/// Reports whether labels match; an empty selector matches everything.
pub(crate) fn matches(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    let equal = selector.match_labels.iter().flatten().all(|(key, value)| labels.get(key) == Some(value));
    equal && selector.match_expressions.iter().flatten().all(|requirement| holds(requirement, labels))
}

fn holds(requirement: &LabelSelectorRequirement, labels: &BTreeMap<String, String>) -> bool {
    let value = labels.get(&requirement.key);
    let is_listed =
        || value.is_some_and(|value| requirement.values.iter().flatten().any(|listed| listed == value));
    match requirement.operator.as_str() {
        "In" => is_listed(),
        "NotIn" => !is_listed(),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        // `errors` has refused unknown operators before.
        _ => false,
    }
}

/// Returns the errors that the API server would return, in its words: one text for each invalid
/// requirement, labels by key before expressions (`packagevariants.md` 4.9).
pub(crate) fn errors(selector: &LabelSelector) -> Vec<String> {
    let labels = selector.match_labels.iter().flatten();
    let mut errors: Vec<String> =
        labels.filter_map(|(key, value)| told(&problems(key, std::slice::from_ref(value), None))).collect();
    for requirement in selector.match_expressions.iter().flatten() {
        let values = requirement.values.as_deref().unwrap_or_default();
        let wrong_values = match requirement.operator.as_str() {
            "In" | "NotIn" if values.is_empty() => Some(
                "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"
                    .to_owned(),
            ),
            "Exists" | "DoesNotExist" if !values.is_empty() => Some(format!(
                "values: Invalid value: {}: values set must be empty for exists and does not exist",
                serde_json::json!(values)
            )),
            "In" | "NotIn" | "Exists" | "DoesNotExist" => None,
            other => {
                errors.push(format!("{other:?} is not a valid label selector operator"));
                continue;
            }
        };
        errors.extend(told(&problems(&requirement.key, values, wrong_values)));
    }
    errors
}

/// Returns the errors of one requirement: its key, the number of its values, and each value.
fn problems(key: &str, values: &[String], wrong_values: Option<String>) -> Vec<String> {
    let mut problems = Vec::new();
    let of_key = label_key_problems(key);
    if !of_key.is_empty() {
        problems.push(format!("key: Invalid value: {key:?}: {}", of_key.join("; ")));
    }
    problems.extend(wrong_values);
    for (index, value) in values.iter().enumerate() {
        let of_value = label_value_problems(value);
        if !of_value.is_empty() {
            problems
                .push(format!("values[{index}][{key}]: Invalid value: {value:?}: {}", of_value.join("; ")));
        }
    }
    problems
}

/// Joins the errors of one requirement; several errors are in brackets.
fn told(problems: &[String]) -> Option<String> {
    match problems {
        [] => None,
        [one] => Some(one.clone()),
        several => Some(format!("[{}]", several.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requirement(key: &str, operator: &str, values: &[&str]) -> LabelSelectorRequirement {
        LabelSelectorRequirement {
            key: key.to_owned(),
            operator: operator.to_owned(),
            values: (!values.is_empty()).then(|| values.iter().map(|value| (*value).to_owned()).collect()),
        }
    }

    fn selector(requirements: Vec<LabelSelectorRequirement>) -> LabelSelector {
        LabelSelector { match_labels: None, match_expressions: Some(requirements) }
    }

    #[test]
    fn operators() {
        let labels = [("env".to_owned(), "prod".to_owned())].into();
        let check = |operator: &str, key: &str, values: &[&str]| {
            matches(&selector(vec![requirement(key, operator, values)]), &labels)
        };
        assert!(
            check("In", "env", &["dev", "prod"])
                && !check("In", "env", &["dev"])
                && !check("In", "x", &["y"])
        );
        assert!(
            !check("NotIn", "env", &["prod"])
                && check("NotIn", "env", &["dev"])
                && check("NotIn", "x", &["y"])
        );
        assert!(check("Exists", "env", &[]) && !check("Exists", "x", &[]));
        assert!(!check("DoesNotExist", "env", &[]) && check("DoesNotExist", "x", &[]));
        assert!(matches(&LabelSelector::default(), &labels));
    }

    #[test]
    fn what_the_api_server_would_refuse() {
        let mut wrong = selector(vec![
            requirement("a", "In", &[]),
            requirement("a", "Exists", &["b", "c"]),
            requirement("a", "Like", &[]),
            requirement("a", "NotIn", &["b"]),
            requirement("", "Exists", &[]),
        ]);
        wrong.match_labels = Some([("a".to_owned(), "-b".to_owned())].into());
        let found = errors(&wrong);
        assert_eq!(found.len(), 5, "{found:?}");
        assert!(
            found[0].starts_with("values[0][a]: Invalid value: \"-b\": a valid label must be"),
            "{found:?}"
        );
        assert_eq!(
            found[1..4],
            [
                "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty",
                "values: Invalid value: [\"b\",\"c\"]: values set must be empty for exists and does not exist",
                "\"Like\" is not a valid label selector operator",
            ]
        );
        assert!(found[4].starts_with("key: Invalid value: \"\": name part must be non-empty; "), "{found:?}");
    }
}
