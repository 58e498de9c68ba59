//! Faults while 50 Installations are applied: servers and services die or answer wrongly, and the
//! final state is the same as without.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use groundwork_api::Installation;
use groundwork_bus::{Bus, Kind, NatsOptions, ObjectId, Record, STREAM};
use groundwork_proto::watcher::v1::ReplayRequest;
use groundwork_proto::watcher::v1::watcher_client::WatcherClient;
use groundwork_tests::{ALL, System, SystemOptions, wait_for};
use kube::ResourceExt;
use kube::api::{Api, ListParams};

use crate::grpc::{account_of_admin, channel};
use crate::many_installations::{COUNT, apply_with, dump, same_as, until_done};
use crate::support::PATIENCE;

async fn kill(system: &mut System, service: &'static str) -> Result<()> {
    system.service_mut(service)?.program.kill().await?;
    system.service_mut(service)?.program.start_again()?;
    system.until_ready(service).await
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_change_nothing_in_the_end() -> Result<()> {
    let Some(mut system) = System::start(SystemOptions::default()).await? else { return Ok(()) };
    apply_with(&mut system, "calm", async |_| Ok(())).await?;
    until_done(&system, "calm").await?;
    let calm = dump(&system, "calm").await?;
    ensure!(calm.len() == 4 * COUNT, "{} objects", calm.len());

    replayed(&mut system).await?;
    same_as(&calm, &system, "replayed").await?;

    apply_with(&mut system, "lost-stream", lose_the_stream).await?;
    same_as(&calm, &system, "lost-stream").await?;

    apply_with(&mut system, "killed-services", async |system| {
        for service in ALL {
            kill(system, service).await?;
        }
        Ok(())
    })
    .await?;
    same_as(&calm, &system, "killed-services").await?;

    apply_with(&mut system, "killed-nats", async |system| {
        system.nats.kill().await?;
        system.nats.start_again().await?;
        Ok(())
    })
    .await?;
    same_as(&calm, &system, "killed-nats").await?;

    apply_with(&mut system, "frozen-watcher", async |system| {
        let watcher = &system.service("watcher")?.program;
        watcher.signal("STOP")?;
        // The watcher is frozen long enough for the servers to close its connections.
        tokio::time::sleep(Duration::from_secs(3)).await;
        Ok(watcher.signal("CONT")?)
    })
    .await?;
    same_as(&calm, &system, "frozen-watcher").await?;

    apply_with(&mut system, "frozen-api-server", async |system| {
        system.plane.freeze_api_server(true)?;
        tokio::time::sleep(Duration::from_secs(10)).await;
        Ok(system.plane.freeze_api_server(false)?)
    })
    .await?;
    same_as(&calm, &system, "frozen-api-server").await?;

    apply_with(&mut system, "killed-api-server", async |system| {
        system.plane.kill_api_server().await?;
        Ok(system.plane.start_api_server_again().await?)
    })
    .await?;
    same_as(&calm, &system, "killed-api-server").await?;
    Ok(())
}

/// Every event is replayed repeatedly, including those of other namespaces.
async fn replayed(system: &mut System) -> Result<()> {
    const TIMES: usize = 5;
    let token = account_of_admin(system).await?;
    let mut watcher = WatcherClient::new(channel(system, "watcher", Some(&token))?);
    let mut replays = tokio::task::JoinSet::new();
    apply_with(system, "replayed", async |_| {
        replays.spawn(async move {
            let mut published = Vec::new();
            for _ in 0..TIMES {
                published.push(watcher.replay(ReplayRequest::default()).await?.into_inner().published);
            }
            Ok::<_, tonic::Status>(published)
        });
        Ok(())
    })
    .await?;
    let published = replays.join_next().await.context("the replays end")???;
    ensure!(published.iter().all(|count| *count > 3 * COUNT as u64), "{published:?}");
    Ok(())
}

/// A user deletes the stream with all its content.
async fn lose_the_stream(system: &mut System) -> Result<()> {
    let client = async_nats::connect(system.nats.url()).await?;
    let deleted = async_nats::jetstream::new(client).delete_stream(STREAM).await?;
    ensure!(deleted.success, "the stream was there");
    Ok(())
}

/// Watcher that is not the leader at first.
const STANDBY: &str = "standby";

async fn leads(system: &System, watcher: &str) -> Result<(), String> {
    let (_, metrics) = system.admin(watcher, "/metrics").await.map_err(|error| error.to_string())?;
    let line = metrics.lines().find(|line| line.starts_with("groundwork_watcher_leading"));
    if line == Some("groundwork_watcher_leading 1") { Ok(()) } else { Err(format!("{watcher}: {line:?}")) }
}

/// The leader is frozen until the other watcher leads. When it resumes, it finds that it is no
/// longer the leader.
async fn freeze_the_leader(system: &mut System) -> Result<()> {
    wait_for("the first one leads", PATIENCE, async || leads(system, "watcher").await).await?;
    let frozen = &system.service("watcher")?.program;
    frozen.signal("STOP")?;
    wait_for("the other one leads", PATIENCE, async || leads(system, STANDBY).await).await?;
    frozen.signal("CONT")?;
    wait_for("the first one does not lead", PATIENCE, async || match leads(system, "watcher").await {
        Ok(()) => Err("it leads".to_owned()),
        Err(_) => Ok(()),
    })
    .await?;
    leads(system, STANDBY).await.map_err(anyhow::Error::msg)
}

/// Checks that the stream contains the latest version of every Installation.
async fn nothing_is_overwritten(system: &System, namespace: &str) -> Result<()> {
    let bus = Bus::connect(NatsOptions::new(system.nats.url())).await?;
    let api: Api<Installation> = Api::namespaced(system.client().await?, namespace);
    let kind = Kind::new("landscaper.gardener.cloud", "installations");
    for installation in api.list(&ListParams::default()).await?.items {
        let id = ObjectId::new(kind.clone(), Some(namespace), installation.name_any());
        wait_for("the stream holds the latest version", PATIENCE, async || {
            match bus.last(&id).await.map_err(|error| error.to_string())?.map(|stored| stored.record) {
                Some(Record::Object(event))
                    if Some(event.change.resource_version())
                        == installation.metadata.resource_version.as_deref() =>
                {
                    Ok(())
                }
                other => Err(format!("{other:?}")),
            }
        })
        .await?;
    }
    Ok(())
}

/// Second replicas of running services.
const SECONDS: [(&str, &str); 3] =
    [("second-resolver", "resolver"), ("second-renderer", "renderer"), ("second-deployer", "deployer")];

/// Two replicas of each service share the work. Then the first ones are killed.
async fn replicas_share_and_stand_in(
    system: &mut System,
    calm: &std::collections::BTreeMap<String, serde_json::Value>,
) -> Result<()> {
    for (name, service) in SECONDS {
        system.run_as(name, service).await?;
        system.until_ready(name).await?;
    }
    apply_with(system, "two-replicas", async |_| Ok(())).await?;
    same_as(calm, system, "two-replicas").await?;
    for (name, _) in SECONDS {
        let (_, metrics) = system.admin(name, "/metrics").await?;
        let is_success = |line: &&str| line.starts_with("groundwork_handled_total") && !line.ends_with(" 0");
        ensure!(metrics.lines().any(|line| is_success(&line)), "{name} had nothing to do:\n{metrics}");
    }
    apply_with(system, "one-replica-dies", async |system| {
        for (_, service) in SECONDS {
            system.service_mut(service)?.program.kill().await?;
        }
        Ok(())
    })
    .await?;
    same_as(calm, system, "one-replica-dies").await
}

/// Two watchers, of which the leader is frozen. Every seventh write gets 409, 429 or 500, or is
/// done and answered with 500. Every other service has two replicas, one of which is killed.
#[tokio::test(flavor = "multi_thread")]
async fn other_leaders_and_wrong_answers_change_nothing_in_the_end() -> Result<()> {
    let variable = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let variables = vec![
        variable("GROUNDWORK_LEADER_ELECTION", "true"),
        variable("GROUNDWORK_LEASE_NAMESPACE", "groundwork-system"),
        variable("GROUNDWORK_LEASE_SECONDS", "3"),
    ];
    let options = SystemOptions { proxied: true, variables, ..SystemOptions::default() };
    let Some(mut system) = System::start(options).await? else { return Ok(()) };
    apply_with(&mut system, "calm", async |_| Ok(())).await?;
    until_done(&system, "calm").await?;
    let calm = dump(&system, "calm").await?;

    system.run_as(STANDBY, "watcher").await?;
    system.until_ready(STANDBY).await?;
    apply_with(&mut system, "frozen-leader", freeze_the_leader).await?;
    same_as(&calm, &system, "frozen-leader").await?;
    nothing_is_overwritten(&system, "frozen-leader").await?;

    replicas_share_and_stand_in(&mut system, &calm).await?;
    for (name, service) in SECONDS {
        system.service_mut(service)?.program.start_again()?;
        system.until_ready(service).await?;
        system.remove(name);
    }

    apply_with(&mut system, "disturbed", async |system| {
        system.proxies().for_each(|proxy| proxy.set_faulty(true));
        Ok(())
    })
    .await?;
    same_as(&calm, &system, "disturbed").await?;
    let disturbed: usize = system.proxies().map(groundwork_tests::Proxy::disturbed).sum();
    ensure!(disturbed > COUNT, "only {disturbed} writes were disturbed");
    Ok(())
}
