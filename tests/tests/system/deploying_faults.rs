//! Faults in the cluster of a Target: policies that deny requests, errors of a busy server, and a
//! Target that is deleted during a job.

use anyhow::{Result, ensure};
use groundwork_api::{DeployItem, Target};
use groundwork_tests::Proxy;
use serde_json::{Value, json};

use crate::case::Case;
use crate::deploying_charts::{chart, item, records};
use crate::deploying_waits::without_watch;
use crate::shared;
use crate::target_cluster::{
    cluster, create_item, create_item_with, give_job, job_over, outcome, run_job, target,
};

fn config_map(namespace: &str, name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": {"a": "canary"}})
}

/// The message about an admission policy's denial does not quote the policy, whose text may contain
/// the object. The deployer retries, and succeeds once the policy is gone. This applies to manifest
/// items and to releases.
#[tokio::test(flavor = "multi_thread")]
async fn what_an_admission_policy_denies() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let (case, cluster) = (Case::new(system, "denied").await?, cluster().await?);
    cluster.create_target(&case, "dev").await?;
    cluster.plane.create_namespace("denied").await?;
    let folder = "/apis/admissionregistration.k8s.io/v1";
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "no-maps"},
        "spec": {
            "matchConstraints": {"resourceRules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE", "UPDATE"]}]},
            "validations": [{
                "expression": "request.namespace != 'denied'", "reason": "Forbidden",
                "messageExpression": "'it holds ' + object.data.?a.orValue('canary')"}],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "no-maps"},
        "spec": {"policyName": "no-maps", "validationActions": ["Deny"]},
    });
    cluster.create(&format!("{folder}/validatingadmissionpolicies"), &policy).await?;
    cluster.create(&format!("{folder}/validatingadmissionpolicybindings"), &binding).await?;
    // The API server starts to enforce a policy a moment after its creation.
    cluster
        .until_denied("/api/v1/namespaces/denied/configmaps", |number| {
            config_map("denied", &format!("probe-{number}"))
        })
        .await?;

    let manifests = json!({"manifests": [{"manifest": config_map("denied", "own")}]});
    create_item_with(&case, "objects", "dev", &manifests, &json!({"timeout": "60s"})).await?;
    let mut release = item(&case, &chart("0.1.0", &[])?, "denied", &json!({"values": {"color": "canary"}}));
    release["spec"]["timeout"] = json!("60s");
    case.create::<DeployItem>("release", &release).await?;
    for name in ["objects", "release"] {
        give_job(&case, name, "1").await?;
        let found = case
            .until("the policy is told", name, |item: &DeployItem| {
                outcome(item).1.contains("is refused by an admission policy of the cluster")
            })
            .await?;
        ensure!(!outcome(&found).1.contains("canary"), "{:?}", outcome(&found));
    }
    cluster.delete(&format!("{folder}/validatingadmissionpolicybindings/no-maps")).await?;
    cluster.delete(&format!("{folder}/validatingadmissionpolicies/no-maps")).await?;
    for name in ["objects", "release"] {
        let found = job_over(&case, name, "1").await?;
        ensure!(outcome(&found) == ("Succeeded".into(), String::new()), "{name}: {:?}", outcome(&found));
    }
    let records = records(&cluster, "denied").await?;
    ensure!(records.last().is_some_and(|(_, status, _)| status == "deployed"), "the release is not deployed");
    ensure!(records.len() == 1, "tries have made {} revisions", records.len());
    Ok(())
}

/// A server answers some writes with 409, 429 and 500, and some completed writes with 500. All
/// items reach the same result as without these errors.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_answers_wrongly_at_times() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let (case, cluster) = (Case::new(system, "busy").await?, cluster().await?);
    cluster.plane.create_namespace("busy").await?;
    let proxy = Proxy::start(cluster.plane.client().await?).await?;
    let mut config = cluster.kubeconfig()?;
    config["clusters"][0]["cluster"] = json!({"server": proxy.url()});
    case.create::<Target>("dev", &target(&json!({"kubeconfig": config.to_string()}))).await?;
    proxy.set_faulty(true);
    let manifests: Vec<Value> =
        (0..40).map(|number| json!({"manifest": config_map("busy", &format!("object-{number}"))})).collect();
    create_item(&case, "objects", "dev", &json!({"manifests": manifests})).await?;
    let release = item(&case, &chart("0.1.0", &[])?, "busy", &json!({}));
    case.create::<DeployItem>("release", &release).await?;
    for job in ["1", "2"] {
        for name in ["objects", "release"] {
            let found = run_job(&case, name, job).await?;
            ensure!(outcome(&found) == ("Succeeded".into(), String::new()), "{name}: {:?}", outcome(&found));
        }
    }
    ensure!(proxy.disturbed() >= 4, "only {} writes were disturbed", proxy.disturbed());
    let list = cluster.get("/api/v1/namespaces/busy/configmaps").await?.unwrap_or_default();
    let is_own =
        |object: &&Value| object["metadata"]["name"].as_str().is_some_and(|name| name.starts_with("object-"));
    ensure!(list["items"].as_array().into_iter().flatten().filter(is_own).count() == 40, "{list}");
    let records = records(&cluster, "busy").await?;
    let states: Vec<&str> = records.iter().map(|(_, status, _)| status.as_str()).collect();
    ensure!(states == ["deployed"], "{states:?}");
    for name in ["objects", "release"] {
        case.delete::<DeployItem>(name).await?;
        give_job(&case, name, "3").await?;
        case.gone::<DeployItem>(name).await?;
    }
    let list = cluster.get("/api/v1/namespaces/busy/configmaps").await?.unwrap_or_default();
    ensure!(list["items"].as_array().into_iter().flatten().filter(is_own).count() == 0, "{list}");
    Ok(())
}

/// 403: the item names the right that the Target's user lacks, without the cluster's message, and
/// proceeds as soon as the right is granted.
#[tokio::test(flavor = "multi_thread")]
async fn a_user_without_a_right() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let (case, cluster) = (Case::new(system, "no-right").await?, cluster().await?);
    cluster.plane.create_namespace("no-right").await?;
    // The user may access Deployments only, but the items have other objects.
    let config = without_watch(&cluster, "no-right").await?;
    case.create::<Target>("dev", &target(&json!({"kubeconfig": config.to_string()}))).await?;
    create_item(
        &case,
        "objects",
        "dev",
        &json!({"manifests": [{"manifest": config_map("no-right", "own")}]}),
    )
    .await?;
    case.create::<DeployItem>("release", &item(&case, &chart("0.1.0", &[])?, "no-right", &json!({}))).await?;
    for (name, part) in
        [("objects", "may not get no-right/own of type ConfigMap"), ("release", "may not list secrets")]
    {
        give_job(&case, name, "1").await?;
        let is_told = |item: &DeployItem| outcome(item).1.contains("the user of the Target may not ");
        let found = case.until("the right is named", name, is_told).await?;
        let (phase, error) = outcome(&found);
        ensure!(
            !phase.is_empty() && phase != "Failed" && !error.contains("system:serviceaccount"),
            "{phase} {error}"
        );
        ensure!(error.contains(part), "{error}");
    }
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "all"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "deployer", "namespace": "no-right"}],
    });
    cluster.create("/apis/rbac.authorization.k8s.io/v1/namespaces/no-right/rolebindings", &binding).await?;
    for name in ["objects", "release"] {
        let found = job_over(&case, name, "1").await?;
        ensure!(outcome(&found) == ("Succeeded".into(), String::new()), "{name}: {:?}", outcome(&found));
    }
    Ok(())
}

/// If the Target is deleted while an item waits for an object in its cluster, the job fails with
/// that reason. A later job with the Target succeeds.
#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_goes_under_way() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let (case, cluster) = (Case::new(system, "gone-target").await?, cluster().await?);
    cluster.create_target(&case, "dev").await?;
    cluster.plane.create_namespace("gone-target").await?;
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "gone-target"}, "spec": {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "a", "image": "a"}]}},
    }});
    create_item(&case, "web", "dev", &json!({"manifests": [{"manifest": deployment}]})).await?;
    give_job(&case, "web", "1").await?;
    let path = "/apis/apps/v1/namespaces/gone-target/deployments/web";
    cluster.until("the Deployment is there", path, |found| found.is_some()).await?;
    case.delete::<Target>("dev").await?;
    let found = job_over(&case, "web", "1").await?;
    let (phase, error) = outcome(&found);
    ensure!(phase == "Failed" && error.contains("the target dev does not exist"), "{phase} {error}");
    // The item still knows the objects that it applied.
    let managed = found.status.unwrap_or_default().provider_status.get().cloned().unwrap_or_default();
    ensure!(managed["managedResources"][0]["resource"]["name"] == "web", "{managed}");

    cluster.create_target(&case, "dev").await?;
    let status = json!({"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1, "readyReplicas": 1});
    cluster.change(&format!("{path}/status"), &json!({"status": status})).await?;
    let found = run_job(&case, "web", "2").await?;
    ensure!(outcome(&found) == ("Succeeded".into(), String::new()), "{:?}", outcome(&found));
    Ok(())
}
