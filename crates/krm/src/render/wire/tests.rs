use std::cell::RefCell;

use super::*;
use crate::render::{FunctionRunner, RenderOptions, Rendered, RunError, Target, render};

const KPTFILE: &str = "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata: {name: p}\npipeline:\n  mutators:\n  - {image: far/f, configMap: {a: \"1\"}}\n";
const A: &str =
    "# above\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a # why\ndata: {x: 'one', y: \"2\"}\n";

/// Function that gets its input as text.
struct Far<F> {
    function: F,
    seen: RefCell<String>,
}

impl<F: Fn(&str) -> Result<Answer, RunError>> FunctionRunner for Far<F> {
    fn has(&self, target: &Target) -> bool {
        target.text().starts_with("far/")
    }

    fn run(&self, _: &Target, list: &mut ResourceList) -> Result<Outcome, RunError> {
        on_wire(list, |input| {
            let answer = (self.function)(&input);
            self.seen.replace(input);
            answer
        })
    }
}

fn far(files: &[(&str, &str)], function: impl Fn(&str) -> Result<Answer, RunError>) -> (Rendered, String) {
    let far = Far { function, seen: RefCell::default() };
    let options = RenderOptions { runners: vec![&far], ..RenderOptions::default() };
    let files = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
    let found = render(&files, &options);
    (found, far.seen.into_inner())
}

fn answer(output: &str) -> Result<Answer, RunError> {
    Ok(Answer { output: output.as_bytes().to_vec(), ..Answer::default() })
}

/// Acts like a function in another language: parses, changes and writes the input, and drops
/// comments, quotes, order and form.
fn as_data(input: &str, change: impl Fn(&mut Vec<Value>)) -> Result<Answer, RunError> {
    let mut list = to_json(compose(input).unwrap().root.as_ref().unwrap());
    change(list["items"].as_array_mut().unwrap());
    answer(&list.to_string())
}

/// The input document, with the annotations in both spellings (`packagevariants.md` 8.3).
#[test]
fn what_functions_read() {
    let (found, seen) = far(&[("Kptfile", KPTFILE), ("d/a.yaml", A)], answer);
    assert_eq!(found.error, None);
    let annotations = |path: &str, id: usize| {
        format!(
            "      internal.config.kubernetes.io/path: {path}\n      config.kubernetes.io/path: {path}\n      \
             internal.config.kubernetes.io/index: \"0\"\n      config.kubernetes.io/index: \"0\"\n      \
             internal.config.kubernetes.io/package-path: .\n      internal.config.kubernetes.io/id: \"{id}\"\n      \
             config.k8s.io/id: \"{id}\"\n"
        )
    };
    assert!(seen.starts_with("apiVersion: config.kubernetes.io/v1\nkind: ResourceList\nitems:\n"), "{seen}");
    assert!(
        seen.contains(&format!("    name: a # why\n    annotations:\n{}", annotations("d/a.yaml", 1))),
        "{seen}"
    );
    assert!(
        seen.ends_with(
            "functionConfig:\n  apiVersion: v1\n  kind: ConfigMap\n  metadata:\n    name: function-input\n  data:\n    a: \"1\"\n"
        ),
        "{seen}"
    );
}

/// Unchanged objects keep their form, whatever form the function writes (`packagevariants.md` 8.2).
#[test]
fn what_comes_back_looks_as_before() {
    let two = format!("{A}---\nkind: B\napiVersion: x/v1\nmetadata: {{name: b, annotations: {{}}}}\n");
    let kustomization = "resources: [a.yaml]\n";
    let files = [("Kptfile", KPTFILE), ("a.yaml", &two), ("kustomization.yaml", kustomization)];
    for function in [answer as fn(&str) -> _, |input| as_data(input, |_| {})] {
        let (found, _) = far(&files, function);
        assert_eq!(found.error, None);
        assert_eq!(
            (found.files["a.yaml"].as_str(), found.files["kustomization.yaml"].as_str()),
            (two.as_str(), kustomization)
        );
        assert!(found.files["Kptfile"].starts_with(KPTFILE));
    }
    let (found, _) = far(&files, |input| as_data(input, |items| items[1]["data"]["y"] = "3".into()));
    assert_eq!(found.files["a.yaml"], two.replace("\"2\"", "\"3\""));
    let (found, _) = far(&files, |input| as_data(input, |items| items[1]["data"]["z"] = [1].into()));
    assert_eq!(found.files["a.yaml"], two.replace("\"2\"}", "\"2\", z: [1]}"));
}

fn annotate(item: &mut Value, name: &str, value: &str) {
    item["metadata"]["annotations"][name] = value.into();
}

/// A change of either spelling of an annotation counts; missing items are deleted, and new ones get
/// a path (`packagevariants.md` 8.3).
#[test]
fn objects_move() {
    let two = format!("{A}---\n{}", A.replace("name: a", "name: b"));
    let files = [("Kptfile", KPTFILE), ("a.yaml", two.as_str())];
    for spelling in 0..2 {
        let (found, _) = far(&files, |input| {
            as_data(input, |items| {
                annotate(&mut items[1], PATH[spelling], "d/new.yaml");
                annotate(&mut items[2], INDEX[spelling], "7");
            })
        });
        assert_eq!(found.error, None);
        assert_eq!(
            (found.files["d/new.yaml"].as_str(), found.files["a.yaml"].matches("kind").count()),
            (A, 1)
        );
        let (found, _) = far(&files, |input| {
            as_data(input, |items| {
                annotate(&mut items[1], INDEX[spelling], "1");
                annotate(&mut items[2], INDEX[spelling], "0");
            })
        });
        let places = ["name: a", "name: b"].map(|name| found.files["a.yaml"].find(name).unwrap());
        assert!(places[0] > places[1]);
        let (found, _) =
            far(&files, |input| as_data(input, |items| annotate(&mut items[1], INDEX[spelling], "1")));
        assert_eq!(found.error.unwrap(), "resource at path \"a.yaml\" and index \"1\" already exists");
        let (found, _) = far(&files, |input| {
            as_data(input, |items| annotate(&mut items[1], PATH[spelling], "d/../../x.yaml"))
        });
        assert!(found.error.unwrap().ends_with(
            "\"far/f\": function must not modify resources outside of package: resource has path d/../../x.yaml"
        ));
    }
    // A copy with all its annotations is a new object at the same place, which is an error.
    let copies = |items: &mut Vec<Value>| items.push(items[1].clone());
    let (found, _) = far(&files, |input| as_data(input, copies));
    assert_eq!(found.error.unwrap(), "resource at path \"a.yaml\" and index \"0\" already exists");
    let (found, _) = far(&files, |input| {
        as_data(input, |items| {
            let new =
                r#"{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "ns"}}"#;
            items.truncate(1);
            items.push(serde_json::from_str(new).unwrap());
        })
    });
    assert_eq!(found.files.keys().collect::<Vec<_>>(), ["Kptfile", "ns/secret_s.yaml"]);
    assert_eq!(
        found.files["ns/secret_s.yaml"],
        "apiVersion: v1\nkind: Secret\nmetadata:\n  name: s\n  namespace: ns\n"
    );
}

/// Results in all forms that functions write; they are kept whether or not the function fails
/// (`packagevariants.md` 8.3).
#[test]
fn forms_of_results() {
    let item = "{message: bad, severity: SEVERITY, resourceRef: {kind: A, metadata: {name: n, namespace: m}}, field: {path: a.b, \
                suggestedValue: 3}, file: {path: x, index: 1}, tags: {t: u}}";
    for (severity, exit_code, expected) in [
        ("warning", 0, None),
        ("error", 0, Some("bad")),
        ("error", 3, Some("bad")),
        ("info", 3, Some("said, exit code 3")),
    ] {
        let item = item.replace("SEVERITY", severity);
        for results in [format!("[{item}]"), format!("{{name: f, items: [{item}]}}")] {
            let (found, _) = far(&[("Kptfile", KPTFILE)], |input| {
                let output = format!("{input}results: {results}\n").into_bytes();
                Ok(Answer { output, log: "said\n".to_owned(), exit_code, exceeded: None })
            });
            let expected = expected.map(|cause| format!("package \".\": function \"far/f\": {cause}"));
            assert_eq!(found.error, expected);
            let result = found.status.result.unwrap().items[0].clone();
            assert_eq!(result.stderr.as_deref(), Some("said\n"));
            let is_error = i32::from(severity == "error").max(exit_code);
            assert_eq!(result.exit_code, Some(is_error));
            let kept = serde_json::to_value(&result.results[0]).unwrap();
            let wanted = serde_json::json!({
                "message": "bad", "severity": severity, "resourceRef": {"kind": "A", "name": "n", "namespace": "m"},
                "field": {"path": "a.b", "proposedValue": 3}, "file": {"path": "x", "index": 1}, "tags": {"t": "u"},
            });
            assert_eq!(kept, wanted);
        }
    }
}

/// Exceeded limits with their own texts, invalid output, and runners that turn out not to have the
/// function (`packagevariants.md` 8.4).
#[test]
fn failures_of_runners() {
    let failed = |cause: &str| format!("package \".\": function \"far/f\": {cause}");
    let run = |function: &dyn Fn(&str) -> Result<Answer, RunError>| {
        let (found, _) = far(&[("Kptfile", KPTFILE), ("a.yaml", A)], function);
        assert_eq!((found.files["Kptfile"].as_str(), found.files["a.yaml"].as_str()), (KPTFILE, A));
        (found.error.unwrap(), found.status.result.unwrap().items[0].exit_code)
    };
    let killed = Answer { exceeded: Some("killed after 60 s".to_owned()), ..Answer::default() };
    assert_eq!(run(&|_| Ok(killed.clone())), (failed("killed after 60 s"), Some(1)));
    for (output, problem) in [
        ("", "it is empty"),
        ("kind: A\n", "its kind is not ResourceList"),
        ("kind: ResourceList\nitems: {}\n", "items is not a list"),
        ("kind: ResourceList\nitems: [1]\n", "items[0] is not an object"),
        ("a: 1\na: 1\n", "line 2: the map already has this key"),
    ] {
        let expected = (failed(&format!("output is not a ResourceList: {problem}")), Some(1));
        assert_eq!(run(&|_| answer(output)), expected);
    }
    assert_eq!(run(&|_| Ok(Answer { exit_code: 2, ..Answer::default() })), (failed("exit code 2"), Some(2)));
    assert_eq!(
        run(&|_| Err(RunError::NotAvailable)).0,
        failed(
            "function \"far/f\" is not available: no container runtime is configured and it is not built in"
        )
    );
    assert_eq!(
        run(&|_| Err(RunError::Failed("no".to_owned()))).0,
        failed("function runtime failed to evaluate function \"far/f\": no")
    );
    let (found, _) = far(&[("Kptfile", KPTFILE), ("a.yaml", A)], |input| {
        as_data(input, |items| items[1]["kind"] = "".into())
    });
    assert_eq!(
        found.error.unwrap(),
        failed("output resource list must contain only KRM resources: a.yaml: resource must have `kind`")
    );
}

/// If a runner lacks a function, the next one is asked (`packagevariants.md` 8.4, 4).
#[test]
fn the_next_runner_is_asked() {
    let first = Far { function: |_: &str| Err(RunError::NotAvailable), seen: RefCell::default() };
    let second = Far { function: answer, seen: RefCell::default() };
    let options = RenderOptions { runners: vec![&first, &second], ..RenderOptions::default() };
    let found = render(&[("Kptfile".to_owned(), KPTFILE.to_owned())].into(), &options);
    assert_eq!(found.error, None);
    assert!(!first.seen.borrow().is_empty() && *first.seen.borrow() == *second.seen.borrow());
}
