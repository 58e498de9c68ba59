//! The acts of users: each is repeated until the API server has taken it, as people and programs do.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use groundwork_api::{DataObject, Installation};
use groundwork_tests::wait_for;
use kube::Client;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::plan::{Act, Plan};
use crate::unit;

/// How long an API server may be away.
const PATIENCE: Duration = Duration::from_secs(180);

/// The value of each unit that is there when all acts are done; `None` for one that was deleted.
pub(crate) fn expected(plan: &Plan) -> BTreeMap<usize, Option<u32>> {
    let mut units = BTreeMap::new();
    for (_, act) in &plan.acts {
        match *act {
            Act::Create { unit } => units.insert(unit, Some(0)),
            Act::Change { unit, value } => units.insert(unit, Some(value)),
            Act::Delete { unit } => units.insert(unit, None),
        };
    }
    units
}

/// Does all acts of a plan, each not before its time.
pub(crate) async fn act(client: &Client, namespace: &str, plan: &Plan, begin: Instant) -> Result<()> {
    for &(at, act) in &plan.acts {
        tokio::time::sleep_until((begin + at).into()).await;
        wait_for(&format!("{act:?} is done"), PATIENCE, async || {
            let done = tokio::time::timeout(Duration::from_secs(10), perform(client, namespace, act)).await;
            done.map_err(|_| "no answer".to_owned())?.map_err(|error| format!("{error:#}"))
        })
        .await?;
    }
    Ok(())
}

async fn perform(client: &Client, namespace: &str, act: Act) -> Result<()> {
    let values: Api<DataObject> = Api::namespaced(client.clone(), namespace);
    let installations: Api<Installation> = Api::namespaced(client.clone(), namespace);
    match act {
        Act::Create { unit } => {
            taken(values.create(&PostParams::default(), &unit::value(namespace, unit, 0)?).await)?;
            taken(installations.create(&PostParams::default(), &unit::installation(namespace, unit)?).await)
        }
        Act::Change { unit, value } => {
            let name = unit::name(unit);
            let change = Patch::Merge(json!({"data": unit::text(value)}));
            values.patch(&name, &PatchParams::default(), &change).await.context("the value")?;
            let request = json!({"landscaper.gardener.cloud/operation": "reconcile"});
            let request = Patch::Merge(json!({"metadata": {"annotations": request}}));
            installations.patch(&name, &PatchParams::default(), &request).await.context("the request")?;
            Ok(())
        }
        Act::Delete { unit } => match installations.delete(&unit::name(unit), &DeleteParams::default()).await
        {
            // An answer may have got lost.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            answer => Ok(answer.map(drop)?),
        },
    }
}

/// An object that exists was created by an attempt whose answer got lost.
fn taken<K>(answer: Result<K, kube::Error>) -> Result<()> {
    match answer {
        Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => Ok(()),
        answer => Ok(answer.map(drop)?),
    }
}
