//! Reads and writes of objects. Every write carries the version on which it is based.

use std::sync::{Arc, Mutex, PoisonError};

use groundwork_api::kubernetes::is_dns_subdomain;
use groundwork_bus::{Kind, ObjectId};
use kube::api::{DeleteParams, GetParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::{NamespaceResourceScope, ObjectList, Request};
use kube::{Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

use crate::error::ApiError;
use crate::known_versions::KnownVersions;
use crate::metrics::Metrics;
use crate::request::{Built, Call};

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

/// A change of metadata by merge patch. Entries that it does not name stay.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metadata {
    /// resourceVersion on which the patch is based.
    pub resource_version: Option<String>,
    /// Complete list of finalizers, if it changes.
    pub finalizers: Option<Vec<String>>,
    /// Annotations to set, or to remove with `None`.
    pub annotations: Vec<(String, Option<String>)>,
}

/// The API server for one service. During an attempt it records which versions of objects the key
/// has read and written.
#[derive(Clone)]
pub struct Objects {
    client: Client,
    manager: &'static str,
    metrics: Metrics,
    /// Recorded versions. `None` outside of attempts, where the record would grow without limit.
    observations: Option<Arc<Mutex<Observations>>>,
}

/// Versions that an attempt has read and written.
#[derive(Debug, Default)]
pub(crate) struct Observations {
    pub(crate) known: KnownVersions,
    pub(crate) has_written: bool,
    /// Versions that the attempt has written and that differ from the previous ones.
    pub(crate) written: Vec<(ObjectId, String)>,
}

impl std::fmt::Debug for Objects {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Objects").field("manager", &self.manager).finish_non_exhaustive()
    }
}

impl Objects {
    /// Creates the access for a service; `manager` is the field manager of all writes.
    pub fn new(client: Client, manager: &'static str, metrics: Metrics) -> Self {
        Self { client, manager, metrics, observations: None }
    }

    /// Returns the same API server for a new attempt, with an empty record.
    pub(crate) fn for_attempt(&self) -> Self {
        Self { observations: Some(Arc::default()), ..self.clone() }
    }

    /// Takes the versions that were read and written since the last call.
    pub(crate) fn take_observations(&self) -> Observations {
        let Some(observations) = &self.observations else { return Observations::default() };
        std::mem::take(&mut *observations.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the client, for requests that this type does not offer.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Counts a request that was made without this type, by outcome: `ok`, `conflict`, `not_found`,
    /// `forbidden` or `failed`.
    pub fn count_request(&self, verb: &'static str, resource: &str, outcome: &'static str) {
        self.metrics.request(verb, resource, outcome);
    }

    /// Reads an object; `None` if it does not exist. Names may come from other objects, so an
    /// invalid name also gives `None`.
    ///
    /// # Errors
    ///
    /// The object could not be read.
    pub async fn get<K: Stored>(&self, namespace: &str, name: &str) -> Result<Option<K>, ApiError> {
        if !is_dns_subdomain(name) || !is_dns_subdomain(namespace) {
            return Ok(None);
        }
        let call = Call::of::<K>("get", namespace, name);
        let request = requests::<K>(namespace).get(name, &GetParams::default());
        let answer = match call.send(&self.client, request).await {
            Ok(text) => call.read::<K>(&text).map(Some),
            Err(ApiError::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        };
        let object = self.counted(&call, answer)?;
        Ok(object.map(lean).inspect(|object| self.observe(object)))
    }

    /// Reads the objects with these labels (`key=value,…`).
    ///
    /// # Errors
    ///
    /// The objects could not be read.
    pub async fn list<K: Stored>(&self, namespace: &str, labels: &str) -> Result<Vec<K>, ApiError> {
        self.list_with(namespace, labels, &ListParams::default().labels(labels)).await
    }

    /// Reads the objects with these fields (`spec.key=value,…`). The kind must declare them as
    /// selectable.
    ///
    /// # Errors
    ///
    /// The objects could not be read.
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
        let call = Call::of::<K>("list", namespace, selector);
        let list: ObjectList<Lean<K>> = self.run(call, requests::<K>(namespace).list(parameters)).await?;
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
    /// [`ApiError::AlreadyExists`], or the reason of a refusal.
    pub async fn create<K: Stored>(&self, object: &K) -> Result<K, ApiError> {
        let (namespace, name) = place(object);
        check::<K>(&namespace, object.meta().name.as_deref())?;
        let call = Call::of::<K>("create", &namespace, &name);
        let body = call.write(object)?;
        let stored = self.run(call, requests::<K>(&namespace).create(&self.as_manager(), body)).await?;
        Ok(self.written(stored, None))
    }

    /// Replaces an object. It carries the resourceVersion on which the change is based.
    ///
    /// # Errors
    ///
    /// [`ApiError::Conflict`] if the object changed meanwhile, or the reason of a refusal.
    pub async fn replace<K: Stored>(&self, object: &K) -> Result<K, ApiError> {
        let (namespace, name) = place(object);
        check::<K>(&namespace, Some(&name))?;
        let call = Call::of::<K>("update", &namespace, &name);
        let body = call.write(object)?;
        let request = requests::<K>(&namespace).replace(&name, &self.as_manager(), body);
        let stored = self.run(call, request).await?;
        Ok(self.written(stored, object.resource_version().as_deref()))
    }

    /// Replaces the status of an object. It carries the resourceVersion on which the change is
    /// based.
    ///
    /// # Errors
    ///
    /// As [`Objects::replace`].
    pub async fn replace_status<K: Stored>(&self, object: &K) -> Result<K, ApiError> {
        let (namespace, name) = place(object);
        check::<K>(&namespace, Some(&name))?;
        let call = Call::of::<K>("update", &namespace, &name).on_status();
        let body = call.write(object)?;
        let request =
            requests::<K>(&namespace).replace_subresource("status", &name, &self.as_manager(), body);
        let stored = self.run(call, request).await?;
        Ok(self.written(stored, object.resource_version().as_deref()))
    }

    /// Applies fields of an object's spec as `manager`, and takes their ownership from other
    /// managers, if the object still has the resourceVersion that was read.
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
        let call = Call::of::<K>("patch", &namespace, &name);
        let request = requests::<K>(&namespace).patch(&name, &parameters, &patch);
        let stored = self.run(call, request).await?;
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
        let call = Call::of::<K>("patch", namespace, name);
        let stored = self.run(call, requests::<K>(namespace).patch(name, &parameters, &patch)).await?;
        Ok(self.written(stored, change.resource_version.as_deref()))
    }

    /// Deletes exactly this object, and with a version only while the object has it. Returns the
    /// remaining object while finalizers keep it.
    ///
    /// # Errors
    ///
    /// The deletion could not be requested. It is not an error if the object does not exist, has an
    /// invalid name, or was replaced by another object.
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
        let call = Call::of::<K>("delete", namespace, name);
        let request = requests::<K>(namespace).delete(name, &parameters);
        let answer = call.send(&self.client, request).await.and_then(|text| {
            // The API server answers with a Status when the object is gone at once.
            let answer: KindOfAnswer = call.read(&text)?;
            (answer.kind != "Status").then(|| call.read::<K>(&text)).transpose()
        });
        match self.counted(&call, answer) {
            Ok(left) => Ok(left.map(|object| self.written(object, None))),
            Err(ApiError::NotFound(_)) => Ok(None),
            Err(ApiError::Conflict(conflict)) => {
                let left = self.get::<K>(namespace, name).await?;
                let is_meant = |left: &K| {
                    uid.is_none_or(|uid| left.uid().as_deref() == Some(uid))
                        && resource_version
                            .is_none_or(|version| left.resource_version().as_deref() == Some(version))
                };
                // The API server may refuse a deletion for a moment although the object has not
                // changed. Report the conflict then, so that the caller retries.
                if left.as_ref().is_some_and(is_meant) { Err(ApiError::Conflict(conflict)) } else { Ok(None) }
            }
            Err(error) => Err(error),
        }
    }

    /// Returns write parameters with this service as field manager.
    fn as_manager(&self) -> PostParams {
        PostParams { field_manager: Some(self.manager.to_owned()), ..PostParams::default() }
    }

    fn observe<K: Stored>(&self, object: &K) {
        self.observed(object, |observations, id, version| observations.known.read(id, version));
    }

    fn observed<K: Stored>(&self, object: &K, add: impl FnOnce(&mut Observations, ObjectId, &str)) {
        let (Some(observations), Some(version)) = (&self.observations, object.resource_version()) else {
            return;
        };
        let kind = Kind::new(K::group(&()).into_owned(), K::plural(&()).into_owned());
        let id = ObjectId::new(kind, object.namespace().as_deref(), object.name_any());
        add(&mut observations.lock().unwrap_or_else(PoisonError::into_inner), id, &version);
    }

    /// Records a write. A write that changed nothing since `before` does not count as progress.
    fn written<K: Stored>(&self, object: K, before: Option<&str>) -> K {
        let object = lean(object);
        let has_changed = before.is_none() || object.resource_version().as_deref() != before;
        self.observed(&object, |observations, id, version| {
            if has_changed {
                observations.has_written = true;
                observations.written.push((id.clone(), version.to_owned()));
            }
            observations.known.add(id, version);
        });
        object
    }

    async fn run<T: DeserializeOwned>(&self, call: Call<'_>, request: Built) -> Result<T, ApiError> {
        let answer = call.send(&self.client, request).await.and_then(|text| call.read(&text));
        self.counted(&call, answer)
    }

    fn counted<T>(&self, call: &Call<'_>, answer: Result<T, ApiError>) -> Result<T, ApiError> {
        call.count(answer.as_ref().err(), &self.metrics);
        answer
    }
}

/// Returns a builder of requests about the objects of a namespace.
fn requests<K: Stored>(namespace: &str) -> Request {
    Request::new(K::url_path(&(), Some(namespace)))
}

/// The `kind` of an answer, which distinguishes an object from a Status.
#[derive(Deserialize)]
struct KindOfAnswer {
    #[serde(default)]
    kind: String,
}

/// Removes the managed fields, which are half of an object and unused here. The API server keeps
/// its own when a write has none.
fn lean<K: Stored>(mut object: K) -> K {
    object.meta_mut().managed_fields = None;
    object
}

/// An element of a list. Its managed fields are dropped before the next element is read, to save
/// memory.
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

/// Checks namespace and name before they become part of a request's path. An invalid name could
/// lead to another object or add query parameters.
fn check<K: Stored>(namespace: &str, name: Option<&str>) -> Result<(), ApiError> {
    for (field, text) in [("metadata.namespace", Some(namespace)), ("metadata.name", name)] {
        if text.is_some_and(|text| !is_dns_subdomain(text)) {
            let object = format!("{} {namespace:?}/{:?}", K::plural(&()), name.unwrap_or_default());
            let causes = format!("{field} must consist of lower-case letters, digits, \"-\" and \".\"");
            return Err(ApiError::Invalid { object, causes });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Secret;

    use super::*;

    /// Managed fields are half of an object, so they stay neither in memory nor in writes.
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
                #[expect(clippy::disallowed_methods, reason = "the request is one of the test")]
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

    /// Reading and deleting must distinguish the answers of the server.
    #[tokio::test]
    async fn answers_are_told_apart() {
        let secret =
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a", "namespace": "team"}});
        let success = json!({"apiVersion": "v1", "kind": "Status", "status": "Success"});
        let failure = |code: u16, reason: &str| json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason});
        let answering = |code: u16, body: &Value| {
            let body = body.to_string();
            let server = tower::service_fn(move |_: http::Request<kube::client::Body>| {
                let answer = http::Response::builder().status(code);
                let answer = answer.body(kube::client::Body::from(body.clone().into_bytes()));
                std::future::ready(answer)
            });
            let telemetry = groundwork_telemetry::Telemetry::silent("test");
            Objects::new(Client::new(server, "default"), "test", Metrics::new(&telemetry.metrics, "test"))
        };
        let name = "secrets team/a".to_owned();
        for (code, body, get, delete) in [
            (200, secret.clone(), Ok(true), Ok(true)),
            (404, failure(404, "NotFound"), Ok(false), Ok(false)),
            (
                409,
                failure(409, "Conflict"),
                Err(ApiError::Conflict(name.clone())),
                Err(ApiError::Conflict(name.clone())),
            ),
            (
                413,
                failure(413, "TooLarge"),
                Err(ApiError::TooLarge(name.clone())),
                Err(ApiError::TooLarge(name)),
            ),
        ] {
            let objects = answering(code, &body);
            let found = objects.get::<Secret>("team", "a").await.map(|found| found.is_some());
            assert_eq!(found, get, "get {code}");
            let left = objects.delete::<Secret>("team", "a", None, None).await.map(|left| left.is_some());
            assert_eq!(left, delete, "delete {code}");
        }
        let gone = answering(200, &success).delete::<Secret>("team", "a", Some("u"), None).await;
        assert_eq!(gone, Ok(None), "it is gone at once");
        let unreadable = answering(200, &json!([1])).get::<Secret>("team", "a").await;
        assert!(matches!(unreadable, Err(ApiError::Invalid { .. })), "{unreadable:?}");
    }

    /// A refused deletion does not prove that the object is gone. It is gone if another object, or
    /// another version of it, now has its name.
    #[tokio::test]
    async fn a_conflict_is_the_end_of_no_object() {
        let failure = json!({"kind": "Status", "status": "Failure", "code": 409, "reason": "Conflict"});
        let secret = json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "a", "namespace": "team", "uid": "u", "resourceVersion": "7"}});
        let server = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let (code, body) = if request.method() == "GET" { (200, &secret) } else { (409, &failure) };
            let answer = http::Response::builder().status(code);
            std::future::ready(answer.body(kube::client::Body::from(body.to_string().into_bytes())))
        });
        let telemetry = groundwork_telemetry::Telemetry::silent("test");
        let metrics = Metrics::new(&telemetry.metrics, "test");
        let objects = Objects::new(Client::new(server, "default"), "test", metrics);
        for (uid, version, is_gone) in [
            (None, None, false),
            (Some("u"), None, false),
            (Some("other"), None, true),
            (Some("u"), Some("7"), false),
            (Some("u"), Some("6"), true),
        ] {
            let left = objects.delete::<Secret>("team", "a", uid, version).await;
            assert_eq!(left == Ok(None), is_gone, "{uid:?} {version:?}: {left:?}");
        }
    }

    /// The server of this test does not exist, so a request that is actually sent fails with a
    /// transient error.
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
