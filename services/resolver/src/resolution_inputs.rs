//! Objects that decide which component version an Installation uses, read from the API server.

use std::sync::Arc;

use groundwork_api::{ComponentVersionOverwrites, Context, Installation, ResourceExt};
use groundwork_blueprint::Capabilities;
use groundwork_component::Repositories;
use groundwork_controller::{ApiError, Objects, Stored};
use groundwork_lifecycle::{
    Inputs, ObjectSet, OperationError, ROOT_SCOPE, Reason, Resolution, SignatureCheck, SignaturePolicy,
    resolve, signature_secrets,
};
use groundwork_registry::sources::PullSecrets;
use groundwork_registry::{Keyring, RepositoryMap};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde::{Deserialize, Serialize, Serializer};

/// An Installation with its Context and the overwrites that the Context names. It is sent to worker
/// processes, without its secrets.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ResolutionInputs {
    pub(crate) installation: Installation,
    pub(crate) context: Option<Context>,
    pub(crate) overwrites: Option<ComponentVersionOverwrites>,
    /// ConfigMap that the Context names, if it was read.
    #[serde(serialize_with = "without_secrets")]
    objects: ObjectSet,
    /// Credentials from the pull secrets, if they were read.
    #[serde(skip)]
    keyring: Arc<Keyring>,
    /// Notes about the pull secrets for users.
    notes: Vec<String>,
    /// Reason why the pull secrets cannot be used.
    error: Option<OperationError>,
}

/// Serializes the objects without Secrets, which only the check of a signature needs.
fn without_secrets<S: Serializer>(objects: &ObjectSet, serializer: S) -> Result<S::Ok, S::Error> {
    let mut handed = objects.clone();
    handed.secrets.clear();
    handed.serialize(serializer)
}

/// Extent of the read. The OCM configuration decides in which repositories components are looked
/// up, and not which component is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Only the objects that decide about the reference.
    Reference,
    /// The objects that decide about the reference, and the OCM configuration.
    Repositories,
}

impl ResolutionInputs {
    /// Reads the objects that the Installation names. Missing objects are left out.
    pub(crate) async fn read(
        installation: Installation,
        depth: Depth,
        objects: &Objects,
    ) -> Result<Self, ApiError> {
        let namespace = installation.namespace().unwrap_or_default();
        let context: Option<Context> = get(objects, &namespace, Some(installation.spec.context())).await?;
        let overwrites = get(objects, &namespace, context.as_ref().and_then(Context::overwrites)).await?;
        let mut secrets = PullSecrets::default();
        if depth == Depth::Repositories {
            secrets.read(&namespace, context.as_ref(), objects).await?;
        }
        let mut set = ObjectSet::default();
        let name = context.as_ref().and_then(Context::ocm_config_map);
        if let (Some(name), Depth::Repositories) = (name, depth)
            && let Some(map) = get::<ConfigMap>(objects, &namespace, Some(name)).await?
        {
            set.add_config_map(map);
        }
        if let (Some(context), Depth::Repositories) = (&context, depth) {
            for name in signature_secrets(&installation, context) {
                if let Some(secret) = get::<Secret>(objects, &namespace, Some(name)).await? {
                    set.add_secret(secret);
                }
            }
        }
        let PullSecrets { keyring, notes, error } = secrets;
        let error =
            error.map(|message| OperationError::new("InitPrerequisites", Reason::SetupRegistries, message));
        Ok(Self { installation, context, overwrites, objects: set, keyring: Arc::new(keyring), notes, error })
    }

    /// Returns the namespace of the Installation.
    pub(crate) fn namespace(&self) -> &str {
        self.installation.metadata.namespace.as_deref().unwrap_or_default()
    }

    /// Returns the credentials for registries.
    pub(crate) fn keyring(&self) -> Arc<Keyring> {
        Arc::clone(&self.keyring)
    }

    #[cfg(test)]
    pub(crate) fn of_test(installation: Installation) -> Self {
        Self {
            installation,
            context: None,
            overwrites: None,
            objects: ObjectSet::default(),
            keyring: Arc::default(),
            notes: Vec::new(),
            error: None,
        }
    }

    #[cfg(test)]
    pub(crate) fn of_secret(installation: Installation, name: &str, value: &[u8]) -> Self {
        let mut inputs = Self::of_test(installation);
        let value = [("value".to_owned(), value.to_vec())].into();
        inputs.objects.secrets.insert(name.to_owned(), value);
        inputs
    }

    /// Resolves the reference without reading from a repository.
    pub(crate) fn resolve(&self) -> Resolution {
        let mut resolution = self.evaluate();
        resolution.warnings.extend(self.notes.iter().cloned().map(Into::into));
        // The order of errors: pull secrets come before the OCM configuration, and after everything
        // else (`components.md` 4.1).
        let is_later = resolution.error.as_ref().is_none_or(|error| error.reason == Reason::SetupRegistries);
        if let Some(error) = self.error.clone().filter(|_| is_later && resolution.reference.is_some()) {
            resolution.error = Some(error);
        }
        resolution
    }

    /// Checks the signature of the component if one is required.
    pub(crate) fn verify(
        &self,
        policy: SignaturePolicy,
        resolution: &Resolution,
        repositories: &dyn Repositories,
    ) -> Result<(), OperationError> {
        let check = SignatureCheck { policy, now: jiff::Timestamp::now().as_second() };
        self.with_inputs(|inputs| resolution.verify(check, inputs, repositories))
    }

    fn evaluate(&self) -> Resolution {
        self.with_inputs(resolve)
    }

    fn with_inputs<T>(&self, work: impl FnOnce(&Inputs<'_>) -> T) -> T {
        work(&Inputs {
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
            signatures: None,
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
