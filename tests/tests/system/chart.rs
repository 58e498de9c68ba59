//! Our own chart (`charts/groundwork`): our engine and Helm's render it alike, and it installs the
//! same objects as kustomize, which `overlays` tests in a cluster.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use groundwork_testkit::{Server, find, servers_or_skip};
use groundwork_tests::{System, documents, workspace};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use crate::shared;

const CHART: &str = "charts/groundwork";
const NAMESPACE: &str = "groundwork-system";

/// Renders the chart once with a program that reads request lines. Returns the objects and the
/// notes, or the error.
async fn rendered(program: &Path, arguments: &[&str], values: &Value, namespace: &str) -> Result<Value> {
    let request = json!({
        "dir": workspace().join(CHART), "values": values, "release": {"name": "gw", "namespace": namespace},
        "kubeVersion": "v1.36.0",
    });
    let mut child =
        Command::new(program).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut input = child.stdin.take().context("its input is a pipe")?;
    input.write_all(format!("{request}\n").as_bytes()).await?;
    drop(input);
    let output = child.wait_with_output().await?;
    ensure!(output.status.success(), "{}", program.display());
    Ok(serde_json::from_slice(&output.stdout)?)
}

async fn ours(values: &Value, namespace: &str) -> Result<Value> {
    rendered(&System::program("groundwork-judge")?, &["template", "helm"], values, namespace).await
}

/// Indexes objects by kind and name.
fn by_name(objects: Vec<Value>) -> BTreeMap<String, Value> {
    let name = |object: &Value| {
        format!(
            "{} {}",
            object["kind"].as_str().unwrap_or_default(),
            object["metadata"]["name"].as_str().unwrap_or_default()
        )
    };
    objects.into_iter().map(|object| (name(&object), object)).collect()
}

async fn objects(values: &Value, namespace: &str) -> Result<BTreeMap<String, Value>> {
    let answer = ours(values, namespace).await?;
    let manifest = answer["output"]["manifest"].as_str().with_context(|| answer["error"].to_string())?;
    Ok(by_name(documents(manifest)?))
}

/// Returns the output of kustomize, with the original names of ConfigMaps, and without the objects
/// that users apply beforehand.
async fn kustomized(system: &System, folder: &Path) -> Result<BTreeMap<String, Value>> {
    let text = system.kubectl(&["kustomize", &folder.display().to_string()]).await?;
    let mut names = BTreeMap::new();
    for object in documents(&text)?.iter().filter(|object| object["kind"] == "ConfigMap") {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        if let Some((plain, _)) =
            name.rsplit_once('-').filter(|(plain, _)| plain.starts_with("groundwork-nats"))
        {
            names.insert(name.to_owned(), plain.to_owned());
        }
    }
    let text = names.iter().fold(text, |text, (hashed, plain)| text.replace(hashed, plain));
    let mut objects = by_name(documents(&text)?);
    objects.remove(&format!("Namespace {NAMESPACE}"));
    Ok(objects)
}

/// Our engine and Helm's library return the same bytes, notes and errors.
#[tokio::test(flavor = "multi_thread")]
async fn the_chart_is_rendered_as_helm_renders_it() -> Result<()> {
    if !servers_or_skip(&[Server::Helm]) {
        return Ok(());
    }
    let original = find(Server::Helm)?.path;
    for values in [
        json!({}),
        json!({"highAvailability": true, "packageStore": true, "observability": true, "console": {"enabled": true}}),
        json!({"porch": true}),
        json!({"porch": true, "packageStore": true}),
        json!({"nats": {"enabled": false, "url": "tls://nats.example.org:4222"}, "deployers": {"manifest": false, "helm": false}, "targetSyncs": false}),
        json!({
            "image": {"repository": "registry.example.org:5000/gw/", "tag": "v9", "digests": {"watcher": format!("sha256:{}", "0a".repeat(32)), "nats": format!("sha256:{}", "1b".repeat(32))}, "pullPolicy": "Always", "pullSecrets": [{"name": "pull"}]},
            "pods": {
                "annotations": {"example.org/a": "b"}, "nodeSelector": {"disk": "ssd"},
                "tolerations": [{"key": "a", "operator": "Exists"}], "priorityClassName": "high",
            },
            "services": {"renderer": {"replicas": 3, "resources": {"limits": {"memory": "1Gi"}}, "env": {"GROUNDWORK_LOG": "debug"}}},
        }),
        json!({"nats": {"enabled": false}}),
        json!({"services": {"rendrer": {}}}),
        json!({"image": {"repository": "no-slash"}}),
        json!({"image": {"digests": {"watcher": "v9"}}}),
    ] {
        let (ours, helms) =
            tokio::try_join!(ours(&values, "apart"), rendered(&original, &[], &values, "apart"))?;
        ensure!(ours == helms, "{values}:\n{ours}\n{helms}");
    }
    Ok(())
}

/// Writes a temporary overlay. It must be inside the workspace, since it refers to its parts by
/// relative paths. The target folder may be missing if the programs were built elsewhere.
fn overlay(resources: &str) -> Result<tempfile::TempDir> {
    let target = workspace().join("target");
    std::fs::create_dir_all(&target)?;
    let folder = tempfile::Builder::new().prefix("overlay").tempdir_in(target)?;
    let text =
        format!("apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n{resources}");
    std::fs::write(folder.path().join("kustomization.yaml"), text)?;
    Ok(folder)
}

/// With the values that correspond to an overlay, the chart installs the same objects as the
/// overlay.
#[tokio::test(flavor = "multi_thread")]
async fn the_chart_installs_what_kustomize_does() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let own = overlay(
        "- ../../k8s/overlays/dev\n- ../../k8s/components/observability\ncomponents:\n- ../../k8s/components/package-store\n",
    )?;
    let beside_porch = overlay("- ../../k8s/overlays/dev\ncomponents:\n- ../../k8s/components/porch\n")?;
    for (folder, values) in [
        (
            workspace().join("k8s/overlays/dev"),
            json!({"deployers": {"mock": true}, "console": {"enabled": true}}),
        ),
        (
            workspace().join("k8s/overlays/ha"),
            json!({"highAvailability": true, "deployers": {"manifest": false, "helm": false}, "targetSyncs": false}),
        ),
        (
            own.path().to_owned(),
            json!({"deployers": {"mock": true}, "console": {"enabled": true}, "packageStore": true, "observability": true}),
        ),
        (
            beside_porch.path().to_owned(),
            json!({"deployers": {"mock": true}, "console": {"enabled": true}, "porch": true}),
        ),
    ] {
        let mut chart = objects(&values, NAMESPACE).await?;
        let nats = chart.get_mut("StatefulSet groundwork-nats").context("NATS is there")?;
        // In the chart, this annotation restarts the pods after a change of their configuration.
        // Kustomize does the same by hashes in the names of ConfigMaps.
        let removed = nats["spec"]["template"]["metadata"]
            .as_object_mut()
            .and_then(|metadata| metadata.remove("annotations"));
        ensure!(removed.is_some(), "nothing tells the pods of NATS that their configuration is another");
        let written = kustomized(system, &folder).await?;
        let names = |objects: &BTreeMap<String, Value>| objects.keys().cloned().collect::<Vec<_>>();
        ensure!(
            names(&chart) == names(&written),
            "{}:\n{:?}\n{:?}",
            folder.display(),
            names(&chart),
            names(&written)
        );
        for (name, object) in &written {
            ensure!(chart[name] == *object, "{} {name}:\n{}\n{object}", folder.display(), chart[name]);
        }
    }
    Ok(())
}

/// In another namespace no object refers to the default namespace, and each setting reaches the
/// pods.
#[tokio::test(flavor = "multi_thread")]
async fn settings_of_the_chart_arrive() -> Result<()> {
    let digest = format!("sha256:{}", "0a".repeat(32));
    let values = json!({
        "image": {
            "repository": "registry.example.org:5000/gw/",
            "tag": "v9",
            "digests": {"watcher": digest, "nats": digest},
        },
        "highAvailability": true,
        "pods": {"nodeSelector": {"disk": "ssd"}},
        "services": {"renderer": {"replicas": 3, "resources": {"limits": {"memory": "1Gi"}}, "env": {"GROUNDWORK_NATS_REPLICAS": "5"}}},
    });
    let objects = objects(&values, "apart").await?;
    ensure!(!json!(objects).to_string().contains(NAMESPACE), "something speaks of {NAMESPACE}");
    let renderer = &objects["Deployment groundwork-renderer"];
    let pod = &renderer["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    ensure!(renderer["spec"]["replicas"] == 3 && pod["nodeSelector"]["disk"] == "ssd", "{renderer}");
    ensure!(container["image"] == "registry.example.org:5000/gw/renderer:v9", "{container}");
    for (object, name) in [
        ("Deployment groundwork-watcher", "registry.example.org:5000/gw/watcher"),
        ("StatefulSet groundwork-nats", "nats"),
    ] {
        let image = &objects[object]["spec"]["template"]["spec"]["containers"][0]["image"];
        ensure!(*image == format!("{name}@{digest}"), "{image}");
    }
    ensure!(
        container["resources"]["limits"]["memory"] == "1Gi"
            && container["resources"]["requests"]["cpu"].is_string(),
        "{container}"
    );
    let replicas: Vec<_> = container["env"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|variable| variable["name"] == "GROUNDWORK_NATS_REPLICAS")
        .map(|variable| variable["value"].clone())
        .collect();
    ensure!(replicas == [json!("5")], "{container}");
    let deployer = &objects["Deployment groundwork-deployer-helm"];
    ensure!(deployer["spec"]["replicas"] == 2, "deployers are two as well: {deployer}");
    let pod = json!(deployer["spec"]["template"]["spec"]).to_string();
    ensure!(pod.contains("GROUNDWORK_GRPC_TLS_CERT") && pod.contains("groundwork-deployer-tls"), "{pod}");
    ensure!(!objects.contains_key("Deployment groundwork-deployer"), "the mock deployer was not asked for");
    Ok(())
}
