//! DeployItems of the mock type, from pick-up to result (`installations.md` 7.7).

use std::time::Duration;

use async_trait::async_trait;
use groundwork_api::metadata::{FINALIZER, annotation};
use groundwork_api::{
    ByteString, DeployItem, DeployerInformation, Kind as _, ObjectMeta, ObjectReference, OwnerReference,
    ResourceExt, Target, Time, view,
};
use groundwork_bus::{Change, Index, ObjectId, Snapshot};
use groundwork_controller::{
    ApiError, Handler, Key, Metadata, Objects, ReconcileError, ReconcileRequest, Reconciled, WarningEvent,
};
use groundwork_lifecycle::OperationError;
use groundwork_lifecycle::deployer::{Exports, Verdict, Work, conclude, foreign_object, no_target, work_of};
use groundwork_lifecycle::machine::Phase;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Map, Value};

use crate::mock::{self, Removal};

/// An item that is not at its end is looked at again after this time (7.7, 7).
const POLL: Duration = Duration::from_secs(5);

pub(crate) struct MockDeployer {
    pub(crate) information: DeployerInformation,
}

#[async_trait]
impl Handler for MockDeployer {
    fn keys(&self, object: &ObjectId, change: &Change, _: &Index) -> Vec<Key> {
        match change {
            Change::Applied(snapshot) if waits(snapshot) => vec![object.clone()],
            Change::Applied(_) | Change::Deleted { .. } => Vec::new(),
        }
    }

    /// Items that were under way when the process ended.
    fn schedule(
        &self,
        object: &ObjectId,
        snapshot: &Snapshot,
        is_initial_sync: bool,
    ) -> Option<(Key, Timestamp)> {
        (is_initial_sync && waits(snapshot)).then(|| (object.clone(), Timestamp::now()))
    }

    async fn reconcile(&self, request: ReconcileRequest<'_>) -> Result<Reconciled, ReconcileError> {
        let namespace = request.key.namespace.as_deref().unwrap_or_default();
        let Some(item) = request.objects.get::<DeployItem>(namespace, &request.key.name).await? else {
            return Ok(Reconciled::default());
        };
        if item.spec.type_ != mock::TYPE {
            return Ok(Reconciled::default());
        }
        let item = match work_of(&item, &self.information, &now()) {
            Work::None => return Ok(Reconciled::default()),
            Work::PickUp { item, is_done } => {
                let stored = request.objects.replace_status(&*item).await?;
                if is_done {
                    return Ok(Reconciled::default());
                }
                stored
            }
            Work::Continue => item,
        };
        if item.metadata.deletion_timestamp.is_some() {
            return self.remove(&item, request.objects).await;
        }
        self.install(item, request.objects).await
    }
}

/// Whether an item that looks like this is work for this deployer.
fn waits(snapshot: &Snapshot) -> bool {
    let item = view::DeployItem(snapshot);
    item.deployer_type() == mock::TYPE && item.job().is_running()
}

fn now() -> Time {
    Time(Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default())
}

impl MockDeployer {
    async fn install(&self, item: DeployItem, objects: &Objects) -> Result<Reconciled, ReconcileError> {
        let has_finalizer = item.finalizers().iter().any(|name| name == FINALIZER);
        let item = if has_finalizer { item } else { add_finalizer(&item, objects).await? };
        if let Some(error) = missing_target(&item, objects).await? {
            return self.report(&item, Verdict::failed(&item, error), objects).await;
        }
        let plan = match mock::install(&item) {
            Ok(plan) => plan,
            Err(error) => return self.report(&item, Verdict::failed(&item, error), objects).await,
        };
        tell_without_effect(&item, &plan.without_effect, objects).await;
        let exports = match &plan.export {
            Some(values) => match write_export(&item, values, objects).await? {
                Some(reference) => Exports::In(reference),
                None => {
                    let error = foreign_object(&format!("the secret {}", export_name(&item)));
                    return self.report(&item, Verdict::failed(&item, error), objects).await;
                }
            },
            // Values of an earlier job are nobody's any more (7.5).
            None if export_of(&item).is_some() => {
                delete_export(&item, objects).await?;
                Exports::None
            }
            None => Exports::Keep,
        };
        let current = item.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_default();
        let verdict = Verdict {
            phase: plan.phase.unwrap_or(current),
            error: None,
            provider_status: plan.provider_status,
            exports,
        };
        self.report(&item, verdict, objects).await
    }

    async fn remove(&self, item: &DeployItem, objects: &Objects) -> Result<Reconciled, ReconcileError> {
        let without_uninstall =
            item.annotations().get(annotation::DELETE_WITHOUT_UNINSTALL).is_some_and(|value| value == "true");
        if !without_uninstall {
            if let Some(error) = missing_target(item, objects).await? {
                return self.report(item, Verdict::failed(item, error), objects).await;
            }
            if let Removal::Stay(phase) = mock::remove(item) {
                let verdict = Verdict { phase, error: None, provider_status: None, exports: Exports::Keep };
                return self.report(item, verdict, objects).await;
            }
        }
        let namespace = item.namespace().unwrap_or_default();
        delete_export(item, objects).await?;
        let others = item.finalizers().iter().filter(|name| *name != FINALIZER).cloned().collect();
        let change = Metadata {
            resource_version: item.resource_version(),
            finalizers: Some(others),
            ..Metadata::default()
        };
        match objects.patch_metadata::<DeployItem>(&namespace, &item.name_any(), &change).await {
            Ok(_) | Err(ApiError::NotFound(_)) => Ok(Reconciled::default()),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes the result, if it says anything new, and looks again unless it is the end.
    async fn report(
        &self,
        item: &DeployItem,
        verdict: Verdict,
        objects: &Objects,
    ) -> Result<Reconciled, ReconcileError> {
        let is_end = Phase::of(Some(&verdict.phase)).is_final();
        let error = verdict.error.clone();
        let concluded = conclude(item, verdict, &now());
        if concluded != *item {
            let stored = match objects.replace_status(&concluded).await {
                Err(ApiError::NotFound(_)) if item.metadata.deletion_timestamp.is_some() => {
                    return Ok(Reconciled::default());
                }
                answer => answer?,
            };
            if let Some(error) = error {
                let job = stored.status.as_ref().and_then(|status| status.job_id.clone()).unwrap_or_default();
                let report = WarningEvent {
                    reason: &error.reason,
                    message: &error.message,
                    component: "groundwork-deployer",
                    occurrence: &job,
                };
                if let Err(error) = objects.warn(&stored, &report).await {
                    tracing::warn!(%error, "an Event could not be recorded");
                }
            }
        }
        Ok(Reconciled { requeue_after: (!is_end).then_some(POLL), ..Reconciled::default() })
    }
}

/// An Event, once a job, about members of the configuration that nobody reads.
async fn tell_without_effect(item: &DeployItem, members: &[String], objects: &Objects) {
    let is_first =
        item.status.as_ref().and_then(|status| status.phase.as_deref()) == Some(Phase::Init.as_str());
    if members.is_empty() || !is_first {
        return;
    }
    let members = members.join(", ");
    let message = format!("without effect on the mock deployer: {members} of spec.config");
    let job = item.status.as_ref().and_then(|status| status.job_id.clone()).unwrap_or_default();
    let report = WarningEvent {
        reason: "ConfigurationWithoutEffect",
        message: &message,
        component: "groundwork-deployer",
        occurrence: &job,
    };
    if let Err(error) = objects.warn(item, &report).await {
        tracing::warn!(%error, "an Event could not be recorded");
    }
}

async fn add_finalizer(item: &DeployItem, objects: &Objects) -> Result<DeployItem, ApiError> {
    let finalizers = item.finalizers().iter().cloned().chain([FINALIZER.to_owned()]).collect();
    let change = Metadata {
        resource_version: item.resource_version(),
        finalizers: Some(finalizers),
        ..Metadata::default()
    };
    objects.patch_metadata(&item.namespace().unwrap_or_default(), &item.name_any(), &change).await
}

/// The Target that an item names has to exist (2.4, 7.7).
async fn missing_target(item: &DeployItem, objects: &Objects) -> Result<Option<OperationError>, ApiError> {
    let Some(target) = &item.spec.target else { return Ok(None) };
    let namespace = item.namespace().unwrap_or_default();
    let found = objects.get::<Target>(&namespace, &target.name).await?;
    Ok(found.is_none().then(|| no_target(&target.name)))
}

fn export_of(item: &DeployItem) -> Option<&str> {
    item.status.as_ref()?.export_ref.as_ref().map(|reference| reference.name.as_str())
}

fn export_name(item: &DeployItem) -> String {
    export_of(item).map_or_else(|| format!("{}-export", item.name_any()), str::to_owned)
}

/// Whether a Secret was made for this very item.
fn is_export_of(secret: &Secret, item: &DeployItem) -> bool {
    let uid = item.uid();
    secret
        .owner_references()
        .iter()
        .any(|owner| owner.kind == DeployItem::KIND && Some(&owner.uid) == uid.as_ref())
}

/// The status, which others can write, may name any Secret: only the one that belongs to the item goes.
async fn delete_export(item: &DeployItem, objects: &Objects) -> Result<(), ApiError> {
    let Some(name) = export_of(item) else { return Ok(()) };
    let namespace = item.namespace().unwrap_or_default();
    let Some(secret) = objects.get::<Secret>(&namespace, name).await? else { return Ok(()) };
    if is_export_of(&secret, item) {
        objects.delete::<Secret>(&namespace, name, secret.uid().as_deref(), None).await?;
        return Ok(());
    }
    let message = format!(
        "the secret {name} that status.exportRef names was not deleted: it has no owner reference to this DeployItem; \
         delete it by hand if nobody needs it"
    );
    let report = WarningEvent {
        reason: "ForeignObject",
        message: &message,
        component: "groundwork-deployer",
        occurrence: name,
    };
    tracing::warn!(item = %format_args!("{namespace}/{}", item.name_any()), message);
    if let Err(error) = objects.warn(item, &report).await {
        tracing::warn!(%error, "an Event could not be recorded");
    }
    Ok(())
}

/// The values that an item exports, in a Secret that goes with it (7.5). `None`: somebody else has a Secret of that name.
async fn write_export(
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
    // One that was written before is read; another one that has the name is only found by creating it.
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
        if !is_export_of(&found, item) {
            return Ok(None);
        }
        if found.data != secret.data {
            secret.metadata.resource_version = found.resource_version();
            objects.replace(&secret).await?;
        }
    }
    Ok(Some(ObjectReference { name, namespace: Some(namespace) }))
}
