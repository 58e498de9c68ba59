//! The variant service as a process of its own.

use std::error::Error;
use std::process::ExitCode;

use clap::Parser;
use groundwork_controller::BusArguments;
use groundwork_grpc::TokenSource;
use groundwork_telemetry::TelemetryArguments;
use groundwork_variant_service::{Arguments, SERVICE, Variants};

#[derive(Parser)]
#[command(name = "groundwork-variant", version, about = "PackageVariants of PackageVariantSets")]
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
        let config = command.service.cluster.config(SERVICE).await?;
        let token = TokenSource::of_file(command.service.watcher.watcher_token_file.clone());
        let bus = command.bus.connect_service(&telemetry).await?;
        let client = kube::Client::try_from(config)?;
        Variants::start(command.service, bus.clone(), client, token, telemetry).await?.run().await?;
        bus.drain().await;
        Ok::<(), Box<dyn Error + Send + Sync>>(())
    })
}
