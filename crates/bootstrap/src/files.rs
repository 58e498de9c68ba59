//! Writes files with credentials: atomically, and readable by one user only.

use std::fs::{self, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use crate::BootstrapError;

/// User and group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) user: u32,
    pub(crate) group: u32,
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> BootstrapError {
    let path = path.to_owned();
    move |source| BootstrapError::File { what, path, source }
}

/// Returns the owner of a file.
pub(crate) fn owner(path: &Path) -> Result<Owner, BootstrapError> {
    let data = fs::metadata(path).map_err(failed("find", path))?;
    Ok(Owner { user: data.uid(), group: data.gid() })
}

/// Creates a folder that only its owner may read.
pub(crate) fn folder(path: &Path, owner: Owner) -> Result<(), BootstrapError> {
    fs::create_dir_all(path).map_err(failed("create", path))?;
    give(path, owner)?;
    fs::set_permissions(path, Permissions::from_mode(0o700)).map_err(failed("protect", path))
}

/// Writes a file that only its owner may read. A reader sees the old content or the new one. A file
/// that has this content already is left alone.
pub(crate) fn write(path: &Path, content: &str, owner: Owner) -> Result<(), BootstrapError> {
    let is_there = fs::read_to_string(path).is_ok_and(|there| there == content);
    if is_there {
        return give(path, owner);
    }
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(".new");
    let unfinished = PathBuf::from(unfinished);
    // An interrupted run may have left this file, possibly readable by others.
    if let Err(error) = fs::remove_file(&unfinished)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(failed("replace", &unfinished)(error));
    }
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&unfinished)
        .map_err(failed("write", &unfinished))?;
    file.write_all(content.as_bytes())
        .and_then(|()| file.sync_all())
        .map_err(failed("write", &unfinished))?;
    // Change the owner before the rename, so that the new file is never visible with the wrong one.
    give(&unfinished, owner)?;
    fs::rename(&unfinished, path).map_err(failed("write", path))
}

/// Changes the owner of a folder with data, and of everything in it if it belongs to another user.
pub(crate) fn hand_over(path: &Path, to: Owner) -> Result<(), BootstrapError> {
    if owner(path)? != to {
        for entry in fs::read_dir(path).map_err(failed("read", path))? {
            let entry = entry.map_err(failed("read", path))?;
            let kind = entry.file_type().map_err(failed("read", path))?;
            if kind.is_dir() {
                hand_over(&entry.path(), to)?;
            } else if !kind.is_symlink() {
                give(&entry.path(), to)?;
            }
        }
    }
    // The folder itself comes last: an interrupted run finds it with its old owner, and starts
    // again.
    folder(path, to)
}

/// Changes the owner only if necessary, since even the owner of a file may lack permission to
/// change it.
fn give(path: &Path, to: Owner) -> Result<(), BootstrapError> {
    if owner(path)? == to {
        return Ok(());
    }
    chown(path, Some(to.user), Some(to.group)).map_err(failed("give away", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_replaced_whole_and_closed_to_others() {
        let folder = tempfile::tempdir().unwrap();
        let (path, me) = (folder.path().join("token"), owner(folder.path()).unwrap());
        fs::write(folder.path().join("token.new"), "half").unwrap();
        write(&path, "one", me).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "one");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let before = fs::metadata(&path).unwrap().ino();
        write(&path, "one", me).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().ino(), before, "left as it is");
        write(&path, "two", me).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        assert!(!folder.path().join("token.new").exists());
    }

    #[test]
    fn what_cannot_be_written_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let me = owner(folder.path()).unwrap();
        let error = write(&folder.path().join("missing/token"), "x", me).unwrap_err().to_string();
        assert!(error.starts_with("cannot write ") && error.contains("missing/token.new: "), "{error}");
    }
}
