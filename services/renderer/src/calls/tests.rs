use groundwork_blueprint::Capabilities;
use groundwork_lifecycle::{ROOT_SCOPE, export, render};
use groundwork_proto::renderer::v1::{
    ExportValues as WireValues, Finding, RenderExportsResponse, RenderInput, RenderResponse, Severity,
};
use groundwork_yaml as yaml;
use serde_json::{Value, json};
use std::collections::HashMap;
use tonic::Code;

use super::request::{MOST_FILES, MOST_OBJECTS, MOST_VALUES, export_values, files};
use super::*;

fn encode(value: &Value) -> Json {
    Json { text: value.to_string() }
}

fn decode(json: &Json) -> Value {
    serde_json::from_str(&json.text).unwrap()
}

fn wire(values: &[(&str, Value)]) -> HashMap<String, Json> {
    values.iter().map(|(name, value)| ((*name).to_owned(), encode(value))).collect()
}

/// Returns a request with an Installation, given as members of its `spec`, its Context, and its
/// blueprint as a file.
fn input(spec: &str, blueprint: &str) -> RenderInput {
    let mut spec = yaml::from_str(spec).unwrap();
    spec["blueprint"] = json!({"inline": {"filesystem": {}}});
    let object = |kind: &str, name: &str| {
        json!({
            "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": kind,
            "metadata": {"name": name, "namespace": "team"},
        })
    };
    let mut installation = object("Installation", "server");
    installation["spec"] = spec;
    RenderInput {
        objects: vec![encode(&installation), encode(&object("Context", "default"))],
        blueprint: HashMap::from([("blueprint.yaml".to_owned(), blueprint.as_bytes().to_vec())]),
        ..RenderInput::default()
    }
}

/// Returns a cache that keeps no blueprint.
fn blueprints() -> Blueprints {
    Blueprints::default()
}

fn rendered(input: RenderInput) -> RenderResponse {
    let inline = Inline::read(input).unwrap();
    let outcome = inline.with_inputs(&blueprints(), &Capabilities::system(), render);
    let mut answer = answer::rendered(&inline.installation, &outcome).unwrap();
    answer.warnings.extend(inline.unused(&outcome));
    answer
}

fn exported(input: RenderInput, values: &WireValues) -> RenderExportsResponse {
    let inline = Inline::read(input).unwrap();
    let values = export_values(values).unwrap();
    let outcome =
        inline.with_inputs(&blueprints(), &Capabilities::system(), |inputs| export(inputs, |_| values));
    answer::exported(&inline.installation, ROOT_SCOPE, &outcome).unwrap()
}

#[track_caller]
fn refused(input: RenderInput) -> String {
    let status = Inline::read(input).err().expect("the input is refused");
    assert_eq!(status.code(), Code::InvalidArgument);
    assert_eq!(status::reason(&status).as_deref(), Some(reasons::INVALID_REQUEST));
    status.message().to_owned()
}

#[test]
fn a_call_brings_only_so_many_objects_files_and_values() {
    let objects = RenderInput { objects: vec![Json::default(); MOST_OBJECTS + 1], ..RenderInput::default() };
    let blueprint = (0..=MOST_FILES).map(|number| (number.to_string(), Vec::new())).collect();
    let files = RenderInput { blueprint, ..RenderInput::default() };
    let values = || (0..=MOST_VALUES).map(|number| (number.to_string(), encode(&json!(1)))).collect();
    let given = RenderInput { given: values(), ..RenderInput::default() };
    let state = RenderInput { state: values(), ..RenderInput::default() };
    for (input, text) in [
        (objects, "inline.objects: there are 1001 objects; a call may have at most 1000"),
        (files, "inline.blueprint: there are 1001 files; a call may have at most 1000"),
        (given, "inline.given: there are 1001 values; a call may have at most 1000"),
        (state, "inline.state: there are 1001 values; a call may have at most 1000"),
    ] {
        assert_eq!(refused(input), text);
    }
    let exports = WireValues { data_objects: values(), ..WireValues::default() };
    let told = export_values(&exports).unwrap_err();
    assert_eq!(told.message(), "values.data_objects: there are 1001 values; a call may have at most 1000");
}

#[test]
fn a_path_cannot_be_a_file_and_a_folder() {
    let given = |paths: &[&str]| {
        let all: HashMap<_, _> = paths.iter().map(|path| ((*path).to_owned(), b"x".to_vec())).collect();
        files(all, "blueprint")
    };
    let refused = given(&["a", "a/b/c", "d/e"]).unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(refused.message().contains("\"a\" is given as a file"), "{refused}");

    let taken = given(&["a.txt", "a/b", "a/c/d"]).unwrap().unwrap();
    assert_eq!(taken.read("a/c/d").unwrap(), b"x");
    for outside in ["../x", "/x", "a//b", "./a"] {
        assert_eq!(given(&[outside]).unwrap_err().code(), Code::InvalidArgument, "{outside}");
    }
    // Regression test: a path of 20,000 folders overflowed the stack.
    let deep = format!("{}b", "a/".repeat(20_000));
    let refused = given(&[deep.as_str()]).unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(refused.message().len() < 300, "{}", refused.message().len());
    assert!(given(&[]).unwrap().is_none());
}

/// Errors quote no values, and a duplicate key is refused, as in objects.
#[test]
fn values_that_cannot_be_used_are_refused() {
    let text = |text: &str| HashMap::from([("a".to_owned(), Json { text: text.to_owned() })]);
    for (broken, problem) in [
        ("canary", "not valid JSON (line 1, column 1)"),
        ("{\"canary\": 1, \"canary\": 2}", "a field name occurs twice"),
        ("", "not valid JSON"),
    ] {
        let inputs = [
            ("inline.given", RenderInput { given: text(broken), ..RenderInput::default() }),
            ("inline.state", RenderInput { state: text(broken), ..RenderInput::default() }),
        ];
        for (field, input) in inputs {
            let message = refused(input);
            assert!(message.starts_with(&format!("{field}[\"a\"]: {problem}")), "{message}");
            assert!(!message.contains("canary"), "{message}");
        }
    }
    let misspelt = json!({
        "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Target", "metadata": {"name": "t"},
        "spec": {"type": "a/b", "confg": {}},
    });
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "t"}});
    for (target, message) in [
        (misspelt, "values.targets[\"t\"]: unknown field \"spec.confg\""),
        (map, "values.targets[\"t\"]: it must be a Target, with its apiVersion"),
        (
            json!(1),
            "values.targets[\"t\"]: apiVersion must be given; kind must be given; metadata.name must be given",
        ),
    ] {
        let values = WireValues { targets: wire(&[("t", target)]), ..WireValues::default() };
        assert_eq!(export_values(&values).unwrap_err().message(), message);
    }
}

/// Errors of `Blueprint::load` have their place (`blueprints.md` 1.8).
#[test]
fn findings_have_places() {
    let findings = |name: &str, text: &str| {
        let files = files(HashMap::from([(name.to_owned(), text.as_bytes().to_vec())]), "blueprint");
        answer::findings(files.unwrap().unwrap())
    };
    let place = |finding: &Finding| (finding.path.clone(), finding.severity(), finding.line, finding.column);

    let missing = findings("other.yaml", "");
    assert_eq!(place(&missing[0]), (String::new(), Severity::Error, 0, 0));
    assert_eq!((missing.len(), missing[0].message.as_str()), (1, "file does not exist"));

    let broken = findings("blueprint.yaml", "kind: Blueprint\nimports: [\n");
    assert_eq!((broken.len(), broken[0].severity()), (1, Severity::Error));
    assert!(broken[0].line > 1 && broken[0].file == "blueprint.yaml", "{broken:?}");

    let head = "apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: Blueprint\n";
    let invalid = findings(
        "blueprint.yaml",
        &format!("{head}imports:\n- {{name: a, schema: {{}}}}\n- {{name: a, schema: true}}\n- {{name: b}}\n"),
    );
    let errors: Vec<_> = invalid.iter().filter(|finding| finding.severity() == Severity::Error).collect();
    assert_eq!(errors.iter().map(|error| error.line).collect::<Vec<_>>(), [5, 6], "{invalid:?}");
    assert!(errors.iter().all(|error| error.path.starts_with("imports[") && error.column > 0), "{errors:?}");
    assert!(errors.iter().all(|error| !error.message.starts_with("imports")), "{errors:?}");

    assert_eq!(findings("blueprint.yaml", head), []);
}

const PARENT: &str = r#"
apiVersion: landscaper.gardener.cloud/v1alpha1
kind: Blueprint
imports:
- {name: size, schema: {type: integer}}
- {name: color, required: false, schema: {type: string}}
subinstallations:
- name: second
  imports: {data: [{name: host, dataRef: host}]}
  blueprint: {filesystem: {blueprint.yaml: ""}}
- name: first
  imports: {data: [{name: size, dataRef: size}, {name: color, dataRef: color}]}
  exports: {data: [{name: host, dataRef: host}]}
  blueprint: {filesystem: {blueprint.yaml: ""}}
deployExecutions:
- name: d
  type: GoTemplate
  template: |
    deployItems: [{name: item, type: t, config: {size: {{ .imports.size }}, runs: {{ dig "runs" 0 .state }}}}]
    state: {runs: {{ add1 (dig "runs" 0 .state) }}}
"#;

/// The request contains all objects of a namespace. The call uses the Context that the Installation
/// names and the overwrites that this Context names. The answer lists the other Contexts and
/// overwrites as unused.
#[test]
fn the_context_of_the_installation_is_used() {
    let others = |rules: &str| {
        let object = |kind: &str, name: &str| {
            json!({
                "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": kind,
                "metadata": {"name": name, "namespace": "team"},
            })
        };
        let mut named = object("Context", "named");
        named["componentVersionOverwrites"] = json!(rules);
        let mut idle = object("ComponentVersionOverwrites", "idle");
        idle["overwrites"] = json!([]);
        [named, object("Context", "a"), idle].map(|object| encode(&object))
    };
    let call = |rules: &str| {
        let mut input = input("context: named", "imports: []");
        input.objects.splice(1..1, others(rules));
        rendered(input)
    };
    let told = "ComponentVersionOverwrites \"idle\" have no effect: the Context \"named\" does not name them";
    let answer = call("");
    assert_eq!((answer.failure, answer.warnings), (None, vec![told.to_owned()]));
    let answer = call("idle");
    assert_eq!((answer.failure, answer.warnings), (None, Vec::<String>::new()));
}

/// A nested installation is rendered with its parent's imports and its siblings' exports, as the
/// two earlier answers contain them.
#[test]
fn children_find_what_lies_in_their_scope() {
    let spec = "imports: {data: [{name: size, dataRef: nowhere}]}";
    let parent = rendered(RenderInput { given: wire(&[("size", json!(7))]), ..input(spec, PARENT) });
    assert_eq!(parent.import_copies.len(), 1);
    let copy = decode(&parent.import_copies[0]);
    assert_eq!((&copy["kind"], &copy["data"]), (&json!("DataObject"), &json!(7)));
    let context = input(spec, PARENT).objects.remove(1);
    let child = parent.children[0].installation.clone().unwrap();
    let with = |mut objects: Vec<Json>| {
        objects.extend([context.clone(), child.clone()]);
        let blueprint = "imports: [{name: size, schema: {type: integer}}]";
        let blueprint = HashMap::from([("blueprint.yaml".to_owned(), blueprint.as_bytes().to_vec())]);
        rendered(RenderInput { objects, blueprint, ..RenderInput::default() })
    };
    assert_eq!(with(parent.import_copies.clone()).failure, None);
    let failure = with(Vec::new()).failure.unwrap();
    assert_eq!(failure.reason, "ImportsSatisfied", "{failure:?}");
}

/// Answers from inline input contain nested installations, state and unused inputs, and not only
/// the items.
#[test]
fn inline_input_gives_children_and_state() {
    let spec = "imports: {data: [{name: size, dataRef: nowhere}]}";
    let given = wire(&[("size", json!(9_007_199_254_740_993_u64)), ("sise", json!(1))]);
    let first = rendered(RenderInput { given: given.clone(), ..input(spec, PARENT) });
    assert_eq!(first.failure, None);
    let templates: Vec<&str> = first.children.iter().map(|child| child.template.as_str()).collect();
    assert_eq!(templates, ["first", "second"]);
    let child = decode(first.children[0].installation.as_ref().unwrap());
    assert_eq!(child["kind"], "Installation");
    assert_eq!(child["spec"]["imports"]["data"], json!([{"name": "size", "dataRef": "size"}]));
    assert_eq!(first.dropped.len(), 1);
    assert!(first.dropped[0].contains("\"first\": data import \"color\" is dropped"), "{:?}", first.dropped);
    assert!(
        first.warnings.contains(&"given \"sise\": the blueprint has no import of this name".to_owned()),
        "{:?}",
        first.warnings
    );
    let item = |answer: &RenderResponse| decode(&answer.deploy_items[0])["spec"]["config"].clone();
    assert_eq!(item(&first), json!({"size": 9_007_199_254_740_993_u64, "runs": 0}));

    // State goes into the next request in the form in which the answer contained it.
    let second = rendered(RenderInput { given, state: first.state.clone(), ..input(spec, PARENT) });
    assert_eq!(second.failure, None);
    assert_eq!(decode(&first.state["deployd"]), json!({"runs": 1}));
    assert_eq!(decode(&second.state["deployd"]), json!({"runs": 2}));
    assert_eq!(item(&second)["runs"], json!(1));
}

const EXPORTING: &str = r#"
apiVersion: landscaper.gardener.cloud/v1alpha1
kind: Blueprint
imports:
- {name: password, schema: {type: string}}
exports:
- {name: url, schema: {type: string}}
- {name: login, schema: {type: object}}
- {name: cluster, type: target, targetType: kubernetes-cluster}
exportExecutions:
- name: first
  type: GoTemplate
  template: |
    exports:
      url: overwritten
      login: {user: alice, password: {{ .imports.password }}}
      surplus: 1
- name: second
  type: GoTemplate
  template: |
    {{- $target := index .targets "dev-cluster" }}
    exports:
      url: https://{{ .deployitems.server.host }}:{{ index .dataobjects "my-port" }}/{{ .values.deployitems.server.host }}
      login: {user: bob}
      cluster:
        type: {{ $target.spec.type }}
        configuration: {{ toJson $target.spec.config }}
        labels: {a: b}
        annotations: {c: d}
    state: {runs: {{ add1 (dig "runs" 0 .state) }}}
"#;

fn export_values_of_a_job() -> WireValues {
    let target = json!({
        "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Target", "metadata": {"name": "x"},
        "spec": {"type": "landscaper.gardener.cloud/kubernetes-cluster", "config": {"kubeconfig": "k"}},
    });
    WireValues {
        deploy_items: wire(&[("server", json!({"host": "example.org"})), ("other", json!(null))]),
        data_objects: wire(&[("my-port", json!(8443))]),
        targets: wire(&[("dev-cluster", target)]),
    }
}

fn exporting() -> RenderInput {
    let spec = "
imports: {data: [{name: password, dataRef: p}]}
exports:
  data: [{name: url, dataRef: shop-url}, {name: login, dataRef: shop-login}]
  targets: [{name: cluster, target: shop-cluster}]";
    RenderInput { given: wire(&[("password", json!("canary"))]), ..input(spec, EXPORTING) }
}

/// B-84 to B-88, B-90, B-93 to B-98, and the template values of B-82: values reach the templates,
/// later executions override members of earlier ones, and the Installation selects the published
/// exports.
#[test]
fn exports_are_rendered_and_published() {
    let answer = exported(exporting(), &export_values_of_a_job());
    assert_eq!(answer.failure, None);
    assert_eq!(decode(&answer.exports["url"]), json!("https://example.org:8443/example.org"));
    assert_eq!(decode(&answer.exports["login"]), json!({"user": "bob", "password": "canary"}));
    assert!(answer.exports.contains_key("cluster") && !answer.exports.contains_key("surplus"));
    assert!(
        answer
            .warnings
            .iter()
            .any(|warning| warning
                .contains("1 exports are dropped because the blueprint does not declare them")),
        "{:?}",
        answer.warnings
    );
    assert_eq!(decode(&answer.state["exportsecond"]), json!({"runs": 1}));

    let published: Vec<Value> = answer.published.iter().map(decode).collect();
    let names: Vec<String> = published
        .iter()
        .map(|object| {
            format!("{} {}", object["kind"].as_str().unwrap(), object["metadata"]["name"].as_str().unwrap())
        })
        .collect();
    assert_eq!(names, ["DataObject shop-login", "DataObject shop-url", "Target shop-cluster"]);
    assert_eq!(published[0]["data"], json!({"user": "bob", "password": "canary"}));
    let target = &published[2];
    assert_eq!(target["spec"]["type"], "landscaper.gardener.cloud/kubernetes-cluster");
    assert_eq!(target["spec"]["config"], json!({"kubeconfig": "k"}));
    assert_eq!(target["metadata"]["labels"]["a"], "b");
    assert_eq!(target["metadata"]["annotations"]["c"], "d");

    let again = exported(RenderInput { state: answer.state, ..exporting() }, &export_values_of_a_job());
    assert_eq!(decode(&again.state["exportsecond"]), json!({"runs": 2}));
}

/// B-91: an export without a value fails by its name, even if no mapping uses it. The failed call
/// publishes no export and shows no value.
#[test]
fn exports_that_fail_are_answers() {
    let blueprint =
        EXPORTING.replace("name: login, schema: {type: object}", "name: login, schema: {type: array}");
    // The Installation does not ask for the export that is not made, so that one does not fail.
    let blueprint =
        blueprint.replace("exports:\n- {name: url", "exports:\n- {name: lost, schema: {}}\n- {name: url");
    let input = RenderInput {
        blueprint: HashMap::from([("blueprint.yaml".to_owned(), blueprint.into_bytes())]),
        ..exporting()
    };
    let answer = exported(input, &export_values_of_a_job());
    let failure = answer.failure.unwrap();
    assert_eq!(failure.reason, "ConstructExports");
    assert!(!failure.message.contains("lost"), "{}", failure.message);
    assert!(failure.message.contains("internalExports.login"), "{}", failure.message);
    assert!(!failure.message.contains("canary"), "{}", failure.message);
    assert!(answer.exports.is_empty() && answer.published.is_empty());
}

/// B-92: names with dashes need `index`, and maps need `toYaml`. A path with a dash is not a valid
/// template, and the message gives the position.
#[test]
fn names_with_dashes_are_found_with_index() {
    let blueprint = |url: &str, config: &str| {
        format!(
            r#"
apiVersion: landscaper.gardener.cloud/v1alpha1
kind: Blueprint
exports:
- {{name: url, schema: {{type: string}}}}
- {{name: cluster, type: target, targetType: kubernetes-cluster}}
exportExecutions:
- name: e
  type: GoTemplate
  template: |
    exports:
      url: https://{{{{ {url} }}}}.example.com
      cluster:
        type: landscaper.gardener.cloud/kubernetes-cluster
        config:
          {{{{- {config} }}}}
"#
        )
    };
    let spec = "exports: {data: [{name: url, dataRef: u}], targets: [{name: cluster, target: c}]}";
    let mut values = export_values_of_a_job();
    values.data_objects = wire(&[("my-prefix", json!("my-pref"))]);

    let config = r#"toYaml (index .targets "dev-cluster").spec.config | nindent 10"#;
    let answer = exported(input(spec, &blueprint(r#"index .dataobjects "my-prefix""#, config)), &values);
    assert_eq!(answer.failure, None);
    assert_eq!(decode(&answer.published[0])["data"], "https://my-pref.example.com");
    assert_eq!(decode(&answer.published[1])["spec"]["config"], json!({"kubeconfig": "k"}));

    let answer = exported(input(spec, &blueprint(".dataobjects.my-prefix", config)), &values);
    let message = answer.failure.unwrap().message;
    assert!(message.contains("template: execution:2: bad character U+002D '-'"), "{message}");
}

/// A template may compute the name of an export from a value, so messages must not show the names
/// of dropped exports.
#[test]
fn what_is_dropped_shows_no_value() {
    let blueprint = "exports: [{name: url, schema: {}}]\n\
                     exportExecutions: [{name: e, type: GoTemplate, template: 'exports: {url: 1, {{ .values.deployitems.x }}: 2}'}]\n";
    let values = WireValues { deploy_items: wire(&[("x", json!("c4narybird"))]), ..WireValues::default() };
    let answer = exported(input("{}", blueprint), &values);
    assert_eq!(
        answer.warnings,
        ["1 exports are dropped because the blueprint does not declare them; it declares (url)"]
    );
}
