//! The resolver as a process of its own.

use std::error::Error;
use std::process::ExitCode;

use clap::Parser;
use groundwork_controller::BusArguments;
use groundwork_resolver::{Arguments, Resolver, SERVICE};
use groundwork_telemetry::TelemetryArguments;

#[derive(Parser)]
#[command(name = "groundwork-resolver", version, about = "Which component versions Installations use")]
struct Command {
    #[command(flatten)]
    service: Arguments,
    #[command(flatten)]
    bus: BusArguments,
    #[command(flatten)]
    telemetry: TelemetryArguments,
}

fn main() -> ExitCode {
    let command = Command::parse();
    groundwork_telemetry::run(SERVICE, &command.telemetry.clone(), async |telemetry| {
        let client = command.service.cluster.client(SERVICE).await?;
        let bus = command.bus.connect_service(&telemetry).await?;
        Resolver::start(command.service, bus.clone(), client, telemetry).await?.run().await?;
        bus.drain().await;
        Ok::<(), Box<dyn Error + Send + Sync>>(())
    })
}
