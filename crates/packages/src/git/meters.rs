//! Metrics of a store (`packagevariants.md` 9.3).

use std::time::Duration;

use groundwork_telemetry::{LATENCY_BUCKETS, Metrics};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;

use crate::git::remote::RemoteError;

/// Metrics of a store. Clones share them; the default ones are not registered.
#[derive(Debug, Clone)]
pub struct Meters {
    git: Family<Call, Histogram, fn() -> Histogram>,
    pushes: Family<Pushed, Counter>,
    renderings: Family<Rendering, Histogram, fn() -> Histogram>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Call {
    operation: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Pushed {
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Rendering {
    outcome: &'static str,
}

fn seconds() -> Histogram {
    Histogram::new(LATENCY_BUCKETS)
}

impl Default for Meters {
    fn default() -> Self {
        Self::new(&Metrics::default())
    }
}

impl Meters {
    /// Registers the metrics of a store.
    pub fn new(registry: &Metrics) -> Self {
        Self {
            git: registry.register(
                "package_git_seconds",
                "Duration of one call of git, by what it does: init, ls-remote, fetch, push, update-ref, gc",
                &["operation"],
                Family::new_with_constructor(seconds as fn() -> Histogram),
            ),
            pushes: registry.register(
                "package_changes",
                "Changes of refs that writers asked for, by outcome: pushed, conflict, declined, failed; many go out with one call of git",
                &["outcome"],
                Family::default(),
            ),
            renderings: registry.register(
                "package_render_seconds",
                "Duration of one run of all functions of a package, by outcome: succeeded, failed",
                &["outcome"],
                Family::new_with_constructor(seconds as fn() -> Histogram),
            ),
        }
    }

    /// Counts one call of `git`, by its subcommand.
    pub(crate) fn git(&self, arguments: &[&str], duration: Duration) {
        let known = ["init", "ls-remote", "fetch", "push", "update-ref", "gc"];
        let operation = known.into_iter().find(|name| arguments.contains(name)).unwrap_or("other");
        self.git.get_or_create(&Call { operation }).observe(duration.as_secs_f64());
    }

    /// Counts the result of one writer's push.
    pub(crate) fn pushed(&self, answer: &Result<(), RemoteError>) {
        let outcome = match answer {
            Ok(()) => "pushed",
            Err(RemoteError::Stale(_)) => "conflict",
            Err(RemoteError::Declined(_)) => "declined",
            Err(_) => "failed",
        };
        self.pushes.get_or_create(&Pushed { outcome }).inc();
    }

    pub(crate) fn rendered(&self, succeeded: bool, duration: Duration) {
        let outcome = if succeeded { "succeeded" } else { "failed" };
        self.renderings.get_or_create(&Rendering { outcome }).observe(duration.as_secs_f64());
    }
}
