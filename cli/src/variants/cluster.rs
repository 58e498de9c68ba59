//! `groundwork variants plan --cluster` and `apply`: shows the effect of sets on the variants of a
//! cluster, and applies exactly that.

use std::path::PathBuf;

use clap::Args;
use groundwork_api::PackageVariantSet;
use groundwork_variant_service::{apply_sets, preview_namespace};

use super::{Cluster as Files, PlanArguments, plan};
use crate::diagnostic::{self, Diagnostic};
use crate::ending::Ending;
use crate::input;
use crate::live::{self, Cluster, LiveError};
use crate::stdout;

#[derive(Debug, Args)]
pub(super) struct ApplyArguments {
    /// Files or directories with PackageVariantSets. `-` is standard input.
    #[arg(short, long = "file", required = true, num_args = 1.., value_name = "FILE")]
    files: Vec<PathBuf>,

    /// The hash that `groundwork variants plan --cluster` has printed for the same files.
    #[arg(long, value_name = "HASH", value_parser = hash)]
    plan: String,

    /// Namespace of sets that name none [default: that of the kube context].
    #[arg(short, long, value_parser = crate::namespace::namespace)]
    namespace: Option<String>,
}

fn hash(text: &str) -> Result<String, String> {
    let is_hash = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_hash { Ok(text.to_ascii_lowercase()) } else { Err("64 hexadecimal digits are expected".to_owned()) }
}

/// Plans for a namespace of the cluster.
pub(super) fn plan(arguments: &PlanArguments) -> Ending {
    live::run(async || {
        let cluster = Cluster::connect("variants plan").await?;
        let Some((namespace, sets)) = sets(&arguments.files, arguments.namespace.as_ref(), &cluster)? else {
            return Ok(Ending::Unusable);
        };
        let preview = preview_namespace(&namespace, sets, &cluster.objects).await.map_err(refused)?;
        Ok(plan::print(&preview, arguments.output))
    })
}

/// Writes sets if their effect is still that of the plan.
pub(super) fn apply(arguments: &ApplyArguments) -> Ending {
    live::run(async || {
        let cluster = Cluster::connect("variants apply").await?;
        let Some((namespace, sets)) = sets(&arguments.files, arguments.namespace.as_ref(), &cluster)? else {
            return Ok(Ending::Unusable);
        };
        let preview = preview_namespace(&namespace, sets.clone(), &cluster.objects).await.map_err(refused)?;
        let problem = if preview.hash != arguments.plan {
            Some(
                "the plan has changed since it was printed, so no set was written: check the current plan above, then \
                 pass its hash to --plan",
            )
        } else if plan::is_refused(&preview) {
            Some("the plan contains a refused change, so no set was written")
        } else {
            None
        };
        if let Some(problem) = problem {
            stdout::write(&plan::show(&preview));
            diagnostic::print(&[Diagnostic::error(problem)]);
            return Ok(Ending::Failed);
        }
        let written = apply_sets(&namespace, sets, &cluster.objects).await?;
        let lines: String = written
            .iter()
            .map(|set| {
                format!(
                    "packagevariantset {namespace}/{} written\n",
                    groundwork_api::ResourceExt::name_any(set)
                )
            })
            .collect();
        Ok(stdout::write(&lines))
    })
}

pub(crate) fn refused(error: groundwork_controller::ReconcileError) -> LiveError {
    LiveError::Refused(error.message)
}

/// Returns the sets of the files and their namespace, which has to be the same for all. Returns
/// `None` if the input cannot be used; the reason is printed.
fn sets(
    files: &[PathBuf],
    namespace: Option<&String>,
    cluster: &Cluster,
) -> Result<Option<(String, Vec<PackageVariantSet>)>, LiveError> {
    let default = namespace.map_or_else(|| cluster.client.default_namespace().to_owned(), Clone::clone);
    if files.is_empty() {
        return Ok(Some((default, Vec::new())));
    }
    let mut diagnostics = Vec::new();
    let documents = input::read(files, &mut diagnostics);
    let Some(read) = Files::of_sets(&documents, &default, &mut diagnostics) else { return Ok(None) };
    diagnostic::print(&diagnostics);
    let mut namespaces: Vec<&String> = read.sets.keys().map(|(namespace, _)| namespace).collect();
    namespaces.dedup();
    match namespaces.as_slice() {
        [namespace] => {
            let sets = read.sets.values().map(|set| set.object.clone()).collect();
            Ok(Some(((*namespace).clone(), sets)))
        }
        _ => Err(LiveError::Refused(format!(
            "the sets are in several namespaces ({}): plan one namespace at a time",
            namespaces.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ")
        ))),
    }
}
