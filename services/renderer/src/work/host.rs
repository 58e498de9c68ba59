//! Answers of the service to the questions of its workers. A question is untrusted input too: the
//! resolver decides whether the Installation of the job may read the component, and a kubeconfig is
//! always for a Target of the job's namespace.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::future::BoxFuture;
use groundwork_blueprint::KubeconfigRequest;
use groundwork_component::{Access, RepositoryError};
use groundwork_proto::resolver::v1::Planning;
use groundwork_sandbox::{Host, pack, unpack};

use super::Question;
use super::clusters::ClusterAnswer;
use super::repositories::{ComponentQuestion, RepositoryAnswer};
use crate::clusters::RemoteClusters;
use crate::components::{Components, RemoteRepositories, ResolverErrors};

/// Host for the worker of a job, or of a call about one Installation.
#[derive(Default)]
pub(crate) struct JobHost {
    /// Source of components; `None` if the Installation names none.
    pub(crate) repositories: Option<RemoteRepositories>,
    /// Source of kubeconfigs; `None` for a call, and if no deployer is configured.
    pub(crate) clusters: Option<RemoteClusters>,
}

impl Host for JobHost {
    fn answer(&self, question: Vec<u8>) -> BoxFuture<'_, Vec<u8>> {
        Box::pin(async move {
            let (answer, bytes) = match (unpack(&question), &self.repositories) {
                (Ok((Question::Kubeconfig(request), _)), _) => return self.kubeconfig(request).await,
                (Ok((Question::Component(question), _)), Some(own)) => answer(own, question).await,
                (Ok((Question::Component(question), _)), None) => {
                    failed(question.address(), "the Installation names no component".to_owned())
                }
                (Err(error), _) => failed(String::new(), error.to_string()),
            };
            pack(&answer, &bytes).unwrap_or_default()
        })
    }
}

impl JobHost {
    async fn kubeconfig(&self, request: KubeconfigRequest) -> Vec<u8> {
        let issued = match &self.clusters {
            Some(clusters) => clusters.kubeconfig(request).await,
            None => Err("no deployer is configured (--deployer)".to_owned()),
        };
        let packed = match issued {
            Ok((kubeconfig, expiration)) => pack(&ClusterAnswer::Issued { expiration }, &kubeconfig),
            Err(problem) => pack(&ClusterAnswer::Failed(problem), &[]),
        };
        packed.unwrap_or_default()
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
            let (answer, bytes) = match unpack(&question) {
                Ok((Question::Component(question), _)) => self.of_plan(question).await,
                Ok((Question::Kubeconfig(_), _)) => {
                    failed(String::new(), "a plan gets no kubeconfigs".to_owned())
                }
                Err(error) => failed(String::new(), error.to_string()),
            };
            pack(&answer, &bytes).unwrap_or_default()
        })
    }
}

impl PlannedRepositories {
    async fn of_plan(&self, question: ComponentQuestion) -> (RepositoryAnswer, Vec<u8>) {
        let address = || question.address();
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

async fn answer(
    repositories: &RemoteRepositories,
    question: ComponentQuestion,
) -> (RepositoryAnswer, Vec<u8>) {
    let ComponentQuestion { context, name, version, access, planned: _ } = question;
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
        Ok(Some((media_type, bytes))) => (RepositoryAnswer::Found { media_type }, bytes),
        Ok(None) => (RepositoryAnswer::Absent, Vec::new()),
        Err(error) => (RepositoryAnswer::Failed(error), Vec::new()),
    }
}

fn failed(address: String, cause: String) -> (RepositoryAnswer, Vec<u8>) {
    (RepositoryAnswer::Failed(RepositoryError::Unreadable { address, cause }), Vec::new())
}
