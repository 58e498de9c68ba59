//! Deletion of objects in groups; each group follows when the previous one is gone
//! (`installations.md` 7.9, deletion groups).

use serde_json::Value;

use crate::awaited::{Awaited, DELETION, Waiting};
use crate::cluster::{Cluster, ResourceKind};
use crate::configuration::{CustomGroup, DeletionGroup, PredefinedKind, ResourceType};
use crate::context::{Deadline, OtherClusters, cluster_of};
use crate::disposal::{Disposal, Surplus, Told};
use crate::error::ApplyError;
use crate::object::Reference;
use crate::ownership::Owner;
use crate::record::ManagedResource;
use crate::succession::Succession;

/// Maximum objects that are deleted concurrently.
const SIDE_BY_SIDE: usize = 16;

/// Settings of a deletion.
#[derive(Debug)]
pub struct Deletion<'a> {
    pub cluster: &'a Cluster,
    pub others: &'a OtherClusters,
    pub owner: &'a Owner,
    pub succession: &'a dyn Succession,
    pub groups: &'a [DeletionGroup],
    /// Returns true for a live object whose annotations forbid its deletion.
    pub is_kept: fn(&Value) -> bool,
    pub deadline: Deadline,
}

/// Progress of a deletion.
#[derive(Debug, Clone, Default)]
pub struct Deleted {
    /// The current wait; `None` if all objects that had to go are gone.
    pub waiting: Option<Waiting>,
    /// Resources that have to be deleted and still exist.
    pub left: Vec<Reference>,
    /// Messages for users.
    pub told: Vec<Told>,
}

/// Deletes the remaining objects of the first group that is not gone. The caller repeats this until
/// there is no wait.
///
/// # Errors
///
/// The cluster does not answer or refuses, or the item's time is over.
pub async fn delete_round(
    deletion: &Deletion<'_>,
    resources: &[ManagedResource],
) -> Result<Deleted, ApplyError> {
    let groups = distributed(deletion.groups, resources);
    let mut told = Vec::new();
    for (index, (group, members)) in deletion.groups.iter().zip(&groups).enumerate() {
        let (cluster, surplus) = surplus_of(deletion, group, members).await?;
        let disposal = Disposal {
            cluster,
            owner: deletion.owner,
            succession: deletion.succession,
            deadline: deletion.deadline,
            side_by_side: SIDE_BY_SIDE,
        };
        let mut disposed = disposal.dispose(&surplus).await?;
        told.append(&mut disposed.told);
        disposed.left.sort_by(|(left, _), (right, _)| left.cmp(right));
        let in_transit = disposed.in_transit.as_ref().map(|reference| (reference, String::new()));
        let first = disposed.left.first().map(|(reference, live)| (reference, held(live)));
        if let Some((first, held)) = in_transit.or(first) {
            let what = format!("{DELETION}resource {first}{held}");
            deletion.deadline.check(&what)?;
            let mut waiting = Waiting::from(what);
            // Another item is about to write its mark on an object. That takes only a moment, so no
            // watch is needed.
            let watched = disposed.left.iter().filter(|_| disposed.in_transit.is_none());
            for (_, live) in watched {
                let awaited = Awaited::gone(cluster, live).await;
                let labels = deletion.owner.selector(live);
                waiting.awaited.extend(awaited.map(|awaited| awaited.with_labels(labels)));
            }
            let behind = groups.iter().skip(index + 1).flatten().map(|managed| managed.resource.clone());
            let left = disposed.left.into_iter().map(|(reference, _)| reference).chain(disposed.in_transit);
            return Ok(Deleted { waiting: Some(waiting), left: left.chain(behind).collect(), told });
        }
    }
    Ok(Deleted { told, ..Deleted::default() })
}

/// Names the finalizers that keep an object; empty if there are none.
pub fn held(live: &Value) -> String {
    let names = live["metadata"]["finalizers"].as_array();
    let names: Vec<&str> = names.into_iter().flatten().filter_map(Value::as_str).collect();
    match names.as_slice() {
        [] => String::new(),
        [one] => format!(" (held by the finalizer {one})"),
        several => format!(" (held by the finalizers {})", several.join(", ")),
    }
}

/// Returns the objects of a group, with the cluster that contains them.
async fn surplus_of<'a>(
    deletion: &Deletion<'a>,
    group: &DeletionGroup,
    members: &[&'a ManagedResource],
) -> Result<(&'a Cluster, Vec<Surplus<'a>>), ApplyError> {
    let is_forced = is_forced(group);
    let surplus = |kind: ResourceKind, reference: Reference, settings: Option<&'a ManagedResource>| Surplus {
        kind,
        reference,
        settings,
        is_everybodys: settings.is_none(),
        is_forced,
        is_kept: deletion.is_kept,
        is_awaited: true,
    };
    let mut found = Vec::new();
    if let Some(all) = deletes_all(group) {
        let cluster = cluster_of(deletion.cluster, deletion.others, all.target_name.as_deref())?;
        for kind in &all.resources {
            // If the CRD is gone, so are its objects.
            let Some(known) = cluster.kind(&kind.api_version, &kind.kind).await? else { continue };
            let mut pages = cluster.pages(&known, None, "")?;
            while let Some(page) = pages.next().await? {
                let references = page.objects.iter().map(Reference::of);
                let references = references.filter(|reference| is_of(kind, reference));
                found.extend(references.map(|reference| surplus(known.clone(), reference, None)));
            }
        }
        return Ok((cluster, found));
    }
    for managed in members {
        let resource = &managed.resource;
        if let Some(kind) = deletion.cluster.kind(&resource.api_version, &resource.kind).await? {
            found.push(surplus(kind, resource.clone(), Some(managed)));
        }
    }
    Ok((deletion.cluster, found))
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

/// Assigns every resource to the first group that selects it. Resources that no group selects stay.
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
        ManagedResource::new(resource)
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
