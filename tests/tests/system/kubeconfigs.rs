//! Kubeconfigs that templates ask for (`blueprints.md` 5.5): from the template over the renderer
//! and the deployer to the cluster of a Target, and back into the exports.

use anyhow::{Context, Result, ensure};
use groundwork_api::{DataObject, DeployItem, Installation, Target};
use groundwork_tests::{System, SystemOptions};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::{Api, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

use crate::case::Case;
use crate::shared;
use crate::support::outcome;
use crate::target_cluster::{TargetCluster, cluster, target};
use crate::target_sync_source::{CANARY, Garden, kubeconfig_of};

const CLUSTER: &str = "landscaper.gardener.cloud/kubernetes-cluster";

/// Returns a blueprint that exports the results of calls: of an item, of an export execution in Go,
/// and of one in spiff.
fn blueprint(go: &str, expiring: &str, spiff: &str) -> String {
    let config = json!({
        "apiVersion": "mock.deployer.landscaper.gardener.cloud/v1alpha1", "kind": "ProviderConfiguration",
        "export": {"made": format!("{{{{ {go} }}}}")},
    });
    let item =
        format!("deployItems: [{{name: echo, type: landscaper.gardener.cloud/mock, config: {config}}}]");
    let exports = format!(
        "exports: {{item: {{{{ .values.deployitems.echo.made }}}}, expiring: {{{{ toJson ({expiring}) }}}}}}"
    );
    let declared = |name: &str| json!({"name": name, "type": "data", "schema": {}});
    json!({
        "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Blueprint",
        "imports": [{"name": "cluster", "type": "target", "targetType": CLUSTER}, declared("number")],
        "deployExecutions": [{"name": "d", "type": "GoTemplate", "template": item}],
        "exportExecutions": [
            {"name": "go", "type": "GoTemplate", "template": exports},
            {"name": "spiff", "type": "Spiff", "template": {"exports": {"spiff": format!("(( {spiff} ))")}}},
        ],
        "exports": (["item", "expiring", "spiff"].map(declared)),
    })
    .to_string()
}

fn wiring() -> Value {
    let export = |name: &str| json!({"name": name, "dataRef": name});
    json!({
        "imports": {
            "data": [{"name": "number", "dataRef": "number"}],
            "targets": [{"name": "cluster", "target": "cluster"}],
        },
        "exports": {"data": (["item", "expiring", "spiff"].map(export))},
    })
}

/// Returns the exported kubeconfig, which is the same in all three exports, and its end.
async fn exported(case: &Case<'_>) -> Result<(String, Value)> {
    let value = async |name: &str| {
        Ok::<_, anyhow::Error>(case.get::<DataObject>(name).await?.data.into_value().unwrap_or_default())
    };
    let (item, spiff, expiring) = (value("item").await?, value("spiff").await?, value("expiring").await?);
    ensure!(item == spiff && item == expiring["kubeconfig"], "{item} {spiff} {expiring}");
    let encoded = item.as_str().context("a text")?;
    Ok((String::from_utf8(data_encoding::BASE64.decode(encoded.as_bytes())?)?, expiring))
}

/// Returns the user that the cluster knows a kubeconfig by.
async fn user(kubeconfig: &str) -> Result<String> {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig)?;
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let reviews: Api<SelfSubjectReview> = Api::all(Client::try_from(config)?);
    let review = reviews.create(&PostParams::default(), &SelfSubjectReview::default()).await?;
    let info = review.status.and_then(|status| status.user_info);
    info.and_then(|info| info.username).context("the cluster knows the user")
}

async fn create_account(target: &TargetCluster, namespace: &str) -> Result<()> {
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}});
    target.create(&format!("/api/v1/namespaces/{namespace}/serviceaccounts"), &account).await?;
    Ok(())
}

/// A service account of the target cluster: its kubeconfig works, all templates of a job get the
/// same one, and the next job too, until the imports change.
#[tokio::test(flavor = "multi_thread")]
async fn templates_get_kubeconfigs_of_service_accounts() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let case = Case::new(system, "kubeconfigs").await?;
    let target = cluster().await?;
    target.plane.create_namespace("robots").await?;
    create_account(&target, "robots").await?;
    target.create_target(&case, "cluster").await?;
    case.create::<DataObject>("number", &json!({"data": 1})).await?;
    let arguments = "`robot` `robots` 3600 .imports.cluster";
    let blueprint = blueprint(
        &format!("getServiceAccountKubeconfig {arguments}"),
        &format!("getServiceAccountKubeconfigWithExpirationTimestamp {arguments}"),
        "getServiceAccountKubeconfig(\"robot\", \"robots\", 3600, imports.cluster)",
    );
    let asked = || Ok::<_, anyhow::Error>(target.requests("/robots/serviceaccounts/robot/token")?.len());
    let done = case.install_with("app", &blueprint, &wiring()).await?;
    ensure!(outcome(&done) == ("Succeeded".to_owned(), String::new()), "{:?}", outcome(&done));
    let (first, expiring) = exported(&case).await?;
    ensure!(user(&first).await? == "system:serviceaccount:robots:robot");
    // The Target's own user is not in it.
    let original = target.kubeconfig()?.to_string();
    let own = serde_json::from_str::<Value>(&original)?["users"][0]["user"].clone();
    for secret in own.as_object().into_iter().flatten().filter_map(|(_, value)| value.as_str()) {
        ensure!(!first.contains(secret), "the kubeconfig has credentials of the Target");
    }
    let left =
        expiring["expirationTimestamp"].as_i64().context("a number")? - jiff::Timestamp::now().as_second();
    ensure!((3000..=3600).contains(&left), "{expiring}");
    let readable = expiring["expirationTimestampReadable"].as_str().context("a text")?;
    ensure!(
        readable.parse::<jiff::Timestamp>()?.as_second() == expiring["expirationTimestamp"],
        "{expiring}"
    );
    ensure!(asked()? == 1, "{}", asked()?);

    let done = case.reconcile("app").await?;
    ensure!(outcome(&done).0 == "Succeeded", "{:?}", outcome(&done));
    ensure!(exported(&case).await?.0 == first && asked()? == 1, "a job with the same imports gets the same");
    // The kubeconfigs are in a Secret that goes with the Installation.
    let states = case.list::<Secret>("groundwork.dev/holds=state").await?;
    let owners = states.iter().flat_map(|state| state.metadata.owner_references.clone().unwrap_or_default());
    ensure!(states.len() == 1 && owners.map(|owner| owner.name).eq(["app".to_owned()]), "{}", states.len());

    case.change::<DataObject>("number", &json!({"data": 2})).await?;
    let done = case.reconcile("app").await?;
    ensure!(outcome(&done).0 == "Succeeded", "{:?}", outcome(&done));
    ensure!(exported(&case).await?.0 != first && asked()? == 2, "{}", asked()?);
    Ok(())
}

/// The administrator of a Shoot, with a Target whose content is in a Secret.
#[tokio::test(flavor = "multi_thread")]
async fn templates_get_kubeconfigs_of_shoots() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let case = Case::new(system, "kubeconfigs-of-shoots").await?;
    let garden = Garden::with_shoots("garden-kubeconfigs").await?;
    garden.create_shoot("dev").await?;
    garden.give_access(&case, "access").await?;
    let reference = json!({"spec": {"type": CLUSTER, "secretRef": {"name": "access", "key": "kubeconfig"}}});
    case.create::<Target>("cluster", &reference).await?;
    case.create::<DataObject>("number", &json!({"data": 1})).await?;
    let arguments = format!("`dev` `{}` 7200 .imports.cluster", garden.namespace);
    let blueprint = blueprint(
        &format!("getShootAdminKubeconfig {arguments}"),
        &format!("getShootAdminKubeconfigWithExpirationTimestamp {arguments}"),
        &format!("getShootAdminKubeconfig(\"dev\", \"{}\", 7200, imports.cluster)", garden.namespace),
    );
    let done = case.install_with("app", &blueprint, &wiring()).await?;
    ensure!(outcome(&done) == ("Succeeded".to_owned(), String::new()), "{:?}", outcome(&done));
    let (kubeconfig, expiring) = exported(&case).await?;
    ensure!(kubeconfig == kubeconfig_of("dev"), "{kubeconfig}");
    ensure!(expiring["expirationTimestampReadable"] == "2030-01-01T00:00:00Z", "{expiring}");
    let asked = garden.asked();
    ensure!(asked.len() == 1 && asked[0].0 == "dev", "{asked:?}");
    ensure!(asked[0].1["spec"]["expirationSeconds"] == 7200, "{asked:?}");

    // A garden that does not answer ends the job, with the reason and without the credentials.
    garden.answer(503);
    case.change::<DataObject>("number", &json!({"data": 2})).await?;
    let done = case.reconcile("app").await?;
    let (phase, error) = outcome(&done);
    ensure!(phase == "Failed" && error.contains("503 Refused"), "{phase} {error}");
    ensure!(!error.contains(CANARY), "{error}");
    Ok(())
}

/// A template reaches the Targets of its own namespace only, whatever its argument says, and an
/// error names the cause.
#[tokio::test(flavor = "multi_thread")]
async fn templates_reach_no_target_of_another_namespace() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let cluster = cluster().await?;
    let other = Case::new(system, "kubeconfigs-of-others").await?;
    cluster.create_target(&other, "theirs").await?;
    let case = Case::new(system, "kubeconfigs-refused").await?;
    cluster.create_target(&case, "ours").await?;
    let mock = json!({"spec": {"type": "landscaper.gardener.cloud/mock", "config": {}}});
    case.create::<Target>("mock", &mock).await?;
    case.create::<Target>("broken", &target(&json!({"kubeconfig": "a: canary"}))).await?;
    let named = |name: &str| {
        format!("(dict \"metadata\" (dict \"name\" \"{name}\" \"namespace\" \"kubeconfigs-of-others\"))")
    };
    for (index, (target, words)) in [
        (named("theirs"), "the target kubeconfigs-refused/theirs does not exist"),
        (named("mock"), "the type of the target is not"),
        (named("broken"), "it is not a kubeconfig"),
        (named("ours"), "nobody"),
        ("\"ours\"".to_owned(), "expects a target object as 4th argument"),
    ]
    .into_iter()
    .enumerate()
    {
        let call = format!("getServiceAccountKubeconfig \"nobody\" \"default\" 3600 {target}");
        let text = format!("deployItems: [{{name: echo, type: t, config: {{a: {{{{ {call} }}}}}}}}]");
        let blueprint = json!({
            "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Blueprint",
            "deployExecutions": [{"name": "d", "type": "GoTemplate", "template": text}],
        });
        let done = case.install(&format!("app-{index}"), &blueprint.to_string()).await?;
        let (phase, error) = outcome(&done);
        ensure!(phase == "Failed" && error.contains(words), "{call}: {phase} {error}");
        ensure!(!error.contains("canary"), "{error}");
    }
    ensure!(case.list::<DeployItem>("").await?.is_empty());
    Ok(())
}

/// A job waits while no deployer answers, and goes on when one is back.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_wait_for_the_deployer() -> Result<()> {
    let Some(mut system) = System::start(SystemOptions::default()).await? else { return Ok(()) };
    let target = cluster().await?;
    target.plane.create_namespace("waiting-robots").await?;
    create_account(&target, "waiting-robots").await?;
    system.remove("deployer");
    {
        let case = Case::new(&system, "waits").await?;
        target.create_target(&case, "cluster").await?;
        case.create::<DataObject>("number", &json!({"data": 1})).await?;
        let arguments = "`robot` `waiting-robots` 3600 .imports.cluster";
        let blueprint = blueprint(
            &format!("getServiceAccountKubeconfig {arguments}"),
            &format!("getServiceAccountKubeconfigWithExpirationTimestamp {arguments}"),
            "getServiceAccountKubeconfig(\"robot\", \"waiting-robots\", 3600, imports.cluster)",
        );
        case.begin_with("app", &blueprint, &wiring()).await?;
        let waits = |app: &Installation| {
            let status = app.status.clone().unwrap_or_default();
            status.job_id != status.job_id_finished && outcome(app).1.contains("cannot call the deployer")
        };
        case.until("the job waits", "app", waits).await?;
    }
    system.run("deployer").await?;
    let case = Case::existing(&system, "waits").await?;
    let done = case.finished("app").await?;
    ensure!(outcome(&done) == ("Succeeded".to_owned(), String::new()), "{:?}", outcome(&done));
    ensure!(user(&exported(&case).await?.0).await? == "system:serviceaccount:waiting-robots:robot");
    Ok(())
}
