//! Errors of the helm deployer in the form of the status (`helm.md` 10.7).

use groundwork_api::ErrorCode;
use groundwork_apply::ApplyError;
use groundwork_controller::ApiError;
use groundwork_deploy::Failure;
use groundwork_lifecycle::{OperationError, Reason};

use super::rendering::RenderingError;

pub(super) fn unreachable_cluster(error: &ApiError) -> OperationError {
    let text = ApplyError::from(error.clone()).to_string();
    OperationError::transient(
        "RealHelmDeployer.Deploy",
        Reason::TargetCluster,
        format!("Kubernetes cluster unreachable: {text}"),
    )
}

pub(super) fn release_error(reason: Reason, error: &ApplyError) -> Failure {
    let text = error.to_string();
    match error {
        ApplyError::Configuration(_) => OperationError::new("RealHelmDeployer.Deploy", reason, text).into(),
        _ => OperationError::transient("RealHelmDeployer.Deploy", reason, text).into(),
    }
}

/// Converts the error of a rendering. If the chart has read the cluster, its error is retried,
/// because another state of the cluster may give another result.
pub(super) fn rendering_error(
    reason: Reason,
    error: &RenderingError,
    is_cluster_dependent: bool,
) -> OperationError {
    match error {
        RenderingError::Chart(error) if !is_cluster_dependent => {
            OperationError::new("TemplateChart", reason, error.clone())
        }
        RenderingError::Chart(error) => OperationError::transient("TemplateChart", reason, error.clone()),
        RenderingError::Fault(text) => OperationError::transient("TemplateChart", reason, text.clone()),
        RenderingError::Work(text) => OperationError {
            operation: "TemplateChart".into(),
            reason,
            message: text.clone(),
            codes: vec![ErrorCode::ConfigurationProblem],
        },
    }
}
