//! Packages as folders of files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use groundwork_krm::Package;
use groundwork_untrusted::{NameError, check_all};

use crate::folder::{EntryKind, Folder, FolderError};

/// File that makes a folder a package.
pub(crate) const KPTFILE: &str = "Kptfile";
/// Folder of git's own files, which do not belong to the package.
const HIDDEN: &str = ".git";

/// Reason that a folder cannot be read or written as a package.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PackageError {
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error(
        "{folder}: {path:?} is neither a file nor a folder; a package cannot contain links or special files"
    )]
    Link { folder: String, path: String },
    #[error("no file was written into {folder}: the package contains a file that is not allowed: {source}")]
    Name { folder: String, source: NameError },
    #[error("{folder} is not empty and does not contain a package: name another folder")]
    Used { folder: String },
}

/// Files of a package.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PackageFiles {
    pub(crate) texts: Package,
    /// Files that are not UTF-8. They are copied, never changed.
    pub(crate) binaries: BTreeMap<String, Vec<u8>>,
}

impl PackageFiles {
    pub(crate) fn insert(&mut self, path: String, content: Vec<u8>) {
        match String::from_utf8(content) {
            Ok(text) => drop(self.texts.insert(path, text)),
            Err(error) => drop(self.binaries.insert(path, error.into_bytes())),
        }
    }

    pub(crate) fn remove(&mut self, path: &str) {
        self.texts.remove(path);
        self.binaries.remove(path);
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.texts.keys().chain(self.binaries.keys()).map(String::as_str)
    }

    /// Iterates over the files with their content.
    pub(crate) fn contents(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let texts = self.texts.iter().map(|(path, text)| (path.as_str(), text.as_bytes()));
        texts.chain(self.binaries.iter().map(|(path, bytes)| (path.as_str(), bytes.as_slice())))
    }
}

/// Treatment of entries that are neither files nor folders. Links are never followed
/// (`packagevariants.md` 6.12).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Links {
    Refuse,
    /// Such entries are ignored, and stay where they are.
    PassOver,
}

/// Reads all files below a folder.
///
/// # Errors
/// A file cannot be read, or the folder has a link and `links` refuses them.
pub(crate) fn read(folder: &Path, links: Links) -> Result<PackageFiles, PackageError> {
    let mut files = PackageFiles::default();
    let mut open = vec![(String::new(), Folder::open(folder)?)];
    while let Some((below, inner)) = open.pop() {
        for (name, kind) in inner.entries()? {
            let path = format!("{below}{name}");
            match kind {
                _ if name == HIDDEN => {}
                EntryKind::Folder => open.push((format!("{path}/"), inner.folder(&name)?)),
                EntryKind::File => files.insert(path, inner.read(&name)?),
                EntryKind::Other if links == Links::Refuse => {
                    return Err(PackageError::Link { folder: folder.display().to_string(), path });
                }
                EntryKind::Other => {}
            }
        }
    }
    Ok(files)
}

/// Writes these files into a folder, and removes the files of `former` that are not among them.
/// Other files are not touched.
///
/// # Errors
/// A name leads out of the folder, the folder cannot be written, or it is neither empty nor a
/// package: its files could be anything.
pub(crate) fn write(
    folder: &Path,
    files: &PackageFiles,
    former: &BTreeSet<String>,
) -> Result<(), PackageError> {
    let shown = || folder.display().to_string();
    check_all(files.paths()).map_err(|source| PackageError::Name { folder: shown(), source })?;
    let place = Folder::create(folder)?;
    let entries = place.entries()?;
    if !entries.is_empty() && !entries.contains(&(KPTFILE.to_owned(), EntryKind::File)) {
        return Err(PackageError::Used { folder: shown() });
    }
    // Check all paths before the first file is written, so that a bad path leaves the folder as it
    // is.
    files.paths().try_for_each(|path| place.check_place(path).map(drop))?;
    let paths: BTreeSet<&str> = files.paths().collect();
    former.iter().filter(|path| !paths.contains(path.as_str())).try_for_each(|path| place.remove(path))?;
    files.contents().try_for_each(|(path, bytes)| place.write(path, bytes))?;
    Ok(())
}

/// Writes these files into a folder, and removes all others.
///
/// # Errors
/// As for [`write`].
pub(crate) fn replace(folder: &Path, files: &PackageFiles) -> Result<(), PackageError> {
    let former =
        if folder.join(KPTFILE).is_file() { read(folder, Links::PassOver)? } else { PackageFiles::default() };
    write(folder, files, &former.paths().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn files(paths: &[&str]) -> PackageFiles {
        let mut files = PackageFiles::default();
        paths.iter().for_each(|path| files.insert((*path).to_owned(), path.as_bytes().to_vec()));
        files
    }

    #[test]
    fn a_folder_keeps_what_is_not_of_the_package() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("p");
        for paths in
            [&["Kptfile", "../up"][..], &["Kptfile", "/tmp/up"], &["Kptfile", ".git/config"], &["a", "A"]]
        {
            let error = write(&folder, &files(paths), &BTreeSet::new()).unwrap_err();
            assert!(matches!(error, PackageError::Name { .. }), "{error}");
            assert!(!folder.exists());
        }
        write(&folder, &files(&["Kptfile", "a", "b/c"]), &BTreeSet::new()).unwrap();
        fs::write(folder.join("mine"), "").unwrap();
        let former = ["a", "b/c", "../up"].map(str::to_owned).into();
        fs::write(place.path().join("up"), "").unwrap();
        write(&folder, &files(&["Kptfile", "b/d"]), &former).unwrap();
        let found = read(&folder, Links::Refuse).unwrap();
        assert_eq!(found.paths().collect::<Vec<_>>(), ["Kptfile", "b/d", "mine"]);
        assert!(place.path().join("up").exists());
        replace(&folder, &files(&["Kptfile"])).unwrap();
        assert_eq!(read(&folder, Links::Refuse).unwrap().paths().collect::<Vec<_>>(), ["Kptfile"]);
        let other = place.path().join("other");
        fs::create_dir(&other).unwrap();
        fs::write(other.join("mine"), "").unwrap();
        let error = replace(&other, &files(&["Kptfile"])).unwrap_err();
        assert!(matches!(error, PackageError::Used { .. }), "{error}");
    }
}
