//! Component descriptors of both schema versions (`components.md` 5).
//!
//! A descriptor keeps the stored JSON document, and the parts that Groundwork needs are read from
//! it. Therefore unknown members survive, and each format can be converted to the other.

mod check;
mod convert;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use groundwork_yaml as yaml;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::access::Access;
use crate::reference::RepositoryContext;

pub use check::{Leniency, valid_version};

/// Maximum bytes of memory for reading a descriptor, enough for about five megabytes of text.
/// Templates receive several copies of it in other forms.
const MOST_BYTES: usize = 64 << 20;

/// Format of a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SchemaVersion {
    V2,
    V3,
}

impl SchemaVersion {
    /// Returns the value of `meta.schemaVersion` or `apiVersion`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V2 => "v2",
            Self::V3 => "ocm.software/v3alpha1",
        }
    }

    /// Parses the name of a schema version. The old spelling of v3 is an alias.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "v2" => Some(Self::V2),
            "ocm.software/v3alpha1" | "ocm.gardener.cloud/v3alpha1" => Some(Self::V3),
            _ => None,
        }
    }
}

/// Decoded and checked component descriptor.
///
/// Clones share the document until one of them is changed. Serialization keeps it unchanged, and
/// deserialization does not check it again.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Descriptor {
    schema: SchemaVersion,
    #[serde(with = "shared")]
    document: Arc<Value>,
    /// References, read from the document on first use.
    #[serde(skip)]
    links: Arc<OnceLock<Box<[Link]>>>,
}

/// Serializes a value behind an `Arc`.
mod shared {
    use std::sync::Arc;

    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};
    use serde_json::Value;

    pub(super) fn serialize<S: Serializer>(document: &Arc<Value>, serializer: S) -> Result<S::Ok, S::Error> {
        (**document).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<Value>, D::Error> {
        Value::deserialize(deserializer).map(Arc::new)
    }
}

impl PartialEq for Descriptor {
    fn eq(&self, other: &Self) -> bool {
        self.schema == other.schema && self.document == other.document
    }
}

/// Target of a component reference, in a form that is cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Link {
    pub(crate) name: Arc<str>,
    pub(crate) component: Arc<str>,
    pub(crate) version: Arc<str>,
}

/// Reference of a descriptor to another component version.
#[derive(Debug, Clone, PartialEq)]
pub struct ComponentReference {
    /// Local name in this descriptor.
    pub name: String,
    pub component_name: String,
    pub version: String,
    /// Entry as written.
    pub element: Value,
}

/// Artifact of a component version.
#[derive(Debug, Clone, PartialEq)]
pub struct Resource {
    pub name: String,
    pub type_name: String,
    /// Entry as written.
    pub element: Value,
}

impl Resource {
    /// Returns the recorded digest of the content, if there is one.
    pub(crate) fn digest(&self) -> Option<&Value> {
        self.element.get("digest")
    }

    /// Returns the typed object that describes the location of the content.
    pub fn access(&self) -> &Value {
        self.element.get("access").unwrap_or(&Value::Null)
    }
}

/// Error of a component descriptor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum DescriptorError {
    #[error("component descriptor is not valid YAML: {0}")]
    Yaml(yaml::Error),
    #[error("component descriptor is not a map")]
    NoMap,
    #[error("component descriptor has no name or no version")]
    Nameless,
    /// Error E15 (`components.md` 8): the schema version is unknown.
    #[error("component descriptor schema version {0:?} not supported")]
    SchemaVersion(String),
    #[error("apiVersion and meta.schemaVersion defined")]
    BothMarkers,
    /// Error E16 (`components.md` 8): all problems of the document.
    #[error("component descriptor {name}:{version} is invalid: {}", problems.join("; "))]
    Invalid { name: String, version: String, problems: Vec<String> },
    /// The process that decodes descriptors gave up on this one, for the reason in the text.
    #[error("component descriptor cannot be read: {0}")]
    Unread(String),
    /// Error E12 (`components.md` 8): the resource is missing or ambiguous.
    #[error("failed to get resource with name {name:?} of component {component}: {reason}")]
    Resource { component: String, name: String, reason: String },
}

/// Parses the document of a stored descriptor, within the memory limit.
fn read(bytes: &[u8]) -> Result<Value, DescriptorError> {
    let options = yaml::Options { most_bytes: MOST_BYTES, ..yaml::Options::default() };
    let document = yaml::parse_first(&String::from_utf8_lossy(bytes), options);
    Ok(document.map_err(DescriptorError::Yaml)?.into_value())
}

impl Descriptor {
    /// Parses a stored descriptor.
    ///
    /// # Errors
    ///
    /// See [`DescriptorError`]. The error of an invalid descriptor lists all problems.
    pub fn parse(bytes: &[u8]) -> Result<Self, DescriptorError> {
        Self::from_document(read(bytes)?, Leniency::Strict)
    }

    /// Returns name and version of a stored descriptor without further checks. Other problems are
    /// reported when the descriptor is used.
    ///
    /// # Errors
    ///
    /// It cannot be parsed, or has no name or no version.
    pub fn name_and_version(bytes: &[u8]) -> Result<(String, String), DescriptorError> {
        let document = read(bytes)?;
        let holder = document.get("component").or_else(|| document.get("metadata"));
        let text = |member: &str| Some(holder?.get(member)?.as_str()?.to_owned());
        text("name").zip(text("version")).ok_or(DescriptorError::Nameless)
    }

    /// Parses a descriptor from the repository of a context, and appends that context to its
    /// history.
    ///
    /// # Errors
    ///
    /// As for [`Descriptor::parse`].
    pub fn load(bytes: &[u8], context: &RepositoryContext) -> Result<Self, DescriptorError> {
        let mut descriptor = Self::parse(bytes)?;
        if descriptor.repository_context().as_ref() != Some(context) {
            descriptor.push_repository_context(context);
        }
        Ok(descriptor)
    }

    /// Creates a descriptor from a decoded document. Callers use [`Leniency::Inline`] for inline
    /// descriptors (`components.md` 4.4).
    ///
    /// # Errors
    ///
    /// As for [`Descriptor::parse`].
    pub fn from_document(mut document: Value, leniency: Leniency) -> Result<Self, DescriptorError> {
        let schema = detect(&document)?;
        check::fill_defaults(schema, &mut document, leniency);
        let descriptor = Self { schema, document: Arc::new(document), links: Arc::default() };
        let problems = check::problems(&descriptor, leniency);
        if problems.is_empty() {
            return Ok(descriptor);
        }
        let (name, version) = (descriptor.name().to_owned(), descriptor.version().to_owned());
        Err(DescriptorError::Invalid { name, version, problems })
    }

    /// Returns the format of the stored document.
    pub fn schema(&self) -> SchemaVersion {
        self.schema
    }

    /// Returns the document in its stored format.
    pub fn document(&self) -> &Value {
        &self.document
    }

    /// Returns the document in the given format, as templates see it (`components.md` 4.9, 5.4).
    pub fn to_schema(&self, schema: SchemaVersion) -> Value {
        convert::convert(self, schema)
    }

    pub fn name(&self) -> &str {
        self.identity().get("name").and_then(Value::as_str).unwrap_or_default()
    }

    pub fn version(&self) -> &str {
        self.identity().get("version").and_then(Value::as_str).unwrap_or_default()
    }

    /// Reports whether this is the descriptor of a version. The spelling of tags (`1.0.0.build-7`)
    /// equals that with a plus sign (`components.md` 6.1).
    pub fn is_version(&self, name: &str, version: &str) -> bool {
        let from_tag = || match version.rsplit_once(".build-") {
            Some((core, build)) => format!("{core}+{build}"),
            None => version.to_owned(),
        };
        self.name() == name && (self.version() == version || self.version() == from_tag())
    }

    /// Returns the last entry of the history of repository contexts, which names the descriptor's
    /// repository.
    pub fn repository_context(&self) -> Option<RepositoryContext> {
        self.repository_contexts().last().cloned().and_then(RepositoryContext::new)
    }

    /// Appends a repository context to the history.
    fn push_repository_context(&mut self, context: &RepositoryContext) {
        let document = Arc::make_mut(&mut self.document);
        let holder = match self.schema {
            SchemaVersion::V2 => document.get_mut("component"),
            SchemaVersion::V3 => Some(document),
        };
        let Some(Value::Object(holder)) = holder else { return };
        let list = holder.entry("repositoryContexts").or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(list) = list {
            list.push(context.as_value().clone());
        }
    }

    /// Returns the targets of the component references, in order.
    pub(crate) fn links(&self) -> &[Link] {
        self.links.get_or_init(|| {
            let read = |element: &Value, member: &str| {
                element.get(member).and_then(Value::as_str).unwrap_or_default().into()
            };
            let elements = self.elements(ElementKind::Reference).iter();
            elements
                .map(|element| Link {
                    name: read(element, "name"),
                    component: read(element, "componentName"),
                    version: read(element, "version"),
                })
                .collect()
        })
    }

    /// Returns the component references, in order.
    pub fn references(&self) -> impl Iterator<Item = ComponentReference> {
        self.elements(ElementKind::Reference).iter().map(|element| ComponentReference {
            name: text(element, "name"),
            component_name: text(element, "componentName"),
            version: text(element, "version"),
            element: element.clone(),
        })
    }

    /// Returns the first reference with this local name (`components.md` 4.7).
    pub fn reference(&self, name: &str) -> Option<ComponentReference> {
        self.references().find(|reference| reference.name == name)
    }

    /// Returns all resources, in order.
    pub fn resources(&self) -> impl Iterator<Item = Resource> {
        self.elements(ElementKind::Resource).iter().map(|element| Resource {
            name: text(element, "name"),
            type_name: text(element, "type"),
            element: element.clone(),
        })
    }

    /// Returns the accesses of all resources with a supported access type.
    pub fn accesses(&self) -> impl Iterator<Item = Access> {
        let accesses =
            self.elements(ElementKind::Resource).iter().filter_map(|element| element.get("access"));
        accesses.filter_map(|access| Access::parse(access).ok())
    }

    /// Returns the resource with the identity `{name}` (`components.md` 4.7). A resource with an
    /// extra identity, or with the name of another one, cannot be found by its name alone.
    ///
    /// # Errors
    ///
    /// Error E12 (`components.md` 8), with the existing identities of this name.
    pub fn resource(&self, name: &str) -> Result<Resource, DescriptorError> {
        let elements = self.elements(ElementKind::Resource);
        let named: Vec<&Value> = elements.iter().filter(|element| text(element, "name") == name).collect();
        let mut plain = named.iter().filter(|element| extra_identity(element).is_none());
        if let (Some(element), None) = (plain.next(), plain.next()) {
            return Ok(Resource {
                name: name.to_owned(),
                type_name: text(element, "type"),
                element: (*element).clone(),
            });
        }
        let reason = if named.is_empty() {
            let known: Vec<String> =
                elements.iter().map(|element| format!("{:?}", text(element, "name"))).collect();
            format!("not found; the component has {}", list_or_none(&known))
        } else {
            let identities: Vec<String> = check::identities(elements)
                .into_iter()
                .zip(elements)
                .filter(|(_, element)| text(element, "name") == name)
                .map(|(identity, _)| identity)
                .collect();
            format!("several resources have this name; found {}", identities.join(", "))
        };
        let component = format!("{}:{}", self.name(), self.version());
        Err(DescriptorError::Resource { component, name: name.to_owned(), reason })
    }

    /// Returns the only resource with exactly this identity: its name, its extra identity, and its
    /// version if the identity has one.
    ///
    /// # Errors
    ///
    /// Error E12 (`components.md` 8): no resource has the identity, or several have it.
    pub fn resource_with_identity(
        &self,
        identity: &BTreeMap<String, String>,
    ) -> Result<Resource, DescriptorError> {
        let fits = |resource: &Resource| {
            let extra = extra_identity(&resource.element).into_iter().flatten();
            let own = extra.map(|(key, value)| (key.as_str(), value.as_str()));
            let mut own: BTreeMap<&str, Option<&str>> = own.collect();
            own.insert("name", Some(&resource.name));
            if identity.contains_key("version") {
                own.entry("version").or_insert(resource.element.get("version").and_then(Value::as_str));
            }
            own.len() == identity.len()
                && own.iter().all(|(key, value)| identity.get(*key).map(String::as_str) == *value)
        };
        let mut found = self.resources().filter(fits);
        let reason = match (found.next(), found.next()) {
            (Some(only), None) => return Ok(only),
            (None, _) => "no resource has the identity",
            (Some(_), Some(_)) => "several resources have the identity",
        };
        let pairs: Vec<String> = identity.iter().map(|(key, value)| format!("{key}={value}")).collect();
        Err(DescriptorError::Resource {
            component: format!("{}:{}", self.name(), self.version()),
            name: identity.get("name").cloned().unwrap_or_default(),
            reason: format!("{reason} {}", list_or_none(&pairs)),
        })
    }

    pub(crate) fn set_resource_digest(&mut self, index: usize, digest: Value) {
        self.set_digest(ElementKind::Resource, index, digest);
    }

    pub(crate) fn set_reference_digest(&mut self, index: usize, digest: Value) {
        self.set_digest(ElementKind::Reference, index, digest);
    }

    fn set_digest(&mut self, kind: ElementKind, index: usize, digest: Value) {
        let element =
            Arc::make_mut(&mut self.document).pointer_mut(&format!("{}/{index}", kind.pointer(self.schema)));
        if let Some(Value::Object(element)) = element {
            element.insert("digest".to_owned(), digest);
        }
    }

    fn identity(&self) -> &Value {
        let holder = match self.schema {
            SchemaVersion::V2 => self.document.get("component"),
            SchemaVersion::V3 => self.document.get("metadata"),
        };
        holder.unwrap_or(&Value::Null)
    }

    fn repository_contexts(&self) -> &[Value] {
        let list = match self.schema {
            SchemaVersion::V2 => self.document.pointer("/component/repositoryContexts"),
            SchemaVersion::V3 => self.document.get("repositoryContexts"),
        };
        list.and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    fn elements(&self, kind: ElementKind) -> &[Value] {
        self.document.pointer(kind.pointer(self.schema)).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }
}

/// Kind of the elements in a list of a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ElementKind {
    Source,
    Reference,
    Resource,
}

impl ElementKind {
    const ALL: [Self; 3] = [Self::Source, Self::Reference, Self::Resource];

    fn pointer(self, schema: SchemaVersion) -> &'static str {
        match (schema, self) {
            (SchemaVersion::V2, Self::Source) => "/component/sources",
            (SchemaVersion::V2, Self::Reference) => "/component/componentReferences",
            (SchemaVersion::V2, Self::Resource) => "/component/resources",
            (SchemaVersion::V3, Self::Source) => "/spec/sources",
            (SchemaVersion::V3, Self::Reference) => "/spec/references",
            (SchemaVersion::V3, Self::Resource) => "/spec/resources",
        }
    }

    fn singular(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Reference => "component reference",
            Self::Resource => "resource",
        }
    }
}

fn detect(document: &Value) -> Result<SchemaVersion, DescriptorError> {
    let object = document.as_object().ok_or(DescriptorError::NoMap)?;
    let marker = |value: Option<&Value>| {
        value.and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
    };
    let api_version = marker(object.get("apiVersion"));
    let meta = marker(document.pointer("/meta/schemaVersion"));
    let found = match (api_version, meta) {
        (Some(_), Some(_)) => return Err(DescriptorError::BothMarkers),
        (Some(version), None) if version != "v2" => version,
        (None, Some(version)) if version == "v2" => return Ok(SchemaVersion::V2),
        (api_version, meta) => {
            return Err(DescriptorError::SchemaVersion(api_version.or(meta).unwrap_or_default()));
        }
    };
    SchemaVersion::parse(&found).ok_or(DescriptorError::SchemaVersion(found))
}

fn text(element: &Value, member: &str) -> String {
    element.get(member).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn extra_identity(element: &Value) -> Option<&Map<String, Value>> {
    element.get("extraIdentity").and_then(Value::as_object).filter(|identity| !identity.is_empty())
}

fn list_or_none(items: &[String]) -> String {
    if items.is_empty() { "none".to_owned() } else { items.join(", ") }
}

#[cfg(test)]
mod tests;
