//! Secret with the exports of an item (`installations.md` 7.5).

use groundwork_api::metadata::label;
use groundwork_api::{
    ByteString, DeployItem, Kind as _, ObjectMeta, ObjectReference, OwnerReference, ResourceExt,
};
use groundwork_controller::{ApiError, ObjectEvent, Objects};
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Map, Value};

use crate::deploy_loop::COMPONENT;

/// Returns the name of the Secret in the item's status.
pub(crate) fn export_of(item: &DeployItem) -> Option<&str> {
    item.status.as_ref()?.export_ref.as_ref().map(|reference| reference.name.as_str())
}

pub(crate) fn export_name(item: &DeployItem) -> String {
    export_of(item).map_or_else(|| format!("{}-export", item.name_any()), str::to_owned)
}

/// Reports whether a Secret was created for this very item.
fn is_export_of(secret: &Secret, item: &DeployItem) -> bool {
    let uid = item.uid();
    secret
        .owner_references()
        .iter()
        .any(|owner| owner.kind == DeployItem::KIND && Some(&owner.uid) == uid.as_ref())
}

/// Reports whether a Secret has lost its owner, an item of this name, as after a restored backup.
/// The label shows that a deployer wrote it.
fn is_left_export_of(secret: &Secret, item: &DeployItem) -> bool {
    let holds = secret.labels().get(label::HOLDS).is_some_and(|holds| holds == label::HOLDS_EXPORTS);
    let is_dead = |owner: &OwnerReference| owner.kind == DeployItem::KIND && owner.name == item.name_any();
    let is_default = secret.name_any() == format!("{}-export", item.name_any());
    holds && is_default && secret.owner_references().iter().all(is_dead)
}

/// Deletes the export Secret of an item. Other users can write the status, which may therefore name
/// any Secret: only one that belongs to the item is deleted.
pub(crate) async fn delete_export(item: &DeployItem, objects: &Objects) -> Result<(), ApiError> {
    let Some(name) = export_of(item) else { return Ok(()) };
    let namespace = item.namespace().unwrap_or_default();
    let Some(secret) = objects.get::<Secret>(&namespace, name).await? else { return Ok(()) };
    if is_export_of(&secret, item) {
        objects.delete::<Secret>(&namespace, name, secret.uid().as_deref(), None).await?;
        return Ok(());
    }
    let message = format!(
        "secret {name} of status.exportRef was not deleted: it has no owner reference to this DeployItem; delete it \
         yourself if it is not used elsewhere"
    );
    let report =
        ObjectEvent { reason: "ForeignObject", message: &message, component: COMPONENT, occurrence: name };
    tracing::warn!(item = %format_args!("{namespace}/{}", item.name_any()), message);
    if let Err(error) = objects.warn(item, &report).await {
        tracing::warn!(%error, "an Event could not be recorded");
    }
    Ok(())
}

/// Writes the exports of an item into a Secret that is deleted with the item (`installations.md`
/// 7.5). Returns `None` if another owner has a Secret of that name.
pub(crate) async fn write_export(
    item: &DeployItem,
    values: &Map<String, Value>,
    objects: &Objects,
) -> Result<Option<ObjectReference>, ApiError> {
    let namespace = item.namespace().unwrap_or_default();
    let name = export_name(item);
    let mut secret = Secret {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            namespace: Some(namespace.clone()),
            labels: Some([(label::HOLDS.to_owned(), label::HOLDS_EXPORTS.to_owned())].into()),
            owner_references: Some(vec![OwnerReference {
                api_version: DeployItem::API_VERSION.to_owned(),
                kind: DeployItem::KIND.to_owned(),
                name: item.name_any(),
                uid: item.uid().unwrap_or_default(),
                ..OwnerReference::default()
            }]),
            ..ObjectMeta::default()
        },
        data: Some(
            [("config".to_owned(), ByteString(Value::Object(values.clone()).to_string().into_bytes()))]
                .into(),
        ),
        ..Secret::default()
    };
    // Read the Secret only if the status names one. A foreign Secret with this name shows up when
    // the creation fails.
    let mut found = match export_of(item).is_some() {
        true => objects.get::<Secret>(&namespace, &name).await?,
        false => None,
    };
    if found.is_none() {
        match objects.create(&secret).await {
            Err(ApiError::AlreadyExists(text)) => {
                let other = objects.get::<Secret>(&namespace, &name).await?;
                found = Some(other.ok_or(ApiError::Conflict(text))?);
            }
            answer => drop(answer?),
        }
    }
    if let Some(found) = found {
        let is_own = is_export_of(&found, item);
        if !is_own && !is_left_export_of(&found, item) {
            return Ok(None);
        }
        if !is_own || found.data != secret.data {
            secret.metadata.resource_version = found.resource_version();
            objects.replace(&secret).await?;
        }
    }
    Ok(Some(ObjectReference { name, namespace: Some(namespace) }))
}
