//! Fuzz test: a generated blueprint is loaded, checked and rendered, or rejected, without a panic.

use groundwork_testkit::made_up::{Random, cases};

use crate::testing::{components, load, render_with, supplied};
use crate::{Blueprint, Filesystem};

/// Variable with the number of generated blueprints. `cargo xtask fuzz` sets it higher.
const CASES_VARIABLE: &str = "GROUNDWORK_MADE_UP_BLUEPRINTS";
const CASES: usize = 500;

/// Value that must not appear in any message.
const SECRET: &str = "c4narybird";

const BLUEPRINTS: [&str; 5] = [
    "imports:
- {name: a, type: data, schema: {type: string, pattern: '^(a|c)+'}}
- {name: b, required: false, schema: {$ref: 'local://t'}, default: {value: 1}, imports: [{name: cluster, targetType: t}]}
localTypes: {t: {type: [integer, 'null'], minimum: 0}}
importExecutions:
- {name: i, type: Spiff, template: {bindings: {d: (( imports.a \"x\" ))}, errors: [(( imports.b > 5 ? imports.a :~~ ))]}}
deployExecutions:
- {name: d, type: GoTemplate, file: deploy.tmpl}
",
    "imports: [{name: a, schema: {$ref: 'blueprint://s.json#/definitions/x'}}]
deployExecutions:
- name: s
  type: Spiff
  template:
    deployItems: (( map[[1..3]|i|->*t] ))
    t: {<<<: (( &template )), name: (( 'x' i )), type: t, config: (( imports ))}
    kept: (( &state(rand('[:alnum:]', 4)) ))
",
    "imports: [{name: a, required: false, schema: {}}, {name: m, type: targetMap, targetType: t, required: false}]
subinstallations:
- {file: child.yaml}
- {name: two, blueprint: {ref: 'cd://resources/x'}, imports: {data: [{name: z, dataRef: out}, {name: y, dataRef: a}], targets: [{name: t, target: 'm[k]'}]}}
subinstallationExecutions:
- {name: g, type: GoTemplate, template: \"subinstallations: [{name: '{{ .imports.a | default `q` }}', blueprint: {filesystem: {}}}]\"}
exports: [{name: o, schema: {type: string}}]
",
    "deployExecutions:
- name: x
  type: GoTemplate
  template: |
    {{- $r := dict }}{{ range $i, $k := list 1 2 3 }}{{ $_ := set $r (toString $k) $.imports }}{{ end }}
    deployItems:
    {{- range $k, $v := .imports }}
    - {name: {{ $k }}, type: t, dependsOn: [{{ $k }}], timeout: 5m, labels: {a: {{ $v | quote }}}, target: {import: cluster}}
    {{- end }}
    state: {{ toJson $r }}
",
    "importExecutions: [{name: e, type: GoTemplate, template: '{{ include `deploy.tmpl` . | fromYaml | toYaml }}errors: [{{ .imports.a | upper | quote }}]'}]
exportExecutions: [{type: Spiff, file: child.yaml}]
",
];

const FILES: [(&str, &str); 3] = [
    (
        "deploy.tmpl",
        "deployItems: [{name: n, type: t, target: {import: cluster}, config: {{ .imports | toJson }}}]",
    ),
    ("child.yaml", "name: one\nblueprint: {filesystem: {}}\nexports: {data: [{name: e, dataRef: out}]}\n"),
    ("s.json", r##"{"definitions": {"x": {"anyOf": [{"type": "string"}, {"$ref": "#/definitions/x"}]}}}"##),
];

#[test]
fn made_up_blueprints_are_answered() {
    let cases = cases(CASES_VARIABLE, CASES);
    let given = supplied(&format!(
        "data: {{a: {SECRET}, b: 3}}\ntarget: {{cluster: landscaper.gardener.cloud/t}}\nmap: {{m: {{k: landscaper.gardener.cloud/t}}}}"
    ));
    let components = components(&[], &[]);
    let mut random = Random::new(11);
    let (mut loaded, mut rendered) = (0, 0);
    for _ in 0..cases {
        let mut files = FILES.map(|(path, content)| (path, content.to_owned()));
        let mut text = BLUEPRINTS[random.below(BLUEPRINTS.len())].to_owned();
        // Most inputs are changed in one place only, so that they pass the early checks more often.
        if random.below(3) > 0 {
            text = random.changed(&text);
        } else {
            let file = random.below(files.len());
            files[file].1 = random.changed(&files[file].1);
        }
        let files: Vec<(&str, &str)> =
            files.iter().map(|(path, content)| (*path, content.as_str())).collect();
        let mut tree = Filesystem::default();
        for (path, content) in files.iter().copied().chain([(crate::BLUEPRINT_FILE, text.as_str())]) {
            tree.insert(path, content).unwrap();
        }
        let findings = Blueprint::check(&tree).unwrap();
        let Ok(blueprint) = load(&text, &files) else {
            assert!(!findings.is_empty(), "refused without a finding:\n{text}");
            continue;
        };
        loaded += 1;
        match render_with(&blueprint, &given, &components) {
            Ok(_) => rendered += 1,
            Err(error) => assert!(!error.to_string().contains(SECRET), "{error}\n{text}"),
        }
    }
    assert!(loaded > cases / 4 && rendered > cases / 20, "{loaded} loaded, {rendered} rendered of {cases}");
}
