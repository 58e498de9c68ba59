//! Faults, as they are done to the servers and processes of a system.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use groundwork_tests::{Flow, System};

use crate::plan::{Fault, Plan};

/// A request of a service waits so long while it is slowed down.
const SLOWNESS: Duration = Duration::from_secs(1);
/// Whatever goes over a slow wire waits so long.
const LATENESS: Duration = Duration::from_millis(300);
/// How often a server is asked to start again, whose port somebody may hold for a moment.
const STARTS: usize = 20;

/// One end of a fault.
#[derive(Debug, Clone, Copy)]
enum Step {
    Begin(Fault),
    End(Fault),
}

/// Does all faults of a plan at their times, and ends them.
pub(crate) async fn run(system: &mut System, plan: &Plan, begin: Instant) -> Result<()> {
    let mut steps: Vec<(Duration, Step)> = Vec::new();
    for (at, fault) in &plan.faults {
        steps.push((*at, Step::Begin(*fault)));
        steps.push((*at + fault.length(), Step::End(*fault)));
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
        Step::Begin(Fault::Kill(service, _)) => system.service_mut(service)?.program.kill().await?,
        Step::Begin(Fault::Terminate(service, _)) => system.service(service)?.program.signal("TERM")?,
        Step::End(Fault::Kill(service, _) | Fault::Terminate(service, _)) => {
            let program = &mut system.service_mut(service)?.program;
            // One that takes long to end is killed, as by the kubelet.
            program.kill().await?;
            program.start_again()?;
        }
        Step::Begin(Fault::Freeze(service, _)) => system.service(service)?.program.signal("STOP")?,
        Step::End(Fault::Freeze(service, _)) => system.service(service)?.program.signal("CONT")?,
        Step::Begin(Fault::KillNats(_) | Fault::LoseNats(_)) => system.nats.kill().await?,
        Step::Begin(Fault::RewindNats(_)) => {
            system.nats.freeze(true)?;
            copy(&data(system), &copied(system))?;
            system.nats.freeze(false)?;
        }
        Step::End(Fault::KillNats(_)) => start_nats(system).await?,
        Step::End(Fault::LoseNats(_)) => {
            fs::remove_dir_all(data(system))?;
            start_nats(system).await?;
        }
        Step::End(Fault::RewindNats(_)) => {
            system.nats.kill().await?;
            fs::remove_dir_all(data(system))?;
            fs::rename(copied(system), data(system))?;
            start_nats(system).await?;
        }
        Step::Begin(Fault::FreezeNats(_)) => system.nats.freeze(true)?,
        Step::End(Fault::FreezeNats(_)) => system.nats.freeze(false)?,
        Step::Begin(Fault::KillApiServer(_)) => system.plane.kill_api_server().await?,
        Step::End(Fault::KillApiServer(_)) => system.plane.start_api_server_again().await?,
        Step::Begin(Fault::FreezeApiServer(_)) => system.plane.freeze_api_server(true)?,
        Step::End(Fault::FreezeApiServer(_)) => system.plane.freeze_api_server(false)?,
        Step::Begin(Fault::CutWire(service, _)) => system.wire(service)?.set(Flow::Cut),
        Step::Begin(Fault::StallWire(service, _)) => system.wire(service)?.set(Flow::Stalled),
        Step::Begin(Fault::DelayWire(service, _)) => system.wire(service)?.set(Flow::Slow(LATENESS)),
        Step::End(
            Fault::CutWire(service, _) | Fault::StallWire(service, _) | Fault::DelayWire(service, _),
        ) => system.wire(service)?.set(Flow::Open),
        Step::Begin(Fault::Compact) => system.plane.compact()?,
        Step::End(Fault::Compact) => {}
        Step::Begin(Fault::RefuseWrites(_)) => system.proxies().for_each(|proxy| proxy.set_faulty(true)),
        Step::End(Fault::RefuseWrites(_)) => system.proxies().for_each(|proxy| proxy.set_faulty(false)),
        Step::Begin(Fault::SlowDown(_)) => system.proxies().for_each(|proxy| proxy.set_slow(SLOWNESS)),
        Step::End(Fault::SlowDown(_)) => system.proxies().for_each(|proxy| proxy.set_slow(Duration::ZERO)),
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

/// The files of NATS.
fn data(system: &System) -> PathBuf {
    system.nats.folder().join("data")
}

/// Where a copy of them is kept.
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
