//! Helpers that the test suites share.

#![allow(dead_code, reason = "each suite uses a part of it")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::collections::BTreeMap;
use std::time::Duration;

use groundwork_bus::{Bus, Change, Filter, Kind, ObjectId, Record, Stored};
use groundwork_telemetry::Telemetry;
use groundwork_testkit::{ControlPlane, ControlPlaneOptions};
use groundwork_watcher::{Arguments, Watcher};
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Time limit for everything that must happen.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// Starts a control plane with Groundwork's CRDs.
pub(crate) async fn plane() -> ControlPlane {
    let plane = ControlPlane::start(ControlPlaneOptions::default()).await.unwrap();
    install(&plane.client().await.unwrap(), |_| true).await;
    plane
}

/// Installs those of Groundwork's CRDs whose plural is wanted, and waits until they are served.
pub(crate) async fn install(client: &Client, is_wanted: impl Fn(&str) -> bool) {
    for crd in groundwork_api::crds() {
        if !is_wanted(&crd.spec.names.plural) {
            continue;
        }
        let api = Api::all(client.clone());
        api.create(&PostParams::default(), &crd).await.unwrap();
        let path = format!("{}/{}", crd.spec.group, crd.spec.versions[0].name);
        until("the definition is served", async || {
            let list = client.list_api_group_resources(&path).await;
            list.is_ok_and(|list| list.resources.iter().any(|found| found.name == crd.spec.names.plural))
        })
        .await;
    }
}

/// A running watcher.
pub(crate) struct Running {
    pub(crate) telemetry: Telemetry,
    pub(crate) address: std::net::SocketAddr,
    task: JoinHandle<()>,
}

impl Running {
    pub(crate) async fn start(arguments: Arguments, bus: Bus, client: Client) -> Self {
        let telemetry = Telemetry::silent("watcher");
        let watcher = Watcher::start(arguments, bus, client, telemetry.clone()).await.unwrap();
        let address = watcher.address();
        let task = tokio::spawn(async move { watcher.run().await.unwrap() });
        Self { telemetry, address, task }
    }

    pub(crate) async fn ready(&self) {
        within(
            &format!("ready: {:?}", self.telemetry.health.problems()),
            self.telemetry.health.until_ready(),
        )
        .await;
    }

    /// Waits until the watcher is unready for a reason that contains these words.
    pub(crate) async fn troubled(&self, words: &str) -> String {
        let problems = || self.telemetry.health.problems().join("; ");
        until(&format!("not ready because of {words}"), async || problems().contains(words)).await;
        problems()
    }

    /// Stops the watcher gracefully.
    pub(crate) async fn stop(self) {
        self.telemetry.shutdown.request();
        within("the watcher ends", self.task).await.unwrap();
    }

    /// Kills the watcher in the middle of its work.
    pub(crate) async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
    }

    /// Returns the number of attempts to publish objects, by outcome.
    pub(crate) fn published(&self, outcome: &str) -> u64 {
        let text = self.telemetry.metrics.encode().unwrap();
        let lines = text.lines().filter(|line| {
            line.starts_with("groundwork_watcher_published_total")
                && line.contains(&format!("outcome=\"{outcome}\""))
        });
        lines.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    }
}

pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(LIMIT, future).await {
        Ok(value) => value,
        Err(_) => panic!("not in time: {what}"),
    }
}

/// Waits for a condition.
pub(crate) async fn until(what: &str, condition: impl AsyncFn() -> bool) {
    within(what, async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

pub(crate) fn kind(plural: &str) -> Kind {
    let is_core = matches!(plural, "secrets" | "configmaps" | "namespaces" | "serviceaccounts");
    Kind::new(if is_core { "" } else { "landscaper.gardener.cloud" }, plural)
}

/// Returns an API of one kind: `dynamic(client, "v1", "Secret", "n")`.
pub(crate) fn dynamic(client: &Client, api_version: &str, kind: &str, namespace: &str) -> Api<DynamicObject> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    if kind == "Namespace" || kind.starts_with("Cluster") {
        return Api::all_with(client.clone(), &resource);
    }
    Api::namespaced_with(client.clone(), namespace, &resource)
}

pub(crate) fn api_of(client: &Client, object: &Value) -> Api<DynamicObject> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    dynamic(client, text("/apiVersion"), text("/kind"), text("/metadata/namespace"))
}

pub(crate) async fn create(client: &Client, object: Value) -> DynamicObject {
    let api = api_of(client, &object);
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap()
}

pub(crate) async fn merge(client: &Client, object: Value) -> DynamicObject {
    let name = object["metadata"]["name"].as_str().unwrap().to_owned();
    let patch = Patch::Merge(&object);
    api_of(client, &object).patch(&name, &PatchParams::default(), &patch).await.unwrap()
}

pub(crate) async fn delete(client: &Client, object: Value) {
    let name = object["metadata"]["name"].as_str().unwrap().to_owned();
    api_of(client, &object).delete(&name, &DeleteParams::default()).await.unwrap();
}

pub(crate) fn configmap(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "default", "name": name}})
}

/// Returns the stream's record of an object.
pub(crate) async fn last(bus: &Bus, plural: &str, namespace: Option<&str>, name: &str) -> Option<Stored> {
    bus.last(&ObjectId::new(kind(plural), namespace, name)).await.ok().flatten()
}

/// Returns the stream's last change of an object in the namespace `default`.
pub(crate) async fn change(bus: &Bus, plural: &str, name: &str) -> Option<Change> {
    match last(bus, plural, Some("default"), name).await?.record {
        Record::Object(event) => Some(event.change),
        _ => None,
    }
}

/// Waits until the stream has this resourceVersion of an object.
pub(crate) async fn arrives(bus: &Bus, plural: &str, object: &DynamicObject) {
    let metadata = &object.metadata;
    let (name, version) = (metadata.name.as_deref().unwrap(), metadata.resource_version.as_deref().unwrap());
    until(&format!("{plural} {name}@{version} is on the stream"), async || {
        let stored = last(bus, plural, metadata.namespace.as_deref(), name).await;
        stored.is_some_and(|stored| {
            matches!(stored.record, Record::Object(event)
                if matches!(&event.change, Change::Applied(snapshot) if snapshot.resource_version == version))
        })
    })
    .await;
}

/// Waits until the stream shows that an object of the namespace `default` is deleted.
pub(crate) async fn disappears(bus: &Bus, plural: &str, name: &str) {
    until(&format!("{plural} {name} is deleted on the stream"), async || {
        matches!(change(bus, plural, name).await, Some(Change::Deleted(_)))
    })
    .await;
}

/// Returns everything on the stream by sequence, for comparisons.
pub(crate) async fn contents(bus: &Bus) -> BTreeMap<u64, String> {
    let all = bus.load(Filter::Everything).await.unwrap();
    all.into_iter().map(|stored| (stored.sequence, format!("{:?}", stored.record))).collect()
}

/// A proxy to the API server that can be closed.
pub(crate) struct Gate {
    port: u16,
    is_open: watch::Sender<bool>,
}

impl Gate {
    /// Opens a proxy to the server of this configuration.
    pub(crate) async fn to(config: &Config) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let (port, server) = (listener.local_addr().unwrap().port(), config.cluster_url.port_u16().unwrap());
        let is_open = watch::Sender::new(true);
        let state = is_open.subscribe();
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let mut state = state.clone();
                tokio::spawn(async move {
                    if *state.borrow() {
                        let mut far = TcpStream::connect(("127.0.0.1", server)).await.unwrap();
                        tokio::select! {
                            _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
                            _ = state.wait_for(|is_open| !is_open) => {}
                        }
                    }
                });
            }
        });
        Self { port, is_open }
    }

    pub(crate) fn set(&self, is_open: bool) {
        self.is_open.send_replace(is_open);
    }

    pub(crate) fn client(&self, mut config: Config) -> Client {
        config.cluster_url = format!("https://127.0.0.1:{}", self.port).parse().unwrap();
        Client::try_from(config).unwrap()
    }
}

pub(crate) async fn config(plane: &ControlPlane) -> Config {
    let kubeconfig = Kubeconfig::read_from(plane.kubeconfig()).unwrap();
    Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap()
}

/// Creates a ServiceAccount in the namespace `default`.
pub(crate) async fn account(client: &Client, name: &str) {
    let metadata = json!({"namespace": "default", "name": name});
    create(client, json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})).await;
}

/// Grants permissions to a ServiceAccount of the namespace `default`, in one namespace or in all.
pub(crate) async fn grant(client: &Client, account: &str, name: &str, namespace: Option<&str>, rules: Value) {
    let api_version = "rbac.authorization.k8s.io/v1";
    let prefix = if namespace.is_some() { "" } else { "Cluster" };
    let metadata = json!({"namespace": namespace, "name": name});
    let (role, binding) = (format!("{prefix}Role"), format!("{prefix}RoleBinding"));
    let role = json!({"apiVersion": api_version, "kind": role, "metadata": metadata, "rules": rules});
    let binding = json!({
        "apiVersion": api_version, "kind": binding, "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role["kind"], "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": "default"}],
    });
    create(client, role).await;
    create(client, binding).await;
}
