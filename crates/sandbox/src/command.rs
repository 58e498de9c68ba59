//! The worker of a command: the same program once more, with the same arguments, files and
//! terminal. It keeps the rights of the user, whose files it reads and writes. Its memory and
//! processor time have limits while it evaluates untrusted content.
//!
//! ```text
//! command: Invocation::delegate ──the same arguments──> worker: evaluate(work) ── limits ── work
//!              └── waits, and returns the exit code or the exceeded limit
//! ```

use std::ffi::OsString;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, ExitCode, ExitStatus};
use std::sync::OnceLock;

use crate::arguments::WorkerArguments;
use crate::error::WorkError;
use crate::fence::{Limits, die_with_parent, raise};
use crate::pool::own_program;
use crate::process::{SIGABRT, SIGSEGV, SIGXCPU, STACK_PLACE};
use crate::worker::AT_REST;

/// First argument of the worker of a command. It is internal, not for users.
const ARGUMENT: &str = "sandbox-command";

/// Limits of [`evaluate`]; they exist only in the worker of a command.
static LIMITS: OnceLock<Limits> = OnceLock::new();

/// Arguments of a command, and whether this process is its worker.
#[derive(Debug)]
pub struct Invocation {
    arguments: Vec<OsString>,
    /// Process that started this one as its worker.
    parent: Option<u32>,
}

impl Invocation {
    /// Reads the arguments of this process.
    pub fn of_process() -> Self {
        let mut arguments: Vec<OsString> = std::env::args_os().collect();
        let is_worker = arguments.get(1).is_some_and(|first| first == ARGUMENT);
        let parent = arguments.get(2).filter(|_| is_worker);
        let parent = parent.and_then(|parent| parent.to_str()?.parse().ok());
        if parent.is_some() {
            arguments.drain(1..3);
        }
        Self { arguments, parent }
    }

    /// Returns the arguments that the user gave, behind the name of the program.
    pub fn arguments(&self) -> &[OsString] {
        &self.arguments
    }

    /// Runs the command in a worker, and returns its exit code. Returns `None` where the caller
    /// itself does the work: in the worker, and where no worker can start.
    ///
    /// Signals of a terminal reach both processes. A worker ends with its parent.
    ///
    /// # Errors
    ///
    /// [`WorkError`] of a worker that exceeds a limit.
    pub fn delegate(&self, limits: WorkerArguments) -> Option<Result<ExitCode, WorkError>> {
        if let Some(parent) = self.parent {
            become_worker(parent, limits);
            return None;
        }
        // Other systems do not enforce the limits, so a worker would change nothing.
        if cfg!(not(target_os = "linux")) {
            return None;
        }
        let (program, arguments) = self.arguments.split_first()?;
        let worker = Command::new(own_program())
            .arg0(program)
            .args([ARGUMENT, &std::process::id().to_string()])
            .args(arguments)
            .status();
        Some(ending(worker.ok()?, limits))
    }
}

fn become_worker(parent: u32, limits: WorkerArguments) {
    die_with_parent(parent);
    let memory = limits.memory().saturating_add(AT_REST);
    if LIMITS.set(Limits::new(memory, limits.cpu_time())).is_err() {
        return;
    }
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        // The stacker library reports only by a panic that there is no memory for a stack.
        if panic.location().is_some_and(|place| place.file().contains(STACK_PLACE)) {
            std::process::abort();
        }
        report(panic);
    }));
}

fn ending(status: ExitStatus, limits: WorkerArguments) -> Result<ExitCode, WorkError> {
    match (status.code(), status.signal()) {
        (Some(code), _) => Ok(u8::try_from(code).map_or(ExitCode::FAILURE, ExitCode::from)),
        (None, Some(SIGXCPU)) => Err(WorkError::CpuTime { limit: limits.cpu_time() }),
        // The runtime has printed whether memory or stack is used up.
        (None, Some(SIGABRT | SIGSEGV)) => Err(WorkError::Memory { limit: limits.memory() }),
        (None, signal) => {
            // A signal from outside ends this process as it would have ended a command without a
            // worker.
            signal.into_iter().for_each(raise);
            Err(WorkError::Died { how: status.to_string() })
        }
    }
}

/// Evaluates untrusted content. In the worker of a command, the work ends the process if it exceeds
/// a limit: memory beyond that at the start of the work, or processor time of the work.
pub fn evaluate<T>(work: impl FnOnce() -> T) -> T {
    let _raised = LIMITS.get().map(Limits::raise);
    work()
}

/// Runs a part of the work of [`evaluate`] without its limits: another program, which would inherit
/// them and has limits of its own.
pub fn outside<T>(work: impl FnOnce() -> T) -> T {
    let _lifted = LIMITS.get().map(Limits::lift);
    work()
}
