//! Figures of the running system, for `cargo xtask bench system`: services as processes, a real API server and NATS on
//! the same machine.

mod process;
mod requests;
mod scenario;
mod variants;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value};

use scenario::Bench;

/// Installations, or PackageVariants, in the scenarios with many of them.
const MANY: usize = 1000;

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let binaries =
        PathBuf::from(arguments.next().context("the first argument is the folder of the binaries")?);
    let json = arguments.next().map(PathBuf::from);
    let Some(mut bench) = Bench::start(binaries).await? else {
        bail!("the servers are missing: cargo xtask servers")
    };
    let mut figures = Map::new();
    // Each is told when it is known: all of them take minutes.
    let mut tell = |found: Map<String, Value>| {
        for (name, figure) in &found {
            println!("{name:<64} {figure}");
        }
        figures.extend(found);
    };
    tell(bench.variants(MANY).await?);
    tell(bench.burst(MANY).await?);
    tell(bench.idle(MANY).await?);
    tell(bench.reaction(200).await?);
    tell(bench.restart_renderer().await?);
    tell(bench.restart_watcher(20_000).await?);
    tell(bench.items(20, 20).await?);
    tell(bench.items(1000, 1).await?);
    tell(bench.beside(MANY, 5000).await?);
    if let Some(path) = json {
        let text = serde_json::to_string_pretty(&Value::Object(figures))?;
        std::fs::write(&path, text + "\n").with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
