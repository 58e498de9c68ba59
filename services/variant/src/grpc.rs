//! gRPC calls `Expand` and `Preview`: they compute the children of sets and the changes to them,
//! without writing.

use std::sync::Arc;

use groundwork_api::kubernetes::is_dns_subdomain;
use groundwork_api::{Kind, PackageRevision, PackageVariant, PackageVariantSet, Repository, rights};
use groundwork_controller::{Objects, ReconcileError, Workers};
use groundwork_grpc::{Access, ResourceAttributes, User};
use groundwork_proto::component::v1::ObjectName;
use groundwork_proto::status::{self, reasons};
use groundwork_proto::variant::v1::expand_request::Input;
use groundwork_proto::variant::v1::variants_server::Variants;
use groundwork_proto::variant::v1::{ExpandRequest, ExpandResponse, PreviewRequest, PreviewResponse};
use k8s_openapi::api::authentication::v1::UserInfo;
use tonic::metadata::MetadataMap;
use tonic::{Code, Request, Response, Status};

use crate::inputs::{ReadError, discover, needs_repositories, read_inputs, selected_kinds};
use crate::preview::PreviewInputs;
use crate::set::children;
use crate::status::{invalid, of_api};
use crate::work::{Expanders, Task};

/// Implementation of the gRPC service.
pub(crate) struct Service {
    pub(crate) access: Access,
    pub(crate) objects: Objects,
    /// Threads for calls only, so that the controller never waits for them.
    pub(crate) workers: Workers,
    /// Worker processes for calls only, so that the controller never waits for them.
    pub(crate) expanders: Expanders,
}

#[tonic::async_trait]
impl Variants for Service {
    async fn expand(&self, request: Request<ExpandRequest>) -> Result<Response<ExpandResponse>, Status> {
        let (metadata, _, request) = request.into_parts();
        match request.input {
            Some(Input::Inline(_)) => self.expanders.call(&Task::Inline, &request).await.map(Response::new),
            Some(Input::Set(name)) => self.of_cluster(&name, &metadata).await.map(Response::new),
            None => Err(invalid("input", "it must be given")),
        }
    }

    async fn preview(&self, request: Request<PreviewRequest>) -> Result<Response<PreviewResponse>, Status> {
        let (metadata, _, request) = request.into_parts();
        let namespace = request.namespace.clone();
        if !is_dns_subdomain(&namespace) {
            return Err(invalid("namespace", "it must be a valid Kubernetes name"));
        }
        let all =
            |group, resource| ResourceAttributes { group, resource, namespace: Some(&namespace), name: None };
        let asker = self.asker(&metadata, &request, &all(rights::PLANS.0, rights::PLANS.1)).await?;
        let attributes = [
            all(PackageVariantSet::GROUP, PackageVariantSet::PLURAL),
            all(PackageVariant::GROUP, PackageVariant::PLURAL),
            all(Repository::GROUP, Repository::PLURAL),
            all(PackageRevision::GROUP, PackageRevision::PLURAL),
        ];
        let of_asker = |status: Status| match (&request.asker, status.code()) {
            (Some(_), Code::PermissionDenied) => status::denied(reasons::ASKER_DENIED, status.message()),
            _ => status,
        };
        self.access.demand(&asker, "get", &attributes).await.map_err(of_asker)?;
        let given = match request.sets.as_slice() {
            [] => Vec::new(),
            _ => self.expanders.given_sets(&request).await?,
        };
        let planned = match given.as_slice() {
            [] => self.objects.list::<PackageVariantSet>(&namespace, "").await.map_err(of_api)?,
            given => given.to_vec(),
        };
        for set in &planned {
            self.demand_selected(&asker, &namespace, set).await.map_err(of_asker)?;
        }
        let inputs = PreviewInputs::read(&namespace, given, &self.objects, &self.workers).await;
        let task = Task::Preview(Box::new(inputs.map_err(of_read)?));
        self.expanders.call(&task, &()).await.map(Response::new)
    }
}

impl Service {
    /// Returns the user whose rights count: the caller, or the user that the caller names, if the
    /// caller may create `plans`.
    async fn asker(
        &self,
        metadata: &MetadataMap,
        request: &PreviewRequest,
        plans: &ResourceAttributes<'_>,
    ) -> Result<Arc<User>, Status> {
        let caller = self.access.authenticate(metadata).await?;
        let Some(asker) = &request.asker else { return Ok(caller) };
        if asker.username.is_empty() {
            return Err(invalid("asker.username", "it must be given"));
        }
        self.access.demand(&caller, "create", &[*plans]).await?;
        Ok(Arc::new(User::of(UserInfo {
            username: Some(asker.username.clone()),
            uid: Some(asker.uid.clone()).filter(|uid| !uid.is_empty()),
            groups: Some(asker.groups.clone()),
            extra: Some(asker.extra.iter().map(|(key, found)| (key.clone(), found.values.clone())).collect()),
        })))
    }

    /// Refuses callers that may not `get` the objects that a set selects, since the answer shows
    /// these objects.
    async fn demand_selected(
        &self,
        user: &User,
        namespace: &str,
        set: &PackageVariantSet,
    ) -> Result<(), Status> {
        for (api_version, kind) in selected_kinds(set) {
            let selected = match discover(&api_version, &kind, self.objects.client()).await {
                Ok((selected, _)) => selected,
                // The answer shows no objects of a kind that this service cannot read, so the
                // caller needs no rights for the kind.
                Err(ReadError::Unavailable(_)) => continue,
                Err(ReadError::Retry(error)) => return Err(of_read(error)),
            };
            let attributes = ResourceAttributes {
                group: &selected.group,
                resource: &selected.plural,
                namespace: Some(namespace),
                name: None,
            };
            self.access.demand(user, "get", &[attributes]).await?;
        }
        Ok(())
    }

    async fn of_cluster(&self, name: &ObjectName, metadata: &MetadataMap) -> Result<ExpandResponse, Status> {
        let ObjectName { namespace, name } = name;
        for (member, text) in [("set.namespace", namespace), ("set.name", name)] {
            if !is_dns_subdomain(text) {
                return Err(invalid(member, "it must be a valid Kubernetes name"));
            }
        }
        let of =
            |group, resource, name| ResourceAttributes { group, resource, namespace: Some(namespace), name };
        let set = of(PackageVariantSet::GROUP, PackageVariantSet::PLURAL, Some(name.as_str()));
        let caller = self.access.authorise(metadata, &[set]).await?;
        let found = self.objects.get::<PackageVariantSet>(namespace, name).await.map_err(of_api)?;
        let set = found.ok_or_else(|| {
            let message = format!("package variant set {namespace}/{name} does not exist");
            status::not_found(reasons::SET_NOT_FOUND, message)
        })?;
        // The answer also shows existing variants and Repositories, so the caller needs rights for
        // these too.
        let mut attributes = vec![of(PackageVariant::GROUP, PackageVariant::PLURAL, None)];
        if needs_repositories(&set) {
            attributes.push(of(Repository::GROUP, Repository::PLURAL, None));
        }
        attributes.push(of(PackageRevision::GROUP, PackageRevision::PLURAL, None));
        self.access.demand(&caller, "get", &attributes).await?;
        self.demand_selected(&caller, namespace, &set).await?;
        let inputs = read_inputs(&set, &self.objects, &self.workers).await.map_err(of_read)?;
        let children = children(&set, &self.objects).await.map_err(of_api)?;
        self.expanders.call(&Task::Named(Box::new((set, inputs, children))), &()).await
    }
}

#[allow(clippy::needless_pass_by_value, reason = "the shape that map_err wants")]
fn of_read(error: ReconcileError) -> Status {
    status::unavailable(reasons::API_SERVER_UNAVAILABLE, error.message)
}
