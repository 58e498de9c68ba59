//! Files below one root: a directory, or an archive that is read in place.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use flate2::read::MultiGzDecoder;
use groundwork_component::RepositoryError;

/// Limit for the entries of an archive.
const MOST_ENTRIES: usize = 100_000;
/// Factor by which a compressed archive may expand; small archives may expand to a fixed size.
const EXPANSION: u64 = 100;
const SMALL: u64 = 64 << 20;
const LARGEST: u64 = 8 << 30;
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Time and length of a file, which show that it has been written again.
pub(crate) type Stamp = (Option<SystemTime>, u64);

/// Directory or archive.
#[derive(Debug, Clone)]
pub(crate) enum Tree {
    Directory(PathBuf),
    Archive(Arc<TarFile>),
}

/// Regular file of a tree.
pub(crate) struct Opened {
    pub(crate) size: u64,
    pub(crate) body: Box<dyn Read + Send>,
}

/// Direct entry of a directory of a tree.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) is_directory: bool,
}

impl Tree {
    /// Opens the archive at `path`.
    pub(crate) fn open_archive(path: &Path) -> Result<Self, RepositoryError> {
        // Opening a pipe without a writer would block without end.
        let metadata = path.metadata().map_err(|error| unreadable(path, &error))?;
        if !metadata.is_file() {
            return Err(malformed(path.display().to_string(), "it is not a regular file"));
        }
        TarFile::open(path).map(|file| Self::Archive(Arc::new(file)))
    }

    /// Returns the name of a file of the tree for messages.
    pub(crate) fn address(&self, name: &str) -> String {
        match self {
            Self::Directory(root) => root.join(name).display().to_string(),
            Self::Archive(archive) => format!("{}/{name}", archive.path.display()),
        }
    }

    /// Returns the stamp of a file. All files of an archive have the stamp of the archive file.
    pub(crate) fn stamp(&self, name: &str) -> Option<Stamp> {
        let path = match self {
            Self::Directory(root) => root.join(name),
            Self::Archive(archive) => archive.path.clone(),
        };
        stamp(&path)
    }

    /// Opens a regular file if it exists. The caller has checked that the name stays below the
    /// root.
    pub(crate) fn file(&self, name: &str) -> Result<Option<Opened>, RepositoryError> {
        match self {
            Self::Archive(archive) => Ok(archive.file(name)),
            Self::Directory(root) => {
                let path = root.join(name);
                let unreadable = |error: io::Error| unreadable(&path, &error);
                let metadata = match path.metadata() {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                    metadata => metadata.map_err(unreadable)?,
                };
                // Opening a pipe without a writer would block without end.
                if !metadata.is_file() {
                    return Err(malformed(self.address(name), "it is not a regular file"));
                }
                let body = File::open(&path).map_err(unreadable)?;
                Ok(Some(Opened { size: metadata.len(), body: Box::new(body) }))
            }
        }
    }

    /// Reads a whole file; a missing file is an error.
    pub(crate) fn read(&self, name: &str, limit: u64) -> Result<Vec<u8>, RepositoryError> {
        let address = self.address(name);
        let opened = self.file(name)?.ok_or_else(|| RepositoryError::Missing { address: address.clone() })?;
        let blob = groundwork_component::Blob {
            media_type: String::new(),
            size: Some(opened.size),
            body: opened.body,
        };
        blob.read_all(&address, limit)
    }

    /// Lists the direct entries of a directory in the order of their names; a missing directory
    /// counts as empty. Entries that are neither files nor directories are left out.
    pub(crate) fn list(&self, directory: &str) -> Result<Vec<Entry>, RepositoryError> {
        match self {
            Self::Archive(archive) => Ok(archive.list(directory)),
            Self::Directory(root) => {
                let path = root.join(directory);
                let mut found = Vec::new();
                let entries = match path.read_dir() {
                    Err(error)
                        if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
                    {
                        return Ok(found);
                    }
                    entries => entries.map_err(|error| unreadable(&path, &error))?,
                };
                for entry in entries {
                    let entry = entry.map_err(|error| unreadable(&path, &error))?;
                    let kind = entry.file_type().map_err(|error| unreadable(&path, &error))?;
                    if (kind.is_file() || kind.is_dir())
                        && let Ok(name) = entry.file_name().into_string()
                    {
                        found.push(Entry { name, is_directory: kind.is_dir() });
                    }
                    if found.len() > MOST_ENTRIES {
                        return Err(malformed(path.display().to_string(), "it has too many entries"));
                    }
                }
                found.sort();
                Ok(found)
            }
        }
    }
}

/// Tar with the positions of its regular files. A compressed one has been unpacked into an unnamed
/// temporary file.
#[derive(Debug)]
pub(crate) struct TarFile {
    path: PathBuf,
    file: Arc<File>,
    /// Offset and size by name. Of two files with the same name the last one is used.
    files: BTreeMap<String, (u64, u64)>,
}

impl TarFile {
    fn open(path: &Path) -> Result<Self, RepositoryError> {
        let unreadable = |error: io::Error| unreadable(path, &error);
        let mut file = File::open(path).map_err(unreadable)?;
        let mut magic = Vec::new();
        (&mut file).take(2).read_to_end(&mut magic).map_err(unreadable)?;
        file.seek(SeekFrom::Start(0)).map_err(unreadable)?;
        if magic == GZIP {
            file = decompress(path, &file)?;
        }
        let files = index(path, &file)?;
        Ok(Self { path: path.to_owned(), file: Arc::new(file), files })
    }

    fn file(&self, name: &str) -> Option<Opened> {
        let (offset, size) = *self.files.get(name)?;
        let section = Section { file: Arc::clone(&self.file), offset, left: size };
        Some(Opened { size, body: Box::new(section) })
    }

    fn list(&self, directory: &str) -> Vec<Entry> {
        let prefix = if directory.is_empty() {
            String::new()
        } else {
            format!("{}/", directory.trim_end_matches('/'))
        };
        let below = self.files.range(prefix.clone()..).take_while(|(name, _)| name.starts_with(&prefix));
        let entries: BTreeSet<Entry> = below
            .map(|(name, _)| match name[prefix.len()..].split_once('/') {
                Some((first, _)) => Entry { name: first.to_owned(), is_directory: true },
                None => Entry { name: name[prefix.len()..].to_owned(), is_directory: false },
            })
            .collect();
        entries.into_iter().collect()
    }
}

fn decompress(path: &Path, file: &File) -> Result<File, RepositoryError> {
    let unreadable = |error: io::Error| unreadable(path, &error);
    let packed = file.metadata().map_err(unreadable)?.len();
    let limit = packed.saturating_mul(EXPANSION).clamp(SMALL, LARGEST);
    let mut target = tempfile::tempfile().map_err(unreadable)?;
    // One byte more than allowed shows that the content is too large.
    let mut source = MultiGzDecoder::new(file).take(limit + 1);
    let copied = io::copy(&mut source, &mut target)
        .map_err(|error| malformed(path.display().to_string(), &format!("broken gzip: {error}")))?;
    if copied > limit {
        return Err(RepositoryError::TooLarge { address: format!("{} unpacked", path.display()), limit });
    }
    target.flush().map_err(unreadable)?;
    target.seek(SeekFrom::Start(0)).map_err(unreadable)?;
    Ok(target)
}

fn index(path: &Path, file: &File) -> Result<BTreeMap<String, (u64, u64)>, RepositoryError> {
    let wrong = |problem: String| malformed(path.display().to_string(), &problem);
    let length = file.metadata().map_err(|error| unreadable(path, &error))?.len();
    let mut archive = tar::Archive::new(file);
    let mut files = BTreeMap::new();
    let entries = archive.entries_with_seek().map_err(|error| wrong(format!("broken tar: {error}")))?;
    for (count, entry) in entries.enumerate() {
        let entry = entry.map_err(|error| wrong(format!("broken tar: {error}")))?;
        if count >= MOST_ENTRIES {
            return Err(wrong(format!("it has more than {MOST_ENTRIES} entries")));
        }
        let written = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let name =
            inside(&written).ok_or_else(|| wrong(format!("the entry {written:?} leaves the archive")))?;
        // Links and devices are not followed, so their names have no content.
        if entry.header().entry_type().is_file() {
            let (offset, size) = (entry.raw_file_position(), entry.size());
            if offset.checked_add(size).is_none_or(|end| end > length) {
                return Err(wrong(format!("broken tar: the entry {written:?} is cut off")));
            }
            files.insert(name, (offset, size));
        }
    }
    Ok(files)
}

/// Returns the normalized name if it stays below the root.
fn inside(written: &str) -> Option<String> {
    if written.starts_with('/') {
        return None;
    }
    let mut parts = Vec::new();
    for part in written.split('/') {
        match part {
            "" | "." => {}
            ".." => return None,
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Reports whether the file name in a descriptor stays below the root.
pub(crate) fn is_inside(name: &str) -> bool {
    !name.is_empty() && !name.contains(['\\', '\0']) && inside(name).as_deref() == Some(name)
}

/// Part of a file. Each reader has its own position.
struct Section {
    file: Arc<File>,
    offset: u64,
    left: u64,
}

impl Read for Section {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        use std::os::unix::fs::FileExt;
        let wanted = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let count = self.file.read_at(&mut buffer[..wanted], self.offset)?;
        if count == 0 && wanted > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.offset += count as u64;
        self.left -= count as u64;
        Ok(count)
    }
}

pub(crate) fn stamp(path: &Path) -> Option<Stamp> {
    let metadata = path.metadata().ok()?;
    Some((metadata.modified().ok(), metadata.len()))
}

pub(crate) fn unreadable(path: &Path, error: &io::Error) -> RepositoryError {
    let address = path.display().to_string();
    match error.kind() {
        io::ErrorKind::NotFound => RepositoryError::Missing { address },
        _ => RepositoryError::Unreadable { address, cause: error.to_string() },
    }
}

/// Limit in characters for the text of a problem, which may quote untrusted text.
const LONGEST_PROBLEM: usize = 500;

pub(crate) fn malformed(address: String, problem: &str) -> RepositoryError {
    RepositoryError::Malformed { address, problem: shortened(problem, LONGEST_PROBLEM) }
}

/// Cuts a text to this number of characters.
pub(crate) fn shortened(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
