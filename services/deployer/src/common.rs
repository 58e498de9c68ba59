//! Parts that the manifest and the helm deployer share: the clusters of Targets, and the form of
//! results and errors in the status.

use std::sync::Arc;

use groundwork_api::{AnyJson, ErrorCode, ResourceExt as _, Target};
use groundwork_apply::{ApplyError, Cluster, OtherClusters, Progress};
use groundwork_deploy::{Round, RoundOutcome, Step, TargetError, Warning};
use groundwork_lifecycle::{OperationError, Reason};

/// Type of items with manifests.
pub(crate) const MANIFEST: &str = groundwork_api::item_type::MANIFEST;
/// Type of items with a chart.
pub(crate) const CHART: &str = groundwork_api::item_type::HELM;

/// Converts the progress of a round into the step that the deploy loop reports.
pub(crate) fn step(progress: Progress, provider_status: Option<AnyJson>, warnings: Vec<Warning>) -> Step {
    match progress {
        Progress::Done(exports) => {
            let exports = (!exports.is_empty()).then_some(exports);
            Step { outcome: RoundOutcome::Done, provider_status, exports, warnings }
        }
        Progress::Waiting(waiting) => Step::waiting(waiting, provider_status, warnings),
    }
}

/// Converts an error of the cluster into the form of the status.
pub(crate) fn operation_error(operation: &'static str, error: &ApplyError) -> OperationError {
    let message = error.to_string();
    match error {
        ApplyError::Configuration(_) => OperationError::new(operation, Reason::ConfigurationInvalid, message),
        ApplyError::Retry(_) | ApplyError::Failed(_) => {
            OperationError::transient(operation, Reason::TargetCluster, message)
        }
        ApplyError::Timeout(_) => OperationError {
            operation: operation.into(),
            reason: Reason::ProgressingTimeout,
            message,
            codes: vec![ErrorCode::Timeout],
        },
    }
}

fn target_error(error: &TargetError) -> OperationError {
    let message = error.to_string();
    match error {
        TargetError::Api(_) => OperationError::transient("Connect", Reason::TargetCluster, message),
        _ => OperationError::new("Connect", Reason::TargetInvalid, message),
    }
}

/// Connects to the cluster of the item's Target. Fails if the item names no Target.
pub(crate) async fn own_cluster(round: &Round<'_>) -> Result<Arc<Cluster>, OperationError> {
    let Some(target) = round.target else {
        return Err(OperationError::new(
            "Connect",
            Reason::TargetMissing,
            "spec.target must name a target: a cluster to deploy to",
        ));
    };
    round.targets.cluster(target, round.objects).await.map_err(|error| target_error(&error))
}

/// Connects to the clusters of other Targets in the item's namespace.
pub(crate) async fn other_clusters(
    round: &Round<'_>,
    names: &[&str],
) -> Result<OtherClusters, OperationError> {
    let namespace = round.item.namespace().unwrap_or_default();
    let mut clusters = OtherClusters::new();
    for name in names {
        let found = round.objects.get::<Target>(&namespace, name).await;
        let found = found.map_err(|error| target_error(&TargetError::from(error)))?;
        let Some(target) = found else { return Err(groundwork_lifecycle::deployer::no_target(name)) };
        let cluster =
            round.targets.cluster(&target, round.objects).await.map_err(|error| target_error(&error))?;
        clusters.insert((*name).to_owned(), cluster);
    }
    Ok(clusters)
}
