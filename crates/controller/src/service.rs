//! A service as a program of its own: the parts that the programs of all services share.

use std::error::Error;
use std::process::ExitCode;

use clap::{Args, CommandFactory, FromArgMatches, Parser};
use futures::future::BoxFuture;
use groundwork_bus::Bus;
use groundwork_telemetry::{Health, Telemetry, TelemetryArguments};
use kube::Client;

use crate::arguments::{BusArguments, ClusterArguments, StateArguments};
use crate::casualties::Casualties;

/// Reason why a service could not start, or ended.
pub type ServiceError = Box<dyn Error + Send + Sync>;

/// The arguments of a service, and the function that starts it.
pub trait ServiceArguments: Args {
    /// Name of the service.
    const SERVICE: &'static str;
    /// Name of the program.
    const PROGRAM: &'static str;
    /// One line of help.
    const ABOUT: &'static str;

    /// Returns the part of the cluster that the service works on.
    fn cluster(&self) -> &ClusterArguments;

    /// Starts the service. When this returns, the service has registered all its health conditions
    /// and opened its ports. The returned future runs it.
    fn start(
        self,
        context: ProcessContext,
    ) -> impl Future<Output = Result<RunningService, ServiceError>> + Send;
}

/// Future that runs a started service until shutdown is requested.
pub type RunningService = BoxFuture<'static, Result<(), ServiceError>>;

/// Resources of a process for its services, created from the arguments that all services share.
#[derive(Clone)]
pub struct ProcessContext {
    pub bus: Bus,
    pub client: Client,
    pub telemetry: Telemetry,
    /// Keys that were being handled when earlier processes died.
    pub casualties: Casualties,
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
    state: StateArguments,
    #[command(flatten)]
    telemetry: TelemetryArguments,
}

/// Runs the whole `main` of a service: reads the arguments, connects, and runs the service. At the
/// end it waits for pending messages to the bus.
pub fn main<A: ServiceArguments>() -> ExitCode {
    let command = Command::<A>::command().name(A::PROGRAM).about(A::ABOUT);
    let command = match Command::<A>::from_arg_matches(&command.get_matches()) {
        Ok(command) => command,
        Err(error) => error.exit(),
    };
    groundwork_telemetry::run(A::SERVICE, &command.telemetry.clone(), async |telemetry| {
        let (bus, running) = started(&telemetry.health, async {
            let client = command.service.cluster().client(A::SERVICE).await?;
            let bus = command.bus.connect_service(&telemetry).await?;
            let casualties = command.state.casualties(A::SERVICE)?;
            let context =
                ProcessContext { bus: bus.clone(), client, telemetry: telemetry.clone(), casualties };
            Ok::<_, ServiceError>((bus, command.service.start(context).await?))
        })
        .await?;
        running.await?;
        bus.drain().await;
        Ok::<(), ServiceError>(())
    })
}

/// Waits for `starting`, and keeps the process unready until that is done. Without this the process
/// could become ready too early, because the bus may be connected long before the service has
/// registered its own conditions.
///
/// # Errors
///
/// The errors of `starting`.
pub async fn started<T, E>(health: &Health, starting: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    let condition = health.condition("started");
    let started = starting.await?;
    condition.ready();
    Ok(started)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::pin::pin;

    use futures::FutureExt;

    use super::*;

    #[test]
    fn not_ready_before_the_service_has_started() {
        let health = Health::default();
        let (told, waits) = futures::channel::oneshot::channel::<()>();
        let mut service = pin!(started(&health, async {
            health.condition("bus").ready();
            let _ = waits.await;
            Ok::<_, Infallible>(health.condition("index"))
        }));
        assert!(service.as_mut().now_or_never().is_none());
        assert_eq!(health.problems(), ["started: starting"]);
        told.send(()).unwrap_or_default();
        let Some(Ok(index)) = service.now_or_never() else { panic!("has not started") };
        assert_eq!(health.problems(), ["index: starting"]);
        index.ready();
        assert!(health.is_ready());
    }
}
