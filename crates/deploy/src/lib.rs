//! The contract of deployers (`installations.md` 7.7) as a loop around [`Deployer`]: whose an item is, its pick-up, rounds of work until
//! its end or its deadline, one result write, its export Secret; the cluster that a Target stands for, and the source of a TargetSync.
//!
//! ```text
//! DeployItem event ──> DeployLoop ──responsible?──> pick-up ──> Deployer::reconcile or delete ──> status, export Secret
//!                          ^                                                              │ not at its end
//!                          └── when what it waits for has come (Watches), or after a pause ──┘
//! ```
//!
//! A round of work never waits: what is not ready is looked at again, from what is there. So a process may end at any time, an item
//! that somebody else has ended is not touched any more, and a slow item keeps nobody else's work from being done. A round says what it lacks;
//! that is watched between two rounds, so that the next one comes when it is of use.

mod deploy_loop;
mod deployer;
mod drift;
mod export_secret;
mod kubeconfig;
mod narration;
mod selector;
mod source;
mod target;
mod tokens;
mod vanished;
mod waiting;
mod watches;

pub use deploy_loop::{DeployLoop, identity, with_last_error};
pub use deployer::{Deployer, Failure, Outcome, Removal, Round, Step, Warning};
pub use drift::DriftChecks;
pub use selector::{TargetSelector, TargetSelectors};
pub use source::{Source, SourceError};
pub use target::{TargetError, Targets};
pub use tokens::TokenRules;
pub use watches::Watches;
