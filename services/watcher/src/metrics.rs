//! Metrics of the watcher.

use std::time::Duration;

use groundwork_bus::Kind;
use groundwork_telemetry::{LATENCY_BUCKETS, Metrics as Registry};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

#[derive(Debug, Clone)]
pub(crate) struct Metrics {
    published: Family<Published, Counter>,
    latency: Histogram,
    objects: Family<OfKind, Gauge>,
    lists: Family<OfKind, Counter>,
    leading: Gauge,
    swept: Counter,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Published {
    kind: String,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfKind {
    kind: String,
}

impl Metrics {
    pub(crate) fn new(registry: &Registry) -> Self {
        let by_kind = &["kind"][..];
        Self {
            published: registry.register(
                "watcher_published",
                "Attempts to publish a change, by outcome: stored, duplicate, superseded, too_large, unavailable, failed",
                &["kind", "outcome"],
                Family::default(),
            ),
            latency: registry.register(
                "watcher_publish_seconds",
                "From the sight of a change until the stream has it",
                &[],
                Histogram::new(LATENCY_BUCKETS),
            ),
            objects: registry.register(
                "watcher_objects",
                "Objects on the stream that exist",
                by_kind,
                Family::default(),
            ),
            lists: registry.register(
                "watcher_lists",
                "Complete lists that were read from the API server",
                by_kind,
                Family::default(),
            ),
            leading: registry.register(
                "watcher_leading",
                "1 while this replica publishes, 0 while it stands by",
                &[],
                Gauge::default(),
            ),
            swept: registry.register(
                "watcher_swept_consumers",
                "Stray consumers of the stream that were deleted",
                &[],
                Counter::default(),
            ),
        }
    }

    pub(crate) fn swept(&self, consumers: usize) {
        self.swept.inc_by(u64::try_from(consumers).unwrap_or(u64::MAX));
    }

    pub(crate) fn published(&self, kind: &Kind, outcome: &'static str) {
        self.published.get_or_create(&Published { kind: kind.to_string(), outcome }).inc();
    }

    pub(crate) fn latency(&self, duration: Duration) {
        self.latency.observe(duration.as_secs_f64());
    }

    pub(crate) fn objects(&self, kind: &Kind, count: u64) {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        self.objects.get_or_create(&OfKind { kind: kind.to_string() }).set(count);
    }

    pub(crate) fn listed(&self, kind: &Kind) {
        self.lists.get_or_create(&OfKind { kind: kind.to_string() }).inc();
    }

    pub(crate) fn leading(&self, is_leading: bool) {
        self.leading.set(i64::from(is_leading));
    }
}
