//! Selection of the Targets that a deployer serves (`installations.md` 7.7, item 1).

use groundwork_api::{ResourceExt, Target};
use serde::Deserialize;

/// Selectors of a deployer. It serves a Target if there are no selectors, or if one of them
/// matches.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct TargetSelectors(pub Vec<TargetSelector>);

/// A selector. All given parts have to match.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct TargetSelector {
    pub targets: Vec<TargetName>,
    pub annotations: Vec<Requirement>,
    pub labels: Vec<Requirement>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TargetName {
    pub name: String,
    /// Namespace of the Target; any namespace if not given.
    #[serde(default)]
    pub namespace: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requirement {
    pub key: String,
    pub operator: Operator,
    #[serde(default)]
    pub values: Vec<String>,
}

/// Operators of Kubernetes' label selectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum Operator {
    #[serde(rename = "=", alias = "==", alias = "in")]
    In,
    #[serde(rename = "!=", alias = "notin")]
    NotIn,
    #[serde(rename = "exists")]
    Exists,
    #[serde(rename = "!")]
    DoesNotExist,
    #[serde(rename = "gt")]
    GreaterThan,
    #[serde(rename = "lt")]
    LessThan,
}

impl TargetSelectors {
    /// Reports whether a deployer with these selectors serves a Target.
    pub fn serve(&self, target: &Target) -> bool {
        self.0.is_empty() || self.0.iter().any(|selector| selector.matches(target))
    }
}

impl TargetSelector {
    fn matches(&self, target: &Target) -> bool {
        let namespace = target.namespace().unwrap_or_default();
        let is_named = |name: &TargetName| {
            name.name == target.name_any()
                && name.namespace.as_ref().is_none_or(|wanted| *wanted == namespace)
        };
        let all = |requirements: &[Requirement], values: &std::collections::BTreeMap<String, String>| {
            requirements.iter().all(|requirement| requirement.holds(values.get(&requirement.key)))
        };
        (self.targets.is_empty() || self.targets.iter().any(is_named))
            && all(&self.annotations, target.annotations())
            && all(&self.labels, target.labels())
    }
}

impl Requirement {
    fn holds(&self, value: Option<&String>) -> bool {
        let compared = |is: fn(&i64, &i64) -> bool| {
            let number = |text: &String| text.parse::<i64>().ok();
            matches!((value.and_then(number), self.values.first().and_then(number)), (Some(left), Some(right)) if is(&left, &right))
        };
        match self.operator {
            Operator::In => value.is_some_and(|value| self.values.contains(value)),
            // As in Kubernetes, a missing label matches `NotIn`.
            Operator::NotIn => value.is_none_or(|value| !self.values.contains(value)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan => compared(|left, right| left > right),
            Operator::LessThan => compared(|left, right| left < right),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn serves(selectors: Value) -> bool {
        let selectors: TargetSelectors = serde_json::from_value(selectors).unwrap();
        let target: Target = serde_json::from_value(json!({
            "metadata": {"name": "dev", "namespace": "team", "labels": {"stage": "dev", "tier": "3"}, "annotations": {"a": "b"}},
            "spec": {"type": "t"},
        }))
        .unwrap();
        selectors.serve(&target)
    }

    #[test]
    fn selectors() {
        for (selectors, expected) in [
            (json!([]), true),
            (json!([{}]), true),
            (json!([{"targets": [{"name": "dev"}]}]), true),
            (json!([{"targets": [{"name": "dev", "namespace": "other"}]}]), false),
            (
                json!([{"targets": [{"name": "x"}]}, {"targets": [{"name": "dev", "namespace": "team"}]}]),
                true,
            ),
            (json!([{"labels": [{"key": "stage", "operator": "in", "values": ["dev", "test"]}]}]), true),
            (json!([{"labels": [{"key": "stage", "operator": "==", "values": ["test"]}]}]), false),
            (json!([{"labels": [{"key": "none", "operator": "!=", "values": ["x"]}]}]), true),
            (json!([{"labels": [{"key": "stage", "operator": "notin", "values": ["dev"]}]}]), false),
            (json!([{"labels": [{"key": "none", "operator": "!"}]}]), true),
            (json!([{"labels": [{"key": "tier", "operator": "gt", "values": ["2"]}]}]), true),
            (json!([{"labels": [{"key": "tier", "operator": "lt", "values": ["3"]}]}]), false),
            (json!([{"labels": [{"key": "stage", "operator": "gt", "values": ["1"]}]}]), false),
            (
                json!([{"annotations": [{"key": "a", "operator": "exists"}], "targets": [{"name": "x"}]}]),
                false,
            ),
            (
                json!([{"annotations": [{"key": "a", "operator": "exists"}], "targets": [{"name": "dev"}]}]),
                true,
            ),
        ] {
            assert_eq!(serves(selectors.clone()), expected, "{selectors}");
        }
    }

    #[test]
    fn what_is_no_selector() {
        let parsed = |value: Value| serde_json::from_value::<TargetSelectors>(value);
        assert!(parsed(json!([{"target": []}])).is_err());
        assert!(parsed(json!([{"labels": [{"key": "a", "operator": "like"}]}])).is_err());
    }
}
