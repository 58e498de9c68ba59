//! A service as a program of its own: what the programs of all services have in common.

use std::error::Error;
use std::process::ExitCode;

use clap::{Args, CommandFactory, FromArgMatches, Parser};
use futures::future::BoxFuture;
use groundwork_bus::Bus;
use groundwork_telemetry::{Telemetry, TelemetryArguments};
use kube::Client;

use crate::arguments::{BusArguments, ClusterArguments};

/// Why a service could not start, or ended.
pub type ServiceError = Box<dyn Error + Send + Sync>;

/// The arguments of a service, and the service that they start.
pub trait ServiceArguments: Args {
    /// Name of the service.
    const SERVICE: &'static str;
    /// Name of the program.
    const PROGRAM: &'static str;
    /// One line of help.
    const ABOUT: &'static str;

    /// Which part of the cluster it works on.
    fn cluster(&self) -> &ClusterArguments;

    /// Starts the service and runs it until shutdown is requested.
    ///
    /// The future is boxed in the library of the service: futures are compiled where they are polled first, and that must not be in
    /// every program which has the service in it.
    fn run(self, context: ProcessContext) -> BoxFuture<'static, Result<(), ServiceError>>;
}

/// What a process has for the services in it, made from arguments that all of them have.
#[derive(Clone)]
pub struct ProcessContext {
    pub bus: Bus,
    pub client: Client,
    pub telemetry: Telemetry,
}

impl std::fmt::Debug for ProcessContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProcessContext").field("bus", &self.bus).finish_non_exhaustive()
    }
}

#[derive(Parser)]
#[command(version)]
struct Command<A: Args> {
    #[command(flatten)]
    service: A,
    #[command(flatten)]
    bus: BusArguments,
    #[command(flatten)]
    telemetry: TelemetryArguments,
}

/// The whole of a service's `main`: reads the arguments, connects, and runs the service. Then what is on its way to the bus gets there.
pub fn main<A: ServiceArguments>() -> ExitCode {
    let command = Command::<A>::command().name(A::PROGRAM).about(A::ABOUT);
    let command = match Command::<A>::from_arg_matches(&command.get_matches()) {
        Ok(command) => command,
        Err(error) => error.exit(),
    };
    groundwork_telemetry::run(A::SERVICE, &command.telemetry.clone(), async |telemetry| {
        let client = command.service.cluster().client(A::SERVICE).await?;
        let bus = command.bus.connect_service(&telemetry).await?;
        command.service.run(ProcessContext { bus: bus.clone(), client, telemetry }).await?;
        bus.drain().await;
        Ok::<(), ServiceError>(())
    })
}
