//! Services wait for an unavailable server, from their start on. The wait delays only the work that
//! needs that server.

use std::time::Instant;

use anyhow::{Result, ensure};
use futures::stream::{self, StreamExt, TryStreamExt};
use groundwork_api::{Context as LandscaperContext, Installation};
use groundwork_tests::{ALL, System, SystemOptions, wait_for};
use kube::api::PostParams;
use serde_json::json;

use crate::case::Case;
use crate::support::{PATIENCE, blueprint, installation, outcome};

/// Number of Installations that fail to reconcile.
const CROWD: usize = 500;

#[tokio::test(flavor = "multi_thread")]
async fn services_wait_for_what_is_away_and_do_what_can_be_done() -> Result<()> {
    let Some(mut system) = System::servers(SystemOptions::default()).await? else { return Ok(()) };
    system.nats.kill().await?;
    for service in ALL {
        system.run(service).await?;
    }
    for service in ALL {
        waits_for(&system, service, "NATS").await?;
    }
    // When NATS comes back, the stream is still empty, and no service can fill it without the API
    // server.
    for service in ALL {
        system.service_mut(service)?.program.kill().await?;
    }
    system.plane.kill_api_server().await?;
    system.nats.start_again().await?;
    for service in ALL {
        system.service_mut(service)?.program.start_again()?;
    }
    waits_for(&system, "watcher", "cannot get namespaces").await?;
    for service in ["resolver", "renderer", "deployer", "variant"] {
        waits_for(&system, service, "cannot look for the lease").await?;
    }
    system.plane.start_api_server_again().await?;
    for service in ALL {
        system.until_ready(service).await?;
    }
    let case = Case::new(&system, "late").await?;
    let done = case.install("server", &blueprint(&[("item", json!({}))])).await?;
    assert_eq!(outcome(&done), ("Succeeded".to_owned(), String::new()));

    system.service_mut("resolver")?.program.kill().await?;
    a_failing_crowd_delays_nobody(&system).await.map_err(|error| system.explained(error))
}

/// Waits until a service runs, is not ready, and gives the reason.
async fn waits_for(system: &System, service: &str, what: &str) -> Result<()> {
    wait_for(&format!("{service} says that it waits for {what}"), PATIENCE, async || {
        let running = system.service(service).map_err(|error| error.to_string())?;
        if !running.program.is_running() {
            return Err("it ended".to_owned());
        }
        match system.admin(service, "/readyz").await {
            Ok((503, why)) if why.contains(what) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await
    .map_err(|error| system.explained(error))
}

/// Returns the number of the renderer's reconcile attempts.
async fn attempts(system: &System) -> Result<f64> {
    let (_, metrics) = system.admin("renderer", "/metrics").await?;
    let lines = metrics.lines().filter(|line| line.starts_with("groundwork_handled_total"));
    Ok(lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum())
}

/// An Installation that does not need the resolver is not delayed by a crowd of Installations that
/// do, while the resolver is away.
async fn a_failing_crowd_delays_nobody(system: &System) -> Result<()> {
    let crowd = Case::new(system, "crowd").await?;
    let reference = json!({"componentName": "example.org/missing", "version": "1.0.0"});
    let member = |index: usize| -> Result<Installation> {
        let plain = installation("crowd", &format!("member-{index:04}"), &blueprint(&[("item", json!({}))]));
        let mut object = serde_json::to_value(plain)?;
        object["spec"]["componentDescriptor"] = json!({"ref": reference});
        Ok(serde_json::from_value(object)?)
    };
    let api = crowd.api::<Installation>();
    let begin = Instant::now();
    stream::iter(0..CROWD)
        .map(Ok)
        .try_for_each_concurrent(16, async |index| {
            api.create(&PostParams::default(), &member(index)?).await?;
            Ok::<(), anyhow::Error>(())
        })
        .await?;
    // Each Installation of the crowd is attempted, none too often, and its status names the missing
    // resolver.
    let told = |installation: &Installation| {
        let status = installation.status.clone().unwrap_or_default();
        status.last_error.is_some_and(|error| error.message.contains("cannot call the resolver"))
    };
    for index in 0..CROWD {
        let name = format!("member-{index:04}");
        wait_for(&format!("{name} says what it waits for"), 4 * PATIENCE, async || {
            let member = api.get(&name).await.map_err(|error| error.to_string())?;
            if told(&member) { Ok(()) } else { Err(format!("{:?}", member.status)) }
        })
        .await?;
    }
    let case = Case::new(system, "alone").await?;
    // Create the Context here, since the resolver that creates it is away.
    case.create::<LandscaperContext>("default", &json!({})).await?;
    let before = attempts(system).await?;
    let done = case.install("server", &blueprint(&[("item", json!({}))])).await?;
    assert_eq!(outcome(&done).0, "Succeeded");
    let tried = attempts(system).await?;
    let meanwhile = tried - before;
    ensure!(meanwhile < CROWD as f64 / 2.0, "it waited for {meanwhile} attempts at the objects of others");

    let seconds = begin.elapsed().as_secs_f64();
    let average = tried / seconds / CROWD as f64;
    ensure!(tried >= CROWD as f64, "{tried} attempts");
    ensure!(average < 1.0, "a key was tried {average} times a second");
    Ok(())
}
