//! Static check of a blueprint for its author: all findings that need no values.

mod children;
#[cfg(test)]
mod tests;

use std::fmt;
use std::rc::Rc;

use groundwork_api::{ImportDefinition, TemplateExecutor};
use groundwork_spiff::PathStep;
use groundwork_yaml::{Node, Position, Step};
use serde_json::Value;

use crate::field::FieldPath;
use crate::filesystem::BLUEPRINT_FILE;
use crate::filesystem::{Filesystem, PathError};
use crate::load::{Blueprint, LoadError, Written};
use crate::schema;
use crate::template::check::{FindingPlace, check as check_template};
use crate::template::{Excerpt, Execution, ExecutionKind};
use crate::validate;

/// Maximum depth of nested inline blueprints that the check follows.
const DEEPEST: usize = 16;
/// Largest number of characters shown of a line.
const LONGEST_LINE: usize = 1000;

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The blueprint, or a part of it, cannot be used.
    Error,
    /// The blueprint works, but probably not as its author expects.
    Warning,
}

/// Finding of the check. It displays as a sentence without its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    pub severity: Severity,
    pub message: String,
    /// Names of the nested Installations, from the outside in, whose inline blueprint the finding
    /// is about.
    pub children: Vec<String>,
    /// Line in a file of that blueprint.
    pub excerpt: Option<Excerpt>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for child in &self.children {
            write!(f, "subinstallation {child:?}: ")?;
        }
        f.write_str(&self.message)
    }
}

impl Blueprint {
    /// Checks the files of a blueprint. The findings include:
    ///
    /// - all errors and warnings of [`Blueprint::load`],
    /// - problems that would appear only later: invalid or missing templates, dangling references
    ///   of schemas,
    /// - problems of templates of nested Installations and their connections (V38 to V43, with all
    ///   imports of the parent taken for satisfied), and problems inside their inline blueprints.
    ///
    /// Findings are grouped by blueprint, in the order of its files and lines.
    ///
    /// # Errors
    ///
    /// The blueprint file is missing.
    pub fn check(files: &Filesystem) -> Result<Vec<Finding>, PathError> {
        check(files, &[])
    }
}

fn check(files: &Filesystem, children: &[String]) -> Result<Vec<Finding>, PathError> {
    let written = match Written::read(files) {
        Ok(written) => written,
        Err(LoadError::Unreadable(error)) => return Err(error),
        Err(error) => return Ok(vec![undecodable(&error, children)]),
    };
    let source = Rc::new(SourceFile::new(BLUEPRINT_FILE, &written.text));
    let mut checker = Checker { files, written: &written, source, children, findings: Vec::new() };
    checker.rules();
    checker.schemas();
    checker.executions();
    let nested = children::check(&mut checker);
    let mut findings = checker.findings;
    findings.sort_by_cached_key(order);
    findings.extend(nested);
    Ok(findings)
}

/// Sort key of a finding. The file `blueprint.yaml` comes first.
fn order(finding: &Finding) -> (bool, String, usize, usize) {
    finding.excerpt.as_ref().map_or_else(
        || (false, String::new(), 0, 0),
        |excerpt| {
            let is_other = excerpt.origin != BLUEPRINT_FILE;
            (is_other, excerpt.origin.clone(), excerpt.line, excerpt.column.unwrap_or(0))
        },
    )
}

fn undecodable(error: &LoadError, children: &[String]) -> Finding {
    let excerpt = match error {
        LoadError::Undecodable { position: Some(position), text, .. } => {
            Some(SourceFile::new(BLUEPRINT_FILE, text).excerpt(*position))
        }
        _ => None,
    };
    let (message, children) = (error.to_string(), children.to_vec());
    Finding { severity: Severity::Error, message, children, excerpt }
}

/// File split into lines once, because many findings may refer to it.
struct SourceFile {
    name: String,
    lines: Vec<String>,
}

impl SourceFile {
    fn new(name: &str, text: &str) -> Self {
        Self { name: name.to_owned(), lines: text.lines().map(str::to_owned).collect() }
    }

    fn line(&self, number: usize) -> Option<&str> {
        self.lines.get(number.checked_sub(1)?).map(String::as_str)
    }

    fn excerpt(&self, position: Position) -> Excerpt {
        self.shown(position.line, Some(position.column))
    }

    /// Returns a line, truncated if it is very long.
    fn shown(&self, line: usize, column: Option<usize>) -> Excerpt {
        let text = self.line(line).unwrap_or_default();
        let text = match text.char_indices().nth(LONGEST_LINE) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text.to_owned(),
        };
        Excerpt { origin: self.name.clone(), line, column, text }
    }
}

/// Checker of one blueprint, without the inline blueprints of its children.
struct Checker<'a> {
    files: &'a Filesystem,
    written: &'a Written,
    /// Source of `blueprint.yaml`.
    source: Rc<SourceFile>,
    /// Same as [`Finding::children`].
    children: &'a [String],
    findings: Vec<Finding>,
}

impl Checker<'_> {
    fn add(&mut self, severity: Severity, message: impl fmt::Display, excerpt: Option<Excerpt>) {
        let (message, children) = (message.to_string(), self.children.to_vec());
        self.findings.push(Finding { severity, message, children, excerpt });
    }

    /// Adds a finding about a place of `blueprint.yaml`.
    fn add_at(&mut self, severity: Severity, message: impl fmt::Display, path: &FieldPath) {
        let position = path.locate(&self.written.document);
        let excerpt = self.source.excerpt(position);
        self.add(severity, message, Some(excerpt));
    }

    /// Checks the rules V1 to V37 and G1 to G5, as far as they concern `blueprint.yaml`.
    fn rules(&mut self) {
        let found = validate::blueprint(&self.written.definition);
        for error in found.errors {
            self.add_at(Severity::Error, &error, &error.path);
        }
        for warning in found.warnings {
            self.add_at(Severity::Warning, &warning, &warning.path);
        }
    }

    /// Checks the references from schemas into the blueprint.
    fn schemas(&mut self) {
        let definition = &self.written.definition;
        self.imports(&definition.imports, &FieldPath::root("imports"));
        for (index, export) in definition.exports.iter().enumerate() {
            if let Some(schema) = export.schema() {
                self.schema(schema, &FieldPath::root("exports").index(index).named(&export.name));
            }
        }
    }

    fn imports(&mut self, imports: &[ImportDefinition], path: &FieldPath) {
        for (index, import) in imports.iter().enumerate() {
            let here = path.index(index).named(&import.name);
            if let Some(schema) = import.schema() {
                self.schema(schema, &here);
            }
            self.imports(&import.imports, &here.renamed_key("conditionalImports", "imports"));
        }
    }

    fn schema(&mut self, schema: &Value, path: &FieldPath) {
        let definition = &self.written.definition;
        for fragment in schema::misread(schema) {
            let here = path.key("schema");
            let text = format!(
                "{here}: $ref \"#{fragment}\" means the whole schema, as its fragment does not begin with a slash: write \
                 \"#/{fragment}\" for a part of it"
            );
            self.add_at(Severity::Warning, text, &here);
        }
        // Rule G4 has already reported invalid schemas.
        if schema::Checker::new(definition).check(schema).is_ok()
            && let Some(problem) = schema::compilation_problem(schema, definition, self.files)
        {
            let path = path.key("schema");
            self.add_at(Severity::Error, format!("{path}: {problem}"), &path);
        }
    }

    fn executions(&mut self) {
        let definition = &self.written.definition;
        for (kind, executors) in [
            (ExecutionKind::Import, &definition.import_executions),
            (ExecutionKind::Subinstallation, &definition.subinstallation_executions),
            (ExecutionKind::Deploy, &definition.deploy_executions),
            (ExecutionKind::Export, &definition.export_executions),
        ] {
            for (index, executor) in executors.iter().enumerate() {
                self.execution(kind, index, executor);
            }
        }
    }

    fn execution(&mut self, kind: ExecutionKind, index: usize, executor: &TemplateExecutor) {
        // Rule G2 has already reported other languages.
        let Some(Ok(language)) = executor.type_.as_deref().map(str::parse) else { return };
        let path = FieldPath::root(kind.list()).index(index).named(&executor.name);
        for remark in check_template(Execution { kind, index, executor }, language, self.files) {
            let message = format!("{path}: {}", remark.problem);
            match remark.place {
                FindingPlace::Member(member) => self.add_at(remark.severity, message, &path.key(member)),
                FindingPlace::File(excerpt) => self.add(remark.severity, message, Some(excerpt)),
                FindingPlace::Text(excerpt) => match self.in_text(kind, index, &excerpt) {
                    Some(place) => self.add(remark.severity, message, Some(place)),
                    None => self.add_at(remark.severity, message, &path.key("template")),
                },
                FindingPlace::Structure(steps) => {
                    let place = steps.iter().fold(path.key("template"), |path, step| match step {
                        PathStep::Key(key) => path.key(key),
                        PathStep::Index(index) => path.index(*index),
                    });
                    self.add_at(remark.severity, message, &place);
                }
            }
        }
    }

    /// Converts a line of an inline template to a line of `blueprint.yaml`. Only a literal block
    /// scalar or a single-line text has such a line.
    fn in_text(&self, kind: ExecutionKind, index: usize, inner: &Excerpt) -> Option<Excerpt> {
        let node = node_at(
            &self.written.document,
            &[Step::Key(kind.list()), Step::Index(index), Step::Key("template")],
        )?;
        // A block scalar starts at its first non-empty line, so empty lines before it are
        // subtracted.
        let empty = node.as_str()?.lines().take_while(|line| line.is_empty()).count();
        let before_block = node.position.line.checked_sub(empty + 1)?;
        let is_block = self.source.line(before_block).is_some_and(opens_block);
        let line = if is_block { before_block + inner.line } else { node.position.line };
        let found = self.source.line(line)?;
        let offset = if is_block {
            found.strip_suffix(inner.text.as_str())?.chars().count()
        } else {
            // A single-line text is found literally, unless it contains escapes.
            (inner.line == 1).then_some(())?;
            found.split_once(inner.text.as_str())?.0.chars().count()
        };
        let column = inner.column.map(|column| column + offset);
        Some(self.source.shown(line, column))
    }
}

/// Reports whether the line ends with the header of a literal block scalar.
fn opens_block(line: &str) -> bool {
    let line = line.split(" #").next().unwrap_or_default().trim_end();
    line.trim_end_matches(|character: char| "+-".contains(character) || character.is_ascii_digit())
        .ends_with('|')
}

/// Returns the node at a path, or `None` if a step does not exist.
fn node_at<'n>(document: &'n Node, path: &[Step<'_>]) -> Option<&'n Node> {
    path.iter().try_fold(document, |node, step| match (step, &node.content) {
        (Step::Key(key), _) => node.get(key),
        (Step::Index(index), groundwork_yaml::Content::Sequence(items)) => items.get(*index),
        (Step::Index(_), _) => None,
    })
}
