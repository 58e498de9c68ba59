//! Source of TargetSyncs: the second API server, behind a front that can reject requests or leave
//! them unanswered.
//!
//! The front stands in for Gardener in one respect: a CRD cannot have the subresource
//! `adminkubeconfig` of Shoots, so the front answers requests for it. The API server answers all
//! others.

use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use groundwork_tests::{forward, refusal, wait_for};
use http::Method;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::case::Case;
use crate::support::PATIENCE;
use crate::target_cluster::{TargetCluster, cluster};

/// Part of the source's credentials, which must not appear in any message.
pub(crate) const CANARY: &str = "canary-of-the-source";
/// Mode in which the front accepts requests and does not answer them.
pub(crate) const SILENT: u16 = 1;
const SHOOTS: &str = "/apis/core.gardener.cloud/v1beta1";

/// Source of TargetSyncs, with a namespace that belongs to one test alone.
pub(crate) struct Garden {
    pub(crate) cluster: TargetCluster,
    pub(crate) namespace: String,
    front: Front,
    url: String,
}

#[derive(Clone)]
struct Front {
    client: Client,
    /// Status of all answers. With 0, the front passes requests on.
    answer: Arc<AtomicU16>,
    /// Requests for kubeconfigs, with the names of their Shoots.
    asked: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Garden {
    pub(crate) async fn new(namespace: &str) -> Result<Self> {
        let cluster = cluster().await?;
        cluster.plane.create_namespace(namespace).await?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let front =
            Front { client: cluster.plane.client().await?, answer: Arc::default(), asked: Arc::default() };
        let router = Router::new().fallback(answer).with_state(front.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(Self { cluster, namespace: namespace.to_owned(), front, url })
    }

    /// Creates a source that also has the kind Shoot.
    pub(crate) async fn with_shoots(namespace: &str) -> Result<Self> {
        let garden = Self::new(namespace).await?;
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "shoots.core.gardener.cloud", "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"}},
            "spec": {
                "group": "core.gardener.cloud", "scope": "Namespaced",
                "names": {"kind": "Shoot", "listKind": "ShootList", "plural": "shoots", "singular": "shoot"},
                "versions": [{"name": "v1beta1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
            },
        });
        // Several tests share the server and may create the CRD at the same time.
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        if garden.cluster.get(&format!("{path}/shoots.core.gardener.cloud")).await?.is_none() {
            let made = garden.cluster.create(path, &crd).await;
            let is_there = garden.cluster.get(&format!("{path}/shoots.core.gardener.cloud")).await?.is_some();
            made.map(drop).or_else(|error| if is_there { Ok(()) } else { Err(error) })?;
        }
        garden.cluster.until("Shoots are served", &garden.shoots(), |list| list.is_some()).await?;
        Ok(garden)
    }

    fn secrets(&self) -> String {
        format!("/api/v1/namespaces/{}/secrets", self.namespace)
    }

    fn shoots(&self) -> String {
        format!("{SHOOTS}/namespaces/{}/shoots", self.namespace)
    }

    /// Returns a kubeconfig of the source, through the front.
    pub(crate) fn kubeconfig(&self) -> String {
        kubeconfig(&self.url, &json!({"token": CANARY})).to_string()
    }

    /// Creates the Secret with that kubeconfig in the namespace of a test.
    pub(crate) async fn give_access(&self, case: &Case<'_>, name: &str) -> Result<()> {
        case.create::<Secret>(name, &json!({"stringData": {"kubeconfig": self.kubeconfig()}})).await?;
        Ok(())
    }

    /// Returns a TargetSync for this source.
    pub(crate) fn sync(&self, fields: &Value) -> Value {
        let mut spec =
            json!({"sourceNamespace": self.namespace, "secretRef": {"name": "access", "key": "kubeconfig"}});
        for (field, value) in fields.as_object().into_iter().flatten() {
            spec[field] = value.clone();
        }
        json!({ "spec": spec })
    }

    pub(crate) async fn create_secret(&self, name: &str, content: &str) -> Result<()> {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {"kubeconfig": content}});
        self.cluster.create(&self.secrets(), &secret).await?;
        Ok(())
    }

    pub(crate) async fn change_secret(&self, name: &str, content: &str) -> Result<()> {
        let change = json!({"stringData": {"kubeconfig": content}});
        self.cluster.change(&format!("{}/{name}", self.secrets()), &change).await?;
        Ok(())
    }

    pub(crate) async fn delete_secret(&self, name: &str) -> Result<()> {
        self.cluster.delete(&format!("{}/{name}", self.secrets())).await
    }

    /// Creates a Shoot whose API server has a name like those in Gardener.
    pub(crate) async fn create_shoot(&self, name: &str) -> Result<()> {
        let metadata = json!({"name": name, "finalizers": ["example.org/gardener"]});
        let shoot =
            json!({"apiVersion": "core.gardener.cloud/v1beta1", "kind": "Shoot", "metadata": metadata});
        self.cluster.create(&self.shoots(), &shoot).await?;
        Ok(())
    }

    /// Requests the deletion of a Shoot, which a finalizer delays.
    pub(crate) async fn begin_to_delete_shoot(&self, name: &str) -> Result<()> {
        self.cluster.delete(&format!("{}/{name}", self.shoots())).await
    }

    /// Completes the deletion of a Shoot.
    pub(crate) async fn end_shoot(&self, name: &str) -> Result<()> {
        let path = format!("{}/{name}", self.shoots());
        self.cluster.change(&path, &json!({"metadata": {"finalizers": null}})).await?;
        self.cluster.until("the Shoot is gone", &path, |found| found.is_none()).await
    }

    /// Sets the HTTP status of all answers. With [`SILENT`] the front does not answer, and with 0
    /// it passes requests on.
    pub(crate) fn answer(&self, code: u16) {
        self.front.answer.store(code, Ordering::SeqCst);
    }

    /// Returns the requests for kubeconfigs, with the names of their Shoots.
    pub(crate) fn asked(&self) -> Vec<(String, Value)> {
        self.front.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Returns a kubeconfig with one cluster, user and context.
pub(crate) fn kubeconfig(server: &str, user: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "source",
        "clusters": [{"name": "source", "cluster": {"server": server}}],
        "users": [{"name": "source", "user": user}],
        "contexts": [{"name": "source", "context": {"cluster": "source", "user": "source"}}],
    })
}

/// Returns the kubeconfig that the front issues for a Shoot. Its server does not exist.
pub(crate) fn kubeconfig_of(shoot: &str) -> String {
    let user = json!({"token": "of-the-administrator"});
    kubeconfig(&format!("https://api.{shoot}.project.invalid"), &user).to_string()
}

async fn answer(State(front): State<Front>, request: Request) -> Response {
    match front.answer.load(Ordering::SeqCst) {
        0 => {}
        SILENT => return std::future::pending().await,
        code => return refusal(code, "Refused"),
    }
    let path = request.uri().path().to_owned();
    match path.strip_suffix("/adminkubeconfig").and_then(|path| path.rsplit_once("/shoots/")) {
        Some((_, shoot)) if request.method() == Method::POST => {
            admin_kubeconfig(&front, shoot, request).await.unwrap_or_else(|_| refusal(400, "BadRequest"))
        }
        _ => forward(&front.client, request).await,
    }
}

async fn admin_kubeconfig(front: &Front, shoot: &str, request: Request) -> Result<Response> {
    let body: Value = serde_json::from_slice(&to_bytes(request.into_body(), 1 << 16).await?)?;
    let kubeconfig = data_encoding::BASE64.encode(kubeconfig_of(shoot).as_bytes());
    let mut answer = body.clone();
    answer["status"] = json!({"kubeconfig": kubeconfig, "expirationTimestamp": "2030-01-01T00:00:00Z"});
    front.asked.lock().unwrap_or_else(PoisonError::into_inner).push((shoot.to_owned(), body));
    let response = Response::builder().status(201).header("content-type", "application/json");
    response.body(Body::from(answer.to_string())).context("a response")
}

/// Triggers a round of a TargetSync, and waits for its end.
pub(crate) async fn next_round(case: &Case<'_>, name: &str) -> Result<groundwork_api::TargetSync> {
    let operation = json!({"landscaper.gardener.cloud/operation": "reconcile"});
    case.change::<groundwork_api::TargetSync>(name, &json!({"metadata": {"annotations": operation}})).await?;
    wait_for(&format!("{name} has had another round"), PATIENCE, async || {
        let sync = case.get::<groundwork_api::TargetSync>(name).await.map_err(|error| error.to_string())?;
        let is_asked = |all: &std::collections::BTreeMap<String, String>| {
            all.contains_key("landscaper.gardener.cloud/operation")
        };
        let waits = sync.metadata.annotations.as_ref().is_some_and(is_asked);
        if waits { Err(format!("{:?}", sync.status)) } else { Ok(sync) }
    })
    .await
    .map_err(|error| case.system.explained(error))
}

/// Returns the errors in the status of a TargetSync.
pub(crate) fn errors(sync: &groundwork_api::TargetSync) -> Vec<String> {
    sync.status.as_ref().map(|status| status.last_errors.to_vec()).unwrap_or_default()
}
