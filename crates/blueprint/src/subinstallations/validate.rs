//! Rules about all templates of a blueprint together: V38 to V43, and V21 to V37 for each
//! (`blueprints.md` 9.3).

use std::collections::{HashMap, HashSet};

use groundwork_api::{Blueprint, FieldType, InstallationTemplate};
use serde_json::{Map, Value, json};

use super::declarations::Declarations;
use super::wiring::{self, Exporters, Form, ImportSlot, Kind, Source};
use crate::field::{FieldError, FieldPath, Violation, aggregate, exactly_one_of};
use crate::validate::template as rules;

/// Error SUB-002 (`blueprints.md` 10), reason `ValidateSubInstallations`: all findings of
/// [`validate`] as one error.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{}", aggregate(findings))]
pub struct InvalidTemplates {
    pub findings: Vec<FieldError>,
}

/// Checks the final list of templates, static and rendered ones, after
/// [`remove_unsatisfied`](super::remove_unsatisfied).
///
/// `definition` is the defaulted blueprint of the parent, `imports` are its final imports.
pub fn validate(
    templates: &[InstallationTemplate],
    definition: &Blueprint,
    imports: &Map<String, Value>,
) -> Vec<FieldError> {
    let mut validator = Validator::new(templates, Declarations::of_run(definition, imports));
    for (index, template) in templates.iter().enumerate() {
        let path = path(index, template);
        validator.findings.extend(rules::installation_template(template, &path));
        validator.template(template, &path);
    }
    validator.findings
}

/// Checks the rules of [`validate`] that involve several templates, as if every import of the
/// parent were satisfied.
///
/// `complete` means that all children are in the list, so that an import without an exporter is an
/// error.
pub(crate) fn cross_check(
    templates: &[InstallationTemplate],
    definition: &Blueprint,
    complete: bool,
) -> Vec<FieldError> {
    let mut validator = Validator { complete, ..Validator::new(templates, Declarations::all(definition)) };
    for (index, template) in templates.iter().enumerate() {
        validator.template(template, &path(index, template));
    }
    validator.findings
}

struct Validator<'a> {
    parent: Declarations<'a>,
    exporters: Exporters<'a>,
    /// True if all children are known.
    complete: bool,
    names: HashSet<&'a str>,
    /// Place of the first export of a name.
    exported: HashMap<(Kind, &'a str), FieldPath>,
    findings: Vec<FieldError>,
}

impl<'a> Validator<'a> {
    fn new(templates: &'a [InstallationTemplate], parent: Declarations<'a>) -> Self {
        Self {
            parent,
            exporters: Exporters::new(templates),
            complete: true,
            names: HashSet::new(),
            exported: HashMap::new(),
            findings: Vec::new(),
        }
    }

    fn template(&mut self, template: &'a InstallationTemplate, path: &FieldPath) {
        self.blueprint(template, path);
        let name = template.name();
        if !name.is_empty() && !self.names.insert(name) {
            // Rule V42: names are unique.
            self.add(path, Violation::Duplicate(json!("duplicated subinstallation")), "");
        }
        self.exports(template, &path.key("exports"));
        self.imports(template, &path.key("imports"));
    }

    fn add(&mut self, path: &FieldPath, violation: Violation, detail: impl Into<String>) {
        self.findings.push(FieldError::new(path.clone(), violation, detail));
    }

    /// Rejects a template with both kinds of blueprint or with neither. V24 accepts them, but
    /// admission would reject the child (`blueprints.md` 9.4).
    fn blueprint(&mut self, template: &InstallationTemplate, path: &FieldPath) {
        let Some(blueprint) = &template.blueprint else { return };
        let has_reference = blueprint.reference.as_ref().is_some_and(|reference| !reference.is_empty());
        if has_reference && blueprint.filesystem.get().is_some() {
            let error = exactly_one_of(&path.key("blueprint"), &[("ref", true), ("filesystem", true)]);
            self.findings.extend(error);
        }
    }

    /// Checks exports by the rules V38 to V41.
    fn exports(&mut self, template: &'a InstallationTemplate, path: &FieldPath) {
        for export in wiring::exports(template).filter(|export| !export.scope_name.is_empty()) {
            let here = element(path, export.kind, export.index, export.name);
            let key = (export.kind, export.scope_name);
            if let Some(first) = self.exported.get(&key) {
                let kind = export.kind.as_str();
                let detail = format!("{kind} export '{}' is already exported by {first}", export.scope_name);
                self.add(&here, Violation::Forbidden, detail);
            } else {
                self.exported.insert(key, here.clone());
            }
            let imported = self
                .parent
                .get(export.scope_name)
                .is_some_and(|import| (import.type_ == FieldType::Data) == (export.kind == Kind::Data));
            if imported {
                self.add(&here, Violation::Forbidden, "export is imported by its parent");
            }
        }
    }

    /// Checks imports by rule V43.
    fn imports(&mut self, template: &InstallationTemplate, path: &FieldPath) {
        for import in wiring::imports(template) {
            let here = element(path, import.kind, import.index, import.name);
            for source in &import.sources {
                if self.is_satisfied(source) {
                    continue;
                }
                let path = match source.place {
                    ImportSlot::Whole => here.clone(),
                    ImportSlot::Index(index) => here.key("targets").index(index),
                    ImportSlot::Key(key) => here.renamed_key("targets", "targetMap").entry(key),
                };
                self.add(&path, Violation::NotFound(json!("import not satisfied")), "");
            }
        }
    }

    fn is_satisfied(&self, source: &Source<'_>) -> bool {
        if self.parent.provider(source).is_some() {
            return true;
        }
        // Elements belong to lists and maps of the parent, which siblings do not export.
        let is_element = source.form == Form::Target && self.parent.element_of(source.name).is_some();
        let kind = source.form.sibling_kind().filter(|_| !is_element);
        kind.is_some_and(|kind| !self.complete || !self.exporters.of(kind, source.name).is_empty())
    }
}

/// Returns `subinstallations.<name>`, with the index for a template without a name.
fn path(index: usize, template: &InstallationTemplate) -> FieldPath {
    let root = FieldPath::root("subinstallations");
    if template.name().is_empty() { root.index(index) } else { root.renamed_index(template.name(), index) }
}

fn element(path: &FieldPath, kind: Kind, index: usize, name: &str) -> FieldPath {
    path.key(kind.list()).index(index).named(name)
}
