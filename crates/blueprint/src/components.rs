//! Component versions that templates can see.

use std::sync::{Arc, OnceLock};

use groundwork_component::{
    ComponentVersion, Descriptor, Overwrites, Reference, RepositoryContext, SchemaVersion,
};
use serde_json::{Map, Value, json};

/// Annotation of a blueprint that selects the format of descriptors (`blueprints.md` 4.3).
const SCHEMA_ANNOTATION: &str = "ocmSchemaVersion";

/// Component version and all versions that it refers to, the root first; empty without a component.
/// Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Components {
    closure: Arc<Closure>,
}

#[derive(Debug, Default)]
struct Closure {
    members: Vec<Member>,
    overwrites: Overwrites,
    context: Option<RepositoryContext>,
}

/// Member of the closure: a component version with its descriptor.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) version: ComponentVersion,
    /// Descriptor in the format that functions return, converted on first use.
    v2: OnceLock<Value>,
}

impl Member {
    pub(crate) fn descriptor(&self) -> &Descriptor {
        &self.version.descriptor
    }

    /// Returns the descriptor in the schema version v2.
    pub(crate) fn document(&self) -> &Value {
        self.v2.get_or_init(|| self.descriptor().to_schema(SchemaVersion::V2))
    }
}

/// Bindings `cd` and `components`.
#[derive(Debug, Clone, PartialEq)]
pub struct DescriptorBindings {
    pub descriptor: Value,
    pub components: Value,
}

/// Error TPL-009 (`blueprints.md` 10): the annotation names an unknown schema version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("error during serializing of the resolved components: unknown schema version {0:?}")]
pub struct UnknownSchemaVersion(String);

impl Components {
    /// Creates the closure of a component, with the rules for following references in it.
    pub fn new(
        versions: Vec<ComponentVersion>,
        overwrites: Overwrites,
        context: Option<RepositoryContext>,
    ) -> Self {
        let member = |version| Member { version, v2: OnceLock::new() };
        let members = versions.into_iter().map(member).collect();
        Self { closure: Arc::new(Closure { members, overwrites, context }) }
    }

    /// Returns the component version that owns the blueprint.
    pub fn root(&self) -> Option<&Descriptor> {
        self.root_member().map(Member::descriptor)
    }

    pub(crate) fn root_member(&self) -> Option<&Member> {
        self.closure.members.first()
    }

    /// Returns the version that a component reference leads to, with overwrites applied
    /// (`components.md` 2.4 f).
    pub fn follow(&self, name: &str, version: &str) -> Option<&Descriptor> {
        self.follow_member(name, version).map(Member::descriptor)
    }

    pub(crate) fn follow_member(&self, name: &str, version: &str) -> Option<&Member> {
        let reference = Reference {
            repository: self.closure.context.clone(),
            name: name.to_owned(),
            version: version.to_owned(),
        };
        let effective = self.closure.overwrites.apply(&reference).effective;
        self.closure.members.iter().find(|known| {
            known.descriptor().name() == effective.name && known.descriptor().version() == effective.version
        })
    }

    /// Returns the descriptors in the format that the blueprint requests, or in the format of the
    /// stored root.
    ///
    /// # Errors
    ///
    /// The annotation names an unknown format.
    pub fn bindings(
        &self,
        annotations: &groundwork_api::Map<String>,
    ) -> Result<DescriptorBindings, UnknownSchemaVersion> {
        let Some(root) = self.root() else {
            return Ok(DescriptorBindings { descriptor: Value::Null, components: Value::Null });
        };
        let schema = match annotations.get(SCHEMA_ANNOTATION).filter(|name| !name.is_empty()) {
            None => root.schema(),
            Some(name) => SchemaVersion::parse(name).ok_or_else(|| UnknownSchemaVersion(name.clone()))?,
        };
        let document = |member: &Member| match schema {
            SchemaVersion::V2 => member.document().clone(),
            SchemaVersion::V3 => without_empty_lists(member.descriptor().to_schema(schema)),
        };
        let all: Vec<Value> = self.closure.members.iter().map(document).collect();
        let descriptor = all.first().cloned().unwrap_or_default();
        let components = match schema {
            SchemaVersion::V2 => json!({"meta": {"schemaVersion": schema.as_str()}, "components": all}),
            SchemaVersion::V3 => Value::Array(all),
        };
        Ok(DescriptorBindings { descriptor, components })
    }
}

/// Removes empty lists, which Landscaper omits from this format.
fn without_empty_lists(mut descriptor: Value) -> Value {
    const ELEMENTS: [&str; 3] = ["resources", "sources", "references"];
    let prune = |members: &mut Map<String, Value>, lists: &[&str]| {
        members.retain(|name, value| {
            !(lists.contains(&name.as_str()) && value.as_array().is_some_and(Vec::is_empty))
        });
    };
    if let Value::Object(members) = &mut descriptor {
        prune(members, &["repositoryContexts", "signatures", "nestedDigests"]);
    }
    for place in ["/metadata", "/metadata/provider"] {
        if let Some(Value::Object(members)) = descriptor.pointer_mut(place) {
            prune(members, &["labels"]);
        }
    }
    if let Some(Value::Object(spec)) = descriptor.pointer_mut("/spec") {
        prune(spec, &ELEMENTS);
        let lists = spec.iter_mut().filter(|(name, _)| ELEMENTS.contains(&name.as_str()));
        for element in lists.filter_map(|(_, list)| list.as_array_mut()).flatten() {
            if let Value::Object(members) = element {
                prune(members, &["labels", "srcRefs"]);
            }
        }
    }
    descriptor
}
