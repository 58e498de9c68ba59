//! The variant service: it creates and updates the PackageVariants of PackageVariantSets.
//!
//! ```text
//! PackageVariantSet, PackageVariant, Repository events ──> handler ──┬─> set: inputs ──> work ══> plan ──> writes
//!                                                                   └─> package_variant: rules, finalizer, status
//! events of selected kinds ──> sources of the same controller, for as long as `watches` asks for them (EnsureWatch)
//! gRPC ──┬─> grpc: inputs, preview ──> work ══> answer
//!        └─> packages: files and drafts of the package store
//! work ══> worker, another process: calls, fleet::expand, fleet::preview
//! ```

mod calls;
mod follow;
mod grpc;
mod handler;
mod inputs;
mod package_variant;
mod packages;
mod preview;
mod set;
mod shared;
mod status;
mod watches;
mod work;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use futures::{FutureExt, TryFutureExt};
use groundwork_api::{
    ObjectMeta, PackageRevision, PackageRevisionSet, PackageVariant, PackageVariantSet, Repository,
};
use groundwork_bus::{Backoff, Kind, ObjectId};
use groundwork_controller::{
    ClusterArguments, Controller, Metrics, Objects, Options, OriginalAtWorkError, PORCH, Probe,
    ProcessContext, RunningService, ServiceArguments, ServiceError, SourceChanges, TakeoverArguments,
    Workers, look_for_webhooks, sources,
};
use groundwork_grpc::{
    Access, ClientError, GrpcArguments, Server, ServerError, TokenSource, audience, connect, with_limits,
};
use groundwork_proto::packages::v1::packages_server::PackagesServer;
use groundwork_proto::variant::v1::variants_server::VariantsServer;
use groundwork_proto::watcher::v1::watcher_client::WatcherClient;
use groundwork_sandbox::{Count, Pools, WALL_TIME, Work, WorkerArguments};
use groundwork_telemetry::Telemetry;
use groundwork_telemetry::ports::Port;

use handler::VariantHandler;
use inputs::Selected;
use packages::api::Serving;
use packages::receiver::{CONNECTIONS, receive_reports};
pub use packages::{
    ApiArguments, ApiStartError, FunctionArguments, FunctionsError, Missing, StoreArguments, StoreStartError,
    TurnArguments,
};
pub use preview::{apply_sets, preview_namespace};
use shared::Shared;
use watches::Watches;
use work::Expanders;

/// Name of the service and of its consumers.
pub const SERVICE: &str = "variant";
const MANAGER: &str = "groundwork-variant";
/// Name of the service in Events.
const COMPONENT: &str = "groundwork-variant";

/// Kind of the service's worker processes, for [`groundwork_sandbox::enter`].
pub const WORKER: (&str, Work) = (SERVICE, work::serve);

/// Arguments of the variant service.
#[derive(Debug, Clone, Default, Args)]
pub struct Arguments {
    #[command(flatten)]
    pub cluster: ClusterArguments,
    #[command(flatten)]
    pub takeover: TakeoverArguments,
    #[command(flatten)]
    pub watcher: WatcherArguments,
    #[command(flatten)]
    pub store: StoreArguments,
    #[command(flatten)]
    pub grpc: GrpcArguments,
    #[command(flatten)]
    pub workers: WorkerArguments,
    #[command(flatten)]
    pub settings: Settings,
}

impl ServiceArguments for Arguments {
    const SERVICE: &'static str = SERVICE;
    const PROGRAM: &'static str = "groundwork-variant";
    const ABOUT: &'static str = "PackageVariants of PackageVariantSets";

    fn cluster(&self) -> &ClusterArguments {
        &self.cluster
    }

    async fn start(self, context: ProcessContext) -> Result<RunningService, ServiceError> {
        let token = TokenSource::of_file(self.watcher.watcher_token_file.clone());
        let service = Variants::start(self, context, token).await?;
        Ok(service.run().err_into().boxed())
    }
}

/// Settings of the variant service itself, for its own process and for the one that runs all
/// services.
#[derive(Debug, Clone, Args)]
#[group(skip)]
pub struct Settings {
    /// PackageVariantSets and PackageVariants of one namespace that are worked on at the same time;
    /// of all namespaces, eight times as many.
    #[arg(long, env = "GROUNDWORK_VARIANT_CONCURRENCY", default_value_t = CONCURRENCY)]
    pub variant_concurrency: usize,

    /// Edit the revision of sets and variants that have the annotation groundwork/follow-tag when
    /// their tag moves.
    #[arg(long, env = "GROUNDWORK_FOLLOW_TAGS")]
    pub follow_tags: bool,
}

/// Address of the watcher, which watches the kinds that sets select.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Watcher")]
pub struct WatcherArguments {
    /// The watcher, such as http://watcher:8080; without it objects that sets select are looked at
    /// once a minute
    #[arg(long, env = "GROUNDWORK_WATCHER", value_name = "URL")]
    pub watcher: Option<String>,

    /// PEM file with certificates to trust for an https URL; without it those of the system
    #[arg(long, env = "GROUNDWORK_WATCHER_TLS_CA", value_name = "FILE")]
    pub watcher_tls_ca: Option<PathBuf>,

    // The file must not contain the token for the API server: a program that impersonates the
    // watcher would get the rights of this service.
    /// File with the token to show to the watcher, for the audience groundwork-watcher only; read
    /// again when it changes
    #[arg(long, env = "GROUNDWORK_WATCHER_TOKEN_FILE", value_name = "FILE")]
    pub watcher_token_file: Option<PathBuf>,
}

/// Default for `variant_concurrency`: keys spend most of their time waiting for the API server or a
/// remote, so many can run at once.
const CONCURRENCY: usize = 16;
/// Back-off of `packagevariants.md` 4.8.
const BACKOFF: Backoff = Backoff { first: Duration::from_secs(5), longest: Duration::from_secs(600) };

impl Default for Settings {
    fn default() -> Self {
        Self { variant_concurrency: CONCURRENCY, follow_tags: false }
    }
}

/// Reason why the variant service cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Server(#[from] ServerError),
    #[error(transparent)]
    Original(#[from] OriginalAtWorkError),
    #[error("cannot listen on {address} (--package-hooks-address): {source}")]
    Hooks { address: SocketAddr, source: std::io::Error },
    #[error("--watcher: {0}")]
    Watcher(#[from] ClientError),
    #[error(transparent)]
    Store(#[from] StoreStartError),
    #[error(transparent)]
    Api(#[from] ApiStartError),
    #[error("worker processes cannot be started: {0}")]
    Workers(#[from] groundwork_sandbox::StartError),
    /// A package store without a watcher: no event would report the users' edits of package
    /// revisions.
    #[error(
        "--package-store and --porch need --watcher, which reports the changes that users make to package revisions"
    )]
    StoreWithoutWatcher,
}

/// Variant service that has bound its port and does not reconcile yet.
pub struct Variants {
    server: Server,
    access: Access,
    controller: Controller,
    source_changes: SourceChanges,
    /// Port for webhooks.
    hooks: Option<Port>,
    /// API for package revisions; `None` without a package store.
    api: Option<Serving>,
    shared: Arc<Shared>,
    telemetry: Telemetry,
}

impl std::fmt::Debug for Variants {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Variants").field("address", &self.address()).finish_non_exhaustive()
    }
}

impl Variants {
    /// Binds the port of the server, and waits until no Porch controller is running. `token` is
    /// shown to the watcher.
    ///
    /// # Errors
    ///
    /// An argument is invalid, the port is taken, or a Porch controller is running.
    pub async fn start(
        arguments: Arguments,
        context: ProcessContext,
        token: TokenSource,
    ) -> Result<Self, StartError> {
        let ProcessContext { bus, client, telemetry, casualties } = context;
        let WatcherArguments { watcher, watcher_tls_ca, .. } = &arguments.watcher;
        let channel =
            watcher.as_deref().map(|url| connect(url, watcher_tls_ca.as_deref(), token)).transpose()?;
        let metrics = Metrics::new(&telemetry.metrics, SERVICE);
        let objects = Objects::new(client.clone(), MANAGER, metrics.clone());
        let access = Access::new(client, audience(SERVICE));
        let pools = Pools::new(SERVICE, arguments.workers, &telemetry.metrics);
        let calls = pools.start_for_calls("variant-calls").await?;
        let sets = pools.start("variant-sets", Count::on_demand(), WALL_TIME).await?;
        let service = grpc::Service {
            access: access.clone(),
            objects: objects.clone(),
            workers: Workers::default(),
            expanders: Expanders::new(calls),
        };
        let server = Server::bind(&arguments.grpc, &telemetry).await?.for_callers_of(access.clone());
        let server = server.with(with_limits!(VariantsServer::new(service)));
        let (sources, source_changes) = sources();
        let watches = Watches::new(watches::WatchContext {
            watcher: channel.map(|channel| with_limits!(WatcherClient::new(channel))),
            sources,
            namespaces: arguments.cluster.namespaces.clone(),
            end: telemetry.shutdown.token(),
            span: telemetry.span(),
        });
        let hooks = match arguments.store.package_hooks_address {
            None => None,
            Some(address) => {
                let bound = Port::bind(address, CONNECTIONS).await;
                Some(bound.map_err(|source| StartError::Hooks { address, source })?)
            }
        };
        let packages = arguments.store.store(&objects, &telemetry).await?;
        let follow_tags = arguments.settings.follow_tags;
        if packages.0.is_some() && !watches.follow() {
            return Err(StartError::StoreWithoutWatcher);
        }
        let shared = Shared::new(watches, Expanders::new(sets), packages, &telemetry.health);
        let shared = Arc::new(shared.following_tags(follow_tags));
        let calls = packages::calls::Service {
            access: access.clone(),
            objects: objects.clone(),
            shared: Arc::clone(&shared),
        };
        let server = server.with(with_limits!(PackagesServer::new(calls)));
        let controller = Controller {
            bus,
            casualties,
            objects,
            handler: Arc::new(VariantHandler(Arc::clone(&shared))),
            options: Options {
                service: SERVICE,
                work: vec![
                    Kind::of::<PackageVariantSet>(),
                    Kind::of::<PackageRevisionSet>(),
                    Kind::of::<PackageVariant>(),
                    Kind::of::<Repository>(),
                ],
                indexed: Vec::new(),
                namespaces: arguments.cluster.namespaces,
                concurrency: arguments.settings.variant_concurrency.max(1),
                backoff: BACKOFF,
            },
            metrics,
            ready: telemetry.health.condition("index"),
        };
        let Controller { objects, options, .. } = &controller;
        let namespaces = &options.namespaces;
        let api =
            Serving::start(&arguments.store.api, &shared, objects, &access, namespaces, &telemetry).await?;
        let end = telemetry.shutdown.token();
        arguments
            .takeover
            .ensure_stopped(PORCH, &options.namespaces, objects.client(), &telemetry.health, &end)
            .await?;
        if let Some(api) = &api {
            api.migrate(&end).await;
        }
        let metadata = ObjectMeta { name: Some("groundwork-look".to_owned()), ..ObjectMeta::default() };
        let probe = Probe::creation(PackageVariant { metadata, ..PackageVariant::default() });
        look_for_webhooks(objects.client(), &options.namespaces, vec![probe], &telemetry.health, end);
        Ok(Self { server, access, controller, source_changes, hooks, api, shared, telemetry })
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
        if self.shared.packages.is_some() {
            // Package revisions stay watched for as long as the service runs, whether or not a set
            // selects them: users request operations by editing them.
            let holder = ObjectId::new(Kind::of::<PackageRevision>(), None, SERVICE);
            self.shared.watches.set_selected(&holder, vec![Selected::of::<PackageRevision>()]);
        }
        let receiving = async {
            if let Some(port) = self.hooks {
                receive_reports(port, Arc::clone(&self.shared), end.clone()).await;
            }
        };
        let publishing = async {
            if let Some(api) = self.api {
                api.run(end.clone()).await;
            }
        };
        let controlling = self.controller.run_with(self.source_changes, end.clone());
        let (served, (), (), ()) =
            tokio::join!(self.server.serve(end.clone()), controlling, receiving, publishing);
        self.shared.watches.closed().await;
        served
    }
}
