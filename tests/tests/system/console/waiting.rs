//! Objects that wait, as the command, the gRPC call and the console show them.

use anyhow::{Context, Result, ensure};
use groundwork_api::{DeployItem, Installation, Kind as _};
use groundwork_proto::renderer::v1::wait::NextLook;
use groundwork_tests::{System, wait_for};
use serde_json::{Value, json};

use super::browser::Browser;
use crate::case::Case;
use crate::command::{next, nobody, run, watch};
use crate::grpc::channel;
use crate::support::PATIENCE;
use crate::target_cluster::{cluster, configuration};

/// Three waits: an item that no deployer picks up, an Installation that waits for another one, and
/// an item whose objects are not ready.
pub(super) async fn tells_what_is_waited_for(system: &System, token: &str, admin: &Browser) -> Result<()> {
    let case = Case::new(system, "shown-waits").await?;
    let exports = json!({"exports": {"data": [{"name": "url", "dataRef": "url"}]}});
    case.begin_with("db", &nobody(), &exports).await?;
    let pick_up = "a deployer for items of the type example.org/nobody to pick it up";
    let db = told(&case, "db", &format!("item item: {pick_up}")).await?;
    let item = &db["nodes"][0]["nodes"][0]["waitsFor"];
    assert_eq!((&item["what"], &item["lookedAtWithinSeconds"]), (&json!(pick_up), &json!(300)), "{db}");
    ensure!(item["since"].is_string() && db["waitsFor"]["since"].is_string(), "{db}");
    the_call_knows_the_time(system, token, pick_up).await?;
    let (_, text, _) = run(system, &["status", "shown-waits/db"]).await?;
    let line = text.lines().find(|line| line.contains(&format!("… waits for item item: {pick_up}, since ")));
    ensure!(line.is_some_and(|line| line.ends_with("(looked at again within 5m)")), "{text}");
    shown(admin, "db", &db).await?;

    let imports = json!({"imports": {"data": [{"name": "url", "dataRef": "url"}]}});
    case.begin_with("web", &nobody(), &imports).await?;
    let web = told(&case, "web", "Installation db, whose export `url` it imports").await?;
    assert_eq!(web["waitsFor"]["lookedAtWithinSeconds"], 30, "{web}");
    shown(admin, "web", &web).await?;
    let glance = admin.json("/index.json").await?;
    let behind =
        glance["waiting"].as_array().into_iter().flatten().find(|row| row["place"] == "shown-waits/web");
    assert_eq!(behind.context("it is listed")?["lookedAtWithinSeconds"], 30, "{glance}");

    unready(&case, admin).await
}

/// The renderer fails an item that no deployer picks up, so it knows the time of that.
async fn the_call_knows_the_time(system: &System, token: &str, pick_up: &str) -> Result<()> {
    let mut trees = watch(channel(system, "renderer", Some(token))?, "shown-waits", "db").await?;
    let tree = next(&mut trees).await?;
    let item = tree.nodes.first().and_then(|execution| execution.nodes.first()).context("an item")?;
    let wait = item.waits_for.as_ref().context("it waits")?;
    let since = wait.since.as_ref().context("since some time")?.seconds;
    assert_eq!(wait.what, pick_up);
    ensure!(
        matches!(&wait.next_look, Some(NextLook::LookedAtBy(by)) if by.seconds == since + 305),
        "{wait:?}"
    );
    Ok(())
}

/// An item waits for a Deployment that no controller reconciles.
async fn unready(case: &Case<'_>, admin: &Browser) -> Result<()> {
    let cluster = cluster().await?;
    cluster.plane.create_namespace("shown-waits").await?;
    cluster.create_target(case, "dev").await?;
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shown-waits"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "a", "image": "a"}]}}}});
    let config = configuration(&json!({"manifests": [{"manifest": deployment}]}));
    let items = json!({"deployItems": [{"name": "web", "type": "landscaper.gardener.cloud/kubernetes-manifest",
        "target": {"import": "cluster"}, "config": config}]});
    let blueprint = json!({"apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Blueprint",
        "imports": [{"name": "cluster", "targetType": "landscaper.gardener.cloud/kubernetes-cluster"}],
        "deployExecutions": [{"name": "default", "type": "GoTemplate", "template": items.to_string()}]});
    let imports = json!({"imports": {"targets": [{"name": "cluster", "target": "dev"}]}});
    case.begin_with("shop", &blueprint.to_string(), &imports).await?;
    let readiness = "item web: readiness of shown-waits/web of type Deployment: ";
    let shop = told(case, "shop", readiness).await?;
    assert_eq!(shop["waitsFor"]["lookedAtWithinSeconds"], 10, "{shop}");
    shown(admin, "shop", &shop).await?;

    let status = json!({"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1, "readyReplicas": 1});
    let path = "/apis/apps/v1/namespaces/shown-waits/deployments/web/status";
    cluster.change(path, &json!({"status": status})).await?;
    case.finished("shop").await?;
    let (_, text, _) = run(case.system, &["status", "shown-waits/shop", "-o", "json"]).await?;
    ensure!(!text.contains("waitsFor"), "{text}");
    let item: DeployItem = case.item("shop", "web").await?;
    let conditions = item.status.context("a status")?.conditions;
    ensure!(conditions.iter().all(|condition| condition.type_ != "Waiting"), "{conditions:?}");
    Ok(())
}

/// Returns the JSON tree of an Installation, once the command reports a wait whose text starts with
/// `what`.
async fn told(case: &Case<'_>, name: &str, what: &str) -> Result<Value> {
    let path = format!("{}/{name}", case.namespace);
    let wanted = format!("the status of the {} {name} tells of {what:?}", Installation::KIND);
    wait_for(&wanted, PATIENCE, async || {
        let (_, text, problem) =
            run(case.system, &["status", &path, "-o", "json"]).await.map_err(|error| format!("{error:#}"))?;
        let tree: Value = serde_json::from_str(&text).map_err(|_| problem)?;
        let is_told = tree["waitsFor"]["what"].as_str().is_some_and(|told| told.starts_with(what));
        if is_told { Ok(tree) } else { Err(text) }
    })
    .await
    .map_err(|error| case.system.explained(error))
}

/// The page shows the same waits as the tree, for the Installation and for the objects below it.
async fn shown(admin: &Browser, name: &str, tree: &Value) -> Result<()> {
    let path = format!("/installations/shown-waits/{name}");
    let what = tree["waitsFor"]["what"].as_str().context("it waits")?;
    wait_for(&format!("{path} tells of {what:?}"), PATIENCE, async || {
        let page = admin.json(&format!("{path}.json")).await.map_err(|error| format!("{error:#}"))?;
        let item = |tree: &Value| tree["nodes"][0]["nodes"][0]["waitsFor"].clone();
        let is_same = page["waitsFor"] == tree["waitsFor"] && item(&page) == item(tree);
        if is_same { Ok(()) } else { Err(format!("{page} is not {tree}")) }
    })
    .await?;
    let page = admin.page(&path).await?;
    ensure!(page.contains(&format!("waits for {}, since ", what.replace('&', "&amp;"))), "{page}");
    Ok(())
}
