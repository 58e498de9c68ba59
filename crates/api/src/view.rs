//! Content of events about objects, and typed access to it.
//!
//! The watcher publishes a [`Snapshot`] of an object. A view, such as [`Installation`], reads the
//! snapshot of one kind: it borrows the snapshot and looks up each field when it is called. Only
//! the views know the paths of fields, and [`WATCHED`] is built from the same paths, so published
//! and read paths always agree. Views show names, references, jobs, phases and times for schedules,
//! but never values.

mod deploy;
mod fields;
mod installation;
mod packages;
mod projection;
mod snapshot;
#[cfg(test)]
mod tests;

pub use deploy::{Context, Data, DeployItem, Execution, TargetSync};
pub use fields::Job;
pub use installation::{
    DataExport, DataImport, Dependent, FailedReconcile, Installation, ReconcileStatus, SucceededReconcile,
    TargetExport, TargetImport,
};
pub use packages::{
    Condition, PackageRevisionSet, PackageVariant, PackageVariantSet, Repository, TargetSelector,
    Upstream as PackageUpstream,
};
pub use projection::{WATCHED, Watched, is_own_annotation, project};
pub use snapshot::{Owner, Snapshot};
