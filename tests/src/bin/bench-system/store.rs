//! Benchmark of a package store with many existing packages: its memory, and the time until it is
//! ready after a restart.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use groundwork_api::{PackageRevision, Repository};
use serde_json::{Map, Value, json};

use crate::packages::{Fleet, PATIENCE, push, remote, write_package};
use crate::process::usage;
use crate::scenario::rounded;
use crate::watch;

/// Registers repositories with published packages, and restarts the service when it has listed all
/// of them.
pub(crate) async fn store(binaries: PathBuf, repositories: usize, each: usize) -> Result<Map<String, Value>> {
    let mut fleet = Fleet::start(binaries, repositories).await?;
    for name in &fleet.repositories {
        remote(fleet.path(), name)?;
        let checkout = fleet.path().join(name);
        let packages: Vec<String> = (0..each).map(|index| format!("p-{index:03}")).collect();
        for package in &packages {
            write_package(&checkout.join(package), package)?;
        }
        let tags: Vec<String> = packages.iter().map(|package| format!("{package}/v1")).collect();
        push(&checkout, &tags)?;
    }
    let count = repositories * each;
    fleet.figure("store.packages", json!(count));
    let start = Instant::now();
    for name in &fleet.repositories {
        fleet.register(name).await?;
    }
    let revisions = fleet.api::<PackageRevision>();
    let is_published = |revision: &PackageRevision| {
        // The branch itself appears as a placeholder revision of each package, which must not
        // count.
        revision.spec.lifecycle.as_deref() == Some("Published") && revision.spec.revision == Some(1)
    };
    watch::until(&revisions, count, PATIENCE, is_published)
        .await
        .map_err(|error| fleet.system.explained(error))?;
    fleet.figure("store.shown_seconds", rounded(start.elapsed().as_secs_f64()));
    let memory =
        |fleet: &Fleet| -> Result<f64> { Ok(usage(fleet.system.service("variant")?.program.pid()?)?.peak) };
    let peak = memory(&fleet)?;
    fleet.figure("store.peak_mib", rounded(peak));

    fleet.system.service_mut("variant")?.program.kill().await?;
    let start = Instant::now();
    fleet.system.service_mut("variant")?.program.start_again()?;
    fleet.system.until_ready("variant").await?;
    fleet.figure("store.restart.ready_seconds", rounded(start.elapsed().as_secs_f64()));
    // Push a package that the service can only see by reading the repository again.
    let checkout = fleet.path().join("edge-00");
    write_package(&checkout.join("late"), "late")?;
    push(&checkout, &["late/v1".to_owned()])?;
    let change = json!({"metadata": {"annotations": {"looked-at": "now"}}});
    let repositories = fleet.api::<Repository>();
    let merge = kube::api::Patch::Merge(&change);
    repositories.patch("edge-00", &kube::api::PatchParams::default(), &merge).await?;
    watch::until(&revisions, 1, PATIENCE, |revision| {
        is_published(revision) && revision.spec.package_name.as_deref() == Some("late")
    })
    .await?;
    fleet.figure("store.restart.works_seconds", rounded(start.elapsed().as_secs_f64()));
    let peak = memory(&fleet)?;
    fleet.figure("store.restart.peak_mib", rounded(peak));
    Ok(std::mem::take(&mut fleet.figures))
}
