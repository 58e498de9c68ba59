//! Source cluster of a TargetSync, accessed only with the credentials in `spec.secretRef`.

use std::collections::BTreeMap;
use std::sync::Arc;

use groundwork_api::{
    ByteString, LocalSecretReference, ObjectMeta, ResourceExt as _, Target, TargetSpec, TargetSync,
};
use groundwork_apply::{Cluster, is_being_deleted};
use groundwork_controller::{ApiError, Objects};
use groundwork_lifecycle::target_sync::{Account, KUBERNETES_CLUSTER, SHOOT_LIFE, TOKEN_LIFE};
use k8s_openapi::api::core::v1::Secret;

use crate::grants::{self, GARDENER, GrantError, kind, shoot, shoot_kind};
use crate::target::{TargetError, Targets};

/// Reason why the source does not answer a request. The texts never quote a credential.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    #[error("spec.secretRef: {0}")]
    Access(String),
    #[error(
        "the user of spec.secretRef may not {verb} {what} in the source cluster: its credentials are wrong or have \
         expired, or it lacks a permission in that cluster"
    )]
    Refused { verb: &'static str, what: String },
    #[error(
        "the source cluster does not serve the kind Shoot of {GARDENER}, so it is not a Gardener cluster"
    )]
    NoGardener,
    /// An error of the API, which may go away by itself.
    #[error("the source cluster: {0}")]
    Api(ApiError),
    #[error("the answer of the source cluster to a request for {0} is not valid")]
    Answer(&'static str),
}

impl From<ApiError> for SourceError {
    fn from(error: ApiError) -> Self {
        match error {
            // The text of `ApiError` is about the home cluster, so use one about the source.
            ApiError::Forbidden { verb, resource } => Self::Refused { verb, what: resource },
            other => Self::Api(other),
        }
    }
}

impl From<GrantError> for SourceError {
    fn from(error: GrantError) -> Self {
        match error {
            GrantError::Refused { verb, what } => Self::Refused { verb, what },
            GrantError::NoGardener => Self::NoGardener,
            GrantError::Api(error) => Self::Api(error),
            GrantError::Answer(what) => Self::Answer(what),
        }
    }
}

/// Converts the errors of a Target, because their texts would call the source a Target.
impl From<TargetError> for SourceError {
    fn from(error: TargetError) -> Self {
        Self::Access(match error {
            TargetError::Content(problem) => format!("its kubeconfig cannot be used: {problem}"),
            TargetError::Refused { field, instead } => format!(
                "its kubeconfig cannot be used: {field} is refused, because the kubeconfig must contain its \
                 credentials; write {instead} instead"
            ),
            TargetError::Secret { name, key } => {
                format!("the secret {name} does not exist, or has no entry {key:?}")
            }
            other => other.to_string(),
        })
    }
}

/// A source cluster, with the namespace from which to read.
#[derive(Debug, Clone)]
pub struct Source {
    cluster: Arc<Cluster>,
    namespace: String,
}

impl Source {
    /// Returns the source of a TargetSync. Its kubeconfig is checked, and its client cached, like
    /// that of a Target.
    ///
    /// # Errors
    ///
    /// The Secret or its content cannot be used.
    pub async fn of(sync: &TargetSync, targets: &Targets, objects: &Objects) -> Result<Self, SourceError> {
        let reference = LocalSecretReference {
            name: sync.spec.secret_ref.name.clone(),
            key: Some(sync.spec.secret_key().to_owned()),
        };
        let target = Target {
            metadata: ObjectMeta { namespace: sync.namespace(), ..ObjectMeta::default() },
            spec: TargetSpec {
                type_: KUBERNETES_CLUSTER.to_owned(),
                secret_ref: Some(reference),
                ..TargetSpec::default()
            },
        };
        let cluster = targets.cluster(&target, objects).await?;
        Ok(Self { cluster, namespace: sync.spec.source_namespace.clone() })
    }

    /// Returns the Secrets of the namespace, by name.
    ///
    /// # Errors
    ///
    /// The Secrets cannot be read.
    pub async fn secrets(&self) -> Result<BTreeMap<String, BTreeMap<String, ByteString>>, SourceError> {
        let found = self.cluster.list(&kind("v1", "Secret", "secrets"), Some(&self.namespace), "").await?;
        let parsed = found.into_iter().map(|secret| {
            // The error text may quote the Secret, so drop it.
            let secret: Secret =
                serde_json::from_value(secret).map_err(|_| SourceError::Answer("Secrets"))?;
            Ok((secret.name_any(), secret.data.unwrap_or_default()))
        });
        parsed.collect()
    }

    /// Returns the names of the Shoots of the namespace.
    ///
    /// # Errors
    ///
    /// The Shoots cannot be read, or the source does not serve the kind Shoot.
    pub async fn shoots(&self) -> Result<Vec<String>, SourceError> {
        let kind = shoot_kind(&self.cluster).await?;
        let mut pages = self.cluster.pages(&kind, Some(&self.namespace), "")?;
        let mut names = Vec::new();
        while let Some(page) = pages.next().await? {
            let of_page = page.objects.iter().filter_map(|shoot| shoot["metadata"]["name"].as_str());
            names.extend(of_page.map(str::to_owned));
        }
        Ok(names)
    }

    /// Reports whether a Shoot exists and is not being deleted (`installations.md` 8.5).
    ///
    /// # Errors
    ///
    /// Fails as [`Source::shoots`] does. A source without the kind Shoot is an error, because it
    /// does not prove that this Shoot is gone.
    pub async fn has_shoot(&self, name: &str) -> Result<bool, SourceError> {
        let kind = shoot_kind(&self.cluster).await?;
        let found = self.cluster.get_of(&kind, &shoot(&self.namespace, name)).await?;
        Ok(found.is_some_and(|shoot| !is_being_deleted(&shoot)))
    }

    /// Returns a kubeconfig of a Shoot's administrator, valid for 24 hours.
    ///
    /// # Errors
    ///
    /// The source refuses the kubeconfig.
    pub async fn shoot_kubeconfig(&self, name: &str) -> Result<ByteString, SourceError> {
        let shoot = shoot(&self.namespace, name);
        Ok(grants::shoot_kubeconfig(&self.cluster, &shoot, SHOOT_LIFE).await?.content)
    }

    /// Returns a token of a service account, valid for 90 days.
    ///
    /// # Errors
    ///
    /// The source refuses the token.
    pub async fn token(&self, account: &Account) -> Result<String, SourceError> {
        Ok(grants::token(&self.cluster, account, TOKEN_LIFE).await?.content)
    }
}
