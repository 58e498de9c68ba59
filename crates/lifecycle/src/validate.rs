//! Rules for Installations that a schema cannot express (`installations.md` 1.1, validation).

use std::collections::HashSet;
use std::sync::LazyLock;

use groundwork_api::kubernetes::looks_like_dns_label;
use groundwork_api::{Installation, InstallationSpec, TargetSource, TargetSourceError};
use groundwork_blueprint::{FieldError, FieldPath, Violation, exactly_one_of};
use regex::Regex;
use serde_json::{Value, json};

use crate::names::parent_name;
use groundwork_go::cron::Cron;

/// 63 characters of a label value minus the scope prefix `Inst.`.
const LONGEST_NAME: usize = 58;
/// Length limit minus the five random characters that the API server appends.
const LONGEST_GENERATED_NAME: usize = 53;

static DNS_SUBDOMAIN: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"));
static MAP_KEY: LazyLock<Regex> = LazyLock::new(|| pattern("^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$"));
static LABEL_VALUE: LazyLock<Regex> =
    LazyLock::new(|| pattern("^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$"));

fn pattern(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the patterns of this module are constants and valid")
}

/// Returns an error for every rule that an Installation breaks.
pub fn validate(installation: &Installation) -> Vec<FieldError> {
    validate_as(installation, is_root(installation))
}

/// Validates an Installation whose caller knows if another Installation owns it: offline objects
/// have no owner references.
pub(crate) fn validate_as(installation: &Installation, is_root: bool) -> Vec<FieldError> {
    let mut errors = Vec::new();
    name(installation, &mut errors);
    let spec = FieldPath::root("spec");
    definitions(&installation.spec, &spec, &mut errors);
    let mut names = HashSet::new();
    data_imports(&installation.spec, &spec.key("imports").key("data"), &mut names, &mut errors);
    target_imports(&installation.spec, &spec.key("imports").key("targets"), &mut names, &mut errors);
    exports(&installation.spec, &spec.key("exports"), &mut errors);
    if is_root {
        exported_targets(&installation.spec, &spec.key("exports").key("targets"), &mut errors);
    }
    cron_specs(&installation.spec, &spec.key("automaticReconcile"), &mut errors);
    errors
}

/// Reports whether an Installation has no parent Installation (`installations.md` 2.1).
pub(crate) fn is_root(installation: &Installation) -> bool {
    parent_name(installation).is_none()
}

/// Rule 1: `metadata.name` or `generateName`, which names and labels are derived from.
fn name(installation: &Installation, errors: &mut Vec<FieldError>) {
    let metadata = FieldPath::root("metadata");
    let (field, value, longest) = match (&installation.metadata.name, &installation.metadata.generate_name) {
        (None, Some(prefix)) => ("generateName", prefix.as_str(), LONGEST_GENERATED_NAME),
        (name, _) => ("name", name.as_deref().unwrap_or_default(), LONGEST_NAME),
    };
    // The API server appends characters to `generateName`, so it may end with a dash.
    let label = if field == "generateName" { value.trim_end_matches('-') } else { value };
    if !looks_like_dns_label(label) || value.len() > longest {
        let detail = format!(
            "a DNS label of at most {longest} characters is expected: lower-case letters, digits and dashes"
        );
        errors.push(error(&metadata.key(field), Violation::Invalid(json!(value)), &detail));
    }
}

/// Rule 7: cron expressions of automatic jobs.
fn cron_specs(spec: &InstallationSpec, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let Some(automatic) = &spec.automatic_reconcile else { return };
    let succeeded = automatic.succeeded_reconcile.as_ref().and_then(|timing| timing.cron_spec.as_ref());
    let failed = automatic.failed_reconcile.as_ref().and_then(|timing| timing.cron_spec.as_ref());
    for (field, expression) in [("succeededReconcile", succeeded), ("failedReconcile", failed)] {
        // An empty text counts as absent.
        let Some(expression) = expression.filter(|expression| !expression.is_empty()) else { continue };
        if let Err(problem) = expression.parse::<Cron>() {
            let at = path.key(field).key("cronSpec");
            errors.push(error(&at, Violation::Invalid(json!(expression)), &problem));
        }
    }
}

/// Rule 9: in the scope of the namespace, the exported name is the name of the Target object.
fn exported_targets(spec: &InstallationSpec, path: &FieldPath, errors: &mut Vec<FieldError>) {
    for (index, export) in spec.target_exports().iter().enumerate() {
        let target = export.target.as_str();
        // Rules 6 and 8 have already reported an empty name or an invalid label value.
        let reported = target.is_empty() || !LABEL_VALUE.is_match(target);
        if !reported && !DNS_SUBDOMAIN.is_match(target) {
            let detail = "the name of a Target is expected: lower-case letters, digits, dashes and dots, with a letter or digit at both ends";
            errors.push(error(&path.index(index).key("target"), Violation::Invalid(json!(target)), detail));
        }
    }
}

fn error(path: &FieldPath, violation: Violation, detail: &str) -> FieldError {
    FieldError { path: path.clone(), violation, detail: detail.to_owned() }
}

fn required(path: &FieldPath, detail: &str) -> FieldError {
    error(path, Violation::Required, detail)
}

/// Rule 2: definitions of the component and the blueprint.
fn definitions(spec: &InstallationSpec, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let blueprint = &spec.blueprint;
    let fields = [("ref", blueprint.reference.is_some()), ("inline", blueprint.inline.is_some())];
    errors.extend(exactly_one_of(&path.key("blueprint"), &fields));
    if let Some(component) = &spec.component_descriptor {
        // Field names and path equal those that Landscaper reports (`components.md` 1.4).
        let fields =
            [("Inline", component.inline.get().is_some()), ("Reference", component.reference.is_some())];
        let path = path.key("componentDescriptor");
        errors.extend(exactly_one_of(&path.key("definition"), &fields));
        // Without this check, the lookup of a component with an empty name would fail later.
        if component.reference.as_ref().is_some_and(|reference| reference.component_name.is_empty()) {
            let at = path.key("ref").key("componentName");
            errors.push(required(&at, "componentName must not be empty"));
        }
    }
}

/// Rules 3 and 5: data imports.
fn data_imports<'a>(
    spec: &'a InstallationSpec,
    path: &FieldPath,
    names: &mut HashSet<&'a str>,
    errors: &mut Vec<FieldError>,
) {
    for (index, import) in spec.data_imports().iter().enumerate() {
        let at = path.index(index);
        unique(&import.name, &at, names, errors);
        let fields = [
            ("dataRef", import.data_ref.as_ref().is_some_and(|name| !name.is_empty())),
            ("secretRef", import.secret_ref.is_some()),
            ("configMapRef", import.config_map_ref.is_some()),
        ];
        errors.extend(exactly_one_of(&at, &fields));
        let names = [
            ("secretRef", import.secret_ref.as_ref().map(|reference| &reference.name)),
            ("configMapRef", import.config_map_ref.as_ref().map(|reference| &reference.name)),
        ];
        let empty = names.into_iter().filter(|(_, name)| name.is_some_and(String::is_empty));
        errors.extend(empty.map(|(field, _)| required(&at.key(field).key("name"), "name must not be empty")));
    }
}

/// Rules 4 and 5: Target imports.
fn target_imports<'a>(
    spec: &'a InstallationSpec,
    path: &FieldPath,
    names: &mut HashSet<&'a str>,
    errors: &mut Vec<FieldError>,
) {
    for (index, import) in spec.target_imports().iter().enumerate() {
        let at = path.index(index);
        unique(&import.name, &at, names, errors);
        match import.source() {
            Ok(TargetSource::List(targets)) => {
                let empty = targets.iter().enumerate().filter(|(_, target)| target.is_empty());
                errors.extend(
                    empty.map(|(index, _)| {
                        required(&at.key("targets").index(index), "target must not be empty")
                    }),
                );
            }
            Ok(TargetSource::Map(targets)) => {
                for (key, target) in targets {
                    let at = at.key("targetMap").named(key);
                    if !MAP_KEY.is_match(key) {
                        let detail = "at most 63 of a-z, 0-9, dots and dashes are expected, with a letter or digit at both ends";
                        errors.push(error(&at, Violation::Invalid(json!(key)), detail));
                    }
                    if target.is_empty() {
                        errors.push(required(&at, "target must not be empty"));
                    }
                }
            }
            Ok(_) => {}
            Err(TargetSourceError::NotExactlyOne(set)) => {
                let fields = ["target", "targets", "targetMap", "targetMapRef", "targetListRef"];
                let fields = fields.map(|field| (field, set.contains(&field)));
                errors.extend(exactly_one_of(&at, &fields));
            }
            Err(problem) => {
                errors.push(error(
                    &at,
                    Violation::Invalid(Value::from(import.name.as_str())),
                    &problem.to_string(),
                ));
            }
        }
    }
}

fn unique<'a>(name: &'a str, path: &FieldPath, names: &mut HashSet<&'a str>, errors: &mut Vec<FieldError>) {
    if name.is_empty() {
        errors.push(required(&path.key("name"), "name must not be empty"));
    } else if !names.insert(name) {
        errors.push(error(
            &path.key("name"),
            Violation::Duplicate(json!(name)),
            "names are unique over data and targets",
        ));
    }
}

/// Rules 6 and 8: exports.
fn exports(spec: &InstallationSpec, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let data = spec.data_exports().iter().map(|export| ("data", "dataRef", &export.name, &export.data_ref));
    let targets =
        spec.target_exports().iter().map(|export| ("targets", "target", &export.name, &export.target));
    let mut names = HashSet::new();
    let (data, targets): (Vec<_>, Vec<_>) = (data.collect(), targets.collect());
    for list in [data, targets] {
        for (index, (kind, field, name, object)) in list.into_iter().enumerate() {
            let at = path.key(kind).index(index);
            unique(name, &at, &mut names, errors);
            if object.is_empty() {
                errors.push(required(&at.key(field), &format!("{field} must not be empty")));
            } else if !LABEL_VALUE.is_match(object) {
                let detail =
                    "at most 63 of A-Z, a-z, 0-9, - _ . are expected, with a letter or digit at both ends";
                errors.push(error(&at.key(field), Violation::Invalid(json!(object)), detail));
            }
        }
    }
}

#[cfg(test)]
mod tests;
