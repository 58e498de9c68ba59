//! Reads the objects of a cluster for a plan, with the user's permissions.

use std::collections::{BTreeMap, BTreeSet};

use groundwork_api::ResourceExt as _;
use groundwork_controller::Stored;
use groundwork_fleet::Preview;
use groundwork_lifecycle::ObjectSet;
use groundwork_plan::{Key, Landscape};
use groundwork_variant_service::preview_namespace;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};

use super::overrides::Applied;
use super::{PlanArguments, has_errors};
use crate::diagnostic::Diagnostic;
use crate::ending::Ending;
use crate::input::Document;
use crate::live::{self, Cluster, LiveError};
use crate::variants;

/// Plans for the cluster of the current kube context.
pub(super) fn run(arguments: &PlanArguments) -> Ending {
    live::run(async || {
        let cluster = Cluster::connect("plan").await?;
        let default = cluster.client.default_namespace().to_owned();
        let namespace = arguments.namespace.as_deref().unwrap_or(&default);
        let mut diagnostics = Vec::new();
        let applied = Applied::read(&arguments.files, namespace, &mut diagnostics);
        let mut present = Landscape::default();
        for namespace in namespaces(&applied.landscape) {
            read(&cluster, &namespace, &mut present).await?;
        }
        let variants = match applied.sets.is_empty() || has_errors(&diagnostics) {
            true => None,
            false => match preview(&cluster, &applied.sets, namespace, &mut diagnostics).await? {
                Some(variants) => Some(variants),
                None => return Ok(Ending::Unusable),
            },
        };
        Ok(arguments.show(&present, &applied.landscape, variants.as_ref(), diagnostics))
    })
}

/// Previews the effect of sets on the variants of the cluster. Returns `None` if the sets cannot be
/// used; the reason is printed.
async fn preview(
    cluster: &Cluster,
    sets: &[Document],
    namespace: &str,
    diagnostics: &mut Vec<Diagnostic>,
) -> Result<Option<Preview>, LiveError> {
    let Some(sets) = variants::sets(sets, namespace, diagnostics) else { return Ok(None) };
    let mut previews = Vec::new();
    for (namespace, sets) in sets {
        let preview = preview_namespace(&namespace, sets, &cluster.objects).await;
        previews.extend(preview.map_err(variants::cluster::refused)?.sets);
    }
    Ok(Some(Preview::new(previews)))
}

fn namespaces(landscape: &Landscape) -> BTreeSet<String> {
    let keys =
        landscape.installations.keys().chain(landscape.contexts.keys()).chain(landscape.overwrites.keys());
    let keys = keys.chain(landscape.data_objects.keys()).chain(landscape.targets.keys());
    let keys = keys.chain(landscape.secrets.keys()).chain(landscape.config_maps.keys());
    keys.map(|(namespace, _)| namespace.clone()).collect()
}

/// Reads one list of each kind.
async fn read(cluster: &Cluster, namespace: &str, landscape: &mut Landscape) -> Result<(), LiveError> {
    landscape.installations.extend(list(cluster, namespace).await?);
    landscape.executions.extend(list(cluster, namespace).await?);
    landscape.items.extend(list(cluster, namespace).await?);
    landscape.contexts.extend(list(cluster, namespace).await?);
    landscape.overwrites.extend(list(cluster, namespace).await?);
    landscape.data_objects.extend(list(cluster, namespace).await?);
    landscape.targets.extend(list(cluster, namespace).await?);
    let mut set = ObjectSet::default();
    list::<Secret>(cluster, namespace).await?.into_values().for_each(|secret| set.add_secret(secret));
    list::<ConfigMap>(cluster, namespace).await?.into_values().for_each(|map| set.add_config_map(map));
    let in_namespace = |name: String| (namespace.to_owned(), name);
    landscape.secrets.extend(set.secrets.into_iter().map(|(name, entries)| (in_namespace(name), entries)));
    landscape
        .config_maps
        .extend(set.config_maps.into_iter().map(|(name, entries)| (in_namespace(name), entries)));
    Ok(())
}

async fn list<K: Stored>(cluster: &Cluster, namespace: &str) -> Result<BTreeMap<Key, K>, LiveError> {
    let objects = cluster.objects.list::<K>(namespace, "").await?;
    Ok(objects.into_iter().map(|object| ((namespace.to_owned(), object.name_any()), object)).collect())
}
