//! The content of a resource (`components.md` 6.3, 6.9).

use serde_json::Value;

use crate::descriptor::Resource;
use crate::repository::RepositoryError;
use crate::resolve::ComponentVersion;

/// The bytes of a resource and what they are declared to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// Empty when nothing is declared.
    pub media_type: String,
    pub bytes: Vec<u8>,
}

/// Why the content of a resource is out of reach.
#[derive(Debug, thiserror::Error)]
pub enum ContentError {
    /// `components.md` 8, E13.
    #[error("access method {type_name:?} not supported (resource {resource:?} of component {component})")]
    Unsupported { type_name: String, resource: String, component: String },
    #[error("access of resource {resource:?} of component {component} has no {member}")]
    Incomplete { member: &'static str, resource: String, component: String },
    #[error("cannot fetch resource {resource:?} of component {component}: {source}")]
    Repository { resource: String, component: String, source: RepositoryError },
}

impl ComponentVersion {
    /// Fetches the content that the access of `resource` describes.
    ///
    /// # Errors
    ///
    /// See [`ContentError`]. Blobs that lie beside the descriptor are supported, registries elsewhere are not.
    pub fn content(&self, resource: &Resource) -> Result<Content, ContentError> {
        let component = format!("{}:{}", self.descriptor.name(), self.descriptor.version());
        let access = resource.access();
        let member = |name: &str| access.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        let type_name = member("type").unwrap_or_default();
        let reference = match type_name.strip_suffix("/v1").unwrap_or(type_name) {
            "localBlob" | "LocalBlob" => member("localReference").ok_or("localReference"),
            "localOciBlob" => member("digest").ok_or("digest"),
            "localFilesystemBlob" => member("fileName").or_else(|| member("filename")).ok_or("fileName"),
            _ => {
                let (type_name, resource) = (type_name.to_owned(), resource.name.clone());
                return Err(ContentError::Unsupported { type_name, resource, component });
            }
        };
        let reference = reference.map_err(|member| ContentError::Incomplete {
            member,
            resource: resource.name.clone(),
            component: component.clone(),
        })?;
        let bytes = self.blob(reference).map_err(|source| ContentError::Repository {
            resource: resource.name.clone(),
            component,
            source,
        })?;
        Ok(Content { media_type: member("mediaType").unwrap_or_default().to_owned(), bytes })
    }
}
