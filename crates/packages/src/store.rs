//! The package store on git: all registered repositories of all namespaces (`packagevariants.md` 6).

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

use groundwork_api::{Lifecycle, Repository};
use groundwork_krm::Package;
use sha2::{Digest as _, Sha256};

use crate::clone::BareClone;
use crate::draft::Staged;
use crate::error::StoreError;
use crate::functions::Functions;
use crate::meters::Meters;
use crate::objects::{Content, Files};
use crate::remote::{Credentials, RemoteOptions};
use crate::repository::GitRepository;
use crate::revision::Revision;
use crate::settings::Settings;

/// The largest package by default: what a Porch server takes (6.9).
pub const MAX_PACKAGE_BYTES: u64 = 6 << 20;

/// How a store works.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where clones are kept. What is there is used again, and may be lost.
    pub directory: PathBuf,
    pub remotes: RemoteOptions,
    pub max_package_bytes: u64,
    pub functions: Functions,
    pub meters: Meters,
}

/// Repositories by namespace and name.
type Repositories = BTreeMap<(String, String), Arc<GitRepository>>;

/// The store. All of its operations block.
#[derive(Debug)]
pub struct Store {
    options: Options,
    /// One for each remote that everybody may read, and one for each namespace with credentials for a remote.
    clones: Mutex<HashMap<String, Weak<BareClone>>>,
    repositories: RwLock<Repositories>,
}

impl Store {
    pub fn new(options: Options) -> Self {
        Self { options, clones: Mutex::default(), repositories: RwLock::default() }
    }

    /// Refuses a Repository that cannot be used until somebody changes it, whatever its remote says.
    ///
    /// # Errors
    /// The fault of the Repository.
    pub fn check_repository(&self, repository: &Repository) -> Result<(), StoreError> {
        let settings = Settings::of(repository)?;
        Ok(self.options.remotes.check(&settings.url)?)
    }

    /// Lets a repository be used. One that was registered with the same settings stays as it is; with others, it begins anew.
    ///
    /// # Errors
    /// The address cannot be used, or the disk.
    pub fn register(
        &self,
        settings: Settings,
        credentials: Credentials,
    ) -> Result<Arc<GitRepository>, StoreError> {
        let key = (settings.namespace.clone(), settings.name.clone());
        let clone = self.clone_of(&settings, credentials)?;
        let mut repositories = self.repositories.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = repositories.get(&key).filter(|known| known.is(&settings, &clone)) {
            return Ok(Arc::clone(known));
        }
        let functions = self.options.functions.clone();
        let repository = GitRepository::new(settings, clone, self.options.max_package_bytes, functions);
        let repository = Arc::new(repository);
        if let Some(former) = repositories.insert(key, Arc::clone(&repository)) {
            former.interrupt();
        }
        Ok(repository)
    }

    /// Forgets a repository, and ends what is read of it; nothing happens in git.
    pub fn unregister(&self, namespace: &str, name: &str) {
        let key = (namespace.to_owned(), name.to_owned());
        let former = self.repositories.write().unwrap_or_else(PoisonError::into_inner).remove(&key);
        if let Some(former) = former {
            former.interrupt();
        }
    }

    fn clone_of(&self, settings: &Settings, credentials: Credentials) -> Result<Arc<BareClone>, StoreError> {
        // What was fetched with credentials is for the namespace that has them.
        let owner = if credentials == Credentials::None { "" } else { &settings.namespace };
        let key = clone_key(owner, &settings.url);
        let mut clones = self.clones.lock().unwrap_or_else(PoisonError::into_inner);
        clones.retain(|_, clone| clone.strong_count() > 0);
        let known = clones.get(&key).and_then(Weak::upgrade);
        if let Some(clone) = known.filter(|clone| clone.is_entered_by(&credentials)) {
            return Ok(clone);
        }
        let directory = self.options.directory.join(&key);
        let Options { remotes, meters, .. } = &self.options;
        let clone = Arc::new(BareClone::open(&settings.url, &directory, credentials, remotes, meters)?);
        clones.insert(key, Arc::downgrade(&clone));
        Ok(clone)
    }

    /// A registered repository.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn repository(&self, namespace: &str, name: &str) -> Result<Arc<GitRepository>, StoreError> {
        let key = (namespace.to_owned(), name.to_owned());
        let repositories = self.repositories.read().unwrap_or_else(PoisonError::into_inner);
        let found = repositories.get(&key).cloned();
        found.ok_or_else(|| StoreError::Unavailable(format!("repository {name:?} could not be loaded")))
    }

    /// All repositories of a namespace.
    pub fn repositories(&self, namespace: &str) -> Vec<Arc<GitRepository>> {
        let repositories = self.repositories.read().unwrap_or_else(PoisonError::into_inner);
        let of_namespace = repositories.iter().filter(|((found, _), _)| found == namespace);
        of_namespace.map(|(_, repository)| Arc::clone(repository)).collect()
    }

    /// A revision by the name of its object, which begins with the name of its repository; that one has no dots.
    ///
    /// # Errors
    /// There is none, or its repository is not registered.
    pub fn revision(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<(Arc<GitRepository>, Arc<Revision>), StoreError> {
        let repository = self.repository(namespace, name.split('.').next().unwrap_or_default())?;
        let revision = repository.revision(name)?;
        Ok((repository, revision))
    }

    /// A draft with other files, as the caller has seen it in `version`.
    ///
    /// # Errors
    /// The revision is gone, has changed, or is no draft.
    pub fn stage_save(
        &self,
        namespace: &str,
        name: &str,
        version: &str,
        files: Package,
    ) -> Result<Staged, StoreError> {
        let (repository, draft) = self.draft(namespace, name, version)?;
        let before = repository.content(&draft)?;
        let mut texts = files;
        // Whoever writes data only keeps what people have written beside it (8.1).
        groundwork_krm::copy_comments(&before.texts, &mut texts);
        Ok(Staged::save(&repository, &draft, Content { texts, binaries: before.binaries }))
    }

    /// A draft with these files and no others, texts or not, made from what it was in `version`.
    ///
    /// # Errors
    /// The revision is gone, has changed, or is no draft; or the files are too large.
    pub fn stage_files(
        &self,
        namespace: &str,
        name: &str,
        version: &str,
        files: Files,
    ) -> Result<Staged, StoreError> {
        let (repository, draft) = self.draft(namespace, name, version)?;
        let content = repository.content_of(&draft.package, files)?;
        Ok(Staged::save(&repository, &draft, content))
    }

    /// A draft that is to be changed.
    pub(crate) fn draft(
        &self,
        namespace: &str,
        name: &str,
        version: &str,
    ) -> Result<(Arc<GitRepository>, Arc<Revision>), StoreError> {
        let (repository, _) = self.revision(namespace, name)?;
        let draft = repository.revision_of(name, version)?;
        if draft.lifecycle != Lifecycle::Draft {
            let lifecycle = draft.lifecycle.as_str();
            return Err(StoreError::Refused(format!(
                "cannot update a package revision with lifecycle value {lifecycle:?}; package must be Draft"
            )));
        }
        Ok((repository, draft))
    }
}

/// Where the clone of a remote is kept.
fn clone_key(owner: &str, url: &str) -> String {
    let mut hash = Sha256::new();
    let url = url.trim_end_matches('/');
    hash.update(owner);
    hash.update([0]);
    hash.update(url.strip_suffix(".git").unwrap_or(url));
    hash.finalize().iter().take(16).fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
