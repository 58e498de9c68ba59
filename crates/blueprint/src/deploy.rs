//! Deploy items: decoding, target references, checks of the whole list (`blueprints.md` 7).

mod decode;
mod dependencies;

use std::collections::{BTreeMap, HashSet};

use groundwork_api::kubernetes::{is_label_value, label_key_problems, label_value_problems};
use groundwork_api::{DeployItemTemplate, ObjectReference};
use serde_json::json;

use crate::field::{FieldError, FieldPath, Violation, aggregate};
use crate::imports::TargetValue;
use crate::redaction::Texts;

pub use decode::DecodeError;
pub(crate) use decode::{MOST_ENTRIES, ScalarText, decode_items, too_many};

/// Deploy item as a template wrote it, with its target not yet resolved.
#[derive(Debug, Clone, PartialEq)]
pub struct UnresolvedItem {
    /// Template without its target.
    pub template: DeployItemTemplate,
    pub target: Option<TargetReference>,
}

/// Reference of a deploy item to its target (`blueprints.md` 7.2).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TargetReference {
    pub import: Option<String>,
    pub index: Option<i64>,
    pub key: Option<String>,
    pub name: Option<String>,
}

/// Error in rendered deploy items.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum DeployError {
    /// Error DI-001 (`blueprints.md` 10): a target cannot be resolved.
    #[error("invalid deployitem specification {item:?}: {problem}")]
    Target { item: String, problem: String },
    /// Error DI-002 (`blueprints.md` 10): all errors of the list.
    #[error("error validating deployitem templates: {}", aggregate(.0))]
    Invalid(Vec<FieldError>),
}

/// Names of rendered items may be imported values, so messages with them are redacted.
impl Texts for DeployError {
    fn texts(&mut self) -> Vec<&mut String> {
        match self {
            Self::Target { item, problem } => vec![item, problem],
            Self::Invalid(errors) => errors.iter_mut().flat_map(FieldError::texts).collect(),
        }
    }
}

/// Resolves targets among the imports, and checks the whole list (`blueprints.md` 7.2, 7.3).
///
/// # Errors
///
/// The first target that cannot be resolved, or all errors of the list.
pub fn resolve_items(
    items: Vec<UnresolvedItem>,
    targets: &BTreeMap<String, TargetValue>,
    namespace: &str,
) -> Result<Vec<DeployItemTemplate>, DeployError> {
    let mut resolved = Vec::with_capacity(items.len());
    for UnresolvedItem { mut template, target } in items {
        if let Some(target) = target {
            let reference = target
                .resolve(targets, namespace)
                .map_err(|problem| DeployError::Target { item: template.name.clone(), problem })?;
            template.target = Some(reference);
        }
        resolved.push(template);
    }
    let errors = validate(&resolved);
    if errors.is_empty() { Ok(resolved) } else { Err(DeployError::Invalid(errors)) }
}

impl TargetReference {
    /// Returns the object of the imported Target. If several ways of naming it are used, the first
    /// one counts.
    fn resolve(
        &self,
        targets: &BTreeMap<String, TargetValue>,
        namespace: &str,
    ) -> Result<ObjectReference, String> {
        let import = self.import.as_deref().unwrap_or_default();
        let imported = targets.get(import);
        if let Some(index) = self.index {
            let Some(TargetValue::List(list)) = imported else {
                return Err(format!("targetlist import {import:?} not found"));
            };
            let element = usize::try_from(index).ok().and_then(|index| list.get(index));
            return element
                .map(|target| target.reference.clone())
                .ok_or_else(|| format!("index {index} out of bounds"));
        }
        if let Some(key) = &self.key {
            let Some(TargetValue::Map(map)) = imported else {
                return Err(format!("targetmap import {import:?} not found"));
            };
            return map
                .get(key)
                .map(|target| target.reference.clone())
                .ok_or_else(|| format!("key {key:?} not found in targetmap import {import:?}"));
        }
        if !import.is_empty() {
            return match imported {
                Some(TargetValue::Single(target)) => Ok(target.reference.clone()),
                _ => Err(format!("target import {import:?} not found")),
            };
        }
        match &self.name {
            Some(name) if !name.is_empty() => {
                Ok(ObjectReference { name: name.clone(), namespace: Some(namespace.to_owned()) })
            }
            _ => Err("empty target reference".to_owned()),
        }
    }
}

/// Checks the list by the rules of `blueprints.md` 7.3.
fn validate(items: &[DeployItemTemplate]) -> Vec<FieldError> {
    let root = FieldPath::root("deployExecutions");
    let mut errors = Vec::new();
    let mut names: HashSet<&str> = HashSet::with_capacity(items.len());
    let mut duplicates = false;
    for (index, item) in items.iter().enumerate() {
        let at = root.index(index);
        let here = at.named(&item.name);
        if item.name.is_empty() {
            errors.push(FieldError::new(at.key("name"), Violation::Required, "name must not be empty"));
        } else if names.contains(item.name.as_str()) {
            duplicates = true;
            errors.push(FieldError::new(at.clone(), Violation::Duplicate(json!(item.name)), ""));
        }
        if !item.name.is_empty() && !is_label_value(&item.name) {
            // The name becomes the value of a label.
            let detail = "a name is at most 63 of A-Z, a-z, 0-9, - _ . with a letter or digit at both ends";
            errors.push(FieldError::new(at.key("name"), Violation::Invalid(json!(item.name)), detail));
        }
        names.insert(&item.name);
        if item.type_.is_empty() {
            errors.push(FieldError::new(here.key("type"), Violation::Required, "type must not be empty"));
        }
        errors.extend(target_errors(item, &here));
        errors.extend(label_errors(item, &here));
    }
    if !duplicates {
        errors.extend(dependencies::errors(items, &root));
    }
    errors
}

fn target_errors(item: &DeployItemTemplate, path: &FieldPath) -> Vec<FieldError> {
    let Some(target) = &item.target else { return Vec::new() };
    let empty = [
        ("name", target.name.is_empty()),
        ("namespace", target.namespace.as_deref().is_none_or(str::is_empty)),
    ];
    let required = |(member, _): (&str, bool)| {
        let path = path.key("target").key(member);
        FieldError::new(path, Violation::Required, format!("{member} must not be empty"))
    };
    empty.into_iter().filter(|(_, empty)| *empty).map(required).collect()
}

fn label_errors(item: &DeployItemTemplate, path: &FieldPath) -> Vec<FieldError> {
    let path = path.key("labels");
    let mut errors = Vec::new();
    for (key, value) in &item.labels {
        let invalid =
            |shown: &str, problem| FieldError::new(path.clone(), Violation::Invalid(json!(shown)), problem);
        errors.extend(label_key_problems(key).into_iter().map(|problem| invalid(key, problem)));
        // The message may contain an imported value. A later step redacts all messages.
        errors.extend(label_value_problems(value).into_iter().map(|problem| invalid(value, problem)));
    }
    errors
}

#[cfg(test)]
mod tests;
