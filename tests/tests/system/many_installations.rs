//! Crowd of 50 Installations, and the comparison of their final objects between two runs.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use futures::stream::{self, StreamExt, TryStreamExt};
use groundwork_api::{DeployItem, Execution, Installation};
use groundwork_tests::{System, wait_for};
use kube::api::{Api, ListParams, PostParams};
use serde_json::{Value, json};

use crate::support::{PATIENCE, blueprint, installation, requests};

/// Number of Installations, with two items each.
pub(crate) const COUNT: usize = 50;

/// Applies Installations. The fault happens after a third of them.
pub(crate) async fn apply_with(
    system: &mut System,
    namespace: &str,
    fault: impl AsyncFnOnce(&mut System) -> Result<()>,
) -> Result<()> {
    system.plane.create_namespace(namespace).await?;
    let api: Api<Installation> = Api::namespaced(system.client().await?, namespace);
    let items = blueprint(&[("first", json!({})), ("second", json!({"export": {"answer": 42}}))]);
    let create = async |range: std::ops::Range<usize>| {
        stream::iter(range)
            .map(Ok)
            .try_for_each_concurrent(8, async |index| {
                let object = installation(namespace, &format!("many-{index:03}"), &items);
                api.create(&PostParams::default(), &object).await.map(drop)
            })
            .await
    };
    create(0..COUNT / 3).await?;
    fault(system).await?;
    create(COUNT / 3..COUNT).await?;
    Ok(())
}

/// Waits until all of them have succeeded.
pub(crate) async fn until_done(system: &System, namespace: &str) -> Result<()> {
    let api: Api<Installation> = Api::namespaced(system.client().await?, namespace);
    wait_for(&format!("all of {namespace} have succeeded"), 2 * PATIENCE, async || {
        let list = api.list(&ListParams::default()).await.map_err(|error| error.to_string())?.items;
        let unfinished: Vec<String> = list
            .iter()
            .filter(|installation| {
                let status = installation.status.clone().unwrap_or_default();
                status.job_id.is_none() || status.job_id != status.job_id_finished
            })
            .map(|installation| {
                let status = installation.status.clone().unwrap_or_default();
                format!(
                    "{} {} {}",
                    installation.metadata.name.clone().unwrap_or_default(),
                    status.phase.unwrap_or_default(),
                    status.last_error.map(|error| error.message).unwrap_or_default()
                )
            })
            .collect();
        if list.len() == COUNT && unfinished.is_empty() {
            return Ok(());
        }
        Err(format!("{} unfinished, the first: {:?}", unfinished.len(), unfinished.first()))
    })
    .await
    .map_err(|error| system.explained(error))
}

/// Returns all objects, without the fields that differ between two equal runs.
pub(crate) async fn dump(system: &System, namespace: &str) -> Result<BTreeMap<String, Value>> {
    let client = system.client().await?;
    let all = ListParams::default();
    let mut dump = BTreeMap::new();
    for object in Api::<Installation>::namespaced(client.clone(), namespace).list(&all).await?.items {
        dump.insert(
            format!("installation {}", object.metadata.name.clone().unwrap_or_default()),
            json!(object),
        );
    }
    for object in Api::<Execution>::namespaced(client.clone(), namespace).list(&all).await?.items {
        dump.insert(format!("execution {}", object.metadata.name.clone().unwrap_or_default()), json!(object));
    }
    for object in Api::<DeployItem>::namespaced(client, namespace).list(&all).await?.items {
        let labels = object.metadata.labels.clone().unwrap_or_default();
        let label = |name: &str| labels.get(name).cloned().unwrap_or_default();
        let (execution, name) = (
            label("execution.landscaper.gardener.cloud/managed-by"),
            label("execution.landscaper.gardener.cloud/name"),
        );
        let former = dump.insert(format!("deployitem {execution} {name}"), json!(object));
        ensure!(former.is_none(), "the item {name} of {execution} exists twice");
    }
    for object in dump.values_mut() {
        canonical(object, namespace);
    }
    Ok(dump)
}

fn canonical(value: &mut Value, namespace: &str) {
    const DIFFER: [&str; 10] = [
        "uid",
        "resourceVersion",
        "jobID",
        "jobIDFinished",
        "managedFields",
        "name",
        "objectName",
        "ownerReferences",
        "generation",
        // Identity of the process that worked on an item.
        "identity",
    ];
    match value {
        Value::Object(members) => {
            members.retain(|name, _| {
                let lower = name.to_lowercase();
                !lower.ends_with("time") && !lower.ends_with("timestamp") && !DIFFER.contains(&name.as_str())
            });
            members.values_mut().for_each(|member| canonical(member, namespace));
        }
        Value::Array(elements) => elements.iter_mut().for_each(|element| canonical(element, namespace)),
        Value::String(text) => *text = text.replace(namespace, "NAMESPACE"),
        _ => {}
    }
}

/// Counts the successful creations of a kind by the services in a namespace. If a service is killed
/// during a creation, the audit log does not count it as successful.
fn creations(system: &System, namespace: &str, resource: &str) -> Result<usize> {
    let is_creation = |request: &&Value| {
        request["objectRef"]["resource"] == resource
            && request["objectRef"]["namespace"] == namespace
            && request["responseStatus"]["code"] == 201
    };
    Ok(requests(system, "create")?.iter().filter(is_creation).count())
}

/// Waits until all Installations have succeeded, and compares their objects with those of an
/// undisturbed run.
pub(crate) async fn same_as(calm: &BTreeMap<String, Value>, system: &System, namespace: &str) -> Result<()> {
    until_done(system, namespace).await?;
    let found = dump(system, namespace).await?;
    for (name, object) in calm {
        ensure!(
            found.get(name) == Some(object),
            "{namespace}: {name} differs:\n{object}\n{:?}",
            found.get(name)
        );
    }
    ensure!(found.len() == calm.len(), "{namespace} has objects that should not be there");
    // The dump shows that no object exists twice. The count shows that no object was created again
    // after its deletion.
    for (resource, most) in [("executions", COUNT), ("deployitems", 2 * COUNT)] {
        let made = creations(system, namespace, resource)?;
        ensure!(made <= most && made > most / 2, "{namespace}: {made} {resource} were made");
    }
    Ok(())
}
