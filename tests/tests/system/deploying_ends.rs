//! Items whose jobs cannot succeed (`helm.md` 9 and 10, `installations.md` 7.6): such a job leaves
//! no half-done work, reports the cause, and ends at once if it can never succeed.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use groundwork_api::DeployItem;
use serde_json::{Value, json};

use crate::case::Case;
use crate::deploying_charts::{archive, chart, item, records};
use crate::shared;
use crate::target_cluster::{
    TargetCluster, cluster, configuration, create_item_with, give_job, job_over, outcome, run_job, target,
};

/// Claim that is never bound, because the cluster has no controllers.
const CLAIM: &str = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: never}\n\
                     spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n";

fn address(namespace: &str, name: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps/{name}")
}

async fn states(cluster: &TargetCluster, namespace: &str) -> Result<Vec<String>> {
    let records = records(cluster, namespace).await?;
    Ok(records.into_iter().map(|(revision, status, _)| format!("{revision} {status}")).collect())
}

async fn start(namespace: &str) -> Result<Option<(Case<'static>, TargetCluster)>> {
    let Some(system) = shared::system().await? else { return Ok(None) };
    let (case, cluster) = (Case::new(system, namespace).await?, cluster().await?);
    cluster.create_target(&case, "dev").await?;
    cluster.plane.create_namespace(namespace).await?;
    Ok(Some((case, cluster)))
}

/// Creates a release item with a timeout.
async fn create_release(
    case: &Case<'_>,
    chart: &str,
    namespace: &str,
    timeout: &str,
    more: &Value,
) -> Result<()> {
    let mut said = item(case, chart, namespace, more);
    said["spec"]["timeout"] = json!(timeout);
    case.create::<DeployItem>("web", &said).await?;
    Ok(())
}

async fn change(case: &Case<'_>, chart: &str, namespace: &str, more: &Value) -> Result<()> {
    let config = item(case, chart, namespace, more)["spec"]["config"].clone();
    case.change::<DeployItem>("web", &json!({"spec": {"config": config}})).await?;
    Ok(())
}

fn succeeded(found: &DeployItem) -> Result<()> {
    ensure!(outcome(found) == ("Succeeded".into(), String::new()), "{:?}", outcome(found));
    Ok(())
}

/// An upgrade with `atomic` whose time runs out is rolled back before its job ends: for the timeout
/// of the item, for that of the release, and in a hook.
#[tokio::test(flavor = "multi_thread")]
async fn upgrades_out_of_time_are_rolled_back() -> Result<()> {
    let endless = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: endless, annotations: {helm.sh/hook: pre-upgrade}}\n\
                   spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}\n";
    for (namespace, timeout, own, template) in [
        ("late-item", "12s", Value::Null, CLAIM),
        ("late-own", "90s", json!("8s"), CLAIM),
        ("late-hook", "12s", Value::Null, endless),
    ] {
        let Some((case, cluster)) = start(namespace).await? else { return Ok(()) };
        let mut upgrade = json!({"atomic": true});
        if !own.is_null() {
            upgrade["timeout"] = own;
        }
        let with =
            |color: &str| json!({"values": {"color": color}, "helmDeploymentConfig": {"upgrade": upgrade}});
        create_release(&case, &chart("0.1.0", &[])?, namespace, timeout, &with("blue")).await?;
        succeeded(&run_job(&case, "web", "1").await?)?;
        change(&case, &chart("0.2.0", &[("templates/more.yaml", template)])?, namespace, &with("red"))
            .await?;
        let (phase, error) = outcome(&run_job(&case, "web", "2").await?);
        ensure!(
            phase == "Failed" && error.contains("has been rolled back due to atomic being set: "),
            "{namespace}: {phase} {error}"
        );
        let what = if template == CLAIM { "never of type PersistentVolumeClaim" } else { "pre-upgrade hook" };
        ensure!(error.contains(what), "{namespace}: the cause is not told: {error}");
        let found = states(&cluster, namespace).await?;
        ensure!(found == ["1 superseded", "2 failed", "3 deployed"], "{namespace}: {found:?}");
        let map = cluster.get(&address(namespace, "shop-config")).await?.context("the ConfigMap")?;
        ensure!(map["data"]["color"] == "blue", "{namespace}: {map}");
        let claim = format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims/never");
        ensure!(
            cluster.get(&claim).await?.is_none_or(|found| !found["metadata"]["deletionTimestamp"].is_null())
        );
    }
    Ok(())
}

/// A hook that runs out of time counts as failed. Its policies apply, and the next job runs it
/// again.
#[tokio::test(flavor = "multi_thread")]
async fn hooks_out_of_time_have_failed() -> Result<()> {
    let Some((case, cluster)) = start("late-hooks").await? else { return Ok(()) };
    let hook = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: hq, annotations: {helm.sh/hook: \"pre-install,pre-upgrade\", \
                helm.sh/hook-delete-policy: \"hook-succeeded,hook-failed\"}}\n\
                spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}\n";
    let chart = chart("0.1.0", &[("templates/hook.yaml", hook)])?;
    create_release(&case, &chart, "late-hooks", "8s", &json!({})).await?;
    let (phase, error) = outcome(&run_job(&case, "web", "1").await?);
    ensure!(
        phase == "Failed" && error.contains("pre-install hook web/templates/hook.yaml"),
        "{phase} {error}"
    );
    let job = "/apis/batch/v1/namespaces/late-hooks/jobs/hq";
    ensure!(cluster.get(job).await?.is_none(), "the job of the hook is left");
    let last = records(&cluster, "late-hooks").await?.pop().context("a record")?;
    ensure!(last.1 == "failed" && last.2["hooks"][0]["last_run"]["phase"] == "Failed", "{last:?}");

    case.change::<DeployItem>("web", &json!({"spec": {"timeout": "60s"}})).await?;
    give_job(&case, "web", "2").await?;
    cluster.until("the hook runs again", job, |found| found.is_some()).await?;
    let now = "2026-01-01T00:00:01Z";
    let complete = json!({"status": {"startTime": now, "completionTime": now, "succeeded": 1, "uncountedTerminatedPods": {}, "conditions": [
        {"type": "SuccessCriteriaMet", "status": "True", "lastTransitionTime": now},
        {"type": "Complete", "status": "True", "lastTransitionTime": now},
    ]}});
    cluster.change(&format!("{job}/status"), &complete).await?;
    succeeded(&job_over(&case, "web", "2").await?)?;
    ensure!(cluster.get(job).await?.is_none(), "the job of the hook is left");
    Ok(())
}

/// A permanent error ends the job long before its timeout, and names the field and the rule.
#[tokio::test(flavor = "multi_thread")]
async fn what_can_never_work_ends_at_once() -> Result<()> {
    let service = "apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec: {ports: [{port: 99999999}]}\n";
    let number = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: 123}\n";
    let undecodable = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: u, annotations: {a: 5}}\n";
    let twice = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: dup}\ndata: {a: \"1\"}\n---\napiVersion: v1\n\
                 kind: ConfigMap\nmetadata: {name: dup}\ndata: {a: \"2\"}\n";
    for (namespace, template, part) in [
        ("never-port", service, "spec.ports[0].port: Invalid value: must be between 1 and 65535, inclusive"),
        ("never-name", number, "metadata.name of an object of kind ConfigMap must be a text"),
        (
            "never-type",
            undecodable,
            "ObjectMeta.metadata.annotations is a number, but must have the type string",
        ),
        ("never-twice", twice, "configmaps \"dup\" already exists: the chart has it more than once"),
    ] {
        let Some((case, cluster)) = start(namespace).await? else { return Ok(()) };
        create_release(&case, &chart("0.1.0", &[])?, namespace, "60s", &json!({})).await?;
        succeeded(&run_job(&case, "web", "1").await?)?;
        change(&case, &chart("0.2.0", &[("templates/wrong.yaml", template)])?, namespace, &json!({})).await?;
        let begun = Instant::now();
        let found = run_job(&case, "web", "2").await?;
        let (phase, error) = outcome(&found);
        ensure!(phase == "Failed" && error.contains(part), "{namespace}: {phase} {error}");
        ensure!(begun.elapsed() < Duration::from_secs(40), "{namespace}: it took {:?}", begun.elapsed());
        ensure!(
            cluster.get(&address(namespace, "dup")).await?.is_none(),
            "{namespace}: one of the two is there"
        );
    }
    Ok(())
}

/// Fields unknown to the cluster do not block the upgrade of a release. The deployer drops them and
/// reports this.
#[tokio::test(flavor = "multi_thread")]
async fn unknown_fields_are_left_out() -> Result<()> {
    let Some((case, cluster)) = start("unknown").await? else { return Ok(()) };
    // No controller reconciles Deployments here, so the readiness check is off.
    let unwatched = json!({"readinessChecks": {"disableDefault": true}});
    let deployment = |image: &str| {
        format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: d, uid: \"1-2\", resourceVersion: \"5\", lables: {{a: b}}, managedFields: []}}\n\
             spec:\n  hostUserz: true\n  selector: {{matchLabels: {{a: b}}}}\n  template:\n    metadata: {{labels: {{a: b}}}}\n    \
             spec: {{containers: [{{name: c, image: {image}, resorces: {{}}}}]}}\n\
             ---\napiVersion: v1\nkind: Service\nmetadata: {{name: s}}\nspec: {{trafficDistribootion: x, ports: [{{port: 80}}]}}\n\
             ---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: m}}\ndata: {{by: {image}}}\nspec: {{a: 1}}\n"
        )
    };
    let path = "/apis/apps/v1/namespaces/unknown/deployments/d";
    create_release(
        &case,
        &chart("0.1.0", &[("templates/d.yaml", &deployment("one"))])?,
        "unknown",
        "30s",
        &unwatched,
    )
    .await?;
    succeeded(&run_job(&case, "web", "1").await?)?;
    change(&case, &chart("0.2.0", &[("templates/d.yaml", &deployment("two"))])?, "unknown", &unwatched)
        .await?;
    succeeded(&run_job(&case, "web", "2").await?)?;
    let found = cluster.get(path).await?.context("the Deployment")?;
    ensure!(found["spec"]["template"]["spec"]["containers"][0]["image"] == "two", "{found}");
    let map = cluster.get(&address("unknown", "m")).await?.context("the ConfigMap")?;
    ensure!(map["data"] == json!({"by": "two"}), "{map}");
    let warnings = case.warnings_with::<DeployItem>("web", "ChartWarning").await?;
    for part in [".spec.hostUserz", ".metadata.lables", ".spec.template.spec.containers[].resorces"] {
        ensure!(warnings.iter().any(|(_, text)| text.contains(part)), "{part}: {warnings:?}");
    }

    let manifest = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "n", "namespace": "unknown"}, "data": {"a": "1"}, "spec": {}});
    let config = json!({"manifests": [{"manifest": manifest}]});
    create_item_with(&case, "manifest", "dev", &config, &json!({})).await?;
    succeeded(&run_job(&case, "manifest", "1").await?)?;
    let warnings = case.warnings_with::<DeployItem>("manifest", "ManifestWarning").await?;
    ensure!(
        warnings.iter().any(|(_, text)| text.contains("the cluster does not know the fields .spec")),
        "{warnings:?}"
    );
    Ok(())
}

/// A user without the right to list ConfigMaps can install a chart that has none.
#[tokio::test(flavor = "multi_thread")]
async fn few_rights_are_enough() -> Result<()> {
    let Some((case, cluster)) = start("few-rights").await? else { return Ok(()) };
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "installer"}});
    cluster.create("/api/v1/namespaces/few-rights/serviceaccounts", &account).await?;
    let kubeconfig = cluster.plane.service_account_kubeconfig("few-rights", "installer").await?;
    let rules = json!([{"apiGroups": [""], "resources": ["secrets", "services"], "verbs": ["*"]}]);
    let folder = "/apis/rbac.authorization.k8s.io/v1/namespaces/few-rights";
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "installer"}, "rules": rules});
    cluster.create(&format!("{folder}/roles"), &role).await?;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "installer"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "installer"},
        "subjects": [{"kind": "ServiceAccount", "name": "installer", "namespace": "few-rights"}],
    });
    cluster.create(&format!("{folder}/rolebindings"), &binding).await?;
    let config = json!({"kubeconfig": std::fs::read_to_string(&kubeconfig)?});
    case.create::<groundwork_api::Target>("poor", &target(&config)).await?;
    let service = "apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec: {ports: [{port: 80}]}\n";
    let chart = archive(&[
        ("Chart.yaml", "apiVersion: v2\nname: web\nversion: 0.1.0\n"),
        ("templates/s.yaml", service),
    ])?;
    let mut said = item(&case, &chart, "few-rights", &json!({}));
    said["spec"]["target"]["name"] = json!("poor");
    said["spec"]["timeout"] = json!("60s");
    case.create::<DeployItem>("web", &said).await?;
    succeeded(&run_job(&case, "web", "1").await?)?;
    Ok(())
}

/// A job ID may be any text.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_with_strange_names() -> Result<()> {
    let Some((case, cluster)) = start("strange-jobs").await? else { return Ok(()) };
    create_release(&case, &chart("0.1.0", &[])?, "strange-jobs", "30s", &json!({})).await?;
    for (number, job) in ["-1", "a job", &"j".repeat(70)].into_iter().enumerate() {
        let with = json!({"values": {"color": format!("c{number}")}});
        change(&case, &chart("0.1.0", &[])?, "strange-jobs", &with).await?;
        succeeded(&run_job(&case, "web", job).await?)?;
    }
    let found = states(&cluster, "strange-jobs").await?;
    ensure!(found == ["1 superseded", "2 superseded", "3 deployed"], "{found:?}");
    Ok(())
}

/// After a timeout, the status of item and release contains the message of the API server.
#[tokio::test(flavor = "multi_thread")]
async fn the_cause_survives_the_time() -> Result<()> {
    let Some((case, cluster)) = start("lost-causes").await? else { return Ok(()) };
    let webhook = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "lost-causes-away"},
        "webhooks": [{
            "name": "deny.causes.example.org", "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Fail",
            "clientConfig": {"url": "https://127.0.0.1:1/"},
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "lost-causes"}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["serviceaccounts"]}],
        }],
    });
    cluster.create("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", &webhook).await?;
    let object = |kind: &str, namespace: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "x", "namespace": namespace}});
    for (name, manifest, part) in [
        (
            "away",
            object("ServiceAccount", "lost-causes"),
            "the admission webhook deny.causes.example.org does not answer",
        ),
        ("nowhere", object("ConfigMap", "lost-nowhere"), "namespaces \"lost-nowhere\" not found"),
        (
            "unknown",
            json!({"apiVersion": "causes.example.org/v1", "kind": "Never", "metadata": {"name": "x"}}),
            "the cluster has no kind Never in causes.example.org/v1",
        ),
    ] {
        let config = json!({"manifests": [{"manifest": manifest}]});
        create_item_with(&case, name, "dev", &config, &json!({"timeout": "8s"})).await?;
        let (phase, error) = outcome(&run_job(&case, name, "1").await?);
        ensure!(
            phase == "Failed" && error.starts_with("ProgressingTimeout: ") && error.contains(part),
            "{name}: {phase} {error}"
        );
    }
    // A change of an immutable field fails at once, with the rule.
    let frozen = |value: &str| {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "frozen", "namespace": "lost-causes"}, "immutable": true, "data": {"a": value}});
        configuration(&json!({"manifests": [{"manifest": map}]}))
    };
    create_item_with(&case, "frozen", "dev", &json!({}), &json!({"config": frozen("secret-1")})).await?;
    succeeded(&run_job(&case, "frozen", "1").await?)?;
    case.change::<DeployItem>("frozen", &json!({"spec": {"config": frozen("secret-2")}})).await?;
    let (phase, error) = outcome(&run_job(&case, "frozen", "2").await?);
    ensure!(
        phase == "Failed" && error.contains("field is immutable when `immutable` is set"),
        "{phase} {error}"
    );
    ensure!(!error.contains("secret-"), "{error}");

    // A value of the wrong type fails at once, for an existing object as well.
    let typed = |value: &Value| {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "typed", "namespace": "lost-causes"}, "data": {"a": value}});
        configuration(&json!({"manifests": [{"manifest": map}]}))
    };
    create_item_with(&case, "typed", "dev", &json!({}), &json!({"config": typed(&json!("1"))})).await?;
    succeeded(&run_job(&case, "typed", "1").await?)?;
    case.change::<DeployItem>("typed", &json!({"spec": {"config": typed(&json!(4711))}})).await?;
    let (phase, error) = outcome(&run_job(&case, "typed", "2").await?);
    ensure!(phase == "Failed" && error.contains(".data.a: expected string"), "{phase} {error}");
    ensure!(!error.contains("4711"), "{error}");

    let account = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: a}\n";
    create_release(
        &case,
        &chart("0.1.0", &[("templates/a.yaml", account)])?,
        "lost-causes",
        "5s",
        &json!({}),
    )
    .await?;
    let (phase, error) = outcome(&run_job(&case, "web", "1").await?);
    ensure!(
        phase == "Failed" && error.contains("deny.causes.example.org does not answer"),
        "{phase} {error}"
    );
    let last = records(&cluster, "lost-causes").await?.pop().context("a record")?;
    let description = last.2["info"]["description"].as_str().unwrap_or_default().to_owned();
    ensure!(description.contains("deny.causes.example.org does not answer"), "{description}");
    cluster
        .delete("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/lost-causes-away")
        .await
}

/// `update` and `patch` keep the fields of other managers. Fields that the item wrote and no longer
/// lists are removed. A job without changes writes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn fields_of_others_stay() -> Result<()> {
    for strategy in ["update", "patch"] {
        let namespace = format!("fields-{strategy}");
        let Some((case, cluster)) = start(&namespace).await? else { return Ok(()) };
        let deployment = |labels: &Value| {
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": namespace, "labels": labels},
                "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
                    "spec": {"containers": [{"name": "c", "image": "i"}]}}}})
        };
        let webhooks = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": {"name": namespace},
            "webhooks": [{
                "name": "none.example.org", "admissionReviewVersions": ["v1"], "sideEffects": "None",
                "clientConfig": {"url": "https://127.0.0.1:1/"},
                "rules": [{"apiGroups": ["none.example.org"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["none"]}],
            }],
        });
        let volume = json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": namespace},
            "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/none"}},
        });
        let config = |labels: &Value| {
            let manifests =
                [deployment(labels), webhooks.clone(), volume.clone()].map(|one| json!({"manifest": one}));
            json!({"updateStrategy": strategy, "readinessChecks": {"disableDefault": true}, "manifests": manifests})
        };
        create_item_with(&case, "item", "dev", &config(&json!({"one": "1", "two": "2"})), &json!({})).await?;
        succeeded(&run_job(&case, "item", "1").await?)?;

        let d = format!("/apis/apps/v1/namespaces/{namespace}/deployments/d");
        let w = format!("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/{namespace}");
        let v = format!("/api/v1/persistentvolumes/{namespace}");
        cluster.change(&format!("{d}/scale"), &json!({"spec": {"replicas": 7}})).await?;
        let containers = json!([{"name": "c", "image": "i"}, {"name": "sidecar", "image": "s"}]);
        let injected =
            json!({"metadata": {"annotations": {"restarted": "now"}}, "spec": {"containers": containers}});
        cluster.change(&d, &json!({"spec": {"template": injected}})).await?;
        let mut found = cluster.get(&w).await?.context("the webhooks")?;
        let bundle = cluster.kubeconfig()?["clusters"][0]["cluster"]["certificate-authority-data"].clone();
        found["webhooks"][0]["clientConfig"]["caBundle"] = bundle;
        cluster.change(&w, &json!({"webhooks": found["webhooks"]})).await?;
        cluster.change(&v, &json!({"spec": {"claimRef": {"namespace": namespace, "name": "claim"}}})).await?;
        let mut before = Vec::new();
        for path in [&d, &w, &v] {
            before.push(cluster.get(path).await?.context("the object")?);
        }
        succeeded(&run_job(&case, "item", "2").await?)?;
        for (path, before) in [&d, &w, &v].into_iter().zip(&before) {
            let now = cluster.get(path).await?.context("the object")?;
            ensure!(
                now["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"],
                "{strategy}: {path} was written: {now}"
            );
        }

        let changed = configuration(&config(&json!({"one": "1"})));
        case.change::<DeployItem>("item", &json!({"spec": {"config": changed}})).await?;
        succeeded(&run_job(&case, "item", "3").await?)?;
        let found = cluster.get(&d).await?.context("the Deployment")?;
        ensure!(
            found["metadata"]["labels"].get("two").is_none() && found["metadata"]["labels"]["one"] == "1",
            "{found}"
        );
        ensure!(found["spec"]["replicas"] == 7, "{found}");
        let template = &found["spec"]["template"];
        ensure!(template["metadata"]["annotations"]["restarted"] == "now", "{found}");
        ensure!(template["spec"]["containers"].as_array().is_some_and(|all| all.len() == 2), "{found}");
    }
    Ok(())
}
