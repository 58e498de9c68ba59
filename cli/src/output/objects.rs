//! Objects that a cluster would hold after the rendering.

use groundwork_api::{Installation, InstallationStatus, Time};
use groundwork_lifecycle::{ScopedObject, merge_condition};
use serde::Serialize;
use serde_json::Value;

use crate::rendering::{Published, Rendering};

/// Returns Installation, Execution, DeployItems and exports of every rendering, in this order.
/// Nested installations follow their parent.
pub(super) fn all(renderings: &[Rendering], now: &Time) -> Vec<Value> {
    let mut objects = Vec::new();
    for rendering in renderings.iter().flat_map(Rendering::all) {
        objects.push(to_json(&with_status(rendering, now)));
        objects.extend(rendering.outcome.execution.as_ref().map(to_json));
        objects.extend(rendering.outcome.deploy_items.iter().map(to_json));
        if let Published::Objects { objects: published, .. } = &rendering.published {
            objects.extend(published.iter().map(|object| match object {
                ScopedObject::Data(object) => to_json(object),
                ScopedObject::Target(target) => to_json(target),
            }));
        }
    }
    objects
}

fn with_status(rendering: &Rendering, now: &Time) -> Installation {
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
    status.last_error =
        rendering.error().map(|error| error.cause.to_last_error(status.last_error.as_ref(), now));
    installation
}

fn to_json(object: &impl Serialize) -> Value {
    serde_json::to_value(object).unwrap_or(Value::Null)
}
