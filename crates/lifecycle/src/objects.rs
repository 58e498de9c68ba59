//! Objects that a job creates (`installations.md` 7.1, 7.2; `blueprints.md` 7.4).

use std::collections::BTreeMap;

use groundwork_api::metadata::{FINALIZER, annotation, label};
use groundwork_api::{
    Context, DEFAULT_CONTEXT, DeployItem, DeployItemSpec, DeployItemTemplate, Execution, ExecutionSpec,
    Installation, InstallationSpec, Kind, KubeResource, List, ObjectMeta, OwnerReference, ResourceExt,
};

use groundwork_blueprint::{ChildMetadata, child_object_name};

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;

use crate::names::{deploy_item_name, state_secret_name, subinstallation_suffix};
use crate::ownership::{Ownership, ownership, take_over};

/// Returns the Execution that contains the deploy items of an Installation.
pub fn execution(installation: &Installation, items: Vec<DeployItemTemplate>) -> Execution {
    let annotations = inherited_annotations(&installation.metadata);
    let mut spec =
        ExecutionSpec { context: Some(installation.spec.context().to_owned()), ..ExecutionSpec::default() };
    if spec.set_templates(items.clone()).is_err() {
        // Only the compression of a very long list can fail. The plain list has the same meaning.
        spec.deploy_items = List::from(items);
    }
    Execution {
        metadata: ObjectMeta {
            name: installation.metadata.name.clone(),
            namespace: installation.metadata.namespace.clone(),
            annotations: (!annotations.is_empty()).then_some(annotations),
            ..owned_by(installation)
        },
        spec,
        ..Execution::default()
    }
}

/// Returns a nested Installation. Its name depends on the UID of the parent, as the name of a
/// DeployItem depends on that of the Execution.
pub(crate) fn subinstallation(
    parent: &Installation,
    template: &str,
    metadata: ChildMetadata,
    spec: InstallationSpec,
) -> Installation {
    let suffix = |template: &str| subinstallation_suffix(&parent.metadata, template);
    Installation {
        metadata: ObjectMeta {
            name: Some(child_object_name(template, suffix)),
            namespace: parent.metadata.namespace.clone(),
            labels: Some(metadata.labels),
            annotations: Some(metadata.annotations),
            ..owned_by(parent)
        },
        spec,
        ..Installation::default()
    }
}

/// Entry of a Secret that stores the state of an execution.
pub(crate) const STATE_ENTRY: &str = "config";

/// Returns the Secret that stores the state of an execution. It exists as long as its Installation
/// (`blueprints.md` 4.6).
pub(crate) fn state_secret(installation: &Installation, key: &str, state: &str) -> Secret {
    let name = installation.metadata.name.as_deref().unwrap_or_default();
    Secret {
        metadata: ObjectMeta {
            name: Some(state_secret_name(name, key)),
            namespace: installation.metadata.namespace.clone(),
            labels: Some([(label::HOLDS.to_owned(), label::HOLDS_STATE.to_owned())].into()),
            finalizers: None,
            ..owned_by(installation)
        },
        data: Some([(STATE_ENTRY.to_owned(), ByteString(state.as_bytes().to_vec()))].into()),
        ..Secret::default()
    }
}

/// Returns the Context `default`, which a cluster has in every namespace (`components.md` 1.2).
pub fn assumed_context(installation: &Installation) -> Option<Context> {
    if installation.spec.context() != DEFAULT_CONTEXT {
        return None;
    }
    let metadata = ObjectMeta {
        name: Some(DEFAULT_CONTEXT.to_owned()),
        namespace: installation.metadata.namespace.clone(),
        ..ObjectMeta::default()
    };
    Some(Context { metadata, ..Context::default() })
}

/// Returns one DeployItem for every template of an Execution.
///
/// Their names depend on the UID of the Execution. An Execution outside a cluster has no UID, so
/// the names of its items end in other characters than in a cluster.
pub fn deploy_items(execution: &Execution) -> Vec<DeployItem> {
    let templates = execution.spec.templates().unwrap_or_default();
    templates.iter().map(|template| deploy_item(execution, template)).collect()
}

pub(crate) fn deploy_item(execution: &Execution, template: &DeployItemTemplate) -> DeployItem {
    let name = execution.metadata.name.as_deref().unwrap_or_default();
    let uid = execution.metadata.uid.as_deref().unwrap_or_default();
    let mut labels = template.labels.clone().into_map();
    labels.insert(label::MANAGED_BY.to_owned(), name.to_owned());
    labels.insert(label::DEPLOY_ITEM_NAME.to_owned(), template.name.clone());
    let target = template.target.as_ref().map_or(annotation::NO_TARGET_NAME, |target| target.name.as_str());
    let mut annotations = inherited_annotations(&execution.metadata);
    annotations.insert(annotation::DEPLOYER_TYPE.to_owned(), template.type_.clone());
    annotations.insert(annotation::DEPLOYER_TARGET_NAME.to_owned(), target.to_owned());
    if !template.depends_on.is_empty() {
        annotations.insert(annotation::DEPENDS_ON.to_owned(), template.depends_on.join(","));
    }
    DeployItem {
        metadata: ObjectMeta {
            name: Some(deploy_item_name(uid, name, &template.name)),
            namespace: execution.metadata.namespace.clone(),
            labels: Some(labels),
            annotations: Some(annotations),
            ..owned_by(execution)
        },
        spec: DeployItemSpec {
            type_: template.type_.clone(),
            target: template.target.clone(),
            context: execution.spec.context.clone(),
            config: template.config.clone(),
            timeout: template.timeout.clone(),
            update_on_change_only: template.update_on_change_only,
            on_delete: template.on_delete.clone(),
            ..DeployItemSpec::default()
        },
        ..DeployItem::default()
    }
}

/// Returns the annotations that a root Installation passes on to its items (`installations.md`
/// 1.7).
fn inherited_annotations(metadata: &ObjectMeta) -> BTreeMap<String, String> {
    let annotations = metadata.annotations.iter().flatten();
    let inherited =
        annotations.filter(|(name, value)| *name == annotation::CACHE_HELM_CHARTS && *value == "true");
    inherited.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Returns an object that has lost its owner with `owner` as its controller; `None` for any other
/// object, and for one that is being deleted.
pub(crate) fn taken_over<K: ResourceExt + Clone, O: Kind + KubeResource>(object: &K, owner: &O) -> Option<K> {
    let is_left = ownership(object.meta(), owner) == Ownership::Left;
    if !is_left || object.meta().deletion_timestamp.is_some() {
        return None;
    }
    let mut taken = object.clone();
    take_over(taken.meta_mut(), owned_by(owner).owner_references.as_deref());
    Some(taken)
}

/// Returns metadata with a finalizer and, for an owner that exists in a cluster, the controller
/// reference.
fn owned_by<K: Kind + KubeResource>(owner: &K) -> ObjectMeta {
    let metadata = owner.meta();
    let reference = |uid: &String| OwnerReference {
        api_version: K::API_VERSION.to_owned(),
        kind: K::KIND.to_owned(),
        name: metadata.name.clone().unwrap_or_default(),
        uid: uid.clone(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    };
    ObjectMeta {
        finalizers: Some(vec![FINALIZER.to_owned()]),
        owner_references: metadata.uid.as_ref().map(|uid| vec![reference(uid)]),
        ..ObjectMeta::default()
    }
}
