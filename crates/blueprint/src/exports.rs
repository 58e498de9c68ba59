//! Exports of a blueprint: from the output of its export executions to the values that an
//! Installation publishes (`blueprints.md` 8).

use std::collections::BTreeMap;

use groundwork_api::{AnyJson, DataExport, ExportDefinition, FieldType, TargetExport};
use groundwork_budget::TemplateLimits;
use serde_json::{Map, Value};

use crate::load::Blueprint;
use crate::mappings::{MappingError, export_mappings};
use crate::schema::{SchemaError, SchemaSource};

/// Inputs for the exports of one Installation.
#[derive(Clone, Copy)]
pub struct ExportRequest<'a> {
    pub blueprint: &'a Blueprint,
    /// Name of the Installation, for messages.
    pub installation: &'a str,
    /// Documents behind `cd://` schema references.
    pub schemas: Option<&'a dyn SchemaSource>,
    pub data: &'a [DataExport],
    pub targets: &'a [TargetExport],
    pub mappings: &'a groundwork_api::Map<AnyJson>,
    /// Limits of one mapping.
    pub limits: TemplateLimits,
}

impl std::fmt::Debug for ExportRequest<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExportRequest").field("installation", &self.installation).finish_non_exhaustive()
    }
}

/// Checked exports of a blueprint, and those that the Installation publishes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Exports {
    /// Exports by their declared names.
    pub declared: Map<String, Value>,
    /// Data by the name of the DataObject in the scope of the Installation.
    pub data: BTreeMap<String, Value>,
    /// Targets by the name of the Target in the scope of the Installation.
    pub targets: BTreeMap<String, TargetTemplate>,
    /// Undeclared names from export executions, which are dropped.
    pub undeclared: Vec<String>,
    /// Declared exports without a value, for which the Installation does not ask.
    pub unmade: Vec<String>,
}

/// Exported Target (`blueprints.md` 8.7).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TargetTemplate {
    pub type_name: String,
    pub config: Option<Value>,
    /// Name and key of a Secret.
    pub secret_ref: Option<Value>,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
}

/// Error of exports. Texts name exports and types, never values.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// Errors EXP-002 to EXP-005 (`blueprints.md` 10): a problem of one export.
    #[error("{path}: {problem}")]
    Export { path: String, problem: ExportProblem },
    /// Error EXP-006 (`blueprints.md` 10): a mapping fails.
    #[error(transparent)]
    Mapping(#[from] MappingError),
}

/// Problem of an export.
#[derive(Debug, thiserror::Error)]
pub enum ExportProblem {
    #[error("unknown export type '{0}'")]
    UnknownType(String),
    #[error("schema for data export {0:?} must not be empty")]
    NoSchema(String),
    #[error("validator creation failed: {0}")]
    Compile(SchemaError),
    #[error("exported data does not satisfy the configured schema: {}", join(.0))]
    Schema(Vec<groundwork_schema::Violation>),
    #[error("exported target does not match the expected target template schema: {0}")]
    NoTarget(&'static str),
    #[error("exported target type is {actual} but expected {expected}")]
    TargetType { actual: String, expected: String },
    /// Error EXP-004 (`blueprints.md` 10): a declared export has no value, and the Installation
    /// asks for it.
    #[error("export is declared by the blueprint but has no value")]
    NoValue,
    /// Error EXP-005 (`blueprints.md` 10): a published data export has no value.
    #[error("data export is not defined")]
    NoData,
    /// Error EXP-005 (`blueprints.md` 10): a published Target has no value.
    #[error("target export is not defined")]
    NoTargetExport,
}

fn join(violations: &[groundwork_schema::Violation]) -> String {
    violations.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Checks the results of export executions, maps them, and selects those that the Installation
/// publishes.
///
/// A declared export without a value is an error only if the Installation publishes it or a mapping
/// reads it: what is deployed works without the others.
///
/// # Errors
///
/// All exports with an invalid value, and those without a value that the Installation publishes; or
/// the first failed mapping, with all exports without a value; or all published names without a
/// value. After an error the caller must not write any export.
pub fn construct_exports(
    request: &ExportRequest<'_>,
    rendered: Map<String, Value>,
) -> Result<Exports, Vec<ExportError>> {
    let path = format!("(inst: {}).internalExports", request.installation);
    let mut exports = Exports::default();
    let mut errors = Vec::new();
    let mut rendered = rendered;
    for definition in &request.blueprint.definition.exports {
        let problem = match rendered.remove(&definition.name) {
            None if is_published(request, &definition.name) => Some(ExportProblem::NoValue),
            None => {
                exports.unmade.push(definition.name.clone());
                continue;
            }
            Some(value) => {
                let problem = check(request, definition, &value).err();
                exports.declared.insert(definition.name.clone(), value);
                problem
            }
        };
        let path = || format!("{path}.{}", definition.name);
        errors.extend(problem.map(|problem| ExportError::Export { path: path(), problem }));
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    exports.undeclared = rendered.into_iter().map(|(name, _)| name).collect();
    publish(request, &path, &mut exports).map_err(|mut errors| {
        // A mapping may have failed because it reads one of them.
        if errors.iter().any(|error| matches!(error, ExportError::Mapping(_))) {
            let problem = |name: &String| ExportError::Export {
                path: format!("{path}.{name}"),
                problem: ExportProblem::NoValue,
            };
            errors.splice(0..0, exports.unmade.iter().map(problem));
        }
        errors
    })?;
    Ok(exports)
}

/// Reports whether an Installation publishes a declared export itself. A mapping of the same name
/// replaces its value.
fn is_published(request: &ExportRequest<'_>, name: &str) -> bool {
    let is_data = request.data.iter().any(|export| export.name == name);
    let is_target = request.targets.iter().any(|export| export.name == name);
    is_target || is_data && !request.mappings.iter().any(|(mapped, _)| mapped == name)
}

fn check(
    request: &ExportRequest<'_>,
    definition: &ExportDefinition,
    value: &Value,
) -> Result<(), ExportProblem> {
    let type_name = definition.type_.as_deref().unwrap_or_default();
    match type_name.parse() {
        Ok(FieldType::Data) => {
            let schema =
                definition.schema().ok_or_else(|| ExportProblem::NoSchema(definition.name.clone()))?;
            let key = format!("exports.{}", definition.name);
            let schema = request
                .blueprint
                .compiled_schema(&key, schema, request.schemas)
                .map_err(ExportProblem::Compile)?;
            let violations = schema.violations(value);
            if violations.is_empty() { Ok(()) } else { Err(ExportProblem::Schema(violations)) }
        }
        Ok(FieldType::Target) => {
            let target = TargetTemplate::decode(value).map_err(ExportProblem::NoTarget)?;
            let expected = definition.target_type.as_deref().unwrap_or_default();
            if target.type_name == expected {
                return Ok(());
            }
            Err(ExportProblem::TargetType { actual: target.type_name, expected: expected.to_owned() })
        }
        Ok(FieldType::TargetList | FieldType::TargetMap) | Err(_) => {
            Err(ExportProblem::UnknownType(type_name.to_owned()))
        }
    }
}

/// Selects the published values. Mappings replace and add data, but never Targets.
fn publish(request: &ExportRequest<'_>, path: &str, exports: &mut Exports) -> Result<(), Vec<ExportError>> {
    let null = Value::Null;
    let mappings = request.mappings.iter();
    let mappings = mappings.map(|(name, mapping)| (name.as_str(), mapping.as_written().unwrap_or(&null)));
    let mapped = export_mappings(path, mappings, &exports.declared, request.limits)
        .map_err(|error| vec![error.into()])?;
    let mut errors = Vec::new();
    for export in request.data {
        match mapped.get(&export.name).or_else(|| exports.declared.get(&export.name)) {
            Some(value) => drop(exports.data.insert(export.data_ref.clone(), value.clone())),
            None => errors.push(ExportError::Export {
                path: format!("{path}.exports.data.{}", export.name),
                problem: ExportProblem::NoData,
            }),
        }
    }
    for export in request.targets {
        let target = exports.declared.get(&export.name).map(TargetTemplate::decode);
        let problem = match target {
            Some(Ok(target)) => {
                exports.targets.insert(export.target.clone(), target);
                continue;
            }
            Some(Err(problem)) => ExportProblem::NoTarget(problem),
            None => ExportProblem::NoTargetExport,
        };
        let path = format!("{path}.exports.targets.{}", export.name);
        errors.push(ExportError::Export { path, problem });
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

impl TargetTemplate {
    /// Decodes a template. The error is a sentence about the shape.
    fn decode(value: &Value) -> Result<Self, &'static str> {
        let members = value.as_object().ok_or("a map is expected")?;
        let type_name = members.get("type").and_then(Value::as_str).ok_or("type must be a text")?;
        let present = |name: &str| members.get(name).filter(|value| !value.is_null()).cloned();
        // The design document names the field `configuration` in its list of fields.
        let config = present("config").or_else(|| present("configuration"));
        let secret_ref = present("secretRef");
        if config.is_some() && secret_ref.is_some() {
            return Err("either config or secretRef may be set, not both");
        }
        let texts = |name: &'static str, problem: &'static str| match members.get(name) {
            None | Some(Value::Null) => Ok(BTreeMap::new()),
            Some(Value::Object(entries)) => entries
                .iter()
                .map(|(key, value)| Ok((key.clone(), value.as_str().ok_or(problem)?.to_owned())))
                .collect(),
            Some(_) => Err(problem),
        };
        Ok(Self {
            type_name: type_name.to_owned(),
            config,
            secret_ref,
            labels: texts("labels", "labels must be a map of texts")?,
            annotations: texts("annotations", "annotations must be a map of texts")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{load, yaml};

    const BLUEPRINT: &str = "
exports:
- {name: url, schema: {type: string}}
- {name: cluster, targetType: kubernetes-cluster}
";
    const CLUSTER: &str = "{type: landscaper.gardener.cloud/kubernetes-cluster, config: {kubeconfig: x}}";

    fn construct(rendered: &str, published: &str, mappings: &str) -> Result<Exports, Vec<String>> {
        let blueprint = load(BLUEPRINT, &[]).unwrap();
        let published = yaml(published);
        let list = |name: &str| published.get(name).cloned().unwrap_or_else(|| json!([]));
        let data: Vec<DataExport> = serde_json::from_value(list("data")).unwrap();
        let targets: Vec<TargetExport> = serde_json::from_value(list("targets")).unwrap();
        let mappings = serde_json::from_value(yaml(mappings)).unwrap();
        let request = ExportRequest {
            blueprint: &blueprint,
            installation: "i",
            schemas: None,
            data: &data,
            targets: &targets,
            mappings: &mappings,
            limits: TemplateLimits::default(),
        };
        let rendered = yaml(rendered).as_object().cloned().unwrap();
        construct_exports(&request, rendered)
            .map_err(|errors| errors.iter().map(ToString::to_string).collect())
    }

    /// Cases B-93, B-98: `blueprints.md` 8.1, 8.5, 8.6.
    #[test]
    fn exports_are_picked() {
        let all = format!("{{url: http://x, cluster: {CLUSTER}, more: 1}}");
        let exports = construct(
            &all,
            "{data: [{name: url, dataRef: a}, {name: host, dataRef: b}], targets: [{name: cluster, target: t}]}",
            "{host: (( url \"/\" )), url: (( exports.url \"!\" )), unused: 5}",
        )
        .unwrap();
        assert_eq!(exports.undeclared, ["more"]);
        assert_eq!(exports.data["a"], json!("http://x!"));
        assert_eq!(exports.data["b"], json!("http://x/"));
        assert_eq!(exports.targets["t"].config, Some(json!({"kubeconfig": "x"})));
        assert_eq!(construct(&all, "{}", "{}").unwrap().data.len(), 0);
        let exports = construct("{}", "{data: [{name: url, dataRef: a}]}", "{url: here}").unwrap();
        assert_eq!(
            (exports.unmade.as_slice(), &exports.data["a"]),
            (&["url", "cluster"].map(str::to_owned)[..], &json!("here"))
        );
    }

    /// Cases B-38, B-39, B-91: errors EXP-002 to EXP-006 (`blueprints.md` 10), acceptance item 11.
    #[test]
    fn exports_are_refused() {
        let good = format!("cluster: {CLUSTER}");
        for (rendered, published, mappings, expected) in [
            (
                "{}".to_owned(),
                "{data: [{name: url, dataRef: a}], targets: [{name: cluster, target: t}]}",
                "{}",
                "(inst: i).internalExports.url: export is declared by the blueprint but has no value | (inst: \
                 i).internalExports.cluster: export is declared by the blueprint but has no value",
            ),
            (
                format!("{{url: 5, {good}}}"),
                "{}",
                "{}",
                "(inst: i).internalExports.url: exported data does not satisfy the configured schema: (root): Invalid value: \
                 <redacted>: Invalid type. Expected: string, given: integer",
            ),
            (
                format!("{{url: null, {good}}}"),
                "{}",
                "{}",
                "(inst: i).internalExports.url: exported data does not satisfy the configured schema: (root): Invalid value: \
                 <redacted>: Invalid type. Expected: string, given: null",
            ),
            (
                "{url: x, cluster: {type: other}}".to_owned(),
                "{}",
                "{}",
                "(inst: i).internalExports.cluster: exported target type is other but expected \
                 landscaper.gardener.cloud/kubernetes-cluster",
            ),
            (
                "{url: x, cluster: 5}".to_owned(),
                "{}",
                "{}",
                "(inst: i).internalExports.cluster: exported target does not match the expected target template schema: a \
                 map is expected",
            ),
            (
                "{url: x, cluster: {type: t, config: {}, secretRef: {name: a}}}".to_owned(),
                "{}",
                "{}",
                "(inst: i).internalExports.cluster: exported target does not match the expected target template schema: \
                 either config or secretRef may be set, not both",
            ),
            (
                format!("{{url: x, {good}}}"),
                "{data: [{name: nope, dataRef: a}], targets: [{name: nope, target: b}]}",
                "{}",
                "(inst: i).internalExports.exports.data.nope: data export is not defined | (inst: \
                 i).internalExports.exports.targets.nope: target export is not defined",
            ),
        ] {
            assert_eq!(construct(&rendered, published, mappings).unwrap_err().join(" | "), expected);
        }
        let failed = construct(&good, "{}", "{host: (( url \"/\" ))}").unwrap_err();
        assert_eq!(
            failed[0],
            "(inst: i).internalExports.url: export is declared by the blueprint but has no value"
        );
        assert!(failed[1].starts_with("unable to template export mapping template"), "{failed:?}");
        let failed = construct(&format!("{{url: x, {good}}}"), "{}", "{unused: (( nope ))}").unwrap_err();
        assert!(
            failed[0].starts_with(
                "unable to template export mapping template (inst: i).internalExports.unused: unresolved nodes:"
            ),
            "{failed:?}"
        );
    }

    /// Cases B-95 to B-97, `blueprints.md` 8.7: both names of the configuration, or a Secret;
    /// labels and annotations.
    #[test]
    fn target_templates() {
        let cluster = "type: landscaper.gardener.cloud/kubernetes-cluster";
        let target = |members: &str| {
            let rendered = format!("{{url: x, cluster: {{{cluster}, {members}}}}}");
            construct(&rendered, "{targets: [{name: cluster, target: t}]}", "{}").unwrap().targets["t"]
                .clone()
        };
        for name in ["config", "configuration"] {
            assert_eq!(target(&format!("{name}: {{a: 1}}")).config, Some(json!({"a": 1})), "{name}");
        }
        let full = target("secretRef: {name: s, key: k}, labels: {a: b}, annotations: {c: d}, name: ignored");
        assert_eq!(full.secret_ref, Some(json!({"name": "s", "key": "k"})));
        assert_eq!((&*full.labels["a"], &*full.annotations["c"]), ("b", "d"));
    }
}
