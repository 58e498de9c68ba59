use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus_client::encoding::text;
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Metric, Registry};

/// Begins every name.
const PREFIX: &str = "groundwork";

/// Upper bounds in seconds for histograms of durations: a bus hop takes milliseconds, a job in a busy cluster minutes.
pub const LATENCY_BUCKETS: [f64; 14] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0];

/// The metrics of a process. Clones share them.
///
/// A crate registers its metrics beside the feature that they measure, and keeps the handle that comes back.
#[derive(Clone, Default)]
pub struct Metrics(Arc<Mutex<Inner>>);

struct Inner {
    registry: Registry,
    known: BTreeMap<&'static str, Known>,
}

struct Known {
    description: MetricDescription,
    /// The metric itself, for those who register it again.
    handle: Box<dyn Any + Send + Sync>,
}

/// What is known of a metric without measuring anything.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct MetricDescription {
    /// The name to query for, such as `groundwork_events_total`; of a histogram without `_bucket`, `_sum`, `_count`.
    pub name: String,
    /// What the metric counts, in one sentence.
    pub help: &'static str,
    /// `counter`, `gauge`, `histogram`, `info` or `unknown`.
    pub kind: &'static str,
    /// Names of the labels.
    pub labels: &'static [&'static str],
}

impl Default for Inner {
    fn default() -> Self {
        Self { registry: Registry::with_prefix(PREFIX), known: BTreeMap::new() }
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.lock().known.keys()).finish()
    }
}

impl Metrics {
    /// Registers a metric, or gives the one that is registered under this name: services of one process share it.
    ///
    /// `name` has neither the prefix `groundwork_` nor the `_total` of counters; units are in it, in base units
    /// (`_seconds`, `_bytes`). `help` is a sentence without full stop. `labels` are the names that the label set of `metric` has; label
    /// values must not hold values of imported objects, nor names of objects (their number has no bound).
    ///
    /// A metric of another type under a name that is taken is a mistake in the program: it is logged, and the metric is not shown.
    pub fn register<M: Metric + Clone>(
        &self,
        name: &'static str,
        help: &'static str,
        labels: &'static [&'static str],
        metric: M,
    ) -> M {
        let mut inner = self.lock();
        if let Some(known) = inner.known.get(name) {
            let handle = known.handle.downcast_ref::<M>().cloned();
            drop(inner);
            return handle.unwrap_or_else(|| {
                tracing::error!(metric = name, "registered twice with different types");
                metric
            });
        }
        let description = describe(name, help, labels, metric.metric_type());
        inner.registry.register(name, help, metric.clone());
        inner.known.insert(name, Known { description, handle: Box::new(metric.clone()) });
        metric
    }

    /// Every metric that has been registered, by name.
    pub fn list(&self) -> Vec<MetricDescription> {
        self.lock().known.values().map(|known| known.description.clone()).collect()
    }

    /// All values in the text form of OpenMetrics 1.0.
    ///
    /// # Errors
    ///
    /// A metric could not be written.
    pub fn encode(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        text::encode(&mut text, &self.lock().registry)?;
        Ok(text)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing is left half done in it by a panic elsewhere.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn describe(
    name: &str,
    help: &'static str,
    labels: &'static [&'static str],
    kind: MetricType,
) -> MetricDescription {
    let (kind, suffix) = match kind {
        MetricType::Counter => ("counter", "_total"),
        MetricType::Gauge => ("gauge", ""),
        MetricType::Histogram => ("histogram", ""),
        MetricType::Info => ("info", "_info"),
        MetricType::Unknown => ("unknown", ""),
    };
    MetricDescription { name: format!("{PREFIX}_{name}{suffix}"), help, kind, labels }
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::counter::Counter;
    use prometheus_client::metrics::family::Family;
    use prometheus_client::metrics::gauge::Gauge;

    use super::*;

    type Events = Family<Vec<(&'static str, &'static str)>, Counter>;

    #[test]
    fn registering_again_gives_the_same_metric() {
        let metrics = Metrics::default();
        let events = || metrics.register("events", "Events that were handled", &["kind"], Events::default());
        let (first, second) = (events(), events());
        first.get_or_create(&vec![("kind", "installations")]).inc();
        second.get_or_create(&vec![("kind", "installations")]).inc();
        let text = metrics.encode().unwrap();
        assert_eq!(
            text,
            "# HELP groundwork_events Events that were handled.\n\
             # TYPE groundwork_events counter\n\
             groundwork_events_total{kind=\"installations\"} 2\n\
             # EOF\n"
        );
    }

    #[test]
    fn list_names_what_can_be_queried() {
        let metrics = Metrics::default();
        metrics.register("queue_length", "Work that waits", &[], Gauge::<i64>::default());
        metrics.register("events", "Events that were handled", &["kind"], Events::default());
        let expected = [
            ("groundwork_events_total", "counter", &["kind"][..]),
            ("groundwork_queue_length", "gauge", &[]),
        ];
        let list = metrics.list();
        let found: Vec<_> = list.iter().map(|metric| (&*metric.name, metric.kind, metric.labels)).collect();
        assert_eq!(found, expected);
    }

    /// The second one must not make the page invalid.
    #[test]
    fn one_name_has_one_type() {
        let metrics = Metrics::default();
        metrics.register("events", "Events", &[], Counter::<u64>::default()).inc();
        metrics.register("events", "Events", &[], Gauge::<i64>::default()).set(7);
        let text = metrics.encode().unwrap();
        assert!(text.contains("groundwork_events_total 1\n") && !text.contains('7'), "{text}");
    }
}
