//! `groundwork packages propose-deletion`, `delete` and `dependents`: revisions that others were
//! made from are the base of the next merges.

use clap::Args;
use groundwork_api::{PackageRevision, ResourceExt as _};
use groundwork_fleet::derives_from;
use kube::api::ListParams;

use super::revisions::{ChangeArguments, Verb, all, change_all, missing, namespace, table};
use crate::diagnostic::{self, Diagnostic};
use crate::ending::Ending;
use crate::live::{self, Cluster, LiveError, NamespaceArgument};
use crate::stdout;
use crate::terminal::shown;

#[derive(Debug, Args)]
pub(super) struct DependentsArguments {
    /// Name of the package revision.
    name: String,

    #[command(flatten)]
    namespace: NamespaceArgument,
}

#[derive(Debug, Args)]
pub(super) struct RemoveArguments {
    #[command(flatten)]
    change: ChangeArguments,

    /// Continue even if other packages were made from the revision.
    #[arg(long)]
    force: bool,
}

/// Prints the revisions that were made from one revision.
pub(super) fn dependents(arguments: &DependentsArguments) -> Ending {
    live::run(async || {
        let cluster = Cluster::connect("packages dependents").await?;
        let namespace = namespace(&cluster, &arguments.namespace);
        let found = made_of(&cluster, &namespace, &arguments.name).await?;
        Ok(stdout::write(&table(&found, false)))
    })
}

/// Returns the revisions of a namespace that were made from one revision.
async fn made_of(cluster: &Cluster, namespace: &str, name: &str) -> Result<Vec<PackageRevision>, LiveError> {
    let mut found: Vec<PackageRevision> = all(cluster, Some(namespace), ListParams::default()).await?;
    let own = found.iter().find(|found| found.name_any() == name).cloned();
    let own = own.ok_or_else(|| missing(namespace, name))?;
    found.retain(|found| derives_from(found, &own));
    Ok(found)
}

/// Proposes deletions or deletes, unless other packages were made from a revision.
pub(super) fn remove(arguments: &RemoveArguments, verb: Verb) -> Ending {
    live::run(async || {
        let cluster = Cluster::connect("packages").await?;
        let RemoveArguments { change, force } = arguments;
        let namespace = namespace(&cluster, &change.namespace);
        let mut names = Vec::new();
        for name in &change.names {
            let made = match *force {
                true => Ok(Vec::new()),
                false => made_of(&cluster, &namespace, name).await,
            };
            // A user may have the right to change a revision without the right to list others.
            let made = made.unwrap_or_else(|error| {
                let text = format!("{name}: cannot check whether other packages were made from it: {error}");
                diagnostic::print(&[Diagnostic::warning(text)]);
                Vec::new()
            });
            if made.is_empty() {
                names.push(name.clone());
                continue;
            }
            let made: Vec<String> = made.iter().map(|made| shown(&made.name_any()).into_owned()).collect();
            diagnostic::print(&[Diagnostic::error(format!(
                "{name}: other revisions were made from it, and need it as the base of their next merge: {}; --force \
                 continues anyway",
                made.join(", ")
            ))]);
        }
        let is_whole = names.len() == change.names.len();
        let ending = change_all(&cluster, &namespace, &names, verb, change.timeout.as_ref()).await?;
        Ok(if is_whole { ending } else { Ending::Failed })
    })
}
