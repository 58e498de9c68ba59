//! Repository client inside a worker, which asks its service.

use std::sync::Arc;

use groundwork_api::Context;
use groundwork_component::{Access, Blob, Repositories, Repository, RepositoryContext, RepositoryError};
use groundwork_plan::Sources;
use groundwork_sandbox::{Connection, pack, unpack};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Question;

/// Question about a component.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ComponentQuestion {
    /// Repository context as JSON.
    pub(super) context: String,
    pub(super) name: String,
    pub(super) version: String,
    /// Access of the wanted content; `None` for the descriptor.
    pub(super) access: Option<Value>,
    /// Installations of a plan; `None` for a job, which asks for its own Installation.
    pub(super) planned: Option<Planned>,
}

impl ComponentQuestion {
    /// Returns the component version for messages.
    pub(super) fn address(&self) -> String {
        format!("{}:{}", self.name, self.version)
    }
}

/// Installations that a plan would apply.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Planned {
    pub(super) namespace: String,
    /// Pull secrets that their Context names.
    pub(super) pull_secrets: Vec<String>,
}

/// Answer of the service; the bytes follow after it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum RepositoryAnswer {
    Found { media_type: String },
    Absent,
    Failed(RepositoryError),
}

pub(super) struct AskedRepositories(pub(super) Connection);

impl Repositories for AskedRepositories {
    fn open(&self, context: &RepositoryContext) -> Result<Arc<dyn Repository>, RepositoryError> {
        let (connection, context) = (self.0.clone(), context.to_json());
        Ok(Arc::new(AskedRepository { connection, context, planned: None }))
    }
}

/// Component repositories for the worker of a plan, which asks its service for their contents.
pub(super) struct AskedSources(pub(super) Connection);

impl Sources for AskedSources {
    fn open_for(
        &self,
        namespace: &str,
        context: Option<&Context>,
        repository: &RepositoryContext,
    ) -> Result<Arc<dyn Repository>, RepositoryError> {
        let pull_secrets = context.into_iter().flat_map(Context::pull_secrets).map(str::to_owned);
        let planned = Planned { namespace: namespace.to_owned(), pull_secrets: pull_secrets.collect() };
        let (connection, context) = (self.0.clone(), repository.to_json());
        Ok(Arc::new(AskedRepository { connection, context, planned: Some(planned) }))
    }
}

struct AskedRepository {
    connection: Connection,
    context: String,
    planned: Option<Planned>,
}

impl AskedRepository {
    fn ask(
        &self,
        name: &str,
        version: &str,
        access: Option<Value>,
    ) -> Result<Option<(String, Vec<u8>)>, RepositoryError> {
        let unreadable =
            |cause: String| RepositoryError::Unreadable { address: format!("{name}:{version}"), cause };
        let question = Question::Component(ComponentQuestion {
            context: self.context.clone(),
            name: name.to_owned(),
            version: version.to_owned(),
            access,
            planned: self.planned.clone(),
        });
        let question = pack(&question, &[]).map_err(|error| unreadable(error.to_string()))?;
        // If the service is gone, this error does not matter: the worker ends when it sends its
        // result.
        let message = self.connection.ask(&question).map_err(|error| unreadable(error.to_string()))?;
        let (answer, body) = unpack(&message).map_err(|error| unreadable(error.to_string()))?;
        match answer {
            RepositoryAnswer::Found { media_type } => Ok(Some((media_type, body.to_vec()))),
            RepositoryAnswer::Absent => Ok(None),
            RepositoryAnswer::Failed(error) => Err(error),
        }
    }
}

impl Repository for AskedRepository {
    fn descriptor(&self, name: &str, version: &str) -> Result<Option<Vec<u8>>, RepositoryError> {
        Ok(self.ask(name, version, None)?.map(|(_, bytes)| bytes))
    }

    fn content(&self, name: &str, version: &str, access: &Access) -> Result<Blob, RepositoryError> {
        let found = self.ask(name, version, Some(access.to_value()))?;
        let (media_type, bytes) = found
            .ok_or_else(|| RepositoryError::Missing { address: format!("{name}:{version} {access}") })?;
        Ok(Blob::from_bytes(media_type, bytes))
    }
}
