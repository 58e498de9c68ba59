use serde_json::json;

use super::*;
use crate::UnresolvedItem;
use crate::testing::{components, load, yaml};
use crate::{Capabilities, Components};
use groundwork_budget::TemplateLimits;

const DESCRIPTOR: &str = "
meta: {schemaVersion: v2}
component:
  name: example.org/root
  version: 1.0.0
  provider: me
  sources: []
  repositoryContexts: []
  componentReferences:
  - {name: child, componentName: example.org/child, version: 1.0.0}
  resources:
  - {name: image, version: 1.0.0, type: ociImage, relation: external, access: {type: ociRegistry, imageReference: 'h/a:1'}}
";
const CHILD: &str = "
meta: {schemaVersion: v2}
component:
  name: example.org/child
  version: 1.0.0
  provider: me
  sources: []
  repositoryContexts: []
  componentReferences: []
  resources: []
";

/// Returns a clock and randomness with fixed values.
fn fixed() -> Capabilities {
    Capabilities {
        clock: Some(Arc::new(|| std::time::SystemTime::UNIX_EPOCH)),
        randomness: Some(Arc::new(|buffer| {
            buffer.fill(7);
            Ok(())
        })),
        deadline: None,
        limits: TemplateLimits::default(),
        ..Capabilities::default()
    }
}

struct Run {
    result: Result<Value, String>,
    states: States,
    warnings: Vec<String>,
}

/// Runs one list of a blueprint. For a deploy list, returns names and configurations of the items.
fn run(kind: ExecutionKind, blueprint: &str, imports: &Value, states: &[(&str, &str)]) -> Run {
    let blueprint = load(blueprint, &[("part.yaml", "a: 1"), ("text.txt", "hello\n")]).unwrap();
    let components = components(&[DESCRIPTOR, CHILD], &[]);
    run_on(kind, &blueprint, &components, imports, states)
}

fn run_on(
    kind: ExecutionKind,
    blueprint: &Blueprint,
    components: &Components,
    imports: &Value,
    states: &[(&str, &str)],
) -> Run {
    run_with(kind, blueprint, components, imports, states, &fixed())
}

fn run_with(
    kind: ExecutionKind,
    blueprint: &Blueprint,
    components: &Components,
    imports: &Value,
    states: &[(&str, &str)],
    capabilities: &Capabilities,
) -> Run {
    let inputs = ExecutionInputs {
        blueprint,
        components,
        blueprint_definition: None,
        component_definition: None,
        capabilities,
        show_values: false,
    };
    let states = states.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned())).collect();
    let mut executions = Executions::new(inputs, states).unwrap();
    let imports = imports.as_object().unwrap();
    let result = match kind {
        ExecutionKind::Import => executions
            .import(imports)
            .map(|gathered| json!({"bindings": gathered.bindings, "errors": gathered.errors})),
        ExecutionKind::Deploy => executions.deploy(imports).map(|items| {
            let item = |item: UnresolvedItem| {
                let config = item.template.config.get().cloned().unwrap_or_default();
                json!([item.template.name, config])
            };
            items.into_iter().map(item).collect()
        }),
        ExecutionKind::Subinstallation => {
            executions.subinstallations(imports).map(|templates| json!(templates))
        }
        ExecutionKind::Export => {
            let values = ExportValues {
                deploy_items: json!({"web": {"url": "http://web"}, "job": null}),
                data_objects: json!({"region": "eu"}),
                targets: json!({"dev": {"spec": {"type": "t"}}}),
            };
            executions.exports(imports, &values).map(Value::Object)
        }
    };
    let Executions { states, warnings, .. } = executions;
    Run { result: result.map_err(|error| error.to_string()), states, warnings }
}

fn list(kind: ExecutionKind, executors: &str) -> String {
    format!("{}:\n{executors}", kind.list())
}

/// Issuer whose kubeconfigs tell their request.
struct Telling;

impl crate::KubeconfigIssuer for Telling {
    fn issue(&self, request: &crate::KubeconfigRequest) -> Result<crate::IssuedKubeconfig, String> {
        if request.name == "missing" {
            return Err("the service account default/missing does not exist".to_owned());
        }
        let kubeconfig = format!("canary {} {}", request.name, request.expiration_seconds).into_bytes();
        Ok(crate::IssuedKubeconfig { kubeconfig, expiration: 1000 })
    }
}

/// `blueprints.md` 5.5: both languages get the kubeconfigs of an issuer, which become a state.
#[test]
fn kubeconfigs_of_an_issuer() {
    let imports = json!({"cluster": {"metadata": {"name": "dev"}, "spec": {}}, "seconds": 600});
    let capabilities = fixed().with_issuer(Arc::new(Telling));
    let run = |executor: &str, states: &States| {
        let blueprint = load(&list(ExecutionKind::Export, executor), &[]).unwrap();
        assert_eq!(blueprint.state_keys(), ["kubeconfigs"]);
        let states: Vec<(&str, &str)> = states.iter().map(|(key, text)| (&**key, &**text)).collect();
        run_with(ExecutionKind::Export, &blueprint, &Components::default(), &imports, &states, &capabilities)
    };
    let go = "- name: a\n  type: GoTemplate\n  template: 'exports: {a: {{ getServiceAccountKubeconfig \"robot\" \"default\" .imports.seconds .imports.cluster }}}'\n";
    let spiff = "- name: a\n  type: Spiff\n  template: {exports: {a: '(( getServiceAccountKubeconfig(\"robot\", \"default\", imports.seconds, imports.cluster) ))'}}\n";
    let (first, second) = (run(go, &States::new()), run(spiff, &States::new()));
    let encoded = data_encoding::BASE64.encode(b"canary robot 600");
    assert_eq!(first.result.unwrap(), json!({"a": encoded}));
    assert_eq!(second.result.unwrap(), json!({"a": encoded}));
    assert_eq!(first.states, second.states);
    assert!(first.states["kubeconfigs"].contains(&encoded));
    let again = run(go, &first.states);
    assert_eq!((again.result.is_ok(), again.states), (true, first.states));
}

/// No message shows a kubeconfig, and the cause of a refusal is not withheld.
#[test]
fn kubeconfigs_are_not_in_messages() {
    let capabilities = fixed().with_issuer(Arc::new(Telling));
    let fail = |call: &str, account: &str| {
        let imports = json!({"cluster": {"metadata": {"name": "dev"}, "spec": {}}, "account": account});
        let executor = format!("- name: a\n  type: GoTemplate\n  template: '{{{{ {call} }}}}'\n");
        let blueprint = load(&list(ExecutionKind::Export, &executor), &[]).unwrap();
        let components = Components::default();
        run_with(ExecutionKind::Export, &blueprint, &components, &imports, &[], &capabilities)
            .result
            .unwrap_err()
    };
    let error =
        fail("fail (getServiceAccountKubeconfig \"robot\" \"default\" 600 .imports.cluster | b64dec)", "x");
    assert!(!error.contains("canary"), "{error}");
    let call = "getServiceAccountKubeconfig \"missing\" \"default\" 600 .imports.cluster";
    let error = fail(call, "x");
    assert!(error.contains("the service account default/missing does not exist"), "{error}");
    let first = "$one := getServiceAccountKubeconfig \"robot\" \"default\" 600 .imports.cluster";
    let error = fail(&format!("{first} }}}}{{{{ {call}"), "x");
    assert!(error.contains("the service account default/missing does not exist"), "{error}");
    // The name of an account may be a value.
    let error =
        fail("getServiceAccountKubeconfig .imports.account \"default\" 600 .imports.cluster", "missing");
    assert!(error.contains("the service account") && !error.contains("missing"), "{error}");
}

#[test]
fn removed_functions_have_a_hint() {
    let executor = "- {name: a, type: GoTemplate, template: 'a: {{ resolve .imports.x }}'}\n";
    let run = run(ExecutionKind::Deploy, &list(ExecutionKind::Deploy, executor), &json!({"x": {}}), &[]);
    let error = run.result.unwrap_err();
    assert!(
        error.contains(
            "function \"resolve\" not defined; Landscaper has removed resolve: call getResourceContent"
        ),
        "{error}"
    );
}

/// Case B-03, `blueprints.md` 6: structures and expressions become deploy items.
#[test]
fn spiff_deploys() {
    for (template, expected) in [
        (
            "{deployItems: [{name: (( imports.name )), type: t, config: {replicas: (( imports.n + 1 ))}}]}",
            json!([["web", {"replicas": 4}]]),
        ),
        // A template that results in a text is parsed as YAML again.
        (
            "|\n    deployItems:\n    - name: (( imports.name \"-1\" ))\n      type: t\n",
            json!([["web-1", null]]),
        ),
        ("{helper: 1, other: (( helper ))}", json!([])),
        ("{deployItems: (( ~~ ))}", json!([])),
        ("''", json!([])),
        ("{deployItems: [{name: 5, type: true}]}", json!([["5", null]])),
        (
            "{deployItems: [{name: a, type: t, config: {image: '(( getResource(cd, \"name\", \"image\").access.imageReference ))'}}]}",
            json!([["a", {"image": "h/a:1"}]]),
        ),
        (
            "{deployItems: [{name: a, type: t, config: {c: '(( getComponent(\"name\", \"child\").component.name ))'}}]}",
            json!([["a", {"c": "example.org/child"}]]),
        ),
        (
            "{deployItems: [{name: a, type: t, config: {o: '(( parseOCIRef(\"h/a:1\") ))', r: '(( ociRefRepo(\"h/a:1\") ))', v: '(( ociRefVersion(\"h/a:1\") ))'}}]}",
            json!([["a", {"o": ["h/a", "1"], "r": "h/a", "v": "1"}]]),
        ),
        (
            "{deployItems: [{name: a, type: t, config: {part: '(( read(\"part.yaml\").a ))', t: '(( read(\"/text.txt\") ))'}}]}",
            json!([["a", {"part": 1, "t": "hello\n"}]]),
        ),
        // Only whole scalars are expressions, and control structures are not supported
        // (`blueprints.md` 6.1).
        (
            "{deployItems: [{name: a, type: t, config: {s: 'x (( imports.n )) y', '<<if': true}}]}",
            json!([["a", {"s": "x (( imports.n )) y", "<<if": true}]]),
        ),
        ("{deployItems: [{name: a, type: t, config: ((! x ))}]}", json!([["a", "(( x ))"]])),
    ] {
        let blueprint =
            list(ExecutionKind::Deploy, &format!("- name: main\n  type: Spiff\n  template: {template}"));
        let run = run(ExecutionKind::Deploy, &blueprint, &json!({"name": "web", "n": 3}), &[]);
        assert_eq!(run.result, Ok(expected), "{template}");
    }
}

/// Errors TPL-006 and TPL-007 of Spiff (`blueprints.md` 6.2, 6.3, 6.6): reports and denied
/// functions, without imported values.
#[test]
fn spiff_fails() {
    for (template, expected) in [
        (
            "{a: (( imports.nope ))}",
            "unresolved nodes:\n\t(( imports.nope ))\tin template\ta\t()\t*'imports.nope' not found\n\
             template input:\n",
        ),
        (
            "5",
            "error while decoding templated execution: the output of the template is not a YAML map (execution \
             \"main\")",
        ),
        (
            "(( imports.name ))",
            "error while decoding templated execution: the output of the template is not a YAML map",
        ),
        ("\"a: 1\\n---\\nb: 2\"", "multi document not possible\ntemplate input:\n"),
        (
            "{deployItems: {}}",
            "error while decoding templated execution: deployItems: a list is expected, found a map (execution \"main\")",
        ),
    ] {
        let blueprint =
            list(ExecutionKind::Deploy, &format!("- name: main\n  type: Spiff\n  template: {template}"));
        let run = run(ExecutionKind::Deploy, &blueprint, &json!({"name": "web"}), &[]);
        let error = run.result.unwrap_err();
        assert!(error.starts_with(expected), "{template}: {error}");
    }
    for (expression, expected) in [
        ("getResource(\"name\")", "at least 2 arguments are expected"),
        ("getResource(cd, \"name\", 5)", "expect argument 1 to be a string"),
        ("getResource(cd, \"name\", \"nope\")", "NotFound"),
        ("getResourceKey()", "this function requires 1 argument, but 0 were provided"),
        (
            "getResourceKey([])",
            "failed to unmarshal argument into a relative resource reference: a map is expected",
        ),
        ("getResourceKey({\"resource\" = {\"name\" = \"nope\"}})", "resource reference: not found"),
        ("parseOCIRef(5)", "Invalid argument: string expected"),
        ("parseOCIRef(\"a\", \"b\")", "Too many arguments for parseOCIReference. Expected 1 reference."),
        (
            "getOidcKubeconfig(1, 2, 3)",
            "getOidcKubeconfig expects 3 arguments: issuer url, client id, and target",
        ),
        ("env(\"HOME\")", "no OS operations supported"),
        ("exec(\"id\")", "no OS operations supported"),
        ("write(\"x\", \"y\")", "no OS operations supported"),
        ("error(imports.secret)", "[...]"),
    ] {
        let blueprint = list(
            ExecutionKind::Deploy,
            &format!("- name: main\n  type: Spiff\n  template: {{a: '(( {expression} ))'}}"),
        );
        let run = run(ExecutionKind::Deploy, &blueprint, &json!({"secret": "hunter2"}), &[]);
        let error = run.result.unwrap_err();
        assert!(error.contains(expected) && !error.contains("hunter2"), "{expression}: {error}");
    }
}

/// Cases I-04, B-62, `blueprints.md` 4.6: state is generated once and stays stable, in both
/// languages.
#[test]
fn state_is_kept() {
    let go = "- name: pw\n  type: GoTemplate\n  template: |\n    state:\n      pw: {{ dig \"pw\" (randAlphaNum 16) .state }}\n    \
              deployItems: [{name: a, type: t, config: {{ dig \"pw\" \"new\" .state }}}]\n";
    let blueprint = list(ExecutionKind::Deploy, go);
    let first = run(ExecutionKind::Deploy, &blueprint, &json!({}), &[]);
    assert_eq!(first.result, Ok(json!([["a", "new"]])));
    let stored = &first.states["deploypw"];
    let password = yaml(stored)["pw"].as_str().unwrap().to_owned();
    assert_eq!(password.len(), 16);
    let second = run(ExecutionKind::Deploy, &blueprint, &json!({}), &[("deploypw", stored)]);
    assert_eq!(second.result, Ok(json!([["a", password]])));
    assert_eq!(second.states["deploypw"], *stored);

    let spiff = "- name: pw\n  type: Spiff\n  template:\n    state:\n      <<<: (( &state ))\n      pw: (( rand(\"[:alnum:]\", 16) ))\n    \
                 deployItems: [{name: a, type: t, config: (( .state.pw ))}]\n";
    let blueprint = list(ExecutionKind::Deploy, spiff);
    let first = run(ExecutionKind::Deploy, &blueprint, &json!({}), &[]);
    let stored = &first.states["deploypw"];
    let password = yaml(stored)["state"]["pw"].as_str().unwrap().to_owned();
    assert_eq!(first.result, Ok(json!([["a", password]])));
    let given = [("deploypw", "state: {pw: kept}\n")];
    let second = run(ExecutionKind::Deploy, &blueprint, &json!({}), &given);
    assert_eq!(second.result, Ok(json!([["a", "kept"]])));
    assert_eq!(yaml(&second.states["deploypw"]), json!({"state": {"pw": "kept"}}));
}

/// `blueprints.md` 4.6, acceptance item 7: content, time and key of stored state.
#[test]
fn what_is_stored() {
    let executors = |type_name: &str, templates: &[&str]| {
        let entry = |template: &&str| format!("- name: x\n  type: {type_name}\n  template: {template}\n");
        templates.iter().map(entry).collect::<String>()
    };
    let stored = |kind, type_name: &str, template: &str, given: &[(&str, &str)]| {
        let run = run(kind, &list(kind, &executors(type_name, &[template])), &json!({}), given);
        let states: Map<String, Value> =
            run.states.iter().map(|(key, text)| (key.clone(), yaml(text))).collect();
        Value::Object(states)
    };
    let old = [("deployx", "a: 1\n")];
    let deploy = ExecutionKind::Deploy;
    for (type_name, template, given, expected) in [
        ("GoTemplate", "'state: {b: 2}'", &old[..], json!({"deployx": {"b": 2}})),
        ("GoTemplate", "'State: 5'", &old, json!({"deployx": 5})),
        ("GoTemplate", "'state: null'", &old, json!({"deployx": null})),
        ("GoTemplate", "'deployItems: []'", &old, json!({"deployx": {"a": 1}})),
        // A later failure does not revert stored state.
        ("GoTemplate", "\"state: {b: 2}\\ndeployItems: 5\"", &old, json!({"deployx": {"b": 2}})),
        ("Spiff", "{a: (( &state(2) )), b: {c: (( &state(3) ))}}", &[], json!({"deployx": {"a": 2}})),
        ("Spiff", "{a: (( &state &temporary(2) ))}", &[], json!({})),
        ("Spiff", "{a: 1}", &[], json!({})),
        ("Spiff", "{a: 1}", &old, json!({"deployx": {}})),
        ("Spiff", "{a: (( &state(2) )), deployItems: 5}", &old, json!({"deployx": {"a": 1}})),
        ("Spiff", "{b: (( nope ))}", &old, json!({"deployx": {"a": 1}})),
    ] {
        assert_eq!(stored(deploy, type_name, template, given), expected, "{type_name} {template}");
    }
    for (kind, expected) in [
        (ExecutionKind::Deploy, json!({"deployx": 1})),
        (ExecutionKind::Subinstallation, json!({"subinstx": 1})),
        (ExecutionKind::Export, json!({"exportx": 1})),
        (ExecutionKind::Import, json!({})),
    ] {
        assert_eq!(stored(kind, "GoTemplate", "'state: 1'", &[]), expected, "{kind:?}");
    }
    let broken =
        run(deploy, &list(deploy, &executors("GoTemplate", &["''"])), &json!({}), &[("deployx", "a: [")]);
    assert!(broken.result.unwrap_err().starts_with("unable to load state: "));
    let broken = run(deploy, &list(deploy, &executors("Spiff", &["{}"])), &json!({}), &[("deployx", "a: [")]);
    assert!(broken.result.unwrap_err().starts_with("unable to load state: "));
    let nameless = "- {type: GoTemplate, template: 'state: 1'}\n- {type: GoTemplate, template: ''}\n";
    assert_eq!(
        run(deploy, &list(deploy, nameless), &json!({}), &[]).result.unwrap_err(),
        "unable to store state: deployExecutions[0]: Duplicate value: \"duplicated executor name\": several executions have no \
         name, so that they would share their state; give them names"
    );
}

/// Cases B-83 to B-90: exports (`blueprints.md` 4.2, 8.2).
#[test]
fn exports() {
    let executor = |type_name: &str, template: &str| {
        format!("- name: e{}\n  type: {type_name}\n  template: {template}\n", template.len())
    };
    let run = |executors: &str| {
        run(ExecutionKind::Export, &list(ExecutionKind::Export, executors), &json!({"n": 1}), &[])
    };
    for (executors, expected) in [
        // Example from Landscaper's published documentation, with the document that it renders.
        (
            "- name: kubernetes\n  type: GoTemplate\n  template: |\n    exports:\n      myexport: {{ .deployitems.web.url }}\n".to_owned(),
            json!({"myexport": "http://web"}),
        ),
        (
            executor("GoTemplate", "'exports: {url: {{ .deployitems.web.url }}, m: {{ .imports.n }}}'"),
            json!({"url": "http://web", "m": 1}),
        ),
        (
            executor(
                "GoTemplate",
                "'exports: {r: {{ .dataobjects.region }}, t: {{ .targets.dev.spec.type }}}'",
            ),
            json!({"r": "eu", "t": "t"}),
        ),
        (
            executor(
                "GoTemplate",
                "'exports: {r: {{ .values.dataobjects.region }}, j: {{ toJson .values.deployitems.job }}}'",
            ),
            json!({"r": "eu", "j": null}),
        ),
        (
            executor(
                "Spiff",
                "{exports: {url: (( deployitems.web.url )), r: (( values.dataobjects.region ))}}",
            ),
            json!({"url": "http://web", "r": "eu"}),
        ),
        // Maps are merged. Any other value is replaced by the later one.
        (
            executor("GoTemplate", "'exports: {a: {x: 1, l: [1, 2]}, b: 1, c: {z: 1}}'")
                + &executor("Spiff", "{exports: {a: {l: [3]}, b: {w: 1}, c: 2}}"),
            json!({"a": {"x": 1, "l": [3]}, "b": {"w": 1}, "c": 2}),
        ),
        (executor("GoTemplate", "'Exports: null'"), json!({})),
    ] {
        assert_eq!(run(&executors).result, Ok(expected), "{executors}");
    }
    assert!(
        run(&executor("GoTemplate", "'exports: [1]'"))
            .result
            .unwrap_err()
            .contains("exports: a map is expected")
    );
    assert_eq!(
        run(&executor("GoTemplate", "'export: {a: 1}'")).warnings,
        ["export execution \"e16\": the output has no key exports"]
    );
}

/// `blueprints.md` 5.1 step 6, error TPL-007: for exports that cannot be decoded, the message
/// contains only the problem, in both languages.
#[test]
fn undecodable_exports() {
    let failed = |type_name: &str, template: &str| {
        let executor = format!("- {{name: main, type: {type_name}, template: {template}}}\n");
        let executors = list(ExecutionKind::Export, &executor);
        run(ExecutionKind::Export, &executors, &json!({}), &[]).result.unwrap_err()
    };
    for (type_name, template, expected) in [
        ("GoTemplate", "text", "the output of the template is not a YAML map (execution \"main\")"),
        ("GoTemplate", "'exports: 5'", "exports: a map is expected (execution \"main\")"),
        ("Spiff", "5", "the output of the template is not a YAML map (execution \"main\")"),
        ("Spiff", "{exports: [1]}", "exports: a map is expected (execution \"main\")"),
    ] {
        assert_eq!(failed(type_name, template), expected, "{template}");
    }
}

/// Case B-111: `blueprints.md` 9.1.
#[test]
fn subinstallations() {
    let run = |templates: &str| {
        let executors =
            format!("- name: main\n  type: Spiff\n  template: {{subinstallations: {templates}}}\n");
        run(
            ExecutionKind::Subinstallation,
            &list(ExecutionKind::Subinstallation, &executors),
            &json!({"names": ["a", "b"]}),
            &[],
        )
        .result
    };
    assert_eq!(
        run(
            "[{name: '(( ___.imports.names[1] ))', blueprint: {ref: 'cd://resources/x'}, imports: {data: [{name: i, dataRef: p}]}}]"
        ),
        Ok(
            json!([{"name": "b", "blueprint": {"ref": "cd://resources/x"}, "imports": {"data": [{"name": "i", "dataRef": "p"}]}}])
        )
    );
    assert_eq!(run("~"), Ok(json!([])));
    assert_eq!(run("[~]"), Ok(json!([{}])));
    for templates in ["[{name: 5}]", "[{kind: Installation}]", "[5]", "{}"] {
        let error = run(templates).unwrap_err();
        assert!(error.starts_with("error while decoding templated execution: "), "{templates}: {error}");
    }
}

/// Changes that one execution makes to its data are invisible to the next one, and parsed templates
/// are reused.
#[test]
fn executions_are_apart() {
    let template = "\"{{ $_ := set .imports \\\"x\\\" 1 }}deployItems: [{name: a, type: t, config: {{ .imports | toJson }}}]\"";
    let executor = |name: &str| format!("- {{name: {name}, type: GoTemplate, template: {template}}}\n");
    let blueprint = load(&list(ExecutionKind::Deploy, &(executor("a") + &executor("b"))), &[]).unwrap();
    for _ in 0..3 {
        let run = run_on(ExecutionKind::Deploy, &blueprint, &Components::default(), &json!({"n": 1}), &[]);
        assert_eq!(run.result, Ok(json!([["a", {"n": 1, "x": 1}], ["a", {"n": 1, "x": 1}]])));
    }
}

/// `blueprints.md` 5.4: templates may use clock, randomness and keys, but may not look up addresses
/// of hosts.
#[test]
fn granted_functions() {
    for (template, expected) in [
        ("{{ now | unixEpoch }}", json!(0)),
        ("{{ randAlphaNum 4 | len }}", json!(4)),
        ("{{ (genCA \"ca\" 1).Cert | contains \"BEGIN CERTIFICATE\" }}", json!(true)),
        ("{{ bcrypt \"pw\" | hasPrefix \"$2a$10$\" }}", json!(true)),
    ] {
        let text = format!("deployItems: [{{name: a, type: t, config: {template}}}]");
        let executor = json!([{"name": "m", "type": "GoTemplate", "template": text}]).to_string();
        let run = run(
            ExecutionKind::Deploy,
            &list(ExecutionKind::Deploy, &format!("  {executor}")),
            &json!({}),
            &[],
        );
        assert_eq!(run.result, Ok(json!([["a", expected]])), "{template}");
    }
    let executor = "- {name: m, type: GoTemplate, template: '{{ getHostByName \"x\" }}'}";
    let error = run(ExecutionKind::Deploy, &list(ExecutionKind::Deploy, executor), &json!({}), &[]).result;
    assert!(error.unwrap_err().contains("getHostByName is not available"));
}

/// Cases B-03, B-44, B-52: each of the four lists sees the imports, in both languages, and returns
/// its own result.
#[test]
fn each_list_sees_the_imports() {
    for (kind, result, element, expected) in [
        (
            ExecutionKind::Import,
            "bindings",
            "{made: VALUE}",
            json!({"bindings": {"made": "web"}, "errors": []}),
        ),
        (ExecutionKind::Deploy, "deployItems", "[{name: VALUE, type: t}]", json!([["web", null]])),
        (
            ExecutionKind::Subinstallation,
            "subinstallations",
            "[{name: VALUE, blueprint: {ref: x}}]",
            json!([{"name": "web", "blueprint": {"ref": "x"}}]),
        ),
        (ExecutionKind::Export, "exports", "{made: VALUE}", json!({"made": "web"})),
    ] {
        let go = format!("'{result}: {}'", element.replace("VALUE", "{{ .imports.name }}"));
        let spiff = format!("{{{result}: {}}}", element.replace("VALUE", "(( imports.name ))"));
        for (type_name, template) in [("GoTemplate", go), ("Spiff", spiff)] {
            let executors = format!("- {{name: main, type: {type_name}, template: {template}}}");
            let run = run(kind, &list(kind, &executors), &json!({"name": "web"}), &[]);
            assert_eq!(run.result, Ok(expected.clone()), "{kind:?} {type_name}");
        }
    }
}

/// An error about a limit names the execution that reached it, and the line.
#[test]
fn limits_name_their_execution_and_line() {
    let go = |count: u32| format!("|\n    deployItems: []\n    # {{{{ range {count} }}}}{{{{ end }}}}\n");
    let spiff =
        |count: u32| format!("|\n    deployItems: []\n    a: (( sum[[1..{count}]|0|n,x|->n + x] ))\n");
    let blueprint = |executors: [(&str, String); 2]| {
        let [first, second] = ["a", "b"];
        let [(one, template), (other, second_template)] = executors;
        list(
            ExecutionKind::Deploy,
            &format!(
                "- name: {first}\n  type: {one}\n  template: {template}- name: {second}\n  type: {other}\n  template: {second_template}"
            ),
        )
    };
    let mut capabilities = fixed();
    capabilities.limits = TemplateLimits { template_work: 1, ..TemplateLimits::default() };
    for (executors, words) in [
        (
            [("GoTemplate", go(10)), ("GoTemplate", go(6_000_000))],
            r#"template: execution:2:21: executing "execution" at <>: template execution exceeds the limit of 1000000 steps (execution "b")"#,
        ),
        (
            [("GoTemplate", go(10)), ("Spiff", spiff(1_000_000))],
            r#"the evaluation takes more than 1000000 steps; a template must not work without end (execution "b", line 2)"#,
        ),
        // Each execution alone is within the shared limit.
        ([("Spiff", spiff(44_000)), ("Spiff", spiff(44_000))], "(execution \"b\", line 2)"),
        ([("Spiff", spiff(60_000)), ("GoTemplate", go(800_000))], "(execution \"b\")"),
    ] {
        let text = blueprint(executors);
        let loaded = load(&text, &[]).unwrap();
        let run = run_with(
            ExecutionKind::Deploy,
            &loaded,
            &components(&[DESCRIPTOR, CHILD], &[]),
            &json!({}),
            &[],
            &capabilities,
        );
        let error = run.result.expect_err(&text);
        assert!(error.contains(words), "{text}\n{error}");
    }
}
