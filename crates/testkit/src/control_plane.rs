//! Kubernetes control plane for tests: etcd and kube-apiserver, and optionally
//! kube-controller-manager.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use data_encoding::BASE64;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::api::{Api, ObjectMeta, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::Request;
use kube::core::params::GetParams;
use kube::{Client, Config};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair,
};
use serde_json::json;

use crate::binaries::{NotFound, Server, find};
use crate::process::{
    Process, StartError, answers_http, folder, free_port, whole_answer, with_free_ports, write,
};

const ADMIN_TOKEN: &str = "admin";

/// Content of the audit log: one JSON object for each request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Audit {
    #[default]
    Nothing,
    Requests,
    /// Requests, and the written objects of one kind of the core group, by its plural.
    Objects(&'static str),
}

impl Audit {
    fn policy(self) -> Option<String> {
        let requests = json!({"level": "Metadata"});
        let rules = match self {
            Self::Nothing => return None,
            Self::Requests => json!([requests]),
            Self::Objects(plural) => {
                let objects = json!({"level": "RequestResponse", "verbs": ["create", "update", "patch", "delete"],
                    "resources": [{"group": "", "resources": [plural]}]});
                json!([objects, requests])
            }
        };
        Some(json!({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules}).to_string())
    }
}

/// Options of a control plane.
#[derive(Clone, Copy, Debug, Default)]
pub struct ControlPlaneOptions {
    /// True to collect garbage by owner references, and to finish the deletion of namespaces.
    pub controller_manager: bool,
    /// The content of [`ControlPlane::audit_log`].
    pub audit: Audit,
    /// True to reserve `blockOwnerDeletion` for users who may set finalizers of the owner, as
    /// stricter clusters do.
    pub owner_references_permission: bool,
}

/// Running control plane. Dropping it ends its servers.
///
/// The ServiceAccount admission is off, so accounts have to be created before they can be used.
/// Pods never run.
#[derive(Debug)]
pub struct ControlPlane {
    // Fields are dropped in this order, so the servers stop in it.
    controller_manager: Option<Process>,
    api_server: Process,
    _etcd: Process,
    etcd_port: u16,
    kubeconfig: PathBuf,
    audit: Audit,
}

impl ControlPlane {
    /// Starts a control plane and waits until it answers.
    ///
    /// # Errors
    /// A binary is missing, or a server does not start; the error has the end of its log.
    pub async fn start(options: ControlPlaneOptions) -> Result<Self, StartError> {
        let (etcd, etcd_port) = with_free_ports(start_etcd).await?;
        let (api_server, kubeconfig) =
            with_free_ports(async || start_api_server(etcd_port, options).await).await?;
        let controller_manager =
            if options.controller_manager { Some(start_controller_manager(&kubeconfig)?) } else { None };
        Ok(Self { controller_manager, api_server, _etcd: etcd, etcd_port, kubeconfig, audit: options.audit })
    }

    /// Starts the controller manager now. Its garbage collector knows the existing kinds at once,
    /// but new kinds only half a minute after their creation.
    ///
    /// # Errors
    /// The binary is missing.
    pub fn start_controller_manager(&mut self) -> Result<(), StartError> {
        self.controller_manager = Some(start_controller_manager(&self.kubeconfig)?);
        Ok(())
    }

    /// Returns the kubeconfig file of the administrator.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Returns the file with one JSON object for each request, if the options ask for it.
    pub fn audit_log(&self) -> Option<PathBuf> {
        (self.audit != Audit::Nothing).then(|| self.api_server.folder().join("audit.log"))
    }

    /// Creates a client of the administrator. A client belongs to the async runtime in which it was
    /// created.
    ///
    /// # Errors
    /// The kubeconfig file cannot be used.
    pub async fn client(&self) -> Result<Client, StartError> {
        admin_client(&self.kubeconfig).await
    }

    /// Creates a client of a ServiceAccount, which has only the permissions of its bindings.
    ///
    /// # Errors
    /// The account does not exist, or gets no token.
    pub async fn service_account_client(&self, namespace: &str, name: &str) -> Result<Client, StartError> {
        let token = self.service_account_token(namespace, name).await?;
        let mut config = admin_config(&self.kubeconfig).await?;
        config.auth_info.token = Some(token.into());
        groundwork_client::connect(config).map_err(client_error)
    }

    /// Returns a token of a ServiceAccount that is valid for a day.
    ///
    /// # Errors
    /// The account does not exist, or gets no token.
    pub async fn service_account_token(&self, namespace: &str, name: &str) -> Result<String, StartError> {
        self.service_account_token_for(namespace, name, None).await
    }

    /// Returns a token of a ServiceAccount for another audience than the API server.
    ///
    /// # Errors
    /// As [`ControlPlane::service_account_token`].
    pub async fn service_account_token_for(
        &self,
        namespace: &str,
        name: &str,
        audience: Option<&str>,
    ) -> Result<String, StartError> {
        let accounts = Api::<ServiceAccount>::namespaced(self.client().await?, namespace);
        let request = TokenRequest {
            spec: Some(TokenRequestSpec {
                audiences: audience.map(|audience| vec![audience.to_owned()]),
                expiration_seconds: Some(24 * 3600),
                ..TokenRequestSpec::default()
            }),
            ..TokenRequest::default()
        };
        let answer = accounts.create_token_request(name, &PostParams::default(), &request).await;
        let status = answer.map_err(client_error)?.status;
        Ok(status.and_then(|status| status.token).unwrap_or_default())
    }

    /// Writes a kubeconfig file of a ServiceAccount, for a process that runs as the account.
    ///
    /// # Errors
    /// Fails as [`ControlPlane::service_account_client`] does, and if the file cannot be written.
    pub async fn service_account_kubeconfig(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<PathBuf, StartError> {
        let server = Server::KubeApiserver;
        let token = self.service_account_token(namespace, name).await?;
        let text = fs::read_to_string(&self.kubeconfig)
            .map_err(|error| StartError::prepare(server)(error.into()))?;
        let mut config: serde_json::Value = serde_json::from_str(&text).map_err(client_error)?;
        config["users"][0]["user"]["token"] = json!(token);
        let path = self.api_server.folder().join(format!("{namespace}-{name}.kubeconfig"));
        write(server, &path, &config.to_string())?;
        Ok(path)
    }

    /// Returns the process id of the API server.
    ///
    /// # Errors
    /// The server was never started.
    pub fn api_server_pid(&self) -> Result<u32, StartError> {
        self.api_server.pid()
    }

    /// Freezes the API server (SIGSTOP), or lets it continue.
    ///
    /// # Errors
    /// The server does not run.
    pub fn freeze_api_server(&self, frozen: bool) -> Result<(), StartError> {
        self.api_server.signal(if frozen { "STOP" } else { "CONT" })
    }

    /// Kills the API server (SIGKILL), and waits until it is dead.
    ///
    /// # Errors
    /// The server does not die.
    pub async fn kill_api_server(&mut self) -> Result<(), StartError> {
        self.api_server.kill().await
    }

    /// Starts the killed API server again, on the same port and with the same data, and waits until
    /// it answers.
    ///
    /// # Errors
    /// The server does not start.
    pub async fn start_api_server_again(&mut self) -> Result<(), StartError> {
        self.api_server.start_again()?;
        let client = self.client().await?;
        until_ready(&self.api_server, &client).await
    }

    /// Compacts etcd to its last revision, so that watches cannot continue from an older one.
    ///
    /// # Errors
    /// etcd does not answer, or refuses.
    pub fn compact(&self) -> Result<(), StartError> {
        let found = self.ask_etcd("/v3/kv/range", &json!({"key": BASE64.encode(b"/")}))?;
        let answer = self.ask_etcd("/v3/kv/compaction", &json!({"revision": found["header"]["revision"]}))?;
        match answer["error"].as_str() {
            // The API server may have compacted the same revision a moment ago.
            Some(error) if !error.contains("has been compacted") => {
                Err(StartError::prepare(Server::Etcd)(error.to_owned().into()))
            }
            _ => Ok(()),
        }
    }

    fn ask_etcd(&self, path: &str, question: &serde_json::Value) -> Result<serde_json::Value, StartError> {
        let body = question.to_string();
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n{body}",
            body.len()
        );
        let answer = whole_answer(self.etcd_port, &request);
        let answer = answer.map_err(|error| StartError::prepare(Server::Etcd)(error.into()))?;
        let text = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        serde_json::from_str(text).map_err(|error| StartError::prepare(Server::Etcd)(error.into()))
    }

    /// Creates a namespace.
    ///
    /// # Errors
    /// The namespace exists already.
    pub async fn create_namespace(&self, name: &str) -> Result<(), StartError> {
        let namespace = Namespace {
            metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
            ..Namespace::default()
        };
        let namespaces = Api::<Namespace>::all(self.client().await?);
        namespaces.create(&PostParams::default(), &namespace).await.map(drop).map_err(client_error)
    }

    /// Returns the kubectl command of the administrator.
    ///
    /// # Errors
    /// kubectl is missing.
    pub fn kubectl(&self) -> Result<Command, NotFound> {
        let mut command = Command::new(find(Server::Kubectl)?.path);
        // The default cache of API discovery would outlive this control plane, and be wrong for the
        // next one.
        let cache = self.api_server.folder().join("kubectl-cache");
        command.arg("--kubeconfig").arg(&self.kubeconfig).arg("--cache-dir").arg(cache);
        Ok(command)
    }
}

async fn start_etcd() -> Result<(Process, u16), StartError> {
    let server = Server::Etcd;
    let folder = folder(server)?;
    let (port, peer_port) = (free_port(server)?, free_port(server)?);
    let (url, peer_url) = (format!("http://127.0.0.1:{port}"), format!("http://127.0.0.1:{peer_port}"));
    let data = folder.path().join("data").display().to_string();
    let arguments = [
        format!("--data-dir={data}"),
        format!("--listen-client-urls={url}"),
        format!("--advertise-client-urls={url}"),
        format!("--listen-peer-urls={peer_url}"),
        format!("--initial-advertise-peer-urls={peer_url}"),
        format!("--initial-cluster=default={peer_url}"),
        "--unsafe-no-fsync".to_owned(),
    ];
    let process = Process::start(server, folder, arguments)?;
    process.wait_until(async || answers_http(port, "/health")).await?;
    Ok((process, port))
}

async fn start_api_server(
    etcd_port: u16,
    options: ControlPlaneOptions,
) -> Result<(Process, PathBuf), StartError> {
    let server = Server::KubeApiserver;
    let folder = folder(server)?;
    let port = free_port(server)?;
    let file = |name: &str| folder.path().join(name);
    let key = KeyPair::generate().map_err(|error| StartError::prepare(server)(error.into()))?;
    write(server, &file("accounts.key"), &key.serialize_pem())?;
    write(server, &file("accounts.pub"), &key.public_key_pem())?;
    write(server, &file("tokens.csv"), &format!("{ADMIN_TOKEN},admin,admin,\"system:masters\"\n"))?;
    let flag = |name: &str, path: &str| format!("--{name}={}", file(path).display());
    let mut arguments = vec![
        format!("--etcd-servers=http://127.0.0.1:{etcd_port}"),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={port}"),
        flag("cert-dir", "certificates"),
        flag("service-account-key-file", "accounts.pub"),
        flag("service-account-signing-key-file", "accounts.key"),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        "--authorization-mode=RBAC".to_owned(),
        flag("token-auth-file", "tokens.csv"),
        "--disable-admission-plugins=ServiceAccount".to_owned(),
        "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
    ];
    write_front_proxy(folder.path())?;
    arguments.extend([
        flag("requestheader-client-ca-file", "front-proxy-ca.crt"),
        flag("proxy-client-cert-file", "front-proxy.crt"),
        flag("proxy-client-key-file", "front-proxy.key"),
        format!("--requestheader-allowed-names={FRONT_PROXY}"),
        "--requestheader-username-headers=X-Remote-User".to_owned(),
        "--requestheader-group-headers=X-Remote-Group".to_owned(),
        "--requestheader-extra-headers-prefix=X-Remote-Extra-".to_owned(),
    ]);
    if let Some(policy) = options.audit.policy() {
        write(server, &file("audit-policy.yaml"), &policy)?;
        arguments.push(flag("audit-policy-file", "audit-policy.yaml"));
        arguments.push(flag("audit-log-path", "audit.log"));
        // Prevent rotation, because tests count the requests in a single file.
        arguments.push("--audit-log-maxsize=100000".to_owned());
    }
    if options.owner_references_permission {
        arguments.push("--enable-admission-plugins=OwnerReferencesPermissionEnforcement".to_owned());
    }
    let (certificates, kubeconfig) = (file("certificates"), file("kubeconfig"));
    let process = Process::start(server, folder, arguments)?;
    process.wait_until(async || certificate_is_written(&certificates)).await?;
    write_kubeconfig(&kubeconfig, port, &certificates.join("apiserver.crt"))?;
    let client = admin_client(&kubeconfig).await?;
    until_ready(&process, &client).await?;
    Ok((process, kubeconfig))
}

/// Common name of the certificate that the API server shows to aggregated servers.
const FRONT_PROXY: &str = "front-proxy-client";

/// Writes that certificate, its key and its authority.
fn write_front_proxy(folder: &Path) -> Result<(), StartError> {
    let server = Server::KubeApiserver;
    let failed = |error: rcgen::Error| StartError::prepare(server)(error.into());
    let named = |name: &str| -> Result<CertificateParams, rcgen::Error> {
        let mut parameters = CertificateParams::new(Vec::new())?;
        parameters.distinguished_name = DistinguishedName::new();
        parameters.distinguished_name.push(DnType::CommonName, name);
        Ok(parameters)
    };
    let mut authority = named("front-proxy-ca").map_err(failed)?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate().map_err(failed)?;
    let trusted = authority.self_signed(&authority_key).map_err(failed)?;
    let key = KeyPair::generate().map_err(failed)?;
    let mut proxy = named(FRONT_PROXY).map_err(failed)?;
    proxy.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let proxy = proxy.signed_by(&key, &Issuer::new(authority, authority_key)).map_err(failed)?;
    write(server, &folder.join("front-proxy-ca.crt"), &trusted.pem())?;
    write(server, &folder.join("front-proxy.crt"), &proxy.pem())?;
    write(server, &folder.join("front-proxy.key"), &key.serialize_pem())
}

/// Writes the kubeconfig of the administrator. The server has signed its own certificate, so the
/// client has to trust that certificate.
fn write_kubeconfig(path: &Path, port: u16, certificate: &Path) -> Result<(), StartError> {
    let server = Server::KubeApiserver;
    let certificate = fs::read(certificate).map_err(|error| StartError::prepare(server)(error.into()))?;
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": {
            "server": format!("https://127.0.0.1:{port}"),
            "certificate-authority-data": BASE64.encode(&certificate),
        }}],
        "users": [{"name": "admin", "user": {"token": ADMIN_TOKEN}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
        "current-context": "test",
    });
    write(server, path, &config.to_string())
}

fn start_controller_manager(kubeconfig: &Path) -> Result<Process, StartError> {
    let server = Server::KubeControllerManager;
    let arguments = [
        format!("--kubeconfig={}", kubeconfig.display()),
        "--controllers=garbage-collector-controller,namespace-controller".to_owned(),
        "--leader-elect=false".to_owned(),
        "--secure-port=0".to_owned(),
    ];
    Process::start(server, folder(server)?, arguments)
}

/// Reports whether the server has written its certificate completely, by the key that it writes
/// after the certificate. Before that the file may be empty, and a client that reads it trusts no
/// server.
fn certificate_is_written(certificates: &Path) -> bool {
    certificates.join("apiserver.key").exists()
}

/// Waits until the server is ready. On a timeout the error has its last answer.
async fn until_ready(api_server: &Process, client: &Client) -> Result<(), StartError> {
    let outcome = api_server.wait_until(async || ask_readiness(client).await.is_ok()).await;
    let Err(StartError::NotReady { server, log }) = outcome else { return outcome };
    let answer = match ask_readiness(client).await {
        Ok(()) => "it is ready".to_owned(),
        Err(error) => error.to_string(),
    };
    Err(StartError::NotReady { server, log: format!("{log}\nAsked once more: {answer}") })
}

/// Asks `/readyz`, which succeeds only after the default roles exist.
#[expect(clippy::disallowed_methods, reason = "the API server is one that the test has started")]
async fn ask_readiness(client: &Client) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let request = Request::new("").get("readyz", &GetParams::default())?;
    // A server that is starting may accept a connection without answering.
    tokio::time::timeout(Duration::from_secs(2), client.request_text(request)).await??;
    Ok(())
}

async fn admin_config(kubeconfig: &Path) -> Result<Config, StartError> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).map_err(client_error)?;
    let options = KubeConfigOptions::default();
    Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(client_error)
}

async fn admin_client(kubeconfig: &Path) -> Result<Client, StartError> {
    groundwork_client::connect(admin_config(kubeconfig).await?).map_err(client_error)
}

fn client_error(error: impl std::error::Error + Send + Sync + 'static) -> StartError {
    StartError::Client { server: Server::KubeApiserver.to_string(), source: error.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client that read the certificate too early could get an empty file, and then waited in
    /// vain for a server that it did not trust.
    #[test]
    fn a_certificate_without_its_key_is_not_whole() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!certificate_is_written(folder.path()));
        fs::write(folder.path().join("apiserver.crt"), "").unwrap();
        assert!(!certificate_is_written(folder.path()));
        fs::write(folder.path().join("apiserver.key"), "key").unwrap();
        assert!(certificate_is_written(folder.path()));
    }
}
