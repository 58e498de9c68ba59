//! The helm deployer: a chart into the cluster of the Target, as a release that the ordinary client reads, or rendered and applied
//! (`helm.md` 10).
//!
//! ```text
//! item ──configuration──> chart (chart_source, rendering) ──> values for exports
//!   release mode   history ──release::next──> render, record ──> hooks, objects, waiting ──> readiness ──> exports
//!   otherwise      render ──render_only──> manifests ──apply::round──> the same as for manifests
//! ```

mod chart_source;
mod configuration;
mod history;
mod hooks;
mod objects;
mod release;
mod render_only;
mod rendering;
mod value_exports;
mod waiting;

use std::sync::Arc;

use async_trait::async_trait;
use groundwork_api::{AnyJson, DeployItem, ErrorCode, ResourceExt};
use groundwork_apply::{
    ApplyError, Cluster, Deadline, Deletion, DeletionGroup, ManagedResource, OtherClusters,
    Owner as ItemOwner, Progress, Reference, Task, delete_round, failed_check, read_exports, round,
};
use groundwork_controller::ApiError;
use groundwork_deploy::{Deployer, Failure, Outcome, Removal, Round, Step, Warning};
use groundwork_helm::{Capabilities, Record, Release, Rendered, Status, values};
use groundwork_lifecycle::OperationError;
use groundwork_lifecycle::deployer::missing_configuration;
use groundwork_registry::NetworkOptions;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use crate::manifest::{operation_error, other_clusters, own_cluster, record, step};
use chart_source::ChartSources;
use configuration::{API_VERSION, Configuration, OperationOptions};
use history::{Author, History};
use objects::Owner;
use release::{Carried, ITEM_LABEL, Next, ReleaseRun, as_helm, next};
use rendering::{Input, Parsed, Rendering, RenderingError, capabilities};

/// The type of items that it works on.
pub(crate) const TYPE: &str = "landscaper.gardener.cloud/helm";
/// How long somebody else may be at work on a release.
const PATIENCE: SignedDuration = SignedDuration::from_mins(10);
/// Kinds whose readiness counts in release mode (10.6).
const WORKLOADS: [&str; 6] =
    ["Pod", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController"];

/// Deploys charts.
#[derive(Debug, Clone)]
pub(crate) struct HelmDeployer {
    sources: ChartSources,
    rendering: Rendering,
}

/// What every round of an item begins with.
struct Prepared<'a> {
    round: &'a Round<'a>,
    configuration: Configuration,
    cluster: Arc<Cluster>,
    others: OtherClusters,
    chart: Parsed,
    capabilities: Capabilities,
    /// The given values, with the numbers of the mode.
    values: Map<String, Value>,
    exports: Map<String, Value>,
    former: Vec<ManagedResource>,
    warnings: Vec<Warning>,
}

impl HelmDeployer {
    pub(crate) fn new(options: NetworkOptions) -> Self {
        Self { sources: ChartSources::new(options), rendering: Rendering::new() }
    }

    async fn prepare<'a>(&self, round: &'a Round<'a>) -> Result<Prepared<'a>, Failure> {
        let config = round.item.spec.config.get().ok_or_else(missing_configuration)?;
        let configuration = Configuration::parse(config)?;
        let cluster = own_cluster(round).await?;
        let others = other_clusters(round, &target_names(&configuration)).await?;
        let archive = self.sources.fetch(&configuration.chart, round).await?;
        let chart = self.rendering.load(archive).await.map_err(|error| match error {
            Ok(error) => chart_source::broken(format!("unable to load chart from archive: {error}")),
            Err(text) => OperationError::transient("TemplateChart", "GetHelmChart", text),
        })?;
        let versions = cluster.versions().await.map_err(|error| unreachable_cluster(&error))?;
        let given = configuration.values.as_object().cloned().unwrap_or_default();
        let values = if configuration.keeps_releases() { values::floats(given) } else { given };
        let warnings = warnings(&configuration, round.item);
        let (capabilities, former) = (capabilities(&versions), record(round));
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
            former,
            warnings,
        };
        if !value_exports::of(&prepared.configuration).is_empty() {
            let input = prepared.input(prepared.release(0, false));
            let tree = self.rendering.prepare(&prepared.chart, input).await;
            let tree = tree.map_err(|error| rendering_error("PrepareHelmValues", &error, false))?;
            prepared.exports = value_exports::read(&prepared.configuration, &tree, &prepared.capabilities)?;
        }
        Ok(prepared)
    }

    async fn render(
        &self,
        prepared: &Prepared<'_>,
        release: Release,
        skip_schema: bool,
        reason: &'static str,
    ) -> Result<(groundwork_helm::Prepared, Rendered), OperationError> {
        let input = Input { skip_schema, ..prepared.input(release) };
        let outcome = self.rendering.render(&prepared.chart, input, Arc::clone(&prepared.cluster)).await;
        outcome.result.map_err(|error| rendering_error(reason, &error, outcome.is_cluster_dependent))
    }

    async fn render_and_apply(&self, mut prepared: Prepared<'_>) -> Result<Step, Failure> {
        let release = prepared.release(0, false);
        let (_, rendered) = self.render(&prepared, release, true, "RenderHelmValues").await?;
        let namespace =
            prepared.configuration.create_namespace.then_some(prepared.configuration.namespace.as_str());
        let (manifests, warnings) = render_only::manifests(&rendered, namespace)?;
        prepared.warn(rendered.warnings.into_iter().chain(warnings));
        let configuration = &prepared.configuration;
        let exports = configuration.exports_from_resources();
        let task = Task {
            cluster: &prepared.cluster,
            others: &prepared.others,
            owner: item_owner(prepared.round),
            manifests: &manifests,
            default_namespace: Some(&configuration.namespace),
            strategy: configuration.update_strategy,
            checks: &configuration.readiness_checks,
            exports: &exports,
            deletion_groups: &configuration.deletion_groups_during_update,
            former: &prepared.former,
            deadline: prepared.round.deadline,
        };
        let result = round(&task).await;
        let status = prepared.status(&result.managed, &[], &[]);
        match result.outcome {
            Ok(Progress::Done(values)) => {
                let progress = Progress::Done(prepared.all_exports(values));
                self.forget_release(&prepared)
                    .await
                    .map_err(|error| operation_error("ApplyManifests", &error))?;
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
        let mut run = prepared.run(&helm).await.map_err(|error| release_error("installRelease", &error))?;
        prepared.check_other_item(&run).await?;
        let next = next(&run.history, &run.author, PATIENCE);
        let is_install = next == Next::Begin { revision: 1, is_upgrade: false };
        let is_rollback = next == Next::RolledBack || is_last(&run, Status::PendingRollback);
        let configuration = &prepared.configuration;
        let options = if is_install || is_last(&run, Status::PendingInstall) {
            configuration.helm_deployment_config.install()
        } else {
            configuration.helm_deployment_config.upgrade()
        };
        run.options = options;
        run.deadline = earlier(run.deadline, &run, options);
        let reason = if is_install { "installRelease" } else { "upgradeRelease" };
        let carried = match next {
            Next::Busy => Err(ApplyError::Retry(
                "another operation (install/upgrade/rollback) is in progress".to_owned(),
            )),
            Next::RolledBack => Ok(Carried::Done),
            Next::Settled => run.repair().await.map(|()| Carried::Done),
            Next::Continue => run.carry_on().await,
            Next::Begin { revision, is_upgrade } => {
                let release = prepared.release(revision, is_upgrade);
                self.begin(&mut prepared, &mut run, release, reason).await?
            }
            Next::Compare { revision } => self.compare(&mut prepared, &mut run, revision).await?,
        };
        let carried = match carried {
            Ok(carried) => carried,
            Err(error) => return Err(prepared.failed(run, &error, reason).await),
        };
        prepared.warn(std::mem::take(&mut run.warnings));
        let status = prepared.release_status(&run);
        if let Carried::Waiting(what) = carried {
            return Ok(waiting(what, status, prepared.warnings));
        }
        if is_rollback {
            // Trying once more would only go back and forth.
            let error = OperationError::new("RealHelmDeployer.Deploy", "upgradeRelease", rolled_back(&run));
            return Err(Failure { error, provider_status: status });
        }
        prepared.conclude(run, status).await
    }

    async fn begin(
        &self,
        prepared: &mut Prepared<'_>,
        run: &mut ReleaseRun<'_>,
        release: Release,
        reason: &'static str,
    ) -> Result<Result<Carried, ApplyError>, Failure> {
        let (tree, rendered) =
            self.render(prepared, release.clone(), run.options.skip_schema, reason).await?;
        prepared.warn(rendered.warnings.iter().cloned());
        let record = Record::new(&tree.chart, &prepared.values, &rendered, &release);
        let creates_namespace = prepared.configuration.create_namespace;
        match run.begin(record, &rendered.crds, creates_namespace).await {
            Ok(Carried::Done) => Ok(run.carry_on().await),
            other => Ok(other),
        }
    }

    /// A new revision only if the chart says something else than the one that is deployed (R20).
    async fn compare(
        &self,
        prepared: &mut Prepared<'_>,
        run: &mut ReleaseRun<'_>,
        revision: i64,
    ) -> Result<Result<Carried, ApplyError>, Failure> {
        let release = prepared.release(revision, revision > 1);
        let (tree, rendered) =
            self.render(prepared, release.clone(), run.options.skip_schema, "upgradeRelease").await?;
        let record = Record::new(&tree.chart, &prepared.values, &rendered, &release);
        let has_hooks =
            ["pre-upgrade", "post-upgrade"].iter().any(|event| !hooks::of_event(&record, event).is_empty());
        let is_same = run.history.last().is_some_and(|last| last.record.says_the_same(&record));
        if is_same && !has_hooks {
            prepared.warn(rendered.warnings);
            return Ok(run.repair().await.map(|()| Carried::Done));
        }
        let release = prepared.release(revision + 1, true);
        self.begin(prepared, run, release, "upgradeRelease").await
    }
}

/// What became of an upgrade with `atomic` that failed.
fn rolled_back(run: &ReleaseRun<'_>) -> String {
    let failed = run.history.revisions.iter().rev().find(|stored| stored.record.status() == Status::Failed);
    let why = failed.map(|stored| stored.record.description().to_owned()).unwrap_or_default();
    format!(
        "unable to upgrade helm chart release: release {} failed, and has been rolled back due to atomic being set: {why}",
        run.owner.name
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

fn waiting(what: String, provider_status: Option<AnyJson>, warnings: Vec<Warning>) -> Step {
    Step { outcome: Outcome::Waiting(what), provider_status, exports: None, warnings }
}

impl Prepared<'_> {
    fn release(&self, revision: i64, is_upgrade: bool) -> Release {
        Release {
            name: self.configuration.name.clone(),
            namespace: self.configuration.namespace.clone(),
            revision,
            is_upgrade,
        }
    }

    fn input(&self, release: Release) -> Input {
        Input {
            values: self.values.clone(),
            release,
            capabilities: self.capabilities.clone(),
            skip_schema: !self.configuration.keeps_releases(),
        }
    }

    fn warn(&mut self, texts: impl IntoIterator<Item = String>) {
        let warnings = texts.into_iter().map(|message| Warning { reason: "ChartWarning", message });
        self.warnings.extend(warnings);
    }

    async fn run<'c>(&self, cluster: &'c Cluster) -> Result<ReleaseRun<'c>, ApplyError> {
        let item = self.round.item;
        let (name, namespace) = (self.configuration.name.clone(), self.configuration.namespace.clone());
        let history = History::load(cluster, &namespace, &name).await?;
        if history.last().is_none() && history.is_in_config_maps(&name).await? {
            let text = format!(
                "release {name} is kept in ConfigMaps, by another storage driver than Secrets: move its records"
            );
            return Err(ApplyError::Configuration(text));
        }
        let unreadable = history.unreadable.iter().map(|secret| {
            format!("the Secret {namespace}/{secret} looks like a record of the release and cannot be read; it was left out")
        });
        let warnings = unreadable.collect();
        Ok(ReleaseRun {
            cluster,
            history,
            owner: Owner { name, namespace },
            author: author(item),
            item: item.name_any(),
            options: OperationOptions::default(),
            deadline: self.round.deadline,
            former: applied(item),
            applied: Vec::new(),
            seen: groundwork_apply::Seen::new(),
            warnings,
        })
    }

    /// Two items of one release would overwrite one another (R39).
    async fn check_other_item(&self, run: &ReleaseRun<'_>) -> Result<(), Failure> {
        let Some(last) = run.history.last() else { return Ok(()) };
        let (uid, name) = last.item();
        let Some((namespace, item)) =
            name.split_once('/').filter(|_| !uid.is_empty() && uid != run.author.uid)
        else {
            return Ok(());
        };
        let found = self.round.objects.get::<DeployItem>(namespace, item).await;
        let found = found.map_err(|error| {
            OperationError::transient("RealHelmDeployer.Deploy", "installRelease", error.to_string())
        })?;
        if found.is_some_and(|found| found.uid().as_deref() == Some(uid)) {
            let message = format!("release {} is managed by DeployItem {name}", self.configuration.name);
            return Err(OperationError::new("RealHelmDeployer.Deploy", "installRelease", message).into());
        }
        Ok(())
    }

    /// Notes in the record that the operation failed, unless the cluster could not be asked.
    async fn failed(&self, mut run: ReleaseRun<'_>, error: &ApplyError, reason: &'static str) -> Failure {
        let mut text = error.to_string();
        if !matches!(error, ApplyError::Retry(_)) {
            match run.fail(&text).await {
                Ok(told) => text = told,
                Err(second) => tracing::warn!(error = %second, "a failed release could not be noted"),
            }
        }
        let verb = if reason == "installRelease" { "install" } else { "upgrade" };
        let error = match error {
            ApplyError::Timeout(_) => {
                OperationError { message: text, ..operation_error("RealHelmDeployer.Deploy", error) }
            }
            _ => OperationError::transient(
                "RealHelmDeployer.Deploy",
                reason,
                format!("unable to {verb} helm chart release: {text}"),
            ),
        };
        Failure { error, provider_status: self.release_status(&run) }
    }

    /// Readiness and exports of a release that is brought about.
    async fn conclude(self, run: ReleaseRun<'_>, status: Option<AnyJson>) -> Result<Step, Failure> {
        let told = |error: &ApplyError| Failure {
            error: operation_error("WaitForObjectsReady", error),
            provider_status: status.clone(),
        };
        let workloads = workloads(&run.applied);
        let checks = &self.configuration.readiness_checks;
        let wanted: Vec<&Reference> = workloads.iter().collect();
        let deadline = self.round.deadline;
        let unready = failed_check(&self.cluster, &self.others, checks, &wanted, &run.seen).await;
        if let Some(what) = unready.map_err(|error| told(&error))? {
            deadline.check(&what).map_err(|error| told(&error))?;
            return Ok(waiting(what, status, self.warnings));
        }
        let exports = self.configuration.exports_from_resources();
        match read_exports(&self.cluster, &self.others, &exports, &run.seen)
            .await
            .map_err(|error| told(&error))?
        {
            Ok(values) => Ok(step(Progress::Done(self.all_exports(values)), status.clone(), self.warnings)),
            Err(what) => {
                deadline.check(&what).map_err(|error| told(&error))?;
                Ok(waiting(what, status.clone(), self.warnings))
            }
        }
    }

    /// What is read from objects goes over what comes from values.
    fn all_exports(&self, from_resources: Map<String, Value>) -> Map<String, Value> {
        let mut all = self.exports.clone();
        values::overlay(&mut all, from_resources);
        all
    }

    fn release_status(&self, run: &ReleaseRun<'_>) -> Option<AnyJson> {
        let managed: Vec<ManagedResource> = workloads(&run.applied)
            .into_iter()
            .filter_map(|resource| run.applied.iter().find(|managed| managed.resource == resource))
            .map(|managed| ManagedResource { applied: None, ..managed.clone() })
            .collect();
        let mut known: Vec<ManagedResource> = run.applied.clone();
        known.extend(
            run.former
                .iter()
                .filter(|former| !run.applied.iter().any(|one| one.resource.is_same(&former.resource)))
                .cloned(),
        );
        let current = run.history.last().map(|last| {
            json!({
                "name": last.record.name(), "namespace": last.record.namespace(), "revision": last.record.revision(),
                "status": last.record.status().as_str(), "chart": last.record.chart_name(),
                "chartVersion": last.record.chart_version(), "chartDigest": self.chart.digest, "current": true,
            })
        });
        self.status(&managed, &current.into_iter().collect::<Vec<_>>(), &known)
    }

    /// The provider status. Releases that the item had under other names stay known, until it goes.
    fn status(
        &self,
        managed: &[ManagedResource],
        current: &[Value],
        applied: &[ManagedResource],
    ) -> Option<AnyJson> {
        let is_named = |release: &Value| {
            release["name"] == json!(self.configuration.name)
                && release["namespace"] == json!(self.configuration.namespace)
        };
        let mut all = current.to_vec();
        for mut release in releases(self.round.item) {
            if !is_named(&release) {
                release["current"] = json!(false);
                all.push(release);
            }
        }
        let mut status =
            json!({"apiVersion": API_VERSION, "kind": "ProviderStatus", "managedResources": managed});
        if !all.is_empty() {
            status["releases"] = json!(all);
        }
        if !applied.is_empty() {
            status["applied"] = json!(applied);
        }
        Some(AnyJson::from(status))
    }
}

fn author(item: &DeployItem) -> Author {
    Author {
        uid: item.uid().unwrap_or_default(),
        job: item.status.as_ref().and_then(|status| status.job_id.clone()).unwrap_or_default(),
        name: format!("{}/{}", item.namespace().unwrap_or_default(), item.name_any()),
    }
}

fn workloads(applied: &[ManagedResource]) -> Vec<Reference> {
    let is_workload = |resource: &Reference| {
        let group =
            if matches!(resource.kind.as_str(), "Pod" | "ReplicationController") { "" } else { "apps" };
        WORKLOADS.contains(&resource.kind.as_str()) && resource.group() == group
    };
    applied.iter().map(|managed| managed.resource.clone()).filter(is_workload).collect()
}

fn known_status(item: &DeployItem, member: &str) -> Value {
    let status = item.status.as_ref().and_then(|status| status.provider_status.get());
    status.map(|status| status[member].clone()).unwrap_or_default()
}

/// Releases that the item has, as its status remembers them.
fn releases(item: &DeployItem) -> Vec<Value> {
    known_status(item, "releases").as_array().cloned().unwrap_or_default()
}

fn applied(item: &DeployItem) -> Vec<ManagedResource> {
    serde_json::from_value(known_status(item, "applied")).unwrap_or_default()
}

fn item_owner(round: &Round<'_>) -> ItemOwner {
    ItemOwner { label: ITEM_LABEL, item: round.item.name_any() }
}

fn target_names(configuration: &Configuration) -> Vec<&str> {
    let exports = configuration.exports.exports.iter().chain(&configuration.exports_from_manifests);
    let exports = exports.map(|export| export.target_name.as_deref());
    let checks = configuration.readiness_checks.custom.iter().map(|check| check.target_name.as_deref());
    let groups = configuration.deletion_groups.iter().chain(&configuration.deletion_groups_during_update);
    let groups = groups
        .filter_map(|group| group.custom_resource_group.as_ref())
        .map(|group| group.target_name.as_deref());
    let mut names: Vec<&str> = exports.chain(checks).chain(groups).flatten().collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn warnings(configuration: &Configuration, item: &DeployItem) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut tell = |message: String| warnings.push(Warning { reason: "ConfigurationWithoutEffect", message });
    if !configuration.unknown.is_empty() {
        let members: Vec<&str> = configuration.unknown.keys().map(String::as_str).collect();
        tell(format!("without effect on the helm deployer: {} of spec.config", members.join(", ")));
    }
    if configuration.chart.count() > 1 {
        tell("of several sources in spec.config.chart only the first counts: archive, ref, helmChartRepo, fromResource, resourceRef".to_owned());
    }
    if item.annotations().contains_key(render_only::OLD_RULES) {
        tell(format!("the annotation {} is without effect", render_only::OLD_RULES));
    }
    warnings
}

fn unreachable_cluster(error: &ApiError) -> OperationError {
    let text = ApplyError::from(error.clone()).to_string();
    OperationError::transient(
        "RealHelmDeployer.Deploy",
        "TargetCluster",
        format!("Kubernetes cluster unreachable: {text}"),
    )
}

fn release_error(reason: &'static str, error: &ApplyError) -> Failure {
    let text = error.to_string();
    match error {
        ApplyError::Configuration(_) => OperationError::new("RealHelmDeployer.Deploy", reason, text).into(),
        _ => OperationError::transient("RealHelmDeployer.Deploy", reason, text).into(),
    }
}

/// What depends on the cluster may be another time otherwise.
fn rendering_error(
    reason: &'static str,
    error: &RenderingError,
    is_cluster_dependent: bool,
) -> OperationError {
    match error {
        RenderingError::Chart(error) if !is_cluster_dependent => {
            OperationError::new("TemplateChart", reason, error.to_string())
        }
        RenderingError::Chart(error) => OperationError::transient("TemplateChart", reason, error.to_string()),
        RenderingError::Work(text) => OperationError {
            operation: "TemplateChart".into(),
            reason: reason.into(),
            message: text.clone(),
            codes: vec![ErrorCode::ConfigurationProblem],
        },
    }
}

#[async_trait]
impl Deployer for HelmDeployer {
    fn type_name(&self) -> &'static str {
        TYPE
    }

    async fn reconcile(&self, round: &Round<'_>) -> Result<Step, Failure> {
        let prepared = self.prepare(round).await?;
        if prepared.configuration.keeps_releases() {
            return self.keep_release(prepared).await;
        }
        self.render_and_apply(prepared).await
    }

    async fn delete(&self, round: &Round<'_>) -> Result<Removal, Failure> {
        let config = round.item.spec.config.get().and_then(|config| Configuration::parse(config).ok());
        let Some(configuration) = config else {
            // What cannot be read was never deployed, unless the status says so.
            return if releases(round.item).is_empty() && record(round).is_empty() {
                Ok(Removal::Done)
            } else {
                let text = "spec.config cannot be read any more: mend it, or delete without uninstall";
                Err(OperationError::new("DeleteHelmRelease", "Uninstall", text).into())
            };
        };
        let cluster = own_cluster(round).await?;
        let mut names: Vec<(String, String)> = Vec::new();
        if configuration.keeps_releases() {
            names.push((configuration.namespace.clone(), configuration.name.clone()));
        }
        for release in releases(round.item) {
            let text = |member: &str| release[member].as_str().unwrap_or_default().to_owned();
            if !names.contains(&(text("namespace"), text("name"))) {
                names.push((text("namespace"), text("name")));
            }
        }
        for (namespace, name) in names {
            if let Some(what) = uninstall(round, &cluster, &configuration, namespace, name).await? {
                return Ok(Removal::Waiting { what, provider_status: None });
            }
        }
        if configuration.keeps_releases() {
            return Ok(Removal::Done);
        }
        delete_rendered(round, &cluster, &configuration).await
    }
}

async fn delete_rendered(
    round: &Round<'_>,
    cluster: &Cluster,
    configuration: &Configuration,
) -> Result<Removal, Failure> {
    let others = other_clusters(round, &target_names(configuration)).await?;
    let groups: &[DeletionGroup] = &configuration.deletion_groups;
    let owner = item_owner(round);
    let deletion = Deletion { cluster, others: &others, owner: &owner, groups, deadline: round.deadline };
    let deleted = delete_round(&deletion, &record(round)).await;
    let deleted = deleted.map_err(|error| operation_error("DeleteManifests", &error))?;
    Ok(deleted.waiting.map_or(Removal::Done, |what| Removal::Waiting { what, provider_status: None }))
}

/// Takes a release of an item away; what is waited for, if it is not gone.
async fn uninstall(
    round: &Round<'_>,
    cluster: &Arc<Cluster>,
    configuration: &Configuration,
    namespace: String,
    name: String,
) -> Result<Option<String>, Failure> {
    let failed = |error: &ApplyError| -> Failure {
        let text = format!("unable to delete helm chart release: {error}");
        match error {
            ApplyError::Timeout(_) => operation_error("DeleteHelmRelease", error).into(),
            _ => OperationError::transient("DeleteHelmRelease", "Uninstall", text).into(),
        }
    };
    let helm = as_helm(cluster);
    let history = History::load(&helm, &namespace, &name).await.map_err(|error| failed(&error))?;
    let options = configuration.helm_deployment_config.uninstall();
    let mut run = ReleaseRun {
        cluster: &helm,
        history,
        owner: Owner { name, namespace },
        author: author(round.item),
        item: round.item.name_any(),
        options,
        deadline: round.deadline,
        former: Vec::new(),
        applied: Vec::new(),
        seen: groundwork_apply::Seen::new(),
        warnings: Vec::new(),
    };
    // A release that another item took over is that one's.
    let is_of_another = run.history.last().is_some_and(|last| {
        let (uid, _) = last.item();
        !uid.is_empty() && uid != run.author.uid
    });
    if is_of_another {
        return Ok(None);
    }
    match run.uninstall(options.wait).await {
        Ok(Carried::Done) => Ok(None),
        Ok(Carried::Waiting(what)) => Ok(Some(what)),
        Err(error) => Err(failed(&error)),
    }
}
