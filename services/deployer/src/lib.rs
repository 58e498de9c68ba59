//! The deployer service: works on DeployItems of the mock type.
//!
//! ```text
//! DeployItem event ──> handler ──mock──> pick-up, export Secret, result in the status
//! ```

mod handler;
mod mock;

use std::sync::Arc;

use clap::Args;
use futures::future::BoxFuture;
use groundwork_api::{DeployItem, DeployerInformation, Kind as _};
use groundwork_bus::{Backoff, Bus, Kind};
use groundwork_controller::{
    ClusterArguments, Controller, LANDSCAPER, Metrics, Objects, Options, OriginalAtWorkError, ProcessContext,
    ServiceArguments, ServiceError, TakeoverArguments,
};
use groundwork_telemetry::Telemetry;
use kube::Client;

use handler::MockDeployer;

/// Name of the service, of its consumers and of its field manager.
pub const SERVICE: &str = "deployer";
const MANAGER: &str = "groundwork-deployer";

/// What the deployer can be told.
#[derive(Debug, Clone, Default, Args)]
pub struct Arguments {
    #[command(flatten)]
    pub cluster: ClusterArguments,
    #[command(flatten)]
    pub takeover: TakeoverArguments,
    #[command(flatten)]
    pub settings: Settings,
}

impl ServiceArguments for Arguments {
    const SERVICE: &'static str = SERVICE;
    const PROGRAM: &'static str = "groundwork-deployer";
    const ABOUT: &'static str = "Works on DeployItems of the mock type";

    fn cluster(&self) -> &ClusterArguments {
        &self.cluster
    }

    fn run(self, context: ProcessContext) -> BoxFuture<'static, Result<(), ServiceError>> {
        let ProcessContext { bus, client, telemetry } = context;
        Box::pin(async move {
            run(self, bus, client, telemetry).await?;
            Ok(())
        })
    }
}

/// What is the deployer's own, wherever it runs.
#[derive(Debug, Clone, Args)]
#[group(skip)]
pub struct Settings {
    /// Identity that is written to `status.deployer` of the items.
    #[arg(long, env = "GROUNDWORK_DEPLOYER_IDENTITY", default_value = IDENTITY)]
    pub identity: String,
    /// Items that are worked on at the same time.
    #[arg(long, env = "GROUNDWORK_DEPLOYER_CONCURRENCY", default_value_t = CONCURRENCY)]
    pub deployer_concurrency: usize,
}

const IDENTITY: &str = "groundwork-mock";
const CONCURRENCY: usize = 16;

impl Default for Settings {
    fn default() -> Self {
        Self { identity: IDENTITY.to_owned(), deployer_concurrency: CONCURRENCY }
    }
}

/// Works until shutdown is requested, once it is certain that no original is at work.
///
/// # Errors
///
/// An original is at work.
pub fn run(
    arguments: Arguments,
    bus: Bus,
    client: Client,
    telemetry: Telemetry,
) -> BoxFuture<'static, Result<(), OriginalAtWorkError>> {
    // Boxed, so that it is compiled here and not in every program that has the service in it.
    Box::pin(async move {
        let (end, namespaces) = (telemetry.shutdown.token(), &arguments.cluster.namespaces);
        arguments.takeover.ensure_stopped(LANDSCAPER, namespaces, &client, &telemetry.health, &end).await?;
        let metrics = Metrics::new(&telemetry.metrics, SERVICE);
        let information = DeployerInformation {
            identity: arguments.settings.identity,
            name: SERVICE.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..DeployerInformation::default()
        };
        let controller = Controller {
            bus,
            objects: Objects::new(client, MANAGER, metrics.clone()),
            handler: Arc::new(MockDeployer { information }),
            options: Options {
                service: SERVICE,
                work: vec![Kind::new(DeployItem::GROUP, DeployItem::PLURAL)],
                indexed: Vec::new(),
                namespaces: arguments.cluster.namespaces,
                concurrency: arguments.settings.deployer_concurrency,
                backoff: Backoff::OBJECT,
            },
            metrics,
            ready: telemetry.health.condition("index"),
        };
        controller.run(end).await;
        Ok(())
    })
}
