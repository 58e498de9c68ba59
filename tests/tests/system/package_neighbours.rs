//! Slow and large repositories, and their neighbours (`packagevariants.md` 5.5, 6.10 and 6.16).

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use groundwork_api::{PackageRevision, PackageVariant, Repository};
use groundwork_tests::wait_for;
use serde_json::json;

use crate::case::Case;
use crate::packages::{KPTFILE, Remotes, catalog, ready, register, system, variant};
use crate::support::PATIENCE;

/// Server that answers one byte every few seconds, and counts its clients.
struct Dripping {
    url: String,
    asked: Arc<AtomicUsize>,
}

impl Dripping {
    fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let url = format!("http://{}/a.git", listener.local_addr()?);
        let asked = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&asked);
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                counter.fetch_add(1, Ordering::Relaxed);
                std::thread::spawn(move || drop(drip(connection)));
            }
        });
        Ok(Self { url, asked })
    }
}

fn drip(mut connection: TcpStream) -> std::io::Result<()> {
    let _ = connection.read(&mut [0; 4096])?;
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/x-git-upload-pack-advertisement\r\n\r\n001e# service=git-upload-pack\n";
    for byte in head.bytes().chain(std::iter::repeat(b'0')) {
        connection.write_all(&[byte])?;
        std::thread::sleep(Duration::from_secs(2));
    }
    Ok(())
}

/// Returns the time from the creation of a namespace's Repositories to the draft of a variant.
async fn time_of_variant(namespace: &str) -> Result<Duration> {
    let Some(system) = system().await? else { return Ok(Duration::ZERO) };
    let case = Case::new(system, namespace).await?;
    let begun = Instant::now();
    let _remotes = catalog(&case).await?;
    case.create::<PackageVariant>("dns", &variant(&json!({}))).await?;
    ready(&case, "dns", &["edge.dns.packagevariant-1"]).await?;
    Ok(begun.elapsed())
}

/// Ten slow hosts of one namespace do not delay other namespaces, and each is reported by its own
/// Repository.
#[tokio::test]
async fn slow_hosts_hold_up_their_own_namespace() -> Result<()> {
    let Some(system) = system().await? else { return Ok(()) };
    let alone = time_of_variant("neighbours-alone").await?;
    let case = Case::new(system, "neighbours-slow").await?;
    let hosts = (0..10).map(|_| Dripping::start()).collect::<Result<Vec<_>>>()?;
    for (number, host) in hosts.iter().enumerate() {
        let content = json!({"spec": {"type": "git", "git": {"repo": host.url}}});
        case.create::<Repository>(&format!("slow-{number}"), &content).await?;
        for copy in 0..4 {
            let fields = json!({
                "upstream": {"repo": format!("slow-{number}"), "package": "a", "revision": "v1"},
                "downstream": {"repo": format!("slow-{}", (number + 1) % hosts.len()), "package": format!("b{copy}")},
            });
            case.create::<PackageVariant>(&format!("v{number}-{copy}"), &variant(&fields)).await?;
        }
    }
    wait_for("some of them are asked", PATIENCE, async || {
        let asked = hosts.iter().filter(|host| host.asked.load(Ordering::Relaxed) > 0).count();
        if asked >= 4 { Ok(()) } else { Err(asked.to_string()) }
    })
    .await?;
    for round in 0..3 {
        let beside = time_of_variant(&format!("neighbours-beside-{round}")).await?;
        println!("alone {alone:?}, beside ten slow hosts {beside:?}");
        ensure!(beside < alone + Duration::from_secs(10), "alone {alone:?}, beside slow hosts {beside:?}");
    }
    let is_told = |repository: &Repository| {
        let status = repository.status.clone().unwrap_or_default();
        status.conditions.iter().any(|found| found.type_ == "Ready" && found.message.contains("127.0.0.1:"))
    };
    case.until::<Repository>("the host is named", "slow-0", is_told).await?;
    for number in 0..hosts.len() {
        case.delete::<Repository>(&format!("slow-{number}")).await?;
    }
    Ok(())
}

/// One package has 3,000 revisions: the Repository shows the progress of reading, and soon all
/// revisions.
#[tokio::test]
async fn thousands_of_tags_are_told() -> Result<()> {
    let Some(system) = system().await? else { return Ok(()) };
    let case = Case::new(system, "neighbours-many").await?;
    let remotes = Remotes::new()?;
    remotes.create("many")?;
    let mut command = Command::new("git");
    command.args(["fast-import", "--quiet", "--force"]).current_dir(remotes.path("many"));
    let mut child = command.stdin(Stdio::piped()).spawn()?;
    {
        let mut stdin = child.stdin.take().context("stdin")?;
        for number in 1..=3_000 {
            let text = format!("{KPTFILE}info:\n  description: {number}\n");
            write!(
                stdin,
                "commit refs/heads/all\nmark :{number}\ncommitter pat <pat@example.org> 1700000000 +0000\ndata 2\nhi\n\
                 M 100644 inline many/Kptfile\ndata {}\n{text}\nreset refs/tags/many/v{number}\nfrom :{number}\n\n",
                text.len()
            )?;
        }
    }
    ensure!(child.wait()?.success());
    register(&case, &remotes, "many", false).await?;
    let begun = Instant::now();
    let condition = |repository: &Repository| {
        let status = repository.status.clone().unwrap_or_default();
        status.conditions.iter().find(|found| found.type_ == "Ready").cloned()
    };
    let is_under_way = |repository: &Repository| {
        condition(repository).is_some_and(|found| found.reason == "Reconciling" || found.status == "True")
    };
    let seen = case.until::<Repository>("it is told that it is read", "many", is_under_way).await?;
    println!("after {:?}: {:?}", begun.elapsed(), condition(&seen).map(|found| found.message));
    ensure!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    let is_ready =
        |repository: &Repository| condition(repository).is_some_and(|found| found.status == "True");
    case.until::<Repository>("it is read", "many", is_ready).await?;
    println!("all told after {:?}", begun.elapsed());
    let last: PackageRevision = case.get("many.many.v3000").await?;
    ensure!(last.metadata.labels.unwrap_or_default().contains_key("kpt.dev/latest-revision"));
    ensure!(case.list::<PackageRevision>("").await?.len() == 3_000);
    Ok(())
}
