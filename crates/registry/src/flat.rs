//! Descriptors as plain files: component archives, and directories of descriptors (`components.md`
//! 6.5, 6.6).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use groundwork_component::{Access, Blob, Descriptor, Repository, RepositoryError};

use crate::artifact::{DESCRIPTOR_FILE, LARGEST_DOCUMENT};
use crate::artifact_set;
use crate::blobs::LARGEST_BLOB;
use crate::digest::{Digest, Verified};
use crate::tree::{Stamp, Tree, is_inside, malformed};
use crate::write::pack;

const BLOBS: &str = "blobs";
/// Size limit in bytes of a directory that is packed as one content, since the tar is built in
/// memory.
const LARGEST_PACKED: u64 = 64 << 20;
const DEEPEST: usize = 32;

/// Bytes of a descriptor, by name and version.
type Index = Arc<BTreeMap<(String, String), Vec<u8>>>;

/// Descriptors of a tree and the blobs beside them.
#[derive(Debug)]
pub(crate) struct Flat {
    tree: Tree,
    /// True if the tree is a component archive, which has one descriptor; a directory of
    /// descriptors may have many.
    is_archive: bool,
    index: Mutex<Option<(Stamp, Index)>>,
}

impl Flat {
    pub(crate) fn new(tree: Tree) -> Result<Self, RepositoryError> {
        let is_archive = tree.file(DESCRIPTOR_FILE)?.is_some() && {
            let files = tree.list("")?;
            files.iter().filter(|entry| !entry.is_directory).count() == 1
        };
        Ok(Self { tree, is_archive, index: Mutex::new(None) })
    }

    pub(crate) fn tree(&self) -> &Tree {
        &self.tree
    }

    fn index(&self) -> Result<Index, RepositoryError> {
        let mut kept = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = self.tree.stamp(if self.is_archive { DESCRIPTOR_FILE } else { "" });
        if let Some((known, index)) = &*kept
            && stamp.as_ref() == Some(known)
        {
            return Ok(Arc::clone(index));
        }
        let mut index = BTreeMap::new();
        for entry in self.tree.list("")?.into_iter().filter(|entry| !entry.is_directory) {
            let bytes = self.tree.read(&entry.name, LARGEST_DOCUMENT)?;
            let address = self.tree.address(&entry.name);
            let id = Descriptor::name_and_version(&bytes).map_err(|error| {
                let problem = format!(
                    "the file is not a component descriptor, but each file here must be one: {error}"
                );
                malformed(address.clone(), &problem)
            })?;
            if index.insert(id.clone(), bytes).is_some() {
                let problem = format!("{}:{} is also described by another file", id.0, id.1);
                return Err(malformed(address, &problem));
            }
        }
        let index = Arc::new(index);
        *kept = stamp.map(|stamp| (stamp, Arc::clone(&index)));
        Ok(index)
    }

    /// Returns name and version of every descriptor, in this order.
    pub(crate) fn versions(&self) -> Result<Vec<(String, String)>, RepositoryError> {
        Ok(self.index()?.keys().cloned().collect())
    }

    /// Returns the path of a blob: in the folder of blobs, or at the root if that folder does not
    /// exist.
    fn blob_name(&self, name: &str) -> Result<String, RepositoryError> {
        let has_folder = !self.tree.list(BLOBS)?.is_empty();
        Ok(if has_folder || self.is_archive { format!("{BLOBS}/{name}") } else { name.to_owned() })
    }

    fn blob(&self, reference: &str) -> Result<Blob, RepositoryError> {
        // A reference may be a digest as in registries, or the file name made from the digest.
        let digest = Digest::parse(reference);
        let name = digest.as_ref().map_or_else(|| reference.to_owned(), Digest::file_name);
        if !is_inside(&name) {
            let problem = format!("{reference:?} is not the name of a file in it");
            return Err(malformed(self.tree.address(""), &problem));
        }
        let path = self.blob_name(&name)?;
        let address = self.tree.address(&path);
        let entries = self.tree.list(&path)?;
        if !entries.is_empty() {
            let mut files = Vec::new();
            let mut left = LARGEST_PACKED;
            self.collect(&path, "", &mut files, &mut left, DEEPEST)?;
            let files = files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice()));
            return Ok(Blob::from_bytes("application/x-tar", pack(files)));
        }
        let opened =
            self.tree.file(&path)?.ok_or_else(|| RepositoryError::Missing { address: address.clone() })?;
        // If the name is a digest, the content has to match it.
        let promised = digest.or_else(|| Digest::parse(&name.replacen('.', ":", 1)));
        let body: Box<dyn std::io::Read + Send> = match promised {
            Some(digest) => Box::new(Verified::new(opened.body, digest, address, LARGEST_BLOB)),
            None => opened.body,
        };
        Ok(Blob { media_type: String::new(), size: Some(opened.size), body })
    }

    fn collect(
        &self,
        root: &str,
        below: &str,
        files: &mut Vec<(String, Vec<u8>)>,
        left: &mut u64,
        depth: usize,
    ) -> Result<(), RepositoryError> {
        let path = |name: &str| if below.is_empty() { name.to_owned() } else { format!("{below}/{name}") };
        if depth == 0 {
            return Err(malformed(self.tree.address(root), "its directories are nested too deeply"));
        }
        let directory = if below.is_empty() { root.to_owned() } else { format!("{root}/{below}") };
        for entry in self.tree.list(&directory)? {
            let name = path(&entry.name);
            if entry.is_directory {
                self.collect(root, &name, files, left, depth - 1)?;
                continue;
            }
            let bytes = self.tree.read(&format!("{root}/{name}"), *left)?;
            *left -= bytes.len() as u64;
            files.push((name, bytes));
        }
        Ok(())
    }
}

impl Repository for Flat {
    fn descriptor(&self, name: &str, version: &str) -> Result<Option<Vec<u8>>, RepositoryError> {
        Ok(self.index()?.get(&(name.to_owned(), version.to_owned())).cloned())
    }

    fn content(&self, _: &str, _: &str, access: &Access) -> Result<Blob, RepositoryError> {
        match access {
            Access::Local { reference, .. } => self.blob(reference),
            _ => Err(RepositoryError::Offline { address: access.to_string() }),
        }
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
