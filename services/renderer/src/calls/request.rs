//! What calls bring along.

use std::collections::{BTreeMap, HashMap};

use groundwork_api::{
    ComponentVersionOverwrites, Context, DataObject, Installation, Kind, ResourceExt, Target,
};
use groundwork_blueprint::{ExportValues, Filesystem, States};
use groundwork_lifecycle::{
    Inputs, ObjectSet, Offline, Outcome, ROOT_SCOPE, SignatureCheck, SignaturePolicy,
};
use groundwork_manifest::Schemas;
use groundwork_proto::component::v1::Json;
use groundwork_proto::renderer::v1::{ExportValues as WireValues, RenderInput};
use groundwork_registry::RepositoryMap;
use groundwork_yaml as yaml;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tonic::Status;

use super::invalid;
use crate::blueprints::Blueprints;

/// Objects, files and values that a call may bring along, of each kind.
pub(super) const MOST_OBJECTS: usize = 1_000;
pub(super) const MOST_FILES: usize = 1_000;
pub(super) const MOST_VALUES: usize = 1_000;

/// Everything that a job reads, from the request.
#[derive(Default)]
pub(super) struct Inline {
    pub(super) installation: Installation,
    context: Option<Context>,
    overwrites: Option<ComponentVersionOverwrites>,
    objects: ObjectSet,
    files: Option<Filesystem>,
    given: BTreeMap<String, Value>,
    states: States,
}

impl Inline {
    pub(super) fn read(input: RenderInput) -> Result<Self, Status> {
        at_most(MOST_OBJECTS, input.objects.len(), "objects", "inline.objects")?;
        let mut inline = Self {
            files: files(input.blueprint, "inline.blueprint")?,
            given: values(&input.given, "inline.given")?.into_iter().collect(),
            states: states(&input.state, "inline.state")?,
            ..Self::default()
        };
        let mut installation = None;
        for (index, json) in input.objects.iter().enumerate() {
            inline.add(json, &format!("inline.objects[{index}]"), &mut installation)?;
        }
        let Some(installation) = installation else {
            return Err(invalid("inline.objects", "there is no Installation among them"));
        };
        inline.installation = installation;
        inline.context =
            inline.context.filter(|context| context.name_any() == inline.installation.spec.context());
        Ok(inline)
    }

    fn add(
        &mut self,
        json: &Json,
        field: &str,
        installation: &mut Option<Installation>,
    ) -> Result<(), Status> {
        let object = groundwork_manifest::read(&json.text, Schemas::shared())
            .map_err(|error| invalid(field, &error.to_string()))?;
        let text = |member: &str| object[member].as_str().unwrap_or_default().to_owned();
        match (text("apiVersion").as_str(), text("kind").as_str()) {
            (Installation::API_VERSION, Installation::KIND) if installation.is_none() => {
                *installation = Some(typed(object, field)?);
            }
            (Installation::API_VERSION, Installation::KIND) => {
                return Err(invalid(field, "there is more than one Installation"));
            }
            (Context::API_VERSION, Context::KIND) => self.context = Some(typed(object, field)?),
            (ComponentVersionOverwrites::API_VERSION, ComponentVersionOverwrites::KIND) => {
                self.overwrites = Some(typed(object, field)?);
            }
            (DataObject::API_VERSION, DataObject::KIND) => {
                let object: DataObject = typed(object, field)?;
                self.objects.data_objects.insert(object.name_any(), object);
            }
            (Target::API_VERSION, Target::KIND) => {
                let target: Target = typed(object, field)?;
                self.objects.targets.insert(target.name_any(), target);
            }
            ("v1", "Secret") => self.objects.add_secret(typed::<Secret>(object, field)?),
            ("v1", "ConfigMap") => self.objects.add_config_map(typed::<ConfigMap>(object, field)?),
            _ => {
                let kinds = "Installation, Context, ComponentVersionOverwrites, DataObject, Target, Secret, ConfigMap";
                return Err(invalid(field, &format!("its kind must be one of {kinds}, with its apiVersion")));
            }
        }
        Ok(())
    }

    /// Calls with what was brought along; nothing else is read. The caller carries out nested installations, exports and state.
    pub(super) fn with_inputs<T>(&self, blueprints: &Blueprints, job: impl FnOnce(&Inputs<'_>) -> T) -> T {
        job(&Inputs {
            installation: &self.installation,
            context: self.context.as_ref(),
            overwrites: self.overwrites.as_ref(),
            objects: &self.objects,
            repositories: &RepositoryMap::empty("the cluster (a call with all inputs reads no repository)"),
            blueprint: self.files.as_ref(),
            capabilities: &crate::inputs::capabilities(),
            scope: ROOT_SCOPE,
            states: Some(&self.states),
            cache: Some(blueprints),
            offline: Some(Offline { given: &self.given, show_values: false }),
            signatures: Some(SignatureCheck {
                policy: SignaturePolicy::default(),
                now: jiff::Timestamp::now().as_second(),
            }),
        })
    }

    /// Values that were given and that nothing imports: most likely a name that is misspelt.
    pub(super) fn unused(&self, outcome: &Outcome) -> Vec<String> {
        // Without a rendering nobody knows what is imported.
        if outcome.error.is_some() || !self.installation.spec.import_data_mappings.is_empty() {
            return Vec::new();
        }
        let names = self.given.keys().filter(|name| !outcome.imports.values.contains_key(*name));
        names.map(|name| format!("given {name:?}: the blueprint imports nothing of this name")).collect()
    }
}

/// The message names the field, and quotes nothing.
pub(super) fn typed<T: DeserializeOwned>(object: Value, field: &str) -> Result<T, Status> {
    serde_json::from_value(object).map_err(|_| invalid(field, "it is not an object of its kind"))
}

pub(super) fn at_most(limit: usize, count: usize, what: &str, field: &str) -> Result<(), Status> {
    if count <= limit {
        return Ok(());
    }
    Err(invalid(field, &format!("there are {count} {what}, a call may bring {limit}")))
}

/// The files that a caller brings along, if any.
///
/// A path that would be both a file and a folder is refused: which of the two won would be chance.
pub(super) fn files(given: HashMap<String, Vec<u8>>, field: &str) -> Result<Option<Filesystem>, Status> {
    at_most(MOST_FILES, given.len(), "files", field)?;
    if given.is_empty() {
        return Ok(None);
    }
    for path in given.keys() {
        let field = || format!("{field}[{path:?}]");
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
        files.insert(&path, content).map_err(|error| invalid(field, &error.to_string()))?;
    }
    Ok(Some(files))
}

/// Free values by their names. Numbers keep their digits, and nothing is quoted.
fn values(given: &HashMap<String, Json>, field: &str) -> Result<Map<String, Value>, Status> {
    at_most(MOST_VALUES, given.len(), "values", field)?;
    let value = |(name, json): (&String, &Json)| {
        let node = groundwork_manifest::node(&json.text)
            .map_err(|error| invalid(&format!("{field}[{name:?}]"), &error.to_string()))?;
        Ok((name.clone(), node.to_value()))
    };
    // In the order of the names, so that the same request is refused for the same reason.
    given.iter().collect::<BTreeMap<_, _>>().into_iter().map(value).collect()
}

/// What executions have stored; the engines keep it as YAML.
pub(super) fn states(given: &HashMap<String, Json>, field: &str) -> Result<States, Status> {
    let states = values(given, field)?.into_iter();
    Ok(states.map(|(key, value)| (key, yaml::to_string(&value))).collect())
}

/// What export templates see. Targets are checked as strictly as those among the objects.
pub(super) fn export_values(given: &WireValues) -> Result<ExportValues, Status> {
    let targets = values(&given.targets, "values.targets")?;
    for name in targets.keys() {
        let field = format!("values.targets[{name:?}]");
        let text = given.targets.get(name).map(|json| json.text.as_str()).unwrap_or_default();
        let object = groundwork_manifest::read(text, Schemas::shared())
            .map_err(|error| invalid(&field, &error.to_string()))?;
        let is_target = object["apiVersion"] == Target::API_VERSION && object["kind"] == Target::KIND;
        if !is_target {
            return Err(invalid(&field, "it must be a Target, with its apiVersion"));
        }
        typed::<Target>(object, &field)?;
    }
    Ok(ExportValues {
        deploy_items: Value::Object(values(&given.deploy_items, "values.deploy_items")?),
        data_objects: Value::Object(values(&given.data_objects, "values.data_objects")?),
        targets: Value::Object(targets),
    })
}
