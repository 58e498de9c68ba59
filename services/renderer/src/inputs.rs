//! What a job reads: Context, overwrites and the objects that an Installation imports.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::try_join_all;
use groundwork_api::{ComponentVersionOverwrites, Context, DataObject, Installation, ResourceExt, Target};
use groundwork_blueprint::Capabilities;
use groundwork_controller::{ApiError, Objects};
use groundwork_lifecycle::{ImportedNames, ObjectSet};

/// When templates are stopped. Workers give work up earlier; this ends it.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// What templates may reach: the clock and the randomness of this machine, for some time.
pub(crate) fn capabilities() -> Capabilities {
    Capabilities::system().within(TIME_LIMIT)
}

/// Reads all objects that an Installation imports, and the configuration that its Context names.
pub(crate) async fn fetch(
    installation: &Installation,
    context: Option<&Context>,
    objects: &Objects,
) -> Result<ObjectSet, ApiError> {
    let namespace = installation.metadata.namespace.as_deref().unwrap_or_default();
    let mut names = ImportedNames::of(installation);
    names.config_maps.extend(context.and_then(Context::ocm_config_map).map(str::to_owned));
    let mut fetched = ObjectSet::default();
    for object in read_all(&names.data_objects, |name| objects.get::<DataObject>(namespace, name)).await? {
        fetched.data_objects.insert(object.name_any(), object);
    }
    for target in read_all(&names.targets, |name| objects.get::<Target>(namespace, name)).await? {
        // Its content belongs to the fingerprint of the imports.
        names.secrets.extend(target.spec.secret_ref.as_ref().map(|reference| reference.name.clone()));
        fetched.targets.insert(target.name_any(), target);
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
