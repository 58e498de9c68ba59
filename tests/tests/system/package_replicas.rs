//! Two replicas of the variant service share the work, and each draft is created once. One of them
//! is killed during the work, and the other one does the rest (`packagevariants.md` 2.4 and 6.12).

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use groundwork_api::{PackageVariant, PackageVariantSet, Repository};
use groundwork_testkit::git;
use groundwork_tests::{System, SystemOptions, wait_for};
use serde_json::{Value, json};

use crate::case::Case;
use crate::packages::{Remotes, look};
use crate::support::PATIENCE;

const REPOSITORIES: [&str; 3] = ["edge-0", "edge-1", "edge-2"];
/// Number of packages per repository.
const PACKAGES: usize = 8;
const OTHER: &str = "variant-2";

fn config(cache: u8) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: corefile\ndata:\n  cache: \"{cache}\"\n")
}

fn set(revision: &str) -> Value {
    let names: Vec<String> = (0..PACKAGES).map(|number| format!("dns-{number}")).collect();
    let repositories: Vec<Value> =
        REPOSITORIES.iter().map(|name| json!({"name": name, "packageNames": names})).collect();
    json!({"spec": {
        "upstream": {"repo": "catalog", "package": "dns", "revision": revision},
        "targets": [{"repositories": repositories}],
    }})
}

/// Returns the headlines of each draft's commits, newest first.
fn drafts(remotes: &Remotes) -> Result<BTreeMap<String, Vec<String>>> {
    let mut found = BTreeMap::new();
    for repository in REPOSITORIES {
        let refs = remotes.refs(repository)?;
        for branch in refs.into_iter().filter(|name| name != "main") {
            let log = git(&remotes.path(repository), &["log", "--format=%s", &format!("main..{branch}")])?;
            found.insert(format!("{repository} {branch}"), log.lines().map(str::to_owned).collect());
        }
    }
    Ok(found)
}

/// Returns the number of drafts that a replica has asked the package store for.
async fn asked(system: &System, replica: &str) -> Result<usize> {
    let (_, metrics) = system.admin(replica, "/metrics").await?;
    let line = metrics.lines().find(|line| {
        let is_ours = ["verb=\"create\"", "resource=\"packagerevisions\"", "outcome=\"ok\""];
        line.starts_with("groundwork_api_requests_total{") && is_ours.iter().all(|label| line.contains(label))
    });
    Ok(line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or_default())
}

async fn all_ready(case: &Case<'_>) -> Result<()> {
    wait_for("all variants are ready", 2 * PATIENCE, async || {
        let variants = case.list::<PackageVariant>("").await.map_err(|error| error.to_string())?;
        let is_ready = |variant: &PackageVariant| {
            let status = variant.status.clone().unwrap_or_default();
            status.observed_generation == variant.metadata.generation
                && status.conditions.iter().any(|found| found.type_ == "Ready" && found.status == "True")
        };
        let ready = variants.iter().filter(|variant| is_ready(variant)).count();
        if ready == REPOSITORIES.len() * PACKAGES { Ok(()) } else { Err(format!("{ready} are")) }
    })
    .await
    .map_err(|error| case.system.explained(error))
}

#[tokio::test]
async fn each_draft_is_made_once() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let options = SystemOptions { package_store: Some(folder.path().to_owned()), ..SystemOptions::default() };
    let Some(mut system) = System::start(options).await? else { return Ok(()) };
    system.run_as(OTHER, "variant").await?;
    system.until_ready(OTHER).await?;
    system.plane.create_namespace("replicas").await?;
    let remotes = Remotes::new()?;
    remotes.create("catalog")?;
    for (cache, tag) in [(1, "dns/v1"), (2, "dns/v2")] {
        let kptfile = "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: dns\n";
        let files = [("dns/Kptfile", kptfile), ("dns/config.yaml", &config(cache))];
        remotes.publish("catalog", &files, Some(tag))?;
    }
    let count = REPOSITORIES.len() * PACKAGES;
    {
        let case = Case::existing(&system, "replicas").await?;
        for name in REPOSITORIES.iter().chain(&["catalog"]) {
            if *name != "catalog" {
                remotes.create(name)?;
            }
            let git = json!({"repo": remotes.path(name)});
            case.create::<Repository>(name, &json!({"spec": {"type": "git", "git": git}})).await?;
        }
        case.create::<PackageVariantSet>("fleet", &set("v1")).await?;
        all_ready(&case).await?;
        let made = drafts(&remotes)?;
        ensure!(made.len() == count, "{made:?}");
        ensure!(made.values().all(|log| log == &["Creating new revision by cloning"]), "{made:?}");
        let (one, other) = (asked(&system, "variant").await?, asked(&system, OTHER).await?);
        ensure!(one + other >= count && one > 0 && other > 0, "{one} and {other} of {count}");

        look(&case, "catalog").await?;
        case.change::<PackageVariantSet>("fleet", &set("v2")).await?;
        wait_for("the first drafts are upgraded", PATIENCE, async || {
            let made = drafts(&remotes).map_err(|error| error.to_string())?;
            let upgraded = made.values().filter(|log| log[0] == "Upgrading revision").count();
            if upgraded >= 2 { Ok(()) } else { Err(format!("{upgraded} are")) }
        })
        .await?;
    }
    system.service_mut("variant")?.program.kill().await?;
    let case = Case::existing(&system, "replicas").await?;
    all_ready(&case).await?;
    let made = drafts(&remotes)?;
    ensure!(made.len() == count, "{made:?}");
    let expected = ["Upgrading revision", "Creating new revision by cloning"];
    ensure!(made.values().all(|log| log == &expected), "{made:?}");
    for place in made.keys() {
        let (repository, branch) = place.split_once(' ').context("a place")?;
        let package = branch.split('/').nth(1).context("a package")?;
        let text = remotes.file(repository, branch, &format!("{package}/config.yaml"))?;
        ensure!(text.contains("cache: \"2\""), "{place}: {text}");
    }
    Ok(())
}
