//! What a plan needs beside objects, and what it asks for.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use groundwork_api::Context;
use groundwork_blueprint::Capabilities;
use groundwork_component::{Repositories, Repository, RepositoryContext, RepositoryError};
use groundwork_lifecycle::SignatureCheck;

use crate::landscape::Key;

/// What jobs need beside objects.
#[derive(Clone, Copy)]
pub struct Environment<'a> {
    pub repositories: &'a dyn Sources,
    /// What templates may reach.
    pub capabilities: &'a Capabilities,
    /// How signatures are checked; `None` leaves them to the job.
    pub signatures: Option<SignatureCheck>,
    /// Whether values that may be secret are shown.
    pub show_values: bool,
    /// Where it is noted which Secrets and ConfigMaps are looked for and are not in the landscape; `None` if it holds all that there are.
    pub reads: Option<&'a Reads>,
}

impl std::fmt::Debug for Environment<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Environment").field("show_values", &self.show_values).finish_non_exhaustive()
    }
}

/// Where components are looked for, with the credentials that a Context names.
pub trait Sources: Send + Sync {
    /// As [`Repositories::open`], for Installations of `namespace` that name this Context; `None` if there is none.
    ///
    /// # Errors
    ///
    /// The type of the repository is unknown, or nothing is reachable there.
    fn open_for(
        &self,
        namespace: &str,
        context: Option<&Context>,
        repository: &RepositoryContext,
    ) -> Result<Arc<dyn Repository>, RepositoryError>;
}

/// The same for all Contexts.
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

/// The sources as Installations with one Context see them.
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

/// Secrets and ConfigMaps that were looked for and are not there: with them the plan may be another one.
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

    /// All that has been looked for in vain.
    pub fn into_unread(self) -> Unread {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}
