//! Kubeconfigs with users of their own, made by the rights of Targets.

use std::fmt;

use groundwork_lifecycle::target_sync::Account;
use jiff::Timestamp;

use crate::grants::GrantError;
use crate::target::TargetError;

/// User of a new kubeconfig.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClusterUser {
    ServiceAccount(Account),
    /// The administrator of a Shoot. The cluster of the Target is then that of the Gardener.
    ShootAdmin {
        namespace: String,
        name: String,
    },
}

/// New kubeconfig.
#[derive(Clone, PartialEq, Eq)]
pub struct Issued {
    /// Text of the kubeconfig.
    pub kubeconfig: Vec<u8>,
    pub expiration: Timestamp,
}

/// Omits the kubeconfig, which contains credentials.
impl fmt::Debug for Issued {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issued").field("expiration", &self.expiration).finish_non_exhaustive()
    }
}

/// Reason why there is no kubeconfig. The texts never quote a credential.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IssueError {
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error(transparent)]
    Grant(#[from] GrantError),
}
