//! Checks of the objects of an item between two jobs (`installations.md` 7.9, drift).

use groundwork_api::{DeployItem, ResourceExt as _};
use groundwork_apply::{ApplyError, DriftCheck, DriftMode, DriftReport, Wanted};
use groundwork_deploy::{Failure, Round};
use groundwork_lifecycle::deployer::is_at_rest;
use groundwork_lifecycle::{OperationError, Reason};

use crate::common::operation_error;

/// Wanted state of the objects of an item.
pub(crate) struct Wish {
    pub(crate) objects: Vec<Wanted>,
    /// Reason not to repair any of the objects.
    pub(crate) obstacle: Option<String>,
}

/// Compares the objects of the record with the wanted state, and repairs them if the item says so.
/// `wish`, which may render a chart, is called only if an object has changed.
///
/// # Errors
///
/// The cluster does not answer, or the wanted state cannot be computed.
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
    // Read the item again as late as possible: rendering the chart may have taken a while.
    if may_repair && is_unchanged(round).await? {
        check.repair(&objects, &mut report).await;
    }
    Ok(report)
}

/// Reports whether no job has begun since the item was read. Otherwise the repair could undo what
/// the new job writes.
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
