use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

#[cfg(feature = "cluster")]
use crate::events::EventsArguments;
#[cfg(not(feature = "cluster"))]
use crate::left_out::{LeftOut as EventsArguments, LeftOut as UpArguments, LeftOut as WaitArguments};
use crate::namespace::namespace;
use crate::output::OutputFormat;
use crate::template::TemplateArguments;
#[cfg(feature = "cluster")]
use crate::up::UpArguments;
use crate::variants::VariantsArguments;
#[cfg(feature = "cluster")]
use crate::wait::WaitArguments;

/// Turns blueprints into installations: shows what a cluster would do, from files.
#[derive(Debug, Parser)]
#[command(name = "groundwork", version)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Render Installations from files, with no server at all.
    ///
    /// Exit code 0: everything was rendered. 1: an Installation cannot be rendered; what a cluster would hold is
    /// printed all the same. 2: the input cannot be used; nothing is printed to standard output.
    Render(RenderArguments),
    /// See what PackageVariantSets make, from files, with no server at all.
    Variants(VariantsArguments),
    /// Render templates as such, with no server at all.
    Template(TemplateArguments),
    /// Run all services in this process, against the cluster of the current kube context.
    ///
    /// Ends on SIGINT or SIGTERM.
    Up(Box<UpArguments>),
    /// Show what is on the stream of events, or what passes there.
    ///
    /// Names, references, phases and jobs of objects; never values. Exit code 2: the stream cannot be read.
    Events(EventsArguments),
    /// Wait until servers are up: listeners, or the API server.
    ///
    /// Exit code 1: some did not come up in time; they are named.
    Wait(WaitArguments),
    /// Print the version.
    Version,
    /// Print a completion script for a shell.
    Completion { shell: Shell },
}

#[derive(Debug, Args)]
pub(crate) struct RenderArguments {
    /// Files or directories with Installations and what they need: Contexts, ComponentVersionOverwrites, DataObjects,
    /// Targets, ConfigMaps, Secrets. Of a directory, its own YAML and JSON files are read. `-` is standard input.
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,

    /// What to print.
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Text)]
    pub(crate) output: OutputFormat,

    /// Namespace of objects that name none.
    #[arg(short, long, default_value = "default", value_parser = namespace)]
    pub(crate) namespace: String,

    /// Which directories hold the components of which repository [default: every repositories.yaml and
    /// components/repositories.yaml beside the input]
    #[arg(long, value_name = "FILE", env = "GROUNDWORK_REPOSITORIES", value_parser = clap::builder::ValueParser::path_buf())]
    pub(crate) repositories: Option<PathBuf>,
}
