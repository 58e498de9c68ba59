//! The judge of a round: has it come to rest, and to the right one?

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use groundwork_api::{DataObject, DeployItem, Execution, Installation, ResourceExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{Api, ListParams};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use crate::unit;

/// Distance of two looks at the deployed objects.
const EVERY: Duration = Duration::from_millis(100);

/// All that is not as it should be, a sentence each; empty at the right rest.
///
/// # Errors
/// When the API server does not answer.
pub(crate) async fn problems(
    client: &Client,
    namespace: &str,
    expected: &BTreeMap<usize, Option<u32>>,
) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    let all = ListParams::default();
    let values: BTreeMap<String, u32> =
        expected.iter().filter_map(|(unit, value)| Some((unit::name(*unit), (*value)?))).collect();

    let installations = Api::<Installation>::namespaced(client.clone(), namespace).list(&all).await?.items;
    let executions = Api::<Execution>::namespaced(client.clone(), namespace).list(&all).await?.items;
    let items = Api::<DeployItem>::namespaced(client.clone(), namespace).list(&all).await?.items;
    for name in values.keys() {
        if !installations.iter().any(|installation| installation.name_any() == *name) {
            problems.push(format!("Installation {name} is missing"));
        }
    }
    for installation in &installations {
        let name = installation.name_any();
        let status = installation.status.clone().unwrap_or_default();
        let is_over = status.job_id.is_some() && status.job_id == status.job_id_finished;
        let phase = status.phase.unwrap_or_default();
        let is_asked = installation.annotations().contains_key("landscaper.gardener.cloud/operation");
        if root_of(&name, &values).is_none() {
            problems.push(format!("Installation {name} is left over in the phase {phase:?}"));
        } else if !is_over || is_asked || phase != "Succeeded" {
            let error = status.last_error.map(|error| error.message).unwrap_or_default();
            problems.push(format!("Installation {name} is not at rest: phase {phase:?} {error}"));
        }
    }
    let owners: BTreeSet<String> = installations.iter().map(ResourceExt::name_any).collect();
    for execution in &executions {
        if !owners.contains(&execution.name_any()) {
            problems.push(format!("Execution {} is left over", execution.name_any()));
        }
    }
    let mut seen = BTreeSet::new();
    for item in &items {
        let label = |name: &str| item.labels().get(name).cloned().unwrap_or_default();
        let execution = label("execution.landscaper.gardener.cloud/managed-by");
        let template = label("execution.landscaper.gardener.cloud/name");
        if !owners.contains(&execution) {
            problems.push(format!("DeployItem {} is left over", item.name_any()));
        } else if !seen.insert((execution, template)) {
            problems.push(format!("DeployItem {} is there twice", item.name_any()));
        }
    }
    problems.extend(wrong_objects(client, namespace, &values).await?);
    let data = Api::<DataObject>::namespaced(client.clone(), namespace).list(&all).await?.items;
    for object in data.iter().filter(|object| !object.owner_references().is_empty()) {
        if !object.owner_references().iter().any(|owner| owners.contains(&owner.name)) {
            problems.push(format!("DataObject {} is left over", object.name_any()));
        }
    }
    Ok(problems)
}

/// Deployed objects that are missing, left over or of an older state.
async fn wrong_objects(
    client: &Client,
    namespace: &str,
    values: &BTreeMap<String, u32>,
) -> Result<Vec<String>> {
    let found = deployed(client, namespace).await?;
    let mut problems = Vec::new();
    for (name, value) in values {
        match found.get(name) {
            Some(deployed) if *deployed == unit::text(*value) => {}
            Some(deployed) => {
                problems.push(format!("ConfigMap {name} has {deployed} instead of {}", unit::text(*value)));
            }
            None => problems.push(format!("ConfigMap {name} is missing")),
        }
    }
    for name in found.keys().filter(|name| !values.contains_key(*name)) {
        problems.push(format!("ConfigMap {name} is left over"));
    }
    Ok(problems)
}

/// The unit that an Installation belongs to; names of nested ones begin with their template.
fn root_of<'a>(name: &'a str, values: &BTreeMap<String, u32>) -> Option<&'a str> {
    (values.contains_key(name) || name.starts_with("leaf-")).then_some(name)
}

/// The deployed objects of units, with their values.
async fn deployed(client: &Client, namespace: &str) -> Result<BTreeMap<String, String>> {
    let all = Api::<ConfigMap>::namespaced(client.clone(), namespace).list(&ListParams::default()).await?;
    let value = |object: ConfigMap| {
        let value = object.data.as_ref().and_then(|data| data.get("value")).cloned();
        value.map(|value| (object.name_any(), value))
    };
    Ok(all.into_iter().filter_map(value).collect())
}

/// The values that each deployed object has had, in their order; `None` while it was not there.
pub(crate) type Histories = BTreeMap<String, Vec<Option<String>>>;

/// Samples the deployed objects until it is dropped.
#[derive(Debug)]
pub(crate) struct Recorder {
    histories: Arc<Mutex<Histories>>,
    task: JoinHandle<()>,
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Recorder {
    pub(crate) fn start(client: Client, namespace: String) -> Self {
        let histories: Arc<Mutex<Histories>> = Arc::default();
        let recorded = Arc::clone(&histories);
        let task = tokio::spawn(async move {
            loop {
                // A server that is away shows nothing, and nothing has changed then.
                if let Ok(Ok(found)) =
                    tokio::time::timeout(Duration::from_secs(5), deployed(&client, &namespace)).await
                {
                    note(&mut *recorded.lock().await, &found);
                }
                tokio::time::sleep(EVERY).await;
            }
        });
        Self { histories, task }
    }

    /// Objects that went back to an older value, went while their units were there, or came again.
    pub(crate) async fn flapping(&self, expected: &BTreeMap<usize, Option<u32>>) -> Vec<String> {
        let is_deleted =
            |name: &str| expected.iter().any(|(unit, value)| unit::name(*unit) == name && value.is_none());
        let histories = self.histories.lock().await;
        let wrong = histories.iter().filter(|(name, history)| !is_steady(history, is_deleted(name)));
        wrong.map(|(name, history)| format!("ConfigMap {name} was in turn {history:?}")).collect()
    }
}

fn note(histories: &mut Histories, found: &BTreeMap<String, String>) {
    for name in found.keys() {
        histories.entry(name.clone()).or_default();
    }
    for (name, history) in histories {
        let value = found.get(name).cloned();
        if history.last() != Some(&value) {
            history.push(value);
        }
    }
}

/// True of values that only grow, and end at most once, if the unit was deleted.
fn is_steady(history: &[Option<String>], is_deleted: bool) -> bool {
    let number = |value: &str| value.trim_start_matches('v').parse::<u32>().ok();
    let lives = match history.split_last() {
        Some((None, before)) if is_deleted => before,
        _ => history,
    };
    let numbers: Option<Vec<u32>> = lives.iter().map(|value| value.as_deref().and_then(number)).collect();
    numbers.is_some_and(|numbers| numbers.is_sorted())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(values: &[&str]) -> Vec<Option<String>> {
        values.iter().map(|value| (!value.is_empty()).then(|| (*value).to_owned())).collect()
    }

    #[test]
    fn objects_that_flap_are_noticed() {
        for (values, is_deleted, expected) in [
            (&["v0", "v1", "v10"][..], false, true),
            (&["v0", ""], true, true),
            (&["v0", ""], false, false),
            (&["v1", "v0"], false, false),
            (&["v0", "", "v0"], true, false),
            (&["v0", "", "v0", ""], true, false),
        ] {
            assert_eq!(is_steady(&history(values), is_deleted), expected, "{values:?}");
        }
    }
}
