//! Where component versions are stored, and how they are read from there (`components.md` sections 6 and 7).
//!
//! ```text
//! repository context --RepositoryMap--> store
//!                                        └─ CtfDirectory: artifact-index.json, blobs/sha256.<hex>
//!                                             └─ artifact: OCI manifest -> descriptor layer, local blobs
//! ```
//!
//! Every blob is checked against its digest before anyone sees it.

mod artifact;
mod ctf;
mod digest;
mod map;
mod write;

pub use ctf::CtfDirectory;
pub use digest::Digest;
pub use map::{MapError, RepositoryMap};
pub use write::{CtfWriter, LocalBlob, WriteError};
