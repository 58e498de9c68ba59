//! The variant service is killed after each of its writes and after each of its pushes in turn: the
//! change is stored, but the service never gets the answer. The final state must be the same as
//! without a kill: no draft is duplicated and none is lost (`packagevariants.md` 2.14).

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Result;
use groundwork_api::{PackageRevision, PackageVariant, PackageVariantSet, Repository};
use groundwork_testkit::git;
use groundwork_tests::{System, SystemOptions};
use kube::ResourceExt as _;
use serde_json::{Value, json};

use crate::case::Case;
use crate::cut_points::{self, Cut, Lived};
use crate::packages::{Remotes, lifecycle};

/// Number of writes and number of pushes that every run tries.
const FEW: usize = 2;
const SERVICE: &str = "variant";

/// Life of two packages: both are drafted and upgraded to the next version, one is published, both
/// are abandoned.
struct Life<'a> {
    system: &'a mut System,
    namespace: String,
    remotes: Remotes,
    counter: PathBuf,
    /// True if the hook of the remote kills the service, and not this test.
    hook_kills: bool,
}

fn kptfile(name: &str) -> String {
    format!("apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: {name}\n")
}

fn config(cache: u8) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: corefile\ndata:\n  cache: \"{cache}\"\n")
}

/// Installs a hook that counts the pushes to a remote, and kills a process after the chosen one.
fn count_pushes(remote: &Path, counter: &Path, fatal: Option<(usize, u32)>) -> Result<()> {
    let kill = fatal.map(|(push, pid)| {
        format!("[ \"$(wc -l < '{}')\" -eq {push} ] && kill -KILL {pid}\n", counter.display())
    });
    let script =
        format!("#!/bin/sh\necho push >> '{}'\n{}exit 0\n", counter.display(), kill.unwrap_or_default());
    let hook = remote.join("hooks/post-receive");
    fs::write(&hook, script)?;
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

impl Life<'_> {
    /// Waits until `is_so`, while the service may be killed.
    async fn until(
        &mut self,
        what: &str,
        is_so: impl AsyncFn(&Case<'_>, &Remotes) -> Result<bool>,
    ) -> Result<()> {
        let Self { system, namespace, remotes, hook_kills, .. } = self;
        let is_reached = |system: &System| {
            let is_killed = *hook_kills && !system.service(SERVICE)?.program.is_running();
            Ok(is_killed || system.proxy(SERVICE)?.take_cut())
        };
        let is_so = async |case: &Case<'_>| is_so(case, remotes).await;
        cut_points::until(system, (SERVICE, namespace), is_reached, what, is_so).await
    }

    /// Waits until both packages are drafted in a version, and their variants report this.
    async fn drafted(&mut self, cache: u8) -> Result<()> {
        self.until(&format!("version {cache} is drafted"), async |case, remotes| {
            let text = |package: &str| {
                let branch = format!("drafts/{package}/packagevariant-1");
                remotes.file("edge", &branch, &format!("{package}/config.yaml")).unwrap_or_default()
            };
            let ready = |variant: &PackageVariant| {
                let status = variant.status.clone().unwrap_or_default();
                status.observed_generation == variant.metadata.generation
                    && status.conditions.iter().any(|found| found.type_ == "Ready" && found.status == "True")
            };
            let variants = case.list::<PackageVariant>("").await?;
            let wanted = format!("cache: \"{cache}\"");
            Ok(variants.len() == 2
                && variants.iter().all(ready)
                && ["a", "b"].iter().all(|package| text(package).contains(&wanted)))
        })
        .await
    }

    /// Changes a lifecycle. The service may die before it answers, so the change is asked for until
    /// it is there.
    async fn lifecycle(&mut self, name: &str, wanted: &str) -> Result<()> {
        self.until(&format!("{name} is {wanted}"), async |case, _| {
            // A dead service answers nothing, and a change that was made is none any more.
            drop(lifecycle(case, name, wanted).await);
            let found = case.get::<PackageRevision>(name).await;
            Ok(found.is_ok_and(|found| found.spec.lifecycle.as_deref() == Some(wanted)))
        })
        .await
    }

    /// Returns the content of git and the cluster, without the parts that differ between two lives.
    async fn state(&self) -> Result<Vec<String>> {
        let case = Case::existing(self.system, &self.namespace).await?;
        let mut lines = self.remotes.refs("edge")?;
        for reference in lines.clone() {
            // Sort commits by topology: within one second their dates give no order, so the parents
            // of a merge would vary.
            let log = ["log", "--topo-order", "--format=%s", &reference];
            let subjects = git(&self.remotes.path("edge"), &log)?;
            // Each version has one commit in the draft, however often the service started on it.
            lines.push(format!("{reference}: {}", subjects.lines().collect::<Vec<_>>().join(", ")));
        }
        // The service updates the object of a revision at its next fetch from the remote, which
        // follows a restart at once.
        let mut revisions = case.list::<PackageRevision>("").await?;
        revisions.retain(|revision| !revision.name_any().ends_with(".main"));
        for revision in revisions {
            let owners: Vec<&str> =
                revision.owner_references().iter().map(|owner| owner.name.as_str()).collect();
            lines.push(format!("{} {:?} {owners:?}", revision.name_any(), revision.spec.lifecycle));
        }
        for variant in case.list::<PackageVariant>("").await? {
            let status = variant.status.clone().unwrap_or_default();
            let targets: Vec<&str> =
                status.downstream_targets.iter().map(|target| target.name.as_str()).collect();
            lines.push(format!("{} {targets:?}", variant.name_any()));
        }
        Ok(lines)
    }
}

fn set(revision: &str) -> Value {
    json!({"spec": {
        "upstream": {"repo": "catalog", "package": "dns", "revision": revision},
        "targets": [{
            "repositories": [{"name": "edge", "packageNames": ["a", "b"]}],
            "template": {"deletionPolicy": "delete"},
        }],
    }})
}

async fn live(system: &mut System, number: usize, cut: Option<Cut>) -> Result<Lived<Vec<Vec<String>>>> {
    let namespace = format!("package-cuts-{number}");
    system.plane.create_namespace(&namespace).await?;
    let remotes = Remotes::new()?;
    remotes.create("catalog")?;
    remotes.create("edge")?;
    for (cache, tag) in [(1, "dns/v1"), (2, "dns/v2")] {
        let files = [("dns/Kptfile", kptfile("dns")), ("dns/config.yaml", config(cache))];
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
        remotes.publish("catalog", &files, Some(tag))?;
    }
    let counter = remotes.path("pushes");
    fs::write(&counter, "")?;
    let pid = system.service(SERVICE)?.program.pid()?;
    // The hook counts from 1.
    let fatal = cut_points::number(cut, "pushes").map(|push| (push + 1, pid));
    count_pushes(&remotes.path("edge"), &counter, fatal)?;
    system.proxy(SERVICE)?.cut_after(cut_points::number(cut, "writes"));
    let hook_kills = fatal.is_some();
    let mut life = Life { system, namespace, remotes, counter, hook_kills };
    let case = Case::existing(life.system, &life.namespace).await?;
    for name in ["catalog", "edge"] {
        let git = json!({"repo": life.remotes.path(name)});
        case.create::<Repository>(name, &json!({"spec": {"type": "git", "git": git}})).await?;
    }
    case.create::<PackageVariantSet>("set", &set("v1")).await?;
    life.drafted(1).await?;
    let mut states = vec![life.state().await?];
    let case = Case::existing(life.system, &life.namespace).await?;
    case.change::<PackageVariantSet>("set", &set("v2")).await?;
    life.drafted(2).await?;
    states.push(life.state().await?);
    life.lifecycle("edge.a.packagevariant-1", "Proposed").await?;
    life.lifecycle("edge.a.packagevariant-1", "Published").await?;
    states.push(life.state().await?);
    let case = Case::existing(life.system, &life.namespace).await?;
    case.delete::<PackageVariantSet>("set").await?;
    life.until("the packages are given up", async |case, remotes| {
        let gone = case.list::<PackageVariant>("").await?.is_empty();
        let refs = remotes.refs("edge")?;
        let objects = case.list::<PackageRevision>("").await?;
        let is_left = objects.iter().any(|found| found.name_any().starts_with("edge.b."));
        Ok(gone && !is_left && refs.iter().any(|name| name.starts_with("deletionProposed/")))
    })
    .await?;
    states.push(life.state().await?);
    let writes = life.system.proxy(SERVICE)?.writes();
    let pushes = fs::read_to_string(&life.counter)?.lines().count();
    Ok(Lived { state: states, changes: vec![("writes", writes), ("pushes", pushes)] })
}

#[tokio::test(flavor = "multi_thread")]
async fn every_write_and_push_may_be_the_last_of_a_process() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let options = SystemOptions {
        proxied: true,
        package_store: Some(folder.path().to_owned()),
        ..SystemOptions::default()
    };
    let Some(mut system) = System::start(options).await? else { return Ok(()) };
    cut_points::compare(FEW, &[("writes", 11), ("pushes", 5)], async |number, cut| {
        live(&mut system, number, cut).await
    })
    .await
}
