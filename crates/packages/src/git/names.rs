//! Check of file names in packages (`packagevariants.md` 6.15), when a tree is read and before one
//! is written.

use gix_hash::ObjectId;
use gix_object::tree::EntryKind;
use groundwork_krm::Package;
use groundwork_untrusted::Names;

use crate::git::error::StoreError;
use crate::git::objects::{Files, KPTFILE, MAX_DEPTH, MAX_FILES, Objects, ObjectsError};

/// Limit for the entries below the directory of a package: its files, and about as many
/// directories.
const MAX_ENTRIES: usize = 2 * MAX_FILES;

impl Objects {
    /// Visits all entries of a package except directories. An unsafe name ends the walk.
    ///
    /// # Errors
    /// An unsafe name, too many entries, a damaged object, or an error of `visit`.
    pub(crate) fn walk(
        &self,
        package: &str,
        directory: ObjectId,
        mut visit: impl FnMut(String, EntryKind, ObjectId) -> Result<(), ObjectsError>,
    ) -> Result<(), ObjectsError> {
        let too_many = || ObjectsError::TooMany { package: package.to_owned() };
        let mut names = Names::default();
        let mut entries = 0;
        let mut open = vec![(String::new(), directory, 0)];
        while let Some((below, id, depth)) = open.pop() {
            for entry in self.tree(id)?.entries {
                entries += 1;
                if entries > MAX_ENTRIES {
                    return Err(too_many());
                }
                let path = format!("{below}{}", groundwork_untrusted::entry(&entry.filename)?);
                match entry.mode.kind() {
                    EntryKind::Tree if depth == MAX_DEPTH => return Err(too_many()),
                    EntryKind::Tree => {
                        names.add_directory(&path)?;
                        open.push((format!("{path}/"), entry.oid, depth + 1));
                    }
                    kind => {
                        names.add(&path)?;
                        visit(path, kind, entry.oid)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the reason why a package must not be served: an unsafe name in it, or too many
    /// entries.
    ///
    /// # Errors
    /// An object is damaged.
    pub(crate) fn refusal(&self, directory: ObjectId) -> Result<Option<String>, ObjectsError> {
        let mut files = 0;
        let counted = self.walk("", directory, |_, _, _| {
            files += 1;
            if files > MAX_FILES { Err(ObjectsError::TooMany { package: String::new() }) } else { Ok(()) }
        });
        match counted {
            Ok(()) => Ok(None),
            Err(ObjectsError::TooMany { .. }) => Ok(Some(format!(
                "more than {MAX_FILES} files, or directories more than {MAX_DEPTH} levels deep"
            ))),
            Err(error @ ObjectsError::Name(_)) => Ok(Some(error.to_string())),
            Err(error) => Err(error),
        }
    }
}

/// Checks the files of a package in a request, or of a store that does not check them itself
/// (`packagevariants.md` 6.12).
///
/// # Errors
/// [`StoreError::Refused`]: the Kptfile is missing, or a name is unsafe.
pub fn check_files(files: &Files) -> Result<(), StoreError> {
    let paths: Vec<&str> = files.keys().map(String::as_str).collect();
    check_paths(&paths).map_err(StoreError::from)
}

/// Checks the names of files that another store serves (`packagevariants.md` 6.15).
///
/// # Errors
/// [`StoreError::Refused`]: a name is unsafe.
pub fn check_file_names(files: &Package) -> Result<(), StoreError> {
    let checked = groundwork_untrusted::check_all(files.keys().map(String::as_str));
    checked.map_err(|error| ObjectsError::Name(error).into())
}

/// Checks the names of a package's files together; one of them must be the Kptfile.
pub(crate) fn check_paths(paths: &[&str]) -> Result<(), ObjectsError> {
    if !paths.contains(&KPTFILE) {
        return Err(ObjectsError::NoKptfile);
    }
    groundwork_untrusted::check_all(paths.iter().copied())?;
    match paths.iter().find(|path| path.split('/').count() > MAX_DEPTH) {
        Some(path) => Err(ObjectsError::Deep((*path).to_owned())),
        None => Ok(()),
    }
}
