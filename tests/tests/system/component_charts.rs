//! Charts that are resources of components (`helm.md` 1).

use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};
use data_encoding::BASE64;
use groundwork_api::{ComponentVersionOverwrites, Context, DeployItem, Installation};
use groundwork_testkit::{Registry, RegistryOptions, Server, servers_or_skip};
use serde_json::{Value, json};

use crate::case::Case;
use crate::deploying_charts::{Repository, basic, chart, item};
use crate::registries::push;
use crate::shared;
use crate::support::outcome as outcome_of;
use crate::target_cluster::{cluster, outcome, run_job};

const CHART_LAYER: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";

/// Writes a component with four resources: a chart beside its descriptor, one in a registry, one in
/// a chart repository, and an artifact that is not a chart.
fn component(folder: &Path, registry: &str, repository: &str) -> Result<()> {
    let blueprint = "apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: Blueprint\nimports:\n- {name: cluster, type: target, \
        targetType: landscaper.gardener.cloud/kubernetes-cluster}\ndeployExecutions:\n- name: default\n  type: GoTemplate\n  template: |\n    \
        deployItems:\n    - name: web\n      type: landscaper.gardener.cloud/helm\n      target: {import: cluster}\n      config:\n        \
        apiVersion: helm.deployer.landscaper.gardener.cloud/v1alpha1\n        kind: ProviderConfiguration\n        name: shop\n        \
        namespace: component-charts\n        chart: {resourceRef: {{ getResourceKey \"cd://resources/chart\" }}}\n";
    let external = |name: &str, access: Value| json!({"name": name, "type": "helmChart", "version": "1.0.0", "relation": "external", "access": access});
    let artifact =
        |path: &str| json!({"type": "ociArtifact", "imageReference": format!("{registry}/{path}")});
    let descriptor = json!({"meta": {"schemaVersion": "v2"}, "component": {
        "name": "example.org/shop", "version": "1.0.0", "provider": "example.org", "repositoryContexts": [], "sources": [],
        "componentReferences": [],
        "resources": [
            {"name": "blueprint", "type": "landscaper.gardener.cloud/blueprint", "version": "1.0.0", "relation": "local"},
            {"name": "chart", "type": "helmChart", "version": "1.0.0", "relation": "local",
                "input": {"type": "file", "path": "web.tgz", "mediaType": CHART_LAYER}},
            external("artifact", artifact("charts/web:0.2.0")),
            external("image", artifact("images/web:1")),
            external("in-repository", json!({"type": "helm", "helmRepository": repository, "helmChart": "web:1.2.0"})),
        ],
    }});
    fs::create_dir_all(folder.join("blueprint"))?;
    fs::write(folder.join("component-descriptor.yaml"), descriptor.to_string())?;
    fs::write(folder.join("blueprint/blueprint.yaml"), blueprint)?;
    fs::write(folder.join("web.tgz"), BASE64.decode(chart("0.1.0", &[])?.as_bytes())?)?;
    Ok(())
}

/// Returns a key in the form of `getResourceKey`.
fn key(component: &str, resource: &str) -> Value {
    let text = format!("component:\n  name: {component}\n  version: 1.0.0\nresource:\n  name: {resource}\n");
    json!({"resourceRef": BASE64.encode(text.as_bytes())})
}

/// L10, R31: the chart is a file beside the descriptor, an artifact in a registry, or in a chart
/// repository. The blueprint gives the key, or the item names component and resource, to which the
/// overwrites of its Context apply. A missing artifact, or one that is not a chart, is an error.
#[tokio::test(flavor = "multi_thread")]
async fn charts_are_resources_of_components() -> Result<()> {
    if !servers_or_skip(&[Server::Registry]) {
        return Ok(());
    }
    let Some(system) = shared::system().await? else { return Ok(()) };
    let (case, cluster) = (Case::new(system, "component-charts").await?, cluster().await?);
    cluster.create_target(&case, "dev").await?;
    cluster.plane.create_namespace("component-charts").await?;
    let registry = Registry::start(&RegistryOptions::default()).await?;
    let layer = BASE64.decode(chart("0.2.0", &[])?.as_bytes())?;
    tokio::task::block_in_place(|| {
        registry.push_artifact("charts/web", "0.2.0", (CHART_LAYER, &layer), None)?;
        registry.push_artifact("images/web", "1", ("application/vnd.oci.image.layer.v1.tar", b"x"), None)
    })?;
    let repository =
        Repository::start("web", "1.2.0", &BASE64.decode(chart("1.2.0", &[])?.as_bytes())?).await?;
    let folder = tempfile::tempdir()?;
    component(folder.path(), &registry.address(), &repository.url)?;
    push(folder.path(), &registry, "c", " written").await?;

    let rule = json!({"source": {"componentName": "example.org/old"}, "substitution": {"componentName": "example.org/shop"}});
    case.create::<ComponentVersionOverwrites>("rules", &json!({"overwrites": [rule]})).await?;
    let credentials = json!({"auths": [{"url": repository.url, "authHeader": basic()}]});
    let place = json!({
        "repositoryContext": {"type": "ociRegistry", "baseUrl": format!("{}/c", registry.address())},
        "componentVersionOverwrites": "rules", "configurations": {"helmChartRepoCredentials": credentials},
    });
    case.create::<Context>("charts", &place).await?;
    let installation = json!({
        "metadata": {"annotations": {"landscaper.gardener.cloud/operation": "reconcile"}},
        "spec": {
            "context": "charts",
            "componentDescriptor": {"ref": {"componentName": "example.org/old", "version": "1.0.0"}},
            "blueprint": {"ref": {"resourceName": "blueprint"}},
            "imports": {"targets": [{"name": "cluster", "target": "dev"}]},
        },
    });
    case.create::<Installation>("shop", &installation).await?;
    let finished = case.finished("shop").await?;
    ensure!(outcome_of(&finished) == ("Succeeded".into(), String::new()), "{:?}", outcome_of(&finished));
    let config = cluster.get("/api/v1/namespaces/component-charts/configmaps/shop-config").await?;
    ensure!(config.is_some_and(|config| config["data"]["color"] == "blue"), "the chart's object");

    let reference = |resource: &str| json!({"fromResource": {"resourceName": resource, "ref": {"componentName": "example.org/old", "version": "1.0.0"}}});
    let image = format!("{}/charts/web:0.2.0", registry.address());
    let inline = json!({"meta": {"schemaVersion": "v2"}, "component": {"name": "example.org/mine", "version": "1.0.0", "resources": [
        {"name": "mine", "type": "helmChart", "access": {"type": "ociArtifact", "imageReference": image}}]}});
    for (name, source, version) in [
        ("by-key", key("example.org/shop", "artifact"), "0.2.0"),
        ("by-name", reference("artifact"), "0.2.0"),
        ("beside", reference("chart"), "0.1.0"),
        ("in-repository", reference("in-repository"), "1.2.0"),
        ("inline", json!({"fromResource": {"resourceName": "mine", "inline": inline}}), "0.2.0"),
    ] {
        let mut object = item(&case, "", "component-charts", &json!({"chart": source, "name": name}));
        object["spec"]["context"] = json!("charts");
        case.create::<DeployItem>(name, &object).await?;
        let found = run_job(&case, name, "1").await?;
        ensure!(outcome(&found) == ("Succeeded".into(), String::new()), "{name}: {:?}", outcome(&found));
        let status = found.status.unwrap_or_default().provider_status.get().cloned().unwrap_or_default();
        ensure!(status["releases"][0]["chartVersion"] == version, "{name}: {status}");
    }

    for (name, source, part) in [
        ("no-resource", key("example.org/shop", "none"), "no resource has the identity name=none"),
        // A key names a version to which overwrites have led already, so they do not apply again.
        ("no-component", key("example.org/old", "chart"), "example.org/old:1.0.0\" not found"),
        ("no-chart", reference("image"), "no matching layer found"),
        ("no-key", json!({"resourceRef": "%"}), "chart.resourceRef: it is not valid base64"),
        ("no-name", json!({"fromResource": {"ref": {}}}), "chart.fromResource: resourceName must be given"),
    ] {
        let mut object = item(&case, "", "component-charts", &json!({"chart": source, "name": name}));
        object["spec"]["context"] = json!("charts");
        object["spec"]["timeout"] = json!("1s");
        case.create::<DeployItem>(name, &object).await?;
        let (phase, error) = outcome(&run_job(&case, name, "1").await?);
        ensure!(phase == "Failed" && error.contains(part), "{name}: {phase} {error}");
    }
    Ok(())
}
