//! PackageVariants, and the bare repositories in a folder that the variants read and write.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use groundwork_api::{PackageVariant, Repository};
use groundwork_testkit::git;
use serde_json::{Value, json};

use crate::plan::VALUES;
use crate::unit;

/// Names of the Repositories: that of the upstream package, and that of the packages made from it.
pub(crate) const REPOSITORIES: [&str; 2] = ["catalog", "edge"];
/// Upstream package, with one revision per value.
const PACKAGE: &str = "app";
const KPTFILE: &str = "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: app\n";

/// Returns the name of the variant, which is also the name of its package.
pub(crate) fn name(unit: usize) -> String {
    format!("variant-{unit:03}")
}

/// Git remotes of a round, deleted on drop.
#[derive(Debug)]
pub(crate) struct Remotes(tempfile::TempDir);

impl Remotes {
    /// Creates both repositories, and the upstream package with all its revisions.
    ///
    /// # Errors
    /// Fails if git fails.
    pub(crate) fn create() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        for name in REPOSITORIES {
            git(folder.path(), &["init", "-q", "--bare", &format!("{name}.git")])?;
            git(folder.path(), &["clone", "-q", &format!("{name}.git"), name])?;
        }
        let remotes = Self(folder);
        let [catalog, edge] = REPOSITORIES.map(|name| remotes.0.path().join(name));
        std::fs::write(edge.join("README.md"), "packages\n")?;
        commit(&edge)?;
        for value in 0..VALUES {
            let object = format!(
                "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: app\ndata:\n  value: v{value}\n"
            );
            std::fs::create_dir_all(catalog.join(PACKAGE))?;
            std::fs::write(catalog.join(PACKAGE).join("Kptfile"), KPTFILE)?;
            std::fs::write(catalog.join(PACKAGE).join("object.yaml"), object)?;
            commit(&catalog)?;
            git(&catalog, &["push", "-q", "origin", &format!("HEAD:refs/tags/{PACKAGE}/v{}", value + 1)])?;
        }
        Ok(remotes)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(format!("{name}.git"))
    }

    /// Returns the Repository object of a remote.
    ///
    /// # Errors
    /// Never fails, since the object's form is fixed.
    pub(crate) fn repository(&self, namespace: &str, name: &str) -> Result<Repository> {
        Ok(serde_json::from_value(json!({
            "apiVersion": "config.porch.kpt.dev/v1alpha1", "kind": "Repository",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"type": "git", "deployment": name == REPOSITORIES[1], "git": {"repo": self.path(name)}},
        }))?)
    }

    /// Returns the drafts in the downstream repository by branch, with the value and the upstream
    /// revision of each.
    ///
    /// # Errors
    /// Fails if git fails.
    pub(crate) fn drafts(&self) -> Result<BTreeMap<String, Draft>> {
        let edge = self.path(REPOSITORIES[1]);
        let listed = git(&edge, &["for-each-ref", "--format=%(refname:short)", "refs/heads/drafts"])?;
        let draft = |branch: &str| {
            let package = branch.split('/').nth(1).context("a branch of a draft names its package")?;
            let context = git(&edge, &["show", &format!("{branch}:{package}/package-context.yaml")])?;
            let kptfile = git(&edge, &["show", &format!("{branch}:{package}/Kptfile")])?;
            let object = git(&edge, &["show", &format!("{branch}:{package}/object.yaml")])?;
            let package = package.to_owned();
            let values = [word_after(&context, "value:"), word_after(&object, "value:")].map(str::to_owned);
            let upstream = word_after(&kptfile, &format!("ref: {PACKAGE}/")).to_owned();
            Ok((branch.to_owned(), Draft { package, values, upstream }))
        };
        listed.lines().map(draft).collect()
    }
}

/// Draft as its branch shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Draft {
    pub(crate) package: String,
    /// Values in the package context, which the variant changes, and in the object, which comes
    /// from upstream.
    pub(crate) values: [String; 2],
    pub(crate) upstream: String,
}

impl Draft {
    /// Describes all differences between this draft and the draft for a value.
    pub(crate) fn difference(&self, value: u32) -> Option<String> {
        let wanted = unit::text(value);
        let is_right = self.values.iter().all(|found| *found == wanted) && self.upstream == revision(value);
        (!is_right).then(|| format!("{self:?} instead of {wanted}"))
    }
}

/// Returns the rest of the line after some text.
fn word_after<'a>(text: &'a str, before: &str) -> &'a str {
    let line = text.lines().find_map(|line| line.split_once(before));
    line.map(|(_, after)| after.trim().trim_matches('"')).unwrap_or_default()
}

/// Returns the branches of packages that have more than one draft.
pub(crate) fn doubled(drafts: &BTreeMap<String, Draft>) -> Vec<&str> {
    let mut packages = BTreeSet::new();
    drafts
        .iter()
        .filter(|(_, draft)| !packages.insert(&draft.package))
        .map(|(branch, _)| branch.as_str())
        .collect()
}

fn commit(folder: &Path) -> Result<()> {
    git(folder, &["add", "-A"])?;
    git(folder, &["commit", "-qm", "by hand"])?;
    git(folder, &["push", "-q", "origin", "HEAD:main"])?;
    Ok(())
}

fn revision(value: u32) -> String {
    format!("v{}", value + 1)
}

/// Returns the variant of a unit with its first value.
///
/// # Errors
/// Never fails, since the object's form is fixed.
pub(crate) fn variant(namespace: &str, unit: usize) -> Result<PackageVariant> {
    let mut spec = valued(0);
    spec["upstream"]["repo"] = json!(REPOSITORIES[0]);
    spec["upstream"]["package"] = json!(PACKAGE);
    spec["downstream"] = json!({"repo": REPOSITORIES[1], "package": name(unit)});
    Ok(serde_json::from_value(json!({
        "apiVersion": "config.porch.kpt.dev/v1alpha1", "kind": "PackageVariant",
        "metadata": {"name": name(unit), "namespace": namespace},
        "spec": spec,
    }))?)
}

/// Returns the fields of a variant's spec that depend on the value.
pub(crate) fn valued(value: u32) -> Value {
    json!({
        "upstream": {"revision": revision(value)},
        "packageContext": {"data": {"value": unit::text(value)}},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drafts_are_read_as_git_has_them() -> Result<()> {
        let remotes = Remotes::create()?;
        assert!(remotes.drafts()?.is_empty());
        let edge = remotes.0.path().join(REPOSITORIES[1]);
        std::fs::create_dir(edge.join("variant-000"))?;
        for (file, text) in [
            ("package-context.yaml", "data:\n  value: v1\n"),
            ("object.yaml", "data:\n  value: v1\n"),
            ("Kptfile", "upstream:\n  git:\n    ref: app/v2\n"),
        ] {
            std::fs::write(edge.join("variant-000").join(file), text)?;
        }
        commit(&edge)?;
        for number in [1, 2] {
            git(&edge, &["push", "-q", "origin", &format!("HEAD:refs/heads/drafts/variant-000/w-{number}")])?;
        }
        let drafts = remotes.drafts()?;
        assert_eq!(doubled(&drafts), ["drafts/variant-000/w-2"]);
        let draft = &drafts["drafts/variant-000/w-1"];
        assert_eq!(draft.difference(1), None);
        assert!(draft.difference(2).is_some_and(|difference| difference.contains("instead of v2")));
        Ok(())
    }
}
