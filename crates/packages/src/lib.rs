//! Packages outside of this process: where they are stored, and the functions that are programs or
//! servers.
//!
//! - [`git`]: revisions of packages in git repositories,
//! - [`porch`]: revisions of packages on a Porch server,
//! - [`functions`]: functions that are not built into `groundwork_krm`.
//!
//! All of it does I/O. The rules are those of `packagevariants.md`.

pub mod functions;
pub mod git;
pub mod porch;
