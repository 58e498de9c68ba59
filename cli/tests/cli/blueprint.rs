//! Tests of `groundwork blueprint`.

use std::fs;
use std::path::{Path, PathBuf};

use groundwork_testkit::page;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{examples, groundwork};

/// Creates a folder with files.
fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = TempDir::new().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

fn path_of(folder: &TempDir) -> String {
    folder.path().display().to_string()
}

/// Returns the folders that have a blueprint.
fn blueprints(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        if folder.join("blueprint.yaml").is_file() {
            found.push(folder.clone());
        }
        let entries = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        open.extend(entries.filter(|path| path.is_dir()));
    }
    found.sort();
    found
}

/// Creates the skeleton of the chapter, with the files that it names.
fn skeleton() -> TempDir {
    let chapter = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/blueprints.md");
    let chapter = fs::read_to_string(chapter).unwrap();
    let (_, rest) = chapter.split_once("Complete skeleton:\n\n```yaml\n").unwrap();
    let (blueprint, _) = rest.split_once("```").unwrap();
    folder(&[
        ("blueprint.yaml", blueprint),
        ("deploy.tmpl", "deployItems: []\n"),
        ("children/edges.tmpl", "subinstallations: []\n"),
        (
            "children/dns.yaml",
            "name: dns\nblueprint: {ref: 'cd://resources/dns'}\nimports: {targets: [{name: c, target: cluster}]}\n",
        ),
    ])
}

/// B-13, B-20, B-37, C-01, C-05: the skeleton, and conditional imports without a type, are valid,
/// and `docs` lists them.
#[test]
fn the_skeleton_is_valid() {
    let skeleton = skeleton();
    let path = path_of(&skeleton);
    let run = groundwork(&["blueprint", "validate", &path], "");
    assert_eq!((run.code, run.out, run.err), (0, format!("{path}: valid\n"), String::new()));
    let run = groundwork(&["blueprint", "docs", "--title", "Skeleton", &path], "");
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    assert!(run.out.starts_with("# Skeleton\n\n## Imports\n\n| Name |"), "{}", run.out);
    assert!(
        run.out.contains("| ↳ `backupToken` | data: string | yes, if `backup` is given |"),
        "{}",
        run.out
    );
    assert_eq!(run.out, groundwork(&["blueprint", "docs", "--title", "Skeleton", &path], "").out);
    let run = groundwork(&["blueprint", "graph", &path], "");
    assert_eq!(run.code, 0);
    assert!(
        run.out.contains("import cluster (target)\n  target cluster -> child dns, import c\n"),
        "{}",
        run.out
    );
    let run = groundwork(&["blueprint", "graph", "--dot", &path], "");
    assert!(run.out.starts_with("digraph blueprint {\n") && run.out.ends_with("}\n"), "{}", run.out);

    let conditional = folder(&[(
        "blueprint.yaml",
        "imports:\n- name: backup-storage-url\n  required: false\n  schema: {type: string}\n  imports:\n  \
         - name: backup-storage-password\n    schema: {type: string}\n",
    )]);
    assert_eq!(groundwork(&["blueprint", "validate", &path_of(&conditional)], "").code, 0);
}

/// B-60: the example of import executions, as the chapter prints it, with `scheme` for `schema`.
#[test]
fn the_example_of_import_executions_is_valid() {
    let folder = folder(&[(
        "blueprint.yaml",
        r#"
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
"#,
    )]);
    let run = groundwork(&["blueprint", "validate", &path_of(&folder)], "");
    assert_eq!((run.code, run.err.as_str()), (0, ""));
}

/// Reports all findings at once, each with its line.
#[test]
fn findings_are_shown_with_their_lines() {
    let folder = folder(&[
        (
            "blueprint.yaml",
            "imports:\n- {name: a}\n- name: b\n  schema: {}\n  imports: [{name: c, schema: {}}]\ndeployExecutions:\n\
             - name: main\n  type: GoTemplate\n  file: main.tpl\n- {type: GoTemplate, template: ''}\n",
        ),
        ("main.tpl", "deployItems:\n- {{ if }}\n"),
    ]);
    let path = path_of(&folder);
    let run = groundwork(&["blueprint", "validate", &path], "");
    assert_eq!((run.code, run.out), (1, format!("{path}: 3 errors, 1 warning\n")));
    let expected = [
        format!(
            "error: imports[0][a]: Required value: either schema or targetType must not be empty\n --> \
             {path}/blueprint.yaml:2:3\n  |\n2 | - {{name: a}}\n  |   ^\n"
        ),
        format!(
            "error: imports[1][b]: Invalid value: \"b\": conditional imports on required import\n --> \
             {path}/blueprint.yaml:3:3\n  |\n3 | - name: b\n  |   ^\n"
        ),
        format!(
            "warning: deployExecutions[1].name: name must be defined\n  --> {path}/blueprint.yaml:10:3\n   |\n10 | - {{type: \
             GoTemplate, template: ''}}\n   |   ^\n"
        ),
        format!(
            "error: deployExecutions[0][main]: template: execution:2: missing value for if\n --> {path}/main.tpl:2\n  |\n2 | - \
             {{{{ if }}}}\n"
        ),
    ];
    assert_eq!(run.err, expected.concat());
    for command in ["graph", "docs"] {
        let run = groundwork(&["blueprint", command, &path], "");
        assert_eq!((run.code, run.out.as_str()), (1, ""));
        assert!(run.err.contains("conditional imports on required import") && !run.err.contains("warning"));
    }

    let run = groundwork(&["blueprint", "validate", "-o", "json", &path], "");
    assert_eq!((run.code, run.err.as_str()), (1, ""));
    let Value::Array(list) = run.json() else { panic!("{}", run.out) };
    assert_eq!(
        (&list[1], list.len()),
        (
            &json!({
                "path": path, "severity": "error", "subinstallations": [],
                "message": "imports[1][b]: Invalid value: \"b\": conditional imports on required import",
                "file": "blueprint.yaml", "line": 3, "column": 3,
            }),
            4
        )
    );
    assert_eq!(list[3]["column"], Value::Null);
}

/// Findings inside of nested blueprints have the path to their blueprint.
#[test]
fn nested_blueprints_are_validated() {
    let folder = folder(&[(
        "blueprint.yaml",
        "subinstallations:\n- name: dns\n  blueprint:\n    filesystem:\n      blueprint.yaml: |\n        imports:\n        - {name: a}\n",
    )]);
    let path = path_of(&folder);
    let run = groundwork(&["blueprint", "validate", &path], "");
    assert_eq!(run.code, 1);
    let expected = format!(
        "error: subinstallation \"dns\": imports[0][a]: Required value: either schema or targetType must not be empty\n --> \
         blueprint.yaml (subinstallation dns of {path}):2:3\n"
    );
    assert!(run.err.starts_with(&expected), "{}", run.err);
    let run = groundwork(&["blueprint", "validate", "-o", "json", &path], "");
    assert_eq!(run.json()[0]["subinstallations"], json!(["dns"]));
}

/// An archive of a blueprint gives the same results as its directory.
#[test]
fn archives_are_read() {
    let folder = skeleton();
    let mut tar = tar::Builder::new(Vec::new());
    tar.append_dir_all(".", folder.path()).unwrap();
    let plain = tar.into_inner().unwrap();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    std::io::Write::write_all(&mut gzip, &plain).unwrap();
    let archives = TempDir::new().unwrap();
    let docs = groundwork(&["blueprint", "docs", "--title", "shop", &path_of(&folder)], "").out;
    for (name, bytes) in [("shop.tar", plain), ("shop.tar.gz", gzip.finish().unwrap())] {
        let path = archives.path().join(name).display().to_string();
        fs::write(&path, bytes).unwrap();
        let run = groundwork(&["blueprint", "validate", &path], "");
        assert_eq!((run.code, run.out, run.err), (0, format!("{path}: valid\n"), String::new()));
        assert_eq!(groundwork(&["blueprint", "docs", &path], "").out, docs);
    }
}

/// B-09: paths that are not blueprints give a message that says so.
#[test]
fn what_is_no_blueprint_is_told_so() {
    let folder = folder(&[
        ("shop/blueprint/blueprint.yaml", ""),
        ("text", "no archive"),
        ("broken.tgz", "\u{1f}\u{8b}"),
        ("list/blueprint.yaml", "[]\n"),
    ]);
    let path = |name: &str| folder.path().join(name).display().to_string();
    fs::write(path("broken.tgz"), [0x1f, 0x8b, 8, 0]).unwrap();
    for (name, expected) in [
        ("shop", "is not a blueprint: blueprint.yaml: file does not exist; there is one in "),
        ("gone", "cannot read "),
        ("text", "is neither a directory nor a tar archive (plain or compressed with gzip)"),
        ("broken.tgz", "the archive is broken"),
        ("shop/blueprint/blueprint.yaml", "is a file of a blueprint; give the directory that it is in"),
    ] {
        for command in ["validate", "graph", "docs"] {
            let run = groundwork(&["blueprint", command, &path(name)], "");
            assert_eq!((run.code, run.out.as_str()), (2, ""), "{name}");
            assert!(run.err.starts_with("error: ") && run.err.contains(expected), "{name}: {}", run.err);
        }
    }
    let run = groundwork(&["blueprint", "validate", &path("list")], "");
    assert_eq!(run.code, 1, "{}", run.err);
    // A path that cannot be used does not hide the results of the others.
    let run = groundwork(&["blueprint", "validate", "-o", "json", &path("gone"), &path("list")], "");
    assert_eq!((run.code, run.json().as_array().unwrap().len()), (2, 2), "{}", run.out);
    let run = groundwork(&["blueprint", "validate", &path("gone"), &path("shop/blueprint")], "");
    assert_eq!((run.code, run.out), (2, format!("{}: valid\n", path("shop/blueprint"))));
    assert_eq!(groundwork(&["blueprint", "validate"], "").code, 2);
}

/// Blueprints of the examples and of real users: no finding, a graph and a page for each.
#[test]
fn blueprints_that_are_there() {
    let mut paths = blueprints(&examples());
    assert!(paths.len() >= 4);
    paths.extend(
        groundwork_testkit::fixture("landscaper/guided-tour").iter().flat_map(|folder| blueprints(folder)),
    );
    let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    let mut arguments = vec!["blueprint", "validate", "-o", "json"];
    arguments.extend(paths.iter().map(String::as_str));
    let run = groundwork(&arguments, "");
    assert_eq!(run.code, 0, "{}", run.out);
    for path in &paths {
        for command in ["graph", "docs"] {
            let run = groundwork(&["blueprint", command, path], "");
            assert_eq!((run.code, run.err.as_str()), (0, ""), "{path}");
            assert!(!run.out.is_empty());
        }
    }
}

/// The page for authors shows the real output of the command.
#[test]
fn the_page_about_blueprints() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let text = fs::read_to_string(root.join("docs/blueprints.md")).unwrap();
    let steps = page::steps("blueprints.md", &text);
    assert!(steps.len() >= 4);
    let folder = TempDir::new().unwrap();
    std::os::unix::fs::symlink(root.join("examples"), folder.path().join("examples")).unwrap();
    let programs = Path::new(env!("CARGO_BIN_EXE_groundwork")).parent().unwrap().display().to_string();
    let output = std::process::Command::new("bash")
        .args(["-c", &page::script(&steps, folder.path())])
        .current_dir(folder.path())
        .env("PATH", format!("{programs}:{}", std::env::var("PATH").unwrap()))
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(page::difference(&steps, folder.path()), None, "{errors}");
    assert!(output.status.success(), "{errors}");
}

/// I-87, I-111: imports of data mappings, and exports whose schema has a property with a dot in its
/// name.
#[test]
fn declarations_of_data_mappings_are_valid() {
    let declared = folder(&[(
        "blueprint.yaml",
        "apiVersion: landscaper.gardener.cloud/v1alpha1
kind: Blueprint
imports:
- name: providers
  type: data
  schema: {type: array, items: {type: object}}
- name: identifier
  type: data
  schema: {type: string}
- name: aws-credentials
  type: data
  schema: {type: object, properties: {accessKeyID: {type: string}, secretAccessKey: {type: string}}, required: [accessKeyID]}
exports:
- name: credentials
  type: data
  schema: {type: object, properties: {user.name: {type: string}, password: {type: string}}}
",
    )]);
    let path = path_of(&declared);
    let run = groundwork(&["blueprint", "validate", &path], "");
    assert_eq!((run.code, run.out, run.err), (0, format!("{path}: valid\n"), String::new()));
}

/// B-01, B-80, I-49: one blueprint, with a file in a folder of its own, rendered for two
/// Installations. Numbers, a Target and a list of components are their imports.
#[test]
fn one_blueprint_serves_many() {
    let blueprint = "apiVersion: landscaper.gardener.cloud/v1alpha1
kind: Blueprint
imports:
- {name: replicas, type: data, schema: {type: integer}}
- {name: components, type: data, schema: {type: array}}
- {name: cluster, type: target, targetType: landscaper.gardener.cloud/kubernetes-cluster}
deployExecutions:
- {name: default, type: GoTemplate, file: /templates/items.yaml}
";
    let items = "deployItems:
- name: app
  type: landscaper.gardener.cloud/mock
  target: {import: cluster}
  config:
    apiVersion: mock.deployer.landscaper.gardener.cloud/v1alpha1
    kind: ProviderConfiguration
    export:
      replicas: {{ .imports.replicas }}
      first: {{ (index .imports.components 0).name }}
      motd: {{ readFile \"/files/deep/motd.txt\" | toString }}
";
    let installation = |name: &str| {
        json!({
            "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Installation",
            "metadata": {"name": name, "namespace": "team"},
            "spec": {
                "blueprint": {"inline": {"filesystem": {
                    "blueprint.yaml": blueprint, "templates": {"items.yaml": items}, "files": {"deep": {"motd.txt": "hello"}},
                }}},
                "imports": {
                    "data": [{"name": "replicas", "dataRef": format!("{name}-replicas")}, {"name": "components", "dataRef": "components"}],
                    "targets": [{"name": "cluster", "target": "cluster"}],
                },
            },
        })
    };
    let data = |name: &str, data: Value| {
        json!({"apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "DataObject",
            "metadata": {"name": name, "namespace": "team"}, "data": data})
    };
    let target = json!({"apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Target",
        "metadata": {"name": "cluster", "namespace": "team"},
        "spec": {"type": "landscaper.gardener.cloud/kubernetes-cluster", "config": {"kubeconfig": "{}"}}});
    let components = json!([{"name": "example.org/echo", "version": "v1"}]);
    let objects = [
        installation("small"),
        installation("large"),
        data("small-replicas", json!(1)),
        data("large-replicas", json!(5)),
        data("components", components),
        target,
    ];
    let text: String = objects.iter().map(|object| format!("---\n{object}\n")).collect();
    let written = folder(&[("all.yaml", &text)]);
    let run = groundwork(&["render", "-o", "json", &path_of(&written)], "");
    assert_eq!(run.code, 0, "{}", run.err);
    let list = run.json();
    let made: Vec<Value> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|object| object["kind"] == "DeployItem")
        .map(|item| item["spec"]["config"]["export"].clone())
        .collect();
    let export = |replicas: u32| json!({"replicas": replicas, "first": "example.org/echo", "motd": "hello"});
    assert_eq!(made, [export(5), export(1)]);
}
