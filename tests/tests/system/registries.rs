//! Components in OCI registries.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use groundwork_api::{
    ComponentVersionOverwrites, Context as LandscaperContext, DataObject, DeployItem, Installation,
};
use groundwork_testkit::{Registry, RegistryOptions, Server, servers_or_skip};
use groundwork_tests::{System, SystemOptions, workspace};
use k8s_openapi::api::core::v1::Secret;
use serde_json::json;

use crate::case::Case;
use crate::command::run;
use crate::echo_server::{applied, deleted};
use crate::shared;
use crate::support::outcome;

/// The example of the overwrites document, with its components in two registries: the reference
/// leads to one registry, the overwrite to the other, and the blueprint comes from the latter.
#[tokio::test(flavor = "multi_thread")]
async fn an_overwrite_leads_from_one_registry_to_another() -> Result<()> {
    if !servers_or_skip(&[Server::Registry]) {
        return Ok(());
    }
    let components = workspace().join("examples/echo-server/components");
    let released = Registry::start(&RegistryOptions::default()).await?;
    let own = Registry::start(&RegistryOptions::default()).await?;
    // One component is pushed from its archive, the other from its sources. The content in the
    // registry is the same in both cases.
    for (source, registry, below) in [("released", &released, "tutorials"), ("sources/own", &own, "mine")] {
        let source = components.join(source);
        push(&source, registry, below, " written").await?;
        push(&source, registry, below, " unchanged").await?;
    }
    let entry = |base: &str, registry: &Registry, below: &str| {
        json!({
            "context": {"type": "ociRegistry", "baseUrl": base},
            "url": format!("http://{}/{below}", registry.address()),
        })
    };
    let map = json!({"repositories": [
        entry("eu.gcr.io/gardener-project/landscaper/tutorials/components", &released, "tutorials"),
        entry("example.org/my-own-registry/components", &own, "mine"),
    ]});
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("repositories.yaml");
    fs::write(&path, map.to_string())?;
    let options = SystemOptions { repositories: Some(path), ..SystemOptions::default() };
    let Some(system) = System::start(options).await? else { return Ok(()) };
    applied(&system).await.map_err(|error| system.explained(error))?;
    explained(&system).await?;
    deleted(&system).await.map_err(|error| system.explained(error))
}

/// B-18: the command writes component versions into a registry, and does not overwrite existing
/// ones (`components.md` 11, item 9).
pub(crate) async fn push(source: &Path, registry: &Registry, below: &str, state: &str) -> Result<()> {
    let to = format!("http://{}/{below}", registry.address());
    let output = tokio::process::Command::new(System::program("groundwork")?)
        .args(["component", "push"])
        .arg(source)
        .args(["--to", &to])
        .output()
        .await?;
    let text = String::from_utf8_lossy(&output.stdout);
    let are_all = text.lines().count() > 0 && text.lines().all(|line| line.ends_with(state));
    ensure!(output.status.success() && are_all, "{text} {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// O-33: the command asks the service for the reason of the chosen component. The answer says that
/// rule 1 blocked rule 2.
async fn explained(system: &System) -> Result<()> {
    let server = format!("http://127.0.0.1:{}", system.grpc_port("resolver"));
    let arguments = ["explain", "overwrites", "--installation", "my-namespace/server", "--server", &server];
    let (code, text, error) = run(system, &arguments).await?;
    let expected = "\
Installation my-namespace/server

  component my-own-echo-server:v0.2.0 from example.org/my-own-registry/components
    written: github.com/gardener/landscaper/echo-server:v0.2.0 from eu.gcr.io/gardener-project/landscaper/tutorials/components
    rule 1: applied
    rule 2: ignored (componentName has been set by rule 1; a rule applies as a whole or not at all)
";
    assert_eq!((code, text.as_str()), (0, expected), "{error}");
    Ok(())
}

/// I-16, I-38, I-47, I-48: for a descriptor inside the Installation, the blueprint is pulled from
/// the location of its access, with the tag `latest` if there is none, and with the pull secret of
/// the Context. If the blueprint is missing there, the job fails with the location.
#[tokio::test(flavor = "multi_thread")]
async fn an_inline_component_leads_to_a_private_registry() -> Result<()> {
    if !servers_or_skip(&[Server::Registry]) {
        return Ok(());
    }
    let Some(system) = shared::system().await? else { return Ok(()) };
    let case = Case::new(system, "private-registry").await?;
    // Hash of the password "secret".
    let users = Some("reader:$2b$04$/uaF/uaF/uaF/uaF/uaF/uyUa5B4sNev9rTvA6TvEBWYO4koffwMy\n".to_owned());
    let registry =
        Registry::start(&RegistryOptions { htpasswd: users, ..RegistryOptions::default() }).await?;
    let folder = tempfile::tempdir()?;
    let layer = folder.path().join("blueprint.tar");
    let own = workspace().join("examples/echo-server/components/own");
    let (own, file) = (own.display().to_string(), layer.display().to_string());
    let fetch = [
        "component",
        "fetch",
        "my-own-echo-server:v0.2.0",
        "echo-server-blueprint",
        "--from",
        &own,
        "-o",
        &file,
    ];
    let (code, _, error) = run(system, &fetch).await?;
    ensure!(code == 0, "{error}");
    let blueprint = ("application/vnd.gardener.landscaper.blueprint.layer.v1.tar", &fs::read(&layer)?[..]);
    tokio::task::block_in_place(|| {
        registry.push_artifact("team/my-application", "latest", blueprint, Some("Basic cmVhZGVyOnNlY3JldA=="))
    })?;
    let host = registry.address();
    let config = json!({"auths": {host.as_str(): {"username": "reader", "password": "secret"}}});
    case.create::<Secret>("pull", &json!({"stringData": {".dockerconfigjson": config.to_string()}})).await?;
    case.create::<LandscaperContext>("private", &json!({"registryPullSecrets": [{"name": "pull"}]})).await?;
    case.create::<DataObject>("greeting", &json!({"data": "hello"})).await?;
    let installation = |image: &str| {
        json!({"spec": {
            "context": "private",
            "componentDescriptor": {"inline": {
                "meta": {"schemaVersion": "v2"},
                "component": {
                    "name": "example.org/my-component", "version": "v0.1.0", "repositoryContexts": [],
                    "resources": [{
                        "name": "my-application", "type": "blueprint", "relation": "external",
                        "access": {"type": "ociRegistry", "imageReference": image},
                    }, {
                        "name": "echo-server-image", "type": "ociImage", "version": "v1", "relation": "external",
                        "access": {"type": "ociRegistry", "imageReference": "example.org/echo:v1"},
                    }],
                },
            }},
            "blueprint": {"ref": {"resourceName": "my-application"}},
            "imports": {"data": [{"name": "greeting", "dataRef": "greeting"}]},
        }})
    };
    let mut object = installation(&format!("{host}/team/my-application"));
    object["metadata"] = json!({"annotations": {"landscaper.gardener.cloud/operation": "reconcile"}});
    case.create::<Installation>("app", &object).await?;
    let finished = case.finished("app").await?;
    assert_eq!(outcome(&finished), ("Succeeded".to_owned(), String::new()));

    let mut gone = installation(&format!("{host}/team/gone"));
    gone["metadata"] = object["metadata"].clone();
    case.create::<Installation>("gone", &gone).await?;
    let (phase, message) = outcome(&case.finished("gone").await?);
    let address = format!("{host}/team/gone");
    ensure!(phase == "Failed" && message.contains(&address), "{phase} {message}");
    Ok(())
}

/// Writes the source of a component with a blueprint of these files.
fn source(folder: &Path, name: &str, references: &serde_json::Value, blueprint: &str) -> Result<()> {
    let (_, version) = name.split_once(':').context("name and version")?;
    let component = name.split(':').next().unwrap_or_default();
    let folder = folder.join(name.replace(['/', ':'], "-"));
    fs::create_dir_all(folder.join("blueprint"))?;
    let descriptor = json!({"meta": {"schemaVersion": "v2"}, "component": {
        "name": component, "version": version, "provider": "example.org", "repositoryContexts": [], "sources": [],
        "componentReferences": references,
        "resources": [{
            "name": "blueprint", "type": "landscaper.gardener.cloud/blueprint", "version": version, "relation": "local",
        }],
    }});
    fs::write(folder.join("component-descriptor.yaml"), descriptor.to_string())?;
    fs::write(folder.join("blueprint/blueprint.yaml"), blueprint)?;
    Ok(())
}

/// Returns a blueprint with one mock item that contains its place of origin.
fn saying(place: &str) -> String {
    format!(
        "apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: Blueprint\ndeployExecutions:\n- name: default\n  type: GoTemplate\n  \
         template: |\n    deployItems:\n    - name: item\n      type: landscaper.gardener.cloud/mock\n      config:\n        \
         apiVersion: mock.deployer.landscaper.gardener.cloud/v1alpha1\n        kind: ProviderConfiguration\n        \
         providerStatus: {{apiVersion: example.org/v1, kind: Place, place: {place}}}\n"
    )
}

/// O-02, O-05, O-06: overwrites also apply to the references of a component. The nested
/// installation's blueprint comes from the other registry, in the version of the first of two
/// rules. With the rules swapped, it has the version of the other rule.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_component_refers_to_is_redirected() -> Result<()> {
    if !servers_or_skip(&[Server::Registry]) {
        return Ok(());
    }
    let Some(system) = shared::system().await? else { return Ok(()) };
    let case = Case::new(system, "transitive-registry").await?;
    let (released, own) = (
        Registry::start(&RegistryOptions::default()).await?,
        Registry::start(&RegistryOptions::default()).await?,
    );
    let folder = tempfile::tempdir()?;
    let (first, second) = (folder.path().join("released"), folder.path().join("own"));
    let shop = "apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: Blueprint\nsubinstallations:\n- apiVersion: \
                landscaper.gardener.cloud/v1alpha1\n  kind: InstallationTemplate\n  name: db\n  blueprint: {ref: \
                'cd://componentReferences/db/resources/blueprint'}\n";
    let reference = json!([{"name": "db", "componentName": "example.org/db", "version": "1.0.0"}]);
    source(&first, "example.org/shop:1.0.0", &reference, shop)?;
    source(&first, "example.org/db:1.0.0", &json!([]), &saying("released"))?;
    source(&second, "example.org/db:2.0.0", &json!([]), &saying("two"))?;
    source(&second, "example.org/db:3.0.0", &json!([]), &saying("three"))?;
    push(&first, &released, "c", " written").await?;
    push(&second, &own, "c", " written").await?;
    let context =
        |registry: &Registry| json!({"type": "ociRegistry", "baseUrl": format!("{}/c", registry.address())});
    let rule = |version: &str| {
        json!({
            "source": {"componentName": "example.org/db"},
            "substitution": {"repositoryContext": context(&own), "version": version},
        })
    };
    let rules = json!({"overwrites": [rule("2.0.0"), rule("3.0.0")]});
    case.create::<ComponentVersionOverwrites>("rules", &rules).await?;
    let place = json!({"repositoryContext": context(&released), "componentVersionOverwrites": "rules"});
    case.create::<LandscaperContext>("registries", &place).await?;
    let installation = json!({
        "metadata": {"annotations": {"landscaper.gardener.cloud/operation": "reconcile"}},
        "spec": {
            "context": "registries",
            "componentDescriptor": {"ref": {"componentName": "example.org/shop", "version": "1.0.0"}},
            "blueprint": {"ref": {"resourceName": "blueprint"}},
        },
    });
    case.create::<Installation>("shop", &installation).await?;
    let finished = case.finished("shop").await?;
    assert_eq!(outcome(&finished), ("Succeeded".to_owned(), String::new()));
    ensure!(places(&case).await? == ["two"], "{:?}", places(&case).await?);
    // With the rules swapped, the other rule applies.
    let swapped = json!({"overwrites": [rule("3.0.0"), rule("2.0.0")]});
    case.change::<ComponentVersionOverwrites>("rules", &swapped).await?;
    let finished = case.reconcile("shop").await?;
    assert_eq!(outcome(&finished), ("Succeeded".to_owned(), String::new()));
    ensure!(places(&case).await? == ["three"], "{:?}", places(&case).await?);
    Ok(())
}

/// Returns the places of origin in the mock items of a namespace.
async fn places(case: &Case<'_>) -> Result<Vec<String>> {
    let place = |item: DeployItem| {
        let config = serde_json::to_value(item.spec.config).ok()?;
        config.pointer("/providerStatus/place")?.as_str().map(str::to_owned)
    };
    Ok(case.list::<DeployItem>("").await?.into_iter().filter_map(place).collect())
}
