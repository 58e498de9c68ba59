//! Imports of Installations: their sources, their copies, and the time at which a change takes
//! effect.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use groundwork_api::{DataObject, DeployItem, Installation, Target};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::case::{Case, error, job};
use crate::shared;
use crate::support::outcome;

const CONTEXT: &str = "data.landscaper.gardener.cloud/context";
const JOB: &str = "data.landscaper.gardener.cloud/jobid";
const HASH: &str = "data.landscaper.gardener.cloud/hash";

/// Returns a blueprint with these imports, whose item exports all imported data unchanged.
fn blueprint(data: &[&str], targets: &[(&str, &str)], item: &str) -> String {
    let mut text =
        String::from("apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: Blueprint\nimports:\n");
    for name in data {
        text.push_str(&format!("- {{name: {name}, type: data, schema: {{}}}}\n"));
    }
    for (name, type_name) in targets {
        text.push_str(&format!(
            "- {{name: {name}, type: {type_name}, targetType: landscaper.gardener.cloud/mock}}\n"
        ));
    }
    text.push_str(
        "deployExecutions:\n- name: default\n  type: GoTemplate\n  template: |\n    deployItems:\n    - name: item\n      \
         type: landscaper.gardener.cloud/mock\n",
    );
    text.push_str(item);
    text.push_str(
        "      config:\n        apiVersion: mock.deployer.landscaper.gardener.cloud/v1alpha1\n        \
         kind: ProviderConfiguration\n        export:\n",
    );
    for name in data {
        text.push_str(&format!("          {name}: {{{{ toJson (index .imports \"{name}\") }}}}\n"));
    }
    text
}

/// Returns the exports of an Installation's item.
fn exported(item: &DeployItem) -> Value {
    item.spec.config.get().map(|config| config["export"].clone()).unwrap_or_default()
}

async fn create_sources(case: &Case<'_>) -> Result<()> {
    case.create::<DataObject>("access", &json!({"data": "hello"})).await?;
    let entries = json!({"port": "8080", "hosts": "[a, b]"});
    case.create::<ConfigMap>("settings", &json!({"data": entries})).await?;
    case.create::<Secret>("login", &json!({"stringData": {"user": "alice", "code": "{pin: 12}"}})).await?;
    for name in ["blue", "green"] {
        let spec = json!({"type": "landscaper.gardener.cloud/mock", "config": {"name": name}});
        let metadata = json!({"labels": {"colour": name}});
        case.create::<Target>(name, &json!({"metadata": metadata, "spec": spec})).await?;
    }
    Ok(())
}

/// I-02, I-05, I-10, I-13, I-66, I-67, I-68, I-70, I-71, I-75, B-66, B-68, B-69: values of all
/// sources reach the item, and their copies in the Installation's own scope have the names of
/// `installations.md` 4.3, with its vector for `application` and `databaseaccess`.
#[tokio::test(flavor = "multi_thread")]
async fn imports_of_every_kind_arrive() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let case = Case::existing(system, "default").await?;
    create_sources(&case).await?;
    let data = ["databaseaccess", "settings", "port", "login", "code"];
    let targets = [("cluster", "target"), ("clusters", "targetList")];
    let text = blueprint(&data, &targets, "      target: {import: cluster}\n");
    let imports = json!({
        "data": [
            {"name": "databaseaccess", "dataRef": "access"},
            {"name": "settings", "configMapRef": {"name": "settings"}},
            {"name": "port", "configMapRef": {"name": "settings", "key": "port"}},
            {"name": "login", "secretRef": {"name": "login", "key": ""}},
            {"name": "code", "secretRef": {"name": "login", "key": "code"}},
        ],
        "targets": [{"name": "cluster", "target": "blue"}, {"name": "clusters", "targets": ["green", "blue"]}],
    });
    let installation = case.install_with("application", &text, &json!({"imports": imports})).await?;
    assert_eq!(outcome(&installation), ("Succeeded".to_owned(), String::new()));

    let item = case.item("application", "item").await?;
    assert_eq!(
        exported(&item),
        json!({
            "databaseaccess": "hello",
            "settings": {"port": 8080, "hosts": ["a", "b"]},
            "port": 8080,
            "login": {"user": "alice", "code": {"pin": 12}},
            "code": {"pin": 12},
        })
    );
    let name = item.name_any();
    assert!(name.starts_with("application-item-"), "{name}");
    assert_eq!(item.spec.type_, "landscaper.gardener.cloud/mock");
    // The item refers to the Target itself, not to its copy.
    assert_eq!(item.spec.target.context("the item has a target")?.name, "blue");

    let status = installation.status.clone().unwrap_or_default();
    let import = |name: &str, type_name: &str, written: Option<&str>, generation: u8| {
        let mut status = json!({"name": name, "type": type_name, "configGeneration": generation});
        if let Some(written) = written {
            status["dataRef"] = json!(written);
        }
        status
    };
    assert_eq!(
        json!(status.imports),
        json!([
            import("databaseaccess", "dataobject", Some("access"), 1),
            import("settings", "dataobject", Some("settings"), 0),
            import("port", "dataobject", Some("settings"), 0),
            import("login", "dataobject", Some("login"), 0),
            import("code", "dataobject", Some("login"), 0),
            import("cluster", "target", Some("blue"), 1),
            import("clusters", "target", None, 1),
        ])
    );
    let hash = status.imports_hash.clone().unwrap_or_default();
    assert!(hash.len() == 40 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()), "{hash}");
    copies_are_labelled(&case, &installation).await
}

async fn copies_are_labelled(case: &Case<'_>, installation: &Installation) -> Result<()> {
    let copy: DataObject = case.get("n5gt6tkql4hpmz3cvuy6qqswz5bw62qe").await?;
    let metadata = &copy.metadata;
    let prefix = "data.landscaper.gardener.cloud/";
    let labels: BTreeMap<&str, &str> = metadata
        .labels
        .iter()
        .flatten()
        .map(|(name, value)| (name.strip_prefix(prefix).unwrap_or(name), value.as_str()))
        .collect();
    let scope = "Installation.default.application";
    let expected = [
        ("context", scope),
        ("jobid", &job(installation)),
        ("key", "databaseaccess"),
        ("source", scope),
        ("sourceType", "import"),
    ];
    assert_eq!(labels, BTreeMap::from(expected));
    let annotations = metadata.annotations.clone().unwrap_or_default();
    assert_eq!(annotations.get(HASH).map(String::as_str), Some("a1f2fbfe2c4ad81749cd0380b735295d06f9d0c4"));
    let owners = metadata.owner_references.clone().unwrap_or_default();
    assert_eq!(owners.len(), 1);
    assert_eq!(Some(&owners[0].uid), installation.metadata.uid.as_ref());
    assert_eq!((owners[0].kind.as_str(), owners[0].controller), ("Installation", None));

    let of_scope = format!("{CONTEXT}={scope}");
    assert_eq!(case.list::<DataObject>(&of_scope).await?.len(), 5);
    let mut targets: Vec<Value> = case
        .list::<Target>(&of_scope)
        .await?
        .into_iter()
        .map(|target| {
            let labels = target.metadata.labels.unwrap_or_default();
            let label = |name: &str| labels.get(name).cloned().unwrap_or_default();
            json!([label(&format!("{prefix}key")), label(&format!("{prefix}index")), label("colour")])
        })
        .collect();
    targets.sort_by_key(Value::to_string);
    let expected = [["cluster", "", "blue"], ["clusters", "0", "green"], ["clusters", "1", "blue"]];
    assert_eq!(json!(targets), json!(expected));
    Ok(())
}

/// I-62: a changed import takes effect with the next job, not before. Copies of imports that the
/// Installation no longer names are deleted.
#[tokio::test(flavor = "multi_thread")]
async fn changed_and_renamed_imports_take_effect_with_the_next_job() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let case = Case::new(system, "changed-imports").await?;
    case.create::<DataObject>("colour", &json!({"data": "red"})).await?;
    let imports = |name: &str| json!({"imports": {"data": [{"name": name, "dataRef": "colour"}]}});
    let first = case.install_with("server", &blueprint(&["colour"], &[], ""), &imports("colour")).await?;
    let hash = |installation: &Installation| {
        installation.status.as_ref().and_then(|status| status.imports_hash.clone())
    };

    case.change::<DataObject>("colour", &json!({"data": "green"})).await?;
    // Another Installation uses the changed value, so by now all services have had time to see the
    // change.
    let other = case.install_with("other", &blueprint(&["colour"], &[], ""), &imports("colour")).await?;
    assert_eq!(exported(&case.item("other", "item").await?), json!({"colour": "green"}));
    assert_eq!(exported(&case.item("server", "item").await?), json!({"colour": "red"}));
    assert_eq!(job(&case.get("server").await?), job(&first));

    let second = case.reconcile("server").await?;
    assert_eq!(outcome(&second), ("Succeeded".to_owned(), String::new()));
    assert_eq!(exported(&case.item("server", "item").await?), json!({"colour": "green"}));
    assert_ne!(hash(&second), hash(&first));
    assert_eq!(hash(&second), hash(&other));

    let mut spec = imports("paint");
    spec["blueprint"] = json!({"inline": {"filesystem": {"blueprint.yaml": blueprint(&["paint"], &[], "")}}});
    case.change::<Installation>("server", &json!({"spec": spec})).await?;
    let third = case.finished_after("server", &job(&second)).await?;
    assert_eq!(outcome(&third), ("Succeeded".to_owned(), String::new()));
    assert_eq!(exported(&case.item("server", "item").await?), json!({"paint": "green"}));
    let copies = case.list::<DataObject>(&format!("{CONTEXT}=Installation.changed-imports.server")).await?;
    let copies: Vec<_> = copies.iter().filter_map(|copy| copy.metadata.labels.as_ref()).collect();
    assert_eq!(copies.len(), 1, "the copy of the renamed import is gone: {copies:?}");
    assert_eq!(copies[0].get(JOB), Some(&job(&third)));

    // The blueprint has an import that the Installation does not bind.
    case.change::<Installation>("server", &json!({"spec": imports("tint")})).await?;
    let failed = case.finished_after("server", &job(&third)).await?;
    let (operation, reason, message) = error(&failed);
    assert_eq!((operation.as_str(), reason.as_str()), ("handlePhaseInit", "CreateImportsAndSubobjects"));
    assert!(message.contains("ImportNotFound") && message.contains("paint"), "{message}");
    Ok(())
}
