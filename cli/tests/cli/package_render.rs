//! Tests of `groundwork packages render` on a package in a folder.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::{Run, groundwork};

const CM: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a # why\n";

fn kptfile(functions: &str) -> String {
    format!(
        "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: p\npipeline:\n  mutators:\n  - {{image: set-namespace:v0.4, configMap: {{namespace: edge}}}}\n{functions}"
    )
}

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = TempDir::new().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

/// Returns all files with their contents.
fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let files = entries.filter(|entry| entry.file_type().unwrap().is_file());
    files.map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())).collect()
}

fn render(folder: &TempDir, arguments: &[&str]) -> Run {
    let path = folder.path().display().to_string();
    groundwork(&[&["packages", "render", &path], arguments].concat(), "")
}

/// A folder is rendered in place; a second run changes only the results of the functions
/// (`packagevariants.md` 8.2).
#[test]
fn a_folder_is_rendered_in_place() {
    let before = kptfile("");
    let folder =
        folder(&[("Kptfile", &before), ("a.yaml", CM), ("README.md", "x"), (".git/config.yaml", "{{")]);
    fs::write(folder.path().join("blob"), [0xff, 0xfe]).unwrap();
    let dry = render(&folder, &["--dry-run"]);
    assert_eq!((dry.code, dry.err.as_str()), (0, ""));
    assert!(
        dry.out.contains("--- a/a.yaml\n+++ b/a.yaml\n@@ -2,3 +2,4 @@\n kind: ConfigMap\n metadata:\n   name: a # why\n+  namespace: edge\n"),
        "{}",
        dry.out
    );
    assert_eq!(fs::read_to_string(folder.path().join("Kptfile")).unwrap(), before);
    let run = render(&folder, &[]);
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    let lines: Vec<&str> = run.out.lines().collect();
    assert_eq!(lines[0], "ghcr.io/kptdev/krm-functions-catalog/set-namespace:v0.4: ok");
    assert!(
        lines.contains(&"  info: namespace [default] updated to \"edge\", 1 value(s) changed"),
        "{}",
        run.out
    );
    assert_eq!(lines[lines.len() - 2..], ["Kptfile changed", "a.yaml changed"]);
    let found = contents(folder.path());
    assert_eq!(found["a.yaml"], format!("{CM}  namespace: edge\n").into_bytes());
    assert_eq!((&found["blob"][..], &found["README.md"][..]), (&[0xff, 0xfe][..], &b"x"[..]));
    assert!(String::from_utf8_lossy(&found["Kptfile"]).contains("reason: RenderSuccess"));
}

/// Programs run only if the user allows them. Files that they delete or create change in the
/// folder, but never outside of it (`packagevariants.md` 8.4, 3).
#[test]
fn programs_that_are_allowed() {
    let exec = |awk: &str| kptfile(&format!("  - exec: |-\n      awk '{awk}'\n"));
    let rename = exec("{ sub(/[a][.]yaml/, \"d/b.yaml\"); print }");
    let moving = folder(&[("Kptfile", &rename), ("a.yaml", CM)]);
    let before = contents(moving.path());
    let run = render(&moving, &[]);
    assert_eq!(run.code, 1);
    assert!(
        run.err.ends_with("must run with `--allow-exec` option to allow running function binaries\n"),
        "{}",
        run.err
    );
    assert_eq!(contents(moving.path()), before);
    let run = render(&moving, &["--allow-exec", "awk"]);
    assert_eq!((run.code, run.err.as_str()), (0, ""), "{}", run.out);
    assert!(run.out.ends_with("Kptfile changed\na.yaml removed\nd/b.yaml added\n"), "{}", run.out);
    assert!(!moving.path().join("a.yaml").exists() && moving.path().join("d/b.yaml").exists());

    let elsewhere = TempDir::new().unwrap();
    let linked = folder(&[("Kptfile", &rename), ("a.yaml", CM)]);
    std::os::unix::fs::symlink(elsewhere.path(), linked.path().join("d")).unwrap();
    let run = render(&linked, &["--allow-exec", "awk"]);
    assert_eq!(run.code, 2);
    assert!(run.err.contains("cannot write d/b.yaml, a file that a function created: "), "{}", run.err);
    assert_eq!((contents(linked.path()), contents(elsewhere.path())), (before, BTreeMap::new()));
}

/// After a failure no file is written, unless the package asks for it (`packagevariants.md` 8.1,
/// 8.2).
#[test]
fn a_function_that_fails() {
    let text = kptfile("  validators:\n  - {image: set-image}\n");
    let failing = folder(&[("Kptfile", &text), ("a.yaml", CM)]);
    let before = contents(failing.path());
    let run = render(&failing, &[]);
    assert_eq!(run.code, 1);
    assert!(
        run.out.contains("set-namespace:v0.4: ok\n") && run.out.contains("set-image: exit code 1\n"),
        "{}",
        run.out
    );
    assert!(run.err.contains("package \".\": function \"set-image\": "), "{}", run.err);
    assert_eq!(contents(failing.path()), before);
    let saves =
        text.replace("  name: p\n", "  name: p\n  annotations: {kpt.dev/save-on-render-failure: \"true\"}\n");
    fs::write(failing.path().join("Kptfile"), saves).unwrap();
    assert_eq!(render(&failing, &[]).code, 1);
    let found = contents(failing.path());
    assert!(String::from_utf8_lossy(&found["a.yaml"]).contains("namespace: edge"));
    assert!(String::from_utf8_lossy(&found["Kptfile"]).contains("reason: RenderFailed"));
}

#[test]
fn folders_that_cannot_be_used() {
    let empty = folder(&[("a.yaml", CM)]);
    let run = render(&empty, &[]);
    assert_eq!(run.code, 2);
    assert!(run.err.ends_with("is not a package: Kptfile is missing\n"), "{}", run.err);
    let run = groundwork(&["packages", "render", "/nowhere/at/all"], "");
    assert_eq!(run.code, 2);
    assert!(run.err.contains("cannot read /nowhere/at/all: "), "{}", run.err);
}

/// Functions in images need a program that runs containers, which the error names.
#[test]
fn functions_in_images() {
    let text = kptfile("  - {image: \"r.example/f:v1\"}\n");
    let package = folder(&[("Kptfile", &text), ("a.yaml", CM)]);
    let run = render(&package, &[]);
    assert_eq!(run.code, 1);
    assert!(run.err.contains("function \"r.example/f:v1\" is not available"), "{}", run.err);
    let run = render(&package, &["--function-runner", "http://127.0.0.1:1"]);
    assert_eq!(run.code, 1);
    assert!(run.err.contains("failed to evaluate function \"r.example/f:v1\""), "{}", run.err);
    let run = render(&package, &["--function-runner", "nowhere at all"]);
    assert_eq!(run.code, 2);
    assert!(run.err.contains("--function-runner: "), "{}", run.err);
}
