//! Stores of component versions, and access to them (`components.md` 6, 7).
//!
//! ```text
//! repository context --RepositoryMap--> Store
//!                                        ├─ ctf: artifact-index.json, blobs/sha256.<hex> ─┐
//!                                        ├─ flat: descriptors as files, blobs beside them ┤
//!                                        │       directory, tar, tar+gzip: module tree <──┘
//!                                        └─ oci: a registry over HTTP
//!        manifest ──blobs──> descriptor layer, local blobs, artifact sets
//!                            (the same code for archives and registries)
//! ```
//!
//! Every blob is compared with its digest before a reader gets the end of it.

mod artifact;
mod artifact_set;
mod blobs;
mod chart_folder;
mod ctf;
mod digest;
mod disk;
mod flat;
mod map;
mod oci;
mod outside;
mod pack;
pub mod sources;
#[cfg(test)]
mod testing;
mod tree;
mod write;

pub use chart_folder::load_chart_folder;
pub use digest::Digest;
pub use disk::DiskCache;
pub use map::push;
pub use map::{MapError, Registry, RepositoryMap, Store};
pub use oci::{
    Allowance, AnswerMemory, Authorization, CHART, ChartClient, ChartError, Holding, Keyring, LARGEST_CHART,
    NetworkOptions, PushError, Pushed, RepositoryChartError, chart_of_content, is_packed_artifact,
    repository_url,
};
pub use pack::{PackError, write_archive};
pub use write::{CtfWriter, LocalBlob, WriteError};
