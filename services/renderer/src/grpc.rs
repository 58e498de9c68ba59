//! gRPC service of the renderer. `Validate`, `Render` and `RenderExports` compute a job without
//! running it, `Plan` computes the effect of a change, `WatchInstallation` shows the progress of
//! jobs, and `Replay` shows the decisions in them.

mod plan;
mod replay;
mod watch;

use groundwork_api::kubernetes::is_dns_subdomain;
use groundwork_api::{Installation, Kind as _};
use groundwork_controller::{ApiError, Objects};
use groundwork_grpc::{Access, ResourceAttributes, peer_of};
use groundwork_lifecycle::UnreadStates;
use groundwork_proto::component::v1::ObjectName;
use groundwork_proto::renderer::v1::renderer_server::Renderer;
use groundwork_proto::renderer::v1::{
    PlanRequest, PlanResponse, RenderExportsRequest, RenderExportsResponse, RenderRequest, RenderResponse,
    ReplayRequest, ValidateRequest, ValidateResponse, WatchInstallationRequest, render_exports_request,
    render_request,
};
use groundwork_proto::status::{self, reasons};
use groundwork_turns::Holder;
use prost::Message;
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status};

use crate::calls::{invalid, missing};
use crate::components::Components;
use crate::follower::Follower;
use crate::inputs;
use crate::rendering::Gathered;
use crate::work::{CallError, Kind, Progress, Renderers, interrupted};
use replay::{Entries, Wish};
use watch::{Caller, Trees};

pub(crate) use plan::Plans;
pub(crate) use replay::Replays;
pub(crate) use watch::Watches;

/// Implementation of the gRPC service.
pub(crate) struct Service {
    pub(crate) access: Access,
    pub(crate) objects: Objects,
    pub(crate) components: Option<Components>,
    /// Workers for calls only, so that jobs never wait for calls.
    pub(crate) renderers: Renderers,
    pub(crate) watches: Watches,
    pub(crate) replays: Replays,
    pub(crate) plans: Plans,
}

#[tonic::async_trait]
impl Renderer for Service {
    async fn validate(
        &self,
        request: Request<ValidateRequest>,
    ) -> Result<Response<ValidateResponse>, Status> {
        self.work(Kind::Validate, &request.into_inner()).await
    }

    async fn render(&self, request: Request<RenderRequest>) -> Result<Response<RenderResponse>, Status> {
        let (metadata, _, request) = request.into_parts();
        match request.input {
            Some(render_request::Input::Inline(_)) => self.work(Kind::Render, &request).await,
            Some(render_request::Input::Installation(name)) => {
                let gathered = self.named(&metadata, name).await?;
                self.work_on(Kind::Render, gathered, &()).await
            }
            None => Err(missing("input")),
        }
    }

    async fn render_exports(
        &self,
        request: Request<RenderExportsRequest>,
    ) -> Result<Response<RenderExportsResponse>, Status> {
        let (metadata, _, mut request) = request.into_parts();
        match request.input.take() {
            inline @ Some(render_exports_request::Input::Inline(_)) => {
                self.work(Kind::RenderExports, &RenderExportsRequest { input: inline, ..request }).await
            }
            Some(render_exports_request::Input::Installation(name)) => {
                let gathered = self.named(&metadata, name).await?;
                self.work_on(Kind::RenderExports, gathered, &request).await
            }
            None => Err(missing("input")),
        }
    }

    async fn plan(&self, request: Request<PlanRequest>) -> Result<Response<PlanResponse>, Status> {
        let (metadata, _, request) = request.into_parts();
        self.answer_plan(&metadata, &request).await.map(Response::new)
    }

    type WatchInstallationStream = Trees;

    async fn watch_installation(
        &self,
        request: Request<WatchInstallationRequest>,
    ) -> Result<Response<Trees>, Status> {
        let (metadata, extensions, request) = request.into_parts();
        let installation = request.installation.ok_or_else(|| missing("installation"))?;
        let installation = checked(installation, "installation")?;
        let caller = Caller { access: self.access.clone(), metadata, installation };
        let user = caller.check().await?;
        let address = peer_of(&extensions).map(Holder::Address);
        let holders = Holder::of_user(&user.name).into_iter().chain(address).collect();
        let ObjectName { namespace, name } = &caller.installation;
        let follower = Follower::new(self.objects.clone(), namespace, name);
        self.watches.follow(follower, caller, holders).await.map(Response::new)
    }

    type ReplayStream = Entries;

    async fn replay(&self, request: Request<ReplayRequest>) -> Result<Response<Entries>, Status> {
        let (metadata, _, mut request) = request.into_parts();
        let installation = request.installation.take().ok_or_else(|| missing("installation"))?;
        let installation = checked(installation, "installation")?;
        let wish = Wish::of(&request)?;
        let caller = Caller { access: self.access.clone(), metadata, installation };
        caller.check().await?;
        self.replays.answer(&caller.installation, wish, &self.objects).await.map(Response::new)
    }
}

impl Service {
    /// Runs the work of a call in a worker. The work is cancelled if the caller goes away.
    async fn work<A: Message + Default>(
        &self,
        kind: Kind,
        request: &impl Message,
    ) -> Result<Response<A>, Status> {
        match self.renderers.call(kind, None, request, &()).await? {
            Progress::Done(answer) => Ok(Response::new(answer)),
            Progress::Lacks(UnreadStates(_)) => {
                let text = "a call with inline input asked for states";
                Err(status::internal(reasons::WORK_INTERRUPTED, text))
            }
        }
    }

    /// Runs the work of a call on an Installation of the cluster, and a second time with its state
    /// if the Installation keeps any. If the resolver could not answer, the call fails instead of
    /// returning an incomplete answer.
    async fn work_on<A: Message + Default>(
        &self,
        kind: Kind,
        mut gathered: Gathered,
        request: &impl Message,
    ) -> Result<Response<A>, Status> {
        loop {
            let done = self.renderers.call(kind, Some(&gathered.material), request, gathered.host()).await;
            if let Err(CallError::Interrupted(error)) = &done {
                return Err(interrupted(error));
            }
            if let Some(why) = gathered.unavailable() {
                return Err(status::unavailable(reasons::RESOLVER_UNAVAILABLE, why));
            }
            match done? {
                Progress::Done(answer) => return Ok(Response::new(answer)),
                Progress::Lacks(UnreadStates(keys)) => {
                    let read = inputs::states(&gathered.material.installation, &keys, &self.objects).await;
                    gathered.material.states = Some(read.map_err(unavailable)?.states);
                }
            }
        }
    }

    /// Reads the inputs of the next job of an Installation, if the caller may see them.
    async fn named(&self, metadata: &MetadataMap, name: ObjectName) -> Result<Gathered, Status> {
        let name = checked(name, "installation")?;
        let namespace = Some(name.namespace.as_str());
        let installation = ResourceAttributes {
            group: Installation::GROUP,
            resource: Installation::PLURAL,
            namespace,
            name: Some(&name.name),
        };
        let secrets = ResourceAttributes { group: "", resource: "secrets", namespace, name: None };
        // The caller also needs the right to read Secrets, since rendered objects may contain
        // values of Secrets.
        self.access.authorise(metadata, &[installation, secrets]).await?;
        let found =
            self.objects.get::<Installation>(&name.namespace, &name.name).await.map_err(unavailable)?;
        let installation = found.ok_or_else(|| {
            let message = format!("installation {}/{} does not exist", name.namespace, name.name);
            status::not_found(reasons::INSTALLATION_NOT_FOUND, message)
        })?;
        let (context, overwrites) =
            inputs::context(&installation, &self.objects).await.map_err(unavailable)?;
        let job = installation.status.as_ref().and_then(|status| status.job_id.clone()).unwrap_or_default();
        let remote = self.components.as_ref().map(|components| components.repositories(name, &job));
        let gathered = Gathered::read(installation, context, overwrites, remote, &self.objects);
        gathered.await.map_err(unavailable)
    }
}

/// Validates the name of an object. An invalid name could change the path of a request.
fn checked(name: ObjectName, field: &str) -> Result<ObjectName, Status> {
    for (member, text) in [("namespace", &name.namespace), ("name", &name.name)] {
        if !is_dns_subdomain(text) {
            return Err(invalid(&format!("{field}.{member}"), "it must be a valid Kubernetes name"));
        }
    }
    Ok(name)
}

#[allow(clippy::needless_pass_by_value, reason = "the shape that map_err wants")]
fn unavailable(error: ApiError) -> Status {
    match &error {
        ApiError::Forbidden { .. } => status::denied(reasons::FORBIDDEN, error.to_string()),
        _ => status::unavailable(reasons::API_SERVER_UNAVAILABLE, error.to_string()),
    }
}
