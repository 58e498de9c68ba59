//! Mutations with objects of the cluster (`packagevariants.md` 3.4). The package names the kinds
//! that it needs, and only those are read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use groundwork_api::{InjectionSource, PackageVariant};
use groundwork_fleet::VariantError;
use groundwork_krm::{Cluster, Listed, Mutated, Mutation, MutationError, Package};
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams};
use serde_json::Value;

use super::porch::World;
use super::progress::{Failure, Progress};
use crate::inputs::{ReadError, Selected, discover};

/// Objects by the `apiVersion` and `kind` of injection points.
type Found = BTreeMap<(String, String), Read>;

/// Result of reading the objects of a kind.
enum Read {
    Objects(Vec<Value>),
    ClusterScoped,
    Failed(String),
}

/// Objects that were read, and lookups without a result so far.
struct Known {
    found: Found,
    asked: Mutex<BTreeSet<(String, String)>>,
}

impl Cluster for Known {
    fn list(&self, api_version: &str, kind: &str) -> Listed<'_> {
        let key = (api_version.to_owned(), kind.to_owned());
        match self.found.get(&key) {
            Some(Read::Objects(objects)) => Listed::Objects(objects.iter().collect()),
            Some(Read::ClusterScoped) => Listed::ClusterScoped,
            Some(Read::Failed(text)) => Listed::Failed(text.clone()),
            None => {
                self.asked.lock().unwrap_or_else(std::sync::PoisonError::into_inner).insert(key);
                Listed::Objects(Vec::new())
            }
        }
    }
}

/// Returns the files after the mutations of a variant. The first attempt finds out which objects of
/// the cluster the mutations need; these are read, and the mutations run again.
pub(super) async fn mutate(
    world: &World<'_>,
    progress: &mut Progress,
    files: &Package,
    revision: &str,
) -> Result<Package, Failure> {
    let mut found = Found::new();
    let mut kinds = Vec::new();
    loop {
        let known = Known { found, asked: Mutex::default() };
        let (variant, namespace) = (world.variant().clone(), world.namespace());
        let (files, name) = (files.clone(), revision.to_owned());
        let attempt = world.compute(revision, move || {
            let mutation =
                Mutation { variant: &variant, namespace: &namespace, revision: &name, cluster: &known };
            let mutated = groundwork_krm::mutate(Some(&files), &mutation);
            (mutated, known)
        });
        let (mutated, known) = attempt.await?;
        let mutated: Mutated = mutated.map_err(told)?;
        found = known.found;
        let asked = known.asked.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        if asked.is_empty() {
            for source in sources(&found, world.variant()) {
                progress.read(source);
            }
            progress.kinds.extend(kinds);
            return Ok(mutated.files);
        }
        for key in asked {
            let objects =
                read(world.variant(), &key, &world.namespace(), world.objects().client(), &mut kinds).await?;
            found.insert(key, objects);
        }
    }
}

/// Maps a failed mutation to an error of the variant.
fn told(error: MutationError) -> VariantError {
    match error {
        MutationError::Missing(text) => VariantError::Other(text),
        MutationError::PackageContext(text) => VariantError::PackageContext(text),
        MutationError::Pipeline(text) => VariantError::Pipeline(text),
        MutationError::Injection(text) => VariantError::Injection(text),
    }
}

/// Reads the objects of a kind that the variant may inject: those that its selectors name. Of other
/// objects, only their existence matters.
async fn read(
    variant: &PackageVariant,
    (api_version, kind): &(String, String),
    namespace: &str,
    client: &Client,
    kinds: &mut Vec<Selected>,
) -> Result<Read, Failure> {
    let (selected, resource) = match discover(api_version, kind, client).await {
        Ok(found) => found,
        Err(ReadError::Unavailable(unavailable)) => {
            let text = unavailable.to_string();
            let is_cluster_scoped = text.contains("do not live in namespaces");
            return Ok(if is_cluster_scoped { Read::ClusterScoped } else { Read::Failed(text) });
        }
        Err(ReadError::Retry(error)) => return Err(Failure::Retry(error)),
    };
    kinds.push(selected);
    let api = Api::<DynamicObject>::namespaced_with(client.clone(), namespace, &resource);
    let selectors = variant.spec.injectors().unwrap_or_default();
    let names: BTreeSet<&str> = selectors.iter().map(|selector| selector.name.as_str()).collect();
    let mut objects = Vec::new();
    for name in names.into_iter().filter(|name| groundwork_api::kubernetes::is_dns_subdomain(name)) {
        match api.get_opt(name).await {
            Ok(found) => objects.extend(found.and_then(|found| serde_json::to_value(found).ok())),
            Err(kube::Error::Api(status)) => return Ok(Read::Failed(status.message.clone())),
            Err(error) => return Err(unread(&error)),
        }
    }
    if objects.is_empty() {
        match api.list(&ListParams::default().limit(1)).await {
            Ok(list) => {
                objects.extend(list.items.into_iter().filter_map(|found| serde_json::to_value(found).ok()));
            }
            Err(kube::Error::Api(status)) => return Ok(Read::Failed(status.message.clone())),
            Err(error) => return Err(unread(&error)),
        }
    }
    Ok(Read::Objects(objects))
}

fn unread(error: &kube::Error) -> Failure {
    let text = groundwork_telemetry::innermost_cause(error);
    Failure::Retry(groundwork_controller::ReconcileError::new(format!(
        "cannot read the objects to inject: {text}"
    )))
}

/// Returns the objects that selectors name. An object that was read only to see whether the kind
/// has any is left out.
fn sources(found: &Found, variant: &PackageVariant) -> Vec<InjectionSource> {
    let selectors = variant.spec.injectors().unwrap_or_default();
    let mut sources = Vec::new();
    for ((api_version, kind), objects) in found {
        let Read::Objects(objects) = objects else { continue };
        for object in objects {
            let text = |path: &str| object.pointer(path).and_then(Value::as_str).map(str::to_owned);
            let name = text("/metadata/name").unwrap_or_default();
            if selectors.iter().all(|selector| selector.name != name) {
                continue;
            }
            sources.push(InjectionSource {
                api_version: api_version.clone(),
                kind: kind.clone(),
                name,
                resource_version: text("/metadata/resourceVersion"),
                ..InjectionSource::default()
            });
        }
    }
    sources
}
