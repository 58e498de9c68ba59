//! Gets the browser for tests of pages: Chromium and its driver from Debian's packages, axe-core
//! from npm.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, Result, bail, ensure};
use groundwork_testkit::{AXE, axe_file, find_browser, is_axe};

use crate::{commands, servers};

const PACKAGES: [&str; 2] = ["chromium", "chromium-driver"];
/// Pictures in documents; all others stay in the target folder.
const SHOWN: [&str; 4] =
    ["overview-wide-light", "installation-wide-dark", "set-wide-light", "failed-installation-narrow-dark"];

/// Prints where the browser was found, and gets it first if possible. Packages are installed only
/// as root, without asking for a password. A missing part gives a note, as do the tests that are
/// skipped without it.
pub(crate) fn run() {
    let wanted = [program("chromium"), program("chromedriver")].contains(&false);
    let outcomes = [if wanted { packages() } else { Ok(()) }, axe()];
    for error in outcomes.into_iter().filter_map(Result::err) {
        println!("the browser of tests: {error:#}");
    }
    match find_browser() {
        Ok(files) => println!("chromium: {}", files.browser.display()),
        Err(error) => println!("skipped: tests that open pages in a browser: {error}"),
    }
}

/// Runs the test of the console in a browser so that it keeps its pictures, and copies those of
/// documents to their place.
pub(crate) fn pictures(workspace: &Path) -> Result<()> {
    servers::run(workspace)?;
    find_browser()?;
    commands::build_all(workspace, &["--quiet"])?;
    let folder = commands::target_folder(workspace)?.join("console-pictures");
    fs::create_dir_all(&folder)?;
    let status = Command::new("cargo")
        .current_dir(workspace)
        .args(["test", "--locked", "--quiet", "--package", "groundwork-tests", "--test", "system"])
        .args(["the_console_in_a_browser", "--", "--nocapture"])
        .env("GROUNDWORK_CONSOLE_PICTURES", &folder)
        .status()
        .context("cannot run cargo")?;
    ensure!(status.success(), "the test of the console in a browser failed");
    let shown = workspace.join("docs/pictures");
    fs::create_dir_all(&shown)?;
    for name in SHOWN {
        let file = format!("{name}.png");
        fs::copy(folder.join(&file), shown.join(&file)).with_context(|| format!("there is no {file}"))?;
    }
    println!("pictures are in {}; those of documents in {}", folder.display(), shown.display());
    Ok(())
}

/// Reports whether a program is on `PATH`, or named by a variable of its own.
fn program(name: &str) -> bool {
    env::var_os(format!("TEST_ASSET_{}", name.to_uppercase())).is_some()
        || env::var_os("PATH")
            .is_some_and(|path| env::split_paths(&path).any(|folder| folder.join(name).is_file()))
}

fn packages() -> Result<()> {
    let install = format!("apt-get install {}", PACKAGES.join(" "));
    ensure!(commands::exists("apt-get", &["--version"]), "install Chromium and ChromeDriver");
    if !is_root() {
        bail!("run `{install}` as root");
    }
    println!("{}: installing Debian's packages", PACKAGES.join(", "));
    let arguments = [&["install", "--yes", "--quiet=2", "--no-install-recommends"], &PACKAGES[..]].concat();
    // The package lists may be old or missing, so update them and try again.
    if apt(&arguments).is_err() {
        apt(&["update", "--quiet=2"])?;
        apt(&arguments)?;
    }
    Ok(())
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

fn apt(arguments: &[&str]) -> Result<()> {
    // Short time limits: the build must not wait for minutes for a package server that does not
    // answer, or for another installation.
    const PATIENCE: [&str; 6] =
        ["-o", "Acquire::http::Timeout=20", "-o", "Acquire::Retries=1", "-o", "DPkg::Lock::Timeout=120"];
    let output = Command::new("apt-get")
        .args(PATIENCE)
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .output()
        .context("cannot run apt-get")?;
    let told = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`apt-get {}` failed: {}", arguments.join(" "), told.trim());
    Ok(())
}

/// Gets axe-core's script, which checks the accessibility of pages.
fn axe() -> Result<()> {
    let file = axe_file().context("set HOME or XDG_CACHE_HOME: axe-core is kept in the user's cache")?;
    if is_axe(&file) {
        return Ok(());
    }
    let folder = file.parent().context("the file is in a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot create the folder {}", folder.display()))?;
    let unfinished = tempfile::Builder::new().prefix(".npm-").tempdir_in(folder)?;
    npm(unfinished.path())?;
    let script = unfinished.path().join("node_modules/axe-core/axe.min.js");
    ensure!(is_axe(&script), "npm's axe-core {AXE} is not the one that we know");
    Ok(fs::rename(script, file)?)
}

fn npm(folder: &Path) -> Result<()> {
    let output = Command::new("npm")
        .args(["install", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix"])
        .arg(folder)
        .arg(format!("axe-core@{AXE}"))
        .output()
        .context("cannot run `npm`, which gets axe-core")?;
    let told = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`npm install axe-core@{AXE}` failed: {}", told.trim());
    Ok(())
}
