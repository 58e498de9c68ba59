//! gRPC service of the deployer: work in the clusters of Targets on behalf of other services.

use groundwork_api::kubernetes::is_dns_subdomain;
use groundwork_api::{Target, rights};
use groundwork_controller::{ApiError, Objects};
use groundwork_deploy::{ClusterUser, GrantError, IssueError, TargetError, Targets};
use groundwork_grpc::{Access, ResourceAttributes};
use groundwork_lifecycle::target_sync::Account;
use groundwork_proto::component::v1::ObjectName;
use groundwork_proto::deployer::v1::deployer_server::Deployer;
use groundwork_proto::deployer::v1::make_kubeconfig_request::User;
use groundwork_proto::deployer::v1::{MakeKubeconfigRequest, MakeKubeconfigResponse};
use groundwork_proto::status::{self, Violation, reasons};
use tonic::{Request, Response, Status};

/// Implementation of the gRPC service.
pub(crate) struct Service {
    pub(crate) access: Access,
    pub(crate) objects: Objects,
    pub(crate) targets: Targets,
}

#[tonic::async_trait]
impl Deployer for Service {
    async fn make_kubeconfig(
        &self,
        request: Request<MakeKubeconfigRequest>,
    ) -> Result<Response<MakeKubeconfigResponse>, Status> {
        let (metadata, _, request) = request.into_parts();
        let named = checked(request.target, "target")?;
        let (group, resource) = rights::KUBECONFIGS;
        let namespace = Some(named.namespace.as_str());
        let attributes = ResourceAttributes { group, resource, namespace, name: None };
        self.access.authorise_to("create", &metadata, &[attributes]).await?;
        let user = match request.user {
            Some(User::ServiceAccount(account)) => {
                let ObjectName { namespace, name } = checked(Some(account), "service_account")?;
                ClusterUser::ServiceAccount(Account { namespace, name })
            }
            Some(User::ShootAdmin(shoot)) => {
                let ObjectName { namespace, name } = checked(Some(shoot), "shoot_admin")?;
                ClusterUser::ShootAdmin { namespace, name }
            }
            None => return Err(invalid("user", "it must be given")),
        };
        let seconds = request.expiration_seconds;
        if seconds <= 0 {
            return Err(invalid("expiration_seconds", "it must be more than 0"));
        }
        let ObjectName { namespace, name } = &named;
        let target = self.objects.get::<Target>(namespace, name).await.map_err(|error| of_home(&error))?;
        let target = target.ok_or_else(|| {
            let text = format!("the target {namespace}/{name} does not exist");
            status::not_found(reasons::TARGET_NOT_FOUND, text)
        })?;
        let issued = self.targets.issue(&target, &user, seconds, &self.objects).await;
        let issued = issued.map_err(|error| refused(&named, &error))?;
        let expiration = prost_types::Timestamp { seconds: issued.expiration.as_second(), nanos: 0 };
        Ok(Response::new(MakeKubeconfigResponse {
            kubeconfig: issued.kubeconfig,
            expiration: Some(expiration),
        }))
    }
}

/// Validates the name of an object. An invalid name could change the path of a request.
fn checked(name: Option<ObjectName>, field: &str) -> Result<ObjectName, Status> {
    let name = name.ok_or_else(|| invalid(field, "it must be given"))?;
    for (member, text) in [("namespace", &name.namespace), ("name", &name.name)] {
        if !is_dns_subdomain(text) {
            return Err(invalid(&format!("{field}.{member}"), "it must be a valid Kubernetes name"));
        }
    }
    Ok(name)
}

fn invalid(field: &str, message: &str) -> Status {
    let violation = Violation::new(field, message);
    status::invalid(reasons::INVALID_REQUEST, format!("{field}: {message}"), vec![violation])
}

/// Returns the status for an error of the home cluster.
fn of_home(error: &ApiError) -> Status {
    match error {
        ApiError::Forbidden { .. } => status::denied(reasons::FORBIDDEN, error.to_string()),
        _ => status::unavailable(reasons::API_SERVER_UNAVAILABLE, error.to_string()),
    }
}

/// Returns the status for a Target whose cluster gives no credentials.
fn refused(target: &ObjectName, error: &IssueError) -> Status {
    let text = format!("target {}/{}: {error}", target.namespace, target.name);
    match error {
        IssueError::Target(TargetError::Api(error)) => of_home(error),
        IssueError::Target(_) => status::failed_precondition(reasons::TARGET_UNUSABLE, text),
        IssueError::Grant(GrantError::Api(
            ApiError::Transient { .. } | ApiError::Unasked { .. } | ApiError::WebhookAway { .. },
        )) => status::unavailable(reasons::CLUSTER_UNAVAILABLE, text),
        IssueError::Grant(_) => status::failed_precondition(reasons::CLUSTER_REFUSED, text),
    }
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;

    /// A renderer tells by the code whether the job has failed, or another attempt may help.
    #[test]
    fn errors_have_the_code_of_their_cause() {
        let transient =
            ApiError::Transient { verb: "create", object: "token".to_owned(), problem: String::new() };
        let forbidden = ApiError::Forbidden { verb: "get", resource: "targets".to_owned() };
        let gone = ApiError::NotFound("the service account".to_owned());
        for (error, code, reason) in [
            (TargetError::Type.into(), Code::FailedPrecondition, reasons::TARGET_UNUSABLE),
            (TargetError::Api(forbidden.clone()).into(), Code::PermissionDenied, reasons::FORBIDDEN),
            (TargetError::Api(transient.clone()).into(), Code::Unavailable, reasons::API_SERVER_UNAVAILABLE),
            (GrantError::from(transient).into(), Code::Unavailable, reasons::CLUSTER_UNAVAILABLE),
            (GrantError::from(forbidden).into(), Code::FailedPrecondition, reasons::CLUSTER_REFUSED),
            (GrantError::from(gone).into(), Code::FailedPrecondition, reasons::CLUSTER_REFUSED),
            (GrantError::NoGardener.into(), Code::FailedPrecondition, reasons::CLUSTER_REFUSED),
        ] {
            let target = ObjectName { namespace: "team".to_owned(), name: "cluster".to_owned() };
            let status = refused(&target, &error);
            assert_eq!((status.code(), status::reason(&status).as_deref()), (code, Some(reason)), "{error}");
        }
    }
}
