//! Answers of the service to the questions of its workers. A question is untrusted input too: the
//! resolver decides whether the Installation of the job may read the component.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::future::BoxFuture;
use groundwork_component::{Access, RepositoryError};
use groundwork_proto::resolver::v1::Planning;
use groundwork_sandbox::{Host, pack, unpack};

use super::repositories::{Answer, Question};
use crate::components::{Components, RemoteRepositories, ResolverErrors};

impl Host for RemoteRepositories {
    fn answer(&self, question: Vec<u8>) -> BoxFuture<'_, Vec<u8>> {
        Box::pin(async move {
            let (answer, bytes) = match unpack(&question) {
                Ok((question, _)) => answer(self, question).await,
                Err(error) => failed(String::new(), error.to_string()),
            };
            pack(&answer, &bytes).unwrap_or_default()
        })
    }
}

/// Host for the worker of a plan.
pub(crate) struct PlannedRepositories {
    /// Client of the resolver; `None` if no resolver is configured.
    pub(crate) components: Option<Components>,
    /// Namespaces for which the caller of the plan has rights. Questions about other namespaces are
    /// refused, whatever the worker says.
    pub(crate) namespaces: BTreeSet<String>,
    pub(crate) resolver_errors: Arc<ResolverErrors>,
}

impl Host for PlannedRepositories {
    fn answer(&self, question: Vec<u8>) -> BoxFuture<'_, Vec<u8>> {
        Box::pin(async move {
            let (answer, bytes) = match unpack::<Question>(&question) {
                Ok((question, _)) => self.of_plan(question).await,
                Err(error) => failed(String::new(), error.to_string()),
            };
            pack(&answer, &bytes).unwrap_or_default()
        })
    }
}

impl PlannedRepositories {
    async fn of_plan(&self, question: Question) -> (Answer, Vec<u8>) {
        let address = || format!("{}:{}", question.name, question.version);
        let Some(components) = &self.components else {
            return failed(address(), "no resolver is configured (--resolver)".to_owned());
        };
        let planned = question.planned.clone();
        let Some(planned) = planned.filter(|planned| self.namespaces.contains(&planned.namespace)) else {
            return failed(address(), "the plan does not include this namespace".to_owned());
        };
        let planning = Planning { namespace: planned.namespace, pull_secrets: planned.pull_secrets };
        answer(&components.planned(planning, Arc::clone(&self.resolver_errors)), question).await
    }
}

async fn answer(repositories: &RemoteRepositories, question: Question) -> (Answer, Vec<u8>) {
    let Question { context, name, version, access, planned: _ } = question;
    let found = match access {
        None => {
            let descriptor = repositories.descriptor(context, &name, &version).await;
            descriptor.map(|found| found.map(|bytes| (String::new(), bytes)))
        }
        Some(access) => match Access::parse(&access) {
            Ok(access) => repositories.content(context, &name, &version, &access).await.map(Some),
            Err(error) => return failed(format!("{name}:{version}"), error.to_string()),
        },
    };
    match found {
        Ok(Some((media_type, bytes))) => (Answer::Found { media_type }, bytes),
        Ok(None) => (Answer::Absent, Vec::new()),
        Err(error) => (Answer::Failed(error), Vec::new()),
    }
}

fn failed(address: String, cause: String) -> (Answer, Vec<u8>) {
    (Answer::Failed(RepositoryError::Unreadable { address, cause }), Vec::new())
}
