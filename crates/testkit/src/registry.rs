//! OCI registry for tests.

use std::fs;
use std::io::{Error, Result as IoResult};
use std::path::Path;
use std::time::Duration;

use data_encoding::HEXLOWER;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use ureq::Agent;

use crate::binaries::Server;
use crate::process::{Process, StartError, answer, folder, free_port, with_free_ports, write};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// Time limit of an upload: a server that is not a registry must not block a test for ever.
const PATIENCE: Duration = Duration::from_secs(30);

/// Options of a registry.
#[derive(Clone, Debug, Default)]
pub struct RegistryOptions {
    /// Content of a htpasswd file (bcrypt hashes); without it there is no authentication.
    pub htpasswd: Option<String>,
    /// Certificate and key in PEM; without them the registry uses no TLS.
    pub tls: Option<(String, String)>,
}

/// Running registry. Dropping it ends the registry.
#[derive(Debug)]
pub struct Registry {
    _process: Process,
    port: u16,
}

impl Registry {
    /// Starts an empty registry.
    ///
    /// # Errors
    /// The binary is missing, or the server does not start.
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
        if let Some((certificate, key)) = &options.tls {
            write(server, &file("tls.crt"), certificate)?;
            write(server, &file("tls.key"), key)?;
            configuration["http"]["tls"] = json!({"certificate": file("tls.crt"), "key": file("tls.key")});
        }
        write(server, &file("config.yaml"), &configuration.to_string())?;
        let arguments = ["serve".to_owned(), file("config.yaml").display().to_string()];
        let process = Process::start(server, folder, arguments)?;
        // Any HTTP answer will do: success, the request for a password, or an error about TLS.
        let request = "GET /v2/ HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n";
        process.wait_until(async || answer(port, request).starts_with("HTTP/1.")).await?;
        Ok(Self { _process: process, port })
    }

    /// Uploads everything in a folder in the common transport format, below a path of the registry.
    /// `authorization` is the value of that header. Blocks.
    ///
    /// # Errors
    /// The folder is not in this format, or the registry refuses an upload.
    pub fn push(&self, folder: &Path, below: &str, authorization: Option<&str>) -> IoResult<()> {
        let index: Value = serde_json::from_slice(&fs::read(folder.join("artifact-index.json"))?)?;
        let agent: Agent = Agent::config_builder().timeout_global(Some(PATIENCE)).build().into();
        let blobs: Vec<_> = fs::read_dir(folder.join("blobs"))?.collect::<IoResult<_>>()?;
        for artifact in index["artifacts"].as_array().into_iter().flatten() {
            let text = |member: &str| artifact[member].as_str().unwrap_or_default();
            let base = format!("http://{}/v2/{below}/{}", self.address(), text("repository"));
            // Blobs of other artifacts are uploaded, too, which does no harm in a test.
            for blob in &blobs {
                let name = blob.file_name().to_string_lossy().replacen('.', ":", 1);
                upload(&agent, &base, &name, &fs::read(blob.path())?, authorization)?;
            }
            let manifest = fs::read(folder.join("blobs").join(text("digest").replacen(':', ".", 1)))?;
            let request = agent.put(format!("{base}/manifests/{}", text("tag")));
            let request = authorization
                .into_iter()
                .fold(request, |request, header| request.header("authorization", header));
            request.header("content-type", MANIFEST).send(&manifest[..]).map_err(Error::other)?;
        }
        Ok(())
    }

    /// Uploads an artifact with one layer under a tag. Blocks.
    ///
    /// # Errors
    /// The registry refuses an upload.
    pub fn push_artifact(
        &self,
        repository: &str,
        tag: &str,
        (media_type, layer): (&str, &[u8]),
        authorization: Option<&str>,
    ) -> IoResult<()> {
        let agent: Agent = Agent::config_builder().timeout_global(Some(PATIENCE)).build().into();
        let base = format!("http://{}/v2/{repository}", self.address());
        let digest = |bytes: &[u8]| format!("sha256:{}", HEXLOWER.encode(&Sha256::digest(bytes)));
        let config = b"{}";
        for content in [config.as_slice(), layer] {
            upload(&agent, &base, &digest(content), content, authorization)?;
        }
        let described = |media_type: &str, bytes: &[u8]| json!({"mediaType": media_type, "digest": digest(bytes), "size": bytes.len()});
        let manifest = json!({
            "schemaVersion": 2, "mediaType": MANIFEST,
            "config": described("application/vnd.oci.image.config.v1+json", config), "layers": [described(media_type, layer)],
        });
        let request = agent.put(format!("{base}/manifests/{tag}"));
        let request = authorization
            .into_iter()
            .fold(request, |request, header| request.header("authorization", header));
        request
            .header("content-type", MANIFEST)
            .send(manifest.to_string().as_bytes())
            .map_err(Error::other)?;
        Ok(())
    }

    /// Returns host and port.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}

fn upload(
    agent: &Agent,
    base: &str,
    digest: &str,
    content: &[u8],
    authorization: Option<&str>,
) -> IoResult<()> {
    let start = agent.post(format!("{base}/blobs/uploads/"));
    let start =
        authorization.into_iter().fold(start, |request, header| request.header("authorization", header));
    let started = start.send_empty().map_err(Error::other)?;
    let location = started.headers().get("location").and_then(|value| value.to_str().ok());
    let location = location.ok_or_else(|| Error::other("the registry does not say where to upload"))?;
    let put = agent.put(format!("{location}&digest={digest}"));
    let put = authorization.into_iter().fold(put, |request, header| request.header("authorization", header));
    put.send(content).map_err(Error::other)?;
    Ok(())
}
