use serde_json::{Value, json};

use super::*;

fn check(spec: &Value, expected: &[&str]) {
    let set = serde_json::from_value(json!({"metadata": {"name": "s"}, "spec": spec})).unwrap();
    assert_eq!(validate_set(&set), expected, "{spec}");
}

fn target(target: &Value) -> Value {
    json!({"upstream": {"repo": "r", "package": "p", "revision": "v1"}, "targets": [target]})
}

fn template(template: &Value) -> Value {
    target(&json!({"repositorySelector": {}, "template": template}))
}

#[test]
fn upstream_and_targets() {
    check(
        &json!({}),
        &["spec.upstream is a required field", "must specify at least one item in spec.targets"],
    );
    check(
        &json!({"upstream": {}, "targets": []}),
        &[
            "spec.upstream.package is a required field",
            "spec.upstream.repo is a required field",
            "either spec.upstream.revision or spec.upstream.workspaceName must be specified",
            "must specify at least one item in spec.targets",
        ],
    );
    check(&target(&json!({"repositories": [{"name": "a", "packageNames": ["b"]}]})), &[]);
}

/// V-125: exactly one kind of target.
#[test]
fn one_kind_of_target() {
    let one = "spec.targets[0] must specify one of `repositories`, `repositorySelector`, or `objectSelector`";
    check(&target(&json!({})), &[one]);
    check(
        &target(&json!({"repositorySelector": {}, "objectSelector": {"apiVersion": "v1", "kind": "K"}})),
        &[one],
    );
    check(
        &target(&json!({"repositories": []})),
        &["spec.targets[0].repositories must not be an empty list if specified"],
    );
    check(
        &target(&json!({"repositories": [{"packageNames": ["a", ""]}], "packageNames": ["x"]})),
        &[
            "spec.targets[0].repositories[0].name cannot be empty",
            "spec.targets[0].repositories[0].packageNames[1] cannot be empty",
            "spec.targets[0].packageNames may only be used with repositorySelector or objectSelector",
        ],
    );
    check(
        &target(&json!({"objectSelector": {}, "packageNames": [""]})),
        &[
            "spec.targets[0].objectselector.apiVersion cannot be empty",
            "spec.targets[0].objectselector.kind cannot be empty",
            "spec.targets[0].packageNames[0] cannot be empty",
        ],
    );
    check(
        &target(
            &json!({"repositorySelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": []}]}}),
        ),
        &[
            "spec.targets[0].repositorySelector: values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty",
        ],
    );
}

/// V-140, V-148, V-149: every rule about templates, in its order.
#[test]
fn templates() {
    check(
        &template(&json!({
            "adoptionPolicy": "", "deletionPolicy": "x", "updateStrategy": "x",
            "downstream": {"repo": "a", "repoExpr": "b", "package": "a", "packageExpr": "b"},
            "labelExprs": {"key": "a", "keyExpr": "b"},
            "annotationExprs": [{"key": "a"}, {"key": "a", "value": "v", "valueExpr": "e"}],
            "packageContext": {"dataExprs": [{"value": "v"}]},
            "injectors": [{"name": "a", "nameExpr": "b"}],
            "injectorExprs": {"kind": "K"},
            "pipeline": {
                "validators": [{"name": "a.b", "image": "i", "configMapExprs": {"valueExpr": "x"}}],
                "mutators": [{}],
            },
        })),
        &[
            "spec.targets[0].template.adoptionPolicy can only be \"adoptNone\" or \"adoptExisting\"",
            "spec.targets[0].template.deletionPolicy can only be \"orphan\" or \"delete\"",
            "spec.targets[0].template.updateStrategy can only be \"resource-merge\", \"fast-forward\", \
             \"force-delete-replace\" or \"copy-merge\"",
            "spec.targets[0].template may specify only one of `downstream.repo` and `downstream.repoExpr`",
            "spec.targets[0].template may specify only one of `downstream.package` and `downstream.packageExpr`",
            "spec.targets[0].template.labelExprs[0] may specify only one of `key` and `keyExpr`",
            "spec.targets[0].template.annotationExprs[1] may specify only one of `value` and `valueExpr`",
            "spec.targets[0].template.packageContext.dataExprs[0] must specify either `key` or `keyExpr`",
            "spec.targets[0].template.injectors[0] may specify only one of `name` and `nameExpr`",
            "spec.targets[0].template.injectorExprs[0] must specify either `name` or `nameExpr`",
            "spec.targets[0].template.pipeline.validators[0].name must not contain '.'",
            "spec.targets[0].template.pipeline.validators[0].configMapExprs[0] must specify either `key` or `keyExpr`",
            "spec.targets[0].template.pipeline.mutators[0].image must not be empty",
        ],
    );
    check(
        &template(&json!({"labelExprs": 5, "injectors": [{"nam": "x"}]})),
        &[
            "spec.targets[0].template.labelExprs must be a list of objects or a single object",
            "spec.targets[0].template.injectors[0].nam: unknown field",
        ],
    );
    check(
        &template(
            &json!({"labelExprs": {"key": "a", "valueExpr": "'b'"}, "injectorExprs": {"nameExpr": "'a'"}}),
        ),
        &[],
    );
}
