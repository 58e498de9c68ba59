//! Tests of `groundwork template helm` (`helm.md` 17).

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::groundwork;

fn write(folder: &TempDir, files: &[(&str, &str)]) -> String {
    for (path, text) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder.path().display().to_string()
}

const DESCRIPTION: (&str, &str) = ("Chart.yaml", "apiVersion: v2\nname: web\nversion: 0.1.0\n");

#[test]
fn a_chart_in_a_directory_is_printed_as_helm_prints_it() {
    let folder = TempDir::new().unwrap();
    let chart = write(
        &folder,
        &[
            DESCRIPTION,
            (".helmignore", "*.bak\n"),
            ("values.yaml", "port: 80\nlist: [a]\n"),
            ("templates/a.bak", "{{ broken"),
            (
                "templates/b.yaml",
                "kind: Service\nport: {{ .Values.port }}\nlist: {{ .Values.list }}\nx: {{ .Values.x }}\n",
            ),
            (
                "templates/hook.yaml",
                "kind: Job\nmetadata: {name: j, annotations: {helm.sh/hook: pre-install}}\n",
            ),
            (
                "templates/a.yaml",
                "kind: ConfigMap\nname: {{ .Release.Name }} {{ .Release.Namespace }} {{ .Capabilities.KubeVersion }}\n",
            ),
            ("crds/c.yaml", "kind: CustomResourceDefinition\n"),
            ("templates/NOTES.txt", "notes\n"),
        ],
    );
    let run = groundwork(
        &["template", "helm", &chart, "--set", "port=81,list={b,c}", "--kube-version", "1.30"],
        "",
    );
    let hook = "---\n# Source: web/templates/hook.yaml\nkind: Job\nmetadata: {name: j, annotations: {helm.sh/hook: pre-install}}\n";
    let expected = format!(
        "---\n# Source: web/templates/a.yaml\nkind: ConfigMap\nname: release-name default v1.30\n\
         ---\n# Source: web/templates/b.yaml\nkind: Service\nport: 81\nlist: [b c]\nx:\n{hook}"
    );
    assert_eq!((run.code, run.out.as_str(), run.err.as_str()), (0, expected.as_str(), ""));
    let values = folder.path().join("own.yaml").display().to_string();
    fs::write(&values, "x: from-file\nport: 1\n").unwrap();
    let text = folder.path().join("text").display().to_string();
    fs::write(&text, "of a file").unwrap();
    let (json, file) = ("port=2.5", format!("x={text}"));
    let run = groundwork(
        &[
            "template",
            "helm",
            &chart,
            "--name",
            "n",
            "--namespace",
            "ns",
            "-f",
            &values,
            "--set-json",
            json,
            "--set-file",
            &file,
            "--include-crds",
        ],
        "",
    );
    let expected = format!(
        "---\n# Source: web/crds/c.yaml\nkind: CustomResourceDefinition\n\n\
         ---\n# Source: web/templates/a.yaml\nkind: ConfigMap\nname: n ns v1.34.0\n\
         ---\n# Source: web/templates/b.yaml\nkind: Service\nport: 2.5\nlist: [a]\nx: of a file\n{hook}"
    );
    assert_eq!((run.code, run.out.as_str()), (0, expected.as_str()));
}

#[test]
fn what_cannot_be_rendered_is_told() {
    let folder = TempDir::new().unwrap();
    let chart = write(
        &folder,
        &[DESCRIPTION, ("templates/t.yaml", "a: {{ required \"give a name\" .Values.name }}\n")],
    );
    let run = groundwork(&["template", "helm", &chart], "");
    assert_eq!((run.code, run.out.as_str()), (1, ""));
    assert!(run.err.contains("execution error at (web/templates/t.yaml:1:6): give a name"), "{}", run.err);
    let run = groundwork(&["template", "helm", &chart, "--set", "name"], "");
    assert_eq!(run.code, 2);
    assert!(run.err.contains("failed parsing --set data: key \"name\" has no value"), "{}", run.err);
    let run = groundwork(&["template", "helm", &chart, "--values", "none.yaml"], "");
    assert_eq!(run.code, 2);
    let run = groundwork(&["template", "helm", &folder.path().join("none").display().to_string()], "");
    assert_eq!(run.code, 2);
}

/// Message and exit code of an invalid release name are those of Helm.
#[test]
fn names_of_releases_are_those_that_helm_takes() {
    let folder = TempDir::new().unwrap();
    let chart = write(&folder, &[DESCRIPTION, ("templates/t.yaml", "a: {{ .Release.Name }}\n")]);
    let long = "a".repeat(54);
    for name in ["Rel", "a_b", "a-", "-a", "a..b", &long] {
        let run = groundwork(&["template", "helm", &chart, &format!("--name={name}")], "");
        assert_eq!((run.code, run.out.as_str()), (2, ""), "{name}");
        let expected = format!("release name \"{name}\": invalid release name, must match regex ^[a-z0-9](");
        assert!(run.err.contains(&expected), "{}", run.err);
    }
    let run = groundwork(&["template", "helm", &chart, "--name", ""], "");
    assert_eq!(run.code, 2);
    assert!(run.err.contains("release name \"\": no name provided"), "{}", run.err);
    let run = groundwork(&["template", "helm", &chart, "--name", &long[..53]], "");
    assert_eq!(run.code, 0);
}

#[test]
fn parts_of_a_chart_are_printed() {
    let folder = TempDir::new().unwrap();
    let job = |name: &str, event: &str| {
        format!("kind: Job\nmetadata: {{name: {name}, annotations: {{helm.sh/hook: {event}}}}}\n")
    };
    let (hook, test) = (job("h", "pre-install"), job("t", "test"));
    let chart = write(
        &folder,
        &[
            DESCRIPTION,
            ("templates/a.yaml", "kind: A\n"),
            ("templates/b.yaml", "kind: B\n"),
            ("templates/h.yaml", &hook),
            ("templates/tests/t.yaml", &test),
        ],
    );
    let document = |file: &str, text: &str| format!("---\n# Source: web/templates/{file}\n{text}");
    let (a, b) = (document("a.yaml", "kind: A\n"), document("b.yaml", "kind: B\n"));
    let (hook, test) = (document("h.yaml", &hook), document("tests/t.yaml", &test));
    let check = |arguments: &[&str], expected: &str| {
        let run = groundwork(&[&["template", "helm", &chart], arguments].concat(), "");
        assert_eq!((run.code, run.out.as_str(), run.err.as_str()), (0, expected, ""), "{arguments:?}");
    };
    check(&[], &format!("{a}{b}{hook}{test}"));
    check(&["--no-hooks"], &format!("{a}{b}"));
    check(&["--skip-tests"], &format!("{a}{b}{hook}"));
    check(&["--show-only", "templates/b.yaml", "-s", "templates/a.yaml"], &format!("{b}{a}"));
    check(&["-s", "templates/tests/*"], &test);
    for arguments in [&["-s", "templates/none.yaml"][..], &["-s", "templates/h.yaml", "--no-hooks"]] {
        let run = groundwork(&[&["template", "helm", &chart], arguments].concat(), "");
        assert_eq!((run.code, run.out.as_str()), (1, ""), "{arguments:?}");
        let expected = format!("could not find template {} in chart", arguments[1]);
        assert!(run.err.contains(&expected), "{}", run.err);
    }
}

#[test]
fn what_is_no_yaml_is_shown_to_those_who_ask() {
    let folder = TempDir::new().unwrap();
    let chart =
        write(&folder, &[DESCRIPTION, ("templates/a.yaml", "a: [\n"), ("templates/b.yaml", "b: 1\n")]);
    let run = groundwork(&["template", "helm", &chart], "");
    assert_eq!((run.code, run.out.as_str()), (1, ""));
    assert!(run.err.contains("YAML parse error on web/templates/a.yaml"), "{}", run.err);
    assert!(run.err.contains("Use --debug flag to render out invalid YAML"), "{}", run.err);
    let run = groundwork(&["template", "helm", &chart, "--debug", "-s", "templates/a.yaml"], "");
    assert_eq!((run.code, run.out.as_str()), (1, "---\n# Source: web/templates/a.yaml\na: [\n"));
    assert!(run.err.contains("YAML parse error on web/templates/a.yaml"), "{}", run.err);
    assert!(!run.err.contains("--debug"), "{}", run.err);
}

/// `helm.md` 2.2, R2: a link must not lead out of the chart.
#[cfg(unix)]
#[test]
fn links_stay_inside_of_the_chart() {
    let folder = TempDir::new().unwrap();
    let chart = write(&folder, &[DESCRIPTION, ("parts/t.yaml", "kind: Pod\n")]);
    fs::create_dir(folder.path().join("templates")).unwrap();
    let link =
        |target: &Path, name: &str| std::os::unix::fs::symlink(target, folder.path().join(name)).unwrap();
    link(Path::new("../parts/t.yaml"), "templates/t.yaml");
    let run = groundwork(&["template", "helm", &chart], "");
    assert_eq!((run.code, run.out.as_str()), (0, "---\n# Source: web/templates/t.yaml\nkind: Pod\n"));
    link(Path::new("/etc/hosts"), "templates/hosts.yaml");
    let run = groundwork(&["template", "helm", &chart], "");
    assert_eq!((run.code, run.out.as_str()), (2, ""));
    assert!(run.err.contains("points outside the chart"), "{}", run.err);
}
