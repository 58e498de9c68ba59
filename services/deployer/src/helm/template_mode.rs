//! Template mode: renders a chart and applies its objects without a release (`helm.md` 10.3).
//!
//! ```text
//! render ──render_only──> manifests ──apply::round──> the same as for manifests
//! ```

use groundwork_api::{AnyJson, ResourceExt as _};
use groundwork_apply::{ApplyError, Progress, Task, round};
use groundwork_deploy::{Failure, Step};
use groundwork_lifecycle::Reason;

use super::charts::Charts;
use super::claims::{Claim, claim, refusal};
use super::history::History;
use super::marks::{item_owner, siblings};
use super::objects::Owner;
use super::prepared::{Prepared, is_first};
use super::render_only;
use super::status::{Known, OwnRelease, estate, is_listed, releases, written};
use super::work::Said;
use crate::common::{operation_error, step};

/// Renders the chart and runs one round of its objects.
pub(super) async fn run(charts: &Charts, mut prepared: Prepared<'_>) -> Result<Step, Failure> {
    if is_first(prepared.round) {
        let checked = prepared.round.deadline.check("helm deployer: start create manifests");
        checked.map_err(|error| operation_error("ApplyManifests", &error))?;
    }
    let release = prepared.release(0, false);
    let Said { rendered, .. } = charts.render(&prepared, release, true, Reason::RenderHelmValues).await?;
    let namespace =
        prepared.configuration.create_namespace.then_some(prepared.configuration.namespace.as_str());
    let (manifests, warnings) = render_only::manifests(&rendered, namespace)?;
    prepared.warn(rendered.warnings.into_iter().chain(warnings));
    let configuration = &prepared.configuration;
    let exports = configuration.exports_from_resources();
    let former = estate(prepared.round.item);
    if former.is_empty() {
        check_foreign_release(&prepared).await?;
    }
    let siblings = siblings(prepared.round);
    let task = Task {
        cluster: &prepared.cluster,
        others: &prepared.others,
        owner: item_owner(prepared.round, None),
        succession: &siblings,
        is_listed: is_listed(prepared.round.item),
        manifests: &manifests,
        default_namespace: Some(&configuration.namespace),
        strategy: configuration.update_strategy,
        checks: &configuration.readiness_checks,
        exports: &exports,
        deletion_groups: &configuration.deletion_groups_during_update,
        former: &former,
        deadline: prepared.round.deadline,
    };
    let result = round(&task).await;
    prepared.round.tell(&result.told).await;
    let known = Known { managed: &result.managed, is_complete: result.is_complete, ..Known::default() };
    let status = status_of(&prepared, known, OwnRelease::AsBefore);
    match result.outcome {
        Ok(Progress::Done(values)) => {
            let progress = Progress::Done(prepared.all_exports(values));
            forget_release(&prepared).await.map_err(|error| operation_error("ApplyManifests", &error))?;
            let status = status_of(&prepared, known, OwnRelease::Forgotten);
            Ok(step(progress, status, prepared.warnings))
        }
        Ok(waiting) => Ok(step(waiting, status, prepared.warnings)),
        Err(error) => {
            Err(Failure { error: operation_error("ApplyManifests", &error), provider_status: status })
        }
    }
}

fn status_of(prepared: &Prepared<'_>, known: Known<'_>, own: OwnRelease) -> Option<AnyJson> {
    written(prepared.round.item, &prepared.configuration, known, own)
}

/// Refuses a release of others with the same name, unless `adopt` is set: applying would take over
/// its objects. Runs before the first write.
async fn check_foreign_release(prepared: &Prepared<'_>) -> Result<(), Failure> {
    let release = Owner {
        name: prepared.configuration.name.clone(),
        namespace: prepared.configuration.namespace.clone(),
    };
    let history = History::load_if_allowed(&prepared.cluster, &release.namespace, &release.name).await;
    let history = history.map_err(|error| operation_error("ApplyManifests", &error))?;
    // A user who may not read Secrets cannot have made a release there.
    let Some(history) = history else { return Ok(()) };
    match claim(prepared.round, &history, &release).await? {
        Some(Claim::Foreign) if !prepared.configuration.adopt => Err(refusal(&release).into()),
        Some(Claim::Foreign) => {
            prepared.tell_adopted(&release).await;
            Ok(())
        }
        Some(_) | None => Ok(()),
    }
}

/// Deletes the records of the release that the item had before it was switched to template mode.
/// The objects stay and belong to the item (`helm.md` 10.3, R27b).
async fn forget_release(prepared: &Prepared<'_>) -> Result<(), ApplyError> {
    if releases(prepared.round.item).is_empty() {
        return Ok(());
    }
    let (namespace, name) = (&prepared.configuration.namespace, &prepared.configuration.name);
    let mut history = History::load(&prepared.cluster, namespace, name).await?;
    let uid = prepared.round.item.uid().unwrap_or_default();
    if !history.last().is_some_and(|last| last.is_of_item(&uid)) {
        return Ok(());
    }
    history.forget().await
}
