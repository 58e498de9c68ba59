//! The program `git`, in a process group of its own that is ended when it takes too long or nobody waits for it.

use std::io::{Read as _, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process_group, prlimit};

use crate::limits::Interrupt;

/// The part of the output of `git` that is kept; a remote can make it say as much as it wants to.
const MAX_OUTPUT: u64 = 64 << 20;
/// Bytes that a fetch may bring at once.
pub(crate) const MAX_PACK: u64 = 1 << 30;
/// Memory of each process, in bytes.
const MAX_MEMORY: u64 = 384 << 20;

/// The resources of a call besides time.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Limits {
    /// Bytes of each file that it writes.
    pub(crate) file: Option<u64>,
}

/// The end of a call that was not interrupted.
pub(crate) struct Output {
    /// The exit code; none if a signal has ended it.
    pub(crate) status: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Why a call has no outcome.
pub(crate) enum Ended {
    NoProgram(String),
    OutOfTime,
    Interrupted,
}

/// Runs a command to its end, until `until`, or until nobody waits any more.
pub(crate) fn run(
    mut command: Command,
    input: &str,
    until: Instant,
    limits: Limits,
    interrupt: &Interrupt,
) -> Result<Output, Ended> {
    command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| Ended::NoProgram(error.to_string()))?;
    // Before it has begun anything: the programs that it starts inherit what it has by then.
    limit(&child, limits);
    let stdout = collect(child.stdout.take());
    let stderr = collect(child.stderr.take());
    if let Some(mut stdin) = child.stdin.take() {
        let input = input.as_bytes().to_vec();
        // Written beside the reading, or both sides could wait for each other; who ends early wants no more.
        std::thread::spawn(move || drop(stdin.write_all(&input)));
    }
    let status = wait(&mut child, until, interrupt)?;
    let output = |reader: JoinHandle<String>| reader.join().unwrap_or_default();
    Ok(Output { status, stdout: output(stdout), stderr: output(stderr) })
}

/// The program by its whole path: one that has to be looked for in the variable `PATH` of the new process is started by copying
/// this one first, with all page tables of a service that has much in memory.
pub(crate) fn program() -> Result<&'static Path, String> {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    if let Some(known) = PROGRAM.get() {
        return Ok(known);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join("git")).find(|file| file.is_file());
    let found = found.ok_or_else(|| "it is in no folder of PATH".to_owned())?;
    Ok(PROGRAM.get_or_init(|| found))
}

fn limit(child: &Child, limits: Limits) {
    let process = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let resources = [(Resource::Data, Some(MAX_MEMORY)), (Resource::Fsize, limits.file)];
    for (resource, limit) in resources {
        if let Some(limit) = limit {
            // A limit that cannot be set is one that the container has already, and lower.
            let _ = prlimit(process, resource, Rlimit { current: Some(limit), maximum: Some(limit) });
        }
    }
}

/// Reads to the end, in a thread of its own, so that the program never waits for us.
fn collect(pipe: Option<impl std::io::Read + Send + 'static>) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            drop(pipe.by_ref().take(MAX_OUTPUT).read_to_end(&mut bytes));
            drop(std::io::copy(&mut pipe, &mut std::io::sink()));
        }
        String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    })
}

/// The exit code of the program, or its end by a signal as none.
fn wait(child: &mut Child, until: Instant, interrupt: &Interrupt) -> Result<Option<i32>, Ended> {
    let mut pause = Duration::from_micros(500);
    loop {
        let ended = match child.try_wait() {
            Ok(Some(status)) => return Ok(status.code().filter(|_| status.signal().is_none())),
            Ok(None) if interrupt.is_raised() => Ended::Interrupted,
            Ok(None) if Instant::now() < until => {
                std::thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(10));
                continue;
            }
            Ok(None) | Err(_) => Ended::OutOfTime,
        };
        // The programs that it has started hold the connection, and they are of its group.
        if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        drop(child.kill());
        drop(child.wait());
        return Err(ended);
    }
}
