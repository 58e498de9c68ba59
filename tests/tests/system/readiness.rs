//! What services say of themselves while NATS is away: that they cannot work, soon, and no longer than it is so; and
//! little of it in their logs.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use groundwork_api::Installation;
use groundwork_tests::{ALL, System, SystemOptions, wait_for};
use serde_json::{Value, json};

use crate::case::{Case, job};
use crate::support::{PATIENCE, blueprint, outcome};

/// How soon a service must say that it cannot work.
const SOON: Duration = Duration::from_secs(10);
/// What may go wrong beyond what is tried again, over all that happens here.
const MOST_ERRORS: usize = 2;

#[tokio::test(flavor = "multi_thread")]
async fn services_without_nats_are_not_ready_and_their_logs_stay_short() -> Result<()> {
    let Some(mut system) = System::start(SystemOptions::default()).await? else { return Ok(()) };
    let jobs = outages(&mut system).await.with_context(|| system.logs())?;
    for service in ALL {
        few_words(service, &lines(&system, service)?)?;
    }
    // The end of a job is logged when its write has been answered, and others may see it before that.
    wait_for("the log of the renderer tells of each job once", PATIENCE, async || {
        let renderer = lines(&system, "renderer").map_err(|error| error.to_string())?;
        jobs.iter().try_for_each(|job| told_once(job, &renderer)).map_err(|error| error.to_string())
    })
    .await
}

/// NATS dies, a service is started without it, it comes back; then it hangs for a while; then the API server dies. Answers with
/// Installations whose jobs succeeded before, between and after.
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

    // Connections stay open, and nobody answers: as with a node that is cut off.
    system.nats.freeze(true)?;
    all_name_nats(system, "it hangs").await?;
    system.nats.freeze(false)?;
    all_ready(system).await?;
    jobs.push(succeeds(system, "after").await?);

    // The other server that everybody needs: every request and every watch fails for a while.
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

/// Every service says soon that NATS is away.
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

/// The log of a service, over all of its starts.
fn lines(system: &System, service: &str) -> Result<Vec<Value>> {
    let text = std::fs::read_to_string(system.service(service)?.program.log())?;
    // A process that was killed may have left half a line.
    Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

/// Hardly an ERROR, and no trouble again and again: there were three outages and two starts at most.
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

/// One INFO line names the Installation, and in it are the job and how long it took.
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
