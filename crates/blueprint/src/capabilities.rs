//! External sources and limits that the caller grants to templates.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use groundwork_budget::TemplateLimits;
pub use groundwork_gotemplate::{Clock, Randomness};
use serde::{Deserialize, Serialize};

/// Kubeconfig that a template asks for (`blueprints.md` 5.5).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct KubeconfigRequest {
    /// Name of a Target in the namespace of the Installation.
    pub target: String,
    pub user: ClusterUser,
    /// Namespace of the service account or Shoot.
    pub namespace: String,
    /// Name of the service account or Shoot.
    pub name: String,
    pub expiration_seconds: i64,
}

/// Kind of the user in a new kubeconfig.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ClusterUser {
    ServiceAccount,
    ShootAdmin,
}

/// Kubeconfig with a user of its own.
#[derive(Clone, PartialEq, Eq)]
pub struct IssuedKubeconfig {
    pub kubeconfig: Vec<u8>,
    /// Time at which its credentials expire, in seconds since 1970.
    pub expiration: i64,
}

/// Omits the kubeconfig, which contains credentials.
impl fmt::Debug for IssuedKubeconfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IssuedKubeconfig").field("expiration", &self.expiration).finish_non_exhaustive()
    }
}

/// Issuer of kubeconfigs, with the rights of Targets.
pub trait KubeconfigIssuer: Send + Sync {
    /// Makes a kubeconfig.
    ///
    /// # Errors
    ///
    /// A sentence without credentials.
    fn issue(&self, request: &KubeconfigRequest) -> Result<IssuedKubeconfig, String>;
}

/// Access of templates to the clusters of Targets.
#[derive(Clone, Default)]
pub enum ClusterAccess {
    /// Functions that need a cluster fail.
    #[default]
    None,
    /// Functions that need a cluster return placeholders, as without a server.
    Placeholders,
    /// Functions get new kubeconfigs.
    Issuer(Arc<dyn KubeconfigIssuer>),
}

/// Sources that executions may use (`blueprints.md` 5.4, 6.6). By default there are none, and a
/// function that needs one fails when it is called. Data mappings never get any.
#[derive(Clone, Default)]
pub struct Capabilities {
    pub clock: Option<Clock>,
    pub randomness: Option<Randomness>,
    /// Time at which rendering is cancelled.
    pub deadline: Option<Instant>,
    /// Limits for all executions of one blueprint together. Its exports, and its data mappings, get
    /// the same limits again.
    pub limits: TemplateLimits,
    pub clusters: ClusterAccess,
    /// Fingerprint of the imports. A kept kubeconfig serves only renderings with the same imports.
    pub imports_hash: String,
}

impl Capabilities {
    /// Grants the clock and the randomness of this machine.
    pub fn system() -> Self {
        Self {
            clock: Some(Arc::new(SystemTime::now)),
            randomness: Some(Arc::new(|buffer| getrandom::fill(buffer).map_err(|error| error.to_string()))),
            deadline: None,
            limits: TemplateLimits::default(),
            clusters: ClusterAccess::None,
            imports_hash: String::new(),
        }
    }

    /// Returns the same capabilities with other limits.
    #[must_use]
    pub fn limited(self, limits: TemplateLimits) -> Self {
        Self { limits, ..self }
    }

    /// Returns the same capabilities, with placeholders for what needs a cluster.
    #[must_use]
    pub fn with_placeholders(self) -> Self {
        Self { clusters: ClusterAccess::Placeholders, ..self }
    }

    /// Returns the same capabilities, with kubeconfigs from an issuer.
    #[must_use]
    pub fn with_issuer(self, issuer: Arc<dyn KubeconfigIssuer>) -> Self {
        Self { clusters: ClusterAccess::Issuer(issuer), ..self }
    }

    /// Returns the same capabilities for renderings with these imports.
    #[must_use]
    pub fn with_imports(self, imports_hash: &str) -> Self {
        Self { imports_hash: imports_hash.to_owned(), ..self }
    }

    /// Returns the same capabilities with a deadline `limit` from now.
    #[must_use]
    pub fn within(self, limit: Duration) -> Self {
        Self { deadline: Some(Instant::now() + limit), ..self }
    }
}

impl fmt::Debug for ClusterAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Placeholders => "Placeholders",
            Self::Issuer(_) => "Issuer",
        })
    }
}

impl fmt::Debug for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Capabilities")
            .field("clock", &self.clock.is_some())
            .field("randomness", &self.randomness.is_some())
            .field("deadline", &self.deadline)
            .field("limits", &self.limits)
            .finish()
    }
}
