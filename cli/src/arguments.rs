//! Commands of the program and their help texts.

use clap::{Parser, Subcommand};
use clap_complete::Shell;

use crate::backup::{BackupArguments, RestoreArguments};
use crate::blueprint::BlueprintArguments;
use crate::component::ComponentArguments;
use crate::events::EventsArguments;
use crate::explain::ExplainArguments;
use crate::migrate::MigrateArguments;
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
    /// Render Installations from files, without a server.
    ///
    /// Nested Installations are rendered down to the leaves, in the order in which they run, and
    /// pass their exports on to each other. Exit code 0: everything was rendered. 1: an
    /// Installation cannot be rendered; the objects that a cluster would hold are printed all the
    /// same. 2: the input cannot be used; standard output stays empty.
    Render(RenderArguments),
    /// Show the PackageVariants that sets make from files, without a server.
    Variants(VariantsArguments),
    /// Render packages, and work with package revisions of a cluster.
    Packages(PackagesArguments),
    /// Check, draw and describe blueprints, without a server.
    Blueprint(BlueprintArguments),
    /// Render templates on their own, without a server.
    Template(TemplateArguments),
    /// Inspect component versions, and put them into archives and registries.
    Component(ComponentArguments),
    /// Explain which component versions Installations use, and why.
    Explain(ExplainArguments),
    /// Show what would happen if objects were applied.
    ///
    /// Lists the jobs that would run, and the items and exports that would change: in the cluster
    /// of the current kube context, or among the objects of `--from`, without a server. Exit code
    /// 0: nothing would change, and no job would run. 1: something would change, or a job would
    /// fail. 2: the input or the cluster cannot be used.
    Plan(PlanArguments),
    /// Check a cluster of Landscaper or Porch before Groundwork takes over.
    Migrate(MigrateArguments),
    /// Save the objects of landscapes, with their status, in a file.
    ///
    /// Saves Installations, Executions, DeployItems, DataObjects, Targets, Contexts, overwrites and
    /// TargetSyncs, and the Secrets, ConfigMaps and Namespaces that they need, as JSON lines.
    Backup(BackupArguments),
    /// Create the objects of a backup again.
    ///
    /// Owners come first, and objects are linked to them anew. Objects that exist stay as they are,
    /// so that you can repeat the command. No job starts until you run `groundwork restore
    /// --release`. Exit code 0: everything was restored. 1: some objects were not. 2: the file or
    /// the cluster cannot be used.
    Restore(RestoreArguments),
    /// Run all services in this process.
    ///
    /// The services work on the cluster of the current kube context, and end on SIGINT or SIGTERM.
    Up(Box<UpArguments>),
    /// Show the state of Installations in a cluster.
    ///
    /// The cluster is the one of the current kube context. A single Installation is shown with
    /// everything below it: phases, times, errors. Exit code 2: the Installation does not exist, or
    /// cannot be read.
    Status(StatusArguments),
    /// Request a job of a root Installation, even if nothing has changed.
    ///
    /// Exit code 2: the request cannot be made.
    Reconcile(ReconcileArguments),
    /// Interrupt the running job of an Installation; the job then fails.
    ///
    /// Exit code 2: no job runs, or the request cannot be made.
    Interrupt(InterruptArguments),
    /// Delete a root Installation with everything that it has deployed.
    ///
    /// Retries a deletion that has failed. Exit code 2: the request cannot be made.
    Delete(DeleteArguments),
    /// Show the events on the stream, or follow new ones.
    ///
    /// Events have names, references, phases and jobs of objects, but never values. Exit code 2:
    /// the stream cannot be read.
    Events(EventsArguments),
    /// Explain why a job of an Installation went as it did.
    ///
    /// Prints what the services saw, decided and wrote, in order of time, for the Installation and
    /// everything below it, as far back as the journal reaches. Exit code 1: the journal has no
    /// entry. 2: the journal cannot be read.
    Replay(ReplayArguments),
    /// Wait until servers are up: listeners, or the API server.
    ///
    /// Exit code 1: some servers did not come up in time; they are named.
    Wait(WaitArguments),
    /// Print the version.
    Version,
    /// Print a completion script for a shell.
    Completion { shell: Shell },
}

impl Command {
    /// Reports whether the command may evaluate untrusted content: templates, schemas, expressions,
    /// functions of packages.
    pub(crate) fn evaluates(&self) -> bool {
        matches!(
            self,
            Self::Render(_)
                | Self::Variants(_)
                | Self::Packages(_)
                | Self::Blueprint(_)
                | Self::Template(_)
                | Self::Explain(_)
                | Self::Plan(_)
        )
    }
}
