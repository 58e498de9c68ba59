//! Identity of a cluster, independent of its address and credentials (`installations.md` 7.9,
//! clusters).

use std::sync::Arc;

use groundwork_controller::ApiError;
use serde::{Deserialize, Serialize};

use crate::cluster::{Cluster, ResourceKind};
use crate::object::Reference;

/// Namespace that identifies the cluster: every cluster has it, and it is never recreated.
const NAMESPACE: &str = "kube-system";
/// Maximum length of a UID. Those of API servers have 36 characters.
const LONGEST_UID: usize = 128;

/// Server that a Target names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Address for messages, without credentials.
    pub address: String,
    /// Fingerprint of the CA certificates of the server; `None` if the system's CAs are trusted.
    pub authority: Option<String>,
}

/// Characteristics by which a cluster is recognised.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterIdentity {
    /// UID of the namespace `kube-system`, if the Target's user may read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authority: Option<String>,
    pub server: String,
}

impl ClusterIdentity {
    /// Reports whether both are the same cluster. UIDs decide where both are known. Otherwise
    /// certificates or address must match, so one of them may change at a time.
    pub fn is_same(&self, other: &Self) -> bool {
        match (&self.uid, &other.uid) {
            (Some(one), Some(another)) => one == another,
            _ => {
                let is_known_by_authority = self.authority.is_some() && self.authority == other.authority;
                is_known_by_authority || self.server == other.server
            }
        }
    }
}

impl ClusterIdentity {
    /// Returns this identity with the earlier UID, if a user with fewer rights can no longer read
    /// it.
    #[must_use]
    pub fn with_known(&self, before: &Self) -> Self {
        Self { uid: self.uid.clone().or_else(|| before.uid.clone()), ..self.clone() }
    }
}

impl std::fmt::Display for ClusterIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.uid {
            Some(uid) => write!(f, "{} ({NAMESPACE} {uid})", self.server),
            None => f.write_str(&self.server),
        }
    }
}

impl Cluster {
    /// Returns the identity of the cluster, which is requested once for each connection.
    ///
    /// # Errors
    ///
    /// The cluster does not answer. It is not an error if the user may not read the namespace.
    pub async fn identity(&self) -> Result<Arc<ClusterIdentity>, ApiError> {
        let mut known = self.identity.lock().await;
        if let Some(identity) = &*known {
            return Ok(Arc::clone(identity));
        }
        let kind = ResourceKind {
            api_version: "v1".to_owned(),
            kind: "Namespace".to_owned(),
            plural: "namespaces".to_owned(),
            is_namespaced: false,
            has_status: true,
        };
        let reference = Reference {
            api_version: kind.api_version.clone(),
            kind: kind.kind.clone(),
            namespace: None,
            name: NAMESPACE.to_owned(),
        };
        let found = match self.get_of(&kind, &reference).await {
            Ok(found) => found,
            Err(ApiError::Forbidden { .. } | ApiError::Refused { .. }) => None,
            Err(error) => return Err(error),
        };
        let uid = found.as_ref().and_then(|found| found["metadata"]["uid"].as_str());
        let uid = uid.filter(|uid| !uid.is_empty() && uid.len() <= LONGEST_UID).map(str::to_owned);
        let Server { address, authority } = &self.bounds.server;
        let identity = ClusterIdentity { uid, authority: authority.clone(), server: address.clone() };
        let identity = Arc::new(identity);
        *known = Some(Arc::clone(&identity));
        Ok(identity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(uid: &str, authority: &str, server: &str) -> ClusterIdentity {
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        ClusterIdentity { uid: given(uid), authority: given(authority), server: server.to_owned() }
    }

    #[test]
    fn what_makes_a_cluster_the_same() {
        let was = identity("u", "ca", "https://a");
        for (now, expected) in [
            (identity("u", "ca", "https://a"), true),
            // The cluster moved behind a proxy, with new certificates.
            (identity("u", "new", "https://proxy"), true),
            // The cluster was recreated at the same address.
            (identity("v", "ca", "https://a"), false),
            // The new user has fewer rights and cannot read the UID.
            (identity("", "ca", "https://b"), true),
            (identity("", "new", "https://a"), true),
            (identity("", "new", "https://b"), false),
            (identity("", "", "https://b"), false),
        ] {
            assert_eq!(was.is_same(&now), expected, "{now:?}");
            assert_eq!(now.is_same(&was), expected, "{now:?}");
        }
        assert_eq!(identity("", "new", "https://a").with_known(&was), identity("u", "new", "https://a"));
        let (one, other) = (identity("", "", "https://a"), identity("", "", "https://b"));
        assert!(one.is_same(&one) && !one.is_same(&other));
    }
}
