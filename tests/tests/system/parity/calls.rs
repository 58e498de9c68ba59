//! Rendering through gRPC calls only, as a program would do it: an Installation, its nested
//! installations, and then its exports.

use std::collections::{BTreeSet, HashMap};

use anyhow::{Result, bail};
use groundwork_api::metadata::label;
use groundwork_grpc::Channel;
use groundwork_proto::component::v1::Json;
use groundwork_proto::renderer::v1::renderer_client::RendererClient;
use groundwork_proto::renderer::v1::{ExportValues, RenderInput};
use serde_json::{Value, json};

use super::input::{Input, references};
use super::sources::version_of;
use crate::grpc::{decode, encode};
use crate::rendering::{export_inline, render_inline};

pub(super) struct Caller {
    client: RendererClient<Channel>,
}

/// Objects in the scope of an Installation.
#[derive(Clone)]
struct Scope {
    objects: Vec<Value>,
    /// Path to the Installation.
    path: Vec<String>,
}

/// Result of an Installation.
enum Ending {
    Published(Vec<Value>),
    Failed(String),
}

impl Caller {
    pub(super) fn new(client: RendererClient<Channel>) -> Self {
        Self { client }
    }

    /// Returns all objects that the Installations of an input produce, and the Installations
    /// themselves.
    pub(super) async fn render(&mut self, input: &Input) -> Result<Vec<Value>> {
        let mut made = Vec::new();
        for namespace in input.namespaces() {
            let mut scope = Scope { objects: input.others(namespace), path: Vec::new() };
            // The exports of a failed root are unknown, so the roots that import them are not
            // rendered.
            let mut unknown = BTreeSet::new();
            for root in input.roots(namespace) {
                if !references(&root, "imports").is_disjoint(&unknown) {
                    unknown.extend(references(&root, "exports"));
                    made.push(root);
                    continue;
                }
                match self.walk(input, &root, &scope, &mut made).await? {
                    Ending::Published(objects) => {
                        made.extend(objects.iter().cloned());
                        scope.objects.extend(objects);
                    }
                    Ending::Failed(_) => unknown.extend(references(&root, "exports")),
                }
            }
        }
        Ok(made)
    }

    async fn walk(
        &mut self,
        input: &Input,
        installation: &Value,
        around: &Scope,
        made: &mut Vec<Value>,
    ) -> Result<Ending> {
        let ending = self.rendered(input, installation, around, made).await?;
        let mut installation = installation.clone();
        if let Ending::Failed(message) = &ending {
            installation["status"] = json!({"lastError": {"message": message}});
        }
        made.push(installation);
        Ok(ending)
    }

    async fn rendered(
        &mut self,
        input: &Input,
        installation: &Value,
        around: &Scope,
        made: &mut Vec<Value>,
    ) -> Result<Ending> {
        let request = request(input, installation, &around.objects)?;
        let answer = self.client.render(render_inline(request.clone())).await?.into_inner();
        if let Some(failure) = answer.failure {
            return Ok(Ending::Failed(failure.message));
        }
        let mut scope = Scope { objects: around.objects.clone(), path: around.path.clone() };
        scope.objects.extend(decoded(answer.import_copies)?);
        scope.path.push(step(installation));
        let execution = answer.execution.map(|execution| decode(Some(execution))).transpose()?;
        let values = exported(input, &scope.path, execution.as_ref());
        made.extend(execution);
        made.extend(decoded(answer.deploy_items)?);

        let (mut data_objects, mut targets) = (HashMap::new(), HashMap::new());
        for child in answer.children {
            let child = decode(child.installation)?;
            let Ending::Published(objects) = Box::pin(self.walk(input, &child, &scope, made)).await? else {
                // An Installation without its children cannot complete, so it publishes no exports.
                return Ok(Ending::Published(Vec::new()));
            };
            made.extend(objects.iter().cloned());
            scope.objects.extend(objects);
        }
        for object in &scope.objects {
            let Some(key) = key_in(object, installation) else { continue };
            match object["kind"].as_str() {
                Some("DataObject") => data_objects.insert(key, encode(&object["data"])?),
                _ => targets.insert(key, encode(object)?),
            };
        }
        let values = ExportValues { deploy_items: values?, data_objects, targets };
        let answer = self.client.render_exports(export_inline(request, values)).await?.into_inner();
        Ok(match answer.failure {
            Some(failure) => Ending::Failed(failure.message),
            None => Ending::Published(decoded(answer.published)?),
        })
    }
}

/// Returns the input of a call about one Installation.
fn request(input: &Input, installation: &Value, others: &[Value]) -> Result<RenderInput> {
    let mut installation = installation.clone();
    let component = &mut installation["spec"]["componentDescriptor"];
    let version = match (component.get("ref"), component.get("inline")) {
        (Some(reference), _) => {
            let text = |member: &str| reference[member].as_str().unwrap_or_default().to_owned();
            let named = (text("componentName"), text("version"));
            Some(input.used.clone().unwrap_or(named))
        }
        (None, Some(descriptor)) => Some(version_of(descriptor)),
        (None, None) => None,
    };
    if component.get("ref").is_some() {
        let found = version.as_ref().and_then(|version| input.sources.inline(version));
        let Some(descriptor) = found else { bail!("{version:?} is in no source") };
        *component = json!({"inline": descriptor});
    } else if component.is_null() {
        installation["spec"].as_object_mut().map(|spec| spec.remove("componentDescriptor"));
    }
    let resource = installation["spec"]["blueprint"]["ref"]["resourceName"].as_str();
    let blueprint = match (resource, &version) {
        (Some(resource), Some(version)) => input.sources.files(version, resource)?,
        _ => HashMap::new(),
    };
    let objects = others.iter().chain([&installation]).map(encode).collect::<Result<_>>()?;
    Ok(RenderInput { objects, blueprint, ..RenderInput::default() })
}

fn decoded(objects: Vec<Json>) -> Result<Vec<Value>> {
    objects.into_iter().map(|object| decode(Some(object))).collect()
}

/// Returns an Installation's step in the path of an item: the name of its template, or of the
/// Installation itself for a root.
fn step(installation: &Value) -> String {
    let metadata = &installation["metadata"];
    let template = &metadata["annotations"]["landscaper.gardener.cloud/subinstallation-name"];
    template.as_str().or(metadata["name"].as_str()).unwrap_or_default().to_owned()
}

/// Returns the exports of an Execution's items: those given by the path or the name of the item, or
/// else those of a mock item.
fn exported(input: &Input, path: &[String], execution: Option<&Value>) -> Result<HashMap<String, Json>> {
    let items = execution.and_then(|execution| execution["spec"]["deployItems"].as_array());
    let mut values = HashMap::new();
    for item in items.into_iter().flatten() {
        let name = item["name"].as_str().unwrap_or_default();
        let given = input.exports.get(format!("{}/{name}", path.join("/"))).or(input.exports.get(name));
        let own = item["config"].get("export");
        if let Some(found) = given.or(own) {
            values.insert(name.to_owned(), encode(found)?);
        }
    }
    Ok(values)
}

/// Returns the key of an object in the scope that an Installation opens. The elements of a list or
/// map of Targets share one key and are not visible.
fn key_in(object: &Value, installation: &Value) -> Option<String> {
    let (labels, metadata) = (&object["metadata"]["labels"], &installation["metadata"]);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let scope = format!("Installation.{}.{}", text(&metadata["namespace"]), text(&metadata["name"]));
    let is_element =
        [label::DATA_INDEX, label::DATA_TARGET_MAP_KEY].iter().any(|name| labels.get(name).is_some());
    (labels[label::DATA_CONTEXT] == scope && !is_element).then(|| text(&labels[label::DATA_KEY]))
}
