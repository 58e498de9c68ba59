//! Functions of packages that are not built in (`packagevariants.md` 8.4), as runners that are handed to
//! [`groundwork_krm::render`].
//!
//! ```text
//! render ──ResourceList──┬─> Executables: a program, its process group and its limits
//!                        ├─> Kubeconform: schemas that the operator keeps
//!                        └─> RemoteRunner: a server that runs images
//! ```
//!
//! They block while a function runs.

mod executables;
mod kubeconform;
#[cfg(target_os = "linux")]
mod memory;
mod remote;
mod schemas;

use std::time::Duration;

pub use executables::Executables;
pub use kubeconform::Kubeconform;
pub use remote::RemoteRunner;
pub use schemas::{Schemas, SchemasError};

/// The largest output by default, in bytes: what a package may hold (6.9).
const MAX_OUTPUT: u64 = 6 << 20;

/// What a function may use (8.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// From its start to its end, on the clock.
    pub time: Duration,
    /// Bytes in memory of all its processes; only on Linux.
    pub memory: u64,
    /// Bytes of the document that it writes.
    pub output: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { time: Duration::from_secs(60), memory: 512 << 20, output: MAX_OUTPUT }
    }
}

impl Limits {
    fn too_slow(&self) -> String {
        format!("killed after {} s", self.time.as_secs())
    }

    fn too_large(&self) -> String {
        format!("used more than {} MiB", self.memory >> 20)
    }

    fn too_long(&self) -> String {
        format!("wrote more than {} bytes", self.output)
    }
}
