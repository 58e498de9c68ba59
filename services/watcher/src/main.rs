//! The watcher as a process of its own.

use std::error::Error;
use std::process::ExitCode;

use clap::Parser;
use groundwork_controller::BusArguments;
use groundwork_telemetry::TelemetryArguments;
use groundwork_watcher::{Arguments, SERVICE, Watcher};

#[derive(Parser)]
#[command(name = "groundwork-watcher", version, about = "Publishes what changes in a cluster")]
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
        Watcher::start(command.service, bus.clone(), client, telemetry).await?.run().await?;
        bus.drain().await;
        Ok::<(), Box<dyn Error + Send + Sync>>(())
    })
}
