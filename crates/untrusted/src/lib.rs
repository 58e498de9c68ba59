//! Checks file names and network addresses from untrusted sources: which names Groundwork may
//! write, and which addresses it may reach.
//!
//! # Names (`packagevariants.md` 6.15)
//!
//! A tree that is written on one machine is read on others, and some file systems and git treat
//! different names as the same. So a name is refused everywhere if on any system it means another
//! file than the one that it names.
//!
//! ```text
//! names of a tree ──Names::add──> Ok, or the NameError of the first one that must not be there
//! ```

mod address;
mod part;

use std::collections::HashMap;

pub use address::is_public;
use part::{check_part, folded};

/// Limit for one part of a path in bytes, the same as that of most file systems.
const LONGEST_PART: usize = 255;
/// Limit for a path in bytes, the same as that of macOS.
const LONGEST_PATH: usize = 1_024;
/// Characters of a name that a message shows.
const SHOWN: usize = 200;

/// Reason that a file name is refused. Messages shorten very long names.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    #[error("a file has an empty name: give it one")]
    Empty,
    #[error(
        "{path:?} is absolute: a name is relative to the folder of its tree, so leave the first slash out"
    )]
    Absolute { path: String },
    #[error(
        "{path:?} has the part {part:?}, which is not the name of a file or folder: write the path without it"
    )]
    NoName { path: String, part: String },
    #[error("{path:?} has more than {LONGEST_PART} bytes in a part, or {LONGEST_PATH} in all: shorten it")]
    Long { path: String },
    #[error("{path:?} is not UTF-8: rename the file")]
    NotUtf8 { path: String },
    #[error("{path:?} is one entry of a directory, but contains a slash: rename it")]
    Slash { path: String },
    #[error("{path:?} has a backslash, which separates folders on Windows: rename the file")]
    Backslash { path: String },
    #[error("{path:?} has a control character: rename the file")]
    Control { path: String },
    #[error("{path:?} has the part {part:?}, which is a drive on Windows: rename it")]
    Drive { path: String, part: String },
    #[error("{path:?} has the part {part:?}, which is a device on Windows: rename it")]
    Device { path: String, part: String },
    #[error(
        "{path:?} has the part {part:?}, which some file systems take for .git, whose files run commands: remove it"
    )]
    Git { path: String, part: String },
    #[error("{path:?} has the part {part:?}, a file from which git reads what to fetch or to run: remove it")]
    GitSettings { path: String, part: String },
    #[error("{path:?} occurs twice: remove one of them")]
    Twice { path: String },
    #[error(
        "{path:?} and {other:?} are the same file on systems that ignore letter case and Unicode forms: rename one of \
         them"
    )]
    Same { path: String, other: String },
    #[error("{path:?} is a file, and a directory of {below:?}: rename one of them")]
    DirectoryOf { path: String, below: String },
}

/// Shortens a name for a message.
fn shown(name: &str) -> String {
    match name.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}

/// Returns the name of one entry of a directory, as a git tree or an archive has it.
///
/// # Errors
/// The name is not UTF-8, or has a slash, so it is not a single name.
pub fn entry(name: &[u8]) -> Result<&str, NameError> {
    let lossy = || shown(&String::from_utf8_lossy(name));
    let name = std::str::from_utf8(name).map_err(|_| NameError::NotUtf8 { path: lossy() })?;
    if name.contains('/') { Err(NameError::Slash { path: lossy() }) } else { Ok(name) }
}

/// Checks one path, with `/` between its parts; [`Names`] checks those of a whole tree.
///
/// # Errors
/// The path is refused.
pub fn check(path: &str) -> Result<(), NameError> {
    if path.is_empty() {
        return Err(NameError::Empty);
    }
    if path.starts_with('/') {
        return Err(NameError::Absolute { path: shown(path) });
    }
    if path.len() > LONGEST_PATH || path.split('/').any(|part| part.len() > LONGEST_PART) {
        return Err(NameError::Long { path: shown(path) });
    }
    path.split('/').try_for_each(|part| check_part(path, part))
}

/// Names of one tree, which must be different files on every file system.
#[derive(Debug, Clone, Default)]
pub struct Names {
    root: Directory,
}

/// Entries of a directory by their folded names, as the most tolerant file systems compare them.
type Directory = HashMap<String, Known>;

#[derive(Debug, Clone)]
struct Known {
    name: String,
    /// Entries of a directory; `None` for a file.
    entries: Option<Directory>,
}

impl Names {
    /// Adds the name of a file.
    ///
    /// # Errors
    /// The name is refused, or conflicts with one that was added before.
    pub fn add(&mut self, path: &str) -> Result<(), NameError> {
        check(path)?;
        let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
        let directory = self.directory(path, folders)?;
        match directory.get(&folded(name)) {
            None => {}
            Some(found) if found.name != name => return Err(same(path, folders, &found.name)),
            Some(Known { entries: Some(entries), .. }) => {
                let below = entries.values().map(|known| known.name.as_str()).min().unwrap_or_default();
                return Err(NameError::DirectoryOf {
                    path: shown(path),
                    below: shown(&format!("{path}/{below}")),
                });
            }
            Some(_) => return Err(NameError::Twice { path: shown(path) }),
        }
        directory.insert(folded(name), Known { name: name.to_owned(), entries: None });
        Ok(())
    }

    /// Adds the name of a directory, which may be empty.
    ///
    /// # Errors
    /// As for [`Self::add`].
    pub fn add_directory(&mut self, path: &str) -> Result<(), NameError> {
        check(path)?;
        self.directory(path, path).map(drop)
    }

    /// Returns the directory at `folders`, and creates it if necessary; `path` is the whole name
    /// that is added.
    fn directory(&mut self, path: &str, folders: &str) -> Result<&mut Directory, NameError> {
        let mut directory = &mut self.root;
        let mut end = 0;
        for name in folders.split('/').filter(|name| !name.is_empty()) {
            let above = path[..end].trim_end_matches('/');
            end += name.len();
            let here = &path[..end];
            end += 1;
            let new = || Known { name: name.to_owned(), entries: Some(Directory::new()) };
            let found = directory.entry(folded(name)).or_insert_with(new);
            if found.name != name {
                return Err(same(here, above, &found.name));
            }
            match &mut found.entries {
                Some(entries) => directory = entries,
                None => return Err(NameError::DirectoryOf { path: shown(here), below: shown(path) }),
            }
        }
        Ok(directory)
    }
}

/// Checks the names of a whole tree.
///
/// # Errors
/// A name is refused, or two names conflict.
pub fn check_all<'a>(paths: impl IntoIterator<Item = &'a str>) -> Result<(), NameError> {
    let mut names = Names::default();
    paths.into_iter().try_for_each(|path| names.add(path))
}

/// Returns the error that two names of a directory are the same file on some system.
fn same(path: &str, directory: &str, other: &str) -> NameError {
    let other = if directory.is_empty() { other.to_owned() } else { format!("{directory}/{other}") };
    NameError::Same { path: shown(path), other: shown(&other) }
}

#[cfg(test)]
mod tests;
