//! `groundwork packages repositories`: adds, lists, syncs and removes Repositories, with the user's
//! permissions. A package store and a Porch server read the same objects.

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use groundwork_api::{
    self as api, GitRepository, LocalObjectReference, PackageVariant, PackageVariantSet, Repository,
    RepositorySpec, ResourceExt, Time,
};
use groundwork_controller::ApiError;
use jiff::Timestamp;
use kube::api::ListParams;
use serde_json::{Value, json};

use super::revisions::{ATTEMPTS, all, namespace};
use crate::diagnostic::{self, Diagnostic};
use crate::ending::Ending;
use crate::live::{self, Cluster, LiveError, NamespaceArgument};
use crate::stdout;
use crate::terminal::{aligned, shown};

/// Pause between two checks whether a Repository is ready.
const POLL: Duration = Duration::from_millis(200);
/// Default time for a Repository to become ready.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug, Args)]
pub(super) struct RepositoriesArguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Add a Repository, and wait until it can be used.
    ///
    /// Exit code 1: it exists already, or cannot be used; the message tells the reason, and the
    /// Repository stays.
    Add(AddArguments),
    /// List Repositories, or print one.
    Get(GetArguments),
    /// Read the packages of Repositories again now, and wait until that is done.
    Sync(SyncArguments),
    /// Remove Repositories; git stays as it is.
    ///
    /// Refuses a Repository that package variants use, unless --force is given.
    Remove(RemoveArguments),
}

#[derive(Debug, Args)]
struct AddArguments {
    /// Name of the Repository.
    name: String,

    /// Address of the git repository, such as <https://git.example.org/edge.git>.
    #[arg(value_name = "URL")]
    address: String,

    /// Branch with the published packages.
    #[arg(long, value_name = "NAME", default_value = "main")]
    branch: String,

    /// Make the branch if it does not exist.
    #[arg(long)]
    create_branch: bool,

    /// Folder with the packages [default: the root].
    #[arg(long, value_name = "PATH")]
    directory: Option<String>,

    /// Deploy from the Repository: packages get a context, and readiness gates hold back approvals.
    #[arg(long)]
    deployment: bool,

    /// Secret with the credentials, in the same namespace.
    #[arg(long, value_name = "NAME")]
    secret: Option<String>,

    /// Text for people.
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,

    #[command(flatten)]
    namespace: NamespaceArgument,

    #[command(flatten)]
    waiting: WaitArguments,
}

#[derive(Debug, Args)]
struct WaitArguments {
    /// Time to wait for the package store, such as 5m [default: 1m].
    #[arg(long, value_name = "DURATION")]
    timeout: Option<api::Duration>,
}

impl WaitArguments {
    fn patience(&self) -> Duration {
        self.timeout.as_ref().and_then(api::Duration::to_std).unwrap_or(PATIENCE)
    }
}

#[derive(Debug, Args)]
struct GetArguments {
    /// Name of a Repository [default: all].
    name: Option<String>,

    #[command(flatten)]
    namespace: NamespaceArgument,

    /// List Repositories of all namespaces.
    #[arg(short = 'A', long, conflicts_with_all = ["namespace", "name"])]
    all_namespaces: bool,

    /// Format of the output.
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A table.
    Text,
    /// The objects as one `List`.
    Json,
}

#[derive(Debug, Args)]
struct SyncArguments {
    /// Names of Repositories.
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,

    #[command(flatten)]
    namespace: NamespaceArgument,

    #[command(flatten)]
    waiting: WaitArguments,
}

#[derive(Debug, Args)]
struct RemoveArguments {
    /// Names of Repositories.
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,

    /// Remove Repositories although package variants use them.
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    namespace: NamespaceArgument,
}

pub(super) fn run(arguments: &RepositoriesArguments) -> Ending {
    live::run(async || {
        let cluster = Cluster::connect("packages repositories").await?;
        match &arguments.command {
            Command::Add(arguments) => add(&cluster, arguments).await,
            Command::Get(arguments) => get(&cluster, arguments).await,
            Command::Sync(arguments) => {
                let namespace = namespace(&cluster, &arguments.namespace);
                let mut ending = Ending::Rendered;
                for name in &arguments.names {
                    let synced = sync(&cluster, &namespace, name, arguments.waiting.patience()).await;
                    ending = told(name, synced, ending);
                }
                Ok(ending)
            }
            Command::Remove(arguments) => {
                let namespace = namespace(&cluster, &arguments.namespace);
                let mut ending = Ending::Rendered;
                for name in &arguments.names {
                    ending = told(name, remove(&cluster, &namespace, name, arguments.force).await, ending);
                }
                Ok(ending)
            }
        }
    })
}

/// Prints the result for one Repository, and returns the ending of the command so far.
fn told(name: &str, result: Result<String, LiveError>, ending: Ending) -> Ending {
    match result {
        Ok(text) => {
            stdout::write(&format!("{} {text}\n", shown(name)));
            ending
        }
        Err(error) => {
            diagnostic::print(&[Diagnostic::error(format!("{name}: {error}"))]);
            Ending::Failed
        }
    }
}

async fn add(cluster: &Cluster, arguments: &AddArguments) -> Result<Ending, LiveError> {
    let namespace = namespace(cluster, &arguments.namespace);
    let secret_ref = arguments.secret.clone().map(|name| LocalObjectReference { name });
    let git = GitRepository {
        repo: arguments.address.clone(),
        branch: Some(arguments.branch.clone()),
        create_branch: arguments.create_branch.then_some(true),
        directory: arguments.directory.clone(),
        secret_ref,
        ..GitRepository::default()
    };
    let mut repository = Repository::default();
    repository.metadata.namespace = Some(namespace.clone());
    repository.metadata.name = Some(arguments.name.clone());
    repository.spec = RepositorySpec {
        type_: Some("git".to_owned()),
        description: arguments.description.clone(),
        deployment: arguments.deployment.then_some(true),
        git: Some(git),
        ..RepositorySpec::default()
    };
    cluster.objects.create(&repository).await?;
    let is_read = |found: &Repository| found.status.is_some();
    let added = settled(cluster, &namespace, &arguments.name, arguments.waiting.patience(), is_read).await;
    Ok(told(&arguments.name, added, Ending::Rendered))
}

async fn get(cluster: &Cluster, arguments: &GetArguments) -> Result<Ending, LiveError> {
    let namespace = namespace(cluster, &arguments.namespace);
    let found: Vec<Repository> = match &arguments.name {
        Some(name) => vec![repository(cluster, &namespace, name).await?],
        None => {
            let place = (!arguments.all_namespaces).then_some(namespace.as_str());
            all(cluster, place, ListParams::default()).await?
        }
    };
    let text = match arguments.output {
        Format::Json => {
            let items: Vec<Value> = found.iter().map(|found| json!(found)).collect();
            format!("{:#}\n", json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items}))
        }
        Format::Text => table(&found, arguments.all_namespaces),
    };
    Ok(stdout::write(&text))
}

fn table(repositories: &[Repository], with_namespaces: bool) -> String {
    if repositories.is_empty() {
        return "no repositories\n".to_owned();
    }
    let head = ["NAME", "DEPLOYMENT", "READY", "PACKAGES", "ADDRESS", "BRANCH", "MESSAGE"];
    let mut rows = vec![head.map(str::to_owned)];
    rows.extend(repositories.iter().map(|repository| {
        let (spec, status) = (&repository.spec, repository.status.clone().unwrap_or_default());
        let git = spec.git.clone().unwrap_or_default();
        let (ready, message) = ready(repository).unwrap_or_default();
        let name = repository.name_any();
        [
            match with_namespaces {
                true => format!("{}/{name}", repository.namespace().unwrap_or_default()),
                false => name,
            },
            spec.deployment.unwrap_or_default().to_string(),
            ready,
            status.package_count.map(|count| count.to_string()).unwrap_or_default(),
            spec.oci.as_ref().map_or(git.repo, |oci| oci.registry.clone()),
            git.branch.unwrap_or_default(),
            message.lines().next().unwrap_or_default().to_owned(),
        ]
        .map(|cell| shown(&cell).into_owned())
    }));
    aligned(&rows)
}

/// Returns status and message of the condition `Ready`.
fn ready(repository: &Repository) -> Option<(String, String)> {
    let status = repository.status.as_ref()?;
    let ready = status.conditions.iter().find(|condition| condition.type_ == "Ready")?;
    Some((ready.status.clone(), ready.message.clone()))
}

async fn repository(cluster: &Cluster, namespace: &str, name: &str) -> Result<Repository, LiveError> {
    let found = cluster.objects.get::<Repository>(namespace, name).await?;
    found.ok_or_else(|| {
        LiveError::Refused(format!("Repository {name} does not exist in namespace {namespace}"))
    })
}

/// Requests a sync at this time, and waits for it.
async fn sync(
    cluster: &Cluster,
    namespace: &str,
    name: &str,
    patience: Duration,
) -> Result<String, LiveError> {
    // The API server keeps whole seconds.
    let at = Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default();
    for _ in 0..ATTEMPTS {
        let mut found = repository(cluster, namespace, name).await?;
        found.spec.sync.get_or_insert_default().run_once_at = Some(Time(at));
        match cluster.objects.replace(&found).await {
            Ok(_) => {
                let is_done = move |found: &Repository| {
                    let observed =
                        found.status.as_ref().and_then(|status| status.observed_run_once_at.as_ref());
                    observed.is_some_and(|observed| observed.0 >= at)
                };
                return settled(cluster, namespace, name, patience, is_done).await;
            }
            Err(ApiError::Conflict(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(LiveError::Refused("other clients changed the Repository during each attempt: try again".to_owned()))
}

/// Waits until a Repository is ready and fulfils the condition, and returns the text for the user.
///
/// # Errors
/// The Repository is not ready in time or cannot be used. The store retries it, but this command
/// has nothing more to report.
async fn settled(
    cluster: &Cluster,
    namespace: &str,
    name: &str,
    patience: Duration,
    is_done: impl Fn(&Repository) -> bool,
) -> Result<String, LiveError> {
    let waiting = async {
        loop {
            let found = repository(cluster, namespace, name).await?;
            let status = found.status.clone().unwrap_or_default();
            let is_current = status.observed_generation >= found.metadata.generation;
            let failed =
                status.conditions.iter().find(|found| found.type_ == "Ready" && found.reason == "Error");
            if let Some(failed) = failed.filter(|_| is_current) {
                return Err(LiveError::Refused(shown(&failed.message).into_owned()));
            }
            let is_ready = ready(&found).is_some_and(|(status, _)| status == "True");
            if is_ready && is_current && is_done(&found) {
                return Ok(match status.package_count {
                    Some(count) => format!("is ready, packages: {count}"),
                    None => "is ready".to_owned(),
                });
            }
            tokio::time::sleep(POLL).await;
        }
    };
    match tokio::time::timeout(patience, waiting).await {
        Ok(result) => result,
        Err(_) => {
            let found = repository(cluster, namespace, name).await?;
            let why = match ready(&found) {
                Some((_, message)) if !message.is_empty() => format!(": {}", shown(&message)),
                Some(_) => String::new(),
                None => ": no package store or Porch server has read it; one must run for this namespace"
                    .to_owned(),
            };
            Err(LiveError::Refused(format!("it was not ready within {} s{why}", patience.as_secs())))
        }
    }
}

async fn remove(cluster: &Cluster, namespace: &str, name: &str, force: bool) -> Result<String, LiveError> {
    let found = repository(cluster, namespace, name).await?;
    if !force {
        let users = users(cluster, namespace, name).await?;
        if !users.is_empty() {
            return Err(LiveError::Refused(format!(
                "package variants use it: {}; change or delete them first, or remove it with --force",
                shown(&users.join(", "))
            )));
        }
    }
    cluster.objects.delete::<Repository>(namespace, name, found.uid().as_deref(), None).await?;
    Ok("removed; git is unchanged".to_owned())
}

/// Returns the variants, and the sets by their upstream, that name a Repository.
async fn users(cluster: &Cluster, namespace: &str, name: &str) -> Result<Vec<String>, LiveError> {
    let is_it = |repo: Option<&String>| repo.is_some_and(|repo| repo == name);
    let variants: Vec<PackageVariant> = all(cluster, Some(namespace), ListParams::default()).await?;
    let variants = variants.iter().filter(|variant| {
        let (upstream, downstream) = (&variant.spec.upstream, &variant.spec.downstream);
        is_it(upstream.as_ref().and_then(|upstream| upstream.repo.as_ref()))
            || is_it(downstream.as_ref().and_then(|downstream| downstream.repo.as_ref()))
    });
    let mut users: Vec<String> = variants.map(ResourceExt::name_any).collect();
    let sets: Vec<PackageVariantSet> = all(cluster, Some(namespace), ListParams::default()).await?;
    let sets = sets
        .iter()
        .filter(|set| is_it(set.spec.upstream.as_ref().and_then(|upstream| upstream.repo.as_ref())));
    users.extend(sets.map(|set| format!("the set {}", set.name_any())));
    Ok(users)
}
