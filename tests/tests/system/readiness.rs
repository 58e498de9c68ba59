//! Services report an outage of NATS soon, stop to report it when it is over, and log little about
//! it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use groundwork_api::Installation;
use groundwork_tests::{ALL, System, SystemOptions, wait_for};
use serde_json::{Value, json};

use crate::case::{Case, job};
use crate::support::{PATIENCE, blueprint, outcome};

/// Time limit for a service to report the outage.
const SOON: Duration = Duration::from_secs(10);
/// Maximum number of logged errors over all outages of the test. Errors that are retried are
/// warnings.
const MOST_ERRORS: usize = 2;

#[tokio::test(flavor = "multi_thread")]
async fn services_without_nats_are_not_ready_and_their_logs_stay_short() -> Result<()> {
    let Some(mut system) = System::start(SystemOptions::default()).await? else { return Ok(()) };
    let jobs = outages(&mut system).await.map_err(|error| system.explained(error))?;
    for service in ALL {
        few_words(service, &lines(&system, service)?)?;
    }
    // The renderer logs the end of a job after the answer to its write, but others may see the
    // write before that.
    wait_for("the log of the renderer tells of each job once", PATIENCE, async || {
        let renderer = lines(&system, "renderer").map_err(|error| error.to_string())?;
        jobs.iter().try_for_each(|job| told_once(job, &renderer)).map_err(|error| error.to_string())
    })
    .await
}

/// NATS is killed, a service starts without it, NATS comes back. Then NATS hangs for a while, and
/// then the API server is killed. Returns Installations whose jobs succeeded before, between and
/// after the outages.
async fn outages(system: &mut System) -> Result<Vec<Installation>> {
    let mut jobs = vec![succeeds(system, "before").await?];

    system.nats.kill().await?;
    all_name_nats(system, "it was killed").await?;
    system.service_mut("renderer")?.program.kill().await?;
    system.service_mut("renderer")?.program.start_again()?;
    names_nats(system, "renderer", SOON).await?;
    system.nats.start_again().await?;
    all_ready(system).await?;
    jobs.push(succeeds(system, "between").await?);

    // Connections stay open without answers, as from a node without network.
    system.nats.freeze(true)?;
    all_name_nats(system, "it hangs").await?;
    system.nats.freeze(false)?;
    all_ready(system).await?;
    jobs.push(succeeds(system, "after").await?);

    // The API server is killed as well, so every request and every watch fails for a while.
    system.plane.kill_api_server().await?;
    wait_for("the watcher says that it watches nothing", PATIENCE, async || {
        match system.admin("watcher", "/readyz").await {
            Ok((503, why)) if why.contains("stream: cannot") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await?;
    system.plane.start_api_server_again().await?;
    all_ready(system).await?;
    jobs.push(succeeds(system, "at-last").await?);
    Ok(jobs)
}

async fn succeeds(system: &System, namespace: &str) -> Result<Installation> {
    let case = Case::new(system, namespace).await?;
    let done = case.install("server", &blueprint(&[("item", json!({}))])).await?;
    ensure!(outcome(&done).0 == "Succeeded", "{:?}", outcome(&done));
    Ok(done)
}

async fn all_ready(system: &System) -> Result<()> {
    for service in ALL {
        system.until_ready(service).await?;
    }
    Ok(())
}

/// Waits until every service reports that NATS is unavailable.
async fn all_name_nats(system: &System, why: &str) -> Result<()> {
    let begin = Instant::now();
    for service in ALL {
        names_nats(system, service, SOON.saturating_sub(begin.elapsed())).await.context(why.to_owned())?;
    }
    Ok(())
}

async fn names_nats(system: &System, service: &str, limit: Duration) -> Result<()> {
    let address = system.nats.url().replace("nats://", "");
    let wanted = format!("bus: NATS at {address} does not answer");
    wait_for(&format!("{service} says that NATS is away"), limit, async || {
        match system.admin(service, "/readyz").await {
            Ok((503, why)) if why.contains(&wanted) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await
}

/// Returns the log of a service, over all of its starts.
fn lines(system: &System, service: &str) -> Result<Vec<Value>> {
    let text = std::fs::read_to_string(system.service(service)?.program.log())?;
    // A killed process may have left half a line.
    Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

/// Checks that there are few errors, and that no problem is logged repeatedly: there were three
/// outages and at most two starts.
fn few_words(service: &str, lines: &[Value]) -> Result<()> {
    const MOST: usize = 3;
    ensure!(!lines.is_empty(), "{service} logs in JSON");
    let errors: Vec<&Value> = lines.iter().filter(|line| line["level"] == "ERROR").collect();
    ensure!(errors.len() <= MOST_ERRORS, "{service} has {} ERROR lines: {errors:#?}", errors.len());
    let mut warnings = BTreeMap::<String, Vec<String>>::new();
    for line in lines.iter().filter(|line| line["level"] == "WARN") {
        let what = format!("{} {}", line["target"], line["message"]);
        warnings.entry(what).or_default().push(line["fields"].to_string());
    }
    let repeated: Vec<_> = warnings.iter().filter(|(_, told)| told.len() > MOST).collect();
    ensure!(repeated.is_empty(), "{service} repeats itself: {repeated:#?}");
    Ok(())
}

/// Checks that exactly one INFO line names the Installation, with its job and the duration.
fn told_once(installation: &Installation, renderer: &[Value]) -> Result<()> {
    let metadata = &installation.metadata;
    let name = format!(
        "{}/{}",
        metadata.namespace.as_deref().unwrap_or_default(),
        metadata.name.as_deref().unwrap_or_default()
    );
    let is_about = |line: &&Value| line["level"] == "INFO" && line.to_string().contains(&name);
    let about: Vec<&Value> = renderer.iter().filter(is_about).collect();
    ensure!(about.len() == 1, "{name} has {} INFO lines: {about:#?}", about.len());
    let fields = &about[0]["fields"];
    ensure!(fields["installation"] == name.as_str() && fields["job"] == job(installation), "{fields}");
    ensure!(fields["seconds"].is_number(), "{fields}");
    Ok(())
}
