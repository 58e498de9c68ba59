//! Folder whose files cannot lead out of it: all access goes through one open handle, and links
//! below it are never followed.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use cap_fs_ext::{DirExt as _, FollowSymlinks, OpenOptionsFollowExt as _};
use cap_std::ambient_authority;
use cap_std::fs::{Dir, Metadata, OpenOptions};
use groundwork_untrusted::NameError;

/// Reason that a file of a folder was not read or written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FolderError {
    #[error("cannot read {path}: {source}", path = path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write {path}: {source}", path = path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("cannot write into {folder}: {source}", folder = folder.display())]
    Name { folder: PathBuf, source: NameError },
    #[error("{path}: the name is not UTF-8", path = path.display())]
    NotUtf8 { path: PathBuf },
    #[error("{path} is not a folder, and links are not followed: move it away", path = path.display())]
    NoFolder { path: PathBuf },
    #[error("{path} is not a regular file, so it is not replaced: move it away", path = path.display())]
    NoFile { path: PathBuf },
}

/// Kind of an entry of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryKind {
    File,
    Folder,
    /// Link, pipe or device.
    Other,
}

/// Open folder.
#[derive(Debug)]
pub(crate) struct Folder {
    /// Path of the folder, for messages.
    path: PathBuf,
    handle: Dir,
}

impl Folder {
    /// Opens the folder that the user named. Links in this path are followed, because the user
    /// wrote it.
    ///
    /// # Errors
    /// The folder does not exist, or cannot be read.
    pub(crate) fn open(path: &Path) -> Result<Self, FolderError> {
        match Dir::open_ambient_dir(path, ambient_authority()) {
            Ok(handle) => Ok(Self { path: path.to_owned(), handle }),
            Err(source) => Err(FolderError::Read { path: path.to_owned(), source }),
        }
    }

    /// Opens a folder, and creates it first if it does not exist.
    ///
    /// # Errors
    /// Fails as [`Self::open`] does, or if the folder cannot be created.
    pub(crate) fn create(path: &Path) -> Result<Self, FolderError> {
        fs::create_dir_all(path).map_err(|source| FolderError::Write { path: path.to_owned(), source })?;
        Self::open(path)
    }

    /// Opens a folder in this one.
    ///
    /// # Errors
    /// The folder does not exist. A link to a folder is an error, too.
    pub(crate) fn folder(&self, name: &str) -> Result<Self, FolderError> {
        let path = self.path.join(name);
        match self.handle.open_dir_nofollow(name) {
            Ok(handle) => Ok(Self { path, handle }),
            Err(source) if source.kind() == io::ErrorKind::NotFound => {
                Err(FolderError::Read { path, source })
            }
            Err(source) => match self.metadata(name)? {
                Some(found) if found.is_dir() => Err(FolderError::Read { path, source }),
                _ => Err(FolderError::NoFolder { path }),
            },
        }
    }

    /// Lists the entries in the order of their names.
    ///
    /// # Errors
    /// The folder cannot be read, or a name is not UTF-8.
    pub(crate) fn entries(&self) -> Result<Vec<(String, EntryKind)>, FolderError> {
        let failed = |source| FolderError::Read { path: self.path.clone(), source };
        let mut found = Vec::new();
        for entry in self.handle.entries().map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            let name =
                name.into_string().map_err(|name| FolderError::NotUtf8 { path: self.path.join(name) })?;
            let kind = entry.file_type().map_err(failed)?;
            let kind = match kind {
                kind if kind.is_dir() => EntryKind::Folder,
                kind if kind.is_file() => EntryKind::File,
                _ => EntryKind::Other,
            };
            found.push((name, kind));
        }
        found.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(found)
    }

    /// Reads a file directly in this folder.
    ///
    /// # Errors
    /// No regular file has this name. A link to a file is an error, too.
    pub(crate) fn read(&self, name: &str) -> Result<Vec<u8>, FolderError> {
        let failed = |source| FolderError::Read { path: self.path.join(name), source };
        // Opening a pipe without a writer would block without end.
        if self.metadata(name)?.is_some_and(|found| !found.is_file()) {
            return Err(failed(io::Error::other("not a regular file")));
        }
        let mut options = OpenOptions::new();
        let mut file =
            self.handle.open_with(name, options.read(true).follow(FollowSymlinks::No)).map_err(failed)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(failed)?;
        Ok(bytes)
    }

    /// Checks that a file can be written at a path, and reports whether a file exists there
    /// already.
    ///
    /// # Errors
    /// The name is not a valid file name, an entry on the way is not a folder, or the entry at the
    /// path is neither a file nor a link.
    pub(crate) fn check_place(&self, path: &str) -> Result<bool, FolderError> {
        let Some((parent, name)) = self.parent(path, false)? else { return Ok(false) };
        match parent.metadata(name)? {
            None => Ok(false),
            Some(found) if found.is_file() || found.is_symlink() => Ok(true),
            Some(_) => Err(FolderError::NoFile { path: self.path.join(path) }),
        }
    }

    /// Writes a file. An existing file or link is removed first, so that the write never goes
    /// through a link or into a file with a second name.
    ///
    /// # Errors
    /// As for [`Self::check_place`], or writing fails.
    pub(crate) fn write(&self, path: &str, bytes: &[u8]) -> Result<(), FolderError> {
        self.check_place(path)?;
        let failed = |source| FolderError::Write { path: self.path.join(path), source };
        let Some((parent, name)) = self.parent(path, true)? else {
            return Err(failed(io::ErrorKind::NotFound.into()));
        };
        let former = parent.metadata(name)?;
        let is_file = former.as_ref().is_some_and(Metadata::is_file);
        if is_file && parent.read(name).is_ok_and(|found| found == bytes) {
            return Ok(());
        }
        if former.is_some() {
            parent.handle.remove_file_or_symlink(name).map_err(failed)?;
        }
        let mut options = OpenOptions::new();
        let options = options.write(true).create_new(true).follow(FollowSymlinks::No);
        let mut file = parent.handle.open_with(name, options).map_err(failed)?;
        file.write_all(bytes).map_err(failed)?;
        // Keep the permissions of the former file, such as the executable bit of a script.
        match former.filter(|_| is_file) {
            Some(former) => file.set_permissions(former.permissions()).map_err(failed),
            None => Ok(()),
        }
    }

    /// Removes a file that an earlier run wrote. An entry that is gone, lies behind a link, or is a
    /// folder was not written by us, and stays.
    ///
    /// # Errors
    /// Removing fails.
    pub(crate) fn remove(&self, path: &str) -> Result<(), FolderError> {
        let (parent, name) = match self.parent(path, false) {
            Ok(Some(found)) => found,
            Ok(None) | Err(FolderError::NoFolder { .. } | FolderError::Name { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        if !parent.metadata(name)?.is_some_and(|found| found.is_file()) {
            return Ok(());
        }
        let removed = parent.handle.remove_file(name);
        removed.map_err(|source| FolderError::Write { path: self.path.join(path), source })
    }

    /// Opens the folder of a file, and returns it with the file's name. Returns `None` if a folder
    /// does not exist and `makes` is false.
    fn parent<'a>(&self, path: &'a str, makes: bool) -> Result<Option<(Self, &'a str)>, FolderError> {
        let named = groundwork_untrusted::check(path);
        named.map_err(|source| FolderError::Name { folder: self.path.clone(), source })?;
        let handle = self.handle.try_clone();
        let handle = handle.map_err(|source| FolderError::Read { path: self.path.clone(), source })?;
        let mut folder = Self { path: self.path.clone(), handle };
        let mut parts = path.split('/');
        let name = parts.next_back().unwrap_or_default();
        for part in parts {
            if folder.metadata(part)?.is_none() {
                if !makes {
                    return Ok(None);
                }
                let made = folder.handle.create_dir(part);
                made.map_err(|source| FolderError::Write { path: folder.path.join(part), source })?;
            }
            folder = folder.folder(part)?;
        }
        Ok(Some((folder, name)))
    }

    /// Returns the metadata of an entry; of a link those of the link itself.
    fn metadata(&self, name: &str) -> Result<Option<Metadata>, FolderError> {
        match self.handle.symlink_metadata(name) {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(FolderError::Read { path: self.path.join(name), source }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn folder() -> (tempfile::TempDir, Folder) {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("in")).unwrap();
        fs::create_dir(place.path().join("out")).unwrap();
        fs::write(place.path().join("out/a"), "mine").unwrap();
        let folder = Folder::open(&place.path().join("in")).unwrap();
        (place, folder)
    }

    #[test]
    fn files_are_written_read_and_removed() {
        let (place, folder) = folder();
        assert!(!folder.check_place("a/b/c").unwrap());
        assert!(!place.path().join("in/a").exists());
        folder.write("a/b/c", b"1").unwrap();
        let file = place.path().join("in/a/b/c");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o750)).unwrap();
        folder.write("a/b/c", b"2").unwrap();
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o750);
        assert!(folder.check_place("a/b/c").unwrap());
        assert_eq!(folder.folder("a").unwrap().folder("b").unwrap().read("c").unwrap(), b"2");
        assert_eq!(folder.entries().unwrap(), [("a".to_owned(), EntryKind::Folder)]);
        folder.remove("a/b/c").unwrap();
        folder.remove("a/b/c").unwrap();
        folder.remove("x/y").unwrap();
        assert!(!file.exists());
    }

    #[test]
    fn no_link_is_followed() {
        let (place, folder) = folder();
        let (inside, outside) = (place.path().join("in"), place.path().join("out"));
        symlink(&outside, inside.join("dir")).unwrap();
        symlink(outside.join("a"), inside.join("file")).unwrap();
        symlink("nowhere", inside.join("broken")).unwrap();
        fs::hard_link(outside.join("a"), inside.join("hard")).unwrap();
        for path in ["dir/a", "dir/b", "dir/sub/b"] {
            assert!(matches!(folder.write(path, b"x").unwrap_err(), FolderError::NoFolder { .. }), "{path}");
            folder.remove(path).unwrap();
        }
        assert!(folder.folder("dir").is_err() && folder.read("file").is_err());
        folder.remove("file").unwrap();
        assert!(inside.join("file").exists());
        for path in ["file", "broken", "hard"] {
            folder.write(path, b"x").unwrap();
            assert_eq!(folder.read(path).unwrap(), b"x");
        }
        assert_eq!(fs::read_to_string(outside.join("a")).unwrap(), "mine");
        assert_eq!((fs::read_dir(outside).unwrap().count(), inside.join("nowhere").exists()), (1, false));
    }

    #[test]
    fn names_stay_below() {
        let (place, folder) = folder();
        for path in ["../out/b", "/tmp/b", "a/../../out/b", ".git/config", "a//b", ""] {
            let error = folder.write(path, b"x").unwrap_err();
            assert!(matches!(error, FolderError::Name { .. }), "{error}");
        }
        folder.remove("../out/a").unwrap();
        fs::create_dir(place.path().join("in/d")).unwrap();
        assert!(matches!(folder.write("d", b"x").unwrap_err(), FolderError::NoFile { .. }));
        assert!(place.path().join("out/a").exists());
    }
}
