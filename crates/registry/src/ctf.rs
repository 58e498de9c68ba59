//! The common transport format as a directory (`components.md` 6.4).

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use groundwork_component::{Repository, RepositoryContext, RepositoryError};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::artifact::{self, BlobDescriptor, ComponentConfig, LARGEST_DOCUMENT, Manifest};
use crate::digest::Digest;

pub(crate) const INDEX_FILE: &str = "artifact-index.json";
pub(crate) const BLOB_DIRECTORY: &str = "blobs";

/// Bound for the blobs of resources.
const LARGEST_BLOB: u64 = 256 << 20;

/// `artifact-index.json`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ArtifactIndex {
    #[serde(default)]
    pub(crate) schema_version: i64,
    /// May be null in archives that hold nothing.
    pub(crate) artifacts: Option<Vec<Artifact>>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Artifact {
    pub(crate) repository: String,
    pub(crate) tag: Option<String>,
    pub(crate) digest: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) media_type: Option<String>,
}

/// A directory that stands for the registry of one repository context.
#[derive(Debug, Clone)]
pub struct CtfDirectory {
    root: PathBuf,
    context: RepositoryContext,
}

impl CtfDirectory {
    /// A store for `context` in the directory `root`. Nothing is read until a version is asked for.
    pub fn new(root: impl Into<PathBuf>, context: RepositoryContext) -> Self {
        Self { root: root.into(), context }
    }

    /// The digest of the artifact that holds a component version; of equal entries the last one counts.
    fn find(&self, name: &str, version: &str) -> Result<Option<Digest>, RepositoryError> {
        let path = self.root.join(INDEX_FILE);
        let index: ArtifactIndex = decode(&path, &read(&path, LARGEST_DOCUMENT)?)?;
        let (repository, tag) = (artifact::repository_path(&self.context, name)?, artifact::tag(version));
        let artifacts = index.artifacts.unwrap_or_default();
        let found = artifacts
            .iter()
            .rev()
            .find(|artifact| artifact.repository == repository && artifact.tag.as_deref() == Some(&tag));
        found.map(|artifact| self.digest(&artifact.digest, &path)).transpose()
    }

    fn digest(&self, text: &str, place: &Path) -> Result<Digest, RepositoryError> {
        Digest::parse(text).ok_or_else(|| malformed(place, format!("{text:?} is not a sha256 digest")))
    }

    fn blob_path(&self, digest: &Digest) -> PathBuf {
        self.root.join(BLOB_DIRECTORY).join(digest.file_name())
    }

    fn read_blob(&self, digest: &Digest, limit: u64) -> Result<Vec<u8>, RepositoryError> {
        let path = self.blob_path(digest);
        let bytes = read(&path, limit)?;
        let actual = Digest::of(&bytes);
        if actual != *digest {
            return Err(RepositoryError::Digest {
                address: path.display().to_string(),
                expected: digest.to_string(),
                actual: actual.to_string(),
            });
        }
        Ok(bytes)
    }

    fn read_document<T: DeserializeOwned>(&self, digest: &Digest) -> Result<T, RepositoryError> {
        decode(&self.blob_path(digest), &self.read_blob(digest, LARGEST_DOCUMENT)?)
    }

    /// The config that a manifest names; an index stands for its first manifest.
    fn config(&self, manifest_digest: &Digest) -> Result<BlobDescriptor, RepositoryError> {
        let place = self.blob_path(manifest_digest);
        let mut manifest: Manifest = self.read_document(manifest_digest)?;
        if manifest.config.is_none()
            && let Some(first) = manifest.manifests.first()
        {
            manifest = self.read_document(&self.digest(&first.digest, &place)?)?;
        }
        manifest.config.ok_or_else(|| malformed(&place, "the manifest has no config".to_owned()))
    }
}

impl Repository for CtfDirectory {
    fn descriptor(&self, name: &str, version: &str) -> Result<Option<Vec<u8>>, RepositoryError> {
        let Some(manifest) = self.find(name, version)? else { return Ok(None) };
        let place = self.blob_path(&manifest);
        let config = self.config(&manifest)?;
        if config.media_type.is_empty() {
            return Ok(None);
        }
        artifact::check_config_type(&config.media_type).map_err(|problem| malformed(&place, problem))?;
        let config: ComponentConfig = self.read_document(&self.digest(&config.digest, &place)?)?;
        let layer = config.component_descriptor_layer.ok_or_else(|| {
            malformed(&place, "invalid component descriptor config: it names no descriptor layer".to_owned())
        })?;
        let digest = self.digest(&layer.digest, &place)?;
        let bytes = self.read_blob(&digest, LARGEST_DOCUMENT)?;
        let document = artifact::unpack_descriptor(&bytes, &layer.media_type)
            .map_err(|problem| malformed(&self.blob_path(&digest), problem))?;
        Ok(Some(document))
    }

    fn blob(&self, _: &str, _: &str, reference: &str) -> Result<Vec<u8>, RepositoryError> {
        // A reference may list several digests: a blob that was uploaded in pieces.
        let mut content = Vec::new();
        for part in reference.split(',') {
            let digest = self.digest(part.trim(), &self.root)?;
            content.extend(self.read_blob(&digest, LARGEST_BLOB)?);
            if content.len() as u64 > LARGEST_BLOB {
                let address = self.root.display().to_string();
                return Err(RepositoryError::TooLarge { address, limit: LARGEST_BLOB });
            }
        }
        Ok(content)
    }
}

fn read(path: &Path, limit: u64) -> Result<Vec<u8>, RepositoryError> {
    let address = || path.display().to_string();
    let unreadable = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => RepositoryError::Missing { address: address() },
        _ => RepositoryError::Unreadable { address: address(), cause: error.to_string() },
    };
    // Opening a pipe that nobody writes to would never end.
    if !path.metadata().map_err(unreadable)?.is_file() {
        return Err(malformed(path, "it is not a regular file".to_owned()));
    }
    let file = File::open(path).map_err(unreadable)?;
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > limit {
        return Err(RepositoryError::TooLarge { address: address(), limit });
    }
    Ok(bytes)
}

fn decode<T: DeserializeOwned>(path: &Path, bytes: &[u8]) -> Result<T, RepositoryError> {
    serde_json::from_slice(bytes).map_err(|error| malformed(path, format!("not the expected JSON: {error}")))
}

fn malformed(path: &Path, problem: String) -> RepositoryError {
    RepositoryError::Malformed { address: path.display().to_string(), problem }
}

#[cfg(test)]
mod tests;
