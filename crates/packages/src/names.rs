//! Names of files in packages (`packagevariants.md` 6.15): looked at when a tree is read, and before one is written.

use gix_hash::ObjectId;
use gix_object::tree::EntryKind;
use groundwork_krm::Package;
use groundwork_untrusted::Names;

use crate::error::StoreError;
use crate::objects::{Files, KPTFILE, MAX_DEPTH, MAX_FILES, Objects, ObjectsError};

/// Entries that are looked at below the directory of a package: its files, and about as many directories.
const MAX_ENTRIES: usize = 2 * MAX_FILES;

impl Objects {
    /// Goes through all entries of a package that are no directories. The first name that leads elsewhere ends it.
    ///
    /// # Errors
    /// A name that may not be there, more entries than are allowed, a damaged object, or what `visit` says.
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

    /// Why nothing of a package may be handed out: a name in it that leads elsewhere, or more in it than is read.
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
                "it has more than {MAX_FILES} files, or directories more than {MAX_DEPTH} deep"
            ))),
            Err(error @ ObjectsError::Name(_)) => Ok(Some(error.to_string())),
            Err(error) => Err(error),
        }
    }
}

/// Looks at the files of a package that somebody brings along, or that a store does not look at itself (6.12).
///
/// # Errors
/// [`StoreError::Refused`]: there is no Kptfile, or a name leads elsewhere.
pub fn check_files(files: &Files) -> Result<(), StoreError> {
    let paths: Vec<&str> = files.keys().map(String::as_str).collect();
    check_paths(&paths).map_err(StoreError::from)
}

/// Looks at the names of files that another store hands out (6.15).
///
/// # Errors
/// [`StoreError::Refused`]: one of them leads elsewhere.
pub fn check_file_names(files: &Package) -> Result<(), StoreError> {
    let checked = groundwork_untrusted::check_all(files.keys().map(String::as_str));
    checked.map_err(|error| ObjectsError::Name(error).into())
}

/// Names that the files of a package may have together, one of which is that of the Kptfile.
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
