use groundwork_helm::{Capabilities, File, Release, Renderer};

use super::super::work::{Input, render};
use super::*;
use groundwork_budget::TemplateLimits;

const CANARY: &str = "canary-5cb7e1d0-sings";

/// A cluster with one Secret.
struct Cluster;

impl Lookup for Cluster {
    fn look_up(&self, _: &str, kind: &str, _: &str, name: &str) -> Result<Value, String> {
        let metadata = json!({"name": name, "uid": CANARY});
        Ok(
            json!({"apiVersion": "v1", "kind": kind, "metadata": metadata, "data": {"password": CANARY, CANARY: "x"}}),
        )
    }
}

/// Returns the error message of a chart with this template and schema. The rendering must fail.
fn said(template: &str, schema: &str, values: Value) -> String {
    let files = vec![
        File::new("Chart.yaml", *b"{apiVersion: v2, name: web, version: 0.1.0}"),
        File::new("values.yaml", *b"{region: default-region}"),
        File::new("values.schema.json", schema.as_bytes()),
        File::new("templates/t.yaml", template.as_bytes()),
    ];
    let renderer = Renderer::new(Chart::from_files(files).unwrap());
    let Value::Object(values) = values else { unreachable!("values are a table") };
    let (release, capabilities) = (Release::install("web", "team"), Capabilities::default());
    let input = Input { values, release, capabilities, skip_schema: false };
    render(&renderer, &input, TemplateLimits::default(), Cluster).expect_err(template)
}

/// Helm's words, the place, and text from the chart itself stay in an error. Values of the item are
/// removed, in whatever form a template has brought them there.
#[test]
fn errors_of_templates() {
    let values = json!({
        "password": CANARY, "broken": format!("{{{{ {CANARY} }}}}"), "list": [CANARY], "map": {CANARY: {"port": 4711.0}},
        "yaml": format!("a: {{{CANARY}"), "anchor": format!("*{CANARY}"), "on": true,
    });
    for (template, part) in [
        (
            "{{ fail (printf \"the password %s is too short\" .Values.password) }}",
            "the password [...] is too short",
        ),
        (
            "{{ fail \"the password is too short\" }}",
            "execution error at (web/templates/t.yaml:1:3): the password is too short",
        ),
        ("{{ required (print \"no port for \" .Values.password) .Values.port }}", "no port for [...]"),
        (
            "{{ fail (.Values.password | upper | trunc 9) }}",
            "execution error at (web/templates/t.yaml:1:3): [...]",
        ),
        ("{{ fail (.Values.password | b64enc) }}", "execution error at (web/templates/t.yaml:1:3): [...]"),
        ("{{ fail (toJson .Values) }}", "execution error at (web/templates/t.yaml:1:3): "),
        ("{{ if .Values.on }}{{ fail (print \"never \" .Values.password) }}{{ end }}", "never [...]"),
        ("{{ tpl .Values.broken . }}", "cannot parse template \""),
        ("{{ index .Values.list 3 }}", "error calling index: index out of range: 3"),
        ("{{ .Values.password.port }}", "can't evaluate field port in type"),
        ("{{ fail (keys .Values.map | first) }}", "execution error at (web/templates/t.yaml:1:3): [...]"),
        ("{{ mustRegexMatch (print \"(\" .Values.password) \"x\" }}", "error parsing regexp: "),
        ("a: {{ .Values.yaml }}\n", "YAML parse error on web/templates/t.yaml: "),
        ("a: {{ .Values.anchor }}\n", "YAML parse error on web/templates/t.yaml: "),
        (
            "{{ fail (print (lookup \"v1\" \"Secret\" \"team\" \"access\").data) }}",
            "execution error at (web/templates/t.yaml:1:3): ",
        ),
        (
            "{{ with lookup \"v1\" \"Secret\" \"team\" \"access\" }}{{ fail (printf \"uid %s of %s\" .metadata.uid .metadata.name) }}{{ end }}",
            "uid [...] of [...]",
        ),
    ] {
        let said = said(template, "{}", values.clone());
        assert!(said.contains(part), "{template}: {said}");
        let lower = said.to_lowercase();
        for hint in
            [CANARY, "canary", &data_encoding::BASE64.encode(CANARY.as_bytes()).to_lowercase(), "4711"]
        {
            assert!(!lower.contains(hint), "{template}: {said}");
        }
    }
}

/// The error of a schema keeps the path and the expected type, and loses the value.
#[test]
fn findings_of_schemas() {
    for (schema, value, part) in [
        (
            "{\"pattern\": \"^[0-9]+$\"}",
            json!(CANARY),
            "- at '/k': '[...]' does not match pattern '^[0-9]+$'",
        ),
        ("{\"type\": \"integer\"}", json!(CANARY), "- at '/k': got string, want integer"),
        ("{\"maximum\": 3}", json!(4711.0), "- at '/k': maximum: got [...], want 3"),
        (
            "{\"enum\": [\"small\", \"large\"]}",
            json!(CANARY),
            "- at '/k': value must be one of 'small', 'large'",
        ),
    ] {
        let schema = format!("{{\"properties\": {{\"k\": {schema}}}}}");
        let said = said("a: 1\n", &schema, json!({"k": value}));
        assert!(
            said.contains(part) && !said.contains("canary") && !said.contains("4711"),
            "{schema}: {said}"
        );
    }
}

#[test]
fn warnings() {
    let chart =
        Chart::from_files(vec![File::new("Chart.yaml", *b"{apiVersion: v2, name: web, version: 0.1.0}")])
            .unwrap();
    let Value::Object(values) = json!({"hook": CANARY}) else { unreachable!("it is a table") };
    let mut texts =
        vec![format!("web/templates/t.yaml: skipping unknown hook: {CANARY:?}"), "web: plain".to_owned()];
    withhold_in_warnings(&mut texts, &chart, &values);
    assert_eq!(texts, ["web/templates/t.yaml: skipping unknown hook: \"[...]\"", "web: plain"]);
}
