//! Packages as folders of files.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use groundwork_krm::Package;

/// The file that makes a folder a package.
pub(crate) const KPTFILE: &str = "Kptfile";
/// What a version control system keeps to itself.
pub(crate) const HIDDEN: &str = ".git";

/// The files of a package.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PackageFiles {
    pub(crate) texts: Package,
    /// Those that are not UTF-8; nothing but copying is done to them.
    pub(crate) binaries: BTreeMap<String, Vec<u8>>,
}

impl PackageFiles {
    pub(crate) fn insert(&mut self, path: String, content: Vec<u8>) {
        match String::from_utf8(content) {
            Ok(text) => drop(self.texts.insert(path, text)),
            Err(error) => drop(self.binaries.insert(path, error.into_bytes())),
        }
    }
}

/// What is done about what is neither a file nor a folder: links are never followed (`packagevariants.md` 6.12).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Links {
    Refuse,
    /// They stay where they are, and are nobody's business.
    PassOver,
}

/// Reads all files below a folder.
///
/// # Errors
/// A file cannot be read, or there is a link and none may be.
pub(crate) fn read(folder: &Path, links: Links) -> Result<PackageFiles, String> {
    let mut files = PackageFiles::default();
    read_below(folder, "", links, &mut files)?;
    Ok(files)
}

fn read_below(folder: &Path, prefix: &str, links: Links, files: &mut PackageFiles) -> Result<(), String> {
    let failed = |path: &Path, error: &std::io::Error| format!("cannot read {}: {error}", path.display());
    for entry in fs::read_dir(folder).map_err(|error| failed(folder, &error))? {
        let entry = entry.map_err(|error| failed(folder, &error))?;
        let path = entry.path();
        let name = entry.file_name();
        let Some(name) = name.to_str() else {
            return Err(format!("{}: the name is not UTF-8", path.display()));
        };
        if name == HIDDEN {
            continue;
        }
        let kind = entry.file_type().map_err(|error| failed(&path, &error))?;
        let key = format!("{prefix}{name}");
        if kind.is_dir() {
            read_below(&path, &format!("{key}/"), links, files)?;
        } else if kind.is_file() {
            let bytes = fs::read(&path).map_err(|error| failed(&path, &error))?;
            files.insert(key, bytes);
        } else if links == Links::Refuse {
            return Err(format!("{}: a package holds files and folders, and no link", path.display()));
        }
    }
    Ok(())
}

/// Makes a folder hold these files and no others.
///
/// # Errors
/// It cannot be written, or holds something and is no package: what is there could be anything.
pub(crate) fn write(folder: &Path, files: &PackageFiles) -> Result<(), String> {
    let failed = |path: &Path, error: &std::io::Error| format!("cannot write {}: {error}", path.display());
    let is_used = fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some());
    if is_used {
        if !folder.join(KPTFILE).is_file() {
            return Err(format!(
                "{} is not empty and holds no package: name another folder",
                folder.display()
            ));
        }
        let former = read(folder, Links::PassOver)?;
        for path in former.texts.keys().chain(former.binaries.keys()) {
            if !files.texts.contains_key(path) && !files.binaries.contains_key(path) {
                let path = folder.join(path);
                fs::remove_file(&path).map_err(|error| failed(&path, &error))?;
            }
        }
    }
    let texts = files.texts.iter().map(|(path, text)| (path, text.as_bytes()));
    let binaries = files.binaries.iter().map(|(path, bytes)| (path, bytes.as_slice()));
    for (path, bytes) in texts.chain(binaries) {
        let path = folder.join(path);
        let parent = path.parent().unwrap_or(folder);
        fs::create_dir_all(parent)
            .and_then(|()| fs::write(&path, bytes))
            .map_err(|error| failed(&path, &error))?;
    }
    Ok(())
}
