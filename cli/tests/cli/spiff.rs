//! `groundwork template spiff`.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::groundwork;

fn file(folder: &TempDir, name: &str, text: &str) -> String {
    let path = folder.path().join(name);
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

fn answer(line: &Value) -> Value {
    let run = groundwork(&["template", "spiff", "--jsonl"], &format!("{line}\n"));
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    serde_json::from_str(&run.out).unwrap()
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

#[test]
fn many_cases_are_answered_line_by_line() {
    let cases = [
        (
            json!({"name": "a", "template": "a: (( b ))\nb: ((! x ))\n"}),
            json!({"name": "a", "output": "a: (( x ))\nb: (( x ))\n"}),
        ),
        (
            json!({"kind": "flow", "template": "b: ((! x ))\nc: (( &temporary ( 1 ) ))\n"}),
            json!({"name": null, "output": "b: ((! x ))\n"}),
        ),
        (
            json!({"template": "a: 1\n", "stubs": ["a: (( b ))\n", "b: 3\n"], "kind": null}),
            json!({"name": null, "error": "unresolved nodes:\n\t(( b ))\tin template\ta\t()\t*'b' not found"}),
        ),
        (
            json!({"template": "a: (( x / 2 ))", "bindings": {"x": 5}}),
            json!({"name": null, "output": "a: 2.5\n"}),
        ),
        (
            json!({"template": "a: (( x ))", "source": "test"}),
            json!({"name": null, "error": "unresolved nodes:\n\t(( x ))\tin test\ta\t()\t*'x' not found"}),
        ),
        (
            json!({"template": "a: {<<if: true, <<then: 5}", "features": ["control"]}),
            json!({"name": null, "output": "a: 5\n"}),
        ),
        (
            json!({"name": "m", "template": "a: 1\n---\nb: 1\n"}),
            json!({"name": "m", "error": "template holds several documents; only one is allowed"}),
        ),
        (
            json!({"template": "a: (( f ))\nf: (( |x|->x ))\n"}),
            json!({"name": null, "output": "a: (( lambda|x|->x ))\nf: (( lambda|x|->x ))\n"}),
        ),
    ];
    for (case, wanted) in cases {
        assert_eq!(answer(&case), wanted, "{case}");
    }
    let run =
        groundwork(&["template", "spiff", "--jsonl"], "{\n[]\n{\"template\": 5}\n{\"template\": \"a: [\"}\n");
    let answers: Vec<Value> = run.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((run.code, answers.len()), (0, 4));
    assert!(answers.iter().all(|answer| answer["error"].is_string()), "{answers:?}");
}
