//! Finds the browser for tests of pages, and axe-core, which checks their accessibility.
//!
//! `cargo xtask servers` does not build these: it takes Chromium and its driver from the system's
//! packages, and axe-core from npm. Tests that need them are skipped with a note if they are
//! missing.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use crate::binaries::cache;

/// Version of axe-core.
pub const AXE: &str = "4.14.1";
/// SHA-256 of axe-core's script.
const AXE_DIGEST: &str = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c";

/// Files that a test of a page needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrowserFiles {
    /// Path of the program Chromium.
    pub browser: PathBuf,
    /// Path of ChromeDriver, which controls Chromium through the WebDriver protocol.
    pub driver: PathBuf,
    /// The script of axe-core.
    pub axe: PathBuf,
}

/// Reason that a page cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} was not found; `cargo xtask servers` gets it where it can")]
pub struct NoBrowser {
    what: &'static str,
}

/// Finds the browser: by `TEST_ASSET_CHROMIUM` and `TEST_ASSET_CHROMEDRIVER`, then on `PATH`.
///
/// # Errors
/// A file is missing.
pub fn find_browser() -> Result<BrowserFiles, NoBrowser> {
    let variable = |name: &str| std::env::var_os(name);
    let found = |names: &[&str], own: &str, what| {
        candidates(names, own, variable).into_iter().find(|path| path.is_file()).ok_or(NoBrowser { what })
    };
    Ok(BrowserFiles {
        browser: found(&["chromium", "chromium-browser"], "TEST_ASSET_CHROMIUM", "Chromium")?,
        driver: found(&["chromedriver"], "TEST_ASSET_CHROMEDRIVER", "ChromeDriver")?,
        axe: axe_file().filter(|path| is_axe(path)).ok_or(NoBrowser { what: "axe-core" })?,
    })
}

/// Returns the path where axe-core is kept.
pub fn axe_file() -> Option<PathBuf> {
    let cache = cache(|name| std::env::var_os(name))?;
    Some(cache.join(format!("axe-core-{AXE}")).join("axe.min.js"))
}

/// Reports whether a file is axe-core's script in our version.
pub fn is_axe(path: &Path) -> bool {
    std::fs::read(path).is_ok_and(|bytes| HEXLOWER.encode(&Sha256::digest(bytes)) == AXE_DIGEST)
}

/// Returns the files that may be a program, the preferred ones first.
fn candidates<V: AsRef<OsStr>>(
    names: &[&str],
    own: &str,
    variable: impl Fn(&str) -> Option<V>,
) -> Vec<PathBuf> {
    let own = variable(own).filter(|value| !value.as_ref().is_empty());
    let mut paths: Vec<PathBuf> = own.iter().map(|path| PathBuf::from(path.as_ref())).collect();
    if let Some(path) = variable("PATH") {
        let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
        paths.extend(names.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name))));
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_of_the_places() {
        let variables = |name: &str| match name {
            "OWN" => Some("/own/chrome"),
            "PATH" => Some("/a:/b"),
            _ => None,
        };
        let paths = candidates(&["x", "y"], "OWN", variables);
        assert_eq!(paths, ["/own/chrome", "/a/x", "/b/x", "/a/y", "/b/y"].map(PathBuf::from));
        assert_eq!(candidates(&["x"], "OTHER", |name| (name == "PATH").then_some("/a")), [Path::new("/a/x")]);
    }

    #[test]
    fn another_script_is_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("axe.min.js");
        assert!(!is_axe(&file));
        std::fs::write(&file, "axe = {}").unwrap();
        assert!(!is_axe(&file));
    }
}
