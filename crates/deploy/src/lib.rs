//! The contract of deployers (`installations.md` 7.7) as a loop around [`Deployer`]: responsibility
//! for an item, pick-up, rounds of work until its end or its deadline, one write of the result, and
//! the export Secret. Also the cluster of a Target with kubeconfigs for it, and the source of a
//! TargetSync.
//!
//! ```text
//! DeployItem event ──> DeployLoop ──responsible?──> pick-up ──> Deployer::reconcile or delete ──> status, export Secret
//!                          ^                                                              │ not at its end
//!                          └── when what it waits for has come (Watches), or after a pause ──┘
//! ```
//!
//! A round of work never waits: objects that are not ready are read again in a later round. So a
//! process may end at any time, an item that another process has finished is not touched again, and
//! a slow item does not block others. A round names the objects that it waits for. Those are
//! watched between two rounds, so that the next round starts when it can make progress.

mod deploy_loop;
mod deployer;
mod drift;
mod export_secret;
mod grants;
mod issue;
mod kubeconfig;
mod missing_cluster;
mod narration;
mod selector;
mod service;
mod source;
mod target;
mod tokens;
mod waiting;
mod watches;

pub use deploy_loop::{DeployLoop, identity, with_last_error};
pub use deployer::{Deployer, Failure, Removal, Round, RoundOutcome, Step, Warning};
pub use drift::DriftChecks;
pub use grants::GrantError;
pub use issue::{ClusterUser, IssueError, Issued};
pub use selector::{TargetSelector, TargetSelectors};
pub use service::{DeployerService, Registration};
pub use source::{Source, SourceError};
pub use target::{TargetError, Targets};
pub use tokens::TokenRules;
pub use watches::Watches;
