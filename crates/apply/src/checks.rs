//! Readiness of the objects that an item has applied, and the wait for those that are not ready
//! (`installations.md` 7.9).

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::awaited::{Awaited, READINESS, Waiting};
use crate::cluster::Cluster;
use crate::configuration::{CustomCheck, ReadinessChecks, ReadinessRules};
use crate::context::{OtherClusters, Seen, cluster_of};
use crate::conventions::{is_built_in, is_silent, standing};
use crate::error::ApplyError;
use crate::object::Reference;
use crate::ownership::Owner;
use crate::readiness::not_ready;
use crate::requirement::{Requirements, StepsLeft};

/// Time that a newly created object of an operator may be without a status.
const SILENCE: SignedDuration = SignedDuration::from_secs(30);

/// Returns the first object that is not ready, by the chosen rules (unless they are switched off)
/// and by custom checks. Objects that were not seen count as missing. Objects of an `owner` carry
/// its label, so that one watch shows many of them.
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
        && let Some(waiting) = by_rules(own, checks.rules.unwrap_or_default(), resources, owner, seen).await
    {
        return Ok(Some(waiting));
    }
    for check in checks.custom.iter().filter(|check| !check.disabled) {
        let cluster = cluster_of(own, others, check.target_name.as_deref())?;
        if let Some(waiting) = custom_check(cluster, check, seen).await? {
            let what = format!("{READINESS}{}: {}", check.name, waiting.what);
            return Ok(Some(Waiting { what, ..waiting }));
        }
    }
    Ok(None)
}

/// Checks all objects by the rules. The message names the first object that is not ready; the wait
/// covers all of them.
async fn by_rules(
    own: &Cluster,
    rules: ReadinessRules,
    resources: &[&Reference],
    owner: Option<&Owner>,
    seen: &Seen,
) -> Option<Waiting> {
    let mut waiting: Option<Waiting> = None;
    for resource in resources {
        let live = seen.get(resource);
        let Some(unready) = unready(own, rules, resource, live).await else { continue };
        let waiting = waiting
            .get_or_insert_with(|| format!("{READINESS}resource {resource}: {}", unready.reason).into());
        let labels = owner.zip(live).and_then(|(owner, live)| owner.selector(live));
        waiting.awaited.extend(unready.awaited.map(|awaited| awaited.with_labels(labels)));
        waiting.until = waiting.until.into_iter().chain(unready.until).min();
    }
    waiting
}

/// An object that is not ready.
#[derive(Debug)]
pub struct Unready {
    /// Reason as a part of a sentence, without values of the object.
    pub reason: String,
    /// Wait for the object; `None` if it cannot be watched.
    pub awaited: Option<Awaited>,
    /// Time at which the object may count as ready even without a change.
    pub until: Option<Timestamp>,
}

/// Returns the reason why an object is not ready by some rules, and the wait for it; `None` if it
/// is ready. `live` is its last seen state, if it exists.
pub async fn unready(
    cluster: &Cluster,
    rules: ReadinessRules,
    resource: &Reference,
    live: Option<&Value>,
) -> Option<Unready> {
    let says_something = rules == ReadinessRules::Conventions && is_reported(cluster, resource).await;
    let problem = move |object: &Value| match rules {
        ReadinessRules::Kinds => not_ready(object),
        ReadinessRules::Conventions => standing(object).problem(),
    };
    let silence = live.filter(|object| says_something && is_silent(object)).and_then(silent_until);
    let reason = match live {
        None => Some("it does not exist".to_owned()),
        Some(object) => problem(object)
            .or_else(|| silence.map(|_| "its controller has not reported a status yet".to_owned())),
    };
    let is_over = move |object: &Value| problem(object).is_none() && !(says_something && is_silent(object));
    let awaited = match &reason {
        Some(_) => Awaited::object(cluster, resource, live, is_over).await,
        None => None,
    };
    reason.map(|reason| Unready { reason, awaited, until: silence })
}

/// Reports whether an operator may set a status on objects of this kind. The answer is cached,
/// since the caller has just looked up the kind.
async fn is_reported(cluster: &Cluster, resource: &Reference) -> bool {
    let asks = !is_built_in(resource.group());
    asks && matches!(cluster.kind(&resource.api_version, &resource.kind).await, Ok(Some(kind)) if kind.has_status)
}

/// Returns the time until which an object without any status counts as not ready; `None` if that
/// time is over. After that it counts as ready, because its operator may never set a status.
fn silent_until(object: &Value) -> Option<Timestamp> {
    let made: Timestamp = object["metadata"]["creationTimestamp"].as_str()?.parse().ok()?;
    let until = made.checked_add(SILENCE).ok()?;
    let left = until.duration_since(Timestamp::now());
    // A remaining time that is too long means that the clocks of cluster and service differ, so it
    // is ignored.
    (left.is_positive() && left <= SILENCE + SILENCE).then_some(until)
}

async fn custom_check(
    cluster: &Cluster,
    check: &CustomCheck,
    seen: &Seen,
) -> Result<Option<Waiting>, ApplyError> {
    let requirements = Arc::new(Requirements::read(&check.requirements)?);
    let is_met = {
        let requirements = Arc::clone(&requirements);
        move |object: &Value| requirements.missed(object, &mut StepsLeft::default()).is_none()
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
    let mut left = StepsLeft::default();
    for (object, labels) in &objects {
        let Some(missed) = requirements.missed(object, &mut left) else { continue };
        let reference = Reference::of(object);
        let waiting = waiting.get_or_insert_with(|| format!("resource {reference}: {missed}").into());
        let awaited = Awaited::object(cluster, &reference, Some(object), is_met.clone()).await;
        waiting.awaited.extend(awaited.map(|awaited| awaited.with_labels(labels.clone())));
    }
    Ok(waiting)
}
