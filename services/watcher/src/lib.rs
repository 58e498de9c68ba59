//! The watcher service: the only watch on the API server, and the only writer of the stream of events.
//!
//! ```text
//! API server ──list, watch──> source ──Seen──> watch ──Wanted──> publisher ──settle──> stream
//!                                        (one task a kind)       (ledger: what the stream holds)
//! ```
//!
//! A [`term`] is the time in which this replica publishes: it sees to the stream and its cluster, and runs the watches. [`board`] is what
//! readiness and calls are told.
//!
//! # With `--namespaces`
//!
//! Every kind is listed and watched in each of these namespaces, so Roles in them suffice: `list` and `watch` of the watched kinds, and
//! `get` of `namespaces`. A Role cannot allow more than the `get` of its own namespace, so the namespaces themselves are looked at every
//! minute. The UID that tells clusters apart is then that of the first of these namespaces in alphabetical order.

mod board;
mod grpc;
mod lease;
mod ledger;
mod metrics;
mod plan;
mod publisher;
mod reign;
mod settle;
mod snapshot;
mod source;
mod term;
mod watch;

use std::net::SocketAddr;
use std::process::ExitCode;

use clap::Args;
use futures::future::BoxFuture;
use groundwork_bus::Bus;
use groundwork_controller::{ClusterArguments, ServiceArguments, Surroundings};
use groundwork_grpc::{Access, GrpcArguments, Server, ServerError, TokenSource, audience, with_limits};
use groundwork_proto::watcher::v1::watcher_server::WatcherServer;
use groundwork_telemetry::Telemetry;
use kube::Client;
use tokio_util::sync::CancellationToken;

use board::{Board, Role};
use grpc::{Desk, Service};
use lease::Election;
pub use lease::LeaseArguments;
use metrics::Metrics;
use plan::Plan;
use reign::Reign;
use settle::Outlet;
use term::Term;

/// Name of the service.
pub const SERVICE: &str = "watcher";

/// What the watcher can be told.
#[derive(Debug, Clone, Default, Args)]
pub struct Arguments {
    #[command(flatten)]
    pub cluster: ClusterArguments,
    #[command(flatten)]
    pub grpc: GrpcArguments,
    #[command(flatten)]
    pub lease: LeaseArguments,
}

impl ServiceArguments for Arguments {
    const SERVICE: &'static str = SERVICE;
    const PROGRAM: &'static str = "groundwork-watcher";
    const ABOUT: &'static str = "Publishes what changes in a cluster";

    fn cluster(&self) -> &ClusterArguments {
        &self.cluster
    }
}

/// The service as a process of its own.
pub fn main() -> ExitCode {
    groundwork_controller::main(|arguments: Arguments, surroundings| {
        let Surroundings { bus, client, telemetry } = surroundings;
        Box::pin(async move {
            Watcher::start(arguments, bus, client, telemetry).await?.run().await?;
            Ok(())
        })
    })
}

/// Why the watcher cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Server(#[from] ServerError),
}

/// A watcher that listens, and does not work yet.
pub struct Watcher {
    server: Server,
    access: Access,
    work: Work,
    telemetry: Telemetry,
}

/// What one term after another needs.
struct Work {
    client: Client,
    bus: Bus,
    board: Board,
    metrics: Metrics,
    plan: Plan,
    desk: Desk,
    election: Option<Election>,
}

impl std::fmt::Debug for Watcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watcher").field("address", &self.address()).finish_non_exhaustive()
    }
}

impl Watcher {
    /// Binds the port of the server.
    ///
    /// # Errors
    ///
    /// An argument cannot be used, or the port is taken.
    pub fn start(
        arguments: Arguments,
        bus: Bus,
        client: Client,
        telemetry: Telemetry,
    ) -> BoxFuture<'static, Result<Self, StartError>> {
        // Boxed, so that it is compiled here and not in every program that has the service in it.
        Box::pin(async move {
            let metrics = Metrics::new(&telemetry.metrics);
            let board = Board::new(telemetry.health.condition("stream"), metrics.clone());
            let (plan, desk) = (Plan::new(arguments.cluster.namespaces), Desk::default());
            let access = Access::new(client.clone(), audience(SERVICE));
            let service = Service {
                access: access.clone(),
                bus: bus.clone(),
                board: board.clone(),
                plan: plan.clone(),
                desk: desk.clone(),
            };
            let server = Server::bind(&arguments.grpc, &telemetry).await?.for_callers_of(access.clone());
            let server = server.with(with_limits!(WatcherServer::new(service)));
            let election = Election::new(client.clone(), &arguments.lease, board.clone());
            let work = Work { client, bus, board, metrics, plan, desk, election };
            Ok(Self { server, access, work, telemetry })
        })
    }

    /// Where its gRPC server listens.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// The URL for clients on this machine.
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// A token for callers in this process; see [`Access::token_of_this_process`].
    pub fn token_of_this_process(&self) -> TokenSource {
        self.access.token_of_this_process()
    }

    /// Works until shutdown is requested.
    ///
    /// # Errors
    ///
    /// The server lost its port.
    pub fn run(self) -> BoxFuture<'static, Result<(), ServerError>> {
        Box::pin(async move {
            let end = self.telemetry.shutdown.token();
            let (served, ()) = tokio::join!(self.server.serve(end.clone()), self.work.run(end));
            served
        })
    }
}

impl Work {
    /// Leads whenever it may, until the end.
    async fn run(mut self, end: CancellationToken) {
        let mut election = self.election.take();
        loop {
            let is_asked_to_end = tokio::select! {
                () = end.cancelled() => true,
                () = self.lead(election.as_mut()) => false,
            };
            self.desk.close();
            self.metrics.leading(false);
            if is_asked_to_end {
                break;
            }
            self.board.change(|content| {
                (content.role, content.problem) = (Role::Standby, None);
                content.watches.clear();
            });
        }
        if let Some(election) = &mut election {
            election.release().await;
        }
    }

    /// One term, as soon as this replica leads and as long as it does.
    async fn lead(&self, election: Option<&mut Election>) {
        let Some(election) = election else { return self.term(Reign::unlimited()).await };
        let reign = election.acquire().await;
        tokio::select! {
            () = election.keep(&reign) => {}
            () = self.term(reign.clone()) => {}
        }
    }

    async fn term(&self, reign: Reign) {
        self.board.change(|content| {
            (content.role, content.problem) = (Role::Leading, Some("starting".to_owned()));
        });
        self.metrics.leading(true);
        let (bus, board, metrics) = (self.bus.clone(), self.board.clone(), self.metrics.clone());
        let outlet = Outlet { bus, board, metrics, reign };
        Term::new(self.client.clone(), outlet, self.plan.clone(), self.desk.open()).run().await;
    }
}
