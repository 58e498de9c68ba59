//! A source of TargetSyncs: the second API server, behind a front that can be told to refuse or to say nothing.
//!
//! The front stands in for Gardener in one thing: a CRD cannot have the subresource `adminkubeconfig` of Shoots, so requests for it are
//! answered here. All else is the API server's.

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

/// A part of the credentials of the source that no message may have.
pub(crate) const CANARY: &str = "canary-of-the-source";
/// It takes requests and does not answer.
pub(crate) const SILENT: u16 = 1;
const SHOOTS: &str = "/apis/core.gardener.cloud/v1beta1";

/// The source, and the namespace of it that one test has for itself.
pub(crate) struct Garden {
    pub(crate) cluster: TargetCluster,
    pub(crate) namespace: String,
    front: Front,
    url: String,
}

#[derive(Clone)]
struct Front {
    client: Client,
    /// What all requests are answered with; 0 passes them on.
    answer: Arc<AtomicU16>,
    /// Shoots whose kubeconfig was asked for, with the request.
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

    /// The same with the kind Shoot.
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
        // Several tests of one server make it.
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

    /// A kubeconfig of the source, through the front.
    pub(crate) fn kubeconfig(&self) -> String {
        kubeconfig(&self.url, &json!({"token": CANARY})).to_string()
    }

    /// The Secret with that kubeconfig in the namespace of a test.
    pub(crate) async fn give_access(&self, case: &Case<'_>, name: &str) -> Result<()> {
        case.create::<Secret>(name, &json!({"stringData": {"kubeconfig": self.kubeconfig()}})).await?;
        Ok(())
    }

    /// What a TargetSync for this source says.
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

    /// A Shoot, whose API server has the name that those of Gardener have.
    pub(crate) async fn create_shoot(&self, name: &str) -> Result<()> {
        let metadata = json!({"name": name, "finalizers": ["example.org/gardener"]});
        let shoot =
            json!({"apiVersion": "core.gardener.cloud/v1beta1", "kind": "Shoot", "metadata": metadata});
        self.cluster.create(&self.shoots(), &shoot).await?;
        Ok(())
    }

    /// Asks for the deletion of a Shoot, which takes its time.
    pub(crate) async fn begin_to_delete_shoot(&self, name: &str) -> Result<()> {
        self.cluster.delete(&format!("{}/{name}", self.shoots())).await
    }

    /// Ends the deletion of a Shoot.
    pub(crate) async fn end_shoot(&self, name: &str) -> Result<()> {
        let path = format!("{}/{name}", self.shoots());
        self.cluster.change(&path, &json!({"metadata": {"finalizers": null}})).await?;
        self.cluster.until("the Shoot is gone", &path, |found| found.is_none()).await
    }

    /// From now on all requests are answered with a code of HTTP, or not at all ([`SILENT`]); 0 passes them on.
    pub(crate) fn answer(&self, code: u16) {
        self.front.answer.store(code, Ordering::SeqCst);
    }

    /// Shoots whose kubeconfig was asked for, with the request.
    pub(crate) fn asked(&self) -> Vec<(String, Value)> {
        self.front.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A kubeconfig with one of each.
pub(crate) fn kubeconfig(server: &str, user: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "source",
        "clusters": [{"name": "source", "cluster": {"server": server}}],
        "users": [{"name": "source", "user": user}],
        "contexts": [{"name": "source", "context": {"cluster": "source", "user": "source"}}],
    })
}

/// What the front gives out for a Shoot. No such server exists.
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

/// Waits until a TargetSync has had another round, which this asks for.
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
    .with_context(|| case.system.logs())
}

/// What the status of a TargetSync says went wrong.
pub(crate) fn errors(sync: &groundwork_api::TargetSync) -> Vec<String> {
    sync.status.as_ref().map(|status| status.last_errors.to_vec()).unwrap_or_default()
}
