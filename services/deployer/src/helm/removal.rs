//! Deletion of a chart item, with the releases and objects that it has deployed (`helm.md` 10.8).

use std::collections::HashSet;

use std::sync::Arc;

use groundwork_apply::{
    ApplyError, Cluster, Deletion, DeletionGroup, Seen, Waiting, delete_round, release_of,
};
use groundwork_deploy::{Failure, Removal, Round};
use groundwork_helm::Status;
use groundwork_lifecycle::{OperationError, Reason};

use super::claims::{Claim, claim};
use super::configuration::Configuration;
use super::history::{History, Stored};
use super::marks::{item_owner, siblings};
use super::objects::{Owner, is_kept};
use super::prepared::is_first;
use super::release::{Carried, ReleaseRun, as_helm};
use super::status::{author, estate, estate_beside_release, releases};
use crate::common::{operation_error, other_clusters};
use crate::whereabouts::{Leaving, leaving};

/// Uninstalls the releases that the item has had, and deletes the objects that it has applied
/// without one.
pub(super) async fn delete(round: &Round<'_>) -> Result<Removal, Failure> {
    let config = round.item.spec.config.get().and_then(|config| Configuration::parse(config).ok());
    let Some(configuration) = config else {
        // An unreadable configuration was never deployed, unless the status lists objects.
        return if releases(round.item).is_empty() && estate(round.item).is_empty() {
            Ok(Removal::Done)
        } else {
            let text = "spec.config is no longer valid: correct it, or delete without uninstall";
            Err(OperationError::new("DeleteHelmRelease", Reason::Uninstall, text).into())
        };
    };
    let Leaving::From(cluster) = leaving(round).await? else { return Ok(Removal::Done) };
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
        if let Some(waiting) = uninstall(round, &cluster, &configuration, namespace, name).await? {
            return Ok(Removal::Waiting { waiting, provider_status: None });
        }
    }
    // An item with a release may have other objects, too: handed over by other items, or from a
    // time when it had no release.
    delete_rendered(round, &cluster, &configuration).await
}

async fn delete_rendered(
    round: &Round<'_>,
    cluster: &Cluster,
    configuration: &Configuration,
) -> Result<Removal, Failure> {
    let others = other_clusters(round, &configuration.target_names()).await?;
    let groups: &[DeletionGroup] = &configuration.deletion_groups;
    let (owner, siblings) = (item_owner(round, None), siblings(round));
    let deletion = Deletion {
        cluster,
        others: &others,
        owner: &owner,
        succession: &siblings,
        groups,
        // The policy of Helm's annotation counts only for objects of a release. An object with both
        // must stay.
        is_kept: |live| release_of(live).is_some() && is_kept(live),
        deadline: round.deadline,
    };
    let deleted = delete_round(&deletion, &estate_beside_release(round.item)).await;
    let deleted = deleted.map_err(|error| operation_error("DeleteManifests", &error))?;
    round.tell(&deleted.told).await;
    Ok(deleted.waiting.map_or(Removal::Done, |waiting| Removal::Waiting { waiting, provider_status: None }))
}

/// Uninstalls a release of an item. Returns the reason to wait while it is not gone.
async fn uninstall(
    round: &Round<'_>,
    cluster: &Arc<Cluster>,
    configuration: &Configuration,
    namespace: String,
    name: String,
) -> Result<Option<Waiting>, Failure> {
    let failed = |error: &ApplyError| -> Failure {
        let text = format!("unable to delete helm chart release: {error}");
        match error {
            ApplyError::Timeout(_) => operation_error("DeleteHelmRelease", error).into(),
            _ => OperationError::transient("DeleteHelmRelease", Reason::Uninstall, text).into(),
        }
    };
    let helm = as_helm(cluster);
    let history = History::load(&helm, &namespace, &name).await.map_err(|error| failed(&error))?;
    let options = configuration.helm_deployment_config.uninstall();
    let owner = Owner { name, namespace };
    let mut run = ReleaseRun {
        cluster: &helm,
        history,
        marks: item_owner(round, Some(&owner)),
        owner,
        author: author(round.item),
        options,
        rules: configuration.rules(),
        deadline: round.deadline,
        former: Vec::new(),
        applied: Vec::new(),
        is_complete: false,
        estate: Vec::new(),
        rollback_until: None,
        seen: Seen::new(),
        absent: HashSet::new(),
        is_adopted: false,
        round,
    };
    let others = match claim(round, &run.history, &run.owner).await? {
        None => return Ok(None),
        Some(Claim::Own) => None,
        Some(Claim::OfItem(item)) => Some(format!("the item {item} manages it now")),
        Some(Claim::Orphan) => {
            Some("another item created it, and this item has not upgraded it since".to_owned())
        }
        Some(Claim::Foreign) => Some("this item has neither installed nor upgraded it".to_owned()),
    };
    if let Some(why) = others {
        let Owner { name, namespace } = &run.owner;
        round.note("ReleaseLeft", &format!("release {name} in namespace {namespace} was left: {why}")).await;
        return Ok(None);
    }
    let is_new = |last: &Stored| !matches!(last.record.status(), Status::Uninstalling | Status::Uninstalled);
    if is_first(round) && run.history.last().is_some_and(is_new) {
        run.deadline.check("helm deployer: before deleting release").map_err(|error| failed(&error))?;
    }
    match run.uninstall(options.wait).await {
        Ok(Carried::Done) => Ok(None),
        Ok(Carried::Waiting(waiting)) => Ok(Some(waiting)),
        Err(error) => Err(failed(&error)),
    }
}
