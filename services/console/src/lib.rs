//! The console: shows in a browser what runs, why, and what waits.
//!
//! ```text
//! stream ──feed──> Landscape ──────────rows──┐
//! resolver, renderer, variant ──answers──────┤
//! API server ──get of one object─────────────┴─> pages ──HTML, JSON──> browser
//!      ^   └─TokenReview, SubjectAccessReview──> Visitor, Rights              ^
//!      └──operations, with the visitor's token <──────────confirmed forms─────┘
//! ```
//!
//! No page lists objects from the API server. Every page shows only objects that its visitor may
//! `get`. Operations run with the visitor's own token: the console itself has rights to read, and
//! none to change anything.

mod answer;
mod assets;
mod console;
mod context;
mod escape;
mod journal;
mod landscape;
mod lists;
mod live;
mod objects;
mod operations;
mod pages;
mod planning;
mod request;
mod rights;
mod routes;
mod server;
mod settings;
mod sign_in;
mod sources;
mod visitor;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use futures::FutureExt;
use groundwork_bus::{Bus, IndexFeed};
use groundwork_controller::{
    ClusterArguments, ConnectError, Metrics, Objects, ProcessContext, RunningService, ServiceArguments,
    ServiceError,
};
use groundwork_grpc::{Access, ClientError, ResolverArguments, TokenSource, audience, connect, with_limits};
use groundwork_proto::renderer::v1::renderer_client::RendererClient;
use groundwork_proto::resolver::v1::resolver_client::ResolverClient;
use groundwork_proto::variant::v1::variants_client::VariantsClient;
use groundwork_telemetry::{Condition, Telemetry};
use groundwork_turns::Seats;
use kube::Client;

use console::Site;
use landscape::{Filler, Landscape};
use rights::Rights;
use server::Server;
use sources::Sources;
use visitor::SignIn;

pub use server::ServerError;
pub use settings::{Network, NetworkError, RendererArguments, Settings, VariantArguments};

/// Name of the service in flags, logs and metrics.
pub const SERVICE: &str = "console";
const MANAGER: &str = "groundwork-console";
/// Pause after an error of the bus, and between reports of what the console waits for.
const BUS_PAUSE: Duration = Duration::from_secs(1);

/// Command-line arguments of the console.
#[derive(Debug, Clone, Default, Args)]
pub struct Arguments {
    #[command(flatten)]
    pub cluster: ClusterArguments,
    #[command(flatten)]
    pub resolver: ResolverArguments,
    #[command(flatten)]
    pub renderer: RendererArguments,
    #[command(flatten)]
    pub variant: VariantArguments,
    #[command(flatten)]
    pub settings: Settings,
}

impl ServiceArguments for Arguments {
    const SERVICE: &'static str = SERVICE;
    const PROGRAM: &'static str = "groundwork-console";
    const ABOUT: &'static str = "What runs, why, and what waits, in a browser";

    fn cluster(&self) -> &ClusterArguments {
        &self.cluster
    }

    async fn start(self, context: ProcessContext) -> Result<RunningService, ServiceError> {
        let ProcessContext { bus, client, telemetry, .. } = context;
        let tokens = Tokens {
            resolver: TokenSource::of_file(self.resolver.resolver_token_file.clone()),
            renderer: TokenSource::of_file(self.renderer.renderer_token_file.clone()),
            variant: TokenSource::of_file(self.variant.variant_token_file.clone()),
        };
        let service = Console::start(self, bus, client, tokens, telemetry).await?;
        Ok(service.run().map(Ok).boxed())
    }
}

/// Tokens that the console presents to the services it calls.
#[derive(Debug, Clone)]
pub struct Tokens {
    pub resolver: TokenSource,
    pub renderer: TokenSource,
    pub variant: TokenSource,
}

/// Errors that keep the console from starting.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Server(#[from] ServerError),
    #[error("--resolver: {0}")]
    Resolver(ClientError),
    #[error("--renderer: {0}")]
    Renderer(ClientError),
    #[error("--variant: {0}")]
    Variant(ClientError),
    #[error(transparent)]
    Connect(#[from] ConnectError),
}

/// A console that listens on its port and does not answer yet.
pub struct Console {
    server: Server,
    site: Arc<Site>,
    filler: Filler,
    bus: Bus,
    ready: Condition,
    telemetry: Telemetry,
}

impl std::fmt::Debug for Console {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Console").field("address", &self.address()).finish_non_exhaustive()
    }
}

impl Console {
    /// Binds the port and connects to the services.
    ///
    /// # Errors
    ///
    /// An argument is invalid, or the port is taken.
    pub async fn start(
        arguments: Arguments,
        bus: Bus,
        client: Client,
        tokens: Tokens,
        telemetry: Telemetry,
    ) -> Result<Self, StartError> {
        let Arguments { cluster, resolver, renderer, variant, settings } = arguments;
        let ResolverArguments { resolver, resolver_tls_ca, .. } = &resolver;
        let resolver = resolver
            .as_deref()
            .map(|url| connect(url, resolver_tls_ca.as_deref(), tokens.resolver))
            .transpose()
            .map_err(StartError::Resolver)?;
        let RendererArguments { renderer, renderer_tls_ca, .. } = &renderer;
        let renderer = renderer
            .as_deref()
            .map(|url| connect(url, renderer_tls_ca.as_deref(), tokens.renderer))
            .transpose()
            .map_err(StartError::Renderer)?;
        let VariantArguments { variant, variant_tls_ca, .. } = &variant;
        let variant = variant
            .as_deref()
            .map(|url| connect(url, variant_tls_ca.as_deref(), tokens.variant))
            .transpose()
            .map_err(StartError::Variant)?;
        let proxies = settings.trusted_proxies.clone();
        let is_proxy = move |peer| proxies.iter().any(|network| network.contains(peer));
        let server = Server::bind(settings.console_address, Arc::new(is_proxy)).await?;
        tracing::info!(address = %server.address(), "serving pages");
        if !server.address().ip().is_loopback() && !settings.console_https {
            tracing::warn!(
                "tokens of visitors go over connections that are not encrypted: put a proxy with TLS in front of the \
                 console, and start it with --console-https"
            );
        }
        let metrics = Metrics::new(&telemetry.metrics, SERVICE);
        let access = Access::new(client.clone(), audience(SERVICE));
        let anonymous = cluster.anonymous_config().await?;
        let (landscape, filler) = Landscape::new(cluster.namespaces);
        let ready = telemetry.health.condition("index");
        let site = Arc::new(Site {
            landscape,
            rights: Rights::new(access.clone()),
            sources: Sources::new(),
            sign_in: SignIn::new(access, &settings),
            objects: Objects::new(client, MANAGER, metrics),
            anonymous,
            resolver: resolver.map(|channel| with_limits!(ResolverClient::new(channel))),
            renderer: renderer.map(|channel| with_limits!(RendererClient::new(channel))),
            variant: variant.map(|channel| with_limits!(VariantsClient::new(channel))),
            health: telemetry.health.clone(),
            allows_operations: settings.allow_operations,
            is_https: settings.console_https,
            proxies: settings.trusted_proxies,
            live: Seats::new(live::PAGES),
            end: telemetry.shutdown.token(),
        });
        Ok(Self { server, site, filler, bus, ready, telemetry })
    }

    /// Returns the address at which pages are served.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Serves pages until shutdown is requested.
    pub async fn run(self) -> () {
        let Self { server, site, filler, bus, ready, telemetry } = self;
        let end = telemetry.shutdown.token();
        let following = end.run_until_cancelled(follow(&bus, &filler, &ready));
        tokio::join!(server.serve(routes::router(site), end.clone()), following);
    }
}

/// Fills the landscape from the stream; never returns.
async fn follow(bus: &Bus, filler: &Filler, ready: &Condition) {
    let mut feed = loop {
        match bus.index(&landscape::kinds()).await {
            Ok(feed) => break feed,
            Err(error) => {
                ready.not_ready(format!("the stream cannot be read: {error}"));
                tokio::time::sleep(BUS_PAUSE).await;
            }
        }
    };
    loop {
        let was_complete = filler.is_complete();
        let next = next_of(&mut feed, bus, (!was_complete).then_some(ready)).await;
        filler.take(&next);
        match (was_complete, filler.is_complete()) {
            (false, true) => ready.ready(),
            (true, false) => ready.not_ready("the stream was rebuilt and is not complete yet"),
            _ => {}
        }
    }
}

/// Returns the next step of the feed. With `waiting` (the landscape is incomplete), reports once a
/// second through that condition what the console waits for.
async fn next_of(feed: &mut IndexFeed, bus: &Bus, waiting: Option<&Condition>) -> groundwork_bus::Feed {
    loop {
        let Some(ready) = waiting else { return feed.next().await };
        match tokio::time::timeout(BUS_PAUSE, feed.next()).await {
            Ok(next) => return next,
            Err(_) => ready.not_ready(match bus.is_connected() {
                true => "the stream is not complete yet: the watcher fills it",
                false => "NATS does not answer",
            }),
        }
    }
}
