//! Parsing of the inputs in a request.

use std::collections::{BTreeMap, HashMap};

use groundwork_api::metadata::{annotation, label};
use groundwork_api::strict::Schemas;
use groundwork_api::{
    ComponentVersionOverwrites, Context, DataObject, Installation, Kind, ResourceExt, Target,
};
use groundwork_blueprint::Capabilities;
use groundwork_blueprint::{ExportValues, Filesystem, States};
use groundwork_lifecycle::{
    Inputs, JobOutcome, ObjectSet, Offline, SignatureCheck, SignaturePolicy, living_scope, parent_name,
    scope_name,
};
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

/// Limit for the objects, the files and the values in a request, each.
pub(super) const MOST_OBJECTS: usize = 1_000;
pub(super) const MOST_FILES: usize = 1_000;
pub(super) const MOST_VALUES: usize = 1_000;

/// Inputs of a job, taken from the request.
#[derive(Default)]
pub(super) struct Inline {
    pub(super) installation: Installation,
    /// Scope in which the imports are looked up.
    pub(super) scope: String,
    context: Option<Context>,
    overwrites: Option<ComponentVersionOverwrites>,
    /// Names of the ComponentVersionOverwrites that have no effect.
    idle_rules: Vec<String>,
    objects: ObjectSet,
    files: Option<Filesystem>,
    given: BTreeMap<String, Value>,
    states: States,
}

/// Objects of a kind of which the job uses one: the caller may send all objects of a namespace.
#[derive(Default)]
struct Brought {
    installation: Option<Installation>,
    contexts: BTreeMap<String, Context>,
    overwrites: BTreeMap<String, ComponentVersionOverwrites>,
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
        let mut brought = Brought::default();
        for (index, json) in input.objects.iter().enumerate() {
            inline.add(json, &format!("inline.objects[{index}]"), &mut brought)?;
        }
        let Some(installation) = brought.installation else {
            return Err(invalid("inline.objects", "must contain an Installation"));
        };
        inline.scope = scope(&installation);
        inline.context = brought.contexts.remove(installation.spec.context());
        let rules = inline.context.as_ref().and_then(Context::overwrites);
        inline.overwrites = rules.and_then(|name| brought.overwrites.remove(name));
        if inline.overwrites.is_none() {
            inline.idle_rules = brought.overwrites.into_keys().collect();
        }
        inline.installation = installation;
        Ok(inline)
    }

    fn add(&mut self, json: &Json, field: &str, brought: &mut Brought) -> Result<(), Status> {
        let object = groundwork_api::strict::read(&json.text, Schemas::shared())
            .map_err(|error| invalid(field, &error.to_string()))?;
        let text = |member: &str| object[member].as_str().unwrap_or_default().to_owned();
        match (text("apiVersion").as_str(), text("kind").as_str()) {
            (Installation::API_VERSION, Installation::KIND) if brought.installation.is_none() => {
                brought.installation = Some(typed(object, field)?);
            }
            (Installation::API_VERSION, Installation::KIND) => {
                return Err(invalid(field, "only one Installation is allowed"));
            }
            (Context::API_VERSION, Context::KIND) => {
                let context: Context = typed(object, field)?;
                brought.contexts.insert(context.name_any(), context);
            }
            (ComponentVersionOverwrites::API_VERSION, ComponentVersionOverwrites::KIND) => {
                let overwrites: ComponentVersionOverwrites = typed(object, field)?;
                brought.overwrites.insert(overwrites.name_any(), overwrites);
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

    /// Runs `job` with the inputs of the request. Objects are not read from the cluster. The caller
    /// handles nested installations, exports and state.
    pub(super) fn with_inputs<T>(
        &self,
        blueprints: &Blueprints,
        capabilities: &Capabilities,
        job: impl FnOnce(&Inputs<'_>) -> T,
    ) -> T {
        job(&Inputs {
            installation: &self.installation,
            context: self.context.as_ref(),
            overwrites: self.overwrites.as_ref(),
            objects: &self.objects,
            repositories: &RepositoryMap::empty("the cluster (a call with all inputs reads no repository)"),
            blueprint: self.files.as_ref(),
            capabilities,
            scope: &self.scope,
            states: Some(&self.states),
            cache: Some(blueprints),
            offline: Some(Offline { given: &self.given, show_values: false }),
            signatures: Some(SignatureCheck {
                policy: SignaturePolicy::default(),
                now: jiff::Timestamp::now().as_second(),
            }),
        })
    }

    /// Returns the inputs that had no effect, most likely because a name is misspelt or missing in
    /// the blueprint.
    pub(super) fn unused(&self, outcome: &JobOutcome) -> Vec<String> {
        let context = self.installation.spec.context();
        let rules = self.idle_rules.iter().map(|name| {
            format!("ComponentVersionOverwrites {name:?} have no effect: the Context {context:?} does not name them")
        });
        // After a failed rendering it is unknown which imports the blueprint has.
        let is_known = outcome.error.is_none() && self.installation.spec.import_data_mappings.is_empty();
        let is_unused = |name: &&String| is_known && !outcome.imports.values.contains_key(*name);
        let given = self.given.keys().filter(is_unused);
        let given = given.map(|name| format!("given {name:?}: the blueprint has no import of this name"));
        rules.chain(given).collect()
    }
}

/// Returns the scope of an Installation. A child from an earlier answer has no owner if its parent
/// is not in a cluster; the labels of a child identify its parent then (`installations.md` 7.2).
fn scope(installation: &Installation) -> String {
    let parent = installation.labels().get(label::ENCOMPASSED_BY);
    let is_child = installation.annotations().contains_key(annotation::SUBINSTALLATION_NAME);
    match parent.filter(|_| is_child && parent_name(installation).is_none()) {
        Some(parent) => scope_name(&installation.namespace().unwrap_or_default(), parent),
        None => living_scope(installation),
    }
}

/// Decodes an object. The error names the field and never quotes its content.
pub(super) fn typed<T: DeserializeOwned>(object: Value, field: &str) -> Result<T, Status> {
    serde_json::from_value(object).map_err(|_| invalid(field, "it is not a valid object of its kind"))
}

pub(super) fn at_most(limit: usize, count: usize, what: &str, field: &str) -> Result<(), Status> {
    if count <= limit {
        return Ok(());
    }
    Err(invalid(field, &format!("there are {count} {what}; a call may have at most {limit}")))
}

/// Returns the files in the request, if any.
///
/// A path that would be both a file and a folder is refused, since the result would depend on the
/// order of the map.
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

/// Decodes values by their names. Numbers keep all digits, and errors never quote a value.
fn values(given: &HashMap<String, Json>, field: &str) -> Result<Map<String, Value>, Status> {
    at_most(MOST_VALUES, given.len(), "values", field)?;
    let value = |(name, json): (&String, &Json)| {
        let node = groundwork_api::strict::node(&json.text)
            .map_err(|error| invalid(&format!("{field}[{name:?}]"), &error.to_string()))?;
        Ok((name.clone(), node.to_value()))
    };
    // The map is sorted, so that the same request always gets the same error.
    given.iter().collect::<BTreeMap<_, _>>().into_iter().map(value).collect()
}

/// Decodes the stored state of executions, which the template engines keep as YAML.
pub(super) fn states(given: &HashMap<String, Json>, field: &str) -> Result<States, Status> {
    let states = values(given, field)?.into_iter();
    Ok(states.map(|(key, value)| (key, yaml::to_string(&value))).collect())
}

/// Decodes the values for export templates. Targets are checked as strictly as Target objects.
pub(super) fn export_values(given: &WireValues) -> Result<ExportValues, Status> {
    let targets = values(&given.targets, "values.targets")?;
    for name in targets.keys() {
        let field = format!("values.targets[{name:?}]");
        let text = given.targets.get(name).map(|json| json.text.as_str()).unwrap_or_default();
        let object = groundwork_api::strict::read(text, Schemas::shared())
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
