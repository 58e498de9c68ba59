//! Runs our own programs as users run them.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::{Process, StartError};

/// Running program. Dropping it kills the program.
#[derive(Debug)]
pub struct Program {
    process: Process,
}

impl Program {
    /// Starts a program under a name that identifies it in errors.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn start(name: &str, command: &Command) -> Result<Self, StartError> {
        let folder = tempfile::Builder::new().prefix(&format!("groundwork-{name}-")).tempdir();
        let folder = folder.map_err(|error| StartError::prepare(name)(error.into()))?;
        Ok(Self { process: Process::guarded(name.to_owned(), folder, command)? })
    }

    /// Returns the file with the output of all its runs.
    pub fn log(&self) -> PathBuf {
        self.process.folder().join("log")
    }

    /// Returns the folder of the program, which is removed when this handle is dropped.
    pub fn folder(&self) -> &Path {
        self.process.folder()
    }

    /// Returns the process id of the program.
    ///
    /// # Errors
    /// The program was never started.
    pub fn pid(&self) -> Result<u32, StartError> {
        self.process.pid()
    }

    /// Waits until `ready` returns true.
    ///
    /// # Errors
    /// The program ends before that, or takes too long; the error has the end of its log.
    pub async fn wait_until(&self, ready: impl AsyncFn() -> bool) -> Result<(), StartError> {
        self.process.wait_until(ready).await
    }

    /// Reports whether the program runs.
    pub fn is_running(&self) -> bool {
        self.process.is_running()
    }

    /// Sends a signal, such as `TERM` or `STOP`.
    ///
    /// # Errors
    /// The program was never started.
    pub fn signal(&self, signal: &str) -> Result<(), StartError> {
        self.process.signal(signal)
    }

    /// Kills the program (SIGKILL), and waits until it is dead.
    ///
    /// # Errors
    /// The program does not die.
    pub async fn kill(&mut self) -> Result<(), StartError> {
        self.process.kill().await
    }

    /// Starts the killed program again, with the same arguments.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn start_again(&mut self) -> Result<(), StartError> {
        self.process.start_again()
    }
}
