//! Settings for objects in the provider configuration of a deployer (`installations.md` 7.9).

use std::sync::Arc;

use groundwork_cel::Patterns;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::expression::{Expression, patterns};
use crate::object::Reference;

/// Maximum CEL expressions of an item. Each is compiled in every round.
const MOST_EXPRESSIONS: usize = 100;

/// Operations that a deployer may perform on an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Policy {
    /// Create, update and delete; an existing object is taken over.
    #[default]
    Manage,
    /// As `manage`, as long as the object carries the label of this very item.
    Fallback,
    /// Create and update, but never delete.
    Keep,
    /// Ignore the object.
    Ignore,
    /// Create and delete, but never update.
    Immutable,
}

/// Way to bring an existing object to the state of its manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum UpdateStrategy {
    #[default]
    Update,
    Patch,
    /// Add missing fields only.
    Merge,
    /// Overwrite the fields that the manifest gives.
    MergeOverwrite,
}

/// An object that has to exist, with its settings.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    #[serde(default, deserialize_with = "null_is_default")]
    pub policy: Policy,
    pub manifest: Value,
    #[serde(default, deserialize_with = "null_is_default")]
    pub annotate_before_create: Map<String, Value>,
    #[serde(default, deserialize_with = "null_is_default")]
    pub annotate_before_delete: Map<String, Value>,
    #[serde(default)]
    pub patch_after_deployment: Option<Value>,
    #[serde(default)]
    pub patch_before_delete: Option<Value>,
    /// Members that the deployer does not know.
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// Returns the names of the other Targets that a configuration uses, each once.
pub fn target_names<'a>(
    checks: &'a ReadinessChecks,
    exports: impl IntoIterator<Item = &'a Export>,
    groups: impl IntoIterator<Item = &'a DeletionGroup>,
) -> Vec<&'a str> {
    let checks = checks.custom.iter().map(|check| check.target_name.as_deref());
    let exports = exports.into_iter().map(|export| export.target_name.as_deref());
    let groups = groups.into_iter().filter_map(|group| group.custom_resource_group.as_ref());
    let groups = groups.map(|group| group.target_name.as_deref());
    let mut names: Vec<&str> = checks.chain(exports).chain(groups).flatten().collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Rules by which objects without a custom check count as ready (`installations.md` 7.9).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ReadinessRules {
    /// The status conventions of kstatus, for every kind.
    #[default]
    Conventions,
    /// A table of kinds; objects of other kinds only have to exist. For charts that wait, the table
    /// is Helm 3's.
    Kinds,
}

/// Readiness checks for the objects of an item.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadinessChecks {
    #[serde(default, deserialize_with = "null_is_default")]
    pub disable_default: bool,
    /// Rules for this item; `None` for the default of the service.
    #[serde(default)]
    pub rules: Option<ReadinessRules>,
    #[serde(default, deserialize_with = "null_is_default")]
    pub custom: Vec<CustomCheck>,
}

/// A check with requirements for some objects.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CustomCheck {
    pub name: String,
    #[serde(default, deserialize_with = "null_is_default")]
    pub disabled: bool,
    #[serde(default, deserialize_with = "null_is_default")]
    pub resource_selector: Vec<Reference>,
    #[serde(default)]
    pub label_selector: Option<LabelSelector>,
    #[serde(default, deserialize_with = "null_is_default")]
    pub requirements: Vec<Requirement>,
    #[serde(default)]
    pub target_name: Option<String>,
}

/// Objects of one kind with labels.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LabelSelector {
    pub api_version: String,
    pub kind: String,
    #[serde(default, deserialize_with = "null_is_default")]
    pub match_labels: std::collections::BTreeMap<String, String>,
}

/// A field and its values, or an expression that has to be true.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Requirement {
    #[serde(default)]
    pub json_path: Option<String>,
    #[serde(default, deserialize_with = "null_is_default")]
    pub operator: String,
    #[serde(default, deserialize_with = "null_is_default")]
    pub values: Vec<RequirementValue>,
    /// CEL expression, which replaces all other members.
    #[serde(default)]
    pub cel: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct RequirementValue {
    pub value: Value,
}

/// A value that is read from an object.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Export {
    pub key: String,
    pub json_path: String,
    #[serde(default)]
    pub from_resource: Option<Reference>,
    #[serde(default)]
    pub from_object_ref: Option<FromObjectRef>,
    #[serde(default)]
    pub target_name: Option<String>,
}

/// Reference to the object that a field of another object names.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FromObjectRef {
    pub api_version: String,
    pub kind: String,
    pub json_path: String,
}

#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
pub struct Exports {
    #[serde(default, deserialize_with = "null_is_default")]
    pub exports: Vec<Export>,
}

/// Objects that are deleted together, before those of the next group.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeletionGroup {
    #[serde(default)]
    pub predefined_resource_group: Option<PredefinedGroup>,
    #[serde(default)]
    pub custom_resource_group: Option<CustomGroup>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PredefinedGroup {
    #[serde(rename = "type")]
    pub kind: PredefinedKind,
    #[serde(default, deserialize_with = "null_is_default")]
    pub force_delete: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PredefinedKind {
    NamespacedResources,
    ClusterScopedResources,
    Crds,
    /// Empty group: it deletes no objects, so those that no other group selects stay.
    Empty,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CustomGroup {
    #[serde(default, deserialize_with = "null_is_default")]
    pub resources: Vec<ResourceType>,
    #[serde(default, deserialize_with = "null_is_default")]
    pub force_delete: bool,
    #[serde(default, deserialize_with = "null_is_default")]
    pub delete_all_resources: bool,
    #[serde(default)]
    pub target_name: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceType {
    pub api_version: String,
    pub kind: String,
    #[serde(default, deserialize_with = "null_is_default")]
    pub names: Vec<String>,
    #[serde(default, deserialize_with = "null_is_default")]
    pub namespaces: Vec<String>,
}

impl DeletionGroup {
    fn predefined(kind: PredefinedKind) -> Self {
        let predefined_resource_group = Some(PredefinedGroup { kind, force_delete: false });
        Self { predefined_resource_group, custom_resource_group: None }
    }

    /// Returns the default groups, for items that do not set their own.
    pub fn defaults() -> Vec<Self> {
        use PredefinedKind::{ClusterScopedResources, Crds, NamespacedResources};
        [NamespacedResources, ClusterScopedResources, Crds].map(Self::predefined).into()
    }
}

/// Reads `null` as the default value, as Go does for a member.
pub fn null_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Returns the problems of checks, exports and groups, each with the path of the member. The texts
/// quote no value.
pub fn problems(
    checks: &ReadinessChecks,
    exports: &[Export],
    groups: &[(&str, &[DeletionGroup])],
) -> Vec<String> {
    let mut problems = Vec::new();
    let patterns = patterns();
    let requirements = checks.custom.iter().flat_map(|check| &check.requirements);
    if requirements.filter(|requirement| requirement.cel.is_some()).count() > MOST_EXPRESSIONS {
        problems
            .push(format!("readinessChecks.custom: has more than {MOST_EXPRESSIONS} requirements with cel"));
    }
    for (index, check) in checks.custom.iter().enumerate() {
        problems_of_check(check, &format!("readinessChecks.custom[{index}]"), &patterns, &mut problems);
    }
    for (index, export) in exports.iter().enumerate() {
        let path = format!("exports.exports[{index}]");
        if export.key.split('.').any(str::is_empty) {
            problems.push(format!("{path}.key: must be names joined by dots"));
        }
        let paths = [(".jsonPath", Some(&export.json_path))];
        let inner = export.from_object_ref.as_ref().map(|reference| &reference.json_path);
        for (member, text) in paths.into_iter().chain([(".fromObjectRef.jsonPath", inner)]) {
            check_path(text.map(String::as_str), &format!("{path}{member}"), &mut problems);
        }
        if export.from_object_ref.is_some() && export.from_resource.is_none() {
            problems.push(format!("{path}.fromObjectRef: needs fromResource"));
        }
    }
    for (member, groups) in groups {
        for (index, group) in groups.iter().enumerate() {
            problems_of_group(group, &format!("{member}[{index}]"), &mut problems);
        }
    }
    problems
}

fn check_path(text: Option<&str>, member: &str, problems: &mut Vec<String>) {
    if let Some(Err(error)) = text.map(crate::json_path::JsonPath::parse) {
        problems.push(format!("{member}: {error}"));
    }
}

fn problems_of_check(check: &CustomCheck, path: &str, patterns: &Arc<Patterns>, problems: &mut Vec<String>) {
    if check.name.is_empty() {
        problems.push(format!("{path}.name: must not be empty"));
    }
    if check.resource_selector.is_empty() && check.label_selector.is_none() {
        problems.push(format!("{path}: resourceSelector or labelSelector must be given"));
    }
    if check.label_selector.as_ref().is_some_and(|selector| selector.match_labels.is_empty()) {
        problems.push(format!("{path}.labelSelector.matchLabels: must not be empty"));
    }
    if check.requirements.is_empty() {
        problems.push(format!("{path}.requirements: must not be empty"));
    }
    for (index, requirement) in check.requirements.iter().enumerate() {
        problems_of_requirement(requirement, &format!("{path}.requirements[{index}]"), patterns, problems);
    }
}

fn problems_of_requirement(
    requirement: &Requirement,
    path: &str,
    patterns: &Arc<Patterns>,
    problems: &mut Vec<String>,
) {
    let count = requirement.values.len();
    match (&requirement.json_path, &requirement.cel) {
        (Some(json_path), None) => check_path(Some(json_path), &format!("{path}.jsonPath"), problems),
        (None, Some(source)) => {
            if let Err(error) = Expression::compile(source, patterns) {
                problems.push(format!("{path}.cel: {error}"));
            }
            if !requirement.operator.is_empty() || count > 0 {
                problems.push(format!("{path}: operator and values belong to jsonPath, and not to cel"));
            }
            return;
        }
        _ => return problems.push(format!("{path}: exactly one of jsonPath and cel must be given")),
    }
    match requirement.operator.as_str() {
        "exists" | "!" if count > 0 => {
            problems.push(format!("{path}.values: must be empty for this operator"));
        }
        "=" | "==" | "!=" if count != 1 => {
            problems.push(format!("{path}.values: must be exactly one for this operator"));
        }
        "in" | "notin" if count == 0 => problems.push(format!("{path}.values: must not be empty")),
        "exists" | "!" | "=" | "==" | "!=" | "in" | "notin" => {}
        _ => problems.push(format!("{path}.operator: must be one of exists, !, =, ==, !=, in, notin")),
    }
}

fn problems_of_group(group: &DeletionGroup, path: &str, problems: &mut Vec<String>) {
    match (&group.predefined_resource_group, &group.custom_resource_group) {
        (Some(_), None) => {}
        (None, Some(custom)) => {
            if custom.resources.is_empty() {
                problems.push(format!("{path}.customResourceGroup.resources: must not be empty"));
            }
            if custom.target_name.is_some() && !custom.delete_all_resources {
                problems.push(format!("{path}.customResourceGroup.targetName: needs deleteAllResources"));
            }
        }
        _ => problems.push(format!(
            "{path}: exactly one of predefinedResourceGroup and customResourceGroup must be given"
        )),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn problems_of(requirements: &Value) -> Vec<String> {
        let check = json!({
            "name": "a", "resourceSelector": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "a"}], "requirements": requirements,
        });
        problems(&serde_json::from_value(json!({"custom": [check]})).unwrap(), &[], &[])
    }

    #[test]
    fn requirements_are_a_path_or_an_expression() {
        for (requirement, expected) in [
            (json!({"jsonPath": ".a", "operator": "exists"}), None),
            (json!({"cel": "has(status.phase)"}), None),
            (json!({"operator": "exists"}), Some(": exactly one of jsonPath and cel must be given")),
            (
                json!({"jsonPath": ".a", "operator": "exists", "cel": "true"}),
                Some(": exactly one of jsonPath and cel must be given"),
            ),
            (
                json!({"cel": "true", "operator": "exists"}),
                Some(": operator and values belong to jsonPath, and not to cel"),
            ),
            (
                json!({"cel": "true", "values": [{"value": 1}]}),
                Some(": operator and values belong to jsonPath, and not to cel"),
            ),
            (json!({"cel": "stauts.phase"}), Some(".cel: undeclared reference to 'stauts'")),
            (json!({"cel": ""}), Some(".cel: Syntax error")),
            (json!({"jsonPath": ".a["}), Some(".jsonPath: is not a valid JSON path")),
            (json!({"jsonPath": ".a"}), Some(".operator: must be one of")),
        ] {
            let found = problems_of(&json!([requirement]));
            let is_so = match expected {
                None => found.is_empty(),
                Some(text) => {
                    found[0].starts_with(&format!("readinessChecks.custom[0].requirements[0]{text}"))
                }
            };
            assert!(is_so, "{requirement}: {found:?}");
        }
        let many = vec![json!({"cel": "true"}); MOST_EXPRESSIONS + 1];
        assert_eq!(
            problems_of(&json!(many)),
            ["readinessChecks.custom: has more than 100 requirements with cel"]
        );
    }

    #[test]
    fn rules_are_words() {
        let rules = |word: Value| {
            serde_json::from_value(json!({"rules": word})).map(|checks: ReadinessChecks| checks.rules)
        };
        assert_eq!(rules(json!("conventions")).unwrap(), Some(ReadinessRules::Conventions));
        assert_eq!(rules(json!("kinds")).unwrap(), Some(ReadinessRules::Kinds));
        assert_eq!(rules(Value::Null).unwrap(), None);
        assert!(rules(json!("helm")).is_err());
    }
}
