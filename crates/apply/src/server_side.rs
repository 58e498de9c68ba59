//! Server-side apply that takes over the fields of other managers (`helm.md` 9.2, R17).

use groundwork_controller::ApiError;
use serde_json::{Value, json};

use crate::cluster::{Cluster, PatchKind, ResourceKind};
use crate::declared::Declared;
use crate::error::ApplyError;
use crate::exchange::REPEATED_KEYS;
use crate::object::{Reference, difference, member, merge_over, resource_version, without_server_fields};

/// An existing object, and its desired state.
#[derive(Debug)]
pub struct ServerSideApply<'a> {
    pub kind: &'a ResourceKind,
    pub manifest: &'a Value,
    /// Current state of the object.
    pub live: &'a Value,
    /// Manifest of the last write, if known. Fields that have left the manifest since are removed.
    pub former: Option<&'a Value>,
    /// Field managers whose fields move to our field manager.
    pub predecessors: &'a [&'static str],
    /// True if the manifest is the one that was applied last, so that only others may have changed
    /// the object.
    pub is_repeated: bool,
    /// True if the object is written only while it has the version that was read.
    pub is_guarded: bool,
}

/// Applies the manifest and returns the object as stored, with a warning for users.
///
/// # Errors
///
/// The cluster does not answer, or refuses. A conflict means that the object has changed since it
/// was read.
pub async fn server_side_apply(
    cluster: &Cluster,
    apply: &ServerSideApply<'_>,
) -> Result<(Value, Option<String>), ApplyError> {
    let reference = Reference::of(apply.live);
    if apply.is_repeated && is_in_order(cluster, apply).await {
        return Ok((apply.live.clone(), None));
    }
    let handed_over = match handed_over(apply.live, cluster.manager(), apply.predecessors) {
        Some(patch) => Some(cluster.patch(apply.kind, &reference, PatchKind::Json, &patch).await?),
        None => None,
    };
    let mut manifest = Declared::new(apply.manifest);
    if let Some(version) =
        resource_version(handed_over.as_ref().unwrap_or(apply.live)).filter(|_| apply.is_guarded)
    {
        member(&mut manifest.object, "metadata").insert("resourceVersion".to_owned(), json!(version));
    }
    let why = loop {
        match cluster.patch(apply.kind, &reference, PatchKind::Apply, &manifest.object).await {
            Err(ApiError::Undeclared { fields, .. }) if manifest.leave_out(&fields) => {}
            Err(error) => match beyond_apply(&error) {
                Some(why) => break why,
                None => return Err(error.into()),
            },
            Ok(stored) => return Ok((stored, manifest.warning(&reference))),
        }
    };
    let patch = three_way(apply.former.unwrap_or(&Value::Null), &manifest.object, apply.live);
    let stored = cluster.patch(apply.kind, &reference, PatchKind::Merge, &patch).await?;
    let texts = [
        Some(format!("{reference}: {why}, so a merge patch was used instead of server-side apply")),
        manifest.warning(&reference),
    ];
    Ok((stored, Some(texts.into_iter().flatten().collect::<Vec<_>>().join("; "))))
}

/// Reports whether applying the manifest again would change nothing but `metadata.managedFields`
/// and other metadata of the server. If the server cannot do a dry run, the answer is false and the
/// caller applies for real.
async fn is_in_order(cluster: &Cluster, apply: &ServerSideApply<'_>) -> bool {
    let would_be = would_be(cluster, apply.kind, apply.manifest, apply.live).await;
    would_be.is_ok_and(|would_be| without_server_fields(&would_be) == without_server_fields(apply.live))
}

/// Returns the object that applying a manifest to a live one would produce, without a write.
///
/// # Errors
///
/// The cluster does not answer, or a policy, a webhook or a missing permission refuses the dry run.
pub(crate) async fn would_be(
    cluster: &Cluster,
    kind: &ResourceKind,
    manifest: &Value,
    live: &Value,
) -> Result<Value, ApiError> {
    let (reference, mut manifest) = (Reference::of(live), Declared::new(manifest));
    loop {
        match cluster.patch(kind, &reference, PatchKind::ApplyDryRun, &manifest.object).await {
            Err(ApiError::Undeclared { fields, .. }) if manifest.leave_out(&fields) => {}
            // A difference in an immutable field is a difference too, so merge here instead of on
            // the server.
            Err(error) if beyond_apply(&error).is_some() || matches!(error, ApiError::Invalid { .. }) => {
                return Ok(merged(&Value::Null, &manifest.object, live));
            }
            answer => return answer,
        }
    }
}

/// Returns the reason why the server cannot apply an object that it accepts by other kinds of
/// write.
fn beyond_apply(error: &ApiError) -> Option<&'static str> {
    match error {
        // Real charts contain lists with repeated keys.
        ApiError::Invalid { causes, .. } if causes == REPEATED_KEYS => Some("a list has a duplicate key"),
        ApiError::Invalid { causes, .. } if causes.starts_with("415") => {
            Some("the server does not support server-side apply")
        }
        ApiError::Undeclared { .. } => Some("its schema lacks a field that the manifest sets"),
        _ => None,
    }
}

/// Returns the JSON patch that moves the fields of predecessors to a manager by apply. Without it,
/// fields that leave the manifest would stay on the object.
fn handed_over(live: &Value, manager: &str, predecessors: &[&str]) -> Option<Value> {
    let entries = live["metadata"]["managedFields"].as_array()?;
    let is_own = |entry: &Value| entry["manager"] == manager && entry["operation"] == "Apply";
    let is_predecessor = |entry: &Value| {
        let subresource = entry["subresource"].as_str().unwrap_or_default();
        let name = entry["manager"].as_str().unwrap_or_default();
        subresource.is_empty() && !is_own(entry) && (name == manager || predecessors.contains(&name))
    };
    let first = entries.iter().find(|entry| is_predecessor(entry))?;
    let mut fields = json!({});
    for entry in entries.iter().filter(|entry| is_predecessor(entry) || is_own(entry)) {
        merge_over(&mut fields, &entry["fieldsV1"]);
    }
    let mut own = first.clone();
    own["manager"] = json!(manager);
    own["operation"] = json!("Apply");
    own["fieldsV1"] = fields;
    let others = entries.iter().filter(|entry| !is_predecessor(entry) && !is_own(entry)).cloned();
    let left: Vec<Value> = others.chain([own]).collect();
    Some(json!([
        {"op": "replace", "path": "/metadata/managedFields", "value": left},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": resource_version(live)},
    ]))
}

/// Returns the JSON merge patch that removes fields that have left the manifest and sets the fields
/// in it, lists as a whole.
fn three_way(former: &Value, manifest: &Value, live: &Value) -> Value {
    difference(&without_server_fields(live), &merged(former, manifest, live))
}

/// Returns the live object with the fields of the manifest, and without those that have left it.
fn merged(former: &Value, manifest: &Value, live: &Value) -> Value {
    let mut wanted = without_server_fields(live);
    take_away(&mut wanted, &difference(former, manifest));
    merge_over(&mut wanted, &without_server_fields(manifest));
    wanted
}

/// Removes the fields that a patch sets to null.
fn take_away(object: &mut Value, patch: &Value) {
    let (Value::Object(members), Value::Object(patch)) = (object, patch) else { return };
    for (name, change) in patch {
        match change {
            Value::Null => drop(members.remove(name)),
            change => {
                if let Some(inner) = members.get_mut(name) {
                    take_away(inner, change);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_handed_over() {
        let entry = |manager: &str, operation: &str, fields: Value| json!({"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsV1": fields});
        let object =
            |entries: Vec<Value>| json!({"metadata": {"resourceVersion": "7", "managedFields": entries}});
        let patch = handed_over(
            &object(vec![
                entry("helm", "Update", json!({"f:data": {"f:a": {}}})),
                entry("kubectl", "Update", json!({"f:data": {"f:c": {}}})),
                entry("old", "Update", json!({"f:data": {"f:b": {}}})),
            ]),
            "helm",
            &["old"],
        )
        .unwrap();
        assert_eq!(patch[1]["value"], "7");
        assert_eq!(
            patch[0]["value"],
            json!([
                entry("kubectl", "Update", json!({"f:data": {"f:c": {}}})),
                entry("helm", "Apply", json!({"f:data": {"f:a": {}, "f:b": {}}})),
            ])
        );
        assert_eq!(handed_over(&object(vec![entry("helm", "Apply", json!({}))]), "helm", &["old"]), None);
    }

    #[test]
    fn three_ways() {
        let former = json!({"data": {"gone": "1", "kept": "1"}});
        let manifest = json!({"data": {"kept": "2"}});
        let live = json!({"data": {"gone": "1", "kept": "1", "foreign": "x"}, "status": {"a": 1}});
        assert_eq!(three_way(&former, &manifest, &live), json!({"data": {"gone": null, "kept": "2"}}));
        assert_eq!(three_way(&Value::Null, &manifest, &live), json!({"data": {"kept": "2"}}));
    }
}
