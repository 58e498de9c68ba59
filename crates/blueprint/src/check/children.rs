//! Checks of the nested Installations that a blueprint lists statically.

use std::rc::Rc;

use groundwork_api::InstallationTemplate;
use groundwork_component::CdUri;
use groundwork_yaml::{self as yaml, Node, Position, Step};
use serde_json::json;

use super::{Checker, DEEPEST, Finding, Severity, SourceFile, check as check_blueprint, node_at};
use crate::field::{FieldError, FieldPath, Violation};
use crate::filesystem::BLUEPRINT_FILE;
use crate::filesystem::{Filesystem, PathError, shown_path};
use crate::subinstallations::collect::decode;
use crate::subinstallations::{SiblingGraph, cross_check};
use crate::validate::template as rules;

/// Decoded template with its source.
struct Child {
    template: InstallationTemplate,
    source: Rc<SourceFile>,
    /// Node of the template in the document of its file, or the root of the document if the
    /// template is not found.
    node: Node,
}

/// Adds findings about the templates, and returns the findings inside their inline blueprints.
pub(super) fn check(checker: &mut Checker<'_>) -> Vec<Finding> {
    let definition = &checker.written.definition;
    let mut children: Vec<Child> = Vec::new();
    let mut complete = definition.subinstallation_executions.is_empty();
    for (index, entry) in definition.subinstallations.iter().enumerate() {
        let inline = entry.inline().filter(|template| rules::has_known_fields(template));
        let child = match (entry.file.as_deref().filter(|file| !file.is_empty()), inline) {
            (Some(file), None) => from_file(checker, index, file),
            (None, Some(template)) => Some(in_place(checker, index, template)),
            // Rule V20 has already reported an entry with both or with neither.
            _ => None,
        };
        complete &= child.is_some();
        children.extend(child);
    }
    let templates: Vec<InstallationTemplate> = children.iter().map(|child| child.template.clone()).collect();
    for finding in cross_check(&templates, definition, complete) {
        // The second step of the path is the index in the list of checked templates.
        let place = finding.path.index_at(1).and_then(|child| children.get(child)).map(|child| {
            let position = finding.path.locate_below(&child.node, 2);
            child.source.excerpt(position)
        });
        checker.add(Severity::Error, &finding, place);
    }
    for child in &children {
        address(checker, child);
    }
    if let Some(cycle) = SiblingGraph::new(&templates).shortest_cycle() {
        let message = format!("the subinstallations have a cycle: {}", cycle.join(" -{depends_on}-> "));
        checker.add_at(Severity::Error, message, &FieldPath::root("subinstallations"));
    }
    children.iter().flat_map(|child| blueprint_of(checker, child)).collect()
}

fn in_place(checker: &Checker<'_>, index: usize, template: &InstallationTemplate) -> Child {
    let written = checker.written;
    let node = node_at(&written.document, &[Step::Key("subinstallations"), Step::Index(index)]);
    Child {
        template: template.clone(),
        source: Rc::clone(&checker.source),
        node: node.unwrap_or(&written.document).clone(),
    }
}

fn from_file(checker: &mut Checker<'_>, index: usize, file: &str) -> Option<Child> {
    let entry = FieldPath::root("subinstallations").index(index);
    let path = entry.key("file");
    let refused = |violation, detail: String| FieldError::new(path.clone(), violation, detail);
    let bytes = match checker.files.read(file) {
        Ok(bytes) => bytes,
        Err(error) => {
            let finding = match error {
                PathError::NotFound => refused(Violation::NotFound(json!(file)), String::new()),
                other => refused(Violation::Invalid(json!(file)), other.to_string()),
            };
            checker.add_at(Severity::Error, &finding, &path);
            return None;
        }
    };
    let text = String::from_utf8_lossy(bytes).into_owned();
    let origin = shown_path(file);
    let source = Rc::new(SourceFile::new(origin, &text));
    let undecodable = |problem: &str| {
        let detail = format!("unable to decode installation template: {problem}");
        refused(Violation::Invalid(json!(file)), detail)
    };
    let node = match yaml::parse_first(&text, yaml::Options::default()) {
        Ok(node) => node,
        Err(error) => {
            let place = source.excerpt(error.position());
            checker.add(Severity::Error, undecodable(error.message()), Some(place));
            return None;
        }
    };
    let template = match decode(&node.to_value()) {
        Ok(template) => template,
        Err(problem) => {
            let begin = source.excerpt(Position { line: 1, column: 1 });
            checker.add(Severity::Error, undecodable(&problem), Some(begin));
            return None;
        }
    };
    for finding in rules::installation_template(&template, &entry) {
        let place = source.excerpt(finding.path.locate_below(&node, 2));
        checker.add(Severity::Error, &finding, Some(place));
    }
    Some(Child { template, source, node })
}

/// Checks an address of a blueprint as far as that is possible without components (`blueprints.md`
/// 9.4).
fn address(checker: &mut Checker<'_>, child: &Child) {
    let blueprint =
        child.template.blueprint.as_ref().filter(|blueprint| blueprint.filesystem.get().is_none());
    let reference = blueprint.and_then(|blueprint| blueprint.reference.as_deref());
    let Some(reference) = reference.filter(|reference| !reference.is_empty()) else { return };
    let detail = match CdUri::parse(reference) {
        Ok(uri) if uri.resource_name().is_some() => return,
        Ok(_) => "the address must end with a resource".to_owned(),
        Err(error) => error.to_string(),
    };
    let path = FieldPath::root("subinstallations").key(child.template.name()).key("blueprint").key("ref");
    let position = child.node.locate([Step::Key("blueprint"), Step::Key("ref")]);
    let finding = FieldError::new(path, Violation::Invalid(json!(reference)), detail);
    checker.add(Severity::Error, finding, Some(child.source.excerpt(position)));
}

/// Returns the findings in the inline blueprint of a template. A missing blueprint file is a
/// finding about the parent.
fn blueprint_of(checker: &mut Checker<'_>, child: &Child) -> Vec<Finding> {
    let blueprint = child.template.blueprint.as_ref();
    let Some(tree) = blueprint.and_then(|blueprint| blueprint.filesystem.get()) else { return Vec::new() };
    let problem = match Filesystem::from_inline(tree) {
        _ if checker.children.len() >= DEEPEST => {
            format!("blueprints are nested more than {DEEPEST} levels deep")
        }
        Ok(files) => {
            let name = child.template.name().to_owned();
            let children: Vec<String> = checker.children.iter().cloned().chain([name]).collect();
            match check_blueprint(&files, &children) {
                Ok(findings) => return findings,
                Err(error) => format!(
                    "unable to read blueprint file from inline defined blueprint: {BLUEPRINT_FILE}: {error}"
                ),
            }
        }
        Err(error) => error.to_string(),
    };
    let position = child.node.locate([Step::Key("blueprint"), Step::Key("filesystem")]);
    let message = format!("subinstallation {:?}: {problem}", child.template.name());
    checker.add(Severity::Error, message, Some(child.source.excerpt(position)));
    Vec::new()
}
