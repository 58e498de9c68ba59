//! One control plane for all tests of a binary, with our CRDs in it.

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

/// The shared control plane, seen from a namespace that one test has for itself.
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

/// The shared control plane with our CRDs, and a fresh namespace in it. `None` if the servers are missing; the
/// caller returns then, the note is printed.
///
/// # Errors
/// When the servers do not start, or do not accept the CRDs.
pub async fn cluster(namespace: &str) -> Result<Option<Cluster>> {
    if !servers_or_skip(&[Server::Etcd, Server::KubeApiserver]) {
        return Ok(None);
    }
    let plane = CONTROL_PLANE.get_or_try_init(start).await?;
    plane.create_namespace(namespace).await?;
    Ok(Some(Cluster { plane, client: plane.client().await?, namespace: namespace.to_owned() }))
}

/// The CRDs that the control plane has.
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

/// Applies our CRDs and waits until they are served. Who applies the files by hand meets no conflict, since they are owned by the
/// field manager of kubectl, as after `groundwork-bootstrap`.
///
/// # Errors
/// When the API server does not accept one.
pub async fn install_crds(client: Client) -> Result<()> {
    install(client, installed_crds()).await
}

/// The same without PackageRevision, which a Porch server serves.
///
/// # Errors
/// When the API server does not accept one.
pub(crate) async fn install_crds_beside_porch(client: Client) -> Result<()> {
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

/// How long a server that has just begun may take to serve a CRD.
const SERVED_WITHIN: Duration = Duration::from_secs(90);

/// What to ask for again is the outer error: a server that has just begun may break a connection, or answer 5xx, or meet
/// a conflict with itself. What it says against the object itself is the inner one.
fn passing<T>(answer: Result<T, Error>) -> Result<Result<T, Error>, String> {
    match answer {
        Err(Error::Api(status)) if ![404, 409, 429].contains(&status.code) && status.code < 500 => {
            Ok(Err(Error::Api(status)))
        }
        Err(error) => Err(format!("{error:?}")),
        Ok(found) => Ok(Ok(found)),
    }
}

/// Part of an object that a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Everything but the status.
    Object,
    /// The subresource `status` alone.
    Status,
}

/// What happens to fields that the schema does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownFields {
    /// The object is refused, as kubectl asks for.
    Refused,
    /// They are dropped.
    Dropped,
}

impl Cluster {
    /// The control plane.
    pub fn plane(&self) -> &'static ControlPlane {
        self.plane
    }

    /// The client of the administrator.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The namespace of the test.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The API of a kind in the namespace.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client(), &self.namespace)
    }

    /// Creates an object under strict validation and returns it as stored.
    ///
    /// # Errors
    /// What the API server says against it.
    pub async fn create(&self, manifest: &Manifest) -> Result<Value, Error> {
        let url = format!("{}?fieldValidation=Strict", self.collection(manifest));
        self.send(Method::POST, url, &self.located(manifest)).await
    }

    /// Asks what creating an object would return, and stores nothing. Fields that the schema does not know are
    /// refused or dropped, as asked for.
    ///
    /// # Errors
    /// What the API server says against it.
    pub async fn try_create(&self, manifest: &Manifest, unknown: UnknownFields) -> Result<Value, Error> {
        let validation = if unknown == UnknownFields::Refused { "Strict" } else { "Ignore" };
        let url = format!("{}?fieldValidation={validation}&dryRun=All", self.collection(manifest));
        self.send(Method::POST, url, &self.located(manifest)).await
    }

    /// Replaces a part of an object under strict validation, and returns the object as stored.
    ///
    /// # Errors
    /// What the API server says against it.
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
    /// What the API server says against it.
    pub async fn apply(&self, manifest: &Manifest) -> Result<Value, Error> {
        let url = format!("{}/{}", self.collection(manifest), manifest.name());
        let url = format!("{url}?fieldManager=tests&fieldValidation=Strict");
        self.send(Method::PATCH, url, &self.located(manifest)).await
    }

    /// The object as stored.
    ///
    /// # Errors
    /// When there is none.
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
