//! Starts the real servers that tests need.
//!
//! A server runs on a free port of the loopback device, with a new folder for its data. Server and
//! folder are gone when the handle is dropped, even if the test panics or is killed.
//!
//! Without the feature `run` the crate only finds binaries and fixtures of other projects, and
//! reads pages.

mod binaries;
mod browser;
#[cfg(feature = "run")]
mod chromium;
#[cfg(feature = "run")]
mod control_plane;
mod fixtures;
mod git;
#[cfg(feature = "run")]
mod git_server;
#[cfg(feature = "run")]
mod hostile;
mod hostile_trees;
mod images;
pub mod made_up;
#[cfg(feature = "run")]
mod nats;
pub mod page;
#[cfg(feature = "run")]
mod process;
#[cfg(feature = "run")]
mod program;
#[cfg(feature = "run")]
mod registry;
mod skip;

pub use binaries::{Binary, NotFound, Server, Version, build_folder, find};
pub use browser::{AXE, BrowserFiles, NoBrowser, axe_file, find_browser, is_axe};
#[cfg(feature = "run")]
pub use chromium::Chromium;
#[cfg(feature = "run")]
pub use control_plane::{Audit, ControlPlane, ControlPlaneOptions};
pub use fixtures::{FIXTURES, fixture, without_fixtures};
pub use git::git;
#[cfg(feature = "run")]
pub use git_server::GitServer;
#[cfg(feature = "run")]
pub use hostile::{Honest, HostileServer, Trick};
pub use hostile_trees::{HostilePackage, Raw, RawTree, hostile_packages, publish_trees, write_tree};
pub use images::image_environment;
#[cfg(feature = "run")]
pub use nats::Nats;
#[cfg(feature = "run")]
pub use process::{StartError, unused_port};
#[cfg(feature = "run")]
pub use program::Program;
#[cfg(feature = "run")]
pub use registry::{Registry, RegistryOptions};
pub use skip::{servers_or_skip, skipped};
