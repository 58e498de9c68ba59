use std::cell::RefCell;

use super::*;

const HEAD: &str = "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: p\n";
const CM: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a # why\n";
const OK: &str =
    "status:\n  conditions:\n  - type: Rendered\n    status: \"True\"\n    reason: RenderSuccess\n";

fn package(files: &[(&str, &str)]) -> Package {
    files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
}

fn rendered(files: &[(&str, &str)]) -> Rendered {
    let found = render(&package(files), &RenderOptions::default());
    let again = render(&found.files, &RenderOptions::default());
    // A second rendering may only change the results of functions (`packagevariants.md` 2.12).
    assert!(crate::same_content(&again.files, &found.files), "the second time: {again:?}");
    found
}

fn mutators(functions: &str) -> String {
    format!("{HEAD}pipeline:\n  mutators:\n{functions}")
}

/// The condition is written even without functions, and files without objects stay unchanged
/// (`packagevariants.md` 8.2).
#[test]
fn empty_pipelines() {
    let found = rendered(&[("Kptfile", HEAD), ("README.md", "x"), ("a.yaml", CM), ("c.yaml", "# nothing\n")]);
    assert_eq!(found.error, None);
    assert_eq!(found.files["Kptfile"], format!("{HEAD}{OK}"));
    assert_eq!((found.files["README.md"].as_str(), found.files["a.yaml"].as_str()), ("x", CM));
    assert_eq!(found.files["c.yaml"], "# nothing\n");
    assert_eq!(found.status.result.unwrap().exit_code, Some(0));
}

/// The example of the design document (`packagevariants.md` 8.4), rendered with the default
/// options, and the written files (`packagevariants.md` 8.2).
#[test]
fn the_example_of_the_design_document() {
    let kptfile = mutators(
        "  - {name: ns, image: \"gcr.io/kpt-fn/set-namespace:v0.1\", configMap: {namespace: my-ns}} # c\n",
    );
    let found = rendered(&[("Kptfile", &kptfile), ("a.yaml", CM)]);
    assert_eq!(found.error, None);
    assert_eq!(found.files["a.yaml"], format!("{CM}  namespace: my-ns\n"));
    let text = &found.files["Kptfile"];
    assert!(text.starts_with(&format!("{kptfile}{OK}")), "{text}");
    let rest = "  renderStatus:\n    mutationSteps:\n    - name: ns\n      image: gcr.io/kpt-fn/set-namespace:v0.1\n      exitCode: 0\n      \
                results:\n";
    assert!(text[kptfile.len() + OK.len()..].starts_with(rest), "{text}");
    assert!(!text.contains("errorSummary") && !text.contains("validationSteps"));
}

/// The input is checked even without functions (`packagevariants.md` 8.2).
#[test]
fn what_is_no_resource() {
    for (text, field) in [
        ("kind: A\n", "apiVersion"),
        ("apiVersion: v1\n", "kind"),
        ("apiVersion: v1\nkind: A\n", "metadata.name"),
    ] {
        let files = [("Kptfile", HEAD), ("d/a.yaml", text)];
        let found = rendered(&files);
        assert_eq!(
            found.error.unwrap(),
            format!(
                "package \".\": input resource list must contain only KRM resources: d/a.yaml: resource must have `{field}`"
            )
        );
        assert_eq!(found.files, package(&files));
    }
    let exempt = [
        ("Kptfile", HEAD),
        ("kustomization.yaml", "resources: []\n"),
        ("x.yaml", "{{\n"),
        (".krmignore", "x.yaml\n"),
    ];
    assert_eq!(rendered(&exempt).error, None);
    assert_eq!(rendered(&[]).error.unwrap(), "package must contain Kptfile at root");
    let error = rendered(&[("Kptfile", HEAD), ("a.yaml", "a: [\n")]).error.unwrap();
    assert!(error.starts_with("package \".\": a.yaml: failed to parse input bytes: line 1: "), "{error}");
    assert!(error.ends_with("; if it is not YAML, such as a template, name it in .krmignore"), "{error}");
}

/// A missing function is never skipped silently (`packagevariants.md` 8.4). It is reported before
/// any function runs (`packagevariants.md` 8.2).
#[test]
fn functions_that_nobody_has() {
    let not_there = |image: &str| {
        format!(
            "function \"{image}\" is not available: no container runtime is configured and it is not built in"
        )
    };
    let catalog = "ghcr.io/kptdev/krm-functions-catalog/";
    for (function, label, cause) in [
        ("image: gatekeeper", "gatekeeper", not_there(&format!("{catalog}gatekeeper"))),
        ("image: kubeconform:v0.1", "kubeconform:v0.1", not_there(&format!("{catalog}kubeconform:v0.1"))),
        (
            "image: x.example/set-namespace:v0.1",
            "x.example/set-namespace:v0.1",
            not_there("x.example/set-namespace:v0.1"),
        ),
        ("{name: n, image: set-namespace, tag: '>1'}", "n", not_there(&format!("{catalog}set-namespace:>1"))),
        (
            "exec: run me",
            "run me",
            "must run with `--allow-exec` option to allow running function binaries".to_owned(),
        ),
    ] {
        let first = "  - {image: set-namespace, configMap: {namespace: x}}\n";
        let files = [("Kptfile", mutators(&format!("{first}  - {function}\n"))), ("a.yaml", CM.to_owned())];
        let files = files.each_ref().map(|(path, text)| (*path, text.as_str()));
        let found = rendered(&files);
        assert_eq!(found.error.unwrap(), format!("package \".\": function \"{label}\": {cause}"));
        assert_eq!(found.files, package(&files));
        let items = found.status.result.unwrap().items;
        assert_eq!((items.len(), items[0].exit_code), (1, Some(1)));
    }
}

/// The option `onMissing` (`packagevariants.md` 8.4).
#[test]
fn deferred() {
    let files = package(&[("Kptfile", &mutators("  - image: gatekeeper\n")), ("a.yaml", CM)]);
    let options = RenderOptions { on_missing: OnMissing::Defer, ..RenderOptions::default() };
    let found = render(&files, &options);
    assert_eq!(found.error, None);
    assert!(
        found
            .deferred
            .unwrap()
            .starts_with("function \"ghcr.io/kptdev/krm-functions-catalog/gatekeeper\" is not available")
    );
    let text = &found.files["Kptfile"];
    assert!(
        text.contains("reason: FunctionUnavailable") && text.contains("- conditionType: Rendered"),
        "{text}"
    );
    assert_eq!(found.files["a.yaml"], CM);
    assert_eq!(render(&found.files, &options).files, found.files);
}

/// Executables that are allowed are run by the host (`packagevariants.md` 8.4).
#[test]
fn executables() {
    let files = package(&[("Kptfile", &mutators("  - exec: /bin/x -a\n"))]);
    let options = |allowed: &str| RenderOptions {
        allow_exec: true,
        exec_allowed: vec![allowed.to_owned()],
        ..RenderOptions::default()
    };
    let error = |allowed: &str| render(&files, &options(allowed)).error.unwrap();
    assert!(error("/bin/y").ends_with("exec function \"/bin/x\" is not allowed"));
    assert!(error("/bin/x").ends_with(
        "function \"/bin/x -a\" is not available: no container runtime is configured and it is not built in"
    ));
}

/// With an invalid Kptfile, no function runs (`packagevariants.md` 8.2); the error texts are those
/// of `packagevariants.md` 1.7.
#[test]
fn kptfiles_that_are_wrong() {
    for (body, expected) in [
        (
            "pipeline: {mutator: []}\n",
            "package \".\": error reading Kptfile at \"Kptfile\": line 5: field mutator not found in type v1.Pipeline",
        ),
        (
            "pipeline: {mutators: [{name: x}]}\n",
            "package \".\": Kptfile is invalid:\nField: `pipeline.mutators[0]`\nReason: must specify a functions (`image` or `exec`) to execute",
        ),
    ] {
        assert_eq!(rendered(&[("Kptfile", &format!("{HEAD}{body}"))]).error.unwrap(), expected);
    }
}

/// Selectors and exclusions (`packagevariants.md` 8.2).
#[test]
fn selections() {
    let objects =
        ["a", "b", "c"].map(|name| format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n"));
    let text = objects.join("---\n");
    for (selection, expected) in [
        ("selectors: [{name: a}, {name: b, kind: ConfigMap}]", "ab"),
        ("selectors: [{name: a, kind: Secret}]", ""),
        ("selectors: [{}]", "abc"),
        ("exclude: [{name: a}]", "bc"),
        ("exclude: [{}]", "abc"),
        ("selectors: [{kind: ConfigMap}], exclude: [{name: b}]", "ac"),
    ] {
        let kptfile =
            mutators(&format!("  - {{image: set-namespace, configMap: {{namespace: x}}, {selection}}}\n"));
        let found = rendered(&[("Kptfile", &kptfile), ("a.yaml", &text)]);
        assert_eq!(found.error, None, "{selection}");
        let set: String = found.files["a.yaml"]
            .split("---\n")
            .zip(["a", "b", "c"])
            .filter(|(text, _)| text.contains("namespace: x"))
            .map(|(_, name)| name)
            .collect();
        assert_eq!(set, expected, "{selection}");
    }
}

/// `configPath`; the config is also an ordinary item (`packagevariants.md` 8.2).
#[test]
fn config_files() {
    let kptfile = mutators("  - {image: set-namespace, configPath: ./c.yaml}\n");
    let config = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\n  annotations: {config.kubernetes.io/local-config: \"true\"}\ndata:\n  \
                  namespace: x\n";
    let found = rendered(&[("Kptfile", &kptfile), ("a.yaml", CM), ("c.yaml", config)]);
    assert_eq!(found.files["a.yaml"], format!("{CM}  namespace: x\n"));
    assert_eq!(found.files["c.yaml"], config);
}

/// Runner that records its input objects, and acts by the name of the function.
#[derive(Default)]
struct Recorder(RefCell<Vec<String>>);

impl FunctionRunner for Recorder {
    fn has(&self, target: &Target) -> bool {
        target.text().starts_with("host/")
    }

    fn run(&self, target: &Target, list: &mut ResourceList) -> Result<Outcome, RunError> {
        let shown = |item: &Item| item.full_path().unwrap_or_default();
        let items: Vec<String> = list.items.iter().map(shown).collect();
        self.0.borrow_mut().push(format!("{} {}", target.text(), items.join(" ")));
        let mut outcome = Outcome::default();
        match target.text() {
            "host/fail" => (outcome.exit_code, outcome.stderr) = (3, "one\ntwo\n".to_owned()),
            "host/broken" => return Err(RunError::Failed("no memory".to_owned())),
            "host/strip" => {
                for item in &mut list.items {
                    let value =
                        serde_json::json!({"apiVersion": "v1", "data": {"k": item.text(&["data", "k"])}});
                    let metadata = serde_json::json!({"name": item.text(&["metadata", "name"])});
                    let mut root = groundwork_yaml::tree::Node::from_json(&value);
                    let pairs = [("kind", "ConfigMap".into()), ("metadata", metadata)];
                    let new = pairs.map(|(key, value)| {
                        groundwork_yaml::tree::Pair::new(key, groundwork_yaml::tree::Node::from_json(&value))
                    });
                    root.as_mapping_mut().unwrap().pairs.extend(new);
                    item.root = root;
                }
            }
            "host/delete" => list.items.retain(Item::is_kptfile),
            "host/outside" => {
                list.items.push(Item::new(list.items[0].root.clone(), Some("../x.yaml".to_owned())));
            }
            "host/add" => {
                let text = "apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: n}\n";
                let root = crate::File::read(text).unwrap().documents[0].root.clone();
                if !list.items.iter().any(|item| item.text(&["kind"]) == "Secret") {
                    list.items.push(Item::new(root, None));
                }
            }
            _ => {}
        }
        Ok(outcome)
    }
}

fn hosted(files: &[(&str, &str)]) -> (Rendered, Vec<String>) {
    let recorder = Recorder::default();
    let options =
        RenderOptions { runners: vec![&recorder], max_output: Some(1000), ..RenderOptions::default() };
    let found = render(&package(files), &options);
    (found, recorder.0.into_inner())
}

/// Subpackages come first, in alphabetical order; with the annotation, the root comes first
/// (`packagevariants.md` 8.2).
#[test]
fn order_of_packages() {
    let one = |image: &str| mutators(&format!("  - image: host/{image}\n"));
    let (root, a, b, deep) = (one("root"), one("a"), one("b"), one("deep"));
    let object = |name: &str| format!("apiVersion: v1\nkind: A\nmetadata: {{name: {name}}}\n");
    let (x, y) = (object("x"), object("y"));
    let files = |root: &'static str| -> Vec<(&str, String)> {
        vec![
            ("Kptfile", root.to_owned()),
            ("b/Kptfile", b.clone()),
            ("b/y.yaml", y.clone()),
            ("a/Kptfile", a.clone()),
            ("a/d/e/Kptfile", deep.clone()),
            ("x.yaml", x.clone()),
        ]
    };
    let run = |files: Vec<(&str, String)>| {
        hosted(&files.iter().map(|(path, text)| (*path, text.as_str())).collect::<Vec<_>>()).1
    };
    let root: &'static str = Box::leak(root.into_boxed_str());
    assert_eq!(
        run(files(root)),
        [
            "host/deep a/d/e/Kptfile",
            "host/a a/Kptfile a/d/e/Kptfile",
            "host/b b/Kptfile b/y.yaml",
            "host/root Kptfile x.yaml a/Kptfile a/d/e/Kptfile b/Kptfile b/y.yaml",
        ]
    );
    let top_down =
        root.replace("  name: p\n", "  name: p\n  annotations: {kpt.dev/bfs-rendering: \"true\"}\n");
    assert_eq!(
        run(files(Box::leak(top_down.into_boxed_str()))),
        [
            "host/root Kptfile x.yaml a/Kptfile a/d/e/Kptfile b/Kptfile b/y.yaml",
            "host/a a/Kptfile a/d/e/Kptfile",
            "host/b b/Kptfile b/y.yaml",
            "host/deep a/d/e/Kptfile",
        ]
    );
}

/// Texts of failures (`packagevariants.md` 8.3), and the files written after them
/// (`packagevariants.md` 8.2).
#[test]
fn failures() {
    for (image, cause) in [
        ("fail", "one, two, exit code 3"),
        ("broken", "function runtime failed to evaluate function \"host/broken\": no memory"),
        ("outside", "function must not modify resources outside of package: resource has path ../x.yaml"),
    ] {
        let kptfile = mutators(&format!(
            "  - {{image: set-namespace, configMap: {{namespace: x}}}}\n  - image: host/{image}\n"
        ));
        let expected = format!("package \".\": function \"host/{image}\": {cause}");
        let (found, _) = hosted(&[("Kptfile", &kptfile), ("a.yaml", CM)]);
        assert_eq!(found.error.as_deref(), Some(expected.as_str()));
        assert_eq!(found.files["Kptfile"], kptfile);
        assert_eq!(found.status.result.unwrap().items.len(), 2);
        let saves = kptfile
            .replace("  name: p\n", "  name: p\n  annotations: {kpt.dev/save-on-render-failure: \"true\"}\n");
        let (found, _) = hosted(&[("Kptfile", &saves), ("a.yaml", CM)]);
        assert_eq!(found.files["a.yaml"], format!("{CM}  namespace: x\n"));
        let text = &found.files["Kptfile"];
        assert!(text.contains("reason: RenderFailed") && text.contains("errorSummary: "), "{text}");
    }
    let kptfile = mutators("  - {image: set-namespace}\n");
    let (found, _) = hosted(&[("Kptfile", &kptfile), ("a.yaml", CM)]);
    assert_eq!(
        found.error.unwrap(),
        "package \".\": function \"set-namespace\": FunctionConfig is missing. Expect `ConfigMap.v1` or `SetNamespace.v1alpha1.fn.kpt.dev`"
    );
    let long = format!("{CM}data: {{a: {}}}\n", "x".repeat(1000));
    let (found, _) = hosted(&[("Kptfile", &mutators("  - image: host/x\n")), ("a.yaml", &long)]);
    assert!(found.error.unwrap().ends_with("wrote more than 1000 bytes"));
}

/// Missing output items are deleted, and new ones get a path (`packagevariants.md` 8.3).
#[test]
fn objects_that_come_and_go() {
    let add = mutators("  - image: host/add\n");
    let (found, _) = hosted(&[("Kptfile", &add), ("a.yaml", CM)]);
    assert_eq!(
        found.files["n/secret_s.yaml"],
        "apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: n}\n"
    );
    assert_eq!(found.files["a.yaml"], CM);
    let delete = mutators("  - image: host/delete\n");
    let (found, _) = hosted(&[("Kptfile", &delete), ("a.yaml", CM), ("t.txt", "x")]);
    assert_eq!(found.files.keys().collect::<Vec<_>>(), ["Kptfile", "t.txt"]);
    // Validators get a copy, so their changes are dropped.
    let validate = delete.replace("mutators", "validators");
    let (found, _) = hosted(&[("Kptfile", &validate), ("a.yaml", CM)]);
    assert_eq!((found.error, found.files["a.yaml"].as_str()), (None, CM));
    assert!(found.files["Kptfile"].contains("validationSteps:"));
}

/// Comments and order of objects that come back from other programs (`packagevariants.md` 8.2).
#[test]
fn comments_of_functions_that_see_only_data() {
    let text = format!("{CM}data:\n  k: v # of k\n");
    let kptfile = mutators("  - {image: host/strip, selectors: [{kind: ConfigMap}]}\n");
    let (found, _) = hosted(&[("Kptfile", &kptfile), ("a.yaml", &text)]);
    assert_eq!((found.error, &found.files["a.yaml"]), (None, &text));
}

/// The status after a failure, if the Kptfile is written (`packagevariants.md` 8.2).
#[test]
fn status_of_a_failure() {
    let head =
        HEAD.replace("  name: p\n", "  name: p\n  annotations: {kpt.dev/save-on-render-failure: \"true\"}\n");
    let conditions = "status:\n  conditions:\n  - type: Rendered\n    status: \"False\"\n  - type: other\n    status: \"True\"\n";
    let kptfile = format!("{head}pipeline:\n  mutators:\n  - {{name: fail, image: host/fail}}\n{conditions}");
    let (found, _) = hosted(&[("Kptfile", &kptfile)]);
    assert_eq!(
        found.files["Kptfile"],
        format!(
            "{head}pipeline:\n  mutators:\n  - {{name: fail, image: host/fail}}\nstatus:\n  conditions:\n  - type: other\n    status: \"True\"\n  - \
             type: Rendered\n    status: \"False\"\n    reason: RenderFailed\n    message: 'package \".\": function \"fail\": one, two, exit code \
             3'\n  renderStatus:\n    mutationSteps:\n    - name: fail\n      image: host/fail\n      exitCode: 3\n      stderr: |\n        one\n        \
             two\n    errorSummary: 'fail: exit code 3'\n"
        )
    );
    let (found, _) =
        hosted(&[("Kptfile", &format!("{head}pipeline: {{mutators: [{{image: gatekeeper}}]}}\n"))]);
    assert!(
        found.files["Kptfile"].contains("exitCode: 1\n      executionError: "),
        "{}",
        found.files["Kptfile"]
    );
}
