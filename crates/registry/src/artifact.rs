//! A component version as an OCI artifact (`components.md` 6.1, 6.2).

use std::io::Read;

use groundwork_component::{RepositoryContext, RepositoryError};
use serde::{Deserialize, Serialize};

use crate::digest::hashed_name;

pub(crate) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(crate) const CONFIG: &str = "application/vnd.ocm.software.component.config.v1+json";
pub(crate) const DESCRIPTOR_TAR: &str = "application/vnd.ocm.software.component-descriptor.v2+yaml+tar";

const CONFIG_TYPES: [&str; 3] = [
    CONFIG,
    "application/vnd.gardener.cloud.cnudie.component.config.v1+json",
    "application/vnd.oci.gardener.cloud.cnudie.component-descriptor-metadata.config.v2+json",
];
const DESCRIPTOR_TAR_TYPES: [&str; 3] = [
    DESCRIPTOR_TAR,
    "application/vnd.gardener.cloud.cnudie.component-descriptor.v2+yaml+tar",
    "application/vnd.oci.gardener.cloud.cnudie.component-descriptor.config.v2+yaml+tar",
];
const DESCRIPTOR_PLAIN_TYPES: [&str; 4] = [
    "application/vnd.ocm.software.component-descriptor.v2+json",
    "application/vnd.ocm.software.component-descriptor.v2+yaml",
    "application/vnd.gardener.cloud.cnudie.component-descriptor.v2+json",
    "application/vnd.gardener.cloud.cnudie.component-descriptor.v2+yaml",
];

/// Size limit of an index, manifest or descriptor in bytes. Real ones are small, and larger ones
/// are refused (`components.md` 6.2).
pub(crate) const LARGEST_DOCUMENT: u64 = 16 << 20;

/// File name of the descriptor in its layer.
pub(crate) const DESCRIPTOR_FILE: &str = "component-descriptor.yaml";

/// OCI content descriptor: media type, size and digest.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BlobDescriptor {
    #[serde(default)]
    pub(crate) media_type: String,
    pub(crate) digest: String,
    #[serde(default)]
    pub(crate) size: u64,
}

/// OCI image manifest, or the part of an image index that leads to a manifest.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Manifest {
    pub(crate) media_type: Option<String>,
    #[serde(default)]
    pub(crate) layers: Vec<BlobDescriptor>,
    pub(crate) config: Option<BlobDescriptor>,
    /// Entries of an index. Only the manifest of the first entry is used.
    #[serde(default)]
    pub(crate) manifests: Vec<BlobDescriptor>,
}

/// Media types of manifests and indexes.
pub(crate) const MANIFEST_TYPES: [&str; 4] = [
    MANIFEST,
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
];

pub(crate) fn is_manifest_type(media_type: &str) -> bool {
    MANIFEST_TYPES.contains(&media_type)
}

/// Config of a component, which names the descriptor layer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ComponentConfig {
    pub(crate) component_descriptor_layer: Option<BlobDescriptor>,
}

/// Returns the path of a component inside the repository that `context` describes.
///
/// # Errors
///
/// The context names a component name mapping that does not exist.
pub(crate) fn repository_path(
    context: &RepositoryContext,
    component: &str,
) -> Result<String, RepositoryError> {
    let malformed = |problem: String| RepositoryError::Malformed { address: context.to_string(), problem };
    let text = |member: &'static str| {
        context
            .text(member)
            .map(Option::unwrap_or_default)
            .map_err(|_| malformed(format!("{member} of the repository context is not a text")))
    };
    let path = match text("componentNameMapping")? {
        "" | "urlPath" => format!("component-descriptors/{component}"),
        "sha256-digest" => hashed_name(component),
        other => return Err(malformed(format!("unknown component name mapping method {other}"))),
    };
    let sub_path = text("subPath")?.trim_matches('/');
    Ok(if sub_path.is_empty() { path } else { format!("{sub_path}/{path}") })
}

/// Returns the tag of a version. A tag cannot have the plus sign of a version.
pub(crate) fn tag(version: &str) -> String {
    version.replace('+', ".build-")
}

/// Returns an error if the config type of a manifest is not that of a component.
pub(crate) fn check_config_type(media_type: &str) -> Result<(), String> {
    if CONFIG_TYPES.contains(&media_type) {
        Ok(())
    } else {
        Err(format!("artifact is no component: {media_type}"))
    }
}

/// Returns the descriptor document inside the layer.
pub(crate) fn unpack_descriptor(layer: &[u8], media_type: &str) -> Result<Vec<u8>, String> {
    if DESCRIPTOR_PLAIN_TYPES.contains(&media_type) {
        return Ok(layer.to_owned());
    }
    if !DESCRIPTOR_TAR_TYPES.contains(&media_type) {
        return Err(format!("invalid config media type {media_type:?} for the component descriptor layer"));
    }
    let mut archive = tar::Archive::new(layer);
    let entries = archive.entries().map_err(|error| error.to_string())?;
    for entry in entries {
        let mut entry = entry.map_err(|error| format!("broken tar: {error}"))?;
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        if path.trim_start_matches('/').trim_start_matches("./") == DESCRIPTOR_FILE {
            let mut document = Vec::new();
            // Limit the read, not the header's size: a sparse entry can be larger than the whole
            // layer.
            let mut bounded = entry.by_ref().take(LARGEST_DOCUMENT + 1);
            bounded.read_to_end(&mut document).map_err(|error| format!("broken tar: {error}"))?;
            if document.len() as u64 > LARGEST_DOCUMENT {
                return Err(format!("the component descriptor is larger than {LARGEST_DOCUMENT} bytes"));
            }
            return Ok(document);
        }
    }
    Err("no component descriptor found in tar".to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn path(context: serde_json::Value) -> Result<String, String> {
        let context = RepositoryContext::new(context).unwrap();
        repository_path(&context, "example.org/shop").map_err(|error| error.to_string())
    }

    #[test]
    fn paths() {
        let base = "component-descriptors/example.org/shop";
        assert_eq!(path(json!({"type": "x"})).unwrap(), base);
        assert_eq!(
            path(json!({"subPath": "/team/", "componentNameMapping": "urlPath"})).unwrap(),
            format!("team/{base}")
        );
        assert_eq!(
            path(json!({"componentNameMapping": "sha256-digest"})).unwrap(),
            hashed_name("example.org/shop")
        );
        assert_eq!(
            path(json!({"baseUrl": "r", "componentNameMapping": "x"})).unwrap_err(),
            "r: unknown component name mapping method x"
        );
        assert!(path(json!({"subPath": 5})).is_err());
    }

    #[test]
    fn tags() {
        assert_eq!(tag("1.0.0+7"), "1.0.0.build-7");
    }
}
