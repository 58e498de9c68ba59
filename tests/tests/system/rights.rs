//! Rights: none is missing, none is granted for nothing, and a missing one is told in plain words.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use groundwork_api::Installation;
use groundwork_tests::{System, SystemOptions, documents, wait_for, workspace};
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::support::{PATIENCE, blueprint, installation, requests};

/// Rights that no run of these suites needs, each with the reason why it is granted.
const UNUSED: [(&str, &str, &str); 0] = [];

/// A right: account, verb, resource.
type Right = (String, String, String);

/// What the ClusterRoles and Roles of `k8s/base` grant to each account.
fn granted() -> Result<BTreeSet<Right>> {
    let mut rights = BTreeSet::new();
    for service in groundwork_tests::ALL {
        let text = std::fs::read_to_string(workspace().join(format!("k8s/base/{service}.yaml")))?;
        for document in documents(&text)? {
            let texts = |value: &Value| -> Vec<String> {
                value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
            };
            for rule in document["rules"].as_array().into_iter().flatten() {
                for (resource, verb) in texts(&rule["resources"]).into_iter().flat_map(|resource| {
                    texts(&rule["verbs"]).into_iter().map(move |verb| (resource.clone(), verb))
                }) {
                    rights.insert((service.to_owned(), verb, resource));
                }
            }
        }
    }
    Ok(rights)
}

/// What the services have asked for and got.
pub(crate) fn used(system: &System) -> Result<BTreeSet<Right>> {
    let right = |request: &Value| -> Option<Right> {
        let user = request["user"]["username"].as_str()?.rsplit("groundwork-").next()?.to_owned();
        let object = &request["objectRef"];
        let resource = match object["subresource"].as_str() {
            Some(subresource) => format!("{}/{subresource}", object["resource"].as_str()?),
            None => object["resource"].as_str()?.to_owned(),
        };
        Some((user, request["verb"].as_str()?.to_owned(), resource))
    };
    Ok(requests(system, "")?.iter().filter_map(right).collect())
}

/// Every right in `k8s/base` was used, or is listed with a reason.
pub(crate) fn none_is_idle(used: &BTreeSet<Right>) -> Result<()> {
    let excused: BTreeSet<Right> = UNUSED
        .iter()
        .map(|(service, verb, resource)| ((*service).to_owned(), (*verb).to_owned(), (*resource).to_owned()))
        .collect();
    let idle: Vec<Right> =
        granted()?.into_iter().filter(|right| !used.contains(right) && !excused.contains(right)).collect();
    ensure!(idle.is_empty(), "rights that nothing used: {idle:#?}");
    Ok(())
}

/// A right that is taken away: the condition and the log name verb and resource, and the job goes on when it is back.
#[tokio::test(flavor = "multi_thread")]
async fn a_missing_right_is_named() -> Result<()> {
    let Some(system) = System::start(SystemOptions::default()).await? else { return Ok(()) };
    let namespace = "no-rights";
    system.plane.create_namespace(namespace).await?;
    system.kubectl(&["delete", "clusterrolebinding", "groundwork-renderer"]).await?;
    let without_secrets = "clusterrole/groundwork-renderer";
    let patch = r#"[{"op": "test", "path": "/rules/7/resources", "value": ["secrets", "configmaps"]}, {"op": "remove", "path": "/rules/7"}]"#;
    system.kubectl(&["patch", without_secrets, "--type=json", "-p", patch]).await?;
    system
        .kubectl(&[
            "create",
            "clusterrolebinding",
            "groundwork-renderer",
            "--clusterrole=groundwork-renderer",
            "--serviceaccount=groundwork-system:groundwork-renderer",
        ])
        .await?;
    system
        .kubectl(&["create", "secret", "generic", "credentials", "-n", namespace, "--from-literal=a=b"])
        .await?;
    let api: Api<Installation> = Api::namespaced(system.client().await?, namespace);
    let mut object =
        serde_json::to_value(installation(namespace, "server", &blueprint(&[("item", json!({}))])))?;
    object["spec"]["imports"] =
        json!({"data": [{"name": "credentials", "secretRef": {"name": "credentials"}}]});
    api.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    let told = "may not get secrets in namespace no-rights";
    wait_for("the condition names the missing right", PATIENCE, async || {
        let installation = api.get("server").await.map_err(|error| error.to_string())?;
        let conditions = installation.status.unwrap_or_default().conditions;
        let ready = conditions.iter().find(|condition| condition.type_ == "Ready");
        match ready {
            Some(ready) if ready.message.contains(told) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await
    .with_context(|| system.logs())?;
    let log = std::fs::read_to_string(system.service("renderer")?.program.log())?;
    ensure!(log.contains(told), "the log names it too");
    system.kubectl(&["apply", "--server-side", "--force-conflicts", "-k", "k8s/base"]).await?;
    system
        .kubectl(&["wait", "-n", namespace, "--for=condition=Ready", "installation/server", "--timeout=90s"])
        .await?;
    Ok(())
}
