//! NATS server with JetStream.

use std::path::Path;

use crate::binaries::Server;
use crate::process::{Process, StartError, answer, folder, free_port, with_free_ports, write};

/// Running NATS server. Dropping it ends the server.
#[derive(Debug)]
pub struct Nats {
    process: Process,
    port: u16,
}

impl Nats {
    /// Starts a server without authentication.
    ///
    /// # Errors
    /// The binary is missing, or the server does not start.
    pub async fn start() -> Result<Self, StartError> {
        Self::start_with("").await
    }

    /// Starts a server with additional configuration, such as users, in the format of its
    /// configuration file.
    ///
    /// # Errors
    /// The binary is missing, or the server does not start.
    pub async fn start_with(configuration: &str) -> Result<Self, StartError> {
        with_free_ports(async || Self::start_once(configuration).await).await
    }

    async fn start_once(configuration: &str) -> Result<Self, StartError> {
        let server = Server::NatsServer;
        let folder = folder(server)?;
        let port = free_port(server)?;
        let file = folder.path().join("nats.conf");
        write(server, &file, configuration)?;
        let arguments = [
            format!("--config={}", file.display()),
            "--addr=127.0.0.1".to_owned(),
            format!("--port={port}"),
            "--jetstream".to_owned(),
            format!("--store_dir={}", folder.path().join("data").display()),
        ];
        let process = Process::start(server, folder, arguments)?;
        process.wait_until(async || answer(port, "").starts_with("INFO ")).await?;
        Ok(Self { process, port })
    }

    /// Kills the server (SIGKILL), and waits until it is dead.
    ///
    /// # Errors
    /// The server does not die.
    pub async fn kill(&mut self) -> Result<(), StartError> {
        self.process.kill().await
    }

    /// Freezes the server (SIGSTOP), or lets it continue. While frozen its connections stay open,
    /// but it does not answer.
    ///
    /// # Errors
    /// The signal cannot be sent.
    pub fn freeze(&self, frozen: bool) -> Result<(), StartError> {
        self.process.signal(if frozen { "STOP" } else { "CONT" })
    }

    /// Starts the killed server again, on the same port and with the same data.
    ///
    /// # Errors
    /// The server does not start.
    pub async fn start_again(&mut self) -> Result<(), StartError> {
        self.process.start_again()?;
        let port = self.port;
        self.process.wait_until(async || answer(port, "").starts_with("INFO ")).await
    }

    /// Returns the folder with its configuration and its data.
    pub fn folder(&self) -> &Path {
        self.process.folder()
    }

    /// Returns the port for clients.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the address for clients.
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }
}
