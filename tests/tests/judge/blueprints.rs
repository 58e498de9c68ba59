//! `groundwork-judge template blueprint`: executions of many blueprints, one per line.

use groundwork_testkit::made_up::{Random, cases};
use serde_json::{Value, json};

use super::{answers_to, judge};

const BLUEPRINT: [&str; 2] = ["template", "blueprint"];

fn answers(lines: &[Value]) -> Vec<Value> {
    answers_to(&BLUEPRINT, lines)
}

fn answer(line: Value) -> Value {
    answers(&[line]).remove(0)
}

/// Returns a blueprint with one execution in a list.
fn blueprint(list: &str, type_name: &str, template: &Value) -> String {
    json!({list: [{"name": "main", "type": type_name, "template": template}]}).to_string()
}

/// Each kind accepts its own members.
#[test]
fn kinds() {
    let deploy = json!({"deployItems": [{
        "name": "(( imports.name ))", "type": "t", "timeout": "90s", "dependsOn": ["b"], "config": {"n": 5}, "target": {"import": "c"},
    }]});
    assert_eq!(
        answer(
            json!({"name": "a", "blueprint": blueprint("deployExecutions", "Spiff", &deploy), "imports": {"name": "web"}})
        ),
        json!({"name": "a", "output": {"state": {}, "deployItems": [{
            "name": "web", "type": "t", "timeoutSeconds": 90, "dependsOn": ["b"], "config": {"n": 5}, "target": {"import": "c"},
        }]}})
    );
    let import = json!("bindings: {b: {{ .imports.a }}}\nerrors: [one]");
    assert_eq!(
        answer(
            json!({"kind": "import", "blueprint": blueprint("importExecutions", "GoTemplate", &import), "imports": {"a": 1}})
        ),
        json!({"name": null, "output": {"state": {}, "bindings": {"b": 1}, "errors": ["one"], "text": ["bindings: {b: 1}\nerrors: [one]"]}})
    );
    let export = json!({"exports": {"a": "(( deployitems.x.url ))", "b": "(( values.dataobjects.d ))"}});
    assert_eq!(
        answer(json!({
            "kind": "export", "blueprint": blueprint("exportExecutions", "Spiff", &export),
            "exportValues": {"deployitems": {"x": {"url": "u"}}, "dataobjects": {"d": 1}},
        })),
        json!({"name": null, "output": {"state": {}, "exports": {"a": "u", "b": 1}}})
    );
    let children = json!(
        "subinstallations: [{name: a, other: 1, blueprint: {ref: x}, imports: {data: [], targets: [{name: t, targets: []}, {name: m, targetMaps: {a: b}}]}}, null]"
    );
    let answer = answer(
        json!({"kind": "subinst", "blueprint": blueprint("subinstallationExecutions", "GoTemplate", &children)}),
    );
    assert_eq!(
        answer["output"]["subinstallations"],
        json!([{"name": "a", "blueprint": {"ref": "x"}, "imports": {"targets": [{"name": "t", "targets": []}, {"name": "m", "targetMap": {"a": "b"}}]}}, {}])
    );
}

/// Findings are the answer of `validate`, and an error for every other kind.
#[test]
fn validation() {
    let broken = "imports: [{name: a}]\ndeployExecutions: [{type: GoTemplate}]";
    let finding = "imports[0][a]: Required value: either schema or targetType must not be empty";
    assert_eq!(
        answer(json!({"kind": "validate", "blueprint": broken})),
        json!({"name": null, "output": {"validation": [finding], "warnings": ["deployExecutions[0].name: name must be defined"]}})
    );
    assert_eq!(
        answer(json!({"blueprint": broken})),
        json!({"name": null, "error": {"stage": "validate", "message": finding}})
    );
    assert_eq!(answer(json!({"blueprint": "a: ["}))["error"]["stage"], "decode");
    assert_eq!(answer(json!({"name": "x", "blueprint": 5}))["name"], "x");
    assert_eq!(answer(json!({"blueprint": "", "kind": "nope"}))["error"]["stage"], "input");
    assert_eq!(answer(json!({"blueprint": "", "components": [{"a": 1}]}))["error"]["stage"], "component");
}

/// Each run sees the state that the run before it has stored, even if that run failed.
#[test]
fn state_goes_on() {
    let template = json!(
        "state: {runs: {{ add1 (dig \"runs\" 0 .state) }}}\n{{ if .imports.fail }}deployItems: 5{{ end }}"
    );
    let answer = answer(json!({
        "blueprint": blueprint("deployExecutions", "GoTemplate", &template), "imports": {"fail": false},
        "state": {"deploymain": "runs: 4", "other": "a: ["}, "then": [{"imports": {"fail": true}}, {}],
    }));
    assert_eq!(answer["output"]["state"], json!({"deploymain": {"runs": 5}, "other": {"notYaml": "a: ["}}));
    assert_eq!(answer["then"][0]["state"]["deploymain"], json!({"runs": 6}));
    assert_eq!(answer["then"][1]["output"]["state"]["deploymain"], json!({"runs": 7}));
}

/// Messages do not contain values, unless the line asks for them with `showValues`.
#[test]
fn values_in_messages() {
    for (type_name, template) in [
        ("GoTemplate", json!("{{ fail .imports.secret }}")),
        ("Spiff", json!({"a": "(( error(imports.secret) ))"})),
    ] {
        let line = |show: bool| {
            json!({
                "blueprint": blueprint("deployExecutions", type_name, &template), "imports": {"secret": "hunter22"}, "showValues": show,
            })
        };
        let message = |show: bool| answer(line(show))["error"]["message"].as_str().unwrap().to_owned();
        assert!(!message(false).contains("hunter22") && message(true).contains("hunter22"), "{type_name}");
        assert_eq!(answer(line(true))["error"]["input"]["imports"], "{\"secret\":\"[...] (string)\"}");
    }
}

/// Messages of the author's own checks are part of the output, so they stay as they are.
#[test]
fn complaints_are_answers() {
    let checks = json!("errors: ['{{ .imports.host }} is too long']");
    let line = json!({
        "kind": "import", "blueprint": blueprint("importExecutions", "GoTemplate", &checks), "imports": {"host": "www.example.org"},
    });
    assert_eq!(answer(line)["output"]["errors"], json!(["www.example.org is too long"]));
}

/// Errors contain the engine's message, without the name of the execution.
#[test]
fn words_of_errors() {
    let message = |blueprint: Value| {
        let answer = answer(json!({"blueprint": blueprint.to_string()}));
        answer["error"]["message"].as_str().unwrap().to_owned()
    };
    let deploy = |executor: Value| message(json!({"deployExecutions": [executor]}));
    assert_eq!(deploy(json!({"name": "a", "type": "Spiff"})), "no template found");
    assert_eq!(deploy(json!({"name": "a", "type": "GoTemplate", "file": "nope"})), "file does not exist");
    assert_eq!(
        deploy(json!({"name": "a", "type": "GoTemplate", "template": "5"})),
        "error while decoding templated execution: the output of the template is not a YAML map"
    );
    let exports = json!({"kind": "export", "blueprint": blueprint("exportExecutions", "GoTemplate", &json!("exports: 5"))});
    assert_eq!(answer(exports)["error"]["message"], "exports: a map is expected");
}

/// A null member counts as missing, in every map of the line.
#[test]
fn nulls_are_left_out() {
    let template = json!("deployItems: []\nstate: {{ .imports | toJson }}");
    let answer = answer(json!({
        "kind": null, "blueprint": blueprint("deployExecutions", "GoTemplate", &template), "files": {"a": null}, "blobs": {"a": null},
        "state": {"a": null}, "imports": {"a": null}, "targets": {"single": {"a": null}, "maps": null}, "then": [null],
    }));
    assert_eq!(answer["output"]["resolved"], json!([]), "{answer}");
    assert_eq!(answer["output"]["state"], json!({"deploymain": {"a": null}}));
    assert_eq!(answer["then"][0]["output"]["state"], json!({"deploymain": {"a": null}}));
}

/// Targets, components, blobs and the definitions of an Installation are available to the
/// templates.
#[test]
fn surroundings() {
    let template = json!(
        "deployItems:\n- {name: a, type: t, target: {import: c}, config: {content: {{ getResourceContent `cd://resources/data` | toJson }}, \
         of: {{ .componentDescriptorDef | toJson }}, alias: {{ .blueprint | toJson }}}}\n- {name: b, type: t, target: {name: own}}"
    );
    let mut blueprint: Value =
        serde_json::from_str(&blueprint("deployExecutions", "GoTemplate", &template)).unwrap();
    blueprint["imports"] = json!([{"name": "c", "targetType": "t"}]);
    let answer = answer(json!({
        "blueprint": blueprint.to_string(),
        "components": [{"meta": {"schemaVersion": "v2"}, "component": {
            "name": "example.org/a", "version": "1.0.0", "provider": "p", "repositoryContexts": [], "sources": [],
            "componentReferences": [], "resources": [{
                "name": "data", "version": "1.0.0", "type": "t", "relation": "local",
                "access": {"type": "localFilesystemBlob", "filename": "f"},
            }],
        }}],
        "blobs": {"f": "text"},
        "installation": {"name": "i", "namespace": "team", "blueprint": {"ref": {"resourceName": "bp"}}},
        "context": {"componentName": "example.org/a", "version": "1.0.0"},
        "targets": {"single": {"c": {"name": "cluster", "namespace": "infra"}, "unknown": {"name": "x", "namespace": "y"}}},
    }));
    let output = &answer["output"];
    assert_eq!(
        output["deployItems"][0]["config"],
        json!({
            "content": "text", "of": {"ref": {"componentName": "example.org/a", "version": "1.0.0"}},
            "alias": {"ref": {"resourceName": "bp"}},
        })
    );
    assert_eq!(
        output["resolved"],
        json!([
            {"name": "a", "type": "t", "target": {"name": "cluster", "namespace": "infra"}},
            {"name": "b", "type": "t", "target": {"name": "own", "namespace": "team"}},
        ])
    );
}

/// Environment variable with the number of generated lines, for longer runs.
const CASES_VARIABLE: &str = "GROUNDWORK_MADE_UP_LINES";
const CASES: usize = 2_000;

/// Every line gets an answer, however malformed it is, and the line after it gets one too.
#[test]
fn made_up_lines_are_answered() {
    const SEEDS: [&str; 9] = [
        r#"{"name":"a","blueprint":"deployExecutions: [{name: a, type: Spiff, template: {deployItems: [{name: (( imports.x )), type: t}]}}]","imports":{"x":1}}"#,
        r#"{"kind":"deploy","blueprint":"deployExecutions: [{name: a, type: GoTemplate, template: 'deployItems: [{name: {{ .imports.x | quote }}, type: t}]'}]","imports":{"x":[1,{"a":null}]},"targets":{}}"#,
        r#"{"kind":"import","blueprint":"importExecutions: [{name: a, type: Spiff, file: f}]","files":{"f":"bindings:\n  <<<: (( merge ))\n  l: (( map[imports.l|x|->x * 2] ))\nerrors: [(( ~~ ))]"},"imports":{"l":[1,2]}}"#,
        r#"{"kind":"export","blueprint":"exportExecutions: [{name: a, type: GoTemplate, template: '{{ range $k, $v := .deployitems }}{{ $k }}: {{ toYaml $v }}{{ end }}'}]","exportValues":{"deployitems":{"a":{"b":1}}},"then":[{},{"exportValues":{}}]}"#,
        r#"{"kind":"subinst","blueprint":"subinstallationExecutions: [{name: a, type: Spiff, template: {subinstallations: [{name: a, blueprint: {ref: 'cd://resources/x'}}]}}]","state":{"subinsta":"x: 1"}}"#,
        r#"{"kind":"validate","blueprint":"imports: [{name: a, required: false, schema: {$ref: 'local://x'}, imports: [{name: b, targetType: c}]}]\nlocalTypes: {x: {type: [string, 'null'], pattern: '^(a+)+$'}}"}"#,
        r#"{"blueprint":"deployExecutions: [{name: a, type: GoTemplate, template: '{{ include `f` . }}'}]","files":{"f":"{{ define `x` }}{{ template `x` . }}{{ end }}{{ printf `%0999d` 1 }}","g/h":"\u0000"}}"#,
        r#"{"blueprint":"deployExecutions: [{name: a, type: Spiff, template: {f: (( |x|->_(x) )), y: (( .f(1) )), state: (( &state(rand('[:alnum:]', 3)) ))}}]"}"#,
        r#"{"blueprint":"deployExecutions: [{name: a, type: GoTemplate, template: '{{ (getResource .cd `name` `r`).access }}{{ getResourceKey `cd://resources/r` }}'}]","components":[{"meta":{"schemaVersion":"v2"},"component":{"name":"a.b/c","version":"1.0.0","provider":"p","repositoryContexts":[],"sources":[],"componentReferences":[],"resources":[]}}]}"#,
    ];
    const PIECES: [&str; 24] = [
        "(( ",
        " ))",
        "{{ ",
        " }}",
        "&state",
        "\\n",
        "\\u0000",
        "99999999999999999999",
        "-",
        ": ",
        "[",
        "]",
        "{",
        "}",
        "\\\"",
        "name",
        "null",
        "*a",
        "&a ",
        "<<: ",
        "!!binary ",
        "\\t",
        "\u{fffe}",
        ".nan",
    ];
    let cases = cases(CASES_VARIABLE, CASES);
    let mut random = Random::new(7);
    let mut made = 0;
    while made < cases {
        let count = 10_000.min(cases - made);
        let lines: Vec<String> = (0..count)
            .map(|_| {
                let mut line: Vec<char> = SEEDS[random.below(SEEDS.len())].chars().collect();
                for _ in 0..=random.below(4) {
                    let at = random.below(line.len());
                    match random.below(4) {
                        0 => drop(line.remove(at)),
                        1 => line.truncate(at.max(1)),
                        2 => drop(line.splice(at..at, PIECES[random.below(PIECES.len())].chars())),
                        _ => {
                            let end = (at + random.below(12)).min(line.len());
                            let copy: Vec<char> = line[at..end].to_vec();
                            let to = random.below(line.len());
                            drop(line.splice(to..to, copy));
                        }
                    }
                    if line.is_empty() {
                        line.push('{');
                    }
                }
                line.into_iter().filter(|c| *c != '\n').collect()
            })
            .collect();
        assert_eq!(judge(&BLUEPRINT, &(lines.join("\n") + "\n")).len(), lines.len());
        made += count;
    }
}
