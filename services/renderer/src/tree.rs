//! Carries out the steps that the state machine asks for.

use groundwork_api::metadata::label;
use groundwork_api::{DataObject, DeployItem, Execution, Installation, Kind as _, ResourceExt, Target};
use groundwork_bus::{Index, Kind};
use groundwork_controller::{ApiError, Metadata, Objects, Report, Stored};
use groundwork_lifecycle::machine::{Change, Known, MetadataPatch, Read, StaleCopy, Tree, Write};
use groundwork_lifecycle::scope_name;
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Map, Value};

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
        Read::StaleCopies => tree.stale_copies = Some(stale_copies(tree, index)),
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

/// Copies of imports that stem from another job than the current one. The index names them; they are deleted by UID.
fn stale_copies(tree: &Tree, index: &Index) -> Vec<StaleCopy> {
    let job = tree
        .installation
        .get()
        .and_then(|installation| installation.status.clone())
        .and_then(|status| status.job_id);
    let scope = scope_name(&tree.namespace, &tree.name);
    let mut copies = Vec::new();
    for (kind, is_target) in [
        (Kind::new(DataObject::GROUP, DataObject::PLURAL), false),
        (Kind::new(Target::GROUP, Target::PLURAL), true),
    ] {
        for (id, snapshot) in index.of_kind(&kind, Some(&tree.namespace)) {
            let of_scope = snapshot.labels.get(label::DATA_CONTEXT) == Some(&scope);
            let of_job = snapshot.labels.get(label::DATA_JOB_ID) == job.as_ref();
            if of_scope && !of_job && snapshot.labels.contains_key(label::DATA_JOB_ID) {
                copies.push(StaleCopy { is_target, name: id.name, uid: snapshot.uid.clone() });
            }
        }
    }
    copies
}

/// Carries out one write and puts the object as stored into the tree.
pub(crate) async fn write(tree: &mut Tree, write: Write, objects: &Objects) -> Result<(), ApiError> {
    let namespace = tree.namespace.clone();
    match write {
        Write::Installation(change) => {
            let previous = last_error(tree.installation.get());
            match apply(change, &namespace, objects).await? {
                Some(stored) => tree.installation.store(stored),
                None => tree.installation = Known::Absent,
            }
            warn(tree, previous.as_deref(), objects).await;
        }
        Write::Execution(change) => match apply(change, &namespace, objects).await? {
            Some(stored) => tree.execution.store(stored),
            None => tree.execution = Known::Absent,
        },
        Write::DeployItem(change) => {
            let name = match &change {
                Change::Delete { name, .. } => name.clone(),
                _ => String::new(),
            };
            match apply(change, &namespace, objects).await? {
                Some(stored) => tree.items.store(stored),
                None => tree.items.insert(name, Known::Absent),
            }
        }
        Write::DataObject(change) => drop(apply(change, &namespace, objects).await?),
        Write::Target(change) => drop(apply(change, &namespace, objects).await?),
    }
    Ok(())
}

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
        Change::Delete { name, uid } => objects.delete::<K>(namespace, &name, uid.as_deref()).await,
    }
}

/// Creates, or replaces what has the name.
async fn ensure<K: Stored>(mut object: K, namespace: &str, objects: &Objects) -> Result<K, ApiError> {
    match objects.create(&object).await {
        Err(ApiError::AlreadyExists(text)) => {
            let found = objects.get::<K>(namespace, &object.name_any()).await?;
            let found = found.ok_or(ApiError::Conflict(text))?;
            object.meta_mut().resource_version = found.resource_version();
            objects.replace(&object).await
        }
        answer => answer,
    }
}

fn last_error(installation: Option<&Installation>) -> Option<String> {
    let error = installation?.status.as_ref()?.last_error.as_ref()?;
    Some(format!("{} {}", error.reason, error.message))
}

/// A Kubernetes Event for an error that the status shows for the first time (`installations.md` 9).
async fn warn(tree: &Tree, previous: Option<&str>, objects: &Objects) {
    let Some(installation) = tree.installation.get() else { return };
    if last_error(Some(installation)).as_deref() == previous {
        return;
    }
    let Some(status) = &installation.status else { return };
    let Some(error) = &status.last_error else { return };
    let report = Report {
        reason: &error.reason,
        message: &error.message,
        component: "groundwork-renderer",
        occurrence: status.job_id.as_deref().unwrap_or_default(),
    };
    if let Err(error) = objects.warn(installation, &report).await {
        tracing::warn!(%error, "an Event could not be recorded");
    }
}
