//! Runs the engines line by line, for test suites that compare them with Landscaper, Porch, Helm,
//! Go and spiff.
//!
//! ```text
//! standard input:                       standard output:
//! one JSON object a line  ──engine──>   one JSON object a line, in order, flushed
//! ```
//!
//! A line never ends the process, and never sees the state of an earlier line. The program reads
//! files only for charts, whose lines may name a folder or an archive. The exit code is 0 when the
//! input ends.

mod answer;
mod blueprint;
mod go;
mod grants;
mod helm;
mod lines;
mod packages;
mod spiff;
mod variants;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};
use groundwork_budget::TemplateLimits;

/// Run the engines of Groundwork line by line, to test packages or compare engines.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,

    /// Without effect: lines are the only form of input.
    #[arg(long, global = true, hide = true)]
    jsonl: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Render templates and charts, and run executions of blueprints.
    Template {
        #[command(subcommand)]
        engine: TemplateCommand,
    },
    /// Expand sets, check variants and sets, and change packages as variants say.
    Variants {
        #[command(subcommand)]
        work: VariantsCommand,
    },
    /// Merge packages.
    Packages {
        #[command(subcommand)]
        work: PackagesCommand,
    },
}

#[derive(Debug, Subcommand)]
enum TemplateCommand {
    /// Render Go templates.
    ///
    /// Members: `template` and, if need be, `name`, `data`, `missingkey`, `numbers` (float, int64,
    /// int, data), `left`, `right`, `extra` ([{name, template}]), `execute` and `sprig`. An answer
    /// is {"name", "output"} or {"name", "error", "phase"}.
    Go(Limits),
    /// Evaluate spiff++ templates.
    ///
    /// Members: `template` and, if need be, `name`, `kind` (`cascade`, or `flow` for stubs taken as
    /// they are), `stubs`, `features`, `bindings` and `source`. An answer is {"name", "output"} or
    /// {"name", "error"}.
    Spiff(Limits),
    /// Render Helm charts.
    ///
    /// Members: `chart` ({path: text}), `chartBinary` ({path: base64}), `archive` (base64) or
    /// `dir`, and, if need be, `name`, `from` (`directory`, `archive`), `values`, `release` ({name,
    /// namespace, revision, isUpgrade}), `kubeVersion`, `kubeVersionRaw`, `apiVersions`,
    /// `includeCrds` and `skipSchemaValidation`. An answer is {"name", "output"} or {"name",
    /// "error"}.
    Helm(Limits),
    /// Run the executions of blueprints with bindings that the line gives.
    ///
    /// Members: `blueprint` (the text of blueprint.yaml) and, if need be, `name`, `kind` (`deploy`,
    /// `import`, `export`, `subinst`, or `validate`), `files`, `imports`, `exportValues`,
    /// `components`, `blobs`, `installation`, `context`, `namespace`, `targets`, `state`, `then`
    /// and `showValues`. An answer is {"name", "output"} or {"name", "error"}.
    Blueprint(Limits),
}

#[derive(Debug, Args)]
struct Limits {
    #[command(flatten)]
    templates: TemplateLimits,
}

#[derive(Debug, Subcommand)]
enum VariantsCommand {
    /// Expand PackageVariantSets.
    Expand,
    /// Check PackageVariants and PackageVariantSets against their rules.
    Validate,
    /// Apply the mutations of PackageVariants to packages: package context, pipeline, config
    /// injection. Functions do not run.
    Mutate,
}

#[derive(Debug, Subcommand)]
enum PackagesCommand {
    /// Merge upstream changes into local packages.
    Merge,
}

fn main() -> Result<()> {
    match Arguments::parse().command {
        Command::Template { engine } => match engine {
            TemplateCommand::Go(limits) => go::run(limits.templates),
            TemplateCommand::Spiff(limits) => spiff::run(limits.templates),
            TemplateCommand::Helm(limits) => helm::run(limits.templates),
            TemplateCommand::Blueprint(limits) => blueprint::run(limits.templates),
        },
        Command::Variants { work } => match work {
            VariantsCommand::Expand => variants::expand(),
            VariantsCommand::Validate => variants::validate(),
            VariantsCommand::Mutate => variants::mutate(),
        },
        Command::Packages { work: PackagesCommand::Merge } => packages::merge(),
    }
}
