//! The deployer service: deploys DeployItems by their type.
//!
//! ```text
//! DeployItem event ──> a queue for each type ──DeployLoop──> mock: nothing
//!          │                                            └──> manifest, helm ──> cluster of Target
//!          └──> pick-up, export Secret, result in the status
//! DeployItem at rest ──schedule──> DriftChecks ──> manifest, helm ──> have others changed objects?
//! TargetSync event ──> a queue of its own ──TargetSyncs──> source cluster
//!                                                └──> Targets and Secrets of the namespace
//! gRPC ──> grpc: kubeconfigs with users of their own ──> cluster of Target
//! ```

mod common;
mod configuration;
mod drift;
mod grpc;
mod helm;
mod manifest;
mod mock;
mod siblings;
mod target_sync;
mod whereabouts;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use futures::{FutureExt, TryFutureExt};
use groundwork_api::{DeployItem, Kind as _, ObjectMeta, Target, TargetSpec};
use groundwork_apply::{Answers, ReadinessRules};
use groundwork_budget::TemplateLimits;
use groundwork_bus::{Backoff, Kind};
use groundwork_controller::{
    ClusterArguments, LANDSCAPER, Metrics, Objects, Options, OriginalAtWorkError, Probe, ProcessContext,
    RunningService, ServiceArguments, ServiceError, TakeoverArguments, look_for_webhooks,
};
use groundwork_deploy::{
    Deployer, DeployerService, DriftChecks, Registration, TargetSelectors, Targets, TokenRules,
};
use groundwork_grpc::{Access, GrpcArguments, Server, ServerError, TokenSource, audience, with_limits};
use groundwork_proto::deployer::v1::deployer_server::DeployerServer;
use groundwork_registry::sources::MapFile;
use groundwork_registry::{MapError, NetworkOptions};
use groundwork_sandbox::{Count, Pools, Work, WorkerArguments};
use groundwork_telemetry::{Metrics as Registry, Telemetry};
use jiff::SignedDuration;
use kube::Config;

use helm::{ChartSources, HelmDeployer};
use manifest::ManifestDeployer;
use mock::MockDeployer;
use target_sync::TargetSyncs;

/// Name of the service, of its consumers and of its field manager.
pub const SERVICE: &str = "deployer";
const MANAGER: &str = "groundwork-deployer";
/// Name of the drift checks in metrics and traces.
const DRIFT: &str = "deployer_drift";

/// Kind of this service's workers, for [`groundwork_sandbox::enter`].
pub const WORKER: (&str, Work) = (SERVICE, helm::work::serve);

/// Command-line arguments of the deployer.
#[derive(Debug, Clone, Default, Args)]
pub struct Arguments {
    #[command(flatten)]
    pub cluster: ClusterArguments,
    #[command(flatten)]
    pub takeover: TakeoverArguments,
    /// File that maps repository contexts to the stores that components are read from whose
    /// resources are charts; read again when it changes
    #[arg(long, env = "GROUNDWORK_REPOSITORIES", value_name = "FILE")]
    pub repositories: Option<PathBuf>,
    #[command(flatten)]
    pub grpc: GrpcArguments,
    #[command(flatten)]
    pub workers: WorkerArguments,
    #[command(flatten)]
    pub limits: TemplateLimits,
    #[command(flatten)]
    pub settings: Settings,
}

/// Errors that keep the deployer from starting.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Server(#[from] ServerError),
    #[error(transparent)]
    Original(#[from] OriginalAtWorkError),
    #[error("--repositories: {0}")]
    Repositories(#[from] MapError),
    #[error("worker processes cannot be started: {0}")]
    Workers(#[from] groundwork_sandbox::StartError),
}

impl ServiceArguments for Arguments {
    const SERVICE: &'static str = SERVICE;
    const PROGRAM: &'static str = "groundwork-deployer";
    const ABOUT: &'static str =
        "Brings DeployItems about, by their type, and keeps the Targets of TargetSyncs";

    fn cluster(&self) -> &ClusterArguments {
        &self.cluster
    }

    async fn start(self, context: ProcessContext) -> Result<RunningService, ServiceError> {
        let service = Deployers::start(self, context).await?;
        Ok(service.run().err_into().boxed())
    }
}

/// Settings of the deployer itself, whether it runs alone or with other services.
#[derive(Debug, Clone, Args)]
#[group(skip)]
pub struct Settings {
    /// Types of items to work on, each through a queue of its own.
    #[arg(
        long,
        env = "GROUNDWORK_DEPLOYER_TYPES",
        value_delimiter = ',',
        default_value = "mock,manifest,helm"
    )]
    pub types: Vec<ItemType>,
    /// Work on TargetSyncs: beside items, instead of items, or never.
    #[arg(long, env = "GROUNDWORK_TARGET_SYNCS", default_value = "too")]
    pub target_syncs: TargetSyncMode,
    /// Serve only items whose Target fits one of these selectors, a JSON list of {targets, labels,
    /// annotations} (installations.md 7.7). Deployers of one type with different selectors need
    /// different --instance.
    #[arg(long, env = "GROUNDWORK_TARGET_SELECTORS", value_parser = selectors, default_value = "[]")]
    pub target_selectors: TargetSelectors,
    /// A name for deployers that share their queues; needed where several serve one type with
    /// different selectors.
    #[arg(long, env = "GROUNDWORK_DEPLOYER_INSTANCE", default_value = "", value_parser = instance)]
    pub instance: String,
    /// Identity that is written to `status.deployer` of the items; by default it names the type and
    /// the host. It has to differ between processes that share their queues.
    #[arg(long, env = "GROUNDWORK_DEPLOYER_IDENTITY", default_value = "")]
    pub identity: String,
    #[command(flatten)]
    pub charts: ChartArguments,
    /// Items of one type and namespace that are worked on at the same time; eight times as many
    /// across all namespaces.
    #[arg(long, env = "GROUNDWORK_DEPLOYER_CONCURRENCY", default_value_t = CONCURRENCY)]
    pub deployer_concurrency: usize,
    /// Rules by which objects are ready, for items that choose none: the conventions for statuses,
    /// or a table of kinds (installations.md 7.9).
    #[arg(long, env = "GROUNDWORK_READINESS_RULES", default_value = "conventions")]
    pub readiness_rules: Readiness,
    /// Pause between two checks of an item's objects for changes by others, once its job has
    /// succeeded (installations.md 7.9); `none` for no checks.
    #[arg(long, env = "GROUNDWORK_DRIFT_EVERY", default_value = DRIFT_EVERY)]
    pub drift_every: groundwork_api::Duration,
    /// Objects in clusters of Targets that are watched at a time for waiting items; further items
    /// poll with growing pauses. 0 disables watches.
    #[arg(long, env = "GROUNDWORK_TARGET_WATCHES", default_value_t = TARGET_WATCHES)]
    pub target_watches: usize,
    /// The longest life of a token that a Target may ask for with `expirationSeconds`.
    #[arg(long, env = "GROUNDWORK_LONGEST_TARGET_TOKEN", default_value = LONGEST_TOKEN, value_name = "DURATION")]
    pub longest_target_token: groundwork_api::Duration,
    /// Allow tokens to be sent to servers of `oidcConfig` without TLS.
    #[arg(long, env = "GROUNDWORK_ALLOW_PLAIN_OIDC_TARGETS")]
    pub allow_plain_oidc_targets: bool,
}

impl Settings {
    fn token_rules(&self) -> TokenRules {
        let longest = self.longest_target_token.to_std().unwrap_or(Duration::MAX);
        TokenRules { longest, allows_plain: self.allow_plain_oidc_targets }
    }
}

/// Settings for fetching charts.
#[derive(Debug, Clone, Args)]
#[group(skip)]
pub struct ChartArguments {
    /// Docker configuration file with credentials for the registries of charts, used before the
    /// pull secrets of a Context; may be given several times
    #[arg(long, env = "GROUNDWORK_CHART_DOCKER_CONFIGS", value_name = "FILE", value_delimiter = ',')]
    pub chart_docker_config: Vec<PathBuf>,
    /// PEM file of certificates to trust in registries of charts, in place of those of the system
    #[arg(long, env = "GROUNDWORK_CHART_REGISTRY_CA", value_name = "FILE")]
    pub chart_registry_ca: Option<PathBuf>,
    /// Hosts of chart registries, with a port if they have one, that are reached without TLS
    #[arg(long, env = "GROUNDWORK_CHART_PLAIN_HTTP_HOSTS", value_name = "HOSTS", value_delimiter = ',')]
    pub chart_plain_http_hosts: Vec<String>,
    /// Time limit for fetching a chart, with a second more for each answer and MiB, such as 30s;
    /// none for no limit
    #[arg(long, env = "GROUNDWORK_CHART_FETCH_TIMEOUT", default_value = FETCH_TIMEOUT, value_name = "DURATION")]
    pub chart_fetch_timeout: groundwork_api::Duration,
    /// Fetch no chart from an address of a private network or of this machine
    #[arg(long, env = "GROUNDWORK_ONLY_PUBLIC_CHARTS")]
    pub only_public_charts: bool,
}

impl Default for ChartArguments {
    fn default() -> Self {
        groundwork_telemetry::defaults()
    }
}

impl ChartArguments {
    fn network(&self) -> NetworkOptions {
        NetworkOptions {
            plain_http_hosts: self.chart_plain_http_hosts.clone(),
            ca: self.chart_registry_ca.clone(),
            only_public: self.only_public_charts,
            docker_configs: self.chart_docker_config.clone(),
        }
    }
}

/// A type of items that this service has a deployer for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, ValueEnum)]
pub enum ItemType {
    /// Items that touch no cluster, for trials.
    Mock,
    /// Items with Kubernetes manifests.
    Manifest,
    /// Items with a chart, deployed as a release or rendered and applied.
    Helm,
}

/// Work on TargetSyncs, which needs other rights than work on items.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum TargetSyncMode {
    /// Work on TargetSyncs and items.
    #[default]
    Too,
    /// Work on TargetSyncs only.
    Only,
    Never,
}

/// Readiness rules, in the words of `readinessChecks.rules`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Readiness {
    /// Generation, conditions, and the rules of built-in kinds, as Helm 4 and Flux wait.
    #[default]
    Conventions,
    /// Workloads alone, as Landscaper 1.3 and Helm 3 wait.
    Kinds,
}

impl From<Readiness> for ReadinessRules {
    fn from(readiness: Readiness) -> Self {
        match readiness {
            Readiness::Conventions => Self::Conventions,
            Readiness::Kinds => Self::Kinds,
        }
    }
}

const CONCURRENCY: usize = 16;
const DRIFT_EVERY: &str = "10m";
const LONGEST_TOKEN: &str = "24h";
const FETCH_TIMEOUT: &str = "30s";
/// Drift checks at the same time. Each is a few reads, and no user waits for one.
const CHECKS: usize = 4;
/// Default number of watches. Each is a connection, and a process may have only 1,024 open files by
/// default.
const TARGET_WATCHES: usize = 256;
/// Time limit of a worker for one rendering. It is longer than the limit of charts
/// (`groundwork_helm::TIME_LIMIT`), so that a slow chart ends with its own error, which names the
/// slow part.
const CHART_TIME: Duration = Duration::from_secs(35);

impl Default for Settings {
    fn default() -> Self {
        groundwork_telemetry::defaults()
    }
}

/// Names of a type of items: in the identity of the process, of its queue (`groundwork_bus::USERS`
/// grants access to it), and of its condition on `/readyz`.
struct Names {
    name: &'static str,
    queue: &'static str,
    condition: &'static str,
}

impl ItemType {
    const fn names(self) -> Names {
        match self {
            // The mock deployer was the first one, so its queue and its condition have no suffix.
            Self::Mock => Names { name: "mock", queue: SERVICE, condition: "index" },
            Self::Manifest => {
                Names { name: "manifest", queue: "deployer_manifest", condition: "index of manifest items" }
            }
            Self::Helm => Names { name: "helm", queue: "deployer_helm", condition: "index of helm items" },
        }
    }

    async fn deployer(
        self,
        arguments: &Arguments,
        metrics: &Registry,
    ) -> Result<Arc<dyn Deployer>, StartError> {
        let rules = arguments.settings.readiness_rules.into();
        Ok(match self {
            Self::Mock => Arc::new(MockDeployer),
            Self::Manifest => Arc::new(ManifestDeployer { rules }),
            Self::Helm => {
                let network = arguments.settings.charts.network();
                let map = MapFile::open(arguments.repositories.as_deref(), network.clone())?;
                let pools = Pools::new(SERVICE, arguments.workers, metrics);
                let count = Count::of_processors();
                let workers = pools.start("deployer-charts", count, CHART_TIME).await?;
                let sources =
                    ChartSources::new(network, map, arguments.settings.charts.chart_fetch_timeout.to_std());
                Arc::new(HelmDeployer::new(sources, workers, arguments.limits, rules))
            }
        })
    }
}

fn selectors(text: &str) -> Result<TargetSelectors, String> {
    serde_json::from_str(text).map_err(|error| format!("not a list of selectors: {error}"))
}

fn instance(text: &str) -> Result<String, String> {
    let is_fit = text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    if is_fit && text.len() <= 32 {
        Ok(text.to_owned())
    } else {
        Err("it may have at most 32 lower-case letters and digits".to_owned())
    }
}

/// Deployers that do not work yet, and the gRPC server of the process.
pub struct Deployers {
    service: DeployerService,
    /// Absent in a process that works on TargetSyncs only, whose account reads no Targets.
    calls: Option<(Server, Access)>,
    telemetry: Telemetry,
}

impl std::fmt::Debug for Deployers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Deployers").field("address", &self.address()).finish_non_exhaustive()
    }
}

impl Deployers {
    /// Starts the deployers once no Landscaper deployer is running, and binds the port of the
    /// server.
    ///
    /// # Errors
    ///
    /// A Landscaper deployer is running, the port is taken, or an argument is invalid.
    pub async fn start(arguments: Arguments, context: ProcessContext) -> Result<Self, StartError> {
        let (client, telemetry) = (context.client.clone(), context.telemetry.clone());
        let service = service(&arguments, context).await?;
        let settings = &arguments.settings;
        let calls = match settings.target_syncs {
            TargetSyncMode::Only => None,
            TargetSyncMode::Too | TargetSyncMode::Never => {
                let access = Access::new(client.clone(), audience(SERVICE));
                let calls = grpc::Service {
                    access: access.clone(),
                    objects: Objects::new(client.clone(), MANAGER, service.metrics().clone()),
                    targets: service.targets().clone(),
                };
                let server = Server::bind(&arguments.grpc, &telemetry).await?.for_callers_of(access.clone());
                Some((server.with(with_limits!(DeployerServer::new(calls))), access))
            }
        };
        let mut probes = Vec::new();
        if settings.target_syncs != TargetSyncMode::Only {
            probes.push(Probe::change::<DeployItem>());
        }
        if settings.target_syncs != TargetSyncMode::Never {
            let metadata = ObjectMeta { name: Some("groundwork-look".to_owned()), ..ObjectMeta::default() };
            let spec = TargetSpec { type_: "groundwork.dev/look".to_owned(), ..TargetSpec::default() };
            probes.push(Probe::creation(Target { metadata, spec }));
        }
        let namespaces = &arguments.cluster.namespaces;
        look_for_webhooks(&client, namespaces, probes, &telemetry.health, telemetry.shutdown.token());
        Ok(Self { service, calls, telemetry })
    }

    /// Returns the address on which the gRPC server listens, if there is one.
    pub fn address(&self) -> Option<SocketAddr> {
        self.calls.as_ref().map(|(server, _)| server.address())
    }

    /// Returns the URL for clients on this machine.
    pub fn url(&self) -> Option<String> {
        self.calls.as_ref().map(|(server, _)| server.url())
    }

    /// Returns a token for callers in this process; see [`Access::token_of_this_process`].
    pub fn token_of_this_process(&self) -> TokenSource {
        self.calls.as_ref().map_or_else(TokenSource::none, |(_, access)| access.token_of_this_process())
    }

    /// Works until shutdown is requested.
    ///
    /// # Errors
    ///
    /// The server lost its port.
    pub async fn run(self) -> Result<(), ServerError> {
        let end = self.telemetry.shutdown.token();
        let calls = self.calls;
        let serving = async {
            match calls {
                Some((server, _)) => server.serve(end).await,
                None => Ok(()),
            }
        };
        let (served, ()) = tokio::join!(serving, self.service.run());
        served
    }
}

/// Creates the service with the controllers that the arguments ask for, once no Landscaper deployer
/// is running.
async fn service(arguments: &Arguments, context: ProcessContext) -> Result<DeployerService, StartError> {
    let (client, telemetry) = (context.client.clone(), context.telemetry.clone());
    let (end, namespaces) = (telemetry.shutdown.token(), &arguments.cluster.namespaces);
    arguments.takeover.ensure_stopped(LANDSCAPER, namespaces, &client, &telemetry.health, &end).await?;
    // Outside a cluster this fails, and that is fine: only Targets for the deployer's own cluster
    // need it, and their items get an error.
    let home = Config::infer().await.ok();
    let settings = &arguments.settings;
    let targets = Targets::new(home.as_ref(), MANAGER, Answers::default(), settings.token_rules());
    let mut service = DeployerService::new(context, SERVICE, MANAGER, targets, settings.target_watches);
    let types: BTreeSet<ItemType> = match settings.target_syncs {
        TargetSyncMode::Only => BTreeSet::new(),
        TargetSyncMode::Too | TargetSyncMode::Never => settings.types.iter().copied().collect(),
    };
    let mut checked = Vec::new();
    for item_type in types {
        let deployer = item_type.deployer(arguments, &telemetry.metrics).await?;
        // Mock items have no objects, so drift checks leave them out.
        if item_type != ItemType::Mock {
            checked.push(Arc::clone(&deployer));
        }
        service.register(registration(arguments, item_type, deployer));
    }
    if let Some(every) = drift_every(settings, &checked) {
        let (targets, journal) = (service.targets().clone(), service.journal().clone());
        let selectors = settings.target_selectors.clone();
        let checks = DriftChecks::new(checked, selectors, targets, journal, every, &telemetry.metrics);
        let options = drift_options(arguments.cluster.namespaces.clone());
        // Separate metrics, because checks say nothing about the speed of jobs.
        let metrics = Metrics::new(&telemetry.metrics, DRIFT);
        service.add(Arc::new(checks), options, "index of items at rest", metrics);
    }
    if settings.target_syncs != TargetSyncMode::Never {
        let options = target_sync::options(arguments.cluster.namespaces.clone());
        let (targets, metrics) = (service.targets().clone(), service.metrics().clone());
        service.add(Arc::new(TargetSyncs { targets }), options, "index of TargetSyncs", metrics);
    }
    Ok(service)
}

fn registration(arguments: &Arguments, item_type: ItemType, deployer: Arc<dyn Deployer>) -> Registration {
    let settings = &arguments.settings;
    Registration {
        deployer,
        queue: queue(item_type, &settings.instance),
        condition: item_type.names().condition,
        identity: identity(&settings.identity, item_type, std::env::var("HOSTNAME").ok().as_deref()),
        name: SERVICE,
        version: env!("CARGO_PKG_VERSION"),
        selectors: settings.target_selectors.clone(),
        namespaces: arguments.cluster.namespaces.clone(),
        concurrency: settings.deployer_concurrency,
    }
}

/// Returns the pause between two checks of an item; `None` if checks are off or no deployer has
/// objects to check.
fn drift_every(settings: &Settings, deployers: &[Arc<dyn Deployer>]) -> Option<SignedDuration> {
    let every = settings.drift_every.to_std().filter(|every| !every.is_zero() && !deployers.is_empty())?;
    SignedDuration::try_from(every).ok()
}

/// Returns the options of the drift checks. They run on schedules alone and share no queue between
/// replicas.
fn drift_options(namespaces: Vec<String>) -> Options {
    Options {
        service: DRIFT,
        work: Vec::new(),
        indexed: vec![Kind::new(DeployItem::GROUP, DeployItem::PLURAL)],
        namespaces,
        concurrency: CHECKS,
        backoff: Backoff::OBJECT,
    }
}

/// Returns the identity of this process. It differs between processes that serve the same items,
/// and stays the same after a restart.
fn identity(given: &str, item_type: ItemType, host: Option<&str>) -> String {
    let own = format!("groundwork-{}", item_type.names().name);
    match (given, host) {
        ("", None | Some("")) => own,
        ("", Some(host)) => format!("{own}.{host}"),
        (given, _) => given.to_owned(),
    }
}

/// Returns the name of a queue. The leaked text lives as long as the process, which has few queues.
fn queue(item_type: ItemType, instance: &str) -> &'static str {
    match instance {
        "" => item_type.names().queue,
        instance => Box::leak(format!("{}_{instance}", item_type.names().queue).into_boxed_str()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_checked() {
        assert!(selectors("[{\"labels\": [{\"key\": \"a\", \"operator\": \"exists\"}]}]").is_ok());
        assert!(selectors("{}").is_err() && selectors("[{\"label\": []}]").is_err());
        assert!(instance("dev1").is_ok() && instance("Dev").is_err() && instance("a.b").is_err());
        assert_eq!(queue(ItemType::Manifest, "dev"), "deployer_manifest_dev");
        assert_eq!(identity("", ItemType::Helm, Some("pod-1")), "groundwork-helm.pod-1");
        assert_eq!(identity("", ItemType::Helm, None), "groundwork-helm");
        assert_eq!(identity("mine", ItemType::Helm, Some("pod-1")), "mine");
    }
}
