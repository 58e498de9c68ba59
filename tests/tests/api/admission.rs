//! What `k8s/admission` refuses, with status 403.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use groundwork_testkit::{Server, servers_or_skip};
use groundwork_tests::{Manifest, Part, cluster, workspace};
use kube::Error;
use serde_json::json;

fn deploy_item(type_: &str) -> Manifest {
    let document = json!({
        "apiVersion": "landscaper.gardener.cloud/v1alpha1",
        "kind": "DeployItem",
        "metadata": {"name": "item"},
        "spec": {"type": type_, "config": {"type": type_}},
    });
    Manifest { file: "admission.rs".into(), document }
}

/// installations.md 1.3: the type of a DeployItem is immutable.
#[tokio::test]
async fn the_type_of_a_deploy_item_cannot_change() -> Result<()> {
    if !servers_or_skip(&[Server::Kubectl]) {
        return Ok(());
    }
    let Some(cluster) = cluster("admission").await? else {
        return Ok(());
    };
    let folder = workspace().join("k8s/admission");
    let output = cluster.plane().kubectl()?.args(["apply", "-k"]).arg(folder).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    cluster.create(&deploy_item("a")).await?;
    // The server takes notice of a policy a moment after it was created.
    for attempt in 0..100 {
        match cluster.replace(&deploy_item(&format!("b{attempt}")), Part::Object).await {
            Ok(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            Err(Error::Api(status)) => {
                ensure!(
                    status.code == 403 && status.message.contains("spec.type is immutable"),
                    "{status:?}"
                );
                let mut same = cluster.get(&deploy_item("")).await?;
                same["spec"]["config"] = json!("changed");
                let same = Manifest { file: "admission.rs".into(), document: same };
                cluster.replace(&same, Part::Object).await.context("other fields may change")?;
                return Ok(());
            }
            Err(other) => return Err(other.into()),
        }
    }
    bail!("the type can be changed");
}
