//! `groundwork blueprint`: checks, draws and describes a blueprint without an Installation, for
//! authors and for builds.
//!
//! ```text
//! PATH --read--> Filesystem --validate--> findings: text, JSON
//!                     └─> Blueprint and its children --graph--> text, DOT     --docs--> Markdown
//! ```

mod docs;
mod graph;
mod read;
mod validate;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use groundwork_api::InstallationTemplate;
use groundwork_blueprint::{Blueprint, Severity};

use crate::diagnostic::{self, Diagnostic};
use crate::ending::Ending;
use crate::wall;

#[derive(Debug, Args)]
pub(crate) struct BlueprintArguments {
    #[command(subcommand)]
    command: BlueprintCommand,
}

#[derive(Debug, Subcommand)]
enum BlueprintCommand {
    /// Check blueprints without any values for their imports.
    ///
    /// Checks the rules of blueprint.yaml, the templates of executions and the files that they
    /// include, references in schemas, the templates of nested installations and how they fit
    /// together, and blueprints that are written into these templates. Exit code 0: there are no
    /// errors; there may be warnings. 1: there are errors. 2: the input cannot be used.
    Validate(ValidateArguments),
    /// Show the data flow between imports, nested installations and exports.
    ///
    /// Blueprints that are written into nested installations are shown, too. Results of executions
    /// are not. Exit code 1: the blueprint is invalid. 2: the input cannot be used.
    Graph(GraphArguments),
    /// Write a page about a blueprint, in Markdown.
    ///
    /// Exit code 1: the blueprint is invalid. 2: the input cannot be used.
    Docs(DocsArguments),
}

#[derive(Debug, Args)]
struct ValidateArguments {
    /// Directories with a blueprint.yaml, or archives of such (tar, tar.gz).
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,

    /// Format of the findings.
    #[arg(short, long, value_enum, default_value_t = FindingsFormat::Text)]
    output: FindingsFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FindingsFormat {
    /// Findings with their lines to standard error, one line for each PATH to standard output.
    Text,
    /// A list of {path, severity, message, subinstallations, file, line, column}: `file` is a file
    /// of the blueprint, or of the one that is written into the nested installation which
    /// `subinstallations` leads to. Lines and columns count from 1; unknown members are null.
    Json,
}

#[derive(Debug, Args)]
struct GraphArguments {
    /// A directory with a blueprint.yaml, or an archive of such (tar, tar.gz).
    #[arg(value_name = "PATH")]
    path: PathBuf,

    /// Print it in the language of Graphviz; nested blueprints are clusters.
    #[arg(long)]
    dot: bool,
}

#[derive(Debug, Args)]
struct DocsArguments {
    /// A directory with a blueprint.yaml, or an archive of such (tar, tar.gz).
    #[arg(value_name = "PATH")]
    path: PathBuf,

    /// Title of the page [default: the name of the directory or archive]
    #[arg(long)]
    title: Option<String>,
}

pub(crate) fn run(arguments: &BlueprintArguments) -> Ending {
    match &arguments.command {
        BlueprintCommand::Validate(arguments) => validate::run(arguments),
        BlueprintCommand::Graph(arguments) => graph::run(arguments),
        BlueprintCommand::Docs(arguments) => docs::run(arguments),
    }
}

/// Loads a valid blueprint and the nested installations that it lists itself. Prints the findings
/// of an invalid one.
fn load(path: &Path) -> Result<(Blueprint, Vec<InstallationTemplate>), Ending> {
    let files = read::files(path).map_err(|message| {
        diagnostic::print(&[Diagnostic::error(message)]);
        Ending::Unusable
    })?;
    let loaded = wall::evaluate(|| {
        let blueprint = Blueprint::load(files.clone()).ok()?;
        let templates = blueprint.static_templates().ok()?;
        Some((blueprint, templates))
    });
    loaded.ok_or_else(|| match wall::evaluate(|| Blueprint::check(&files)) {
        Ok(findings) => {
            let errors = findings.iter().filter(|finding| finding.severity == Severity::Error);
            let errors: Vec<Diagnostic> = errors.map(|finding| validate::diagnostic(path, finding)).collect();
            diagnostic::print(&errors);
            Ending::Failed
        }
        Err(error) => {
            diagnostic::print(&[Diagnostic::error(read::no_blueprint(path, &error))]);
            Ending::Unusable
        }
    })
}
