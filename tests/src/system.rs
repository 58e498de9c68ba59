//! The whole system as people run it: services as processes of their own, with the rights of `k8s/base`, against a
//! real API server and a real NATS.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use groundwork_testkit::{Audit, ControlPlane, ControlPlaneOptions, Nats, Program, Server, servers_or_skip};
use kube::Client;
use serde_json::{Value, json};

use crate::cluster::{install_crds, install_crds_beside_porch};
use crate::manifests::workspace;
use crate::porch::PorchServer;
use crate::proxy::Proxy;
use crate::wait::{get, wait_for};
use crate::wire::Wire;

/// Where the service accounts live.
const NAMESPACE: &str = "groundwork-system";

/// How long a server that has just begun may take to accept a folder of manifests.
const APPLIED_WITHIN: Duration = Duration::from_secs(30);
/// Account and rights of the deployer, which `k8s/base` leaves out.
pub const MOCK_DEPLOYER: &str = "k8s/components/mock-deployer";
/// Account and rights of the console, which `k8s/base` leaves out.
const CONSOLE: [&str; 2] = ["k8s/components/console/account.yaml", "k8s/components/console/rights.yaml"];
/// What works on TargetSyncs: the program of the deployer with an account of its own.
const TARGET_SYNC: &str = "target-sync";
/// That account and its rights.
pub const TARGET_SYNC_RIGHTS: &str = "k8s/components/target-sync";
/// The services that every system has, in an order in which they may be started.
pub const ALL: [&str; 5] = ["watcher", "resolver", "renderer", "deployer", "variant"];

/// What a system has beside the usual.
#[derive(Clone, Debug, Default)]
pub struct SystemOptions {
    /// The file that says where components are.
    pub repositories: Option<PathBuf>,
    /// Variables of all services.
    pub variables: Vec<(String, String)>,
    /// Namespaces that the services work on, by the Roles of `k8s/namespaced`; if none is given all, by `k8s/base`.
    pub namespaces: Vec<String>,
    /// Services but the watcher reach the API server through proxies that can disturb them.
    pub proxied: bool,
    /// Each service reaches NATS over a wire of its own that can be cut.
    pub wired: bool,
    /// Folder for the clones of the package store; package revisions are drafted if one is given, from remotes that are files.
    pub package_store: Option<PathBuf>,
    /// TargetSyncs are worked on, too, by a process with an account of its own, `target-sync`.
    pub target_syncs: bool,
    /// What stands in for a Porch server serves package revisions, and drafts are made on it.
    pub porch: Option<PorchServer>,
    /// The content of the API server's audit log; requests if nothing else is given.
    pub audit: Option<Audit>,
    /// Folder of the binaries; those of this build if none is given.
    pub binaries: Option<PathBuf>,
}

/// A running system. Dropping it ends it.
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

/// A service of a system.
#[derive(Debug)]
pub struct Service {
    pub program: Program,
    admin: u16,
}

impl System {
    /// Starts servers and services and waits until all are ready. `None` if the servers are missing; the caller returns
    /// then, the note is printed.
    ///
    /// # Errors
    /// When something does not start.
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

    /// The servers without any service, with CRDs, accounts and rights.
    ///
    /// # Errors
    /// When something does not start.
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
        match &options.porch {
            None => install_crds(plane.client().await?).await?,
            Some(porch) => {
                install_crds_beside_porch(plane.client().await?).await?;
                porch.register(&plane.client().await?).await?;
            }
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
                apply_file(&plane, "k8s/components/follow-tags/rights.yaml")?;
            }
            if options.porch.is_some() {
                apply_file(&plane, "k8s/components/porch/rights.yaml")?;
            }
        } else {
            apply(&plane, "k8s/namespaced-accounts", &[])?;
            for file in
                ["mock-deployer/account.yaml", "console/account.yaml", "console-namespaced/reviews.yaml"]
            {
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

    /// Starts a service as its account; does not wait.
    ///
    /// # Errors
    /// When it cannot be started.
    pub async fn run(&mut self, service: &'static str) -> Result<()> {
        self.run_as(service, service).await
    }

    /// Starts a service under another name, beside the one that runs.
    ///
    /// # Errors
    /// When it cannot be started.
    pub async fn run_as(&mut self, name: &'static str, service: &'static str) -> Result<()> {
        self.run_with(name, service, &[]).await
    }

    /// The same with variables of its own.
    ///
    /// # Errors
    /// When it cannot be started.
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
            "renderer" => &["resolver"],
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
            // Replicas of a test are on one host.
            "deployer" => {
                command.env("GROUNDWORK_DEPLOYER_IDENTITY", name).env("GROUNDWORK_TARGET_SYNCS", "never")
            }
            TARGET_SYNC => command.env("GROUNDWORK_TARGET_SYNCS", "only"),
            "console" => command.env("GROUNDWORK_CONSOLE_ADDRESS", format!("127.0.0.1:{grpc}")),
            _ => command.env("GROUNDWORK_GRPC_ADDRESS", format!("127.0.0.1:{grpc}")),
        };
        if let ("variant", Some(folder)) = (service, &self.options.package_store) {
            // Each replica has clones of its own.
            command.env("GROUNDWORK_PACKAGE_STORE", folder.join(name));
            command.env("GROUNDWORK_PACKAGE_PROTOCOLS", "file,git,http,https,ssh");
        }
        if service == "variant" && self.options.porch.is_some() {
            // With both it has to find out which one it is.
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

    /// A program of this build, for tests without a system.
    ///
    /// # Errors
    /// When it was not built.
    pub fn program(name: &str) -> Result<PathBuf> {
        let path = build_folder()?.join(name);
        ensure!(
            path.exists(),
            "{} does not exist: build it with `cargo build --workspace --bins`",
            path.display()
        );
        Ok(path)
    }

    /// A program of this build.
    ///
    /// # Errors
    /// When it was not built.
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

    /// Waits until a service says that it is ready.
    ///
    /// # Errors
    /// When it ends, or takes too long; the error says what it waits for.
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

    /// The proxies in front of the API server.
    pub fn proxies(&self) -> impl Iterator<Item = &Proxy> {
        self.proxies.values()
    }

    /// The one in front of the API server for a service.
    ///
    /// # Errors
    /// When the service has none.
    pub fn proxy(&self, service: &str) -> Result<&Proxy> {
        self.proxies.get(service).with_context(|| format!("{service} has no proxy"))
    }

    /// The wire between a service and NATS.
    ///
    /// # Errors
    /// When the service has none.
    pub fn wire(&self, service: &str) -> Result<&Wire> {
        self.wires.get(service).with_context(|| format!("{service} has no wire"))
    }

    /// The address of NATS, as a service sees it.
    fn nats_url(&self, service: &str) -> String {
        match self.wires.get(service) {
            Some(wire) => format!("nats://127.0.0.1:{}", wire.port()),
            None => self.nats.url(),
        }
    }

    /// A service that was started.
    ///
    /// # Errors
    /// When it was not.
    pub fn service(&self, service: &str) -> Result<&Service> {
        self.services.get(service).with_context(|| format!("{service} was not started"))
    }

    /// The same, to be killed and started.
    ///
    /// # Errors
    /// When it was not started.
    pub fn service_mut(&mut self, service: &str) -> Result<&mut Service> {
        self.services.get_mut(service).with_context(|| format!("{service} was not started"))
    }

    /// Ends a service for good.
    pub fn remove(&mut self, service: &str) {
        self.services.remove(service);
    }

    /// The client of the administrator.
    ///
    /// # Errors
    /// When the kubeconfig cannot be used.
    pub async fn client(&self) -> Result<Client> {
        Ok(self.plane.client().await?)
    }

    /// Port of a service's gRPC server, or of the console's pages.
    pub fn grpc_port(&self, service: &str) -> u16 {
        self.ports[service].1
    }

    /// What a service says on a path of its admin server.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn admin(&self, service: &str, path: &str) -> Result<(u16, String)> {
        get(self.service(service)?.admin, path).await
    }

    /// Runs kubectl as the administrator and returns what it prints.
    ///
    /// # Errors
    /// When it fails; the error is what it says.
    pub async fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        let mut command = self.plane.kubectl()?;
        command.args(arguments).current_dir(workspace());
        let output = tokio::process::Command::from(command).output().await?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "kubectl {}: {error}", arguments.join(" "));
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// The end of the log of every service, for errors.
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

/// kubectl is asked again for a while: a server that has just begun may break a connection.
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

/// Where this build puts binaries: tests lie in `deps` below it.
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
