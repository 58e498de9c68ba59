//! What a job of an Installation finds, writes and reports: the same in a cluster and offline.
//!
//! ```text
//! Inputs (Installation, Context, overwrites, imported objects, repositories)
//!    └─ prepare: validate, effective reference, component, blueprint, component closure
//!         └─ load imports ── render ──> Outcome: conditions, failure, Execution, DeployItems
//! ```
//!
//! Pure: callers read the objects that an Installation names before they call, and write what comes back.
//! The rules are those of the chapter `installations.md`.

mod conditions;
mod data;
pub mod deployer;
mod failure;
mod gaps;
mod imports;
mod job;
pub mod machine;
mod message;
mod names;
mod objects;
mod prepare;
mod validate;

pub use conditions::{ConditionUpdate, merge_condition};
pub use failure::Failure;
pub use gaps::{Effect, GAPS, Gap, topics};
pub use imports::{Entries, ImportedNames, ImportedObjects, ObjectSet};
pub use job::{
    Inputs, Outcome, OverwriteChange, OverwriteReport, Problem, Resolution, Subject, Warning, findings,
    render, resolve,
};
pub use message::is_shortened;
pub use names::{deploy_item_name, object_name, scope_name};
pub use objects::{deploy_items, execution};
pub use prepare::{Prepared, imports_hash, prepare};
pub use validate::validate;
