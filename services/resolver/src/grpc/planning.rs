//! Component versions for Installations that have not been applied yet.

use std::sync::Arc;

use groundwork_api::kubernetes::is_dns_subdomain;
use groundwork_api::{Context, Installation, Kind, LocalObjectReference};
use groundwork_component::{Access, Reference, Repositories as _};
use groundwork_grpc::ResourceAttributes;
use groundwork_proto::resolver::v1::Planning;
use groundwork_proto::status::{self, reasons};
use groundwork_registry::Keyring;
use groundwork_registry::sources::PullSecrets;
use tonic::Status;
use tonic::metadata::MetadataMap;

use super::{Service, errors, wire};
use crate::permitted_versions::{PermittedVersions, RecordingRepositories};
use crate::stores::JobStores;

/// Limit for the pull secrets of one call.
const MOST_SECRETS: usize = 100;

impl Service {
    /// Allows a call if its caller could apply an Installation with any component reference.
    /// Returns the stores with the credentials that this Installation would have.
    pub(super) async fn planned(&self, call: &MetadataMap, planning: &Planning) -> Result<JobStores, Status> {
        let Planning { namespace, pull_secrets } = planning;
        if !is_dns_subdomain(namespace) {
            return Err(wire::invalid("planning.namespace", "must be a valid Kubernetes name"));
        }
        if pull_secrets.len() > MOST_SECRETS {
            let problem = format!("must be at most {MOST_SECRETS}");
            return Err(wire::invalid("planning.pull_secrets", &problem));
        }
        let installations = ResourceAttributes {
            group: Installation::GROUP,
            resource: Installation::PLURAL,
            namespace: Some(namespace),
            name: None,
        };
        let secrets =
            ResourceAttributes { group: "", resource: "secrets", namespace: Some(namespace), name: None };
        self.callers.authorise_to("update", call, &[installations]).await?;
        self.callers.authorise(call, &[secrets]).await?;
        Ok(self.stores.fresh(namespace, self.keyring(planning).await?))
    }

    async fn keyring(&self, planning: &Planning) -> Result<Arc<Keyring>, Status> {
        let reference = |name: &String| LocalObjectReference { name: name.clone() };
        let context = Context {
            registry_pull_secrets: planning.pull_secrets.iter().map(reference).collect(),
            ..Context::default()
        };
        let mut secrets = PullSecrets::default();
        let read = secrets.read(&planning.namespace, Some(&context), &self.objects).await;
        read.map_err(|error| errors::api(&error))?;
        match secrets.error {
            Some(error) => Err(status::failed_precondition(reasons::REPOSITORY_DENIED, error)),
            None => Ok(Arc::new(secrets.keyring)),
        }
    }
}

/// Checks that the descriptor in the repository names the content, since a registry contains other
/// content too. Reads from stores.
pub(super) fn ensure_named(
    stores: &JobStores,
    planning: &Planning,
    reference: &Reference,
    access: &Access,
) -> Result<(), Status> {
    let permitted = PermittedVersions::default();
    let recording = RecordingRepositories { inner: stores.clone(), permitted: permitted.clone() };
    let Some(context) = &reference.repository else {
        return Err(wire::invalid("reference.repository_context", "must be given"));
    };
    let opened = recording.open(context).map_err(|error| errors::repository(&error))?;
    let loaded = opened.load(&reference.name, &reference.version, context);
    loaded.map_err(|error| errors::repository(&error))?;
    if permitted.has_content(reference, access) {
        return Ok(());
    }
    let text = format!(
        "component {:?} in version {:?}, read for Installations that might be applied to namespace {:?}, has no resource with the \
         content {access} in the descriptor of its repository",
        reference.name, reference.version, planning.namespace
    );
    Err(status::denied(reasons::COMPONENT_NOT_REACHED, text))
}
