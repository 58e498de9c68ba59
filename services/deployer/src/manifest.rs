//! The manifest deployer: applies the objects in an item's configuration to the cluster of the
//! Target (`installations.md` 7.9).

pub(crate) mod configuration;

use async_trait::async_trait;
use groundwork_api::{AnyJson, ResourceExt};
use groundwork_apply::{
    Cluster, Deletion, DeletionGroup, DriftCheck, DriftMode, DriftReport, Findings, MANIFEST_ITEM,
    ManagedResource, Owner, Policy, ReadinessRules, Task, delete_round, fitting, round, wanted,
};
use groundwork_deploy::{Deployer, Failure, Removal, Round, Step};
use groundwork_lifecycle::deployer::missing_configuration;
use serde_json::json;

use crate::common::{MANIFEST, operation_error, other_clusters, step};
use crate::drift::{self, Wish, failure};
use crate::siblings::Siblings;
use crate::whereabouts::{Leaving, RoundCluster, leaving, same_cluster};
use configuration::{API_VERSION, Configuration};

/// Returns the objects that the status of the item records.
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

/// Deployer of items with manifests.
#[derive(Debug)]
pub(crate) struct ManifestDeployer {
    /// Readiness rules of items that choose none.
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
            // The configuration lists all objects, so other items need not wait for the status to
            // know them.
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
        MANIFEST
    }

    async fn reconcile(&self, round: &Round<'_>) -> Result<Step, Failure> {
        let place = RoundCluster::of(round).await?;
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
        // An unreadable configuration does not block the deletion: the recorded objects are deleted
        // in the default order.
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
