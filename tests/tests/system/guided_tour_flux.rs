//! Part of Landscaper's guided tour that hands objects to Flux. The test acts in place of Flux'
//! controllers: it sets the status of a Kustomization to applied, and creates the objects that the
//! Kustomization stands for.

use anyhow::{Context as _, Result, ensure};
use groundwork_api::DataObject;
use serde_json::{Value, json};

use crate::guided_tour::Tour;

const SOURCES: &str = "/apis/source.toolkit.fluxcd.io/v1/namespaces/flux-system/gitrepositories";
const KUSTOMIZATIONS: &str = "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/flux-system/kustomizations";
const SECRET: &str = "/api/v1/namespaces/flux-system/secrets/cluster2";

/// Starts the tour in a cluster that has the kinds of Flux.
async fn begin(namespace: &str) -> Result<Option<Tour<'static>>> {
    let Some(tour) = Tour::begin(namespace, &["my-cluster", "my-cluster-2"]).await? else { return Ok(None) };
    for (group, kind, plural) in [
        ("source.toolkit.fluxcd.io", "GitRepository", "gitrepositories"),
        ("kustomize.toolkit.fluxcd.io", "Kustomization", "kustomizations"),
    ] {
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{group}")},
            "spec": {
                "group": group, "scope": "Namespaced", "names": {"kind": kind, "plural": plural},
                "versions": [{
                    "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
                }],
            },
        });
        tour.cluster.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await?;
    }
    for name in ["flux-system", "cu-dataflow"] {
        tour.cluster.plane.create_namespace(name).await?;
    }
    for path in [SOURCES, KUSTOMIZATIONS] {
        tour.cluster.until("the kind is served", path, |found| found.is_some()).await?;
    }
    tour.context("components/helm-chart").await?;
    Ok(Some(tour))
}

/// Waits for a Kustomization, and reports its last request as handled. Returns the Kustomization as
/// it was at that request.
async fn applied(tour: &Tour<'_>, name: &str) -> Result<Value> {
    let path = format!("{KUSTOMIZATIONS}/{name}");
    tour.cluster.until("the Kustomization is there", &path, |found| found.is_some()).await?;
    let asked = tour.cluster.get(&path).await?.context("the Kustomization")?;
    let requested = &asked["metadata"]["annotations"]["reconcile.fluxcd.io/requestedAt"];
    let condition = |kind: &str| json!({"type": kind, "status": "True"});
    let status = json!({"conditions": [condition("Ready"), condition("Healthy")], "lastHandledReconcileAt": requested});
    tour.cluster.change(&format!("{path}/status"), &json!({"status": status})).await?;
    Ok(asked)
}

/// Three parts of the tour: Flux works alone after the deployment, Flux acts when the Installation
/// does, and a token from one Kustomization is passed to the next one.
#[tokio::test(flavor = "multi_thread")]
async fn the_objects_of_the_tour_for_flux_are_deployed() -> Result<()> {
    let Some(tour) = begin("guided-tour-flux").await? else { return Ok(()) };
    tour.components("kustomize/02-podinfo/commands/component-constructor").await?;
    tour.succeeds("kustomize/02-podinfo/installation/installation").await?;
    let source = tour.cluster.get(&format!("{SOURCES}/podinfo")).await?.context("the GitRepository")?;
    let expected = json!({
        "url": "https://github.com/stefanprodan/podinfo", "ref": {"tag": "6.7.0"}, "interval": "60m", "timeout": "60s",
    });
    ensure!(source["spec"] == expected, "{source}");
    let kustomization =
        tour.cluster.get(&format!("{KUSTOMIZATIONS}/podinfo")).await?.context("the Kustomization")?;
    ensure!(kustomization["spec"]["kubeConfig"]["secretRef"]["name"] == "cluster2", "{kustomization}");
    ensure!(tour.cluster.get(SECRET).await?.is_some(), "the access to the other cluster is not there");
    tour.deleted("podinfo").await?;
    ensure!(tour.cluster.get(SECRET).await?.is_none(), "the access to the other cluster is left");

    tour.components("kustomize/03-podinfo-landscaper-controlled/commands/component-constructor").await?;
    let installation = "kustomize/03-podinfo-landscaper-controlled/installation/installation";
    let (ended, asked) = tokio::join!(tour.succeeds(installation), applied(&tour, "podinfo"));
    ended?;
    ensure!(asked?["spec"]["suspend"] == false, "Flux was not to act");
    let left = tour.cluster.get(&format!("{KUSTOMIZATIONS}/podinfo")).await?.context("the Kustomization")?;
    ensure!(left["spec"]["suspend"] == true, "Flux acts on its own after the job: {left}");
    tour.deleted("podinfo").await?;

    tour.components("kustomize/04-dataflow/commands/component-constructor").await?;
    for name in ["gitrepository", "secret"] {
        tour.succeeds(&format!("kustomize/04-dataflow/installation/installation-{name}")).await?;
    }
    let name = tour.case.get::<DataObject>("gitrepository-name").await?;
    ensure!(name.data.get() == Some(&json!("landscaper")), "{name:?}");
    let (ended, asked) = tokio::join!(
        tour.succeeds("kustomize/04-dataflow/installation/installation-root"),
        token_handed_on(&tour)
    );
    ended?;
    let patch = asked?["spec"]["patches"][0]["patch"].clone();
    let patch: Value = groundwork_yaml::from_str(patch.as_str().unwrap_or_default())?;
    ensure!(patch["data"] == json!({"token": "gold"}), "{patch}");
    for name in ["root", "gitrepository", "secret"] {
        tour.deleted(&format!("dataflow-{name}")).await?;
    }
    ensure!(tour.cluster.get(SECRET).await?.is_none(), "the access to the other cluster is left");
    Ok(())
}

/// The provider's Kustomization creates a Secret whose token arrives a little later. Returns the
/// consumer's Kustomization.
async fn token_handed_on(tour: &Tour<'_>) -> Result<Value> {
    applied(tour, "dataflow-tokenprovider").await?;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "test-secret"}, "data": {"token": "Z29sZA=="},
    });
    tour.cluster.create("/api/v1/namespaces/cu-dataflow/secrets", &secret).await?;
    applied(tour, "dataflow-tokenconsumer").await
}
