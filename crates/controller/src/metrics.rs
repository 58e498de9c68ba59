use std::collections::HashSet;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use groundwork_telemetry::{LATENCY_BUCKETS, Metrics as Registry};

/// Metrics of a controller.
#[derive(Debug, Clone)]
pub struct Metrics {
    service: &'static str,
    handled: Family<Handled, Counter>,
    duration: Family<Service, Histogram, fn() -> Histogram>,
    reaction: Family<Service, Histogram, fn() -> Histogram>,
    known: Family<Service, Counter>,
    untold: Family<Service, Counter>,
    keys: Family<Service, Gauge>,
    full_shares: Family<Share, Gauge>,
    requests: Family<Request, Counter>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Service {
    service: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Share {
    service: &'static str,
    namespace: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Handled {
    service: &'static str,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Request {
    service: &'static str,
    verb: &'static str,
    resource: String,
    outcome: &'static str,
}

fn seconds() -> Histogram {
    Histogram::new(LATENCY_BUCKETS)
}

impl Metrics {
    /// Registers the metrics of controllers, or returns those that another service of the process
    /// has registered.
    pub fn new(registry: &Registry, service: &'static str) -> Self {
        let by_service = &["service"][..];
        let histogram = || Family::new_with_constructor(seconds as fn() -> Histogram);
        let metrics = Self {
            service,
            handled: registry.register(
                "handled",
                "Attempts to reconcile a work key, by outcome: settled, yielded, conflict, failed",
                &["service", "outcome"],
                Family::default(),
            ),
            duration: registry.register(
                "handle_seconds",
                "Duration of one attempt to reconcile a work key",
                by_service,
                histogram(),
            ),
            reaction: registry.register(
                "reaction_seconds",
                "Time from the watcher's sight of a change to the start of its handling",
                by_service,
                histogram(),
            ),
            known: registry.register(
                "known_events",
                "Events without news, which were not handled",
                by_service,
                Family::default(),
            ),
            untold: registry.register(
                "untold_changes",
                "Rechecks of unfinished objects without a request, which wrote a change that no event reported within \
                 ten seconds",
                by_service,
                Family::default(),
            ),
            keys: registry.register(
                "work_keys",
                "Work keys that wait, run or pause",
                by_service,
                Family::default(),
            ),
            full_shares: registry.register(
                "full_shares",
                "Work keys that wait because their namespace uses all its places; namespaces with places left are not \
                 shown",
                &["service", "namespace"],
                Family::default(),
            ),
            requests: registry.register(
                "api_requests",
                "Requests to the API server, watches not counted",
                &["service", "verb", "resource", "outcome"],
                Family::default(),
            ),
        };
        // Create the counters now, so that they show 0 instead of being absent.
        for counter in [&metrics.known, &metrics.untold] {
            counter.get_or_create(&Service { service }).inc_by(0);
        }
        metrics
    }

    pub(crate) fn handled(&self, outcome: &'static str, duration: Duration) {
        let service = self.service;
        self.handled.get_or_create(&Handled { service, outcome }).inc();
        self.duration.get_or_create(&Service { service }).observe(duration.as_secs_f64());
    }

    pub(crate) fn reaction(&self, duration: Duration) {
        self.reaction.get_or_create(&Service { service: self.service }).observe(duration.as_secs_f64());
    }

    pub(crate) fn known(&self) {
        self.known.get_or_create(&Service { service: self.service }).inc();
    }

    pub(crate) fn untold(&self) {
        self.untold.get_or_create(&Service { service: self.service }).inc();
    }

    pub(crate) fn keys(&self, count: usize) {
        self.keys
            .get_or_create(&Service { service: self.service })
            .set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Sets the metric of each namespace that uses its whole share of a queue to the number of keys
    /// that wait for the share. Sets the sum without a namespace label, and resets namespaces that
    /// were set before and no longer wait.
    pub(crate) fn full_shares<'a>(
        &self,
        queue: &'static str,
        told: &mut HashSet<String>,
        shares: impl Iterator<Item = (&'a str, usize)>,
    ) {
        let share = |namespace: &str| Share { service: queue, namespace: namespace.to_owned() };
        let tell = |namespace: &str, waiting: usize| {
            let gauge = self.full_shares.get_or_create(&share(namespace));
            gauge.set(i64::try_from(waiting).unwrap_or(i64::MAX));
        };
        let before = std::mem::take(told);
        let mut sum = 0;
        for (namespace, waiting) in shares.filter(|(namespace, _)| !namespace.is_empty()) {
            tell(namespace, waiting);
            sum += waiting;
            told.insert(namespace.to_owned());
        }
        tell("", sum);
        for namespace in before.difference(told) {
            self.full_shares.remove(&share(namespace));
        }
    }

    pub(crate) fn request(&self, verb: &'static str, resource: &str, outcome: &'static str) {
        let request = Request { service: self.service, verb, resource: resource.to_owned(), outcome };
        self.requests.get_or_create(&request).inc();
    }
}
