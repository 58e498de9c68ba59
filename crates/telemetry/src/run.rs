use std::error::Error;
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use tokio::runtime::Builder;
use tracing::Instrument;

use crate::causes::with_causes;
use crate::{Condition, Shutdown, Telemetry, TelemetryArguments};

/// Runs a service from start to end. A service's `main` consists of this call and the parsing of
/// arguments.
///
/// Starts telemetry, serves health and metrics, and calls `body`, which returns when the service
/// has ended, by itself or after `telemetry.shutdown` was requested. The process is not ready
/// before the first poll of `body`, so conditions that `body` names before its first wait exist
/// from the beginning. SIGTERM and SIGINT request the shutdown. Then `body` and the tasks of
/// [`Shutdown::spawn`] have `--drain-seconds`, and a further signal ends the process at once. The
/// traces are flushed last.
///
/// The exit status is 0 if `body` and all tasks succeeded, and 1 otherwise. The reason is logged,
/// or written to standard error if there is no log yet.
pub fn run<E>(
    service: &'static str,
    arguments: &TelemetryArguments,
    body: impl AsyncFnOnce(Telemetry) -> Result<(), E>,
) -> ExitCode
where
    E: Into<Box<dyn Error + Send + Sync>>,
{
    let runtime = match Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(service, &format!("cannot start threads: {error}")),
    };
    let code = runtime.block_on(supervise(service, arguments, body));
    // A blocking call that hangs must not keep the process alive.
    runtime.shutdown_timeout(Duration::from_millis(100));
    code
}

async fn supervise<E>(
    service: &'static str,
    arguments: &TelemetryArguments,
    body: impl AsyncFnOnce(Telemetry) -> Result<(), E>,
) -> ExitCode
where
    E: Into<Box<dyn Error + Send + Sync>>,
{
    let telemetry = match Telemetry::start(service, arguments) {
        Ok(telemetry) => telemetry,
        Err(error) => return failed(service, &with_causes(&error)),
    };
    let result = serve(&telemetry, arguments, body).instrument(telemetry.span()).await;
    if let Err(error) = &result {
        telemetry.span().in_scope(|| tracing::error!(error = with_causes(&**error), "the service stopped"));
    }
    telemetry.flush().await;
    if result.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

async fn serve<E>(
    telemetry: &Telemetry,
    arguments: &TelemetryArguments,
    body: impl AsyncFnOnce(Telemetry) -> Result<(), E>,
) -> Result<(), Box<dyn Error + Send + Sync>>
where
    E: Into<Box<dyn Error + Send + Sync>>,
{
    // The admin server runs until the end, so that draining can be observed.
    let _admin = telemetry.serve_admin(arguments.admin_address).await?;
    telemetry.shutdown.on_signals()?;
    let running = telemetry.health.condition("running");
    let limit = arguments.drain_limit();
    let mut overdue = pin!(overdue(&telemetry.shutdown, limit, &running));
    // `biased` polls the body first, so that it names its conditions before the condition `running`
    // is met.
    let result = tokio::select! {
        biased;
        result = body(telemetry.clone()) => result.map_err(Into::into),
        () = &mut overdue => return Err(format!("the service did not end within {limit:?}").into()),
    };
    // Body and tasks share one time limit: the tasks get only the time that the body has left.
    tokio::select! {
        () = telemetry.shutdown.finished() => {}
        () = overdue => return result.and(Err(telemetry.shutdown.unfinished(limit).into())),
    }
    result?;
    tracing::info!("the service stopped");
    Ok(())
}

/// Marks the service as running until its shutdown is requested, and returns `limit` after that.
async fn overdue(shutdown: &Shutdown, limit: Duration, running: &Condition) {
    running.ready();
    shutdown.requested().await;
    running.not_ready("stopping");
    tokio::time::sleep(limit).await;
}

fn failed(service: &str, why: &str) -> ExitCode {
    eprintln!("{service}: {why}");
    ExitCode::FAILURE
}
