//! Objects go in groups, each when the one before is gone (`installations.md` 7.9, deletion groups).

use futures::FutureExt as _;
use futures::stream::{self, StreamExt as _};
use serde_json::Value;

use crate::awaited::{Awaited, Waiting};
use crate::cluster::{Cluster, PatchKind, ResourceKind};
use crate::configuration::{CustomGroup, DeletionGroup, Policy, PredefinedKind, ResourceType};
use crate::error::ApplyError;
use crate::object::{Reference, is_being_deleted, label, merge_over};
use crate::prepare::{Owner, annotate};
use crate::record::ManagedResource;
use crate::round::{Deadline, OtherClusters, cluster_of};

/// Objects that are deleted side by side.
const SIDE_BY_SIDE: usize = 16;

/// How objects are to go.
#[derive(Debug)]
pub struct Deletion<'a> {
    pub cluster: &'a Cluster,
    pub others: &'a OtherClusters,
    pub owner: &'a Owner,
    pub groups: &'a [DeletionGroup],
    pub deadline: Deadline,
}

/// How far a deletion has come.
#[derive(Debug, Clone, Default)]
pub struct Deleted {
    /// What is waited for; `None` if all that was to go is gone.
    pub waiting: Option<Waiting>,
    /// Resources that are still there, of those that were to go.
    pub left: Vec<Reference>,
}

/// An object that is to go, and what is done to it before.
struct Condemned<'a> {
    reference: Reference,
    settings: Option<&'a ManagedResource>,
    is_forced: bool,
}

/// Deletes what is left of the first group that is not gone. Whoever calls it calls again until nothing is waited for.
///
/// # Errors
///
/// The cluster does not answer, or refuses; or the time of the item is over.
pub async fn delete_round(
    deletion: &Deletion<'_>,
    resources: &[ManagedResource],
) -> Result<Deleted, ApplyError> {
    let groups = distributed(deletion.groups, resources);
    for (index, (group, members)) in deletion.groups.iter().zip(&groups).enumerate() {
        let mut condemned: Vec<Condemned<'_>> = Vec::new();
        let mut cluster = deletion.cluster;
        let is_forced = is_forced(group);
        if let Some(all) = deletes_all(group) {
            cluster = cluster_of(deletion.cluster, deletion.others, all.target_name.as_deref())?;
            for kind in &all.resources {
                let found = listed(cluster, kind).await?;
                condemned.extend(found.into_iter().map(|reference| Condemned {
                    reference,
                    settings: None,
                    is_forced,
                }));
            }
        } else {
            condemned.extend(members.iter().map(|managed| Condemned {
                reference: managed.resource.clone(),
                settings: Some(managed),
                is_forced,
            }));
        }
        let left = delete_all(deletion, cluster, &condemned).await?;
        if let Some((first, _)) = left.first() {
            let what = format!("deployer: start deleting - resource {first}");
            deletion.deadline.check(&what)?;
            let mut waiting = Waiting::from(what);
            for (_, live) in &left {
                let awaited = Awaited::gone(cluster, live).await;
                let labels = deletion.owner.selector(live);
                waiting.awaited.extend(awaited.map(|awaited| awaited.with_labels(labels)));
            }
            let behind = groups.iter().skip(index + 1).flatten().map(|managed| managed.resource.clone());
            let left = left.into_iter().map(|(reference, _)| reference);
            return Ok(Deleted { waiting: Some(waiting), left: left.chain(behind).collect() });
        }
    }
    Ok(Deleted::default())
}

fn is_forced(group: &DeletionGroup) -> bool {
    match (&group.predefined_resource_group, &group.custom_resource_group) {
        (Some(predefined), _) => predefined.force_delete,
        (None, Some(custom)) => custom.force_delete,
        (None, None) => false,
    }
}

fn deletes_all(group: &DeletionGroup) -> Option<&CustomGroup> {
    group.custom_resource_group.as_ref().filter(|custom| custom.delete_all_resources)
}

/// Every resource in the first group that it fits; those that fit none stay.
fn distributed<'a>(
    groups: &[DeletionGroup],
    resources: &'a [ManagedResource],
) -> Vec<Vec<&'a ManagedResource>> {
    let mut members: Vec<Vec<&ManagedResource>> = groups.iter().map(|_| Vec::new()).collect();
    for managed in resources {
        if let Some(index) = groups.iter().position(|group| fits(group, &managed.resource)) {
            members[index].push(managed);
        }
    }
    members
}

fn fits(group: &DeletionGroup, resource: &Reference) -> bool {
    let is_crd = resource.kind == "CustomResourceDefinition" && resource.group() == "apiextensions.k8s.io";
    if let Some(predefined) = &group.predefined_resource_group {
        return match predefined.kind {
            PredefinedKind::NamespacedResources => resource.namespace.is_some(),
            PredefinedKind::ClusterScopedResources => resource.namespace.is_none() && !is_crd,
            PredefinedKind::Crds => is_crd,
            PredefinedKind::Empty => false,
        };
    }
    let custom = group.custom_resource_group.as_ref().filter(|custom| !custom.delete_all_resources);
    custom.is_some_and(|custom| custom.resources.iter().any(|kind| is_of(kind, resource)))
}

fn is_of(kind: &ResourceType, resource: &Reference) -> bool {
    let is_in = |names: &[String], name: &str| names.is_empty() || names.iter().any(|one| one == name);
    kind.api_version == resource.api_version
        && kind.kind == resource.kind
        && is_in(&kind.names, &resource.name)
        && is_in(&kind.namespaces, resource.namespace.as_deref().unwrap_or_default())
}

async fn listed(cluster: &Cluster, kind: &ResourceType) -> Result<Vec<Reference>, ApplyError> {
    // A definition that is gone has taken its objects along.
    let Some(known) = cluster.kind(&kind.api_version, &kind.kind).await? else { return Ok(Vec::new()) };
    let objects = cluster.list(&known, None, "").await?;
    let references = objects.iter().map(Reference::of);
    Ok(references.filter(|reference| is_of(kind, reference)).collect())
}

/// Asks for the deletion of all, and tells which are still there, and how they were seen.
async fn delete_all(
    deletion: &Deletion<'_>,
    cluster: &Cluster,
    condemned: &[Condemned<'_>],
) -> Result<Vec<(Reference, Value)>, ApplyError> {
    let work: Vec<_> = condemned
        .iter()
        .map(|one| delete(deletion, cluster, one).map(|answer| (one.reference.clone(), answer)))
        .collect();
    let answers: Vec<_> = stream::iter(work).buffer_unordered(SIDE_BY_SIDE).collect().await;
    let (mut left, mut errors) = (Vec::new(), Vec::new());
    for (reference, answer) in answers {
        match answer {
            Ok(None) => {}
            Ok(Some(live)) => left.push((reference, live)),
            Err(error) => errors.push(error),
        }
    }
    left.sort_by(|(left, _), (right, _)| left.cmp(right));
    ApplyError::of_all(errors).map_or(Ok(left), Err)
}

/// The object as it is still there; `None` if it is gone, or is none that may be deleted.
async fn delete(
    deletion: &Deletion<'_>,
    cluster: &Cluster,
    one: &Condemned<'_>,
) -> Result<Option<Value>, ApplyError> {
    let policy = one.settings.map_or(Policy::Manage, |settings| settings.policy);
    if matches!(policy, Policy::Keep | Policy::Ignore) {
        return Ok(None);
    }
    let Some(kind) = cluster.kind(&one.reference.api_version, &one.reference.kind).await? else {
        return Ok(None);
    };
    let Some(live) = cluster.get_of(&kind, &one.reference).await? else { return Ok(None) };
    let is_own = label(&live, deletion.owner.label) == Some(&deletion.owner.item);
    if policy == Policy::Fallback && !is_own {
        return Ok(None);
    }
    if !is_being_deleted(&live) {
        deletion.deadline.check(&format!("deployer: start deleting - resource {}", one.reference))?;
        let live = match one.settings {
            Some(settings) => changed_before(cluster, &kind, settings, live).await?,
            None => live,
        };
        cluster.delete(&kind, &live).await?;
    }
    if !one.is_forced {
        // Most objects are gone at once, and need no further round.
        return Ok(cluster.get_of(&kind, &one.reference).await?);
    }
    let Some(live) = cluster.get_of(&kind, &one.reference).await? else { return Ok(None) };
    if live["metadata"]["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty()) {
        cluster.strip_finalizers(&kind, &live).await?;
    }
    Ok(cluster.get_of(&kind, &one.reference).await?)
}

/// The object with the annotations and the patch that come before its deletion.
async fn changed_before(
    cluster: &Cluster,
    kind: &ResourceKind,
    settings: &ManagedResource,
    live: Value,
) -> Result<Value, ApplyError> {
    let mut patch = Value::Null;
    annotate(&mut patch, &settings.annotate_before_delete);
    if let Some(change) = &settings.patch_before_delete {
        merge_over(&mut patch, change);
    }
    let mut wanted = live.clone();
    merge_over(&mut wanted, &patch);
    if patch.is_null() || wanted == live {
        return Ok(live);
    }
    Ok(cluster.patch(kind, &settings.resource, PatchKind::Merge, &patch).await?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn managed(api_version: &str, kind: &str, namespace: Option<&str>, name: &str) -> ManagedResource {
        let resource = Reference {
            api_version: api_version.into(),
            kind: kind.into(),
            namespace: namespace.map(str::to_owned),
            name: name.into(),
        };
        ManagedResource {
            annotate_before_delete: serde_json::Map::new(),
            patch_before_delete: None,
            policy: Policy::Manage,
            resource,
            applied: None,
        }
    }

    #[test]
    fn groups() {
        let resources = [
            managed("v1", "ConfigMap", Some("a"), "one"),
            managed("v1", "ConfigMap", Some("b"), "two"),
            managed("v1", "Namespace", None, "a"),
            managed("apiextensions.k8s.io/v1", "CustomResourceDefinition", None, "things.example.org"),
        ];
        let names = |groups: &[DeletionGroup]| -> Vec<Vec<String>> {
            let of = |members: &Vec<&ManagedResource>| {
                members.iter().map(|one| one.resource.name.clone()).collect()
            };
            distributed(groups, &resources).iter().map(of).collect()
        };
        assert_eq!(
            names(&DeletionGroup::defaults()),
            [vec!["one", "two"], vec!["a"], vec!["things.example.org"]]
        );
        let custom: Vec<DeletionGroup> = serde_json::from_value(json!([
            {"customResourceGroup": {"resources": [{"apiVersion": "v1", "kind": "ConfigMap", "namespaces": ["b"]}]}},
            {"predefinedResourceGroup": {"type": "empty"}},
            {"predefinedResourceGroup": {"type": "namespaced-resources"}},
        ]))
        .unwrap();
        assert_eq!(names(&custom), [vec!["two"], vec![], vec!["one"]]);
    }
}
