//! Acts of users. Each act is repeated until the API server accepts it, as people and programs do.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use groundwork_api::{DataObject, Installation, PackageVariant};
use groundwork_tests::wait_for;
use kube::Client;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::plan::{Act, Plan};
use crate::unit::{Unit, text};
use crate::{installation, package};

/// Maximum time for which an API server may be unavailable.
const PATIENCE: Duration = Duration::from_secs(180);
/// Timeout of one request.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);

/// Does all acts of a plan, none before its time.
///
/// # Errors
/// Fails if the API server does not accept an act.
pub(crate) async fn act(client: &Client, namespace: &str, plan: &Plan, begin: Instant) -> Result<()> {
    for &(at, act) in &plan.acts {
        tokio::time::sleep_until((begin + at).into()).await;
        perform(client, namespace, act).await?;
    }
    Ok(())
}

/// Deletes all remaining units.
///
/// # Errors
/// Fails if the API server does not accept a deletion.
pub(crate) async fn end(client: &Client, namespace: &str, plan: &Plan) -> Result<()> {
    for (unit, value) in plan.expected() {
        if value.is_some() {
            perform(client, namespace, Act::Delete(unit)).await?;
        }
    }
    Ok(())
}

async fn perform(client: &Client, namespace: &str, act: Act) -> Result<()> {
    wait_for(&format!("{act:?} is done"), PATIENCE, async || {
        let done = tokio::time::timeout(ANSWERED_WITHIN, attempt(client, namespace, act)).await;
        done.map_err(|_| "no answer".to_owned())?.map_err(|error| format!("{error:#}"))
    })
    .await
}

async fn attempt(client: &Client, namespace: &str, act: Act) -> Result<()> {
    let values: Api<DataObject> = Api::namespaced(client.clone(), namespace);
    let installations: Api<Installation> = Api::namespaced(client.clone(), namespace);
    let variants: Api<PackageVariant> = Api::namespaced(client.clone(), namespace);
    let (first, change) = (PostParams::default(), PatchParams::default());
    match act {
        Act::Create(Unit::Installation(unit)) => {
            taken(values.create(&first, &installation::value(namespace, unit, 0)?).await)?;
            for root in installation::installations(namespace, unit)? {
                taken(installations.create(&first, &root).await)?;
            }
        }
        Act::Change(Unit::Installation(unit), value) => {
            let name = installation::name(unit);
            let patch = Patch::Merge(json!({"data": text(value)}));
            values.patch(&name, &change, &patch).await.context("the value")?;
            let request = json!({"landscaper.gardener.cloud/operation": "reconcile"});
            let patch = Patch::Merge(json!({"metadata": {"annotations": request}}));
            installations.patch(&name, &change, &patch).await.context("the request")?;
        }
        Act::Delete(Unit::Installation(unit)) => {
            for root in installation::roots(unit) {
                gone(installations.delete(&root, &DeleteParams::default()).await)?;
            }
        }
        Act::Create(Unit::Variant(unit)) => {
            taken(variants.create(&first, &package::variant(namespace, unit)?).await)?;
        }
        Act::Change(Unit::Variant(unit), value) => {
            let patch = Patch::Merge(json!({"spec": package::valued(value)}));
            variants.patch(&package::name(unit), &change, &patch).await?;
        }
        Act::Delete(Unit::Variant(unit)) => {
            gone(variants.delete(&package::name(unit), &DeleteParams::default()).await)?;
        }
    }
    Ok(())
}

/// Accepts that the object already exists: an earlier attempt, whose answer got lost, created it.
fn taken<K>(answer: Result<K, kube::Error>) -> Result<()> {
    match answer {
        Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => Ok(()),
        answer => Ok(answer.map(drop)?),
    }
}

/// Accepts that the object is not found: an earlier attempt, whose answer got lost, deleted it.
fn gone<K>(answer: Result<K, kube::Error>) -> Result<()> {
    match answer {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        answer => Ok(answer.map(drop)?),
    }
}
