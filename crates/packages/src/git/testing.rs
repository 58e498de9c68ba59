//! Remotes for tests: bare repositories in a temporary folder.

use std::path::{Path, PathBuf};

use crate::git::access::Credentials;
use crate::git::error::StoreError;
use crate::git::functions::Functions;
use crate::git::meters::Meters;
use crate::git::remote::RemoteOptions;
use crate::git::repository::{Actor, GitRepository};
use crate::git::settings::Settings;
use crate::git::store::{MAX_PACKAGE_BYTES, Options, Store};
use std::sync::Arc;

/// Folder with remotes, and a store that may use them.
pub(crate) struct World {
    folder: tempfile::TempDir,
    pub(crate) store: Store,
}

/// Runs `git` in a folder, as a user would.
pub(crate) fn git(folder: &Path, arguments: &[&str]) -> String {
    groundwork_testkit::git(folder, arguments).unwrap()
}

pub(crate) fn pat() -> Actor {
    Actor { name: "pat".to_owned() }
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(Functions::default())
    }

    /// Creates a world whose store runs more than the built-in functions.
    pub(crate) fn with(functions: Functions) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { store: store_in(&folder.path().join("store"), functions, &["file"]), folder }
    }

    /// Returns a new store without the clones of the first.
    pub(crate) fn other_store(&self, name: &str) -> Store {
        self.other_store_of(name, &["file"])
    }

    /// Returns a new store with other options for remotes.
    pub(crate) fn other_store_with(&self, name: &str, remotes: RemoteOptions) -> Store {
        Store::new(Options {
            remotes,
            ..options_in(&self.folder.path().join(name), Functions::default(), &[])
        })
    }

    /// Returns a new store for remotes of these protocols.
    pub(crate) fn other_store_of(&self, name: &str, protocols: &[&str]) -> Store {
        store_in(&self.folder.path().join(name), Functions::default(), protocols)
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the folder of the store's clones.
    pub(crate) fn store_folder(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    pub(crate) fn remote(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.git"))
    }

    /// Creates a work tree of a remote.
    pub(crate) fn checkout(&self, name: &str) -> PathBuf {
        let folder = self.folder.path().join(format!("checkout-{name}"));
        if !folder.exists() {
            git(
                self.folder.path(),
                &["clone", "-q", self.remote(name).to_str().unwrap(), folder.to_str().unwrap()],
            );
        }
        folder
    }

    pub(crate) fn settings(&self, name: &str) -> Settings {
        Settings {
            namespace: "fleet".to_owned(),
            name: name.to_owned(),
            url: self.remote(name).to_str().unwrap().to_owned(),
            branch: "main".to_owned(),
            directory: String::new(),
            create_branch: false,
            deployment: false,
            identity: None,
            secret: None,
        }
    }

    /// Creates a remote with files on its branch, and registers and reads it.
    pub(crate) fn repository(&self, name: &str, files: &[(&str, &str)]) -> Arc<GitRepository> {
        git(self.folder.path(), &["init", "-q", "--bare", self.remote(name).to_str().unwrap()]);
        if !files.is_empty() {
            self.publish(name, files);
        }
        self.register(self.settings(name)).unwrap()
    }

    pub(crate) fn register(&self, settings: Settings) -> Result<Arc<GitRepository>, StoreError> {
        let repository = self.store.register(settings, Credentials::None)?;
        repository.sync()?;
        Ok(repository)
    }

    /// Commits files to the branch, as a user would.
    pub(crate) fn publish(&self, name: &str, files: &[(&str, &str)]) {
        let folder = self.checkout(name);
        let has_branch = !git(&folder, &["ls-remote", "origin", "refs/heads/main"]).is_empty();
        if has_branch {
            git(&folder, &["pull", "-q", "origin", "main"]);
        }
        for (path, text) in files {
            let path = folder.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        git(&folder, &["add", "-A"]);
        git(&folder, &["commit", "-qm", "by hand"]);
        git(&folder, &["push", "-q", "origin", "HEAD:main"]);
    }

    /// Returns all refs of a remote.
    pub(crate) fn refs(&self, name: &str) -> Vec<String> {
        let listed = git(&self.remote(name), &["for-each-ref", "--format=%(refname)"]);
        listed.lines().map(str::to_owned).collect()
    }
}

fn store_in(directory: &Path, functions: Functions, protocols: &[&str]) -> Store {
    Store::new(options_in(directory, functions, protocols))
}

fn options_in(directory: &Path, functions: Functions, protocols: &[&str]) -> Options {
    Options {
        directory: directory.to_owned(),
        remotes: RemoteOptions {
            protocols: protocols.iter().map(|&protocol| protocol.to_owned()).collect(),
            ..RemoteOptions::default()
        },
        max_package_bytes: MAX_PACKAGE_BYTES,
        functions,
        meters: Meters::default(),
    }
}
