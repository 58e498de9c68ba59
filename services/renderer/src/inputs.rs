//! Inputs of a job: the Context, overwrites, and the objects that an Installation imports.

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
    ImportedNames, ObjectSet, OwnNames, OwnScope, Ownership, SOURCE_TYPE_IMPORT, ScopedObject, item_exports,
    living_scope, ownership, state_of, state_secret_name,
};
use k8s_openapi::api::core::v1::Secret;

/// Time after which the template engine stops. Workers give up earlier; this limit is the last
/// resort.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// Returns the capabilities of templates: the clock and random numbers of this machine, and a
/// deadline.
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
        // The content of a Target's Secret is part of the fingerprint of the imports, so read the
        // Secrets too.
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

/// Returns the elements of a list or map of Targets that the parent passes on, as the parent's
/// current job has copied them (`installations.md` 4.4). They are listed from the API server by
/// their labels, since their number is not known otherwise and the index may lag behind.
async fn passed_on(
    installation: &Installation,
    scope: &str,
    import: &str,
    objects: &Objects,
) -> Result<Vec<Target>, ApiError> {
    let namespace = installation.metadata.namespace.as_deref().unwrap_or_default();
    let job = installation.status.as_ref().and_then(|status| status.job_id.as_deref()).unwrap_or_default();
    if !is_label_value(import) {
        // A value like this cannot be a label, so no copy has it. In a selector it could change the
        // query.
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

/// Stored states of an Installation's executions.
#[derive(Debug, Default)]
pub(crate) struct StoredStates {
    pub(crate) states: States,
    /// Stored states whose Secrets have lost their owner, for example after a restore from a
    /// backup.
    pub(crate) left: States,
}

/// Reads the stored state of an Installation's executions under these keys (`blueprints.md` 4.6).
pub(crate) async fn states(
    installation: &Installation,
    keys: &[String],
    objects: &Objects,
) -> Result<StoredStates, ApiError> {
    let namespace = installation.metadata.namespace.as_deref().unwrap_or_default();
    let name = installation.name_any();
    let mut stored = StoredStates::default();
    for key in keys {
        let secret = objects.get::<Secret>(namespace, &state_secret_name(&name, key)).await?;
        let Some((secret, state)) = secret.and_then(|secret| state_of(&secret).map(|state| (secret, state)))
        else {
            continue;
        };
        if ownership(&secret.metadata, installation) == Ownership::Left {
            stored.left.insert(key.clone(), state.clone());
        }
        stored.states.insert(key.clone(), state);
    }
    Ok(stored)
}

/// Reads the objects in an Installation's own scope except the copies of its imports: the exports
/// of its items and of its children. Their names follow from the specs, so a lagging index does not
/// matter.
pub(crate) async fn own_scope(tree: &Tree, objects: &Objects) -> Result<OwnScope, ApiError> {
    let Some(installation) = tree.installation.get() else { return Ok(OwnScope::default()) };
    let execution = tree.execution.get();
    let names = OwnNames::of(installation, execution, tree.children.present());
    // If this job has collected the exports, the tree already has them.
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

/// Returns those of the named objects that exist.
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

/// Returns the Context and the overwrites of an Installation that names no component.
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
