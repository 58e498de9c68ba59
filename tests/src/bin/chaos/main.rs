//! `cargo xtask chaos`: users work on a system whose servers and services die, freeze, lose their
//! files or answer wrongly. Soon after its last fault, each round must reach the same final state
//! as without faults.

mod faults;
mod history;
mod installation;
mod oracle;
mod package;
mod plan;
mod report;
mod unit;
mod work;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use groundwork_api::Repository;
use groundwork_testkit::Audit;
use groundwork_tests::{ALL, System, SystemOptions};
use kube::api::{Api, DeleteParams, PostParams};

use history::History;
use oracle::Oracle;
use package::Remotes;
use plan::{Expected, Kind, Plan, REPLICAS, Size};

/// Settings of the two watchers, so that they elect a leader.
const ELECTION: [(&str, &str); 2] =
    [("GROUNDWORK_LEADER_ELECTION", "true"), ("GROUNDWORK_LEASE_NAMESPACE", "groundwork-system")];
/// Time limit for a round to reach its final state after the last fault.
const REST: Duration = Duration::from_secs(60);
/// Time limit for the garbage collector of Kubernetes. Its back-off grows to a minute while the API
/// server is unavailable.
const COLLECTED: Duration = Duration::from_secs(180);
/// Interval between two checks of a round.
const POLL: Duration = Duration::from_millis(250);

struct Arguments {
    binaries: PathBuf,
    rounds: u64,
    seed: u64,
    size: Size,
}

impl Arguments {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self> {
        let binaries = arguments.next().context("the first argument is the folder of the binaries")?.into();
        let size = Size { installations: 20, variants: 10, longest: Duration::from_secs(10) };
        let mut parsed = Self { binaries, rounds: 10, seed: 1, size };
        while let Some(argument) = arguments.next() {
            let value = arguments.next().with_context(|| format!("{argument} needs a value"))?;
            match argument.as_str() {
                "--rounds" => parsed.rounds = value.parse()?,
                "--seed" => parsed.seed = value.parse()?,
                "--installations" => parsed.size.installations = value.parse()?,
                "--variants" => parsed.size.variants = value.parse()?,
                "--longest" => parsed.size.longest = Duration::from_secs(value.parse()?),
                _ => bail!("there is no option {argument}"),
            }
        }
        Ok(parsed)
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let Arguments { binaries, rounds, seed, size } = Arguments::parse(std::env::args().skip(1))?;
    let clones = tempfile::tempdir()?;
    let options = SystemOptions {
        binaries: Some(binaries),
        proxied: true,
        wired: true,
        package_store: Some(clones.path().to_owned()),
        variables: ELECTION.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
        audit: Some(Audit::Objects(history::DEPLOYED)),
        ..SystemOptions::default()
    };
    let mut system = System::start(options).await?.context("the servers are missing: cargo xtask servers")?;
    let (mut slowest, mut kinds) = (Rests::default(), BTreeMap::<Kind, usize>::new());
    for seed in seed..seed + rounds {
        let plan = Plan::of(seed, size);
        let rests = round(&mut system, &plan).await.with_context(|| told(&plan))?;
        slowest.worked = slowest.worked.max(rests.worked);
        slowest.ended = slowest.ended.max(rests.ended);
        for (_, fault) in &plan.faults {
            *kinds.entry(fault.kind).or_default() += 1;
        }
        let (worked, ended) = (rests.worked.as_secs_f64(), rests.ended.as_secs_f64());
        println!("{} at rest after {worked:.1} s, gone after {ended:.1} s", told(&plan).replace('\n', "; "));
    }
    println!(
        "{rounds} rounds; at rest after at most {:.1} s, gone after at most {:.1} s; {} changes that no event told",
        slowest.worked.as_secs_f64(),
        slowest.ended.as_secs_f64(),
        untold(&system).await
    );
    for (kind, count) in kinds {
        println!("{count:>6} {kind:?}");
    }
    Ok(())
}

/// Formats a round as its seed and its faults.
fn told(plan: &Plan) -> String {
    let faults = plan.faults.iter().map(|(at, fault)| format!("\n  at {:.1} s: {fault}", at.as_secs_f64()));
    let replicas = if plan.has_replicas { " with two replicas" } else { "" };
    format!("seed {}{replicas}:{}", plan.seed, faults.collect::<String>())
}

/// Times until a round reached its final state.
#[derive(Debug, Clone, Copy, Default)]
struct Rests {
    /// Time after the last fault or act.
    worked: Duration,
    /// Time after the deletion of all units.
    ended: Duration,
}

/// Runs one round, with second replicas if the plan has them.
async fn round(system: &mut System, plan: &Plan) -> Result<Rests> {
    let second: &[(&'static str, &'static str)] = if plan.has_replicas { &REPLICAS } else { &[] };
    for (name, service) in second {
        system.run_as(name, service).await?;
    }
    for service in ALL.into_iter().chain(second.iter().map(|(name, _)| *name)) {
        system.until_ready(service).await?;
    }
    let rests = run(system, plan).await;
    for (name, _) in second {
        system.remove(name);
    }
    rests
}

async fn run(system: &mut System, plan: &Plan) -> Result<Rests> {
    let namespace = format!("chaos-{}", plan.seed);
    system.plane.create_namespace(&namespace).await?;
    let client = system.client().await?;
    let remotes = Remotes::create()?;
    let kubeconfig = std::fs::read_to_string(system.plane.kubeconfig())?;
    let first = PostParams::default();
    let targets = Api::namespaced(client.clone(), &namespace);
    targets.create(&first, &installation::target(&namespace, &kubeconfig)?).await?;
    let repositories = Api::<Repository>::namespaced(client.clone(), &namespace);
    for name in package::REPOSITORIES {
        repositories.create(&first, &remotes.repository(&namespace, name)?).await?;
    }
    let history = History::begin(system.plane.audit_log().context("there is an audit log")?)?;
    let begin = Instant::now();
    tokio::try_join!(work::act(&client, &namespace, plan, begin), faults::run(system, plan, begin))?;
    let mut expected = plan.expected();
    let oracle = Oracle { client: &client, namespace: &namespace, remotes: &remotes };
    let worked = until_at_rest(system, &oracle, &expected, "the last fault").await?;
    let flapping = history.flapping(&namespace, &expected)?;
    ensure!(flapping.is_empty(), "{}", flapping.join("\n"));
    work::end(&client, &namespace, plan).await?;
    expected.values_mut().for_each(|value| *value = None);
    let ended = until_at_rest(system, &oracle, &expected, "everything was deleted").await?;
    let flapping = history.flapping(&namespace, &expected)?;
    ensure!(flapping.is_empty(), "{}", flapping.join("\n"));
    for name in package::REPOSITORIES {
        repositories.delete(name, &DeleteParams::default()).await?;
    }
    Ok(Rests { worked, ended })
}

/// Waits until the state is final and correct. Returns the time that this took.
async fn until_at_rest(
    system: &System,
    oracle: &Oracle<'_>,
    expected: &Expected,
    since: &str,
) -> Result<Duration> {
    let over = Instant::now();
    loop {
        let (problems, silence) = match tokio::time::timeout(REST, oracle.problems(expected)).await {
            Ok(Ok(problems)) if problems.is_empty() => return Ok(over.elapsed()),
            Ok(Ok(problems)) => (problems, None),
            Ok(Err(error)) => (Vec::new(), Some(format!("{error:#}"))),
            Err(_) => (Vec::new(), Some("the API server does not answer".to_owned())),
        };
        let is_garbage = silence.is_none() && problems.iter().all(|problem| problem.is_garbage);
        let patience = if is_garbage { COLLECTED } else { REST };
        if over.elapsed() > patience {
            let report = report::report(system, &problems).await;
            bail!(
                "{} things are not at their rest {} s after {since} {}\n{report}",
                problems.len(),
                patience.as_secs(),
                silence.unwrap_or_default()
            );
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Returns how many changes the running services found by a periodic check because no event had
/// reported them.
async fn untold(system: &System) -> u64 {
    let mut sum = 0;
    for service in ALL {
        let Ok((_, metrics)) = system.admin(service, "/metrics").await else { continue };
        let lines = metrics.lines().filter(|line| line.starts_with("groundwork_untold_changes_total"));
        sum += lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum::<u64>();
    }
    sum
}
