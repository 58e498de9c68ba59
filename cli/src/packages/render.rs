//! `groundwork packages render`: runs the functions of a package in a folder (`packagevariants.md`
//! 8).

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use groundwork_api::FunctionResult;
use groundwork_krm::{Package, Rendered, render};
use groundwork_untrusted::Names;
use similar::TextDiff;

use crate::diagnostic::{self, Diagnostic};
use crate::ending::Ending;
use crate::folder::{Folder, FolderError};
use crate::functions::FunctionArguments;
use crate::package_folder::{self, KPTFILE, Links};
use crate::stdout::write;
use crate::terminal::shown;
use crate::wall;

#[derive(Debug, Args)]
pub(crate) struct RenderArguments {
    /// The folder of a package: one with a Kptfile.
    #[arg(value_name = "DIR")]
    folder: PathBuf,

    /// Write nothing, and print what would change as a unified diff.
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    functions: FunctionArguments,
}

pub(crate) fn run(arguments: &RenderArguments) -> Ending {
    let files = match read(&arguments.folder) {
        Ok(files) => files,
        Err(error) => {
            diagnostic::print(&[error]);
            return Ending::Unusable;
        }
    };
    let functions = match arguments.functions.open() {
        Ok(functions) => functions,
        Err(error) => {
            diagnostic::print(&[Diagnostic::error(error)]);
            return Ending::Unusable;
        }
    };
    let rendered = wall::evaluate(|| render(&files, &functions.options()));
    let mut text = results(&rendered);
    if !arguments.dry_run
        && let Err(error) = store(&arguments.folder, &files, &rendered.files)
    {
        diagnostic::print(&[error]);
        return Ending::Unusable;
    }
    text.push_str(&changes(&files, &rendered.files, arguments.dry_run));
    let written = write(&text);
    match rendered.error {
        Some(error) => {
            diagnostic::print(&[Diagnostic::error(error)]);
            Ending::Failed
        }
        None => written,
    }
}

/// Reads the text files of a package. Links and binary files are left alone.
fn read(folder: &Path) -> Result<Package, Diagnostic> {
    let files = package_folder::read(folder, Links::PassOver);
    let files = files.map_err(|error| Diagnostic::error(error.to_string()))?;
    if !files.texts.contains_key(KPTFILE) {
        return Err(Diagnostic::error(format!(
            "{} is not a package: {KPTFILE} is missing",
            folder.display()
        )));
    }
    Ok(files.texts)
}

/// Writes changed files, and removes those that are gone. If one of the paths cannot be used, no
/// file is written.
fn store(folder: &Path, before: &Package, after: &Package) -> Result<(), Diagnostic> {
    let failed = |error: FolderError| Diagnostic::error(error.to_string());
    let place = Folder::open(folder).map_err(failed)?;
    let mut names = Names::default();
    // The user's own files were there before, so only paths that are added are checked against
    // them.
    before.keys().filter(|path| after.contains_key(*path)).for_each(|path| drop(names.add(path)));
    let changed: Vec<(&String, &String)> =
        after.iter().filter(|(path, text)| before.get(*path) != Some(text)).collect();
    for (path, _) in &changed {
        let is_new = !before.contains_key(*path);
        let refused = |why: String| {
            Diagnostic::error(format!("cannot write {path}, a file that a function created: {why}"))
        };
        if is_new {
            names.add(path).map_err(|error| refused(error.to_string()))?;
        }
        let is_there = place.check_place(path).map_err(|error| refused(error.to_string()))?;
        if is_new && is_there {
            return Err(refused(format!(
                "{} exists and does not belong to the package",
                folder.join(path).display()
            )));
        }
    }
    // Remove files first: where letter case does not count, a new file may have the name of a
    // removed one.
    let mut gone = before.keys().filter(|path| !after.contains_key(*path));
    gone.try_for_each(|path| place.remove(path)).map_err(failed)?;
    changed.into_iter().try_for_each(|(path, text)| place.write(path, text.as_bytes())).map_err(failed)
}

/// Formats the results of the functions, in the order in which they ran.
fn results(rendered: &Rendered) -> String {
    let mut text = String::new();
    let results = rendered.status.result.iter().flat_map(|list| list.items.iter());
    for FunctionResult { image, exec, stderr, exit_code, results, .. } in results {
        let name = image.as_deref().or(exec.as_deref()).unwrap_or_default();
        // Writing to a `String` cannot fail.
        let _ = match exit_code.unwrap_or_default() {
            0 => writeln!(text, "{}: ok", shown(name)),
            code => writeln!(text, "{}: exit code {code}", shown(name)),
        };
        for result in results {
            let severity = result.severity.as_deref().unwrap_or("info");
            let message = result.message.as_deref().unwrap_or_default();
            let _ = writeln!(text, "  {}: {}", shown(severity), shown(message).replace('\n', "\n    "));
        }
        for line in stderr.iter().flat_map(|stderr| stderr.lines()) {
            let _ = writeln!(text, "  | {}", shown(line));
        }
    }
    text
}

/// Lists the files that differ, or shows their differences.
fn changes(before: &Package, after: &Package, in_full: bool) -> String {
    let mut text = String::new();
    let paths: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    for path in paths {
        let (old, new) = (before.get(path), after.get(path));
        if old == new {
            continue;
        }
        let path = shown(path);
        if !in_full {
            let what = match (old, new) {
                (None, _) => "added",
                (_, None) => "removed",
                _ => "changed",
            };
            let _ = writeln!(text, "{path} {what}");
            continue;
        }
        let name = |side: &str, file: Option<&String>| {
            if file.is_some() { format!("{side}/{path}") } else { "/dev/null".to_owned() }
        };
        let (old_text, new_text) =
            (old.map(String::as_str).unwrap_or_default(), new.map(String::as_str).unwrap_or_default());
        let diff = TextDiff::from_lines(old_text, new_text);
        let diff = diff.unified_diff().header(&name("a", old), &name("b", new)).to_string();
        text.push_str(&shown(&diff));
    }
    text
}
