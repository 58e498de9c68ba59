//! `Validate`, `Render` and `RenderExports`: what a job would do, without doing it.

mod answer;
mod request;

use std::collections::BTreeMap;

use groundwork_api::{ComponentVersionOverwrites, Context, Installation, Kind};
use groundwork_blueprint::{ExportValues, States};
use groundwork_controller::{ApiError, Objects, WorkError, Workers};
use groundwork_grpc::{Access, ResourceAttributes};
use groundwork_kubernetes::is_dns_subdomain;
use groundwork_lifecycle::{Inputs, ObjectSet, Offline, export_with, render_with, validate};
use groundwork_manifest::{JsonError, Schemas};
use groundwork_proto::component::v1::{Json, ObjectName};
use groundwork_proto::renderer::v1::renderer_server::Renderer;
use groundwork_proto::renderer::v1::{
    RenderExportsRequest, RenderExportsResponse, RenderRequest, RenderResponse, ValidateRequest,
    ValidateResponse, Violation, render_exports_request, render_request,
};
use groundwork_proto::status::{self, reasons};
use groundwork_registry::RepositoryMap;
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status};

use crate::blueprints::Blueprints;
use crate::components::{Components, RemoteRepositories};
use crate::inputs;
use request::Inline;

/// The service behind the contract.
pub(crate) struct Service {
    pub(crate) access: Access,
    pub(crate) objects: Objects,
    pub(crate) components: Option<Components>,
    /// For calls only: jobs do not wait for them.
    pub(crate) workers: Workers,
    pub(crate) blueprints: Blueprints,
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
                    let outcome = inline.with_inputs(|inputs| render_with(inputs, Some(&blueprints)));
                    let mut answer = answer::rendered(&inline.installation, &outcome)?;
                    answer.warnings.extend(inline.unused(&outcome));
                    Ok(answer)
                })
                .await
            }
            Some(render_request::Input::Installation(name)) => {
                let named = self.named(&metadata, name).await?;
                self.work_on(named, move |inputs| {
                    answer::rendered(inputs.installation, &render_with(inputs, Some(&blueprints)))
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
                    let export = |inputs: &Inputs<'_>| export_with(inputs, Some(&blueprints), &values);
                    answer::exported(&inline.installation, &inline.with_inputs(export))
                })
                .await
            }
            Some(render_exports_request::Input::Installation(name)) => {
                let named = self.named(&metadata, name).await?;
                self.work_on(named, move |inputs| {
                    let values = request::export_values(&values)?;
                    let states = request::states(&state, "state")?;
                    exports(inputs, &blueprints, &values, &states)
                })
                .await
            }
            None => Err(missing("input")),
        }
    }
}

/// What a job of an Installation of the cluster reads.
struct Named {
    installation: Installation,
    context: Option<Context>,
    overwrites: Option<ComponentVersionOverwrites>,
    objects: ObjectSet,
    remote: Option<RemoteRepositories>,
}

impl Service {
    /// Does the work of a call when it is its turn, beside the threads that serve.
    async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Status> + Send + 'static,
    ) -> Result<Response<T>, Status> {
        self.workers.run(work).await.map_err(interrupted)?.map(Response::new)
    }

    /// The same on an Installation of the cluster. An answer that lacks what the resolver could not say is none.
    async fn work_on<T: Send + 'static>(
        &self,
        named: Named,
        work: impl FnOnce(&Inputs<'_>) -> Result<T, Status> + Send + 'static,
    ) -> Result<Response<T>, Status> {
        let answers = named.remote.clone();
        let done = self.work(move || {
            let none = RepositoryMap::empty("a resolver (none is configured)");
            work(&Inputs {
                installation: &named.installation,
                context: named.context.as_ref(),
                overwrites: named.overwrites.as_ref(),
                objects: &named.objects,
                repositories: match &named.remote {
                    Some(remote) => remote,
                    None => &none,
                },
                blueprint: None,
                capabilities: &inputs::capabilities(),
                offline: None,
            })
        });
        let done = done.await;
        match answers.and_then(|answers| answers.unavailable()) {
            None => done,
            Some(why) => Err(status::unavailable(reasons::RESOLVER_UNAVAILABLE, why)),
        }
    }

    /// Reads what the next job of an Installation would read, for those who may see it.
    async fn named(&self, metadata: &MetadataMap, name: ObjectName) -> Result<Named, Status> {
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
        let objects =
            inputs::fetch(&installation, context.as_ref(), &self.objects).await.map_err(unavailable)?;
        let job = installation.status.as_ref().and_then(|status| status.job_id.clone()).unwrap_or_default();
        let remote = self.components.as_ref().map(|components| components.repositories(name, &job));
        Ok(Named { installation, context, overwrites, objects, remote })
    }
}

/// What an Installation of the cluster would publish. No job does that in this version, so the caller carries out exports and state.
fn exports(
    inputs: &Inputs<'_>,
    blueprints: &Blueprints,
    values: &ExportValues,
    states: &States,
) -> Result<RenderExportsResponse, Status> {
    let given = BTreeMap::new();
    let offline = Offline { scope: ROOT_SCOPE, given: &given, states, show_values: false };
    let inputs = Inputs { offline: Some(offline), ..*inputs };
    answer::exported(inputs.installation, &export_with(&inputs, Some(blueprints), values))
}

/// The scope of a namespace, where Installations live that no other one has made.
const ROOT_SCOPE: &str = "";

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
