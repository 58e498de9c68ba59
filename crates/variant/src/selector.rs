//! Label selectors as Kubernetes reads them.

use std::collections::BTreeMap;

use groundwork_api::{LabelSelector, LabelSelectorRequirement};

/// Whether labels match; an empty selector matches everything.
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
        // Refused by `errors` before.
        _ => false,
    }
}

/// What the API server would refuse. `path` is the path of the selector.
pub(crate) fn errors(selector: &LabelSelector, path: &str) -> Vec<String> {
    let mut errors = Vec::new();
    for (index, requirement) in selector.match_expressions.iter().flatten().enumerate() {
        let path = format!("{path}.matchExpressions[{index}]");
        let has_values = requirement.values.as_ref().is_some_and(|values| !values.is_empty());
        match requirement.operator.as_str() {
            "In" | "NotIn" if !has_values => {
                errors.push(format!("{path}.values must not be empty when operator is In or NotIn"));
            }
            "Exists" | "DoesNotExist" if has_values => {
                errors.push(format!("{path}.values must be empty when operator is Exists or DoesNotExist"));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            _ => errors.push(format!("{path}.operator can only be In, NotIn, Exists or DoesNotExist")),
        }
        if requirement.key.is_empty() {
            errors.push(format!("{path}.key cannot be empty"));
        }
    }
    errors
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
        let wrong = selector(vec![
            requirement("a", "In", &[]),
            requirement("a", "Exists", &["b"]),
            requirement("", "Like", &[]),
            requirement("a", "NotIn", &["b"]),
        ]);
        let found = errors(&wrong, "s");
        assert_eq!(found.len(), 4, "{found:?}");
        assert!(found[2].starts_with("s.matchExpressions[2].operator"), "{found:?}");
    }
}
