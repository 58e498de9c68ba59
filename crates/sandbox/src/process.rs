//! One worker process, from the view of its service.

use std::borrow::Cow;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::time::{Instant, timeout};

use crate::ceiling::Ceiling;
use crate::error::{StartError, WorkError};
use crate::fence::usage;
use crate::frame::{Frame, Kind, MOST_BYTES, receive_from, send_to};
use crate::patience::{Clock, Late, Patience, Remembering};
use crate::priority::{CALL, Share};
use crate::worker::{ARGUMENT, AT_REST};

/// Time limit for the start of a worker's program, on a busy machine.
const STARTED_WITHIN: Duration = Duration::from_secs(30);
/// Time limit for the end of a process after its connection has closed.
const ENDED_WITHIN: Duration = Duration::from_secs(5);
/// Source path of a panic that means there was no memory for a further stack: the stacker library
/// reports that only by a panic.
pub(crate) const STACK_PLACE: &str = "/stacker-";
/// Maximum bytes that are read from the standard error of a process that has ended.
const LAST_WORDS: u64 = 4 << 10;

/// Limits of every piece of work.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) memory: u64,
    pub(crate) cpu_time: Duration,
    pub(crate) wall_time: Duration,
    pub(crate) yields: bool,
}

/// Outcome of work that did not fail.
pub(crate) enum Ended<'h> {
    Done(Vec<u8>),
    /// The work waits for an answer, while others wait for its place.
    Late(Late<'h>),
}

/// Outcome of the exchange with a worker.
enum Said<'h> {
    Last(Frame),
    Late(Late<'h>),
    NothingInTime,
}

/// A process that is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    pid: u32,
    stream: UnixStream,
    /// Mechanisms that the kernel lacks, as text.
    pub(crate) lacking: String,
    /// Time at which the worker last became idle.
    pub(crate) idle_since: Instant,
    /// Private memory before the first piece of work; unknown where `/proc` is not available.
    resident: Option<u64>,
    /// True if the kernel enforces the limit of processor time.
    has_cpu_limit: bool,
    /// True if the worker has done work before.
    pub(crate) is_used: bool,
    /// True once the worker's priority was lowered, which cannot be undone.
    has_yielded: bool,
}

impl Process {
    pub(crate) async fn start(program: &Path, name: &str, limits: Limits) -> Result<Self, StartError> {
        let (own, theirs) = std::os::unix::net::UnixStream::pair().map_err(StartError::Spawn)?;
        own.set_nonblocking(true).map_err(StartError::Spawn)?;
        let child = Command::new(program)
            .args([ARGUMENT, name, &limits.memory.to_string()])
            .env_clear()
            .current_dir("/")
            // A process group of its own keeps Ctrl-C of a terminal from the workers; the service
            // ends them itself.
            .process_group(0)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(StartError::Spawn)?;
        let stream = UnixStream::from_std(own).map_err(StartError::Spawn)?;
        let pid = child.id().unwrap_or_default();
        let now = Instant::now();
        let mut process = Self {
            child,
            pid,
            stream,
            lacking: String::new(),
            idle_since: now,
            resident: None,
            has_cpu_limit: false,
            is_used: false,
            has_yielded: false,
        };
        let hello = timeout(STARTED_WITHIN, receive_from(&mut process.stream)).await;
        match hello.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
            Ok(Frame { kind: Kind::Hello, content }) => {
                process.lacking = String::from_utf8_lossy(&content).into_owned();
            }
            Ok(_) => return Err(StartError::Hello(io::ErrorKind::InvalidData.into())),
            Err(error) => return Err(StartError::Hello(error)),
        }
        process.measure(limits);
        Ok(process)
    }

    /// Reads the process's memory from outside, and checks whether its processor time can be
    /// limited.
    fn measure(&mut self, limits: Limits) {
        let mut lacking = Vec::from_iter((!self.lacking.is_empty()).then(|| self.lacking.clone()));
        match usage::resident(self.pid) {
            Ok(bytes) => self.resident = Some(bytes),
            Err(error) => lacking.push(format!("/proc does not report the memory of a process: {error}")),
        }
        let used = usage::used_cpu_time(self.pid);
        match used.and_then(|used| usage::limit_cpu_time(self.pid, used + limits.cpu_time)) {
            Ok(()) => self.has_cpu_limit = true,
            Err(error) => lacking.push(format!("the processor time of a process cannot be limited: {error}")),
        }
        if limits.yields
            && let Err(error) = usage::yield_to_others(self.pid, CALL)
        {
            lacking.push(format!("the priority of a process cannot be set: {error}"));
        }
        self.lacking = lacking.join("; ");
    }

    /// Runs a piece of work within its time limit. After an error, and after a late answer, the
    /// process cannot be used any more.
    #[expect(clippy::too_many_arguments, reason = "each is a bound of its own")]
    pub(crate) async fn run<'h>(
        &mut self,
        task: &[u8],
        host: &Remembering<'h>,
        limits: Limits,
        clock: &mut Clock,
        ceiling: &Ceiling,
        share: &Share<'_>,
        patience: Patience<'_>,
    ) -> Result<Ended<'h>, WorkError> {
        let pid = self.pid;
        let used = usage::used_cpu_time(pid).unwrap_or_default();
        let has_yielded = AtomicBool::new(false);
        let conversation = tokio::select! {
            biased;
            conversation = self.converse(task, host, used + limits.cpu_time, clock, patience) => conversation,
            () = ceiling.exceeded_by(pid) => {
                return Err(WorkError::MemoryTotal { limit: ceiling.limit() });
            }
            never = share.yield_when_long(pid, used, &has_yielded) => match never {},
        };
        self.has_yielded = has_yielded.into_inner();
        match conversation {
            Ok(Said::Late(late)) => Ok(Ended::Late(late)),
            Ok(Said::NothingInTime) => Err(WorkError::WallTime { limit: limits.wall_time }),
            Ok(Said::Last(Frame { kind: Kind::Done, content })) => Ok(Ended::Done(content)),
            Ok(Said::Last(Frame { kind: Kind::Panicked, content })) => {
                let place: String = String::from_utf8_lossy(&content).chars().take(200).collect();
                Err(if place.contains(STACK_PLACE) {
                    WorkError::Memory { limit: limits.memory }
                } else {
                    WorkError::Panicked { place }
                })
            }
            Ok(Said::Last(_)) => Err(WorkError::Died { how: "it sent an invalid message".to_owned() }),
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                Err(WorkError::Output { limit: MOST_BYTES })
            }
            Err(error) => Err(self.why(&error, limits).await),
        }
    }

    /// Exchanges messages with the worker. `most_cpu_time` is the total processor time that the
    /// process may have used at the end of this work.
    async fn converse<'h>(
        &mut self,
        task: &[u8],
        host: &Remembering<'h>,
        most_cpu_time: Duration,
        clock: &mut Clock,
        patience: Patience<'_>,
    ) -> io::Result<Said<'h>> {
        if self.has_cpu_limit {
            usage::limit_cpu_time(self.pid, most_cpu_time)?;
        }
        self.is_used = true;
        let mut message = (Kind::Task, Cow::Borrowed(task));
        loop {
            let stream = &mut self.stream;
            let exchange = async {
                send_to(stream, message.0, &message.1).await?;
                receive_from(stream).await
            };
            let Some(frame) = clock.work(exchange).await else { return Ok(Said::NothingInTime) };
            let frame = frame?;
            if frame.kind != Kind::Question {
                return Ok(Said::Last(frame));
            }
            let mut answer = host.answer(frame.content.clone());
            let answered = async {
                tokio::select! {
                    biased;
                    answer = &mut answer => Some(answer),
                    () = patience.ends() => None,
                }
            };
            match clock.wait(answered).await {
                Some(Some(answer)) => message = (Kind::Answer, Cow::Owned(answer)),
                Some(None) => return Ok(Said::Late(Late { question: frame.content, answer })),
                None => return Ok(Said::NothingInTime),
            }
        }
    }

    /// Returns the reason why a process has closed its connection.
    async fn why(&mut self, error: &io::Error, limits: Limits) -> WorkError {
        let Ok(Ok(status)) = timeout(ENDED_WITHIN, self.child.wait()).await else {
            return WorkError::Died { how: format!("it closed its connection but did not end: {error}") };
        };
        let mut words = Vec::new();
        if let Some(stderr) = self.child.stderr.take() {
            // All other ends of the pipe are closed by now, so this read ends.
            _ = stderr.take(LAST_WORDS).read_to_end(&mut words).await;
        }
        ending(status, &String::from_utf8_lossy(&words), limits)
    }

    /// Reports whether the worker has a lower priority than a new one would have.
    pub(crate) fn has_yielded(&self) -> bool {
        self.has_yielded
    }

    /// Reports whether the worker has freed the memory of its last work, so that the next one has
    /// the full limit.
    pub(crate) fn is_at_rest(&self) -> bool {
        let Some(before) = self.resident else { return true };
        usage::resident(self.pid).is_ok_and(|now| now.saturating_sub(before) < AT_REST)
    }

    /// Reports whether the worker is still running.
    pub(crate) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

/// Returns the limit that a process has exceeded, from its signal and, for the two limits without a
/// signal of their own, from the text of Rust's runtime.
fn ending(status: ExitStatus, words: &str, limits: Limits) -> WorkError {
    match status.signal() {
        Some(SIGXCPU) => WorkError::CpuTime { limit: limits.cpu_time },
        Some(SIGABRT) if words.contains("memory allocation of") => WorkError::Memory { limit: limits.memory },
        Some(SIGABRT | SIGSEGV) if words.contains("overflowed its stack") => WorkError::Stack,
        // This includes a process that the kernel killed because there was no memory for its stack
        // to grow.
        _ => WorkError::Died { how: status.to_string() },
    }
}

pub(crate) const SIGABRT: i32 = 6;
pub(crate) const SIGSEGV: i32 = 11;
pub(crate) const SIGXCPU: i32 = 24;
