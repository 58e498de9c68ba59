//! `groundwork packages`: renders packages in folders, and works with package revisions of a
//! cluster.

mod approval;
mod content;
mod discovery;
mod porch;
mod removal;
mod render;
mod repositories;
mod revisions;

use clap::{Args, Subcommand};

use crate::ending::Ending;

#[derive(Debug, Args)]
pub(crate) struct PackagesArguments {
    #[command(subcommand)]
    command: PackagesCommand,
}

#[derive(Debug, Subcommand)]
enum PackagesCommand {
    /// Run the functions of a package in a folder, and write the results.
    ///
    /// The functions run as in a store. Prints the results of each function, and the files that it
    /// changed. Exit code 0: all functions succeeded. 1: a function failed, and the folder is
    /// unchanged, unless the Kptfile asks for partial results. 2: the folder cannot be read or
    /// written.
    Render(render::RenderArguments),
    /// List the package revisions of a cluster.
    List(revisions::ListArguments),
    /// Print one package revision, as the cluster has it.
    Get(revisions::GetArguments),
    /// Propose drafts for approval.
    ///
    /// Like the next four commands, waits until the store, or the Porch server of the cluster, has
    /// done it. Exit code 0: all revisions are done, now or before. 1: a revision was refused or
    /// not done in time; the others are done.
    Propose(revisions::ChangeArguments),
    /// Approve proposed revisions, which publishes them.
    ///
    /// With --set or --selector, prints the revisions that are proposed, and asks before it
    /// approves them.
    Approve(approval::ApproveArguments),
    /// Reject proposed drafts, or a proposed deletion.
    ///
    /// A proposed revision becomes a draft again; a revision whose deletion was proposed stays
    /// published.
    Reject(revisions::ChangeArguments),
    /// Propose the deletion of published revisions.
    ///
    /// Refuses a revision that other packages were made from, unless --force is given.
    ProposeDeletion(removal::RemoveArguments),
    /// Delete unpublished revisions, or those whose deletion was proposed.
    ///
    /// The head of a branch is deleted from the branch. Refuses a revision that other packages were
    /// made from, unless --force is given.
    Delete(removal::RemoveArguments),
    /// List the revisions that were made from a revision.
    Dependents(removal::DependentsArguments),
    /// Write the files of a package revision into a folder.
    Pull(content::PullArguments),
    /// Send the files of a pulled folder to a draft.
    ///
    /// The package's functions run on the files, and the result is pulled again. Exit code 1: the
    /// draft has changed since the pull, or its functions fail; no file is written.
    Push(content::PushArguments),
    /// Make a draft of a package from a published revision of another one.
    Clone(content::CloneArguments),
    /// Make a draft that starts from a published revision of its package.
    Copy(content::CopyArguments),
    /// Make a draft of a new package.
    Init(content::InitArguments),
    /// Make a draft that merges upstream changes into a published revision.
    ///
    /// With --discover, lists the packages whose upstream has published a newer revision. Exit code
    /// 1: the three versions cannot be merged, or the merged package cannot be rendered; no draft
    /// is made.
    Upgrade(content::UpgradeArguments),
    /// Print the differences between two package revisions.
    Diff(content::DiffArguments),
    /// Add, list, sync and remove Repositories: the places of packages in git.
    Repositories(repositories::RepositoriesArguments),
}

pub(crate) fn run(arguments: &PackagesArguments) -> Ending {
    match &arguments.command {
        PackagesCommand::Render(arguments) => render::run(arguments),
        PackagesCommand::List(arguments) => revisions::list(arguments),
        PackagesCommand::Get(arguments) => revisions::get(arguments),
        PackagesCommand::Propose(arguments) => revisions::change(arguments, revisions::Verb::Propose),
        PackagesCommand::Approve(arguments) => approval::approve(arguments),
        PackagesCommand::Reject(arguments) => revisions::change(arguments, revisions::Verb::Reject),
        PackagesCommand::ProposeDeletion(arguments) => {
            removal::remove(arguments, revisions::Verb::ProposeDeletion)
        }
        PackagesCommand::Delete(arguments) => removal::remove(arguments, revisions::Verb::Delete),
        PackagesCommand::Dependents(arguments) => removal::dependents(arguments),
        PackagesCommand::Pull(arguments) => content::pull(arguments),
        PackagesCommand::Push(arguments) => content::push(arguments),
        PackagesCommand::Clone(arguments) => content::clone(arguments),
        PackagesCommand::Copy(arguments) => content::copy(arguments),
        PackagesCommand::Init(arguments) => content::init(arguments),
        PackagesCommand::Upgrade(arguments) => content::upgrade(arguments),
        PackagesCommand::Diff(arguments) => content::diff(arguments),
        PackagesCommand::Repositories(arguments) => repositories::run(arguments),
    }
}
