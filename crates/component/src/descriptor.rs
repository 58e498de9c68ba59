//! Component descriptors of both schema versions (`components.md` section 5).
//!
//! A descriptor is kept as the JSON document it was stored as; the parts that Groundwork looks at are read out
//! of it. So members that we do not know survive, and each shape can be produced from the other.

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

/// What a descriptor may take in memory while it is read: some five megabytes of text. Templates get it several times, in other forms.
const MOST_BYTES: usize = 64 << 20;

/// Which of the two document formats a descriptor is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SchemaVersion {
    V2,
    V3,
}

impl SchemaVersion {
    /// The value of `meta.schemaVersion` or `apiVersion`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V2 => "v2",
            Self::V3 => "ocm.software/v3alpha1",
        }
    }

    /// Reads the name of a schema version; the old spelling of v3 is an alias.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "v2" => Some(Self::V2),
            "ocm.software/v3alpha1" | "ocm.gardener.cloud/v3alpha1" => Some(Self::V3),
            _ => None,
        }
    }
}

/// A decoded and checked component descriptor. Clones share the document until one of them is changed. Written out and read again it is the
/// same; reading does not check it once more.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Descriptor {
    schema: SchemaVersion,
    #[serde(with = "shared")]
    document: Arc<Value>,
    /// The references, read out when they are first followed.
    #[serde(skip)]
    links: Arc<OnceLock<Box<[Link]>>>,
}

/// What is shared in memory is written out.
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

/// Where a component reference leads, in a form that costs nothing to hand on.
#[derive(Debug, Clone)]
pub(crate) struct Link {
    pub(crate) name: Arc<str>,
    pub(crate) component: Arc<str>,
    pub(crate) version: Arc<str>,
}

/// An entry that points to another component version.
#[derive(Debug, Clone, PartialEq)]
pub struct ComponentReference {
    /// Name inside this descriptor.
    pub name: String,
    pub component_name: String,
    pub version: String,
    /// The entry as written.
    pub element: Value,
}

/// An artifact of a component version.
#[derive(Debug, Clone, PartialEq)]
pub struct Resource {
    pub name: String,
    pub type_name: String,
    /// The entry as written.
    pub element: Value,
}

impl Resource {
    /// The typed object that tells where the content is.
    pub(crate) fn digest(&self) -> Option<&Value> {
        self.element.get("digest")
    }

    pub fn access(&self) -> &Value {
        self.element.get("access").unwrap_or(&Value::Null)
    }
}

/// Why a document is no usable component descriptor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum DescriptorError {
    #[error("component descriptor is no YAML: {0}")]
    Yaml(yaml::Error),
    #[error("component descriptor is not a map")]
    NoMap,
    #[error("component descriptor has no name or no version")]
    Nameless,
    /// `components.md` 8, E15.
    #[error("component descriptor schema version {0:?} not supported")]
    SchemaVersion(String),
    #[error("apiVersion and meta.schemaVersion defined")]
    BothMarkers,
    /// `components.md` 8, E16: all problems of the document.
    #[error("component descriptor {name}:{version} is invalid: {}", problems.join("; "))]
    Invalid { name: String, version: String, problems: Vec<String> },
    /// Who reads descriptors has given up on this one, for reasons of its own.
    #[error("component descriptor cannot be read: {0}")]
    Unread(String),
    /// `components.md` 8, E12.
    #[error("failed to get resource with name {name:?} of component {component}: {reason}")]
    Resource { component: String, name: String, reason: String },
}

/// The document of a stored descriptor, within what one may take in memory.
fn read(bytes: &[u8]) -> Result<Value, DescriptorError> {
    let options = yaml::Options { most_bytes: MOST_BYTES, ..yaml::Options::default() };
    let document = yaml::parse_first(&String::from_utf8_lossy(bytes), options);
    Ok(document.map_err(DescriptorError::Yaml)?.into_value())
}

impl Descriptor {
    /// Reads a stored descriptor.
    ///
    /// # Errors
    ///
    /// See [`DescriptorError`]; every problem of an invalid descriptor is listed.
    pub fn parse(bytes: &[u8]) -> Result<Self, DescriptorError> {
        Self::from_document(read(bytes)?, Leniency::Strict)
    }

    /// Name and version of a stored descriptor, whatever else may be wrong with it: that is told when it is used.
    ///
    /// # Errors
    ///
    /// It cannot be read, or has no name or no version.
    pub fn name_and_version(bytes: &[u8]) -> Result<(String, String), DescriptorError> {
        let document = read(bytes)?;
        let holder = document.get("component").or_else(|| document.get("metadata"));
        let text = |member: &str| Some(holder?.get(member)?.as_str()?.to_owned());
        text("name").zip(text("version")).ok_or(DescriptorError::Nameless)
    }

    /// Reads a descriptor that was found in the repository of a context, which becomes the last one of its history.
    ///
    /// # Errors
    ///
    /// As [`Descriptor::parse`].
    pub fn load(bytes: &[u8], context: &RepositoryContext) -> Result<Self, DescriptorError> {
        let mut descriptor = Self::parse(bytes)?;
        if descriptor.repository_context().as_ref() != Some(context) {
            descriptor.push_repository_context(context);
        }
        Ok(descriptor)
    }

    /// Takes a document that has been decoded already. Inline descriptors get [`Leniency::Inline`]
    /// (`components.md` 4.4).
    ///
    /// # Errors
    ///
    /// As [`Descriptor::parse`].
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

    /// The format it was stored in.
    pub fn schema(&self) -> SchemaVersion {
        self.schema
    }

    /// The document in the format it was stored in.
    pub fn document(&self) -> &Value {
        &self.document
    }

    /// The document in a chosen format, as templates see it (`components.md` 4.9, 5.4).
    pub fn to_schema(&self, schema: SchemaVersion) -> Value {
        convert::convert(self, schema)
    }

    pub fn name(&self) -> &str {
        self.identity().get("name").and_then(Value::as_str).unwrap_or_default()
    }

    pub fn version(&self) -> &str {
        self.identity().get("version").and_then(Value::as_str).unwrap_or_default()
    }

    /// Whether this is the descriptor of that version. A version in the spelling of tags (`1.0.0.build-7`) is the
    /// one written with a plus sign (`components.md` 6.1).
    pub fn is_version(&self, name: &str, version: &str) -> bool {
        let from_tag = || match version.rsplit_once(".build-") {
            Some((core, build)) => format!("{core}+{build}"),
            None => version.to_owned(),
        };
        self.name() == name && (self.version() == version || self.version() == from_tag())
    }

    /// The last entry of the history of repository contexts: the one the descriptor says it lives in.
    pub fn repository_context(&self) -> Option<RepositoryContext> {
        self.repository_contexts().last().cloned().and_then(RepositoryContext::new)
    }

    /// Adds a repository context to the history, as the last one.
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

    /// Where the component references lead, in order.
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

    /// The component references, in order.
    pub fn references(&self) -> impl Iterator<Item = ComponentReference> {
        self.elements(ElementKind::Reference).iter().map(|element| ComponentReference {
            name: text(element, "name"),
            component_name: text(element, "componentName"),
            version: text(element, "version"),
            element: element.clone(),
        })
    }

    /// The first reference of that local name (`components.md` 4.7).
    pub fn reference(&self, name: &str) -> Option<ComponentReference> {
        self.references().find(|reference| reference.name == name)
    }

    /// All resources, in order.
    pub fn resources(&self) -> impl Iterator<Item = Resource> {
        self.elements(ElementKind::Resource).iter().map(|element| Resource {
            name: text(element, "name"),
            type_name: text(element, "type"),
            element: element.clone(),
        })
    }

    /// The accesses of all resources that can be fetched.
    pub fn accesses(&self) -> impl Iterator<Item = Access> {
        let accesses =
            self.elements(ElementKind::Resource).iter().filter_map(|element| element.get("access"));
        accesses.filter_map(|access| Access::parse(access).ok())
    }

    /// The resource with the identity `{name}` (`components.md` 4.7): one with an extra identity, or one that
    /// shares its name with another, is not found by its name alone.
    ///
    /// # Errors
    ///
    /// E12, with the identities that do exist under this name.
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
            format!("the name alone does not identify it; found {}", identities.join(", "))
        };
        let component = format!("{}:{}", self.name(), self.version());
        Err(DescriptorError::Resource { component, name: name.to_owned(), reason })
    }

    /// The only resource with exactly this identity: its name, its extra identity, and its version if the identity has one.
    ///
    /// # Errors
    ///
    /// E12: none has it, or several have.
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

/// The three lists of a descriptor.
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
