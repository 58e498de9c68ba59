//! Scripts over objects. The language itself has its tests in `crates/starlark`.

use super::super::testing::{check, check_error};
use crate::{NativeLimits, Package, RenderOptions, Rendered, render};

const A: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: # of it\n  name: 'a' # name\n  annotations: {}\ndata:\n  n: \"5\" # five\n  list: [x, 1.0] # flow\n";
const B: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: b, namespace: n}\nspec:\n  # how many\n  replicas: 1\n";

fn config(source: &str) -> String {
    let source: String = source.lines().map(|line| format!("  {line}\n")).collect();
    format!(
        "apiVersion: fn.kpt.dev/v1alpha1\nkind: StarlarkRun\nmetadata:\n  name: script\nparams:\n  n: 3\n  l: {{a: [1]}}\nsource: |\n{source}"
    )
}

fn done(source: &str, text: &str, expected: &str) {
    check("starlark", &config(source), text, expected);
}

fn fails(source: &str, expected: &str) {
    check_error("starlark", &config(source), A, expected);
}

/// Unchanged parts keep their comments, order, quotes and form (`packagevariants.md` 8.2).
#[test]
fn objects_are_changed_in_place() {
    done("pass", &format!("{A}---\n{B}"), &format!("{A}---\n{B}"));
    done(
        "for r in ctx.resource_list[\"items\"]:\n  r[\"metadata\"][\"namespace\"] = \"prod\"",
        &format!("{A}---\n{B}"),
        &format!(
            "{}---\n{}",
            A.replace("  annotations: {}\n", "  namespace: prod\n  annotations: {}\n"),
            B.replace("namespace: n", "namespace: prod")
        ),
    );
    done(
        "p = ctx.resource_list[\"functionConfig\"][\"params\"]\nfor r in ctx.resource_list[\"items\"]:\n  if r[\"kind\"] == \"Deployment\":\n    r[\"spec\"][\"replicas\"] = p[\"n\"] * 2 / 2\n    r[\"spec\"][\"l\"] = p[\"l\"]",
        &format!("{A}---\n{B}"),
        &format!("{A}---\n{}", B.replace("replicas: 1\n", "replicas: 3\n  l:\n    a:\n    - 1\n")),
    );
    done(
        "d = ctx.resource_list[\"items\"][0][\"data\"]\nd[\"n\"] = str(6)\nif len(d[\"list\"]) < 3: d[\"list\"].append(None)",
        A,
        &A.replace("\"5\"", "\"6\"").replace("1.0]", "1.0, null]"),
    );
    // Numbers that functions of Go write in another form keep the form of the file.
    let numbers = "apiVersion: v1\nkind: A\nmetadata: {name: a}\na: 0644\nb: 1.50\nc: 2001-01-01\nd: yes\ne: 0x1F\nf: 2.0\ng: 9007199254740993\n";
    done(
        "r = ctx.resource_list[\"items\"][0]\nr[\"h\"] = [r[k] for k in [\"a\", \"b\", \"c\", \"d\", \"e\", \"f\", \"g\"]]",
        numbers,
        &format!("{numbers}h:\n- 420\n- 1.5\n- \"2001-01-01\"\n- \"yes\"\n- 31\n- 2\n- 9007199254740993\n"),
    );
    done(
        "ctx.resource_list[\"items\"][0][\"data\"].pop(\"n\", None)",
        A,
        &A.replace("  n: \"5\" # five\n", ""),
    );
}

/// New objects have the usual order of fields, and deleted ones are gone.
#[test]
fn objects_come_and_go() {
    let add = "items = ctx.resource_list[\"items\"]\nif len(items) < 2:\n  items.append({\"data\": {\"b\": \"1\", \"a\": \"2\"}, \
               \"metadata\": {\"labels\": {}, \"name\": \"new\"}, \"kind\": \"ConfigMap\", \"apiVersion\": \"v1\"})";
    let new = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: new\n  labels: {}\ndata:\n  b: \"1\"\n  a: \"2\"\n";
    done(add, B, &format!("{B}---\n{new}"));
    let keep = "ctx.resource_list[\"items\"] = [r for r in ctx.resource_list[\"items\"] if r[\"kind\"] != \"ConfigMap\"]";
    done(keep, &format!("{A}---\n{B}"), B);
    let remove = "for r in list(ctx.resource_list[\"items\"]):\n  if r[\"kind\"] == \"Deployment\": ctx.resource_list[\"items\"].remove(r)";
    done(remove, &format!("{A}---\n{B}"), A);
}

/// Objects have the annotations with their path and index that a function in a program sees.
#[test]
fn places() {
    let moves = "a = ctx.resource_list[\"items\"][0][\"metadata\"][\"annotations\"]\nif a[\"config.kubernetes.io/path\"] != \"a.yaml\": fail(a)\n\
                 if a[\"internal.config.kubernetes.io/path\"] != \"a.yaml\": fail(a)";
    done(moves, A, A);
}

/// Both kinds of configs (`packagevariants.md` 8.5).
#[test]
fn configs() {
    let source = "source: 'ctx.resource_list[\"items\"][0][\"data\"][\"n\"] = ctx.resource_list[\"functionConfig\"][\"data\"][\"v\"]'";
    let map = format!("apiVersion: v1\nkind: ConfigMap\ndata:\n  v: \"9\"\n  {source}\n");
    check("starlark", &map, A, &A.replace("\"5\"", "\"9\""));
    let other = "apiVersion: fn.kpt.dev/v1\nkind: StarlarkRun\nsource: pass\n";
    check("starlark", other, A, A);
    let unnamed = "apiVersion: fn.kpt.dev/v1beta1\nkind: StarlarkRun\nsource: fail(1)\n";
    check_error("starlark", unnamed, A, "starlark-function-run:1:5: fail: 1");
    for (config, expected) in [
        ("", "FunctionConfig is missing. Expect `ConfigMap` or `StarlarkRun`"),
        ("apiVersion: v1\nkind: ConfigMap\ndata: {a: b}\n", "`source` must not be empty"),
        ("apiVersion: fn.kpt.dev/v1alpha1\nkind: StarlarkRun\n", "`source` must not be empty"),
        (
            "apiVersion: a.b/v1\nkind: SetLabels\n",
            "`functionConfig` must be either /v1, Kind=ConfigMap or fn.kpt.dev/v1alpha1, Kind=StarlarkRun, but we got: a.b/v1, Kind=SetLabels",
        ),
    ] {
        check_error("starlark", config, A, expected);
    }
}

/// The interpreter's messages, with the line.
#[test]
fn errors() {
    fails("def f(x):\n  fail(\"no\", x)\nf(1)", "script:2:7: fail: no 1");
    fails("x = 1\nif x\n  pass", "script:2:5: got newline, want ':'");
    fails("ctx.resource_list[\"items\"][0][\"spec\"]", "script:1:30: key \"spec\" not in dict");
    fails("load(\"http.star\", \"http\")", "script:1:1: module \"http.star\" is not available");
    fails("ctx.resource_list[\"items\"] = 1", "output is not a ResourceList: items is not a list");
    fails(
        "ctx.resource_list[\"items\"].append(1)",
        "output is not a ResourceList: items[1] is not an object",
    );
}

fn package(function: &str, files: &[(&str, &str)]) -> Rendered {
    let kptfile =
        format!("apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: p\npipeline:\n{function}");
    let files = files.iter().copied().chain([("Kptfile", kptfile.as_str())]);
    let files: Package = files.map(|(path, text)| (path.to_owned(), text.to_owned())).collect();
    let native_limits = NativeLimits { steps: 125_000, bytes: 4 << 20 };
    render(&files, &RenderOptions { native_limits, ..RenderOptions::default() })
}

fn mutator(source: &str) -> String {
    let source: String = source.lines().map(|line| format!("        {line}\n")).collect();
    format!(
        "  mutators:\n  - image: gcr.io/kpt-fn/starlark:v0.4.3\n    configMap:\n      source: |\n{source}"
    )
}

/// A script in the Kptfile, and its printed text.
#[test]
fn kptfiles() {
    let source = "print(\"kinds:\", [r[\"kind\"] for r in ctx.resource_list[\"items\"]])\n\
                  for r in ctx.resource_list[\"items\"]:\n  if r[\"kind\"] == \"ConfigMap\": r[\"metadata\"][\"labels\"] = {\"x\": \"y\"}\n\
                  ctx.resource_list[\"items\"].append({\"apiVersion\": \"v1\", \"kind\": \"Namespace\", \"metadata\": {\"name\": \"ns\"}})";
    let found = package(&mutator(source), &[("a.yaml", A), ("b.yaml", B)]);
    assert_eq!(found.error, None);
    assert_eq!(
        found.files["a.yaml"],
        A.replace("annotations: {}\n", "labels:\n    x: \"y\"\n  annotations: {}\n")
    );
    assert_eq!(found.files["b.yaml"], B);
    assert_eq!(found.files["namespace_ns.yaml"], "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: ns\n");
    let result = found.status.result.unwrap();
    let stderr = result.items[0].stderr.as_deref();
    assert_eq!(stderr, Some("kinds: [\"Kptfile\", \"ConfigMap\", \"Deployment\"]\n"));
    assert!(found.files["Kptfile"].contains("stderr: |"), "{}", found.files["Kptfile"]);
    let moves = "for r in ctx.resource_list[\"items\"]:\n  if r[\"kind\"] == \"Deployment\":\n    r[\"metadata\"][\"annotations\"][\"config.kubernetes.io/path\"] = \"d/c.yaml\"";
    let found = package(&mutator(moves), &[("a.yaml", A), ("b.yaml", B)]);
    assert_eq!((found.error, found.files.contains_key("b.yaml")), (None, false));
    assert_eq!(found.files["d/c.yaml"], B);
}

/// A script in a file, which is one of the objects, as a validator.
#[test]
fn files_with_scripts() {
    let function = "  validators:\n  - image: ghcr.io/kptdev/krm-functions-catalog/starlark:v0.5.0\n    configPath: s.yaml\n";
    let source = "print(1)\nfor r in ctx.resource_list[\"items\"]:\n  if r[\"kind\"] == \"Deployment\": fail(\"no \" + r[\"metadata\"][\"name\"])";
    let found = package(function, &[("a.yaml", A), ("s.yaml", &config(source))]);
    assert_eq!(found.error, None);
    let found = package(function, &[("b.yaml", B), ("s.yaml", &config(source))]);
    let error = "package \".\": function \"ghcr.io/kptdev/krm-functions-catalog/starlark:v0.5.0\": script:3:37: fail: no b";
    assert_eq!(found.error.as_deref(), Some(error));
    let item = &found.status.result.unwrap().items[0];
    assert_eq!((item.exit_code, item.stderr.as_deref()), (Some(1), Some("1\n")));
}

/// Scripts without an end, and with too much memory (`packagevariants.md` 8.4).
#[test]
fn limits() {
    for (source, expected) in [
        ("while True: pass", "took more than 125000 steps"),
        (
            "def f():\n  for i in range(1000000000):\n    for j in range(1000000000): pass\nf()",
            "took more than 125000 steps",
        ),
        ("x = \"x\" * 10000000", "used more than 4 MiB"),
        ("x = []\nwhile True: x.append(\"x\" * 1000)", "used more than 4 MiB"),
    ] {
        let found = package(&mutator(source), &[("a.yaml", A)]);
        let error = format!("package \".\": function \"gcr.io/kpt-fn/starlark:v0.4.3\": {expected}");
        assert_eq!(found.error.as_deref(), Some(error.as_str()));
        assert_eq!(found.files["a.yaml"], A);
    }
    let found = package(&mutator("def f(n): return f(n)\nf(1)"), &[("a.yaml", A)]);
    assert!(
        found.error.unwrap().ends_with("function-input:1:19: stack overflow: calls are nested too deeply")
    );
}
