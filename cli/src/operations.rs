//! `groundwork reconcile`, `interrupt` and `delete`: operations that users request on an
//! Installation (`installations.md` 3, 8).

use std::time::Duration;

use clap::Args;
use groundwork_api::metadata::{FINALIZER, annotation, operation};
use groundwork_api::{self as api, DeployItem, Execution, Installation, Kind, ResourceExt};
use groundwork_controller::{ApiError, Metadata};
use groundwork_lifecycle::machine::{HasJob, Phase};
use groundwork_lifecycle::overview::Node;
use groundwork_lifecycle::parent_name;

use crate::diagnostic::{self, Diagnostic};
use crate::ending::Ending;
use crate::live::{self, Cluster, InstallationArguments, LiveError, root_of};
use crate::status::print_tree;
use crate::stdout;

/// Attempts at a change after conflicts with other writers.
const ATTEMPTS: usize = 5;

#[derive(Debug, Args)]
pub(crate) struct ReconcileArguments {
    #[command(flatten)]
    target: InstallationArguments,

    #[command(flatten)]
    wait: WaitForJob,
}

#[derive(Debug, Args)]
pub(crate) struct InterruptArguments {
    #[command(flatten)]
    target: InstallationArguments,

    #[command(flatten)]
    wait: WaitForJob,
}

#[derive(Debug, Args)]
pub(crate) struct DeleteArguments {
    #[command(flatten)]
    target: InstallationArguments,

    /// Leave everything deployed: deployers do not uninstall.
    #[arg(long)]
    without_uninstall: bool,

    /// Delete even if other Installations import its exports.
    #[arg(long)]
    ignore_successors: bool,

    /// Remove the finalizers and delete every object of the tree, leaves first, without the
    /// deployers. For trees that cannot be deleted otherwise. Everything deployed stays.
    #[arg(long, conflicts_with_all = ["without_uninstall", "ignore_successors"])]
    force_cleanup: bool,

    #[command(flatten)]
    wait: WaitForJob,
}

#[derive(Debug, Args)]
struct WaitForJob {
    /// Wait until the job has ended. Exit code 1 if it fails; the tree is printed then.
    #[arg(short, long)]
    wait: bool,

    /// Time to wait, such as 10m. After that the tree is printed, with exit code 1.
    #[arg(long, value_name = "DURATION", requires = "wait")]
    timeout: Option<api::Duration>,
}

/// Requests a job.
pub(crate) fn reconcile(arguments: &ReconcileArguments) -> Ending {
    live::run(async || {
        let cluster = Cluster::connect("reconcile").await?;
        let (namespace, name) = cluster.place(&arguments.target.installation, &arguments.target.namespace);
        let installation = cluster.installation(&namespace, &name).await?;
        refuse_nested(&cluster, &installation, "jobs start at the root Installation").await?;
        let former = job_of(&installation);
        let is_running = installation.job().is_running();
        warn_ignored(&installation);
        annotate(&cluster, &namespace, &name, &[(annotation::OPERATION, operation::RECONCILE)]).await?;
        let when = if is_running { "; it starts when the running job has ended" } else { "" };
        stdout::write(&format!("{namespace}/{name}: a job is requested{when}\n"));
        let ended = |node: Option<&Node>| match node {
            None => Some(Ending::Failed),
            Some(node) if node.requested.is_some() || node.is_running => None,
            // The renderer removes the annotation once it has started the job, and an interruption
            // replaces the annotation (`installations.md` 3.1).
            Some(node) if node.job_id == former => {
                let text =
                    format!("{namespace}/{name}: the request was replaced or removed, and no job started");
                diagnostic::print(&[Diagnostic::error(text)]);
                Some(Ending::Failed)
            }
            Some(node) => Some(if node.has_failed() { Ending::Failed } else { Ending::Rendered }),
        };
        arguments.wait.until(&cluster, &namespace, &name, ended).await
    })
}

/// Interrupts the running job.
pub(crate) fn interrupt(arguments: &InterruptArguments) -> Ending {
    live::run(async || {
        let cluster = Cluster::connect("interrupt").await?;
        let (namespace, name) = cluster.place(&arguments.target.installation, &arguments.target.namespace);
        let installation = cluster.installation(&namespace, &name).await?;
        if !installation.job().is_running() {
            return Err(LiveError::Refused(format!("{namespace}/{name}: no job is running")));
        }
        if requested(&installation) == Some(operation::RECONCILE) {
            let text = format!(
                "{namespace}/{name}: the job that was requested to follow the running one is dropped"
            );
            diagnostic::print(&[Diagnostic::warning(text)]);
        }
        annotate(&cluster, &namespace, &name, &[(annotation::OPERATION, operation::INTERRUPT)]).await?;
        stdout::write(&format!("{namespace}/{name}: the interruption is requested\n"));
        let interrupted = job_of(&installation);
        let ended = |node: Option<&Node>| match node {
            Some(node) if node.job_id == interrupted && (node.requested.is_some() || node.is_running) => None,
            // An interrupted job fails, so its failure is the wanted result here.
            _ => Some(Ending::Rendered),
        };
        arguments.wait.until(&cluster, &namespace, &name, ended).await
    })
}

/// Deletes an Installation with everything that it has deployed.
pub(crate) fn delete(arguments: &DeleteArguments) -> Ending {
    live::run(async || {
        let cluster = Cluster::connect("delete").await?;
        let (namespace, name) = cluster.place(&arguments.target.installation, &arguments.target.namespace);
        let installation = cluster.installation(&namespace, &name).await?;
        if arguments.force_cleanup {
            return force_cleanup(&cluster, &namespace, &name).await;
        }
        let hint =
            "its parent would create it again: remove it from the blueprint, or delete the root Installation";
        refuse_nested(&cluster, &installation, hint).await?;
        // If a deletion runs already, wait for that one.
        let deletes_already = installation.phase().is_of_deletion() && installation.job().is_running();
        let former = if deletes_already { String::new() } else { job_of(&installation) };
        warn_ignored(&installation);
        let mut annotations = Vec::new();
        if arguments.without_uninstall {
            annotations.push((annotation::DELETE_WITHOUT_UNINSTALL, "true"));
        }
        if arguments.ignore_successors {
            annotations.push((annotation::DELETE_IGNORE_SUCCESSORS, "true"));
        }
        // A failed deletion is retried when a job is requested.
        if installation.is_deleting() && installation.phase() == Phase::DeleteFailed {
            annotations.push((annotation::OPERATION, operation::RECONCILE));
        }
        if !annotations.is_empty() {
            annotate(&cluster, &namespace, &name, &annotations).await?;
        }
        let uid = installation.uid();
        cluster.objects.delete::<Installation>(&namespace, &name, uid.as_deref(), None).await?;
        stdout::write(&format!("{namespace}/{name}: the deletion is requested\n"));
        let ended = |node: Option<&Node>| match node {
            None => Some(Ending::Rendered),
            Some(node)
                if node.has_failed()
                    && Phase::of(Some(&node.phase)) == Phase::DeleteFailed
                    && node.requested.is_none()
                    && node.job_id != former =>
            {
                Some(Ending::Failed)
            }
            Some(_) => None,
        };
        arguments.wait.until(&cluster, &namespace, &name, ended).await
    })
}

impl WaitForJob {
    /// Waits, if the user asked for it, until the tree shows how the job ended.
    async fn until(
        &self,
        cluster: &Cluster,
        namespace: &str,
        name: &str,
        ended: impl Fn(Option<&Node>) -> Option<Ending>,
    ) -> Result<Ending, LiveError> {
        if !self.wait {
            return Ok(Ending::Rendered);
        }
        let limit = self.timeout.as_ref().and_then(api::Duration::to_std).unwrap_or(Duration::MAX);
        let mut live = cluster.follow(namespace, name).await?;
        let waiting = async {
            loop {
                if let Some(ending) = ended(live.tree().as_ref()) {
                    return Ok::<_, LiveError>(ending);
                }
                live.changed().await?;
            }
        };
        let ending = match tokio::time::timeout(limit, waiting).await {
            Ok(ending) => ending?,
            Err(_) => {
                let text = format!(
                    "{namespace}/{name}: the job did not end within --timeout; it continues in the cluster"
                );
                diagnostic::print(&[Diagnostic::error(text)]);
                Ending::Failed
            }
        };
        match (ending, live.tree()) {
            (Ending::Failed, Some(tree)) => print_tree(&tree)?,
            (_, Some(tree)) => drop(stdout::write(&format!("{namespace}/{name}: {}\n", tree.phase))),
            (_, None) => drop(stdout::write(&format!("{namespace}/{name}: gone\n"))),
        }
        Ok(ending)
    }
}

fn job_of(installation: &Installation) -> String {
    installation.job().id.to_owned()
}

fn requested(installation: &Installation) -> Option<&str> {
    installation.annotations().get(annotation::OPERATION).map(String::as_str)
}

/// Warns that services ignore an object with this annotation, so that the request has no effect.
fn warn_ignored(installation: &Installation) {
    if installation.annotations().get(annotation::IGNORE).is_some_and(|value| value == "true") {
        let text = format!(
            "{} has the annotation {}: services ignore the request until the annotation is removed",
            installation.name_any(),
            annotation::IGNORE
        );
        diagnostic::print(&[Diagnostic::warning(text)]);
    }
}

async fn refuse_nested(cluster: &Cluster, installation: &Installation, why: &str) -> Result<(), LiveError> {
    let Some(parent) = parent_name(installation) else { return Ok(()) };
    let namespace = installation.namespace().unwrap_or_default();
    let name = installation.name_any();
    let root = root_of(cluster, installation.clone()).await?.name_any();
    let text = format!("{namespace}/{name} is nested in {namespace}/{parent}: {why}, {namespace}/{root}");
    Err(LiveError::Refused(text))
}

async fn annotate(
    cluster: &Cluster,
    namespace: &str,
    name: &str,
    annotations: &[(&str, &str)],
) -> Result<(), LiveError> {
    let annotations = annotations.iter().map(|(key, value)| ((*key).to_owned(), Some((*value).to_owned())));
    let change = Metadata { annotations: annotations.collect(), ..Metadata::default() };
    cluster.objects.patch_metadata::<Installation>(namespace, name, &change).await?;
    Ok(())
}

/// Deletes every object of the tree without its deployers (`installations.md` 3.6).
async fn force_cleanup(cluster: &Cluster, namespace: &str, name: &str) -> Result<Ending, LiveError> {
    let mut follower = groundwork_renderer::Follower::new(cluster.objects.clone(), namespace, name);
    follower.read().await?;
    let mut objects = Vec::new();
    if let Some(tree) = follower.tree() {
        leaves_first(&tree, &mut objects);
    }
    for (kind, name) in &objects {
        match *kind {
            DeployItem::KIND => remove::<DeployItem>(cluster, namespace, name).await?,
            Execution::KIND => remove::<Execution>(cluster, namespace, name).await?,
            _ => remove::<Installation>(cluster, namespace, name).await?,
        }
        stdout::write(&format!("{kind} {namespace}/{name}: removed\n"));
    }
    Ok(Ending::Rendered)
}

fn leaves_first(node: &Node, objects: &mut Vec<(&'static str, String)>) {
    for below in &node.nodes {
        leaves_first(below, objects);
    }
    objects.push((node.kind, node.name.clone()));
}

/// Deletes an object and removes our finalizer from it. Finalizers of others stay.
async fn remove<K>(cluster: &Cluster, namespace: &str, name: &str) -> Result<(), LiveError>
where
    K: groundwork_controller::Stored,
{
    cluster.objects.delete::<K>(namespace, name, None, None).await?;
    let mut attempts = 0;
    loop {
        let Some(object) = cluster.objects.get::<K>(namespace, name).await? else { return Ok(()) };
        let finalizers = object.finalizers();
        if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
            return Ok(());
        }
        let others = finalizers.iter().filter(|finalizer| *finalizer != FINALIZER).cloned().collect();
        let change = Metadata {
            resource_version: object.resource_version(),
            finalizers: Some(others),
            annotations: Vec::new(),
        };
        attempts += 1;
        match cluster.objects.patch_metadata::<K>(namespace, name, &change).await {
            Ok(_) | Err(ApiError::NotFound(_)) => return Ok(()),
            Err(ApiError::Conflict(_)) if attempts < ATTEMPTS => {}
            Err(error) => return Err(error.into()),
        }
    }
}
