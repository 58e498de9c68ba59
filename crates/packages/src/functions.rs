//! Runners for functions that are not built in (`packagevariants.md` 8.4), for
//! [`groundwork_krm::render`].
//!
//! ```text
//! render ──ResourceList──┬─> Executables: a program, its process group and its limits
//!                        ├─> Containers: images, with podman, docker or nerdctl of this machine
//!                        ├─> Kubeconform: schemas that the operator keeps
//!                        └─> RemoteRunner: a server that runs images
//! ```
//!
//! A runner blocks while its function runs.

mod containers;
mod executables;
mod kubeconform;
#[cfg(target_os = "linux")]
mod memory;
mod remote;
mod schemas;

use std::time::Duration;

pub use containers::{Containers, NoEngine};
pub use executables::Executables;
pub use kubeconform::Kubeconform;
pub use remote::RemoteRunner;
pub use schemas::{Schemas, SchemasError};

/// Default limit of the output in bytes, the limit of a package (`packagevariants.md` 6.9).
const MAX_OUTPUT: u64 = 6 << 20;

/// Limits of a function (`packagevariants.md` 8.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Wall-clock time of the function from its start to its end.
    pub time: Duration,
    /// Bytes of resident memory of all processes of the function; only on Linux.
    pub memory: u64,
    /// Bytes of the function's output document.
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
