//! What would happen if objects were applied, which a call brings along.

use std::collections::{BTreeMap, BTreeSet};

use groundwork_api::{
    ComponentVersionOverwrites, Context, DataObject, DeployItem, Execution, Installation, Kind, KubeResource,
    PackageVariantSet, Target,
};
use groundwork_kubernetes::is_dns_subdomain;
use groundwork_lifecycle::{ObjectSet, SignatureCheck, SignaturePolicy};
use groundwork_manifest::Schemas;
use groundwork_plan::{Environment, Key, Landscape, Reads, Sources, plan as planned};
use groundwork_proto::MAX_MESSAGE;
use groundwork_proto::component::v1::Json;
use groundwork_proto::renderer::v1::{PlanRequest, PlanResponse};
use groundwork_proto::status::{self, reasons};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use prost::Message;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tonic::Status;

use super::request::{MOST_OBJECTS, at_most, typed};
use super::{answer, invalid, missing};
use crate::inputs;
use crate::work::{Lacks, Namespaces, Unplanned};

/// Namespaces that the objects of one call may be in.
const MOST_NAMESPACES: usize = 20;

/// The namespaces of what would be applied.
pub(crate) fn plan_scope(request: PlanRequest) -> Result<BTreeSet<String>, Status> {
    let namespaces = Applied::read(request)?.namespaces;
    at_most(MOST_NAMESPACES, namespaces.len(), "namespaces", "objects")?;
    Ok(namespaces)
}

/// What would happen, or what has to be read before that is known.
pub(crate) fn plan(
    request: PlanRequest,
    namespaces: Namespaces,
    sources: &dyn Sources,
) -> Result<Result<PlanResponse, Unplanned>, Status> {
    let applied = Applied::read(request)?.landscape;
    let mut present = Landscape::default();
    let mut absent = BTreeMap::new();
    for (namespace, mut objects) in namespaces {
        absent.insert(namespace.clone(), std::mem::take(&mut objects.absent));
        objects.fill(&namespace, &mut present);
    }
    let reads = Reads::default();
    let environment = Environment {
        repositories: sources,
        capabilities: &inputs::capabilities(),
        signatures: Some(SignatureCheck {
            policy: SignaturePolicy::default(),
            now: jiff::Timestamp::now().as_second(),
        }),
        show_values: false,
        reads: Some(&reads),
    };
    let plan = planned(&present, &applied, &environment);
    let lacks = Lacks::of(reads.into_unread(), &absent);
    if !lacks.is_empty() {
        return Ok(Err(Unplanned::Lacks(lacks)));
    }
    let answer = PlanResponse { plan: Some(answer::encode(&plan)?) };
    if answer.encoded_len() > MAX_MESSAGE {
        let text = "the plan does not fit into a message: ask for fewer objects";
        return Err(status::exhausted(reasons::ANSWER_TOO_LARGE, text));
    }
    Ok(Ok(answer))
}

/// What would be applied.
#[derive(Default)]
struct Applied {
    landscape: Landscape,
    namespaces: BTreeSet<String>,
}

impl Applied {
    fn read(request: PlanRequest) -> Result<Self, Status> {
        let PlanRequest { objects, namespace } = request;
        if objects.is_empty() {
            return Err(missing("objects"));
        }
        at_most(MOST_OBJECTS, objects.len(), "objects", "objects")?;
        let mut applied = Self::default();
        for (index, json) in objects.iter().enumerate() {
            applied.add(json, &namespace, &format!("objects[{index}]"))?;
        }
        Ok(applied)
    }

    fn add(&mut self, json: &Json, namespace: &str, field: &str) -> Result<(), Status> {
        let mut object = groundwork_manifest::read(&json.text, Schemas::shared())
            .map_err(|error| invalid(field, &error.to_string()))?;
        let text = |member: &Value| member.as_str().unwrap_or_default().to_owned();
        let (api_version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
        let key = key(&object, namespace, field)?;
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.insert("namespace".to_owned(), Value::from(key.0.as_str()));
        }
        let Landscape {
            installations,
            contexts,
            overwrites,
            data_objects,
            targets,
            secrets,
            config_maps,
            ..
        } = &mut self.landscape;
        match (api_version.as_str(), kind.as_str()) {
            (Installation::API_VERSION, Installation::KIND) => add_typed(installations, &key, object, field)?,
            (Context::API_VERSION, Context::KIND) => add_typed(contexts, &key, object, field)?,
            (ComponentVersionOverwrites::API_VERSION, ComponentVersionOverwrites::KIND) => {
                add_typed(overwrites, &key, object, field)?;
            }
            (DataObject::API_VERSION, DataObject::KIND) => add_typed(data_objects, &key, object, field)?,
            (Target::API_VERSION, Target::KIND) => add_typed(targets, &key, object, field)?,
            ("v1", "Secret") => {
                let mut set = ObjectSet::default();
                set.add_secret(typed::<Secret>(object, field)?);
                set.secrets.into_values().try_for_each(|entries| add(secrets, &key, entries, field))?;
            }
            ("v1", "ConfigMap") => {
                let mut set = ObjectSet::default();
                set.add_config_map(typed::<ConfigMap>(object, field)?);
                set.config_maps
                    .into_values()
                    .try_for_each(|entries| add(config_maps, &key, entries, field))?;
            }
            (api_version, kind) => return Err(unknown(api_version, kind, field)),
        }
        self.namespaces.insert(key.0);
        Ok(())
    }
}

fn key(object: &Value, namespace: &str, field: &str) -> Result<Key, Status> {
    let member = |name: &str| object["metadata"][name].as_str().unwrap_or_default();
    let written = Some(member("namespace")).filter(|name| !name.is_empty());
    let namespace = written.unwrap_or(namespace);
    if namespace.is_empty() {
        return Err(invalid(field, "it names no namespace, and neither does the field namespace"));
    }
    for (what, name) in [("namespace", namespace), ("name", member("name"))] {
        if !is_dns_subdomain(name) {
            return Err(invalid(field, &format!("its {what} must be a name as Kubernetes has them")));
        }
    }
    Ok((namespace.to_owned(), member("name").to_owned()))
}

fn add_typed<K: KubeResource + DeserializeOwned>(
    objects: &mut BTreeMap<Key, K>,
    key: &Key,
    object: Value,
    field: &str,
) -> Result<(), Status> {
    add(objects, key, typed(object, field)?, field)
}

fn add<K>(objects: &mut BTreeMap<Key, K>, key: &Key, object: K, field: &str) -> Result<(), Status> {
    match objects.insert(key.clone(), object) {
        None => Ok(()),
        Some(_) => Err(invalid(field, "an object of this kind, namespace and name is given twice")),
    }
}

fn unknown(api_version: &str, kind: &str, field: &str) -> Status {
    let problem = match (api_version, kind) {
        (Execution::API_VERSION, Execution::KIND | DeployItem::KIND) => {
            "jobs make Executions and DeployItems, nobody applies them"
        }
        (PackageVariantSet::API_VERSION, PackageVariantSet::KIND) => {
            "of PackageVariantSets the call Preview of the variant service tells, and `groundwork plan`"
        }
        _ => {
            "its kind must be one of Installation, Context, ComponentVersionOverwrites, DataObject, Target, Secret, ConfigMap, with its \
             apiVersion"
        }
    };
    invalid(field, problem)
}
