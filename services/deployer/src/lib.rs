//! The deployer service: works on DeployItems of the mock type.
//!
//! ```text
//! DeployItem event ──> handler ──mock──> pick-up, export Secret, result in the status
//! ```

mod handler;
mod mock;

use std::sync::Arc;

use clap::Args;
use groundwork_api::{DeployItem, DeployerInformation, Kind as _};
use groundwork_bus::{Bus, Kind};
use groundwork_controller::{Backoff, ClusterArguments, Controller, Metrics, Objects, Options};
use groundwork_telemetry::Telemetry;
use kube::Client;

use handler::MockDeployer;

/// Name of the service, of its consumers and of its field manager.
pub const SERVICE: &str = "deployer";
const MANAGER: &str = "groundwork-deployer";

/// What the deployer can be told.
#[derive(Debug, Clone, Args)]
pub struct Arguments {
    #[command(flatten)]
    pub cluster: ClusterArguments,
    /// Identity that is written to `status.deployer` of the items.
    #[arg(long, env = "GROUNDWORK_DEPLOYER_IDENTITY", default_value = IDENTITY)]
    pub identity: String,
    /// Items that are worked on at the same time.
    #[arg(long, env = "GROUNDWORK_DEPLOYER_CONCURRENCY", default_value_t = CONCURRENCY)]
    pub deployer_concurrency: usize,
}

const IDENTITY: &str = "groundwork-mock";
const CONCURRENCY: usize = 16;

impl Default for Arguments {
    fn default() -> Self {
        Self {
            cluster: ClusterArguments::default(),
            identity: IDENTITY.to_owned(),
            deployer_concurrency: CONCURRENCY,
        }
    }
}

/// Works until shutdown is requested.
pub async fn run(arguments: Arguments, bus: Bus, client: Client, telemetry: Telemetry) {
    let metrics = Metrics::new(&telemetry.metrics, SERVICE);
    let information = DeployerInformation {
        identity: arguments.identity,
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
            concurrency: arguments.deployer_concurrency,
            backoff: Backoff::default(),
        },
        metrics,
        ready: telemetry.health.condition("index"),
    };
    controller.run(telemetry.shutdown.token()).await;
}
