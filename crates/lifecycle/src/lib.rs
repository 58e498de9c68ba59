//! Logic of the jobs of an Installation: findings, objects and status, the same in a cluster and
//! offline.
//!
//! ```text
//! Inputs (Installation, Context, overwrites, imported objects, repositories)
//!    └─ prepare: validate, effective reference, component, blueprint, component closure
//!         └─ load imports ── render ──> JobOutcome: conditions, error, Execution, DeployItems
//! ```
//!
//! The crate does no I/O: callers read the objects that an Installation names before the call, and
//! write the objects of the outcome after it. The rules are those of the chapter
//! `installations.md`.

mod automatic;
mod conditions;
mod data;
pub mod deployer;
mod error;
mod gaps;
mod imports;
mod item_types;
mod job;
pub mod machine;
mod message;
mod names;
mod objects;
pub mod overview;
mod ownership;
mod phase;
mod prepare;
mod protocol;
mod reason;
mod siblings;
pub mod sources;
mod takeover;
pub mod target_sync;
mod validate;
pub mod waits;
mod write;

pub use automatic::{Automatic, AutomaticInput, Rule, automatic};
pub use conditions::{ConditionStatus, ConditionUpdate, merge_condition};
pub use data::{ScopedObject, export_objects, export_values, fingerprints, import_copies};
pub use error::OperationError;
pub use gaps::TOPICS;
pub use imports::{Entries, ImportedNames, ImportedObjects, ObjectSet, is_import_of};
pub use item_types::{TypeChange, refused_types};
pub use job::{
    BlueprintCache, BlueprintDigest, Child, ExportOutcome, Inputs, JobError, JobOutcome, Offline,
    OverwriteChange, OverwriteReport, Resolution, SignatureCheck, SignaturePolicy, Subject, Warning, export,
    findings, render, resolve, signature_secrets,
};
pub use message::is_shortened;
pub use names::{
    ROOT_SCOPE, SOURCE_TYPE_EXPORT, SOURCE_TYPE_IMPORT, deploy_item_name, living_scope, object_name,
    parent_name, scope_name, state_secret_name,
};
pub use objects::{assumed_context, deploy_items, execution};
pub use ownership::{Ownership, ownership};
pub use prepare::{
    Completion, OwnNames, OwnScope, Prepared, UnreadStates, complete, imports_hash, item_exports, prepare,
    state_of,
};
pub use reason::Reason;
pub use siblings::{DataKind, DataName, Interface, Relations, Scope, SiblingIndex};
pub use takeover::{Taken, may_publish};
pub use validate::validate;
