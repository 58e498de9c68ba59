//! Benchmark of the running system, for `cargo xtask bench system`: services as processes, with a
//! real API server and NATS on the same machine.

mod components;
mod console;
mod deployers;
mod floor;
mod hostile;
mod load;
mod packages;
mod process;
mod requests;
mod scenario;
mod store;
mod variants;
mod watch;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value};

use components::Scale;
use deployers::Kind;
use scenario::Bench;

/// Number of Installations or PackageVariants in the scenarios with many of them.
const MANY: usize = 1000;

/// Scenarios in the order in which they run. A later scenario finds the objects of the earlier
/// ones.
const SCENARIOS: [&str; 11] = [
    "variants", "plain", "load", "idle", "reaction", "restart", "items", "beside", "hostile", "growth",
    "standing",
];
/// Scenarios that run on a system of their own: one with a package store, with its own components,
/// or with a second cluster.
const APART: [&str; 6] = ["packages", "store", "components", "manifests", "charts", "console"];
/// Message if the servers are not installed.
pub(crate) const NO_SERVERS: &str = "the servers are missing: cargo xtask servers";
/// Default number of rounds of the load and of the hostile scenario.
const ROUNDS: usize = 3;
/// Default number of the strangers' Installations.
const STRANGERS: usize = 10;

struct Arguments {
    binaries: PathBuf,
    json: Option<PathBuf>,
    with_floor: bool,
    is_small: bool,
    repeat: Repeat,
    /// Selected scenarios; all of them if the list is empty.
    scenarios: Vec<String>,
}

/// Number of rounds, and number of strangers beside the measured Installations.
#[derive(Clone, Copy)]
struct Repeat {
    rounds: usize,
    strangers: usize,
}

impl Arguments {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self> {
        let binaries = arguments.next().context("the first argument is the folder of the binaries")?;
        let mut parsed = Self {
            binaries: binaries.into(),
            json: None,
            with_floor: false,
            is_small: false,
            repeat: Repeat { rounds: ROUNDS, strangers: STRANGERS },
            scenarios: Vec::new(),
        };
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().with_context(|| format!("{argument} needs a value"));
            match argument.as_str() {
                "--json" => parsed.json = Some(value()?.into()),
                "--floor" => parsed.with_floor = true,
                "--small" => parsed.is_small = true,
                "--rounds" => parsed.repeat.rounds = value()?.parse::<usize>()?.max(1),
                "--strangers" => parsed.repeat.strangers = value()?.parse()?,
                _ => parsed.scenarios.push(argument),
            }
        }
        Ok(parsed)
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let Arguments { binaries, json, with_floor, is_small, repeat, scenarios } =
        Arguments::parse(std::env::args().skip(1))?;
    let all = [&SCENARIOS[..], &APART].concat();
    if let Some(unknown) = scenarios.iter().find(|name| !all.contains(&name.as_str())) {
        bail!("there is no scenario {unknown:?}, only {}", all.join(", "))
    }
    let wanted = |name: &str| scenarios.is_empty() || scenarios.iter().any(|wanted| wanted == name);
    let mut figures = Map::new();
    // Each figure is printed as soon as it is known, because a full run takes minutes.
    let mut tell = |found: Map<String, Value>| {
        for (name, figure) in &found {
            println!("{name:<64} {figure}");
        }
        figures.extend(found);
    };
    let shared: Vec<&str> = SCENARIOS.into_iter().filter(|name| wanted(name)).collect();
    if !shared.is_empty() {
        let mut bench = Bench::start(binaries.clone()).await?.context(NO_SERVERS)?;
        for name in shared {
            tell(measure(&mut bench, name, repeat, with_floor).await?);
        }
    }
    if wanted("packages") {
        let (repositories, each) = if is_small { (4, 5) } else { (20, MANY / 20) };
        tell(packages::packages(binaries.clone(), repositories, each).await?);
    }
    if wanted("store") {
        let (repositories, each) = if is_small { (2, 20) } else { (20, 500) };
        tell(store::store(binaries.clone(), repositories, each).await?);
    }
    if wanted("components") {
        let scale = if is_small {
            Scale { sets: 2, versions: 20, megabytes: 4 }
        } else {
            Scale { sets: 5, versions: 1000, megabytes: 200 }
        };
        tell(components::components(binaries.clone(), scale).await?);
    }
    for (name, kind) in [("manifests", Kind::Manifests), ("charts", Kind::Charts)] {
        if wanted(name) {
            let count = if is_small { 20 } else { 300 };
            tell(deployers::deployers(binaries.clone(), kind, count).await?);
        }
    }
    if wanted("console") {
        tell(console::console(binaries.clone(), if is_small { 500 } else { 20_000 }).await?);
    }
    if let Some(path) = json {
        let text = serde_json::to_string_pretty(&Value::Object(figures))?;
        std::fs::write(&path, text + "\n").with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

async fn measure(
    bench: &mut Bench,
    scenario: &str,
    Repeat { rounds, strangers }: Repeat,
    with_floor: bool,
) -> Result<Map<String, Value>> {
    Ok(match scenario {
        "variants" => bench.variants(MANY).await?,
        "plain" => bench.plain(MANY, 200).await?,
        "load" => bench.load(MANY, rounds, with_floor).await?,
        "idle" => bench.idle().await?,
        "reaction" => bench.reaction(200).await?,
        "restart" => {
            let mut figures = bench.restart_renderer().await?;
            figures.extend(bench.restart_watcher(20_000).await?);
            figures
        }
        "items" => {
            let mut figures = bench.items(20, 20).await?;
            figures.extend(bench.items(1000, 1).await?);
            figures
        }
        "beside" => bench.beside(MANY, 5000).await?,
        "hostile" => bench.hostile(MANY, strangers, rounds).await?,
        "growth" => bench.growth(MANY, 5).await?,
        _ => bench.standing(20_000).await?,
    })
}
