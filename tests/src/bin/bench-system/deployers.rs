//! Benchmark of items that deploy to a second API server: the time for many of them, the requests
//! to both clusters, and the cost of a job that changes nothing.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result};
use data_encoding::BASE64;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use groundwork_api::{DeployItem, Installation, Target};
use groundwork_testkit::{Audit, ControlPlane, ControlPlaneOptions};
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Map, Value, json};

use crate::load::{CLIENTS, Meter};
use crate::scenario::{Bench, PATIENCE, per, rounded};
use crate::watch;

type Figures = Map<String, Value>;

/// Number of objects that each item deploys.
const OBJECTS: usize = 10;
const NAMESPACE: &str = "deployed";

/// Type of the deployed items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Manifests,
    Charts,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Manifests => "manifests",
            Self::Charts => "charts",
        }
    }

    /// Returns type and configuration of an item.
    fn item(self, index: usize, chart: &str) -> (&'static str, Value) {
        match self {
            Self::Manifests => {
                let object = |number: usize| {
                    let metadata = json!({"name": format!("inst-{index}-{number}"), "namespace": NAMESPACE});
                    json!({"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "b"}}})
                };
                let manifests: Vec<Value> = (0..OBJECTS).map(object).collect();
                let config = json!({
                    "apiVersion": "manifest.deployer.landscaper.gardener.cloud/v1alpha2",
                    "kind": "ProviderConfiguration", "manifests": manifests,
                });
                ("landscaper.gardener.cloud/kubernetes-manifest", config)
            }
            Self::Charts => {
                let config = json!({
                    "apiVersion": "helm.deployer.landscaper.gardener.cloud/v1alpha1", "kind": "ProviderConfiguration",
                    "name": format!("inst-{index}"), "namespace": NAMESPACE, "chart": {"archive": {"raw": chart}},
                });
                ("landscaper.gardener.cloud/helm", config)
            }
        }
    }
}

/// Returns a packed chart with [`OBJECTS`] objects.
fn chart() -> Result<String> {
    let mut builder = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
    let mut add = |path: &str, text: &str| {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, format!("web/{path}"), text.as_bytes())
    };
    add("Chart.yaml", "apiVersion: v2\nname: web\nversion: 0.1.0\n")?;
    for number in 0..OBJECTS {
        let text = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{{{ .Release.Name }}}}-{number}\ndata: {{a: b}}\n"
        );
        add(&format!("templates/{number}.yaml"), &text)?;
    }
    Ok(BASE64.encode(&builder.into_inner()?.finish()?))
}

fn installation(namespace: &str, index: usize, kind: Kind, chart: &str) -> Result<Installation> {
    let (type_name, config) = kind.item(index, chart);
    let blueprint = format!(
        "apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: Blueprint\nimports:\n- {{name: cluster, type: target, targetType: \
         landscaper.gardener.cloud/kubernetes-cluster}}\ndeployExecutions:\n- name: default\n  type: GoTemplate\n  template: |\n    \
         deployItems:\n    - name: item\n      type: {type_name}\n      target: {{import: cluster}}\n      config: {config}\n"
    );
    Ok(serde_json::from_value(json!({
        "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Installation",
        "metadata": {
            "name": format!("inst-{index}"), "namespace": namespace,
            "annotations": {"landscaper.gardener.cloud/operation": "reconcile"},
        },
        "spec": {
            "imports": {"targets": [{"name": "cluster", "target": "cluster"}]},
            "blueprint": {"inline": {"filesystem": {"blueprint.yaml": blueprint}}},
        },
    }))?)
}

/// Counts the finished requests in the audit log of the second API server by verb.
fn requests(plane: &ControlPlane, from: usize) -> Result<(BTreeMap<String, usize>, usize)> {
    let text = std::fs::read_to_string(plane.audit_log().context("there is an audit log")?)?;
    let mut counts = BTreeMap::new();
    let finished =
        text.lines().skip(from).filter(|line| line.contains("ResponseComplete") && line.contains(NAMESPACE));
    for line in finished {
        let request: Value = serde_json::from_str(line)?;
        *counts.entry(request["verb"].as_str().unwrap_or_default().to_owned()).or_default() += 1;
    }
    Ok((counts, text.lines().count()))
}

impl Bench {
    /// Deploys `count` Installations with one item each, requests a job that changes nothing, and
    /// deletes the Installations.
    pub(crate) async fn deploy(&mut self, kind: Kind, count: usize) -> Result<Figures> {
        let options = ControlPlaneOptions {
            controller_manager: false,
            audit: Audit::Requests,
            owner_references_permission: false,
        };
        let plane = ControlPlane::start(options).await?;
        plane.create_namespace(NAMESPACE).await?;
        let (namespace, client) = (kind.name(), self.system.client().await?);
        self.system.plane.create_namespace(namespace).await?;
        self.until_context(namespace).await?;
        let kubeconfig = std::fs::read_to_string(plane.kubeconfig())?;
        let target: Target = serde_json::from_value(json!({
            "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Target", "metadata": {"name": "cluster"},
            "spec": {"type": "landscaper.gardener.cloud/kubernetes-cluster", "config": {"kubeconfig": kubeconfig}},
        }))?;
        Api::<Target>::namespaced(client.clone(), namespace).create(&PostParams::default(), &target).await?;
        let installations: Api<Installation> = Api::namespaced(client.clone(), namespace);
        let mut figures = Figures::new();
        let mut lines = requests(&plane, 0)?.1;
        for part in ["create", "unchanged", "delete"] {
            let meter = Meter::start(self)?;
            match part {
                "create" => create(&installations, namespace, kind, count).await?,
                "unchanged" => again(&installations, count).await?,
                _ => delete(&installations, &client, namespace, count).await?,
            }
            let name = format!("{}.{part}", kind.name());
            figures.extend(meter.stop(self, &name, count)?);
            let (counts, all) = requests(&plane, lines)?;
            lines = all;
            for (verb, times) in counts {
                figures.insert(format!("{name}.target.{verb}"), rounded(per(times, count)));
            }
        }
        Ok(figures)
    }
}

async fn create(installations: &Api<Installation>, namespace: &str, kind: Kind, count: usize) -> Result<()> {
    let (chart, parameters) = (chart()?, PostParams::default());
    stream::iter(0..count)
        .map(Ok::<_, anyhow::Error>)
        .try_for_each_concurrent(CLIENTS, async |index| {
            installations.create(&parameters, &installation(namespace, index, kind, &chart)?).await?;
            Ok(())
        })
        .await?;
    watch::until(installations, count, PATIENCE, |one| phase(one) == "Succeeded").await
}

fn phase(installation: &Installation) -> &str {
    installation.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

async fn again(installations: &Api<Installation>, count: usize) -> Result<()> {
    let job =
        |one: &Installation| one.status.as_ref().and_then(|status| status.job_id.clone()).unwrap_or_default();
    let before: BTreeMap<String, String> = installations
        .list(&ListParams::default())
        .await?
        .items
        .iter()
        .map(|one| (one.metadata.name.clone().unwrap_or_default(), job(one)))
        .collect();
    let ask = json!({"metadata": {"annotations": {"landscaper.gardener.cloud/operation": "reconcile"}}});
    stream::iter(before.keys())
        .map(Ok::<_, anyhow::Error>)
        .try_for_each_concurrent(CLIENTS, async |name| {
            installations.patch(name, &PatchParams::default(), &Patch::Merge(&ask)).await?;
            Ok(())
        })
        .await?;
    watch::until(installations, count, PATIENCE, |one| {
        let name = one.metadata.name.clone().unwrap_or_default();
        phase(one) == "Succeeded" && before.get(&name).is_some_and(|before| *before != job(one))
    })
    .await
}

async fn delete(
    installations: &Api<Installation>,
    client: &Client,
    namespace: &str,
    count: usize,
) -> Result<()> {
    stream::iter(0..count)
        .map(Ok::<_, anyhow::Error>)
        .try_for_each_concurrent(CLIENTS, async |index| {
            installations.delete(&format!("inst-{index}"), &DeleteParams::default()).await?;
            Ok(())
        })
        .await?;
    let items: Api<DeployItem> = Api::namespaced(client.clone(), namespace);
    let end = Instant::now() + PATIENCE;
    while !items.list(&ListParams::default().limit(1)).await?.items.is_empty() {
        anyhow::ensure!(Instant::now() < end, "items are left after {} s", PATIENCE.as_secs());
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    Ok(())
}

/// Measures one kind of item on a system of its own.
pub(crate) async fn deployers(binaries: PathBuf, kind: Kind, count: usize) -> Result<Figures> {
    let mut bench = Bench::start(binaries).await?.context(crate::NO_SERVERS)?;
    bench.deploy(kind, count).await.map_err(|error| bench.system.explained(error))
}
