//! Manifests, blueprints and archives of other projects that tests compare ours with. They are not
//! part of this repository, so they may be missing.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::skip::skipped;

/// Environment variable with the folder of the fixtures.
pub const FIXTURES: &str = "GROUNDWORK_FIXTURES";

/// Returns a file or folder of the fixtures by its path; an empty path is the whole folder. On
/// `None` the caller should return: the test is skipped, and a note has been printed.
///
/// Searches the folder in `GROUNDWORK_FIXTURES`, or else a folder beside the workspace.
///
/// # Panics
/// The variable is set and the path does not exist, because a user who sets it wants the
/// comparison.
#[must_use]
pub fn fixture(path: &str) -> Option<PathBuf> {
    match look_up(named(), path) {
        Ok(found) => Some(found),
        Err(missing) => {
            assert!(!missing.is_named, "{missing}");
            skipped(&missing.to_string());
            None
        }
    }
}

/// Returns the note at the end of all tests if the fixtures are missing.
pub fn without_fixtures() -> Option<String> {
    look_up(named(), "").err().map(|missing| missing.to_string())
}

fn named() -> Option<OsString> {
    std::env::var_os(FIXTURES).filter(|value| !value.is_empty())
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the fixtures are not at hand: {} does not exist; {FIXTURES} names their folder", .path.display())]
struct Missing {
    path: PathBuf,
    /// True if the environment variable names the folder.
    is_named: bool,
}

fn look_up(named: Option<OsString>, path: &str) -> Result<PathBuf, Missing> {
    let is_named = named.is_some();
    let beside = || concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/fixtures").into();
    let root = named.map_or_else(beside, PathBuf::from);
    let path = if path.is_empty() { root } else { root.join(path) };
    if path.exists() { Ok(path) } else { Err(Missing { path, is_named }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_named_has_to_be_there() {
        let named = |path: &str| look_up(Some(env!("CARGO_MANIFEST_DIR").into()), path);
        assert_eq!(named("").unwrap(), PathBuf::from(env!("CARGO_MANIFEST_DIR")));
        assert!(named("src/fixtures.rs").unwrap().is_file());
        let missing = named("src/nothing").unwrap_err();
        assert!(missing.is_named && missing.to_string().contains("src/nothing does not exist"), "{missing}");
        assert!(!look_up(None, "no such fixture").unwrap_err().is_named);
    }
}
