//! Server of git repositories over http and ssh.

use std::path::PathBuf;

use crate::binaries::Server;
use crate::process::{Process, StartError, answer, folder, free_port, with_free_ports};

/// User name for http.
const USER: &str = "pat";

/// Running server of the bare repositories below [`GitServer::root`]. Dropping it ends the server.
#[derive(Debug)]
pub struct GitServer {
    process: Process,
    http: u16,
    ssh: u16,
    password: String,
}

impl GitServer {
    /// Starts a server without repositories. It requires a user name and a password over http, and
    /// a key over ssh.
    ///
    /// # Errors
    /// The binary is missing, or the server does not start.
    pub async fn start() -> Result<Self, StartError> {
        with_free_ports(Self::start_once).await
    }

    async fn start_once() -> Result<Self, StartError> {
        let server = Server::GitServer;
        let folder = folder(server)?;
        let (http, ssh) = (free_port(server)?, free_port(server)?);
        let password = format!("password-{http}");
        let path = folder.path().display().to_string();
        let process = Process::start(
            server,
            folder,
            [
                format!("-root={path}"),
                format!("-keys={path}"),
                format!("-http=127.0.0.1:{http}"),
                format!("-ssh=127.0.0.1:{ssh}"),
                format!("-user={USER}:{password}"),
            ],
        )?;
        let request = "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n";
        process.wait_until(async || answer(http, request).starts_with("HTTP/1.1 200")).await?;
        Ok(Self { process, http, ssh, password })
    }

    /// Returns the folder of the repositories.
    pub fn root(&self) -> PathBuf {
        self.process.folder().to_owned()
    }

    /// Returns the address of a repository over http.
    pub fn http(&self, name: &str) -> String {
        format!("http://127.0.0.1:{}/{name}", self.http)
    }

    /// Returns the address of a repository over ssh.
    pub fn ssh(&self, name: &str) -> String {
        format!("ssh://git@127.0.0.1:{}/{name}", self.ssh)
    }

    /// Returns user name and password for http.
    pub fn user(&self) -> (&str, &str) {
        (USER, &self.password)
    }

    /// Returns the private key for ssh, and the line of a `known_hosts` file for the server.
    ///
    /// # Errors
    /// The files of the server cannot be read.
    pub fn keys(&self) -> std::io::Result<(String, String)> {
        let read = |name: &str| std::fs::read_to_string(self.process.folder().join(name));
        Ok((read("client")?, read("known_hosts")?))
    }
}
