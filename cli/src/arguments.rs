//! The commands and their help.

use clap::{Parser, Subcommand};
use clap_complete::Shell;

use crate::blueprint::BlueprintArguments;
use crate::component::ComponentArguments;
use crate::events::EventsArguments;
use crate::explain::ExplainArguments;
use crate::operations::{DeleteArguments, InterruptArguments, ReconcileArguments};
use crate::packages::PackagesArguments;
use crate::plan::PlanArguments;
use crate::render::RenderArguments;
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
