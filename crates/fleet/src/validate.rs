//! Validation of sets (`packagevariants.md` 4.9).

use groundwork_api::{
    DownstreamTemplate, FunctionTemplate, MapExpr, ObjectSelector, OneOrMany, PackageVariantSet,
    PackageVariantTarget, PackageVariantTemplate, ShapeError,
};

use crate::{selector, upstreams};

pub(crate) const ADOPTION: [&str; 2] = ["adoptNone", "adoptExisting"];
pub(crate) const DELETION: [&str; 2] = ["orphan", "delete"];
const FAILURE_POLICIES: [&str; 2] = ["Stop", ISOLATE];
/// Failure policy with which a failing target does not block the others.
pub(crate) const ISOLATE: &str = "Isolate";
pub(crate) const STRATEGIES: [&str; 4] =
    ["resource-merge", "fast-forward", "force-delete-replace", "copy-merge"];

/// Returns all errors of a set, in the order of `packagevariants.md` 4.9; empty if it is valid.
pub fn validate_set(set: &PackageVariantSet) -> Vec<String> {
    let mut errors = upstreams::errors(set);
    if set.spec.targets.is_empty() {
        errors.push("must specify at least one item in spec.targets".to_owned());
    }
    for (index, target) in set.spec.targets.iter().enumerate() {
        let path = format!("spec.targets[{index}]");
        kind_errors(target, &path, &mut errors);
        if let Some(template) = &target.template {
            template_errors(template, &format!("{path}.template"), &mut errors);
        }
    }
    if !is_one_of(set.spec.failure_policy.as_ref(), &FAILURE_POLICIES) {
        errors.push("spec.failurePolicy can only be \"Stop\" or \"Isolate\"".to_owned());
    }
    if set.spec.max_delete_percent.is_some_and(|percent| !(0..=100).contains(&percent)) {
        errors.push("spec.maxDeletePercent must be from 0 to 100".to_owned());
    }
    errors
}

fn is_empty(text: Option<&String>) -> bool {
    text.is_none_or(String::is_empty)
}

fn kind_errors(target: &PackageVariantTarget, path: &str, errors: &mut Vec<String>) {
    let mut kinds = 0;
    if let Some(repositories) = target.repositories.written() {
        kinds += 1;
        if repositories.is_empty() {
            errors.push(format!("{path}.repositories must not be an empty list if specified"));
        }
        for (index, repository) in repositories.iter().enumerate() {
            let path = format!("{path}.repositories[{index}]");
            if is_empty(repository.name.as_ref()) {
                errors.push(format!("{path}.name cannot be empty"));
            }
            errors.extend(empty_names(&repository.package_names, &path));
        }
    }
    if let Some(found) = &target.repository_selector {
        kinds += 1;
        let found = selector::errors(&found.label_selector());
        errors.extend(found.into_iter().map(|error| format!("{path}.repositorySelector: {error}")));
    }
    if let Some(found) = &target.object_selector {
        kinds += 1;
        object_selector_errors(found, path, errors);
    }
    if target.repositories.written().is_some() && !target.package_names.is_empty() {
        errors
            .push(format!("{path}.packageNames may only be used with repositorySelector or objectSelector"));
    }
    errors.extend(empty_names(&target.package_names, path));
    if kinds != 1 {
        errors.push(format!(
            "{path} must specify one of `repositories`, `repositorySelector`, or `objectSelector`"
        ));
    }
}

fn object_selector_errors(found: &ObjectSelector, path: &str, errors: &mut Vec<String>) {
    // Porch writes `objectselector` in lower case.
    if is_empty(found.api_version.as_ref()) {
        errors.push(format!("{path}.objectselector.apiVersion cannot be empty"));
    }
    if is_empty(found.kind.as_ref()) {
        errors.push(format!("{path}.objectselector.kind cannot be empty"));
    }
    let found = selector::errors(&found.label_selector());
    errors.extend(found.into_iter().map(|error| format!("{path}.objectSelector: {error}")));
}

fn empty_names(names: &[String], path: &str) -> Vec<String> {
    let empty = names.iter().enumerate().filter(|(_, name)| name.is_empty());
    empty.map(|(index, _)| format!("{path}.packageNames[{index}] cannot be empty")).collect()
}

/// Reports whether a value is one of the known ones, or absent.
pub(crate) fn is_one_of(value: Option<&String>, known: &[&str]) -> bool {
    value.is_none_or(|value| known.contains(&value.as_str()))
}

fn template_errors(template: &PackageVariantTemplate, path: &str, errors: &mut Vec<String>) {
    if !is_one_of(template.adoption_policy.as_ref(), &ADOPTION) {
        errors.push(format!("{path}.adoptionPolicy can only be \"adoptNone\" or \"adoptExisting\""));
    }
    if !is_one_of(template.deletion_policy.as_ref(), &DELETION) {
        errors.push(format!("{path}.deletionPolicy can only be \"orphan\" or \"delete\""));
    }
    if !is_one_of(template.update_strategy.as_ref(), &STRATEGIES) {
        errors.push(format!(
            "{path}.updateStrategy can only be \"resource-merge\", \"fast-forward\", \"force-delete-replace\" or \
             \"copy-merge\""
        ));
    }
    errors.extend(template.downstream.iter().flat_map(|downstream| downstream_errors(downstream, path)));
    map_errors(&template.label_exprs, &format!("{path}.labelExprs"), errors);
    map_errors(&template.annotation_exprs, &format!("{path}.annotationExprs"), errors);
    if let Some(context) = &template.package_context {
        map_errors(&context.data_exprs, &format!("{path}.packageContext.dataExprs"), errors);
    }
    injector_errors(template, path, errors);
    let Some(pipeline) = &template.pipeline else { return };
    for (list, functions) in [("validators", &pipeline.validators), ("mutators", &pipeline.mutators)] {
        for (index, function) in functions.iter().enumerate() {
            function_errors(function, &format!("{path}.pipeline.{list}[{index}]"), errors);
        }
    }
}

fn downstream_errors(downstream: &DownstreamTemplate, path: &str) -> Vec<String> {
    let mut errors = Vec::new();
    for (name, fixed, computed) in [
        ("repo", &downstream.repo, &downstream.repo_expr),
        ("package", &downstream.package, &downstream.package_expr),
    ] {
        // A field that is set counts, even if it is empty.
        if fixed.is_some() && computed.is_some() {
            errors.push(format!(
                "{path} may specify only one of `downstream.{name}` and `downstream.{name}Expr`"
            ));
        }
    }
    errors
}

fn shape_errors(errors: Vec<ShapeError>) -> impl Iterator<Item = String> {
    errors.into_iter().map(|error| error.to_string())
}

fn map_errors(field: &OneOrMany<MapExpr>, path: &str, errors: &mut Vec<String>) {
    let entries = match field.entries(path) {
        Ok(entries) => entries,
        Err(found) => return errors.extend(shape_errors(found)),
    };
    for (index, entry) in entries.iter().enumerate() {
        let path = format!("{path}[{index}]");
        match (&entry.key, &entry.key_expr) {
            (Some(_), Some(_)) => errors.push(format!("{path} may specify only one of `key` and `keyExpr`")),
            (None, None) => errors.push(format!("{path} must specify either `key` or `keyExpr`")),
            _ => {}
        }
        if entry.value.is_some() && entry.value_expr.is_some() {
            errors.push(format!("{path} may specify only one of `value` and `valueExpr`"));
        }
    }
}

fn injector_errors(template: &PackageVariantTemplate, path: &str, errors: &mut Vec<String>) {
    for (name, field) in [("injectors", &template.injectors), ("injectorExprs", &template.injector_exprs)] {
        let path = format!("{path}.{name}");
        let entries = match field.entries(&path) {
            Ok(entries) => entries,
            Err(found) => {
                errors.extend(shape_errors(found));
                continue;
            }
        };
        for (index, entry) in entries.iter().enumerate() {
            let path = format!("{path}[{index}]");
            match (&entry.name, &entry.name_expr) {
                (Some(_), Some(_)) => {
                    errors.push(format!("{path} may specify only one of `name` and `nameExpr`"));
                }
                (None, None) => errors.push(format!("{path} must specify either `name` or `nameExpr`")),
                _ => {}
            }
        }
    }
}

fn function_errors(function: &FunctionTemplate, path: &str, errors: &mut Vec<String>) {
    // The functions of a template cannot use `exec`.
    if is_empty(function.image.as_ref()) {
        errors.push(format!("{path}.image must not be empty"));
    }
    if function.name.as_deref().is_some_and(|name| name.contains('.')) {
        errors.push(format!("{path}.name must not contain '.'"));
    }
    map_errors(&function.config_map_exprs, &format!("{path}.configMapExprs"), errors);
}

#[cfg(test)]
mod tests;
