//! Injects the planned faults into the servers and processes of a system.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use groundwork_tests::{Flow, System};

use crate::plan::{Fault, Kind, Plan};

/// Delay of each request while a service is slowed down.
const SLOWNESS: Duration = Duration::from_secs(1);
/// Delay of each message on a slow NATS connection.
const LATENESS: Duration = Duration::from_millis(300);
/// Attempts to start a server again, because another process may hold its port for a moment.
const STARTS: usize = 20;

/// Start or end of a fault.
#[derive(Debug, Clone, Copy)]
enum Step {
    Begin(Fault),
    End(Fault),
}

/// Starts and ends all faults of a plan at their times.
pub(crate) async fn run(system: &mut System, plan: &Plan, begin: Instant) -> Result<()> {
    let mut steps: Vec<(Duration, Step)> = Vec::new();
    for (at, fault) in &plan.faults {
        steps.push((*at, Step::Begin(*fault)));
        steps.push((*at + fault.length, Step::End(*fault)));
    }
    steps.sort_by_key(|(at, _)| *at);
    for (at, step) in steps {
        tokio::time::sleep_until((begin + at).into()).await;
        take(system, step).await.with_context(|| format!("{step:?}"))?;
    }
    Ok(())
}

async fn take(system: &mut System, step: Step) -> Result<()> {
    match step {
        Step::Begin(fault) => begin(system, fault).await,
        Step::End(fault) => end(system, fault).await,
    }
}

async fn begin(system: &mut System, Fault { kind, victim, .. }: Fault) -> Result<()> {
    match kind {
        Kind::Kill => system.service_mut(victim)?.program.kill().await?,
        Kind::Terminate => system.service(victim)?.program.signal("TERM")?,
        Kind::Freeze => system.service(victim)?.program.signal("STOP")?,
        Kind::CutWire => system.wire(victim)?.set(Flow::Cut),
        Kind::StallWire => system.wire(victim)?.set(Flow::Stalled),
        Kind::DeafenWire => system.wire(victim)?.set(Flow::Deaf),
        Kind::DelayWire => system.wire(victim)?.set(Flow::Slow(LATENESS)),
        Kind::KillNats | Kind::LoseNats => system.nats.kill().await?,
        Kind::RewindNats => {
            system.nats.freeze(true)?;
            copy(&data(system), &copied(system))?;
            system.nats.freeze(false)?;
        }
        Kind::FreezeNats => system.nats.freeze(true)?,
        Kind::KillApiServer => system.plane.kill_api_server().await?,
        Kind::FreezeApiServer => system.plane.freeze_api_server(true)?,
        Kind::RefuseWrites => system.proxies().for_each(|proxy| proxy.set_faulty(true)),
        Kind::SlowDown => system.proxies().for_each(|proxy| proxy.set_slow(SLOWNESS)),
        Kind::Compact => system.plane.compact()?,
    }
    Ok(())
}

async fn end(system: &mut System, Fault { kind, victim, .. }: Fault) -> Result<()> {
    match kind {
        Kind::Kill | Kind::Terminate => {
            let program = &mut system.service_mut(victim)?.program;
            // A service that does not end in time is killed, as the kubelet does.
            program.kill().await?;
            program.start_again()?;
        }
        Kind::Freeze => system.service(victim)?.program.signal("CONT")?,
        Kind::CutWire | Kind::StallWire | Kind::DeafenWire | Kind::DelayWire => {
            system.wire(victim)?.set(Flow::Open);
        }
        Kind::KillNats => start_nats(system).await?,
        Kind::LoseNats => {
            fs::remove_dir_all(data(system))?;
            start_nats(system).await?;
        }
        Kind::RewindNats => {
            system.nats.kill().await?;
            fs::remove_dir_all(data(system))?;
            fs::rename(copied(system), data(system))?;
            start_nats(system).await?;
        }
        Kind::FreezeNats => system.nats.freeze(false)?,
        Kind::KillApiServer => system.plane.start_api_server_again().await?,
        Kind::FreezeApiServer => system.plane.freeze_api_server(false)?,
        Kind::RefuseWrites => system.proxies().for_each(|proxy| proxy.set_faulty(false)),
        Kind::SlowDown => system.proxies().for_each(|proxy| proxy.set_slow(Duration::ZERO)),
        Kind::Compact => {}
    }
    Ok(())
}

async fn start_nats(system: &mut System) -> Result<()> {
    let mut last = None;
    for _ in 0..STARTS {
        match system.nats.start_again().await {
            Ok(()) => return Ok(()),
            Err(error) => last = Some(error),
        }
    }
    last.map_or(Ok(()), |error| Err(error.into()))
}

/// Returns the data folder of NATS.
fn data(system: &System) -> PathBuf {
    system.nats.folder().join("data")
}

/// Returns the folder for the copy of the NATS data.
fn copied(system: &System) -> PathBuf {
    system.nats.folder().join("copy")
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let (entry, to) = {
            let entry = entry?;
            let to = to.join(entry.file_name());
            (entry, to)
        };
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}
