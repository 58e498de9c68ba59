//! Values of imported objects appear in no message (`blueprints.md` 10).

use super::*;

const CANARY: &str = "canary-7f3a9c";

fn installation(template: &str, schema: &str) -> String {
    format!(
        r#"
apiVersion: landscaper.gardener.cloud/v1alpha1
kind: Context
metadata: {{name: default}}
---
apiVersion: landscaper.gardener.cloud/v1alpha1
kind: Installation
metadata: {{name: shop}}
spec:
  blueprint:
    inline:
      filesystem:
        blueprint.yaml: |
          imports:
          - name: password
            schema: {schema}
          deployExecutions:
          - name: main
            type: GoTemplate
            file: deploy.tmpl
        deploy.tmpl: |
          deployItems:
          - name: a
            {template}
  imports:
    data:
    - {{name: password, secretRef: {{name: login, key: password}}}}
"#
    )
}

#[track_caller]
fn check(template: &str, schema: &str, secret: &str) {
    let input = format!("{}---\n{secret}", installation(template, schema));
    for format in ["text", "json", "yaml"] {
        let run = groundwork(&["render", "-", "-o", format], &input);
        assert_ne!(run.code, 0, "{template} {schema}");
        assert!(!run.err.is_empty());
        for (name, text) in [("standard error", &run.err), ("standard output", &run.out)] {
            assert!(!text.contains(CANARY), "the secret is shown on {name}:\n{text}");
        }
    }
}

fn secret(value: &str) -> String {
    format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: login}}\nstringData:\n  password: {value}\n")
}

#[test]
fn templates_and_schemas_that_fail() {
    let password = secret(CANARY);
    for template in [
        "type: {{ .imports.password.x }}",
        "type: {{ fail .imports.password }}",
        "type: {{ fail (printf \"bad %s\" .imports.password) }}",
        "type: {{ .imports.password }} {{ .imports.nope }}",
        "config: {{ .imports.password }}\n            x: {{ .imports.nope }}",
        "{{ .imports.password }}: [",
        "target: {import: {{ .imports.password | quote }}",
        "timeout: {{ .imports.password }}",
        "type: {{ fromYaml (printf \"[%s\" .imports.password) }}",
        "type: {{ add (index .imports.password 100) 1 }}",
        "type: {{ include .imports.password . }}",
        "target: {import: {{ .imports.password | quote }}}",
        "type: t\n            target: {name: x, import: c, key: {{ .imports.password }}}",
        "type: t\n            dependsOn: [{{ .imports.password }}]",
        "type: t\n            labels: {\"{{ .imports.password }} x\": y}",
        "type: t\n            labels: {x: \"{{ .imports.password }} y\"}",
        "type: t\n          - {name: {{ .imports.password }}, type: t}\n          - {name: {{ .imports.password }}, type: t}",
        "type: {}\n            x: {{ .imports.password }}",
    ] {
        check(template, "{type: string}", &password);
    }
    for schema in [
        "{type: integer}",
        "{enum: [other]}",
        "{pattern: '^x'}",
        "{const: x}",
        "{format: ipv4}",
        "{maxLength: 3}",
    ] {
        check("type: t", schema, &password);
    }
}

#[test]
fn secrets_that_cannot_be_read() {
    for value in [format!("'[{CANARY}'"), format!("\"{CANARY}: a: b\"")] {
        check("type: t", "{type: string}", &secret(&value));
    }
    let broken =
        format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: login}}\ndata:\n  password: \"{CANARY}\"\n");
    check("type: t", "{type: string}", &broken);
    let number = "apiVersion: v1\nkind: Secret\nmetadata: {name: login}\ndata: {password: 7}\n";
    check("type: t", "{type: string}", number);
    let malformed = format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: login}}\nstringData:\n  password: [{CANARY}\n"
    );
    check("type: t", "{type: string}", &malformed);
    let unknown =
        format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: login}}\nstrData: {{password: {CANARY}}}\n");
    check("type: t", "{type: string}", &unknown);
}

/// A message shows a line only if the object is known to have no secret values.
#[test]
fn objects_of_no_known_kind() {
    for text in [
        format!("password: {CANARY}\n"),
        format!("kind: Secret\nstringData: {{password: {CANARY}}}\n"),
        format!("apiVersion: v1\nkind: Secrets\nmetadata: {{name: x, password: {CANARY}}}\n"),
        format!("apiVersion: v1\nkind: List\nitems: {CANARY}\n"),
        format!("kind: Installation\n---\nkind: Secret\nx: [{CANARY}\n"),
        format!(
            "apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: Installation\n---\nkind: Secret # {CANARY}\npw: {CANARY}: x\n"
        ),
        format!(
            "apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: Installation\n---\n{{\"kind\": \"Secret\", \"pw\": \"{CANARY}\", [}}\n"
        ),
        format!(
            "apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: Installation\napiVersion: v1\nkind: Secret\npw: {CANARY}: x\n"
        ),
        format!(
            "apiVersion: v1\nkind: List\nitems:\n  - apiVersion: landscaper.gardener.cloud/v1alpha1\n    kind: Installation\n    metadata: {{name: a}}\n    spec: {{}}\n  - apiVersion: v1\n    kind: Secret\n    metadata: {{name: b}}\n    data:\n      pw: {CANARY}\n"
        ),
        format!(
            "{{\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": [{{\"apiVersion\": \"landscaper.gardener.cloud/v1alpha1\", \"kind\": \"Installation\", \"metadata\": {{\"name\": \"a\"}}, \"spek\": 1}}, {{\"apiVersion\": \"v1\", \"kind\": \"Secret\", \"metadata\": {{\"name\": \"b\"}}, \"stringData\": {{\"pw\": \"{CANARY}\"}}}}]}}\n"
        ),
        format!(
            "apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: DataObject\nmetadata: {{name: x, nam: {CANARY}}}\ndata: {CANARY}\n"
        ),
    ] {
        let run = groundwork(&["render", "-"], &text);
        assert_eq!((run.code, run.out.as_str()), (2, ""));
        assert!(!run.err.contains(CANARY), "{}", run.err);
    }
}

/// The message of an author's own check shows, without the imported values in it.
#[test]
fn import_executions_that_complain() {
    let input = format!("{}---\n{}", installation("type: t", "{type: string}"), secret(CANARY)).replace(
        "          deployExecutions:",
        "          importExecutions:\n          - name: check\n            type: GoTemplate\n            template: |\n              \
         bindings: {derived: \"x-{{ .imports.password }}\"}\n              errors: [\"bad {{ .imports.password }}\"]\n          deployExecutions:",
    );
    let run = groundwork(&["render", "-", "-o", "json"], &input);
    assert_eq!(run.code, 1);
    assert!(run.err.contains("import validation failed: bad [...]"), "{}", run.err);
    assert!(!run.err.contains(CANARY) && !run.out.contains(CANARY));
}
