//! What a job of an Installation finds, writes and reports: the same in a cluster and offline.
//!
//! ```text
//! Inputs (Installation, Context, overwrites, imported objects, repositories)
//!    └─ prepare: validate, effective reference, component, blueprint, component closure
//!         └─ load imports ── render ──> Outcome: conditions, error, Execution, DeployItems
//! ```
//!
//! Pure: callers read the objects that an Installation names before they call, and write what comes back.
//! The rules are those of the chapter `installations.md`.

mod conditions;
mod data;
pub mod deployer;
mod error;
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
pub use data::{ScopedObject, export_objects, export_values, import_copies};
pub use error::OperationError;
pub use gaps::{Effect, GAPS, Gap, topics};
pub use imports::{Entries, ImportedNames, ImportedObjects, ObjectSet, is_import_of};
pub use job::{
    BlueprintCache, BlueprintDigest, Child, ExportOutcome, Inputs, JobError, Offline, Outcome,
    OverwriteChange, OverwriteReport, Resolution, Subject, Warning, export, export_with, findings, render,
    render_with, resolve,
};
pub use message::is_shortened;
pub use names::{deploy_item_name, object_name, scope_name};
pub use objects::{deploy_items, execution};
pub use prepare::{Prepared, imports_hash, prepare};
pub use validate::validate;
