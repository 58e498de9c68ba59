//! What a deployer is told about objects, in the words of a provider configuration (`installations.md` 7.9).

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::object::Reference;

/// What may be done to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Policy {
    /// Created, updated and deleted; an object that exists is taken over.
    #[default]
    Manage,
    /// As `manage`, as long as the object carries the label of this very item.
    Fallback,
    /// Never deleted.
    Keep,
    /// Not looked at.
    Ignore,
    /// Created and deleted, never updated.
    Immutable,
}

/// How an object that exists is brought to what its manifest says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum UpdateStrategy {
    #[default]
    Update,
    Patch,
    /// Fills in what is missing.
    Merge,
    /// Overwrites what the manifest says.
    MergeOverwrite,
}

/// An object to be there, and how to treat it.
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
    /// What nobody reads.
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// Names of the other Targets that a configuration asks for something, each once.
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

/// Whether objects are in order.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadinessChecks {
    #[serde(default, deserialize_with = "null_is_default")]
    pub disable_default: bool,
    #[serde(default, deserialize_with = "null_is_default")]
    pub custom: Vec<CustomCheck>,
}

/// What has to hold for some objects.
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

/// What a field has to be.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Requirement {
    pub json_path: String,
    pub operator: String,
    #[serde(default, deserialize_with = "null_is_default")]
    pub values: Vec<RequirementValue>,
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

/// The object that a field of another object names.
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
    /// Nothing: what no other group takes stays.
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

    /// What is deleted in which order if nobody says so.
    pub fn defaults() -> Vec<Self> {
        use PredefinedKind::{ClusterScopedResources, Crds, NamespacedResources};
        [NamespacedResources, ClusterScopedResources, Crds].map(Self::predefined).into()
    }
}

/// `null` is what Go takes for a member that was left out.
pub fn null_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// What is wrong with checks, exports and groups, each with the path of the member; no value is quoted.
pub fn problems(
    checks: &ReadinessChecks,
    exports: &[Export],
    groups: &[(&str, &[DeletionGroup])],
) -> Vec<String> {
    let mut problems = Vec::new();
    for (index, check) in checks.custom.iter().enumerate() {
        problems_of_check(check, &format!("readinessChecks.custom[{index}]"), &mut problems);
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

fn problems_of_check(check: &CustomCheck, path: &str, problems: &mut Vec<String>) {
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
        let path = format!("{path}.requirements[{index}]");
        check_path(Some(&requirement.json_path), &format!("{path}.jsonPath"), problems);
        let count = requirement.values.len();
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
