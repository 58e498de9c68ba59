//! The cluster that objects are applied to: requests, and discovery of its kinds.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::stream::{self, StreamExt as _};
use groundwork_client::answer::{Held, Holding, Limit};
use groundwork_controller::ApiError;
use http::Method;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use kube::Client;
use serde_json::{Value, json};

use crate::bounds::{Answers, Bounds};
use crate::exchange::{GRANT, GROUPS, KINDS, OBJECT, VERSION};
use crate::gate::Gate;
use crate::identity::{ClusterIdentity, Server};
use crate::listing::ListPages;
use crate::object::{Reference, resource_version};
use crate::watch::Unwatchable;

/// Time for which discovery answers of a cluster are cached.
const KNOWN_FOR: Duration = Duration::from_secs(60);
/// Maximum API group versions of a cluster; a large cluster has two hundred.
const MOST_VERSIONS: usize = 1000;
/// Maximum group versions that are requested concurrently; each takes a connection.
const SIDE_BY_SIDE: usize = 32;
/// Bytes by which a log may exceed the requested limit: a server may complete the last character or
/// add words of its own.
const SLACK_OF_LOG: usize = 4 << 10;
/// Bytes that the allocator adds to a text.
const OVERHEAD: usize = 24;

/// A kind as a cluster serves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceKind {
    pub api_version: String,
    pub kind: String,
    pub plural: String,
    pub is_namespaced: bool,
    /// True if the kind has a `status` subresource, which controllers write separately.
    pub has_status: bool,
}

impl ResourceKind {
    /// Returns the resource in the form of API server messages: `deployments.apps`.
    pub fn resource(&self) -> String {
        match self.api_version.split_once('/') {
            Some((group, _)) => format!("{}.{group}", self.plural),
            None => self.plural.clone(),
        }
    }
}

/// An API server that objects are applied to. The discovered kinds are cached as long as this value
/// lives.
#[derive(Clone)]
pub struct Cluster {
    pub(crate) client: Client,
    manager: &'static str,
    kinds: Arc<Mutex<HashMap<String, Kept<Vec<ResourceKind>>>>>,
    pub(crate) bounds: Arc<Bounds>,
    /// Namespace on whose behalf the requests are made.
    tenant: Arc<str>,
    /// Memory budget for answers to the current piece of work, such as a round or a wait.
    pub(crate) holding: Arc<Holding>,
    /// Memory of the cached kinds, for as long as the cluster is connected.
    knowledge: Arc<Holding>,
    pub(crate) gate: Arc<Gate>,
    pub(crate) unwatchable: Arc<Unwatchable>,
    pub(crate) identity: Arc<tokio::sync::Mutex<Option<Arc<ClusterIdentity>>>>,
    /// Cached discovery answer, with its time.
    versions: Arc<tokio::sync::Mutex<Option<Known>>>,
}

type Known = (Instant, Kept<Versions>);

/// Cached kinds, with the memory that they use.
type Kept<T> = (Arc<T>, Arc<Held>);

/// Version and API groups of a cluster, from discovery.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Versions {
    /// Answer of `/version`.
    pub server: Value,
    pub kinds: Vec<ResourceKind>,
    /// Group versions that did not answer.
    pub silent: Vec<String>,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("manager", &self.manager).finish_non_exhaustive()
    }
}

/// Type of a patch to an existing object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchKind {
    /// JSON merge patch (RFC 7386).
    Merge,
    /// JSON patch (RFC 6902).
    Json,
    /// Server-side apply, which takes fields from other managers.
    Apply,
    /// Server-side apply as a dry run, without a write.
    ApplyDryRun,
}

impl Cluster {
    /// Creates the access to a cluster. `server` is the server that `client` calls; `manager` is
    /// the field manager of all writes.
    pub fn new(client: Client, server: Server, manager: &'static str, answers: &Answers) -> Self {
        Self {
            client,
            manager,
            kinds: Arc::default(),
            holding: answers.memory.begin(""),
            knowledge: answers.knowledge.begin(&server.address),
            tenant: Arc::from(""),
            gate: Arc::new(Gate::new(answers.request)),
            unwatchable: Arc::default(),
            versions: Arc::default(),
            identity: Arc::default(),
            bounds: Arc::new(Bounds { server, answers: answers.clone() }),
        }
    }

    /// Returns the same cluster for another piece of work, such as a wait that outlives a round.
    /// Answers to that work count against a memory budget of their own until it ends.
    #[must_use]
    pub fn for_work(&self) -> Self {
        Self { holding: self.bounds.answers.memory.begin(&self.tenant), ..self.clone() }
    }

    /// Returns the same cluster for the work of a tenant, such as a namespace. All work of a tenant
    /// shares one memory budget for answers.
    #[must_use]
    pub fn for_tenant(&self, tenant: &str) -> Self {
        Self { tenant: Arc::from(tenant), ..self.clone() }.for_work()
    }

    /// Returns the same cluster for writes of another field manager.
    pub fn with_manager(&self, manager: &'static str) -> Self {
        Self { manager, ..self.clone() }
    }

    /// Reports whether both share a client, which means the same Target in the same state.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.gate, &other.gate)
    }

    /// Returns the time for which the cluster still refuses requests (`Retry-After`), if it does.
    pub fn rest(&self) -> Option<Duration> {
        self.gate.rest()
    }

    /// Returns the field manager of all writes.
    pub fn manager(&self) -> &'static str {
        self.manager
    }

    /// Returns version and API groups of the cluster, at most a minute old. A group that does not
    /// answer is left out.
    ///
    /// # Errors
    ///
    /// The cluster does not answer.
    pub async fn versions(&self) -> Result<Arc<Versions>, ApiError> {
        let mut known = self.versions.lock().await;
        if let Some((_, (versions, _))) = known.as_ref().filter(|(asked, _)| asked.elapsed() < KNOWN_FOR) {
            return Ok(Arc::clone(versions));
        }
        *known = None;
        let versions = Arc::new(self.ask_for_versions().await?);
        let size = size_of_kinds(&versions.kinds) + VERSION.bytes;
        if let Ok(held) = self.knowledge.take(size).await {
            *known = Some((Instant::now(), (Arc::clone(&versions), Arc::new(held))));
        }
        Ok(versions)
    }

    async fn ask_for_versions(&self) -> Result<Versions, ApiError> {
        let get = async |path: &str, what: &str, limit: Limit| {
            let request = self.request(Method::GET, path, "application/json", Vec::new())?;
            self.send(request, "get", what, limit).await
        };
        let server = get("/version", "the version of the cluster", VERSION).await?;
        let groups = get("/apis", "the API groups of the cluster", GROUPS).await?;
        let groups = groups["groups"].as_array().map(Vec::as_slice).unwrap_or_default();
        let versions = groups.iter().flat_map(|group| group["versions"].as_array().into_iter().flatten());
        let named = versions.filter_map(|version| version["groupVersion"].as_str().map(str::to_owned));
        let named: Vec<String> = ["v1".to_owned()].into_iter().chain(named).collect();
        if named.len() > MOST_VERSIONS {
            let problem =
                format!("{} serves more than {MOST_VERSIONS} API group versions", self.bounds.server.address);
            let object = "the API groups of the cluster".to_owned();
            return Err(ApiError::Transient { verb: "get", object, problem });
        }
        let work: Vec<_> = named.iter().map(|version| self.discover(version)).collect();
        let answers: Vec<_> = stream::iter(work).buffered(SIDE_BY_SIDE).collect().await;
        let (mut kinds, mut silent) = (Vec::new(), Vec::new());
        for (version, answer) in named.into_iter().zip(answers) {
            match answer {
                Ok(found) => kinds.extend(found.iter().flat_map(|found| found.iter().cloned())),
                // A busy server's refusal says nothing about the group, so the group must not count
                // as silent.
                Err(error @ ApiError::Unasked { .. }) => return Err(error),
                Err(_) => silent.push(version),
            }
        }
        Ok(Versions { server, kinds, silent })
    }

    /// Returns the kind as the cluster serves it; `None` if the cluster does not have the kind.
    /// Unknown kinds are requested again each time.
    ///
    /// # Errors
    ///
    /// The cluster does not answer.
    pub async fn kind(&self, api_version: &str, kind: &str) -> Result<Option<ResourceKind>, ApiError> {
        let find = |kinds: &[ResourceKind]| kinds.iter().find(|found| found.kind == kind).cloned();
        let known = self.kinds.lock().unwrap_or_else(PoisonError::into_inner).get(api_version).cloned();
        if let Some(found) = known.and_then(|(kinds, _)| find(&kinds)) {
            return Ok(Some(found));
        }
        let Some(kinds) = self.discover(api_version).await? else { return Ok(None) };
        let found = find(&kinds);
        if let Ok(held) = self.knowledge.take(size_of_kinds(&kinds)).await {
            let mut known = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
            known.insert(api_version.to_owned(), (kinds, Arc::new(held)));
        }
        Ok(found)
    }

    /// Returns the kinds of a group version; `None` if the cluster does not serve it.
    async fn discover(&self, api_version: &str) -> Result<Option<Arc<Vec<ResourceKind>>>, ApiError> {
        let what = format!("the kinds of {api_version}");
        let refused = |problem: &str| ApiError::Invalid { object: what.clone(), causes: problem.to_owned() };
        let segments: Vec<&str> = api_version.split('/').collect();
        if segments.len() > 2 || segments.iter().any(|segment| !is_path_segment(segment)) {
            return Err(refused("apiVersion must be VERSION or GROUP/VERSION"));
        }
        let root = if segments.len() == 1 { "api" } else { "apis" };
        let request =
            self.request(Method::GET, &format!("/{root}/{api_version}"), "application/json", Vec::new());
        let (answer, _held) = match self.read(request?, "get", &what, KINDS).await {
            Err(ApiError::NotFound(_)) => return Ok(None),
            answer => answer?.map_err(|error| self.unread("get", &what, &error))?,
        };
        let list: APIResourceList = serde_json::from_value(answer)
            .map_err(|_| refused("the answer is not a list of kinds (APIResourceList)"))?;
        let statuses: HashSet<String> = list
            .resources
            .iter()
            .filter_map(|one| one.name.strip_suffix("/status").map(str::to_owned))
            .collect();
        let kinds = list.resources.into_iter().filter(|resource| !resource.name.contains('/'));
        let kinds = kinds.map(|resource| ResourceKind {
            api_version: api_version.to_owned(),
            has_status: statuses.contains(&resource.name),
            kind: resource.kind,
            plural: resource.name,
            is_namespaced: resource.namespaced,
        });
        let kinds: Vec<ResourceKind> = kinds.collect();
        let held = self.holding.take(size_of_kinds(&kinds)).await;
        held.map_err(|error| self.unread("get", &what, &error))?.keep();
        Ok(Some(Arc::new(kinds)))
    }

    /// Reads an object; `None` if it, or its kind, does not exist.
    ///
    /// # Errors
    ///
    /// The object could not be read.
    pub async fn get(&self, reference: &Reference) -> Result<Option<Value>, ApiError> {
        match self.kind(&reference.api_version, &reference.kind).await? {
            Some(kind) => self.get_of(&kind, reference).await,
            None => Ok(None),
        }
    }

    /// Reads an object of a known kind; `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// As [`Cluster::get`].
    pub async fn get_of(
        &self,
        kind: &ResourceKind,
        reference: &Reference,
    ) -> Result<Option<Value>, ApiError> {
        let path = path_of(kind, reference)?;
        let request = self.request(Method::GET, &path, "application/json", Vec::new())?;
        match self.send(request, "get", &reference.to_string(), OBJECT).await {
            Err(ApiError::NotFound(_)) => Ok(None),
            answer => answer.map(Some),
        }
    }

    /// Creates an object and returns it as stored.
    ///
    /// # Errors
    ///
    /// [`ApiError::AlreadyExists`], or the reason of a refusal.
    pub async fn create(&self, kind: &ResourceKind, object: &Value) -> Result<Value, ApiError> {
        self.create_with_warnings(kind, object).await.map(|(stored, _)| stored)
    }

    /// Creates an object and returns it as stored, with the fields that the cluster did not know
    /// and dropped.
    ///
    /// # Errors
    ///
    /// As [`Cluster::create`].
    pub async fn create_with_warnings(
        &self,
        kind: &ResourceKind,
        object: &Value,
    ) -> Result<(Value, Vec<String>), ApiError> {
        let reference = Reference::of(object);
        let path =
            format!("{}?fieldManager={}", folder_of(kind, reference.namespace.as_deref())?, self.manager);
        let request = self.request(Method::POST, &path, "application/json", bytes(object))?;
        self.send_with_warnings(request, "create", &reference.to_string()).await
    }

    /// Posts a body to a subresource of an object, such as `token` of a ServiceAccount, and returns
    /// the server's answer.
    ///
    /// # Errors
    ///
    /// The object does not exist, or the request was refused.
    pub async fn ask(
        &self,
        kind: &ResourceKind,
        reference: &Reference,
        subresource: &'static str,
        body: &Value,
    ) -> Result<Value, ApiError> {
        let path = format!("{}/{subresource}?fieldManager={}", path_of(kind, reference)?, self.manager);
        let request = self.request(Method::POST, &path, "application/json", bytes(body))?;
        self.send(request, "create", &format!("{subresource} of {reference}"), GRANT).await
    }

    /// Replaces an object and returns it as stored.
    ///
    /// # Errors
    ///
    /// [`ApiError::Conflict`] if the object carries an outdated resourceVersion, or the reason of a
    /// refusal.
    pub async fn replace(&self, kind: &ResourceKind, object: &Value) -> Result<Value, ApiError> {
        let reference = Reference::of(object);
        let path = format!("{}?fieldManager={}", path_of(kind, &reference)?, self.manager);
        let request = self.request(Method::PUT, &path, "application/json", bytes(object))?;
        self.send(request, "update", &reference.to_string(), OBJECT).await
    }

    /// Patches an object and returns it as stored.
    ///
    /// # Errors
    ///
    /// The object does not exist, or the patch was refused.
    pub async fn patch(
        &self,
        kind: &ResourceKind,
        reference: &Reference,
        patch: PatchKind,
        body: &Value,
    ) -> Result<Value, ApiError> {
        let (content, query) = match patch {
            PatchKind::Merge => ("application/merge-patch+json", ""),
            PatchKind::Json => ("application/json-patch+json", ""),
            PatchKind::Apply => ("application/apply-patch+yaml", "&force=true"),
            PatchKind::ApplyDryRun => ("application/apply-patch+yaml", "&force=true&dryRun=All"),
        };
        let path = format!("{}?fieldManager={}{query}", path_of(kind, reference)?, self.manager);
        let request = self.request(Method::PATCH, &path, content, bytes(body))?;
        self.send(request, "patch", &reference.to_string(), OBJECT).await
    }

    /// Requests the deletion of an object in the background, if it is still in the version that was
    /// read. Only another read shows whether the object is gone.
    ///
    /// # Errors
    ///
    /// [`ApiError::Conflict`] if the object has changed since it was read or was replaced by
    /// another one, or the reason of a refusal.
    pub async fn delete(&self, kind: &ResourceKind, object: &Value) -> Result<(), ApiError> {
        let reference = Reference::of(object);
        // UID and resourceVersion protect a new object of the same name, and one that another owner
        // has taken over meanwhile.
        let body = json!({
            "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background",
            "preconditions": {"uid": object["metadata"]["uid"], "resourceVersion": resource_version(object)},
        });
        let path = path_of(kind, &reference)?;
        let request = self.request(Method::DELETE, &path, "application/json", bytes(&body))?;
        match self.send(request, "delete", &reference.to_string(), OBJECT).await {
            Ok(_) | Err(ApiError::NotFound(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Removes all finalizers from an object, so that its deletion completes without its
    /// controllers.
    ///
    /// # Errors
    ///
    /// The write was refused.
    pub async fn strip_finalizers(&self, kind: &ResourceKind, object: &Value) -> Result<(), ApiError> {
        let metadata = json!({"finalizers": null, "resourceVersion": resource_version(object)});
        let reference = Reference::of(object);
        match self.patch(kind, &reference, PatchKind::Merge, &json!({"metadata": metadata})).await {
            Ok(_) | Err(ApiError::NotFound(_) | ApiError::Conflict(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Lists all objects of a kind, in one namespace or all, with labels (`key=value,…`).
    ///
    /// # Errors
    ///
    /// The objects could not be read.
    pub async fn list(
        &self,
        kind: &ResourceKind,
        namespace: Option<&str>,
        labels: &str,
    ) -> Result<Vec<Value>, ApiError> {
        let mut pages = self.pages(kind, namespace, labels)?;
        let mut objects = Vec::new();
        while let Some(page) = pages.next().await? {
            page.held.keep();
            objects.extend(page.objects);
        }
        Ok(objects)
    }

    /// Lists objects page by page, for callers that need only a part of each object: the memory of
    /// a page is freed with it.
    ///
    /// # Errors
    ///
    /// As [`Cluster::list`].
    pub fn pages<'c>(
        &'c self,
        kind: &'c ResourceKind,
        namespace: Option<&str>,
        labels: &'c str,
    ) -> Result<ListPages<'c>, ApiError> {
        let folder =
            folder_of(&ResourceKind { is_namespaced: namespace.is_some(), ..kind.clone() }, namespace)?;
        Ok(ListPages::new(self, kind, folder, labels))
    }

    /// Returns the last `lines` lines of a container's log. If they are longer than `bytes`, the
    /// rest after these bytes is cut off.
    ///
    /// # Errors
    ///
    /// The log could not be read.
    pub async fn log(
        &self,
        namespace: &str,
        pod: &str,
        container: &str,
        lines: u32,
        bytes: u32,
    ) -> Result<String, ApiError> {
        let path = log_of(namespace, pod, container, lines, bytes);
        let request = self.request(Method::GET, &path, "application/json", Vec::new())?;
        let limit = Limit { what: "a part of a log", bytes: bytes as usize + SLACK_OF_LOG };
        self.text(request, "get", &format!("{namespace}/{pod} log"), limit).await
    }
}

fn log_of(namespace: &str, pod: &str, container: &str, lines: u32, bytes: u32) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("container", container).append_pair("tailLines", &lines.to_string());
    query.append_pair("limitBytes", &bytes.to_string());
    format!("/api/v1/namespaces/{namespace}/pods/{pod}/log?{}", query.finish())
}

/// Returns the memory in bytes that a list of kinds and its texts use.
fn size_of_kinds(kinds: &[ResourceKind]) -> usize {
    let texts = |kind: &ResourceKind| kind.api_version.len() + kind.kind.len() + kind.plural.len();
    kinds.iter().map(|kind| size_of::<ResourceKind>() + 3 * OVERHEAD + texts(kind)).sum()
}

fn bytes(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

/// Reports whether the API server accepts a text as a name in a path.
fn is_path_segment(name: &str) -> bool {
    !name.is_empty()
        && name != "."
        && name != ".."
        && name.bytes().all(|byte| byte.is_ascii_graphic() && !b"/%?#".contains(&byte))
}

pub(crate) fn folder_of(kind: &ResourceKind, namespace: Option<&str>) -> Result<String, ApiError> {
    let root = if kind.api_version.contains('/') { "apis" } else { "api" };
    let within = match (kind.is_namespaced, namespace) {
        (true, Some(namespace)) if is_path_segment(namespace) => format!("namespaces/{namespace}/"),
        (true, _) => {
            let causes = "metadata.namespace must be the name of a namespace".to_owned();
            return Err(ApiError::Invalid { object: format!("an object of kind {}", kind.kind), causes });
        }
        (false, _) => String::new(),
    };
    Ok(format!("/{root}/{}/{within}{}", kind.api_version, kind.plural))
}

fn path_of(kind: &ResourceKind, reference: &Reference) -> Result<String, ApiError> {
    if !is_path_segment(&reference.name) {
        let causes = "metadata.name must be the name of an object".to_owned();
        return Err(ApiError::Invalid { object: format!("an object of kind {}", kind.kind), causes });
    }
    Ok(format!("{}/{}", folder_of(kind, reference.namespace.as_deref())?, reference.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(api_version: &str, is_namespaced: bool) -> ResourceKind {
        ResourceKind {
            api_version: api_version.into(),
            kind: "Thing".into(),
            plural: "things".into(),
            is_namespaced,
            has_status: false,
        }
    }

    fn reference(namespace: Option<&str>, name: &str) -> Reference {
        Reference {
            api_version: "v1".into(),
            kind: "Thing".into(),
            namespace: namespace.map(str::to_owned),
            name: name.into(),
        }
    }

    #[test]
    fn paths() {
        for (api_version, is_namespaced, namespace, name, expected) in [
            ("v1", true, Some("a"), "b", Some("/api/v1/namespaces/a/things/b")),
            ("apps/v1", true, Some("a"), "b", Some("/apis/apps/v1/namespaces/a/things/b")),
            ("v1", false, None, "system:b", Some("/api/v1/things/system:b")),
            ("v1", false, Some("ignored"), "b", Some("/api/v1/things/b")),
            ("v1", true, None, "b", None),
            ("v1", true, Some("../x"), "b", None),
            ("v1", true, Some("a"), "..", None),
            ("v1", true, Some("a"), "b?c", None),
            ("v1", true, Some("a"), "", None),
        ] {
            let path = path_of(&kind(api_version, is_namespaced), &reference(namespace, name)).ok();
            assert_eq!(path.as_deref(), expected, "{namespace:?} {name}");
        }
    }
}
