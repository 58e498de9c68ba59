//! Rules V1 to V37 and G1 to G5 of `blueprints.md` 1.8.

pub(crate) mod template;

use std::borrow::Cow;
use std::fmt;

use groundwork_api::{Blueprint, FieldType, ImportDefinition, TemplateExecutor};
use serde_json::{Value, json};

use crate::field::{FieldError, FieldPath, Violation};
use crate::schema;

const IMPORT_TYPES: &[&str] = &["data", "target", "targetList", "targetMap"];
const EXPORT_TYPES: &[&str] = &["data", "target"];
const TEMPLATE_TYPES: &[&str] = &["GoTemplate", "Spiff"];

/// Findings of the validation.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) errors: Vec<FieldError>,
    pub(crate) warnings: Vec<FieldWarning>,
}

/// Finding that does not prevent the use of the blueprint.
#[derive(Debug)]
pub(crate) struct FieldWarning {
    pub(crate) path: FieldPath,
    problem: Cow<'static, str>,
}

impl fmt::Display for FieldWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.problem)
    }
}

impl Findings {
    fn add(&mut self, path: &FieldPath, violation: Violation, detail: impl Into<String>) {
        self.errors.push(FieldError::new(path.clone(), violation, detail));
    }

    fn required(&mut self, path: &FieldPath, detail: impl Into<String>) {
        self.add(path, Violation::Required, detail);
    }

    fn warn(&mut self, path: &FieldPath, problem: impl Into<Cow<'static, str>>) {
        self.warnings.push(FieldWarning { path: path.clone(), problem: problem.into() });
    }
}

/// Checks a defaulted blueprint.
pub(crate) fn blueprint(definition: &Blueprint) -> Findings {
    let mut findings = Findings::default();
    let schemas = schema::Checker::new(definition);
    let mut names = Vec::new();
    imports(&mut findings, &schemas, &definition.imports, &FieldPath::root("imports"), &mut names);
    exports(&mut findings, &schemas, definition);
    for (list, executors) in [
        ("importExecutions", &definition.import_executions),
        ("deployExecutions", &definition.deploy_executions),
        ("exportExecutions", &definition.export_executions),
        ("subinstallationExecutions", &definition.subinstallation_executions),
    ] {
        executions(&mut findings, executors, &FieldPath::root(list));
    }
    for (name, local) in &definition.local_types {
        let path = FieldPath::root("localTypes").key(name);
        match schemas.check(local) {
            Ok(()) => schemas.warning(local).into_iter().for_each(|problem| findings.warn(&path, problem)),
            Err(problem) => findings.add(
                &path,
                Violation::Invalid(json!(name)),
                format!("schema is not a valid JSON schema: {problem}"),
            ),
        }
    }
    for (index, subinstallation) in definition.subinstallations.iter().enumerate() {
        template::subinstallation(
            &mut findings,
            subinstallation,
            &FieldPath::root("subinstallations").index(index),
        );
    }
    findings
}

fn imports(
    findings: &mut Findings,
    schemas: &schema::Checker,
    list: &[ImportDefinition],
    path: &FieldPath,
    names: &mut Vec<String>,
) {
    for (index, import) in list.iter().enumerate() {
        let at = path.index(index);
        let here = at.named(&import.name);
        if import.name.is_empty() {
            findings.required(&at.key("name"), "name must not be empty");
        } else if list[..index].contains(import) {
            findings.warn(&here, "the same import is declared twice");
            continue;
        } else if names.contains(&import.name) {
            findings.add(&here, Violation::Duplicate(json!("duplicate import name")), "");
        }
        names.push(import.name.clone());
        let definition = Typed {
            type_name: import.type_.as_deref(),
            schema: import.schema(),
            target_type: import.target_type.as_deref(),
            supported: IMPORT_TYPES,
        };
        definition.check(findings, schemas, &here);
        default_value(findings, import, &here);
        if !import.imports.is_empty() && import.required != Some(false) {
            findings.add(
                &here,
                Violation::Invalid(json!(import.name)),
                "conditional imports on required import",
            );
        }
        imports(
            findings,
            schemas,
            &import.imports,
            &here.renamed_key("conditionalImports", "imports"),
            names,
        );
    }
}

/// Rule G5: warns about a default that is never used.
fn default_value(findings: &mut Findings, import: &ImportDefinition, path: &FieldPath) {
    if import.default.get().is_none() {
        return;
    }
    if import.required != Some(false) {
        findings.warn(path, "the default of a required import is never used");
    } else if import.type_.as_deref() != Some(FieldType::Data.as_str()) {
        findings.warn(path, "only data imports can have a default");
    }
}

fn exports(findings: &mut Findings, schemas: &schema::Checker, definition: &Blueprint) {
    let mut names = Vec::new();
    for (index, export) in definition.exports.iter().enumerate() {
        let at = FieldPath::root("exports").index(index);
        let here = at.named(&export.name);
        if export.name.is_empty() {
            findings.required(&at.key("name"), "name must not be empty");
        } else if names.contains(&&export.name) {
            findings.add(&here, Violation::Duplicate(json!("duplicated export name")), "");
        }
        names.push(&export.name);
        let definition = Typed {
            type_name: export.type_.as_deref(),
            schema: export.schema(),
            target_type: export.target_type.as_deref(),
            supported: EXPORT_TYPES,
        };
        definition.check(findings, schemas, &here);
    }
}

/// Common part of imports and exports: a type and the fields that depend on it (V3 to V9, V14 to
/// V16).
struct Typed<'a> {
    type_name: Option<&'a str>,
    schema: Option<&'a Value>,
    target_type: Option<&'a str>,
    supported: &'static [&'static str],
}

impl Typed<'_> {
    fn check(&self, findings: &mut Findings, schemas: &schema::Checker, path: &FieldPath) {
        let target_type = self.target_type.filter(|name| !name.is_empty());
        match self.type_name.filter(|name| !name.is_empty()) {
            None => self.untyped(findings, path, target_type.is_some()),
            Some(type_name) if !self.supported.contains(&type_name) => {
                findings.add(
                    &path.key("type"),
                    Violation::NotSupported(json!(type_name), self.supported),
                    "",
                );
            }
            Some("data") => {
                if self.schema.is_none() {
                    findings.required(path, "Schema must not be empty for type data");
                }
                if target_type.is_some() {
                    let detail = "unexpected config 'TargetType', only [Schema] should be set";
                    findings.add(path, Violation::Invalid(json!(target_type)), detail);
                }
            }
            Some(type_name) => {
                if target_type.is_none() {
                    findings.required(path, format!("TargetType must not be empty for type {type_name}"));
                }
                if let Some(schema) = self.schema {
                    let detail = "unexpected config 'Schema', only [TargetType] should be set";
                    findings.add(path, Violation::Invalid(schema.clone()), detail);
                }
            }
        }
        let Some(schema) = self.schema else { return };
        let path = path.key("schema");
        match schemas.check(schema) {
            Ok(()) => schemas.warning(schema).into_iter().for_each(|problem| findings.warn(&path, problem)),
            Err(problem) => {
                let detail = format!("schema is not a valid JSON schema: {problem}");
                findings.add(&path, Violation::Invalid(schema.clone()), detail);
            }
        }
    }

    fn untyped(&self, findings: &mut Findings, path: &FieldPath, has_target_type: bool) {
        if self.supported == EXPORT_TYPES {
            let detail = "exactly one of [schema, targetType] must be set (currently set: none)";
            findings.required(path, detail);
        } else if has_target_type {
            findings.add(
                path,
                Violation::Invalid(Value::Null),
                "either schema or targetType must be specified, not both",
            );
        } else {
            findings.required(path, "either schema or targetType must not be empty");
        }
    }
}

/// Checks executions by V17 to V19 and G1 to G3. A missing name is only a warning, because existing
/// blueprints have executions without names.
fn executions(findings: &mut Findings, executors: &[TemplateExecutor], path: &FieldPath) {
    let mut names = Vec::new();
    for (index, executor) in executors.iter().enumerate() {
        let at = path.index(index);
        let here = at.named(&executor.name);
        if executor.name.is_empty() {
            findings.warn(&at.key("name"), "name must be defined");
        } else if names.contains(&&executor.name) {
            findings.add(&here, Violation::Duplicate(json!("duplicated executor name")), "");
        }
        names.push(&executor.name);
        match executor.type_.as_deref().unwrap_or_default() {
            "" => findings.required(&here.key("type"), "type must be defined"),
            type_name if !TEMPLATE_TYPES.contains(&type_name) => {
                findings.add(
                    &here.key("type"),
                    Violation::NotSupported(json!(type_name), TEMPLATE_TYPES),
                    "",
                );
            }
            _ => {}
        }
        let has_file = executor.file.as_ref().is_some_and(|file| !file.is_empty());
        if has_file && executor.template.get().is_some() {
            findings.add(
                &here,
                Violation::Invalid(json!(executor.file)),
                "exactly one of [file, template] must be set",
            );
        }
    }
}

#[cfg(test)]
mod tests;
