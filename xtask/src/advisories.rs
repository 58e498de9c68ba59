//! `cargo xtask advisories`: checks dependencies for known vulnerabilities.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustsec::{Database, Lockfile, Vulnerability};
use serde::Deserialize;
use tempfile::TempDir;

/// Repository of RustSec's advisories.
const DATABASE: &str = "https://github.com/rustsec/advisory-db";
/// Environment variable with a checkout of the database, for machines that cannot fetch it.
const CHECKOUT: &str = "GROUNDWORK_ADVISORY_DB";
/// Time limit of fetching: a network without access to the internet often gives no answer at all.
const PATIENCE: Duration = Duration::from_mins(1);

/// Fields of `deny.toml` that this command uses.
#[derive(Deserialize)]
struct Policy {
    advisories: Advisories,
}

#[derive(Deserialize)]
struct Advisories {
    ignore: Vec<Ignored>,
}

#[derive(Deserialize)]
struct Ignored {
    id: String,
}

/// Compares `Cargo.lock` with the database.
pub(crate) fn run(workspace: &Path) -> Result<()> {
    let lockfile = Lockfile::load(workspace.join("Cargo.lock")).context("cannot read Cargo.lock")?;
    let file = workspace.join("deny.toml");
    let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let policy: Policy = toml::from_str(&text).with_context(|| format!("malformed {}", file.display()))?;
    let checkout = std::env::var_os(CHECKOUT).map(PathBuf::from);
    println!("{}", check(&lockfile, &policy.advisories.ignore, checkout.as_deref(), DATABASE)?);
    Ok(())
}

/// Returns the report on dependencies. If the database cannot be fetched, the report says so
/// without an error: a build must not depend on a network.
fn check(
    lockfile: &Lockfile,
    ignored: &[Ignored],
    checkout: Option<&Path>,
    database: &str,
) -> Result<String> {
    let fetched;
    let folder = match checkout {
        Some(folder) => folder,
        None => match fetch(database) {
            Ok(folder) => {
                fetched = folder;
                fetched.path()
            }
            Err(error) => {
                return Ok(format!(
                    "advisories are not checked: the database is not available ({error:#}); {CHECKOUT} names a checkout of {DATABASE}"
                ));
            }
        },
    };
    let found = vulnerabilities(folder, lockfile, ignored)?;
    if !found.is_empty() {
        bail!(
            "dependencies with known vulnerabilities (deny.toml lists those that do not concern us):\n  {}",
            found.join("\n  ")
        );
    }
    Ok(format!("{} dependencies have no known vulnerability", lockfile.packages.len()))
}

fn fetch(database: &str) -> Result<TempDir> {
    let folder = tempfile::tempdir()?;
    let mut git = Command::new("git")
        .args(["clone", "--quiet", "--depth", "1", database])
        .arg(folder.path())
        .env("GIT_TERMINAL_PROMPT", "0")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("cannot run git")?;
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = git.try_wait()? {
            if !status.success() {
                bail!("`git clone {database}` failed");
            }
            return Ok(folder);
        }
        if Instant::now() > end {
            git.kill()?;
            git.wait()?;
            bail!("`git clone {database}` did not end within {} seconds", PATIENCE.as_secs());
        }
        sleep(Duration::from_millis(100));
    }
}

/// Returns one line for each vulnerability that is not ignored.
fn vulnerabilities(folder: &Path, lockfile: &Lockfile, ignored: &[Ignored]) -> Result<Vec<String>> {
    let database = Database::open(folder)
        .with_context(|| format!("{} holds no advisories that can be read", folder.display()))?;
    let concerns =
        |found: &Vulnerability| !ignored.iter().any(|ignored| ignored.id == found.advisory.id.as_str());
    let line = |found: &Vulnerability| {
        let patched: Vec<String> = found.versions.patched().iter().map(ToString::to_string).collect();
        let remedy =
            if patched.is_empty() { "no version without it".to_owned() } else { patched.join(" or ") };
        let Vulnerability { advisory, package, .. } = found;
        format!("{} {}: {}: {} ({remedy})", package.name, package.version, advisory.id, advisory.title)
    };
    Ok(database.vulnerabilities(lockfile).iter().filter(|found| concerns(found)).map(line).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADVISORY: &str = "```toml
[advisory]
id = \"RUSTSEC-2026-0001\"
package = \"loud\"
date = \"2026-01-02\"

[versions]
patched = [\">= 1.2.0\"]
```

# It shouts

All the time.
";

    fn lockfile(version: &str) -> Lockfile {
        let text = format!(
            "version = 4\n[[package]]\nname = \"loud\"\nversion = {version:?}\n\
             source = \"registry+https://github.com/rust-lang/crates.io-index\"\n"
        );
        text.parse().unwrap()
    }

    /// Creates a checkout of a database with one advisory.
    fn database() -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        let of_crate = folder.path().join("crates/loud");
        fs::create_dir_all(&of_crate).unwrap();
        fs::write(of_crate.join("RUSTSEC-2026-0001.md"), ADVISORY).unwrap();
        folder
    }

    #[test]
    fn vulnerable_versions_are_found() {
        let folder = database();
        let found = |version, ignored: &[&str]| {
            let ignored: Vec<_> = ignored.iter().map(|id| Ignored { id: (*id).to_owned() }).collect();
            vulnerabilities(folder.path(), &lockfile(version), &ignored).unwrap()
        };
        assert_eq!(found("1.1.9", &[]), ["loud 1.1.9: RUSTSEC-2026-0001: It shouts (>=1.2.0)"]);
        assert_eq!(found("1.1.9", &["RUSTSEC-2026-0001"]), Vec::<String>::new());
        assert_eq!(found("1.2.0", &["RUSTSEC-2025-0001"]), Vec::<String>::new());
        let empty = tempfile::tempdir().unwrap();
        assert!(
            vulnerabilities(empty.path(), &lockfile("1.1.9"), &[]).is_err(),
            "an empty folder says nothing"
        );
    }

    /// The step reports its database, fails for a vulnerability, and continues with a note if it
    /// has no database.
    #[test]
    fn what_the_step_says() {
        let (folder, empty) = (database(), tempfile::tempdir().unwrap());
        let step = |version, checkout| check(&lockfile(version), &[], checkout, "nowhere");
        assert_eq!(step("1.2.0", Some(folder.path())).unwrap(), "1 dependencies have no known vulnerability");
        let found = step("1.1.9", Some(folder.path())).unwrap_err().to_string();
        assert!(
            found.ends_with("concern us):\n  loud 1.1.9: RUSTSEC-2026-0001: It shouts (>=1.2.0)"),
            "{found}"
        );
        assert!(
            step("1.2.0", Some(empty.path())).is_err(),
            "a checkout that is named and empty is a mistake"
        );
        let unchecked =
            check(&lockfile("1.1.9"), &[], None, &empty.path().join("none").display().to_string());
        let said = unchecked.unwrap();
        for words in ["advisories are not checked", "`git clone", CHECKOUT, DATABASE] {
            assert!(said.contains(words), "{said}");
        }
    }
}
