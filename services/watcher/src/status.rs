//! Status of this replica. The leader and its watches write it; readiness and gRPC calls read it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use groundwork_bus::Interest;
use groundwork_telemetry::Condition;
use tokio::sync::watch;

use crate::ledger::Key;
use crate::metrics::Metrics;
use crate::scopes::Scope;

/// Role of this replica.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Role {
    #[default]
    Starting,
    /// Another replica leads.
    Standby,
    Leading,
}

/// The status of one watch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct WatchState {
    /// True for a kind that services always need. Only watches of these kinds affect readiness.
    pub(crate) is_built_in: bool,
    /// The stream has all objects of the watch, and the sync marker.
    pub(crate) is_synced: bool,
    /// The API server does not have the kind.
    pub(crate) is_missing: bool,
    /// resourceVersion of the last complete list.
    pub(crate) resource_version: String,
    /// Number of existing objects of the watch that the stream has.
    pub(crate) objects: u64,
    /// Reason why the kind cannot be watched now.
    pub(crate) problem: Option<String>,
    /// Objects that are published only in part, or not at all, because their event is too large,
    /// with its size in bytes.
    pub(crate) too_large: BTreeMap<Key, usize>,
}

/// State of this replica.
#[derive(Debug, Clone, Default)]
pub(crate) struct WatcherStatus {
    pub(crate) role: Role,
    /// Problem of all watches, apart from the bus.
    pub(crate) problem: Option<String>,
    /// Reason why records cannot be published now.
    pub(crate) bus_problem: Option<String>,
    /// UID of the namespace that identifies the cluster; see
    /// [`WatchScopes`](crate::scopes::WatchScopes). Empty until it is known.
    pub(crate) cluster_uid: String,
    pub(crate) watches: BTreeMap<Scope, WatchState>,
    /// Requests for watches of further kinds.
    pub(crate) interests: Vec<Interest>,
}

/// A status that several tasks share. Clones refer to the same status.
#[derive(Debug, Clone)]
pub(crate) struct SharedStatus(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    status: Mutex<WatcherStatus>,
    condition: Condition,
    metrics: Metrics,
    changes: watch::Sender<()>,
}

impl SharedStatus {
    pub(crate) fn new(condition: Condition, metrics: Metrics) -> Self {
        let (status, changes) = (Mutex::default(), watch::Sender::new(()));
        Self(Arc::new(Inner { status, condition, metrics, changes }))
    }

    /// Changes the status, updates the readiness, and wakes waiting readers.
    pub(crate) fn update<T>(&self, change: impl FnOnce(&mut WatcherStatus) -> T) -> T {
        let mut status = self.lock();
        let result = change(&mut status);
        // Set the readiness under the lock, so that an older status never overwrites a newer one.
        match status.not_ready_reason() {
            Some(reason) => self.0.condition.not_ready(reason),
            None => self.0.condition.ready(),
        }
        drop(status);
        self.0.changes.send_replace(());
        result
    }

    /// Changes the status of a watch, unless it has been stopped meanwhile.
    pub(crate) fn update_watch(&self, scope: &Scope, change: impl FnOnce(&mut WatchState)) {
        self.update(|status| {
            if let Some(watch) = status.watches.get_mut(scope) {
                change(watch);
            }
        });
    }

    /// Sets the number of objects of a watch. This is cheap: readiness does not depend on the
    /// number, and readers do not wait for it, so none is woken.
    pub(crate) fn set_object_count(&self, scope: &Scope, objects: u64) {
        let mut status = self.lock();
        if let Some(watch) = status.watches.get_mut(scope) {
            watch.objects = objects;
        }
        let of_kind = status.watches.iter().filter(|(other, _)| other.kind == scope.kind);
        let total = of_kind.map(|(_, watch)| watch.objects).sum();
        drop(status);
        self.0.metrics.objects(&scope.kind, total);
    }

    /// Sets or clears the reason why records cannot be published, and logs changes.
    pub(crate) fn set_bus_problem(&self, problem: Option<String>) {
        if self.lock().bus_problem != problem {
            match &problem {
                Some(problem) => tracing::warn!(problem, "the watcher cannot publish; trying again"),
                None => tracing::info!("the watcher can publish again"),
            }
            self.update(|status| status.bus_problem = problem);
        }
    }

    pub(crate) fn read<T>(&self, read: impl FnOnce(&WatcherStatus) -> T) -> T {
        read(&self.lock())
    }

    /// Returns the other watches whose problem contains this text, in the order of their scopes.
    pub(crate) fn other_watches_with_problem(&self, scope: &Scope, text: &str) -> Vec<Scope> {
        let has = |watch: &WatchState| {
            !watch.is_missing && watch.problem.as_ref().is_some_and(|problem| problem.contains(text))
        };
        let status = self.lock();
        let others = status.watches.iter().filter(|(other, watch)| *other != scope && has(watch));
        others.map(|(other, _)| other.clone()).collect()
    }

    /// Returns a receiver that wakes on each change of the status from now on.
    pub(crate) fn subscribe(&self) -> watch::Receiver<()> {
        self.0.changes.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, WatcherStatus> {
        // Every change is a plain assignment, so a panic elsewhere cannot leave a half-done change,
        // and a poisoned lock is ignored.
        self.0.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WatcherStatus {
    /// Returns the reason why this replica is not ready; `None` if it is.
    fn not_ready_reason(&self) -> Option<String> {
        match self.role {
            Role::Starting => return Some(self.problem.clone().unwrap_or_else(|| "starting".to_owned())),
            Role::Standby => return self.problem.clone(),
            Role::Leading => {}
        }
        if let Some(problem) = self.bus_problem.as_ref().or(self.problem.as_ref()) {
            return Some(problem.clone());
        }
        let reasons: Vec<String> =
            self.watches.iter().filter_map(|(scope, watch)| watch.not_ready_reason(scope)).collect();
        match reasons.as_slice() {
            [] => None,
            [one] => Some(one.clone()),
            [first, more @ ..] => Some(format!("{first}; and {} more", more.len())),
        }
    }
}

impl WatchState {
    fn not_ready_reason(&self, scope: &Scope) -> Option<String> {
        if !self.is_built_in || self.is_missing {
            return None;
        }
        match &self.problem {
            Some(problem) => Some(problem.clone()),
            None => (!self.is_synced).then(|| format!("{scope}: not all objects are on the stream yet")),
        }
    }
}

#[cfg(test)]
mod tests {
    use groundwork_bus::Kind;
    use groundwork_telemetry::Telemetry;

    use super::*;

    #[test]
    fn readiness_follows_the_watches() {
        let telemetry = Telemetry::silent("watcher");
        let status =
            SharedStatus::new(telemetry.health.condition("stream"), Metrics::new(&telemetry.metrics));
        let scope = |plural: &str| Scope { kind: Kind::new("", plural), namespace: None };
        let problems = || telemetry.health.problems().join("\n");
        assert_eq!(problems(), "stream: starting");
        status.update(|status| {
            status.role = Role::Leading;
            for (plural, is_built_in) in [("secrets", true), ("pods", false), ("configmaps", true)] {
                let state = WatchState { is_built_in, ..WatchState::default() };
                status.watches.insert(scope(plural), state);
            }
        });
        assert_eq!(
            problems(),
            "stream: configmaps in all namespaces: not all objects are on the stream yet; and 1 more"
        );
        status.update_watch(&scope("configmaps"), |watch| watch.is_synced = true);
        status.update_watch(&scope("secrets"), |watch| watch.is_missing = true);
        assert_eq!(problems(), "");
        status.update_watch(&scope("pods"), |watch| watch.problem = Some("x".into()));
        assert_eq!(problems(), "");
        assert_eq!(status.other_watches_with_problem(&scope("secrets"), "x"), [scope("pods")]);
        assert!(status.other_watches_with_problem(&scope("pods"), "x").is_empty());
        status.update_watch(&scope("pods"), |watch| {
            watch.too_large.insert(Key::new(Some("n"), "a"), 70_000);
        });
        assert_eq!(problems(), "", "what one object is does not concern the others");
        status.set_bus_problem(Some("away".into()));
        assert_eq!(problems(), "stream: away");
        status.update(|status| status.role = Role::Standby);
        assert_eq!(problems(), "");
    }
}
