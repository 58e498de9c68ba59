//! Tests of `groundwork template go`.

use std::fs;

use serde_json::json;
use tempfile::TempDir;

use super::groundwork;

fn file(folder: &TempDir, name: &str, text: &str) -> String {
    let path = folder.path().join(name);
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn a_file_is_rendered_with_data_and_further_templates() {
    let folder = TempDir::new().unwrap();
    let template =
        file(&folder, "main.tpl", r#"{{ template "greet" .name }} {{ template "b.tpl" }} {{ .size }}"#);
    let library = file(&folder, "a.tpl", r#"{{ define "greet" }}Hello {{ . | upper }}{{ end }}"#);
    let other = file(&folder, "b.tpl", "B");
    for (name, data) in
        [("d.json", r#"{"name": "web", "size": 2500000}"#), ("d.yaml", "name: web\nsize: 2500000\n")]
    {
        let data = file(&folder, name, data);
        let run =
            groundwork(&["template", "go", &template, "--data", &data, "--define", &library, &other], "");
        assert_eq!((run.code, run.out.as_str(), run.err.as_str()), (0, "Hello WEB B 2.5e+06", ""));
    }
    let run = groundwork(&["template", "go", "-"], "{{ . }}\u{1b}[1m");
    assert_eq!((run.code, run.out.as_str()), (0, "<no value>\u{1b}[1m"));
}

#[test]
fn an_error_shows_its_line_and_prints_nothing_else() {
    let folder = TempDir::new().unwrap();
    let template = file(&folder, "t.tpl", "text\n{{ .nope }}\n");
    let data = file(&folder, "data.json", "{}");
    let run = groundwork(&["template", "go", &template, "--data", &data, "--missingkey", "error"], "");
    assert_eq!((run.code, run.out.as_str()), (1, ""));
    let expected =
        r#"error: template: t.tpl:2:3: executing "t.tpl" at <.nope>: map has no entry for key "nope""#;
    assert!(run.err.contains(expected), "{}", run.err);
    assert!(run.err.contains("2 | {{ .nope }}\n  |    ^\n"), "{}", run.err);

    let broken = file(&folder, "broken.tpl", "{{ if }}");
    let run = groundwork(&["template", "go", &broken], "");
    assert_eq!((run.code, run.out.as_str()), (1, ""));
    assert!(run.err.contains("template: broken.tpl:1: missing value for if"), "{}", run.err);

    let run = groundwork(&["template", "go", "no-such-file"], "");
    assert_eq!(run.code, 2);
    let data = file(&folder, "bad.json", "{");
    assert_eq!(groundwork(&["template", "go", &template, "--data", &data], "").code, 2);
}

/// Operators set the limits of Go and spiff templates, charts and blueprints, and templates that
/// exceed a limit end.
#[test]
fn limits_can_be_set() {
    let folder = TempDir::new().unwrap();
    let busy = file(&folder, "busy.tpl", "{{ range 1200000 }}{{ end }}");
    let large = file(&folder, "large.tpl", "{{ $text := repeat 2000000 \"x\" }}{{ len $text }}");
    let spiff = file(&folder, "spiff.yaml", "n: (( sum[[1..320000]|0|s,i|-> s + i] ))\n");
    for (command, template, limit, error) in [
        ("go", &busy, ["--template-work", "1"], "exceeds the limit of 1000000 steps"),
        ("go", &large, ["--template-memory", "1"], "hold more than the limit of 1048576 bytes"),
        ("spiff", &spiff, ["--template-work", "1"], "takes more than 1000000 steps"),
    ] {
        let run = groundwork(&["template", command, template], "");
        assert_eq!(run.code, 0, "{}", run.err);
        let run = groundwork(&["template", command, template, limit[0], limit[1]], "");
        assert_eq!((run.code, run.out.as_str()), (1, ""), "{template}");
        assert!(run.err.contains(error), "{}", run.err);
    }
    assert_eq!(groundwork(&["template", "go", &busy, "--template-work", "0"], "").code, 2);

    let chart = folder.path().join("chart");
    fs::create_dir_all(chart.join("templates")).unwrap();
    fs::write(chart.join("Chart.yaml"), "{apiVersion: v2, name: c, version: 0.1.0}").unwrap();
    fs::write(chart.join("templates/t.yaml"), "{{ range 4800000 }}{{ end }}").unwrap();
    let chart = chart.display().to_string();
    assert_eq!(groundwork(&["template", "helm", &chart], "").code, 0);
    let run = groundwork(&["template", "helm", &chart, "--template-work", "1"], "");
    assert!(run.code == 1 && run.err.contains("exceeds the limit of 4000000 steps"), "{}", run.err);
}

/// Executions of one blueprint share a limit, and data mappings have it, too.
#[test]
fn limits_of_a_blueprint_can_be_set() {
    let landscape = super::EchoServer::new();
    landscape.write(
        "other.yaml",
        &json!({
            "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Installation", "metadata": {"name": "busy"},
            "spec": {
                "blueprint": {"inline": {"filesystem": {"blueprint.yaml": json!({
                    "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Blueprint",
                    "imports": [{"name": "n", "schema": {"type": "integer"}}],
                    "deployExecutions": (0..6).map(|number| json!({
                        "name": format!("e{number}"), "type": "GoTemplate", "template": "{{ range 800000 }}{{ end }}deployItems: []",
                    })).collect::<Vec<_>>(),
                }).to_string()}}},
                "importDataMappings": {"n": "(( sum[[1..8000]|0|s,i|-> s + i] ))"},
            },
        })
        .to_string(),
    );
    let run = landscape.render(&[]);
    assert_eq!(run.code, 0, "{}", run.err);
    let run = landscape.render(&["--template-work", "1"]);
    assert!(run.code == 1 && run.err.contains("more than the limit of 1000000 steps"), "{}", run.err);

    landscape.replace("other.yaml", "1..8000", "1..320000");
    let run = landscape.render(&["--template-work", "1"]);
    assert!(run.code == 1 && run.err.contains("takes more than 1000000 steps"), "{}", run.err);
    assert_eq!(landscape.render(&[]).code, 0);
}
