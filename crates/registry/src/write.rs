//! Writes component versions into a transport archive directory.
//!
//! The bytes depend only on the content, so writing a directory again does not change it.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use groundwork_component::{Descriptor, DescriptorError, RepositoryContext, RepositoryError};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::artifact::{self, BlobDescriptor, ComponentConfig, DESCRIPTOR_FILE};
use crate::ctf::{Artifact, ArtifactIndex, BLOB_DIRECTORY, INDEX_FILE};
use crate::digest::Digest;

/// Time of all tar entries, 2022-01-01T00:00:00Z (`components.md` 6.2).
const TAR_TIME: u64 = 1_640_995_200;

/// Content that a resource of the descriptor refers to.
#[derive(Debug, Clone)]
pub struct LocalBlob {
    /// Name of the resource, whose `access` the writer sets.
    pub resource: String,
    pub media_type: String,
    pub bytes: Vec<u8>,
}

/// Writer of a transport archive directory.
#[derive(Debug)]
pub struct CtfWriter {
    root: PathBuf,
    context: RepositoryContext,
    artifacts: Vec<Artifact>,
}

/// Reason that a component version could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    #[error(transparent)]
    Descriptor(#[from] DescriptorError),
    #[error(transparent)]
    Context(#[from] RepositoryError),
    #[error("component {component} has no resource {resource:?} for the content given")]
    NoResource { component: String, resource: String },
    #[error("cannot write {path}: {source}")]
    Io { path: PathBuf, source: std::io::Error },
}

impl CtfWriter {
    /// Creates a writer for the store of `context` in `root`, which is created if it does not
    /// exist.
    ///
    /// # Errors
    ///
    /// The directory cannot be created.
    pub fn create(root: impl Into<PathBuf>, context: RepositoryContext) -> Result<Self, WriteError> {
        let root = root.into();
        let blobs = root.join(BLOB_DIRECTORY);
        fs::create_dir_all(&blobs).map_err(|source| WriteError::Io { path: blobs, source })?;
        Ok(Self { root, context, artifacts: Vec::new() })
    }

    /// Adds a component version: its descriptor (YAML or JSON, v2 or v3) and the content of its
    /// local resources.
    ///
    /// # Errors
    ///
    /// The descriptor is invalid once the accesses are filled in, or lacks a resource that content
    /// is given for.
    pub fn add(&mut self, descriptor: &Value, blobs: &[LocalBlob]) -> Result<(), WriteError> {
        let mut document = descriptor.clone();
        let mut layers = Vec::new();
        for blob in blobs {
            let layer = self.write_typed(&blob.bytes, &blob.media_type)?;
            set_access(&mut document, &blob.resource, &layer)?;
            layers.push(layer);
        }
        self.add_with_layers(&document, &layers)
    }

    /// Adds a component version whose contents have been written already.
    pub(crate) fn add_with_layers(
        &mut self,
        document: &Value,
        blobs: &[BlobDescriptor],
    ) -> Result<(), WriteError> {
        let checked = Descriptor::from_document(document.clone(), groundwork_component::Leniency::Strict)?;
        let layer = descriptor_tar(groundwork_yaml::to_string(document).as_bytes());
        let layer = self.write_typed(&layer, artifact::DESCRIPTOR_TAR)?;
        let config = json_bytes(&ComponentConfig { component_descriptor_layer: Some(layer.clone()) });
        let config = self.write_typed(&config, artifact::CONFIG)?;
        let layers: Vec<&BlobDescriptor> = std::iter::once(&layer).chain(blobs).collect();
        let manifest = json_bytes(&json!({
            "schemaVersion": 2, "mediaType": artifact::MANIFEST, "config": config, "layers": layers,
            "annotations": {"software.ocm.componentversion": format!("{}:{}", checked.name(), checked.version())},
        }));
        let digest = self.write_blob(&manifest)?;
        self.artifacts.push(Artifact {
            repository: artifact::repository_path(&self.context, checked.name())?,
            tag: Some(artifact::tag(checked.version())),
            digest: digest.to_string(),
            media_type: Some(artifact::MANIFEST.to_owned()),
        });
        Ok(())
    }

    /// Adds an artifact of another archive unchanged. Its blobs have been written already.
    pub(crate) fn add_artifact(
        &mut self,
        repository: String,
        tag: String,
        digest: &Digest,
        media_type: String,
    ) {
        self.artifacts.push(Artifact {
            repository,
            tag: Some(tag),
            digest: digest.to_string(),
            media_type: Some(media_type),
        });
    }

    /// Replaces an earlier version by the one that was added last, under the name of the earlier
    /// one.
    pub(crate) fn rename_last(&mut self, repository: String, tag: String) {
        let Some(mut last) = self.artifacts.pop() else { return };
        self.artifacts.retain(|known| known.repository != repository || known.tag.as_ref() != Some(&tag));
        (last.repository, last.tag) = (repository, Some(tag));
        self.artifacts.push(last);
    }

    /// Writes content while it is read, so that it is never in memory as a whole.
    pub(crate) fn write_body(
        &self,
        mut body: impl io::Read,
        media_type: &str,
        address: &str,
    ) -> Result<BlobDescriptor, WriteError> {
        let blobs = self.root.join(BLOB_DIRECTORY);
        let failed = |source| WriteError::Io { path: blobs.clone(), source };
        let mut file = tempfile::NamedTempFile::new_in(&blobs).map_err(failed)?;
        let (mut hash, mut size, mut buffer) = (Sha256::new(), 0, vec![0; 64 * 1024]);
        loop {
            let count = match body.read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read.map_err(|error| RepositoryError::of_read(&error, address))?,
            };
            if count == 0 {
                break;
            }
            hash.update(&buffer[..count]);
            size += count as u64;
            file.write_all(&buffer[..count]).map_err(failed)?;
        }
        let digest = Digest::of_hash(hash);
        file.persist(blobs.join(digest.file_name())).map_err(|error| failed(error.error))?;
        Ok(BlobDescriptor { media_type: media_type.to_owned(), digest: digest.to_string(), size })
    }

    /// Writes the index. Readers see the added versions only after that.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn finish(mut self) -> Result<(), WriteError> {
        // The sort is stable, so of a version added twice the later one stays last, which readers
        // use.
        self.artifacts.sort_by(|a, b| (&a.repository, &a.tag).cmp(&(&b.repository, &b.tag)));
        let index = ArtifactIndex { schema_version: 1, artifacts: Some(self.artifacts) };
        let mut text = json_bytes(&index);
        text.push(b'\n');
        write(&self.root.join(INDEX_FILE), &text)
    }

    fn write_blob(&self, bytes: &[u8]) -> Result<Digest, WriteError> {
        let digest = Digest::of(bytes);
        write(&self.root.join(BLOB_DIRECTORY).join(digest.file_name()), bytes)?;
        Ok(digest)
    }

    fn write_typed(&self, bytes: &[u8], media_type: &str) -> Result<BlobDescriptor, WriteError> {
        let digest = self.write_blob(bytes)?.to_string();
        Ok(BlobDescriptor { media_type: media_type.to_owned(), digest, size: bytes.len() as u64 })
    }
}

fn set_access(document: &mut Value, resource_name: &str, layer: &BlobDescriptor) -> Result<(), WriteError> {
    let lists = ["/component/resources", "/spec/resources"];
    let list = lists.into_iter().find(|list| document.pointer(list).is_some()).unwrap_or_default();
    let resources = document.pointer_mut(list).and_then(Value::as_array_mut);
    let resource = resources
        .into_iter()
        .flatten()
        .filter_map(Value::as_object_mut)
        .find(|resource| resource.get("name").and_then(Value::as_str) == Some(resource_name));
    let Some(resource) = resource else {
        let component = ["/component/name", "/metadata/name"]
            .into_iter()
            .find_map(|name| document.pointer(name).and_then(Value::as_str))
            .unwrap_or_default();
        return Err(WriteError::NoResource {
            component: component.to_owned(),
            resource: resource_name.to_owned(),
        });
    };
    resource.insert("access".to_owned(), local_access(layer));
    Ok(())
}

/// Returns the access of a blob beside the descriptor.
pub(crate) fn local_access(layer: &BlobDescriptor) -> Value {
    json!({"type": "localBlob", "localReference": layer.digest, "mediaType": layer.media_type})
}

fn descriptor_tar(document: &[u8]) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    append(&mut archive, DESCRIPTOR_FILE, document);
    finish(archive)
}

/// Packs files into a tar whose bytes depend only on names and contents.
///
/// Names are relative, with `/` between their parts.
pub(crate) fn pack<'a>(files: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for (name, content) in files {
        append(&mut archive, name, content);
    }
    finish(archive)
}

fn append(archive: &mut tar::Builder<Vec<u8>>, name: &str, content: &[u8]) {
    let mut header = tar::Header::new_gnu();
    header.set_size(content.len() as u64);
    header.set_mode(0o644);
    header.set_mtime(TAR_TIME);
    archive.append_data(&mut header, name, content).expect("writing to memory does not fail");
}

/// Returns the header of a regular file with a short name.
pub(crate) fn tar_header(name: &str, size: u64) -> Vec<u8> {
    let mut header = tar::Header::new_gnu();
    header.set_path(name).expect("names of digests fit into a header");
    header.set_size(size);
    header.set_mode(0o644);
    header.set_mtime(TAR_TIME);
    header.set_cksum();
    header.as_bytes().to_vec()
}

fn finish(archive: tar::Builder<Vec<u8>>) -> Vec<u8> {
    archive.into_inner().expect("writing to memory does not fail")
}

fn json_bytes(value: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("these types have text keys only, so they can be written as JSON")
}

pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), WriteError> {
    fs::write(path, bytes).map_err(|source| WriteError::Io { path: path.to_owned(), source })
}

impl LocalBlob {
    /// Packs a file tree (relative names) into an uncompressed tar, as the content of a resource.
    pub fn tree<'a>(
        resource: impl Into<String>,
        media_type: impl Into<String>,
        files: impl IntoIterator<Item = (&'a str, &'a [u8])>,
    ) -> Self {
        Self { resource: resource.into(), media_type: media_type.into(), bytes: pack(files) }
    }
}

#[cfg(test)]
mod tests;
