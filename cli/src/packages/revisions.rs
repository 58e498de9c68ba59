//! Package revisions of a cluster: lists them, and takes decisions about them (`packagevariants.md`
//! 6.5, 6.13), with the user's permissions.

use std::time::Duration;

use clap::{Args, ValueEnum};
use groundwork_api::metadata::label;
use groundwork_api::{self as api, Lifecycle, PackageRevision, Repository, ResourceExt as _};
use groundwork_fleet::is_made_of;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};

use super::porch::Server;
use crate::diagnostic::{self, Diagnostic};
use crate::ending::Ending;
use crate::live::{self, Cluster, LiveError, NamespaceArgument};
use crate::stdout;
use crate::terminal::{aligned, shown};

/// Objects per page of a list.
const PAGE: u32 = 500;
/// Default time for the store to do a step.
const PATIENCE: Duration = Duration::from_secs(60);
/// Attempts at a change after conflicts with other writers.
pub(super) const ATTEMPTS: usize = 5;

#[derive(Debug, Args)]
pub(super) struct ListArguments {
    #[command(flatten)]
    namespace: NamespaceArgument,

    /// List revisions of all namespaces.
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,

    /// List revisions of one repository only.
    #[arg(long, value_name = "NAME")]
    repository: Option<String>,

    /// List revisions of one package only, by its path.
    #[arg(long, value_name = "PATH")]
    package: Option<String>,

    /// List revisions that were made from one package only, such as catalog/net/coredns: the name
    /// of its repository, and its path.
    #[arg(long, value_name = "REPOSITORY/PATH", value_parser = upstream)]
    upstream: Option<Upstream>,

    /// List revisions of one stage only: Draft, Proposed, Published or DeletionProposed.
    #[arg(long, value_name = "STAGE", value_parser = lifecycle)]
    lifecycle: Option<Lifecycle>,

    /// Format of the output.
    #[arg(short, long, value_enum, default_value_t = ListFormat::Text)]
    output: ListFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ListFormat {
    /// A table.
    Text,
    /// The objects as one `List`.
    Json,
}

#[derive(Debug, Args)]
pub(super) struct GetArguments {
    /// Name of the package revision.
    name: String,

    #[command(flatten)]
    namespace: NamespaceArgument,

    /// Format of the output.
    #[arg(short, long, value_enum, default_value_t = GetFormat::Yaml)]
    output: GetFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum GetFormat {
    Yaml,
    Json,
}

/// A package by the name of its repository and its path.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Upstream {
    repository: String,
    package: String,
}

fn upstream(text: &str) -> Result<Upstream, String> {
    match text.split_once('/') {
        Some((repository, package)) if !repository.is_empty() && !package.is_empty() => {
            Ok(Upstream { repository: repository.to_owned(), package: package.to_owned() })
        }
        _ => {
            Err("the name of a repository and the path of a package are expected, such as catalog/dns"
                .to_owned())
        }
    }
}

#[derive(Debug, Args)]
pub(super) struct ChangeArguments {
    /// Names of package revisions.
    #[arg(required = true, value_name = "NAME")]
    pub(super) names: Vec<String>,

    #[command(flatten)]
    pub(super) namespace: NamespaceArgument,

    /// Time to wait for the store, such as 5m [default: 1m].
    #[arg(long, value_name = "DURATION")]
    pub(super) timeout: Option<api::Duration>,
}

/// Decision of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Propose,
    Approve,
    Reject,
    ProposeDeletion,
    Delete,
}

/// Meaning of a decision for a revision of a given stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Move(Lifecycle),
    Delete,
    /// There is nothing to do, because the revision is in the wanted stage already.
    Nothing,
}

impl Verb {
    /// Returns the step to take, or the reason that the decision is not allowed
    /// (`packagevariants.md` 6.5).
    pub(super) fn step(self, revision: &PackageRevision, stage: Lifecycle) -> Result<Step, LiveError> {
        if is_head(revision) {
            return match self {
                Self::Delete => Ok(Step::Delete),
                _ => Err(LiveError::Refused(
                    "the package revision is the head of a branch, which has no lifecycle: `delete` removes the package from the branch"
                        .to_owned(),
                )),
            };
        }
        let refused =
            |why: &str| LiveError::Refused(format!("the package revision is {}: {why}", stage.as_str()));
        self.meaning(stage).map_err(refused)
    }

    fn meaning(self, stage: Lifecycle) -> Result<Step, &'static str> {
        use Lifecycle::{DeletionProposed, Draft, Proposed, Published};
        Ok(match (self, stage) {
            (Self::Propose, Draft) => Step::Move(Proposed),
            (Self::Approve, Proposed) => Step::Move(Published),
            (Self::Reject, Proposed) => Step::Move(Draft),
            (Self::Reject, DeletionProposed) => Step::Move(Published),
            (Self::ProposeDeletion, Published) => Step::Move(DeletionProposed),
            (Self::Delete, Draft | Proposed | DeletionProposed) => Step::Delete,
            (Self::Propose, Proposed)
            | (Self::Approve, Published)
            | (Self::Reject, Draft)
            | (Self::ProposeDeletion, DeletionProposed) => Step::Nothing,
            (Self::Propose, Published | DeletionProposed) => return Err("only a draft can be proposed"),
            (Self::Approve, Draft) => return Err("propose it first"),
            (Self::Approve, DeletionProposed) => {
                return Err("use `delete` to delete it, or `reject` to keep it");
            }
            (Self::Reject, Published) => {
                return Err("only a proposed package revision or a proposed deletion can be rejected");
            }
            (Self::ProposeDeletion, Draft | Proposed) => {
                return Err("use `delete`, which needs no proposal here");
            }
            (Self::Delete, Published) => return Err("use `propose-deletion` first"),
        })
    }
}

/// Reports whether a revision is the head of a branch, whose ref is its workspace. The ref of a tag
/// also has the path of the package.
fn is_head(revision: &PackageRevision) -> bool {
    let lock = revision.status.as_ref().and_then(|status| status.self_lock.as_ref()?.git.as_ref());
    let reference = lock.and_then(|lock| lock.reference.as_deref());
    revision.spec.revision == Some(-1)
        && reference.is_some()
        && reference == revision.spec.workspace_name.as_deref()
}

fn lifecycle(text: &str) -> Result<Lifecycle, String> {
    let found = Lifecycle::ALL.into_iter().find(|stage| stage.as_str().eq_ignore_ascii_case(text));
    found.ok_or_else(|| format!("one of {} is expected", Lifecycle::ALL.map(Lifecycle::as_str).join(", ")))
}

/// Returns the stage of a revision.
pub(super) fn stage(revision: &PackageRevision) -> Option<Lifecycle> {
    revision.spec.lifecycle()
}

/// Lists revisions.
pub(super) fn list(arguments: &ListArguments) -> Ending {
    live::run(async || {
        let cluster = Cluster::connect("packages list").await?;
        let revisions = read(&cluster, arguments).await?;
        let text = match arguments.output {
            ListFormat::Json => {
                let items: Vec<Value> = revisions.iter().map(|found| json!(found)).collect();
                let list = json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items});
                format!("{list:#}\n")
            }
            ListFormat::Text => table(&revisions, arguments.all_namespaces),
        };
        Ok(stdout::write(&text))
    })
}

async fn read(cluster: &Cluster, arguments: &ListArguments) -> Result<Vec<PackageRevision>, LiveError> {
    let namespace = arguments.namespace.namespace.as_deref();
    let namespace = namespace.unwrap_or(cluster.client.default_namespace()).to_owned();
    let place = if arguments.all_namespaces { None } else { Some(namespace.as_str()) };
    let mut found = all(cluster, place, ListParams::default()).await?;
    let origins: Option<Vec<PackageRevision>> = arguments.upstream.as_ref().map(|wanted| {
        let is_one = |found: &&PackageRevision| {
            found.spec.repository.as_ref() == Some(&wanted.repository)
                && found.spec.package_name.as_ref() == Some(&wanted.package)
        };
        found.iter().filter(is_one).cloned().collect()
    });
    if let (Some(origins), Some(wanted)) = (&origins, &arguments.upstream)
        && origins.is_empty()
    {
        let Upstream { repository, package } = wanted;
        return Err(LiveError::Refused(format!(
            "--upstream: the repository {repository} has no revision of a package {package}"
        )));
    }
    let is_wanted = |wanted: &Option<String>, found: &Option<String>| wanted.is_none() || wanted == found;
    found.retain(|revision| {
        is_wanted(&arguments.repository, &revision.spec.repository)
            && is_wanted(&arguments.package, &revision.spec.package_name)
            && arguments.lifecycle.is_none_or(|wanted| stage(revision) == Some(wanted))
            && origins
                .as_ref()
                .is_none_or(|origins| origins.iter().any(|origin| is_made_of(revision, origin)))
    });
    Ok(found)
}

/// Lists objects of a namespace, or of all, page by page.
pub(super) async fn all<K>(
    cluster: &Cluster,
    namespace: Option<&str>,
    parameters: ListParams,
) -> Result<Vec<K>, LiveError>
where
    K: api::Kind
        + kube::Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned,
{
    let client = cluster.client.clone();
    let api: Api<K> = match namespace {
        None => Api::all(client),
        Some(namespace) => Api::namespaced(client, namespace),
    };
    let mut parameters = parameters.limit(PAGE);
    let mut found = Vec::new();
    loop {
        let page = api.list(&parameters).await.map_err(|error| LiveError::Watch {
            verb: "list",
            plural: K::PLURAL,
            namespace: namespace.unwrap_or("(all)").to_owned(),
            is_final: live::is_final(&error),
            problem: groundwork_telemetry::innermost_cause(&error),
        })?;
        found.extend(page.items);
        match live::next_page(&parameters, page.metadata.continue_)? {
            Some(next) => parameters = next,
            None => return Ok(found),
        }
    }
}

pub(super) fn table(revisions: &[PackageRevision], with_namespaces: bool) -> String {
    if revisions.is_empty() {
        return "no package revisions\n".to_owned();
    }
    let mut rows = vec![
        ["NAME", "PACKAGE", "WORKSPACE", "REVISION", "LATEST", "LIFECYCLE", "MESSAGE"].map(str::to_owned),
    ];
    rows.extend(revisions.iter().map(|revision| {
        let name = revision.name_any();
        let spec = &revision.spec;
        let is_latest = revision.labels().get(label::LATEST_REVISION).is_some_and(|value| value == "true");
        let message = revision.status.as_ref().and_then(|status| status.message.clone()).unwrap_or_default();
        [
            match with_namespaces {
                true => format!("{}/{name}", revision.namespace().unwrap_or_default()),
                false => name,
            },
            spec.package_name.clone().unwrap_or_default(),
            spec.workspace_name.clone().unwrap_or_default(),
            spec.revision.map(|number| number.to_string()).unwrap_or_default(),
            is_latest.to_string(),
            stage(revision).map(Lifecycle::as_str).unwrap_or_default().to_owned(),
            message.lines().next().unwrap_or_default().to_owned(),
        ]
        .map(|cell| shown(&cell).into_owned())
    }));
    aligned(&rows)
}

/// Prints a revision.
pub(super) fn get(arguments: &GetArguments) -> Ending {
    live::run(async || {
        let cluster = Cluster::connect("packages get").await?;
        let namespace = namespace(&cluster, &arguments.namespace);
        let server = Server::of(&cluster).await?;
        let object = server.revision(&namespace, &arguments.name).await?.as_json().clone();
        Ok(stdout::write(&match arguments.output {
            GetFormat::Json => format!("{object:#}\n"),
            GetFormat::Yaml => groundwork_yaml::to_string(&object),
        }))
    })
}

pub(super) fn namespace(cluster: &Cluster, given: &NamespaceArgument) -> String {
    given.namespace.clone().unwrap_or_else(|| cluster.client.default_namespace().to_owned())
}

/// Returns the error that a revision does not exist.
pub(super) fn missing(namespace: &str, name: &str) -> LiveError {
    LiveError::Refused(format!("package revision {name} does not exist in namespace {namespace}"))
}

/// Takes a decision about revisions, one after the other, and waits for the store.
pub(super) fn change(arguments: &ChangeArguments, verb: Verb) -> Ending {
    live::run(async || {
        let cluster = Cluster::connect("packages").await?;
        let namespace = namespace(&cluster, &arguments.namespace);
        change_all(&cluster, &namespace, &arguments.names, verb, arguments.timeout.as_ref()).await
    })
}

/// Takes one decision about each revision, and waits for the store.
pub(super) async fn change_all(
    cluster: &Cluster,
    namespace: &str,
    names: &[String],
    verb: Verb,
    timeout: Option<&api::Duration>,
) -> Result<Ending, LiveError> {
    let timeout = timeout.and_then(api::Duration::to_std).unwrap_or(PATIENCE);
    let server = Server::of(cluster).await?;
    let mut ending = Ending::Rendered;
    for name in names {
        match tokio::time::timeout(timeout, server.decide(namespace, name, verb)).await {
            Ok(Ok(done)) => drop(stdout::write(&format!("{name} {done}\n"))),
            Ok(Err(error)) => {
                diagnostic::print(&[Diagnostic::error(format!("{name}: {error}"))]);
                ending = Ending::Failed;
            }
            Err(_) => {
                let why = obstacles(cluster, namespace, name).await;
                let text =
                    format!("{name}: the package store did not answer within {} s{why}", timeout.as_secs());
                diagnostic::print(&[Diagnostic::error(text)]);
                ending = Ending::Failed;
            }
        }
    }
    Ok(ending)
}

/// Returns the error that another writer changed the revision during every attempt.
pub(super) fn contended() -> LiveError {
    LiveError::Refused("other clients changed the package revision during each attempt: try again".to_owned())
}

/// Returns the known reasons why the store has not done a step: the revision's message, and a
/// Repository that is not ready.
async fn obstacles(cluster: &Cluster, namespace: &str, name: &str) -> String {
    let Ok(Some(found)) = cluster.objects.get::<PackageRevision>(namespace, name).await else {
        return String::new();
    };
    let mut text = String::new();
    let message = found.status.as_ref().and_then(|status| status.message.as_deref());
    if let Some(message) = message.filter(|message| !message.is_empty()) {
        text.push_str(&format!(": {}", shown(message)));
    }
    let repository = found.spec.repository.unwrap_or_default();
    if let Ok(Some(found)) = cluster.objects.get::<Repository>(namespace, &repository).await {
        let conditions = found.status.unwrap_or_default().conditions;
        let ready = conditions.iter().find(|condition| condition.type_ == "Ready");
        if let Some(ready) = ready.filter(|ready| ready.status != "True") {
            text.push_str(&format!("; Repository {repository} is not ready: {}", shown(&ready.message)));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_decision_means() {
        use Lifecycle::{DeletionProposed, Draft, Proposed, Published};
        assert_eq!(Verb::Propose.meaning(Draft), Ok(Step::Move(Proposed)));
        assert_eq!(Verb::Propose.meaning(Proposed), Ok(Step::Nothing));
        assert_eq!(Verb::Approve.meaning(Proposed), Ok(Step::Move(Published)));
        assert_eq!(Verb::Approve.meaning(Draft), Err("propose it first"));
        assert_eq!(Verb::Reject.meaning(Proposed), Ok(Step::Move(Draft)));
        assert_eq!(Verb::Reject.meaning(DeletionProposed), Ok(Step::Move(Published)));
        assert_eq!(Verb::ProposeDeletion.meaning(Published), Ok(Step::Move(DeletionProposed)));
        assert_eq!(Verb::Delete.meaning(Published), Err("use `propose-deletion` first"));
        assert_eq!(Verb::Delete.meaning(DeletionProposed), Ok(Step::Delete));
    }

    #[test]
    fn heads_of_branches() {
        let revision = |number: i64, reference: &str| -> PackageRevision {
            let lock = json!({"selfLock": {"git": {"ref": reference}}});
            let spec = json!({"workspaceName": "main", "revision": number});
            serde_json::from_value(json!({"metadata": {}, "spec": spec, "status": lock})).unwrap()
        };
        let head = revision(-1, "main");
        assert_eq!(Verb::Delete.step(&head, Lifecycle::Published).unwrap(), Step::Delete);
        let refused = Verb::ProposeDeletion.step(&head, Lifecycle::Published).unwrap_err().to_string();
        assert!(refused.contains("`delete` removes the package from the branch"), "{refused}");
        for other in [revision(-1, "dns/main"), revision(1, "dns/v1")] {
            assert!(Verb::Delete.step(&other, Lifecycle::Published).is_err());
        }
    }

    #[test]
    fn stages_by_name() {
        assert_eq!(lifecycle("draft"), Ok(Lifecycle::Draft));
        assert_eq!(
            lifecycle("x"),
            Err("one of Draft, Proposed, Published, DeletionProposed is expected".to_owned())
        );
    }
}
