//! Sources of components and charts for services, with their credentials.
//!
//! ```text
//! file of --repositories ──MapFile──> RepositoryMap ─┐
//! Context ──pull secrets──> Keyring ─────────────────┴─> repositories of one Context
//! ```

mod map_file;
mod pull_secrets;

pub use map_file::{ContextRepositories, MapFile};
pub use pull_secrets::PullSecrets;
