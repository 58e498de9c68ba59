//! Programs of our own, run as their users run them.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::{Process, StartError};

/// A running program. Dropping it kills it.
#[derive(Debug)]
pub struct Program {
    process: Process,
}

impl Program {
    /// Starts a program under a name that tells it from others in errors.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(name: &str, command: &Command) -> Result<Self, StartError> {
        let folder = tempfile::Builder::new().prefix(&format!("groundwork-{name}-")).tempdir();
        let folder = folder.map_err(|error| StartError::prepare(name)(error.into()))?;
        Ok(Self { process: Process::guarded(name.to_owned(), folder, command)? })
    }

    /// File with all that it has written, over all its lives.
    pub fn log(&self) -> PathBuf {
        self.process.folder().join("log")
    }

    /// Folder of its own, which goes with it.
    pub fn folder(&self) -> &Path {
        self.process.folder()
    }

    /// Its process.
    ///
    /// # Errors
    /// When it was never started.
    pub fn pid(&self) -> Result<u32, StartError> {
        self.process.pid()
    }

    /// Waits until `ready` says so.
    ///
    /// # Errors
    /// When it ends before that, or takes too long; the error holds the end of its log.
    pub async fn wait_until(&self, ready: impl AsyncFn() -> bool) -> Result<(), StartError> {
        self.process.wait_until(ready).await
    }

    /// Whether it runs.
    pub fn is_running(&self) -> bool {
        self.process.is_running()
    }

    /// Sends a signal, such as `TERM` or `STOP`.
    ///
    /// # Errors
    /// When it was never started.
    pub fn signal(&self, signal: &str) -> Result<(), StartError> {
        self.process.signal(signal)
    }

    /// Kills it (SIGKILL), and waits until it is dead.
    ///
    /// # Errors
    /// When it does not die.
    pub async fn kill(&mut self) -> Result<(), StartError> {
        self.process.kill().await
    }

    /// Starts the killed program again, with the same arguments.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start_again(&mut self) -> Result<(), StartError> {
        self.process.start_again()
    }
}
