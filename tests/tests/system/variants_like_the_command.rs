//! Examples of variants (`packagevariants.md` 10.1): a cluster writes the same packages to git as
//! the command.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use groundwork_testkit::git;
use groundwork_tests::{System, wait_for, workspace};

use crate::case::Case;
use crate::packages::{Remotes, let_watch_config_maps, system};
use crate::support::PATIENCE;

const DRAFT: &str = "packagevariant-1";

/// Files of each package, by repository and package.
type Packages = BTreeMap<(String, String), BTreeMap<String, String>>;

fn files(folder: &Path, prefix: &str, found: &mut BTreeMap<String, String>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).context("a name")?;
        let key = format!("{prefix}{name}");
        match path.is_dir() {
            true => files(&path, &format!("{key}/"), found)?,
            false => drop(found.insert(key, fs::read_to_string(&path)?)),
        }
    }
    Ok(())
}

/// Copies the objects of a figure, adapted to a namespace and its own remotes.
fn inputs(examples: &Path, figure: &Path, namespace: &str, remotes: &Remotes) -> Result<tempfile::TempDir> {
    let folder = tempfile::tempdir()?;
    for (name, file) in [
        ("1-clusters.yaml", examples.join("clusters.yaml")),
        ("2-endpoints.yaml", examples.join("endpoints.yaml")),
        ("3-figure.yaml", figure.to_owned()),
    ] {
        let mut text =
            fs::read_to_string(file)?.replace("namespace: fleet", &format!("namespace: {namespace}"));
        for repository in ["catalog", "cluster-01", "cluster-02", "cluster-03"] {
            let path = remotes.path(repository);
            text = text.replace(
                &format!("https://git.example.org/{repository}.git"),
                path.to_str().context("the path is UTF-8")?,
            );
        }
        fs::write(folder.path().join(name), text)?;
    }
    Ok(folder)
}

/// Returns the packages that the command drafts.
fn drafted(inputs: &Path, packages: &Path) -> Result<Packages> {
    let folder = tempfile::tempdir()?;
    let output = format!("dir={}", folder.path().display());
    let run = std::process::Command::new(System::program("groundwork")?)
        .args(["variants", "draft", "-o", &output, "--packages"])
        .arg(packages)
        .arg("-f")
        .arg(inputs)
        .output()?;
    ensure!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let mut all = BTreeMap::new();
    files(folder.path(), "", &mut all)?;
    let mut found = Packages::new();
    for (path, text) in all {
        let [repository, package, file] = *path.splitn(3, '/').collect::<Vec<_>>() else { continue };
        let package = found.entry((repository.to_owned(), package.to_owned())).or_default();
        package.insert(file.to_owned(), text);
    }
    Ok(found)
}

/// Returns a package from a branch of a remote, without the line with the commit, since the command
/// works on files without commits.
fn in_git(remotes: &Remotes, repository: &str, package: &str) -> Result<BTreeMap<String, String>> {
    let branch = format!("drafts/{package}/{DRAFT}");
    let listed =
        git(&remotes.path(repository), &["ls-tree", "-r", "--name-only", &format!("{branch}:{package}")])?;
    let mut found = BTreeMap::new();
    for name in listed.lines() {
        let text = remotes.file(repository, &branch, &format!("{package}/{name}"))?;
        let kept = text.lines().filter(|line| !line.starts_with("    commit: "));
        found.insert(name.to_owned(), kept.map(|line| format!("{line}\n")).collect());
    }
    Ok(found)
}

/// V-008, V-018, V-021, V-025, V-126, V-129, V-131: each figure gives the same packages with real
/// remotes and by the command alone.
#[tokio::test]
async fn a_cluster_makes_what_the_command_shows() -> Result<()> {
    let Some(system) = system().await? else { return Ok(()) };
    let examples = workspace().join("examples/variants");
    let mut figures: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(examples.join("figures"))? {
        figures.push(entry?.path());
    }
    figures.sort();
    ensure!(figures.len() == 7, "{figures:?}");
    for figure in figures {
        let name = figure.file_stem().and_then(|name| name.to_str()).context("a name")?;
        let case = Case::new(system, &format!("figure-{name}")).await?;
        let_watch_config_maps(&case).await?;
        let remotes = Remotes::new()?;
        for repository in ["catalog", "cluster-01", "cluster-02", "cluster-03"] {
            remotes.create(repository)?;
        }
        let mut sources = BTreeMap::new();
        files(&examples.join("packages/catalog"), "", &mut sources)?;
        let sources: Vec<(&str, &str)> =
            sources.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        remotes.publish("catalog", &sources, Some("foo/v1"))?;
        git(&remotes.path("catalog"), &["tag", "endpoints/v1", "main"])?;
        let inputs = inputs(&examples, &figure, &case.namespace, &remotes)?;
        let expected = drafted(inputs.path(), &examples.join("packages"))?;
        ensure!(!expected.is_empty(), "{name} makes packages");
        let folder = inputs.path().to_str().context("the path is UTF-8")?;
        system.kubectl(&["apply", "-f", folder]).await?;
        for ((repository, package), files) in &expected {
            wait_for(&format!("{name} makes {repository}/{package}"), PATIENCE, async || {
                match in_git(&remotes, repository, package) {
                    Ok(found) if found == *files => Ok(()),
                    other => Err(format!("{other:#?}, expected {files:#?}")),
                }
            })
            .await
            .map_err(|error| system.explained(error))?;
        }
        for repository in ["cluster-01", "cluster-02", "cluster-03"] {
            let wanted = expected.keys().filter(|(found, _)| found == repository);
            let mut wanted: Vec<String> =
                wanted.map(|(_, package)| format!("drafts/{package}/{DRAFT}")).collect();
            wanted.push("main".to_owned());
            assert_eq!(remotes.refs(repository)?, wanted, "{name} makes nothing else");
        }
    }
    Ok(())
}
