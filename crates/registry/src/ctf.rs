//! Common transport format: a directory, a tar or a compressed tar (`components.md` 6.4).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use groundwork_component::{Access, Blob, Descriptor, Repository, RepositoryContext, RepositoryError};
use serde::{Deserialize, Serialize};

use crate::artifact::{self, LARGEST_DOCUMENT};
use crate::artifact_set;
use crate::blobs::{self, Blobs};
use crate::digest::Digest;
use crate::tree::{Stamp, Tree, malformed};

pub(crate) const INDEX_FILE: &str = "artifact-index.json";
pub(crate) const BLOB_DIRECTORY: &str = "blobs";

/// Content of `artifact-index.json`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ArtifactIndex {
    #[serde(default)]
    pub(crate) schema_version: i64,
    /// The artifacts of the archive. The field is null in some empty archives.
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

/// Digest, as text, by repository and tag.
type Index = Arc<BTreeMap<(String, String), String>>;

/// Archive in the role of a registry. The index is read once, and again after the archive has been
/// written.
#[derive(Debug)]
pub(crate) struct Ctf {
    tree: Tree,
    index: Mutex<Option<(Stamp, Index)>>,
}

impl Ctf {
    pub(crate) fn new(tree: Tree) -> Self {
        Self { tree, index: Mutex::new(None) }
    }

    pub(crate) fn tree(&self) -> &Tree {
        &self.tree
    }

    fn index(&self) -> Result<Index, RepositoryError> {
        let mut kept = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = self.tree.stamp(INDEX_FILE);
        if let Some((known, index)) = &*kept
            && stamp.as_ref() == Some(known)
        {
            return Ok(Arc::clone(index));
        }
        let bytes = self.tree.read(INDEX_FILE, LARGEST_DOCUMENT)?;
        let decoded: ArtifactIndex = blobs::decode(&self.tree.address(INDEX_FILE), &bytes)?;
        // Collecting into a map keeps the last of equal entries.
        let artifacts = decoded.artifacts.unwrap_or_default().into_iter();
        let index: BTreeMap<_, _> = artifacts
            .filter_map(|artifact| Some(((artifact.repository, artifact.tag?), artifact.digest)))
            .collect();
        let index = Arc::new(index);
        *kept = stamp.map(|stamp| (stamp, Arc::clone(&index)));
        Ok(index)
    }

    /// Returns all tagged artifacts: repository, tag and digest, in this order.
    pub(crate) fn artifacts(&self) -> Result<Vec<(String, String, Digest)>, RepositoryError> {
        let index = self.index()?;
        let artifacts = index
            .iter()
            .map(|((repository, tag), text)| Ok((repository.clone(), tag.clone(), self.parse_entry(text)?)));
        artifacts.collect()
    }

    /// Returns name and version of the component versions in the archive, ordered by repository.
    /// Other artifacts are left out.
    pub(crate) fn versions(&self) -> Result<Vec<(String, String)>, RepositoryError> {
        let mut versions = Vec::new();
        for (_, _, digest) in self.artifacts()? {
            if !blobs::is_component(self, &digest)? {
                continue;
            }
            if let Some(document) = blobs::descriptor(self, &digest)? {
                versions.extend(Descriptor::name_and_version(&document));
            }
        }
        Ok(versions)
    }

    fn parse_entry(&self, text: &str) -> Result<Digest, RepositoryError> {
        let wrong = || malformed(self.tree.address(INDEX_FILE), &format!("{text:?} is not a sha256 digest"));
        Digest::parse(text).ok_or_else(wrong)
    }

    /// Returns the digest of the artifact of a component version.
    fn find(
        &self,
        context: &RepositoryContext,
        name: &str,
        version: &str,
    ) -> Result<Option<Digest>, RepositoryError> {
        let key = (artifact::repository_path(context, name)?, artifact::tag(version));
        let index = self.index()?;
        let Some(text) = index.get(&key) else { return Ok(None) };
        self.parse_entry(text).map(Some)
    }
}

impl Blobs for Ctf {
    fn address(&self, digest: &Digest) -> String {
        self.tree.address(&format!("{BLOB_DIRECTORY}/{}", digest.file_name()))
    }

    fn manifest(&self, digest: &Digest) -> Result<Blob, RepositoryError> {
        self.blob(digest)
    }

    fn blob(&self, digest: &Digest) -> Result<Blob, RepositoryError> {
        let opened = self.tree.file(&format!("{BLOB_DIRECTORY}/{}", digest.file_name()))?;
        let opened = opened.ok_or_else(|| RepositoryError::Missing { address: self.address(digest) })?;
        Ok(Blob { media_type: String::new(), size: Some(opened.size), body: opened.body })
    }
}

/// Archive as the repository of one context.
#[derive(Debug)]
pub(crate) struct CtfRepository {
    pub(crate) archive: Arc<Ctf>,
    pub(crate) context: RepositoryContext,
}

impl Repository for CtfRepository {
    fn descriptor(&self, name: &str, version: &str) -> Result<Option<Vec<u8>>, RepositoryError> {
        match self.archive.find(&self.context, name, version)? {
            Some(manifest) => blobs::descriptor(&*self.archive, &manifest),
            None => Ok(None),
        }
    }

    fn content(&self, _: &str, _: &str, access: &Access) -> Result<Blob, RepositoryError> {
        let Access::Local { reference, media_type } = access else {
            return Err(RepositoryError::Offline { address: access.to_string() });
        };
        blobs::local(&*self.archive, &self.archive.tree.address(""), reference, media_type)
    }

    fn artifact_digest(
        &self,
        name: &str,
        version: &str,
        access: &Access,
    ) -> Result<Option<String>, RepositoryError> {
        artifact_set::digest_of_local(self, (name, version), access)
    }
}

#[cfg(test)]
mod tests;
