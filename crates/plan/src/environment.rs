//! Inputs of a plan beside objects, and its record of missing objects.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use groundwork_api::Context;
use groundwork_blueprint::Capabilities;
use groundwork_component::{Repositories, Repository, RepositoryContext, RepositoryError};
use groundwork_lifecycle::SignatureCheck;

use crate::landscape::Key;

/// Inputs of jobs beside objects.
#[derive(Clone, Copy)]
pub struct Environment<'a> {
    pub repositories: &'a dyn Sources,
    /// External systems that templates may access.
    pub capabilities: &'a Capabilities,
    /// Settings of the signature check; `None` skips the check, which the job itself does later.
    pub signatures: Option<SignatureCheck>,
    /// True if values that may be secret are shown.
    pub show_values: bool,
    /// Record of Secrets and ConfigMaps that the plan searched for but the landscape lacks; `None`
    /// if the landscape is complete.
    pub reads: Option<&'a Reads>,
}

impl std::fmt::Debug for Environment<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Environment").field("show_values", &self.show_values).finish_non_exhaustive()
    }
}

/// Component repositories, accessed with the credentials of a Context.
pub trait Sources: Send + Sync {
    /// Opens a repository as [`Repositories::open`] does, for Installations of `namespace` that
    /// name this Context; `None` without a Context.
    ///
    /// # Errors
    ///
    /// The type of the repository is unknown, or the repository is unreachable.
    fn open_for(
        &self,
        namespace: &str,
        context: Option<&Context>,
        repository: &RepositoryContext,
    ) -> Result<Arc<dyn Repository>, RepositoryError>;
}

/// Repositories without credentials of Contexts: every Context gets the same ones.
impl<R: Repositories> Sources for R {
    fn open_for(
        &self,
        _: &str,
        _: Option<&Context>,
        repository: &RepositoryContext,
    ) -> Result<Arc<dyn Repository>, RepositoryError> {
        self.open(repository)
    }
}

/// Sources for Installations with one Context.
pub(crate) struct OfContext<'a> {
    pub(crate) sources: &'a dyn Sources,
    pub(crate) namespace: &'a str,
    pub(crate) context: Option<&'a Context>,
}

impl Repositories for OfContext<'_> {
    fn open(&self, context: &RepositoryContext) -> Result<Arc<dyn Repository>, RepositoryError> {
        self.sources.open_for(self.namespace, self.context, context)
    }
}

/// Secrets and ConfigMaps that the plan searched for in vain. With them the plan may differ.
#[derive(Debug, Default)]
pub struct Reads(Mutex<Unread>);

/// Names of Secrets and ConfigMaps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unread {
    pub secrets: BTreeSet<Key>,
    pub config_maps: BTreeSet<Key>,
}

impl Reads {
    pub(crate) fn secret(&self, key: Key) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).secrets.insert(key);
    }

    pub(crate) fn config_map(&self, key: Key) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).config_maps.insert(key);
    }

    /// Returns all names that the plan searched for in vain.
    pub fn into_unread(self) -> Unread {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}
