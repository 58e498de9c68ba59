//! Packages at addresses that no Repository registers (`packagevariants.md` 6.6).

use std::path::Path;
use std::time::Duration;

use gix_hash::ObjectId;
use groundwork_api::GitPackage;
use tempfile::TempDir;

use crate::git::access::Access;
use crate::git::error::StoreError;
use crate::git::limits::Interrupt;
use crate::git::objects::{Content, Objects};
use crate::git::remote::{Remote, RemoteError};
use crate::git::store::Store;

/// Start of the names of folders with fetched objects.
const FOLDER: &str = "visit-";
/// Age at which such a folder is left by a process that was killed: no fetch takes that long.
const ABANDONED: Duration = Duration::from_secs(3600);

/// Address of a package, and the way to contact its remote.
#[derive(Debug, Clone)]
pub struct Address {
    pub package: GitPackage,
    pub access: Access,
}

/// A package as it was fetched. Dropping it removes the fetched objects from the disk.
pub(crate) struct Visited {
    pub(crate) content: Content,
    pub(crate) objects: Objects,
    pub(crate) commit: ObjectId,
    _directory: TempDir,
}

impl Address {
    /// Returns the address of the remote.
    pub(crate) fn url(&self) -> &str {
        self.package.repo.as_deref().unwrap_or_default()
    }

    /// Returns the branch, tag or commit.
    pub(crate) fn reference(&self) -> &str {
        self.package.reference.as_deref().unwrap_or_default()
    }

    /// Returns the path of the package, without slashes at its ends.
    pub(crate) fn directory(&self) -> &str {
        self.package.directory.as_deref().unwrap_or_default().trim_matches('/')
    }
}

impl Store {
    /// Fetches one commit of an address, and reads the package in it.
    ///
    /// # Errors
    /// The address is invalid or not allowed, its remote fails or has no such ref, or the commit
    /// has no such package.
    pub(crate) fn visit(&self, address: &Address) -> Result<Visited, StoreError> {
        self.fetched(address).map_err(StoreError::of_clone_task)
    }

    fn fetched(&self, address: &Address) -> Result<Visited, StoreError> {
        let (url, options) = (address.url(), self.options());
        let refused = |text: String| StoreError::Refused(format!("spec.git.{text}"));
        crate::git::address::check(url).map_err(|fault| refused(format!("repo {fault}")))?;
        let io = |error: std::io::Error| StoreError::Unavailable(format!("cannot keep a fetch: {error}"));
        std::fs::create_dir_all(&options.directory).map_err(io)?;
        // Such an address is seldom used twice, so the store keeps no clone of it.
        let directory = tempfile::Builder::new().prefix(FOLDER).tempdir_in(&options.directory);
        let directory = directory.map_err(io)?;
        let (access, meters) = (address.access.clone(), options.meters.clone());
        let remote = Remote::new(url, directory.path(), access, &options.remotes, meters)?;
        remote.initialize()?;
        let interrupt = Interrupt::default();
        let listed = remote.list(&interrupt).map_err(of_request)?;
        let Some(Tip { name, commit }) = tip(&listed, address.reference()) else {
            let text = format!(
                "ref is {:?}, but the repository has no such tag or branch: write one of its refs, or the whole hash \
                 of a commit",
                address.reference()
            );
            return Err(refused(text));
        };
        remote.fetch_tip(&name, &interrupt).map_err(of_request)?;
        let objects = Objects::open(directory.path())?;
        let tree = objects.commit(commit)?.tree;
        let path = address.directory();
        let Some(found) = objects.directory(tree, path)? else {
            let text = format!("directory is {path:?}, but {} has no such directory", address.reference());
            return Err(refused(text));
        };
        let content = objects.content(path, found, options.max_package_bytes)?;
        Ok(Visited { content, objects, commit, _directory: directory })
    }
}

/// Removes the folders that killed processes have left in the directory of a store.
pub(crate) fn remove_abandoned(directory: &Path) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let is_visit = entry.file_name().to_string_lossy().starts_with(FOLDER);
        let changed = entry.metadata().and_then(|metadata| metadata.modified()).ok();
        let age = changed.and_then(|changed| changed.elapsed().ok());
        if is_visit && age.is_some_and(|age| age > ABANDONED) {
            drop(std::fs::remove_dir_all(entry.path()));
        }
    }
}

/// Refuses what only another request can mend. Clients repeat a request while a server is
/// unavailable.
fn of_request(error: RemoteError) -> StoreError {
    match error {
        RemoteError::Unauthorized { .. } | RemoteError::Untrusted { .. } | RemoteError::Address(_) => {
            StoreError::Refused(error.to_string())
        }
        error => error.into(),
    }
}

/// Ref or commit that a reference leads to.
#[derive(Debug, PartialEq, Eq)]
struct Tip {
    /// Name of the ref, or hash of the commit, for a request to the remote.
    name: String,
    commit: ObjectId,
}

/// Finds a tag, a branch or a commit in the output of `git ls-remote`. A tag comes first, as git
/// itself has it.
fn tip(listed: &str, reference: &str) -> Option<Tip> {
    let commit_of = |name: &str| {
        let of = |line: &str| line.strip_suffix(name)?.strip_suffix('\t').map(str::to_owned);
        ObjectId::from_hex(listed.lines().find_map(of)?.as_bytes()).ok()
    };
    let names = [format!("refs/tags/{reference}"), format!("refs/heads/{reference}"), reference.to_owned()];
    let mut named = names.into_iter().filter(|name| name.starts_with("refs/"));
    let found = named.find_map(|name| {
        let commit = commit_of(&name)?;
        // An annotated tag is an object of its own; the peeled line names the commit.
        let commit = commit_of(&format!("{name}^{{}}")).unwrap_or(commit);
        Some(Tip { name, commit })
    });
    let hash = || {
        let commit = ObjectId::from_hex(reference.as_bytes()).ok()?;
        Some(Tip { name: commit.to_string(), commit })
    };
    found.or_else(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
    const COMMIT: &str = "5b825dc642cb6eb9a060e54bf8d69288fbee4904";

    #[test]
    fn abandoned_folders() {
        let folder = tempfile::tempdir().unwrap();
        let old = std::time::SystemTime::now() - 2 * ABANDONED;
        for (name, is_old) in [("visit-old", true), ("visit-new", false), ("clone", true)] {
            let path = folder.path().join(name);
            std::fs::create_dir(&path).unwrap();
            if is_old {
                std::fs::File::open(&path).unwrap().set_modified(old).unwrap();
            }
        }
        remove_abandoned(folder.path());
        let left = ["visit-old", "visit-new", "clone"].map(|name| folder.path().join(name).exists());
        assert_eq!(left, [false, true, true]);
    }

    #[test]
    fn references() {
        let listed = format!(
            "{ID}\trefs/heads/main\n{ID}\trefs/heads/both\n{ID}\trefs/tags/a/v1\n{COMMIT}\trefs/tags/a/v1^{{}}\n\
             {COMMIT}\trefs/tags/both\n"
        );
        for (reference, expected) in [
            ("main", Some(("refs/heads/main", ID))),
            ("a/v1", Some(("refs/tags/a/v1", COMMIT))),
            ("refs/tags/a/v1", Some(("refs/tags/a/v1", COMMIT))),
            ("both", Some(("refs/tags/both", COMMIT))),
            (COMMIT, Some((COMMIT, COMMIT))),
            ("v1", None),
            ("", None),
            (ID.get(..8).unwrap(), None),
        ] {
            let found = tip(&listed, reference);
            let found = found.as_ref().map(|tip| (tip.name.as_str(), tip.commit.to_string()));
            assert_eq!(found, expected.map(|(name, id)| (name, id.to_owned())), "{reference}");
        }
    }
}
