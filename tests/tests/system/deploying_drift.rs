//! Objects that users change between two jobs (drift, `installations.md` 7.9): the item reports
//! them with fields and field managers, repairs them if its configuration says so, and otherwise
//! never writes them.

use anyhow::{Context as _, Result, ensure};
use groundwork_api::{DeployItem, Installation};
use groundwork_tests::{System, SystemOptions, wait_for};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::case::Case;
use crate::command::run;
use crate::deploying_charts::{chart, helm, item};
use crate::grpc::account;
use crate::replaying::{ALL, entries};
use crate::support::PATIENCE;
use crate::target_cluster::{TargetCluster, cluster, create_item, outcome, run_job, target};

/// Value that must not appear in any message.
const CANARY: &str = "canary";

static SYSTEM: OnceCell<Option<System>> = OnceCell::const_new();

/// Returns a system whose deployers check for drift every 500 ms.
async fn system() -> Result<Option<&'static System>> {
    let start = async || {
        let often = ("GROUNDWORK_DRIFT_EVERY".to_owned(), "500ms".to_owned());
        System::start(SystemOptions { variables: vec![often], ..SystemOptions::default() }).await
    };
    Ok(SYSTEM.get_or_try_init(start).await?.as_ref())
}

async fn start(namespace: &str) -> Result<Option<(Case<'static>, TargetCluster)>> {
    let Some(system) = system().await? else { return Ok(None) };
    let (case, cluster) = (Case::new(system, namespace).await?, cluster().await?);
    cluster.create_target(&case, "dev").await?;
    cluster.plane.create_namespace(namespace).await?;
    Ok(Some((case, cluster)))
}

fn address(namespace: &str, name: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps/{name}")
}

fn config_map(namespace: &str, name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace},
        "data": {"color": "blue", "size": "1"}})
}

/// Changes an object as `kubectl edit` does.
async fn edit(cluster: &TargetCluster, path: &str, change: &Value) -> Result<()> {
    cluster.change(&format!("{path}?fieldManager=kubectl-edit"), change).await?;
    Ok(())
}

async fn succeed(case: &Case<'_>, name: &str, job: &str) -> Result<()> {
    let found = run_job(case, name, job).await?;
    ensure!(outcome(&found) == ("Succeeded".into(), String::new()), "{name}: {:?}", outcome(&found));
    Ok(())
}

/// Returns status, reason and message of the drift condition.
fn drift(item: &DeployItem) -> Option<(String, String, String)> {
    let mut conditions = item.status.iter().flat_map(|status| status.conditions.iter());
    let found = conditions.find(|condition| condition.type_ == "Drifted")?;
    Some((found.status.clone(), found.reason.clone(), found.message.clone()))
}

/// Waits until the drift condition has this status and its message contains these parts.
async fn told(case: &Case<'_>, name: &str, status: &str, parts: &[&str]) -> Result<DeployItem> {
    case.until(&format!("the drift of {name} is {status}: {parts:?}"), name, |item: &DeployItem| {
        drift(item).is_some_and(|(found, _, message)| {
            found == status && parts.iter().all(|part| message.contains(part))
        })
    })
    .await
}

/// Waits until the deployer has read the objects of a namespace so many more times.
async fn checked(cluster: &TargetCluster, path: &str, times: usize) -> Result<()> {
    let before = cluster.requests(path)?.len();
    wait_for("the object is checked", PATIENCE, async || {
        let now = cluster.requests(path).map_err(|error| error.to_string())?.len();
        if now >= before + times { Ok(()) } else { Err(format!("{} checks", now - before)) }
    })
    .await
}

/// Creates items of every mode and strategy, each with one ConfigMap of the item's name. Returns
/// their names.
async fn create_items(
    case: &Case<'_>,
    cluster: &TargetCluster,
    namespace: &str,
    said: &Value,
) -> Result<[&'static str; 4]> {
    let with = |more: Value| {
        let mut members = said.clone();
        for (member, value) in more.as_object().into_iter().flatten() {
            members[member] = value.clone();
        }
        members
    };
    for (name, strategy) in [("update", "update"), ("overwrite", "mergeOverwrite")] {
        let manifests = json!([{"manifest": config_map(namespace, name)}]);
        let said = with(json!({"manifests": manifests, "updateStrategy": strategy}));
        create_item(case, name, "dev", &said).await?;
    }
    let template = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"{{ .Release.Name }}\"}\ndata: {color: blue, size: \"1\"}\n";
    let chart = chart_of(template)?;
    for (name, more) in [
        ("release", json!({"name": "release"})),
        ("rendered", json!({"name": "rendered", "helmDeployment": false})),
    ] {
        case.create::<DeployItem>(name, &item(case, &chart, namespace, &with(more))).await?;
    }
    let names = ["update", "overwrite", "release", "rendered"];
    for name in names {
        succeed(case, name, "1").await?;
        ensure!(cluster.get(&address(namespace, name)).await?.is_some(), "{name}");
    }
    Ok(names)
}

/// Returns a chart with one template.
fn chart_of(template: &str) -> Result<String> {
    // Blank out the default template: its ConfigMap would have the same name in all charts of a
    // namespace.
    chart("0.1.0", &[("templates/config.yaml", ""), ("templates/drift.yaml", template)])
}

/// In every mode, an item reports an edit with its field and its manager, and a deleted object as
/// well. It writes an Event and a metric, and reports the end of the drift. The next job restores
/// all objects, and before it the deployer writes none.
#[tokio::test(flavor = "multi_thread")]
async fn changes_of_others_are_told() -> Result<()> {
    let namespace = "drift-told";
    let Some((case, cluster)) = start(namespace).await? else { return Ok(()) };
    let names = create_items(&case, &cluster, namespace, &json!({})).await?;
    for name in names {
        checked(&cluster, &address(namespace, name), 2).await?;
        ensure!(drift(&case.get(name).await?).is_none(), "{name} has not drifted");
        edit(&cluster, &address(namespace, name), &json!({"data": {"color": CANARY, "own": "x"}})).await?;
    }
    for name in names {
        let expected = format!("{namespace}/{name} of type ConfigMap: ");
        let found = told(&case, name, "True", &[&expected, ".data.color"]).await?;
        let (_, reason, message) = drift(&found).context("it is told")?;
        ensure!(
            reason == "ObjectsChanged" && message.contains("kubectl-edit changed .data.color"),
            "{message}"
        );
        ensure!(!message.contains(CANARY) && !message.contains(".data.own"), "{message}");
        ensure!(outcome(&found) == ("Succeeded".into(), String::new()), "{:?}", outcome(&found));
        let warnings = case.warnings_with::<DeployItem>(name, "ObjectsChanged").await?;
        ensure!(warnings.iter().any(|(_, text)| text.contains("kubectl-edit")), "{warnings:?}");
    }
    let (_, metrics) = case.system.admin("deployer", "/metrics").await?;
    let gauge = metrics
        .lines()
        .find_map(|line| line.strip_prefix("groundwork_drifted_items "))
        .context("the metric")?;
    ensure!(gauge.parse::<usize>()? >= names.len(), "{gauge}");

    edit(&cluster, &address(namespace, "update"), &json!({"data": {"color": "blue"}})).await?;
    let found = told(&case, "update", "False", &[]).await?;
    ensure!(drift(&found).is_some_and(|(_, reason, _)| reason == "AsApplied"), "{:?}", drift(&found));
    cluster.delete(&address(namespace, "update")).await?;
    told(&case, "update", "True", &[&format!("{namespace}/update of type ConfigMap is gone")]).await?;

    for (verb, address) in cluster.requests(&format!("/namespaces/{namespace}/configmaps"))? {
        let is_write = matches!(verb.as_str(), "create" | "update" | "patch" | "delete");
        let is_deployers = !address.contains("kubectl-edit") && !address.contains("dryRun=All");
        let is_of_job = verb == "create";
        let is_of_test = verb == "delete";
        ensure!(!is_write || !is_deployers || is_of_job || is_of_test, "{verb} {address}");
    }
    for name in names {
        succeed(&case, name, "2").await?;
        ensure!(drift(&case.get(name).await?).is_none(), "{name}");
        let found = cluster.get(&address(namespace, name)).await?.context("it is there")?;
        ensure!(found["data"]["color"] == "blue", "{name}: {found}");
    }
    Ok(())
}

/// `repair` restores changed, removed and deleted fields and objects, and keeps the additions of
/// others. A rule excludes fields and kinds from the check.
#[tokio::test(flavor = "multi_thread")]
async fn changes_of_others_are_undone_where_that_is_asked_for() -> Result<()> {
    let namespace = "drift-undone";
    let Some((case, cluster)) = start(namespace).await? else { return Ok(()) };
    let rules = json!([
        {"kind": "ConfigMap", "jsonPointers": ["/data/size"]},
        {"group": "", "kind": "Secret"},
    ]);
    let names =
        create_items(&case, &cluster, namespace, &json!({"drift": {"mode": "repair", "ignore": rules}}))
            .await?;
    for name in names {
        let change = json!({"data": {"color": "red", "size": "7", "own": "x"}});
        edit(&cluster, &address(namespace, name), &change).await?;
        let found = told(&case, name, "False", &["brought back", "kubectl-edit changed .data.color"]).await?;
        let (_, reason, message) = drift(&found).context("it is told")?;
        ensure!(reason == "Repaired" && !message.contains("size"), "{message}");
        let found = cluster.get(&address(namespace, name)).await?.context("it is there")?;
        ensure!(found["data"] == json!({"color": "blue", "size": "7", "own": "x"}), "{name}: {found}");

        edit(&cluster, &address(namespace, name), &json!({"data": {"color": null}})).await?;
        told(&case, name, "False", &["brought back", " removed .data.color"]).await?;
        cluster.delete(&address(namespace, name)).await?;
        told(&case, name, "False", &["brought back", "ConfigMap is gone"]).await?;
        let found = cluster.get(&address(namespace, name)).await?.context("it is there again")?;
        ensure!(found["data"] == json!({"color": "blue", "size": "1"}), "{name}: {found}");
        // A change of an ignored field is not drift.
        edit(&cluster, &address(namespace, name), &json!({"data": {"size": "8"}})).await?;
        checked(&cluster, &address(namespace, name), 4).await?;
        let found = cluster.get(&address(namespace, name)).await?.context("it is there")?;
        ensure!(found["data"]["size"] == "8", "{name}: {found}");
        succeed(&case, name, "2").await?;
    }
    Ok(())
}

/// A chart with random parts renders differently each time. Only the fields that others have set
/// count as drift, and no random part is written again.
#[tokio::test(flavor = "multi_thread")]
async fn random_parts_are_no_drift() -> Result<()> {
    let namespace = "drift-random";
    let Some((case, cluster)) = start(namespace).await? else { return Ok(()) };
    let template = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: cfg}\ndata: {color: blue, token: \"{{ randAlphaNum 20 }}\"}\n";
    let said = json!({"helmDeployment": false, "drift": "repair"});
    case.create::<DeployItem>("web", &item(&case, &chart_of(template)?, namespace, &said)).await?;
    succeed(&case, "web", "1").await?;
    let path = address(namespace, "cfg");
    let before = cluster.get(&path).await?.context("it is there")?;
    edit(&cluster, &path, &json!({"data": {"color": "red"}})).await?;
    let found = told(&case, "web", "True", &["kubectl-edit changed .data.color"]).await?;
    ensure!(drift(&found).is_some_and(|(.., message)| !message.contains("token")), "{:?}", drift(&found));
    checked(&cluster, &path, 3).await?;
    let after = cluster.get(&path).await?.context("it is there")?;
    ensure!(after["data"] == json!({"color": "red", "token": before["data"]["token"]}), "{after}");
    Ok(())
}

/// If a field cannot be restored, the item reports it with the reason. A Job that its controller
/// deletes after its end is not drift.
#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_undone_is_told() -> Result<()> {
    let namespace = "drift-fixed";
    let Some((case, cluster)) = start(namespace).await? else { return Ok(()) };
    let secret = |kind: &str| {
        json!({"apiVersion": "v1", "kind": "Secret", "type": kind,
        "metadata": {"name": "login", "namespace": namespace}, "stringData": {"a": "b"}})
    };
    let container = json!({"name": "run", "image": "example.org/run:1"});
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "once", "namespace": namespace},
        "spec": {"ttlSecondsAfterFinished": 60, "suspend": true,
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}});
    let said = json!({"manifests": [{"manifest": secret("Opaque")}, {"manifest": job}], "drift": "repair"});
    create_item(&case, "objects", "dev", &said).await?;
    succeed(&case, "objects", "1").await?;
    let folder = format!("/api/v1/namespaces/{namespace}/secrets");
    cluster
        .delete(&format!("/apis/batch/v1/namespaces/{namespace}/jobs/once?propagationPolicy=Background"))
        .await?;
    cluster.delete(&format!("{folder}/login")).await?;
    cluster.create(&format!("{folder}?fieldManager=kubectl-create"), &secret("example.org/other")).await?;
    let parts = ["drift-fixed/login of type Secret: ", ".type", "could not be repaired", "immutable"];
    let found = told(&case, "objects", "True", &parts).await?;
    ensure!(drift(&found).is_some_and(|(.., message)| !message.contains("once")), "{:?}", drift(&found));
    Ok(())
}

/// An upgrade by Helm's client is reported, and not undone.
#[tokio::test(flavor = "multi_thread")]
async fn revisions_of_others_are_told_and_left() -> Result<()> {
    for mode in ["report", "repair"] {
        let namespace = &format!("drift-release-{mode}");
        let Some((case, cluster)) = start(namespace).await? else { return Ok(()) };
        let chart = chart("0.1.0", &[])?;
        let said = json!({"drift": mode});
        case.create::<DeployItem>("web", &item(&case, &chart, namespace, &said)).await?;
        succeed(&case, "web", "1").await?;
        helm(&cluster, namespace, &["upgrade", "shop", &chart, "{\"color\": \"green\"}"]).await?;
        let revision =
            format!("the release {namespace}/shop is at revision 2, which this item did not create");
        told(&case, "web", "True", &[&revision, ".data.color"]).await?;
        // Later checks reuse the findings of the first one, and report the same.
        checked(&cluster, &format!("/namespaces/{namespace}/configmaps/"), 4).await?;
        let found = drift(&case.get("web").await?).context("it is told")?;
        ensure!(found.0 == "True" && found.2.contains(&revision), "{mode}: {found:?}");
    }
    Ok(())
}

/// An item without drift detection is not checked. An item whose cluster is unavailable reports
/// this after a while.
#[tokio::test(flavor = "multi_thread")]
async fn items_that_are_not_checked() -> Result<()> {
    let namespace = "drift-unseen";
    let Some((case, cluster)) = start(namespace).await? else { return Ok(()) };
    let manifests = |name: &str| json!([{"manifest": config_map(namespace, name)}]);
    create_item(&case, "ignored", "dev", &json!({"manifests": manifests("ignored"), "drift": "ignore"}))
        .await?;
    create_item(&case, "seen", "dev", &json!({"manifests": manifests("seen")})).await?;
    for name in ["ignored", "seen"] {
        succeed(&case, name, "1").await?;
    }
    let before = cluster.requests(&address(namespace, "ignored"))?.len();
    checked(&cluster, &address(namespace, "seen"), 3).await?;
    ensure!(cluster.requests(&address(namespace, "ignored"))?.len() == before, "it was checked");

    let away = target(
        &json!({"kubeconfig": cluster.kubeconfig()?.to_string().replace("https://127.0.0.1:", "https://127.0.0.1:1")}),
    );
    case.change::<groundwork_api::Target>("dev", &away).await?;
    let found = told(&case, "seen", "Unknown", &[]).await?;
    ensure!(drift(&found).is_some_and(|(_, reason, _)| reason == "CheckFailed"), "{:?}", drift(&found));
    cluster.create_target(&case, "spare").await?;
    let back = target(&json!({"kubeconfig": cluster.kubeconfig()?.to_string()}));
    case.change::<groundwork_api::Target>("dev", &back).await?;
    told(&case, "seen", "False", &[]).await?;
    Ok(())
}

/// An invalid configuration fails at once, and the error names the path of the field.
#[tokio::test(flavor = "multi_thread")]
async fn wrong_rules_are_refused() -> Result<()> {
    let namespace = "drift-wrong";
    let Some((case, _)) = start(namespace).await? else { return Ok(()) };
    for (name, drift, part) in [
        ("mode", json!("sometimes"), "a word is unknown"),
        (
            "pointer",
            json!({"ignore": [{"jsonPointers": ["spec"]}]}),
            "drift.ignore[0].jsonPointers[0]: must be a JSON pointer",
        ),
        ("all", json!({"ignore": [{}]}), "drift.ignore[0]: matches every object"),
    ] {
        create_item(&case, name, "dev", &json!({"manifests": [], "drift": drift})).await?;
        let found = outcome(&run_job(&case, name, "1").await?);
        ensure!(found.0 == "Failed" && found.1.contains(part), "{name}: {found:?}");
    }
    Ok(())
}

/// `groundwork status` shows the drift below its item, and `replay` shows the time of its
/// discovery.
#[tokio::test(flavor = "multi_thread")]
async fn the_command_shows_drift() -> Result<()> {
    let namespace = "drift-status";
    let Some((case, cluster)) = start(namespace).await? else { return Ok(()) };
    let manifest = json!({"apiVersion": "manifest.deployer.landscaper.gardener.cloud/v1alpha2",
        "kind": "ProviderConfiguration", "manifests": [{"manifest": config_map(namespace, "cfg")}]});
    let items = json!({"deployItems": [{"name": "objects", "type": "landscaper.gardener.cloud/kubernetes-manifest",
        "target": {"import": "cluster"}, "config": manifest}]});
    let blueprint = json!({
        "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Blueprint",
        "imports": [{"name": "cluster", "targetType": "landscaper.gardener.cloud/kubernetes-cluster"}],
        "deployExecutions": [{"name": "default", "type": "GoTemplate", "template": items.to_string()}],
    });
    let imports = json!({"imports": {"targets": [{"name": "cluster", "target": "dev"}]}});
    let installed: Installation = case.install_with("shop", &blueprint.to_string(), &imports).await?;
    ensure!(installed.status.and_then(|status| status.phase).as_deref() == Some("Succeeded"));
    edit(&cluster, &address(namespace, "cfg"), &json!({"data": {"color": "red"}})).await?;
    let name = format!("{namespace}/shop");
    wait_for("the command shows the drift", PATIENCE, async || {
        let (_, text, error) = run(case.system, &["status", &name]).await.map_err(|error| error.to_string())?;
        let is_told = text.contains("~ Drifted: changed since the last job: drift-status/cfg of type ConfigMap: kubectl-edit changed .data.color");
        if is_told { Ok(()) } else { Err(format!("{text}{error}")) }
    })
    .await?;
    let token = account(&case, "viewer", &ALL).await?;
    wait_for("the journal tells of the drift", PATIENCE, async || {
        let found = entries(case.system, &token, &[&name]).await.map_err(|error| error.to_string())?;
        let is_told = found.iter().any(|entry| entry["reason"] == "ObjectsChanged");
        if is_told { Ok(()) } else { Err(format!("{found:#?}")) }
    })
    .await?;
    let (_, text, _) = run(case.system, &["status", &name, "-o", "json"]).await?;
    let tree: Value = serde_json::from_str(&text)?;
    ensure!(tree["nodes"][0]["nodes"][0]["drift"].is_string(), "{tree}");
    Ok(())
}
