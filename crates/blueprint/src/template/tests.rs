use proptest::prelude::*;
use serde_json::json;

use super::go::tests::tree;
use super::*;
use crate::components::Components;
use crate::testing::{execute, execute_within};

fn executor(template: &str) -> TemplateExecutor {
    serde_json::from_value(json!({"name": "main", "type": "GoTemplate", "template": template})).unwrap()
}

fn run(template: &str, bindings: &Value) -> Result<Output, TemplateError> {
    run_as(ExecutionKind::Deploy, &executor(template), bindings)
}

fn run_as(
    kind: ExecutionKind,
    executor: &TemplateExecutor,
    bindings: &Value,
) -> Result<Output, TemplateError> {
    execute(&tree(), &Components::default(), (kind, executor), bindings, None)
}

/// Case B-50: `blueprints.md` 4.2 and 5.1.
#[test]
fn output_documents() {
    for (template, document, several) in [
        ("", json!({}), false),
        ("# nothing", json!({}), false),
        ("a: 1", json!({"a": 1}), false),
        ("---\na: 1", json!({"a": 1}), false),
        ("a: 1\n---\nb: [", json!({"a": 1}), true),
        ("---\n---\na: 1", json!({}), true),
        ("{{ $x := 1 }}a: {{ $x }}", json!({"a": 1}), false),
    ] {
        let output = run(template, &json!({})).unwrap();
        assert_eq!(
            (Value::Object(output.document), output.several_documents),
            (document, several),
            "{template}"
        );
    }
    for template in ["text", "- a", "5", "true"] {
        assert_eq!(
            run(template, &json!({})).unwrap_err().to_string(),
            "error while decoding templated execution: the output of the template is not a YAML map (execution \
             \"main\")",
        );
    }
    for template in ["a: [", "a: b: c", "a: .inf", "{{ b64dec \"/w==\" }}"] {
        let error = run(template, &json!({})).unwrap_err().to_string();
        assert!(error.starts_with("error while decoding templated execution: "), "{template}: {error}");
    }
}

/// A list that contains another list twice, sixty levels deep: small as a shared value, but 2^60
/// nodes as a tree.
#[test]
fn sharing_has_an_end_where_values_become_trees() {
    let build = "{{ $x := list 1 }}{{ range until 60 }}{{ $x = list $x $x }}{{ end }}";
    for call in [
        "{{ toYaml $x | len }}",
        "{{ getRepositoryContext (dict \"meta\" (dict \"schemaVersion\" \"v2\") \"component\" $x) }}",
        "{{ getResource (dict \"component\" $x) \"name\" \"a\" }}",
        "{{ getComponent (dict \"component\" $x) \"name\" \"a\" }}",
    ] {
        let executor = executor(&format!("{build}{call}"));
        let execution = (ExecutionKind::Deploy, &executor);
        let (limits, components) = (Capabilities::default(), Components::default());
        let ended = execute_within(&limits, &tree(), &components, execution, &json!({}), None);
        let error = ended.unwrap_err().to_string();
        assert!(
            error.contains("template values use more than the limit of 67108864 bytes"),
            "{call}: {error}"
        );
    }
}

/// `blueprints.md` 4.2: exact names first, then any case.
#[test]
fn result_keys() {
    let output = run("deployitems: 1\nDeployItems: 2\ndeployItems: 3\nSTATE: 4", &json!({})).unwrap();
    assert_eq!(output.get("deployItems"), Some(&json!(3)));
    assert_eq!(output.get("state"), Some(&json!(4)));
    assert_eq!(output.get("exports"), None);
}

/// Errors TPL-001, TPL-002 (`blueprints.md` 10), and similar ones.
#[test]
fn sources() {
    let run = |executor: Value| {
        let executor: TemplateExecutor = serde_json::from_value(executor).unwrap();
        let output = run_as(ExecutionKind::Deploy, &executor, &json!({}));
        output.map(|output| Value::Object(output.document).to_string()).map_err(|error| error.to_string())
    };
    for file in ["VERSION.yaml", "/VERSION.yaml"] {
        assert_eq!(
            run(json!({"name": "a", "type": "GoTemplate", "file": file})).unwrap_err(),
            format!("unable to read template file {file:?} of execution \"a\": file does not exist")
        );
    }
    for (executor, expected) in [
        (
            json!({"name": "a", "type": "GoTemplate", "file": "dir"}),
            "unable to read template file \"dir\" of execution \"a\": dir is a directory",
        ),
        (
            json!({"name": "a", "type": "GoTemplate"}),
            "no template found in execution \"a\": set file or template",
        ),
        (
            json!({"name": "a", "type": "GoTemplate", "template": {"a": 1}}),
            "the template of execution \"a\" is not a text",
        ),
        (json!({"name": "a", "type": "Jinja", "template": ""}), "unknown template type Jinja"),
    ] {
        assert_eq!(run(executor).unwrap_err(), expected);
    }
    assert_eq!(
        run(json!({"name": "a", "type": "Spiff", "template": {"a": "(( 1 + 1 ))"}})).as_deref(),
        Ok("{\"a\":2}")
    );
    assert_eq!(run(json!({"name": "a", "type": "GoTemplate", "template": ""})).as_deref(), Ok("{}"));
    assert_eq!(run(json!({"name": "a", "type": "GoTemplate", "file": "./dir/sub/c"})).as_deref(), Ok("{}"));
}

/// Absent values are reported by the rules of `blueprints.md` 5.6.
#[test]
fn absent_values() {
    let template =
        "deployItems:\n- name: a\n  type: {{ .imports.type }}\n  config: x {{ .imports.more }} y\n";
    let error = run(template, &json!({"imports": {"pw": "s3cret"}})).unwrap_err().to_string();
    let expected = "template \"deploy execution\" contains fields with \"no value\":\n\
        \n\
        line 3:8\n\
        1:    deployItems:\n\
        2:    - name: a\n\
        3:      type: <no value>\n\
        \u{20}             \u{2c6}\u{2248}\u{2248}\u{2248}\u{2248}\u{2248}\u{2248}\u{2248}\n\
        4:      config: x <no value> y\n\
        5:    \n\
        \n\
        line 4:12\n\
        1:    deployItems:\n\
        2:    - name: a\n\
        3:      type: <no value>\n\
        4:      config: x <no value> y\n\
        \u{20}                 \u{2c6}\u{2248}\u{2248}\u{2248}\u{2248}\u{2248}\u{2248}\u{2248}\n\
        5:    \n\
        \n\
        template input:\n\
        \timports: {\"pw\":\"[...] (string)\"}\n\
        \tstate: {}\n";
    assert_eq!(error, expected);
    let import = run_as(ExecutionKind::Import, &executor("errors: [{{ .nope }}]"), &json!({}));
    assert!(import.unwrap_err().to_string().starts_with("template \"import execution\" contains fields"));
    assert!(run("a: {{ .imports.x | default \"d\" }}", &json!({"imports": {}})).is_ok());
}

/// `blueprints.md` 5.7: an output that is not YAML is shown around the place, with the item and the
/// line of the template, and without values.
#[test]
fn outputs_that_are_not_yaml() {
    let template = "deployItems:
{{- range $i := list 1 2 3 }}
- name: item-{{ $i }}
  config:
    note: {{ if eq $i 3 }}{{ $.imports.pw }}: b{{ else }}fine{{ end }}
{{- end }}
";
    let error = run(template, &json!({"imports": {"pw": "canary: x"}})).unwrap_err();
    let report = error.report().unwrap();
    let problem = "line 10, column 17: mapping values are not allowed in this context";
    let expected =
        format!("error while decoding templated execution: {problem} (execution \"main\", item item-[...])");
    assert_eq!(report.message, expected);
    let snippet = report.snippet.as_deref().unwrap();
    assert!(
        snippet.contains("\n8:    - name: item-[...]\n9:      config:\n10:       note: [...]\n"),
        "{snippet}"
    );
    assert_eq!(report.excerpt.as_ref().map(|excerpt| excerpt.line), Some(5));
    let text = error.to_string();
    assert!(text.contains("rendered template:\n") && text.contains("template source:\n"), "{text}");
    assert!(!text.contains("canary"), "{text}");
}

/// `blueprints.md` 5.7: five lines around the place, and lines beyond the source.
#[test]
fn snippets() {
    let marker = format!("\u{2c6}{}", "\u{2248}".repeat(7));
    assert_eq!(error::snippet("a\nb", 99, 0), format!("1:    a\n2:    b\n      {marker}"));
    assert_eq!(error::snippet("a\nb", 0, 1), format!("1:    a\n       {marker}\n2:    b"));
    assert_eq!(error::snippet("", 1, 0), format!("1:    \n      {marker}"));
    let lines: Vec<String> = (1..=50).map(|line| format!("line {line}")).collect();
    let snippet = error::snippet(&lines.join("\n"), 49, 7);
    let shown: Vec<&str> = snippet.lines().collect();
    assert_eq!(shown.len(), 8);
    assert_eq!(shown[0], "44:   line 44");
    assert_eq!(shown[5], "49:   line 49");
    assert_eq!(shown[6], format!("{}{marker}", " ".repeat(13)));
    assert_eq!(shown[7], "50:   line 50");
}

#[test]
fn engine_errors_show_the_template() {
    let template = "deployItems:\n- name: init\n  type: container\n\n  config:\n    kind: Configuration\n    verbosity: {{ .invalid.verbosity }}\n    memory:\n";
    let error =
        run(template, &json!({"imports": {"pw": "s3cret", "n": 5, "l": [1]}, "cd": null})).unwrap_err();
    let text = error.to_string();
    let marker = format!(
        "7:        verbosity: {{{{ .invalid.verbosity }}}}\n{}\u{2c6}{}\n8:        memory:",
        " ".repeat(32),
        "\u{2248}".repeat(7)
    );
    assert!(text.contains(&marker), "{text}");
    assert!(text.starts_with("template: execution:7:26: executing \"execution\" at <.invalid.verbosity>: nil pointer evaluating interface {}.verbosity\ntemplate source:\n2:    - name: init\n"), "{text}");
    assert!(text.ends_with("\ntemplate input:\n\tcd: null\n\timports: {\"l\":\"[...] ([]interface {})\",\"n\":\"[...] (float64)\",\"pw\":\"[...] (string)\"}\n\tstate: {}\n"), "{text}");
    assert_eq!(error.excerpt().map(|excerpt| (excerpt.line, excerpt.column)), Some((7, Some(27))));
    assert_eq!(error.excerpt().unwrap().origin, "deployExecutions[main].template");
    let parse = run("a: 1\nb: {{ if }}\n", &json!({})).unwrap_err();
    assert!(parse.to_string().starts_with("template: execution:2: missing value for if\ntemplate source:\n1:    a: 1\n2:    b: {{ if }}\n      \u{2c6}"), "{parse}");
    assert_eq!(parse.to_string().matches("template source:").count(), 1);
}

/// If an included file is not a valid template, the error shows the lines of that file.
#[test]
fn errors_of_included_files_show_their_lines() {
    let error = run("a: 1\nb: {{ include \"broken.tmpl\" . }}\n", &json!({})).unwrap_err();
    let excerpt = error.excerpt().unwrap();
    assert_eq!((excerpt.origin.as_str(), excerpt.line, excerpt.text.as_str()), ("broken.tmpl", 1, "{{ .x "));
    let report = error.report().unwrap();
    assert!(report.message.starts_with("template: execution:2:6: executing"), "{}", report.message);
    assert!(report.snippet.as_ref().unwrap().starts_with("1:    {{ .x \n"), "{report}");
}

/// `blueprints.md` 5.7: depth and length of the shown input.
#[test]
fn shown_input() {
    let input = |bindings: Value| run("{{ fail \"x\" }}", &bindings).unwrap_err().to_string();
    let deep = (0..12).fold(json!("leaf"), |inner, _| json!({"k": inner}));
    assert!(
        input(json!({"imports": deep}))
            .contains(&format!("{}\"[...] (map[string]interface {{}})\"", "{\"k\":".repeat(10)))
    );
    assert!(
        input(json!({"imports": {"a": null, "b": true}}))
            .contains(r#"{"a":"[...] (nil)","b":"[...] (bool)"}"#)
    );
    let long = "x".repeat(600);
    let text = input(json!({"cd": long}));
    let packed = text.split("\tcd: >gzip>base64> ").nth(1).unwrap().lines().next().unwrap();
    let mut plain = String::new();
    let bytes = data_encoding::BASE64.decode(packed.as_bytes()).unwrap();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(&bytes[..]), &mut plain).unwrap();
    assert_eq!(plain, format!("\"{long}\""));
    for name in ["imports", "values", "deployitems", "dataobjects", "targets"] {
        assert!(
            input(json!({name: {"a": "c4nary"}}))
                .contains(&format!("\t{name}: {{\"a\":\"[...] (string)\"}}"))
        );
    }
}

/// Redaction applies only to the part of a message that may contain values. The rest is text of the
/// template.
#[test]
fn places_in_messages_stay() {
    let bindings =
        json!({"imports": {"a": "execution", "b": "calling", "c": "imports", "d": "leaf", "e": "readFile"}});
    let error = run("{{ readFile (print .imports.a \" \" .imports.d) }}{{ fail .imports.a }}", &bindings)
        .unwrap_err();
    assert_eq!(
        error.summary(),
        "template: execution:1:3: executing \"execution\" at <readFile (print .imports.a \" \" .imports.d)>: error \
         calling readFile: file does not exist"
    );
    let error = run("{{ calling }}", &bindings).unwrap_err();
    assert_eq!(error.summary(), "template: execution:1: function \"calling\" not defined");
    let error = run("{{ fail (print .imports.a \" \" .imports.d) }}", &bindings).unwrap_err();
    assert!(error.summary().ends_with(">: error calling fail: [...]"), "{}", error.summary());
}

/// `blueprints.md` 10: no failure shows an imported value.
#[test]
fn values_never_show() {
    let bindings = json!({"imports": {"pw": "c4nary: [", "multi": "first-c4nary\nsecond \"c4nary\"\n", "pin": 271_828, "map": {"k": "c4nary!"}}});
    for template in [
        "{{ fail .imports.pw }}",
        "{{ fail .imports.multi }}",
        "{{ fail (printf \"bad: %q\" .imports.multi) }}",
        "{{ fail (printf \"pin %v\" .imports.pin) }}",
        "{{ fail (toString .imports.map) }}",
        "a: {{ .imports.pw }}",
        "{{ .imports.pw }}",
        "a: *{{ .imports.map.k }}",
        "a: !!int {{ .imports.map.k }}",
        "a: {{ .imports.pw }} {{ .imports.absent }}",
        "{{ .imports.pw }}: {{ .imports.absent }}",
        "{{ fromYaml .imports.pw }}",
        "{{ readFile .imports.pw }}",
        "{{ include .imports.pw . }}",
        "{{ include \"/leaf.tmpl\" .imports.pw }}",
        "{{ ociRefRepo .imports.pw }}",
        "{{ getResource \"name\" .imports.pw }}",
        "{{ index .imports .imports.pw }}",
        "{{ template .imports.pw }}",
        "{{ .imports.pw.x }}",
        "{{ call .imports.pw }}",
        "{{ mustToDate \"2006\" .imports.pw }}",
        "{{ semver .imports.pw }}",
        "{{ mustRegexMatch .imports.pw \"x\" }}",
        "{{ mustFromJson .imports.pw }}",
        "{{ urlParse .imports.pw }}",
        "{{ b64dec .imports.pw }}",
        "{{ add .imports.pw 1 }}{{ fail \"x\" }}",
        "{{ len .imports.pin }}",
        "{{ range .imports.pw }}{{ end }}",
        "{{ lt .imports.pw 1 }}",
        "{{ duration .imports.pw }}{{ fail \"x\" }}",
    ] {
        let error = run(template, &bindings).unwrap_err();
        for text in [error.to_string(), error.summary(), format!("{:?}", error.excerpt())] {
            assert!(!text.contains("c4nary") && !text.contains("271828"), "{template}\n{text}");
        }
    }
}

/// `blueprints.md` 10: no failure shows a text that a template computes from a value, even a small
/// part. The letters and digits of the values occur in no template.
#[test]
fn what_is_made_of_values_never_shows() {
    let bindings = json!({"imports": {
        "pw": "wqk-97", "one": "k", "pin": 97, "rate": 7.96, "map": {"wq97": {"k9": true}}, "line": "w\u{2028}q97", "b64": "d3FrOTc=", "on": true,
        "list": ["wqk", "k97"],
    }});
    for (template, expected) in [
        ("{{ fail (upper .imports.pw) }}", "[...]"),
        ("{{ fail (printf \"host %s is too long\" (trunc 1 .imports.pw)) }}", "host [...] is too long"),
        ("{{ fail (printf \"host %s is too long\" (b64enc .imports.pw)) }}", "host [...] is too long"),
        ("{{ fail (printf \"%s: sum %s\" .imports.one (sha256sum .imports.one)) }}", "[...]: sum [...]"),
        ("{{ fail (printf \"%x of %d\" .imports.pin (len .imports.list)) }}", "[...] of 2"),
        ("{{ fail (printf \"port %v\" .imports.pin) }}", "port [...]"),
        ("{{ fail (printf \"%.0f or %e\" .imports.rate .imports.rate) }}", "[...] or [...]"),
        ("{{ fail (splitList \"\" .imports.pw | join \" \") }}", "[...]"),
        (
            "{{ range $k, $v := .imports.map }}{{ fail (printf \"user %s unknown\" $k) }}{{ end }}",
            "user [...] unknown",
        ),
        ("{{ range $k, $v := .imports.map }}{{ fail (toString $v) }}{{ end }}", "map[[...]]"),
        ("{{ fail (toJson .imports.line) }}", "\"[...]\""),
        ("{{ fail (b64dec .imports.b64) }}", "[...]"),
        ("{{ fail (printf \"on is %v\" .imports.on) }}", "on is [...]"),
        ("{{ fail (printf \"%d\" (mul .imports.pin 3)) }}", "[...]"),
        ("{{ fail (printf \"%s%d\" \"e\" 42) }}", "e42"),
        (
            "{{ if eq .imports.one \"k\" }}{{ fail (printf \"mode %s is gone\" .imports.one) }}{{ end }}",
            "mode [...] is gone",
        ),
        (
            "{{ if gt .imports.pin 96.0 }}{{ fail (printf \"port 5 is free, %v is not\" .imports.pin) }}{{ end }}",
            "port 5 is free, [...] is not",
        ),
    ] {
        let error = run(template, &bindings).unwrap_err();
        let summary = error.summary();
        let problem = summary.split_once("error calling fail: ").unwrap().1;
        assert_eq!(problem, expected, "{template}");
        assert!(error.to_string().starts_with(&format!("{summary}\ntemplate source:\n")), "{error}");
    }
    for (template, problem) in [
        ("{{ readFile (upper .imports.pw) }}", "error calling readFile: file does not exist"),
        (
            "{{ include (upper .imports.pw) . }}",
            "error calling include: unable to read include file \"[...]\": file does not exist",
        ),
        ("{{ index .imports.list .imports.pin }}", "error calling index: index out of range: [...]"),
    ] {
        let summary = run(template, &bindings).unwrap_err().summary();
        assert!(summary.ends_with(problem), "{summary}");
    }
}

/// Export executions also see values of deployers and of other Installations. Their errors show no
/// more than those of imports.
#[test]
fn what_exports_make_of_values_never_shows() {
    let bindings = json!({
        "values": {"deployitems": {"x": {"pw": "wqk-97"}}, "dataobjects": {"y": "wqk-98"}, "targets": {"t": {"spec": {"pw": "wqk-99"}}}},
        "deployitems": {"x": {"pw": "wqk-97"}}, "dataobjects": {"y": "wqk-98"}, "targets": {"t": {"spec": {"pw": "wqk-99"}}},
    });
    for template in [
        "{{ fail (upper .values.deployitems.x.pw) }}",
        "{{ fail (b64enc .deployitems.x.pw) }}",
        "{{ fail (trunc 5 .values.dataobjects.y) }}",
        "{{ fail (upper .dataobjects.y) }}",
        "{{ fail (upper .targets.t.spec.pw) }}",
    ] {
        let executor = executor(template);
        let summary = run_as(ExecutionKind::Export, &executor, &bindings).unwrap_err().summary();
        assert!(summary.ends_with("error calling fail: [...]"), "{template}: {summary}");
    }
    for expression in [
        "error(base64(values.deployitems.x.pw))",
        "error(upper(deployitems.x.pw))",
        "error(upper(dataobjects.y))",
        "error(upper(values.targets.t.spec.pw))",
    ] {
        let executor =
            json!({"name": "main", "type": "Spiff", "template": {"x": format!("(( {expression} ))")}});
        let executor = serde_json::from_value(executor).unwrap();
        let error = run_as(ExecutionKind::Export, &executor, &bindings).unwrap_err().summary();
        assert!(error.contains("in template\tx\t") && error.contains("[...]"), "{error}");
        for secret in ["WQK", "wqk", "d3Fr"] {
            assert!(!error.contains(secret), "{expression}: {error}");
        }
    }
}

/// Up to a thousand absent values are listed with their place. The others are counted.
#[test]
fn places_of_absent_values_are_counted() {
    let error = run("{{ repeat 1500 \"<no value>\\n\" }}", &json!({})).unwrap_err();
    assert_eq!(error.to_string().matches("\nline ").count(), 1_000);
    assert!(error.summary().ends_with(", line 1000:0, and 500 more"), "{}", error.summary());
}

/// The same for Spiff: errors of expressions show no text that is computed from values.
#[test]
fn what_expressions_make_of_values_never_shows() {
    let bindings = json!({"imports": {"pw": "wqk-97", "one": "k", "map": {"wq97": 1}}});
    for (expression, issue) in [
        ("error(\"host \" imports.one \" is bad\")", "host [...] is bad"),
        ("error(base64(imports.pw))", "[...]"),
        ("error(keys(imports.map))", "[...]"),
        ("error(join(\" \", split(\"\", imports.pw)))", "[...]"),
    ] {
        let executor: TemplateExecutor = serde_json::from_value(
            json!({"name": "main", "type": "Spiff", "template": {"x": format!("(( {expression} ))")}}),
        )
        .unwrap();
        let error = run_as(ExecutionKind::Deploy, &executor, &bindings).unwrap_err().summary();
        assert!(error.contains("in template\tx\t") && error.contains(issue), "{error}");
        for secret in ["wqk", "d3Fr", "wq97", "w q k"] {
            assert!(!error.contains(secret), "{error}");
        }
    }
}

proptest! {
    /// The letters do not occur in the template, so every occurrence would be the value.
    #[test]
    fn no_value_shows(value in "[αβγδ#\\\\\"'\n ]{4,30}", format in prop::sample::select(vec!["%s", "%v", "%q", "x%sx", "%v: ["])) {
        prop_assume!(value.trim().len() >= 4 && value.contains(['α', 'β', 'γ', 'δ']));
        let bindings = json!({"imports": {"list": [{"pw": value}]}});
        for template in ["{{ fail (printf .format (index .imports.list 0).pw) }}", "a: {{ printf .format (index .imports.list 0).pw }} {{ .imports.nope }}", "a: [{{ printf .format (index .imports.list 0).pw }}"] {
            let template = template.replace(".format", &format!("{format:?}"));
            let Err(error) = run(&template, &bindings) else { continue };
            for line in value.lines().map(str::trim).filter(|line| line.len() >= 4 && line.contains(['α', 'β', 'γ', 'δ'])) {
                prop_assert!(!error.to_string().contains(line), "{error}");
            }
        }
    }
}
