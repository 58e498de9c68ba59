use std::fmt;
use std::sync::Arc;

use tokio::sync::watch;

/// Readiness of the process: named conditions, all of which must be met.
///
/// Clones share the conditions. A process without conditions is not ready, because it is still
/// starting and has not named them yet.
#[derive(Debug, Clone)]
pub struct Health {
    entries: Arc<watch::Sender<Vec<Entry>>>,
    /// Prefix of the names of new conditions.
    scope: Option<Arc<str>>,
}

#[derive(Debug)]
struct Entry {
    name: String,
    /// Reason that the condition is not met; `None` if it is met.
    problem: Option<String>,
}

/// One condition of [`Health`]. Clones are the same condition.
#[derive(Debug, Clone)]
pub struct Condition {
    entries: Arc<watch::Sender<Vec<Entry>>>,
    index: usize,
}

impl Default for Health {
    fn default() -> Self {
        Self { entries: Arc::new(watch::Sender::new(Vec::new())), scope: None }
    }
}

impl Health {
    /// Returns a handle to the same conditions, whose new ones get the prefix `scope` and a slash.
    /// For services that share a process.
    #[must_use]
    pub fn scoped(&self, scope: &str) -> Self {
        Self { entries: Arc::clone(&self.entries), scope: Some(scope.into()) }
    }

    /// Adds a condition that is not met yet. Every call adds one, even under a name that exists.
    pub fn condition(&self, name: &str) -> Condition {
        let name = match &self.scope {
            Some(scope) => format!("{scope}/{name}"),
            None => name.to_owned(),
        };
        let mut index = 0;
        self.entries.send_modify(|entries| {
            index = entries.len();
            entries.push(Entry { name, problem: Some("starting".to_owned()) });
        });
        Condition { entries: Arc::clone(&self.entries), index }
    }

    /// Returns one sentence, `name: reason`, for each condition that is not met; empty if the
    /// process is ready.
    pub fn problems(&self) -> Vec<String> {
        problems(&self.entries.borrow())
    }

    /// Reports whether all conditions are met.
    pub fn is_ready(&self) -> bool {
        is_ready(&self.entries.borrow())
    }

    /// Waits until all conditions are met.
    pub async fn until_ready(&self) {
        self.until(true).await;
    }

    /// Waits until all conditions are met, or with `ready` false until one is not.
    pub async fn until(&self, ready: bool) {
        // The sender lives as long as `self`, so the wait cannot fail.
        let _ = self.entries.subscribe().wait_for(|entries| is_ready(entries) == ready).await;
    }
}

impl Condition {
    /// Marks the condition as met. The process is ready when all its conditions are.
    pub fn ready(&self) {
        self.set(None);
    }

    /// Marks the condition as not met. Every caller of the health endpoint sees `why`: name the
    /// missing part, without values. Line breaks become spaces.
    pub fn not_ready(&self, why: impl fmt::Display) {
        self.set(Some(why.to_string().replace(['\r', '\n'], " ")));
    }

    fn set(&self, problem: Option<String>) {
        let mut name = None;
        self.entries.send_if_modified(|entries| {
            let Some(entry) = entries.get_mut(self.index).filter(|entry| entry.problem != problem) else {
                return false;
            };
            entry.problem.clone_from(&problem);
            name = Some(entry.name.clone());
            true
        });
        // Log outside of the lock, and only changes.
        let Some(condition) = name else { return };
        match problem {
            None => tracing::info!(condition, "a condition is met"),
            Some(why) => tracing::info!(condition, why, "a condition is not met"),
        }
    }
}

fn is_ready(entries: &[Entry]) -> bool {
    !entries.is_empty() && entries.iter().all(|entry| entry.problem.is_none())
}

fn problems(entries: &[Entry]) -> Vec<String> {
    if entries.is_empty() {
        return vec!["process: starting".to_owned()];
    }
    let unmet = entries.iter().filter_map(|entry| Some((&entry.name, entry.problem.as_ref()?)));
    unmet.map(|(name, why)| format!("{name}: {why}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_when_all_conditions_hold() {
        let health = Health::default();
        assert_eq!(health.problems(), ["process: starting"]);

        let bus = health.condition("bus");
        let api = health.scoped("resolver").condition("api");
        assert_eq!(health.problems(), ["bus: starting", "resolver/api: starting"]);

        bus.ready();
        api.not_ready("line one\nline two");
        assert_eq!(health.problems(), ["resolver/api: line one line two"]);
        assert!(!health.is_ready());

        api.clone().ready();
        assert!(health.is_ready() && health.problems().is_empty());
        bus.not_ready("gone");
        assert_eq!(health.problems(), ["bus: gone"]);
    }

    /// Two services of a process may use the same name; each has a condition of its own.
    #[test]
    fn conditions_of_one_name_are_two() {
        let health = Health::default();
        let (first, second) = (health.condition("bus"), health.condition("bus"));
        first.ready();
        assert_eq!(health.problems(), ["bus: starting"]);
        second.ready();
        assert!(health.is_ready());
    }

    #[tokio::test]
    async fn waits_for_readiness() {
        let health = Health::default();
        let waiting = tokio::spawn({
            let health = health.clone();
            async move { health.until_ready().await }
        });
        let condition = health.condition("bus");
        assert!(!waiting.is_finished());
        condition.ready();
        tokio::time::timeout(std::time::Duration::from_secs(10), waiting).await.unwrap().unwrap();
    }
}
