//! The component versions that templates can see.

use groundwork_component::{Descriptor, Overwrites, Reference, RepositoryContext, SchemaVersion};
use serde_json::{Value, json};

/// The annotation of a blueprint that chooses the format of descriptors (`blueprints.md` 4.3).
const SCHEMA_ANNOTATION: &str = "ocmSchemaVersion";

/// A component version and all that belong to it, the root first; empty without a component.
#[derive(Debug, Clone, Default)]
pub struct Components {
    versions: Vec<Descriptor>,
    overwrites: Overwrites,
    context: Option<RepositoryContext>,
}

/// The bindings `cd` and `components`.
#[derive(Debug, Clone, PartialEq)]
pub struct DescriptorBindings {
    pub descriptor: Value,
    pub components: Value,
}

/// TPL-009.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("error during serializing of the resolved components: unknown schema version {0:?}")]
pub struct UnknownSchemaVersion(String);

impl Components {
    /// The closure of a component, and the rules by which references in it are followed.
    pub fn new(
        versions: Vec<Descriptor>,
        overwrites: Overwrites,
        context: Option<RepositoryContext>,
    ) -> Self {
        Self { versions, overwrites, context }
    }

    /// The component version that owns the blueprint.
    pub fn root(&self) -> Option<&Descriptor> {
        self.versions.first()
    }

    /// The version that a component reference leads to, overwrites applied (`components.md` 2.4 f).
    pub fn follow(&self, name: &str, version: &str) -> Option<&Descriptor> {
        let reference = Reference {
            repository: self.context.clone(),
            name: name.to_owned(),
            version: version.to_owned(),
        };
        let effective = self.overwrites.apply(&reference).effective;
        self.versions
            .iter()
            .find(|known| known.name() == effective.name && known.version() == effective.version)
    }

    /// The descriptors in the format that the blueprint asks for, else the one the root is stored in.
    ///
    /// # Errors
    ///
    /// The annotation names no format.
    pub fn bindings(
        &self,
        annotations: &groundwork_api::Map<String>,
    ) -> Result<DescriptorBindings, UnknownSchemaVersion> {
        let Some(root) = self.root() else {
            return Ok(DescriptorBindings { descriptor: Value::Null, components: Value::Null });
        };
        let schema = match annotations.get(SCHEMA_ANNOTATION) {
            None => root.schema(),
            Some(name) => SchemaVersion::parse(name).ok_or_else(|| UnknownSchemaVersion(name.clone()))?,
        };
        let all: Value = self.versions.iter().map(|version| version.to_schema(schema)).collect();
        let components = match schema {
            SchemaVersion::V2 => json!({"meta": {"schemaVersion": schema.as_str()}, "components": all}),
            SchemaVersion::V3 => all,
        };
        Ok(DescriptorBindings { descriptor: root.to_schema(schema), components })
    }
}
