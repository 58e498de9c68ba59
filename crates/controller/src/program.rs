//! What the programs of all services have in common.

use std::error::Error;
use std::process::ExitCode;

use clap::{Args, CommandFactory, FromArgMatches, Parser};
use futures::future::BoxFuture;
use groundwork_bus::Bus;
use groundwork_telemetry::{Telemetry, TelemetryArguments};
use kube::Client;

use crate::arguments::{BusArguments, ClusterArguments};

/// Why a service ended.
pub type Failure = Box<dyn Error + Send + Sync>;

/// What a service can be told as a program of its own.
pub trait ServiceArguments: Args {
    /// Name of the service.
    const SERVICE: &'static str;
    /// Name of the program.
    const PROGRAM: &'static str;
    /// One line of help.
    const ABOUT: &'static str;

    /// Which part of the cluster it works on.
    fn cluster(&self) -> &ClusterArguments;
}

/// What a service works with, made from arguments that all services have.
#[derive(Clone)]
pub struct Surroundings {
    pub bus: Bus,
    pub client: Client,
    pub telemetry: Telemetry,
}

impl std::fmt::Debug for Surroundings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Surroundings").field("bus", &self.bus).finish_non_exhaustive()
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

/// The whole of a service's `main`: reads the arguments, connects, and calls `run`, which ends when shutdown is requested.
/// Then what is on its way to the bus gets there.
///
/// `run` is boxed where it is written, in the library of the service: futures are compiled where they are polled first, and
/// that must not be in every program which has the service in it.
pub fn main<A: ServiceArguments>(
    run: impl FnOnce(A, Surroundings) -> BoxFuture<'static, Result<(), Failure>>,
) -> ExitCode {
    let command = Command::<A>::command().name(A::PROGRAM).about(A::ABOUT);
    let command = match Command::<A>::from_arg_matches(&command.get_matches()) {
        Ok(command) => command,
        Err(error) => error.exit(),
    };
    groundwork_telemetry::run(A::SERVICE, &command.telemetry.clone(), async |telemetry| {
        let client = command.service.cluster().client(A::SERVICE).await?;
        let bus = command.bus.connect_service(&telemetry).await?;
        run(command.service, Surroundings { bus: bus.clone(), client, telemetry }).await?;
        bus.drain().await;
        Ok::<(), Failure>(())
    })
}
