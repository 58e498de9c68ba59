//! Readiness of a controller: it needs its index and every one of its queues.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::{Arc, Mutex, PoisonError};

use groundwork_bus::Kind;
use groundwork_telemetry::Condition;

/// Problems that keep a controller from working, combined in one condition. Clones share it.
#[derive(Clone)]
pub(crate) struct Readiness(Arc<Inner>);

struct Inner {
    condition: Condition,
    problems: Mutex<Problems>,
}

struct Problems {
    index: Option<String>,
    queues: BTreeMap<Kind, String>,
}

impl Readiness {
    /// Creates the readiness of a controller that waits for its index. The queues are opened after
    /// that.
    pub(crate) fn new(condition: Condition) -> Self {
        let index = Some("the index has not been read yet".to_owned());
        let problems = Mutex::new(Problems { index, queues: BTreeMap::new() });
        Self(Arc::new(Inner { condition, problems }))
    }

    /// Sets the reason why the index is incomplete; `None` if it is complete.
    pub(crate) fn index(&self, problem: Option<&dyn Display>) {
        self.change(|problems| problems.index = problem.map(ToString::to_string));
    }

    /// Sets the reason why events of a kind cannot be pulled; `None` if they can.
    pub(crate) fn queue(&self, kind: &Kind, problem: Option<&dyn Display>) {
        self.change(|problems| match problem {
            Some(problem) => drop(problems.queues.insert(kind.clone(), problem.to_string())),
            None => drop(problems.queues.remove(kind)),
        });
    }

    fn change(&self, change: impl FnOnce(&mut Problems)) {
        let mut problems = self.0.problems.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut problems);
        // Set the condition under the lock, so that an older state never overwrites a newer one.
        match (&problems.index, problems.queues.first_key_value()) {
            (Some(index), _) => self.0.condition.not_ready(index),
            (None, Some((kind, problem))) => {
                self.0.condition.not_ready(format!("cannot take work for {kind} from the bus: {problem}"));
            }
            (None, None) => self.0.condition.ready(),
        }
    }
}

#[cfg(test)]
mod tests {
    use groundwork_telemetry::Telemetry;

    use super::*;

    #[test]
    fn it_is_ready_with_its_index_and_all_of_its_queues() {
        let telemetry = Telemetry::silent("test");
        let readiness = Readiness::new(telemetry.health.condition("index"));
        let problems = || telemetry.health.problems().join("\n");
        let (pods, secrets) = (Kind::new("", "pods"), Kind::new("", "secrets"));
        readiness.index(None);
        assert_eq!(problems(), "");
        readiness.queue(&secrets, Some(&"the consumer is missing"));
        readiness.queue(&pods, Some(&"away"));
        assert_eq!(problems(), "index: cannot take work for pods from the bus: away");
        readiness.queue(&pods, None);
        assert_eq!(problems(), "index: cannot take work for secrets from the bus: the consumer is missing");
        readiness.index(Some(&"rebuilt"));
        assert_eq!(problems(), "index: rebuilt");
        readiness.index(None);
        readiness.queue(&secrets, None);
        assert_eq!(problems(), "");
    }
}
