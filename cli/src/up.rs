//! `groundwork up`: all services in one process, against the cluster of the current kube context.
//!
//! ```text
//! watcher ──bus (in this process, or --nats)──> resolver, renderer, deployer, variant
//!                       renderer ──gRPC on the loopback device──> resolver, deployer
//!                       variant ──gRPC on the loopback device──> watcher
//!                       console (--console) ──pages──> browser
//!                       console ──gRPC──> resolver, renderer, variant
//! ```

use std::error::Error;
use std::future::Future;
use std::net::SocketAddr;
use std::process::ExitCode;

use clap::Args;
use futures::{FutureExt, TryFutureExt};
use groundwork_budget::TemplateLimits;
use groundwork_bus::{Bus, NatsOptions};
use groundwork_console::{Console, RendererArguments, Tokens, VariantArguments};
use groundwork_controller::{
    Casualties, ClusterArguments, ProcessContext, TakeoverArguments, spawn_bus_health_check, started,
};
use groundwork_deployer::Deployers;
use groundwork_grpc::{DeployerArguments, GrpcArguments, ResolverArguments};
use groundwork_renderer::Renderer;
use groundwork_resolver::Resolver;
use groundwork_sandbox::{Work, WorkerArguments};
use groundwork_telemetry::{Telemetry, TelemetryArguments};
use groundwork_variant_service::{Variants, WatcherArguments};
use groundwork_watcher::Watcher;

type Failure = Box<dyn Error + Send + Sync>;

const NAME: &str = "groundwork";
/// Entry points of the services' sandbox workers, which are this program executed again.
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
    #[command(flatten)]
    limits: TemplateLimits,

    /// NATS server to use as the bus; without it the bus runs in this process.
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

    /// Address of the deployer's gRPC server.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    deployer_address: SocketAddr,

    /// Address of the watcher's gRPC server.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    watcher_address: SocketAddr,

    /// Address of the variant service's gRPC server.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    variant_address: SocketAddr,

    /// Answer gRPC calls without a token if they carry all their input and name no object of the
    /// cluster.
    #[arg(long, env = "GROUNDWORK_ANONYMOUS_INLINE_CALLS")]
    anonymous_inline_calls: bool,
}

/// Runs until a signal comes.
pub(crate) fn run(arguments: UpArguments) -> ExitCode {
    let telemetry = arguments.telemetry.clone();
    groundwork_telemetry::run(NAME, &telemetry, async |telemetry| up(arguments, telemetry).await)
}

async fn up(arguments: UpArguments, telemetry: Telemetry) -> Result<(), Failure> {
    let (bus, services) = started(&telemetry.health, Services::start(&arguments, &telemetry)).await?;
    let result = services.run(&telemetry).await;
    bus.drain().await;
    result
}

/// All services, created but not yet running.
struct Services {
    resolver: Resolver,
    renderer: Renderer,
    watcher: Watcher,
    variant: Variants,
    deployers: Deployers,
    console: Option<Console>,
}

impl Services {
    async fn start(arguments: &UpArguments, telemetry: &Telemetry) -> Result<(Bus, Self), Failure> {
        let bus = match &arguments.nats {
            Some(url) => Bus::connect(NatsOptions::new(url)).await?,
            None => Bus::in_process(),
        };
        spawn_bus_health_check(&bus, telemetry);
        let process = Process { arguments, bus: &bus, telemetry };
        let resolver = process.resolver().await?;
        let deployers = process.deployers().await?;
        let renderer = process.renderer(&resolver, &deployers).await?;
        let watcher = process.watcher().await?;
        let variant = process.variant(&watcher).await?;
        let console = match arguments.console {
            true => Some(process.console(&resolver, &renderer, &variant).await?),
            false => None,
        };
        Ok((bus, Self { resolver, renderer, watcher, variant, deployers, console }))
    }

    async fn run(self, telemetry: &Telemetry) -> Result<(), Failure> {
        let shown = async {
            match self.console {
                Some(console) => ending(telemetry, console.run().map(Ok)).await,
                None => Ok(()),
            }
        };
        let (resolved, rendered, watched, varied, deployed, shown) = tokio::join!(
            ending(telemetry, self.resolver.run().err_into()),
            ending(telemetry, self.renderer.run().err_into()),
            ending(telemetry, self.watcher.run().err_into()),
            ending(telemetry, self.variant.run().err_into()),
            ending(telemetry, self.deployers.run().err_into()),
            shown,
        );
        resolved.and(rendered).and(watched).and(varied).and(deployed).and(shown)
    }
}

/// Parts of the process that all services share.
struct Process<'a> {
    arguments: &'a UpArguments,
    bus: &'a Bus,
    telemetry: &'a Telemetry,
}

impl Process<'_> {
    async fn resolver(&self) -> Result<Resolver, Failure> {
        let arguments = groundwork_resolver::Arguments {
            cluster: self.arguments.cluster.clone(),
            takeover: self.arguments.takeover.clone(),
            grpc: self.arguments.grpc(self.arguments.resolver_address),
            workers: self.arguments.workers,
            settings: self.arguments.resolver.clone(),
        };
        let context = self.context_of(groundwork_resolver::SERVICE).await?;
        Ok(Resolver::start(arguments, context).await?)
    }

    async fn renderer(&self, resolver: &Resolver, deployers: &Deployers) -> Result<Renderer, Failure> {
        let arguments = groundwork_renderer::Arguments {
            cluster: self.arguments.cluster.clone(),
            takeover: self.arguments.takeover.clone(),
            grpc: self.arguments.grpc(self.arguments.renderer_address),
            resolver: at_resolver(resolver),
            deployer: DeployerArguments { deployer: deployers.url(), ..DeployerArguments::default() },
            workers: self.arguments.workers,
            limits: self.arguments.limits,
            settings: self.arguments.renderer.clone(),
        };
        let context = self.context_of(groundwork_renderer::SERVICE).await?;
        let tokens = groundwork_renderer::Tokens {
            resolver: resolver.token_of_this_process(),
            deployer: deployers.token_of_this_process(),
        };
        Ok(Renderer::start(arguments, context, tokens).await?)
    }

    async fn watcher(&self) -> Result<Watcher, Failure> {
        let arguments = groundwork_watcher::Arguments {
            cluster: self.arguments.cluster.clone(),
            grpc: self.arguments.grpc(self.arguments.watcher_address),
            lease: self.arguments.lease.clone(),
        };
        let ProcessContext { bus, client, telemetry, .. } =
            self.context_of(groundwork_watcher::SERVICE).await?;
        Ok(Watcher::start(arguments, bus, client, telemetry).await?)
    }

    async fn variant(&self, watcher: &Watcher) -> Result<Variants, Failure> {
        let arguments = groundwork_variant_service::Arguments {
            cluster: self.arguments.cluster.clone(),
            takeover: self.arguments.takeover.clone(),
            grpc: self.arguments.grpc(self.arguments.variant_address),
            watcher: WatcherArguments { watcher: Some(watcher.url()), ..WatcherArguments::default() },
            workers: self.arguments.workers,
            settings: self.arguments.variant.clone(),
            store: self.arguments.store.clone(),
        };
        let context = self.context_of(groundwork_variant_service::SERVICE).await?;
        let token = watcher.token_of_this_process();
        Ok(Variants::start(arguments, context, token).await?)
    }

    async fn console(
        &self,
        resolver: &Resolver,
        renderer: &Renderer,
        variant: &Variants,
    ) -> Result<Console, Failure> {
        let arguments = groundwork_console::Arguments {
            cluster: self.arguments.cluster.clone(),
            resolver: at_resolver(resolver),
            renderer: RendererArguments { renderer: Some(renderer.url()), ..RendererArguments::default() },
            variant: VariantArguments { variant: Some(variant.url()), ..VariantArguments::default() },
            settings: self.arguments.pages.clone(),
        };
        let tokens = Tokens {
            resolver: resolver.token_of_this_process(),
            renderer: renderer.token_of_this_process(),
            variant: variant.token_of_this_process(),
        };
        let ProcessContext { bus, client, telemetry, .. } =
            self.context_of(groundwork_console::SERVICE).await?;
        Ok(Console::start(arguments, bus, client, tokens, telemetry).await?)
    }

    async fn deployers(&self) -> Result<Deployers, Failure> {
        let arguments = groundwork_deployer::Arguments {
            cluster: self.arguments.cluster.clone(),
            takeover: self.arguments.takeover.clone(),
            repositories: self.arguments.resolver.repositories.clone(),
            grpc: self.arguments.grpc(self.arguments.deployer_address),
            workers: self.arguments.workers,
            limits: self.arguments.limits,
            settings: self.arguments.deployer.clone(),
        };
        let context = self.context_of(groundwork_deployer::SERVICE).await?;
        Ok(Deployers::start(arguments, context).await?)
    }

    async fn context_of(&self, service: &'static str) -> Result<ProcessContext, Failure> {
        let client = self.arguments.cluster.client(service).await?;
        let telemetry = self.telemetry.of_service(service);
        Ok(ProcessContext { bus: self.bus.clone(), client, telemetry, casualties: Casualties::default() })
    }
}

fn at_resolver(resolver: &Resolver) -> ResolverArguments {
    ResolverArguments { resolver: Some(resolver.url()), ..ResolverArguments::default() }
}

/// Waits for the services. If one fails, all end, so that the failure is noticed.
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
