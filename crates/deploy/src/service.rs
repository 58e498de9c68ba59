//! Deployers as a service: the controller of each, on the resources of one process.
//!
//! ```text
//! ProcessContext ──> DeployerService ──register(Registration)──> Controller: queue, DeployLoop, health condition
//! ```

use std::sync::Arc;

use groundwork_api::DeployItem;
use groundwork_bus::{Backoff, Bus, Kind};
use groundwork_controller::{
    Casualties, Controller, Handler, Journal, Metrics, Objects, Options, ProcessContext,
};
use groundwork_telemetry::Telemetry;
use kube::Client;

use crate::deploy_loop::DeployLoop;
use crate::deployer::Deployer;
use crate::selector::TargetSelectors;
use crate::target::Targets;
use crate::watches::Watches;

/// A deployer, with its names on the bus, in health checks and in statuses.
pub struct Registration {
    pub deployer: Arc<dyn Deployer>,
    /// Name of the queue that the replicas share. The NATS user of the process needs the right to
    /// it (`docs/contributing/add-a-deployer.md`).
    pub queue: &'static str,
    /// Name of the condition that `/readyz` shows until the index is complete.
    pub condition: &'static str,
    /// Identity in `status.deployer`. It differs between processes that share the queue, and stays
    /// the same over a restart.
    pub identity: String,
    /// Name and version in `status.deployer`.
    pub name: &'static str,
    pub version: &'static str,
    /// Selectors of Targets: the deployer serves only items whose Target matches one of them.
    /// Without selectors it serves all items.
    pub selectors: TargetSelectors,
    /// Namespaces that the deployer serves; all if the list is empty.
    pub namespaces: Vec<String>,
    /// Maximum number of items of one namespace that are worked on at the same time. The limit over
    /// all namespaces is eight times as high.
    pub concurrency: usize,
}

impl std::fmt::Debug for Registration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registration").field("queue", &self.queue).finish_non_exhaustive()
    }
}

/// Resources that all deployers of a process share.
pub struct DeployerService {
    bus: Bus,
    client: Client,
    casualties: Casualties,
    telemetry: Telemetry,
    metrics: Metrics,
    journal: Journal,
    targets: Targets,
    watches: Watches,
    manager: &'static str,
    controllers: Vec<Controller>,
}

impl std::fmt::Debug for DeployerService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeployerService").field("count", &self.controllers.len()).finish_non_exhaustive()
    }
}

impl DeployerService {
    /// Creates a service without deployers. `service` names it in metrics and in the journal,
    /// `manager` is the field manager of its writes to the home cluster. `target_watches` limits
    /// the watches on clusters of Targets at a time; 0 watches nothing.
    pub fn new(
        context: ProcessContext,
        service: &'static str,
        manager: &'static str,
        targets: Targets,
        target_watches: usize,
    ) -> Self {
        let ProcessContext { bus, client, telemetry, casualties } = context;
        Self {
            metrics: Metrics::new(&telemetry.metrics, service),
            journal: Journal::start(&bus, service, &telemetry),
            watches: Watches::new(target_watches, &telemetry.metrics),
            bus,
            client,
            casualties,
            telemetry,
            targets,
            manager,
            controllers: Vec::new(),
        }
    }

    pub fn targets(&self) -> &Targets {
        &self.targets
    }

    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    pub fn telemetry(&self) -> &Telemetry {
        &self.telemetry
    }

    /// Adds a deployer.
    pub fn register(&mut self, registration: Registration) {
        let Registration { deployer, queue, condition, identity, name, version, .. } = registration;
        let deploy_loop = DeployLoop {
            deployer,
            information: crate::identity(identity, name, version),
            selectors: registration.selectors,
            targets: self.targets.clone(),
            watches: self.watches.of_another(),
            journal: self.journal.clone(),
        };
        let options = Options {
            service: queue,
            work: vec![Kind::of::<DeployItem>()],
            indexed: Vec::new(),
            namespaces: registration.namespaces,
            concurrency: registration.concurrency,
            backoff: Backoff::OBJECT,
        };
        self.add(Arc::new(deploy_loop), options, condition, self.metrics.clone());
    }

    /// Adds a controller that is not a deployer, on the same resources.
    pub fn add(
        &mut self,
        handler: Arc<dyn Handler>,
        options: Options,
        condition: &'static str,
        metrics: Metrics,
    ) {
        self.controllers.push(Controller {
            bus: self.bus.clone(),
            objects: Objects::new(self.client.clone(), self.manager, metrics.clone()),
            handler,
            options,
            metrics,
            casualties: self.casualties.clone(),
            ready: self.telemetry.health.condition(condition),
        });
    }

    /// Metrics of the service, for [`DeployerService::add`].
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Works until shutdown is requested.
    pub async fn run(self) {
        let end = self.telemetry.shutdown.token();
        let running = self.controllers.into_iter().map(|controller| controller.run(end.clone()));
        futures::future::join_all(running).await;
        self.journal.flush().await;
    }
}
