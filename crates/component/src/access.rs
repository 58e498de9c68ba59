//! Access to the content of a resource (`components.md` 6.3, 6.9).

mod checked;
mod members;
mod outside;

use serde_json::{Value, json};

use crate::descriptor::Resource;
use crate::reference::RepositoryContext;
use crate::repository::{Blob, RepositoryError};
use crate::resolve::ComponentVersion;
use checked::Checked;
use members::Members;

pub use members::AccessError;
pub use outside::{Chart, Commit, Download, Outside, StoredFile, StoredObject, shown};

/// Bytes of the largest content that is returned as a whole.
const LARGEST: u64 = 256 << 20;

/// Bytes of a resource, with their declared type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// Declared media type; empty if there is none.
    pub media_type: String,
    pub bytes: Vec<u8>,
}

/// Location of a resource's content, restricted to the supported access types.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Access {
    /// Blob beside the descriptor: a digest, several ones separated by commas, or a file name in
    /// older archives.
    Local { reference: String, media_type: String },
    /// Whole artifact of any registry.
    Artifact { reference: String },
    /// Whole artifact, with a name relative to the registry of the component.
    RelativeArtifact { reference: String },
    /// Single blob in a repository of any registry.
    Layer { repository: String, digest: String, size: Option<u64>, media_type: String },
    /// Content outside of component repositories.
    Outside(Outside),
}

impl Access {
    /// Parses the `access` of a resource. Like Landscaper, it finds members regardless of case
    /// (`components.md` 1.5).
    ///
    /// # Errors
    ///
    /// The type is not supported, or a member is missing.
    pub fn parse(access: &Value) -> Result<Self, AccessError> {
        let members = Members(access);
        let text = |name: &'static str| members.text(name);
        let media_type = || members.or_empty("mediaType");
        let local = |member| Ok(Self::Local { reference: text(member)?, media_type: media_type() });
        let type_name = members.optional("type").unwrap_or_default();
        match type_name.strip_suffix("/v1").unwrap_or(type_name) {
            "localBlob" | "LocalBlob" => local("localReference"),
            "localOciBlob" => local("digest"),
            "localFilesystemBlob" => local("fileName"),
            "ociArtifact" | "ociRegistry" | "OCIImage" | "ociImage" => {
                Ok(Self::Artifact { reference: text("imageReference")? })
            }
            "relativeOciReference" => Ok(Self::RelativeArtifact { reference: text("reference")? }),
            "ociBlob" | "OCIImageLayer" => Ok(Self::Layer {
                repository: text("ref")?,
                digest: text("digest")?,
                size: access.get("size").and_then(Value::as_u64).filter(|size| *size > 0),
                media_type: media_type(),
            }),
            _ => match Outside::parse(type_name, &members)? {
                Some(outside) => Ok(Self::Outside(outside)),
                None => Err(AccessError::Unsupported { type_name: type_name.to_owned() }),
            },
        }
    }

    /// Returns the access in the form of a descriptor, which [`Self::parse`] accepts.
    pub fn to_value(&self) -> Value {
        match self {
            Self::Local { reference, media_type } => {
                json!({"type": "localBlob", "localReference": reference, "mediaType": media_type})
            }
            Self::Artifact { reference } => json!({"type": "ociArtifact", "imageReference": reference}),
            Self::RelativeArtifact { reference } => {
                json!({"type": "relativeOciReference", "reference": reference})
            }
            Self::Layer { repository, digest, size, media_type } => json!({
                "type": "ociBlob", "ref": repository, "digest": digest, "size": size, "mediaType": media_type,
            }),
            Self::Outside(outside) => outside.to_value(),
        }
    }

    /// Returns the repository of the content if the access alone names it, independent of the
    /// component's repository; `None` otherwise.
    pub fn registry(&self) -> Option<RepositoryContext> {
        let reference = match self {
            Self::Outside(_) => return Some(RepositoryContext::outside()),
            Self::Artifact { reference } => reference,
            Self::Layer { repository, .. } => repository,
            Self::Local { .. } | Self::RelativeArtifact { .. } => return None,
        };
        let (host, _) = split_image_reference(reference);
        RepositoryContext::new(json!({"type": "ociRegistry", "baseUrl": host}))
    }

    /// Returns the access to the artifact with this SHA-256, in hex, even if its tag has moved
    /// since. Access to other content stays unchanged.
    #[must_use]
    pub fn at_digest(&self, sha256: &str) -> Self {
        let at = |reference: &str| {
            let tagged = reference.split_once('@').map_or(reference, |(tagged, _)| tagged);
            format!("{tagged}@sha256:{sha256}")
        };
        match self {
            Self::Artifact { reference } => Self::Artifact { reference: at(reference) },
            Self::RelativeArtifact { reference } => Self::RelativeArtifact { reference: at(reference) },
            Self::Outside(Outside::Chart(chart)) if chart.is_in_registry() => {
                Self::Outside(Outside::Chart(Chart { manifest: sha256.to_owned(), ..chart.clone() }))
            }
            Self::Local { .. } | Self::Layer { .. } | Self::Outside(_) => self.clone(),
        }
    }

    /// Returns the reference of a local blob, or `None` for any other access.
    pub fn local_reference(&self) -> Option<&str> {
        match self {
            Self::Local { reference, .. } => Some(reference),
            _ => None,
        }
    }

    /// Reports whether the content is a chart in a registry. Its recorded digest is that of its
    /// manifest.
    pub fn is_chart_in_registry(&self) -> bool {
        matches!(self, Self::Outside(Outside::Chart(chart)) if chart.is_in_registry())
    }

    /// Reports whether the content is an artifact with all its parts.
    pub fn is_artifact(&self) -> bool {
        match self {
            Self::Artifact { .. } | Self::RelativeArtifact { .. } => true,
            Self::Outside(_) => false,
            // A local blob may be a manifest, which then represents the whole artifact.
            Self::Local { media_type, .. } | Self::Layer { media_type, .. } => {
                media_type.ends_with("+json")
                    && (media_type.contains(".manifest.") || media_type.contains(".index."))
            }
        }
    }

    /// Returns the declared media type; empty if there is none.
    pub fn media_type(&self) -> &str {
        match self {
            Self::Local { media_type, .. } | Self::Layer { media_type, .. } => media_type,
            Self::Artifact { .. } | Self::RelativeArtifact { .. } => "",
            Self::Outside(outside) => outside.media_type(),
        }
    }
}

impl std::fmt::Display for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Local { reference, .. } => write!(f, "blob {reference}"),
            Self::Artifact { reference } | Self::RelativeArtifact { reference } => {
                write!(f, "artifact {reference}")
            }
            Self::Layer { repository, digest, .. } => write!(f, "blob {repository}@{digest}"),
            Self::Outside(outside) => std::fmt::Display::fmt(outside, f),
        }
    }
}

/// Splits an image reference `[scheme://]host[:port]/repo[:tag][@digest]` (`components.md` 6.9)
/// into the host, with its scheme if there is one, and the rest. A name without a host belongs to
/// Docker Hub.
pub fn split_image_reference(reference: &str) -> (String, String) {
    let (scheme, rest) = match reference.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), reference),
    };
    let first = rest.split_once('/');
    let is_host = |first: &str| first.contains(['.', ':']) || first == "localhost";
    match first {
        Some((host, rest)) if is_host(host) && host != "docker.io" && host != "index.docker.io" => {
            (format!("{scheme}{host}"), rest.to_owned())
        }
        _ => {
            let name = rest
                .strip_prefix("docker.io/")
                .or_else(|| rest.strip_prefix("index.docker.io/"))
                .unwrap_or(rest);
            let library = if name.contains('/') { "" } else { "library/" };
            ("registry-1.docker.io".to_owned(), format!("{library}{name}"))
        }
    }
}

/// Error of a resource's content.
#[derive(Debug, thiserror::Error)]
pub enum ContentError {
    /// Error E13 (`components.md` 8): the access type is not supported.
    #[error("access method {type_name:?} not supported (resource {resource:?} of component {component})")]
    Unsupported { type_name: String, resource: String, component: String },
    #[error("access of resource {resource:?} of component {component} has no {member}")]
    Incomplete { member: &'static str, resource: String, component: String },
    #[error("access of resource {resource:?} of component {component} cannot be used: {problem}")]
    Unusable { problem: String, resource: String, component: String },
    #[error("cannot fetch resource {resource:?} of component {component}: {source}")]
    Repository { resource: String, component: String, source: RepositoryError },
}

impl ComponentVersion {
    /// Fetches the content that the access of `resource` describes.
    ///
    /// # Errors
    ///
    /// See [`ContentError`].
    pub fn content(&self, resource: &Resource) -> Result<Content, ContentError> {
        self.content_within(resource, LARGEST)
    }

    /// Fetches the content as [`Self::content`] does, but at most `limit` bytes, for callers that
    /// cannot use more.
    ///
    /// # Errors
    ///
    /// See [`ContentError`].
    pub fn content_within(&self, resource: &Resource, limit: u64) -> Result<Content, ContentError> {
        let (access, blob) = self.open(resource)?;
        let media_type = blob.media_type.clone();
        let bytes =
            blob.read_all(&access.to_string(), limit).map_err(|source| self.unread(resource, source))?;
        Ok(Content { media_type, bytes })
    }

    /// Opens the content that the access of `resource` describes, under the media type of the
    /// access.
    ///
    /// # Errors
    ///
    /// See [`ContentError`]. Reading the body may fail as well.
    pub fn open(&self, resource: &Resource) -> Result<(Access, Blob), ContentError> {
        let (component, name) = (self.title(), || resource.name.clone());
        let access = Access::parse(resource.access()).map_err(|error| match error {
            AccessError::Unsupported { type_name } => {
                ContentError::Unsupported { type_name, resource: name(), component: component.clone() }
            }
            AccessError::Incomplete { member } => {
                ContentError::Incomplete { member, resource: name(), component: component.clone() }
            }
            AccessError::Unusable { problem } => {
                ContentError::Unusable { problem, resource: name(), component: component.clone() }
            }
        })?;
        let mut blob = self.fetch(&access).map_err(|source| self.unread(resource, source))?;
        if !access.media_type().is_empty() {
            access.media_type().clone_into(&mut blob.media_type);
        }
        // The server may change this content at any time, and no digest is part of its address.
        if matches!(access, Access::Outside(_)) && !access.is_chart_in_registry() {
            blob = Checked::wrap(blob, resource.digest(), &access);
        }
        Ok((access, blob))
    }

    fn unread(&self, resource: &Resource, source: RepositoryError) -> ContentError {
        ContentError::Repository { resource: resource.name.clone(), component: self.title(), source }
    }

    fn title(&self) -> String {
        format!("{}:{}", self.descriptor.name(), self.descriptor.version())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every supported type of `components.md` 6.9, under each of its names.
    #[test]
    fn types() {
        let local = |reference: &str| Access::Local { reference: reference.into(), media_type: "m".into() };
        let artifact = Access::Artifact { reference: "r/a:1".into() };
        let layer = |size| Access::Layer {
            repository: "r/a".into(),
            digest: "sha256:0".into(),
            size,
            media_type: String::new(),
        };
        for (written, expected) in [
            (json!({"type": "localBlob", "localReference": "a", "mediaType": "m"}), local("a")),
            (json!({"type": "LocalBlob/v1", "localReference": "a", "mediaType": "m"}), local("a")),
            (json!({"type": "localOciBlob", "digest": "a", "mediaType": "m"}), local("a")),
            (json!({"type": "localFilesystemBlob", "filename": "a", "mediaType": "m"}), local("a")),
            (json!({"type": "ociArtifact", "imageReference": "r/a:1"}), artifact.clone()),
            (json!({"type": "ociRegistry/v1", "imagereference": "r/a:1"}), artifact.clone()),
            (json!({"type": "OCIImage", "imageReference": "r/a:1"}), artifact.clone()),
            (json!({"type": "ociImage", "imageReference": "r/a:1"}), artifact),
            (json!({"type": "ociBlob", "ref": "r/a", "digest": "sha256:0", "size": 5}), layer(Some(5))),
            (json!({"type": "OCIImageLayer", "ref": "r/a", "digest": "sha256:0"}), layer(None)),
            (
                json!({"type": "relativeOciReference", "reference": "a:1"}),
                Access::RelativeArtifact { reference: "a:1".into() },
            ),
        ] {
            let access = Access::parse(&written).unwrap();
            assert_eq!(access, expected, "{written}");
            assert_eq!(Access::parse(&access.to_value()), Ok(access));
        }
    }

    /// Error E13 (`components.md` 8): the message names the unsupported type.
    #[test]
    fn what_cannot_be_fetched() {
        for type_name in ["git", "npm", "maven", "ocm", "none", "web", "x"] {
            let error = Access::parse(&json!({"type": type_name})).unwrap_err();
            assert_eq!(error.to_string(), format!("access method {type_name:?} not supported"));
        }
        for (written, member) in [
            (json!({"type": "localBlob", "localReference": ""}), "localReference"),
            (json!({"type": "ociArtifact", "imageReference": 5}), "imageReference"),
            (json!({"type": "ociBlob", "ref": "r"}), "digest"),
        ] {
            assert_eq!(Access::parse(&written), Err(AccessError::Incomplete { member }));
        }
        assert!(Access::parse(&json!(null)).is_err());
    }

    /// Image references are split as in `components.md` 6.9.
    #[test]
    fn image_references() {
        for (reference, host, rest) in [
            ("r.org/a/b:1", "r.org", "a/b:1"),
            ("http://r.org:5000/a@sha256:0", "http://r.org:5000", "a@sha256:0"),
            ("localhost/a", "localhost", "a"),
            ("r:5000/a", "r:5000", "a"),
            ("alpine:3", "registry-1.docker.io", "library/alpine:3"),
            ("a/b", "registry-1.docker.io", "a/b"),
            ("docker.io/alpine", "registry-1.docker.io", "library/alpine"),
            ("index.docker.io/a/b:1", "registry-1.docker.io", "a/b:1"),
        ] {
            assert_eq!(split_image_reference(reference), (host.to_owned(), rest.to_owned()), "{reference}");
        }
    }
}
