//! Follows an Installation of a cluster and everything below it. Reads use the permissions of the
//! user's kube context.

use std::time::Duration;

use clap::Args;
use futures::stream::{self, BoxStream, SelectAll, StreamExt};
use groundwork_api::kubernetes::is_dns_subdomain;
use groundwork_api::metadata::label;
use groundwork_api::{DeployItem, Execution, Installation, Kind, ResourceExt};
use groundwork_controller::{ApiError, ClusterArguments, ConnectError, Metrics, Objects, Stored};
use groundwork_lifecycle::overview::Node;
use groundwork_lifecycle::parent_name;
use groundwork_renderer::Follower;
use groundwork_telemetry::Telemetry;
use kube::Client;
use kube::api::{Api, ListParams, PartialObjectMeta, WatchParams};
use kube::core::WatchEvent;

use crate::diagnostic::{self, Diagnostic};
use crate::ending::Ending;
use crate::namespace::namespace;

/// Pause between an event and the next reading, so that objects that change together are read
/// together.
const SETTLE: Duration = Duration::from_millis(100);
/// Pause before a watch is started again.
const PAUSE: Duration = Duration::from_secs(1);

/// Arguments that name an Installation.
#[derive(Debug, Args)]
pub(crate) struct InstallationArguments {
    /// The Installation, as NAMESPACE/NAME or NAME.
    #[arg(value_name = "NAMESPACE/NAME", value_parser = installation_name)]
    pub(crate) installation: InstallationName,

    #[command(flatten)]
    pub(crate) namespace: NamespaceArgument,
}

#[derive(Debug, Args)]
pub(crate) struct NamespaceArgument {
    /// Namespace of a name that comes without one [default: that of the kube context].
    #[arg(short, long, value_parser = namespace)]
    pub(crate) namespace: Option<String>,
}

/// Name with or without its namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InstallationName {
    namespace: Option<String>,
    name: String,
}

pub(crate) fn installation_name(text: &str) -> Result<InstallationName, String> {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(namespace(prefix)?), name),
        None => (None, text),
    };
    if !is_dns_subdomain(name) {
        return Err("a Kubernetes object name or NAMESPACE/NAME is expected".to_owned());
    }
    Ok(InstallationName { namespace: prefix, name: name.to_owned() })
}

impl InstallationName {
    /// Returns namespace and name. A name without a namespace gets the given namespace.
    pub(crate) fn in_namespace(self, namespace: &str) -> (String, String) {
        (self.namespace.unwrap_or_else(|| namespace.to_owned()), self.name)
    }
}

/// Reason that a command cannot show or do something in a cluster.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LiveError {
    #[error("cannot start: {0}")]
    Runtime(std::io::Error),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("{}", of_user(.0))]
    Api(#[from] ApiError),
    #[error("cannot {verb} {plural} in the namespace {namespace}: {problem}")]
    Watch { verb: &'static str, plural: &'static str, namespace: String, problem: String, is_final: bool },
    #[error("Installation {name} does not exist in namespace {namespace}")]
    Missing { namespace: String, name: String },
    #[error("{0}")]
    Refused(String),
    #[error("cannot write to standard output: {0}")]
    Output(#[from] std::io::Error),
}

/// Returns the text of an error for the user of the command, whose own rights apply, not those of a
/// service.
fn of_user(error: &ApiError) -> String {
    match error {
        ApiError::Forbidden { verb, resource } => {
            format!("you may not {verb} {resource}: ask an administrator of the cluster for the permission")
        }
        other => other.to_string(),
    }
}

impl LiveError {
    /// Reports whether the API server may answer differently soon, so that another attempt makes
    /// sense.
    fn may_pass(&self) -> bool {
        match self {
            Self::Api(error) => matches!(error, ApiError::Transient { .. } | ApiError::Unasked { .. }),
            Self::Watch { is_final, .. } => !is_final,
            Self::Runtime(_)
            | Self::Connect(_)
            | Self::Missing { .. }
            | Self::Refused(_)
            | Self::Output(_) => false,
        }
    }
}

/// Reports whether the API server rejected the request, and would reject it again.
pub(crate) fn is_final(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(answer) if (400..500).contains(&answer.code) && ![408, 410, 429].contains(&answer.code))
}

/// Returns the parameters for the next page of a list; `None` at its end.
///
/// # Errors
///
/// The token leads back to the same page, which would never end.
pub(crate) fn next_page(asked: &ListParams, token: Option<String>) -> Result<Option<ListParams>, LiveError> {
    let Some(token) = token.filter(|token| !token.is_empty()) else { return Ok(None) };
    if asked.continue_token.as_ref() == Some(&token) {
        let text =
            "the API server answered a list request with the continue token of a page that was already read";
        return Err(LiveError::Refused(text.to_owned()));
    }
    Ok(Some(asked.clone().continue_token(&token)))
}

/// Cluster of the current kube context.
pub(crate) struct Cluster {
    pub(crate) client: Client,
    pub(crate) objects: Objects,
}

impl Cluster {
    pub(crate) async fn connect(command: &str) -> Result<Self, LiveError> {
        let client = ClusterArguments::default().client(command).await?;
        let telemetry = Telemetry::silent("groundwork");
        let metrics = Metrics::new(&telemetry.metrics, "groundwork");
        let objects = Objects::new(client.clone(), "groundwork", metrics);
        Ok(Self { client, objects })
    }

    /// Returns the namespace and name that the arguments mean.
    pub(crate) fn place(&self, name: &InstallationName, default: &NamespaceArgument) -> (String, String) {
        let given = name.namespace.as_ref().or(default.namespace.as_ref());
        let namespace = given.map_or_else(|| self.client.default_namespace().to_owned(), Clone::clone);
        (namespace, name.name.clone())
    }

    /// Reads the Installation.
    pub(crate) async fn installation(&self, namespace: &str, name: &str) -> Result<Installation, LiveError> {
        let found = self.objects.get(namespace, name).await?;
        found.ok_or_else(|| LiveError::Missing { namespace: namespace.to_owned(), name: name.to_owned() })
    }

    /// Reads the tree, and watches it from then on.
    pub(crate) async fn follow(&self, namespace: &str, name: &str) -> Result<Live, LiveError> {
        let follower = Follower::new(self.objects.clone(), namespace, name);
        let mut live = Live {
            follower,
            client: self.client.clone(),
            namespace: namespace.to_owned(),
            events: SelectAll::new(),
        };
        live.begin().await?;
        Ok(live)
    }
}

/// Runs work that talks to a cluster to its end.
pub(crate) fn block_on<T>(work: impl AsyncFnOnce() -> Result<T, LiveError>) -> Result<T, LiveError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(LiveError::Runtime)?;
    let ended = runtime.block_on(work());
    // Dropping the runtime would wait for blocking calls, such as a DNS lookup that hangs.
    runtime.shutdown_timeout(Duration::from_millis(100));
    ended
}

/// Runs work that talks to a cluster, and prints its error.
pub(crate) fn run(work: impl AsyncFnOnce() -> Result<Ending, LiveError>) -> Ending {
    match block_on(work) {
        Ok(ending) => ending,
        // A reader that closes the pipe, such as `head`, has read enough: this is not an error.
        Err(LiveError::Output(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => Ending::Rendered,
        Err(error) => {
            diagnostic::print(&[Diagnostic::error(error.to_string())]);
            Ending::Unusable
        }
    }
}

/// Object that has changed, or the end of a watch.
enum Change {
    Object { plural: &'static str, name: String, owner: Option<String> },
    Ended,
}

/// Tree of an Installation that is kept up to date.
pub(crate) struct Live {
    follower: Follower,
    client: Client,
    namespace: String,
    events: SelectAll<BoxStream<'static, Change>>,
}

impl Live {
    /// Returns the tree as of the last reading; `None` if the Installation is gone.
    pub(crate) fn tree(&self) -> Option<Node> {
        self.follower.tree()
    }

    /// Waits until an object of the tree has changed, and reads it. Retries while the API server is
    /// unavailable. Await this to its end: dropping the future loses changes that it has taken in.
    pub(crate) async fn changed(&mut self) -> Result<(), LiveError> {
        let mut read = self.read_change().await;
        while let Err(error) = &read
            && error.may_pass()
        {
            read = self.begin_again().await;
        }
        read
    }

    async fn read_change(&mut self) -> Result<(), LiveError> {
        loop {
            let mut stale = Vec::new();
            let Some(change) = self.events.next().await else { return self.begin_again().await };
            if !self.note(change, &mut stale) {
                return self.begin_again().await;
            }
            if stale.is_empty() {
                continue;
            }
            let settled = tokio::time::Instant::now() + SETTLE;
            while let Ok(change) = tokio::time::timeout_at(settled, self.events.next()).await {
                if !change.is_some_and(|change| self.note(change, &mut stale)) {
                    return self.begin_again().await;
                }
            }
            stale.sort_unstable();
            stale.dedup();
            for (plural, name) in stale {
                self.follower.refresh(plural, &name).await?;
            }
            return Ok(());
        }
    }

    /// Records the objects that a change makes stale. Returns false at the end of a watch.
    fn note(&self, change: Change, stale: &mut Vec<(&'static str, String)>) -> bool {
        let Change::Object { plural, name, owner } = change else { return false };
        if self.follower.concerns(plural, &name, owner.as_deref()) {
            stale.push((plural, name));
        }
        true
    }

    /// Starts all watches again and reads everything, since the API server ends watches after some
    /// minutes and changes may fall between.
    async fn begin_again(&mut self) -> Result<(), LiveError> {
        tokio::time::sleep(PAUSE).await;
        self.begin().await
    }

    async fn begin(&mut self) -> Result<(), LiveError> {
        self.events = SelectAll::new();
        // Read parents first, because the objects below them are found through them.
        let mut watches = SelectAll::new();
        watches.push(watch::<Installation>(&self.client, &self.namespace).await?);
        watches.push(watch::<Execution>(&self.client, &self.namespace).await?);
        watches.push(watch::<DeployItem>(&self.client, &self.namespace).await?);
        self.follower.read().await?;
        self.events = watches;
        Ok(())
    }
}

/// Watches the metadata of a kind from now on.
async fn watch<K>(client: &Client, namespace: &str) -> Result<BoxStream<'static, Change>, LiveError>
where
    K: Kind + Stored + 'static,
{
    let api = Api::<PartialObjectMeta<K>>::namespaced(client.clone(), namespace);
    let failed = |verb: &'static str| {
        move |error: kube::Error| LiveError::Watch {
            verb,
            plural: K::PLURAL,
            namespace: namespace.to_owned(),
            is_final: is_final(&error),
            problem: groundwork_telemetry::innermost_cause(&error),
        }
    };
    let list = api.list_metadata(&ListParams::default().limit(1)).await.map_err(failed("list"))?;
    let version = list.metadata.resource_version.unwrap_or_default();
    let events =
        api.watch_metadata(&WatchParams::default(), &version).await.map_err(failed("watch"))?.boxed();
    let changes = events.filter_map(async |event| match event {
        Ok(WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object)) => {
            let labels = object.labels();
            let owner = match K::PLURAL {
                DeployItem::PLURAL => labels.get(label::MANAGED_BY),
                _ => labels.get(label::ENCOMPASSED_BY),
            };
            Some(Change::Object { plural: K::PLURAL, owner: owner.cloned(), name: object.name_any() })
        }
        Ok(WatchEvent::Bookmark(_)) => None,
        Ok(WatchEvent::Error(_)) | Err(_) => Some(Change::Ended),
    });
    Ok(changes.chain(stream::once(async { Change::Ended })).boxed())
}

/// Finds the root of the tree that an Installation is part of.
pub(crate) async fn root_of(
    cluster: &Cluster,
    installation: Installation,
) -> Result<Installation, LiveError> {
    let namespace = installation.namespace().unwrap_or_default();
    let mut seen = Vec::new();
    let mut installation = installation;
    while let Some(parent) = parent_name(&installation) {
        if seen.contains(&parent.to_owned()) {
            let text = format!("the Installations {} own each other in a circle", seen.join(", "));
            return Err(LiveError::Refused(text));
        }
        seen.push(parent.to_owned());
        installation = cluster.installation(&namespace, parent).await?;
    }
    Ok(installation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_installations() {
        let name = |text: &str| installation_name(text).map(|name| (name.namespace, name.name));
        assert_eq!(name("shop"), Ok((None, "shop".to_owned())));
        assert_eq!(name("team/shop"), Ok((Some("team".to_owned()), "shop".to_owned())));
        for wrong in ["", "/", "team/", "/shop", "a/b/c", "Team/shop", "team/Shop", "../x", "shop?x"] {
            assert!(name(wrong).is_err(), "{wrong}");
        }
    }
}
