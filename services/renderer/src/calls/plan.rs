//! Computation of `Plan`: the effect of applying the objects in the request.

use std::collections::{BTreeMap, BTreeSet};

use groundwork_api::kubernetes::is_dns_subdomain;
use groundwork_api::rights::MOST_PLANNED_NAMESPACES;
use groundwork_api::strict::Schemas;
use groundwork_api::{
    ComponentVersionOverwrites, Context, DataObject, DeployItem, Execution, Installation, Kind, KubeResource,
    PackageVariantSet, Target,
};
use groundwork_blueprint::Capabilities;
use groundwork_lifecycle::{ObjectSet, SignatureCheck, SignaturePolicy};
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
use crate::work::{Lacks, Namespaces, Progress, Unplanned};

/// Returns the namespaces of the objects to apply.
pub(crate) fn plan_scope(request: PlanRequest) -> Result<BTreeSet<String>, Status> {
    let namespaces = Applied::read(request)?.namespaces;
    at_most(MOST_PLANNED_NAMESPACES, namespaces.len(), "namespaces", "objects")?;
    Ok(namespaces)
}

/// Returns the plan, or the Secrets and ConfigMaps that have to be read first.
pub(crate) fn plan(
    request: PlanRequest,
    namespaces: Namespaces,
    sources: &dyn Sources,
    capabilities: &Capabilities,
) -> Result<Progress<PlanResponse, Unplanned>, Status> {
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
        capabilities,
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
        return Ok(Progress::Lacks(Unplanned::Lacks(lacks)));
    }
    let answer = PlanResponse { plan: Some(answer::encode(&plan)?) };
    if answer.encoded_len() > MAX_MESSAGE {
        let text = "the plan is too large for a message: ask for fewer objects";
        return Err(status::exhausted(reasons::ANSWER_TOO_LARGE, text));
    }
    Ok(Progress::Done(answer))
}

/// Objects to apply.
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
        let mut object = groundwork_api::strict::read(&json.text, Schemas::shared())
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
        return Err(invalid(field, "it has no namespace, and the field namespace is empty"));
    }
    for (what, name) in [("namespace", namespace), ("name", member("name"))] {
        if !is_dns_subdomain(name) {
            return Err(invalid(field, &format!("its {what} must be a valid Kubernetes name")));
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
            "jobs create Executions and DeployItems; leave them out of the request"
        }
        (PackageVariantSet::API_VERSION, PackageVariantSet::KIND) => {
            "for PackageVariantSets, use the call Preview of the variant service, or `groundwork plan`"
        }
        _ => {
            "its kind must be one of Installation, Context, ComponentVersionOverwrites, DataObject, Target, Secret, ConfigMap, with its \
             apiVersion"
        }
    };
    invalid(field, problem)
}

#[cfg(test)]
mod tests {
    use groundwork_component::{Repositories, Repository, RepositoryContext, RepositoryError};
    use groundwork_proto::status::reason;
    use serde_json::json;
    use std::sync::Arc;
    use tonic::Code;

    use super::*;
    use crate::work::InNamespace;

    const API: &str = "landscaper.gardener.cloud/v1alpha1";

    struct Nowhere;

    impl Repositories for Nowhere {
        fn open(&self, _: &RepositoryContext) -> Result<Arc<dyn Repository>, RepositoryError> {
            Err(RepositoryError::UnknownType { type_name: "none".to_owned() })
        }
    }

    fn request(objects: &[Value], namespace: &str) -> PlanRequest {
        let objects = objects.iter().map(|object| Json { text: object.to_string() });
        PlanRequest { objects: objects.collect(), namespace: namespace.to_owned() }
    }

    fn of(api_version: &str, kind: &str, name: &str) -> Value {
        json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}})
    }

    /// Returns an Installation that imports a value of a Secret and shows it in an item.
    fn install() -> Value {
        let blueprint = json!({
            "apiVersion": API, "kind": "Blueprint",
            "imports": [{"name": "login", "type": "data", "schema": {"type": "string"}}],
            "deployExecutions": [{"name": "d", "type": "GoTemplate", "template":
                "deployItems: [{name: x, type: example.org/x, config: {apiVersion: v1, kind: X, login: '{{ .imports.login }}'}}]"}],
        });
        let mut install = of(API, "Installation", "shop");
        install["spec"] = json!({
            "blueprint": {"inline": {"filesystem": {"blueprint.yaml": blueprint.to_string()}}},
            "imports": {"data": [{"name": "login", "secretRef": {"name": "login", "key": "password"}}]},
        });
        install
    }

    #[test]
    fn what_cannot_be_planned_is_refused_in_words() {
        let mut inside = install();
        inside["metadata"]["namespace"] = json!("../team");
        let config_map = of("v1", "ConfigMap", "settings");
        for (objects, namespace, words) in [
            (vec![], "team", "objects: it must be given"),
            (
                vec![config_map.clone(); MOST_OBJECTS + 1],
                "team",
                "there are 1001 objects; a call may have at most 1000",
            ),
            (vec![config_map.clone()], "", "objects[0]: it has no namespace"),
            (
                vec![config_map.clone(), config_map],
                "team",
                "objects[1]: an object of this kind, namespace and name is given twice",
            ),
            (vec![inside], "team", "its namespace must be a valid Kubernetes name"),
            (vec![of("v1", "Pod", "x")], "team", "its kind must be one of Installation, "),
            (vec![of("config.porch.kpt.dev/v1alpha2", "PackageVariantSet", "x")], "team", "objects[0]: "),
        ] {
            let refused = plan_scope(request(&objects, namespace)).unwrap_err();
            assert_eq!(refused.code(), Code::InvalidArgument);
            assert_eq!(reason(&refused).as_deref(), Some(reasons::INVALID_REQUEST));
            assert!(refused.message().contains(words), "{refused}");
        }
        let sets = unknown(PackageVariantSet::API_VERSION, PackageVariantSet::KIND, "objects[0]");
        assert!(sets.message().contains("Preview"), "{sets}");
        let items = unknown(DeployItem::API_VERSION, DeployItem::KIND, "objects[0]");
        assert!(items.message().contains("leave them out of the request"), "{items}");
    }

    #[test]
    fn objects_say_which_namespaces_a_plan_is_about() {
        let mut elsewhere = of("v1", "Secret", "login");
        elsewhere["metadata"]["namespace"] = json!("other");
        let scope = plan_scope(request(&[install(), elsewhere], "team")).unwrap();
        assert_eq!(scope, ["other".to_owned(), "team".to_owned()].into());
        let many = (0..=MOST_PLANNED_NAMESPACES).map(|number| {
            let mut map = of("v1", "ConfigMap", "x");
            map["metadata"]["namespace"] = json!(format!("n{number}"));
            map
        });
        let refused = plan_scope(request(&many.collect::<Vec<_>>(), "team")).unwrap_err();
        assert!(
            refused.message().contains("there are 21 namespaces; a call may have at most 20"),
            "{refused}"
        );
    }

    /// A plan asks once for each Secret that it needs, whether the Secret exists or not, and shows
    /// none of their values.
    #[test]
    fn a_plan_asks_for_what_it_lacks() {
        let asked = |objects: InNamespace| {
            let namespaces = Namespaces::from([("team".to_owned(), objects)]);
            plan(request(&[install()], "team"), namespaces, &Nowhere, &Capabilities::system()).unwrap()
        };
        let lacking = Lacks { secrets: ["login".to_owned()].into(), ..Lacks::default() };
        let lacks = Unplanned::Lacks([("team".to_owned(), lacking.clone())].into());
        assert_eq!(asked(InNamespace::default()), Progress::Lacks(lacks));
        let planned = |objects| match asked(objects) {
            Progress::Done(answer) => answer,
            Progress::Lacks(lacks) => unreachable!("{lacks:?}"),
        };
        let absent = planned(InNamespace { absent: lacking, ..InNamespace::default() });
        let absent: Value = serde_json::from_str(&absent.plan.unwrap().text).unwrap();
        assert!(absent["installations"][0]["error"].is_string(), "{absent}");
        let mut there = InNamespace::default();
        let entries = [("password".to_owned(), b"hunter2".to_vec())];
        there.named.secrets.insert("login".to_owned(), entries.into());
        let there = planned(there).plan.unwrap().text;
        let plan: Value = serde_json::from_str(&there).unwrap();
        assert_eq!(plan["installations"][0]["items"][0]["change"], "created", "{plan}");
        assert!(!there.contains("hunter2"), "{there}");
    }
}
