//! Work that kills its service: the next process does it last, and sets it aside after three deaths
//! in a row (`installations.md` 7.7).

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use groundwork_api::{DeployItem, Installation, Repository, Target};
use groundwork_tests::{System, SystemOptions, wait_for};
use serde_json::{Value, json};

use crate::case::Case;
use crate::packages::{Remotes, register};
use crate::support::PATIENCE;
use crate::target_cluster::{cluster, configuration, create_item, give_job, outcome, target};

/// Server that never answers. The test kills each client that connects to it.
struct Deadly {
    url: String,
    asked: Arc<AtomicUsize>,
}

impl Deadly {
    fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let url = format!("http://{}", listener.local_addr()?);
        let asked = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&asked);
        std::thread::spawn(move || {
            let mut kept = Vec::new();
            for connection in listener.incoming().flatten() {
                kept.push(connection);
                counter.fetch_add(1, Ordering::Relaxed);
            }
        });
        Ok(Self { url, asked })
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }

    /// Kills a service whenever it connects, and restarts it, until `is_so`. Returns the number of
    /// kills.
    async fn until(
        &self,
        system: &mut System,
        service: &'static str,
        namespace: &str,
        is_so: impl AsyncFn(&Case<'_>) -> Result<bool>,
    ) -> Result<usize> {
        let (start, mut seen, mut deaths) = (Instant::now(), self.asked(), 0);
        loop {
            if self.asked() > seen {
                system.service_mut(service)?.program.kill().await?;
                // All connections before the kill count as one death.
                seen = self.asked();
                deaths += 1;
                system.service_mut(service)?.program.start_again()?;
            }
            if is_so(&Case::existing(system, namespace).await?).await? {
                return Ok(deaths);
            }
            if start.elapsed() > PATIENCE {
                bail!("not after {PATIENCE:?} and {deaths} deaths\n{}", system.logs());
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
    }
}

fn state(folder: &tempfile::TempDir) -> Vec<(String, String)> {
    vec![("GROUNDWORK_STATE_FOLDER".to_owned(), folder.path().join("state").display().to_string())]
}

#[tokio::test(flavor = "multi_thread")]
async fn an_item_of_which_the_deployer_dies_is_set_aside() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let options = SystemOptions { variables: state(&folder), ..SystemOptions::default() };
    let Some(mut system) = System::start(options).await? else { return Ok(()) };
    let (namespace, deadly, cluster) = ("deadly-items", Deadly::start()?, cluster().await?);
    system.plane.create_namespace(namespace).await?;
    cluster.plane.create_namespace(namespace).await?;
    let case = Case::existing(&system, namespace).await?;
    let mut kubeconfig = cluster.kubeconfig()?;
    case.create::<Target>("good", &target(&json!({"kubeconfig": kubeconfig.to_string()}))).await?;
    kubeconfig["clusters"][0]["cluster"] = json!({"server": deadly.url});
    case.create::<Target>("deadly", &target(&json!({"kubeconfig": kubeconfig.to_string()}))).await?;
    let object = |name: &str| {
        let metadata = json!({"name": name, "namespace": namespace});
        configuration(
            &json!({"manifests": [{"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}}]}),
        )
    };
    for (name, to) in [("bad", "deadly"), ("good", "good"), ("late", "good")] {
        create_item(&case, name, to, &object(name)).await?;
    }
    for name in ["bad", "good"] {
        give_job(&case, name, "1").await?;
    }
    let is_over = async |case: &Case<'_>, name: &str, job: &str| -> Result<bool> {
        let status = case.get::<DeployItem>(name).await?.status.unwrap_or_default();
        Ok(status.job_id_finished.as_deref() == Some(job))
    };
    let over = deadly
        .until(&mut system, "deployer", namespace, async |case| {
            Ok(is_over(case, "bad", "1").await? && is_over(case, "good", "1").await?)
        })
        .await?;
    ensure!(over == 3, "{over} deaths");
    let case = Case::existing(&system, namespace).await?;
    ensure!(outcome(&case.get("good").await?).0 == "Succeeded");
    let (phase, error) = outcome(&case.get("bad").await?);
    ensure!(phase == "Failed" && error.starts_with("SetAside: processes of deployer"), "{phase}: {error}");
    ensure!(error.contains("died three times in a row while they worked on this"), "{error}");
    // Other objects proceed, and a new job for the object is a new attempt.
    give_job(&case, "late", "1").await?;
    give_job(&case, "bad", "2").await?;
    let over = deadly
        .until(&mut system, "deployer", namespace, async |case| {
            Ok(is_over(case, "bad", "2").await? && is_over(case, "late", "1").await?)
        })
        .await?;
    ensure!(over == 3, "{over} deaths");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repository_of_which_the_variant_service_dies_is_set_aside() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let options = SystemOptions {
        variables: state(&folder),
        package_store: Some(folder.path().join("store")),
        ..SystemOptions::default()
    };
    let Some(mut system) = System::start(options).await? else { return Ok(()) };
    let (namespace, deadly, remotes) = ("deadly-repositories", Deadly::start()?, Remotes::new()?);
    system.plane.create_namespace(namespace).await?;
    let case = Case::existing(&system, namespace).await?;
    let bad = json!({"spec": {"type": "git", "git": {"repo": format!("{}/a.git", deadly.url)}}});
    case.create::<Repository>("bad", &bad).await?;
    let reason = |repository: Repository| {
        let conditions = repository.status.unwrap_or_default().conditions;
        let ready = conditions.iter().find(|one| one.type_ == "Ready").cloned();
        ready.map(|ready| (ready.reason, ready.message)).unwrap_or_default()
    };
    let is_aside =
        async |case: &Case<'_>| -> Result<bool> { Ok(reason(case.get("bad").await?).0 == "SetAside") };
    let deaths = deadly.until(&mut system, "variant", namespace, is_aside).await?;
    ensure!(deaths == 3, "{deaths} deaths");
    let case = Case::existing(&system, namespace).await?;
    let (_, message) = reason(case.get("bad").await?);
    ensure!(message.contains("processes of variant"), "{message}");
    remotes.create("good")?;
    register(&case, &remotes, "good", false).await?;
    let asked = deadly.asked();
    // A new process does not touch the object either.
    system.service_mut("variant")?.program.kill().await?;
    system.service_mut("variant")?.program.start_again()?;
    let case = Case::existing(&system, namespace).await?;
    case.change::<Repository>("good", &json!({"spec": {"description": "changed"}})).await?;
    case.until::<Repository>("the good one is read anew", "good", |repository: &Repository| {
        let observed = repository.status.as_ref().and_then(|status| status.observed_generation);
        observed.is_some() && observed == repository.metadata.generation
    })
    .await?;
    ensure!(deadly.asked() == asked, "it is asked although it is set aside");
    case.change::<Repository>("bad", &json!({"spec": {"description": "changed"}})).await?;
    let deaths = deadly
        .until(&mut system, "variant", namespace, async |case| {
            let bad: Repository = case.get("bad").await?;
            let is_told =
                bad.status.as_ref().and_then(|status| status.observed_generation) == bad.metadata.generation;
            Ok(is_told && reason(bad).0 == "SetAside")
        })
        .await?;
    ensure!(deaths == 3, "{deaths} deaths");
    Ok(())
}

/// The renderer works on an Installation while it waits for the resolver, which waits for a
/// registry.
#[tokio::test(flavor = "multi_thread")]
async fn an_installation_of_which_the_renderer_dies_is_set_aside() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let options = SystemOptions { variables: state(&folder), ..SystemOptions::default() };
    let Some(mut system) = System::start(options).await? else { return Ok(()) };
    let (namespace, deadly) = ("deadly-installations", Deadly::start()?);
    system.plane.create_namespace(namespace).await?;
    let case = Case::existing(&system, namespace).await?;
    case.create::<Installation>("bad", &of_component(&deadly)).await?;
    wait_for("the registry is asked", PATIENCE, async || {
        if deadly.asked() > 0 { Ok(()) } else { Err("it is not".to_owned()) }
    })
    .await?;
    for _ in 0..3 {
        // The wait of three seconds is a tenth of the time for which the resolver waits for the
        // registry.
        tokio::time::sleep(Duration::from_secs(3)).await;
        ensure!(!is_over(&Case::existing(&system, namespace).await?.get("bad").await?));
        system.service_mut("renderer")?.program.kill().await?;
        system.service_mut("renderer")?.program.start_again()?;
        system.until_ready("renderer").await?;
    }
    let case = Case::existing(&system, namespace).await?;
    let bad = case.until("its job is over", "bad", is_over).await?;
    let (phase, error) = failure(&bad);
    ensure!(phase == "Failed" && error.starts_with("SetAside: processes of renderer"), "{phase}: {error}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_installation_of_which_the_resolver_dies_is_set_aside() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let options = SystemOptions { variables: state(&folder), ..SystemOptions::default() };
    let Some(mut system) = System::start(options).await? else { return Ok(()) };
    let (namespace, deadly) = ("deadly-components", Deadly::start()?);
    system.plane.create_namespace(namespace).await?;
    let case = Case::existing(&system, namespace).await?;
    case.create::<Installation>("bad", &of_component(&deadly)).await?;
    let is_over = async |case: &Case<'_>| -> Result<bool> { Ok(is_over(&case.get("bad").await?)) };
    let deaths = deadly.until(&mut system, "resolver", namespace, is_over).await?;
    ensure!(deaths == 3, "{deaths} deaths");
    let (phase, error) = failure(&Case::existing(&system, namespace).await?.get("bad").await?);
    ensure!(phase == "Failed" && error.starts_with("SetAside: processes of resolver"), "{phase}: {error}");
    // A new job is a new attempt.
    let case = Case::existing(&system, namespace).await?;
    let asked = deadly.asked();
    let job = case.get::<Installation>("bad").await?.status.unwrap_or_default().job_id;
    let anew = json!({"metadata": {"annotations": {"landscaper.gardener.cloud/operation": "reconcile"}}});
    case.change::<Installation>("bad", &anew).await?;
    let is_next = async |case: &Case<'_>| -> Result<bool> {
        let installation: Installation = case.get("bad").await?;
        Ok(self::is_over(&installation) && installation.status.unwrap_or_default().job_id != job)
    };
    let deaths = deadly.until(&mut system, "resolver", namespace, is_next).await?;
    ensure!(deaths == 3 && deadly.asked() > asked, "{deaths} deaths");
    Ok(())
}

/// Returns an Installation with a job, whose component is on the deadly server.
fn of_component(deadly: &Deadly) -> Value {
    let reference = json!({
        "componentName": "example.org/bad", "version": "1.0.0",
        "repositoryContext": {"type": "ociRegistry", "baseUrl": format!("{}/c", deadly.url)},
    });
    json!({
        "metadata": {"annotations": {"landscaper.gardener.cloud/operation": "reconcile"}},
        "spec": {"componentDescriptor": {"ref": reference}, "blueprint": {"ref": {"resourceName": "blueprint"}}},
    })
}

/// Reports whether the last job has ended.
fn is_over(installation: &Installation) -> bool {
    let status = installation.status.clone().unwrap_or_default();
    !status.job_id_finished.clone().unwrap_or_default().is_empty() && status.job_id_finished == status.job_id
}

/// Returns the phase, and reason and message of the last error.
fn failure(installation: &Installation) -> (String, String) {
    let status = installation.status.clone().unwrap_or_default();
    let error = status.last_error.unwrap_or_default();
    (status.phase.unwrap_or_default(), format!("{}: {}", error.reason, error.message))
}
