//! The side of a worker: it is asked for work, does it, and answers, until its service closes the connection.

use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::fence;
use crate::frame::{self, Frame, Kind};

/// The first argument of a worker. Nobody types it.
pub(crate) const ARGUMENT: &str = "sandbox-worker";
/// What lies between two pieces of work may have so many bytes; those of the work come on top.
pub(crate) const AT_REST: u64 = 64 << 20;

/// What workers of one name do with their connection; it returns when that has ended.
pub type Work = fn(&Connection);

/// Becomes a worker if the process was begun as one by a [`Pool`](crate::Pool). To be called first in `main`, before any thread: what begins
/// here has neither files nor environment. `works` are the kinds of workers that the program has, by name.
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
    eprintln!("a service starts {ARGUMENT} by itself, with a connection; it is no command for people");
    ExitCode::from(2)
}

/// Where the last panic was. Its text stays here: it may hold values.
static PANICKED: Mutex<String> = Mutex::new(String::new());

/// A worker's only way out. Clones are the same.
#[derive(Debug, Clone)]
pub struct Connection(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    stream: Mutex<UnixStream>,
    /// Set once the service is gone, or says what it does not say.
    is_over: AtomicBool,
}

impl Connection {
    /// Takes the socket that is the standard input, and closes everything else.
    fn open(memory: u64) -> io::Result<Self> {
        std::panic::set_hook(Box::new(|panic| {
            let place = panic.location().map(ToString::to_string).unwrap_or_default();
            *PANICKED.lock().unwrap_or_else(PoisonError::into_inner) = place;
        }));
        // The address of the stack is asked for once, and read from a file.
        stacker::remaining_stack();
        let mut stream = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        // It is the connection of a service, and not the terminal of somebody who plays.
        stream.peer_addr()?;
        fence::limit(memory.saturating_add(AT_REST));
        let lacking = fence::close();
        frame::send(&mut stream, Kind::Hello, lacking.join("; ").as_bytes())?;
        Ok(Self(Arc::new(Inner { stream: Mutex::new(stream), is_over: AtomicBool::new(false) })))
    }

    /// Does one piece of work after another, until the service closes the connection: `work` gets a task, and gives what came out.
    ///
    /// A panic ends the worker, since nobody knows what it has left.
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

    /// Asks the service for something, and waits for it.
    ///
    /// # Errors
    ///
    /// The service is gone. There is no use in going on.
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
