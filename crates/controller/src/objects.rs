//! Reads and writes of objects: every write carries what it was decided on.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use groundwork_bus::{Kind, ObjectId};
use groundwork_kubernetes::is_dns_subdomain;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::{NamespaceResourceScope, ObjectList, Request};
use kube::{Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};
use tracing::Instrument;

use crate::error::ApiError;
use crate::known_versions::KnownVersions;
use crate::metrics::Metrics;

/// Time for one request; a connection that died silently is noticed after it.
const REQUEST_LIMIT: Duration = Duration::from_secs(30);

/// A namespaced kind with a Rust type.
pub trait Stored:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + std::fmt::Debug
    + Serialize
    + DeserializeOwned
    + Send
    + Sync
{
}

impl<K> Stored for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + Serialize
        + DeserializeOwned
        + Send
        + Sync
{
}

/// A change of metadata by merge patch; what it does not name stays.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metadata {
    /// Version that the patch was decided on.
    pub resource_version: Option<String>,
    /// All finalizers, if they change.
    pub finalizers: Option<Vec<String>>,
    /// Annotations to set, or with `None` to remove.
    pub annotations: Vec<(String, Option<String>)>,
}

/// The API server for one service. On behalf of a work key it keeps in mind which versions of objects it has read and written.
#[derive(Clone)]
pub struct Objects {
    client: Client,
    manager: &'static str,
    metrics: Metrics,
    /// `None` outside of attempts: there would be no end to what is kept in mind.
    observations: Option<Arc<Mutex<Observations>>>,
}

#[derive(Debug, Default)]
struct Observations {
    known: KnownVersions,
    has_written: bool,
}

impl std::fmt::Debug for Objects {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Objects").field("manager", &self.manager).finish_non_exhaustive()
    }
}

impl Objects {
    /// `manager` is the field manager of all writes.
    pub fn new(client: Client, manager: &'static str, metrics: Metrics) -> Self {
        Self { client, manager, metrics, observations: None }
    }

    /// The same API server for an attempt, which has observed nothing yet.
    pub(crate) fn for_attempt(&self) -> Self {
        Self { observations: Some(Arc::default()), ..self.clone() }
    }

    /// Which versions have been read and written since the last call, and whether something was written.
    pub(crate) fn take_observations(&self) -> (KnownVersions, bool) {
        let Some(observations) = &self.observations else { return Default::default() };
        let observed = std::mem::take(&mut *observations.lock().unwrap_or_else(PoisonError::into_inner));
        (observed.known, observed.has_written)
    }

    /// The client, for kinds of requests that this type does not have.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Counts a request that was made without this type, as its own are: `ok`, `conflict`, `not_found`, `forbidden` or `failed`.
    pub fn count_request(&self, verb: &'static str, resource: &str, outcome: &'static str) {
        self.metrics.request(verb, resource, outcome);
    }

    /// Reads an object; `None` if it does not exist. Names may come from other objects: one that no object can have names
    /// nothing.
    ///
    /// # Errors
    ///
    /// It could not be read.
    pub async fn get<K: Stored>(&self, namespace: &str, name: &str) -> Result<Option<K>, ApiError> {
        if !is_dns_subdomain(name) || !is_dns_subdomain(namespace) {
            return Ok(None);
        }
        let api = self.api::<K>(namespace);
        let object = self.run::<K, _>("get", namespace, name, api.get_opt(name)).await?;
        Ok(object.map(lean).inspect(|object| self.observe(object)))
    }

    /// Reads the objects with labels (`key=value,…`).
    ///
    /// # Errors
    ///
    /// They could not be read.
    pub async fn list<K: Stored>(&self, namespace: &str, labels: &str) -> Result<Vec<K>, ApiError> {
        self.list_with(namespace, labels, &ListParams::default().labels(labels)).await
    }

    /// Reads the objects with fields (`spec.key=value,…`) that their kind lets one select by.
    ///
    /// # Errors
    ///
    /// They could not be read.
    pub async fn select<K: Stored>(&self, namespace: &str, fields: &str) -> Result<Vec<K>, ApiError> {
        self.list_with(namespace, fields, &ListParams::default().fields(fields)).await
    }

    async fn list_with<K: Stored>(
        &self,
        namespace: &str,
        selector: &str,
        parameters: &ListParams,
    ) -> Result<Vec<K>, ApiError> {
        check::<K>(namespace, None)?;
        let request = async {
            let path = K::url_path(&(), Some(namespace));
            let request = Request::new(path).list(parameters).map_err(kube::Error::BuildRequest)?;
            self.client.request::<ObjectList<Lean<K>>>(request).await
        };
        let list = self.run::<K, _>("list", namespace, selector, request).await?;
        let objects: Vec<K> = list.items.into_iter().map(|Lean(object)| object).collect();
        for object in &objects {
            self.observe(object);
        }
        Ok(objects)
    }

    /// Creates an object and returns it as stored.
    ///
    /// # Errors
    ///
    /// [`ApiError::AlreadyExists`], or it was refused.
    pub async fn create<K: Stored>(&self, object: &K) -> Result<K, ApiError> {
        let (namespace, name) = place(object);
        check::<K>(&namespace, object.meta().name.as_deref())?;
        let parameters = PostParams { field_manager: Some(self.manager.to_owned()), ..PostParams::default() };
        let api = self.api::<K>(&namespace);
        let stored = self.run::<K, _>("create", &namespace, &name, api.create(&parameters, object)).await?;
        Ok(self.written(stored, None))
    }

    /// Replaces an object that carries the resourceVersion it was decided on.
    ///
    /// # Errors
    ///
    /// [`ApiError::Conflict`] if it changed meanwhile, or it was refused.
    pub async fn replace<K: Stored>(&self, object: &K) -> Result<K, ApiError> {
        let (namespace, name) = place(object);
        check::<K>(&namespace, Some(&name))?;
        let api = self.api::<K>(&namespace);
        let parameters = PostParams { field_manager: Some(self.manager.to_owned()), ..PostParams::default() };
        let request = api.replace(&name, &parameters, object);
        let stored = self.run::<K, _>("update", &namespace, &name, request).await?;
        Ok(self.written(stored, object.resource_version().as_deref()))
    }

    /// Replaces the status of an object that carries the resourceVersion it was decided on.
    ///
    /// # Errors
    ///
    /// As [`Objects::replace`].
    pub async fn replace_status<K: Stored>(&self, object: &K) -> Result<K, ApiError> {
        let (namespace, name) = place(object);
        check::<K>(&namespace, Some(&name))?;
        let api = self.api::<K>(&namespace);
        let parameters = PostParams { field_manager: Some(self.manager.to_owned()), ..PostParams::default() };
        let request = api.replace_status(&name, &parameters, object);
        let stored = self.run_on::<K, _>("update", "/status", &namespace, &name, request).await?;
        Ok(self.written(stored, object.resource_version().as_deref()))
    }

    /// Takes over fields of the spec of an object, as `manager` and from whoever has them, while the object is in the version that was read.
    ///
    /// # Errors
    ///
    /// As [`Objects::replace`].
    pub async fn apply_spec<K: Stored>(
        &self,
        object: &K,
        manager: &'static str,
        spec: Value,
    ) -> Result<K, ApiError> {
        let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
        check::<K>(&namespace, Some(&name))?;
        let version = object.resource_version();
        let patch = Patch::Apply(json!({
            "apiVersion": K::api_version(&()), "kind": K::kind(&()),
            "metadata": {"name": name, "resourceVersion": version}, "spec": spec,
        }));
        let parameters = PatchParams::apply(manager).force();
        let api = self.api::<K>(&namespace);
        let stored =
            self.run::<K, _>("patch", &namespace, &name, api.patch(&name, &parameters, &patch)).await?;
        Ok(self.written(stored, version.as_deref()))
    }

    /// Changes finalizers and annotations.
    ///
    /// # Errors
    ///
    /// As [`Objects::replace`].
    pub async fn patch_metadata<K: Stored>(
        &self,
        namespace: &str,
        name: &str,
        change: &Metadata,
    ) -> Result<K, ApiError> {
        check::<K>(namespace, Some(name))?;
        let mut metadata = json!({});
        if let Some(version) = &change.resource_version {
            metadata["resourceVersion"] = json!(version);
        }
        if let Some(finalizers) = &change.finalizers {
            metadata["finalizers"] = json!(finalizers);
        }
        if !change.annotations.is_empty() {
            metadata["annotations"] =
                change.annotations.iter().cloned().map(|(name, value)| (name, json!(value))).collect();
        }
        let patch = Patch::Merge(json!({"metadata": metadata}));
        let parameters =
            PatchParams { field_manager: Some(self.manager.to_owned()), ..PatchParams::default() };
        let api = self.api::<K>(namespace);
        let stored = self.run::<K, _>("patch", namespace, name, api.patch(name, &parameters, &patch)).await?;
        Ok(self.written(stored, change.resource_version.as_deref()))
    }

    /// Asks for the deletion of exactly this object, and with a version only while it is in it. Returns what is left of
    /// it while finalizers hold it.
    ///
    /// # Errors
    ///
    /// It could not be asked for. That it does not exist, cannot exist by its name, or is another object by now, is no error.
    pub async fn delete<K: Stored>(
        &self,
        namespace: &str,
        name: &str,
        uid: Option<&str>,
        resource_version: Option<&str>,
    ) -> Result<Option<K>, ApiError> {
        if !is_dns_subdomain(name) || !is_dns_subdomain(namespace) {
            return Ok(None);
        }
        let preconditions = Preconditions {
            uid: uid.map(str::to_owned),
            resource_version: resource_version.map(str::to_owned),
        };
        let preconditions = (uid.is_some() || resource_version.is_some()).then_some(preconditions);
        let parameters = DeleteParams { preconditions, ..DeleteParams::background() };
        let api = self.api::<K>(namespace);
        match self.run::<K, _>("delete", namespace, name, api.delete(name, &parameters)).await {
            Ok(answer) => Ok(answer.left().map(|object| self.written(object, None))),
            Err(ApiError::NotFound(_) | ApiError::Conflict(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn api<K: Stored>(&self, namespace: &str) -> Api<K> {
        Api::namespaced(self.client.clone(), namespace)
    }

    fn observe<K: Stored>(&self, object: &K) {
        self.observed(object, KnownVersions::read);
    }

    fn observed<K: Stored>(&self, object: &K, add: fn(&mut KnownVersions, ObjectId, &str)) {
        let (Some(observations), Some(version)) = (&self.observations, object.resource_version()) else {
            return;
        };
        let kind = Kind::new(K::group(&()).into_owned(), K::plural(&()).into_owned());
        let id = ObjectId::new(kind, object.namespace().as_deref(), object.name_any());
        add(&mut observations.lock().unwrap_or_else(PoisonError::into_inner).known, id, &version);
    }

    /// Observes a write; one that changed nothing since `before` is no progress.
    fn written<K: Stored>(&self, object: K, before: Option<&str>) -> K {
        let object = lean(object);
        self.observed(&object, KnownVersions::add);
        let has_changed = before.is_none() || object.resource_version().as_deref() != before;
        if let (true, Some(observations)) = (has_changed, &self.observations) {
            observations.lock().unwrap_or_else(PoisonError::into_inner).has_written = true;
        }
        object
    }

    async fn run<K: Stored, T>(
        &self,
        verb: &'static str,
        namespace: &str,
        name: &str,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, ApiError> {
        self.run_on::<K, T>(verb, "", namespace, name, request).await
    }

    async fn run_on<K: Stored, T>(
        &self,
        verb: &'static str,
        subresource: &'static str,
        namespace: &str,
        name: &str,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, ApiError> {
        let plural = K::plural(&());
        let resource = format!("{plural}{subresource}");
        let span = tracing::info_span!(
            "api",
            otel.name = format!("{verb} {resource}"),
            otel.kind = "client",
            verb,
            resource,
            namespace,
            name
        );
        let object = format!("{plural} {namespace}/{name}");
        let limited = tokio::time::timeout(REQUEST_LIMIT, request.instrument(span));
        let Ok(answer) = limited.await else {
            self.metrics.request(verb, &resource, "failed");
            let problem = format!("no answer within {} s", REQUEST_LIMIT.as_secs());
            return Err(ApiError::Transient { verb, object, problem });
        };
        let answer = answer.map_err(|error| {
            let group = K::group(&());
            let right = if group.is_empty() { resource.clone() } else { format!("{resource}.{group}") };
            ApiError::new(&error, verb, &object, &format!("{right} in namespace {namespace}"))
        });
        let outcome = match &answer {
            Ok(_) => "ok",
            Err(ApiError::Conflict(_) | ApiError::AlreadyExists(_)) => "conflict",
            Err(ApiError::NotFound(_)) => "not_found",
            Err(ApiError::Forbidden { .. } | ApiError::Refused(_)) => "forbidden",
            Err(_) => "failed",
        };
        self.metrics.request(verb, &resource, outcome);
        answer
    }
}

/// An object without its managed fields: half of it, which nobody here reads. The API server keeps those that it has when a write brings
/// none.
fn lean<K: Stored>(mut object: K) -> K {
    object.meta_mut().managed_fields = None;
    object
}

/// An element of a list, where the managed fields go before the next element is read.
#[derive(Clone)]
struct Lean<K>(K);

impl<'de, K: Stored> Deserialize<'de> for Lean<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        K::deserialize(deserializer).map(|object| Self(lean(object)))
    }
}

fn place<K: Stored>(object: &K) -> (String, String) {
    (object.namespace().unwrap_or_default(), object.name_any())
}

/// Names are written into the path of a request: one that no object can have could lead to another object, or bring
/// parameters along.
fn check<K: Stored>(namespace: &str, name: Option<&str>) -> Result<(), ApiError> {
    for (field, text) in [("metadata.namespace", Some(namespace)), ("metadata.name", name)] {
        if text.is_some_and(|text| !is_dns_subdomain(text)) {
            let object = format!("{} {namespace:?}/{:?}", K::plural(&()), name.unwrap_or_default());
            let causes = format!("{field} must be lower case letters, digits, \"-\" and \".\"");
            return Err(ApiError::Invalid { object, causes });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Secret;

    use super::*;

    /// Managed fields are half of an object: they stay neither in memory nor in what is written.
    #[tokio::test]
    async fn managed_fields_are_left_to_the_server() {
        let bodies = Arc::new(Mutex::new(Vec::new()));
        let stored = |name: &str| {
            let managed = json!([{"manager": "kubectl", "operation": "Apply", "fieldsV1": {"f:data": {}}}]);
            let metadata = json!({"name": name, "namespace": "team", "resourceVersion": "1", "labels": {"a": "b"},
                "managedFields": managed});
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"k": "dg=="}})
        };
        let written = Arc::clone(&bodies);
        let server = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let written = Arc::clone(&written);
            let list = json!({"apiVersion": "v1", "kind": "SecretList", "metadata": {"resourceVersion": "1"},
                "items": [stored("a"), stored("b")]});
            let answer = if request.uri().path().ends_with("/secrets") && request.method() == "GET" {
                list
            } else {
                stored("a")
            };
            async move {
                let body = request.into_body().collect_bytes().await.unwrap();
                written.lock().unwrap().push(String::from_utf8(body.to_vec()).unwrap());
                Ok::<_, std::io::Error>(http::Response::new(kube::client::Body::from(
                    answer.to_string().into_bytes(),
                )))
            }
        });
        let telemetry = groundwork_telemetry::Telemetry::silent("test");
        let metrics = Metrics::new(&telemetry.metrics, "test");
        let objects = Objects::new(Client::new(server, "default"), "test", metrics);
        let read = objects.get::<Secret>("team", "a").await.unwrap().unwrap();
        let mut all = objects.list::<Secret>("team", "a=b").await.unwrap();
        assert_eq!(all.len(), 2);
        all.extend([
            objects.replace(&read).await.unwrap(),
            objects.replace_status(&read).await.unwrap(),
            objects.create(&read).await.unwrap(),
            objects.patch_metadata("team", "a", &Metadata::default()).await.unwrap(),
            read,
        ]);
        for object in &all {
            assert_eq!(object.metadata.managed_fields, None);
            assert_eq!(object.metadata.labels.as_ref().unwrap()["a"], "b", "the rest stays");
        }
        let bodies = bodies.lock().unwrap();
        assert!(bodies.iter().all(|body| !body.contains("managedFields")), "{bodies:?}");
    }

    /// The server of this test does not exist, so a request that is made fails as one that may pass.
    #[tokio::test]
    async fn no_verb_writes_a_name_into_a_path_that_no_object_can_have() {
        let config = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        let telemetry = groundwork_telemetry::Telemetry::silent("test");
        let metrics = Metrics::new(&telemetry.metrics, "test");
        let objects = Objects::new(Client::try_from(config).unwrap(), "test", metrics);
        let secret = |namespace: &str, name: &str| -> Secret {
            serde_json::from_value(json!({"metadata": {"namespace": namespace, "name": name}})).unwrap()
        };
        for (namespace, name) in [
            ("team", "../../kube-system/secrets/x"),
            ("team", "victim?dryRun=All"),
            ("team", "a%2fb"),
            ("team", ""),
            ("../kube-system", "x"),
            ("team/secrets/x?a=", "x"),
            ("", "x"),
        ] {
            let place = format!("{namespace:?}/{name:?}");
            assert_eq!(objects.get::<Secret>(namespace, name).await, Ok(None), "get {place}");
            assert_eq!(
                objects.delete::<Secret>(namespace, name, None, None).await,
                Ok(None),
                "delete {place}"
            );
            let object = secret(namespace, name);
            let change = Metadata::default();
            for (verb, answer) in [
                ("create", objects.create(&object).await),
                ("replace", objects.replace(&object).await),
                ("replace_status", objects.replace_status(&object).await),
                ("patch", objects.patch_metadata::<Secret>(namespace, name, &change).await),
            ] {
                assert!(matches!(answer, Err(ApiError::Invalid { .. })), "{verb} {place}: {answer:?}");
            }
            if namespace != "team" {
                let listed = objects.list::<Secret>(namespace, "").await;
                assert!(matches!(listed, Err(ApiError::Invalid { .. })), "list {place}: {listed:?}");
            }
        }
    }
}
