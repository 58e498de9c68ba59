//! `groundwork packages`: packages that a caller gives, and revisions of packages in a cluster.

mod content;
mod porch;
mod render;
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
    /// Run the functions of a package in a folder, as a store would, and write what they make of it.
    ///
    /// Prints what each function said, and which files it changed. Exit code 0: all functions succeeded. 1: one failed, and the folder is as
    /// it was, unless the Kptfile asks for partial results. 2: the folder cannot be read or written.
    Render(render::RenderArguments),
    /// List the package revisions of a cluster.
    List(revisions::ListArguments),
    /// Print one package revision, as the cluster has it.
    Get(revisions::GetArguments),
    /// Propose drafts for approval.
    ///
    /// As with the next four: waits until the store, or the Porch server of the cluster, has done it. Exit code 0: done, or it was so already.
    /// 1: one is refused, or not done in time; the others are done.
    Propose(revisions::ChangeArguments),
    /// Approve proposed revisions: they are published.
    Approve(revisions::ChangeArguments),
    /// Make proposed revisions drafts again, or keep those whose deletion was proposed.
    Reject(revisions::ChangeArguments),
    /// Propose the deletion of published revisions.
    ProposeDeletion(revisions::ChangeArguments),
    /// Delete revisions that are not published, or whose deletion was proposed.
    Delete(revisions::ChangeArguments),
    /// Write the files of a package revision into a folder.
    Pull(content::PullArguments),
    /// Give a draft the files of a folder that was pulled; what comes of them is pulled again.
    ///
    /// Exit code 1: somebody else has changed the draft since, or its functions fail; nothing is written.
    Push(content::PushArguments),
    /// Make a draft of a package from a published revision of another one.
    Clone(content::CloneArguments),
    /// Make a draft that goes on from a published revision of its package.
    Copy(content::CopyArguments),
    /// Make a draft of a new package.
    Init(content::InitArguments),
    /// Make a draft that goes on from a published revision of its package, with what has changed upstream since.
    ///
    /// Exit code 1: the three versions cannot be merged, or what comes of them cannot be rendered; nothing is written.
    Upgrade(content::UpgradeArguments),
    /// Print what differs between two package revisions.
    Diff(content::DiffArguments),
}

pub(crate) fn run(arguments: &PackagesArguments) -> Ending {
    match &arguments.command {
        PackagesCommand::Render(arguments) => render::run(arguments),
        PackagesCommand::List(arguments) => revisions::list(arguments),
        PackagesCommand::Get(arguments) => revisions::get(arguments),
        PackagesCommand::Propose(arguments) => revisions::change(arguments, revisions::Verb::Propose),
        PackagesCommand::Approve(arguments) => revisions::change(arguments, revisions::Verb::Approve),
        PackagesCommand::Reject(arguments) => revisions::change(arguments, revisions::Verb::Reject),
        PackagesCommand::ProposeDeletion(arguments) => {
            revisions::change(arguments, revisions::Verb::ProposeDeletion)
        }
        PackagesCommand::Delete(arguments) => revisions::change(arguments, revisions::Verb::Delete),
        PackagesCommand::Pull(arguments) => content::pull(arguments),
        PackagesCommand::Push(arguments) => content::push(arguments),
        PackagesCommand::Clone(arguments) => content::clone(arguments),
        PackagesCommand::Copy(arguments) => content::copy(arguments),
        PackagesCommand::Init(arguments) => content::init(arguments),
        PackagesCommand::Upgrade(arguments) => content::upgrade(arguments),
        PackagesCommand::Diff(arguments) => content::diff(arguments),
    }
}
