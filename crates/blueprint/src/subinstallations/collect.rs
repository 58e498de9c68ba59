//! Decoding of static entries and rendered documents to typed templates (`blueprints.md` 9.1).

use groundwork_api::{BLUEPRINT_API_VERSION, Blueprint, INSTALLATION_TEMPLATE_KIND, InstallationTemplate};
use groundwork_yaml as yaml;
use serde_json::{Value, json};
use serde_path_to_error::Segment;

use crate::field::{FieldError, FieldPath, Violation, aggregate};
use crate::filesystem::{Filesystem, PathError};
use crate::nulls::filled_template;
use crate::redaction::REDACTED;
use crate::validate::template as rules;

/// Error SUB-001 (`blueprints.md` 10): a document is not an installation template. The text names
/// place and type, never a value, because rendered documents contain values of imports.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unable to decode installation template {index}: {problem}")]
pub struct DecodeTemplateError {
    /// Index in the rendered list.
    pub index: usize,
    pub problem: String,
}

/// Error SUB-001 (`blueprints.md` 10): all problems of a blueprint's static templates. Callers
/// prepend `unable to get installation templates of blueprint: `, as for errors of executions.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("unable to get default subinstallation templates: {}", aggregate(problems))]
pub struct StaticTemplatesError {
    pub problems: Vec<StaticTemplateProblem>,
}

/// Problem of one static template.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum StaticTemplateProblem {
    /// The file is missing or undecodable, or its content breaks one of V21 to V37.
    #[error("{0}")]
    Finding(FieldError),
    #[error("neither a inline installation template nor a file is defined in index {index}")]
    Neither { index: usize },
}

/// Reads and checks the static templates of a blueprint, in order.
///
/// # Errors
///
/// All problems of all entries.
pub(crate) fn static_templates(
    definition: &Blueprint,
    files: &Filesystem,
) -> Result<Vec<InstallationTemplate>, StaticTemplatesError> {
    let mut templates = Vec::new();
    let mut problems = Vec::new();
    for (index, entry) in definition.subinstallations.iter().enumerate() {
        let inline = entry.inline().filter(|template| rules::has_known_fields(template));
        match (entry.file.as_deref().filter(|file| !file.is_empty()), inline) {
            (Some(file), _) => match from_file(files, index, file) {
                Ok(template) => templates.push(template),
                Err(findings) => {
                    problems.extend(findings.into_iter().map(StaticTemplateProblem::Finding));
                }
            },
            (None, Some(template)) => templates.push(template.clone()),
            (None, None) => problems.push(StaticTemplateProblem::Neither { index }),
        }
    }
    if problems.is_empty() { Ok(templates) } else { Err(StaticTemplatesError { problems }) }
}

fn from_file(files: &Filesystem, index: usize, file: &str) -> Result<InstallationTemplate, Vec<FieldError>> {
    let entry = FieldPath::root("subinstallations").index(index);
    let path = entry.key("file");
    let bytes = files.read(file).map_err(|error| {
        vec![match error {
            PathError::NotFound => FieldError::new(path.clone(), Violation::NotFound(json!(file)), ""),
            other => FieldError::new(path.clone(), Violation::Invalid(json!(file)), other.to_string()),
        }]
    })?;
    let decoded = yaml::from_str(&String::from_utf8_lossy(bytes))
        .map_err(|error| error.to_string())
        .and_then(|document| decode(&document));
    let template = decoded.map_err(|problem| {
        let detail = format!("unable to decode installation template: {problem}");
        vec![FieldError::new(path, Violation::Invalid(json!(file)), detail)]
    })?;
    let findings = rules::installation_template(&template, &entry);
    if findings.is_empty() { Ok(template) } else { Err(findings) }
}

/// Decodes one element of a rendered list (`blueprints.md` 9.1, step 1). Null is an empty template,
/// which V21 and V24 reject.
///
/// # Errors
///
/// A member has the wrong type, or version or kind do not match. Callers prepend `unable to
/// template subinstallations: `.
pub fn decode_template(index: usize, document: &Value) -> Result<InstallationTemplate, DecodeTemplateError> {
    decode(document).map_err(|problem| DecodeTemplateError { index, problem })
}

/// Decodes a template. The error names places and types, never values.
pub(crate) fn decode(document: &Value) -> Result<InstallationTemplate, String> {
    match document {
        Value::Null => return Ok(InstallationTemplate::default()),
        Value::Object(_) => {}
        // The decoder would accept a list as the fields of a struct in order.
        other => return Err(format!("a map is expected, found {}", kind(other))),
    }
    if let Some(place) = list_for_map(document) {
        return Err(format!("{place}: a map is expected, found a list"));
    }
    let filled = filled_template(document);
    let template: InstallationTemplate = serde_path_to_error::deserialize(&*filled)
        .map_err(|error| wrong_type(error.path(), error.inner(), document))?;
    for (member, value, expected) in [
        ("apiVersion", &template.api_version, BLUEPRINT_API_VERSION),
        ("kind", &template.kind, INSTALLATION_TEMPLATE_KIND),
    ] {
        // An empty member counts as absent, as in Go.
        if value.as_deref().is_some_and(|value| !value.is_empty() && value != expected) {
            return Err(format!("{member} must be {expected:?} if it is given"));
        }
    }
    Ok(template)
}

/// Returns the first list in place of a map. The decoder would take its elements for the fields, in
/// order.
fn list_for_map(document: &Value) -> Option<String> {
    let is_list = |value: Option<&Value>| value.is_some_and(Value::is_array);
    let member = ["imports", "exports", "optimization"].into_iter().find(|name| is_list(document.get(name)));
    if let Some(member) = member {
        return Some(member.to_owned());
    }
    let lists = ["imports", "exports"].into_iter().flat_map(|side| {
        ["data", "targets"].map(|list| {
            let elements = document.get(side).and_then(|side| side.get(list)).and_then(Value::as_array);
            (format!("{side}.{list}"), elements.map_or(&[][..], Vec::as_slice))
        })
    });
    for (list, elements) in lists {
        for (index, element) in elements.iter().enumerate() {
            if element.is_array() {
                return Some(format!("{list}[{index}]"));
            }
            let inner = ["secretRef", "configMapRef"].into_iter().find(|name| is_list(element.get(name)));
            if let Some(inner) = inner {
                return Some(format!("{list}[{index}].{inner}"));
            }
        }
    }
    None
}

/// Describes a wrong type. The decoder's own text quotes the value, so only its last words are
/// used, which name the expected type.
fn wrong_type(path: &serde_path_to_error::Path, error: &serde_json::Error, document: &Value) -> String {
    let mut place = String::new();
    let mut found = Some(document);
    for segment in path {
        match segment {
            Segment::Seq { index } => {
                place.push_str(&format!("[{index}]"));
                found = found.and_then(|value| value.get(index));
            }
            Segment::Map { key } if FREE_KEYS.iter().any(|map| place.ends_with(map)) => {
                // The key of such a map was rendered, so it may be a value.
                place.push_str(REDACTED);
                found = found.and_then(|value| value.get(key));
            }
            Segment::Map { key } => {
                let dot = if place.is_empty() { "" } else { "." };
                place.push_str(&format!("{dot}{key}"));
                found = found.and_then(|value| value.get(key));
            }
            Segment::Enum { .. } | Segment::Unknown => {}
        }
    }
    let text = error.to_string();
    let expected = match text.rsplit_once(", expected ").map(|(_, expected)| expected) {
        Some(expected) if expected.starts_with("a string") => "a text is expected, ",
        Some(expected) if expected.starts_with("a boolean") => "true or false is expected, ",
        Some(expected) if expected.starts_with("a sequence") => "a list is expected, ",
        Some(expected) if expected.starts_with("a map") || expected.starts_with("struct ") => {
            "a map is expected, "
        }
        _ => "",
    };
    format!("{place}: {expected}found {}", found.map_or("something else", kind))
}

/// Maps with arbitrary keys and typed values.
const FREE_KEYS: [&str; 2] = ["targetMap", "targetMaps"];

const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}
