//! Settings in the spec of a Repository (`packagevariants.md` 1.4).

use groundwork_api::{GitRepository, Repository, ResourceExt as _};
use groundwork_fleet::normalized;

use crate::git::revision::RevisionPlace;

const DEFAULT_BRANCH: &str = "main";

/// Settings of a Repository that the store needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub namespace: String,
    pub name: String,
    pub url: String,
    pub branch: String,
    /// Directory of the packages; empty for the root.
    pub directory: String,
    pub create_branch: bool,
    pub deployment: bool,
    /// Name and address of the commits' author, if the Repository has one.
    pub identity: Option<(String, String)>,
    /// Name of the Secret with credentials.
    pub secret: Option<String>,
}

/// Reason why a Repository cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    #[error("spec.git.repo is missing")]
    NoAddress,
    #[error("spec.git.repo {0}")]
    Address(String),
    #[error(
        "spec.type is {0:?}: only repositories of type git are supported; a registry of packages needs a Porch server"
    )]
    Type(String),
    #[error("spec.git.directory is {0:?}: it must be a path below the root of the repository")]
    Directory(String),
    #[error("spec.git.branch is {0:?}: this cannot be the name of a branch of packages")]
    Branch(String),
}

impl Settings {
    /// Reads the settings of a Repository.
    ///
    /// # Errors
    /// The Repository cannot be used.
    pub fn of(repository: &Repository) -> Result<Self, SettingsError> {
        let spec = &repository.spec;
        if let Some(other) = spec.type_.as_deref().filter(|type_| !matches!(*type_, "" | "git")) {
            return Err(SettingsError::Type(other.to_owned()));
        }
        let git = spec.git.as_ref().ok_or(SettingsError::NoAddress)?;
        let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let url = Some(git.repo.clone()).filter(|url| !url.is_empty()).ok_or(SettingsError::NoAddress)?;
        crate::git::address::check(&url).map_err(SettingsError::Address)?;
        let branch = given(&git.branch).unwrap_or_else(|| DEFAULT_BRANCH.to_owned());
        let is_reserved = ["drafts", "proposed", "deletionProposed"]
            .iter()
            .any(|prefix| branch == *prefix || branch.starts_with(&format!("{prefix}/")));
        let is_odd = |c: char| c.is_control() || c.is_whitespace() || "~^:?*[\\".contains(c);
        if is_reserved || branch.starts_with('-') || branch.contains("..") || branch.contains(is_odd) {
            return Err(SettingsError::Branch(branch));
        }
        let directory = given(&git.directory).unwrap_or_default();
        let directory = directory.trim_matches('/').to_owned();
        if !directory.is_empty() && groundwork_untrusted::check(&directory).is_err() {
            return Err(SettingsError::Directory(directory));
        }
        let (author, email) = (given(&git.author), given(&git.email));
        let identity = match (author, email) {
            (None, None) => None,
            (Some(author), Some(email)) => Some((author, email)),
            (Some(one), None) | (None, Some(one)) => Some((one.clone(), one)),
        };
        Ok(Self {
            namespace: repository.namespace().unwrap_or_default(),
            name: repository.name_any(),
            url,
            branch,
            directory,
            create_branch: git.create_branch.unwrap_or_default(),
            deployment: spec.deployment.unwrap_or_default(),
            identity,
            secret: git.secret_ref.as_ref().map(|secret| secret.name.clone()).filter(|name| !name.is_empty()),
        })
    }

    /// Returns the part of the object that decisions about packages need.
    pub fn object(&self) -> Repository {
        let git = GitRepository {
            repo: self.url.clone(),
            branch: Some(self.branch.clone()),
            ..GitRepository::default()
        };
        let mut object = Repository::default();
        object.metadata.name = Some(self.name.clone());
        object.spec.git = Some(git);
        object
    }

    /// Reports whether both contain the same packages: the same branch of a remote, and directories
    /// of which one contains the other.
    pub fn overlaps(&self, other: &Self) -> bool {
        let is_below = |inner: &str, outer: &str| {
            outer.is_empty()
                || inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        normalized(&self.url) == normalized(&other.url)
            && self.branch == other.branch
            && (is_below(&self.directory, &other.directory) || is_below(&other.directory, &self.directory))
    }

    pub fn place(&self) -> RevisionPlace<'_> {
        RevisionPlace {
            namespace: &self.namespace,
            repository: &self.name,
            url: &self.url,
            deployment: self.deployment,
        }
    }
}
