//! The helm deployer: a chart into the cluster of the Target, as a release that the ordinary client reads, or rendered and applied
//! (`helm.md` 10).
//!
//! ```text
//! item ──configuration──> chart (chart_source, rendering) ──> values for exports
//!   release mode   history ──release::next──> render, record ──> hooks, objects, waiting ──> readiness ──> exports
//!   otherwise      render ──render_only──> manifests ──apply::round──> the same as for manifests
//! ```

mod chart_source;
mod claims;
mod component_chart;
mod configuration;
mod discretion;
mod drift;
mod dropping;
mod errors;
mod failing;
mod history;
mod hook_logs;
mod hooks;
mod objects;
mod prepared;
mod release;
mod removal;
mod render_only;
mod rendering;
mod value_exports;
mod waiting;
pub(crate) mod work;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use groundwork_api::{DeployItem, ResourceExt};
use groundwork_apply::{
    ApplyError, Cluster, Deadline, DriftReport, Findings, Progress, ReadinessRules, Task, round,
};
use groundwork_budget::TemplateLimits;
use groundwork_deploy::{Deployer, Failure, Removal, Round, Step};
use groundwork_helm::{Release, Status, values};
use groundwork_lifecycle::deployer::missing_configuration;
use groundwork_lifecycle::{OperationError, Reason};
use groundwork_sandbox::Pool;
use jiff::{SignedDuration, Timestamp};
use moka::sync::Cache;
use serde_json::Map;

use crate::manifest::{operation_error, other_clusters, step};
use crate::whereabouts::Place;
pub(crate) use chart_source::ChartSources;
use configuration::{Configuration, OperationOptions};
use errors::{release_error, rendering_error, unreachable_cluster};
use history::History;
use prepared::{
    Known, OwnRelease, Prepared, estate, is_first, item_owner, releases, rollback_until, siblings, warnings,
};
pub(crate) use prepared::{is_listed, keeps, known, provider_status};
use release::{Carried, Next, ReleaseRun, as_helm, next};
use rendering::{Rendering, RenderingError, capabilities};
use work::{Input, Said};

/// The type of items that it works on.
pub(crate) const TYPE: &str = "landscaper.gardener.cloud/helm";
/// How long somebody else may be at work on a release.
const PATIENCE: SignedDuration = SignedDuration::from_mins(10);

/// Items that wait for something unchanged; those who are forgotten are rendered once more.
const MOST_COMPARED: u64 = 10_000;
const UNUSED: Duration = Duration::from_secs(3600);

/// Deploys charts.
#[derive(Debug, Clone)]
pub(crate) struct HelmDeployer {
    sources: ChartSources,
    rendering: Rendering,
    /// For items that choose none.
    rules: ReadinessRules,
    /// What has been found to say the same as the release that is there: it is not rendered in each round that waits.
    same: Cache<Compared, ()>,
}

/// A job of an item, as its spec is, the revision that is there, and the chart.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Compared {
    item: String,
    job: String,
    generation: Option<i64>,
    revision: i64,
    chart: String,
}

impl HelmDeployer {
    /// Charts are rendered in `workers`.
    pub(crate) fn new(
        sources: ChartSources,
        workers: Pool,
        limits: TemplateLimits,
        rules: ReadinessRules,
    ) -> Self {
        let same = Cache::builder().max_capacity(MOST_COMPARED).time_to_idle(UNUSED).build();
        Self { sources, rendering: Rendering::new(workers, limits), rules, same }
    }

    async fn prepare<'a>(
        &self,
        round: &'a Round<'a>,
        cluster: Arc<Cluster>,
    ) -> Result<Prepared<'a>, Failure> {
        let config = round.item.spec.config.get().ok_or_else(missing_configuration)?;
        let mut configuration = Configuration::parse(config)?;
        configuration.readiness_checks.rules.get_or_insert(self.rules);
        let others = other_clusters(round, &configuration.target_names()).await?;
        let archive = self.sources.fetch(&configuration.chart, round).await?;
        let tenant = round.item.namespace().unwrap_or_default();
        let chart = self.rendering.load(archive, tenant).await.map_err(|error| match error {
            RenderingError::Chart(text) | RenderingError::Work(text) => {
                chart_source::broken(format!("unable to load chart from archive: {text}"))
            }
            RenderingError::Fault(text) => {
                OperationError::transient("TemplateChart", Reason::GetHelmChart, text)
            }
        })?;
        let versions = cluster.versions().await.map_err(|error| unreachable_cluster(&error))?;
        let given = configuration.values.as_object().cloned().unwrap_or_default();
        let values = if configuration.keeps_releases() { values::floats(given) } else { given };
        let warnings = warnings(&configuration, round.item);
        let capabilities = capabilities(&versions);
        let exports = Map::new();
        let mut prepared = Prepared {
            round,
            configuration,
            cluster,
            others,
            chart,
            capabilities,
            values,
            exports,
            warnings,
        };
        if !value_exports::of(&prepared.configuration).is_empty() {
            let input = prepared.input(prepared.release(0, false));
            let tree = self.rendering.describe(&prepared.chart, input).await;
            let tree = tree.map_err(|error| rendering_error(Reason::PrepareHelmValues, &error, false))?;
            prepared.exports = value_exports::read(&prepared.configuration, &tree, &prepared.capabilities)?;
        }
        Ok(prepared)
    }

    async fn render(
        &self,
        prepared: &Prepared<'_>,
        release: Release,
        skip_schema: bool,
        reason: Reason,
    ) -> Result<Said, OperationError> {
        let input = Input { skip_schema, ..prepared.input(release) };
        let outcome = self.rendering.render(&prepared.chart, input, Arc::clone(&prepared.cluster)).await;
        outcome.result.map_err(|error| rendering_error(reason, &error, outcome.is_cluster_dependent))
    }

    async fn bring_about(&self, round: &Round<'_>, cluster: Arc<Cluster>) -> Result<Step, Failure> {
        let prepared = self.prepare(round, cluster).await?;
        if prepared.configuration.keeps_releases() {
            return self.keep_release(prepared).await;
        }
        self.render_and_apply(prepared).await
    }

    async fn render_and_apply(&self, mut prepared: Prepared<'_>) -> Result<Step, Failure> {
        if is_first(prepared.round) {
            let checked = prepared.round.deadline.check("helm deployer: start create manifests");
            checked.map_err(|error| operation_error("ApplyManifests", &error))?;
        }
        let release = prepared.release(0, false);
        let Said { rendered, .. } = self.render(&prepared, release, true, Reason::RenderHelmValues).await?;
        let namespace =
            prepared.configuration.create_namespace.then_some(prepared.configuration.namespace.as_str());
        let (manifests, warnings) = render_only::manifests(&rendered, namespace)?;
        prepared.warn(rendered.warnings.into_iter().chain(warnings));
        let configuration = &prepared.configuration;
        let exports = configuration.exports_from_resources();
        let former = estate(prepared.round.item);
        if former.is_empty() {
            prepared.check_foreign_release().await?;
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
        let status = prepared.status(known, OwnRelease::AsBefore);
        match result.outcome {
            Ok(Progress::Done(values)) => {
                let progress = Progress::Done(prepared.all_exports(values));
                self.forget_release(&prepared)
                    .await
                    .map_err(|error| operation_error("ApplyManifests", &error))?;
                let status = prepared.status(known, OwnRelease::Forgotten);
                Ok(step(progress, status, prepared.warnings))
            }
            Ok(waiting) => Ok(step(waiting, status, prepared.warnings)),
            Err(error) => {
                Err(Failure { error: operation_error("ApplyManifests", &error), provider_status: status })
            }
        }
    }

    /// The records of a release that this item had before it was told to keep none: its objects are the item's now (R27b).
    async fn forget_release(&self, prepared: &Prepared<'_>) -> Result<(), ApplyError> {
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

    async fn keep_release(&self, mut prepared: Prepared<'_>) -> Result<Step, Failure> {
        let helm = as_helm(&prepared.cluster);
        let mut run =
            prepared.run(&helm).await.map_err(|error| release_error(Reason::InstallRelease, &error))?;
        prepared.check_claim(&mut run).await?;
        let next = next(&run.history, &run.author, PATIENCE);
        let is_install = next == Next::Begin { revision: 1, is_upgrade: false };
        // What others have left pending is nothing that this item goes on with.
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
            Err(OperationEnd::Applying(error)) => return prepared.failed(run, &error, reason).await,
        };
        let status = prepared.release_status(&run);
        if let Carried::Waiting(mut waiting) = carried {
            waiting.until = waiting.until.into_iter().chain(run.deadline.0).min();
            return Ok(Step::waiting(waiting, status, prepared.warnings));
        }
        if is_rollback {
            // Trying once more would only go back and forth.
            let error =
                OperationError::new("RealHelmDeployer.Deploy", Reason::UpgradeRelease, rolled_back(&run));
            return Err(Failure { error, provider_status: status });
        }
        prepared.conclude(run, status).await
    }

    /// What comes next of a release.
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
            self.render(prepared, release, run.options.skip_schema, reason).await?;
        prepared.warn(rendered.warnings.iter().cloned());
        let creates_namespace = prepared.configuration.create_namespace;
        Ok(match run.begin(record, &rendered.crds, creates_namespace).await? {
            Carried::Done => run.carry_on().await?,
            waiting @ Carried::Waiting(_) => waiting,
        })
    }

    /// A new revision only if the chart says something else than the one that is deployed (R20).
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
            self.render(prepared, release, run.options.skip_schema, Reason::UpgradeRelease).await?;
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

/// Why an operation on a release did not get on.
enum OperationEnd {
    /// There are no manifests; nothing was written.
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

/// What became of an upgrade with `atomic` that failed.
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

/// The limit of an operation is its own, from its beginning, or what is left of the item's.
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

#[async_trait]
impl Deployer for HelmDeployer {
    fn type_name(&self) -> &'static str {
        TYPE
    }

    fn extension(&self, item: &DeployItem) -> Option<Timestamp> {
        rollback_until(item)
    }

    async fn reconcile(&self, round: &Round<'_>) -> Result<Step, Failure> {
        let place = Place::of(round).await?;
        let round = Round { item: place.item(), ..*round };
        place.note(self.bring_about(&round, place.cluster()).await)
    }

    async fn check_drift(
        &self,
        round: &Round<'_>,
        before: &Findings,
    ) -> Result<Option<DriftReport>, Failure> {
        drift::check(self, round, before).await
    }

    async fn delete(&self, round: &Round<'_>) -> Result<Removal, Failure> {
        removal::delete(round).await
    }
}
