//! Server of git repositories over http, https and ssh, with a forward proxy.

use std::path::PathBuf;

use crate::binaries::Server;
use crate::process::{Process, StartError, answer, folder, free_port, with_free_ports};

/// User name for http and https, and for the proxy.
const USER: &str = "pat";

/// Running server of the bare repositories below [`GitServer::root`]. Dropping it ends the server.
#[derive(Debug)]
pub struct GitServer {
    process: Process,
    ports: Ports,
    password: String,
}

#[derive(Debug, Clone, Copy)]
struct Ports {
    http: u16,
    https: u16,
    ssh: u16,
    proxy: u16,
}

impl GitServer {
    /// Starts a server without repositories. It requires a user name and a password over http and
    /// https and for its proxy, and a key over ssh.
    ///
    /// # Errors
    /// The binary is missing, or the server does not start.
    pub async fn start() -> Result<Self, StartError> {
        with_free_ports(Self::start_once).await
    }

    async fn start_once() -> Result<Self, StartError> {
        let server = Server::GitServer;
        let folder = folder(server)?;
        let ports = Ports {
            http: free_port(server)?,
            https: free_port(server)?,
            ssh: free_port(server)?,
            proxy: free_port(server)?,
        };
        let Ports { http, https, ssh, proxy } = ports;
        let password = format!("password-{http}");
        let path = folder.path().display().to_string();
        let process = Process::start(
            server,
            folder,
            [
                format!("-root={path}"),
                format!("-keys={path}"),
                format!("-http=127.0.0.1:{http}"),
                format!("-https=127.0.0.1:{https}"),
                format!("-ssh=127.0.0.1:{ssh}"),
                format!("-proxy=127.0.0.1:{proxy}"),
                format!("-user={USER}:{password}"),
                format!("-proxy-user={USER}:{password}"),
            ],
        )?;
        let request = "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n";
        process.wait_until(async || answer(http, request).starts_with("HTTP/1.1 200")).await?;
        Ok(Self { process, ports, password })
    }

    /// Returns the folder of the repositories.
    pub fn root(&self) -> PathBuf {
        self.process.folder().to_owned()
    }

    /// Returns the address of a repository over http.
    pub fn http(&self, name: &str) -> String {
        format!("http://127.0.0.1:{}/{name}", self.ports.http)
    }

    /// Returns the address of a repository over https.
    pub fn https(&self, name: &str) -> String {
        format!("https://127.0.0.1:{}/{name}", self.ports.https)
    }

    /// Returns the address of a repository over ssh.
    pub fn ssh(&self, name: &str) -> String {
        format!("ssh://git@127.0.0.1:{}/{name}", self.ports.ssh)
    }

    /// Returns the address of the proxy.
    pub fn proxy(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports.proxy)
    }

    /// Returns a line for each request to the proxy that it let through: the method and the host.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn proxied(&self) -> std::io::Result<Vec<String>> {
        let log = std::fs::read_to_string(self.process.folder().join("proxy.log"))?;
        Ok(log.lines().map(str::to_owned).collect())
    }

    /// Returns the certificate of the authority for https, in PEM.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn authority(&self) -> std::io::Result<String> {
        std::fs::read_to_string(self.process.folder().join("ca.crt"))
    }

    /// Returns user name and password for http, https and the proxy.
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
