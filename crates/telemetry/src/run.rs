use std::error::Error;
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use tokio::runtime::Builder;
use tracing::Instrument;

use crate::causes::with_causes;
use crate::{Condition, Shutdown, Telemetry, TelemetryArguments};

/// Runs a service from start to end; the whole of its `main` but for the arguments.
///
/// Starts telemetry, serves health and metrics, and calls `body`, which returns when the service has ended: after
/// `telemetry.shutdown` was requested, or by itself. The process is not ready before `body` was polled once, so a condition that it
/// names before it waits for anything is there from the beginning. SIGTERM and SIGINT request it; then `body` and the tasks of
/// [`Shutdown::spawn`] have `--drain-seconds`, and a further signal ends the process at once. The traces are flushed last.
///
/// The status is 0 if `body` and all tasks ended well, and 1 otherwise; the reason is logged, or written to standard error if
/// there is no log yet.
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
    // Blocking calls that hang must not keep the process alive.
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
        telemetry.span().in_scope(|| tracing::error!(error = with_causes(&**error), "stopped"));
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
    // Kept until the end, so that draining can be watched.
    let _admin = telemetry.serve_admin(arguments.admin_address).await?;
    telemetry.shutdown.on_signals()?;
    let running = telemetry.health.condition("running");
    let limit = arguments.drain_limit();
    let mut overdue = pin!(overdue(&telemetry.shutdown, limit, &running));
    // The body comes first: it has named its conditions by the time that this one holds.
    let result = tokio::select! {
        biased;
        result = body(telemetry.clone()) => result.map_err(Into::into),
        () = &mut overdue => return Err(format!("the service did not end within {limit:?}").into()),
    };
    // One limit for both: what the body has used is not given to the tasks again.
    tokio::select! {
        () = telemetry.shutdown.finished() => {}
        () = overdue => return result.and(Err(telemetry.shutdown.unfinished(limit).into())),
    }
    result?;
    tracing::info!("stopped");
    Ok(())
}

/// Tells of the service as running until its end is requested, and ends `limit` after that.
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
