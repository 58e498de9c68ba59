//! `groundwork migrate check` on a cluster with what Landscaper and Porch leave behind.

use anyhow::{Result, ensure};
use groundwork_api::{DeployItem, Installation, PackageVariant};
use groundwork_tests::{System, SystemOptions, wait_for};
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::case::Case;
use crate::command::run;
use crate::support::PATIENCE;

/// The check says nothing about a clean cluster, and names each leftover with the command that
/// removes it. The system is of its own, because the leftovers stop every write.
#[tokio::test]
async fn leftovers_are_found_and_removed() -> Result<()> {
    let Some(mut system) = System::start(SystemOptions::default()).await? else { return Ok(()) };
    let check = async || run(&system, &["migrate", "check"]).await;
    let (code, out, err) = check().await?;
    ensure!(code == 0 && out == "nothing stands in the way\n", "{code} {out}{err}");

    let case = Case::new(&system, "leftovers").await?;
    let blueprint = "apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: Blueprint\ndeployExecutions:\n- name: d\n  type: Spiff\n  template: {deployItems: [{name: job, type: landscaper.gardener.cloud/container, config: {a: 1}}]}\n";
    case.begin_with("app", blueprint, &json!({})).await?;
    let warned = case.warnings_with::<Installation>("app", "RenderWarnings").await?;
    ensure!(
        warned.iter().any(|(_, message)| message.contains("which no deployer of Groundwork handles")),
        "{warned:?}"
    );
    let policy = json!({"approval.nephio.org/policy": "initial"});
    case.create::<PackageVariant>("dns", &json!({"spec": {"annotations": policy}})).await?;
    wait_for("the item is found", PATIENCE, async || {
        let (code, out, err) = check().await.map_err(|error| error.to_string())?;
        let is_found =
            out.contains("landscaper.gardener.cloud/container") && out.contains("jobs of 1 Installations");
        if code == 1 && is_found { Ok(()) } else { Err(format!("{code} {out}{err}")) }
    })
    .await?;

    let client = system.client().await?;
    let webhooks = Api::<ValidatingWebhookConfiguration>::all(client.clone());
    let left = json!({
        "metadata": {"name": "landscaper-validation-webhook"},
        "webhooks": [{
            "name": "installation.validation.landscaper.gardener.cloud", "failurePolicy": "Fail", "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"service": {"namespace": "ls-system", "name": "landscaper-webhooks"}},
            "rules": [{"apiGroups": ["landscaper.gardener.cloud"], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"],
                "resources": ["installations"]}],
        }],
    });
    webhooks.create(&PostParams::default(), &serde_json::from_value(left)?).await?;
    let services = Api::<APIService>::all(client.clone());
    // The API server has made one for the definition of the kind; that of a Porch server replaces
    // it.
    let left = json!({
        "metadata": {"labels": {"kube-aggregator.kubernetes.io/automanaged": null}},
        "spec": {"insecureSkipTLSVerify": true, "service": {"namespace": "porch-system", "name": "api"}},
    });
    services.patch("v1alpha1.porch.kpt.dev", &PatchParams::default(), &Patch::Merge(left)).await?;
    // A service that starts now names the webhook.
    system.remove("renderer");
    system.run("renderer").await?;
    wait_for("the renderer names the webhook", PATIENCE, async || {
        let (code, out) = system.admin("renderer", "/readyz").await.map_err(|error| error.to_string())?;
        let is_named = out.contains("installation.validation.landscaper.gardener.cloud")
            && out.contains("migrate check");
        if code == 503 && is_named { Ok(()) } else { Err(format!("{code} {out}")) }
    })
    .await?;
    let check = async || run(&system, &["migrate", "check"]).await;
    let (code, out, err) = check().await?;
    ensure!(code == 1, "{code} {out}{err}");
    for command in [
        "kubectl delete validatingwebhookconfiguration landscaper-validation-webhook",
        "kubectl delete apiservice v1alpha1.porch.kpt.dev",
        "--approval-policies",
    ] {
        ensure!(out.contains(command), "{command}: {out}");
    }
    // A namespace without anything of them: only what concerns the whole cluster is left.
    let (_, out, _) = run(&system, &["migrate", "check", "-n", "default"]).await?;
    ensure!(!out.contains("--approval-policies") && out.contains("landscaper-validation-webhook"), "{out}");
    webhooks.delete("landscaper-validation-webhook", &DeleteParams::default()).await?;
    system.until_ready("renderer").await?;
    services.delete("v1alpha1.porch.kpt.dev", &DeleteParams::default()).await?;
    wait_for("the cluster is clean", PATIENCE, async || {
        let (code, out, err) =
            run(&system, &["migrate", "check", "-n", "default"]).await.map_err(|error| error.to_string())?;
        if code == 0 { Ok(()) } else { Err(format!("{code} {out}{err}")) }
    })
    .await
}

/// The other services look for webhooks too, each for a kind that it writes. The deployer may
/// create no items, so it looks with one that exists.
#[tokio::test]
async fn services_name_the_webhooks_that_stop_them() -> Result<()> {
    let Some(mut system) = System::start(SystemOptions::default()).await? else { return Ok(()) };
    let webhooks = Api::<ValidatingWebhookConfiguration>::all(system.client().await?);
    let rule = |group: &str, plural: &str| json!({"apiGroups": [group], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"], "resources": [plural]});
    let services = [
        ("resolver", rule("landscaper.gardener.cloud", "contexts")),
        ("deployer", rule("landscaper.gardener.cloud", "deployitems")),
        ("variant", rule("config.porch.kpt.dev", "packagevariants")),
        ("watcher", rule("coordination.k8s.io", "leases")),
    ];
    let item = json!({"spec": {"type": "example.org/own", "config": {}}});
    Case::new(&system, "looks").await?.create::<DeployItem>("looked-at", &item).await?;
    for (service, rule) in services {
        let webhook = json!({
            "metadata": {"name": service},
            "webhooks": [{
                "name": format!("{service}.example.org"), "failurePolicy": "Fail", "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
                "clientConfig": {"service": {"namespace": "gone", "name": "webhooks"}},
                "rules": [rule],
            }],
        });
        webhooks.create(&PostParams::default(), &serde_json::from_value(webhook)?).await?;
        system.remove(service);
        let variables =
            [("GROUNDWORK_LEADER_ELECTION", "true"), ("GROUNDWORK_LEASE_NAMESPACE", "groundwork-system")];
        let variables = if service == "watcher" { &variables[..] } else { &[] };
        system.run_with(service, service, variables).await?;
        wait_for(&format!("{service} names the webhook"), PATIENCE, async || {
            let (code, out) = system.admin(service, "/readyz").await.map_err(|error| error.to_string())?;
            let is_named = out.contains("webhooks: ") && out.contains(&format!("{service}.example.org"));
            if code == 503 && is_named { Ok(()) } else { Err(format!("{code} {out}")) }
        })
        .await?;
        webhooks.delete(service, &DeleteParams::default()).await?;
        system.until_ready(service).await?;
    }
    Ok(())
}
