//! The manifest deployer: objects that stand in the configuration, into the cluster of the Target (`installations.md` 7.9).

use std::sync::Arc;

use async_trait::async_trait;
use groundwork_api::{AnyJson, ErrorCode, ResourceExt, Target};
use groundwork_apply::{
    ApplyError, Cluster, Deletion, DeletionGroup, Drift, DriftCheck, DriftMode, DriftReport, Exports,
    Findings, MANIFEST_ITEM, ManagedResource, Manifest, OtherClusters, Owner, Policy, Progress,
    ReadinessChecks, ReadinessRules, Task, UpdateStrategy, delete_round, fitting, null_is_default, problems,
    round, target_names, wanted,
};
use groundwork_deploy::{Deployer, Failure, Outcome, Removal, Round, Step, TargetError, Warning};
use groundwork_lifecycle::deployer::{invalid_configuration, missing_configuration};
use groundwork_lifecycle::{OperationError, Reason};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::drift::{self, Wish, failure};
use crate::siblings::Siblings;
use crate::whereabouts::{Leaving, Place, leaving, same_cluster};

/// The type of items that it works on.
pub(crate) const TYPE: &str = "landscaper.gardener.cloud/kubernetes-manifest";
const API_VERSION: &str = "manifest.deployer.landscaper.gardener.cloud/v1alpha2";
const OLD_API_VERSION: &str = "manifest.deployer.landscaper.gardener.cloud/v1alpha1";
const KIND: &str = "ProviderConfiguration";

/// What an item of this deployer says.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Configuration {
    #[serde(default, deserialize_with = "null_is_default")]
    update_strategy: UpdateStrategy,
    #[serde(default, deserialize_with = "null_is_default")]
    manifests: Vec<Manifest>,
    #[serde(default, deserialize_with = "null_is_default")]
    readiness_checks: ReadinessChecks,
    #[serde(default, deserialize_with = "null_is_default")]
    exports: Exports,
    #[serde(default, deserialize_with = "null_is_default")]
    deletion_groups: Vec<DeletionGroup>,
    #[serde(default, deserialize_with = "null_is_default")]
    deletion_groups_during_update: Vec<DeletionGroup>,
    #[serde(default, deserialize_with = "null_is_default")]
    drift: Drift,
    /// What nobody reads.
    #[serde(flatten)]
    unknown: Map<String, Value>,
}

impl Configuration {
    fn parse(config: &Value) -> Result<Self, OperationError> {
        let version = config["apiVersion"].as_str().unwrap_or_default();
        if ![API_VERSION, OLD_API_VERSION].contains(&version) || config["kind"] != KIND {
            let text = format!("spec.config must be of kind {KIND} in {API_VERSION} or {OLD_API_VERSION}");
            return Err(invalid_configuration(text));
        }
        let mut config = config.clone();
        if version == OLD_API_VERSION {
            convert(&mut config);
        }
        let mut configuration: Self = serde_json::from_value(config).map_err(|error| {
            invalid_configuration(format!(
                "spec.config is no {KIND}: {}",
                crate::configuration::problem(&error)
            ))
        })?;
        for member in ["apiVersion", "kind"] {
            configuration.unknown.remove(member);
        }
        let mut problems = problems(
            &configuration.readiness_checks,
            &configuration.exports.exports,
            &[
                ("deletionGroups", &configuration.deletion_groups),
                ("deletionGroupsDuringUpdate", &configuration.deletion_groups_during_update),
            ],
        );
        problems.extend(configuration.drift.problems());
        if !problems.is_empty() {
            return Err(invalid_configuration(format!("spec.config: {}", problems.join("; "))));
        }
        for groups in [&mut configuration.deletion_groups, &mut configuration.deletion_groups_during_update] {
            if groups.is_empty() {
                *groups = DeletionGroup::defaults();
            }
        }
        Ok(configuration)
    }

    /// Names of other Targets that are asked for something.
    fn target_names(&self) -> Vec<&str> {
        let groups = self.deletion_groups.iter().chain(&self.deletion_groups_during_update);
        target_names(&self.readiness_checks, &self.exports.exports, groups)
    }

    /// What is written and has no effect.
    fn warnings(&self) -> Vec<Warning> {
        let mut members: Vec<String> = self.unknown.keys().cloned().collect();
        for (index, manifest) in self.manifests.iter().enumerate() {
            members.extend(manifest.unknown.keys().map(|member| format!("manifests[{index}].{member}")));
        }
        let skipped = self.exports.exports.iter().filter(|export| export.from_resource.is_none());
        members.extend(skipped.map(|export| format!("the export {} without fromResource", export.key)));
        if members.is_empty() {
            return Vec::new();
        }
        let message =
            format!("without effect on the manifest deployer: {} of spec.config", members.join(", "));
        vec![Warning { reason: "ConfigurationWithoutEffect", message }]
    }
}

/// The old version lists bare manifests.
fn convert(config: &mut Value) {
    if let Some(Value::Array(manifests)) = config.get_mut("manifests") {
        for manifest in manifests {
            *manifest = json!({"policy": "manage", "manifest": manifest.take()});
        }
    }
}

/// The manifests of a configuration in either version.
///
/// # Errors
///
/// It is none of this deployer.
pub(crate) fn manifests(config: &Value) -> Result<Vec<Manifest>, OperationError> {
    Configuration::parse(config).map(|configuration| configuration.manifests)
}

/// What the status of an item remembers.
pub(crate) fn record(round: &Round<'_>) -> Vec<ManagedResource> {
    let status = round.item.status.as_ref().and_then(|status| status.provider_status.get());
    let managed = status.map(|status| status["managedResources"].clone()).unwrap_or_default();
    serde_json::from_value(managed).unwrap_or_default()
}

fn provider_status(managed: Vec<ManagedResource>) -> Option<AnyJson> {
    let managed = fitting(managed);
    Some(AnyJson::from(
        json!({"apiVersion": API_VERSION, "kind": "ProviderStatus", "managedResources": managed}),
    ))
}

/// Applies manifests.
#[derive(Debug)]
pub(crate) struct ManifestDeployer {
    /// For items that choose none.
    pub(crate) rules: ReadinessRules,
}

impl ManifestDeployer {
    fn owner(round: &Round<'_>) -> Owner {
        let item = round.item.name_any();
        Owner { label: MANIFEST_ITEM, item, releases: Vec::new(), keeps_release: false }
    }

    fn siblings<'a>(round: &'a Round<'a>) -> Siblings<'a> {
        Siblings { round, giver: Self::owner(round).giver() }
    }

    async fn bring_about(&self, round_of_work: &Round<'_>, cluster: &Cluster) -> Result<Step, Failure> {
        let config = round_of_work.item.spec.config.get().ok_or_else(missing_configuration)?;
        let mut configuration = Configuration::parse(config)?;
        configuration.readiness_checks.rules.get_or_insert(self.rules);
        let others = other_clusters(round_of_work, &configuration.target_names()).await?;
        let former = record(round_of_work);
        let siblings = Self::siblings(round_of_work);
        let task = Task {
            cluster,
            others: &others,
            owner: Self::owner(round_of_work),
            succession: &siblings,
            // Its configuration says so.
            is_listed: true,
            manifests: &configuration.manifests,
            default_namespace: None,
            strategy: configuration.update_strategy,
            checks: &configuration.readiness_checks,
            exports: &configuration.exports.exports,
            deletion_groups: &configuration.deletion_groups_during_update,
            former: &former,
            deadline: round_of_work.deadline,
        };
        let result = round(&task).await;
        round_of_work.tell(&result.told).await;
        let provider_status = provider_status(result.managed);
        match result.outcome {
            Ok(progress) => Ok(step(progress, provider_status, configuration.warnings())),
            Err(error) => Err(Failure { error: operation_error("ApplyManifests", &error), provider_status }),
        }
    }
}

#[async_trait]
impl Deployer for ManifestDeployer {
    fn type_name(&self) -> &'static str {
        TYPE
    }

    async fn reconcile(&self, round: &Round<'_>) -> Result<Step, Failure> {
        let place = Place::of(round).await?;
        let round = Round { item: place.item(), ..*round };
        place.note(self.bring_about(&round, &place.cluster()).await)
    }

    async fn check_drift(
        &self,
        round: &Round<'_>,
        before: &Findings,
    ) -> Result<Option<DriftReport>, Failure> {
        let config = round.item.spec.config.get().ok_or_else(missing_configuration)?;
        let configuration = Configuration::parse(config)?;
        if configuration.drift.mode == DriftMode::Ignore {
            return Ok(None);
        }
        let (cluster, owner) = (same_cluster(round).await?, Self::owner(round));
        let check = DriftCheck {
            cluster: &cluster,
            owner: &owner,
            drift: &configuration.drift,
            strategy: configuration.update_strategy,
            applied: &record(round),
            before,
        };
        let manifests = &configuration.manifests;
        let wish = async || {
            let objects = wanted(&cluster, manifests, &owner, None).await.map_err(|error| failure(&error))?;
            Ok(Wish { objects, obstacle: None })
        };
        drift::check(round, &check, wish).await.map(Some)
    }

    async fn delete(&self, round: &Round<'_>) -> Result<Removal, Failure> {
        let managed = record(round);
        // A configuration that cannot be read does not hold the item: what is recorded goes in the usual order.
        let configuration = round
            .item
            .spec
            .config
            .get()
            .and_then(|config| Configuration::parse(config).ok())
            .unwrap_or_default();
        let groups = match configuration.deletion_groups.as_slice() {
            [] => DeletionGroup::defaults(),
            given => given.to_vec(),
        };
        let deletes_more = groups.iter().any(|group| {
            group.custom_resource_group.as_ref().is_some_and(|custom| custom.delete_all_resources)
        });
        let is_kept = |managed: &ManagedResource| matches!(managed.policy, Policy::Keep | Policy::Ignore);
        if managed.iter().all(is_kept) && !deletes_more {
            return Ok(Removal::Done);
        }
        let Leaving::From(cluster) = leaving(round).await? else { return Ok(Removal::Done) };
        let others = other_clusters(round, &configuration.target_names()).await?;
        let deletion = Deletion {
            cluster: &cluster,
            others: &others,
            owner: &Self::owner(round),
            succession: &Self::siblings(round),
            groups: &groups,
            is_kept: |_| false,
            deadline: round.deadline,
        };
        let deleted = delete_round(&deletion, &managed)
            .await
            .map_err(|error| operation_error("DeleteManifests", &error))?;
        round.tell(&deleted.told).await;
        Ok(deleted
            .waiting
            .map_or(Removal::Done, |waiting| Removal::Waiting { waiting, provider_status: None }))
    }
}

/// What a round came to, in the words of the contract.
pub(crate) fn step(progress: Progress, provider_status: Option<AnyJson>, warnings: Vec<Warning>) -> Step {
    match progress {
        Progress::Done(exports) => {
            let exports = (!exports.is_empty()).then_some(exports);
            Step { outcome: Outcome::Done, provider_status, exports, warnings }
        }
        Progress::Waiting(waiting) => Step::waiting(waiting, provider_status, warnings),
    }
}

/// An error of the cluster, in the form of the status.
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

/// The cluster of the item's Target, which has to be given.
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

/// Clusters of other Targets of the item's namespace.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn configuration(members: Value) -> Result<Configuration, OperationError> {
        let mut config = json!({"apiVersion": API_VERSION, "kind": KIND});
        if let (Value::Object(config), Value::Object(members)) = (&mut config, members) {
            config.extend(members);
        }
        Configuration::parse(&config)
    }

    #[test]
    fn versions() {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
        let old = Configuration::parse(
            &json!({"apiVersion": OLD_API_VERSION, "kind": KIND, "manifests": [object]}),
        )
        .unwrap();
        let new = configuration(json!({"manifests": [{"policy": "manage", "manifest": object}]})).unwrap();
        assert_eq!(old, new);
        assert_eq!((new.deletion_groups.len(), new.update_strategy), (3, UpdateStrategy::Update));
        assert!(Configuration::parse(&json!({"apiVersion": "v1", "kind": KIND})).is_err());
    }

    #[test]
    fn what_is_wrong_is_named_without_values() {
        for (members, part) in [
            (json!({"updateStrategy": "canary"}), "a word is unknown"),
            (json!({"manifests": "canary"}), "expected a sequence"),
            (json!({"manifests": [{"policy": "manage"}]}), "`manifest` is missing"),
            (json!({"exports": {"exports": [{"key": "a..b", "jsonPath": "."}]}}), "exports.exports[0].key"),
            (
                json!({"exports": {"exports": [{"key": "a", "jsonPath": "[canary"}]}}),
                "exports.exports[0].jsonPath",
            ),
            (json!({"readinessChecks": {"custom": [{"name": "a"}]}}), "resourceSelector or labelSelector"),
            (json!({"deletionGroups": [{}]}), "deletionGroups[0]: exactly one"),
        ] {
            let error = configuration(members.clone()).unwrap_err();
            assert_eq!(error.reason.as_str(), "ProviderConfigurationInvalid");
            assert!(
                error.message.contains(part) && !error.message.contains("canary"),
                "{members}: {}",
                error.message
            );
        }
    }

    /// Nothing that a user writes is without effect in silence.
    #[test]
    fn what_has_no_effect_is_told() {
        let manifest = json!({"manifest": {}, "polizy": "keep"});
        let found = configuration(json!({"manifests": [manifest], "continuousReconcile": {"every": "1h"},
            "exports": {"exports": [{"key": "a", "jsonPath": ".b"}]}}));
        let message = found.unwrap().warnings().remove(0).message;
        for part in ["continuousReconcile", "manifests[0].polizy", "the export a without fromResource"] {
            assert!(message.contains(part), "{message}");
        }
        assert_eq!(configuration(json!({})).unwrap().warnings(), Vec::new());
    }
}
