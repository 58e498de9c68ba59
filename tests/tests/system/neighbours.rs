//! Slow servers of one namespace do not delay the others: registries, chart repositories and
//! clusters.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use data_encoding::BASE64;
use groundwork_api::{DeployItem, Installation, Target};
use groundwork_testkit::{Registry, RegistryOptions, Server, servers_or_skip};
use groundwork_tests::{System, SystemOptions};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, OnceCell};

use crate::case::Case;
use crate::deploying_charts::{Repository, chart, item};
use crate::registries::push;
use crate::support::{blueprint, outcome as outcome_of};
use crate::target_cluster::{TargetCluster, cluster, create_item, give_job, outcome, run_job, target};

/// Time limit for everything that is fetched for a job.
const FETCH: Duration = Duration::from_secs(20);
/// Additional time that a small job may take beside slow ones, on a busy machine. Without fair
/// queues it would take as long as the slow jobs.
const BESIDE: Duration = Duration::from_secs(6);
/// Number of jobs that would fill every place in a queue without fair shares.
const CROWD: usize = 40;

/// Server that answers very slowly.
struct Slow {
    address: String,
}

impl Slow {
    async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(drip(stream));
            }
        });
        Ok(Self { address })
    }
}

/// Answers any request with one byte per second, and a request to a cluster not at all.
async fn drip(mut stream: TcpStream) -> std::io::Result<()> {
    let mut head = vec![0; 4096];
    let length = stream.read(&mut head).await?;
    if String::from_utf8_lossy(&head[..length]).starts_with("GET /cluster") {
        return stream.read_to_end(&mut head).await.map(drop);
    }
    let answer = "HTTP/1.1 200 OK\r\nContent-Type: application/vnd.oci.image.manifest.v1+json\r\nContent-Length: 1000000\r\n\r\n";
    stream.write_all(answer.as_bytes()).await?;
    loop {
        stream.write_all(b" ").await?;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// Writes a component whose blueprint has a mock item.
fn component(folder: &Path) -> Result<()> {
    let descriptor = json!({"meta": {"schemaVersion": "v2"}, "component": {
        "name": "example.org/small", "version": "1.0.0", "provider": "example.org", "repositoryContexts": [], "sources": [],
        "componentReferences": [],
        "resources": [{"name": "blueprint", "type": "landscaper.gardener.cloud/blueprint", "version": "1.0.0", "relation": "local"}],
    }});
    fs::create_dir_all(folder.join("blueprint"))?;
    fs::write(folder.join("component-descriptor.yaml"), descriptor.to_string())?;
    fs::write(folder.join("blueprint/blueprint.yaml"), blueprint(&[("item", json!({}))]))?;
    Ok(())
}

/// Creates an Installation whose job reads a component of a registry.
async fn begin_component(case: &Case<'_>, name: &str, registry: &str) -> Result<()> {
    let reference = json!({
        "componentName": "example.org/small", "version": "1.0.0",
        "repositoryContext": {"type": "ociRegistry", "baseUrl": format!("http://{registry}/c")},
    });
    let installation = json!({
        "metadata": {"annotations": {"landscaper.gardener.cloud/operation": "reconcile"}},
        "spec": {"componentDescriptor": {"ref": reference}, "blueprint": {"ref": {"resourceName": "blueprint"}}},
    });
    case.create::<Installation>(name, &installation).await?;
    Ok(())
}

/// Returns an item with a chart at a URL.
fn chart_item(case: &Case<'_>, url: &str, namespace: &str) -> Value {
    let mut item = item(case, "", namespace, &json!({"helmDeployment": false}));
    item["spec"]["config"]["chart"] = json!({"archive": {"remote": {"url": url}}});
    item
}

fn config_map(name: &str) -> Value {
    json!({"manifests": [{"policy": "manage", "manifest": {
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "neighbours-target"},
    }}]})
}

/// User with small jobs on fast servers.
struct Good<'a> {
    case: Case<'a>,
    registry: Registry,
    charts: Repository,
}

impl Good<'_> {
    /// Runs a small job of each kind, and returns the longest time.
    async fn small(&self, round: &str) -> Result<Duration> {
        let begin = Instant::now();
        let component = async {
            let name = format!("component-{round}");
            begin_component(&self.case, &name, &self.registry.address()).await?;
            let ended = outcome_of(&self.case.finished(&name).await?);
            ensure!(ended == ("Succeeded".into(), String::new()), "{ended:?}");
            Ok(begin.elapsed())
        };
        let chart = async {
            let name = format!("chart-{round}");
            // Use a new URL each time, because fetched charts are cached.
            let url = format!("{}/public/web-1.0.0.tgz?{round}", self.charts.url);
            let item = chart_item(&self.case, &url, "neighbours-target");
            self.case.create::<DeployItem>(&name, &item).await?;
            self.succeeds(&name).await?;
            Ok(begin.elapsed())
        };
        let plain = async {
            let name = format!("plain-{round}");
            create_item(&self.case, &name, "dev", &config_map(&name)).await?;
            self.succeeds(&name).await?;
            Ok(begin.elapsed())
        };
        let (component, chart, plain) = tokio::try_join!(component, chart, plain)?;
        println!("{round}: component {component:?}, chart {chart:?}, manifest {plain:?}");
        Ok(component.max(chart).max(plain))
    }

    async fn succeeds(&self, name: &str) -> Result<()> {
        let ended = outcome(&run_job(&self.case, name, "1").await?);
        ensure!(ended == ("Succeeded".into(), String::new()), "{name}: {ended:?}");
        Ok(())
    }
}

/// User whose servers are slow.
struct Bad<'a> {
    case: Case<'a>,
    slow: &'a Slow,
    /// Number of jobs of each kind.
    crowd: usize,
}

impl Bad<'_> {
    async fn components(&self) -> Result<()> {
        for number in 0..self.crowd {
            begin_component(&self.case, &format!("component-{number:02}"), &self.slow.address).await?;
        }
        Ok(())
    }

    async fn charts(&self) -> Result<()> {
        for number in 0..self.crowd {
            let name = format!("chart-{number:02}");
            let url = format!("http://{}/chart-{number}.tgz", self.slow.address);
            self.case.create::<DeployItem>(&name, &chart_item(&self.case, &url, "none")).await?;
            give_job(&self.case, &name, "1").await?;
        }
        Ok(())
    }

    async fn clusters(&self, cluster: &TargetCluster) -> Result<()> {
        for number in 0..self.crowd {
            let mut kubeconfig = cluster.kubeconfig()?;
            let server = format!("http://{}/cluster-{number}", self.slow.address);
            kubeconfig["clusters"][0]["cluster"] = json!({"server": server});
            let name = format!("silent-{number:02}");
            let config = json!({"kubeconfig": kubeconfig.to_string()});
            self.case.create::<Target>(&name, &target(&config)).await?;
            create_item(&self.case, &name, &name, &config_map("none")).await?;
            give_job(&self.case, &name, "1").await?;
        }
        Ok(())
    }
}

/// Lock so that two measurements do not disturb each other.
static ALONE: Mutex<()> = Mutex::const_new(());

async fn target_cluster() -> Result<TargetCluster> {
    static NAMESPACE: OnceCell<()> = OnceCell::const_new();
    let cluster = cluster().await?;
    let make = async || cluster.plane.create_namespace("neighbours-target").await;
    NAMESPACE.get_or_try_init(make).await?;
    Ok(cluster)
}

/// A small job in another namespace takes no longer beside slow jobs, of each kind in turn and of
/// all kinds at once. The slow jobs name the server that they wait for.
#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_slow_servers_holds_up_nobody_else() -> Result<()> {
    if !servers_or_skip(&[Server::Registry]) {
        return Ok(());
    }
    let time = format!("{}s", FETCH.as_secs());
    let variables = ["GROUNDWORK_FETCH_TIMEOUT", "GROUNDWORK_CHART_FETCH_TIMEOUT"]
        .map(|name| (name.to_owned(), time.clone()))
        .to_vec();
    let options = SystemOptions { variables, ..SystemOptions::default() };
    let Some(system) = System::start(options).await? else { return Ok(()) };
    let _alone = ALONE.lock().await;
    let cluster = target_cluster().await?;
    let registry = Registry::start(&RegistryOptions::default()).await?;
    let folder = tempfile::tempdir()?;
    component(folder.path())?;
    push(folder.path(), &registry, "c", " written").await?;
    let charts = Repository::start("web", "1.0.0", &BASE64.decode(chart("1.0.0", &[])?.as_bytes())?).await?;
    let good = Good { case: Case::new(&system, "neighbours-good").await?, registry, charts };
    cluster.create_target(&good.case, "dev").await?;
    let slow = Slow::start().await?;
    let bad = Bad { case: Case::new(&system, "neighbours-bad").await?, slow: &slow, crowd: CROWD };
    cluster.create_target(&bad.case, "dev").await?;

    good.small("first").await?;
    let alone = good.small("alone").await?;
    let is_soon = |took: Duration| ensure_soon(alone, took);
    bad.components().await?;
    is_soon(good.small("components").await?)?;
    bad.charts().await?;
    is_soon(good.small("charts").await?)?;
    bad.clusters(&cluster).await?;
    for round in ["all-1", "all-2", "all-3"] {
        is_soon(good.small(round).await?)?;
    }
    let (phase, error) = outcome_of(&bad.case.finished("component-00").await?);
    let says_where = error.contains(&bad.slow.address) && error.contains("--fetch-timeout");
    ensure!(phase == "Failed" && says_where, "{phase} {error}");
    // A chart is retried until the item's timeout, but the reason appears in the status at once.
    let of_item = |item: &DeployItem| outcome(item).1;
    let says_where =
        |error: &str| error.contains(&bad.slow.address) && error.contains("--chart-fetch-timeout");
    bad.case.until("the item tells what is slow", "chart-00", |item| says_where(&of_item(item))).await?;
    Ok(())
}

/// Half of a hundred namespaces wait for slow servers of all kinds. A small job of each kind in the
/// other half takes no longer.
#[tokio::test(flavor = "multi_thread")]
async fn half_of_all_tenants_hold_up_nobody_else() -> Result<()> {
    const NAMESPACES: usize = 50;
    if !servers_or_skip(&[Server::Registry]) {
        return Ok(());
    }
    let Some(system) = System::start(SystemOptions::default()).await? else { return Ok(()) };
    let _alone = ALONE.lock().await;
    let cluster = target_cluster().await?;
    let registry = Registry::start(&RegistryOptions::default()).await?;
    let folder = tempfile::tempdir()?;
    component(folder.path())?;
    push(folder.path(), &registry, "c", " written").await?;
    let charts = Repository::start("web", "1.0.0", &BASE64.decode(chart("1.0.0", &[])?.as_bytes())?).await?;
    let mut good = Good { case: Case::new(&system, "neighbours-good-a").await?, registry, charts };
    cluster.create_target(&good.case, "dev").await?;
    good.small("first").await?;
    let alone = good.small("alone").await?;
    let slow = Slow::start().await?;
    for number in 0..NAMESPACES {
        let case = Case::new(&system, &format!("neighbours-bad-{number}")).await?;
        let bad = Bad { case, slow: &slow, crowd: 3 };
        bad.components().await?;
        bad.charts().await?;
        bad.clusters(&cluster).await?;
    }
    let mut longest = Duration::ZERO;
    for number in 0..NAMESPACES {
        good.case = Case::new(&system, &format!("neighbours-good-{number}")).await?;
        cluster.create_target(&good.case, "dev").await?;
        let took = good.small(&format!("of-{number}")).await?;
        ensure_soon(alone, took)?;
        longest = longest.max(took);
    }
    println!("alone {alone:?}, beside {NAMESPACES} hostile namespaces at most {longest:?}");
    Ok(())
}

fn ensure_soon(alone: Duration, took: Duration) -> Result<()> {
    ensure!(took < alone + BESIDE, "{took:?} beside strangers, {alone:?} without them");
    Ok(())
}
