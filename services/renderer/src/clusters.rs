//! Client of the deployer, which makes kubeconfigs for the templates of jobs.

use std::sync::{Arc, Mutex, PoisonError};

use groundwork_blueprint::{ClusterUser, KubeconfigRequest};
use groundwork_grpc::{Channel, retry, with_limits};
use groundwork_proto::component::v1::ObjectName;
use groundwork_proto::deployer::v1::MakeKubeconfigRequest;
use groundwork_proto::deployer::v1::deployer_client::DeployerClient;
use groundwork_proto::deployer::v1::make_kubeconfig_request::User;
use groundwork_proto::status::{self, reasons};
use tonic::Status;

use crate::components::may_pass;

/// Client of the deployer. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Clusters(DeployerClient<Channel>);

impl Clusters {
    pub(crate) fn new(channel: Channel) -> Self {
        Self(with_limits!(DeployerClient::new(channel)))
    }

    /// Returns the clusters of the Targets in one namespace.
    pub(crate) fn of_namespace(&self, namespace: &str) -> RemoteClusters {
        let unavailable = Arc::default();
        RemoteClusters { client: self.0.clone(), namespace: namespace.to_owned(), unavailable }
    }
}

/// Clusters of Targets in the namespace of a job.
#[derive(Debug, Clone)]
pub(crate) struct RemoteClusters {
    client: DeployerClient<Channel>,
    namespace: String,
    /// Set once the deployer did not answer. A job must not fail because of it.
    unavailable: Arc<Mutex<Option<String>>>,
}

impl RemoteClusters {
    /// Returns the reason why the answers are unreliable, if they are.
    pub(crate) fn unavailable(&self) -> Option<String> {
        self.unavailable.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Gets a new kubeconfig and the time of its end, in seconds since 1970. The Target is always
    /// one of the job's namespace, whatever the untrusted request says.
    pub(crate) async fn kubeconfig(&self, request: KubeconfigRequest) -> Result<(Vec<u8>, i64), String> {
        let request = self.wire(request);
        let client = self.client.clone();
        let call = move || {
            let (mut client, request) = (client.clone(), request.clone());
            async move { client.make_kubeconfig(request).await }
        };
        let answer = retry(call).await.map_err(|status| self.failed(&status))?.into_inner();
        let expiration = answer.expiration.map(|expiration| expiration.seconds).unwrap_or_default();
        Ok((answer.kubeconfig, expiration))
    }

    fn wire(&self, request: KubeconfigRequest) -> MakeKubeconfigRequest {
        let KubeconfigRequest { target, user, namespace, name, expiration_seconds } = request;
        let named = ObjectName { namespace, name };
        let user = match user {
            ClusterUser::ServiceAccount => User::ServiceAccount(named),
            ClusterUser::ShootAdmin => User::ShootAdmin(named),
        };
        let target = ObjectName { namespace: self.namespace.clone(), name: target };
        MakeKubeconfigRequest { target: Some(target), user: Some(user), expiration_seconds }
    }

    fn failed(&self, status: &Status) -> String {
        // A user's cluster may never answer again, and must not keep the job from ending.
        let is_cluster = status::reason(status).is_some_and(|reason| reason == reasons::CLUSTER_UNAVAILABLE);
        if may_pass(status) && !is_cluster {
            let mut unavailable = self.unavailable.lock().unwrap_or_else(PoisonError::into_inner);
            *unavailable = Some(status.message().to_owned());
        }
        status.message().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use groundwork_grpc::{TokenSource, connect};

    use super::*;

    fn clusters() -> RemoteClusters {
        let channel = connect("http://127.0.0.1:1", None, TokenSource::none()).unwrap();
        Clusters::new(channel).of_namespace("team")
    }

    #[tokio::test]
    async fn targets_are_those_of_the_namespace() {
        let request = KubeconfigRequest {
            target: "cluster".to_owned(),
            user: ClusterUser::ServiceAccount,
            namespace: "elsewhere".to_owned(),
            name: "robot".to_owned(),
            expiration_seconds: 600,
        };
        let wire = clusters().wire(request);
        assert_eq!(
            wire.target,
            Some(ObjectName { namespace: "team".to_owned(), name: "cluster".to_owned() })
        );
        let account = ObjectName { namespace: "elsewhere".to_owned(), name: "robot".to_owned() };
        assert_eq!(wire.user, Some(User::ServiceAccount(account)));
    }

    #[tokio::test]
    async fn only_the_deployer_makes_a_job_wait() {
        for (status, waits) in [
            (Status::unavailable("no connection"), true),
            (status::exhausted(reasons::TOO_MANY_CALLS, ""), true),
            (status::unavailable(reasons::API_SERVER_UNAVAILABLE, ""), true),
            (status::unavailable(reasons::CLUSTER_UNAVAILABLE, ""), false),
            (status::failed_precondition(reasons::CLUSTER_REFUSED, ""), false),
            (status::not_found(reasons::TARGET_NOT_FOUND, ""), false),
        ] {
            let clusters = clusters();
            clusters.failed(&status);
            assert_eq!(clusters.unavailable().is_some(), waits, "{status:?}");
        }
    }
}
