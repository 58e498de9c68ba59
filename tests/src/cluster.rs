//! One control plane with our CRDs for all tests of a binary.

use std::sync::LazyLock;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use groundwork_api::{crds, package_revision_crd};
use groundwork_testkit::{ControlPlane, ControlPlaneOptions, Server, servers_or_skip};
use http::{Method, Request};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionCondition,
};
use kube::api::{Api, Patch, PatchParams};
use kube::core::NamespaceResourceScope;
use kube::{Client, Error, Resource, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::manifests::Manifest;
use crate::wait::wait_for;

static CONTROL_PLANE: OnceCell<ControlPlane> = OnceCell::const_new();

/// Shared control plane, with a namespace that belongs to one test alone.
#[derive(Clone)]
pub struct Cluster {
    plane: &'static ControlPlane,
    client: Client,
    namespace: String,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

/// Returns the shared control plane with our CRDs, and creates a fresh namespace in it. `None` if
/// the servers are missing: then a note is printed, and the caller returns.
///
/// # Errors
/// Fails if the servers do not start, or do not accept the CRDs.
pub async fn cluster(namespace: &str) -> Result<Option<Cluster>> {
    if !servers_or_skip(&[Server::Etcd, Server::KubeApiserver]) {
        return Ok(None);
    }
    let plane = CONTROL_PLANE.get_or_try_init(start).await?;
    plane.create_namespace(namespace).await?;
    Ok(Some(Cluster { plane, client: plane.client().await?, namespace: namespace.to_owned() }))
}

/// Returns the CRDs that the control plane has.
pub fn installed_crds() -> &'static [CustomResourceDefinition] {
    static CRDS: LazyLock<Vec<CustomResourceDefinition>> =
        LazyLock::new(|| crds().into_iter().chain([package_revision_crd()]).collect());
    &CRDS
}

async fn start() -> Result<ControlPlane> {
    let plane = ControlPlane::start(ControlPlaneOptions::default()).await?;
    install_crds(plane.client().await?).await?;
    Ok(plane)
}

/// Applies our CRDs and waits until they are served. The field manager of kubectl owns them, as
/// after `groundwork-bootstrap`, so that a user who applies the files by hand gets no conflict.
///
/// # Errors
/// Fails if the API server rejects a CRD.
pub async fn install_crds(client: Client) -> Result<()> {
    install(client, installed_crds()).await
}

/// Applies our CRDs except PackageRevision, which an aggregated API serves. Elsewhere the
/// definition stands for any server of that kind.
///
/// # Errors
/// Fails if the API server rejects a CRD.
pub(crate) async fn install_crds_beside_api(client: Client) -> Result<()> {
    install(client, &crds()).await
}

async fn install(client: Client, all: &[CustomResourceDefinition]) -> Result<()> {
    let api = Api::<CustomResourceDefinition>::all(client);
    let parameters = PatchParams::apply("kubectl").validation_strict();
    for crd in all {
        let name = crd.name_any();
        let what = format!("the API server accepts the CRD {name}");
        let applied = wait_for(&what, SERVED_WITHIN, async || {
            passing(api.patch(&name, &parameters, &Patch::Apply(crd)).await)
        });
        applied.await?.with_context(|| format!("the CRD {name} is not accepted"))?;
    }
    for crd in all {
        wait_established(&api, &crd.name_any()).await?;
    }
    Ok(())
}

async fn wait_established(api: &Api<CustomResourceDefinition>, name: &str) -> Result<()> {
    let what = format!("the API server serves the CRD {name}");
    let conditions = wait_for(&what, SERVED_WITHIN, async || {
        let conditions = passing(api.get(name).await)?.map(|crd| crd.status.unwrap_or_default().conditions);
        let conditions = conditions.map(Option::unwrap_or_default);
        let decided = |found: &CustomResourceDefinitionCondition| {
            found.type_ == "NonStructuralSchema" || found.type_ == "Established" && found.status == "True"
        };
        match conditions {
            Ok(conditions) if !conditions.iter().any(decided) => Err(format!("{conditions:?}")),
            decided => Ok(decided),
        }
    });
    let conditions = conditions.await?.with_context(|| format!("the CRD {name} cannot be read"))?;
    if let Some(found) = conditions.iter().find(|found| found.type_ == "NonStructuralSchema") {
        bail!("the schema of {name} is not structural: {}", found.message.as_deref().unwrap_or_default());
    }
    Ok(())
}

/// Time limit for an API server that has just started to serve a CRD.
const SERVED_WITHIN: Duration = Duration::from_secs(90);

/// Separates passing errors from final ones. The outer error is worth a retry: a server that has
/// just started may break a connection, answer 5xx, or conflict with its own writes. The inner
/// error is the server's objection to the object itself.
fn passing<T>(answer: Result<T, Error>) -> Result<Result<T, Error>, String> {
    match answer {
        Err(Error::Api(status)) if ![404, 409, 429].contains(&status.code) && status.code < 500 => {
            Ok(Err(Error::Api(status)))
        }
        Err(error) => Err(format!("{error:?}")),
        Ok(found) => Ok(Ok(found)),
    }
}

/// Part of an object that a request writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All of the object except the status.
    Object,
    /// Only the subresource `status`.
    Status,
}

/// Treatment of fields that the schema does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownFields {
    /// The server rejects the object, as kubectl requests it.
    Refused,
    /// The server drops the fields.
    Dropped,
}

impl Cluster {
    /// Returns the control plane.
    pub fn plane(&self) -> &'static ControlPlane {
        self.plane
    }

    /// Returns the administrator's client.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Returns the namespace of the test.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Returns the API of a kind in the namespace.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client(), &self.namespace)
    }

    /// Creates an object under strict validation and returns it as stored.
    ///
    /// # Errors
    /// Returns the objection of the API server.
    pub async fn create(&self, manifest: &Manifest) -> Result<Value, Error> {
        let url = format!("{}?fieldValidation=Strict", self.collection(manifest));
        self.send(Method::POST, url, &self.located(manifest)).await
    }

    /// Creates an object in a dry run and returns the result, without storing it. The server
    /// rejects or drops unknown fields, as `unknown` says.
    ///
    /// # Errors
    /// Returns the objection of the API server.
    pub async fn try_create(&self, manifest: &Manifest, unknown: UnknownFields) -> Result<Value, Error> {
        let validation = if unknown == UnknownFields::Refused { "Strict" } else { "Ignore" };
        let url = format!("{}?fieldValidation={validation}&dryRun=All", self.collection(manifest));
        self.send(Method::POST, url, &self.located(manifest)).await
    }

    /// Replaces a part of an object under strict validation, and returns the object as stored.
    ///
    /// # Errors
    /// Returns the objection of the API server.
    pub async fn replace(&self, manifest: &Manifest, part: Part) -> Result<Value, Error> {
        let url = format!("{}/{}", self.collection(manifest), manifest.name());
        let mut document = self.located(manifest);
        document["metadata"] = self.get(manifest).await?["metadata"].take();
        let part = if part == Part::Status { "/status" } else { "" };
        self.send(Method::PUT, format!("{url}{part}?fieldValidation=Strict"), &document).await
    }

    /// Applies an object under strict validation by server-side apply, and returns it as stored.
    ///
    /// # Errors
    /// Returns the objection of the API server.
    pub async fn apply(&self, manifest: &Manifest) -> Result<Value, Error> {
        let url = format!("{}/{}", self.collection(manifest), manifest.name());
        let url = format!("{url}?fieldManager=tests&fieldValidation=Strict");
        self.send(Method::PATCH, url, &self.located(manifest)).await
    }

    /// Returns the object as stored.
    ///
    /// # Errors
    /// Fails if the object does not exist.
    pub async fn get(&self, manifest: &Manifest) -> Result<Value, Error> {
        let url = format!("{}/{}", self.collection(manifest), manifest.name());
        self.send(Method::GET, url, &Value::Null).await
    }

    fn located(&self, manifest: &Manifest) -> Value {
        let mut document = manifest.document.clone();
        document["metadata"]["namespace"] = json!(self.namespace);
        document
    }

    fn collection(&self, manifest: &Manifest) -> String {
        let (api_version, plural) = (manifest.api_version(), manifest.plural().unwrap_or_default());
        format!("/apis/{api_version}/namespaces/{}/{plural}", self.namespace)
    }

    #[expect(clippy::disallowed_methods, reason = "the API server is one that the test has started")]
    async fn send(&self, method: Method, url: String, document: &Value) -> Result<Value, Error> {
        let content_type =
            if method == Method::PATCH { "application/apply-patch+yaml" } else { "application/json" };
        let body = if document.is_null() { Vec::new() } else { document.to_string().into_bytes() };
        let request = Request::builder().method(method).uri(url).header("content-type", content_type);
        let request = request.body(body).map_err(Error::HttpError)?;
        self.client.request(request).await
    }
}
