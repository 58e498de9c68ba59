//! Benchmark of worker processes: `bench-sandbox PROGRAM NAME`, such as `bench-sandbox
//! target/release/sandbox-probe probe`. For a program other than the probe, it only starts a worker
//! and measures that at rest.
#![allow(clippy::print_stdout, reason = "figures for people")]

use std::time::{Duration, Instant};

use groundwork_sandbox::{ANYBODY, Options, Pool, WorkError, WorkerArguments};
use groundwork_telemetry::Metrics;

const STARTS: u32 = 20;
const RUNS: u32 = 5_000;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(program), Some(name)) = (arguments.next(), arguments.next()) else {
        return Err("bench-sandbox PROGRAM NAME".into());
    };
    let options = Options {
        pool: "bench",
        // The option takes a `&'static str`, since pool names of services are constants.
        name: if name == "probe" { "probe" } else { "renderer" },
        // A worker starts in the root directory, so the path must be absolute.
        program: Some(std::fs::canonicalize(&program)?),
        ahead: 1,
        most: 1,
        limits: WorkerArguments::default(),
        ceiling: WorkerArguments::default().ceiling(),
        wall_time: Duration::from_secs(60),
        yields: false,
    };
    let begin = Instant::now();
    for _ in 0..STARTS {
        drop(Pool::start(options.clone(), &Metrics::default()).await?);
    }
    println!("start of a worker       {:>9.1?}", begin.elapsed() / STARTS);
    let pool = Pool::start(options, &Metrics::default()).await?;
    for pid in children()? {
        println!("a worker at rest        {}", memory(pid)?);
    }
    if name == "probe" {
        for bytes in [64, 4 << 10, 64 << 10] {
            let task = format!("say {}", "x".repeat(bytes));
            let each = round_trip(&pool, task.as_bytes()).await?;
            println!("{bytes:>6} bytes and back   {each:>9.1?}");
        }
    }
    Ok(())
}

async fn round_trip(pool: &Pool, task: &[u8]) -> Result<Duration, WorkError> {
    let begin = Instant::now();
    for _ in 0..RUNS {
        pool.run(ANYBODY, task, &()).await?;
    }
    Ok(begin.elapsed() / RUNS)
}

/// Returns the child processes of this one. The kernel lists a child under the thread that started
/// it, and threads come and go, so all threads are read.
fn children() -> std::io::Result<Vec<u32>> {
    let threads = std::fs::read_dir("/proc/self/task")?.flatten();
    let texts = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    let found: Vec<String> = texts.collect();
    Ok(found.iter().flat_map(|text| text.split_whitespace()).filter_map(|pid| pid.parse().ok()).collect())
}

/// Returns a process's memory in kB: its private memory, and all that is mapped in memory.
fn memory(pid: u32) -> std::io::Result<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let lines = text.lines().filter(|line| {
        ["Rss:", "Pss:", "Private_Dirty:", "Private_Clean:"].iter().any(|name| line.starts_with(name))
    });
    Ok(lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>().join(", "))
}
