//! `groundwork blueprint validate`: prints the errors and warnings of blueprints.

use std::path::Path;

use groundwork_blueprint::{Blueprint, Finding, Severity};
use serde::Serialize;

use super::{FindingsFormat, ValidateArguments, read};
use crate::diagnostic::{self, Diagnostic};
use crate::ending::Ending;
use crate::{stdout, wall};

/// Result of one path.
struct Checked<'a> {
    path: &'a Path,
    /// Findings, or the reason that the path cannot be used.
    findings: Result<Vec<Finding>, String>,
}

pub(super) fn run(arguments: &ValidateArguments) -> Ending {
    let checked: Vec<Checked<'_>> = arguments.paths.iter().map(|path| check(path)).collect();
    let is_error = |finding: &Finding| finding.severity == Severity::Error;
    let ending = if checked.iter().any(|one| one.findings.is_err()) {
        Ending::Unusable
    } else if checked.iter().any(|one| one.findings.iter().flatten().any(is_error)) {
        Ending::Failed
    } else {
        Ending::Rendered
    };
    let printed = match arguments.output {
        FindingsFormat::Text => print_text(&checked),
        FindingsFormat::Json => print_json(&checked),
    };
    if printed == Ending::Rendered { ending } else { printed }
}

fn check(path: &Path) -> Checked<'_> {
    let findings = read::files(path).and_then(|files| {
        wall::evaluate(|| Blueprint::check(&files)).map_err(|error| read::no_blueprint(path, &error))
    });
    Checked { path, findings }
}

/// Returns the message for a finding, with the place under the path that the user named.
pub(super) fn diagnostic(path: &Path, finding: &Finding) -> Diagnostic {
    let diagnostic = match finding.severity {
        Severity::Error => Diagnostic::error(finding.to_string()),
        Severity::Warning => Diagnostic::warning(finding.to_string()),
    };
    let Some(excerpt) = finding.excerpt.clone() else { return diagnostic };
    let shown = path.display().to_string();
    if !finding.children.is_empty() {
        let children = finding.children.join("/");
        return diagnostic.in_blueprint(format!("subinstallation {children} of {shown}"), excerpt);
    }
    if path.is_dir() {
        let file = path.join(&excerpt.origin).display().to_string();
        return diagnostic.at_line(file, excerpt);
    }
    diagnostic.in_blueprint(shown, excerpt)
}

fn print_text(checked: &[Checked<'_>]) -> Ending {
    let mut summary = String::new();
    for Checked { path, findings } in checked {
        let shown = path.display();
        match findings {
            Ok(findings) => {
                let diagnostics: Vec<Diagnostic> =
                    findings.iter().map(|finding| diagnostic(path, finding)).collect();
                diagnostic::print(&diagnostics);
                summary.push_str(&format!("{shown}: {}\n", counts(findings)));
            }
            Err(message) => diagnostic::print(&[Diagnostic::error(message)]),
        }
    }
    stdout::write(&summary)
}

fn counts(findings: &[Finding]) -> String {
    let count = |severity, word: &str| {
        let count = findings.iter().filter(|finding| finding.severity == severity).count();
        let plural = if count == 1 { "" } else { "s" };
        (count > 0).then(|| format!("{count} {word}{plural}"))
    };
    let errors = count(Severity::Error, "error").unwrap_or_else(|| "valid".to_owned());
    match count(Severity::Warning, "warning") {
        Some(warnings) => format!("{errors}, {warnings}"),
        None => errors,
    }
}

/// Finding in the JSON output.
#[derive(Debug, Serialize)]
struct Entry<'a> {
    path: String,
    severity: &'static str,
    message: String,
    subinstallations: &'a [String],
    file: Option<&'a str>,
    line: Option<usize>,
    column: Option<usize>,
}

fn print_json(checked: &[Checked<'_>]) -> Ending {
    let mut entries = Vec::new();
    for Checked { path, findings } in checked {
        let path = path.display().to_string();
        match findings {
            Ok(findings) => entries.extend(findings.iter().map(|finding| entry(path.clone(), finding))),
            Err(message) => entries.push(Entry {
                path,
                severity: "error",
                message: message.clone(),
                subinstallations: &[],
                file: None,
                line: None,
                column: None,
            }),
        }
    }
    // The entries hold only strings and numbers, so this cannot fail.
    let list = serde_json::to_string_pretty(&entries).unwrap_or_default();
    stdout::write(&format!("{list}\n"))
}

fn entry(path: String, finding: &Finding) -> Entry<'_> {
    let excerpt = finding.excerpt.as_ref();
    Entry {
        path,
        severity: match finding.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        },
        message: finding.to_string(),
        subinstallations: &finding.children,
        file: excerpt.map(|excerpt| excerpt.origin.as_str()),
        line: excerpt.map(|excerpt| excerpt.line),
        column: excerpt.and_then(|excerpt| excerpt.column),
    }
}
