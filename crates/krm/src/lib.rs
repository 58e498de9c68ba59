//! Packages of Kubernetes resources (`packagevariants.md` 3, 6.6 to 6.8, 7 and 8): pure functions
//! from files to files, without access to disk, network or cluster.
//!
//! ```text
//! texts ──File::read──> documents (trees with comments) ──merge, mutate──> changed trees ──File::text──> texts
//! ```
//!
//! An unchanged document keeps its bytes. A changed document is laid out as kpt's tools do it, and
//! keeps its comments, order and quotes.

mod changes;
mod comments;
mod content;
mod crd;
mod creation;
mod describe;
mod file;
mod functions;
mod given;
mod identity;
mod ignore;
mod json;
mod kptfile;
mod merge;
mod mutate;
mod package;
mod render;
mod schema;
mod value;

pub use changes::{Change, Changes, FileChange, ObjectChange, changes};
pub use comments::copy_comments;
pub use content::same_content;
pub use creation::{
    CreationError, Origin, add_merge_keys, clone_package, init_package, restore_context, set_context,
    set_origin, set_package_metadata, set_readiness_gates,
};
pub use describe::{Description, describe};
pub use file::{Document, File, ReadError};
pub use given::GivenObjects;
pub use kptfile::{KptfileError, read as read_kptfile};
pub use merge::{MergeError, Merged, Strategy, Versions, merge};
pub use mutate::{Cluster, Listed, Mutated, Mutation, MutationError, mutate};
pub use package::Package;
pub use render::{
    Answer, FunctionRunner, Item, NativeLimits, OnMissing, Outcome, RenderOptions, Rendered, ResourceList,
    RunError, Target, on_wire, render,
};
