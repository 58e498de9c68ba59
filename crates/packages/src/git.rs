//! Package store: packages and their revisions in git repositories (`packagevariants.md` 6).
//!
//! ```text
//! remote <──git──> BareClone: refs, objects ──discover──> Snapshot: revisions, problems, repairs
//! Store: registered repositories ──task──> Staged: files in memory ──commit──> one push, leases on every ref
//! ```
//!
//! This crate never talks to a cluster. Its operations block on the disk, on the program `git` and
//! on the network.

mod access;
mod address;
mod batch;
mod clone;
mod discovery;
mod draft;
mod error;
mod functions;
#[cfg(test)]
mod functions_tests;
mod layout;
mod lifecycle;
mod limits;
#[cfg(test)]
mod limits_tests;
mod listing;
mod made;
mod marks;
mod message;
mod meters;
mod names;
#[cfg(test)]
mod names_tests;
mod objects;
mod process;
mod progress;
mod remote;
#[cfg(test)]
mod remote_tests;
mod repository;
#[cfg(test)]
mod repository_tests;
mod revision;
mod search;
mod settings;
mod snapshot;
mod store;
mod tasks;
#[cfg(test)]
mod tasks_tests;
#[cfg(test)]
mod testing;
mod visit;

pub use access::{Access, Credentials, Proxy, ProxyError};
pub use draft::{Committed, Staged};
pub use error::StoreError;
pub use functions::{Functions, SharedRunner};
pub use groundwork_krm::OnMissing;
pub use marks::Marks;
pub use message::Owner;
pub use meters::Meters;
pub use names::{check_file_names, check_files};
pub use objects::{Content, Files};
pub use remote::RemoteOptions;
pub use repository::{Actor, GitRepository};
pub use revision::{Facts, Revision, RevisionPlace};
pub use settings::{Settings, SettingsError};
pub use snapshot::{Left, Snapshot};
pub use store::{MAX_PACKAGE_BYTES, Options, Store};
pub use tasks::{NewDraft, Original, Source, Update};
pub use visit::Address;
