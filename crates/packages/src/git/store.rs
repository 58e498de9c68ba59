//! Package store on git: all registered repositories of all namespaces (`packagevariants.md` 6).

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

use groundwork_api::{Lifecycle, Repository};
use groundwork_krm::Package;
use sha2::{Digest as _, Sha256};

use crate::git::access::Access;
use crate::git::clone::BareClone;
use crate::git::draft::Staged;
use crate::git::error::StoreError;
use crate::git::functions::Functions;
use crate::git::meters::Meters;
use crate::git::objects::Files;
use crate::git::remote::RemoteOptions;
use crate::git::repository::GitRepository;
use crate::git::revision::Revision;
use crate::git::settings::Settings;
use crate::git::visit::remove_abandoned;

/// Default limit for a package in bytes, the same as that of a Porch server (`packagevariants.md`
/// 6.9).
pub const MAX_PACKAGE_BYTES: u64 = 6 << 20;

/// Options of a store.
#[derive(Debug, Clone)]
pub struct Options {
    /// Directory of the clones. Existing clones are used again, and a lost one is fetched anew.
    pub directory: PathBuf,
    pub remotes: RemoteOptions,
    pub max_package_bytes: u64,
    pub functions: Functions,
    pub meters: Meters,
}

/// Repositories by namespace and name.
pub(crate) type Repositories = BTreeMap<(String, String), Arc<GitRepository>>;

/// The store. All of its operations block.
#[derive(Debug)]
pub struct Store {
    options: Options,
    /// Clones: one for each remote without an [`Access`] of its own, and one for each namespace and
    /// remote with one.
    clones: Mutex<HashMap<String, Weak<BareClone>>>,
    repositories: Arc<RwLock<Repositories>>,
}

impl Store {
    pub fn new(options: Options) -> Self {
        remove_abandoned(&options.directory);
        Self { options, clones: Mutex::default(), repositories: Arc::default() }
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    /// Refuses a Repository that cannot be used until a user changes it, regardless of its remote.
    ///
    /// # Errors
    /// The fault of the Repository.
    pub fn check_repository(&self, repository: &Repository) -> Result<(), StoreError> {
        let settings = Settings::of(repository)?;
        Ok(self.options.remotes.check(&settings.url)?)
    }

    /// Registers a repository. If it has the same settings as before, it stays unchanged; otherwise
    /// it is read from the start.
    ///
    /// # Errors
    /// The address is invalid, or the disk fails.
    pub fn register(
        &self,
        settings: Settings,
        access: impl Into<Access>,
    ) -> Result<Arc<GitRepository>, StoreError> {
        let key = (settings.namespace.clone(), settings.name.clone());
        let clone = self.clone_of(&settings, access.into())?;
        let mut repositories = self.repositories.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = repositories.get(&key).filter(|known| known.is(&settings, &clone)) {
            return Ok(Arc::clone(known));
        }
        let functions = self.options.functions.clone();
        let neighbours = Arc::downgrade(&self.repositories);
        let max_bytes = self.options.max_package_bytes;
        let repository = GitRepository::new(settings, clone, max_bytes, functions, neighbours);
        let repository = Arc::new(repository);
        if let Some(former) = repositories.insert(key, Arc::clone(&repository)) {
            former.interrupt();
        }
        Ok(repository)
    }

    /// Removes a repository and interrupts its reads; git stays unchanged.
    pub fn unregister(&self, namespace: &str, name: &str) {
        let key = (namespace.to_owned(), name.to_owned());
        let former = self.repositories.write().unwrap_or_else(PoisonError::into_inner).remove(&key);
        if let Some(former) = former {
            former.interrupt();
        }
    }

    fn clone_of(&self, settings: &Settings, access: Access) -> Result<Arc<BareClone>, StoreError> {
        // Content that was fetched with credentials is only for the namespace that has them, and
        // content from a namespace's own proxy or authority may not be that of the address.
        let owner = if access == Access::default() { "" } else { &settings.namespace };
        let key = clone_key(owner, &settings.url);
        let mut clones = self.clones.lock().unwrap_or_else(PoisonError::into_inner);
        clones.retain(|_, clone| clone.strong_count() > 0);
        let known = clones.get(&key).and_then(Weak::upgrade);
        if let Some(clone) = known.filter(|clone| clone.is_entered_by(&access)) {
            return Ok(clone);
        }
        let directory = self.options.directory.join(&key);
        let Options { remotes, meters, .. } = &self.options;
        let clone = Arc::new(BareClone::open(&settings.url, &directory, access, remotes, meters)?);
        clones.insert(key, Arc::downgrade(&clone));
        Ok(clone)
    }

    /// Returns a registered repository.
    ///
    /// # Errors
    /// The repository is not registered.
    pub fn repository(&self, namespace: &str, name: &str) -> Result<Arc<GitRepository>, StoreError> {
        let key = (namespace.to_owned(), name.to_owned());
        let repositories = self.repositories.read().unwrap_or_else(PoisonError::into_inner);
        let found = repositories.get(&key).cloned();
        found.ok_or_else(|| StoreError::Unavailable(format!("repository {name:?} could not be loaded")))
    }

    /// Returns all repositories of a namespace.
    pub fn repositories(&self, namespace: &str) -> Vec<Arc<GitRepository>> {
        let repositories = self.repositories.read().unwrap_or_else(PoisonError::into_inner);
        let of_namespace = repositories.iter().filter(|((found, _), _)| found == namespace);
        of_namespace.map(|(_, repository)| Arc::clone(repository)).collect()
    }

    /// Returns a revision by the name of its object. The part before the first dot is the name of
    /// its repository.
    ///
    /// # Errors
    /// The revision does not exist, or its repository is not registered.
    pub fn revision(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<(Arc<GitRepository>, Arc<Revision>), StoreError> {
        let repository = self.repository(namespace, name.split('.').next().unwrap_or_default())?;
        let revision = repository.revision(name)?;
        Ok((repository, revision))
    }

    /// Stages other text files for a draft with the given `version`. Files that are no text stay.
    ///
    /// # Errors
    /// The revision is gone, has changed, or is not a draft; or the files are too large.
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
        // Keep the comments of the old files: a program that writes data drops them
        // (`packagevariants.md` 6.14).
        groundwork_krm::copy_comments(&before.texts, &mut texts);
        let mut files: Files = texts.into_iter().map(|(path, text)| (path, text.into_bytes())).collect();
        for (path, id) in before.binaries {
            files.insert(path, repository.objects().blob(id)?);
        }
        let content = repository.content_of(&draft.package, files)?;
        Ok(Staged::save(&repository, &draft, content))
    }

    /// Stages a replacement of all files of a draft with the given `version`.
    ///
    /// # Errors
    /// The revision is gone, has changed, or is not a draft; or the files are too large.
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

    /// Returns a draft with the given version.
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

/// Returns the name of a clone's directory.
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
