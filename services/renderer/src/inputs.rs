//! What a job reads: Context, overwrites and the objects that an Installation imports.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::try_join_all;
use groundwork_api::kubernetes::is_label_value;
use groundwork_api::metadata::label;
use groundwork_api::{ComponentVersionOverwrites, Context, DataObject, Installation, ResourceExt, Target};
use groundwork_blueprint::{Capabilities, States, TemplateLimits};
use groundwork_controller::{ApiError, Objects};
use groundwork_lifecycle::machine::Tree;
use groundwork_lifecycle::{
    ImportedNames, ObjectSet, OwnNames, OwnScope, SOURCE_TYPE_IMPORT, ScopedObject, item_exports,
    living_scope, state_of, state_secret_name,
};
use k8s_openapi::api::core::v1::Secret;

/// When templates are stopped. Workers give work up earlier; this ends it.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// What templates may reach: the clock and the randomness of this machine, for some time.
pub(crate) fn capabilities(limits: TemplateLimits) -> Capabilities {
    Capabilities::system().within(TIME_LIMIT).limited(limits)
}

/// Reads all objects that an Installation imports, and the configuration that its Context names.
pub(crate) async fn fetch(
    installation: &Installation,
    context: Option<&Context>,
    objects: &Objects,
) -> Result<ObjectSet, ApiError> {
    let namespace = installation.metadata.namespace.as_deref().unwrap_or_default();
    let scope = living_scope(installation);
    let mut names = ImportedNames::of(installation, &scope);
    names.config_maps.extend(context.and_then(Context::ocm_config_map).map(str::to_owned));
    let mut fetched = ObjectSet::default();
    for object in read_all(&names.data_objects, |name| objects.get::<DataObject>(namespace, name)).await? {
        fetched.data_objects.insert(object.name_any(), object);
    }
    let mut targets = read_all(&names.targets, |name| objects.get::<Target>(namespace, name)).await?;
    for import in &names.parent_targets {
        targets.extend(passed_on(installation, &scope, import, objects).await?);
    }
    for target in targets {
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

/// The elements of a list or map of Targets that the parent passes on, as its current job has copied them (4.4). They are listed by
/// their labels: nothing else says how many there are, and events about them may be on their way.
async fn passed_on(
    installation: &Installation,
    scope: &str,
    import: &str,
    objects: &Objects,
) -> Result<Vec<Target>, ApiError> {
    let namespace = installation.metadata.namespace.as_deref().unwrap_or_default();
    let job = installation.status.as_ref().and_then(|status| status.job_id.as_deref()).unwrap_or_default();
    if !is_label_value(import) {
        // No copy can have it, and it would read as another selector.
        return Ok(Vec::new());
    }
    let labels = format!(
        "{}={scope},{}={import},{}={SOURCE_TYPE_IMPORT},{}={job}",
        label::DATA_CONTEXT,
        label::DATA_KEY,
        label::DATA_SOURCE_TYPE,
        label::DATA_JOB_ID
    );
    objects.list::<Target>(namespace, &labels).await
}

/// What executions of an Installation have stored under these keys (`blueprints.md` 4.6).
pub(crate) async fn states(
    installation: &Installation,
    keys: &[String],
    objects: &Objects,
) -> Result<States, ApiError> {
    let namespace = installation.metadata.namespace.as_deref().unwrap_or_default();
    let name = installation.name_any();
    let mut states = States::new();
    for key in keys {
        let secret = objects.get::<Secret>(namespace, &state_secret_name(&name, key)).await?;
        states.extend(secret.as_ref().and_then(state_of).map(|state| (key.clone(), state)));
    }
    Ok(states)
}

/// What lies in the own scope of an Installation beside the copies of its imports: exports of its items and of its children. Their names
/// follow from specs, so that nothing rests on events that may be on their way.
pub(crate) async fn own_scope(tree: &Tree, objects: &Objects) -> Result<OwnScope, ApiError> {
    let Some(installation) = tree.installation.get() else { return Ok(OwnScope::default()) };
    let execution = tree.execution.get();
    let names = OwnNames::of(installation, execution, tree.children.present());
    // Who has collected them in this job knows them.
    let holder = match &names.holder {
        Some(name) if tree.exports.is_none() => objects.get::<DataObject>(&tree.namespace, name).await?,
        Some(_) | None => None,
    };
    let mut deploy_items = item_exports(execution, holder);
    if names.holder.is_some() {
        deploy_items.extend(tree.exports.clone().unwrap_or_default());
    }
    let data = read_all(&names.data_objects, |name| objects.get::<DataObject>(&tree.namespace, name)).await?;
    let targets = read_all(&names.targets, |name| objects.get::<Target>(&tree.namespace, name)).await?;
    let exports =
        data.into_iter().map(ScopedObject::Data).chain(targets.into_iter().map(ScopedObject::Target));
    Ok(OwnScope { deploy_items, exports: exports.collect() })
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
