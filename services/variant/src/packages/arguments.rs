//! Arguments for the package store of the service, and their checks.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use groundwork_controller::Objects;
use groundwork_packages::git::{MAX_PACKAGE_BYTES, Meters, Options, Proxy, ProxyError, RemoteOptions, Store};
use groundwork_telemetry::Telemetry;

use super::porch::Server;
use super::rate_limit::{Drafts, Turns, WRITES, WRITES_ON_PORCH};
use super::{
    ApiArguments, FunctionArguments, FunctionsError, PackageStore, PorchStore, TurnArguments, porch,
};

/// Default protocols of remotes. `file` is missing, because it reads disks of this machine.
const PROTOCOLS: [&str; 3] = ["https", "http", "ssh"];

/// Default time limit for an answer of a git remote, in seconds.
const GIT_TIMEOUT: u64 = 30;

/// Arguments for the location and the storage of packages.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Package store")]
pub struct StoreArguments {
    /// Keep packages in git repositories, with clones in this folder, and draft the package
    /// revisions of PackageVariants
    #[arg(long, env = "GROUNDWORK_PACKAGE_STORE", value_name = "DIRECTORY")]
    pub package_store: Option<PathBuf>,

    /// Draft the package revisions of PackageVariants, and answer calls about packages, on the
    /// Porch server that serves them in this cluster
    #[arg(long, env = "GROUNDWORK_PORCH", conflicts_with = "package_store")]
    pub porch: bool,

    /// Use the Porch server instead of the package store, if one serves package revisions when the
    /// service starts
    #[arg(long, env = "GROUNDWORK_PORCH_IF_SERVED", requires = "package_store", conflicts_with = "porch")]
    pub porch_if_served: bool,

    /// Protocols of git remotes; `file` lets users who register a Repository read disks of this
    /// machine
    #[arg(long, env = "GROUNDWORK_PACKAGE_PROTOCOLS", conflicts_with = "porch", value_name = "NAMES", value_delimiter = ',', default_values_t = PROTOCOLS.map(str::to_owned))]
    pub package_protocols: Vec<String>,

    /// Ask only git remotes at public addresses; without it users who register a Repository can
    /// send requests to any host in reach
    #[arg(long, env = "GROUNDWORK_ONLY_PUBLIC_GIT", conflicts_with = "porch")]
    pub only_public_git: bool,

    /// Time limit for an answer of a git remote, in seconds; transfers of packages may take four
    /// times as long
    #[arg(long, env = "GROUNDWORK_PACKAGE_GIT_TIMEOUT", conflicts_with = "porch", value_name = "SECONDS", default_value_t = GIT_TIMEOUT)]
    pub package_git_timeout: u64,

    /// PEM file with certificates to trust for git remotes, and for their proxy, at https
    /// addresses; without it those of the system
    #[arg(long, env = "GROUNDWORK_PACKAGE_GIT_CA", conflicts_with = "porch", value_name = "FILE")]
    pub package_git_ca: Option<PathBuf>,

    // The value may contain a password, so the help does not show it.
    /// Proxy for git remotes at http and https addresses, such as http://proxy:3128; the variables
    /// HTTPS_PROXY and NO_PROXY have no effect
    #[arg(
        long,
        env = "GROUNDWORK_PACKAGE_GIT_PROXY",
        hide_env_values = true,
        conflicts_with = "porch",
        value_name = "URL"
    )]
    pub package_git_proxy: Option<String>,

    /// Hosts that are contacted without the proxy: names with their subdomains, IP addresses, and
    /// networks such as 10.0.0.0/8
    #[arg(
        long,
        env = "GROUNDWORK_PACKAGE_GIT_NO_PROXY",
        requires = "package_git_proxy",
        value_name = "HOSTS",
        value_delimiter = ','
    )]
    pub package_git_no_proxy: Vec<String>,

    /// Address for webhooks of git hosts, such as 0.0.0.0:9446: a signed report of a push to
    /// /hooks/NAMESPACE/REPOSITORY has the repository read at once; without it no port is open
    #[arg(
        long,
        env = "GROUNDWORK_PACKAGE_HOOKS_ADDRESS",
        requires = "package_store",
        conflicts_with = "porch",
        value_name = "ADDRESS"
    )]
    pub package_hooks_address: Option<SocketAddr>,

    /// Approve drafts by their annotations approval.nephio.org/policy (initial or always) and
    /// approval.nephio.org/delay; without it people approve
    #[arg(long, env = "GROUNDWORK_APPROVAL_POLICIES", requires = "package_store", conflicts_with = "porch")]
    pub approval_policies: bool,

    #[command(flatten)]
    pub api: ApiArguments,

    #[command(flatten)]
    pub turns: TurnArguments,

    #[command(flatten)]
    pub functions: FunctionArguments,
}

impl StoreArguments {
    /// Returns the store that the arguments ask for. For `porch_if_served` this waits for the API
    /// server until the process ends.
    ///
    /// # Errors
    /// The arguments for functions or for git remotes cannot be used.
    pub(crate) async fn store(
        &self,
        objects: &Objects,
        telemetry: &Telemetry,
    ) -> Result<(Option<PorchStore>, Option<PackageStore>), StoreStartError> {
        let metrics = &telemetry.metrics;
        if self.porch || (self.porch_if_served && porch::is_chosen(objects, telemetry).await) {
            let turns = Turns::new(self.turns, WRITES_ON_PORCH);
            let porch = PorchStore::new(Server::Porch, objects, turns, Drafts::new(self.turns, metrics));
            return Ok((Some(porch), None));
        }
        let Some(directory) = self.package_store.clone() else { return Ok((None, None)) };
        let remotes = self.remotes()?;
        let functions = self.functions.functions()?;
        let meters = Meters::new(metrics);
        let options = Options { directory, remotes, max_package_bytes: MAX_PACKAGE_BYTES, functions, meters };
        let store = PackageStore {
            store: Arc::new(Store::new(options)),
            turns: Turns::new(self.turns, WRITES),
            known: Mutex::default(),
            hooks: Mutex::default(),
            approves: self.approval_policies,
        };
        let (turns, drafts) = (Turns::new(self.turns, WRITES), Drafts::new(self.turns, metrics));
        let porch = PorchStore::new(Server::Groundwork, objects, turns, drafts);
        Ok((Some(porch), Some(store)))
    }

    fn remotes(&self) -> Result<RemoteOptions, StoreStartError> {
        let protocols = match self.package_protocols.as_slice() {
            [] => PROTOCOLS.map(str::to_owned).to_vec(),
            given => given.to_vec(),
        };
        let timeout = Some(self.package_git_timeout).filter(|seconds| *seconds > 0).unwrap_or(GIT_TIMEOUT);
        let proxy = self.package_git_proxy.as_deref().map(|address| Proxy::parse(address, None));
        let certificates = self.package_git_ca.clone();
        // `git` would report a missing file as a fault of each remote.
        if let Some(file) = &certificates {
            std::fs::read(file)
                .map_err(|source| StoreStartError::Certificates { file: file.clone(), source })?;
        }
        Ok(RemoteOptions {
            protocols,
            only_public: self.only_public_git,
            timeout: Duration::from_secs(timeout),
            certificates,
            proxy: proxy.transpose()?,
            no_proxy: self.package_git_no_proxy.clone(),
        })
    }
}

/// Reason why the store cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StoreStartError {
    #[error(transparent)]
    Functions(#[from] FunctionsError),
    #[error("--package-git-proxy: {0}")]
    Proxy(#[from] ProxyError),
    #[error("--package-git-ca: cannot read {}: {source}", file.display())]
    Certificates { file: PathBuf, source: std::io::Error },
}
