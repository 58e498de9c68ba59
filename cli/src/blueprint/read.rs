//! Reads a directory or an archive as the file tree of a blueprint.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use groundwork_blueprint::{ArchiveLimits, BLUEPRINT_FILE, Filesystem, PathError};

const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b];
/// Offset and bytes of the magic number in the header of the first entry of a tar archive.
const TAR_MAGIC: (usize, &[u8]) = (257, b"ustar");
/// Limit for the levels of directories. A [`Filesystem`] accepts no deeper ones.
const DEEPEST: usize = 64;

/// Reads the files of the blueprint at a path. A path without `blueprint.yaml` is not a blueprint.
///
/// # Errors
///
/// The path cannot be used. The error is a sentence that names the path.
pub(super) fn files(path: &Path) -> Result<Filesystem, String> {
    let unreadable = |problem: String| format!("cannot read {}: {problem}", path.display());
    let is_directory = fs::metadata(path).map_err(|error| unreadable(error.to_string()))?.is_dir();
    if !is_directory {
        return archive(path);
    }
    // The path may name any directory, even a very large one, so look for `blueprint.yaml` before
    // reading all of it.
    let entry = path.join(BLUEPRINT_FILE);
    if fs::symlink_metadata(&entry).is_err() {
        return Err(no_blueprint(path, &PathError::NotFound));
    }
    let mut reader = Reader { files: Filesystem::default(), left: ArchiveLimits::default() };
    reader.directory(path, "", 0).map_err(unreadable)?;
    Ok(reader.files)
}

/// Returns the message that a path has no blueprint.
pub(super) fn no_blueprint(path: &Path, error: &PathError) -> String {
    let inner = path.join("blueprint");
    let hint = if inner.join(BLUEPRINT_FILE).is_file() {
        format!("; there is one in {}", inner.display())
    } else {
        String::new()
    };
    format!("{} is not a blueprint: {BLUEPRINT_FILE}: {error}{hint}", path.display())
}

fn archive(path: &Path) -> Result<Filesystem, String> {
    let shown = path.display();
    if path.file_name().is_some_and(|name| name == BLUEPRINT_FILE) {
        return Err(format!("{shown} is a file of a blueprint; give the directory that it is in"));
    }
    if !path.is_file() {
        return Err(format!("{shown} is neither a directory nor a file"));
    }
    let limits = ArchiveLimits::default();
    let bytes = File::open(path).and_then(|file| bounded(file, limits.bytes));
    let bytes = bytes.map_err(|error| format!("cannot read {shown}: {error}"))?;
    let (offset, magic) = TAR_MAGIC;
    let is_archive =
        bytes.starts_with(GZIP_MAGIC) || bytes.get(offset..).is_some_and(|rest| rest.starts_with(magic));
    Filesystem::from_archive(&bytes, limits).map_err(|error| {
        if is_archive {
            format!("cannot read {shown}: {error}")
        } else {
            format!("{shown} is neither a directory nor a tar archive (plain or compressed with gzip)")
        }
    })
}

fn bounded(reader: impl Read, limit: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(std::io::Error::other(format!("the file is larger than {limit} bytes")));
    }
    Ok(bytes)
}

/// Reads a directory within the limits that apply to archives.
struct Reader {
    files: Filesystem,
    left: ArchiveLimits,
}

impl Reader {
    /// Adds the files of a directory. `prefix` is its path in the tree and ends in a slash.
    fn directory(&mut self, directory: &Path, prefix: &str, depth: usize) -> Result<(), String> {
        let limits = ArchiveLimits::default();
        let failed = |error: std::io::Error| format!("{prefix}: {error}");
        for entry in fs::read_dir(directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
            let failed = |error: std::io::Error| format!("{name}: {error}");
            self.left.entries = self.left.entries.checked_sub(1).ok_or_else(|| {
                format!("the directory contains more than {} files and directories", limits.entries)
            })?;
            let kind = entry.file_type().map_err(failed)?;
            if kind.is_dir() {
                if depth >= DEEPEST {
                    return Err(format!(
                        "{name}: the directories are nested more than {DEEPEST} levels deep"
                    ));
                }
                self.directory(&entry.path(), &format!("{name}/"), depth + 1)?;
            } else if kind.is_symlink() {
                let target = fs::read_link(entry.path()).map_err(failed)?;
                let added = self.files.insert_link(&name, &target.to_string_lossy());
                added.map_err(|error| error.to_string())?;
            } else if kind.is_file() {
                let content = File::open(entry.path()).and_then(|file| bounded(file, self.left.bytes));
                let content = content.map_err(|error| {
                    format!("{name}: {error} (a blueprint may have at most {} bytes)", limits.bytes)
                })?;
                self.left.bytes -= content.len() as u64;
                self.files.insert(&name, content).map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_read_within_bounds() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        fs::create_dir(path.join("d")).unwrap();
        fs::write(path.join(BLUEPRINT_FILE), "kind: Blueprint\n").unwrap();
        fs::write(path.join("d/a.tpl"), "a").unwrap();
        std::os::unix::fs::symlink("d/a.tpl", path.join("link")).unwrap();
        std::os::unix::fs::symlink("nowhere", path.join("broken")).unwrap();
        let files = files(path).unwrap();
        assert_eq!(files.read("link"), Ok(&b"a"[..]));
        assert!(files.read("broken").is_err());

        let mut reader =
            Reader { files: Filesystem::default(), left: ArchiveLimits { bytes: 10, entries: 10 } };
        let error = reader.directory(path, "", 0).unwrap_err();
        assert!(error.contains("the file is larger than"), "{error}");
        reader.left = ArchiveLimits { bytes: 100, entries: 3 };
        let error = reader.directory(path, "", 0).unwrap_err();
        assert!(error.contains("files and directories"), "{error}");
        reader.left = ArchiveLimits { bytes: 100, entries: 5 };
        assert_eq!(reader.directory(path, "", 0), Ok(()));

        std::os::unix::fs::symlink("/etc/passwd", path.join("d/out")).unwrap();
        let error = super::files(path).unwrap_err();
        assert!(
            error.ends_with("the link \"d/out\" -> \"/etc/passwd\" leads out of the blueprint"),
            "{error}"
        );
    }
}
