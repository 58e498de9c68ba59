//! Manifests in the cluster of a Target, which is a second API server (`installations.md` 7.7 and
//! 7.9).

use anyhow::{Result, ensure};
use groundwork_api::{DataObject, DeployItem, Installation, Target};
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};

use crate::case::Case;
use crate::shared;
use crate::support::outcome as outcome_of;
use crate::target_cluster::{
    cluster, configuration, create_item, create_item_with, give_job, job_over, outcome, run_job, target,
};

fn config_map(namespace: &str, name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": data})
}

fn namespace(name: &str) -> Value {
    json!({"policy": "keep", "manifest": {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}})
}

fn address(namespace: &str, name: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps/{name}")
}

/// Returns a blueprint with one item that deploys these manifests and exports a colour.
fn blueprint(manifests: &Value) -> String {
    let config = configuration(&json!({
        "manifests": manifests,
        "exports": {"exports": [{
            "key": "color", "jsonPath": ".data.color",
            "fromResource": {"apiVersion": "v1", "kind": "ConfigMap", "name": "cfg", "namespace": "shop"},
        }]},
    }));
    format!(
        "apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: Blueprint\n\
         imports:\n- {{name: cluster, type: target, targetType: landscaper.gardener.cloud/kubernetes-cluster}}\n\
         exports:\n- {{name: color, type: data, schema: {{type: string}}}}\n\
         deployExecutions:\n- name: default\n  type: GoTemplate\n  template: |\n    deployItems:\n    - name: item\n      \
         type: landscaper.gardener.cloud/kubernetes-manifest\n      target: {{import: cluster}}\n      config: {config}\n\
         exportExecutions:\n- name: default\n  type: GoTemplate\n  template: |\n    exports:\n      \
         color: {{{{ index .values.deployitems.item \"color\" }}}}\n"
    )
}

/// The example of `installations.md` 7.9: the item creates namespace and ConfigMap, and exports the
/// colour. A job without changes reads each object once and writes none. Dropped manifests are
/// deleted. The end of the Installation leaves the namespace, whose policy is to keep it.
#[tokio::test(flavor = "multi_thread")]
async fn an_installation_deploys_manifests() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let (case, cluster) = (Case::new(system, "deploying").await?, cluster().await?);
    cluster.create_target(&case, "dev").await?;
    let more = config_map("shop", "more", &json!({"a": "b"}));
    let manifests = |color: &str| json!([namespace("shop"), {"manifest": config_map("shop", "cfg", &json!({"color": color}))}, {"manifest": more}]);
    let spec = json!({
        "imports": {"targets": [{"name": "cluster", "target": "dev"}]},
        "exports": {"data": [{"name": "color", "dataRef": "color"}]},
    });
    let installation = case.install_with("shop", &blueprint(&manifests("blue")), &spec).await?;
    ensure!(outcome_of(&installation).0 == "Succeeded", "{:?}", outcome_of(&installation));
    let found = cluster.get(&address("shop", "cfg")).await?.unwrap_or_default();
    ensure!(found["data"] == json!({"color": "blue"}), "{found}");
    let item = case.item("shop", "item").await?;
    let label = "manifest.deployer.landscaper.gardener.cloud/deployitem";
    ensure!(found["metadata"]["labels"][label].as_str() == item.metadata.name.as_deref(), "{found}");
    ensure!(found["metadata"]["managedFields"][0]["manager"] == "groundwork-deployer", "{found}");
    let exported = case.get::<DataObject>("color").await?;
    ensure!(exported.data.get() == Some(&json!("blue")), "{exported:?}");

    let before = cluster.requests("/namespaces/shop")?;
    case.reconcile("shop").await?;
    let after = cluster.requests("/namespaces/shop")?;
    let new = &after[before.len()..];
    ensure!(new.len() == 3 && new.iter().all(|(verb, _)| verb == "get"), "{new:?}");

    let fewer =
        json!([namespace("shop"), {"manifest": config_map("shop", "cfg", &json!({"color": "green"}))}]);
    let inline = json!({"inline": {"filesystem": {"blueprint.yaml": blueprint(&fewer)}}});
    case.change::<Installation>("shop", &json!({"spec": {"blueprint": inline}})).await?;
    case.finished("shop").await?;
    let found = cluster.get(&address("shop", "cfg")).await?.unwrap_or_default();
    ensure!(found["data"] == json!({"color": "green"}), "{found}");
    ensure!(cluster.get(&address("shop", "more")).await?.is_none(), "what is listed no more is there");
    let exported = case.get::<DataObject>("color").await?;
    ensure!(exported.data.get() == Some(&json!("green")), "{exported:?}");

    case.delete::<Installation>("shop").await?;
    case.gone::<Installation>("shop").await?;
    ensure!(cluster.get(&address("shop", "cfg")).await?.is_none(), "it outlived its item");
    ensure!(cluster.get("/api/v1/namespaces/shop").await?.is_some(), "what is to be kept is gone");
    Ok(())
}

/// Every policy and strategy of `installations.md` 7.9, on objects that exist already and on those
/// of other owners.
#[tokio::test(flavor = "multi_thread")]
async fn policies_and_strategies() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let (case, cluster) = (Case::new(system, "policies").await?, cluster().await?);
    cluster.create_target(&case, "dev").await?;
    cluster.plane.create_namespace("policies").await?;
    let folder = "/api/v1/namespaces/policies/configmaps";
    for name in ["foreign", "taken", "ignored", "frozen", "merged", "overwritten", "patched"] {
        cluster.create(folder, &config_map("policies", name, &json!({"old": "1", "both": "old"}))).await?;
    }
    let of = |name: &str| config_map("policies", name, &json!({"new": "2", "both": "new"}));
    let manifests = json!([
        {"policy": "fallback", "manifest": of("foreign")},
        {"policy": "manage", "manifest": of("taken")},
        {"policy": "ignore", "manifest": of("ignored")},
        {"policy": "immutable", "manifest": of("frozen")},
        {"policy": "fallback", "manifest": of("fresh"), "annotateBeforeCreate": {"made": "yes"}},
    ]);
    create_item(&case, "item", "dev", &json!({"manifests": manifests})).await?;
    let item = run_job(&case, "item", "1").await?;
    ensure!(outcome(&item) == ("Succeeded".into(), String::new()), "{:?}", outcome(&item));
    let data = async |name: &str| -> Result<Value> {
        Ok(cluster
            .get(&address("policies", name))
            .await?
            .map(|mut found| found["data"].take())
            .unwrap_or_default())
    };
    let (old, new) = (json!({"old": "1", "both": "old"}), json!({"new": "2", "both": "new"}));
    // Fields that other managers own stay.
    let both = json!({"old": "1", "both": "new", "new": "2"});
    for (name, expected) in
        [("foreign", &old), ("taken", &both), ("ignored", &old), ("frozen", &old), ("fresh", &new)]
    {
        ensure!(&data(name).await? == expected, "{name}: {}", data(name).await?);
    }
    let fresh = cluster.get(&address("policies", "fresh")).await?.unwrap_or_default();
    ensure!(fresh["metadata"]["annotations"] == json!({"made": "yes"}), "{fresh}");
    let managed = item.status.unwrap_or_default().provider_status.get().cloned().unwrap_or_default();
    let names: Vec<_> = managed["managedResources"].as_array().into_iter().flatten().collect();
    let names: Vec<_> =
        names.iter().map(|one| one["resource"]["name"].as_str().unwrap_or_default()).collect();
    ensure!(names == ["fresh", "frozen", "taken"], "{names:?}");

    for (name, strategy, expected) in [
        ("merged", "merge", json!({"old": "1", "both": "old", "new": "2"})),
        ("overwritten", "mergeOverwrite", both.clone()),
        ("patched", "patch", both.clone()),
    ] {
        let item = format!("item-{name}");
        let config = json!({"updateStrategy": strategy, "manifests": [{"manifest": of(name)}]});
        create_item(&case, &item, "dev", &config).await?;
        let found = run_job(&case, &item, "1").await?;
        ensure!(outcome(&found).0 == "Succeeded", "{:?}", outcome(&found));
        ensure!(data(name).await? == expected, "{strategy}: {}", data(name).await?);
    }

    // The next job repairs drift, and keeps the fields that users added.
    cluster.change(&address("policies", "taken"), &json!({"data": {"both": "drift", "added": "x"}})).await?;
    run_job(&case, "item", "2").await?;
    let added = json!({"old": "1", "both": "new", "new": "2", "added": "x"});
    ensure!(data("taken").await? == added, "{}", data("taken").await?);

    case.delete::<DeployItem>("item").await?;
    give_job(&case, "item", "3").await?;
    case.gone::<DeployItem>("item").await?;
    for (name, is_there) in
        [("foreign", true), ("ignored", true), ("frozen", false), ("taken", false), ("fresh", false)]
    {
        ensure!(cluster.get(&address("policies", name)).await?.is_some() == is_there, "{name}");
    }
    Ok(())
}

/// An item with a definition and its object, with patches and annotations, in the old version of
/// the configuration. A finalizer that no controller removes blocks the deletion until the deletion
/// group forces it.
#[tokio::test(flavor = "multi_thread")]
async fn definitions_patches_and_forced_deletion() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let (case, cluster) = (Case::new(system, "definitions").await?, cluster().await?);
    cluster.create_target(&case, "dev").await?;
    cluster.plane.create_namespace("definitions").await?;
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.definitions.example.org"},
        "spec": {
            "group": "definitions.example.org", "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    });
    let thing = json!({
        "apiVersion": "definitions.example.org/v1", "kind": "Thing",
        "metadata": {"name": "one", "namespace": "definitions", "finalizers": ["example.org/never"]}, "spec": {"size": 1},
    });
    let manifests = json!([
        {"manifest": thing, "patchAfterDeployment": {"spec": {"ready": true}}},
        {"manifest": definition},
    ]);
    let groups = json!([
        {"predefinedResourceGroup": {"type": "namespaced-resources", "forceDelete": true}},
        {"predefinedResourceGroup": {"type": "crds"}},
    ]);
    create_item(&case, "item", "dev", &json!({"manifests": manifests, "deletionGroups": groups})).await?;
    let item = run_job(&case, "item", "1").await?;
    ensure!(outcome(&item) == ("Succeeded".into(), String::new()), "{:?}", outcome(&item));
    let path = "/apis/definitions.example.org/v1/namespaces/definitions/things/one";
    let found = cluster.get(path).await?.unwrap_or_default();
    ensure!(found["spec"] == json!({"size": 1, "ready": true}), "{found}");
    // The patched object is the desired state, so a second job only reads it.
    let before = cluster.requests(path)?.len();
    run_job(&case, "item", "2").await?;
    let new: Vec<_> = cluster.requests(path)?.split_off(before);
    ensure!(new.iter().all(|(verb, _)| verb == "get"), "{new:?}");
    case.delete::<DeployItem>("item").await?;
    give_job(&case, "item", "3").await?;
    case.gone::<DeployItem>("item").await?;
    let definitions =
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.definitions.example.org";
    cluster.until("the definition is gone", definitions, |found| found.is_none()).await?;

    let old = json!({
        "apiVersion": "manifest.deployer.landscaper.gardener.cloud/v1alpha1", "kind": "ProviderConfiguration",
        "manifests": [{"apiVersion": "v1", "kind": "List", "items": [config_map("definitions", "old", &json!({"a": "b"}))]}],
    });
    create_item_with(&case, "old", "dev", &json!({}), &json!({"config": old})).await?;
    let item = run_job(&case, "old", "1").await?;
    ensure!(outcome(&item).0 == "Succeeded", "{:?}", outcome(&item));
    ensure!(cluster.get(&address("definitions", "old")).await?.is_some(), "the List was not taken apart");
    Ok(())
}

/// An item waits for objects that are not ready and for its exports. If this takes too long, the
/// item fails and names the awaited object.
#[tokio::test(flavor = "multi_thread")]
async fn items_wait_until_all_is_ready() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let (case, cluster) = (Case::new(system, "waiting").await?, cluster().await?);
    cluster.create_target(&case, "dev").await?;
    cluster.plane.create_namespace("waiting").await?;
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "waiting"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}},
    });
    let check = json!({"custom": [{
        "name": "ready", "resourceSelector": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": "waiting"}],
        "requirements": [{"jsonPath": ".status.conditions[?(@.type==\"Progressing\")].status", "operator": "==", "values": [{"value": "True"}]}],
    }]});
    let exports = json!({"exports": [
        {"key": "web.ready", "jsonPath": ".status.readyReplicas",
            "fromResource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": "waiting"}},
    ]});
    let config =
        json!({"manifests": [{"manifest": deployment}], "readinessChecks": check, "exports": exports});
    create_item(&case, "item", "dev", &config).await?;
    give_job(&case, "item", "1").await?;
    let path = "/apis/apps/v1/namespaces/waiting/deployments/web";
    case.until("it is under way", "item", |item: &DeployItem| outcome(item).0 == "Progressing").await?;
    let status = json!({"status": {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1, "readyReplicas": 1}});
    cluster.change(&format!("{path}/status"), &status).await?;
    // The object is ready by the rules of its kind, but not yet by the check of the item.
    cluster
        .change(
            &format!("{path}/status"),
            &json!({"status": {"conditions": [{"type": "Progressing", "status": "True"}]}}),
        )
        .await?;
    let item = job_over(&case, "item", "1").await?;
    ensure!(outcome(&item) == ("Succeeded".into(), String::new()), "{:?}", outcome(&item));
    let secret = case.get::<Secret>("item-export").await?;
    let exported = secret.data.unwrap_or_default().remove("config").map(|bytes| bytes.0).unwrap_or_default();
    ensure!(serde_json::from_slice::<Value>(&exported)? == json!({"web": {"ready": 1}}), "{exported:?}");

    let late = json!({"manifests": [{"manifest": deployment}], "exports": exports});
    create_item(&case, "late", "dev", &json!({"manifests": [{"manifest": config_map("waiting", "late", &json!({}))}],
        "exports": {"exports": [{"key": "a", "jsonPath": ".data.token",
            "fromResource": {"apiVersion": "v1", "kind": "ConfigMap", "name": "made-by-hand", "namespace": "waiting"}}]}})).await?;
    give_job(&case, "late", "1").await?;
    case.until("it is under way", "late", |item: &DeployItem| outcome(item).0 == "Progressing").await?;
    cluster
        .create(
            "/api/v1/namespaces/waiting/configmaps",
            &config_map("waiting", "made-by-hand", &json!({"token": "t"})),
        )
        .await?;
    let item = job_over(&case, "late", "1").await?;
    ensure!(outcome(&item).0 == "Succeeded", "{:?}", outcome(&item));
    let secret = case.get::<Secret>("late-export").await?;
    let exported = secret.data.unwrap_or_default().remove("config").map(|bytes| bytes.0).unwrap_or_default();
    ensure!(serde_json::from_slice::<Value>(&exported)? == json!({"a": "t"}), "{exported:?}");

    create_item_with(&case, "never", "dev", &late, &json!({"timeout": "2s"})).await?;
    cluster.change(&format!("{path}/status"), &json!({"status": {"updatedReplicas": 0}})).await?;
    let item = run_job(&case, "never", "1").await?;
    let (phase, error) = outcome(&item);
    ensure!(phase == "Failed" && error.contains("ProgressingTimeout: timeout at: \"deployer: during readiness check - resource waiting/web of type Deployment"), "{error}");
    Ok(())
}

/// B-04: no deployer here touches items of unknown types, which belong to other deployers.
#[tokio::test(flavor = "multi_thread")]
async fn items_of_other_types_are_left_alone() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let (case, cluster) = (Case::new(system, "other-types").await?, cluster().await?);
    cluster.create_target(&case, "dev").await?;
    let foreign = json!({"spec": {"type": "example.org/container", "config": {"a": "b"}}});
    case.create::<DeployItem>("foreign", &foreign).await?;
    give_job(&case, "foreign", "1").await?;
    let before = case.get::<DeployItem>("foreign").await?;
    // By the end of these items, their deployers have received the foreign item, too.
    create_item(&case, "own", "dev", &json!({"manifests": [namespace("other-types-target")]})).await?;
    run_job(&case, "own", "1").await?;
    let mock = json!({"spec": {"type": "landscaper.gardener.cloud/mock", "config": {
        "apiVersion": "mock.deployer.landscaper.gardener.cloud/v1alpha1", "kind": "ProviderConfiguration"}}});
    case.create::<DeployItem>("mock", &mock).await?;
    run_job(&case, "mock", "1").await?;
    let after = case.get::<DeployItem>("foreign").await?;
    ensure!(after == before, "{after:?}");
    Ok(())
}

/// Targets without a usable cluster: an item whose Target can never work fails at once with a
/// reason, and an item whose cluster may come back waits. No message quotes the content of a
/// Target.
#[tokio::test(flavor = "multi_thread")]
async fn targets_that_lead_nowhere() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let (case, cluster) = (Case::new(system, "nowhere").await?, cluster().await?);
    let manifests = json!({"manifests": [{"manifest": config_map("nowhere", "a", &json!({}))}]});
    let good = cluster.kubeconfig()?;
    let with = |path: &str, value: Value| {
        let mut config = good.clone();
        if let Some(slot) = config.pointer_mut(path) {
            *slot = value;
        }
        json!({"kubeconfig": config.to_string()})
    };
    let exec = json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "canary"}});
    for (name, config, part) in [
        ("exec", with("/users/0/user", exec), "exec is refused"),
        ("file", with("/users/0/user", json!({"tokenFile": "/canary"})), "tokenFile is refused"),
        ("text", json!({"kubeconfig": "canary"}), "the content of the target cannot be used"),
        ("none", json!({"a": "canary"}), "none of the members kubeconfig, oidcConfig and selfConfig"),
    ] {
        case.create::<Target>(name, &target(&config)).await?;
        create_item(&case, name, name, &manifests).await?;
        let (phase, error) = outcome(&run_job(&case, name, "1").await?);
        ensure!(
            phase == "Failed" && error.contains(part) && !error.contains("canary"),
            "{name}: {phase} {error}"
        );
    }
    create_item(&case, "missing", "there-is-none", &manifests).await?;
    let (phase, error) = outcome(&run_job(&case, "missing", "1").await?);
    ensure!(phase == "Failed" && error.contains("the target there-is-none does not exist"), "{error}");

    // A port without a listener, an unknown token, and a certificate of another authority: the item
    // reports each error and retries until its timeout.
    let nobody = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let away = with("/clusters/0/cluster/server", json!(format!("https://127.0.0.1:{nobody}")));
    let stranger = with("/users/0/user/token", json!("canary"));
    let other = json!(shared_certificate(system).await?);
    let untrusted = with("/clusters/0/cluster/certificate-authority-data", other);
    for (name, config, part) in [
        ("away", away, "cannot get"),
        ("stranger", stranger, "its credentials are wrong"),
        ("untrusted", untrusted, "certificate"),
    ] {
        case.create::<Target>(name, &target(&config)).await?;
        create_item_with(&case, name, name, &manifests, &json!({"timeout": "2s"})).await?;
        let (phase, error) = outcome(&run_job(&case, name, "1").await?);
        ensure!(
            phase == "Failed" && error.contains("ProgressingTimeout") && error.contains(part),
            "{name}: {phase} {error}"
        );
        ensure!(!error.contains("canary"), "{error}");
    }

    // A user repairs the Secret of the Target while the item waits.
    cluster.plane.create_namespace("nowhere").await?;
    case.create::<Secret>(
        "access",
        &json!({"stringData": {"kubeconfig": with("/users/0/user/token", json!("canary"))["kubeconfig"]}}),
    )
    .await?;
    let by_secret = json!({"spec": {"type": "landscaper.gardener.cloud/kubernetes-cluster", "secretRef": {"name": "access", "key": "kubeconfig"}}});
    case.create::<Target>("mended", &by_secret).await?;
    create_item(&case, "mended", "mended", &manifests).await?;
    give_job(&case, "mended", "1").await?;
    case.until("it is told", "mended", |item: &DeployItem| {
        outcome(item).1.contains("its credentials are wrong")
    })
    .await?;
    case.change::<Secret>("access", &json!({"stringData": {"kubeconfig": good.to_string()}})).await?;
    let item = job_over(&case, "mended", "1").await?;
    ensure!(outcome(&item) == ("Succeeded".into(), String::new()), "{:?}", outcome(&item));
    Ok(())
}

/// Returns the self-signed certificate of the home cluster.
async fn shared_certificate(system: &groundwork_tests::System) -> Result<String> {
    let config: Value = serde_json::from_str(&std::fs::read_to_string(system.plane.kubeconfig())?)?;
    Ok(config["clusters"][0]["cluster"]["certificate-authority-data"].as_str().unwrap_or_default().to_owned())
}
