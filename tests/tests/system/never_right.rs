//! Inputs that can never become valid: each fails at once with the reason, regardless of its
//! timeout, and is not retried.

use anyhow::{Result, ensure};
use groundwork_api::{DeployItem, Installation, Repository, Target};
use serde_json::{Value, json};

use crate::case::Case;
use crate::support::outcome;
use crate::target_cluster::{cluster, create_item, outcome as outcome_of_item, run_job, target};
use crate::{packages, shared};

const CANARY: &str = "canary";

/// Invalid addresses of Repositories. The system of these tests allows remotes that are files.
#[tokio::test(flavor = "multi_thread")]
async fn addresses_of_repositories() -> Result<()> {
    let Some(system) = packages::system().await? else { return Ok(()) };
    let case = Case::new(system, "never-right").await?;
    for (name, address, words) in [
        ("gopher", "gopher://git.example.org/a.git", "addresses of this kind (gopher) are not allowed"),
        ("ftp", "ftp://me:canary@git.example.org/a.git", "addresses of this kind (ftp) are not allowed"),
        ("program", "ext::sh -c id", "contains blanks"),
        ("helper", "ext::canary", "addresses of this kind (ext) are not allowed"),
        ("user", "https://me:canary@git.example.org/a.git", "put them into the Secret of spec.git.secretRef"),
        ("token", "https://canary@git.example.org/a.git", "put them into the Secret of spec.git.secretRef"),
        ("no-host", "https:///a.git", "has no valid host"),
        ("percent", "https://git.ex%ff.org/a.git", "has no valid host"),
        ("letters", "https://g\u{ef}t.example.org/a.git", "has no valid host"),
        ("port", "https://git.example.org:port/a.git", "has no valid host"),
        ("blank", "https://git.example.org/a b.git", "contains blanks"),
        ("option", "ssh://-oProxyCommand=x/a.git", "has no valid host"),
    ] {
        let object = json!({"spec": {"type": "git", "git": {"repo": address}}});
        case.create::<Repository>(name, &object).await?;
        let said = |repository: &Repository| {
            let status = repository.status.clone().unwrap_or_default();
            let ready = status.conditions.iter().find(|found| found.type_ == "Ready").cloned();
            ready.map(|ready| (ready.status, ready.reason, ready.message))
        };
        let found =
            case.until(&format!("{name} is told"), name, |found: &Repository| said(found).is_some()).await?;
        let (status, reason, message) = said(&found).unwrap_or_default();
        let is_quiet = !message.contains(CANARY);
        ensure!(
            (status.as_str(), reason.as_str()) == ("False", "Error") && message.contains(words) && is_quiet,
            "{name}: {status} {reason} {message}"
        );
    }
    Ok(())
}

/// Invalid addresses of charts: the job of the item ends without waiting for its timeout.
#[tokio::test(flavor = "multi_thread")]
async fn addresses_of_charts() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let case = Case::new(system, "never-right-charts").await?;
    cluster().await?.create_target(&case, "cluster").await?;
    let remote = |url: &str| json!({"archive": {"remote": {"url": url}}});
    let repository = |url: &str| json!({"helmChartRepo": {"helmChartRepoUrl": url, "helmChartName": "web", "helmChartVersion": "1.0.0"}});
    for (name, chart, words) in [
        ("file", remote("file:///etc/passwd"), "not a URL"),
        ("gopher", remote("gopher://charts.example.org/web.tgz"), "charts are not fetched by gopher"),
        (
            "user",
            remote("https://me:canary@charts.example.org/web.tgz"),
            "credentials are not allowed in an address",
        ),
        ("letters", remote("https://ch\u{e4}rts.example.org/web.tgz"), "not a URL"),
        ("percent", remote("https://ch%ffarts.example.org/web.tgz"), "not a URL"),
        ("repository-file", repository("file:///srv/charts"), "could not find protocol handler for: file"),
        (
            "repository-gopher",
            repository("gopher://charts.example.org"),
            "could not find protocol handler for: gopher",
        ),
        (
            "repository-user",
            repository("https://me:canary@charts.example.org"),
            "credentials are not allowed in an address",
        ),
        ("repository-letters", repository("https://ch\u{e4}rts.example.org"), "not a URL"),
        ("reference", json!({"ref": "charts.example.org/UPPER/web:1"}), "is not a reference of an artifact"),
        (
            "reference-user",
            json!({"ref": "me:canary@charts.example.org/web:1"}),
            "is not a reference of an artifact",
        ),
        ("reference-tag", json!({"ref": "charts.example.org/web:a b"}), "is not a reference of an artifact"),
    ] {
        let config = json!({
            "apiVersion": "helm.deployer.landscaper.gardener.cloud/v1alpha1", "kind": "ProviderConfiguration",
            "name": "web", "namespace": "shop", "chart": chart,
        });
        let item = json!({"spec": {
            "type": "landscaper.gardener.cloud/helm", "target": {"name": "cluster", "namespace": case.namespace}, "config": config, "timeout": "none",
        }});
        case.create::<DeployItem>(name, &item).await?;
        let (phase, error) = ended(&run_job(&case, name, "1").await?)?;
        ensure!(
            phase == "Failed" && error.contains(words) && !error.contains(CANARY),
            "{name}: {phase} {error}"
        );
    }
    Ok(())
}

/// Returns phase and message of an item whose job has ended with a final error.
fn ended(item: &DeployItem) -> Result<(String, String)> {
    let status = item.status.clone().unwrap_or_default();
    let codes = status.last_error.map(|error| json!(error)["codes"].clone()).unwrap_or_default();
    ensure!(codes == json!(["ERR_CONFIGURATION_PROBLEM"]), "{codes} {:?}", outcome_of_item(item));
    Ok(outcome_of_item(item))
}

/// Invalid kubeconfigs of Targets.
#[tokio::test(flavor = "multi_thread")]
async fn kubeconfigs_of_targets() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let case = Case::new(system, "never-right-targets").await?;
    let kubeconfig = |server: &str, user: &Value| {
        json!({"kubeconfig": {
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": server}}], "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        }})
    };
    let (token, server) = (json!({"token": "t"}), "https://api.example.org");
    let exec = json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "canary", "interactiveMode": "Never"}});
    for (name, config, words) in [
        ("exec", kubeconfig(server, &exec), "exec is refused"),
        (
            "provider",
            kubeconfig(server, &json!({"auth-provider": {"name": "canary"}})),
            "auth-provider is refused",
        ),
        ("file", kubeconfig("file:///etc/passwd", &token), "its server is not a URL"),
        ("gopher", kubeconfig("gopher://api.example.org", &token), "its server must begin with https://"),
        ("no-scheme", kubeconfig("api.example.org:6443", &token), "its server must begin with https://"),
        (
            "user",
            kubeconfig("https://me:canary@api.example.org", &token),
            "its server contains a user name or password",
        ),
        ("letters", kubeconfig("https://\u{e4}pi.example.org", &token), "its server is not a URL"),
        ("empty", json!({"kubeconfig": ""}), "it is not a kubeconfig and has none of the members kubeconfig"),
    ] {
        case.create::<Target>(name, &target(&config)).await?;
        let item = format!("to-{name}");
        create_item(&case, &item, name, &json!({"manifests": []})).await?;
        let (phase, error) = ended(&run_job(&case, &item, "1").await?)?;
        ensure!(
            phase == "Failed" && error.contains(words) && !error.contains(CANARY),
            "{name}: {phase} {error}"
        );
    }
    Ok(())
}

/// Invalid repository contexts of components.
#[tokio::test(flavor = "multi_thread")]
async fn addresses_of_components() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let case = Case::new(system, "never-right-components").await?;
    for (name, context, words) in [
        (
            "file",
            json!({"type": "ociRegistry", "baseUrl": "file:///srv/components"}),
            "must begin with https://",
        ),
        (
            "gopher",
            json!({"type": "ociRegistry", "baseUrl": "gopher://a.example.org"}),
            "must begin with https://",
        ),
        (
            "user",
            json!({"type": "ociRegistry", "baseUrl": "https://me:pass@a.example.org"}),
            "must not contain credentials",
        ),
        (
            "letters",
            json!({"type": "ociRegistry", "baseUrl": "\u{e4}.example.org/c"}),
            "must be a host and a path",
        ),
        ("empty", json!({"type": "ociRegistry", "baseUrl": ""}), "baseUrl"),
        ("type", json!({"type": "carrierPigeon", "baseUrl": "a.example.org"}), "is unknown"),
    ] {
        let component = json!({"ref": {"repositoryContext": context, "componentName": "example.org/a", "version": "1.0.0"}});
        let object = json!({
            "metadata": {"annotations": {"landscaper.gardener.cloud/reconcile-if-changed": "true"}},
            "spec": {"componentDescriptor": component, "blueprint": {"ref": {"resourceName": "b"}}},
        });
        case.create::<Installation>(name, &object).await?;
        let (phase, error) = outcome(&case.finished(name).await?);
        ensure!(phase == "Failed" && error.contains(words), "{name}: {phase} {error}");
    }
    Ok(())
}
