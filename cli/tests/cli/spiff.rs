//! Tests of `groundwork template spiff`.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::groundwork;

fn file(folder: &TempDir, name: &str, text: &str) -> String {
    let path = folder.path().join(name);
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn a_template_is_merged_with_stubs_and_bindings() {
    let folder = TempDir::new().unwrap();
    let template = file(&folder, "t.yaml", "host: (( name \".\" imports.zone ))\nname: web\nport: 80\n");
    let near = file(&folder, "near.yaml", "port: 81\n");
    let far = file(&folder, "far.yaml", "name: api\nport: 82\n");
    let bindings = file(&folder, "b.yaml", "imports: {zone: example.org}\n");
    let run = groundwork(&["template", "spiff", &template, &near, &far, "--bindings", &bindings], "");
    assert_eq!((run.code, run.out.as_str()), (0, "host: api.example.org\nname: api\nport: 82\n"));
    let run = groundwork(
        &["template", "spiff", "-"],
        "a: (( 1 + 1 ))\n---\n(( &temporary ( 1 ) ))\n---\nb: (( a || doc.1::a ))\nc: (( doc.-1::. || 3 ))\n",
    );
    assert_eq!((run.code, run.out.as_str()), (0, "---\na: 2\n---\nb: 2\nc: 1\n"));
    let control = "x: {<<if: true, <<then: \"a(( 1 ))\"}\n";
    let run = groundwork(&["template", "spiff", "-", "--features", "control,interpolation"], control);
    assert_eq!((run.code, run.out.as_str()), (0, "x: a1\n"));
}

#[test]
fn state_is_kept_from_run_to_run() {
    let folder = TempDir::new().unwrap();
    let template =
        file(&folder, "t.yaml", "id: (( &state ( merge || rand(\"[:alnum:]\", 12) ) ))\nother: 1\n");
    let state = folder.path().join("state.yaml").display().to_string();
    let run = || {
        let run = groundwork(&["template", "spiff", &template, "--state", &state], "");
        assert_eq!(run.code, 0, "{}", run.err);
        run.out
    };
    let first = run();
    assert_eq!(run(), first);
    assert_eq!(fs::read_to_string(Path::new(&state)).unwrap(), first.replace("other: 1\n", ""));
    fs::remove_file(Path::new(&state)).unwrap();
    assert_ne!(run(), first);
}

#[test]
fn the_report_is_followed_by_the_line_at_fault() {
    let folder = TempDir::new().unwrap();
    let template = file(&folder, "t.yaml", "a: 1\nb: (( a + nope ))\nc: (( b ))\n");
    let run = groundwork(&["template", "spiff", &template], "");
    assert_eq!((run.code, run.out.as_str()), (1, ""));
    let report = format!(
        "error: unresolved nodes:\n\t(( a + nope ))\tin {template}\tb\t()\t*'nope' not found\n\t(( b ))\tin {template}\tc\t()\t-'b' unresolved"
    );
    assert!(run.err.contains(&report), "{}", run.err);
    assert!(run.err.contains("2 | b: (( a + nope ))\n  |    ^\n"), "{}", run.err);

    let broken = file(&folder, "broken.yaml", "a: [\n");
    let missing = folder.path().join("none.yaml").display().to_string();
    let several = file(&folder, "several.yaml", "a: 1\n---\nb: 2\n");
    for (arguments, problem) in [
        (vec![broken.as_str()], "unclosed bracket"),
        (vec![missing.as_str()], "cannot read"),
        (vec![template.as_str(), &several], "several documents"),
    ] {
        let run = groundwork(&[&["template", "spiff"], arguments.as_slice()].concat(), "");
        assert_eq!((run.code, run.out.as_str()), (2, ""), "{problem}: {}", run.err);
        assert!(run.err.contains(problem), "{}", run.err);
    }
}

/// Files below the root are read; nothing leads out of it, and without it nothing is read.
#[test]
fn files_below_a_root() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    std::fs::create_dir_all(root.join("values")).unwrap();
    std::fs::write(root.join("values/a.yaml"), "x: 1\n").unwrap();
    std::fs::write(folder.path().join("secret"), "canary").unwrap();
    std::os::unix::fs::symlink("../secret", root.join("link")).unwrap();
    let root = root.display().to_string();
    let template = "files: (( list_files(\"values\") ))\nx: (( read(\"values/a.yaml\").x ))\n";
    let run = groundwork(&["template", "spiff", "-", "--root", &root], template);
    assert_eq!((run.code, run.out.as_str()), (0, "files:\n- a.yaml\nx: 1\n"), "{}", run.err);
    for path in ["../secret", "link", &format!("{}/secret", folder.path().display())] {
        let run =
            groundwork(&["template", "spiff", "-", "--root", &root], &format!("x: (( read({path:?}) ))\n"));
        assert!(run.code == 1 && !run.out.contains("canary"), "{path}: {}", run.out);
    }
    let run = groundwork(&["template", "spiff", "-"], template);
    assert_eq!(run.code, 1, "{}", run.out);
}

/// The function `env` sees only the values of the command line.
#[test]
fn variables_by_option() {
    let template = "one: (( env(\"A\") ))\nmany: (( env(\"A\", [\"B\", \"C\"]) ))\n";
    let run = groundwork(&["template", "spiff", "-", "--env", "A=1 2", "--env", "B=x=y"], template);
    assert_eq!((run.code, run.out.as_str()), (0, "many:\n  A: 1 2\n  B: x=y\none: 1 2\n"), "{}", run.err);
    let run = groundwork(&["template", "spiff", "-", "--env", "A=1"], "x: (( env(\"HOME\") ))\n");
    assert!(run.code == 1 && run.err.contains("environment variable 'HOME' not set"), "{}", run.err);
    let run = groundwork(&["template", "spiff", "-"], "x: (( env(\"HOME\") ))\n");
    assert!(run.code == 1 && run.err.contains("no OS operations supported"), "{}", run.err);
    let run = groundwork(&["template", "spiff", "-", "--env", "=1"], "x: 1\n");
    assert!(run.code == 2 && run.err.contains("is empty"), "{}", run.err);
}
