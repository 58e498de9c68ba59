//! Objects of a git repository: trees of packages, read and written in this process.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use gix_hash::{Kind as Hash, ObjectId};
use gix_object::tree::{Editor, EntryKind};
use gix_object::{
    Blob, Commit, CommitRef, Exists as _, Find as _, FindHeader as _, Kind, Tree, TreeRef, Write as _,
};
use groundwork_krm::Package;
use groundwork_untrusted::NameError;

use crate::git::limits::{MAX_COMMIT, MAX_KPTFILE, MAX_MESSAGE, MAX_OBJECT, MAX_TREE};
use crate::git::names::check_paths;

pub(crate) const KPTFILE: &str = "Kptfile";
/// Limit for nested directories, which no real package reaches.
pub(crate) const MAX_DEPTH: usize = 64;
/// Limit for the files of one package; each takes an object, even if it is empty.
pub(crate) const MAX_FILES: usize = 20_000;

/// Limit for the packs of a clone; it is packed long before.
const MAX_PACKS: u16 = 2_000;

/// Files of a package.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Content {
    pub texts: Package,
    /// Files that are not UTF-8, by path, each with the object ID of its content; they are kept
    /// unchanged.
    pub binaries: BTreeMap<String, ObjectId>,
}

/// Files of a package by path, as bytes.
pub type Files = BTreeMap<String, Vec<u8>>;

/// Reason why the objects of a package cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum ObjectsError {
    #[error("package {package:?} has a symbolic link or submodule at {path:?}")]
    Link { package: String, path: String },
    #[error("package {package:?} has {bytes} bytes, more than the allowed {allowed}")]
    TooLarge { package: String, bytes: u64, allowed: u64 },
    #[error("package {package:?} has more than {MAX_FILES} files, or directories more than {MAX_DEPTH} deep")]
    TooMany { package: String },
    #[error("invalid resource path: {0}")]
    Name(#[from] NameError),
    #[error("invalid resource path: {0:?} has more than {MAX_DEPTH} parts: put the file into fewer folders")]
    Deep(String),
    #[error("package must contain Kptfile at root")]
    NoKptfile,
    /// An object of a repository, or the kept part of it, is too long.
    #[error("{what} has {bytes} bytes, more than the allowed {allowed}")]
    TooLong { what: String, bytes: u64, allowed: u64 },
    /// An object that git itself would not have made.
    #[error("object {id} is damaged: it cannot be read as a {kind}")]
    Undecodable { id: ObjectId, kind: Kind },
    /// An object, or the base of its delta, cannot be read from the disk.
    #[error("object {id} cannot be read: {problem}")]
    Unreadable { id: ObjectId, problem: String },
    /// Error that an earlier look has found, with the same text.
    #[error("{0}")]
    Known(String),
    /// The repository was changed or deleted.
    #[error("the Repository was changed or deleted in the meantime")]
    Interrupted,
    /// The time of the look is up; see [`crate::git::limits::Look`].
    #[error("reading the repository takes longer than {} s at a time", crate::git::limits::LOOK.as_secs())]
    OutOfTime,
    /// The clone is damaged, or the disk fails.
    #[error("the local copy of the repository cannot be used: {0}")]
    Storage(String),
}

impl ObjectsError {
    /// Returns true if the pushed object is at fault, and not the clone or the disk.
    pub(crate) fn is_of_object(&self) -> bool {
        !matches!(self, Self::Storage(_) | Self::Interrupted | Self::OutOfTime)
    }
}

fn storage(error: impl std::fmt::Display) -> ObjectsError {
    ObjectsError::Storage(error.to_string())
}

fn unreadable(id: ObjectId, error: &impl std::fmt::Display) -> ObjectsError {
    ObjectsError::Unreadable { id, problem: error.to_string() }
}

/// Parsed part of a commit.
#[derive(Debug, Clone)]
pub struct CommitFacts {
    pub tree: ObjectId,
    pub parents: Vec<ObjectId>,
    /// Message, cut at the limit.
    pub message: String,
    pub author: String,
    /// Seconds since 1970.
    pub time: i64,
}

/// Author and time of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    pub name: String,
    pub email: String,
    /// Seconds since 1970.
    pub time: i64,
}

/// Object database of a clone, shared by threads: each operation takes its own handle.
#[derive(Clone)]
pub struct Objects(Arc<gix_odb::Store>);

impl std::fmt::Debug for Objects {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Objects").field(&self.0.path()).finish()
    }
}

impl Objects {
    /// Opens the object database of a bare repository.
    ///
    /// # Errors
    /// The repository does not exist.
    pub fn open(repository: &Path) -> Result<Self, ObjectsError> {
        // The default has slots for the present packs and a few more. A clone that gets a pack with
        // each fetch would become unreadable.
        let slots = gix_odb::store::init::Slots::Given(MAX_PACKS);
        let options = gix_odb::store::init::Options {
            slots,
            alloc_limit_bytes: Some(MAX_OBJECT),
            ..gix_odb::store::init::Options::default()
        };
        let store =
            gix_odb::Store::at_opts(repository.join("objects"), Hash::Sha1, &mut std::iter::empty(), options);
        store.map(|store| Self(Arc::new(store))).map_err(storage)
    }

    fn handle(&self) -> gix_odb::HandleArc {
        gix_odb::HandleArc::from(self.0.to_handle_arc())
    }

    pub fn has(&self, id: ObjectId) -> bool {
        self.handle().exists(&id)
    }

    /// Reads an object after a check of its size.
    fn read<'a>(
        &self,
        id: ObjectId,
        kind: Kind,
        what: &str,
        allowed: u64,
        buffer: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], ObjectsError> {
        let missing = || storage(format!("object {id} is missing"));
        let handle = self.handle();
        let header = handle.try_header(&id).map_err(|error| unreadable(id, &error))?.ok_or_else(missing)?;
        if header.kind != kind {
            return Err(ObjectsError::Undecodable { id, kind });
        }
        if header.size > allowed {
            return Err(ObjectsError::TooLong { what: what.to_owned(), bytes: header.size, allowed });
        }
        let found =
            handle.try_find(&id, buffer).map_err(|error| unreadable(id, &error))?.ok_or_else(missing)?;
        Ok(found.data)
    }

    /// Reads a commit.
    ///
    /// # Errors
    /// The commit is missing or too long, or the object is not a commit.
    pub fn commit(&self, id: ObjectId) -> Result<CommitFacts, ObjectsError> {
        let mut buffer = Vec::new();
        let data = self.read(id, Kind::Commit, &format!("commit {id}"), MAX_COMMIT, &mut buffer)?;
        let undecodable = || ObjectsError::Undecodable { id, kind: Kind::Commit };
        let commit = CommitRef::from_bytes(data, Hash::Sha1).map_err(|_| undecodable())?;
        let author = commit.author().map_err(|_| undecodable())?;
        let committer = commit.committer().map_err(|_| undecodable())?;
        let message = commit.message.get(..MAX_MESSAGE).unwrap_or(commit.message);
        Ok(CommitFacts {
            tree: commit.tree(),
            parents: commit.parents().collect(),
            message: String::from_utf8_lossy(message).into_owned(),
            author: String::from_utf8_lossy(author.trim().name).into_owned(),
            time: committer.time().map_or(0, |time| time.seconds),
        })
    }

    /// Returns the content of a file, whose size was checked when its package was read.
    ///
    /// # Errors
    /// The object is missing.
    pub fn blob(&self, id: ObjectId) -> Result<Vec<u8>, ObjectsError> {
        let mut buffer = Vec::new();
        let allowed = u64::try_from(MAX_OBJECT).unwrap_or(u64::MAX);
        Ok(self.read(id, Kind::Blob, &format!("file {id}"), allowed, &mut buffer)?.to_vec())
    }

    /// Writes the content of a file; no ref leads to it yet.
    ///
    /// # Errors
    /// The disk fails.
    pub fn write_blob(&self, content: &[u8]) -> Result<ObjectId, ObjectsError> {
        self.handle().write_buf(Kind::Blob, content).map_err(storage)
    }

    /// Returns the entries of a tree.
    pub(crate) fn tree(&self, id: ObjectId) -> Result<Tree, ObjectsError> {
        let mut buffer = Vec::new();
        let data = self.read(id, Kind::Tree, &format!("directory {id}"), MAX_TREE, &mut buffer)?;
        let tree = TreeRef::from_bytes(data, Hash::Sha1);
        Ok(tree.map_err(|_| ObjectsError::Undecodable { id, kind: Kind::Tree })?.into_owned())
    }

    /// Returns the directory of a package in a tree; `None` if the path is missing or not a
    /// directory.
    ///
    /// # Errors
    /// An object on the path is damaged.
    pub fn directory(&self, tree: ObjectId, path: &str) -> Result<Option<ObjectId>, ObjectsError> {
        let mut id = tree;
        for part in path.split('/').filter(|part| !part.is_empty()) {
            let tree = self.tree(id)?;
            let entry = tree.entries.iter().find(|entry| entry.filename == part.as_bytes());
            match entry {
                Some(entry) if entry.mode.is_tree() => id = entry.oid,
                _ => return Ok(None),
            }
        }
        Ok(Some(id))
    }

    /// Returns the text of a package's Kptfile; `None` if there is none, so that the directory is
    /// not a package.
    ///
    /// # Errors
    /// An object is damaged, or too long.
    pub fn kptfile(&self, directory: ObjectId) -> Result<Option<String>, ObjectsError> {
        let Some(id) = kptfile_of(&self.tree(directory)?) else { return Ok(None) };
        let mut buffer = Vec::new();
        let text = self.read(id, Kind::Blob, "the Kptfile", MAX_KPTFILE, &mut buffer)?;
        Ok(Some(String::from_utf8_lossy(text).into_owned()))
    }

    /// Returns true if a directory is a package.
    ///
    /// # Errors
    /// An object is damaged.
    pub fn has_kptfile(&self, directory: ObjectId) -> Result<bool, ObjectsError> {
        Ok(kptfile_of(&self.tree(directory)?).is_some())
    }

    /// Returns all files of a package.
    ///
    /// # Errors
    /// The package has links, unsafe names, or more files or bytes than allowed.
    pub fn content(&self, package: &str, directory: ObjectId, allowed: u64) -> Result<Content, ObjectsError> {
        let mut content = Content::default();
        let mut bytes = 0;
        let handle = self.handle();
        self.walk(package, directory, |path, kind, id| {
            if matches!(kind, EntryKind::Link | EntryKind::Commit) {
                return Err(ObjectsError::Link { package: package.to_owned(), path });
            }
            if content.texts.len() + content.binaries.len() == MAX_FILES {
                return Err(ObjectsError::TooMany { package: package.to_owned() });
            }
            // Check the size in the object's header first, so that an object that is too large is
            // never read.
            let header = handle.try_header(&id).map_err(storage)?;
            bytes = header.map_or(0, |header| header.size).saturating_add(bytes);
            if bytes > allowed {
                return Err(ObjectsError::TooLarge { package: package.to_owned(), bytes, allowed });
            }
            let mut buffer = Vec::new();
            match std::str::from_utf8(self.read(id, Kind::Blob, &path, allowed, &mut buffer)?) {
                Ok(text) => drop(content.texts.insert(path, text.to_owned())),
                Err(_) => drop(content.binaries.insert(path, id)),
            }
            Ok(())
        })?;
        Ok(content)
    }

    /// Returns the files with the executable bit.
    fn executables(&self, directory: ObjectId) -> Result<BTreeSet<String>, ObjectsError> {
        let mut found = BTreeSet::new();
        self.walk("", directory, |path, kind, _| {
            if kind == EntryKind::BlobExecutable {
                found.insert(path);
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Writes the directory of a package. A path that was executable in `before` stays executable.
    ///
    /// # Errors
    /// A path is invalid, the Kptfile is missing, or the disk fails.
    pub fn write_package(
        &self,
        content: &Content,
        before: Option<ObjectId>,
    ) -> Result<ObjectId, ObjectsError> {
        let paths = content.texts.keys().chain(content.binaries.keys());
        check_paths(&paths.map(String::as_str).collect::<Vec<_>>())?;
        let executable = before.map(|tree| self.executables(tree)).transpose()?.unwrap_or_default();
        let handle = self.handle();
        let mut editor = Editor::new(Tree::empty(), &handle, Hash::Sha1);
        let mut put = |path: &str, id: ObjectId| {
            let kind = if executable.contains(path) { EntryKind::BlobExecutable } else { EntryKind::Blob };
            editor.upsert(path.split('/'), kind, id).map(drop).map_err(storage)
        };
        for (path, text) in &content.texts {
            let id = handle.write_buf(Kind::Blob, text.as_bytes()).map_err(storage)?;
            put(path, id)?;
        }
        for (path, id) in &content.binaries {
            put(path, *id)?;
        }
        editor.write(|tree| handle.write(tree)).map_err(storage)
    }

    /// Writes a tree in which the directory of a package is replaced or removed.
    ///
    /// # Errors
    /// An object is damaged, or the disk fails.
    pub fn replace(
        &self,
        tree: Option<ObjectId>,
        path: &str,
        package: Option<ObjectId>,
    ) -> Result<ObjectId, ObjectsError> {
        let handle = self.handle();
        let root = tree.map_or_else(|| Ok(Tree::empty()), |id| self.tree(id))?;
        let mut editor = Editor::new(root, &handle, Hash::Sha1);
        match package {
            Some(package) => editor.upsert(path.split('/'), EntryKind::Tree, package),
            None => editor.remove(path.split('/')),
        }
        .map_err(storage)?;
        editor.write(|tree| handle.write(tree)).map_err(storage)
    }

    /// Writes a text file.
    ///
    /// # Errors
    /// The disk fails.
    pub fn write_text(&self, text: &str) -> Result<ObjectId, ObjectsError> {
        self.handle().write(&Blob { data: text.as_bytes().to_vec() }).map_err(storage)
    }

    /// Writes a tree with one more file.
    ///
    /// # Errors
    /// The disk fails.
    pub fn with_file(
        &self,
        tree: Option<ObjectId>,
        path: &str,
        text: &str,
    ) -> Result<ObjectId, ObjectsError> {
        let blob = self.write_text(text)?;
        let handle = self.handle();
        let root = tree.map_or_else(|| Ok(Tree::empty()), |id| self.tree(id))?;
        let mut editor = Editor::new(root, &handle, Hash::Sha1);
        editor.upsert(path.split('/'), EntryKind::Blob, blob).map_err(storage)?;
        editor.write(|tree| handle.write(tree)).map_err(storage)
    }

    /// Writes a commit.
    ///
    /// # Errors
    /// The disk fails.
    pub fn write_commit(
        &self,
        tree: ObjectId,
        parents: &[ObjectId],
        signature: &Signature,
        message: &str,
    ) -> Result<ObjectId, ObjectsError> {
        let who = gix_actor::Signature {
            name: one_line(&signature.name).into(),
            email: one_line(&signature.email).into(),
            time: gix_date::Time { seconds: signature.time, offset: 0 },
        };
        let commit = Commit {
            tree,
            parents: parents.iter().copied().collect(),
            author: who.clone(),
            committer: who,
            encoding: None,
            message: message.into(),
            extra_headers: Vec::new(),
        };
        self.handle().write(&commit).map_err(storage)
    }
}

/// Returns the file that makes a directory a package.
pub(crate) fn kptfile_of(tree: &Tree) -> Option<ObjectId> {
    let is_kptfile = |entry: &&gix_object::tree::Entry| entry.filename == KPTFILE && entry.mode.is_blob();
    tree.entries.iter().find(is_kptfile).map(|entry| entry.oid)
}

/// Removes control characters and angle brackets from an author's name, since git uses them as
/// delimiters.
fn one_line(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() && !matches!(c, '<' | '>')).collect::<String>().trim().to_owned()
}
