//! `cargo xtask chaos`: users work on a system in which servers and services die, freeze, come back without their files or answer wrongly. Each
//! round ends at the rest that it would have come to without faults, soon after the last of them.

mod faults;
mod oracle;
mod plan;
mod unit;
mod work;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use groundwork_tests::{ALL, System, SystemOptions};

use oracle::Recorder;
use plan::{Kind, Plan, REPLICAS};

/// A round is at rest so soon after its last fault.
const REST: Duration = Duration::from_secs(60);
/// Distance of two looks at a round.
const POLL: Duration = Duration::from_millis(250);
/// Things not at rest that a failure prints.
const OBJECTS_TOLD: usize = 40;

struct Arguments {
    binaries: PathBuf,
    rounds: u64,
    seed: u64,
    units: usize,
    longest: Duration,
}

impl Arguments {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self> {
        let binaries = arguments.next().context("the first argument is the folder of the binaries")?.into();
        let mut parsed = Self { binaries, rounds: 10, seed: 1, units: 20, longest: Duration::from_secs(10) };
        while let Some(argument) = arguments.next() {
            let value = arguments.next().with_context(|| format!("{argument} needs a value"))?;
            match argument.as_str() {
                "--rounds" => parsed.rounds = value.parse()?,
                "--seed" => parsed.seed = value.parse()?,
                "--units" => parsed.units = value.parse()?,
                "--longest" => parsed.longest = Duration::from_secs(value.parse()?),
                _ => bail!("there is no option {argument}"),
            }
        }
        Ok(parsed)
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let Arguments { binaries, rounds, seed, units, longest } = Arguments::parse(std::env::args().skip(1))?;
    let options =
        SystemOptions { binaries: Some(binaries), proxied: true, wired: true, ..SystemOptions::default() };
    let mut system = System::start(options).await?.context("the servers are missing: cargo xtask servers")?;
    let (mut slowest, mut kinds) = (Duration::ZERO, BTreeMap::<Kind, usize>::new());
    for seed in seed..seed + rounds {
        let plan = Plan::of(seed, units, longest);
        let rest = round(&mut system, &plan).await.with_context(|| told(&plan))?;
        slowest = slowest.max(rest);
        for (_, fault) in &plan.faults {
            *kinds.entry(fault.kind).or_default() += 1;
        }
        println!(
            "{} at rest {:.1} s after the last fault",
            told(&plan).replace('\n', "; "),
            rest.as_secs_f64()
        );
    }
    let untold = untold(&system).await;
    println!(
        "{rounds} rounds; the slowest rest took {:.1} s; {untold} changes that no event told",
        slowest.as_secs_f64()
    );
    for (kind, count) in kinds {
        println!("{count:>6} {kind:?}");
    }
    Ok(())
}

/// A round by its seed and its faults.
fn told(plan: &Plan) -> String {
    let faults = plan.faults.iter().map(|(at, fault)| format!("\n  at {:.1} s: {fault}", at.as_secs_f64()));
    let replicas = if plan.has_replicas { " with two replicas" } else { "" };
    format!("seed {}{replicas}:{}", plan.seed, faults.collect::<String>())
}

/// The time from the last fault, or the last act, to the rest.
async fn round(system: &mut System, plan: &Plan) -> Result<Duration> {
    let second: &[(&'static str, &'static str)] = if plan.has_replicas { &REPLICAS } else { &[] };
    for (name, service) in second {
        system.run_as(name, service).await?;
    }
    for service in ALL.into_iter().chain(second.iter().map(|(name, _)| *name)) {
        system.until_ready(service).await?;
    }
    let rest = run(system, plan).await;
    for (name, _) in second {
        system.remove(name);
    }
    rest
}

async fn run(system: &mut System, plan: &Plan) -> Result<Duration> {
    let namespace = format!("chaos-{}", plan.seed);
    system.plane.create_namespace(&namespace).await?;
    let client = system.client().await?;
    let kubeconfig = std::fs::read_to_string(system.plane.kubeconfig())?;
    let targets = kube::Api::namespaced(client.clone(), &namespace);
    targets.create(&kube::api::PostParams::default(), &unit::target(&namespace, &kubeconfig)?).await?;
    let recorder = Recorder::start(client.clone(), namespace.clone());
    let begin = Instant::now();
    tokio::try_join!(work::act(&client, &namespace, plan, begin), faults::run(system, plan, begin))?;
    let expected = work::expected(plan);
    let over = Instant::now();
    loop {
        let look = tokio::time::timeout(REST, oracle::problems(&client, &namespace, &expected)).await;
        let problems = match look {
            Ok(Ok(problems)) if problems.is_empty() => break,
            Ok(Ok(problems)) => problems,
            Ok(Err(error)) => vec![format!("the API server: {error:#}")],
            Err(_) => vec!["the API server does not answer".to_owned()],
        };
        if over.elapsed() > REST {
            let count = problems.len();
            let problems = problems.into_iter().take(OBJECTS_TOLD).collect::<Vec<_>>().join("\n  ");
            bail!(
                "{count} things are not at their rest {} s after the last fault:\n  {problems}\n{}",
                REST.as_secs(),
                system.logs()
            );
        }
        tokio::time::sleep(POLL).await;
    }
    let rest = over.elapsed();
    let flapping = recorder.flapping(&expected).await;
    ensure!(flapping.is_empty(), "{}", flapping.join("\n"));
    Ok(rest)
}

/// How often a look has found what no event had told, in all services as they live now.
async fn untold(system: &System) -> u64 {
    let mut sum = 0;
    for service in ALL {
        let Ok((_, metrics)) = system.admin(service, "/metrics").await else { continue };
        let lines = metrics.lines().filter(|line| line.starts_with("groundwork_untold_changes_total"));
        sum += lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum::<u64>();
    }
    sum
}
