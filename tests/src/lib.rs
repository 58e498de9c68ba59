//! Shared parts of the end-to-end suites, which run against real servers.

mod cluster;
mod fixtures;
mod front;
pub mod hostile;
mod manifests;
pub mod porch;
mod proxy;
mod system;
mod wait;
mod wire;

pub use cluster::{Cluster, Part, UnknownFields, cluster, install_crds, installed_crds};
pub use fixtures::{Fixtures, fixtures};
pub use front::{Asked, Front};
pub use manifests::{Manifest, documents, files_below, manifests_in, workspace};
pub use proxy::{Proxy, forward, refusal};
pub use system::{ALL, MOCK_DEPLOYER, Service, System, SystemOptions, TARGET_SYNC_RIGHTS};
pub use wait::{get, wait_for};
pub use wire::{Flow, Wire};
