use super::*;

const BLUEPRINT: &str = "blueprint: {ref: {resourceName: bp}}";

/// Returns the errors of an Installation with these metadata and members of `spec`, as `path:
/// rest`.
fn findings(metadata: &str, spec: &str) -> Vec<String> {
    let text = format!("{{metadata: {{{metadata}}}, spec: {{{spec}}}}}");
    let mut object = groundwork_yaml::from_str(&text).unwrap();
    object["apiVersion"] = json!("landscaper.gardener.cloud/v1alpha1");
    object["kind"] = json!("Installation");
    let installation: Installation = serde_json::from_value(object).unwrap();
    validate(&installation).iter().map(ToString::to_string).collect()
}

#[track_caller]
fn check(metadata: &str, spec: &str, starts: &[&str]) {
    let found = findings(metadata, spec);
    assert_eq!(found.len(), starts.len(), "{metadata} {spec}: {found:?}");
    for (found, start) in found.iter().zip(starts) {
        assert!(found.starts_with(start), "{found} does not begin with {start}");
    }
}

#[track_caller]
fn check_spec(spec: &str, starts: &[&str]) {
    check("name: server", &format!("{BLUEPRINT}, {spec}"), starts);
}

#[test]
fn rule_1_names() {
    let long = "x".repeat(58);
    for good in ["name: a", "name: a-1", &format!("name: {long}"), "generateName: server-"] {
        check(good, BLUEPRINT, &[]);
    }
    let invalid = "metadata.name: Invalid value: ";
    for bad in ["name: A", "name: a.b", "name: -a", "", &format!("name: {long}x")] {
        check(bad, BLUEPRINT, &[invalid]);
    }
    check(&format!("generateName: {}", &long[..53]), BLUEPRINT, &[]);
    check(&format!("generateName: {}", &long[..54]), BLUEPRINT, &["metadata.generateName: Invalid value: "]);
}

/// Cases I-42, I-43 and error E3 (`components.md` 8): both or neither of two alternative fields.
#[test]
fn rule_2_definitions() {
    check(
        "name: a",
        "",
        &["spec.blueprint: Required value: exactly one of [ref, inline] must be set (currently set: none)"],
    );
    let both = "blueprint: {ref: {resourceName: a}, inline: {filesystem: {}}}";
    check("name: a", both, &["spec.blueprint: Invalid value: null: exactly one of [ref, inline]"]);
    check_spec(
        "componentDescriptor: {}",
        &[
            "spec.componentDescriptor.definition: Required value: exactly one of [Inline, Reference] must be set \
           (currently set: none)",
        ],
    );
    check_spec(
        "componentDescriptor: {inline: {}, ref: {componentName: a, version: b}}",
        &[
            "spec.componentDescriptor.definition: Invalid value: null: exactly one of [Inline, Reference] must be set \
           (currently set: [Inline, Reference])",
        ],
    );
    check_spec("componentDescriptor: {inline: {}}", &[]);
}

/// Case I-32, which the schema cannot reject: the name exists but is empty.
#[test]
fn a_component_needs_a_name() {
    check_spec("componentDescriptor: {ref: {componentName: a, version: b}}", &[]);
    check_spec(
        "componentDescriptor: {ref: {componentName: '', version: b}}",
        &["spec.componentDescriptor.ref.componentName: Required value: componentName must not be empty"],
    );
}

/// Case I-73: errors in data imports.
#[test]
fn rule_3_data_imports() {
    let data = |import: &str| format!("imports: {{data: [{import}]}}");
    for good in ["dataRef: x", "secretRef: {name: x}", "configMapRef: {name: x, key: ''}"] {
        check_spec(&data(&format!("{{name: a, {good}}}")), &[]);
    }
    check_spec(
        &data("{name: a}"),
        &[
            "spec.imports.data[0]: Required value: exactly one of [dataRef, secretRef, configMapRef] must be set",
        ],
    );
    check_spec(&data("{name: a, dataRef: ''}"), &["spec.imports.data[0]: Required value: "]);
    check_spec(
        &data("{name: a, dataRef: x, secretRef: {name: yy}}"),
        &["spec.imports.data[0]: Invalid value: null: exactly one of"],
    );
    check_spec(&data("{name: '', dataRef: x}"), &["spec.imports.data[0].name: Required value"]);
    check_spec(
        &data("{name: a, secretRef: {name: ''}}"),
        &["spec.imports.data[0].secretRef.name: Required value"],
    );
    check_spec(
        &data("{name: a, configMapRef: {name: ''}}"),
        &["spec.imports.data[0].configMapRef.name: Required value"],
    );
}

/// Case I-77: errors in Target imports.
#[test]
fn rule_4_target_imports() {
    let target = |import: &str| format!("imports: {{targets: [{import}]}}");
    for good in ["target: x", "targets: []", "targetMap: {}", "targetMapRef: x", "targetListRef: x"] {
        check_spec(&target(&format!("{{name: a, {good}}}")), &[]);
    }
    let exactly_one = "exactly one of [target, targets, targetMap, targetMapRef, targetListRef] must be set";
    check_spec(&target("{name: a}"), &[&format!("spec.imports.targets[0]: Required value: {exactly_one}")]);
    check_spec(
        &target("{name: a, target: x, targetMap: {}}"),
        &[&format!("spec.imports.targets[0]: Invalid value: null: {exactly_one}")],
    );
    check_spec(
        &target("{name: a, targets: [x, '']}"),
        &["spec.imports.targets[0].targets[1]: Required value"],
    );
    check_spec(
        &target("{name: a, targetMap: {good-1: x, Bad: yy, empty: ''}}"),
        &[
            "spec.imports.targets[0].targetMap[Bad]: Invalid value: \"Bad\"",
            "spec.imports.targets[0].targetMap[empty]: Required value",
        ],
    );
    check_spec(
        &target("{name: a, targets: [x, {yy: z}]}"),
        &["spec.imports.targets[0]: Invalid value: \"a\": targets[1]"],
    );
}

/// Cases I-64, I-90: names of imports and exports are unique.
#[test]
fn rules_5_and_6_unique_names() {
    check_spec(
        "imports: {data: [{name: a, dataRef: x}, {name: a, dataRef: yy}], targets: [{name: a, target: z}]}",
        &[
            "spec.imports.data[1].name: Duplicate value: \"a\"",
            "spec.imports.targets[0].name: Duplicate value: \"a\"",
        ],
    );
    check_spec(
        "exports: {data: [{name: a, dataRef: x}, {name: '', dataRef: ''}], targets: [{name: a, target: yy}]}",
        &[
            "spec.exports.data[1].name: Required value",
            "spec.exports.data[1].dataRef: Required value",
            "spec.exports.targets[0].name: Duplicate value: \"a\"",
        ],
    );
    check_spec("imports: {data: [{name: a, dataRef: x}]}, exports: {data: [{name: a, dataRef: x}]}", &[]);
}

#[test]
fn rule_7_cron_specs() {
    check_spec(
        "automaticReconcile: {succeededReconcile: {cronSpec: '30 2 * * *'}, failedReconcile: {cronSpec: ''}}",
        &[],
    );
    check_spec(
        "automaticReconcile: {succeededReconcile: {cronSpec: daily}, failedReconcile: {cronSpec: '@often'}}",
        &[
            "spec.automaticReconcile.succeededReconcile.cronSpec: Invalid value: \"daily\": five fields",
            "spec.automaticReconcile.failedReconcile.cronSpec: Invalid value: \"@often\": @often is not one of",
        ],
    );
}

/// Case I-98 for rule 9, which applies only to Installations without a parent.
#[test]
fn rules_8_and_9_exported_names() {
    let long = "x".repeat(64);
    for bad in ["'#a'", "a/b", "-a", long.as_str()] {
        let data = format!("exports: {{data: [{{name: a, dataRef: {bad}}}]}}");
        check_spec(&data, &["spec.exports.data[0].dataRef: Invalid value: "]);
        let target = format!("exports: {{targets: [{{name: a, target: {bad}}}]}}");
        check_spec(&target, &["spec.exports.targets[0].target: Invalid value: "]);
    }
    check_spec("exports: {data: [{name: a, dataRef: My_T}], targets: [{name: b, target: my-t.x}]}", &[]);
    let target = "exports: {targets: [{name: a, target: My_T}]}";
    check_spec(target, &["spec.exports.targets[0].target: Invalid value: \"My_T\": the name of a Target"]);
    let owned = "name: a, ownerReferences: [{apiVersion: landscaper.gardener.cloud/v1alpha1, kind: Installation, \
                 name: p, uid: u}]";
    check(owned, &format!("{BLUEPRINT}, {target}"), &[]);
}
