//! One set that makes many packages in git repositories, and brings them up to the next version of their upstream.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use groundwork_api::{PackageRevision, PackageVariant, PackageVariantSet, Repository};
use groundwork_testkit::git;
use groundwork_tests::{System, SystemOptions, wait_for};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Map, Value, json};

use crate::requests::AuditLog;
use crate::scenario::rounded;

const NAMESPACE: &str = "bench-packages";
const PATIENCE: Duration = Duration::from_secs(1800);
const KPTFILE: &str = "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: dns\n";

/// Time until all drafts are there, and until all are merged with the upstream's next version, with the requests for each. The system is
/// one of its own, since only this one has a package store.
pub(crate) async fn packages(
    binaries: PathBuf,
    repositories: usize,
    each: usize,
) -> Result<Map<String, Value>> {
    let folder = tempfile::tempdir()?;
    let options = SystemOptions {
        binaries: Some(binaries),
        package_store: Some(folder.path().join("store")),
        ..SystemOptions::default()
    };
    let system = System::start(options).await?.context("the servers are missing: cargo xtask servers")?;
    system.plane.create_namespace(NAMESPACE).await?;
    let client = system.client().await?;
    let registered: Api<Repository> = Api::namespaced(client.clone(), NAMESPACE);
    let names: Vec<String> = (0..repositories).map(|index| format!("edge-{index:02}")).collect();
    let parameters = PostParams::default();
    for name in names.iter().map(String::as_str).chain(["catalog"]) {
        remote(folder.path(), name)?;
        let git = json!({"repo": folder.path().join(format!("{name}.git"))});
        let object = json!({"metadata": {"name": name}, "spec": {"type": "git", "deployment": name != "catalog", "git": git}});
        registered.create(&parameters, &serde_json::from_value(object)?).await?;
    }
    publish(folder.path(), "30", "v1")?;
    let packages: Vec<String> = (0..each).map(|index| format!("p-{index:03}")).collect();
    let targets: Vec<Value> =
        names.iter().map(|name| json!({"name": name, "packageNames": packages})).collect();
    let expressions: Vec<Value> = (0..10)
        .map(|index| json!({"key": format!("label-{index}"), "valueExpr": "repository.name + '-' + target.package"}))
        .collect();
    let set = json!({"metadata": {"name": "fleet"}, "spec": {
        "upstream": {"repo": "catalog", "package": "dns", "revision": "v1"},
        "targets": [{"repositories": targets, "template": {"labelExprs": expressions}}]}});
    let sets: Api<PackageVariantSet> = Api::namespaced(client.clone(), NAMESPACE);
    look(&registered).await?;
    wait_for("the catalog is read", PATIENCE, async || {
        let revisions: Api<PackageRevision> = Api::namespaced(client.clone(), NAMESPACE);
        let found = revisions.get_opt("catalog.dns.v1").await.map_err(|error| error.to_string())?;
        found.map(drop).ok_or_else(|| "not yet".to_owned())
    })
    .await?;

    let count = repositories * each;
    let mut figures = Map::new();
    figures.insert("packages.count".into(), json!(count));
    let mut log = AuditLog::open(&system.plane.audit_log().context("there is an audit log")?)?;
    let start = Instant::now();
    sets.create(&parameters, &serde_json::from_value(set)?).await?;
    drafted(&client, "v1", count).await?;
    figures.insert("packages.drafted_seconds".into(), rounded(start.elapsed().as_secs_f64()));
    for (request, times) in log.counts()? {
        figures.insert(format!("packages.drafted.requests.{request}"), json!(times));
    }

    publish(folder.path(), "60", "v2")?;
    let start = Instant::now();
    look(&registered).await?;
    let change = json!({"spec": {"upstream": {"revision": "v2"}}});
    sets.patch("fleet", &PatchParams::default(), &Patch::Merge(&change)).await?;
    drafted(&client, "v2", count).await?;
    figures.insert("packages.updated_seconds".into(), rounded(start.elapsed().as_secs_f64()));
    for (request, times) in log.counts()? {
        figures.insert(format!("packages.updated.requests.{request}"), json!(times));
    }
    // With nothing left to do, nothing is written.
    tokio::time::sleep(Duration::from_secs(5)).await;
    drop(log.counts()?);
    look(&registered).await?;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let writes: u64 = log
        .counts()?
        .into_iter()
        .filter(|(request, _)| {
            !request.contains("get") && !request.contains("list") && !request.contains("watch")
        })
        .map(|(_, times)| u64::try_from(times).unwrap_or(u64::MAX))
        .sum();
    figures.insert("packages.idle.writes".into(), json!(writes));
    Ok(figures)
}

/// Waits until as many drafts are of this version of the upstream.
async fn drafted(client: &kube::Client, version: &str, count: usize) -> Result<()> {
    let revisions: Api<PackageRevision> = Api::namespaced(client.clone(), NAMESPACE);
    let variants: Api<PackageVariant> = Api::namespaced(client.clone(), NAMESPACE);
    let reference = format!("dns/{version}");
    wait_for(&format!("{count} drafts of {version}"), PATIENCE, async || {
        let found = revisions.list(&ListParams::default()).await.map_err(|error| error.to_string())?;
        let is_made = |revision: &&PackageRevision| {
            let lock =
                revision.status.as_ref().and_then(|status| status.upstream_lock.as_ref()?.git.as_ref());
            lock.and_then(|lock| lock.reference.as_deref()) == Some(&reference)
        };
        let made = found.items.iter().filter(is_made).count();
        if made == count {
            return Ok(());
        }
        let problems = variants.list(&ListParams::default()).await.map_err(|error| error.to_string())?;
        let problem = problems.items.iter().find_map(|variant| {
            let ready = variant.status.as_ref()?.conditions.iter().find(|found| found.type_ == "Ready")?;
            (ready.status == "False").then(|| ready.message.clone())
        });
        Err(format!("{made}, {problem:?}"))
    })
    .await
}

/// Lets the store look at the catalog now, and not within a minute.
async fn look(registered: &Api<Repository>) -> Result<()> {
    let change = json!({"metadata": {"annotations": {"looked-at": jiff::Timestamp::now().to_string()}}});
    registered.patch("catalog", &PatchParams::default(), &Patch::Merge(&change)).await?;
    Ok(())
}

/// A remote with one commit, and a work tree beside it.
fn remote(folder: &Path, name: &str) -> Result<()> {
    git(folder, &["init", "-q", "--bare", &format!("{name}.git")])?;
    git(folder, &["clone", "-q", &format!("{name}.git"), name])?;
    std::fs::write(folder.join(name).join("README.md"), "packages\n")?;
    push(&folder.join(name), None)
}

/// A version of the package that all variants are made from.
fn publish(folder: &Path, cache: &str, version: &str) -> Result<()> {
    let checkout = folder.join("catalog");
    std::fs::create_dir_all(checkout.join("dns"))?;
    std::fs::write(checkout.join("dns/Kptfile"), KPTFILE)?;
    for index in 0..10 {
        let text = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: config-{index}\ndata:\n  cache: \"{cache}\"\n  zone: example.org\n"
        );
        std::fs::write(checkout.join(format!("dns/config-{index}.yaml")), text)?;
    }
    push(&checkout, Some(&format!("dns/{version}")))
}

fn push(checkout: &Path, tag: Option<&str>) -> Result<()> {
    git(checkout, &["add", "-A"])?;
    git(checkout, &["commit", "-qm", "by hand"])?;
    git(checkout, &["push", "-q", "origin", "HEAD:main"])?;
    if let Some(tag) = tag {
        git(checkout, &["tag", tag])?;
        git(checkout, &["push", "-q", "origin", tag])?;
    }
    Ok(())
}
