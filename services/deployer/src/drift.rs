//! Looks at the objects of an item between two jobs (`installations.md` 7.9, drift).

use groundwork_api::{DeployItem, ResourceExt as _};
use groundwork_apply::{ApplyError, DriftMode, Look, Sight, Wanted};
use groundwork_deploy::{Failure, Round};
use groundwork_lifecycle::deployer::is_at_rest;
use groundwork_lifecycle::{OperationError, Reason};

use crate::manifest::operation_error;

/// The objects of an item, as they are to be.
pub(crate) struct Wish {
    pub(crate) objects: Vec<Wanted>,
    /// A reason for which none of them is written again.
    pub(crate) obstacle: Option<String>,
}

/// Compares the objects of the record with what is wanted, which is asked for only if one of them has changed, and brings them back if the item
/// says so.
///
/// # Errors
///
/// The cluster does not answer, or what is wanted cannot be had.
pub(crate) async fn look(
    round: &Round<'_>,
    look: &Look<'_>,
    wish: impl AsyncFnOnce() -> Result<Wish, Failure>,
) -> Result<Sight, Failure> {
    let (mut sight, suspects) = look.suspects().await.map_err(|error| failed_look(&error))?;
    let repairs = look.drift.mode == DriftMode::Repair;
    if suspects.is_empty() && !(repairs && sight.is_repairable()) {
        return Ok(sight);
    }
    let Wish { objects, obstacle } = wish().await?;
    look.compare(suspects, &objects, &mut sight).await;
    let may_repair = repairs && obstacle.is_none() && sight.is_repairable();
    sight.problems.extend(obstacle);
    if may_repair && is_unchanged(round).await? {
        look.repair(&objects, &mut sight).await;
    }
    Ok(sight)
}

/// True if no job has begun since the item was read: what it says now is what its objects are to be.
async fn is_unchanged(round: &Round<'_>) -> Result<bool, Failure> {
    let item = round.item;
    let found =
        round.objects.get::<DeployItem>(&item.namespace().unwrap_or_default(), &item.name_any()).await;
    let found =
        found.map_err(|error| OperationError::transient("Look", Reason::TargetCluster, error.to_string()))?;
    let of = |item: &DeployItem| {
        (item.uid(), item.metadata.generation, item.status.as_ref().and_then(|status| status.job_id.clone()))
    };
    Ok(found.is_some_and(|found| is_at_rest(&found) && of(&found) == of(item)))
}

pub(crate) fn failed_look(error: &ApplyError) -> Failure {
    operation_error("Look", error).into()
}
