//! `groundwork up`: all services in one process, against the cluster of the current kube context.
//!
//! ```text
//! watcher ──bus (in this process, or --nats)──> resolver, renderer, deployer, variant
//!                       renderer ──gRPC on the loopback device──> resolver
//!                       variant ──gRPC on the loopback device──> watcher
//!                       console (--console), which asks resolver, renderer and variant, too ──pages──> browser
//! ```

use std::error::Error;
use std::future::Future;
use std::net::SocketAddr;
use std::process::ExitCode;

use clap::Args;
use groundwork_bus::{Bus, NatsOptions};
use groundwork_console::{Console, RendererArguments, Tokens, VariantArguments};
use groundwork_controller::{ClusterArguments, TakeoverArguments, spawn_bus_health_check};
use groundwork_grpc::{GrpcArguments, ResolverArguments};
use groundwork_renderer::Renderer;
use groundwork_resolver::Resolver;
use groundwork_sandbox::{Work, WorkerArguments};
use groundwork_telemetry::{Telemetry, TelemetryArguments};
use groundwork_variant_service::{Variants, WatcherArguments};
use groundwork_watcher::Watcher;

type Failure = Box<dyn Error + Send + Sync>;

const NAME: &str = "groundwork";
/// What worker processes of the services begin as.
pub(crate) const WORKERS: [(&str, Work); 4] = [
    groundwork_deployer::WORKER,
    groundwork_renderer::WORKER,
    groundwork_resolver::WORKER,
    groundwork_variant_service::WORKER,
];

#[derive(Debug, Args)]
pub(crate) struct UpArguments {
    #[command(flatten)]
    cluster: ClusterArguments,
    #[command(flatten)]
    takeover: TakeoverArguments,
    #[command(flatten)]
    telemetry: TelemetryArguments,
    #[command(flatten)]
    workers: WorkerArguments,

    /// NATS server to use as the bus; without one the bus is in this process.
    #[arg(long, value_name = "URL", env = "GROUNDWORK_NATS_URL")]
    nats: Option<String>,

    #[command(flatten)]
    resolver: groundwork_resolver::Settings,
    #[command(flatten)]
    renderer: groundwork_renderer::Settings,
    #[command(flatten)]
    deployer: groundwork_deployer::Settings,
    #[command(flatten)]
    variant: groundwork_variant_service::Settings,
    #[command(flatten)]
    store: groundwork_variant_service::StoreArguments,
    #[command(flatten)]
    pages: groundwork_console::Settings,
    #[command(flatten)]
    lease: groundwork_watcher::LeaseArguments,

    /// Serve the pages of the console, too; its address is logged.
    #[arg(long, env = "GROUNDWORK_CONSOLE")]
    console: bool,

    /// Address of the resolver's gRPC server.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    resolver_address: SocketAddr,

    /// Address of the renderer's gRPC server.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    renderer_address: SocketAddr,

    /// Address of the watcher's gRPC server.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    watcher_address: SocketAddr,

    /// Address of the variant service's gRPC server.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    variant_address: SocketAddr,

    /// Answer gRPC calls without a token that bring everything along and name no object of the cluster.
    #[arg(long, env = "GROUNDWORK_ANONYMOUS_INLINE_CALLS")]
    anonymous_inline_calls: bool,
}

/// Runs until a signal comes.
pub(crate) fn run(arguments: UpArguments) -> ExitCode {
    let telemetry = arguments.telemetry.clone();
    groundwork_telemetry::run(NAME, &telemetry, async |telemetry| up(arguments, telemetry).await)
}

async fn up(arguments: UpArguments, telemetry: Telemetry) -> Result<(), Failure> {
    let client = async |service| arguments.cluster.client(service).await;
    let bus = match &arguments.nats {
        Some(url) => Bus::connect(NatsOptions::new(url)).await?,
        None => Bus::in_process(),
    };
    spawn_bus_health_check(&bus, &telemetry);
    let resolver = groundwork_resolver::Arguments {
        cluster: arguments.cluster.clone(),
        takeover: arguments.takeover.clone(),
        grpc: arguments.grpc(arguments.resolver_address),
        workers: arguments.workers,
        settings: arguments.resolver.clone(),
    };
    let of = |service| telemetry.of_service(service);
    let resolver = Resolver::start(
        resolver,
        bus.clone(),
        client(groundwork_resolver::SERVICE).await?,
        of(groundwork_resolver::SERVICE),
    )
    .await?;
    let renderer = groundwork_renderer::Arguments {
        cluster: arguments.cluster.clone(),
        takeover: arguments.takeover.clone(),
        grpc: arguments.grpc(arguments.renderer_address),
        resolver: ResolverArguments { resolver: Some(resolver.url()), ..ResolverArguments::default() },
        workers: arguments.workers,
        settings: arguments.renderer.clone(),
    };
    let token = resolver.token_of_this_process();
    let renderer = Renderer::start(
        renderer,
        bus.clone(),
        client(groundwork_renderer::SERVICE).await?,
        token,
        of(groundwork_renderer::SERVICE),
    )
    .await?;
    let watcher = groundwork_watcher::Arguments {
        cluster: arguments.cluster.clone(),
        grpc: arguments.grpc(arguments.watcher_address),
        lease: arguments.lease.clone(),
    };
    let watcher = Watcher::start(
        watcher,
        bus.clone(),
        client(groundwork_watcher::SERVICE).await?,
        of(groundwork_watcher::SERVICE),
    )
    .await?;
    let variant = groundwork_variant_service::Arguments {
        cluster: arguments.cluster.clone(),
        takeover: arguments.takeover.clone(),
        grpc: arguments.grpc(arguments.variant_address),
        watcher: WatcherArguments { watcher: Some(watcher.url()), ..WatcherArguments::default() },
        workers: arguments.workers,
        settings: arguments.variant.clone(),
        store: arguments.store.clone(),
    };
    let token = watcher.token_of_this_process();
    let variant = Variants::start(
        variant,
        bus.clone(),
        client(groundwork_variant_service::SERVICE).await?,
        token,
        of(groundwork_variant_service::SERVICE),
    )
    .await?;
    let called = Called { resolver: &resolver, renderer: &renderer, variant: &variant };
    let console = match arguments.console {
        true => Some(start_console(&arguments, called, &bus, of(groundwork_console::SERVICE)).await?),
        false => None,
    };
    let deployer = groundwork_deployer::Arguments {
        cluster: arguments.cluster.clone(),
        takeover: arguments.takeover.clone(),
        repositories: arguments.resolver.repositories.clone(),
        workers: arguments.workers,
        settings: arguments.deployer.clone(),
    };
    let client = client(groundwork_deployer::SERVICE).await?;
    let deployer = groundwork_deployer::run(deployer, bus.clone(), client, of(groundwork_deployer::SERVICE));
    let shown = async {
        match console {
            Some(console) => {
                console.run().await;
                ending(&telemetry, async { Ok(()) }).await
            }
            None => Ok(()),
        }
    };
    let (resolved, rendered, watched, varied, deployed, shown) = tokio::join!(
        ending(&telemetry, async { resolver.run().await.map_err(Failure::from) }),
        ending(&telemetry, async { renderer.run().await.map_err(Failure::from) }),
        ending(&telemetry, async { watcher.run().await.map_err(Failure::from) }),
        ending(&telemetry, async { variant.run().await.map_err(Failure::from) }),
        ending(&telemetry, async { deployer.await.map_err(Failure::from) }),
        shown,
    );
    bus.drain().await;
    resolved.and(rendered).and(watched).and(varied).and(deployed).and(shown)
}

/// Services that the console calls.
struct Called<'a> {
    resolver: &'a Resolver,
    renderer: &'a Renderer,
    variant: &'a Variants,
}

async fn start_console(
    arguments: &UpArguments,
    Called { resolver, renderer, variant }: Called<'_>,
    bus: &Bus,
    telemetry: Telemetry,
) -> Result<Console, Failure> {
    let settings = groundwork_console::Arguments {
        cluster: arguments.cluster.clone(),
        resolver: ResolverArguments { resolver: Some(resolver.url()), ..ResolverArguments::default() },
        renderer: RendererArguments { renderer: Some(renderer.url()), ..RendererArguments::default() },
        variant: VariantArguments { variant: Some(variant.url()), ..VariantArguments::default() },
        settings: arguments.pages.clone(),
    };
    let client = arguments.cluster.client(groundwork_console::SERVICE).await?;
    let tokens = Tokens {
        resolver: resolver.token_of_this_process(),
        renderer: renderer.token_of_this_process(),
        variant: variant.token_of_this_process(),
    };
    Ok(Console::start(settings, bus.clone(), client, tokens, telemetry).await?)
}

/// Services end together: one that fails must not leave the others behind without a word.
async fn ending(
    telemetry: &Telemetry,
    service: impl Future<Output = Result<(), Failure>>,
) -> Result<(), Failure> {
    let result = service.await;
    telemetry.shutdown.request();
    result
}

impl UpArguments {
    fn grpc(&self, grpc_address: SocketAddr) -> GrpcArguments {
        let anonymous_inline_calls = self.anonymous_inline_calls;
        GrpcArguments { grpc_address, anonymous_inline_calls, ..GrpcArguments::default() }
    }
}
