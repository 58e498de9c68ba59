//! An OCI registry without TLS.

use serde_json::json;

use crate::binaries::Server;
use crate::process::{Process, StartError, answer, folder, free_port, with_free_ports, write};

/// What a registry should have beside the usual.
#[derive(Clone, Debug, Default)]
pub struct RegistryOptions {
    /// Content of a htpasswd file (bcrypt hashes); without it everybody may do everything.
    pub htpasswd: Option<String>,
}

/// A running registry. Dropping it ends it.
#[derive(Debug)]
pub struct Registry {
    _process: Process,
    port: u16,
}

impl Registry {
    /// Starts an empty registry.
    ///
    /// # Errors
    /// When the binary is missing, or the server does not start.
    pub async fn start(options: &RegistryOptions) -> Result<Self, StartError> {
        with_free_ports(async || Self::start_once(options).await).await
    }

    async fn start_once(options: &RegistryOptions) -> Result<Self, StartError> {
        let server = Server::Registry;
        let folder = folder(server)?;
        let port = free_port(server)?;
        let file = |name: &str| folder.path().join(name);
        let mut configuration = json!({
            "version": 0.1,
            "storage": {"filesystem": {"rootdirectory": file("data")}, "delete": {"enabled": true}},
            "http": {"addr": format!("127.0.0.1:{port}")},
        });
        if let Some(users) = &options.htpasswd {
            write(server, &file("htpasswd"), users)?;
            configuration["auth"] = json!({"htpasswd": {"realm": "test", "path": file("htpasswd")}});
        }
        write(server, &file("config.yaml"), &configuration.to_string())?;
        let arguments = ["serve".to_owned(), file("config.yaml").display().to_string()];
        let process = Process::start(server, folder, arguments)?;
        // Either success or, with users, the request for a password.
        let request = "GET /v2/ HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n";
        process.wait_until(async || answer(port, request).starts_with("HTTP/1.1 ")).await?;
        Ok(Self { _process: process, port })
    }

    /// Host and port.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}
