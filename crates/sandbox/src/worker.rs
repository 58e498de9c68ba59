//! The worker's side: it receives work, does it and answers, until its service closes the
//! connection.

use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::fence;
use crate::frame::{self, Frame, Kind};

/// First argument of a worker process. It is internal, not for users.
pub(crate) const ARGUMENT: &str = "sandbox-worker";
/// Bytes that a worker may use between two pieces of work; the memory of the work is in addition.
pub(crate) const AT_REST: u64 = 64 << 20;

/// Function that workers of one name run with their connection; it returns when the connection has
/// ended.
pub type Work = fn(&Connection);

/// Becomes a worker if a [`Pool`](crate::Pool) started this process as one. Call this first in
/// `main`, before any thread starts, since a worker has neither files nor environment. `works`
/// contains the kinds of workers of the program, by name.
pub fn enter(works: &[(&str, Work)]) -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != ARGUMENT {
        return None;
    }
    let texts: Vec<String> = arguments.map(|argument| argument.to_string_lossy().into_owned()).collect();
    let [name, memory] = texts.as_slice() else { return Some(refuse()) };
    let work = works.iter().find(|(known, _)| known == name);
    let (Some((_, work)), Ok(memory)) = (work, memory.parse()) else { return Some(refuse()) };
    Some(match Connection::open(memory) {
        Ok(connection) => {
            work(&connection);
            ExitCode::SUCCESS
        }
        Err(_) => refuse(),
    })
}

#[allow(clippy::print_stderr, reason = "somebody has typed this, and nothing else is set up")]
fn refuse() -> ExitCode {
    eprintln!("{ARGUMENT} is internal: services start it for their worker processes; do not run it yourself");
    ExitCode::from(2)
}

/// Place of the last panic. The panic's text is left out, because it may contain values.
static PANICKED: Mutex<String> = Mutex::new(String::new());

/// The worker's only connection to the outside. Clones share it.
#[derive(Debug, Clone)]
pub struct Connection(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    stream: Mutex<UnixStream>,
    /// Set once the service has closed the connection or broken the protocol.
    is_over: AtomicBool,
}

impl Connection {
    /// Takes the socket on standard input, and gives up all other access.
    fn open(memory: u64) -> io::Result<Self> {
        std::panic::set_hook(Box::new(|panic| {
            let place = panic.location().map(ToString::to_string).unwrap_or_default();
            *PANICKED.lock().unwrap_or_else(PoisonError::into_inner) = place;
        }));
        // The address of the stack is read from a file once, so do it before the fence forbids
        // files.
        stacker::remaining_stack();
        let mut stream = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        // Fails if standard input is not a socket, because a user started the worker by hand.
        stream.peer_addr()?;
        fence::limit(memory.saturating_add(AT_REST));
        let lacking = fence::close();
        frame::send(&mut stream, Kind::Hello, lacking.join("; ").as_bytes())?;
        Ok(Self(Arc::new(Inner { stream: Mutex::new(stream), is_over: AtomicBool::new(false) })))
    }

    /// Does one piece of work after another, until the service closes the connection: `work` gets a
    /// task, and returns the result.
    ///
    /// A panic ends the worker, because it may leave inconsistent state.
    pub fn serve(&self, mut work: impl FnMut(Vec<u8>) -> Vec<u8>) {
        while !self.0.is_over.load(Ordering::Relaxed) {
            let Ok(Some(Frame { kind: Kind::Task, content })) = frame::receive(&mut *self.stream()) else {
                return;
            };
            let done = catch_unwind(AssertUnwindSafe(|| work(content)));
            let sent = match &done {
                Ok(done) => frame::send(&mut *self.stream(), Kind::Done, done),
                Err(_) => {
                    let place = PANICKED.lock().unwrap_or_else(PoisonError::into_inner).clone();
                    frame::send(&mut *self.stream(), Kind::Panicked, place.as_bytes())
                }
            };
            if sent.is_err() || done.is_err() {
                return;
            }
        }
    }

    /// Asks the service a question, and waits for the answer.
    ///
    /// # Errors
    ///
    /// The service has closed the connection, so the worker should stop.
    pub fn ask(&self, question: &[u8]) -> io::Result<Vec<u8>> {
        let mut stream = self.stream();
        let answer =
            frame::send(&mut *stream, Kind::Question, question).and_then(|()| frame::receive(&mut *stream));
        if let Ok(Some(Frame { kind: Kind::Answer, content })) = answer {
            return Ok(content);
        }
        self.0.is_over.store(true, Ordering::Relaxed);
        Err(answer.err().unwrap_or_else(|| io::ErrorKind::UnexpectedEof.into()))
    }

    fn stream(&self) -> MutexGuard<'_, UnixStream> {
        self.0.stream.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
