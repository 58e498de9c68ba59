//! Every object reaches its final state, whatever events a watcher or a NATS server has lost.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use groundwork_api::{DeployItem, Execution, Installation};
use groundwork_bus::{Bus, Change, Event, Feed, IndexFeed, Kind, NatsOptions, ObjectId, Record, Snapshot};
use groundwork_testkit::{Nats, Server, servers_or_skip};
use groundwork_tests::{ALL, Flow, System, SystemOptions, Wire, wait_for};
use kube::ResourceExt;
use serde_json::json;

use crate::case::{Case, job};
use crate::support::{PATIENCE, blueprint, outcome};

/// Time limit for the deletion of a tree after the watcher's return. It is long enough for a busy
/// machine, and much shorter than the interval of any periodic check.
const SOON: Duration = Duration::from_secs(25);

/// Waits until the stream contains an object in the API server's version.
async fn until_published<K: groundwork_api::Kind + crate::case::Namespaced>(
    case: &Case<'_>,
    name: &str,
) -> Result<()> {
    let bus = Bus::connect(NatsOptions::new(case.system.nats.url())).await?;
    let id =
        ObjectId::new(Kind::new(<K as groundwork_api::Kind>::GROUP, K::PLURAL), Some(&case.namespace), name);
    wait_for(&format!("{name} is on the stream as it is"), PATIENCE, async || {
        let object: K = case.get(name).await.map_err(|error| error.to_string())?;
        let stored = bus.last(&id).await.map_err(|error| error.to_string())?;
        match stored.map(|stored| stored.record) {
            Some(Record::Object(event))
                if Some(event.change.resource_version()) == object.meta().resource_version.as_deref() =>
            {
                Ok(())
            }
            other => Err(format!("{other:?}")),
        }
    })
    .await
    .map_err(|error| case.system.explained(error))
}

/// The watcher stops while an item is deleted whose last version the renderer has written. The
/// tombstone from the restarted watcher carries that version.
#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_that_no_watcher_saw_ends_soon_after_one_is_back() -> Result<()> {
    let Some(mut system) = System::start(SystemOptions::default()).await? else { return Ok(()) };
    let case = Case::new(&system, "unseen").await?;
    let installed = case.install("server", &blueprint(&[("item", json!({}))])).await?;
    assert_eq!(outcome(&installed).0, "Succeeded");
    let item = case.item("server", "item").await?.name_any();
    system.service("deployer")?.program.signal("STOP")?;
    case.delete::<Installation>("server").await?;
    let is_handed_over = |found: &DeployItem| {
        let status = found.status.clone().unwrap_or_default();
        let has_job = status.job_id.is_some() && status.job_id != status.job_id_finished;
        found.metadata.deletion_timestamp.is_some() && has_job && status.job_id != Some(job(&installed))
    };
    case.until("the item is to be deleted", &item, is_handed_over).await?;
    until_published::<DeployItem>(&case, &item).await?;
    until_published::<Execution>(&case, "server").await?;

    system.service_mut("watcher")?.program.kill().await?;
    let case = Case::existing(&system, "unseen").await?;
    system.service("deployer")?.program.signal("CONT")?;
    case.gone::<DeployItem>(&item).await?;
    system.service_mut("watcher")?.program.start_again()?;
    system.until_ready("watcher").await?;

    let case = Case::existing(&system, "unseen").await?;
    wait_for("the Installation is gone", SOON, async || {
        let left: Vec<Installation> = case.list("").await.map_err(|error| error.to_string())?;
        if left.is_empty() { Ok(()) } else { Err(serde_json::to_string(&left).unwrap_or_default()) }
    })
    .await
    .map_err(|error| system.explained(error))
}

/// Copies a folder with all its content to a path that does not exist yet.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            copy(&from, &to)?;
        } else {
            fs::copy(&from, &to)?;
        }
    }
    Ok(())
}

/// Returns the creation time of the stream, which changes when the stream is built again.
async fn created_at(system: &System) -> Result<jiff::Timestamp> {
    Ok(Bus::connect(NatsOptions::new(system.nats.url())).await?.status().await?.created_at)
}

/// NATS restarts without its last seconds, as after a power failure. Jobs that were requested in
/// these seconds start all the same. After a restart without loss, the stream is not rebuilt.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_that_nats_has_lost_begin_all_the_same() -> Result<()> {
    let Some(mut system) = System::start(SystemOptions::default()).await? else { return Ok(()) };
    let case = Case::new(&system, "lost").await?;
    let text = blueprint(&[("item", json!({}))]);
    assert_eq!(outcome(&case.install("before", &text).await?).0, "Succeeded");
    let (data, former) = (system.nats.folder().join("data"), system.nats.folder().join("former"));
    let created = created_at(&system).await?;
    system.nats.kill().await?;
    copy(&data, &former)?;
    system.nats.start_again().await?;
    for service in ALL {
        system.until_ready(service).await?;
    }
    system.service("renderer")?.program.signal("STOP")?;
    let case = Case::existing(&system, "lost").await?;
    let names: Vec<String> = (0..5).map(|index| format!("lost-{index}")).collect();
    for name in &names {
        case.begin_with(name, &text, &json!({})).await?;
        until_published::<Installation>(&case, name).await?;
    }
    assert_eq!(created_at(&system).await?, created, "nothing was lost so far");

    system.nats.kill().await?;
    fs::remove_dir_all(&data)?;
    fs::rename(&former, &data)?;
    system.nats.start_again().await?;
    system.service("renderer")?.program.signal("CONT")?;
    let case = Case::existing(&system, "lost").await?;
    for name in &names {
        assert_eq!(outcome(&case.finished(name).await?).0, "Succeeded", "{name}");
    }
    for service in ALL {
        system.until_ready(service).await?;
    }
    assert_ne!(created_at(&system).await?, created, "it was filled again");
    Ok(())
}

/// Returns the next object of a feed, or `None` if the feed starts again.
async fn heard(feed: &mut IndexFeed) -> Result<Option<String>> {
    loop {
        match tokio::time::timeout(SOON, feed.next()).await.context("the feed tells nothing")? {
            Feed::Reset => return Ok(None),
            Feed::Record { record: Record::Object(event), .. } => return Ok(Some(event.object.name)),
            Feed::Record { .. } => {}
        }
    }
}

/// NATS restarts without its last messages while a reader is disconnected, and another leader fills
/// the stream beyond the reader's position. The messages there do not continue those that the
/// reader knows, so the reader starts again.
#[tokio::test(flavor = "multi_thread")]
async fn who_was_away_while_the_stream_went_back_begins_anew() -> Result<()> {
    if !servers_or_skip(&[Server::NatsServer]) {
        return Ok(());
    }
    let kind = Kind::new("", "configmaps");
    let mut nats = Nats::start().await?;
    let writer = Bus::connect(NatsOptions::new(nats.url())).await?;
    let publish = async |name: &str| {
        let snapshot =
            Snapshot { uid: name.to_owned(), resource_version: "1".to_owned(), ..Snapshot::default() };
        let object = ObjectId::new(kind.clone(), Some("n"), name);
        let change = Change::Applied(snapshot);
        let event = Event { object, change, trace: None, replay: None, time: jiff::Timestamp::now() };
        writer.publish(&Record::Object(event), None).await
    };
    writer.ensure_stream().await?;
    writer.begin_leading("first").await?;
    publish("kept").await?;
    let (data, former) = (nats.folder().join("data"), nats.folder().join("former"));
    nats.kill().await?;
    copy(&data, &former)?;
    nats.start_again().await?;

    let wire = Wire::start(nats.port()).await?;
    let reader = Bus::connect(NatsOptions::new(format!("nats://127.0.0.1:{}", wire.port()))).await?;
    let mut feed = reader.index(std::slice::from_ref(&kind)).await?;
    publish("lost-1").await?;
    publish("lost-2").await?;
    for expected in [None, Some("kept"), Some("lost-1"), Some("lost-2")] {
        assert_eq!(heard(&mut feed).await?.as_deref(), expected);
    }
    wire.set(Flow::Cut);
    nats.kill().await?;
    fs::remove_dir_all(&data)?;
    fs::rename(&former, &data)?;
    nats.start_again().await?;
    writer.begin_leading("second").await?;
    for name in ["new-1", "new-2", "new-3"] {
        publish(name).await?;
    }
    wire.set(Flow::Open);
    for expected in [None, Some("kept"), Some("new-1"), Some("new-2"), Some("new-3")] {
        assert_eq!(heard(&mut feed).await?.as_deref(), expected);
    }
    Ok(())
}
