//! Page that plans a change: it shows the effects to users who could see these effects in the
//! cluster.

use anyhow::{Context, Result, ensure};
use groundwork_tests::System;
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};

use super::browser::{Answer, Browser};
use super::{account_with, field};
use crate::case::Case;

const PATH: &str = "/plan";
/// Core resources that a plan reads.
const CORE: &str = "secrets,configmaps";
const SOURCES: &str = "installations.landscaper.gardener.cloud,executions.landscaper.gardener.cloud,deployitems.landscaper.gardener.cloud,\
contexts.landscaper.gardener.cloud,componentversionoverwrites.landscaper.gardener.cloud,dataobjects.landscaper.gardener.cloud,\
targets.landscaper.gardener.cloud";

/// Overwrites of the example without their rules, with the line breaks that browsers send.
const NO_RULES: &str = "apiVersion: landscaper.gardener.cloud/v1alpha1\r\nkind: ComponentVersionOverwrites\r\nmetadata:\r\n  \
                        name: my-overwrites\r\noverwrites: []\r\n";

/// Fills in the form and sends it.
async fn planned(browser: &mut Browser, address: &str, namespace: &str, objects: &str) -> Result<Answer> {
    let key = field(&browser.page(PATH).await?, "key")?.to_owned();
    browser.post(address, &[("key", &key), ("namespace", namespace), ("objects", objects)]).await
}

pub(super) async fn tells_what_a_change_would_do(
    system: &System,
    case: &Case<'_>,
    admin: &mut Browser,
) -> Result<()> {
    let answer = planned(admin, PATH, "my-namespace", NO_RULES).await?;
    for text in [
        "Installation <a href=\"/installations/my-namespace/server\">my-namespace/server</a>: with its next job, which \
         this change does not request",
        "because its components resolve to other versions",
        "becomes <strong>github.com/gardener/landscaper/echo-server:v0.2.0</strong>",
        "name: my-overwrites",
    ] {
        ensure!(answer.status == 200 && answer.body.contains(text), "{text}: {answer:?}");
    }
    let twin = planned(admin, "/plan.json", "my-namespace", NO_RULES).await?;
    let twin: Value = serde_json::from_str(&twin.body).with_context(|| format!("{twin:?}"))?;
    let root = &twin["content"]["plan"]["installations"][0];
    assert_eq!((&root["path"], &root["start"]), (&json!(["server"]), &json!("nextJob")), "{twin}");

    what_is_wrong_is_told_beside_it(admin).await?;
    rights_decide(case, system.grpc_port("console")).await
}

async fn what_is_wrong_is_told_beside_it(admin: &mut Browser) -> Result<()> {
    let pod = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: <b>x</b>}\n";
    for (namespace, objects, told) in [
        ("team", "a: [", "Line 1: malformed YAML"),
        ("", NO_RULES, "Line 1: ComponentVersionOverwrites my-overwrites has no namespace"),
        ("team", pod, "Line 5: Pod &lt;b&gt;x&lt;/b&gt;"),
    ] {
        let answer = planned(admin, PATH, namespace, objects).await?;
        ensure!(answer.status == 400 && answer.body.contains(told), "{told}: {answer:?}");
        ensure!(answer.body.contains("</textarea>"), "what was typed stays: {answer:?}");
    }
    let long = "x".repeat(4 << 20);
    let answer = planned(admin, PATH, "team", &long).await?;
    ensure!(answer.status == 400 && answer.body.contains("too long"), "{} {}", answer.status, answer.body);
    let forged = [("key", "00ff"), ("namespace", "my-namespace"), ("objects", NO_RULES)];
    assert_eq!(admin.post(PATH, &forged).await?.status, 403);
    Ok(())
}

/// A user who lacks a right gets an error with its name instead of a plan. No page shows values of
/// Secrets.
async fn rights_decide(case: &Case<'_>, port: u16) -> Result<()> {
    let name = &case.namespace;
    case.create::<Secret>("login", &json!({"stringData": {"password": "hunter2"}})).await?;
    let objects = "apiVersion: v1\nkind: Secret\nmetadata: {name: login}\nstringData: {password: sesame4}\n";
    let reader = account_with(case, "half-planner", &[("get", SOURCES), ("get", "configmaps")]).await?;
    let mut reader = Browser::signed_in(port, &reader).await?;
    let refused = planned(&mut reader, PATH, name, objects).await?;
    let told = format!("may not get secrets in namespace &quot;{name}&quot;");
    ensure!(refused.status == 403 && refused.body.contains(&told), "{refused:?}");

    let rights = [("get,update", SOURCES), ("get", CORE)];
    let planner = account_with(case, "planner", &rights).await?;
    let mut planner = Browser::signed_in(port, &planner).await?;
    let answer = planned(&mut planner, PATH, name, objects).await?;
    ensure!(answer.status == 200 && answer.body.contains("data.password"), "{answer:?}");
    ensure!(!answer.body.contains("hunter2"), "{answer:?}");
    let refused = planned(&mut planner, PATH, "my-namespace", NO_RULES).await?;
    assert_eq!(refused.status, 403, "rights are those to one namespace: {refused:?}");
    Ok(())
}

/// Resources from which the plan of a set is made.
const FLEETS: &str = "packagevariantsets.config.porch.kpt.dev,packagevariants.config.porch.kpt.dev,repositories.config.porch.kpt.dev";
const REVISIONS: &str = "packagerevisions.porch.kpt.dev";

fn set(name: &str, targets: &Value) -> String {
    json!({
        "apiVersion": "config.porch.kpt.dev/v1alpha2", "kind": "PackageVariantSet", "metadata": {"name": name},
        "spec": {"upstream": {"repo": "catalog", "package": "net/coredns", "revision": "v1"}, "targets": targets},
    })
    .to_string()
}

/// The set in the namespace creates the package `dns`. The test enters a different set with a
/// Secret, and plans it. The visitor's rights apply, also to the objects that a set selects, which
/// only the variant service knows.
pub(super) async fn tells_what_sets_would_do(case: &Case<'_>) -> Result<()> {
    let (name, port) = (case.namespace.as_str(), case.system.grpc_port("console"));
    let rights = [("get", FLEETS), ("get", REVISIONS)];
    let mut viewer = Browser::signed_in(port, &account_with(case, "fleet-viewer", &rights).await?).await?;
    let other = set("all-edges", &json!([{"repositories": [{"name": "edge", "packageNames": ["web"]}]}]));
    let answer = planned(&mut viewer, PATH, name, &other).await?;
    for text in [
        "1 created, 0 changed, 1 deleted, 0 unchanged",
        "makes edge/web",
        "makes edge/dns",
        "edge.dns.packagevariant-1 is deleted",
    ] {
        ensure!(answer.status == 200 && answer.body.contains(text), "{text}: {answer:?}");
    }
    let twin = planned(&mut viewer, "/plan.json", name, &other).await?;
    let twin: Value = serde_json::from_str(&twin.body).with_context(|| format!("{twin:?}"))?;
    let variants = &twin["content"]["variants"];
    ensure!(variants["hash"].as_str().is_some_and(|hash| hash.len() == 64), "{twin}");
    assert_eq!(variants["sets"][0]["created"][0]["package"], json!("web"), "{twin}");

    let none = set("broken", &json!([{"repositories": [{"name": ""}]}]));
    let answer = planned(&mut viewer, PATH, name, &none).await?;
    ensure!(answer.status == 200 && answer.body.contains("ValidationError"), "{answer:?}");
    let two = format!("{other}\n---\n{}", other.replace("\"targets\"", "\"targetz\""));
    let answer = planned(&mut viewer, PATH, name, &two).await?;
    ensure!(
        answer.status == 400 && answer.body.contains("Line 3: PackageVariantSet all-edges:"),
        "{answer:?}"
    );

    let selecting = set(
        "selecting",
        &json!([{
            "objectSelector": {"apiVersion": "v1", "kind": "ConfigMap", "matchLabels": {"a": "b"}},
            "template": {"downstream": {"repo": "edge", "packageExpr": "target.name"}},
        }]),
    );
    let refused = planned(&mut viewer, PATH, name, &selecting).await?;
    let told = format!("may not get configmaps in namespace &quot;{name}&quot;");
    ensure!(refused.status == 403 && refused.body.contains(&told), "{refused:?}");
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: login}\n";
    let refused = planned(&mut viewer, PATH, name, &format!("{other}\n---\n{secret}")).await?;
    ensure!(refused.status == 403, "{refused:?}");
    let all = [("get", FLEETS), ("get", REVISIONS), ("get,update", SOURCES), ("get", CORE)];
    let mut planner = Browser::signed_in(port, &account_with(case, "fleet-planner", &all).await?).await?;
    let answer = planned(&mut planner, PATH, name, &format!("{selecting}\n---\n{secret}")).await?;
    for text in ["PackageVariantSet <strong>", "Secret"] {
        ensure!(answer.status == 200 && answer.body.contains(text), "{text}: {answer:?}");
    }
    Ok(())
}
