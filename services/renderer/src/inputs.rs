//! What a job reads: Context, overwrites and the objects that an Installation imports.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::try_join_all;
use groundwork_api::{ComponentVersionOverwrites, Context, DataObject, Installation, ResourceExt, Target};
use groundwork_controller::{ApiError, Objects};
use groundwork_lifecycle::{Entries, ImportedNames, ImportedObjects};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};

/// Objects of one namespace, read directly before a job uses them.
#[derive(Debug, Default)]
pub(crate) struct Fetched {
    data_objects: BTreeMap<String, DataObject>,
    targets: BTreeMap<String, Target>,
    secrets: BTreeMap<String, Entries>,
    config_maps: BTreeMap<String, Entries>,
}

impl Fetched {
    pub(crate) fn add_data_object(&mut self, object: DataObject) {
        self.data_objects.insert(object.name_any(), object);
    }

    pub(crate) fn add_target(&mut self, target: Target) {
        self.targets.insert(target.name_any(), target);
    }

    pub(crate) fn add_secret(&mut self, secret: Secret) {
        let name = secret.name_any();
        let text =
            secret.string_data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.into_bytes()));
        let data = secret.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0));
        self.secrets.insert(name, data.chain(text).collect());
    }

    pub(crate) fn add_config_map(&mut self, map: ConfigMap) {
        let name = map.name_any();
        let text = map.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.into_bytes()));
        let binary = map.binary_data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0));
        self.config_maps.insert(name, text.chain(binary).collect());
    }
}

impl ImportedObjects for Fetched {
    fn data_object(&self, name: &str) -> Option<DataObject> {
        self.data_objects.get(name).cloned()
    }

    fn target(&self, name: &str) -> Option<Target> {
        self.targets.get(name).cloned()
    }

    fn secret(&self, name: &str) -> Option<Entries> {
        self.secrets.get(name).cloned()
    }

    fn config_map(&self, name: &str) -> Option<Entries> {
        self.config_maps.get(name).cloned()
    }
}

/// Reads all objects that an Installation imports, and the configuration that its Context names.
pub(crate) async fn fetch(
    installation: &Installation,
    context: Option<&Context>,
    objects: &Objects,
) -> Result<Fetched, ApiError> {
    let namespace = installation.metadata.namespace.as_deref().unwrap_or_default();
    let mut names = ImportedNames::of(installation);
    names.config_maps.extend(context.and_then(Context::ocm_config_map).map(str::to_owned));
    let mut fetched = Fetched::default();
    for object in read_all(&names.data_objects, |name| objects.get(namespace, name)).await? {
        fetched.add_data_object(object);
    }
    for target in read_all(&names.targets, |name| objects.get::<Target>(namespace, name)).await? {
        // Its content belongs to the fingerprint of the imports.
        names.secrets.extend(target.spec.secret_ref.as_ref().map(|reference| reference.name.clone()));
        fetched.add_target(target);
    }
    for secret in read_all(&names.secrets, |name| objects.get(namespace, name)).await? {
        fetched.add_secret(secret);
    }
    for map in read_all(&names.config_maps, |name| objects.get(namespace, name)).await? {
        fetched.add_config_map(map);
    }
    Ok(fetched)
}

/// Those of the named objects that exist.
async fn read_all<'a, K, F>(
    names: &'a BTreeSet<String>,
    read: impl Fn(&'a str) -> F,
) -> Result<Vec<K>, ApiError>
where
    F: Future<Output = Result<Option<K>, ApiError>>,
{
    let objects = try_join_all(names.iter().map(|name| read(name))).await?;
    Ok(objects.into_iter().flatten().collect())
}

/// Context and overwrites of an Installation that names no component.
pub(crate) async fn context(
    installation: &Installation,
    objects: &Objects,
) -> Result<(Option<Context>, Option<ComponentVersionOverwrites>), ApiError> {
    let namespace = installation.metadata.namespace.as_deref().unwrap_or_default();
    let context: Option<Context> = objects.get(namespace, installation.spec.context()).await?;
    let overwrites = match context.as_ref().and_then(Context::overwrites) {
        Some(name) => objects.get(namespace, name).await?,
        None => None,
    };
    Ok((context, overwrites))
}
