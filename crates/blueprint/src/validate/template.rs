//! Validation of installation templates (`blueprints.md` 1.8, V20 to V37).

use std::collections::HashSet;

use std::sync::LazyLock;

use groundwork_api::{
    BLUEPRINT_API_VERSION, INSTALLATION_TEMPLATE_KIND, InstallationTemplate, SubinstallationTemplate,
    TargetImport,
};
use regex::Regex;
use serde_json::json;

use super::Findings;
use crate::field::{FieldError, FieldPath, Violation, exactly_one_of};

/// Maximum length of a name: 63 characters of a label value minus the scope prefix, five random
/// characters and a dash.
const LONGEST_NAME: usize = 52;

const LONGEST_LABEL: usize = 63;

static DNS_LABEL: LazyLock<Regex> = LazyLock::new(|| pattern("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"));
static MAP_KEY: LazyLock<Regex> = LazyLock::new(|| pattern("^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$"));

fn pattern(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the patterns of this module are constants and valid")
}

pub(super) fn subinstallation(findings: &mut Findings, entry: &SubinstallationTemplate, path: &FieldPath) {
    let has_file = entry.file.as_ref().is_some_and(|file| !file.is_empty());
    let template = entry.inline().filter(|template| has_known_fields(template));
    let fields = [("file", has_file), ("inline template", template.is_some())];
    findings.errors.extend(exactly_one_of(path, &fields));
    if let Some(template) = template.filter(|_| !has_file) {
        findings.errors.extend(installation_template(template, path));
    }
}

/// Reports whether a template has known members. Unknown ones are ignored, also beside `file`.
pub(crate) fn has_known_fields(template: &InstallationTemplate) -> bool {
    let unknown_only =
        InstallationTemplate { extra: template.extra.clone(), ..InstallationTemplate::default() };
    *template != unknown_only
}

/// Returns all findings about one template. Version and kind may be absent (`blueprints.md` 1.5).
pub(crate) fn installation_template(template: &InstallationTemplate, path: &FieldPath) -> Vec<FieldError> {
    let mut findings = Findings::default();
    for (member, value, supported) in [
        ("apiVersion", &template.api_version, &[BLUEPRINT_API_VERSION]),
        ("kind", &template.kind, &[INSTALLATION_TEMPLATE_KIND]),
    ] {
        if let Some(value) = value.as_deref().filter(|value| !value.is_empty())
            && !supported.contains(&value)
        {
            findings.add(&path.key(member), Violation::NotSupported(json!(value), supported), "");
        }
    }
    name(&mut findings, template.name(), &path.key("name"));
    let has_blueprint = template.blueprint.as_ref().is_some_and(|blueprint| {
        blueprint.reference.as_ref().is_some_and(|reference| !reference.is_empty())
            || blueprint.filesystem.get().is_some()
    });
    if !has_blueprint {
        findings.required(&path.key("blueprint"), "a blueprint must be defined");
    }
    imports(&mut findings, template, &path.key("imports"));
    exports(&mut findings, template, &path.key("exports"));
    findings.errors
}

fn name(findings: &mut Findings, name: &str, path: &FieldPath) {
    if name.is_empty() {
        return findings.required(path, "name must be defined");
    }
    if !DNS_LABEL.is_match(name) {
        let detail = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
                      start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for \
                      validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
        findings.add(path, Violation::Invalid(json!(name)), detail);
    }
    for longest in [LONGEST_LABEL, LONGEST_NAME] {
        if name.len() > longest {
            let detail = format!("must be no more than {longest} characters");
            findings.add(path, Violation::Invalid(json!(name)), detail);
        }
    }
}

fn imports(findings: &mut Findings, template: &InstallationTemplate, path: &FieldPath) {
    let Some(imports) = &template.imports else { return };
    let mut names = HashSet::new();
    for (index, import) in imports.data.iter().enumerate() {
        let at = path.key("data").index(index);
        unique(findings, &import.name, &mut names, &at);
        if import.secret_ref.is_some() {
            let detail = "secret references are not allowed in a installation template";
            findings.add(&at.key("secretRef"), Violation::Forbidden, detail);
        }
        if import.config_map_ref.is_some() {
            let detail = "configMap references are not allowed in a installation template";
            findings.add(&at.key("configMapRef"), Violation::Forbidden, detail);
        }
        if import.data_ref.as_ref().is_none_or(String::is_empty) {
            findings.required(&at.key("dataRef"), "dataRef must not be empty");
        }
    }
    for (index, import) in imports.targets.iter().enumerate() {
        let at = path.key("targets").index(index);
        unique(findings, &import.name, &mut names, &at);
        target_import(findings, import, &at);
    }
}

fn unique<'a>(findings: &mut Findings, name: &'a str, names: &mut HashSet<&'a str>, path: &FieldPath) {
    if name.is_empty() {
        findings.required(&path.key("name"), "name must not be empty");
    } else if names.contains(name) {
        findings.add(path, Violation::Duplicate(json!(name)), "");
    }
    names.insert(name);
}

fn target_import(findings: &mut Findings, import: &TargetImport, path: &FieldPath) {
    use groundwork_api::{TargetSource, TargetSourceError};
    match import.source() {
        Ok(TargetSource::List(targets)) => {
            for (index, target) in targets.iter().enumerate() {
                if target.is_empty() {
                    findings.required(&path.key("targets").index(index), "target must not be empty");
                }
            }
        }
        Ok(TargetSource::Map(targets)) => {
            for (key, target) in targets {
                let at = path.key("targetMap").entry(key);
                if !MAP_KEY.is_match(key) {
                    let detail = "key must contain only lower-case alphanumeric characters, dots, or dashes; it must \
                                  begin and end with a lower-case alphanumeric character; it must not be empty, and \
                                  not longer than 63 characters";
                    findings.add(&at, Violation::Invalid(json!(key)), detail);
                }
                if target.is_empty() {
                    findings.required(&at, "target must not be empty");
                }
            }
        }
        Ok(_) => {}
        Err(TargetSourceError::NotExactlyOne(set)) => {
            let fields = ["target", "targets", "targetMap", "targetMapRef", "targetListRef"]
                .map(|field| (field, set.contains(&field)));
            findings.errors.extend(exactly_one_of(path, &fields));
        }
        Err(error) => findings.add(&path.key("targets"), Violation::Invalid(json!(null)), error.to_string()),
    }
}

fn exports(findings: &mut Findings, template: &InstallationTemplate, path: &FieldPath) {
    let Some(exports) = &template.exports else { return };
    let mut names = HashSet::new();
    for (index, export) in exports.data.iter().enumerate() {
        let at = path.key("data").index(index);
        unique(findings, &export.name, &mut names, &at);
        if export.data_ref.is_empty() {
            findings.required(&at.key("dataRef"), "dataRef must not be empty");
        }
    }
    for (index, export) in exports.targets.iter().enumerate() {
        let at = path.key("targets").index(index);
        unique(findings, &export.name, &mut names, &at);
        if export.target.is_empty() {
            findings.required(&at.key("target"), "target must not be empty");
        }
    }
}
