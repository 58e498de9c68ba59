//! Items whose cluster may vanish before they are deleted (`installations.md` 8.5).

use groundwork_api::metadata::{annotation, label};
use groundwork_api::{DeployItem, ResourceExt as _, Target, TargetSync};
use groundwork_controller::Objects;
use groundwork_lifecycle::{OperationError, Reason};

use crate::source::Source;
use crate::target::{TargetError, Targets};

/// Name of a cluster that an item records while the cluster exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ClusterName {
    /// The item does not ask for the name of its cluster to be recorded.
    NotAskedFor,
    Known(String),
    /// The name is not available; with the reason, for users.
    Unknown(String),
}

/// Returns the name of the cluster of the item's Target.
pub(crate) async fn cluster_name(
    item: &DeployItem,
    target: Option<&Target>,
    targets: &Targets,
    objects: &Objects,
) -> Result<ClusterName, OperationError> {
    if !is_asked_for(item) {
        return Ok(ClusterName::NotAskedFor);
    }
    let Some(target) = target else {
        return Ok(ClusterName::Unknown("the item has no Target".to_owned()));
    };
    let name = target.name_any();
    if target.labels().get(label::TARGET_SYNC).is_none_or(|value| value != label::TARGET_SYNC_OK) {
        return Ok(ClusterName::Unknown(format!("the Target {name} does not belong to a TargetSync")));
    }
    match targets.shoot_name(target, objects).await {
        Ok(Some(cluster)) => Ok(ClusterName::Known(cluster)),
        Ok(None) => Ok(ClusterName::Unknown(format!(
            "the server of the Target {name} does not have the form https://api.NAME.DOMAIN of a Shoot"
        ))),
        Err(TargetError::Api(error)) => {
            Err(OperationError::transient("Reconcile", Reason::ReadClusterName, error.to_string()))
        }
        // The deployer runs into the same error and reports it.
        Err(error) => Ok(ClusterName::Unknown(error.to_string())),
    }
}

/// Reports whether the cluster of an item in deletion is known to be gone. The item has recorded
/// which Shoot it was; the single TargetSync of the namespace shows where to look for that Shoot.
pub(crate) async fn is_vanished(
    item: &DeployItem,
    targets: &Targets,
    objects: &Objects,
) -> Result<bool, OperationError> {
    let cluster = item.annotations().get(annotation::CLUSTER_NAME);
    let Some(cluster) = cluster.filter(|_| is_asked_for(item) && item.spec.target.is_some()) else {
        return Ok(false);
    };
    let untold = |problem: String| {
        let message = format!(
            "onDelete.skipUninstallIfClusterRemoved: cannot find out whether the cluster {cluster} still exists: \
             {problem}"
        );
        OperationError::transient("Delete", Reason::CheckCluster, message)
    };
    let namespace = item.namespace().unwrap_or_default();
    let syncs =
        objects.list::<TargetSync>(&namespace, "").await.map_err(|error| untold(error.to_string()))?;
    let [sync] = &syncs[..] else {
        return Err(untold(format!(
            "namespace {namespace} has {} TargetSyncs, but exactly one is needed to look for the cluster; to delete \
             the item without uninstalling, set the annotation {} on its root Installation",
            syncs.len(),
            annotation::DELETE_WITHOUT_UNINSTALL
        )));
    };
    let source = Source::of(sync, targets, objects).await.map_err(|error| untold(error.to_string()))?;
    let is_there = source.has_shoot(cluster).await.map_err(|error| untold(error.to_string()))?;
    Ok(!is_there)
}

fn is_asked_for(item: &DeployItem) -> bool {
    let on_delete = item.spec.on_delete.as_ref();
    on_delete.is_some_and(|on_delete| on_delete.skip_uninstall_if_cluster_removed == Some(true))
}
