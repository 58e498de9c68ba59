//! `groundwork packages approve`: publishes proposed revisions, one by one, or those of a set or
//! with labels.

use std::io::IsTerminal as _;

use clap::Args;
use groundwork_api::{self as api, Lifecycle, PackageRevision, PackageVariant, ResourceExt as _};
use kube::api::ListParams;

use super::revisions::{Verb, all, change_all, namespace, stage, table};
use crate::diagnostic::{self, Diagnostic};
use crate::ending::Ending;
use crate::live::{self, Cluster, LiveError, NamespaceArgument};
use crate::stdout;

#[derive(Debug, Args)]
pub(super) struct ApproveArguments {
    /// Names of package revisions.
    #[arg(required_unless_present_any = ["set", "selector"], value_name = "NAME")]
    names: Vec<String>,

    /// Approve the proposed revisions of the variants of a PackageVariantSet.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["names", "selector"])]
    set: Option<String>,

    /// Approve the proposed revisions with these labels, such as site=edge.
    #[arg(short = 'l', long, value_name = "LABELS", conflicts_with = "names")]
    selector: Option<String>,

    /// Approve the revisions of a set or a selector without a question.
    #[arg(short, long)]
    yes: bool,

    #[command(flatten)]
    namespace: NamespaceArgument,

    /// Time to wait for the store, such as 5m [default: 1m].
    #[arg(long, value_name = "DURATION")]
    timeout: Option<api::Duration>,
}

/// Approves revisions by name, or the proposed ones of a set or a selector after a question.
pub(super) fn approve(arguments: &ApproveArguments) -> Ending {
    live::run(async || {
        let cluster = Cluster::connect("packages approve").await?;
        let namespace = namespace(&cluster, &arguments.namespace);
        let mut names = arguments.names.clone();
        if names.is_empty() {
            let proposed = proposed(&cluster, &namespace, arguments).await?;
            names = proposed.iter().map(PackageRevision::name_any).collect();
            let written = stdout::write(&table(&proposed, false));
            if written != Ending::Rendered {
                return Ok(written);
            }
            if !arguments.yes && !asked(&format!("Approve these {} revisions?", names.len()))? {
                return Ok(Ending::Failed);
            }
        }
        change_all(&cluster, &namespace, &names, Verb::Approve, arguments.timeout.as_ref()).await
    })
}

/// Returns the proposed revisions of a set or with labels.
async fn proposed(
    cluster: &Cluster,
    namespace: &str,
    arguments: &ApproveArguments,
) -> Result<Vec<PackageRevision>, LiveError> {
    let parameters = match &arguments.selector {
        Some(selector) => ListParams::default().labels(selector),
        None => ListParams::default(),
    };
    let mut found: Vec<PackageRevision> = all(cluster, Some(namespace), parameters).await?;
    if let Some(set) = &arguments.set {
        let variants: Vec<PackageVariant> = all(cluster, Some(namespace), ListParams::default()).await?;
        let is_of_set = |owner: &api::OwnerReference| owner.kind == "PackageVariantSet" && owner.name == *set;
        let of_set = variants.iter().filter(|found| found.owner_references().iter().any(is_of_set));
        let owners: Vec<String> = of_set.filter_map(PackageVariant::uid).collect();
        if owners.is_empty() {
            return Err(LiveError::Refused(format!(
                "the PackageVariantSet {set} has no variants in the namespace {namespace}"
            )));
        }
        found.retain(|found| found.owner_references().iter().any(|owner| owners.contains(&owner.uid)));
    }
    let drafts = found.iter().filter(|found| stage(found) == Some(Lifecycle::Draft)).count();
    found.retain(|found| stage(found) == Some(Lifecycle::Proposed));
    if drafts > 0 {
        let text = format!("{drafts} drafts are not proposed yet, and stay as they are");
        diagnostic::print(&[Diagnostic::warning(text)]);
    }
    if found.is_empty() {
        return Err(LiveError::Refused("no revision is proposed".to_owned()));
    }
    Ok(found)
}

/// Asks the user, and reports whether the answer is yes.
fn asked(question: &str) -> Result<bool, LiveError> {
    if !std::io::stdin().is_terminal() {
        let text =
            "standard input is not a terminal, so the question cannot be asked: --yes approves without it";
        return Err(LiveError::Refused(text.to_owned()));
    }
    eprint!("{question} [y/N] ");
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).map_err(LiveError::Output)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
