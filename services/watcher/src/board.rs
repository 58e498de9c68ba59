//! How it stands: shared by the watches that write it, and by readiness and calls that read it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use groundwork_bus::Interest;
use groundwork_telemetry::Condition;
use tokio::sync::watch;

use crate::ledger::Key;
use crate::metrics::Metrics;
use crate::source::Scope;

/// What this replica does.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Role {
    #[default]
    Starting,
    /// Another one leads.
    Standby,
    Leading,
}

/// How one watch stands.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct WatchState {
    /// Services cannot do without.
    pub(crate) is_built_in: bool,
    /// The stream has all of its objects and the marker.
    pub(crate) is_synced: bool,
    /// The API server does not have the kind.
    pub(crate) is_missing: bool,
    /// Of the last complete list.
    pub(crate) resource_version: String,
    pub(crate) objects: u64,
    pub(crate) problem: Option<String>,
    /// Objects whose event is too large, with its size in bytes.
    pub(crate) too_large: BTreeMap<Key, usize>,
}

/// Everything.
#[derive(Debug, Clone, Default)]
pub(crate) struct Content {
    pub(crate) role: Role,
    /// What concerns all watches.
    pub(crate) problem: Option<String>,
    /// What is wrong with the bus.
    pub(crate) bus: Option<String>,
    pub(crate) cluster: String,
    pub(crate) watches: BTreeMap<Scope, WatchState>,
    /// Who asked for watches.
    pub(crate) interests: Vec<Interest>,
}

/// The shared state. Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Board(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    content: Mutex<Content>,
    condition: Condition,
    metrics: Metrics,
    changes: watch::Sender<()>,
}

impl Board {
    pub(crate) fn new(condition: Condition, metrics: Metrics) -> Self {
        let (content, changes) = (Mutex::default(), watch::Sender::new(()));
        Self(Arc::new(Inner { content, condition, metrics, changes }))
    }

    /// Changes something; readiness follows.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Content) -> T) -> T {
        let mut content = self.lock();
        let result = change(&mut content);
        // Under the lock, so that an older state never overtakes a newer one.
        match content.trouble() {
            Some(trouble) => self.0.condition.not_ready(trouble),
            None => self.0.condition.ready(),
        }
        drop(content);
        self.0.changes.send_replace(());
        result
    }

    pub(crate) fn change_watch(&self, scope: &Scope, change: impl FnOnce(&mut WatchState)) {
        self.change(|content| {
            if let Some(watch) = content.watches.get_mut(scope) {
                change(watch);
            }
        });
    }

    /// Number of objects of a watch.
    pub(crate) fn count(&self, scope: &Scope, objects: u64) {
        let mut content = self.lock();
        if let Some(watch) = content.watches.get_mut(scope) {
            watch.objects = objects;
        }
        let same = content.watches.iter().filter(|(other, _)| other.kind == scope.kind);
        let total = same.map(|(_, watch)| watch.objects).sum();
        drop(content);
        self.0.metrics.objects(&scope.kind, total);
    }

    /// What is wrong with the bus. The same again is nothing new.
    pub(crate) fn bus(&self, problem: Option<String>) {
        if self.lock().bus != problem {
            match &problem {
                Some(problem) => tracing::warn!(problem, "cannot publish; trying again"),
                None => tracing::info!("can publish again"),
            }
            self.change(|content| content.bus = problem);
        }
    }

    pub(crate) fn read<T>(&self, read: impl FnOnce(&Content) -> T) -> T {
        read(&self.lock())
    }

    /// The other watches whose problem has these words, in order.
    pub(crate) fn others_with(&self, scope: &Scope, words: &str) -> Vec<Scope> {
        let has = |watch: &WatchState| {
            !watch.is_missing && watch.problem.as_ref().is_some_and(|problem| problem.contains(words))
        };
        let content = self.lock();
        let others = content.watches.iter().filter(|(other, watch)| *other != scope && has(watch));
        others.map(|(other, _)| other.clone()).collect()
    }

    /// Tells of changes from now on.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.0.changes.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, Content> {
        // Nothing is left half done in it by a panic elsewhere.
        self.0.content.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Content {
    /// Why this replica does not do its work.
    fn trouble(&self) -> Option<String> {
        match self.role {
            Role::Starting => return Some(self.problem.clone().unwrap_or_else(|| "starting".to_owned())),
            Role::Standby => return self.problem.clone(),
            Role::Leading => {}
        }
        if let Some(problem) = self.bus.as_ref().or(self.problem.as_ref()) {
            return Some(problem.clone());
        }
        let troubles: Vec<String> =
            self.watches.iter().filter_map(|(scope, watch)| watch.trouble(scope)).collect();
        match troubles.as_slice() {
            [] => None,
            [one] => Some(one.clone()),
            [first, more @ ..] => Some(format!("{first}; and {} more", more.len())),
        }
    }
}

impl WatchState {
    fn trouble(&self, scope: &Scope) -> Option<String> {
        if let Some((key, size)) = self.too_large.first_key_value() {
            return Some(format!(
                "the event of {} {key} has {size} bytes, more than the {} that an event may have: shorten its labels, annotations, \
                 finalizers or references",
                scope.kind,
                groundwork_bus::LARGEST
            ));
        }
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
        let board = Board::new(telemetry.health.condition("stream"), Metrics::new(&telemetry.metrics));
        let scope = |plural: &str| Scope { kind: Kind::new("", plural), namespace: None };
        let problems = || telemetry.health.problems().join("\n");
        assert_eq!(problems(), "stream: starting");
        board.change(|content| {
            content.role = Role::Leading;
            for (plural, is_built_in) in [("secrets", true), ("pods", false), ("configmaps", true)] {
                let state = WatchState { is_built_in, ..WatchState::default() };
                content.watches.insert(scope(plural), state);
            }
        });
        assert_eq!(
            problems(),
            "stream: configmaps in all namespaces: not all objects are on the stream yet; and 1 more"
        );
        board.change_watch(&scope("configmaps"), |watch| watch.is_synced = true);
        board.change_watch(&scope("secrets"), |watch| watch.is_missing = true);
        assert_eq!(problems(), "");
        board.change_watch(&scope("pods"), |watch| watch.problem = Some("x".into()));
        assert_eq!(problems(), "");
        assert_eq!(board.others_with(&scope("secrets"), "x"), [scope("pods")]);
        assert!(board.others_with(&scope("pods"), "x").is_empty());
        board.change_watch(&scope("pods"), |watch| {
            watch.too_large.insert(Key::new(Some("n"), "a"), 70_000);
        });
        assert!(problems().starts_with("stream: the event of pods n/a has 70000 bytes"), "{}", problems());
        board.bus(Some("away".into()));
        assert_eq!(problems(), "stream: away");
        board.change(|content| content.role = Role::Standby);
        assert_eq!(problems(), "");
    }
}
