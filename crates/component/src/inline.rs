//! Component descriptors that are part of an Installation (`components.md` 4.4).

use groundwork_yaml as yaml;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::descriptor::{Descriptor, DescriptorError, Leniency};
use crate::reference::json_equal;

/// Label of a component reference that contains the referenced descriptor.
const NESTED_DESCRIPTOR_LABEL: &str = "landscaper.gardener.cloud/component-descriptor";
/// Largest nesting depth. A legitimate component is far below it.
const DEEPEST_NESTING: usize = 100;

/// Inline descriptor and all descriptors nested in it, by name and version.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct InlineSet {
    /// Descriptors, the root first, then depth first in the order of the references.
    descriptors: Vec<Descriptor>,
    warnings: Vec<String>,
}

/// Error of an inline definition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InlineError {
    #[error("inline {0}")]
    Descriptor(#[from] DescriptorError),
    #[error("inline component descriptor nested in reference {reference:?} of {parent}: {source}")]
    Nested { parent: String, reference: String, source: Box<DescriptorError> },
    /// Error E10 (`components.md` 8): two nested descriptors conflict.
    #[error("inline component descriptor \"{0}\" is defined twice with different content")]
    Conflict(String),
    #[error("inline component descriptors are nested deeper than {DEEPEST_NESTING} levels")]
    TooDeep,
}

impl InlineSet {
    /// Flattens the definition of an Installation.
    ///
    /// # Errors
    ///
    /// A descriptor is malformed, or two descriptors with the same name and version differ.
    pub fn new(definition: &Value) -> Result<Self, InlineError> {
        let mut set = Self::default();
        set.add(Descriptor::from_document(definition.clone(), Leniency::Inline)?, 0)?;
        Ok(set)
    }

    /// Returns the descriptor that the Installation itself contains.
    pub fn root(&self) -> Option<&Descriptor> {
        self.descriptors.first()
    }

    /// Returns the descriptor of a component version, if it is in the set.
    pub fn get(&self, name: &str, version: &str) -> Option<&Descriptor> {
        self.descriptors
            .iter()
            .find(|descriptor| descriptor.name() == name && descriptor.version() == version)
    }

    /// Returns all descriptors, the Installation's own one first.
    pub fn descriptors(&self) -> &[Descriptor] {
        &self.descriptors
    }

    /// Returns warnings for the author of the descriptors.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn add(&mut self, descriptor: Descriptor, depth: usize) -> Result<(), InlineError> {
        if depth > DEEPEST_NESTING {
            return Err(InlineError::TooDeep);
        }
        if let Some(known) = self.get(descriptor.name(), descriptor.version()) {
            let equal = json_equal(known.document(), descriptor.document());
            let id = format!("{}:{}", descriptor.name(), descriptor.version());
            return if equal { Ok(()) } else { Err(InlineError::Conflict(id)) };
        }
        let parent = format!("{}:{}", descriptor.name(), descriptor.version());
        let references: Vec<_> = descriptor.references().collect();
        self.descriptors.push(descriptor);
        for reference in references {
            let Some(document) = nested_document(&reference.element) else { continue };
            let nested = document
                .and_then(|document| Descriptor::from_document(document, Leniency::Inline))
                .map_err(|source| InlineError::Nested {
                    parent: parent.clone(),
                    reference: reference.name.clone(),
                    source: Box::new(source),
                })?;
            if (nested.name(), nested.version())
                != (reference.component_name.as_str(), reference.version.as_str())
            {
                self.warnings.push(format!(
                    "reference {:?} of {parent} points to {}:{} but carries the descriptor of {}:{}, which is looked up only under its own name",
                    reference.name, reference.component_name, reference.version, nested.name(), nested.version(),
                ));
            }
            self.add(nested, depth + 1)?;
        }
        Ok(())
    }
}

/// Returns the value of the label, if the reference has it: a map, or a text that contains one.
fn nested_document(reference: &Value) -> Option<Result<Value, DescriptorError>> {
    let labels = reference.get("labels")?.as_array()?;
    let label = labels
        .iter()
        .find(|label| label.get("name").and_then(Value::as_str) == Some(NESTED_DESCRIPTOR_LABEL))?;
    Some(match label.get("value") {
        Some(Value::String(text)) => yaml::from_str(text).map_err(DescriptorError::Yaml),
        value => Ok(value.cloned().unwrap_or_default()),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn component(name: &str, version: &str, references: &Value) -> Value {
        json!({"meta": {"schemaVersion": "v2"}, "component": {
            "name": name, "version": version, "componentReferences": references,
        }})
    }

    fn reference(name: &str, version: &str, nested: &Value) -> Value {
        json!({"name": "ref-a", "componentName": name, "version": version,
            "labels": [{"name": NESTED_DESCRIPTOR_LABEL, "value": nested}]})
    }

    /// Three levels, once as a map and once as text (`components.md` 11, item 10).
    #[test]
    fn nested_levels_are_flattened() {
        let leaf = component("example.org/c", "1.0.0", &json!([]));
        let middle =
            component("example.org/b", "1.0.0", &json!([reference("example.org/c", "1.0.0", &leaf)]));
        let text = Value::from(yaml::to_string(&middle));
        let root = component("example.org/a", "1.0.0", &json!([reference("example.org/b", "1.0.0", &text)]));
        let set = InlineSet::new(&root).unwrap();
        assert_eq!(set.root().unwrap().name(), "example.org/a");
        assert!(set.get("example.org/b", "1.0.0").is_some());
        assert!(set.get("example.org/c", "1.0.0").is_some());
        assert!(set.warnings().is_empty());
    }

    #[test]
    fn equal_twins_are_one_and_different_ones_an_error() {
        let leaf = component("example.org/c", "1.0.0", &json!([]));
        let mut other = leaf.clone();
        other["component"]["provider"] = json!("someone");
        let with = |second: &Value| {
            let mut twin = reference("example.org/c", "1.0.0", second);
            twin["name"] = json!("ref-b");
            component("example.org/a", "1.0.0", &json!([reference("example.org/c", "1.0.0", &leaf), twin]))
        };
        assert!(InlineSet::new(&with(&leaf)).is_ok());
        assert_eq!(
            InlineSet::new(&with(&other)).unwrap_err().to_string(),
            "inline component descriptor \"example.org/c:1.0.0\" is defined twice with different content"
        );
    }

    #[test]
    fn a_reference_that_names_another_version_is_warned_of() {
        let leaf = component("example.org/c", "2.0.0", &json!([]));
        let root = component("example.org/a", "1.0.0", &json!([reference("example.org/c", "1.0.0", &leaf)]));
        let set = InlineSet::new(&root).unwrap();
        assert_eq!(set.warnings().len(), 1);
        assert!(set.get("example.org/c", "2.0.0").is_some());
    }
}
