//! Static check of an execution, without running it.

mod state;

use std::collections::BTreeSet;

use groundwork_api::{TemplateType, item_type};
use groundwork_spiff::{Document, Error as SpiffError, Limits, PathStep, ReadError};

use super::error::{Excerpt, go_words, spiff_words};
use super::{Execution, Source, Template, TemplateError, go, spiff};
use crate::check::Severity;
use crate::filesystem::{Filesystem, PathError, shown_path};

/// Finding about an execution.
#[derive(Debug)]
pub(crate) struct Remark {
    pub(crate) severity: Severity,
    pub(crate) problem: String,
    pub(crate) place: FindingPlace,
}

/// Place of a finding.
#[derive(Debug)]
pub(crate) enum FindingPlace {
    /// Member of the execution.
    Member(&'static str),
    /// Line of an inline template, which is a text in `blueprint.yaml`. The excerpt counts from the
    /// first line of the template.
    Text(Excerpt),
    /// Node of an inline template, which is a structure in `blueprint.yaml`.
    Structure(Vec<PathStep>),
    /// Line of an included file.
    File(Excerpt),
}

/// Checks the template of an execution whose language is known, and the files that it includes by a
/// literal name.
pub(crate) fn check(execution: Execution<'_>, language: TemplateType, files: &Filesystem) -> Vec<Remark> {
    let inline = execution.executor.template.get().is_some();
    let template = match Template::of(execution, files) {
        Ok(template) => template,
        Err(error) => {
            let member = FindingPlace::Member(if inline { "template" } else { "file" });
            return vec![Remark { severity: Severity::Error, problem: error.to_string(), place: member }];
        }
    };
    let mut checker = Checker { files, inline, remarks: Vec::new() };
    match &template.source {
        Source::Text(text) => checker.not_built(&template.origin, text, inline),
        Source::Structure(value) => {
            let problems: Vec<String> = not_built(&value.to_string()).map(|(_, problem)| problem).collect();
            for problem in problems {
                checker.add(Severity::Warning, problem, FindingPlace::Member("template"));
            }
        }
    }
    match (language, &template.source) {
        (TemplateType::GoTemplate, Source::Text(text)) => checker.go(&template.origin, text),
        (TemplateType::GoTemplate, Source::Structure(_)) => {
            let error = TemplateError::NoText { executor: execution.executor.name.clone() };
            checker.add(Severity::Error, error.to_string(), FindingPlace::Member("template"));
        }
        (TemplateType::Spiff, Source::Text(text)) => {
            checker.spiff(execution, text, |(line, column)| {
                let line_text = text.lines().nth(line.saturating_sub(1)).unwrap_or_default().to_owned();
                let origin = template.origin.clone();
                let excerpt = Excerpt { origin, line, column: Some(column), text: line_text };
                if inline { FindingPlace::Text(excerpt) } else { FindingPlace::File(excerpt) }
            });
        }
        (TemplateType::Spiff, Source::Structure(value)) => {
            checker.spiff(execution, &value.to_string(), |_| FindingPlace::Member("template"));
        }
    }
    checker.remarks
}

struct Checker<'a> {
    files: &'a Filesystem,
    /// True if the template is part of `blueprint.yaml`.
    inline: bool,
    remarks: Vec<Remark>,
}

impl Checker<'_> {
    fn add(&mut self, severity: Severity, problem: String, place: FindingPlace) {
        self.remarks.push(Remark { severity, problem, place });
    }

    /// Warns about words of features that are not built. A template may contain them in a branch
    /// that does not run, or in a comment, so a warning must suffice.
    fn not_built(&mut self, origin: &str, text: &str, inline: bool) {
        for (index, line) in text.lines().enumerate() {
            for (at, problem) in not_built(line) {
                let excerpt = Excerpt::new(origin, text, index + 1, Some(at));
                let place = if inline { FindingPlace::Text(excerpt) } else { FindingPlace::File(excerpt) };
                self.add(Severity::Warning, problem, place);
            }
        }
    }

    /// Checks a template and the files that it includes, directly or indirectly, each once.
    fn go(&mut self, origin: &str, text: &str) {
        let parsed = go::Parsed::default();
        let mut seen = BTreeSet::new();
        let mut open = vec![(origin.to_owned(), text.to_owned(), self.inline)];
        while let Some((origin, text, inline)) = open.pop() {
            let place = |line, column| {
                let excerpt = Excerpt::new(&origin, &text, line, column);
                if inline { FindingPlace::Text(excerpt) } else { FindingPlace::File(excerpt) }
            };
            let template = match parsed.get(text.as_bytes()) {
                Ok(template) => template,
                Err(error) => {
                    self.add(Severity::Error, go_words(&error), place(error.line(), error.column()));
                    continue;
                }
            };
            for function in ["include", "readFile"] {
                for call in template.literal_calls(function) {
                    let path = &call.argument;
                    match self.files.read(path) {
                        Ok(content) if function == "include" && seen.insert(path.clone()) => {
                            let origin = shown_path(path).to_owned();
                            let text = String::from_utf8_lossy(content).into_owned();
                            self.not_built(&origin, &text, false);
                            open.push((origin, text, false));
                        }
                        Ok(_) => {}
                        Err(error) => {
                            let problem = missing(function, path, &error);
                            self.add(Severity::Warning, problem, place(call.line, Some(call.column)));
                        }
                    }
                }
            }
        }
    }

    /// Checks a Spiff template. `place` converts a line and a column of the text, both from 1.
    fn spiff(
        &mut self,
        execution: Execution<'_>,
        text: &str,
        place: impl Fn((usize, usize)) -> FindingPlace,
    ) {
        let document = match Document::read(text, spiff::TEMPLATE, &Limits::default()) {
            Ok(document) => document,
            Err(error) => {
                let at = place(read_position(&error));
                return self.add(Severity::Error, spiff_words(&error), at);
            }
        };
        let is_structure = matches!(place((1, 1)), FindingPlace::Member(_));
        let expressions = document.expressions();
        let marks = state::Marks::new(&document, &expressions);
        for expression in &expressions {
            let at = || match expression.position {
                Some((line, column)) if !is_structure => {
                    place((usize::try_from(line).unwrap_or(1), usize::try_from(column).unwrap_or(1)))
                }
                _ => FindingPlace::Structure(expression.path.clone()),
            };
            match &expression.markers {
                // The content of a template matters only if the template is used, so a problem in
                // it is a warning.
                Err(problem) if marks.in_template(&expression.path) => {
                    self.add(Severity::Warning, problem.clone(), at());
                }
                Err(problem) => self.add(Severity::Error, problem.clone(), at()),
                Ok(_) => {
                    if let Some(problem) = marks.lost_state(execution.kind, expression) {
                        self.add(Severity::Warning, problem, at());
                    }
                }
            }
        }
    }
}

/// Returns the words of features that are not built in a text: the byte of the first occurrence,
/// and a warning.
fn not_built(text: &str) -> impl Iterator<Item = (usize, String)> {
    const WORD: &str = item_type::CONTAINER;
    let is_part = |c: char| c.is_alphanumeric() || "_-/.".contains(c);
    let mut found = text.match_indices(WORD).filter(move |(at, _)| {
        !text[..*at].ends_with(is_part) && !text[at + WORD.len()..].starts_with(is_part)
    });
    let effect = "no deployer of Groundwork handles items of this type";
    found.next().map(|(at, _)| (at, format!("{WORD} is not built yet: {effect}"))).into_iter()
}

fn missing(function: &str, path: &str, error: &PathError) -> String {
    format!("{function} {path:?} fails if it is reached: {error}")
}

/// Returns the position where a text cannot be parsed, from 1.
fn read_position(error: &SpiffError) -> (usize, usize) {
    let SpiffError::Read { error, .. } = error else { return (1, 1) };
    let (ReadError::Syntax { line, column, .. }
    | ReadError::Key { line, column }
    | ReadError::TooDeep { line, column, .. }
    | ReadError::TooManyNodes { line, column, .. }) = error
    else {
        return (1, 1);
    };
    (usize::try_from(*line).unwrap_or(1), usize::try_from(*column).unwrap_or(1))
}
