//! Execution of the program `git` in its own process group, which is killed after a timeout or an
//! interrupt.

use std::io::{Read as _, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process_group, prlimit};

use crate::git::limits::Interrupt;

/// Limit for the kept output of `git` in bytes, because a remote can make the output arbitrarily
/// long.
const MAX_OUTPUT: u64 = 64 << 20;
/// Limit for one fetch, in bytes.
pub(crate) const MAX_PACK: u64 = 1 << 30;
/// Memory limit of each process, in bytes.
const MAX_MEMORY: u64 = 384 << 20;

/// Limits of a call besides its time limit.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Limits {
    /// Limit for each file that the call writes, in bytes.
    pub(crate) file: Option<u64>,
}

/// Result of a call that was not interrupted.
pub(crate) struct Output {
    /// Exit code; `None` if a signal has ended the process.
    pub(crate) status: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Reason why a call has no result.
pub(crate) enum Ended {
    NoProgram(String),
    OutOfTime,
    Interrupted,
}

/// Runs a command until it ends, until `until`, or until it is interrupted.
pub(crate) fn run(
    mut command: Command,
    input: &str,
    until: Instant,
    limits: Limits,
    interrupt: &Interrupt,
) -> Result<Output, Ended> {
    command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| Ended::NoProgram(error.to_string()))?;
    // Set the limits at once: child processes of `git` inherit the limits at their start.
    limit(&child, limits);
    let stdout = collect(child.stdout.take());
    let stderr = collect(child.stderr.take());
    if let Some(mut stdin) = child.stdin.take() {
        let input = input.as_bytes().to_vec();
        // Write the input in a thread beside the readers: with full pipes, both sides would wait
        // for each other. An error means that the program ended early.
        std::thread::spawn(move || drop(stdin.write_all(&input)));
    }
    let status = wait(&mut child, until, interrupt)?;
    let output = |reader: JoinHandle<String>| reader.join().unwrap_or_default();
    Ok(Output { status, stdout: output(stdout), stderr: output(stderr) })
}

/// Returns the program with its full path. If the new process had to search its own `PATH`, the
/// standard library would fork and copy all page tables of this service, which may have much
/// memory.
pub(crate) fn program() -> Result<&'static Path, String> {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    if let Some(known) = PROGRAM.get() {
        return Ok(known);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join("git")).find(|file| file.is_file());
    let found = found.ok_or_else(|| "it is not in PATH".to_owned())?;
    Ok(PROGRAM.get_or_init(|| found))
}

fn limit(child: &Child, limits: Limits) {
    let process = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let resources = [(Resource::Data, Some(MAX_MEMORY)), (Resource::Fsize, limits.file)];
    for (resource, limit) in resources {
        if let Some(limit) = limit {
            // Setting a limit fails only if the container already has a lower one.
            let _ = prlimit(process, resource, Rlimit { current: Some(limit), maximum: Some(limit) });
        }
    }
}

/// Reads to the end in a separate thread, so that the program never blocks on a full pipe.
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

/// Waits for the program and returns its exit code; `None` after a signal.
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
        // Kill the whole group, because the child processes of `git` hold the connection.
        if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        drop(child.kill());
        drop(child.wait());
        return Err(ended);
    }
}
