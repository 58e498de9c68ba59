//! `Validate` and `Render`: what a job would do, without doing it.

use std::collections::HashMap;

use groundwork_api::{
    ComponentVersionOverwrites, Context, DataObject, Installation, InstallationStatus, Kind, ResourceExt,
    Target, Time,
};
use groundwork_blueprint::Filesystem;
use groundwork_controller::{ApiError, Objects, WorkError, Workers};
use groundwork_grpc::{Access, Wanted};
use groundwork_kubernetes::is_dns_subdomain;
use groundwork_lifecycle::{Inputs, ObjectSet, Outcome, merge_condition, render, validate};
use groundwork_manifest::{JsonError, Schemas};
use groundwork_proto::component::v1::{Failure as WireFailure, Json, ObjectName};
use groundwork_proto::renderer::v1::render_request::Input;
use groundwork_proto::renderer::v1::renderer_server::Renderer;
use groundwork_proto::renderer::v1::{
    RenderInput, RenderRequest, RenderResponse, ValidateRequest, ValidateResponse, Violation,
};
use groundwork_proto::status::{self, reasons};
use groundwork_registry::RepositoryMap;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tonic::{Request, Response, Status};

use crate::components::Components;
use crate::inputs;

/// The service behind the contract.
pub(crate) struct Service {
    pub(crate) access: Access,
    pub(crate) objects: Objects,
    pub(crate) components: Option<Components>,
    /// For calls only: jobs do not wait for them.
    pub(crate) workers: Workers,
}

/// Objects and files that a call may bring along.
const MOST_OBJECTS: usize = 1_000;
const MOST_FILES: usize = 1_000;

#[tonic::async_trait]
impl Renderer for Service {
    async fn validate(
        &self,
        request: Request<ValidateRequest>,
    ) -> Result<Response<ValidateResponse>, Status> {
        let json = request.into_inner().installation.unwrap_or_default();
        let validated = self.workers.run(move || {
            let object = match groundwork_manifest::read(&json.text, Schemas::shared()) {
                Ok(object) => object,
                // Every field that is wrong, as with the rules behind.
                Err(JsonError::Structure(problems)) => {
                    let told = |message| Violation { field: String::new(), message };
                    return Ok(ValidateResponse { violations: problems.into_iter().map(told).collect() });
                }
                Err(error) => return Err(invalid("installation", &error.to_string())),
            };
            let installation: Installation = typed(object, "installation")?;
            let violation = |error: &groundwork_blueprint::FieldError| Violation {
                field: error.path.to_string(),
                message: error.to_string(),
            };
            Ok(ValidateResponse { violations: validate(&installation).iter().map(violation).collect() })
        });
        validated.await.map_err(interrupted)?.map(Response::new)
    }

    async fn render(&self, request: Request<RenderRequest>) -> Result<Response<RenderResponse>, Status> {
        let (metadata, _, request) = request.into_parts();
        match request.input {
            Some(Input::Inline(input)) => {
                self.workers.run(|| inline(input)).await.map_err(interrupted)?.map(Response::new)
            }
            Some(Input::Installation(name)) => {
                let name = checked(name, "installation")?;
                let namespace = Some(name.namespace.as_str());
                let installation = Wanted {
                    group: Installation::GROUP,
                    resource: Installation::PLURAL,
                    namespace,
                    name: Some(&name.name),
                };
                let secrets = Wanted { group: "", resource: "secrets", namespace, name: None };
                // What is rendered may hold what Secrets hold.
                self.access.authorise(&metadata, &[installation, secrets]).await?;
                self.of_cluster(name).await.map(Response::new)
            }
            None => Err(missing("input")),
        }
    }
}

impl Service {
    /// Renders what the next job of an Installation would render.
    async fn of_cluster(&self, name: ObjectName) -> Result<RenderResponse, Status> {
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
        let answers = remote.clone();
        let rendered = self.workers.run(move || {
            let none = RepositoryMap::empty("a resolver (none is configured)");
            let outcome = render(&Inputs {
                installation: &installation,
                context: context.as_ref(),
                overwrites: overwrites.as_ref(),
                objects: &objects,
                repositories: match &remote {
                    Some(remote) => remote,
                    None => &none,
                },
                blueprint: None,
            });
            response(&installation, &outcome)
        });
        let rendered = rendered.await.map_err(interrupted)?;
        match answers.and_then(|answers| answers.unavailable()) {
            None => rendered,
            Some(why) => Err(status::unavailable(reasons::RESOLVER_UNAVAILABLE, why)),
        }
    }
}

fn interrupted(error: WorkError) -> Status {
    status::interrupted(error.is_limit(), error.to_string())
}

/// Renders what the request brings along, and reads nothing else.
fn inline(input: RenderInput) -> Result<RenderResponse, Status> {
    at_most(MOST_OBJECTS, input.objects.len(), "objects", "inline.objects")?;
    at_most(MOST_FILES, input.blueprint.len(), "files", "inline.blueprint")?;
    let mut installation = None;
    let mut context = None;
    let mut overwrites = None;
    let mut objects = ObjectSet::default();
    for (index, json) in input.objects.iter().enumerate() {
        let field = format!("inline.objects[{index}]");
        let object = groundwork_manifest::read(&json.text, Schemas::shared())
            .map_err(|error| invalid(&field, &error.to_string()))?;
        let text = |member: &str| object[member].as_str().unwrap_or_default().to_owned();
        match (text("apiVersion").as_str(), text("kind").as_str()) {
            (Installation::API_VERSION, Installation::KIND) if installation.is_none() => {
                installation = Some(typed(object, &field)?);
            }
            (Installation::API_VERSION, Installation::KIND) => {
                return Err(invalid(&field, "there is more than one Installation"));
            }
            (Context::API_VERSION, Context::KIND) => context = Some(typed::<Context>(object, &field)?),
            (ComponentVersionOverwrites::API_VERSION, ComponentVersionOverwrites::KIND) => {
                overwrites = Some(typed::<ComponentVersionOverwrites>(object, &field)?);
            }
            (DataObject::API_VERSION, DataObject::KIND) => {
                let object: DataObject = typed(object, &field)?;
                objects.data_objects.insert(object.name_any(), object);
            }
            (Target::API_VERSION, Target::KIND) => {
                let target: Target = typed(object, &field)?;
                objects.targets.insert(target.name_any(), target);
            }
            ("v1", "Secret") => objects.add_secret(typed::<Secret>(object, &field)?),
            ("v1", "ConfigMap") => objects.add_config_map(typed::<ConfigMap>(object, &field)?),
            _ => {
                let kinds = "Installation, Context, ComponentVersionOverwrites, DataObject, Target, Secret, ConfigMap";
                return Err(invalid(
                    &field,
                    &format!("its kind must be one of {kinds}, with its apiVersion"),
                ));
            }
        }
    }
    let Some(installation): Option<Installation> = installation else {
        return Err(invalid("inline.objects", "there is no Installation among them"));
    };
    let files = files(input.blueprint)?;
    let outcome = render(&Inputs {
        installation: &installation,
        context: context.as_ref().filter(|context| context.name_any() == installation.spec.context()),
        overwrites: overwrites.as_ref(),
        objects: &objects,
        repositories: &RepositoryMap::empty("the cluster (a call with all inputs reads no repository)"),
        blueprint: files.as_ref(),
    });
    response(&installation, &outcome)
}

fn at_most(limit: usize, count: usize, what: &str, field: &str) -> Result<(), Status> {
    if count <= limit {
        return Ok(());
    }
    Err(invalid(field, &format!("there are {count} {what}, a call may bring {limit}")))
}

/// The files that a caller brings along, if any.
///
/// A path that would be both a file and a folder is refused: which of the two won would be chance.
fn files(given: HashMap<String, Vec<u8>>) -> Result<Option<Filesystem>, Status> {
    if given.is_empty() {
        return Ok(None);
    }
    for path in given.keys() {
        let field = || format!("inline.blueprint[{path:?}]");
        if path.split('/').any(|part| ["", ".", ".."].contains(&part)) {
            return Err(invalid(
                &field(),
                "a path is relative to the folder of the blueprint, without . and ..",
            ));
        }
        let mut folders = path.match_indices('/').map(|(end, _)| &path[..end]);
        if let Some(folder) = folders.find(|folder| given.contains_key(*folder)) {
            return Err(invalid(&field(), &format!("{folder:?} is given as a file and cannot be a folder")));
        }
    }
    let mut files = Filesystem::default();
    for (path, content) in given {
        files.insert(&path, content).map_err(|error| invalid("inline.blueprint", &error.to_string()))?;
    }
    Ok(Some(files))
}

fn response(installation: &Installation, outcome: &Outcome) -> Result<RenderResponse, Status> {
    let now = Time(Timestamp::now());
    let mut new_status = InstallationStatus::default();
    for update in &outcome.conditions {
        merge_condition(&mut new_status.conditions, update, &now);
    }
    let failure = outcome.failure.as_ref().map(|problem| &problem.failure);
    let previous = installation.status.as_ref().and_then(|status| status.last_error.as_ref());
    new_status.last_error = failure.map(|failure| failure.to_last_error(previous, &now));
    Ok(RenderResponse {
        installation_status: Some(encode(&new_status)?),
        execution: outcome.execution.as_ref().map(encode).transpose()?,
        deploy_items: outcome.deploy_items.iter().map(encode).collect::<Result<_, _>>()?,
        warnings: outcome.warnings.iter().map(|warning| warning.message.clone()).collect(),
        failure: failure.map(|failure| WireFailure {
            operation: failure.operation.clone().into_owned(),
            reason: failure.reason.clone().into_owned(),
            message: failure.message.clone(),
            codes: failure.codes.iter().map(|code| code.as_str().to_owned()).collect(),
        }),
    })
}

/// The message names the field, and quotes nothing.
fn typed<T: DeserializeOwned>(object: Value, field: &str) -> Result<T, Status> {
    serde_json::from_value(object).map_err(|_| invalid(field, "it is not an object of its kind"))
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

fn encode<T: Serialize>(object: &T) -> Result<Json, Status> {
    let text = serde_json::to_string(object);
    text.map(|text| Json { text })
        .map_err(|_| status::internal(reasons::ENCODE_FAILED, "an object cannot be written as JSON"))
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
mod tests {
    use std::collections::HashMap;

    use tonic::Code;

    use groundwork_proto::component::v1::Json;
    use groundwork_proto::renderer::v1::RenderInput;

    use super::{MOST_FILES, MOST_OBJECTS, files, inline};

    #[test]
    fn a_call_brings_only_so_many_objects_and_files() {
        let objects =
            RenderInput { objects: vec![Json::default(); MOST_OBJECTS + 1], ..RenderInput::default() };
        let blueprint = (0..=MOST_FILES).map(|number| (number.to_string(), Vec::new())).collect();
        let files = RenderInput { blueprint, ..RenderInput::default() };
        for (input, text) in [
            (objects, "inline.objects: there are 1001 objects, a call may bring 1000"),
            (files, "inline.blueprint: there are 1001 files, a call may bring 1000"),
        ] {
            let refused = inline(input).unwrap_err();
            assert_eq!((refused.code(), refused.message()), (Code::InvalidArgument, text));
        }
    }

    #[test]
    fn a_path_cannot_be_a_file_and_a_folder() {
        let given = |paths: &[&str]| -> HashMap<String, Vec<u8>> {
            paths.iter().map(|path| ((*path).to_owned(), b"x".to_vec())).collect()
        };
        let refused = files(given(&["a", "a/b/c", "d/e"])).unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument);
        assert!(refused.message().contains("\"a\" is given as a file"), "{refused}");

        let taken = files(given(&["a.txt", "a/b", "a/c/d"])).unwrap().unwrap();
        assert_eq!(taken.read("a/c/d").unwrap(), b"x");
        for outside in ["../x", "/x", "a//b", "./a"] {
            assert_eq!(files(given(&[outside])).unwrap_err().code(), Code::InvalidArgument, "{outside}");
        }
        // A path of 20,000 folders once overflowed the stack.
        let deep = format!("{}b", "a/".repeat(20_000));
        let refused = files(given(&[deep.as_str()])).unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument);
        assert!(refused.message().len() < 300, "{}", refused.message().len());
        assert!(files(given(&[])).unwrap().is_none());
    }
}
