//! Versions and constraints as Masterminds/semver v3.4 reads them (`gotemplate.md` 12.11;
//! `spiff.md` 11.2).

mod constraint;
mod version;

pub use constraint::{Constraint, ConstraintError};
pub use version::{Version, VersionError};
