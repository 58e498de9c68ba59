//! The resolver service: it decides which component version an Installation uses, and reads the
//! version's closure and contents.
//!
//! ```text
//! gRPC Resolve ──> resolution_inputs (GET Installation, Context, overwrites) ──> work ══> lifecycle::resolve
//!     └─ status (conditions, componentReference) ──> API server
//!     └─ Resolution::verify, closure ──stores (pinned for the job, shared with those that wait)──> RepositoryMap, with the pull secrets of the Context (sources)
//! Namespace events ──> contexts: the Context "default"
//! Context, ComponentVersionOverwrites, Installation events ──> status: ComponentReferenceOutdated
//! work ══> worker, another process: references and rules of an Installation, `Explain`, descriptors that a store has
//! ```

mod contexts;
mod grpc;
mod handler;
mod narration;
mod permitted_versions;
mod resolution_inputs;
mod status;
mod stores;
mod work;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use futures::{FutureExt, TryFutureExt};
use groundwork_api::{ComponentVersionOverwrites, Context, Installation, ObjectMeta};
use groundwork_bus::{Backoff, Kind};
use groundwork_controller::{
    ClusterArguments, Controller, Journal, LANDSCAPER, Metrics, Objects, Options, OriginalAtWorkError, Probe,
    ProcessContext, RunningService, ServiceArguments, ServiceError, TakeoverArguments, look_for_webhooks,
};
use groundwork_grpc::{Access, GrpcArguments, Server, ServerError, TokenSource, audience, with_limits};
use groundwork_lifecycle::SignaturePolicy;
use groundwork_proto::resolver::v1::resolver_server::ResolverServer;
use groundwork_registry::sources::MapFile;
use groundwork_registry::{DiskCache, MapError, NetworkOptions};
use groundwork_sandbox::{Count, Pools, WALL_TIME, Work, WorkerArguments};
use groundwork_telemetry::Telemetry;

use contexts::DefaultContexts;
use handler::{ResolverHandler, namespaces};
use stores::Stores;
use work::Evaluators;

/// Name of the service and of its consumers.
pub const SERVICE: &str = "resolver";
/// Field manager for the fields that this service owns.
pub const MANAGER: &str = "groundwork-resolver";

/// Kind of the service's worker processes, for [`groundwork_sandbox::enter`].
pub const WORKER: (&str, Work) = (SERVICE, work::serve);

const CONCURRENCY: usize = 4;
const FETCH_TIMEOUT: &str = "30s";
/// Default for the bytes of cached contents on disk.
const CACHE_SIZE: u64 = 1 << 30;

/// Arguments of the resolver.
#[derive(Debug, Clone, Default, Args)]
pub struct Arguments {
    #[command(flatten)]
    pub cluster: ClusterArguments,
    #[command(flatten)]
    pub takeover: TakeoverArguments,
    #[command(flatten)]
    pub grpc: GrpcArguments,
    #[command(flatten)]
    pub workers: WorkerArguments,

    #[command(flatten)]
    pub settings: Settings,
}

impl ServiceArguments for Arguments {
    const SERVICE: &'static str = SERVICE;
    const PROGRAM: &'static str = "groundwork-resolver";
    const ABOUT: &'static str = "Which component versions Installations use";

    fn cluster(&self) -> &ClusterArguments {
        &self.cluster
    }

    async fn start(self, context: ProcessContext) -> Result<RunningService, ServiceError> {
        let service = Resolver::start(self, context).await?;
        Ok(service.run().err_into().boxed())
    }
}

/// Settings of the resolver itself, for its own process and for the one that runs all services.
#[derive(Debug, Clone, Args)]
#[group(skip)]
pub struct Settings {
    /// File that maps repository contexts to the stores that components are read from; read again
    /// when it changes
    #[arg(long, env = "GROUNDWORK_REPOSITORIES", value_name = "FILE")]
    pub repositories: Option<PathBuf>,

    /// Docker configuration file with credentials for registries, used before the pull secrets of a
    /// Context; may be given several times
    #[arg(long, env = "GROUNDWORK_DOCKER_CONFIGS", value_name = "FILE", value_delimiter = ',')]
    pub docker_config: Vec<PathBuf>,

    /// PEM file of certificates to trust in registries that no entry of the map names, in place of
    /// those of the system
    #[arg(long, env = "GROUNDWORK_REGISTRY_CA", value_name = "FILE")]
    pub registry_ca: Option<PathBuf>,

    /// Hosts of registries, with their ports if they have one, that are asked without TLS; those
    /// that are written with http:// are, too
    #[arg(long, env = "GROUNDWORK_PLAIN_HTTP_HOSTS", value_name = "HOSTS", value_delimiter = ',')]
    pub plain_http_hosts: Vec<String>,

    /// Ask no registry at an address of a private network or of this machine, unless an entry of
    /// the map names it
    #[arg(long, env = "GROUNDWORK_ONLY_PUBLIC_REGISTRIES")]
    pub only_public_registries: bool,

    /// Time limit for registries to send everything for one job, and a second more for each answer
    /// and MiB, such as 30s; none for no limit
    #[arg(long, env = "GROUNDWORK_FETCH_TIMEOUT", default_value = FETCH_TIMEOUT, value_name = "DURATION")]
    pub fetch_timeout: groundwork_api::Duration,

    /// Folder in which large contents of components are kept from call to call; without it none are
    #[arg(long, env = "GROUNDWORK_COMPONENT_CACHE", value_name = "DIR")]
    pub component_cache: Option<PathBuf>,

    /// Bytes that the contents in that folder may have together
    #[arg(long, env = "GROUNDWORK_COMPONENT_CACHE_SIZE", value_name = "BYTES", default_value_t = CACHE_SIZE)]
    pub component_cache_size: u64,

    /// Components that must carry a signature: DoNotEnforce (of Installations that ask for it),
    /// Enforce (all) or Disabled (none)
    #[arg(long, env = "GROUNDWORK_SIGNATURE_POLICY", value_name = "POLICY", default_value = "DoNotEnforce")]
    pub signature_policy: String,

    /// Repository context, as a JSON object, that every Context "default" is made to have
    #[arg(long, env = "GROUNDWORK_DEFAULT_REPOSITORY_CONTEXT", value_name = "JSON")]
    pub default_repository_context: Option<String>,

    /// Create no Contexts
    #[arg(long, env = "GROUNDWORK_NO_DEFAULT_CONTEXTS")]
    pub no_default_contexts: bool,

    /// Namespaces in which no Context is created, separated by commas; kube-system never gets one
    #[arg(
        long,
        visible_alias = "excluded-namespaces",
        env = "GROUNDWORK_EXCLUDE_NAMESPACES",
        value_name = "NAMES",
        value_delimiter = ','
    )]
    pub exclude_namespaces: Vec<String>,

    /// Objects of one namespace that are worked on at the same time; of all namespaces, eight times
    /// as many
    #[arg(long, env = "GROUNDWORK_RESOLVER_CONCURRENCY", default_value_t = CONCURRENCY)]
    pub resolver_concurrency: usize,
}

impl Default for Settings {
    fn default() -> Self {
        groundwork_telemetry::defaults()
    }
}

impl Settings {
    fn network(&self) -> NetworkOptions {
        NetworkOptions {
            plain_http_hosts: self.plain_http_hosts.clone(),
            ca: self.registry_ca.clone(),
            only_public: self.only_public_registries,
            docker_configs: self.docker_config.clone(),
        }
    }
}

/// Reason why the resolver cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("--component-cache: {0}")]
    Cache(std::io::Error),
    #[error("--repositories: {0}")]
    Repositories(#[from] MapError),
    #[error(
        "--default-repository-context must be a JSON object such as {{\"type\":\"ociRegistry\",\"baseUrl\":\"…\"}}"
    )]
    DefaultContext,
    #[error(transparent)]
    Server(#[from] ServerError),
    #[error(transparent)]
    Original(#[from] OriginalAtWorkError),
    #[error("worker processes cannot be started: {0}")]
    Workers(#[from] groundwork_sandbox::StartError),
}

/// Resolver that has bound its port and does not reconcile yet.
pub struct Resolver {
    server: Server,
    access: Access,
    controller: Controller,
    contexts: Arc<DefaultContexts>,
    journal: Journal,
    telemetry: Telemetry,
}

impl std::fmt::Debug for Resolver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Resolver").field("address", &self.address()).finish_non_exhaustive()
    }
}

impl Resolver {
    /// Binds the port of the server, and waits until no Landscaper is running.
    ///
    /// # Errors
    ///
    /// An argument is invalid, the port is taken, or a Landscaper is running.
    pub async fn start(arguments: Arguments, context: ProcessContext) -> Result<Self, StartError> {
        let ProcessContext { bus, client, telemetry, casualties } = context;
        let map = MapFile::open(arguments.settings.repositories.as_deref(), arguments.settings.network())?;
        let contexts = Arc::new(DefaultContexts::new(&arguments.settings)?);
        let metrics = Metrics::new(&telemetry.metrics, SERVICE);
        let objects = Objects::new(client.clone(), MANAGER, metrics.clone());
        let access = Access::new(client, audience(SERVICE));
        let journal = Journal::start(&bus, SERVICE, &telemetry);
        let pools = Pools::new(SERVICE, arguments.workers, &telemetry.metrics);
        let jobs = Evaluators::Pool(pools.start("resolver-jobs", Count::on_demand(), WALL_TIME).await?);
        let calls = Evaluators::Pool(pools.start_for_calls("resolver-calls").await?);
        // Descriptors have workers of their own, since jobs and calls share what is read.
        let descriptors = pools.start("resolver-descriptors", Count::on_demand(), WALL_TIME).await?;
        let disk = arguments.settings.component_cache.as_deref();
        let disk =
            disk.map(|folder| DiskCache::open(folder, arguments.settings.component_cache_size)).transpose();
        let reader = Evaluators::Pool(descriptors);
        let fetch_time = arguments.settings.fetch_timeout.to_std();
        let stores = Stores::new(map, disk.map_err(StartError::Cache)?, reader, fetch_time);
        let signatures = SignaturePolicy::parse(&arguments.settings.signature_policy);
        if signatures == SignaturePolicy::Enforce && arguments.settings.signature_policy != "Enforce" {
            tracing::warn!(
                policy = arguments.settings.signature_policy,
                "the signature policy is unknown, so Enforce is used"
            );
        }
        let (contexts_of_jobs, stores_of_events) = (Arc::clone(&contexts), stores.clone());
        let service = grpc::Service::new(
            access.clone(),
            objects.clone(),
            contexts_of_jobs,
            stores,
            grpc::Workers { jobs: jobs.clone(), calls },
            signatures,
            journal.clone(),
        )
        .remembering(casualties.clone());
        let server = Server::bind(&arguments.grpc, &telemetry).await?.for_callers_of(access.clone());
        let server = server.with(with_limits!(ResolverServer::new(service)));
        let mut work =
            vec![Kind::of::<Context>(), Kind::of::<ComponentVersionOverwrites>(), Kind::of::<Installation>()];
        // With rights in some namespaces only, the service cannot watch namespaces.
        if arguments.cluster.namespaces.is_empty() {
            work.push(namespaces());
        }
        let controller = Controller {
            bus,
            casualties,
            objects,
            handler: Arc::new(ResolverHandler {
                contexts: Arc::clone(&contexts),
                evaluators: jobs,
                stores: stores_of_events,
            }),
            options: Options {
                service: SERVICE,
                work,
                indexed: Vec::new(),
                namespaces: arguments.cluster.namespaces,
                concurrency: arguments.settings.resolver_concurrency.max(1),
                backoff: Backoff::OBJECT,
            },
            metrics,
            ready: telemetry.health.condition("index"),
        };
        let Controller { objects, options, .. } = &controller;
        let end = telemetry.shutdown.token();
        arguments
            .takeover
            .ensure_stopped(LANDSCAPER, &options.namespaces, objects.client(), &telemetry.health, &end)
            .await?;
        let metadata = ObjectMeta { name: Some("groundwork-look".to_owned()), ..ObjectMeta::default() };
        let probe = Probe::creation(Context { metadata, ..Context::default() });
        look_for_webhooks(objects.client(), &options.namespaces, vec![probe], &telemetry.health, end);
        Ok(Self { server, access, controller, contexts, journal, telemetry })
    }

    /// Returns the address on which the gRPC server listens.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Returns the URL for clients on this machine.
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// Returns a token for callers in this process; see [`Access::token_of_this_process`].
    pub fn token_of_this_process(&self) -> TokenSource {
        self.access.token_of_this_process()
    }

    /// Runs until shutdown is requested.
    ///
    /// # Errors
    ///
    /// The server lost its port.
    pub async fn run(self) -> Result<(), ServerError> {
        let end = self.telemetry.shutdown.token();
        let namespaces = self.controller.options.namespaces.clone();
        let objects = self.controller.objects.clone();
        let contexts = self.contexts.ensure_in(&namespaces, &objects, &end);
        let (served, (), ()) =
            tokio::join!(self.server.serve(end.clone()), self.controller.run(end.clone()), contexts);
        self.journal.flush().await;
        served
    }
}
