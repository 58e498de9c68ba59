//! The objects that a cluster would hold.

use groundwork_api::{Installation, InstallationStatus, Time};
use groundwork_lifecycle::merge_condition;
use serde::Serialize;
use serde_json::Value;

use crate::rendering::Rendering;

/// Installation, Execution and DeployItems of every rendering, in this order.
pub(super) fn all(renderings: &[Rendering<'_>], now: &Time) -> Vec<Value> {
    let mut objects = Vec::new();
    for rendering in renderings {
        objects.push(to_json(&with_status(rendering, now)));
        objects.extend(rendering.outcome.execution.as_ref().map(to_json));
        objects.extend(rendering.outcome.deploy_items.iter().map(to_json));
    }
    objects
}

fn with_status(rendering: &Rendering<'_>, now: &Time) -> Installation {
    let mut installation = rendering.installation.clone();
    let outcome = &rendering.outcome;
    let status = installation.status.get_or_insert_with(InstallationStatus::default);
    for condition in &outcome.conditions {
        merge_condition(&mut status.conditions, condition, now);
    }
    if status.conditions.written().is_some() {
        status
            .conditions
            .to_mut()
            .retain(|condition| !outcome.obsolete_conditions.contains(&condition.type_.as_str()));
    }
    status.last_error = outcome
        .failure
        .as_ref()
        .map(|problem| problem.failure.to_last_error(status.last_error.as_ref(), now));
    installation
}

fn to_json(object: &impl Serialize) -> Value {
    serde_json::to_value(object).unwrap_or(Value::Null)
}
