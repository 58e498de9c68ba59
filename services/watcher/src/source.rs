//! Reads the objects of one scope from the API server: pages of a list, and the watch that
//! continues after it.

mod pages;
mod unversioned;

use std::time::Duration;

use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};
use groundwork_bus::{Kind, Snapshot};
use groundwork_telemetry::with_causes;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, ApiResource, DynamicObject, ListParams, ObjectList, WatchEvent, WatchParams};
use kube::{Client, Resource};
use serde_json::Value;

use crate::ledger::{Key, Version};
use crate::scopes::Scope;

use pages::Pages;
pub(crate) use unversioned::{UnversionedEvent, UnversionedItem};

/// Objects in a page of a list that contains only metadata.
const METADATA_PAGE: u32 = 500;
/// Objects in a page of a list with contents, which may be large.
const CONTENT_PAGE: u32 = 100;
/// Time limit of a request. For a watch, it covers only the time until the response starts.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Time without an event, bookmarks included, after which a watch is reopened: the connection may
/// be dead. The server ends the watch after the same time.
const WATCH_TIMEOUT: Duration = Duration::from_secs(300);
/// Interval at which objects are read by name where they cannot be watched.
const POLL_INTERVAL: Duration = Duration::from_secs(60);

/// Reason why the API server does not return the objects.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SourceError {
    /// 410: the resourceVersion is too old, or this server has never seen it.
    #[error("the API server no longer has the state from which the watch should continue")]
    Expired,
    /// 404: the API server does not have the kind.
    #[error("the API server has no {0}: install its definition")]
    Missing(Kind),
    /// 401 or 403: the watcher's permissions do not suffice.
    #[error("the watcher may not {verb} {scope}: grant this to its service account")]
    Denied { verb: &'static str, scope: Scope },
    /// Any other error; it may go away by itself.
    #[error("cannot {verb} {scope}: {reason}")]
    Failed { verb: &'static str, scope: Scope, reason: String },
}

/// Event of a watch.
#[derive(Debug)]
pub(crate) enum SourceEvent {
    Applied(Key, Box<Snapshot>),
    /// The object is deleted; its last state, with the resourceVersion of the deletion.
    Deleted(Key, Box<Snapshot>),
    /// All changes up to this resourceVersion were sent.
    Bookmark,
}

/// An event, with the resourceVersion from which the watch continues after it; or the reason why
/// the watch ended.
pub(crate) type WatchItem = Result<(SourceEvent, String), SourceError>;

/// One page of a list.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) objects: Vec<(Key, Snapshot)>,
    /// resourceVersion from which to watch, the same for all pages; empty for kinds that cannot be
    /// watched.
    pub(crate) version: String,
    /// Token for the next page; `None` on the last page.
    next: Option<String>,
}

/// The objects of one scope in the API server.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    scope: Scope,
    api: Api<DynamicObject>,
    /// Paths of the fields that events contain besides metadata. If empty, only metadata is read.
    fields: &'static [&'static str],
    /// Names of the only objects that may be read, each by name; `None` if the kind can be listed.
    names: Option<Vec<String>>,
}

impl Source {
    pub(crate) fn new(
        client: Client,
        scope: Scope,
        resource: &ApiResource,
        fields: &'static [&'static str],
    ) -> Self {
        let api = match &scope.namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, resource),
            None => Api::all_with(client, resource),
        };
        Self { scope, api, fields, names: None }
    }

    /// Returns the same source limited to objects of these names, which are read every minute. A
    /// Role can allow to `get` its own namespace, but not to list or watch it.
    pub(crate) fn with_names(self, names: Vec<String>) -> Self {
        Self { names: Some(names), ..self }
    }

    /// Reports whether objects are watched, and not read by name.
    pub(crate) fn is_watched(&self) -> bool {
        self.names.is_none()
    }

    /// Returns the list, page by page.
    pub(crate) fn pages(self) -> Pages {
        Pages::new(self)
    }

    /// Returns the first page of a list, or the one after `next`.
    async fn page(&self, next: Option<String>) -> Result<Page, SourceError> {
        let (verb, answer) = match &self.names {
            Some(names) => ("get", tokio::time::timeout(REQUEST_TIMEOUT, self.by_name(names)).await),
            None => ("list", tokio::time::timeout(REQUEST_TIMEOUT, self.list(next)).await),
        };
        let answer =
            answer.map_err(|_| self.failed(verb, "the API server did not answer in time".to_owned()))?;
        answer.map_err(|error| self.error(verb, error))
    }

    async fn list(&self, next: Option<String>) -> Result<Page, kube::Error> {
        let limit = Some(if self.fields.is_empty() { METADATA_PAGE } else { CONTENT_PAGE });
        let parameters = ListParams { limit, continue_token: next, ..ListParams::default() };
        // Without fields to show, request only metadata.
        if self.fields.is_empty() {
            let list = self.api.list_metadata(&parameters).await?;
            Ok(page(list, |object| (object.metadata, Value::Null), self.fields))
        } else {
            let list = self.api.list(&parameters).await?;
            Ok(page(list, |object| (object.metadata, object.data), self.fields))
        }
    }

    /// Returns the newest resourceVersion of the kind.
    pub(crate) async fn newest(&self) -> Result<Version, SourceError> {
        let parameters = ListParams { limit: Some(1), ..ListParams::default() };
        let answer = tokio::time::timeout(REQUEST_TIMEOUT, self.api.list_metadata(&parameters)).await;
        let answer =
            answer.map_err(|_| self.failed("list", "the API server did not answer in time".to_owned()))?;
        let list = answer.map_err(|error| self.error("list", error))?;
        Ok(Version::new(&list.metadata.resource_version.unwrap_or_default()))
    }

    async fn by_name(&self, names: &[String]) -> Result<Page, kube::Error> {
        let mut objects = Vec::new();
        for name in names {
            if let Some(object) = self.api.get_metadata_opt(name).await? {
                objects.push((key(&object.metadata), Snapshot::new(object.metadata, &[], &Value::Null)));
            }
        }
        Ok(Page { objects, version: String::new(), next: None })
    }

    /// Watches all changes after the resourceVersion `version`. The end of the stream is not an
    /// error: the caller watches again from the last resourceVersion, or lists again if there is
    /// none.
    pub(crate) async fn watch(&self, version: &str) -> Result<BoxStream<'static, WatchItem>, SourceError> {
        if self.names.is_some() {
            // This watch ends without an event after the interval, so that the next list reads the
            // objects again.
            return Ok(stream::once(tokio::time::sleep(POLL_INTERVAL)).filter_map(async |()| None).boxed());
        }
        let seconds = u32::try_from(WATCH_TIMEOUT.as_secs()).ok();
        let parameters = WatchParams { timeout: seconds, bookmarks: true, ..WatchParams::default() };
        let answer = tokio::time::timeout(REQUEST_TIMEOUT, self.open(&parameters, version)).await;
        let answer =
            answer.map_err(|_| self.failed("watch", "the API server did not answer in time".to_owned()))?;
        answer.map_err(|error| self.error("watch", error))
    }

    async fn open(
        &self,
        parameters: &WatchParams,
        version: &str,
    ) -> Result<BoxStream<'static, WatchItem>, kube::Error> {
        if self.fields.is_empty() {
            let events = self.api.watch_metadata(parameters, version).await?;
            Ok(self.items(events, |object| (object.metadata, Value::Null)))
        } else {
            let events = self.api.watch(parameters, version).await?;
            Ok(self.items(events, |object| (object.metadata, object.data)))
        }
    }

    fn items<T>(
        &self,
        events: impl Stream<Item = Result<WatchEvent<T>, kube::Error>> + Send + 'static,
        parts: fn(T) -> (ObjectMeta, Value),
    ) -> BoxStream<'static, WatchItem>
    where
        T: Send + 'static,
    {
        let source = self.clone();
        let items = events.map(move |event| source.item(event, parts));
        stream::unfold(Box::pin(items), async |mut items| {
            let item = tokio::time::timeout(WATCH_TIMEOUT, items.next()).await.ok()??;
            Some((item, items))
        })
        .boxed()
    }

    fn item<T>(
        &self,
        event: Result<WatchEvent<T>, kube::Error>,
        parts: fn(T) -> (ObjectMeta, Value),
    ) -> WatchItem {
        match event {
            Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => {
                let (metadata, content) = parts(object);
                let key = key(&metadata);
                let snapshot = Snapshot::new(metadata, self.fields, &content);
                let version = snapshot.resource_version.clone();
                Ok((SourceEvent::Applied(key, Box::new(snapshot)), version))
            }
            Ok(WatchEvent::Deleted(object)) => {
                let (metadata, content) = parts(object);
                let key = key(&metadata);
                let snapshot = Snapshot::new(metadata, self.fields, &content);
                let version = snapshot.resource_version.clone();
                Ok((SourceEvent::Deleted(key, Box::new(snapshot)), version))
            }
            Ok(WatchEvent::Bookmark(bookmark)) => {
                Ok((SourceEvent::Bookmark, bookmark.metadata.resource_version))
            }
            Ok(WatchEvent::Error(status)) => Err(self.error("watch", kube::Error::Api(status))),
            Err(error) => Err(self.error("watch", error)),
        }
    }

    fn failed(&self, verb: &'static str, reason: String) -> SourceError {
        SourceError::Failed { verb, scope: self.scope.clone(), reason }
    }

    fn error(&self, verb: &'static str, error: kube::Error) -> SourceError {
        source_error(&self.scope, verb, error)
    }
}

/// Start of the reason of [`SourceError::Failed`] for a failed connection. The rest differs from
/// one failure to the next.
pub(crate) const NO_ANSWER: &str = "the API server does not answer";

/// Converts an error of the client. Leaves out its text where that may quote an object.
pub(crate) fn source_error(scope: &Scope, verb: &'static str, error: kube::Error) -> SourceError {
    let reason = match error {
        kube::Error::Api(status) => match status.code {
            410 => return SourceError::Expired,
            404 => return SourceError::Missing(scope.kind.clone()),
            401 | 403 => return SourceError::Denied { verb, scope: scope.clone() },
            // A server whose store was restored from an older backup does not know a later version.
            504 if status.message.contains("Too large resource version") => return SourceError::Expired,
            code => format!("the API server answers {code} {}", status.reason),
        },
        kube::Error::SerdeError(_) | kube::Error::FromUtf8(_) => {
            "the answer of the API server cannot be read".to_owned()
        }
        other => format!("{NO_ANSWER}: {}", with_causes(&other)),
    };
    SourceError::Failed { verb, scope: scope.clone(), reason }
}

fn page<T: Clone>(list: ObjectList<T>, parts: fn(T) -> (ObjectMeta, Value), fields: &[&str]) -> Page {
    let objects = list.items.into_iter().map(|object| {
        let (metadata, content) = parts(object);
        (key(&metadata), Snapshot::new(metadata, fields, &content))
    });
    Page {
        objects: objects.collect(),
        version: list.metadata.resource_version.unwrap_or_default(),
        next: list.metadata.continue_.filter(|token| !token.is_empty()),
    }
}

fn key(metadata: &ObjectMeta) -> Key {
    Key::new(metadata.namespace.as_deref(), metadata.name.as_deref().unwrap_or_default())
}

/// Returns the resource of a kind that is not built in, from the API server's discovery: in
/// `version` if that is served, in the preferred version otherwise.
pub(crate) async fn discover(
    client: &Client,
    scope: &Scope,
    version: Option<&str>,
) -> Result<ApiResource, SourceError> {
    let kind = &scope.kind;
    let failed = |error| source_error(scope, "discover", error);
    let mut versions = Vec::new();
    if kind.group().is_empty() {
        versions.push("v1".to_owned());
    } else {
        let groups = client.list_api_groups().await.map_err(failed)?.groups;
        let group = groups.into_iter().find(|group| group.name == kind.group());
        let group = group.ok_or_else(|| SourceError::Missing(kind.clone()))?;
        versions.extend(group.preferred_version.map(|preferred| preferred.version));
        versions.extend(group.versions.into_iter().map(|offered| offered.version));
        // The sort is stable: the requested version first, then the preferred one, then the others.
        versions.sort_by_key(|offered| Some(offered.as_str()) != version);
    }
    for version in versions {
        let list = match kind.group() {
            "" => client.list_core_api_resources(&version).await,
            group => client.list_api_group_resources(&format!("{group}/{version}")).await,
        };
        let found = list.map_err(failed)?.resources.into_iter().find(|found| found.name == kind.plural());
        if let Some(found) = found {
            return Ok(resource(kind, &version, &found.kind));
        }
    }
    Err(SourceError::Missing(kind.clone()))
}

/// Returns the resource by which requests name a kind. `name` is its singular in upper camel case,
/// as in manifests.
pub(crate) fn resource(kind: &Kind, version: &str, name: &str) -> ApiResource {
    let api_version = match kind.group() {
        "" => version.to_owned(),
        group => format!("{group}/{version}"),
    };
    ApiResource {
        group: kind.group().to_owned(),
        version: version.to_owned(),
        api_version,
        kind: name.to_owned(),
        plural: kind.plural().to_owned(),
    }
}

/// Returns the UID of a namespace; `None` if it does not exist.
pub(crate) async fn namespace_uid(client: &Client, name: &str) -> Result<Option<String>, SourceError> {
    let api = Api::<k8s_openapi::api::core::v1::Namespace>::all(client.clone());
    let scope = Scope { kind: Kind::new("", "namespaces"), namespace: None };
    let answer = tokio::time::timeout(REQUEST_TIMEOUT, api.get_metadata_opt(name)).await;
    let answer = answer.map_err(|_| SourceError::Failed {
        verb: "get",
        scope: scope.clone(),
        reason: "the API server did not answer in time".to_owned(),
    })?;
    let found = answer.map_err(|error| source_error(&scope, "get", error))?;
    Ok(found.and_then(|found| found.meta().uid.clone()))
}

/// Logs the Kubernetes version. A version that is too old is not rejected, since much of the
/// watcher may work with it.
pub(crate) async fn log_version(client: &Client) {
    let Ok(Ok(found)) = tokio::time::timeout(REQUEST_TIMEOUT, client.apiserver_version()).await else {
        return;
    };
    let version = found.git_version.as_str();
    if is_supported(&found.major, &found.minor) {
        tracing::info!(version, "connected to Kubernetes");
    } else {
        tracing::warn!(version, "this version of Kubernetes is too old: Groundwork needs 1.33 or later");
    }
}

/// Reports whether Groundwork supports this version. Some providers write `33+`.
fn is_supported(major: &str, minor: &str) -> bool {
    let number = |text: &str| text.trim_end_matches(|c: char| !c.is_ascii_digit()).parse::<u32>().ok();
    // A version that cannot be parsed does not count as too old.
    number(major).zip(number(minor)).is_none_or(|version| version >= (1, 33))
}

#[cfg(test)]
mod tests {
    use groundwork_testkit::{ControlPlane, ControlPlaneOptions, Server, servers_or_skip};
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::api::PostParams;

    use super::*;

    #[test]
    fn old_versions_are_told_from_supported_ones() {
        for (major, minor, is_new) in [
            ("1", "33", true),
            ("1", "33+", true),
            ("2", "0", true),
            ("1", "32", false),
            ("1", "9", false),
            ("", "", true),
        ] {
            assert_eq!(is_supported(major, minor), is_new, "{major}.{minor}");
        }
    }

    fn scope() -> Scope {
        Scope { kind: Kind::new("", "configmaps"), namespace: Some("default".to_owned()) }
    }

    #[tokio::test]
    async fn a_real_server_says_what_it_does_not_know() {
        if !servers_or_skip(&[Server::Etcd, Server::KubeApiserver]) {
            return;
        }
        let plane = ControlPlane::start(ControlPlaneOptions::default()).await.unwrap();
        let client = plane.client().await.unwrap();
        let resource = resource(&scope().kind, "v1", "ConfigMap");
        let source = Source::new(client.clone(), scope(), &resource, &[]);

        let api = Api::<ConfigMap>::namespaced(client.clone(), "default");
        let mut created = ConfigMap::default();
        created.metadata.name = Some("a".to_owned());
        created.data = Some([("k".to_owned(), "hidden".to_owned())].into());
        let page = source.page(None).await.unwrap();
        let created = api.create(&PostParams::default(), &created).await.unwrap();
        let mut items = source.watch(&page.version).await.unwrap();
        let (seen, version) = items.next().await.unwrap().unwrap();
        assert_eq!(Some(&version), created.metadata.resource_version.as_ref());
        assert!(matches!(&seen, SourceEvent::Applied(key, _) if key.to_string() == "default/a"), "{seen:?}");
        assert!(!format!("{seen:?}").contains("hidden"));
        assert!(source.newest().await.unwrap().covers(Version::new(&version)));

        let nothing = Source::new(
            client,
            Scope { kind: Kind::new("", "nothings"), ..scope() },
            &ApiResource { plural: "nothings".to_owned(), ..resource },
            &[],
        );
        assert_eq!(nothing.page(None).await.unwrap_err(), SourceError::Missing(Kind::new("", "nothings")));
    }

    /// The API server's watch cache of a kind begins with its CRD; earlier versions are too old.
    #[tokio::test]
    async fn a_real_server_forgets() {
        if !servers_or_skip(&[Server::Etcd, Server::KubeApiserver]) {
            return;
        }
        let plane = ControlPlane::start(ControlPlaneOptions::default()).await.unwrap();
        let client = plane.client().await.unwrap();
        let crds = groundwork_api::crds();
        let crd = crds.iter().find(|crd| crd.spec.names.plural == "executions").unwrap();
        Api::all(client.clone()).create(&PostParams::default(), crd).await.unwrap();
        let kind = Kind::new("landscaper.gardener.cloud", "executions");
        let resource = resource(&kind, "v1alpha1", "Execution");
        let source = Source::new(client, Scope { kind, ..scope() }, &resource, &["status.phase"]);
        let ended = async {
            while let Err(SourceError::Missing(_) | SourceError::Failed { .. }) = source.page(None).await {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            let mut items = source.watch("1").await?;
            while let Some(item) = items.next().await {
                item?;
            }
            Ok(())
        };
        let ended = tokio::time::timeout(Duration::from_secs(60), ended).await.unwrap();
        assert_eq!(ended, Err(SourceError::Expired));
    }

    #[test]
    fn errors_say_what_is_wrong_and_quote_nothing() {
        let answer = |code: u16, message: &str| {
            let status = kube::core::Status { code, ..kube::core::Status::failure(message, "Reason") };
            source_error(&scope(), "list", kube::Error::Api(Box::new(status))).to_string()
        };
        let table = [
            (
                403,
                "x",
                "the watcher may not list configmaps in namespace default: grant this to its service account",
            ),
            (404, "x", "the API server has no configmaps: install its definition"),
            (500, "canary", "cannot list configmaps in namespace default: the API server answers 500 Reason"),
            (
                504,
                "Timeout",
                "cannot list configmaps in namespace default: the API server answers 504 Reason",
            ),
        ];
        for (code, message, expected) in table {
            assert_eq!(answer(code, message), expected);
        }
        let unreadable = serde_json::from_str::<u8>("\"canary\"").unwrap_err();
        let text = source_error(&scope(), "list", kube::Error::SerdeError(unreadable)).to_string();
        assert!(!text.contains("canary"), "{text}");
    }
}
