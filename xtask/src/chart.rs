//! Copies the manifests of `k8s/` into our Helm chart, since a chart may not refer to files outside
//! of it. Templates of the chart (`charts/groundwork/templates`) apply the values to them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

const CHART: &str = "charts/groundwork";
const HEADER: &str = "# Copied from k8s/ by `cargo xtask crds`. Do not edit.\n";

/// Folders below `k8s`, each with the folder of the chart for its copies.
const FOLDERS: [(&str, &str); 14] = [
    ("crds", "crds"),
    ("base", "files/base"),
    ("admission", "files/admission"),
    ("nats", "files/nats"),
    ("overlays/dev", "files/dev"),
    ("overlays/ha", "files/ha"),
    ("components/mock-deployer", "files/mock-deployer"),
    ("components/helm-deployer", "files/helm-deployer"),
    ("components/deployer-tls", "files/deployer-tls"),
    ("components/target-sync", "files/target-sync"),
    ("components/package-store", "files/package-store"),
    ("components/porch", "files/porch"),
    ("components/console", "files/console"),
    ("components/observability", "files/observability"),
];
/// Files that only kustomize reads, and the namespace, which the chart creates itself.
const LEFT_OUT: [&str; 2] = ["kustomization.yaml", "namespace.yaml"];

/// Writes the copies; with `check` it only reports those that are not up to date.
pub(crate) fn run(workspace: &Path, check: bool) -> Result<()> {
    let wanted = wanted(workspace)?;
    let found = found(workspace)?;
    let stale: Vec<&PathBuf> = wanted
        .iter()
        .filter(|(path, content)| found.get(*path) != Some(content))
        .map(|(path, _)| path)
        .collect();
    let strays: Vec<&PathBuf> = found.keys().filter(|path| !wanted.contains_key(*path)).collect();
    if check {
        let named: Vec<String> = stale.iter().chain(&strays).map(|path| path.display().to_string()).collect();
        if !named.is_empty() {
            bail!("not up to date: {}; run `cargo xtask crds`", named.join(", "));
        }
        println!("{} files of the chart are up to date", wanted.len());
        return Ok(());
    }
    for path in stale {
        let target = workspace.join(path);
        fs::create_dir_all(target.parent().context("a file lies in a folder")?)?;
        fs::write(&target, &wanted[path]).with_context(|| format!("cannot write {}", target.display()))?;
        println!("written: {}", path.display());
    }
    for path in strays {
        fs::remove_file(workspace.join(path)).with_context(|| format!("cannot remove {}", path.display()))?;
        println!("removed: {}", path.display());
    }
    Ok(())
}

/// Returns the copies that the chart should have, by their paths below the workspace.
fn wanted(workspace: &Path) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut wanted = BTreeMap::new();
    for (from, to) in FOLDERS {
        let folder = workspace.join("k8s").join(from);
        for (path, content) in files_below(&folder)? {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if LEFT_OUT.contains(&name) {
                continue;
            }
            let content =
                if name.ends_with(".yaml") { [HEADER.as_bytes(), &content].concat() } else { content };
            wanted.insert(Path::new(CHART).join(to).join(path), content);
        }
    }
    Ok(wanted)
}

/// Returns the copies that the chart has.
fn found(workspace: &Path) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut found = BTreeMap::new();
    for part in ["crds", "files"] {
        let below = Path::new(CHART).join(part);
        let folder = workspace.join(&below);
        if folder.is_dir() {
            found
                .extend(files_below(&folder)?.into_iter().map(|(path, content)| (below.join(path), content)));
        }
    }
    Ok(found)
}

fn files_below(folder: &Path) -> Result<Vec<(PathBuf, Vec<u8>)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let entry = entry?;
        let (path, name) = (entry.path(), PathBuf::from(entry.file_name()));
        if path.is_dir() {
            files.extend(files_below(&path)?.into_iter().map(|(below, content)| (name.join(below), content)));
        } else {
            files.push((name, fs::read(&path)?));
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chart_has_the_manifests_of_now() {
        run(crate::workspace(), true).unwrap();
    }
}
