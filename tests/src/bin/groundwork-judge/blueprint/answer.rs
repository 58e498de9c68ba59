//! One line of the output.

use std::collections::BTreeMap;

use groundwork_api::{DeployItemTemplate, InstallationTemplate, TargetSource};
use groundwork_blueprint::{ExecutionError, States, UnresolvedItem};
use groundwork_yaml as yaml;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// Stage of the execution that failed.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Stage {
    Input,
    Decode,
    Validate,
    Component,
    Render,
}

#[derive(Debug, Serialize)]
pub(super) struct CaseError {
    stage: Stage,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<BTreeMap<String, String>>,
}

impl CaseError {
    pub(super) fn new(stage: Stage, message: String) -> Self {
        Self { stage, message, source: None, input: None }
    }
}

/// Result of one run.
#[derive(Debug)]
pub(super) struct Outcome {
    result: Result<Map<String, Value>, CaseError>,
    /// State stored after the run.
    pub(super) states: States,
}

impl Outcome {
    pub(super) fn done(
        mut members: Map<String, Value>,
        states: States,
        texts: Vec<String>,
        warnings: Vec<String>,
    ) -> Self {
        members.insert("state".to_owned(), shown_states(&states));
        for (name, list) in [("text", texts), ("warnings", warnings)] {
            if !list.is_empty() {
                members.insert(name.to_owned(), json!(list));
            }
        }
        Self { result: Ok(members), states }
    }

    pub(super) fn failed(error: &ExecutionError, states: States) -> Self {
        let report = match error {
            ExecutionError::Template(error) => error.report(),
            _ => None,
        };
        let error = CaseError {
            stage: Stage::Render,
            message: error.words(),
            source: report.and_then(|report| report.snippet.clone()),
            input: report.map(|report| report.input.clone()),
        };
        Self { result: Err(error), states }
    }

    /// Returns the findings of a validation, sorted and without duplicates.
    pub(super) fn findings(mut texts: Vec<String>, warnings: Vec<String>) -> Self {
        texts.sort();
        texts.dedup();
        let members = Map::from_iter([
            ("validation".to_owned(), texts.into()),
            ("warnings".to_owned(), warnings.into()),
        ]);
        Self { result: Ok(members), states: States::new() }
    }

    fn into_members(self) -> Map<String, Value> {
        match self.result {
            Ok(output) => Map::from_iter([("output".to_owned(), Value::Object(output))]),
            Err(error) => Map::from_iter([
                ("error".to_owned(), json!(error)),
                ("state".to_owned(), shown_states(&self.states)),
            ]),
        }
    }
}

#[derive(Debug, Serialize)]
pub(super) struct Answer {
    name: Option<String>,
    #[serde(flatten)]
    members: Map<String, Value>,
}

impl Answer {
    pub(super) fn new(name: Option<String>, result: Result<Vec<Outcome>, CaseError>) -> Self {
        let members = match result {
            Err(error) => Map::from_iter([("error".to_owned(), json!(error))]),
            Ok(outcomes) => {
                let mut outcomes = outcomes.into_iter().map(Outcome::into_members);
                let mut first = outcomes.next().unwrap_or_default();
                let further: Vec<Value> = outcomes.map(Value::Object).collect();
                if !further.is_empty() {
                    first.insert("then".to_owned(), Value::Array(further));
                }
                first
            }
        };
        Self { name, members }
    }
}

fn shown_states(states: &States) -> Value {
    let shown = |(key, text): (&String, &String)| {
        (key.clone(), yaml::from_str(text).unwrap_or_else(|_| json!({"notYaml": text})))
    };
    Value::Object(states.iter().map(shown).collect())
}

/// Formats a decoded deploy item: name and type always, the other members if they are set.
pub(super) fn deploy_item(item: &UnresolvedItem) -> Value {
    let template = &item.template;
    let mut shown = json!({"name": template.name, "type": template.type_});
    let mut set = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            shown[name] = value;
        }
    };
    set(
        "target",
        item.target.as_ref().map(|target| {
            let members = [
                ("import", target.import.as_deref().filter(|text| !text.is_empty()).map(Value::from)),
                ("key", target.key.as_deref().map(Value::from)),
                ("index", target.index.map(Value::from)),
                ("name", target.name.as_deref().filter(|text| !text.is_empty()).map(Value::from)),
            ];
            present(members)
        }),
    );
    set("labels", (!template.labels.is_empty()).then(|| json!(template.labels)));
    set("config", template.config.get().filter(|config| !config.is_null()).cloned());
    set("dependsOn", (!template.depends_on.is_empty()).then(|| json!(template.depends_on)));
    set("timeoutSeconds", template.timeout.as_ref().map(|timeout| seconds(timeout.as_nanos())));
    set("updateOnChangeOnly", template.update_on_change_only.filter(|only| *only).map(Value::from));
    set(
        "onDelete",
        template.on_delete.as_ref().map(|on_delete| {
            let skip = on_delete.skip_uninstall_if_cluster_removed.filter(|skip| *skip);
            present([("skipUninstallIfClusterRemoved", skip.map(Value::from))])
        }),
    );
    shown
}

fn present<const N: usize>(members: [(&str, Option<Value>); N]) -> Value {
    let present = members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(present.collect())
}

/// Formats a number of seconds, whole ones without a decimal point.
fn seconds(nanoseconds: i64) -> Value {
    const SECOND: i64 = 1_000_000_000;
    if nanoseconds % SECOND == 0 {
        return Value::from(nanoseconds / SECOND);
    }
    #[expect(clippy::cast_precision_loss, reason = "a fraction of a second")]
    Value::from(nanoseconds as f64 / SECOND as f64)
}

/// Formats a deploy item with the target that its reference resolves to.
pub(super) fn resolved_item(item: &DeployItemTemplate) -> Value {
    let mut shown = json!({"name": item.name, "type": item.type_});
    if let Some(target) = &item.target {
        shown["target"] =
            json!({"name": target.name, "namespace": target.namespace.as_deref().unwrap_or_default()});
    }
    shown
}

/// Formats the members of a template that have an effect, without those that have no value.
pub(super) fn installation_template(template: &InstallationTemplate) -> Value {
    const DATA_IMPORT: &[&str] = &["name", "dataRef", "version", "secretRef", "configMapRef"];
    const TARGET_IMPORT: &[&str] =
        &["name", "target", "targets", "targetMap", "targetMapRef", "targetListRef"];
    let whole = serde_json::to_value(template).unwrap_or_default();
    let lists = |part: &str, data: &[&str], targets: &[&str]| {
        let list = |name: &str, known: &[&str]| {
            let entries = whole.get(part)?.get(name)?.as_array()?;
            let entries: Vec<Value> = entries.iter().map(|entry| known_members(entry, known)).collect();
            (!entries.is_empty()).then_some(Value::Array(entries))
        };
        Some(present([("data", list("data", data)), ("targets", list("targets", targets))]))
    };
    let only = |part: &str, known: &[&str]| whole.get(part).map(|part| known_members(part, known));
    let shown = [
        ("name", whole.get("name").filter(|name| name.as_str() != Some("")).cloned()),
        ("blueprint", only("blueprint", &["ref", "filesystem"])),
        (
            "imports",
            lists("imports", DATA_IMPORT, TARGET_IMPORT).map(|imports| with_target_maps(imports, template)),
        ),
        ("importDataMappings", whole.get("importDataMappings").cloned()),
        ("exports", lists("exports", &["name", "dataRef"], &["name", "target"])),
        ("exportDataMappings", whole.get("exportDataMappings").cloned()),
        ("optimization", only("optimization", &["hasNoSiblingImports", "hasNoSiblingExports"])),
    ];
    let is_empty = |value: &Value| value.is_null() || value.as_object().is_some_and(Map::is_empty);
    present(shown.map(|(name, value)| (name, value.filter(|value| !is_empty(value)))))
}

/// Writes a map of targets under one name, since a template may use either spelling of the member
/// (`blueprints.md` 1.5).
fn with_target_maps(mut imports: Value, template: &InstallationTemplate) -> Value {
    let written = template.imports.iter().flat_map(|imports| imports.targets.iter());
    let shown = imports.get_mut("targets").and_then(Value::as_array_mut).into_iter().flatten();
    for (import, shown) in written.zip(shown) {
        if let (Ok(TargetSource::Map(entries)), Some(members)) = (import.source(), shown.as_object_mut()) {
            members.remove("targets");
            members.insert("targetMap".to_owned(), json!(entries));
        }
    }
    imports
}

fn known_members(value: &Value, known: &[&str]) -> Value {
    let members = value.as_object().into_iter().flatten();
    let known = members.filter(|(name, value)| known.contains(&name.as_str()) && !value.is_null());
    Value::Object(known.map(|(name, value)| (name.clone(), value.clone())).collect())
}
