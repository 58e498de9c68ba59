//! Tests with generated calls: each gets an answer or an error, and no message shows a value.

use std::collections::HashMap;

use groundwork_proto::renderer::v1::{ExportValues, RenderInput};
use groundwork_testkit::made_up::{Random, cases};
use groundwork_yaml as yaml;
use serde_json::Value;
use tonic::Code;

use super::*;

/// Environment variable with the number of generated calls; `cargo xtask fuzz` asks for more than
/// the default.
const CASES_VARIABLE: &str = "GROUNDWORK_MADE_UP_CALLS";
const CASES: usize = 600;

/// Value that must not appear in any message.
const SECRET: &str = "c4narybird";

const INSTALLATION: &str = r#"{"apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Installation",
    "metadata": {"name": "shop", "namespace": "team", "annotations": {"landscaper.gardener.cloud/operation": "reconcile"}},
    "spec": {"context": "default", "blueprint": {"inline": {"filesystem": {}}},
        "imports": {"data": [{"name": "a", "dataRef": "a"}, {"name": "b", "configMapRef": {"name": "settings", "key": "b"}},
            {"name": "c", "secretRef": {"name": "login", "key": "password"}}], "targets": [{"name": "cluster", "target": "cluster"}]},
        "importDataMappings": {"d": "(( a ))"},
        "exports": {"data": [{"name": "url", "dataRef": "url"}]}, "exportDataMappings": {"more": "(( url ))"}}}"#;

/// Objects of a call beside the Installation.
const OBJECTS: [&str; 6] = [
    r#"{"apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Context", "metadata": {"name": "default", "namespace": "team"},
        "repositoryContext": {"type": "ociRegistry", "baseUrl": "example.org/c"}, "componentVersionOverwrites": "rules"}"#,
    r#"{"apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "ComponentVersionOverwrites", "metadata": {"name": "rules"},
        "overwrites": [{"source": {"componentName": "example.org/a"}, "substitution": {"version": "v2"}}]}"#,
    r#"{"apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "DataObject", "metadata": {"name": "a"}, "data": {"x": ["c4narybird", 1]}}"#,
    r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"b": "size: c4narybird"}}"#,
    r#"{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"}, "stringData": {"password": "c4narybird"}}"#,
    r#"{"apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Target", "metadata": {"name": "cluster"},
        "spec": {"type": "landscaper.gardener.cloud/kubernetes-cluster", "config": {"kubeconfig": "c4narybird"}}}"#,
];

const BLUEPRINTS: [&str; 3] = [
    "apiVersion: landscaper.gardener.cloud/v1alpha1
kind: Blueprint
imports: [{name: a, type: data, schema: {type: object}}, {name: cluster, targetType: landscaper.gardener.cloud/kubernetes-cluster}]
exports: [{name: url, schema: {type: string}}]
deployExecutions:
- {name: d, type: GoTemplate, template: \"deployItems: [{name: x, type: t, target: {import: cluster}, config: {{ .imports | toJson }}}]\"}
exportExecutions: [{name: e, type: Spiff, template: {exports: {url: (( values.deployitems.x.url ))}}}]
",
    "imports: [{name: c, schema: {type: string, minLength: 3}}, {name: b, required: false, schema: {}}]
importExecutions: [{name: i, type: Spiff, template: {bindings: {e: (( imports.c )), f: (( &state(rand('[:alnum:]', 4)) ))}, errors: []}}]
deployExecutions: [{name: s, type: Spiff, file: deploy.yaml}]
",
    "subinstallations:
- {apiVersion: landscaper.gardener.cloud/v1alpha1, kind: InstallationTemplate, name: one, blueprint: {filesystem: {blueprint.yaml: {}}},
   imports: {data: [{name: z, dataRef: a}]}, exports: {data: [{name: url, dataRef: url}]}}
exports: [{name: url, schema: {}}]
exportExecutions: [{name: e, type: GoTemplate, template: 'exports: {url: {{ index .values.dataobjects `url` | quote }}}'}]
",
];

const DEPLOY: &str = "deployItems: (( map[[1..2]|i|->{name = \"x\" i, type = \"t\", config = imports}] ))\n";

fn json(text: String) -> Json {
    Json { text }
}

/// Returns the complete input of one call; at most one part of it is generated.
fn input(random: &mut Random) -> RenderInput {
    let mut objects: Vec<String> =
        [INSTALLATION].iter().chain(&OBJECTS).map(|object| (*object).to_owned()).collect();
    let mut blueprint = (*random.one_of(&BLUEPRINTS)).to_owned();
    let mut deploy = DEPLOY.to_owned();
    let mut state = "{\"x\": 1}".to_owned();
    match random.below(6) {
        0 | 1 => objects[0] = random.changed(&objects[0]),
        2 => {
            let at = random.below(objects.len());
            objects[at] = random.changed(&objects[at]);
        }
        3 => blueprint = random.changed(&blueprint),
        4 => deploy = random.changed(&deploy),
        _ => state = random.changed(&state),
    }
    let files = [("blueprint.yaml", blueprint), ("deploy.yaml", deploy)];
    RenderInput {
        objects: objects.into_iter().map(json).collect(),
        blueprint: files.map(|(path, text)| (path.to_owned(), text.into_bytes())).into(),
        given: HashMap::new(),
        state: [("deploys".to_owned(), json(state))].into(),
    }
}

fn values(random: &mut Random) -> ExportValues {
    let mut items = format!("{{\"url\": \"{SECRET}\"}}");
    if random.below(3) == 0 {
        items = random.changed(&items);
    }
    let data = json(format!("\"{SECRET}\""));
    ExportValues {
        deploy_items: [("x".to_owned(), json(items))].into(),
        data_objects: [("url".to_owned(), data)].into(),
        targets: HashMap::new(),
    }
}

/// Reports whether the secret is in the place of the name of a member, since errors show the names
/// in a template's input (`blueprints.md` 5.7). Texts of Secrets and ConfigMaps are YAML.
fn is_named(value: &Value) -> bool {
    match value {
        Value::Object(members) => {
            members.iter().any(|(name, value)| name.contains(SECRET) || is_named(value))
        }
        Value::Array(items) => items.iter().any(is_named),
        Value::String(text) => {
            yaml::from_str(text).is_ok_and(|inner: Value| !inner.is_string() && is_named(&inner))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn shows_names(texts: &[Json]) -> bool {
    texts.iter().filter_map(|json| yaml::from_str(&json.text).ok()).any(|value| is_named(&value))
}

/// Success of a call, and the messages for users.
type Told = Result<(bool, Vec<String>), Status>;

/// Reports whether a call succeeded, and checks that its messages show no value.
fn is_done(told: Told, input: &RenderInput) -> bool {
    let (is_done, messages) = told.unwrap_or_else(|status| {
        assert_eq!(status.code(), Code::InvalidArgument, "{status:?}: {input:?}");
        (false, vec![status.message().to_owned()])
    });
    for message in messages {
        assert!(!message.contains(SECRET), "{message}: {input:?}");
    }
    is_done
}

fn rendering(input: &RenderInput) -> Told {
    let request = RenderRequest { input: Some(render_request::Input::Inline(input.clone())) };
    let answer = render_inline(request, &Blueprints::default(), &Capabilities::system())?;
    let is_done = answer.failure.is_none();
    let failure = answer.failure.into_iter().map(|failure| failure.message);
    Ok((is_done, failure.chain(answer.warnings).chain(answer.dropped).collect()))
}

fn exporting(input: &RenderInput, values: ExportValues) -> Told {
    let request = RenderExportsRequest {
        input: Some(render_exports_request::Input::Inline(input.clone())),
        values: Some(values),
        ..RenderExportsRequest::default()
    };
    let answer = exports_inline(request, &Blueprints::default(), &Capabilities::system())?;
    let is_done = answer.failure.is_none();
    let failure = answer.failure.into_iter().map(|failure| failure.message);
    Ok((is_done, failure.chain(answer.warnings).collect()))
}

fn validating(input: &RenderInput) -> Told {
    let installation = Some(input.objects[0].clone());
    let answer = validate(ValidateRequest { installation, blueprint: input.blueprint.clone() })?;
    let violations = answer.violations.into_iter().map(|violation| violation.message);
    let messages: Vec<String> =
        violations.chain(answer.findings.into_iter().map(|finding| finding.message)).collect();
    Ok((messages.is_empty(), messages))
}

#[test]
fn made_up_calls_are_answered() {
    let cases = cases(CASES_VARIABLE, CASES);
    let mut random = Random::new(23);
    let (mut rendered, mut exported, mut validated, mut named) = (0, 0, 0, 0);
    for _ in 0..cases {
        let (input, values) = (input(&mut random), values(&mut random));
        let given: Vec<Json> = input.objects.iter().chain(values.deploy_items.values()).cloned().collect();
        if shows_names(&given) {
            named += 1;
            continue;
        }
        rendered += usize::from(is_done(rendering(&input), &input));
        exported += usize::from(is_done(exporting(&input, values), &input));
        validated += usize::from(is_done(validating(&input), &input));
    }
    assert!(named < cases / 20, "{named} of {cases} have the secret for a name");
    for (what, count) in [("rendered", rendered), ("exported", exported), ("valid", validated)] {
        assert!(count > cases / 20, "{count} of {cases} are {what}");
    }
}
