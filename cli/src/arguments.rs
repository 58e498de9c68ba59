use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use groundwork_budget::TemplateLimits;
use serde_json::Value;

use crate::blueprint::BlueprintArguments;
use crate::component::ComponentArguments;
use crate::events::EventsArguments;
use crate::explain::ExplainArguments;
use crate::namespace::namespace;
use crate::operations::{DeleteArguments, InterruptArguments, ReconcileArguments};
use crate::output::RenderOutput;
use crate::packages::PackagesArguments;
use crate::plan::PlanArguments;
use crate::render::{DiffTarget, assignment};
use crate::replay::ReplayArguments;
use crate::status::StatusArguments;
use crate::template::TemplateArguments;
use crate::up::UpArguments;
use crate::variants::VariantsArguments;
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
    /// Nested installations are rendered to the leaves, in the order in which they run, and feed each other with exports. Exit code 0:
    /// everything was rendered. 1: an Installation cannot be rendered; what a cluster would hold is printed all the same. 2: the input
    /// cannot be used; nothing is printed to standard output.
    Render(RenderArguments),
    /// See what PackageVariantSets make, from files, with no server at all.
    Variants(VariantsArguments),
    /// Merge packages, with no server at all.
    Packages(PackagesArguments),
    /// Check, draw and describe blueprints, with no server at all.
    Blueprint(BlueprintArguments),
    /// Render templates as such, with no server at all.
    Template(TemplateArguments),
    /// Look into component versions, and put them into archives and registries.
    Component(ComponentArguments),
    /// Tell why something is as it is: which component versions Installations use.
    Explain(ExplainArguments),
    /// Show what would happen if objects were applied: which jobs would run, and which items and exports would change.
    ///
    /// To the cluster of the current kube context, or to the objects of `--from`, with no server at all. Exit code 0: nothing would change, and
    /// no job would run. 1: something would, or a job would fail. 2: the input or the cluster cannot be used.
    Plan(PlanArguments),
    /// Run all services in this process, against the cluster of the current kube context.
    ///
    /// Ends on SIGINT or SIGTERM.
    Up(Box<UpArguments>),
    /// Show what has become of Installations in the cluster of the current kube context.
    ///
    /// One Installation is shown with everything below it: phases, times, errors. Exit code 2: it does not exist, or cannot be read.
    Status(StatusArguments),
    /// Ask for a job of a root Installation, also if nothing has changed.
    ///
    /// Exit code 2: it cannot be asked for.
    Reconcile(ReconcileArguments),
    /// End the running job of an Installation, which fails then.
    ///
    /// Exit code 2: no job runs, or it cannot be asked for.
    Interrupt(InterruptArguments),
    /// Delete a root Installation with everything that it has deployed, or try a deletion again that has failed.
    ///
    /// Exit code 2: it cannot be asked for.
    Delete(DeleteArguments),
    /// Show what is on the stream of events, or what passes there.
    ///
    /// Names, references, phases and jobs of objects; never values. Exit code 2: the stream cannot be read.
    Events(EventsArguments),
    /// Tell why a job of an Installation went as it did: what services saw, decided and wrote, in order of time.
    ///
    /// Of the Installation and of all below it, as far as the journal has kept it. Exit code 1: it has kept nothing. 2: it cannot be read.
    Replay(ReplayArguments),
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

    /// What to print: text (for people), yaml or json (the objects that a cluster would hold), or dir=PATH: each object becomes a file.
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub(crate) output: RenderOutput,

    /// Show what differs from the objects in this folder, as `-o dir=PATH` wrote them, or, with the word `cluster`, from those of the cluster of
    /// the current kube context; the status is not compared. Exit code 1 if anything does.
    #[arg(long, value_name = "DIR|cluster", conflicts_with = "output")]
    pub(crate) diff: Option<DiffTarget>,

    /// Say where everything comes from: the source of each import, the execution, file and line behind each object, and why an import of
    /// a nested installation was left out.
    #[arg(long)]
    pub(crate) explain: bool,

    /// Namespace of objects that name none.
    #[arg(short, long, default_value = "default", value_parser = namespace)]
    pub(crate) namespace: String,

    /// Which directories hold the components of which repository [default: every repositories.yaml and
    /// components/repositories.yaml beside the input]
    #[arg(long, value_name = "FILE", env = "GROUNDWORK_REPOSITORIES", value_parser = clap::builder::ValueParser::path_buf())]
    pub(crate) repositories: Option<PathBuf>,

    /// A value for a data import of the blueprint of the Installations in the input, in place of the object it comes from; read as YAML.
    #[arg(long, value_name = "NAME=VALUE", value_parser = assignment)]
    pub(crate) set: Vec<(String, Value)>,

    /// What deploy items export, a YAML map: the name of an item, or the way to it (`shop/web/server`), to its values. Items of the mock
    /// type export what their configuration says.
    #[arg(long, value_name = "FILE")]
    pub(crate) exports: Option<PathBuf>,

    /// Where the state of executions is kept from run to run.
    #[arg(long, value_name = "FILE")]
    pub(crate) state: Option<PathBuf>,

    /// Show values of imports in messages: they may be secret.
    #[arg(long)]
    pub(crate) show_values: bool,

    #[command(flatten)]
    pub(crate) limits: TemplateLimits,
}
