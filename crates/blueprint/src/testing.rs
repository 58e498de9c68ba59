//! Helpers for tests that create and render blueprints from YAML.

use std::collections::BTreeMap;
use std::sync::Arc;

use groundwork_api::{ObjectReference, TemplateExecutor};
use groundwork_budget::TemplateLimits;
use groundwork_component::{Attributes, ComponentVersion, Descriptor, Overwrites, Rule};
use serde_json::{Map, Value, json};

use crate::bindings::Bindings;
use crate::functions::{HostFunctions, Kubeconfigs};
use crate::template::{Engine, Execution, ExecutionKind, Output, ParsedTemplates, TemplateError};
use crate::{
    Blueprint, Capabilities, Components, Filesystem, ImportedTarget, LoadError, RenderError, Rendered,
    Request, States, Supplied, TargetValue, render,
};

pub(crate) fn yaml(text: &str) -> Value {
    groundwork_yaml::from_str(text).unwrap()
}

pub(crate) fn load(blueprint: &str, files: &[(&str, &str)]) -> Result<Blueprint, LoadError> {
    let mut tree = Filesystem::default();
    tree.insert(crate::BLUEPRINT_FILE, blueprint).unwrap();
    for (path, content) in files {
        tree.insert(path, *content).unwrap();
    }
    Blueprint::load(tree)
}

/// Parses the values that an Installation supplies: `data` and `mapped` contain values. `target`,
/// `list` and `map` contain the types of the Targets, null for an object without a type. The
/// objects are named like their import, elements with a suffix.
pub(crate) fn supplied(text: &str) -> Supplied {
    let document = yaml(text);
    let members = |name: &str| document.get(name).and_then(Value::as_object).cloned().unwrap_or_default();
    let mut targets = BTreeMap::new();
    for (name, type_name) in members("target") {
        targets.insert(name.clone(), TargetValue::Single(target(&name, &type_name)));
    }
    for (name, types) in members("list") {
        let element = |(index, type_name): (usize, &Value)| target(&format!("{name}-{index}"), type_name);
        let elements = types.as_array().unwrap().iter().enumerate().map(element).collect();
        targets.insert(name, TargetValue::List(elements));
    }
    for (name, types) in members("map") {
        let element =
            |(key, type_name): (&String, &Value)| (key.clone(), target(&format!("{name}-{key}"), type_name));
        targets
            .insert(name.clone(), TargetValue::Map(types.as_object().unwrap().iter().map(element).collect()));
    }
    Supplied {
        data: members("data").into_iter().collect(),
        targets,
        mapped: members("mapped").into_iter().collect(),
    }
}

fn target(name: &str, type_name: &Value) -> ImportedTarget {
    let mut object = json!({"kind": "Target", "metadata": {"name": name, "namespace": "source"}});
    if !type_name.is_null() {
        object["spec"] = json!({"type": type_name});
    }
    ImportedTarget {
        reference: ObjectReference { name: name.to_owned(), namespace: Some("source".to_owned()) },
        object,
    }
}

/// Creates component versions from descriptors. Each overwrite is a name, a version and the
/// replacing version.
pub(crate) fn components(descriptors: &[&str], overwrites: &[(&str, &str, &str)]) -> Components {
    let version = |text: &&str| ComponentVersion::new(Descriptor::parse(text.as_bytes()).unwrap(), None);
    let versions = descriptors.iter().map(version).collect();
    let rule = |(name, from, to): &(&str, &str, &str)| Rule {
        source: Attributes {
            name: Some((*name).into()),
            version: Some((*from).into()),
            ..Attributes::default()
        },
        substitution: Attributes { version: Some((*to).into()), ..Attributes::default() },
    };
    let overwrites: Overwrites = overwrites.iter().map(rule).collect();
    Components::new(versions, overwrites, None)
}

/// Returns capabilities with a tenth of the default limits, so that each test also shows that our
/// templates and the fixtures stay far below the limits.
fn within_a_tenth() -> Capabilities {
    let TemplateLimits { template_work, template_memory } = TemplateLimits::default();
    let limits = TemplateLimits { template_work: template_work / 10, template_memory: template_memory / 10 };
    Capabilities::default().limited(limits)
}

/// Renders for an Installation `inst` in the namespace `ns`.
pub(crate) fn render_with(
    blueprint: &Blueprint,
    supplied: &Supplied,
    components: &Components,
) -> Result<Rendered, RenderError> {
    let no_component = json!({});
    let (definition, capabilities) = (json!({"ref": {"resourceName": "bp"}}), within_a_tenth());
    let request = Request {
        blueprint,
        name: "inst",
        namespace: "ns",
        supplied,
        components,
        schemas: None,
        blueprint_definition: &definition,
        component_definition: &no_component,
        capabilities: &capabilities,
        show_values: false,
    };
    render(&request, &mut States::new())
}

/// Returns the configuration of each deploy item, by its name.
pub(crate) fn configurations(rendered: &Rendered) -> Map<String, Value> {
    let entry = |item: &groundwork_api::DeployItemTemplate| {
        (item.name.clone(), item.config.get().cloned().unwrap_or_default())
    };
    rendered.deploy_items.iter().map(entry).collect()
}

/// Runs one execution on bindings, without a blueprint.
pub(crate) fn execute(
    files: &Filesystem,
    components: &Components,
    execution: (ExecutionKind, &TemplateExecutor),
    given: &Value,
    state: Option<&str>,
) -> Result<Output, TemplateError> {
    execute_within(&within_a_tenth(), files, components, execution, given, state)
}

/// Runs one execution within other limits.
pub(crate) fn execute_within(
    capabilities: &Capabilities,
    files: &Filesystem,
    components: &Components,
    (kind, executor): (ExecutionKind, &TemplateExecutor),
    given: &Value,
    state: Option<&str>,
) -> Result<Output, TemplateError> {
    let functions = HostFunctions {
        files: Arc::new(files.clone()),
        components: components.clone(),
        kubeconfigs: Kubeconfigs::default(),
    };
    let parsed = ParsedTemplates::default();
    let mut bindings = Bindings::default();
    for (name, value) in given.as_object().unwrap() {
        bindings.bind(Box::leak(name.clone().into_boxed_str()), value);
    }
    Engine::new(&parsed, functions, capabilities, false).run(
        Execution { kind, index: 0, executor },
        &bindings,
        state,
    )
}
