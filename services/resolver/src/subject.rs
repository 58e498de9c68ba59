//! What decides about the reference of an Installation, as the API server has it.

use std::collections::BTreeMap;

use groundwork_api::{ComponentVersionOverwrites, Context, DataObject, Installation, ResourceExt, Target};
use groundwork_controller::{ApiError, Objects, Stored};
use groundwork_lifecycle::{Entries, ImportedObjects, Inputs, Resolution, resolve};
use groundwork_registry::RepositoryMap;
use k8s_openapi::api::core::v1::ConfigMap;

/// An Installation with its Context and the overwrites that the Context names.
#[derive(Debug)]
pub(crate) struct Subject {
    pub(crate) installation: Installation,
    pub(crate) context: Option<Context>,
    pub(crate) overwrites: Option<ComponentVersionOverwrites>,
    config: Config,
}

/// The ConfigMap that a Context names, if it was asked for.
#[derive(Debug, Default)]
struct Config(BTreeMap<String, Entries>);

/// Whether the OCM configuration is read too: it decides where components are looked for, not which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    Reference,
    Repositories,
}

impl Subject {
    /// Reads what the Installation names. What does not exist is absent.
    pub(crate) async fn read(
        installation: Installation,
        depth: Depth,
        objects: &Objects,
    ) -> Result<Self, ApiError> {
        let namespace = installation.namespace().unwrap_or_default();
        let context: Option<Context> = get(objects, &namespace, Some(installation.spec.context())).await?;
        let overwrites = get(objects, &namespace, context.as_ref().and_then(Context::overwrites)).await?;
        let mut config = Config::default();
        let name = context.as_ref().and_then(Context::ocm_config_map);
        if let (Some(name), Depth::Repositories) = (name, depth)
            && let Some(map) = get::<ConfigMap>(objects, &namespace, Some(name)).await?
        {
            config.0.insert(name.to_owned(), entries(map));
        }
        Ok(Self { installation, context, overwrites, config })
    }

    #[cfg(test)]
    pub(crate) fn of_test(installation: Installation) -> Self {
        Self { installation, context: None, overwrites: None, config: Config::default() }
    }

    /// Evaluates the reference. Asks no repository.
    pub(crate) fn resolve(&self) -> Resolution {
        resolve(&Inputs {
            installation: &self.installation,
            context: self.context.as_ref(),
            overwrites: self.overwrites.as_ref(),
            objects: &self.config,
            repositories: &RepositoryMap::default(),
        })
    }
}

/// Reads an object whose name somebody wrote into another object: what cannot be a name, names nothing.
async fn get<K: Stored>(
    objects: &Objects,
    namespace: &str,
    name: Option<&str>,
) -> Result<Option<K>, ApiError> {
    match name {
        Some(name) if is_name(name) => objects.get(namespace, name).await,
        _ => Ok(None),
    }
}

/// Whether an object can have this name (RFC 1123 subdomain); others could change the path of a request.
pub(crate) fn is_name(name: &str) -> bool {
    let is_plain =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.';
    let ends_well = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = name.as_bytes();
    bytes.len() <= 253
        && bytes.iter().copied().all(is_plain)
        && ends_well(bytes.first())
        && ends_well(bytes.last())
}

fn entries(map: ConfigMap) -> Entries {
    let text = map.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.into_bytes()));
    let binary = map.binary_data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0));
    text.chain(binary).collect()
}

impl ImportedObjects for Config {
    fn data_object(&self, _: &str) -> Option<DataObject> {
        None
    }

    fn target(&self, _: &str) -> Option<Target> {
        None
    }

    fn secret(&self, _: &str) -> Option<Entries> {
        None
    }

    fn config_map(&self, name: &str) -> Option<Entries> {
        self.0.get(name).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_in_their_place() {
        for name in ["default", "a.b-c", "7"] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", "..", ".", "a/b", "../secrets/x", "a?b", "a%2f", "A", "-a", "a-", &"x".repeat(254)] {
            assert!(!is_name(name), "{name}");
        }
    }
}
