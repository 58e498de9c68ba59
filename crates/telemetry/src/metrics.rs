use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus_client::encoding::text;
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Metric, Registry};

/// Prefix of every name.
const PREFIX: &str = "groundwork";

/// Upper bounds in seconds for histograms of durations: a hop over the bus takes milliseconds, a
/// job in a busy cluster minutes.
pub const LATENCY_BUCKETS: [f64; 14] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0];

/// Metrics of a process. Clones share them.
///
/// Each crate registers its metrics beside the code that they measure, and keeps the returned
/// handle.
#[derive(Clone, Default)]
pub struct Metrics(Arc<Mutex<Inner>>);

struct Inner {
    registry: Registry,
    known: BTreeMap<&'static str, Known>,
}

struct Known {
    description: MetricDescription,
    /// The metric, which a second registration under the same name gets.
    handle: Box<dyn Any + Send + Sync>,
}

/// Description of a metric, without its values.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct MetricDescription {
    /// Name for queries, such as `groundwork_events_total`; for a histogram without `_bucket`,
    /// `_sum`, `_count`.
    pub name: String,
    /// Meaning of the metric, in one sentence.
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
    /// Registers a metric, or returns the one that is registered under this name: services of one
    /// process share it.
    ///
    /// `name` has neither the prefix `groundwork_` nor the suffix `_total` of counters; it ends in
    /// the base unit (`_seconds`, `_bytes`). `help` is a sentence without full stop. `labels` are
    /// the names of the labels of `metric`. Label values must never contain values of imported
    /// objects, or names of objects, whose number is unlimited.
    ///
    /// A metric of another type under an existing name is a programming error, which is logged;
    /// that metric is not shown.
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
                tracing::error!(metric = name, "a metric is registered twice with different types");
                metric
            });
        }
        let description = describe(name, help, labels, metric.metric_type());
        inner.registry.register(name, help, metric.clone());
        inner.known.insert(name, Known { description, handle: Box::new(metric.clone()) });
        metric
    }

    /// Lists all registered metrics by name.
    pub fn list(&self) -> Vec<MetricDescription> {
        self.lock().known.values().map(|known| known.description.clone()).collect()
    }

    /// Encodes all values in the text format of OpenMetrics 1.0.
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
        // A panic elsewhere cannot leave the map inconsistent, so a poisoned lock can be used.
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

    /// A second registration of another type must not make the output invalid.
    #[test]
    fn one_name_has_one_type() {
        let metrics = Metrics::default();
        metrics.register("events", "Events", &[], Counter::<u64>::default()).inc();
        metrics.register("events", "Events", &[], Gauge::<i64>::default()).set(7);
        let text = metrics.encode().unwrap();
        assert!(text.contains("groundwork_events_total 1\n") && !text.contains('7'), "{text}");
    }
}
