//! Benchmark of the console on a large cluster: the cost of its first pages, the delay until a
//! change reaches an open page, and its memory.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::stream::{self, StreamExt, TryStreamExt};
use groundwork_api::Installation;
use groundwork_tests::{System, SystemOptions, wait_for};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use crate::NO_SERVERS;
use crate::process::usage;
use crate::scenario::rounded;

const PATIENCE: Duration = Duration::from_secs(600);
const NAMESPACES: usize = 50;
/// Number of concurrent requests while the objects are created.
const CREATORS: usize = 32;
/// Number of timed pages of each sort.
const PAGES: usize = 100;
/// Number of pages that stay open.
const OPEN: usize = 50;
/// Number of changes for which the delay to the open pages is measured.
const CHANGES: usize = 20;
/// Pause between two changes. The console notifies pages of the first change at once and throttles
/// the next ones.
const BETWEEN: Duration = Duration::from_secs(1);

/// Starts a watcher and a console on `count` Installations that no renderer reconciles.
pub(crate) async fn console(binaries: PathBuf, count: usize) -> Result<Map<String, Value>> {
    let options = SystemOptions { binaries: Some(binaries), ..SystemOptions::default() };
    let mut system = System::servers(options).await?.context(NO_SERVERS)?;
    let client = system.client().await?;
    create(&system, &client, count).await?;
    for service in ["watcher", "console"] {
        system.run(service).await?;
        system.until_ready(service).await?;
    }
    let visitor = Visitor { port: system.grpc_port("console"), token: token(&system, &client).await? };
    let complete = format!("\"new\":{count},");
    wait_for("the console knows all of them", PATIENCE, async || {
        let (_, page) = visitor.get("/index.json", "identity").await.map_err(|error| error.to_string())?;
        let page = String::from_utf8_lossy(&page).into_owned();
        if page.contains(&complete) { Ok(()) } else { Err(page.chars().take(300).collect()) }
    })
    .await?;
    let mut figures = Map::new();
    let mut figure = |name: &str, value: Value| drop(figures.insert(format!("console.{name}"), value));
    figure("installations", json!(count));
    for (name, path) in
        [("overview", "/"), ("list", "/installations"), ("sorted", "/installations?sort=component")]
    {
        let mut times = Vec::new();
        let mut size = 0;
        for _ in 0..PAGES {
            let start = Instant::now();
            size = visitor.get(path, "gzip").await?.1.len();
            times.push(start.elapsed().as_secs_f64() * 1000.0);
        }
        times.sort_by(f64::total_cmp);
        figure(&format!("{name}.median_ms"), rounded(times[PAGES / 2]));
        figure(&format!("{name}.p99_ms"), rounded(times[PAGES * 99 / 100]));
        figure(&format!("{name}.kib"), rounded(size as f64 / 1024.0));
    }
    let mut open = Vec::new();
    for _ in 0..OPEN {
        open.push(visitor.live("installations").await?);
    }
    let (told, shown) = changes(&client, &visitor, &mut open).await?;
    figure("change_told.median_ms", rounded(told));
    figure("change_shown.median_ms", rounded(shown));
    let usage = usage(system.service("console")?.program.pid()?)?;
    figure("open_pages", json!(OPEN));
    figure("resident_mib", rounded(usage.resident));
    figure("peak_mib", rounded(usage.peak));
    Ok(figures)
}

async fn create(system: &System, client: &Client, count: usize) -> Result<()> {
    for namespace in 0..NAMESPACES {
        system.plane.create_namespace(&format!("bench-{namespace}")).await?;
    }
    stream::iter(0..count)
        .map(Ok::<_, anyhow::Error>)
        .try_for_each_concurrent(CREATORS, async |number| {
            let installations = Api::<Installation>::namespaced(client.clone(), &format!("bench-{}", number % NAMESPACES));
            let object = json!({
                "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Installation",
                "metadata": {"name": format!("installation-{number}")},
                "spec": {
                    "componentDescriptor": {"ref": {"componentName": format!("example.org/component-{}", number % 500), "version": "v1.0.0"}},
                    "blueprint": {"ref": {"resourceName": "blueprint"}},
                    "exports": {"data": [{"name": "a", "dataRef": format!("data-{number}")}]},
                },
            });
            installations.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
            Ok(())
        })
        .await
}

async fn token(system: &System, client: &Client) -> Result<String> {
    let account = serde_json::from_value(json!({"metadata": {"name": "visitor"}}))?;
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "default");
    accounts.create(&PostParams::default(), &account).await?;
    let to = ["--clusterrole=cluster-admin", "--serviceaccount=default:visitor"];
    system.kubectl(&[&["create", "clusterrolebinding", "visitor"][..], &to].concat()).await?;
    Ok(system.plane.service_account_token("default", "visitor").await?)
}

/// Returns two medians in milliseconds, both from the answer to a write: until an open page gets
/// the notice, and until that page has loaded the new content.
async fn changes(client: &Client, visitor: &Visitor, open: &mut [Live]) -> Result<(f64, f64)> {
    let installations = Api::<Installation>::namespaced(client.clone(), "bench-0");
    let (mut told, mut shown) = (Vec::new(), Vec::new());
    for number in 0..CHANGES {
        tokio::time::sleep(BETWEEN).await;
        let text = format!("change-{number}");
        let patch = json!({"metadata": {"annotations": {"landscaper.gardener.cloud/operation": text}}});
        installations.patch("installation-0", &PatchParams::default(), &Patch::Merge(patch)).await?;
        let start = Instant::now();
        for page in &mut *open {
            page.changed().await?;
        }
        told.push(start.elapsed().as_secs_f64() * 1000.0);
        let (_, page) = visitor.get("/installations?namespace=bench-0&q=installation-0", "identity").await?;
        ensure!(String::from_utf8_lossy(&page).contains(&text), "the page does not show {text}");
        shown.push(start.elapsed().as_secs_f64() * 1000.0);
    }
    let median = |mut times: Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    Ok((median(told), median(shown)))
}

/// User of the console who is signed in with a token.
struct Visitor {
    port: u16,
    token: String,
}

impl Visitor {
    async fn send(&self, path: &str, coding: &str, connection: &str) -> Result<TcpStream> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await?;
        let head = format!(
            "GET {path} HTTP/1.1\r\nhost: console\r\nauthorization: Bearer {}\r\naccept-encoding: {coding}\r\nconnection: {connection}\r\n\r\n",
            self.token
        );
        stream.write_all(head.as_bytes()).await?;
        Ok(stream)
    }

    /// Returns head and body of a response.
    async fn get(&self, path: &str, coding: &str) -> Result<(String, Vec<u8>)> {
        let mut bytes = Vec::new();
        self.send(path, coding, "close").await?.read_to_end(&mut bytes).await?;
        let end =
            bytes.windows(4).position(|window| window == b"\r\n\r\n").context("an answer has a head")?;
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        ensure!(head.starts_with("HTTP/1.1 200"), "{path}: {head}");
        Ok((head, bytes[end + 4..].to_vec()))
    }

    async fn live(&self, topic: &str) -> Result<Live> {
        let stream = self.send(&format!("/live?topic={topic}"), "identity", "keep-alive").await?;
        let mut live = Live(BufReader::new(stream));
        live.until("welcome").await?;
        Ok(live)
    }
}

/// Event stream of an open page.
struct Live(BufReader<TcpStream>);

impl Live {
    async fn changed(&mut self) -> Result<()> {
        self.until("event: changed").await
    }

    async fn until(&mut self, text: &str) -> Result<()> {
        loop {
            let mut line = String::new();
            ensure!(self.0.read_line(&mut line).await? > 0, "the stream ended before {text:?}");
            if line.contains(text) {
                return Ok(());
            }
        }
    }
}
