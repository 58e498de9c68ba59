//! `Validate`, `Render` and `RenderExports`: what a job would do, without doing it; `WatchInstallation`: what jobs do.

mod answer;
mod request;
mod watch;

use std::sync::Arc;

use groundwork_api::{Installation, Kind};
use groundwork_controller::{ApiError, Objects, WorkError, Workers};
use groundwork_grpc::{Access, ResourceAttributes};
use groundwork_kubernetes::is_dns_subdomain;
use groundwork_lifecycle::{Inputs, ROOT_SCOPE, UnreadStates, export, render, validate};
use groundwork_manifest::{JsonError, Schemas};
use groundwork_proto::component::v1::{Json, ObjectName};
use groundwork_proto::renderer::v1::renderer_server::Renderer;
use groundwork_proto::renderer::v1::{
    RenderExportsRequest, RenderExportsResponse, RenderRequest, RenderResponse, ValidateRequest,
    ValidateResponse, Violation, WatchInstallationRequest, render_exports_request, render_request,
};
use groundwork_proto::status::{self, reasons};
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status};

use crate::blueprints::Blueprints;
use crate::components::Components;
use crate::follower::Follower;
use crate::inputs;
use crate::rendering::Material;
use request::Inline;
use watch::{Caller, Trees};

pub(crate) use watch::Watches;

/// The service behind the contract.
pub(crate) struct Service {
    pub(crate) access: Access,
    pub(crate) objects: Objects,
    pub(crate) components: Option<Components>,
    /// For calls only: jobs do not wait for them.
    pub(crate) workers: Workers,
    pub(crate) blueprints: Blueprints,
    pub(crate) watches: Watches,
}

#[tonic::async_trait]
impl Renderer for Service {
    async fn validate(
        &self,
        request: Request<ValidateRequest>,
    ) -> Result<Response<ValidateResponse>, Status> {
        let ValidateRequest { installation, blueprint } = request.into_inner();
        self.work(move || {
            let files = request::files(blueprint, "blueprint")?;
            let violations = match (installation, &files) {
                (None, Some(_)) => Vec::new(),
                (installation, _) => violations(&installation.unwrap_or_default())?,
            };
            Ok(ValidateResponse { violations, findings: files.map(answer::findings).unwrap_or_default() })
        })
        .await
    }

    async fn render(&self, request: Request<RenderRequest>) -> Result<Response<RenderResponse>, Status> {
        let (metadata, _, request) = request.into_parts();
        let blueprints = self.blueprints.clone();
        match request.input {
            Some(render_request::Input::Inline(input)) => {
                self.work(move || {
                    let inline = Inline::read(input)?;
                    let outcome = inline.with_inputs(&blueprints, render);
                    let mut answer = answer::rendered(&inline.installation, &outcome)?;
                    answer.warnings.extend(inline.unused(&outcome));
                    Ok(answer)
                })
                .await
            }
            Some(render_request::Input::Installation(name)) => {
                let material = self.named(&metadata, name).await?;
                self.work_on(material, |inputs| {
                    let mut outcome = render(inputs);
                    if !outcome.unread_states.is_empty() {
                        return Ok(Err(UnreadStates(std::mem::take(&mut outcome.unread_states))));
                    }
                    answer::rendered(inputs.installation, &outcome).map(Ok)
                })
                .await
            }
            None => Err(missing("input")),
        }
    }

    async fn render_exports(
        &self,
        request: Request<RenderExportsRequest>,
    ) -> Result<Response<RenderExportsResponse>, Status> {
        let (metadata, _, RenderExportsRequest { input, values, state }) = request.into_parts();
        let blueprints = self.blueprints.clone();
        let values = values.unwrap_or_default();
        match input {
            Some(render_exports_request::Input::Inline(input)) => {
                if !state.is_empty() {
                    return Err(invalid("state", "inline input has the state in inline.state"));
                }
                self.work(move || {
                    let values = request::export_values(&values)?;
                    let inline = Inline::read(input)?;
                    let outcome = inline.with_inputs(&blueprints, |inputs| export(inputs, |_| values));
                    answer::exported(&inline.installation, ROOT_SCOPE, &outcome)
                })
                .await
            }
            Some(render_exports_request::Input::Installation(name)) => {
                let material = self.named(&metadata, name).await?;
                self.work_on(material, move |inputs| {
                    let values = request::export_values(&values)?;
                    let given = request::states(&state, "state")?;
                    // What the caller gives stands in the place of what is stored.
                    let given = (!given.is_empty()).then_some(&given);
                    let inputs = Inputs { states: given.or(inputs.states), ..*inputs };
                    let mut outcome = export(&inputs, |_| values);
                    if !outcome.unread_states.is_empty() {
                        return Ok(Err(UnreadStates(std::mem::take(&mut outcome.unread_states))));
                    }
                    answer::exported(inputs.installation, inputs.scope, &outcome).map(Ok)
                })
                .await
            }
            None => Err(missing("input")),
        }
    }

    type WatchInstallationStream = Trees;

    async fn watch_installation(
        &self,
        request: Request<WatchInstallationRequest>,
    ) -> Result<Response<Trees>, Status> {
        let (metadata, _, request) = request.into_parts();
        let installation = request.installation.ok_or_else(|| missing("installation"))?;
        let installation = checked(installation, "installation")?;
        let caller = Caller { access: self.access.clone(), metadata, installation };
        caller.check().await?;
        let ObjectName { namespace, name } = &caller.installation;
        let follower = Follower::new(self.objects.clone(), namespace, name);
        self.watches.follow(follower, caller).await.map(Response::new)
    }
}

impl Service {
    /// Does the work of a call when it is its turn, beside the threads that serve.
    async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Status> + Send + 'static,
    ) -> Result<Response<T>, Status> {
        self.workers.run(work).await.map_err(interrupted)?.map(Response::new)
    }

    /// The same on an Installation of the cluster, and once more with states if it keeps some. An answer that lacks what the resolver could
    /// not say is none.
    async fn work_on<T: Send + 'static>(
        &self,
        material: Material,
        work: impl Fn(&Inputs<'_>) -> Result<Result<T, UnreadStates>, Status> + Clone + Send + 'static,
    ) -> Result<Response<T>, Status> {
        let material = Arc::new(material);
        let mut states = None;
        loop {
            let (inner, blueprints, work) = (Arc::clone(&material), self.blueprints.clone(), work.clone());
            let work = move || inner.with_inputs(states.as_ref(), &blueprints, work);
            let done = self.workers.run(work).await.map_err(interrupted)?;
            if let Some(why) = material.unavailable() {
                return Err(status::unavailable(reasons::RESOLVER_UNAVAILABLE, why));
            }
            match done? {
                Ok(answer) => return Ok(Response::new(answer)),
                Err(UnreadStates(keys)) => {
                    let read = inputs::states(&material.installation, &keys, &self.objects).await;
                    states = Some(read.map_err(unavailable)?);
                }
            }
        }
    }

    /// Reads what the next job of an Installation would read, for those who may see it.
    async fn named(&self, metadata: &MetadataMap, name: ObjectName) -> Result<Material, Status> {
        let name = checked(name, "installation")?;
        let namespace = Some(name.namespace.as_str());
        let installation = ResourceAttributes {
            group: Installation::GROUP,
            resource: Installation::PLURAL,
            namespace,
            name: Some(&name.name),
        };
        let secrets = ResourceAttributes { group: "", resource: "secrets", namespace, name: None };
        // What is rendered may hold what Secrets hold.
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
        let material = Material::read(installation, context, overwrites, remote, &self.objects);
        material.await.map_err(unavailable)
    }
}

/// Every rule that an Installation breaks.
fn violations(json: &Json) -> Result<Vec<Violation>, Status> {
    let object = match groundwork_manifest::read(&json.text, Schemas::shared()) {
        Ok(object) => object,
        // Every field that is wrong, as with the rules behind.
        Err(JsonError::Structure(problems)) => {
            let told = |message| Violation { field: String::new(), message };
            return Ok(problems.into_iter().map(told).collect());
        }
        Err(error) => return Err(invalid("installation", &error.to_string())),
    };
    let installation: Installation = request::typed(object, "installation")?;
    let violation = |error: &groundwork_blueprint::FieldError| Violation {
        field: error.path.to_string(),
        message: error.to_string(),
    };
    Ok(validate(&installation).iter().map(violation).collect())
}

fn interrupted(error: WorkError) -> Status {
    status::interrupted(error.is_limit(), error.to_string())
}

/// An object by its name. What cannot be a name names nothing, and could change the path of a request.
fn checked(name: ObjectName, field: &str) -> Result<ObjectName, Status> {
    for (member, text) in [("namespace", &name.namespace), ("name", &name.name)] {
        if !is_dns_subdomain(text) {
            return Err(invalid(&format!("{field}.{member}"), "it must be a name as Kubernetes has them"));
        }
    }
    Ok(name)
}

fn invalid(field: &str, message: &str) -> Status {
    let violation = status::Violation { field: field.to_owned(), description: message.to_owned() };
    status::invalid(reasons::INVALID_REQUEST, format!("{field}: {message}"), vec![violation])
}

fn missing(field: &str) -> Status {
    invalid(field, "it must be given")
}

#[allow(clippy::needless_pass_by_value, reason = "the shape that map_err wants")]
fn unavailable(error: ApiError) -> Status {
    match &error {
        ApiError::Forbidden { .. } => status::denied(reasons::FORBIDDEN, error.to_string()),
        _ => status::unavailable(reasons::API_SERVER_UNAVAILABLE, error.to_string()),
    }
}

#[cfg(test)]
mod tests;
