//! Release mode: deploys a chart as a release that Helm's own client can read (`helm.md` 10.4).
//!
//! ```text
//! History ──release::next──> Begin | Compare: render ──> record ─┐
//!                     └────> Continue | Settled ─────────────────┴─> ReleaseRun: hooks, objects,
//!                                                        waits ──> readiness ──> exports
//! ```

use std::collections::HashSet;
use std::time::Duration;

use groundwork_api::AnyJson;
use groundwork_apply::{
    ApplyError, Cluster, Deadline, Exported, ManagedResource, Progress, ReadinessRules, Reference, Seen,
    failed_check, read_exports,
};
use groundwork_deploy::{Failure, Step, with_last_error};
use groundwork_helm::{Release, Status};
use groundwork_lifecycle::{OperationError, Reason};
use jiff::{SignedDuration, Timestamp};
use moka::sync::Cache;
use serde_json::json;

use super::charts::Charts;
use super::claims::{Claim, claim, refusal};
use super::configuration::OperationOptions;
use super::errors::release_error;
use super::failing::Failing;
use super::history::History;
use super::hooks;
use super::marks::item_owner;
use super::objects::Owner;
use super::prepared::{Prepared, is_first};
use super::release::{Carried, Next, ReleaseRun, as_helm, next};
use super::status::{
    Known, OwnRelease, applied, author, estate_beside_release, is_named, joined, releases, rollback_until,
    written,
};
use super::work::Said;
use crate::common::{operation_error, step};

/// Kinds of a release that the status lists. If the item is checked by the table of kinds, only
/// these have to be ready (`helm.md` 10.6).
const WORKLOADS: [&str; 6] =
    ["Pod", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController"];
/// Time for which an operation of another program may be in progress.
const PATIENCE: SignedDuration = SignedDuration::from_mins(10);
/// Number of remembered comparisons. An item that is forgotten is rendered once more.
const MOST_COMPARED: u64 = 10_000;
const UNUSED: Duration = Duration::from_secs(3600);

/// Deploys charts as releases.
#[derive(Debug, Clone)]
pub(super) struct ReleaseMode {
    charts: Charts,
    /// Comparisons in which the rendering equalled the deployed revision, so that rounds that only
    /// wait do not render again.
    same: Cache<Compared, ()>,
}

/// Key of a comparison: the item, its job and generation, the deployed revision, and the chart.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Compared {
    item: String,
    job: String,
    generation: Option<i64>,
    revision: i64,
    chart: String,
}

impl ReleaseMode {
    pub(super) fn new(charts: Charts) -> Self {
        Self { charts, same: Cache::builder().max_capacity(MOST_COMPARED).time_to_idle(UNUSED).build() }
    }

    /// Deploys the release, or continues its operation.
    pub(super) async fn run(&self, mut prepared: Prepared<'_>) -> Result<Step, Failure> {
        let helm = as_helm(&prepared.cluster);
        let mut run =
            open(&prepared, &helm).await.map_err(|error| release_error(Reason::InstallRelease, &error))?;
        check_claim(&prepared, &mut run).await?;
        let next = next(&run.history, &run.author, PATIENCE);
        let is_install = next == Next::Begin { revision: 1, is_upgrade: false };
        // A pending record of another program is not continued; it does not count here.
        let goes_on_with = |status| next == Next::Continue && is_last(&run, status);
        let is_rollback = next == Next::RolledBack || goes_on_with(Status::PendingRollback);
        let is_of_install = is_install || goes_on_with(Status::PendingInstall);
        let configuration = &prepared.configuration;
        let options = if is_of_install {
            configuration.helm_deployment_config.install()
        } else {
            configuration.helm_deployment_config.upgrade()
        };
        run.options = options;
        run.rules = configuration.rules();
        run.deadline = earlier(run.deadline, &run, options);
        let reason = if is_install { Reason::InstallRelease } else { Reason::UpgradeRelease };
        let carried = match self.carry(&mut prepared, &mut run, next, reason.clone()).await {
            Ok(carried) => carried,
            Err(OperationEnd::Rendering(error)) => return Err(error.into()),
            Err(OperationEnd::Applying(error)) => return failed(prepared, run, &error, reason).await,
        };
        let status = release_status(&prepared, &run);
        if let Carried::Waiting(mut waiting) = carried {
            waiting.until = waiting.until.into_iter().chain(run.deadline.0).min();
            return Ok(Step::waiting(waiting, status, prepared.warnings));
        }
        if is_rollback {
            // A retry would upgrade and roll back again, for ever.
            let error =
                OperationError::new("RealHelmDeployer.Deploy", Reason::UpgradeRelease, rolled_back(&run));
            return Err(Failure { error, provider_status: status });
        }
        conclude(prepared, run, status).await
    }

    /// Carries out the next step of a release.
    async fn carry(
        &self,
        prepared: &mut Prepared<'_>,
        run: &mut ReleaseRun<'_>,
        next: Next,
        reason: Reason,
    ) -> Result<Carried, OperationEnd> {
        Ok(match next {
            Next::Busy => {
                let text = "another operation (install/upgrade/rollback) is in progress";
                return Err(ApplyError::Retry(text.to_owned()).into());
            }
            Next::RolledBack => Carried::Done,
            Next::Settled => run.repair().await?,
            Next::Continue => run.carry_on().await?,
            Next::Begin { revision, is_upgrade } => {
                let release = prepared.release(revision, is_upgrade);
                self.begin(prepared, run, release, reason).await?
            }
            Next::Compare { revision } => self.compare(prepared, run, revision).await?,
        })
    }

    async fn begin(
        &self,
        prepared: &mut Prepared<'_>,
        run: &mut ReleaseRun<'_>,
        release: Release,
        reason: Reason,
    ) -> Result<Carried, OperationEnd> {
        if is_first(prepared.round) {
            let verb = if release.is_upgrade { "upgrading" } else { "installing" };
            run.deadline.check(&format!("helm deployer: before {verb} release"))?;
        }
        let Said { rendered, record } =
            self.charts.render(prepared, release, run.options.skip_schema, reason).await?;
        prepared.warn(rendered.warnings.iter().cloned());
        let creates_namespace = prepared.configuration.create_namespace;
        Ok(match run.begin(record, &rendered.crds, creates_namespace).await? {
            Carried::Done => run.carry_on().await?,
            waiting @ Carried::Waiting(_) => waiting,
        })
    }

    /// Creates a revision only if the chart renders to something else than the deployed one
    /// (`helm.md` 9.6, R20).
    async fn compare(
        &self,
        prepared: &mut Prepared<'_>,
        run: &mut ReleaseRun<'_>,
        revision: i64,
    ) -> Result<Carried, OperationEnd> {
        let compared = Compared {
            item: run.author.uid.clone(),
            job: run.author.job.clone(),
            generation: prepared.round.item.metadata.generation,
            revision,
            chart: prepared.chart.digest.clone(),
        };
        if self.same.contains_key(&compared) {
            return Ok(run.repair().await?);
        }
        let release = prepared.release(revision, revision > 1);
        let Said { rendered, record } =
            self.charts.render(prepared, release, run.options.skip_schema, Reason::UpgradeRelease).await?;
        let has_hooks =
            ["pre-upgrade", "post-upgrade"].iter().any(|event| !hooks::of_event(&record, event).is_empty());
        let is_same = run.history.last().is_some_and(|last| last.record.says_the_same(&record));
        if is_same && !has_hooks {
            prepared.warn(rendered.warnings);
            self.same.insert(compared, ());
            return Ok(run.repair().await?);
        }
        let release = prepared.release(revision + 1, true);
        self.begin(prepared, run, release, Reason::UpgradeRelease).await
    }
}

/// Reads the records of the release.
async fn open<'a>(prepared: &Prepared<'a>, cluster: &'a Cluster) -> Result<ReleaseRun<'a>, ApplyError> {
    let item = prepared.round.item;
    let (name, namespace) = (prepared.configuration.name.clone(), prepared.configuration.namespace.clone());
    let history = History::load(cluster, &namespace, &name).await?;
    if history.last().is_none() && history.is_in_config_maps(&name).await? {
        let text = format!(
            "release {name} is stored in ConfigMaps by another storage driver of Helm: move its records to Secrets"
        );
        return Err(ApplyError::Configuration(text));
    }
    for secret in &history.unreadable {
        let text = format!(
            "the Secret {namespace}/{secret} looks like a record of the release, but cannot be read; it is ignored"
        );
        prepared.round.warn("ChartWarning", &text).await;
    }
    let owner = Owner { name, namespace };
    Ok(ReleaseRun {
        cluster,
        history,
        marks: item_owner(prepared.round, Some(&owner)),
        owner,
        author: author(item),
        options: OperationOptions::default(),
        rules: prepared.configuration.rules(),
        deadline: prepared.round.deadline,
        former: applied(item),
        applied: Vec::new(),
        is_complete: false,
        estate: estate_beside_release(item),
        rollback_until: rollback_until(item),
        seen: Seen::new(),
        absent: HashSet::new(),
        is_adopted: releases(item)
            .iter()
            .any(|release| is_named(release, &prepared.configuration) && release["adopted"] == true),
        round: prepared.round,
    })
}

/// Refuses a release of another item, because the two would overwrite each other (`helm.md` 12,
/// R39), and a release of others without `adopt` (`helm.md` 10.4, R40).
async fn check_claim(prepared: &Prepared<'_>, run: &mut ReleaseRun<'_>) -> Result<(), Failure> {
    match claim(prepared.round, &run.history, &run.owner).await? {
        Some(Claim::OfItem(name)) => {
            let message = format!("release {} is managed by DeployItem {name}", prepared.configuration.name);
            let error = OperationError::new("RealHelmDeployer.Deploy", Reason::InstallRelease, message);
            Err(error.into())
        }
        Some(Claim::Foreign) if !prepared.configuration.adopt => Err(refusal(&run.owner).into()),
        Some(Claim::Foreign) => {
            prepared.tell_adopted(&run.owner).await;
            run.is_adopted = true;
            Ok(())
        }
        Some(Claim::Own | Claim::Orphan) | None => Ok(()),
    }
}

/// Marks the operation as failed in the record, unless the cluster did not answer. With `atomic`
/// the revision before is restored, in rounds with a time limit of their own.
///
/// # Errors
///
/// The failure, unless a rollback has begun.
async fn failed(
    prepared: Prepared<'_>,
    mut run: ReleaseRun<'_>,
    error: &ApplyError,
    reason: Reason,
) -> Result<Step, Failure> {
    let mut text =
        with_last_error(prepared.round.item, &error.to_string(), matches!(error, ApplyError::Timeout(_)));
    if !matches!(error, ApplyError::Retry(_)) {
        match run.fail(&text).await {
            Ok(Failing::Told(told)) => text = told,
            Ok(Failing::RollsBack(what)) => {
                let status = release_status(&prepared, &run);
                return Ok(Step::waiting(what, status, prepared.warnings));
            }
            Err(second) => tracing::warn!(error = %second, "the failure of a release could not be recorded"),
        }
    }
    let verb = if reason == Reason::InstallRelease { "install" } else { "upgrade" };
    let full = format!("unable to {verb} helm chart release: {text}");
    let error = match error {
        ApplyError::Timeout(_) => {
            OperationError { message: text, ..operation_error("RealHelmDeployer.Deploy", error) }
        }
        ApplyError::Configuration(_) => OperationError::new("RealHelmDeployer.Deploy", reason, full),
        ApplyError::Retry(_) | ApplyError::Failed(_) => {
            OperationError::transient("RealHelmDeployer.Deploy", reason, full)
        }
    };
    Err(Failure { error, provider_status: release_status(&prepared, &run) })
}

/// Waits for the readiness of a deployed release, and reads its exports.
async fn conclude(
    prepared: Prepared<'_>,
    run: ReleaseRun<'_>,
    status: Option<AnyJson>,
) -> Result<Step, Failure> {
    let told = |error: &ApplyError| Failure {
        error: operation_error("WaitForObjectsReady", error),
        provider_status: status.clone(),
    };
    let checks = &prepared.configuration.readiness_checks;
    let wanted = match prepared.configuration.rules() {
        ReadinessRules::Conventions => run.applied.iter().map(|managed| managed.resource.clone()).collect(),
        ReadinessRules::Kinds => workloads(&run.applied),
    };
    let wanted: Vec<&Reference> = wanted.iter().collect();
    let deadline = prepared.round.deadline;
    let unready = failed_check(&prepared.cluster, &prepared.others, checks, &wanted, None, &run.seen).await;
    if let Some(waiting) = unready.map_err(|error| told(&error))? {
        deadline.check(&waiting.what).map_err(|error| told(&error))?;
        return Ok(Step::waiting(waiting, status, prepared.warnings));
    }
    let exports = prepared.configuration.exports_from_resources();
    match read_exports(&prepared.cluster, &prepared.others, &exports, &run.seen)
        .await
        .map_err(|error| told(&error))?
    {
        Exported::Values(values) => {
            Ok(step(Progress::Done(prepared.all_exports(values)), status.clone(), prepared.warnings))
        }
        Exported::Awaited(waiting) => {
            deadline.check(&waiting.what).map_err(|error| told(&error))?;
            Ok(Step::waiting(waiting, status.clone(), prepared.warnings))
        }
    }
}

fn release_status(prepared: &Prepared<'_>, run: &ReleaseRun<'_>) -> Option<AnyJson> {
    let managed: Vec<ManagedResource> = workloads(&run.applied)
        .into_iter()
        .filter_map(|resource| run.applied.iter().find(|managed| managed.resource == resource))
        .map(|managed| ManagedResource { applied: None, ..managed.clone() })
        .collect();
    // A dropped object stays in the status until all others are applied, because it is deleted only
    // then.
    let former = if run.is_complete { Vec::new() } else { run.former.clone() };
    let known = joined([run.applied.clone(), former]);
    let current = run.history.last().map(|last| {
        let mut release = json!({
            "name": last.record.name(), "namespace": last.record.namespace(), "revision": last.record.revision(),
            "status": last.record.status().as_str(), "chart": last.record.chart_name(),
            "chartVersion": last.record.chart_version(), "chartDigest": prepared.chart.digest, "current": true,
        });
        if run.is_adopted {
            release["adopted"] = json!(true);
        }
        release
    });
    let known = Known {
        managed: &managed,
        applied: &known,
        inherited: &run.estate,
        is_complete: run.is_complete,
        rollback_until: run.rollback_until,
    };
    written(
        prepared.round.item,
        &prepared.configuration,
        known,
        current.map_or(OwnRelease::AsBefore, OwnRelease::Is),
    )
}

fn workloads(applied: &[ManagedResource]) -> Vec<Reference> {
    let is_workload = |resource: &Reference| {
        let group =
            if matches!(resource.kind.as_str(), "Pod" | "ReplicationController") { "" } else { "apps" };
        WORKLOADS.contains(&resource.kind.as_str()) && resource.group() == group
    };
    applied.iter().map(|managed| managed.resource.clone()).filter(is_workload).collect()
}

/// Reason why an operation on a release stopped.
enum OperationEnd {
    /// The chart could not be rendered; nothing was written.
    Rendering(OperationError),
    Applying(ApplyError),
}

impl From<OperationError> for OperationEnd {
    fn from(error: OperationError) -> Self {
        Self::Rendering(error)
    }
}

impl From<ApplyError> for OperationEnd {
    fn from(error: ApplyError) -> Self {
        Self::Applying(error)
    }
}

/// Returns the error of an upgrade that was rolled back because of `atomic`.
fn rolled_back(run: &ReleaseRun<'_>) -> String {
    format!(
        "unable to upgrade helm chart release: release {} failed, and has been rolled back due to atomic being set: {}",
        run.owner.name,
        run.upgrade_error()
    )
}

fn is_last(run: &ReleaseRun<'_>, status: Status) -> bool {
    run.history.last().is_some_and(|last| last.record.status() == status)
}

/// Returns the deadline of an operation: its own limit counted from its beginning, or the item's
/// deadline if that is earlier.
fn earlier(deadline: Deadline, run: &ReleaseRun<'_>, options: OperationOptions) -> Deadline {
    let Some(length) = options.timeout.and_then(|timeout| SignedDuration::try_from(timeout).ok()) else {
        return deadline;
    };
    let begun = run.history.last().filter(|last| last.is_of(&run.author.job));
    let begun = begun
        .and_then(|last| last.record.last_deployed().parse::<Timestamp>().ok())
        .unwrap_or_else(Timestamp::now);
    let own = begun.checked_add(length).ok();
    Deadline(match (deadline.0, own) {
        (Some(item), Some(own)) => Some(item.min(own)),
        (item, own) => item.or(own),
    })
}
