//! Admission policies of `k8s/admission` in a real API server.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use groundwork_testkit::{Server, servers_or_skip};
use groundwork_tests::{Cluster, Manifest, Part, UnknownFields, cluster, workspace};
use groundwork_yaml::Options;
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

/// The type of a DeployItem is immutable (`installations.md` 1.3).
#[tokio::test]
async fn the_type_of_a_deploy_item_cannot_change() -> Result<()> {
    if !servers_or_skip(&[Server::Kubectl]) {
        return Ok(());
    }
    let Some(cluster) = cluster(NAMESPACES[0]).await? else {
        return Ok(());
    };
    apply_policies(&cluster)?;
    cluster.create(&deploy_item("a")).await?;
    // The API server starts to enforce a policy a moment after its creation.
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

/// Applies the policies, bound to the namespaces of these tests only: other tests share this
/// control plane and create objects without policies.
fn apply_policies(cluster: &Cluster) -> Result<()> {
    let kubectl = |arguments: &[&str]| -> Result<Command> {
        let mut command = cluster.plane().kubectl()?;
        command.args(arguments).current_dir(workspace());
        Ok(command)
    };
    let built = kubectl(&["kustomize", "k8s/admission"])?.output()?;
    ensure!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let mut list = Vec::new();
    for document in groundwork_yaml::parse_all(&String::from_utf8(built.stdout)?, Options::default())? {
        let mut object = document.to_value();
        if object["kind"] == "ValidatingAdmissionPolicyBinding" {
            object["spec"]["matchResources"] = json!({"namespaceSelector": {"matchExpressions": [{
                "key": "kubernetes.io/metadata.name", "operator": "In", "values": NAMESPACES,
            }]}});
        }
        list.push(object);
    }
    let list = json!({"apiVersion": "v1", "kind": "List", "items": list}).to_string();
    let mut applying = kubectl(&["apply", "-f", "-"])?.stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
    applying.stdin.take().context("it reads")?.write_all(list.as_bytes())?;
    ensure!(applying.wait()?.success(), "the policies are not taken");
    Ok(())
}

const NAMESPACES: [&str; 2] = ["admission", "admission-installations"];

fn installation(name: &str, spec: &serde_json::Value, owner: Option<&str>) -> Manifest {
    let mut document = json!({
        "apiVersion": "landscaper.gardener.cloud/v1alpha1",
        "kind": "Installation",
        "metadata": {"name": name},
        "spec": {"blueprint": {"ref": {"resourceName": "b"}}},
    });
    for (field, value) in spec.as_object().into_iter().flatten() {
        document["spec"][field] = value.clone();
    }
    if let Some(kind) = owner {
        document["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": kind, "name": "parent", "uid": "1",
        }]);
    }
    Manifest { file: "admission.rs".into(), document }
}

/// I-64, I-90, I-98, I-128: `kubectl apply` rejects the objects that a job would reject, and
/// accepts those that Landscaper accepts.
#[tokio::test]
async fn rules_over_several_fields() -> Result<()> {
    if !servers_or_skip(&[Server::Kubectl]) {
        return Ok(());
    }
    let Some(cluster) = cluster(NAMESPACES[1]).await? else {
        return Ok(());
    };
    let before =
        installation("stands-already", &json!({"imports": {"data": [{"name": "a", "dataRef": "a"}]}}), None);
    cluster.create(&before).await?;
    apply_policies(&cluster)?;
    let data = json!({"name": "a", "dataRef": "a"});
    let target = json!({"name": "a", "target": "t"});
    let twice = json!({"imports": {"data": [data], "targets": [target]}});
    // The API server starts to enforce a policy a moment after its creation.
    let mut attempt = 0;
    while cluster
        .try_create(&installation(&format!("early-{attempt}"), &twice, None), UnknownFields::Refused)
        .await
        .is_ok()
    {
        attempt += 1;
        ensure!(attempt < 100, "the policy never takes effect");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let cron = |schedule: &str| json!({"automaticReconcile": {"failedReconcile": {"cronSpec": schedule}}});
    let export = |target: &str| json!({"exports": {"targets": [{"name": "a", "target": target}]}});
    for (spec, says) in [
        (twice, "names of imports must be unique over data and targets"),
        (
            json!({"exports": {"data": [data], "targets": [target]}}),
            "names of exports must be unique over data and targets",
        ),
        (cron("x"), "cronSpec must have five fields"),
        (cron("@fortnightly"), "cronSpec must have five fields"),
        (export("My_T"), "must have the name of an object"),
    ] {
        let refused = cluster.try_create(&installation("refused", &spec, None), UnknownFields::Refused).await;
        let answer = refused.err().map(|error| error.to_string()).unwrap_or_default();
        ensure!(answer.contains(says), "{spec}: {answer:?}");
    }
    let many: Vec<_> = (0..300).map(|index| json!({"name": format!("i{index}"), "dataRef": "a"})).collect();
    for (index, (spec, owner)) in [
        (json!({"imports": {"data": [data], "targets": [{"name": "b", "target": "t"}]}}), None),
        (json!({"imports": {"data": many}}), None),
        (cron("*/5 1,2 * jan-mar MON"), None),
        (cron("CRON_TZ=Europe/Berlin 30 2 * * *"), None),
        (cron("@every 1h30m"), None),
        (cron(""), None),
        (export("my.t-1"), None),
        (export("My_T"), Some("Installation")),
    ]
    .into_iter()
    .enumerate()
    {
        let taken = cluster
            .try_create(&installation(&format!("taken-{index}"), &spec, owner), UnknownFields::Refused)
            .await;
        taken.with_context(|| format!("{spec} is taken"))?;
    }
    Ok(())
}
