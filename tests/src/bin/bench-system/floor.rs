//! Lower bound for the cost of an Installation: a client that knows the final objects beforehand
//! writes them, as any controller would have to.

use std::collections::HashMap;
use std::time::Instant;

use anyhow::{Context, Result};
use futures::stream::{self, StreamExt, TryStreamExt};
use groundwork_api::{DataObject, DeployItem, Execution, Installation};
use groundwork_tests::ALL;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::core::{DynamicObject, TypeMeta};
use kube::discovery::ApiResource;
use kube::{Client, Resource, ResourceExt};
use serde_json::{Map, Value, json};

use crate::load::CLIENTS;
use crate::process::usage;
use crate::scenario::{Bench, per, rounded};

/// Object in its final state, without the fields that the API server sets.
struct Final {
    resource: ApiResource,
    object: DynamicObject,
    /// UID of its owner in the namespace that the object is copied from.
    owner: Option<String>,
    uid: String,
}

impl Bench {
    /// Copies the objects of one namespace to another one, object by object, in the order of a job.
    /// Finalizers and status take requests of their own, as for every controller.
    pub(crate) async fn floor(&mut self, from: &str, to: &str, count: usize) -> Result<Map<String, Value>> {
        let client = self.system.client().await?;
        self.system.plane.create_namespace(to).await?;
        let groups = groups(&client, from).await?;
        for service in ALL {
            self.system.service_mut(service)?.program.kill().await?;
        }
        let api_server = self.system.plane.api_server_pid()?;
        let before = usage(api_server)?.cpu_seconds;
        let start = Instant::now();
        let requests: Vec<usize> = stream::iter(groups)
            .map(|group| write(client.clone(), to.to_owned(), group))
            .buffer_unordered(CLIENTS)
            .try_collect()
            .await?;
        let seconds = start.elapsed().as_secs_f64();
        let cpu = usage(api_server)?.cpu_seconds - before;
        for service in ALL {
            self.system.service_mut(service)?.program.start_again()?;
        }
        for service in ALL {
            self.system.until_ready(service).await?;
        }
        Ok(Map::from_iter([
            ("floor.seconds".to_owned(), rounded(seconds)),
            ("floor.requests_each".to_owned(), rounded(per(requests.iter().sum(), count))),
            ("floor.api_server_cpu_ms_each".to_owned(), rounded(cpu * 1000.0 / per(count, 1))),
        ]))
    }
}

/// Returns the objects of each Installation, owners first.
async fn groups(client: &Client, namespace: &str) -> Result<Vec<Vec<Final>>> {
    let mut all = finals::<Execution>(client, namespace).await?;
    all.extend(finals::<DeployItem>(client, namespace).await?);
    all.extend(finals::<Secret>(client, namespace).await?);
    all.extend(finals::<DataObject>(client, namespace).await?);
    let roots = finals::<Installation>(client, namespace).await?;
    let mut group_of: HashMap<String, usize> = HashMap::new();
    let mut groups = Vec::new();
    for (index, root) in roots.into_iter().enumerate() {
        group_of.insert(root.uid.clone(), index);
        groups.push(vec![root]);
    }
    for object in all {
        let group = object.owner.as_ref().and_then(|owner| group_of.get(owner)).copied();
        let Some(group) = group else { continue };
        group_of.insert(object.uid.clone(), group);
        groups[group].push(object);
    }
    Ok(groups)
}

async fn finals<K>(client: &Client, namespace: &str) -> Result<Vec<Final>>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    let resource = ApiResource::erase::<K>(&());
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    let objects = api.list(&ListParams::default()).await?.items;
    let of = |mut object: DynamicObject| {
        let metadata = std::mem::take(&mut object.metadata);
        let owner = metadata.owner_references.iter().flatten().next().map(|owner| owner.uid.clone());
        object.types = Some(TypeMeta::resource::<K>());
        object.metadata.name = metadata.name;
        object.metadata.labels = metadata.labels;
        object.metadata.annotations = metadata.annotations;
        object.metadata.finalizers = metadata.finalizers;
        object.metadata.owner_references = metadata.owner_references;
        Final { resource: resource.clone(), object, owner, uid: metadata.uid.unwrap_or_default() }
    };
    Ok(objects.into_iter().map(of).collect())
}

/// Writes one group of objects. Returns the number of requests that this took.
async fn write(client: Client, namespace: String, group: Vec<Final>) -> Result<usize> {
    let parameters = PostParams::default();
    let mut uids: HashMap<String, String> = HashMap::new();
    let mut requests = 0;
    let mut last = None;
    for Final { resource, mut object, owner, uid } in group {
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &namespace, &resource);
        let status = object.data.as_object_mut().and_then(|fields| fields.remove("status"));
        if let (Some(owner), Some(references)) = (&owner, &mut object.metadata.owner_references) {
            let owner = uids.get(owner).context("owners come first")?;
            references.iter_mut().for_each(|reference| reference.uid.clone_from(owner));
        }
        let is_root = owner.is_none();
        // A user creates a root without our finalizer. The controller adds the finalizer in a
        // request of its own.
        let finalizers = is_root.then(|| object.metadata.finalizers.take()).flatten();
        let name = object.name_any();
        let mut stored =
            api.create(&parameters, &object).await.with_context(|| format!("{} {name}", resource.kind))?;
        requests += 1;
        uids.insert(uid, stored.uid().unwrap_or_default());
        if let Some(finalizers) = finalizers {
            let change = Patch::Merge(json!({"metadata": {"finalizers": finalizers}}));
            stored = api.patch(&name, &PatchParams::default(), &change).await?;
            requests += 1;
        }
        if let Some(status) = status {
            stored.data["status"] = status;
            if is_root {
                last = Some((api, name, stored));
            } else {
                api.replace_status(&name, &parameters, &stored).await?;
                requests += 1;
            }
        }
    }
    // The status of a root is written last, since a job finishes its root after all other objects.
    if let Some((api, name, stored)) = last {
        api.replace_status(&name, &parameters, &stored).await?;
        requests += 1;
    }
    Ok(requests)
}
