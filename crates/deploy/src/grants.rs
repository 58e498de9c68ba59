//! Credentials that a cluster of a Target grants: tokens of service accounts, and kubeconfigs of
//! Shoots.

use groundwork_api::ByteString;
use groundwork_apply::{Cluster, Reference, ResourceKind};
use groundwork_controller::ApiError;
use groundwork_lifecycle::target_sync::Account;
use jiff::Timestamp;
use serde_json::{Value, json};

/// Group and version of Shoots.
pub(crate) const GARDENER: &str = "core.gardener.cloud/v1beta1";

/// Reason why a cluster grants no credentials. The texts never quote a credential.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GrantError {
    #[error(
        "the user of the target may not {verb} {what} in its cluster: its credentials are wrong or have expired, or it \
         lacks a permission in that cluster"
    )]
    Refused { verb: &'static str, what: String },
    #[error("the cluster does not serve the kind Shoot of {GARDENER}, so it is not a Gardener cluster")]
    NoGardener,
    /// An error of the API, which may go away by itself.
    #[error("the cluster of the target: {0}")]
    Api(ApiError),
    #[error("the answer of the cluster to a request for {0} is not valid")]
    Answer(&'static str),
}

impl From<ApiError> for GrantError {
    fn from(error: ApiError) -> Self {
        match error {
            // The text of `ApiError` is about the home cluster.
            ApiError::Forbidden { verb, resource } => Self::Refused { verb, what: resource },
            other => Self::Api(other),
        }
    }
}

/// Credentials with the time of their end.
pub(crate) struct Granted<T> {
    pub(crate) content: T,
    pub(crate) expiration: Timestamp,
}

/// Requests a kubeconfig of a Shoot's administrator, valid for this number of seconds.
///
/// # Errors
///
/// The cluster refuses it.
pub(crate) async fn shoot_kubeconfig(
    cluster: &Cluster,
    shoot: &Reference,
    seconds: i64,
) -> Result<Granted<ByteString>, GrantError> {
    const WHAT: &str = "adminkubeconfig";
    let request = json!({
        "apiVersion": "authentication.gardener.cloud/v1alpha1", "kind": "AdminKubeconfigRequest",
        "spec": {"expirationSeconds": seconds},
    });
    let answer = cluster.ask(&shoot_kind(cluster).await?, shoot, WHAT, &request).await?;
    let kubeconfig = serde_json::from_value::<ByteString>(answer["status"]["kubeconfig"].clone());
    let content = kubeconfig.ok().filter(|kubeconfig| !kubeconfig.0.is_empty());
    let content = content.ok_or(GrantError::Answer(WHAT))?;
    Ok(Granted { content, expiration: expiration(&answer, seconds) })
}

/// Requests a token of a service account, valid for this number of seconds.
///
/// # Errors
///
/// The cluster refuses it.
pub(crate) async fn token(
    cluster: &Cluster,
    account: &Account,
    seconds: i64,
) -> Result<Granted<String>, GrantError> {
    let kind = kind("v1", "ServiceAccount", "serviceaccounts");
    let reference = reference("v1", "ServiceAccount", &account.namespace, &account.name);
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {"expirationSeconds": seconds},
    });
    let answer = cluster.ask(&kind, &reference, "token", &request).await?;
    let token = answer["status"]["token"].as_str().filter(|token| !token.is_empty());
    let content = token.map(str::to_owned).ok_or(GrantError::Answer("token"))?;
    Ok(Granted { content, expiration: expiration(&answer, seconds) })
}

/// Returns the time of the end. A server that gives none has granted what was asked.
fn expiration(answer: &Value, seconds: i64) -> Timestamp {
    let given = answer["status"]["expirationTimestamp"].as_str().and_then(|time| time.parse().ok());
    given.unwrap_or_else(|| {
        let now = Timestamp::now();
        now.checked_add(jiff::SignedDuration::from_secs(seconds)).unwrap_or(now)
    })
}

/// Returns the kind Shoot as the cluster serves it. Without this check, a missing kind would look
/// like a missing object.
pub(crate) async fn shoot_kind(cluster: &Cluster) -> Result<ResourceKind, GrantError> {
    cluster.kind(GARDENER, "Shoot").await?.ok_or(GrantError::NoGardener)
}

pub(crate) fn shoot(namespace: &str, name: &str) -> Reference {
    reference(GARDENER, "Shoot", namespace, name)
}

pub(crate) fn kind(api_version: &str, kind: &str, plural: &str) -> ResourceKind {
    ResourceKind {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
        is_namespaced: true,
        has_status: false,
    }
}

fn reference(api_version: &str, kind: &str, namespace: &str, name: &str) -> Reference {
    Reference {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        namespace: Some(namespace.to_owned()),
        name: name.to_owned(),
    }
}
