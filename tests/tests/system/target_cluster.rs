//! Second API server as the cluster of Targets, for all tests that do not disturb it.

use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, Result};
use groundwork_api::{DeployItem, Target};
use groundwork_testkit::{Audit, ControlPlane, ControlPlaneOptions};
use groundwork_tests::wait_for;
use http::{Method, Request};
use kube::Client;
use kube::api::PostParams;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::case::Case;
use crate::support::PATIENCE;

static CLUSTER: OnceCell<ControlPlane> = OnceCell::const_new();

/// Cluster with the administrator's client.
pub(crate) struct TargetCluster {
    pub(crate) plane: &'static ControlPlane,
    /// Client of the test's own runtime, since its tasks end with that runtime.
    client: Client,
}

/// Returns the cluster that the tests share.
pub(crate) async fn cluster() -> Result<TargetCluster> {
    let options = ControlPlaneOptions {
        controller_manager: false,
        audit: Audit::Requests,
        owner_references_permission: false,
    };
    let plane = CLUSTER.get_or_try_init(|| ControlPlane::start(options)).await?;
    Ok(TargetCluster { plane, client: plane.client().await? })
}

impl TargetCluster {
    /// Returns the kubeconfig of this cluster.
    pub(crate) fn kubeconfig(&self) -> Result<Value> {
        Ok(serde_json::from_str(&std::fs::read_to_string(self.plane.kubeconfig())?)?)
    }

    /// Creates a Target of this cluster, with its kubeconfig as a text.
    pub(crate) async fn create_target(&self, case: &Case<'_>, name: &str) -> Result<Target> {
        let config = json!({"kubeconfig": self.kubeconfig()?.to_string()});
        case.create(name, &target(&config)).await
    }

    /// Returns an object. `path` is its path on the API server.
    pub(crate) async fn get(&self, path: &str) -> Result<Option<Value>> {
        match self.send(Method::GET, path, &Value::Null).await {
            Ok(found) => Ok(Some(found)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) async fn create(&self, folder: &str, object: &Value) -> Result<Value> {
        Ok(self.send(Method::POST, folder, object).await?)
    }

    /// Changes an object by a merge patch.
    pub(crate) async fn change(&self, path: &str, change: &Value) -> Result<Value> {
        Ok(self.send(Method::PATCH, path, change).await?)
    }

    pub(crate) async fn delete(&self, path: &str) -> Result<()> {
        self.send(Method::DELETE, path, &Value::Null).await?;
        Ok(())
    }

    /// Creates objects until the cluster rejects one.
    pub(crate) async fn until_denied(&self, folder: &str, object: impl Fn(usize) -> Value) -> Result<()> {
        let number = AtomicUsize::new(0);
        wait_for("an admission policy is in force", PATIENCE, async || {
            let next = object(number.fetch_add(1, Ordering::Relaxed));
            match self.send(Method::POST, folder, &next).await {
                Err(kube::Error::Api(status)) if status.code == 403 => Ok(()),
                other => Err(format!("{:?}", other.map(drop))),
            }
        })
        .await
    }

    #[expect(clippy::disallowed_methods, reason = "the API server is one that the test has started")]
    async fn send(&self, method: Method, path: &str, body: &Value) -> Result<Value, kube::Error> {
        let content =
            if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let bytes = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = Request::builder().method(method).uri(path).header("content-type", content).body(bytes);
        self.client.request(request.map_err(kube::Error::HttpError)?).await
    }

    /// Waits until an object satisfies a condition. A missing object is `None`.
    pub(crate) async fn until(
        &self,
        what: &str,
        path: &str,
        is_so: impl Fn(Option<&Value>) -> bool,
    ) -> Result<()> {
        wait_for(what, PATIENCE, async || {
            let found = self.get(path).await.map_err(|error| error.to_string())?;
            if is_so(found.as_ref()) { Ok(()) } else { Err(found.unwrap_or_default().to_string()) }
        })
        .await
    }

    /// Returns verbs and paths of the finished requests whose path contains a text.
    pub(crate) fn requests(&self, part: &str) -> Result<Vec<(String, String)>> {
        let log = self.plane.audit_log().context("the API server writes an audit log")?;
        let text = std::fs::read_to_string(log)?;
        let lines = text.lines().filter(|line| line.contains("ResponseComplete") && line.contains(part));
        let requests = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let requests = requests.map(|one| (word(&one["verb"]), word(&one["requestURI"])));
        Ok(requests.filter(|(_, address)| address.contains(part)).collect())
    }
}

/// Returns a Target of the type for Kubernetes clusters.
pub(crate) fn target(config: &Value) -> Value {
    json!({"spec": {"type": "landscaper.gardener.cloud/kubernetes-cluster", "config": config}})
}

/// Creates an item of the manifest type without an Execution.
pub(crate) async fn create_item(
    case: &Case<'_>,
    name: &str,
    target: &str,
    config: &Value,
) -> Result<DeployItem> {
    create_item_with(case, name, target, config, &json!({})).await
}

/// Creates such an item with more fields in its spec.
pub(crate) async fn create_item_with(
    case: &Case<'_>,
    name: &str,
    target: &str,
    config: &Value,
    spec: &Value,
) -> Result<DeployItem> {
    let mut object = json!({"spec": {
        "type": "landscaper.gardener.cloud/kubernetes-manifest",
        "target": {"name": target, "namespace": case.namespace},
        "config": configuration(config),
    }});
    for (field, value) in spec.as_object().into_iter().flatten() {
        object["spec"][field] = value.clone();
    }
    case.create(name, &object).await
}

/// Returns a configuration of the manifest deployer.
pub(crate) fn configuration(members: &Value) -> Value {
    let mut config = json!({
        "apiVersion": "manifest.deployer.landscaper.gardener.cloud/v1alpha2", "kind": "ProviderConfiguration",
    });
    for (member, value) in members.as_object().into_iter().flatten() {
        config[member] = value.clone();
    }
    config
}

/// Gives an item a job, as its Execution would.
pub(crate) async fn give_job(case: &Case<'_>, name: &str, job: &str) -> Result<()> {
    wait_for("the status is written", PATIENCE, async || {
        let item = case.get::<DeployItem>(name).await.map_err(|error| error.to_string())?;
        let mut changed = json!(item);
        changed["status"]["jobID"] = json!(job);
        let changed: DeployItem = serde_json::from_value(changed).map_err(|error| error.to_string())?;
        let written = case.api().replace_status(name, &PostParams::default(), &changed).await;
        written.map(drop).map_err(|error| error.to_string())
    })
    .await
}

/// Gives an item a job, and waits for its end.
pub(crate) async fn run_job(case: &Case<'_>, name: &str, job: &str) -> Result<DeployItem> {
    give_job(case, name, job).await?;
    job_over(case, name, job).await
}

pub(crate) async fn job_over(case: &Case<'_>, name: &str, job: &str) -> Result<DeployItem> {
    case.until(&format!("job {job} of {name} has ended"), name, |item: &DeployItem| {
        item.status.as_ref().is_some_and(|status| status.job_id_finished.as_deref() == Some(job))
    })
    .await
}

/// Returns phase and last error of an item.
pub(crate) fn outcome(item: &DeployItem) -> (String, String) {
    let status = item.status.clone().unwrap_or_default();
    let error = status.last_error.map(|error| format!("{}: {}", error.reason, error.message));
    (status.phase.unwrap_or_default(), error.unwrap_or_default())
}
