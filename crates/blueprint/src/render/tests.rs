use serde_json::json;

use super::*;
use crate::testing::{components, configurations, load, render_with, supplied, yaml};

const DESCRIPTOR: &str = "
meta: {schemaVersion: v2}
component:
  name: example.org/root
  version: 1.0.0
  provider: me
  sources: []
  repositoryContexts: []
  componentReferences: []
  resources: []
";

fn rendered(blueprint: &str, given: &str) -> Result<Rendered, String> {
    let blueprint = load(blueprint, &[]).unwrap();
    render_with(&blueprint, &supplied(given), &components(&[DESCRIPTOR], &[]))
        .map_err(|error| error.to_string())
}

/// Deploy execution that outputs the value of `imports`.
const SHOW_IMPORTS: &str = r#"
deployExecutions:
- name: show
  type: GoTemplate
  template: |
    deployItems:
    - name: show
      type: t
      config: {{ .imports | toJson }}
"#;

/// Checks the value of `imports` in deploy executions. `expected` is its JSON.
#[track_caller]
fn check_imports(blueprint: &str, given: &str, expected: &str) {
    let configurations =
        rendered(&format!("{blueprint}{SHOW_IMPORTS}"), given).map(|rendered| configurations(&rendered));
    assert_eq!(configurations.map(|items| items["show"].to_string()).as_deref(), Ok(expected), "{blueprint}");
}

#[track_caller]
fn check_error(blueprint: &str, given: &str, expected: &str) {
    assert_eq!(rendered(&format!("{blueprint}{SHOW_IMPORTS}"), given).unwrap_err(), expected, "{blueprint}");
}

fn import_executions(templates: &[&str]) -> String {
    let executors: Value = templates
        .iter()
        .enumerate()
        .map(|(index, template)| json!({"name": format!("e{index}"), "type": "GoTemplate", "template": template}))
        .collect();
    let imports = "imports: [{name: a, required: false, schema: {type: string}}]";
    format!("{imports}\nimportExecutions: {executors}\n")
}

/// Cases B-36, B-53 to B-59: `blueprints.md` 4.4.
#[test]
fn import_executions_add_bindings() {
    for (templates, given, expected) in [
        (&["bindings: {b: 1}"][..], "data: {a: x}", r#"{"a":"x","b":1}"#),
        (&["bindings: {a: {c: 1}}"], "data: {a: x}", r#"{"a":{"c":1}}"#),
        (
            &["bindings: {b: '{{ .imports.a }}1'}", "bindings: {c: '{{ .imports.b }}2'}"],
            "data: {a: x}",
            r#"{"a":"x","b":"x1","c":"x12"}"#,
        ),
        (&["Bindings: {b: 1}\nERRORS: []"], "{}", r#"{"b":1}"#),
        (&["bindings: null\nerrors: null\nother: 5"], "data: {a: x}", r#"{"a":"x"}"#),
        (&["", "# nothing"], "data: {a: x}", r#"{"a":"x"}"#),
        // Changes to the inputs of one execution are invisible to the others.
        (&["{{ $_ := set .imports \"z\" 1 }}bindings: {}"], "data: {a: x}", r#"{"a":"x"}"#),
    ] {
        check_imports(&import_executions(templates), given, expected);
    }
}

/// Cases B-57, B-58, acceptance item 6: order, stop and kinds of errors (`blueprints.md` 4.4).
#[test]
fn import_executions_refuse() {
    for (templates, expected) in [
        (&["errors: [one, two]", "errors: [three]"][..], "import validation failed: one, two"),
        (&["bindings: {b: 5}\nerrors: ['b is {{ .imports.a }}']"], "import validation failed: b is [...]"),
        (&["bindings: {b: 5}", "errors: ['b is {{ .imports.b }}']"], "import validation failed: b is 5"),
        (&["errors: [1, true, null, 1.5]"], "import validation failed: 1, true, , 1.5"),
    ] {
        check_error(&import_executions(templates), "data: {a: x}", expected);
    }
    let prefix = "RenderImportExecutions - unable to template executions:";
    for (template, expected) in [
        (
            "errors: [{}]",
            "error while decoding templated execution: errors[0]: a text is expected (execution \"e0\")",
        ),
        (
            "errors: text",
            "error while decoding templated execution: errors: a list is expected (execution \"e0\")",
        ),
        (
            "bindings: [a]",
            "error while decoding templated execution: bindings: a map is expected (execution \"e0\")",
        ),
        (
            "text",
            "error while decoding templated execution: the output of the template is not a YAML map (execution \"e0\")",
        ),
    ] {
        check_error(&import_executions(&[template]), "{}", &format!("{prefix} {expected}"));
    }
    let absent = rendered(&import_executions(&["bindings: {b: '{{ .imports.nope }}'}"]), "{}").unwrap_err();
    assert!(
        absent.starts_with(&format!(
            "{prefix} template \"import execution\" contains fields with \"no value\""
        ))
    );
}

/// Cases B-60, B-61: the example from Landscaper's documentation, with its spelling `scheme`.
#[test]
fn prefix_and_suffix() {
    let blueprint = r#"
imports:
- name: prefix
  type: data
  scheme: {type: string}
- name: suffix
  type: data
  scheme: {type: string}
importExecutions:
- name: compound
  type: GoTemplate
  template: |
    bindings:
      basename: tempfile
      compound: {{ .imports.prefix }}tempfile{{ .imports.suffix }}
- name: check
  type: GoTemplate
  template: |
    errors:
    {{- if eq .imports.prefix .imports.suffix }}
    - prefix and suffix must differ
    {{- end }}
"#;
    check_imports(
        blueprint,
        "data: {prefix: pre-, suffix: .tmp}",
        r#"{"basename":"tempfile","compound":"pre-tempfile.tmp","prefix":"pre-","suffix":".tmp"}"#,
    );
    check_error(
        blueprint,
        "data: {prefix: x, suffix: x}",
        "import validation failed: prefix and suffix must differ",
    );
    check_error(
        blueprint,
        "data: {prefix: x, suffix: 5}",
        "inst.suffix: imported datatype does not have the expected schema: (root): Invalid value: <redacted>: Invalid \
         type. Expected: string, given: integer",
    );
}

/// Cases B-44, B-45, B-47 to B-49: `blueprints.md` 4.1.
#[test]
fn standard_bindings() {
    let blueprint = r#"
deployExecutions:
- name: show
  type: GoTemplate
  template: |
    deployItems:
    - name: show
      type: t
      config: {keys: "{{ keys . | sortAlpha | join " " }}", cd: {{ .cd.component.name }}, bp: {{ .blueprint | toJson }},
        def: {{ .blueprintDef | toJson }}, cdDef: {{ .componentDescriptorDef | toJson }}, imports: {{ .imports | toJson }}}
"#;
    let items = configurations(&rendered(blueprint, "data: {undeclared: 1}").unwrap());
    let definition = json!({"ref": {"resourceName": "bp"}});
    assert_eq!(
        items["show"],
        json!({
            "keys": "blueprint blueprintDef cd componentDescriptorDef components imports state",
            "cd": "example.org/root", "bp": definition, "def": definition, "cdDef": {}, "imports": {},
        })
    );
    let without =
        load(&SHOW_IMPORTS.replace(".imports", "(list .cd .components .componentDescriptorDef)"), &[])
            .unwrap();
    let items = render_with(&without, &Supplied::default(), &Components::default()).unwrap();
    assert_eq!(configurations(&items)["show"], json!([null, null, {}]));
}

/// Cases B-17, B-51, B-62 to B-65, B-79, `blueprints.md` 4.5: lists are appended in order, names
/// are unique over all of them. Unknown nodes have no effect but give a warning.
#[test]
fn deploy_executions() {
    let executions = |templates: &[&str]| {
        let list: Value = templates
            .iter()
            .enumerate()
            .map(|(index, template)| json!({"name": format!("e{index}"), "type": "GoTemplate", "template": template}))
            .collect();
        let result = rendered(
            &format!("imports: [{{name: c, required: false, targetType: t}}]\ndeployExecutions: {list}"),
            "{}",
        );
        result.map(|rendered| {
            let names: Vec<_> = rendered.deploy_items.iter().map(|item| item.name.as_str()).collect();
            let warnings = rendered.warnings.iter().map(|warning| format!("; {warning}")).collect::<String>();
            names.join(" ") + &warnings
        })
    };
    let item = |name: &str| format!("deployItems: [{{name: {name}, type: t}}]");
    for (templates, expected) in [
        (vec![item("b"), item("a")], "b a"),
        (vec![item("b").to_lowercase(), String::new()], "b"),
        (vec!["deployItems: null".into(), "deployItems: []".into()], ""),
        (vec!["deployItems: []\nstate: {}".into(), "state: null".into()], ""),
        (
            vec![item("a") + "\ndeployItem: []"],
            "a; deploy execution \"e0\": \"deployItem\" in the output is unknown and ignored; only deployItems and \
             state are read",
        ),
        (vec!["items: []".into()], "; deploy execution \"e0\": the output has no key deployItems"),
        (
            vec![item("a") + "\n---\nmore: 1"],
            "a; deploy execution \"e0\": only the first YAML document of the output is read",
        ),
        (
            vec!["deployItems: [{name: a, type: t, timeout: -5m}]".into()],
            "a; deploy item \"a\": the timeout is negative",
        ),
        (
            vec![
                "{{ $_ := set .imports \"x\" 1 }}".into(),
                "deployItems: [{name: '{{ hasKey .imports \"x\" }}', type: t}]".into(),
            ],
            "false",
        ),
    ] {
        let templates: Vec<&str> = templates.iter().map(String::as_str).collect();
        assert_eq!(executions(&templates).as_deref(), Ok(expected), "{templates:?}");
    }
    for (templates, expected) in [
        (
            vec![item("a"), item("a")],
            "error validating deployitem templates: deployExecutions[1]: Duplicate value: \"a\"",
        ),
        (
            vec!["deployItems: [{name: {}}]".into()],
            "unable to template executions: error while decoding templated execution: deployItems[0].name: a text is \
             expected, found a map (execution \"e0\")",
        ),
        (
            vec!["deployItems: [{name: a, type: t, target: {import: c}}]".into()],
            "invalid deployitem specification \"a\": target import \"c\" not found",
        ),
    ] {
        let templates: Vec<&str> = templates.iter().map(String::as_str).collect();
        assert_eq!(executions(&templates).unwrap_err(), expected);
    }
}

/// Misspelt names of imports and of results give warnings.
#[test]
fn what_is_not_read_is_told() {
    let blueprint = format!("imports: [{{name: a, required: false, schema: {{}}}}]{SHOW_IMPORTS}");
    let warnings = rendered(&blueprint, "data: {a: 1, b: 2}").unwrap().warnings;
    assert_eq!(warnings, ["data import \"b\": the blueprint declares no import of this name"]);
    let blueprint = import_executions(&["binding: {b: 1}"]) + SHOW_IMPORTS;
    let warnings = rendered(&blueprint, "{}").unwrap().warnings;
    assert_eq!(
        warnings,
        [
            "import execution \"e0\": \"binding\" in the output is unknown and ignored; only bindings and errors are \
             read"
        ]
    );
}

/// `blueprints.md` 3.8, 4.4: an undeclared binding of an import execution is visible to templates
/// only. Deploy items refer to the binding that replaces a Target import.
#[test]
fn bindings_that_replace_imports() {
    let blueprint = |binding: &str| {
        format!(
            "imports:\n- {{name: a, required: false, schema: {{}}}}\n- {{name: t, type: target, targetType: example.org/k}}\n\
             importExecutions:\n- name: x\n  type: GoTemplate\n  template: |\n    bindings:\n      a: 1\n      b: 2\n      {binding}\n\
             deployExecutions:\n- name: x\n  type: GoTemplate\n  template: |\n    \
             deployItems: [{{name: i, type: m, target: {{import: t}}}}]\n"
        )
    };
    let given = "target: {t: example.org/k}";
    let result = rendered(&blueprint("c: 3"), given).unwrap();
    assert_eq!(result.imports.added.iter().map(String::as_str).collect::<Vec<_>>(), ["b", "c"]);
    assert_eq!(result.deploy_items[0].target.as_ref().unwrap().name, "t");
    let result = rendered(&blueprint("t: {metadata: {name: other, namespace: ns}, spec: {type: k}}"), given);
    let target = result.unwrap().deploy_items[0].target.clone().unwrap();
    assert_eq!((target.name.as_str(), target.namespace.as_deref()), ("other", Some("ns")));
    assert_eq!(
        rendered(&blueprint("t: no target"), given).unwrap_err(),
        "invalid deployitem specification \"i\": target import \"t\" not found"
    );
}

/// Cases B-11, B-16, B-17, B-63: a template in a file gives the same result as an inline one.
#[test]
fn files_and_inline_templates() {
    let content = "deployItems:\n- {name: a, type: t, config: {{ .imports | toJson }}}\n";
    let inline = json!({"deployExecutions": [{"name": "main", "type": "GoTemplate", "template": content}]})
        .to_string();
    let expected = rendered(&inline, "{}").unwrap().deploy_items;
    for file in ["a/b.tmpl", "/a/b.tmpl"] {
        let text = format!("deployExecutions: [{{name: main, type: GoTemplate, file: {file}}}]");
        let blueprint = load(&text, &[("a/b.tmpl", content)]).unwrap();
        let rendered =
            render_with(&blueprint, &Supplied::default(), &components(&[DESCRIPTOR], &[])).unwrap();
        assert_eq!(rendered.deploy_items, expected, "{file}");
    }
}

/// Cases B-22, B-23, B-69, B-70, B-81: Targets of items, from import to item.
#[test]
fn targets_of_items() {
    let blueprint = r#"
imports:
- {name: cluster, targetType: kubernetes-cluster}
- {name: edges, type: targetMap, targetType: kubernetes-cluster}
deployExecutions:
- name: main
  type: GoTemplate
  template: |
    deployItems:
    - {name: main, type: t, target: {import: cluster}}
    {{- range $key, $target := .imports.edges }}
    - {name: "edge-{{ $key }}", type: t, target: {import: edges, key: {{ $key }}}, config: {{ $target.spec.type }}}
    {{- end }}
    - {name: old, type: t, target: {name: "{{ .imports.cluster.metadata.name }}"}}
"#;
    let long = "landscaper.gardener.cloud/kubernetes-cluster";
    let result = rendered(
        blueprint,
        &format!("target: {{cluster: {long}}}\nmap: {{edges: {{red: {long}, blue: {long}}}}}"),
    )
    .unwrap();
    let targets: Vec<String> = result
        .deploy_items
        .iter()
        .map(|item| {
            let target = item.target.as_ref().unwrap();
            format!("{} {}/{}", item.name, target.namespace.as_deref().unwrap(), target.name)
        })
        .collect();
    assert_eq!(
        targets,
        ["main source/cluster", "edge-blue source/edges-blue", "edge-red source/edges-red", "old ns/cluster"]
    );
    assert_eq!(configurations(&result)["edge-red"], json!(long));
}

/// Case B-35: rendering starts only after all imports are validated, and messages contain no
/// values.
#[test]
fn imports_come_first() {
    let blueprint = "imports: [{name: a, schema: {type: integer}}, {name: b, schema: {}}]\ndeployExecutions: [{name: x, \
                     type: GoTemplate, template: '{{ fail \"rendered\" }}'}]";
    let error = rendered(blueprint, "data: {a: c4nary}").unwrap_err();
    assert_eq!(
        error,
        "inst.a: imported datatype does not have the expected schema: (root): Invalid value: <redacted>: Invalid type. \
         Expected: integer, given: string; blueprint defines import \"b\" of type data, which is not satisfied"
    );
}

#[test]
fn unknown_formats_of_descriptors() {
    let text = format!("annotations: {{ocmSchemaVersion: v9}}{SHOW_IMPORTS}");
    check_error_text(
        &text,
        "unable to template executions: error during serializing of the resolved components: unknown schema version \"v9\"",
    );
}

#[track_caller]
fn check_error_text(blueprint: &str, expected: &str) {
    assert_eq!(rendered(blueprint, "{}").unwrap_err(), expected);
}

#[test]
fn nested_installations_are_refused() {
    check_error_text(
        "subinstallations: [{file: x}]",
        "unable to get installation templates of blueprint: unable to get default subinstallation templates: \
         subinstallations[0].file: Not found: \"x\"",
    );
    check_error_text(
        "subinstallationExecutions: [{name: a, type: GoTemplate, template: 'subinstallations: 5'}]",
        "unable to get installation templates of blueprint: unable to template subinstallations: error while decoding \
         templated execution: subinstallations: a list is expected (execution \"a\")",
    );
    let child = "{name: c, blueprint: {filesystem: {}}, imports: {data: [{name: i, dataRef: nope}]}}";
    check_error_text(
        &format!("subinstallations: [{child}]"),
        "subinstallations.c.imports.data[0][i]: Not found: \"import not satisfied\"",
    );
}

/// `blueprints.md` 9.1, 9.6: rendered templates come first, and the order follows exports.
#[test]
fn nested_installations() {
    let blueprint = "
imports: [{name: a, required: false, schema: {type: string}}]
subinstallations:
- name: user
  blueprint: {filesystem: {}}
  imports: {data: [{name: i, dataRef: made}, {name: j, dataRef: a}]}
subinstallationExecutions:
- name: main
  type: GoTemplate
  template: |
    subinstallations:
    - name: {{ .imports.a | default \"maker\" }}
      blueprint: {filesystem: {}}
      exports: {data: [{name: e, dataRef: made}]}
";
    let rendered = rendered(blueprint, "{}").unwrap();
    let names: Vec<&str> = rendered.subinstallations.iter().map(InstallationTemplate::name).collect();
    assert_eq!(names, ["maker", "user"]);
    assert_eq!(rendered.order, [0, 1]);
    assert_eq!(rendered.dropped.len(), 1);
    assert_eq!(rendered.subinstallations[1].imports.as_ref().unwrap().data.len(), 1);
}

/// Case C-20: a required import of the parent is never removed from a child. Without a value the
/// parent fails, so the child is not created.
#[test]
fn required_imports_stay_wired() {
    let blueprint = "
imports: [{name: a, schema: {type: string}}]
subinstallations:
- {name: child, blueprint: {filesystem: {}}, imports: {data: [{name: i, dataRef: a}]}}
";
    let missing = "blueprint defines import \"a\" of type data, which is not satisfied";
    assert_eq!(rendered(blueprint, "{}").unwrap_err(), missing);
    let children = rendered(blueprint, "data: {a: x}").unwrap().subinstallations;
    assert_eq!(children[0].imports.as_ref().unwrap().data[0].name, "i");
}

/// Case B-04: the renderer passes on an item of any type, because only deployers know the types.
#[test]
fn types_of_items_are_opaque() {
    let text = "deployExecutions: [{name: m, type: GoTemplate, template: 'deployItems: [{name: a, type: unheard.of/Type}, {name: b, type: plain}]'}]";
    let items = rendered(text, "{}").unwrap().deploy_items;
    let types: Vec<&str> = items.iter().map(|item| item.type_.as_str()).collect();
    assert_eq!(types, ["unheard.of/Type", "plain"]);
}

/// Cases B-75, B-76: the configuration reaches the deployer unchanged.
#[test]
fn configurations_are_passed_on() {
    let configuration = yaml("{a: 1, n: 1000000, list: [on, 010, 1.5, null], s: '05'}");
    let text = json!({"deployExecutions": [{"name": "m", "type": "GoTemplate",
        "template": format!("deployItems: [{{name: a, type: t, configuration: {configuration}}}]")}]});
    assert_eq!(configurations(&rendered(&text.to_string(), "{}").unwrap())["a"], configuration);
}

/// `blueprints.md` 10: if a template makes a name or key from a value, errors of the checks and of
/// the decoder withhold it. Other names are shown.
#[test]
fn names_made_of_values_never_show() {
    let given = "data: {pw: wqk-97, map: {wq97: a}}";
    let imports = "imports: [{name: pw, required: false, schema: {type: string}}, {name: map, required: false, schema: {type: object}}]";
    for (template, expected) in [
        (
            "deployItems: [{name: {{ upper .imports.pw }}_, type: t}]",
            "error validating deployitem templates: deployExecutions[0].name: Invalid value: \"[...]\": a name is at most",
        ),
        (
            "deployItems: [{name: x{{ add 1 1 }}_, type: t}]",
            "error validating deployitem templates: deployExecutions[0].name: Invalid value: \"x2_\": a name is at most",
        ),
        (
            "deployItems: [{name: a, type: t, target: {import: {{ b64enc .imports.pw }}}}]",
            "invalid deployitem specification \"a\": target import \"[...]\" not found",
        ),
        (
            "deployItems: [{name: a, type: t, labels: { {{ keys .imports.map | first }}: [1] }}]",
            "unable to template executions: error while decoding templated execution: deployItems[0].labels.[...]: a text",
        ),
        (
            "deployItems: [{name: a, type: t, labels: { x{{ add 1 1 }}: [1] }}]",
            "unable to template executions: error while decoding templated execution: deployItems[0].labels.x2: a text",
        ),
    ] {
        let executors = json!([{"name": "main", "type": "GoTemplate", "template": template}]);
        let error = rendered(&format!("{imports}\ndeployExecutions: {executors}"), given).unwrap_err();
        assert!(error.contains(expected), "{template}\n{error}");
        assert!(!error.to_lowercase().contains("wq"), "{error}");
    }
    let template = "subinstallations: [{name: {{ upper .imports.pw }}, blueprint: {ref: x}, imports: {data: [{name: i, dataRef: q}]}}]";
    let executors = json!([{"name": "main", "type": "GoTemplate", "template": template}]);
    let error = rendered(&format!("{imports}\nsubinstallationExecutions: {executors}"), given).unwrap_err();
    assert!(error.contains("[...]") && !error.contains("WQK"), "{error}");
    let template = "wqk-{{ lower .imports.pw }}: 1\n{{ .imports.pw }}: 2\nbindigs: {}\nbindings: {}";
    let executors = json!([{"name": "main", "type": "GoTemplate", "template": template}]);
    let rendered = rendered(&format!("{imports}\nimportExecutions: {executors}"), given).unwrap();
    assert!(
        rendered.warnings[0].contains("\"bindigs\", \"[...]\", \"[...]\" in the output"),
        "{:?}",
        rendered.warnings
    );
}
