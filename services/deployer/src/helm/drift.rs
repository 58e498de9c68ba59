//! Checks of the objects of a chart between two jobs (`installations.md` 7.9, drift).

use std::sync::Arc;

use groundwork_api::ResourceExt as _;
use groundwork_apply::{Cluster, DriftCheck, DriftMode, DriftReport, Findings, Policy, Wanted, wanted};
use groundwork_deploy::{Failure, Round};
use groundwork_helm::Status;
use groundwork_lifecycle::Reason;
use groundwork_lifecycle::deployer::missing_configuration;
use serde_json::Map;

use super::charts::Charts;
use super::configuration::Configuration;
use super::history::History;
use super::marks::item_owner;
use super::objects::{Owner, Unknown, objects};
use super::release::as_helm;
use super::render_only;
use super::status::{applied, known};
use super::work::Said;
use crate::drift::{self, Wish, failure};
use crate::whereabouts::same_cluster;

pub(super) async fn check(
    charts: &Charts,
    round: &Round<'_>,
    before: &Findings,
) -> Result<Option<DriftReport>, Failure> {
    let config = round.item.spec.config.get().ok_or_else(missing_configuration)?;
    let configuration = Configuration::parse(config)?;
    if configuration.drift.mode == DriftMode::Ignore {
        return Ok(None);
    }
    let cluster = same_cluster(round).await?;
    let release = Owner { name: configuration.name.clone(), namespace: configuration.namespace.clone() };
    let (drift, strategy) = (&configuration.drift, configuration.update_strategy);
    if configuration.keeps_releases() {
        let helm = as_helm(&cluster);
        let marks = item_owner(round, Some(&release));
        let applied = applied(round.item);
        let check = DriftCheck { cluster: &helm, owner: &marks, drift, strategy, applied: &applied, before };
        let wish = async || of_release(round, &helm, &release).await;
        return drift::check(round, &check, wish).await.map(Some);
    }
    let (owner, applied) = (item_owner(round, None), known(round.item));
    let check = DriftCheck { cluster: &cluster, owner: &owner, drift, strategy, applied: &applied, before };
    let wish = async || {
        let prepared = charts.prepare(round, Arc::clone(&cluster)).await?;
        let rendering = charts.render(&prepared, prepared.release(0, false), true, Reason::RenderHelmValues);
        let Said { rendered, .. } = rendering.await?;
        let namespace = configuration.create_namespace.then_some(configuration.namespace.as_str());
        let (manifests, _) = render_only::manifests(&rendered, namespace)?;
        let wanted = wanted(&cluster, &manifests, &owner, Some(&configuration.namespace)).await;
        Ok(Wish { objects: wanted.map_err(|error| failure(&error))?, obstacle: None })
    };
    drift::check(round, &check, wish).await.map(Some)
}

/// Returns the objects of the item's own last revision. Objects are not repaired if someone else
/// has made a later revision: the record of that revision would no longer describe the cluster.
async fn of_release(round: &Round<'_>, cluster: &Cluster, release: &Owner) -> Result<Wish, Failure> {
    let history =
        History::load(cluster, &release.namespace, &release.name).await.map_err(|error| failure(&error))?;
    let uid = round.item.uid().unwrap_or_default();
    let is_own = |status: Status| matches!(status, Status::Deployed | Status::Superseded);
    let own = history
        .revisions
        .iter()
        .rev()
        .find(|stored| stored.is_of_item(&uid) && is_own(stored.record.status()));
    let (Some(own), Some(last)) = (own, history.last()) else {
        let (namespace, name) = (&release.namespace, &release.name);
        let obstacle = format!("the release {namespace}/{name} has no revision that this item created");
        return Ok(Wish { objects: Vec::new(), obstacle: Some(obstacle) });
    };
    let obstacle = (last.record.revision() != own.record.revision()).then(|| {
        let (namespace, name) = (&release.namespace, &release.name);
        let revision = last.record.revision();
        format!("the release {namespace}/{name} is at revision {revision}, which this item did not create, so its \
                 drift is not repaired; request a job")
    });
    let found = objects(cluster, own.record.manifest(), &release.namespace, Unknown::IsSkipped).await;
    let wanted = found.map_err(|error| failure(&error))?.into_iter().map(|object| {
        let mut manifest = object.manifest;
        release.stamp(&mut manifest);
        Wanted {
            reference: object.reference,
            kind: object.kind,
            policy: Policy::Manage,
            manifest,
            annotations: Map::new(),
            patch: None,
        }
    });
    Ok(Wish { objects: wanted.collect(), obstacle })
}
