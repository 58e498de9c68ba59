//! Reads the objects of a cluster that belong to the Installations in the input, with the user's
//! permissions.

use std::collections::{BTreeMap, BTreeSet};

use groundwork_api::metadata::label;
use groundwork_api::{DataObject, DeployItem, Execution, Installation, ResourceExt, Target};
use groundwork_controller::Stored;
use serde::Serialize;
use serde_json::Value;

use super::super::difference::{ObjectId, id};
use super::Uids;
use crate::inventory::{Key, key};
use crate::live::{Cluster, LiveError, block_on};

/// Objects of some namespaces, all of each kind.
#[derive(Debug, Default)]
pub(crate) struct ClusterObjects {
    installations: Vec<Installation>,
    executions: Vec<Execution>,
    items: Vec<DeployItem>,
    data: Vec<DataObject>,
    targets: Vec<Target>,
}

impl ClusterObjects {
    /// Reads the objects from the cluster of the current kube context.
    ///
    /// # Errors
    ///
    /// The cluster cannot be reached, or rejects the request.
    pub(super) fn read(namespaces: &BTreeSet<String>) -> Result<Self, LiveError> {
        block_on(async || {
            let cluster = Cluster::connect("render").await?;
            let mut held = Self::default();
            for namespace in namespaces {
                held.installations.extend(list(&cluster, namespace).await?);
                held.executions.extend(list(&cluster, namespace).await?);
                held.items.extend(list(&cluster, namespace).await?);
                held.data.extend(list(&cluster, namespace).await?);
                held.targets.extend(list(&cluster, namespace).await?);
            }
            Ok(held)
        })
    }

    pub(super) fn uids(&self) -> Uids {
        Uids { installations: uids(&self.installations), executions: uids(&self.executions) }
    }

    /// Returns the objects to compare with rendered ones: those of the same names, and all others
    /// in the trees of rendered Installations. Other exports are left out, since only their
    /// deployers know whether they still exist.
    pub(super) fn beside(&self, rendered: &[Value]) -> Vec<Value> {
        let rendered: BTreeSet<ObjectId> = rendered.iter().map(id).collect();
        let is_rendered =
            |kind: &str, (namespace, name): Key| rendered.contains(&(kind.to_owned(), namespace, name));
        let tree = self.tree(|place| is_rendered("Installation", place));
        let mut objects = Vec::new();
        take(&mut objects, &self.installations, |object| tree.contains(&key(object)));
        take(&mut objects, &self.executions, |object| tree.contains(&key(object)));
        take(&mut objects, &self.items, |item| {
            let execution = item.labels().get(label::MANAGED_BY).cloned().unwrap_or_default();
            tree.contains(&(item.namespace().unwrap_or_default(), execution))
        });
        take(&mut objects, &self.data, |object| is_rendered("DataObject", key(object)));
        take(&mut objects, &self.targets, |target| is_rendered("Target", key(target)));
        objects
    }

    /// Returns the Installations that are rendered, and those nested in them.
    fn tree(&self, is_rendered: impl Fn(Key) -> bool) -> BTreeSet<Key> {
        let mut tree: BTreeSet<Key> =
            self.installations.iter().map(key).filter(|place| is_rendered(place.clone())).collect();
        loop {
            let is_nested = |object: &&Installation| {
                let parent = object.labels().get(label::ENCOMPASSED_BY);
                parent.is_some_and(|parent| {
                    tree.contains(&(object.namespace().unwrap_or_default(), parent.clone()))
                })
            };
            let nested: Vec<Key> = self.installations.iter().filter(is_nested).map(key).collect();
            let before = tree.len();
            tree.extend(nested);
            if tree.len() == before {
                return tree;
            }
        }
    }
}

async fn list<K: Stored>(cluster: &Cluster, namespace: &str) -> Result<Vec<K>, LiveError> {
    Ok(cluster.objects.list(namespace, "").await?)
}

fn uids<K: ResourceExt>(objects: &[K]) -> BTreeMap<Key, String> {
    objects.iter().filter_map(|object| Some((key(object), object.uid()?))).collect()
}

fn take<K: Serialize>(objects: &mut Vec<Value>, held: &[K], is_wanted: impl Fn(&K) -> bool) {
    let wanted = held.iter().filter(|object| is_wanted(object));
    objects.extend(wanted.map(|object| serde_json::to_value(object).unwrap_or(Value::Null)));
}
