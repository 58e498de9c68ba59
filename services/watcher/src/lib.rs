//! The watcher service: the only watch on the API server, and the only writer of the stream of
//! events.
//!
//! ```text
//! API server ──list, watch──> source ──SourceEvent──> watch (one per scope)
//!                                                       │ DesiredState
//!               stream <──publication── publisher <─────┘
//!               (publisher's ledger: the objects that are on the stream)
//! ```
//!
//! One of several replicas leads, as [`lease`] decides. Its [`leader`] prepares the stream and runs
//! the watches as long as its [`leadership`] lasts. Readiness and gRPC calls read [`status`]. gRPC
//! calls send requests to the leader through [`commands`].
//!
//! # With `--namespaces`
//!
//! Every kind is listed and watched in each of these namespaces, so Roles in them suffice: `list`
//! and `watch` of the watched kinds, and `get` of `namespaces`. A Role cannot allow more than the
//! `get` of its own namespace, so the namespaces themselves are read every minute. The cluster is
//! then identified by the UID of the first of these namespaces in alphabetical order.

mod commands;
mod continuity;
mod grpc;
mod interests;
mod leader;
mod leadership;
mod lease;
mod ledger;
mod metrics;
mod publication;
mod publisher;
mod scopes;
mod source;
mod status;
mod stream_writer;
mod warnings;
mod watch;

use std::net::SocketAddr;

use clap::Args;
use futures::{FutureExt, TryFutureExt};
use groundwork_bus::Bus;
use groundwork_controller::{
    ClusterArguments, Probe, ProcessContext, RunningService, ServiceArguments, ServiceError,
    look_for_webhooks,
};
use groundwork_grpc::{Access, GrpcArguments, Server, ServerError, TokenSource, audience, with_limits};
use groundwork_proto::watcher::v1::watcher_server::WatcherServer;
use groundwork_telemetry::Telemetry;
use kube::Client;
use tokio_util::sync::CancellationToken;

use commands::LeaderCommands;
use continuity::Continuity;
use grpc::Service;
use leader::Leader;
use leadership::Leadership;
use lease::Election;
pub use lease::LeaseArguments;
use metrics::Metrics;
use scopes::WatchScopes;
use status::{Role, SharedStatus};
use stream_writer::StreamWriter;

/// Name of the service.
pub const SERVICE: &str = "watcher";

/// Arguments of the watcher.
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

    async fn start(self, context: ProcessContext) -> Result<RunningService, ServiceError> {
        let ProcessContext { bus, client, telemetry, .. } = context;
        let service = Watcher::start(self, bus, client, telemetry).await?;
        Ok(service.run().err_into().boxed())
    }
}

/// Reason why the watcher cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Server(#[from] ServerError),
}

/// A watcher that listens, and does not work yet.
pub struct Watcher {
    server: Server,
    access: Access,
    candidate: Candidate,
    telemetry: Telemetry,
}

/// This replica in the election: it waits until it leads, leads, and waits again.
struct Candidate {
    client: Client,
    bus: Bus,
    status: SharedStatus,
    metrics: Metrics,
    scopes: WatchScopes,
    commands: LeaderCommands,
    /// The election; `None` for a single replica.
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
    pub async fn start(
        arguments: Arguments,
        bus: Bus,
        client: Client,
        telemetry: Telemetry,
    ) -> Result<Self, StartError> {
        let metrics = Metrics::new(&telemetry.metrics);
        let status = SharedStatus::new(telemetry.health.condition("stream"), metrics.clone());
        let scopes = WatchScopes::new(arguments.cluster.namespaces);
        let commands = LeaderCommands::default();
        let access = Access::new(client.clone(), audience(SERVICE));
        let service = Service {
            access: access.clone(),
            bus: bus.clone(),
            status: status.clone(),
            scopes: scopes.clone(),
            commands: commands.clone(),
        };
        let server = Server::bind(&arguments.grpc, &telemetry).await?.for_callers_of(access.clone());
        let server = server.with(with_limits!(WatcherServer::new(service)));
        let election = Election::new(client.clone(), &arguments.lease, status.clone());
        // Without an election the watcher writes Events only, and works without them.
        let probes = election.iter().map(|election| Probe::creation(election.probe())).collect();
        look_for_webhooks(&client, &[], probes, &telemetry.health, telemetry.shutdown.token());
        let candidate = Candidate { client, bus, status, metrics, scopes, commands, election };
        Ok(Self { server, access, candidate, telemetry })
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

    /// Works until shutdown is requested.
    ///
    /// # Errors
    ///
    /// The server lost its port.
    pub async fn run(self) -> Result<(), ServerError> {
        let end = self.telemetry.shutdown.token();
        let (served, ()) = tokio::join!(self.server.serve(end.clone()), self.candidate.run(end));
        served
    }
}

impl Candidate {
    /// Leads whenever this replica is elected, until `end` is cancelled.
    async fn run(mut self, end: CancellationToken) {
        let mut election = self.election.take();
        loop {
            let is_asked_to_end = tokio::select! {
                () = end.cancelled() => true,
                () = self.lead(election.as_mut()) => false,
            };
            self.commands.close();
            self.metrics.leading(false);
            if is_asked_to_end {
                break;
            }
            self.status.update(|status| {
                (status.role, status.problem) = (Role::Standby, None);
                status.watches.clear();
            });
        }
        if let Some(election) = &mut election {
            election.release().await;
        }
    }

    /// Leads once: from the election of this replica until that of another.
    async fn lead(&self, election: Option<&mut Election>) {
        let Some(election) = election else { return self.run_leader(Leadership::unlimited()).await };
        let leadership = election.acquire().await;
        // When the leadership ends, `select!` drops the leader with all of its watches, at any
        // point of their work.
        tokio::select! {
            () = election.renew(&leadership) => {}
            () = self.run_leader(leadership.clone()) => {}
        }
    }

    async fn run_leader(&self, leadership: Leadership) {
        self.status.update(|status| {
            (status.role, status.problem) = (Role::Leading, Some("starting".to_owned()));
        });
        self.metrics.leading(true);
        let (bus, status, metrics) = (self.bus.clone(), self.status.clone(), self.metrics.clone());
        let continuity = Continuity::default();
        let writer = StreamWriter { bus, status, metrics, leadership, continuity };
        Leader::new(self.client.clone(), writer, self.scopes.clone(), self.commands.open()).run().await;
    }
}
