//! The watcher service: the only watch on the API server, and the only writer of the stream of events (design, Events).
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

use clap::Args;
use groundwork_bus::Bus;
use groundwork_controller::ClusterArguments;
use groundwork_grpc::{GrpcArguments, Server, ServerError};
use groundwork_telemetry::Telemetry;
use kube::Client;
use tokio::sync::mpsc;

use board::{Board, Role};
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
}

/// Why the watcher cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Server(#[from] ServerError),
}

/// A watcher that listens, and does not work yet.
pub struct Watcher {
    arguments: Arguments,
    server: Server,
    bus: Bus,
    client: Client,
    board: Board,
    metrics: Metrics,
    telemetry: Telemetry,
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
    pub async fn start(
        arguments: Arguments,
        bus: Bus,
        client: Client,
        telemetry: Telemetry,
    ) -> Result<Self, StartError> {
        let metrics = Metrics::new(&telemetry.metrics);
        let board = Board::new(telemetry.health.condition("stream"), metrics.clone());
        let server = Server::bind(&arguments.grpc, &telemetry).await?;
        Ok(Self { arguments, server, bus, client, board, metrics, telemetry })
    }

    /// Where its gRPC server listens.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Works until shutdown is requested.
    ///
    /// # Errors
    ///
    /// The server lost its port.
    pub async fn run(self) -> Result<(), ServerError> {
        let Self { arguments, server, bus, client, board, metrics, telemetry } = self;
        let end = telemetry.shutdown.token();
        let plan = Plan::new(arguments.cluster.namespaces);
        let outlet =
            Outlet { bus, board: board.clone(), metrics: metrics.clone(), reign: Reign::unlimited() };
        board.change(|content| {
            content.role = Role::Leading;
            content.problem = Some("starting".to_owned());
        });
        metrics.leading(true);
        let (_commands, inbox) = mpsc::channel(16);
        let term = Term::new(client, outlet, plan, inbox);
        let work = async {
            tokio::select! {
                () = end.cancelled() => {}
                () = term.run() => {}
            }
        };
        let (served, ()) = tokio::join!(server.serve(end.clone()), work);
        served
    }
}
