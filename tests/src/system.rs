//! Whole system as users run it: services as separate processes, with the rights of `k8s/base`,
//! against a real API server and a real NATS.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use groundwork_testkit::{Audit, ControlPlane, ControlPlaneOptions, Nats, Program, Server, servers_or_skip};
use kube::Client;
use serde_json::{Value, json};

use crate::cluster::{install_crds, install_crds_beside_api};
use crate::manifests::workspace;
use crate::porch::PorchServer;
use crate::proxy::Proxy;
use crate::wait::{get, wait_for};
use crate::wire::Wire;

/// Namespace of the service accounts.
const NAMESPACE: &str = "groundwork-system";

/// Time limit for an API server that has just started to accept a folder of manifests.
const APPLIED_WITHIN: Duration = Duration::from_secs(30);
/// Account and rights of the mock deployer, which `k8s/base` does not contain.
pub const MOCK_DEPLOYER: &str = "k8s/components/mock-deployer";
/// Account and rights of the console, which `k8s/base` does not contain.
const CONSOLE: [&str; 2] = ["k8s/components/console/account.yaml", "k8s/components/console/rights.yaml"];
/// Service for TargetSyncs: the deployer's program under an account of its own.
const TARGET_SYNC: &str = "target-sync";
/// Account and rights of the service for TargetSyncs.
pub const TARGET_SYNC_RIGHTS: &str = "k8s/components/target-sync";
/// Services of every system, in an order in which they may start.
pub const ALL: [&str; 5] = ["watcher", "resolver", "renderer", "deployer", "variant"];

/// Options of a system beyond the defaults.
#[derive(Clone, Debug, Default)]
pub struct SystemOptions {
    /// File with the locations of components.
    pub repositories: Option<PathBuf>,
    /// Environment variables of all services.
    pub variables: Vec<(String, String)>,
    /// Namespaces that the services watch, with the Roles of `k8s/namespaced`. If the list is
    /// empty, the services watch all namespaces, with `k8s/base`.
    pub namespaces: Vec<String>,
    /// Puts a proxy that can disturb requests between the API server and each service except the
    /// watcher.
    pub proxied: bool,
    /// Connects each service to NATS over a relay of its own, which can be cut.
    pub wired: bool,
    /// Folder for the clones of the package store. If set, the variant service drafts package
    /// revisions itself, from git remotes on disk.
    pub package_store: Option<PathBuf>,
    /// Starts a process with an account of its own, `target-sync`, that reconciles TargetSyncs.
    pub target_syncs: bool,
    /// Porch stand-in that serves package revisions. If set, the variant service drafts through it.
    pub porch: Option<PorchServer>,
    /// Content of the API server's audit log; requests by default.
    pub audit: Option<Audit>,
    /// Folder of the binaries; those of this build by default.
    pub binaries: Option<PathBuf>,
}

/// Running system. Dropping it stops all servers and services.
#[derive(Debug)]
pub struct System {
    services: BTreeMap<&'static str, Service>,
    pub nats: Nats,
    pub plane: ControlPlane,
    options: SystemOptions,
    proxies: BTreeMap<&'static str, Proxy>,
    wires: BTreeMap<&'static str, Wire>,
    ports: BTreeMap<&'static str, (u16, u16)>,
}

/// Service of a system.
#[derive(Debug)]
pub struct Service {
    pub program: Program,
    admin: u16,
}

impl System {
    /// Starts servers and services and waits until all are ready. `None` if the servers are
    /// missing: then a note is printed, and the caller returns.
    ///
    /// # Errors
    /// Fails if a server or a service does not start.
    pub async fn start(options: SystemOptions) -> Result<Option<Self>> {
        let Some(mut system) = Self::servers(options).await? else { return Ok(None) };
        let more: &[&str] = if system.options.target_syncs { &[TARGET_SYNC] } else { &[] };
        for service in ALL.iter().chain(more) {
            system.run(service).await?;
        }
        for service in ALL.iter().chain(more) {
            system.until_ready(service).await?;
        }
        Ok(Some(system))
    }

    /// Starts the servers without any service, with CRDs, accounts and rights.
    ///
    /// # Errors
    /// Fails if a server does not start.
    pub async fn servers(options: SystemOptions) -> Result<Option<Self>> {
        let needed = [
            Server::Etcd,
            Server::KubeApiserver,
            Server::KubeControllerManager,
            Server::Kubectl,
            Server::NatsServer,
        ];
        if !servers_or_skip(&needed) {
            return Ok(None);
        }
        let mut plane = ControlPlane::start(ControlPlaneOptions {
            controller_manager: false,
            audit: options.audit.unwrap_or(Audit::Requests),
            owner_references_permission: true,
        })
        .await?;
        match options.package_store.is_some() || options.porch.is_some() {
            true => install_crds_beside_api(plane.client().await?).await?,
            false => install_crds(plane.client().await?).await?,
        }
        if let Some(porch) = &options.porch {
            porch.register(&plane.client().await?).await?;
        }
        plane.start_controller_manager()?;
        if options.namespaces.is_empty() {
            apply(&plane, "k8s/base", &[])?;
            apply(&plane, MOCK_DEPLOYER, &[])?;
            apply_file(&plane, "k8s/components/helm-deployer/contexts.yaml")?;
            for file in CONSOLE {
                apply_file(&plane, file)?;
            }
            if options.target_syncs {
                for file in ["account.yaml", "rights.yaml"] {
                    apply_file(&plane, &format!("{TARGET_SYNC_RIGHTS}/{file}"))?;
                }
            }
            if options.package_store.is_some() {
                apply_file(&plane, "k8s/components/package-store/rights.yaml")?;
                apply_file(&plane, "k8s/components/package-store/admission.yaml")?;
                apply_file(&plane, "k8s/components/package-store-outside/rights.yaml")?;
                apply_file(&plane, "k8s/components/follow-tags/rights.yaml")?;
            }
            if options.porch.is_some() {
                apply_file(&plane, "k8s/components/porch/rights.yaml")?;
            }
        } else {
            apply(&plane, "k8s/namespaced-accounts", &[])?;
            for file in [
                "mock-deployer/account.yaml",
                "mock-deployer-namespaced/reviews.yaml",
                "console/account.yaml",
                "console-namespaced/reviews.yaml",
            ] {
                apply_file(&plane, &format!("k8s/components/{file}"))?;
            }
            for namespace in &options.namespaces {
                plane.create_namespace(namespace).await?;
                apply(&plane, "k8s/namespaced", &["--namespace", namespace])?;
                let porch = options.porch.is_some().then_some("porch-namespaced");
                for component in ["mock-deployer-namespaced", "console-namespaced"].into_iter().chain(porch) {
                    let folder = format!("k8s/components/{component}");
                    apply(&plane, &folder, &["--namespace", namespace])?;
                }
            }
        }
        let mut ports = BTreeMap::new();
        for service in ALL {
            ports.insert(service, (free_port()?, free_port()?));
        }
        Ok(Some(Self {
            services: BTreeMap::new(),
            nats: Nats::start().await?,
            plane,
            options,
            proxies: BTreeMap::new(),
            wires: BTreeMap::new(),
            ports,
        }))
    }

    /// Starts a service under its account, without waiting until it is ready.
    ///
    /// # Errors
    /// Fails if the service cannot be started.
    pub async fn run(&mut self, service: &'static str) -> Result<()> {
        self.run_as(service, service).await
    }

    /// Starts a second instance of a service under another name.
    ///
    /// # Errors
    /// Fails if the service cannot be started.
    pub async fn run_as(&mut self, name: &'static str, service: &'static str) -> Result<()> {
        self.run_with(name, service, &[]).await
    }

    /// Starts a second instance of a service with environment variables of its own.
    ///
    /// # Errors
    /// Fails if the service cannot be started.
    pub async fn run_with(
        &mut self,
        name: &'static str,
        service: &'static str,
        variables: &[(&str, &str)],
    ) -> Result<()> {
        if !self.ports.contains_key(name) {
            self.ports.insert(name, (free_port()?, free_port()?));
        }
        let account = format!("groundwork-{service}");
        let kubeconfig = self.plane.service_account_kubeconfig(NAMESPACE, &account).await?;
        if self.options.proxied && service != "watcher" {
            let proxy = Proxy::start(self.plane.service_account_client(NAMESPACE, &account).await?).await?;
            let mut config: Value = serde_json::from_str(&std::fs::read_to_string(&kubeconfig)?)?;
            config["clusters"][0]["cluster"] = json!({"server": proxy.url()});
            std::fs::write(&kubeconfig, config.to_string())?;
            self.proxies.insert(name, proxy);
        }
        if self.options.wired {
            let wire = Wire::start(self.nats.port()).await?;
            self.wires.insert(name, wire);
        }
        let called: &[&str] = match service {
            "renderer" => &["resolver", "deployer"],
            "console" => &["resolver", "renderer", "variant"],
            "variant" => &["watcher"],
            _ => &[],
        };
        let program = if service == TARGET_SYNC { "groundwork-deployer" } else { &account };
        let mut command = Command::new(self.binary(program)?);
        for called in called {
            let audience = groundwork_grpc::audience(called);
            let token = self.plane.service_account_token_for(NAMESPACE, &account, Some(&audience)).await?;
            let file = kubeconfig.with_extension(format!("{called}-token"));
            std::fs::write(&file, token)?;
            let variable = format!("GROUNDWORK_{}", called.to_uppercase());
            command.env(format!("{variable}_TOKEN_FILE"), file);
            command.env(variable, format!("http://127.0.0.1:{}", self.ports[called].1));
        }
        let (admin, grpc) = self.ports[name];
        command
            .envs(groundwork_testkit::image_environment())
            .env("KUBECONFIG", kubeconfig)
            .env("GROUNDWORK_NATS_URL", self.nats_url(name))
            .env("GROUNDWORK_ADMIN_ADDRESS", format!("127.0.0.1:{admin}"))
            .env("GROUNDWORK_LOG_FORMAT", "json")
            .env("RUST_BACKTRACE", "0");
        match service {
            // The replicas of a test share one host, so the default identity, which names type and
            // host, would not be unique.
            "deployer" => {
                let address = format!("127.0.0.1:{grpc}");
                command.env("GROUNDWORK_GRPC_ADDRESS", address);
                command.env("GROUNDWORK_DEPLOYER_IDENTITY", name).env("GROUNDWORK_TARGET_SYNCS", "never")
            }
            TARGET_SYNC => command.env("GROUNDWORK_TARGET_SYNCS", "only"),
            "console" => command.env("GROUNDWORK_CONSOLE_ADDRESS", format!("127.0.0.1:{grpc}")),
            _ => command.env("GROUNDWORK_GRPC_ADDRESS", format!("127.0.0.1:{grpc}")),
        };
        if let ("variant", Some(folder)) = (service, &self.options.package_store) {
            // Each replica of the variant service needs clones of its own.
            command.env("GROUNDWORK_PACKAGE_STORE", folder.join(name));
            command.env("GROUNDWORK_PACKAGE_API_SERVICE", format!("{NAMESPACE}/groundwork-package-api"));
            command.env("GROUNDWORK_PACKAGE_PROTOCOLS", "file,git,http,https,ssh");
        }
        if service == "variant" && self.options.porch.is_some() {
            // With both a package store and Porch, the service has to find out which of them serves
            // the revisions.
            let choice = if self.options.package_store.is_some() { "_IF_SERVED" } else { "" };
            command.env(format!("GROUNDWORK_PORCH{choice}"), "true");
        }
        let reads = matches!(service, "resolver" | "deployer");
        if let (true, Some(repositories)) = (reads, &self.options.repositories) {
            command.env("GROUNDWORK_REPOSITORIES", repositories);
        }
        if !self.options.namespaces.is_empty() {
            command.env("GROUNDWORK_NAMESPACES", self.options.namespaces.join(","));
        }
        command.envs(self.options.variables.iter().map(|(name, value)| (name, value)));
        command.envs(variables.iter().copied());
        let program = Program::start(name, &command)?;
        self.services.insert(name, Service { program, admin });
        Ok(())
    }

    /// Returns the path of a program of this build, for tests without a system.
    ///
    /// # Errors
    /// Fails if the program was not built.
    pub fn program(name: &str) -> Result<PathBuf> {
        let path = build_folder()?.join(name);
        ensure!(
            path.exists(),
            "{} does not exist: build it with `cargo build --workspace --bins`",
            path.display()
        );
        Ok(path)
    }

    /// Returns the path of a program of this build.
    ///
    /// # Errors
    /// Fails if the program was not built.
    pub fn binary(&self, name: &str) -> Result<PathBuf> {
        let folder = match &self.options.binaries {
            Some(folder) => folder.clone(),
            None => build_folder()?,
        };
        let path = folder.join(name);
        if !path.exists() {
            bail!("{} does not exist: build it with `cargo build --workspace --bins`", path.display());
        }
        Ok(path)
    }

    /// Waits until a service reports that it is ready.
    ///
    /// # Errors
    /// Fails if the service ends or takes too long. The error contains the service's reason for not
    /// being ready.
    pub async fn until_ready(&self, service: &str) -> Result<()> {
        let running = self.service(service)?;
        wait_for(&format!("{service} is ready"), Duration::from_secs(60), async || {
            if !running.program.is_running() {
                return Err(format!("it ended: {}", log_tail(&running.program.log())));
            }
            match get(running.admin, "/readyz").await {
                Ok((200, _)) => Ok(()),
                Ok((code, body)) => Err(format!("{code} {body}")),
                Err(error) => Err(error.to_string()),
            }
        })
        .await
    }

    /// Returns the proxies in front of the API server.
    pub fn proxies(&self) -> impl Iterator<Item = &Proxy> {
        self.proxies.values()
    }

    /// Returns the proxy between a service and the API server.
    ///
    /// # Errors
    /// Fails if the service has none.
    pub fn proxy(&self, service: &str) -> Result<&Proxy> {
        self.proxies.get(service).with_context(|| format!("{service} has no proxy"))
    }

    /// Returns the relay between a service and NATS.
    ///
    /// # Errors
    /// Fails if the service has none.
    pub fn wire(&self, service: &str) -> Result<&Wire> {
        self.wires.get(service).with_context(|| format!("{service} has no wire"))
    }

    /// Returns the address at which a service connects to NATS.
    fn nats_url(&self, service: &str) -> String {
        match self.wires.get(service) {
            Some(wire) => format!("nats://127.0.0.1:{}", wire.port()),
            None => self.nats.url(),
        }
    }

    /// Returns a started service.
    ///
    /// # Errors
    /// Fails if the service was not started.
    pub fn service(&self, service: &str) -> Result<&Service> {
        self.services.get(service).with_context(|| format!("{service} was not started"))
    }

    /// Returns a started service, to kill and restart it.
    ///
    /// # Errors
    /// Fails if the service was not started.
    pub fn service_mut(&mut self, service: &str) -> Result<&mut Service> {
        self.services.get_mut(service).with_context(|| format!("{service} was not started"))
    }

    /// Stops a service for good.
    pub fn remove(&mut self, service: &str) {
        self.services.remove(service);
    }

    /// Returns the administrator's client.
    ///
    /// # Errors
    /// Fails if the kubeconfig cannot be used.
    pub async fn client(&self) -> Result<Client> {
        Ok(self.plane.client().await?)
    }

    /// Returns the port of a service's gRPC server, or of the console's pages.
    pub fn grpc_port(&self, service: &str) -> u16 {
        self.ports[service].1
    }

    /// Returns status code and body for a path of a service's admin server.
    ///
    /// # Errors
    /// Fails if the service does not answer.
    pub async fn admin(&self, service: &str, path: &str) -> Result<(u16, String)> {
        get(self.service(service)?.admin, path).await
    }

    /// Runs kubectl as the administrator and returns its output.
    ///
    /// # Errors
    /// Fails if kubectl fails. The error is kubectl's error output.
    pub async fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        let mut command = self.plane.kubectl()?;
        command.args(arguments).current_dir(workspace());
        let output = tokio::process::Command::from(command).output().await?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "kubectl {}: {error}", arguments.join(" "));
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Returns the error followed by the services' logs. The error comes first, so that a report
    /// that is cut off still names it.
    pub fn explained(&self, error: impl Into<anyhow::Error>) -> anyhow::Error {
        anyhow::anyhow!("{:#}\n\n{}", error.into(), self.logs())
    }

    /// Returns the end of the log of every service, for error messages.
    pub fn logs(&self) -> String {
        let of =
            |(name, service): (&&str, &Service)| format!("== {name}\n{}\n", log_tail(&service.program.log()));
        self.services.iter().map(of).collect()
    }
}

fn apply(plane: &ControlPlane, folder: &str, arguments: &[&str]) -> Result<()> {
    apply_as(plane, "-k", folder, arguments)
}

fn apply_file(plane: &ControlPlane, file: &str) -> Result<()> {
    apply_as(plane, "-f", file, &[])
}

/// Runs `kubectl apply`, with retries for a while: an API server that has just started may break a
/// connection.
fn apply_as(plane: &ControlPlane, flag: &str, path: &str, arguments: &[&str]) -> Result<()> {
    let start = Instant::now();
    loop {
        let mut command = plane.kubectl()?;
        command.args(["apply", "--server-side", flag]).arg(workspace().join(path)).args(arguments);
        let output = command.output()?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(start.elapsed() < APPLIED_WITHIN, "{path}: {said}");
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// Returns the folder with the binaries of this build. Test programs are in its subfolder `deps`.
fn build_folder() -> Result<PathBuf> {
    let test = std::env::current_exe()?;
    let folder = test.parent().and_then(Path::parent);
    Ok(folder.context("a test binary lies two folders deep")?.to_owned())
}

fn free_port() -> Result<u16> {
    Ok(groundwork_testkit::unused_port()?)
}

fn log_tail(path: &Path) -> String {
    let log = std::fs::read(path).unwrap_or_default();
    String::from_utf8_lossy(&log[log.len().saturating_sub(4000)..]).into_owned()
}
