//! The renderer service: the lifecycle of Installations.
//!
//! ```text
//! Installation, Execution, DeployItem events ──> handler
//!     lifecycle::machine::next ──> Read │ Prepare │ Write ──steps──> API server
//!                                          └─ inputs ──rendering──> work ══> worker: lifecycle::prepare, complete
//! gRPC ──> grpc ───────────────────────────────────────────> work ══> worker: calls ──> lifecycle::render, export, validate; plan
//!          events ──changes──> grpc::watch ──follower──> lifecycle::overview
//! work ══> worker: another process, which keeps blueprints that it has loaded. It asks back:
//!          components ──> resolver, clusters ──> deployer
//! ```

mod blueprints;
mod calls;
mod changes;
mod clusters;
mod components;
mod follower;
mod grpc;
mod handler;
mod inputs;
mod job_log;
#[cfg(test)]
mod model;
mod narration;
mod relations;
mod rendering;
mod snapshots;
mod steps;
mod work;
mod write_error;

use std::net::SocketAddr;
use std::sync::Arc;

use clap::Args;
use futures::{FutureExt, TryFutureExt};
use groundwork_api::{
    BlueprintDefinition, DataObject, DeployItem, Duration, Execution, InlineBlueprint, Installation,
    InstallationSpec, ObjectMeta, Target,
};
use groundwork_budget::TemplateLimits;
use groundwork_bus::{Backoff, Kind};
use groundwork_controller::{
    ClusterArguments, Controller, Journal, LANDSCAPER, Metrics, Objects, Options, OriginalAtWorkError, Probe,
    ProcessContext, RunningService, ServiceArguments, ServiceError, TakeoverArguments, look_for_webhooks,
};
use groundwork_grpc::{
    Access, ClientError, DeployerArguments, GrpcArguments, ResolverArguments, Server, ServerError,
    TokenSource, audience, connect, with_limits,
};
use groundwork_proto::renderer::v1::renderer_server::RendererServer;
use groundwork_sandbox::{Count, Pools, Work, WorkerArguments};
use groundwork_telemetry::Telemetry;
use jiff::SignedDuration;

use blueprints::Kept;
use changes::Changes;
use clusters::Clusters;
use components::Components;
use handler::Installations;
use rendering::Renderings;
use work::Renderers;

pub use follower::Follower;

/// Name of the service and of its consumers.
pub const SERVICE: &str = "renderer";
const MANAGER: &str = "groundwork-renderer";

/// Kind of the service's worker processes, for [`groundwork_sandbox::enter`].
pub const WORKER: (&str, Work) = (SERVICE, work::serve);

/// Arguments of the renderer.
#[derive(Debug, Clone, Default, Args)]
pub struct Arguments {
    #[command(flatten)]
    pub cluster: ClusterArguments,
    #[command(flatten)]
    pub takeover: TakeoverArguments,
    #[command(flatten)]
    pub resolver: ResolverArguments,
    #[command(flatten)]
    pub deployer: DeployerArguments,
    #[command(flatten)]
    pub grpc: GrpcArguments,
    #[command(flatten)]
    pub workers: WorkerArguments,
    #[command(flatten)]
    pub limits: TemplateLimits,
    #[command(flatten)]
    pub settings: Settings,
}

impl ServiceArguments for Arguments {
    const SERVICE: &'static str = SERVICE;
    const PROGRAM: &'static str = "groundwork-renderer";
    const ABOUT: &'static str = "The lifecycle of Installations";

    fn cluster(&self) -> &ClusterArguments {
        &self.cluster
    }

    async fn start(self, context: ProcessContext) -> Result<RunningService, ServiceError> {
        let tokens = Tokens {
            resolver: TokenSource::of_file(self.resolver.resolver_token_file.clone()),
            deployer: TokenSource::of_file(self.deployer.deployer_token_file.clone()),
        };
        let service = Renderer::start(self, context, tokens).await?;
        Ok(service.run().err_into().boxed())
    }
}

/// Tokens that are shown to other services.
#[derive(Debug, Clone)]
pub struct Tokens {
    pub resolver: TokenSource,
    pub deployer: TokenSource,
}

/// Settings of the renderer itself, for its own process and for the one that runs all services.
#[derive(Debug, Clone, Args)]
#[group(skip)]
pub struct Settings {
    /// Time limit for a deployer to pick a DeployItem up, such as 5m; none for no limit.
    #[arg(long, env = "GROUNDWORK_PICKUP_TIMEOUT", default_value = PICKUP_TIMEOUT, value_name = "DURATION")]
    pub pickup_timeout: Duration,
    /// Time limit for rendering one Installation before its job fails, such as 30s.
    #[arg(long, env = "GROUNDWORK_RENDER_TIMEOUT", default_value = RENDER_TIMEOUT, value_name = "DURATION")]
    pub render_timeout: Duration,
    /// Installations of one namespace that are worked on at the same time; of all namespaces, eight
    /// times as many.
    #[arg(long, env = "GROUNDWORK_RENDERER_CONCURRENCY", default_value_t = CONCURRENCY)]
    pub renderer_concurrency: usize,
}

impl Settings {
    /// Returns the time limit of a rendering. There is always one, so that one Installation cannot
    /// occupy a worker for ever.
    fn longest_rendering(&self) -> std::time::Duration {
        self.render_timeout.to_std().filter(|limit| !limit.is_zero()).unwrap_or(LONGEST_RENDERING)
    }
}

const PICKUP_TIMEOUT: &str = "5m";
const RENDER_TIMEOUT: &str = "30s";
/// Time limit with `--render-timeout none`.
const LONGEST_RENDERING: std::time::Duration = std::time::Duration::from_hours(1);
const CONCURRENCY: usize = 16;

impl Default for Settings {
    fn default() -> Self {
        Self {
            pickup_timeout: PICKUP_TIMEOUT.parse().unwrap_or_default(),
            render_timeout: RENDER_TIMEOUT.parse().unwrap_or_default(),
            renderer_concurrency: CONCURRENCY,
        }
    }
}

/// Returns an Installation for the check of a cluster's webhooks. It is never stored.
fn probe() -> Installation {
    let metadata = ObjectMeta { name: Some("groundwork-look".to_owned()), ..ObjectMeta::default() };
    let filesystem = serde_json::json!({"blueprint.yaml": ""}).into();
    let inline = Some(InlineBlueprint { filesystem });
    let blueprint = BlueprintDefinition { inline, ..BlueprintDefinition::default() };
    let spec = InstallationSpec { blueprint, ..InstallationSpec::default() };
    Installation { metadata, spec, ..Installation::default() }
}

/// Reason why the renderer cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Server(#[from] ServerError),
    #[error(transparent)]
    Original(#[from] OriginalAtWorkError),
    #[error("--resolver: {0}")]
    Resolver(ClientError),
    #[error("--deployer: {0}")]
    Deployer(ClientError),
    #[error("worker processes cannot be started: {0}")]
    Workers(#[from] groundwork_sandbox::StartError),
}

/// Renderer that has bound its port and does not reconcile yet.
pub struct Renderer {
    server: Server,
    access: Access,
    controller: Controller,
    journal: Journal,
    telemetry: Telemetry,
}

impl std::fmt::Debug for Renderer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Renderer").field("address", &self.address()).finish_non_exhaustive()
    }
}

impl Renderer {
    /// Binds the port of the server, and waits until no Landscaper is running.
    ///
    /// # Errors
    ///
    /// An argument is invalid, the port is taken, or a Landscaper is running.
    pub async fn start(
        arguments: Arguments,
        context: ProcessContext,
        tokens: Tokens,
    ) -> Result<Self, StartError> {
        let ProcessContext { bus, client, telemetry, casualties } = context;
        let ResolverArguments { resolver, resolver_tls_ca, .. } = &arguments.resolver;
        let connected =
            resolver.as_deref().map(|url| connect(url, resolver_tls_ca.as_deref(), tokens.resolver));
        let channel = connected.transpose().map_err(StartError::Resolver)?;
        let components = channel.map(|channel| Components::new(channel, arguments.workers.memory()));
        let DeployerArguments { deployer, deployer_tls_ca, .. } = &arguments.deployer;
        let connected =
            deployer.as_deref().map(|url| connect(url, deployer_tls_ca.as_deref(), tokens.deployer));
        let clusters = connected.transpose().map_err(StartError::Deployer)?.map(Clusters::new);
        let metrics = Metrics::new(&telemetry.metrics, SERVICE);
        let objects = Objects::new(client.clone(), MANAGER, metrics.clone());
        let access = Access::new(client, audience(SERVICE));
        let settings = &arguments.settings;
        let kept = Kept::new(&telemetry.metrics);
        let pools = Pools::new(SERVICE, arguments.workers, &telemetry.metrics);
        let calls = pools.start_for_calls("renderer-calls").await?;
        let count = Count::of_processors().with_most(settings.renderer_concurrency);
        let jobs = pools.start("renderer-jobs", count, settings.longest_rendering()).await?;
        let jobs = Renderers::new(jobs, kept.clone(), arguments.limits);
        let changes = Changes::default();
        let journal = Journal::start(&bus, SERVICE, &telemetry);
        let pickup =
            arguments.settings.pickup_timeout.to_std().and_then(|limit| SignedDuration::try_from(limit).ok());
        let pickup = pickup.filter(|limit| !limit.is_zero());
        let service = grpc::Service {
            access: access.clone(),
            objects: objects.clone(),
            components: components.clone(),
            renderers: Renderers::new(calls, kept, arguments.limits),
            watches: grpc::Watches::new(changes.clone(), pickup),
            replays: grpc::Replays::new(bus.clone()),
            plans: grpc::Plans::default(),
        };
        let server = Server::bind(&arguments.grpc, &telemetry).await?.for_callers_of(access.clone());
        let server = server.with(with_limits!(RendererServer::new(service)));
        let controller = Controller {
            bus,
            casualties,
            objects,
            handler: Arc::new(Installations::new(
                Renderings { components, clusters, renderers: jobs },
                changes,
                journal.clone(),
                pickup,
            )),
            options: Options {
                service: SERVICE,
                work: vec![Kind::of::<Installation>(), Kind::of::<Execution>(), Kind::of::<DeployItem>()],
                indexed: vec![Kind::of::<DataObject>(), Kind::of::<Target>()],
                namespaces: arguments.cluster.namespaces,
                concurrency: arguments.settings.renderer_concurrency,
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
        let (client, namespaces) = (objects.client(), &options.namespaces);
        let probes = vec![Probe::creation(probe())];
        look_for_webhooks(client, namespaces, probes, &telemetry.health, telemetry.shutdown.token());
        Ok(Self { server, access, controller, journal, telemetry })
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
        let (served, ()) = tokio::join!(self.server.serve(end.clone()), self.controller.run(end));
        self.journal.flush().await;
        served
    }
}
