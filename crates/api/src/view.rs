//! What an event shows of an object, and how it is read.
//!
//! A [`Snapshot`] is what the watcher publishes of an object. A view, such as [`Installation`], reads the snapshot of one
//! kind; it borrows it, and looks up a field when it is asked for. Nobody else knows where a field lies: the paths that the
//! views read are the paths that [`WATCHED`] has published, by construction. What they show are names, references, jobs,
//! phases and what schedules follow from; never a value.

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
