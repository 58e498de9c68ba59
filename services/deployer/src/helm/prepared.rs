//! What a round of an item knows before it begins, and what it tells at its end.

use std::collections::HashSet;
use std::sync::Arc;

use groundwork_api::{AnyJson, DeployItem, ResourceExt};
use groundwork_apply::{
    ApplyError, Cluster, Exported, HELM_ITEM, ManagedResource, OtherClusters, Owner as ItemOwner, Progress,
    ReadinessRules, Reference, ReleaseName, Seen, failed_check, fitting, read_exports,
};
use groundwork_deploy::{Failure, Round, Step, Warning, with_last_error};
use groundwork_helm::{Capabilities, Release, values};
use groundwork_lifecycle::machine::Phase;
use groundwork_lifecycle::{OperationError, Reason};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::claims::{Claim, claim, refusal};
use super::configuration::{API_VERSION, Configuration, OperationOptions};
use super::failing::Failing;
use super::history::{Author, History};
use super::objects::Owner;
use super::release::ReleaseRun;
use super::render_only;
use super::rendering::Loaded;
use super::work::Input;
use crate::manifest::{operation_error, step};
use crate::siblings::{INHERITED, LISTED_IN_JOB, Siblings};
use crate::whereabouts::CLUSTER;

/// Kinds of a release that the status lists, and whose readiness alone counts by the table of kinds (10.6).
const WORKLOADS: [&str; 6] =
    ["Pod", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController"];

/// What every round of an item begins with.
pub(super) struct Prepared<'a> {
    pub(super) round: &'a Round<'a>,
    pub(super) configuration: Configuration,
    pub(super) cluster: Arc<Cluster>,
    pub(super) others: OtherClusters,
    pub(super) chart: Loaded,
    pub(super) capabilities: Capabilities,
    /// The given values, with the numbers of the mode.
    pub(super) values: Map<String, Value>,
    pub(super) exports: Map<String, Value>,
    pub(super) warnings: Vec<Warning>,
}

impl<'a> Prepared<'a> {
    pub(super) fn release(&self, revision: i64, is_upgrade: bool) -> Release {
        Release {
            name: self.configuration.name.clone(),
            namespace: self.configuration.namespace.clone(),
            revision,
            is_upgrade,
        }
    }

    pub(super) fn input(&self, release: Release) -> Input {
        Input {
            values: self.values.clone(),
            release,
            capabilities: self.capabilities.clone(),
            skip_schema: !self.configuration.keeps_releases(),
        }
    }

    pub(super) fn warn(&mut self, texts: impl IntoIterator<Item = String>) {
        let warnings = texts.into_iter().map(|message| Warning { reason: "ChartWarning", message });
        self.warnings.extend(warnings);
    }

    pub(super) async fn run<'c>(&self, cluster: &'c Cluster) -> Result<ReleaseRun<'c>, ApplyError>
    where
        'a: 'c,
    {
        let item = self.round.item;
        let (name, namespace) = (self.configuration.name.clone(), self.configuration.namespace.clone());
        let history = History::load(cluster, &namespace, &name).await?;
        if history.last().is_none() && history.is_in_config_maps(&name).await? {
            let text = format!(
                "release {name} is kept in ConfigMaps, by another storage driver than Secrets: move its records"
            );
            return Err(ApplyError::Configuration(text));
        }
        for secret in &history.unreadable {
            let text = format!(
                "the Secret {namespace}/{secret} looks like a record of the release and cannot be read; it was left out"
            );
            self.round.warn("ChartWarning", &text).await;
        }
        let owner = Owner { name, namespace };
        Ok(ReleaseRun {
            cluster,
            history,
            marks: item_owner(self.round, Some(&owner)),
            owner,
            author: author(item),
            options: OperationOptions::default(),
            rules: self.configuration.rules(),
            deadline: self.round.deadline,
            former: applied(item),
            applied: Vec::new(),
            is_complete: false,
            estate: estate_beside_release(item),
            rollback_until: rollback_until(item),
            seen: Seen::new(),
            absent: HashSet::new(),
            is_adopted: releases(item)
                .iter()
                .any(|release| is_named(release, &self.configuration) && release["adopted"] == true),
            round: self.round,
        })
    }

    /// Two items of one release would overwrite one another (R39), and what others have made is theirs (R40).
    pub(super) async fn check_claim(&mut self, run: &mut ReleaseRun<'_>) -> Result<(), Failure> {
        match claim(self.round, &run.history, &run.owner).await? {
            Some(Claim::OfItem(name)) => {
                let message = format!("release {} is managed by DeployItem {name}", self.configuration.name);
                let error = OperationError::new("RealHelmDeployer.Deploy", Reason::InstallRelease, message);
                Err(error.into())
            }
            Some(Claim::Foreign) if !self.configuration.adopt => Err(refusal(&run.owner).into()),
            Some(Claim::Foreign) => {
                self.tell_adopted(&run.owner).await;
                run.is_adopted = true;
                Ok(())
            }
            Some(Claim::Own | Claim::Orphan) | None => Ok(()),
        }
    }

    /// The objects of a release that others have made would become the item's, without one: looked at before it applies anything.
    pub(super) async fn check_foreign_release(&self) -> Result<(), Failure> {
        let release =
            Owner { name: self.configuration.name.clone(), namespace: self.configuration.namespace.clone() };
        let history = History::load_if_allowed(&self.cluster, &release.namespace, &release.name).await;
        let history = history.map_err(|error| operation_error("ApplyManifests", &error))?;
        // A user who may not look at Secrets has no release.
        let Some(history) = history else { return Ok(()) };
        match claim(self.round, &history, &release).await? {
            Some(Claim::Foreign) if !self.configuration.adopt => Err(refusal(&release).into()),
            Some(Claim::Foreign) => {
                self.tell_adopted(&release).await;
                Ok(())
            }
            Some(_) | None => Ok(()),
        }
    }

    pub(super) async fn tell_adopted(&self, release: &Owner) {
        let Owner { name, namespace } = release;
        let text = format!(
            "release {name} in namespace {namespace}, which others have made, is taken over (adopt): it goes with the item"
        );
        self.round.note("ReleaseAdopted", &text).await;
    }

    /// Notes in the record that the operation failed, unless the cluster could not be asked. With `atomic` what was there before comes
    /// again, in rounds that have time of their own.
    ///
    /// # Errors
    ///
    /// The failure, unless a rollback has begun.
    pub(super) async fn failed(
        self,
        mut run: ReleaseRun<'_>,
        error: &ApplyError,
        reason: Reason,
    ) -> Result<Step, Failure> {
        let mut text =
            with_last_error(self.round.item, &error.to_string(), matches!(error, ApplyError::Timeout(_)));
        if !matches!(error, ApplyError::Retry(_)) {
            match run.fail(&text).await {
                Ok(Failing::Told(told)) => text = told,
                Ok(Failing::RollsBack(what)) => {
                    let status = self.release_status(&run);
                    return Ok(Step::waiting(what, status, self.warnings));
                }
                Err(second) => tracing::warn!(error = %second, "a failed release could not be noted"),
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
        Err(Failure { error, provider_status: self.release_status(&run) })
    }

    /// Readiness and exports of a release that is brought about.
    pub(super) async fn conclude(
        self,
        run: ReleaseRun<'_>,
        status: Option<AnyJson>,
    ) -> Result<Step, Failure> {
        let told = |error: &ApplyError| Failure {
            error: operation_error("WaitForObjectsReady", error),
            provider_status: status.clone(),
        };
        let checks = &self.configuration.readiness_checks;
        let wanted = match self.configuration.rules() {
            ReadinessRules::Conventions => {
                run.applied.iter().map(|managed| managed.resource.clone()).collect()
            }
            ReadinessRules::Kinds => workloads(&run.applied),
        };
        let wanted: Vec<&Reference> = wanted.iter().collect();
        let deadline = self.round.deadline;
        let unready = failed_check(&self.cluster, &self.others, checks, &wanted, None, &run.seen).await;
        if let Some(waiting) = unready.map_err(|error| told(&error))? {
            deadline.check(&waiting.what).map_err(|error| told(&error))?;
            return Ok(Step::waiting(waiting, status, self.warnings));
        }
        let exports = self.configuration.exports_from_resources();
        match read_exports(&self.cluster, &self.others, &exports, &run.seen)
            .await
            .map_err(|error| told(&error))?
        {
            Exported::Values(values) => {
                Ok(step(Progress::Done(self.all_exports(values)), status.clone(), self.warnings))
            }
            Exported::Awaited(waiting) => {
                deadline.check(&waiting.what).map_err(|error| told(&error))?;
                Ok(Step::waiting(waiting, status.clone(), self.warnings))
            }
        }
    }

    /// What is read from objects goes over what comes from values.
    pub(super) fn all_exports(&self, from_resources: Map<String, Value>) -> Map<String, Value> {
        let mut all = self.exports.clone();
        values::overlay(&mut all, from_resources);
        all
    }

    pub(super) fn release_status(&self, run: &ReleaseRun<'_>) -> Option<AnyJson> {
        let managed: Vec<ManagedResource> = workloads(&run.applied)
            .into_iter()
            .filter_map(|resource| run.applied.iter().find(|managed| managed.resource == resource))
            .map(|managed| ManagedResource { applied: None, ..managed.clone() })
            .collect();
        // A dropped object is known until everything else is applied.
        let former = if run.is_complete { Vec::new() } else { run.former.clone() };
        let known = joined([run.applied.clone(), former]);
        let current = run.history.last().map(|last| {
            let mut release = json!({
                "name": last.record.name(), "namespace": last.record.namespace(), "revision": last.record.revision(),
                "status": last.record.status().as_str(), "chart": last.record.chart_name(),
                "chartVersion": last.record.chart_version(), "chartDigest": self.chart.digest, "current": true,
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
        self.status(known, current.map_or(OwnRelease::AsBefore, OwnRelease::Is))
    }

    /// The provider status. Releases that the item had under other names stay known, until it goes.
    pub(super) fn status(&self, known: Known<'_>, own: OwnRelease) -> Option<AnyJson> {
        let (managed, applied) = (fitting(known.managed.to_vec()), fitting(known.applied.to_vec()));
        let mut all = Vec::new();
        for mut release in releases(self.round.item) {
            if !is_named(&release, &self.configuration) {
                release["current"] = json!(false);
                all.push(release);
            } else if own == OwnRelease::AsBefore {
                all.push(release);
            }
        }
        if let OwnRelease::Is(release) = own {
            all.insert(0, release);
        }
        let mut status = provider_status(&managed);
        if !all.is_empty() {
            status["releases"] = json!(all);
        }
        if !applied.is_empty() {
            status["applied"] = json!(applied);
        }
        if !known.inherited.is_empty() {
            status[INHERITED] = json!(known.inherited);
        }
        if let Some(until) = known.rollback_until {
            status[ROLLBACK] = json!({"job": author(self.round.item).job, "until": until.to_string()});
        }
        if known.is_complete {
            status[LISTED_IN_JOB] = json!(author(self.round.item).job);
        }
        Some(AnyJson::from(status))
    }
}

/// Objects that the status remembers.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Known<'k> {
    /// As the contract has it: what is applied without a release, or the workloads of one.
    pub(super) managed: &'k [ManagedResource],
    /// All that a release has applied.
    pub(super) applied: &'k [ManagedResource],
    /// Objects that a release does not list, and that the item is to give up.
    pub(super) inherited: &'k [ManagedResource],
    /// All that the item lists was applied in this job.
    pub(super) is_complete: bool,
    /// When a rollback has to be done.
    pub(super) rollback_until: Option<Timestamp>,
}

/// The member of the provider status that gives a rollback time of its own.
const ROLLBACK: &str = "rollback";

/// When the rollback that is under way in the current job has to be done.
pub(super) fn rollback_until(item: &DeployItem) -> Option<Timestamp> {
    let rollback = known_status(item, ROLLBACK);
    let is_of_job = rollback["job"] == json!(author(item).job);
    rollback["until"].as_str().filter(|_| is_of_job)?.parse().ok()
}

/// A provider status with managed resources.
pub(crate) fn provider_status(managed: &[ManagedResource]) -> Value {
    json!({"apiVersion": API_VERSION, "kind": "ProviderStatus", "managedResources": managed})
}

/// What the status says of the release that the configuration names.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum OwnRelease {
    Is(Value),
    AsBefore,
    Forgotten,
}

fn is_named(release: &Value, configuration: &Configuration) -> bool {
    release["name"] == json!(configuration.name) && release["namespace"] == json!(configuration.namespace)
}

pub(super) fn author(item: &DeployItem) -> Author {
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
pub(super) fn releases(item: &DeployItem) -> Vec<Value> {
    known_status(item, "releases").as_array().cloned().unwrap_or_default()
}

/// True of an item that keeps the release now.
pub(crate) fn keeps(item: &DeployItem, release: &ReleaseName) -> bool {
    releases(item).iter().any(|kept| {
        kept["current"] == true
            && kept["namespace"] == release.namespace.as_str()
            && kept["name"] == release.name.as_str()
    })
}

/// True of an item whose status we have written, with what Landscaper does not write.
pub(super) fn has_own_record(item: &DeployItem) -> bool {
    ["releases", LISTED_IN_JOB, "applied", CLUSTER].iter().any(|member| !known_status(item, member).is_null())
}

pub(super) fn applied(item: &DeployItem) -> Vec<ManagedResource> {
    resources(item, "applied")
}

/// Whether a job has just begun. In later rounds the error of the one before, or what is waited for, says more than the step that would be next.
pub(super) fn is_first(round: &Round<'_>) -> bool {
    let Some(status) = &round.item.status else { return true };
    let phase = status.phase.as_deref();
    let has_begun = [Phase::Init, Phase::InitDelete].iter().any(|first| phase == Some(first.as_str()));
    // A round that fails and is tried again leaves the phase as it is.
    has_begun && status.last_error.is_none()
}

fn resources(item: &DeployItem, member: &str) -> Vec<ManagedResource> {
    serde_json::from_value(known_status(item, member)).unwrap_or_default()
}

/// All that an item has applied, in whichever mode, as its status remembers it.
pub(crate) fn known(item: &DeployItem) -> Vec<ManagedResource> {
    joined([resources(item, "managedResources"), applied(item)])
}

/// The same, and what others have handed over to it.
pub(super) fn estate(item: &DeployItem) -> Vec<ManagedResource> {
    joined([resources(item, "managedResources"), applied(item), resources(item, INHERITED)])
}

/// Objects of an item that are none of a release: those applied without one, and those that others have handed over.
pub(super) fn estate_beside_release(item: &DeployItem) -> Vec<ManagedResource> {
    // Workloads of a release are in both lists.
    let of_releases = applied(item);
    let mut managed = resources(item, "managedResources");
    managed.retain(|managed| !of_releases.iter().any(|known| known.resource.is_same(&managed.resource)));
    joined([managed, resources(item, INHERITED)])
}

/// True if the status says what the item lists in the current job.
pub(crate) fn is_listed(item: &DeployItem) -> bool {
    known_status(item, LISTED_IN_JOB) == json!(author(item).job)
}

/// Each object once, as it is known first.
fn joined<const N: usize>(lists: [Vec<ManagedResource>; N]) -> Vec<ManagedResource> {
    let mut all: Vec<ManagedResource> = Vec::new();
    for managed in lists.into_iter().flatten() {
        if !all.iter().any(|known| known.resource.is_same(&managed.resource)) {
            all.push(managed);
        }
    }
    all
}

/// How an item marks its objects: as those of a release, or without one.
pub(super) fn item_owner(round: &Round<'_>, release: Option<&Owner>) -> ItemOwner {
    let text = |release: &Value, member: &str| release[member].as_str().unwrap_or_default().to_owned();
    let kept = releases(round.item);
    let kept = kept
        .iter()
        .map(|release| ReleaseName { namespace: text(release, "namespace"), name: text(release, "name") });
    let own = release.map(|own| ReleaseName { namespace: own.namespace.clone(), name: own.name.clone() });
    ItemOwner {
        label: HELM_ITEM,
        item: round.item.name_any(),
        releases: own.into_iter().chain(kept).collect(),
        keeps_release: release.is_some(),
    }
}

pub(super) fn siblings<'a>(round: &'a Round<'a>) -> Siblings<'a> {
    Siblings { round, giver: item_owner(round, None).giver() }
}

pub(super) fn warnings(configuration: &Configuration, item: &DeployItem) -> Vec<Warning> {
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
    // The status tells it once: then the release is known as one of before.
    for release in releases(item).iter().filter(|release| release["current"] == true) {
        if !is_named(release, configuration) {
            let (namespace, name) = (&release["namespace"], &release["name"]);
            let message = format!(
                "the release {name} of the namespace {namespace} is left as it is, until the item goes"
            );
            warnings.push(Warning { reason: "HelmReleaseAbandoned", message });
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Landscaper's helm deployer read and this one does not is told, the annotation for its old rules about dependencies, too.
    #[test]
    fn what_has_no_effect_is_told() {
        let item: DeployItem = serde_json::from_value(json!({
            "metadata": {"name": "web", "annotations": {render_only::OLD_RULES: "true"}}, "spec": {"type": "t"},
        }))
        .unwrap();
        let config = json!({
            "apiVersion": API_VERSION, "kind": "ProviderConfiguration", "name": "web", "namespace": "shop",
            "chart": {"ref": "registry.example.org/web:1.0.0", "resourceRef": "a"}, "continuousReconcile": {},
        });
        let texts: Vec<String> = warnings(&Configuration::parse(&config).unwrap(), &item)
            .into_iter()
            .map(|warning| warning.message)
            .collect();
        for part in ["continuousReconcile", "only the first counts", render_only::OLD_RULES] {
            assert!(texts.iter().any(|text| text.contains(part)), "{part}: {texts:?}");
        }
        assert_eq!(texts.len(), 3, "{texts:?}");
    }
}
