//! JSON schemas of other components (`components.md` 4.8, 6.7; `blueprints.md` 3.7).

use std::io::Read;
use std::rc::Rc;

use flate2::read::GzDecoder;
use groundwork_blueprint::{ForeignSchema, SchemaSource};
use groundwork_component::{
    CdUri, ComponentReference, ComponentVersion, Overwrites, Reference, ResolveError, Resource,
};
use groundwork_yaml as yaml;
use serde_json::Value;

const RESOURCE_TYPE: &str = "landscaper.gardener.cloud/jsonschema";
/// Largest size of an unpacked schema in bytes (`components.md` 6.2).
const LARGEST_SCHEMA: usize = 4 << 20;
const GZIP: [u8; 3] = [0x1f, 0x8b, 0x08];

/// Component versions of a job, with the rules for following their references.
pub(super) struct Closure {
    pub(super) versions: Vec<ComponentVersion>,
    pub(super) overwrites: Overwrites,
    /// Effective reference of the root. Every lookup begins in its repository (`components.md`
    /// 2.6).
    pub(super) root: Reference,
}

impl Closure {
    /// Finds the version in the closure, which contains all reachable versions, so no version is
    /// loaded twice.
    fn follow(&self, reference: &ComponentReference) -> Result<ComponentVersion, ResolveError> {
        let original = Reference {
            repository: self.root.repository.clone(),
            name: reference.component_name.clone(),
            version: reference.version.clone(),
        };
        let effective = self.overwrites.apply(&original).effective;
        self.versions
            .iter()
            .find(|version| version.descriptor.is_version(&effective.name, &effective.version))
            .cloned()
            .ok_or_else(|| ResolveError::NotFound {
                reference: effective.to_string(),
                places: vec![format!("the components that belong to {}", self.root)],
            })
    }
}

/// Schemas that one component version can refer to.
pub(super) struct ComponentSchemas {
    closure: Rc<Closure>,
    version: ComponentVersion,
}

impl ComponentSchemas {
    /// Returns the schemas as the root of the closure sees them. `None` without a component.
    pub(super) fn of_root(closure: Closure) -> Option<Self> {
        let version = closure.versions.first()?.clone();
        Some(Self { closure: Rc::new(closure), version })
    }
}

impl SchemaSource for ComponentSchemas {
    fn schema(&self, uri: &str) -> Result<ForeignSchema, String> {
        let uri = CdUri::parse(uri).map_err(|error| error.to_string())?;
        let follow = |reference: &ComponentReference| self.closure.follow(reference);
        let (version, resource) = uri.resource(&self.version, follow).map_err(|error| error.to_string())?;
        let document = document(&version, &resource)?;
        let owner = Self { closure: Rc::clone(&self.closure), version };
        Ok(ForeignSchema { document, owner: Box::new(owner) })
    }

    fn component(&self) -> String {
        format!("{}:{}", self.version.descriptor.name(), self.version.descriptor.version())
    }
}

/// Reads a schema. The declared media type is ignored, because it does not reliably describe the
/// content.
fn document(version: &ComponentVersion, resource: &Resource) -> Result<Value, String> {
    let component = format!("{}:{}", version.descriptor.name(), version.descriptor.version());
    if resource.type_name != RESOURCE_TYPE {
        return Err(format!(
            "no handler found for resource type {}: resource {:?} of component {component} is not a JSON schema \
             ({RESOURCE_TYPE})",
            resource.type_name, resource.name
        ));
    }
    let content = version.content(resource).map_err(|error| error.to_string())?;
    let wrong = |problem: String| {
        format!("JSON schema resource {:?} of component {component}: {problem}", resource.name)
    };
    let bytes = unpack(content.bytes).map_err(wrong)?;
    if let Ok(document) = serde_json::from_slice(&bytes) {
        return Ok(document);
    }
    yaml::from_str(&String::from_utf8_lossy(&bytes)).map_err(|error| wrong(error.to_string()))
}

fn unpack(bytes: Vec<u8>) -> Result<Vec<u8>, String> {
    let bytes = if bytes.starts_with(&GZIP) {
        let mut unpacked = Vec::new();
        let mut reader = GzDecoder::new(&bytes[..]).take(LARGEST_SCHEMA as u64 + 1);
        reader.read_to_end(&mut unpacked).map_err(|error| format!("broken gzip: {error}"))?;
        unpacked
    } else {
        bytes
    };
    if bytes.len() > LARGEST_SCHEMA {
        return Err(format!("it is larger than {LARGEST_SCHEMA} bytes"));
    }
    Ok(bytes)
}
