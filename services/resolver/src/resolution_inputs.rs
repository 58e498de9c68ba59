//! The objects that decide which component version an Installation uses, read from the API server.

use groundwork_api::{ComponentVersionOverwrites, Context, Installation, ResourceExt};
use groundwork_blueprint::Capabilities;
use groundwork_controller::{ApiError, Objects, Stored};
use groundwork_lifecycle::{Inputs, ObjectSet, ROOT_SCOPE, Resolution, resolve};
use groundwork_registry::RepositoryMap;
use k8s_openapi::api::core::v1::ConfigMap;

/// An Installation with its Context and the overwrites that the Context names.
#[derive(Debug)]
pub(crate) struct ResolutionInputs {
    pub(crate) installation: Installation,
    pub(crate) context: Option<Context>,
    pub(crate) overwrites: Option<ComponentVersionOverwrites>,
    /// The ConfigMap that the Context names, if it was asked for.
    objects: ObjectSet,
}

/// How much is read. The OCM configuration decides where components are looked for, and not which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// What decides about the reference.
    Reference,
    /// The OCM configuration, too.
    Repositories,
}

impl ResolutionInputs {
    /// Reads what the Installation names. What does not exist is absent.
    pub(crate) async fn read(
        installation: Installation,
        depth: Depth,
        objects: &Objects,
    ) -> Result<Self, ApiError> {
        let namespace = installation.namespace().unwrap_or_default();
        let context: Option<Context> = get(objects, &namespace, Some(installation.spec.context())).await?;
        let overwrites = get(objects, &namespace, context.as_ref().and_then(Context::overwrites)).await?;
        let mut set = ObjectSet::default();
        let name = context.as_ref().and_then(Context::ocm_config_map);
        if let (Some(name), Depth::Repositories) = (name, depth)
            && let Some(map) = get::<ConfigMap>(objects, &namespace, Some(name)).await?
        {
            set.add_config_map(map);
        }
        Ok(Self { installation, context, overwrites, objects: set })
    }

    #[cfg(test)]
    pub(crate) fn of_test(installation: Installation) -> Self {
        Self { installation, context: None, overwrites: None, objects: ObjectSet::default() }
    }

    /// Evaluates the reference. Asks no repository.
    pub(crate) fn resolve(&self) -> Resolution {
        resolve(&Inputs {
            installation: &self.installation,
            context: self.context.as_ref(),
            overwrites: self.overwrites.as_ref(),
            objects: &self.objects,
            repositories: &RepositoryMap::default(),
            blueprint: None,
            capabilities: &Capabilities::default(),
            scope: ROOT_SCOPE,
            states: None,
            cache: None,
            offline: None,
        })
    }
}

async fn get<K: Stored>(
    objects: &Objects,
    namespace: &str,
    name: Option<&str>,
) -> Result<Option<K>, ApiError> {
    match name {
        Some(name) => objects.get(namespace, name).await,
        None => Ok(None),
    }
}
