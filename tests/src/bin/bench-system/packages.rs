//! Benchmark of one set that creates many packages in git repositories and keeps them up to date.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use groundwork_api::{PackageRevision, PackageVariantSet, Repository};
use groundwork_testkit::git;
use groundwork_tests::{System, SystemOptions, wait_for};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::requests::AuditLog;
use crate::scenario::rounded;
use crate::watch;

pub(crate) const NAMESPACE: &str = "bench-packages";
pub(crate) const PATIENCE: Duration = Duration::from_secs(1800);
const KPTFILE: &str = "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: dns\n";
/// Name of the ConfigMap that ten of the variants inject. The other variants share another one.
const SPECIAL: &str = "special";
const COMMON: &str = "common";
const SPECIALS: usize = 10;

/// System with a package store, and git remotes on the local disk.
pub(crate) struct Fleet {
    pub(crate) system: System,
    pub(crate) client: Client,
    folder: TempDir,
    pub(crate) repositories: Vec<String>,
    log: AuditLog,
    /// Last known counts of `git` calls and of push results.
    counted: BTreeMap<String, f64>,
    pub(crate) figures: Map<String, Value>,
}

impl Fleet {
    pub(crate) async fn start(binaries: PathBuf, repositories: usize) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let options = SystemOptions {
            binaries: Some(binaries),
            package_store: Some(folder.path().join("store")),
            ..SystemOptions::default()
        };
        let system = System::start(options).await?.context("the servers are missing: cargo xtask servers")?;
        system.plane.create_namespace(NAMESPACE).await?;
        let log = AuditLog::open(&system.plane.audit_log().context("there is an audit log")?)?;
        Ok(Self {
            client: system.client().await?,
            system,
            folder,
            repositories: (0..repositories).map(|index| format!("edge-{index:02}")).collect(),
            log,
            counted: BTreeMap::new(),
            figures: Map::new(),
        })
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    pub(crate) async fn register(&self, name: &str) -> Result<()> {
        let git = json!({"repo": self.path().join(format!("{name}.git"))});
        let object = json!({"metadata": {"name": name}, "spec": {"type": "git", "deployment": name != "catalog", "git": git}});
        self.api::<Repository>().create(&PostParams::default(), &serde_json::from_value(object)?).await?;
        Ok(())
    }

    /// Makes the store poll the catalog now, and not after up to a minute.
    async fn look(&self) -> Result<()> {
        let change = json!({"metadata": {"annotations": {"looked-at": jiff::Timestamp::now().to_string()}}});
        self.api::<Repository>().patch("catalog", &PatchParams::default(), &Patch::Merge(&change)).await?;
        Ok(())
    }

    /// Records the time and the cost of a phase.
    async fn tell(&mut self, phase: &str, start: Instant) -> Result<()> {
        self.figure(&format!("packages.{phase}_seconds"), rounded(start.elapsed().as_secs_f64()));
        for (request, times) in self.log.counts()? {
            self.figure(&format!("packages.{phase}.requests.{request}"), json!(times));
        }
        let (_, page) = self.system.admin("variant", "/metrics").await?;
        for line in page.lines() {
            let Some((name, value)) = line.rsplit_once(' ') else { continue };
            let is_asked_for = name.starts_with("groundwork_package_git_seconds_count")
                || name.starts_with("groundwork_package_changes_total");
            if let (true, Ok(value)) = (is_asked_for, value.parse::<f64>()) {
                let before = self.counted.insert(name.to_owned(), value).unwrap_or_default();
                let name = name.trim_start_matches("groundwork_package_");
                self.figure(&format!("packages.{phase}.{name}"), rounded(value - before));
            }
        }
        Ok(())
    }

    pub(crate) fn figure(&mut self, name: &str, figure: Value) {
        self.figures.insert(name.to_owned(), figure);
    }

    /// Waits until `count` drafts are based on this version of the upstream package.
    async fn drafted(&self, version: &str, count: usize) -> Result<()> {
        let reference = format!("dns/{version}");
        let revisions = self.api::<PackageRevision>();
        let waited = watch::until(&revisions, count, PATIENCE, |revision| {
            let lock =
                revision.status.as_ref().and_then(|status| status.upstream_lock.as_ref()?.git.as_ref());
            lock.and_then(|lock| lock.reference.as_deref()) == Some(&reference)
        });
        waited.await.map_err(|error| self.system.explained(error))
    }

    /// Counts the writes of the services while they have no work left.
    async fn idle(&mut self) -> Result<()> {
        tokio::time::sleep(Duration::from_secs(5)).await;
        drop(self.log.counts()?);
        self.look().await?;
        tokio::time::sleep(Duration::from_secs(5)).await;
        let is_read = |request: &str| ["get", "list", "watch"].iter().any(|verb| request.contains(verb));
        let counts = self.log.counts()?;
        let writes: usize =
            counts.iter().filter(|(request, _)| !is_read(request)).map(|(_, times)| times).sum();
        self.figure("packages.idle.writes", json!(writes));
        Ok(())
    }

    async fn create_set(&self, each: usize) -> Result<()> {
        let packages: Vec<String> = (0..each).map(|index| format!("p-{index:03}")).collect();
        let targets: Vec<Value> =
            self.repositories.iter().map(|name| json!({"name": name, "packageNames": packages})).collect();
        let expressions: Vec<Value> = (0..10)
            .map(|index| json!({"key": format!("label-{index}"), "valueExpr": "repository.name + '-' + target.package"}))
            .collect();
        let chosen = self.repositories.get(SPECIALS).cloned().unwrap_or_else(|| "~".to_owned());
        let injector =
            format!("target.package == 'p-000' && repository.name < '{chosen}' ? '{SPECIAL}' : '{COMMON}'");
        let set = json!({"metadata": {"name": "fleet"}, "spec": {
            "upstream": {"repo": "catalog", "package": "dns", "revision": "v1"},
            "targets": [{"repositories": targets, "template": {"labelExprs": expressions, "injectors": [{"nameExpr": injector}]}}]}});
        let sets = self.api::<PackageVariantSet>();
        sets.create(&PostParams::default(), &serde_json::from_value(set)?).await?;
        Ok(())
    }
}

/// Measures the time, the requests and the `git` calls of three phases: until all drafts exist,
/// until all are merged with the upstream's next version, and until the variants that inject a
/// changed object have new drafts.
pub(crate) async fn packages(
    binaries: PathBuf,
    repositories: usize,
    each: usize,
) -> Result<Map<String, Value>> {
    let mut fleet = Fleet::start(binaries, repositories).await?;
    for name in fleet.repositories.iter().map(String::as_str).chain(["catalog"]) {
        remote(fleet.path(), name)?;
        fleet.register(name).await?;
    }
    let_watch_config_maps(&fleet.system).await?;
    let objects = fleet.api::<ConfigMap>();
    for name in [SPECIAL, COMMON] {
        let object = json!({"metadata": {"name": name}, "data": {"site": name}});
        objects.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    }
    publish(fleet.path(), "30", "v1")?;
    fleet.look().await?;
    wait_for("the catalog is read", PATIENCE, async || {
        let found = fleet.api::<PackageRevision>().get_opt("catalog.dns.v1").await;
        found.map_err(|error| error.to_string())?.map(drop).ok_or_else(|| "not yet".to_owned())
    })
    .await?;

    let count = repositories * each;
    fleet.figure("packages.count", json!(count));
    drop(fleet.log.counts()?);
    let start = Instant::now();
    fleet.create_set(each).await?;
    fleet.drafted("v1", count).await?;
    fleet.tell("drafted", start).await?;

    publish(fleet.path(), "60", "v2")?;
    let start = Instant::now();
    fleet.look().await?;
    let change = json!({"spec": {"upstream": {"revision": "v2"}}});
    let sets = fleet.api::<PackageVariantSet>();
    sets.patch("fleet", &PatchParams::default(), &Patch::Merge(&change)).await?;
    fleet.drafted("v2", count).await?;
    fleet.tell("updated", start).await?;
    fleet.idle().await?;

    let special = SPECIALS.min(repositories);
    let before = fleet.heads()?;
    let start = Instant::now();
    let change = json!({"data": {"site": "elsewhere"}});
    objects.patch(SPECIAL, &PatchParams::default(), &Patch::Merge(&change)).await?;
    wait_for("what uses the object is drafted again", PATIENCE, async || {
        let moved = fleet.heads().map_err(|error| error.to_string())?;
        let moved = moved.iter().filter(|head| !before.contains(head)).count();
        if moved >= special { Ok(()) } else { Err(format!("{moved} of {special}")) }
    })
    .await?;
    fleet.tell("injected", start).await?;
    // Wait five seconds more, so that an unexpected draft would have arrived by now.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let moved = fleet.heads()?.iter().filter(|head| !before.contains(head)).count();
    fleet.figure("packages.injected.drafts", json!(moved));
    Ok(std::mem::take(&mut fleet.figures))
}

impl Fleet {
    /// Returns every draft of every remote with its commit.
    fn heads(&self) -> Result<Vec<String>> {
        let mut heads = Vec::new();
        for name in &self.repositories {
            let remote = self.path().join(format!("{name}.git"));
            let listed =
                git(&remote, &["for-each-ref", "--format=%(refname) %(objectname)", "refs/heads/drafts"])?;
            heads.extend(listed.lines().map(|line| format!("{name} {line}")));
        }
        Ok(heads)
    }
}

/// Lets variants of this namespace inject ConfigMaps and watch their changes.
async fn let_watch_config_maps(system: &System) -> Result<()> {
    let verbs = "--verb=get,list,watch";
    system.kubectl(&["create", "role", "watchable", "-n", NAMESPACE, verbs, "--resource=configmaps"]).await?;
    let accounts = ["watcher", "variant"]
        .map(|account| format!("--serviceaccount=groundwork-system:groundwork-{account}"));
    let [watcher, variant] = &accounts;
    let binding =
        ["create", "rolebinding", "watchable", "-n", NAMESPACE, "--role=watchable", watcher, variant];
    system.kubectl(&binding).await?;
    Ok(())
}

/// Creates a remote with one commit, and a work tree beside it.
pub(crate) fn remote(folder: &Path, name: &str) -> Result<()> {
    git(folder, &["init", "-q", "--bare", &format!("{name}.git")])?;
    git(folder, &["clone", "-q", &format!("{name}.git"), name])?;
    std::fs::write(folder.join(name).join("README.md"), "packages\n")?;
    push(&folder.join(name), &[])
}

/// Publishes a version of the package that is the upstream of all variants.
fn publish(folder: &Path, cache: &str, version: &str) -> Result<()> {
    let checkout = folder.join("catalog");
    let point = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: site\n  annotations:\n    kpt.dev/config-injection: required\ndata: {}\n";
    write_package(&checkout.join("dns"), cache)?;
    std::fs::write(checkout.join("dns/site.yaml"), point)?;
    push(&checkout, &[format!("dns/{version}")])
}

/// Writes a package of a dozen files.
pub(crate) fn write_package(folder: &Path, cache: &str) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join("Kptfile"), KPTFILE)?;
    for index in 0..10 {
        let text = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: config-{index}\ndata:\n  cache: \"{cache}\"\n  zone: example.org\n"
        );
        std::fs::write(folder.join(format!("config-{index}.yaml")), text)?;
    }
    Ok(())
}

/// Commits the changes in the work tree, and pushes them with the tags.
pub(crate) fn push(checkout: &Path, tags: &[String]) -> Result<()> {
    git(checkout, &["add", "-A"])?;
    git(checkout, &["commit", "-qm", "by hand"])?;
    for tag in tags {
        git(checkout, &["tag", tag])?;
    }
    git(checkout, &["push", "-q", "--tags", "origin", "HEAD:main"])?;
    Ok(())
}
