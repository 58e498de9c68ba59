//! Validation of PackageVariants (`packagevariants.md` 1.2.2).

use groundwork_api::metadata::label::LATEST_REVISION;
use groundwork_api::{Function, PackageVariantSpec};
use serde_json::json;

use crate::revision::revision_error;
use crate::validate::{ADOPTION, DELETION, STRATEGIES, is_one_of};

/// Keys of the package context that the store sets.
const RESERVED: [&str; 2] = ["name", "package-path"];

/// Returns all errors of a variant, in the order of `packagevariants.md` 1.2.2; empty if it is
/// valid.
pub fn validate_variant(spec: &PackageVariantSpec) -> Vec<String> {
    let mut errors = Vec::new();
    let is_given = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
    let mut missing = |field: &str| errors.push(format!("missing required field {field}"));
    let mut revision = None;
    match &spec.upstream {
        None => missing("spec.upstream"),
        Some(upstream) if upstream.package_revision_set.is_some() => {
            revision =
                Some("spec.upstream.packageRevisionSet may only be used in a PackageVariantSet".to_owned());
        }
        Some(upstream) => {
            if !is_given(&upstream.repo) {
                missing("spec.upstream.repo");
            }
            if !is_given(&upstream.package) {
                missing("spec.upstream.package");
            }
            revision = revision_error(upstream, "spec.upstream");
        }
    }
    errors.extend(revision);
    let mut missing = |field: &str| errors.push(format!("missing required field {field}"));
    match &spec.downstream {
        None => missing("spec.downstream"),
        Some(downstream) => {
            if !is_given(&downstream.repo) {
                missing("spec.downstream.repo");
            }
            if !is_given(&downstream.package) {
                missing("spec.downstream.package");
            }
        }
    }
    // An empty policy means the default.
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    if !is_one_of(given(&spec.adoption_policy).as_ref(), &ADOPTION) {
        errors.push("spec.adoptionPolicy field can only be \"adoptNone\" or \"adoptExisting\"".to_owned());
    }
    if !is_one_of(given(&spec.deletion_policy).as_ref(), &DELETION) {
        errors.push("spec.deletionPolicy can only be \"orphan\" or \"delete\"".to_owned());
    }
    context_errors(spec, &mut errors);
    match spec.injectors() {
        Ok(injectors) => {
            let unnamed = injectors.iter().enumerate().filter(|(_, injector)| injector.name.is_empty());
            errors
                .extend(unnamed.map(|(index, _)| format!("spec.injectors[{index}].name must not be empty")));
        }
        Err(found) => errors.extend(found.iter().map(ToString::to_string)),
    }
    if let Some(pipeline) = &spec.pipeline {
        function_errors(&pipeline.mutators, "spec.pipeline.mutators", &mut errors);
        function_errors(&pipeline.validators, "spec.pipeline.validators", &mut errors);
    }
    if !is_one_of(given(&spec.update_strategy).as_ref(), &STRATEGIES) {
        errors.push(
            "spec.updateStrategy can only be \"resource-merge\", \"fast-forward\", \"force-delete-replace\" or \
             \"copy-merge\""
                .to_owned(),
        );
    }
    // Only a store sets this label (`packagevariants.md` 3.5).
    if spec.labels.contains_key(LATEST_REVISION) {
        errors.push(format!("spec.labels must not contain {LATEST_REVISION:?}"));
    }
    errors
}

fn context_errors(spec: &PackageVariantSpec, errors: &mut Vec<String>) {
    let Some(context) = &spec.package_context else { return };
    for key in RESERVED {
        let occurrences = context.remove_keys.iter().filter(|name| *name == key).count();
        for (field, times, written) in [
            ("data", usize::from(context.data.contains_key(key)), json!(context.data)),
            ("removeKeys", occurrences, json!(context.remove_keys)),
        ] {
            let written = as_go_writes(&written.to_string());
            errors.extend((0..times).map(|_| {
                format!("spec.packageContext.{field}: Invalid value: {written}: must not contain the key \"{key}\"")
            }));
        }
    }
}

/// Escapes a JSON text as Go does, so that it can be embedded in HTML.
fn as_go_writes(json: &str) -> String {
    let mut written = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<' => written.push_str("\\u003c"),
            '>' => written.push_str("\\u003e"),
            '&' => written.push_str("\\u0026"),
            '\u{2028}' => written.push_str("\\u2028"),
            '\u{2029}' => written.push_str("\\u2029"),
            c => written.push(c),
        }
    }
    written
}

fn function_errors(functions: &[Function], path: &str, errors: &mut Vec<String>) {
    let is_given = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
    for (index, function) in functions.iter().enumerate() {
        if !is_given(&function.image) && !is_given(&function.exec) {
            errors.push(format!("{path}[{index}].image must not be empty"));
        }
        if function.name.as_deref().is_some_and(|name| name.contains('.')) {
            errors.push(format!("{path}[{index}].name must not contain '.'"));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn check(spec: &Value, expected: &[&str]) {
        let read: PackageVariantSpec = serde_json::from_value(spec.clone()).unwrap();
        assert_eq!(validate_variant(&read), expected, "{spec}");
    }

    fn whole(changes: &Value) -> Value {
        let mut spec = json!({
            "upstream": {"repo": "catalog", "package": "net/coredns", "revision": "v4"},
            "downstream": {"repo": "edge-7", "package": "dns"},
        });
        for (name, value) in changes.as_object().unwrap() {
            spec[name] = value.clone();
        }
        spec
    }

    /// V-054, V-055, V-060, V-061: every row of the table, in its order.
    #[test]
    fn every_row() {
        check(&whole(&json!({})), &[]);
        check(
            &json!({}),
            &["missing required field spec.upstream", "missing required field spec.downstream"],
        );
        check(
            &json!({"upstream": {}, "downstream": {"repo": ""}}),
            &[
                "missing required field spec.upstream.repo",
                "missing required field spec.upstream.package",
                "either spec.upstream.revision or spec.upstream.workspaceName must be specified",
                "missing required field spec.downstream.repo",
                "missing required field spec.downstream.package",
            ],
        );
        check(
            &whole(&json!({"adoptionPolicy": "x", "deletionPolicy": "x", "updateStrategy": "x"})),
            &[
                "spec.adoptionPolicy field can only be \"adoptNone\" or \"adoptExisting\"",
                "spec.deletionPolicy can only be \"orphan\" or \"delete\"",
                "spec.updateStrategy can only be \"resource-merge\", \"fast-forward\", \"force-delete-replace\" or \
                 \"copy-merge\"",
            ],
        );
        check(
            &whole(
                &json!({"packageContext": {"data": {"name": "a", "package-path": "b"}, "removeKeys": ["name"]}}),
            ),
            &[
                "spec.packageContext.data: Invalid value: {\"name\":\"a\",\"package-path\":\"b\"}: must not contain \
                 the key \"name\"",
                "spec.packageContext.removeKeys: Invalid value: [\"name\"]: must not contain the key \"name\"",
                "spec.packageContext.data: Invalid value: {\"name\":\"a\",\"package-path\":\"b\"}: must not contain \
                 the key \"package-path\"",
            ],
        );
        check(
            &whole(&json!({
                "injectors": [{"name": "a"}, {"kind": "K"}],
                "pipeline": {"mutators": [{"name": "a.b"}], "validators": [{"exec": "./x"}]},
            })),
            &[
                "spec.injectors[1].name must not be empty",
                "spec.pipeline.mutators[0].image must not be empty",
                "spec.pipeline.mutators[0].name must not contain '.'",
            ],
        );
        check(
            &whole(&json!({"injectors": 5})),
            &["spec.injectors must be a list of objects or a single object"],
        );
        check(&whole(&json!({"injectors": {"name": "one"}})), &[]);
        check(
            &whole(&json!({"adoptionPolicy": "", "labels": {"kpt.dev/latest-revision": "true", "a": "b"}})),
            &["spec.labels must not contain \"kpt.dev/latest-revision\""],
        );
    }

    /// The example below the table in `packagevariants.md` 1.2.2.
    #[test]
    fn reserved_keys_are_told_in_json_as_go_writes_it() {
        let context = json!({"data": {"zone": "eu<1", "name": "x"}, "removeKeys": ["package-path", "old", "package-path"]});
        let keys = "spec.packageContext.removeKeys: Invalid value: [\"package-path\",\"old\",\"package-path\"]: must not \
                    contain the key \"package-path\"";
        check(
            &whole(&json!({"packageContext": context})),
            &[
                "spec.packageContext.data: Invalid value: {\"name\":\"x\",\"zone\":\"eu\\u003c1\"}: must not contain the key \
                 \"name\"",
                keys,
                keys,
            ],
        );
    }
}
