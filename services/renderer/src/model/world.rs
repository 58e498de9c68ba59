//! One run of the model: the services, the faults, and the check of the final state.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use groundwork_api::{DataObject, DeployItem, Execution, Installation, Kind as _, Target};
use groundwork_bus::{Backoff, Bus, Change, Filter, Kind, ObjectId, Record};
use groundwork_controller::{Casualties, Controller, Handler, Journal, Metrics, Objects, Options};
use groundwork_telemetry::Telemetry;
use groundwork_watcher::Watcher;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::chance::Chance;
use super::cluster::{Cluster, Logged, NAMESPACE};
use super::old_rule::OldRule;
use super::outside::{OPERATION, Wanted, Wishes, live, serve};
use super::plan::{Fault, Plan};
use super::server::client;
use crate::blueprints::Kept;
use crate::changes::Changes;
use crate::handler::Installations;
use crate::rendering::Renderings;
use crate::work::Renderers;
use crate::{MANAGER, SERVICE};

/// Time after the last action or fault in which all objects must finish. It covers the redelivery
/// of events to a renderer that died, and one more back-off. Together with the time before, it is
/// shorter than the interval of the periodic check, which therefore cannot hide a lost event.
const HORIZON: Duration = Duration::from_secs(90);
/// Time within which the periodic check looks at every unfinished object.
const LOOKS: Duration = Duration::from_secs(330);
/// Time after which a change found by the periodic check has had its event, or was counted as lost.
const LATEST_COUNT: Duration = Duration::from_secs(21);
const STEP: Duration = Duration::from_secs(1);

/// Rule of the services under test; a test may choose a faulty one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    Today,
    /// Faulty: a deletion is ignored if its tombstone has a version that the renderer wrote itself.
    OwnDeletionsAreKnown,
}

/// Services of one order, and their shared state.
#[derive(Clone)]
struct World {
    plan: Arc<Plan>,
    rule: Rule,
    cluster: Cluster,
    chance: Arc<Chance>,
    bus: Bus,
    /// Telemetry of all replicas of the renderer, including stopped ones.
    telemetry: Telemetry,
    /// Starts and faults with their times, for the analysis of a failure.
    happened: Arc<Mutex<Vec<(Duration, String)>>>,
    begin: Instant,
}

/// Result of an order.
#[derive(Debug)]
pub(super) struct Ending {
    /// Problems found; empty if the final state is correct.
    pub(super) problems: Vec<String>,
    /// Log of the whole run, in order.
    pub(super) story: String,
}

/// Runs one order with this number of replicas of the renderer.
pub(super) fn run(seed: u64, replicas: usize, rule: Rule) -> Ending {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    let runtime = runtime.expect("a runtime needs few resources");
    runtime.block_on(async {
        let world = World::new(seed, replicas, rule);
        let problems = world.live().await;
        Ending { problems, story: world.story() }
    })
}

impl World {
    fn new(seed: u64, replicas: usize, rule: Rule) -> Self {
        let plan = Arc::new(Plan::of(seed, replicas));
        Self {
            rule,
            cluster: Cluster::new(),
            chance: Arc::new(Chance::new(seed)),
            bus: Bus::in_process_with(plan.ack_wait),
            telemetry: Telemetry::silent(SERVICE),
            happened: Arc::default(),
            begin: Instant::now(),
            plan,
        }
    }

    fn tell(&self, what: impl Into<String>) {
        let mut happened = self.happened.lock().unwrap_or_else(PoisonError::into_inner);
        happened.push((self.begin.elapsed(), what.into()));
    }

    /// Runs the plan, and returns the problems in the final state.
    async fn live(&self) -> Vec<String> {
        // In production the resolver creates this Context; the model has none.
        let context = json!({"apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Context", "metadata": {"name": "default"}});
        let _ = self.cluster.create("contexts", context, "people");
        let wishes = Wishes::default();
        let mut acting = tokio::task::JoinSet::new();
        for life in self.plan.lives.clone() {
            acting.spawn(live(life, self.cluster.clone(), Arc::clone(&wishes)));
        }
        acting.spawn(self.clone().keep_watching());
        for (replica, faults) in self.plan.renderers.iter().enumerate() {
            acting.spawn(self.clone().keep_rendering(replica, faults.clone()));
        }
        acting.spawn(self.clone().end_watches());
        acting.spawn(self.clone().rebuild());
        acting.spawn(self.clone().take_deliveries());
        tokio::spawn(serve(self.cluster.clone(), Arc::clone(&self.chance)));
        while acting.join_next().await.is_some() {}
        self.tell("nothing happens from outside any more");
        let end = Instant::now() + HORIZON;
        while !self.unrest(&wishes).is_empty() && Instant::now() < end {
            sleep(STEP).await;
        }
        // No event can report an object that was created and deleted while no watch ran; only the
        // periodic check finds its effects.
        let is_told = self.unseen().is_empty();
        if !is_told {
            sleep(LOOKS).await;
        } else if !self.plan.shares_deliveries() {
            sleep(LATEST_COUNT).await;
        }
        let mut problems = self.unrest(&wishes);
        problems.extend(self.went_back());
        problems.extend(self.untold().filter(|_| is_told));
        problems
    }

    /// Returns the objects that differ from the wanted state or have not finished their jobs.
    fn unrest(&self, wishes: &Wishes) -> Vec<String> {
        let wishes = wishes.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut problems = Vec::new();
        for (name, wanted) in wishes {
            match (self.cluster.get("installations", name), wanted) {
                (None, Wanted::Gone) => {}
                (None, _) => problems.push(format!("{name} is gone")),
                (Some(_), Wanted::Gone) => problems.push(format!("{name} still exists")),
                (Some(object), Wanted::Size(_))
                    if object["metadata"]["annotations"][OPERATION].is_string() =>
                {
                    problems.push(format!("no service has seen the request for {name}"));
                }
                (Some(_), Wanted::Size(_)) => {}
            }
            let of_it =
                |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().starts_with(name);
            for (plural, object) in self.cluster.all() {
                if !of_it(&object)
                    || !["installations", "executions", "deployitems"].contains(&plural.as_str())
                {
                    continue;
                }
                let (text, status) = (format!("{plural} {}", object["metadata"]["name"]), &object["status"]);
                match wanted {
                    Wanted::Gone => problems.push(format!("{text} is left")),
                    Wanted::Size(size) => {
                        if status["jobID"] != status["jobIDFinished"] || status["phase"] != "Succeeded" {
                            problems.push(format!("{text} has not finished its job"));
                        }
                        if plural == "deployitems" && object["spec"]["config"]["size"] != size {
                            problems.push(format!("{text} does not match the last spec"));
                        }
                    }
                }
            }
        }
        if problems.is_empty() { self.untrue() } else { problems }
    }

    /// Returns the differences between the stream and the stored objects.
    fn untrue(&self) -> Vec<String> {
        let is_ours = |plural: &str| ["installations", "executions", "deployitems"].contains(&plural);
        // The in-process bus answers at once, so the future is ready.
        let Some(Ok(stored)) = self.bus.load(Filter::Everything).now_or_never() else {
            return vec!["there is no stream".to_owned()];
        };
        let mut told = std::collections::BTreeMap::new();
        for stored in stored {
            let Record::Object(event) = stored.record else { continue };
            if let (true, Change::Applied(snapshot)) = (is_ours(event.object.kind.plural()), &event.change) {
                told.insert(
                    (event.object.kind.plural().to_owned(), event.object.name),
                    snapshot.resource_version.clone(),
                );
            }
        }
        let version =
            |object: &Value| object["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
        let name = |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let all = self.cluster.all().into_iter().filter(|(plural, _)| is_ours(plural));
        let true_ = all.map(|(plural, object)| ((plural, name(&object)), version(&object))).collect();
        if told == true_ {
            Vec::new()
        } else {
            vec![format!("the stream has {told:?}, but the cluster has {true_:?}")]
        }
    }

    /// Returns the deleted objects for which the stream has no message.
    fn unseen(&self) -> Vec<ObjectId> {
        let gone = self.cluster.log().into_iter().filter(|logged| logged.type_ == "DELETED");
        let id = |logged: Logged| {
            let name = logged.object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            let kind = Kind::new(Installation::GROUP, logged.plural);
            ObjectId::new(kind, Some(NAMESPACE), name)
        };
        let is_unseen = |object: &ObjectId| matches!(self.bus.last(object).now_or_never(), Some(Ok(None)));
        gone.map(id).filter(is_unseen).collect()
    }

    /// Returns the items that got an older configuration after a newer one.
    fn went_back(&self) -> Vec<String> {
        let mut sizes = std::collections::HashMap::new();
        let mut problems = Vec::new();
        for logged in self.cluster.log().iter().filter(|logged| logged.plural == "deployitems") {
            let size = logged.object["spec"]["config"]["size"].as_u64().unwrap_or_default();
            let last = sizes.insert(logged.object["metadata"]["uid"].to_string(), size);
            if last.is_some_and(|last| last > size) {
                problems.push(format!("version {} is made from an older spec", logged.version));
            }
        }
        problems
    }

    /// Returns the changes that the periodic check found without an event. If deliveries go to
    /// other replicas, the check may be faster than the event, so nothing is reported.
    fn untold(&self) -> Option<String> {
        let text = self.telemetry.metrics.encode().unwrap_or_default();
        let mut counters = text.lines().filter(|line| line.starts_with("groundwork_untold_changes_total"));
        let count =
            counters.find_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).unwrap_or_default();
        (count > 0 && !self.plan.shares_deliveries())
            .then(|| format!("periodic checks found {count} changes that no event reported"))
    }

    async fn keep_watching(self) {
        for fault in self.plan.watcher.iter().map(Some).chain([None]) {
            let telemetry = Telemetry::silent("watcher");
            let client = client(&self.cluster, &self.chance, "watcher");
            let started = Watcher::start(
                groundwork_watcher::Arguments::default(),
                self.bus.clone(),
                client,
                telemetry.clone(),
            );
            let watcher = started.await.expect("any port will do");
            self.tell("a watcher starts");
            let running = tokio::spawn(async move { watcher.run().await });
            let Some(fault) = fault else { return };
            sleep(fault.after).await;
            if fault.is_asked {
                telemetry.shutdown.request();
            } else {
                running.abort();
            }
            let _ = running.await;
            self.tell("the watcher has ended");
            sleep(fault.down).await;
        }
    }

    async fn keep_rendering(self, replica: usize, faults: Vec<Fault>) {
        for fault in faults.iter().map(Some).chain([None]) {
            let end = CancellationToken::new();
            let controller = self.controller(&format!("{SERVICE} {replica}"));
            self.tell(format!("renderer {replica} starts"));
            let running = tokio::spawn(controller.run(end.clone()));
            let Some(fault) = fault else { return };
            sleep(fault.after).await;
            if fault.is_asked {
                end.cancel();
            } else {
                running.abort();
            }
            let _ = running.await;
            self.tell(format!("renderer {replica} has ended"));
            sleep(fault.down).await;
        }
    }

    fn controller(&self, process: &str) -> Controller {
        let client = client(&self.cluster, &self.chance, process);
        let metrics = Metrics::new(&self.telemetry.metrics, SERVICE);
        let renderers =
            Renderers::here(Kept::new(&self.telemetry.metrics), groundwork_budget::TemplateLimits::default());
        let journal = Journal::start(&self.bus, SERVICE, &self.telemetry);
        let renderings = Renderings { components: None, clusters: None, renderers };
        let handler: Arc<dyn Handler> =
            Arc::new(Installations::new(renderings, Changes::default(), journal, None));
        let handler = match self.rule {
            Rule::Today => handler,
            Rule::OwnDeletionsAreKnown => Arc::new(OldRule { handler, cluster: self.cluster.clone() }),
        };
        Controller {
            bus: self.bus.clone(),
            objects: Objects::new(client, MANAGER, metrics.clone()),
            handler,
            options: Options {
                service: SERVICE,
                work: vec![Kind::of::<Installation>(), Kind::of::<Execution>(), Kind::of::<DeployItem>()],
                indexed: vec![Kind::of::<DataObject>(), Kind::of::<Target>()],
                namespaces: Vec::new(),
                concurrency: 4,
                backoff: Backoff::OBJECT,
            },
            metrics,
            casualties: Casualties::default(),
            ready: self.telemetry.health.condition("index"),
        }
    }

    async fn end_watches(self) {
        for (at, compacts) in &self.plan.endings {
            sleep_until(self.begin + *at).await;
            self.tell(if *compacts {
                "all watches end, and what was is forgotten"
            } else {
                "all watches end"
            });
            self.cluster.end_watches(*compacts);
        }
    }

    async fn rebuild(self) {
        for at in &self.plan.rebuilds {
            sleep_until(self.begin + *at).await;
            self.tell("the stream is another one");
            let _ = self.bus.rebuild().await;
        }
    }

    /// Acts as another replica that takes a delivery, keeps it for a while, and returns it.
    async fn take_deliveries(self) {
        let kinds = [Kind::of::<Installation>(), Kind::of::<Execution>(), Kind::of::<DeployItem>()];
        for (index, (at, hold)) in self.plan.late.iter().enumerate() {
            sleep_until(self.begin + *at).await;
            let Ok(mut queue) = self.bus.work(SERVICE, &kinds[index % kinds.len()]).await else { continue };
            if let Ok(delivery) = tokio::time::timeout(Duration::from_secs(3), queue.next()).await {
                self.tell(format!("the event of {} is late by {hold:?}", delivery.event.object));
                sleep(*hold).await;
                delivery.retry_after(Duration::ZERO).await;
            }
        }
    }

    /// Returns the plan and the log of the run.
    fn story(&self) -> String {
        let mut lines = self.happened.lock().unwrap_or_else(PoisonError::into_inner).clone();
        lines.extend(self.cluster.log().iter().map(|logged| (logged.at - self.begin, change(logged))));
        lines.sort_by_key(|(at, _)| *at);
        let line = |(at, what): &(Duration, String)| format!("{:>8.3} s {what}\n", at.as_secs_f64());
        format!("{:#?}\n{}", self.plan, lines.iter().map(line).collect::<String>())
    }
}

fn change(logged: &Logged) -> String {
    let Logged { version, plural, type_, object, by, .. } = logged;
    let (name, status) = (&object["metadata"]["name"], &object["status"]);
    let going = if object["metadata"]["deletionTimestamp"].is_string() { ", going" } else { "" };
    let error = status["lastError"]["message"].as_str().unwrap_or_default();
    format!("{version} {type_} {plural} {name} {}{going} by {by} {error}", status["phase"])
}
