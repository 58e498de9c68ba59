//! Helper process of the tests: `telemetry-probe export ENDPOINT`, or `telemetry-probe serve
//! BEHAVIOUR`.

use std::error::Error;
use std::process::ExitCode;

use groundwork_telemetry::{LogFormat, Telemetry, TelemetryArguments, run};

type Failure = Box<dyn Error + Send + Sync>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["export", endpoint] => export(endpoint),
        ["serve", behaviour] => serve(behaviour),
        _ => ExitCode::from(2),
    }
}

/// Exports one span.
#[tokio::main]
async fn export(endpoint: &str) -> ExitCode {
    let arguments = TelemetryArguments { otlp_endpoint: Some(endpoint.to_owned()), ..Default::default() };
    let telemetry = Telemetry::start("groundwork", &arguments);
    tracing::info_span!("over TLS").in_scope(|| ());
    let Ok(telemetry) = telemetry else { return ExitCode::FAILURE };
    telemetry.flush().await;
    ExitCode::SUCCESS
}

/// Runs like a service.
fn serve(behaviour: &str) -> ExitCode {
    let drain_seconds = if behaviour == "overdue" { 1 } else { 60 };
    let arguments = TelemetryArguments { log_format: LogFormat::Json, drain_seconds, ..Default::default() };
    run("resolver", &arguments, async |telemetry| body(behaviour, telemetry).await)
}

async fn body(behaviour: &str, telemetry: Telemetry) -> Result<(), Failure> {
    let bus = telemetry.health.condition("bus");
    tracing::info!("conditions are named");
    match behaviour {
        "fails" => return Err(Box::new(Outer(std::io::Error::other("connection refused")))),
        "orderly" => {
            let shutdown = telemetry.shutdown.clone();
            telemetry.shutdown.spawn(async move {
                shutdown.requested().await;
                tracing::info!("task has ended");
            });
        }
        "overdue" | "stubborn" => {
            telemetry.shutdown.spawn(std::future::pending::<()>());
        }
        other => return Err(format!("no behaviour {other:?}").into()),
    }
    bus.ready();
    telemetry.shutdown.requested().await;
    Ok(())
}

#[derive(Debug, thiserror::Error)]
#[error("cannot reach the bus")]
struct Outer(#[source] std::io::Error);
