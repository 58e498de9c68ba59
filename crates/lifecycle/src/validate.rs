//! Rules for Installations that a schema cannot state (`installations.md` 1.1, validation).

use std::collections::HashSet;
use std::sync::LazyLock;

use groundwork_api::{Installation, InstallationSpec, TargetSource, TargetSourceError};
use groundwork_blueprint::{FieldError, FieldPath, Violation, exactly_one_of};
use regex::Regex;
use serde_json::{Value, json};

/// 63 characters of a label value less the scope prefix `Inst.`.
const LONGEST_NAME: usize = 58;

static DNS_LABEL: LazyLock<Regex> = LazyLock::new(|| pattern("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"));
static MAP_KEY: LazyLock<Regex> = LazyLock::new(|| pattern("^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$"));
static LABEL_VALUE: LazyLock<Regex> =
    LazyLock::new(|| pattern("^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$"));

fn pattern(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the patterns of this module are constants and valid")
}

/// Every rule that an Installation breaks.
pub fn validate(installation: &Installation) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let name = installation.metadata.name.as_deref().unwrap_or_default();
    if !DNS_LABEL.is_match(name) || name.len() > LONGEST_NAME {
        let detail = format!(
            "a DNS label of at most {LONGEST_NAME} characters is expected: lower-case letters, digits and dashes"
        );
        errors.push(error(
            &FieldPath::root("metadata").key("name"),
            Violation::Invalid(json!(name)),
            &detail,
        ));
    }
    let spec = FieldPath::root("spec");
    definitions(&installation.spec, &spec, &mut errors);
    let mut names = HashSet::new();
    data_imports(&installation.spec, &spec.key("imports").key("data"), &mut names, &mut errors);
    target_imports(&installation.spec, &spec.key("imports").key("targets"), &mut names, &mut errors);
    exports(&installation.spec, &spec.key("exports"), &mut errors);
    errors
}

fn error(path: &FieldPath, violation: Violation, detail: &str) -> FieldError {
    FieldError { path: path.clone(), violation, detail: detail.to_owned() }
}

fn required(path: &FieldPath, detail: &str) -> FieldError {
    error(path, Violation::Required, detail)
}

/// Rule 2.
fn definitions(spec: &InstallationSpec, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let blueprint = &spec.blueprint;
    let fields = [("ref", blueprint.reference.is_some()), ("inline", blueprint.inline.is_some())];
    errors.extend(exactly_one_of(&path.key("blueprint"), &fields));
    if let Some(component) = &spec.component_descriptor {
        let fields = [("ref", component.reference.is_some()), ("inline", component.inline.get().is_some())];
        errors.extend(exactly_one_of(&path.key("componentDescriptor"), &fields));
    }
}

/// Rules 3 and 5.
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

/// Rules 4 and 5.
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

/// Rules 6 and 8.
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
