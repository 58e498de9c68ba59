//! Checks of the objects of an item between two jobs (`installations.md` 7.9, drift).

use groundwork_api::{DeployItem, ResourceExt as _};
use groundwork_apply::{ApplyError, DriftCheck, DriftMode, DriftReport, Wanted};
use groundwork_deploy::{Failure, Round};
use groundwork_lifecycle::deployer::is_at_rest;
use groundwork_lifecycle::{OperationError, Reason};

use crate::common::operation_error;

/// The objects of an item, as they are to be.
pub(crate) struct Wish {
    pub(crate) objects: Vec<Wanted>,
    /// A reason for which none of them is written again.
    pub(crate) obstacle: Option<String>,
}

/// Compares the objects of the record with what is wanted, which is asked for only while one of
/// them has changed, and brings them back if the item says so.
///
/// # Errors
///
/// The cluster does not answer, or what is wanted cannot be had.
pub(crate) async fn check(
    round: &Round<'_>,
    check: &DriftCheck<'_>,
    wish: impl AsyncFnOnce() -> Result<Wish, Failure>,
) -> Result<DriftReport, Failure> {
    let (mut report, suspects) = check.suspects().await.map_err(|error| failure(&error))?;
    if suspects.is_empty() && report.differences().is_empty() {
        return Ok(report);
    }
    let Wish { objects, obstacle } = wish().await?;
    check.compare(suspects, &objects, &mut report).await;
    let repairs = check.drift.mode == DriftMode::Repair;
    let may_repair = repairs && obstacle.is_none() && report.is_repairable();
    report.problems.extend(obstacle);
    if may_repair && is_unchanged(round).await? {
        check.repair(&objects, &mut report).await;
    }
    Ok(report)
}

/// True if no job has begun since the item was read: what it says now is what its objects are to
/// be.
async fn is_unchanged(round: &Round<'_>) -> Result<bool, Failure> {
    let item = round.item;
    let found =
        round.objects.get::<DeployItem>(&item.namespace().unwrap_or_default(), &item.name_any()).await;
    let found = found
        .map_err(|error| OperationError::transient("CheckDrift", Reason::TargetCluster, error.to_string()))?;
    let of = |item: &DeployItem| {
        (item.uid(), item.metadata.generation, item.status.as_ref().and_then(|status| status.job_id.clone()))
    };
    Ok(found.is_some_and(|found| is_at_rest(&found) && of(&found) == of(item)))
}

pub(crate) fn failure(error: &ApplyError) -> Failure {
    operation_error("CheckDrift", error).into()
}
