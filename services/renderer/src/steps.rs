//! Carries out the steps that the state machine asks for: reads into its tree, and writes from it.

use std::collections::BTreeMap;

use futures::StreamExt as _;
use groundwork_api::metadata::label;
use groundwork_api::{
    DataObject, DeployItem, ErrorCode, Execution, Installation, Kind as _, LastError, ObjectMeta,
    ResourceExt, Target,
};
use groundwork_bus::Index;
use groundwork_controller::{ApiError, Metadata, Objects, Stored, WarningEvent};
use groundwork_lifecycle::machine::{Change, Known, MetadataPatch, Need, Read, StaleCopy, Tree, Write};
use groundwork_lifecycle::scope_name;
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Map, Value};

use crate::job_log;

/// The entry of an export Secret that holds the values.
const EXPORT_ENTRY: &str = "config";

/// Reads what a step needs into the tree.
pub(crate) async fn read(
    tree: &mut Tree,
    read: Read,
    objects: &Objects,
    index: &Index,
) -> Result<(), ApiError> {
    let (namespace, name) = (tree.namespace.clone(), tree.name.clone());
    match read {
        Read::Installation => {
            tree.installation = objects.get::<Installation>(&namespace, &name).await?.into();
        }
        Read::Execution => tree.execution = objects.get::<Execution>(&namespace, &name).await?.into(),
        Read::ListItems => {
            let labels = format!("{}={name}", label::MANAGED_BY);
            tree.items.set_list(objects.list::<DeployItem>(&namespace, &labels).await?);
        }
        Read::Items(names) => {
            let reads = names.iter().map(|item| objects.get::<DeployItem>(&namespace, item));
            for (name, item) in names.iter().zip(futures::future::try_join_all(reads).await?) {
                tree.items.insert(name.clone(), item.into());
            }
        }
        Read::Exports(secrets) => {
            let mut exports = Map::new();
            for (template, secret) in secrets {
                exports.insert(template, export_values(objects, &namespace, &secret).await?);
            }
            tree.exports = Some(exports);
        }
        Read::Target(target) => {
            let exists = objects.get::<Target>(&namespace, &target).await?.is_some();
            tree.targets.insert(target, exists);
        }
        Read::StaleCopies => tree.stale_copies = Some(stale_copies(tree, objects, index).await?),
    }
    Ok(())
}

async fn export_values(objects: &Objects, namespace: &str, name: &str) -> Result<Value, ApiError> {
    let object = format!("secrets {namespace}/{name}");
    let secret = objects.get::<Secret>(namespace, name).await?.ok_or(ApiError::NotFound(object.clone()))?;
    let entry = secret.data.as_ref().and_then(|data| data.get(EXPORT_ENTRY));
    let invalid = |causes: &str| ApiError::Invalid { object: object.clone(), causes: causes.to_owned() };
    let bytes = entry.ok_or_else(|| invalid("it has no entry \"config\""))?;
    // The decoder's message would quote the value.
    serde_json::from_slice(&bytes.0).map_err(|_| invalid("its entry \"config\" is not JSON"))
}

/// Copies of imports that stem from another job than the current one. The index names them, and may be behind: each is
/// read, and deleted only in the version that was read.
async fn stale_copies(tree: &Tree, objects: &Objects, index: &Index) -> Result<Vec<StaleCopy>, ApiError> {
    let Some(installation) = tree.installation.get() else { return Ok(Vec::new()) };
    let job = installation.status.as_ref().and_then(|status| status.job_id.as_deref()).unwrap_or_default();
    let scope = scope_name(&tree.namespace, &tree.name);
    let is_stale = |labels: &BTreeMap<String, String>| {
        labels.get(label::DATA_CONTEXT) == Some(&scope)
            && labels.get(label::DATA_JOB_ID).is_some_and(|written| written != job)
    };
    let mut copies = Vec::new();
    for id in index.owned_by(installation.metadata.uid.as_deref().unwrap_or_default()) {
        if !index.get(&id).is_some_and(|snapshot| is_stale(&snapshot.labels)) {
            continue;
        }
        let is_target = id.kind.plural() == Target::PLURAL;
        let found = if is_target {
            metadata::<Target>(objects, &tree.namespace, &id.name).await?
        } else {
            metadata::<DataObject>(objects, &tree.namespace, &id.name).await?
        };
        let Some(found) = found.filter(|found| found.labels.as_ref().is_some_and(is_stale)) else { continue };
        copies.push(StaleCopy {
            is_target,
            name: id.name,
            uid: found.uid.unwrap_or_default(),
            resource_version: found.resource_version.unwrap_or_default(),
        });
    }
    Ok(copies)
}

async fn metadata<K: Stored>(
    objects: &Objects,
    namespace: &str,
    name: &str,
) -> Result<Option<ObjectMeta>, ApiError> {
    Ok(objects.get::<K>(namespace, name).await?.map(|object| object.meta().clone()))
}

/// Writes that run at the same time.
const MAX_PARALLEL_WRITES: usize = 8;

/// Carries out writes that do not depend on one another, and puts what was stored into the tree. Answers with those that failed.
pub(crate) async fn write_all(
    tree: &mut Tree,
    writes: Vec<Write>,
    objects: &Objects,
) -> Vec<(Option<Need>, ApiError)> {
    let namespace = tree.namespace.clone();
    let running = job_log::running_job(tree);
    let errors = Errors {
        installation: tree.installation.get().and_then(installation_error).cloned(),
        execution: tree.execution.get().and_then(execution_error).cloned(),
    };
    let requests = writes.into_iter().map(|write| {
        let (namespace, errors) = (&namespace, &errors);
        async move { (Need::of(&write), write_one(write, namespace, errors, objects).await) }
    });
    let mut answers = futures::stream::iter(requests).buffer_unordered(MAX_PARALLEL_WRITES);
    let mut failed = Vec::new();
    while let Some((need, answer)) = answers.next().await {
        match answer {
            Ok(stored) => update_tree(tree, stored),
            Err(error) => failed.push((need, error)),
        }
    }
    job_log::log_end(running, tree);
    failed
}

/// What the statuses say before they are written.
struct Errors {
    installation: Option<LastError>,
    execution: Option<LastError>,
}

/// The object as a write left it; `None` if it is gone.
enum Written {
    Installation(Option<Box<Installation>>),
    Execution(Option<Box<Execution>>),
    Item(String, Option<Box<DeployItem>>),
    /// Nothing that a tree holds.
    Other,
}

async fn write_one(
    write: Write,
    namespace: &str,
    errors: &Errors,
    objects: &Objects,
) -> Result<Written, ApiError> {
    Ok(match write {
        Write::Installation(change) => {
            let stored = apply(change, namespace, objects).await?;
            let error = stored.as_ref().and_then(installation_error);
            warn(stored.as_ref(), error, errors.installation.as_ref(), objects).await;
            Written::Installation(stored.map(Box::new))
        }
        Write::Execution(change) => {
            let stored = apply(change, namespace, objects).await?;
            let error = stored.as_ref().and_then(execution_error);
            warn(stored.as_ref(), error, errors.execution.as_ref(), objects).await;
            Written::Execution(stored.map(Box::new))
        }
        Write::DeployItem(change) => {
            let name = change.name();
            let stored: Option<DeployItem> = apply(change, namespace, objects).await?;
            // An item that the core ends; its deployer tells of its own errors.
            let error = stored.as_ref().and_then(|item| item.status.as_ref()?.last_error.as_ref());
            let is_ours = error.is_some_and(|error| CORE_REASONS.contains(&error.reason.as_str()));
            warn(stored.as_ref(), error.filter(|_| is_ours), None, objects).await;
            Written::Item(name, stored.map(Box::new))
        }
        Write::DataObject(change) => {
            apply(change, namespace, objects).await?;
            Written::Other
        }
        Write::Target(change) => {
            apply(change, namespace, objects).await?;
            Written::Other
        }
    })
}

fn update_tree(tree: &mut Tree, stored: Written) {
    match stored {
        Written::Installation(Some(object)) => tree.installation.store(*object),
        Written::Installation(None) => tree.installation = Known::Absent,
        Written::Execution(Some(object)) => tree.execution.store(*object),
        Written::Execution(None) => tree.execution = Known::Absent,
        Written::Item(_, Some(item)) => tree.items.store(*item),
        Written::Item(name, None) => tree.items.insert(name, Known::Absent),
        Written::Other => {}
    }
}

/// Reasons with which the core ends items of others.
const CORE_REASONS: [&str; 2] = ["PickupTimeout", "InterruptOperation"];

/// The object as stored; `None` when it is gone.
async fn apply<K: Stored>(
    change: Change<K>,
    namespace: &str,
    objects: &Objects,
) -> Result<Option<K>, ApiError> {
    match change {
        Change::Create(object) => match objects.create(&object).await {
            // An earlier attempt whose answer was lost, or somebody else: the next step looks at it.
            Err(ApiError::AlreadyExists(_)) => objects.get::<K>(namespace, &object.name_any()).await,
            answer => answer.map(Some),
        },
        Change::Ensure(object) => ensure(object, namespace, objects).await.map(Some),
        Change::Replace(object) => objects.replace(&object).await.map(Some),
        Change::Status(object) => objects.replace_status(&object).await.map(Some),
        Change::Metadata(patch) => {
            let MetadataPatch { name, resource_version, finalizers, annotations } = patch;
            let annotations = annotations.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
            let change = Metadata { resource_version, finalizers, annotations };
            match objects.patch_metadata::<K>(namespace, &name, &change).await {
                Err(ApiError::NotFound(_)) => Ok(None),
                answer => answer.map(Some),
            }
        }
        Change::Delete { name, uid, resource_version } => {
            objects.delete::<K>(namespace, &name, uid.as_deref(), resource_version.as_deref()).await
        }
    }
}

/// Creates, or replaces what has the name.
async fn ensure<K: Stored>(mut object: K, namespace: &str, objects: &Objects) -> Result<K, ApiError> {
    match objects.create(&object).await {
        Err(ApiError::AlreadyExists(text)) => {
            let found = objects.get::<K>(namespace, &object.name_any()).await?;
            let found = found.ok_or(ApiError::Conflict(text))?;
            if holds(&found, &object) {
                return Ok(found);
            }
            object.meta_mut().resource_version = found.resource_version();
            objects.replace(&object).await
        }
        answer => answer,
    }
}

/// Whether an object is as wanted already, but for what the API server and others add.
fn holds<K: Stored>(found: &K, wanted: &K) -> bool {
    let (Ok(mut found), Ok(mut wanted)) = (serde_json::to_value(found), serde_json::to_value(wanted)) else {
        return false;
    };
    let contains = |member: &str| {
        let all = found["metadata"][member].as_object();
        let some = wanted["metadata"][member].as_object();
        some.into_iter().flatten().all(|(name, value)| all.is_some_and(|all| all.get(name) == Some(value)))
    };
    let same_owners = found["metadata"]["ownerReferences"] == wanted["metadata"]["ownerReferences"];
    let is_same = contains("labels") && contains("annotations") && same_owners;
    found["metadata"].take();
    wanted["metadata"].take();
    is_same && found == wanted
}

fn installation_error(installation: &Installation) -> Option<&LastError> {
    installation.status.as_ref()?.last_error.as_ref()
}

fn execution_error(execution: &Execution) -> Option<&LastError> {
    execution.status.as_ref()?.last_error.as_ref()
}

/// A Kubernetes Event for an error that the status shows for the first time (`installations.md` 9).
async fn warn<K: Stored>(
    about: Option<&K>,
    error: Option<&LastError>,
    before: Option<&LastError>,
    objects: &Objects,
) {
    let (Some(about), Some(error)) = (about, error) else { return };
    let is_info = error.codes.iter().any(|code| code == ErrorCode::ForInfoOnly.as_str());
    if is_info
        || before.is_some_and(|before| before.reason == error.reason && before.message == error.message)
    {
        return;
    }
    let time = error.last_update_time.as_ref().map(|time| time.0.to_string()).unwrap_or_default();
    let report = WarningEvent {
        reason: &error.reason,
        message: &error.message,
        component: "Landscaper",
        occurrence: &time,
    };
    if let Err(error) = objects.warn(about, &report).await {
        tracing::warn!(%error, "an Event could not be recorded");
    }
}
