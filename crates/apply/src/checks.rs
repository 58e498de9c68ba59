//! Whether what an item has applied is in order, and what it waits for if it is not (`installations.md` 7.9).

use std::sync::Arc;

use serde_json::Value;

use crate::awaited::{Awaited, Waiting};
use crate::cluster::Cluster;
use crate::configuration::{CustomCheck, ReadinessChecks, Requirement};
use crate::error::ApplyError;
use crate::object::Reference;
use crate::ownership::Owner;
use crate::readiness::{meets, not_ready};
use crate::round::{OtherClusters, Seen, cluster_of};

/// What of some objects is not in order yet: by the rules of their kinds, unless these are switched off, and by custom checks. Objects that
/// were not seen do not exist. Those of an `owner` carry its label, by which one watch shows many of them.
///
/// # Errors
///
/// A cluster does not answer.
pub async fn failed_check(
    own: &Cluster,
    others: &OtherClusters,
    checks: &ReadinessChecks,
    resources: &[&Reference],
    owner: Option<&Owner>,
    seen: &Seen,
) -> Result<Option<Waiting>, ApplyError> {
    if !checks.disable_default
        && let Some(waiting) = by_kind(own, resources, owner, seen).await
    {
        return Ok(Some(waiting));
    }
    for check in checks.custom.iter().filter(|check| !check.disabled) {
        let cluster = cluster_of(own, others, check.target_name.as_deref())?;
        if let Some(waiting) = custom_check(cluster, check, seen).await? {
            let what = format!("deployer: during readiness check - {}: {}", check.name, waiting.what);
            return Ok(Some(Waiting { what, ..waiting }));
        }
    }
    Ok(None)
}

/// The first object that is not ready is told of, and all are waited for.
async fn by_kind(
    own: &Cluster,
    resources: &[&Reference],
    owner: Option<&Owner>,
    seen: &Seen,
) -> Option<Waiting> {
    let mut waiting: Option<Waiting> = None;
    for resource in resources {
        let live = seen.get(resource);
        let reason = match live {
            Some(object) => not_ready(object),
            None => Some("it does not exist".to_owned()),
        };
        let Some(reason) = reason else { continue };
        let waiting = waiting.get_or_insert_with(|| {
            format!("deployer: during readiness check - resource {resource}: {reason}").into()
        });
        let is_over = |object: &Value| not_ready(object).is_none();
        let awaited = Awaited::object(own, resource, live, is_over).await;
        let labels = owner.zip(live).and_then(|(owner, live)| owner.selector(live));
        waiting.awaited.extend(awaited.map(|awaited| awaited.with_labels(labels)));
    }
    waiting
}

async fn custom_check(
    cluster: &Cluster,
    check: &CustomCheck,
    seen: &Seen,
) -> Result<Option<Waiting>, ApplyError> {
    let requirements: Arc<[Requirement]> = check.requirements.clone().into();
    let is_met = {
        let requirements = Arc::clone(&requirements);
        move |object: &Value| requirements.iter().all(|requirement| meets(requirement, object))
    };
    let mut objects = Vec::new();
    for reference in &check.resource_selector {
        let known = seen.get(reference).filter(|_| check.target_name.is_none());
        let found = match known {
            Some(object) => Some(object.clone()),
            None => cluster.get(reference).await?,
        };
        let Some(object) = found else {
            let awaited = Awaited::object(cluster, reference, None, is_met).await.into_iter().collect();
            let what = format!("resource {reference} does not exist");
            return Ok(Some(Waiting { awaited, ..what.into() }));
        };
        objects.push((object, None));
    }
    if let Some(selector) = &check.label_selector {
        let Some(kind) = cluster.kind(&selector.api_version, &selector.kind).await? else {
            let (kind, api_version) = (&selector.kind, &selector.api_version);
            return Ok(Some(format!("the cluster has no kind {kind} in {api_version}").into()));
        };
        let labels: Vec<String> =
            selector.match_labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let labels = labels.join(",");
        let listed = cluster.list(&kind, None, &labels).await?;
        if listed.is_empty() && objects.is_empty() {
            let awaited = vec![Awaited::any(cluster, kind, None, labels, is_met)];
            return Ok(Some(Waiting { awaited, ..Waiting::from("no object has the labels".to_owned()) }));
        }
        objects.extend(listed.into_iter().map(|object| (object, Some(labels.clone()))));
    }
    let mut waiting: Option<Waiting> = None;
    for (object, labels) in &objects {
        let missed = requirements.iter().find(|requirement| !meets(requirement, object));
        let Some(requirement) = missed else { continue };
        let (reference, path) = (Reference::of(object), &requirement.json_path);
        let waiting = waiting.get_or_insert_with(|| {
            format!("resource {reference}: {path} does not meet {}", requirement.operator).into()
        });
        let awaited = Awaited::object(cluster, &reference, Some(object), is_met.clone()).await;
        waiting.awaited.extend(awaited.map(|awaited| awaited.with_labels(labels.clone())));
    }
    Ok(waiting)
}
