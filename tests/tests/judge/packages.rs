//! `groundwork-judge variants expand|validate|mutate` and `groundwork-judge packages merge`: one
//! answer per line, even for lines that are not JSON.

use serde_json::{Value, json};

use super::{answers_to, judge};

fn answers(command: &[&str], lines: &[String]) -> Vec<Value> {
    judge(command, &(lines.join("\n") + "\n"))
}

fn answer(command: &[&str], line: &Value) -> Value {
    answers_to(command, std::slice::from_ref(line)).remove(0)
}

fn variant(spec: &Value) -> Value {
    let mut whole = json!({"upstream": {"repo": "r", "package": "p", "revision": "v1"}, "downstream": {"repo": "r", "package": "q"}});
    for (name, value) in spec.as_object().unwrap() {
        whole[name] = value.clone();
    }
    let (api_version, kind) = ("config.porch.kpt.dev/v1alpha1", "PackageVariant");
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "pv", "namespace": "fleet"}, "spec": whole})
}

fn set(targets: &Value) -> Value {
    let (api_version, kind) = ("config.porch.kpt.dev/v1alpha2", "PackageVariantSet");
    let spec =
        json!({"upstream": {"repo": "catalog", "package": "foo", "revision": "v1"}, "targets": targets});
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "s", "namespace": "fleet"}, "spec": spec})
}

/// Children are in the order of their targets, and equal children appear once.
#[test]
fn sets() {
    let revision = json!({"metadata": {"name": "c.foo.v1"}, "spec": {"packageName": "foo", "repository": "catalog", "revision": 1,
        "workspaceName": "w", "lifecycle": "Published"}});
    let targets = json!([{"repositories": [{"name": "b"}, {"name": "a", "packageNames": ["y", "x"]}]}, {"repositories": [{"name": "b"}]}]);
    let line = json!({"name": "one", "packageVariantSet": set(&targets), "packageRevisions": [revision]});
    let found = answer(&["variants", "expand"], &line);
    let names: Vec<&str> = found["output"]["children"]
        .as_array()
        .unwrap()
        .iter()
        .map(|child| child["name"].as_str().unwrap())
        .collect();
    assert_eq!((found["name"].as_str(), names), (Some("one"), vec!["s-b-foo", "s-a-y", "s-a-x"]));
    assert_eq!(found["output"]["targetCounts"], json!([2, 1]));

    let found = answer(&["variants", "expand"], &json!({"packageVariantSet": set(&targets)}));
    assert_eq!(found["error"]["reason"], "UpstreamNotFound");
    let teams = json!([{"objectSelector": {"apiVersion": "hr.example/v1", "kind": "Team"}}]);
    let line = json!({"packageVariantSet": set(&teams), "packageRevisions": line["packageRevisions"], "listErrors": {"Team": "boom"}});
    let found = answer(&["variants", "expand"], &line);
    assert_eq!(found["error"], json!({"reason": "NoMatchingTargets", "message": "boom"}));
}

#[test]
fn rules() {
    let check = |line: Value, expected: Value| {
        assert_eq!(answer(&["variants", "validate"], &line), expected, "{line}");
    };
    check(
        json!({"name": "a", "packageVariant": variant(&json!({}))}),
        json!({"name": "a", "output": {"errors": []}}),
    );
    let error = "spec.upstream.revision: Invalid value: \"1.5\": must be a revision number (v1, v2, ...) or a tag name";
    let upstream = json!({"repo": "r", "package": "p", "revision": 1.5});
    check(
        json!({"packageVariant": variant(&json!({"upstream": upstream}))}),
        json!({"name": null, "output": {"errors": [error]}}),
    );
    check(
        json!({"packageVariant": variant(&json!({"labels": {"a": 5}}))}),
        json!({"name": null, "error": {"reason": "Decode", "message": "spec.labels.a: expected string, found number"}}),
    );
    check(
        json!({"packageVariantSet": set(&json!([{"repositories": []}]))}),
        json!({"name": null, "output": {"errors": ["spec.targets[0].repositories must not be an empty list if specified"]}}),
    );
}

const KPTFILE: &str = "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata: {name: a}\n";

#[test]
fn changes_of_variants() {
    let context =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kptfile.kpt.dev}\ndata: {zone: 7} # ours\n";
    let spec = json!({"packageContext": {"data": {"tier": "2"}}});
    let files = json!({"Kptfile": KPTFILE, "package-context.yaml": context});
    let found = answer(&["variants", "mutate"], &json!({"packageVariant": variant(&spec), "files": files}));
    let changed = context.replace("{zone: 7}", "{zone: \"7\", tier: \"2\"}");
    assert_eq!(
        found["output"],
        json!({"files": {"Kptfile": KPTFILE, "package-context.yaml": changed}, "changed": true})
    );
    let again = answer(
        &["variants", "mutate"],
        &json!({"packageVariant": variant(&spec), "files": found["output"]["files"]}),
    );
    assert_eq!(again["output"]["changed"], json!(false));

    let found = answer(
        &["variants", "mutate"],
        &json!({"packageVariant": variant(&spec), "packageRevision": {"name": "d"}}),
    );
    assert_eq!(
        found["error"],
        json!({"reason": "Error", "message": "nil resources found for PackageRevisionResources 'fleet/d'"})
    );
    let broken = json!({"injectors": [{"kind": "K"}]});
    let found = answer(&["variants", "mutate"], &json!({"packageVariant": variant(&broken), "files": {}}));
    assert_eq!(found["error"]["errors"], json!(["spec.injectors[0].name must not be empty"]));
}

#[test]
fn updates() {
    let object = "apiVersion: v1\nkind: X\nmetadata: {name: x}\n";
    let side = |fields: &str| json!({"Kptfile": KPTFILE, "x.yaml": format!("{object}{fields}")});
    let line =
        json!({"original": side("a: 1\n"), "updated": side("a: 2\n"), "local": side("a: 1 # why\nb: 3\n")});
    assert_eq!(answer(&["packages", "merge"], &line)["output"]["files"], side("a: 2\nb: 3\n"));
    let line = json!({"strategy": "x"});
    let message = "unrecognized update strategy x";
    assert_eq!(
        answer(&["packages", "merge"], &line)["error"],
        json!({"reason": "UpgradeFailed", "message": message})
    );
}

#[test]
fn lines_that_cannot_be_used() {
    let lines = ["{", "[]", "5", "", "{\"name\": 5}", "{\"name\": \"n\", \"files\": 5, \"original\": []}"]
        .map(str::to_owned);
    for command in
        [["variants", "expand"], ["variants", "validate"], ["variants", "mutate"], ["packages", "merge"]]
    {
        let found = answers(&command, &lines);
        assert_eq!(found.len(), lines.len());
        assert!(found.iter().all(|answer| answer["error"]["reason"] == "Input"), "{command:?} {found:?}");
        assert_eq!(found[5]["name"], "n");
    }
}
