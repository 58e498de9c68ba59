//! Whether a controller can do its work: it has its index, and every one of its queues.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::{Arc, Mutex, PoisonError};

use groundwork_bus::Kind;
use groundwork_telemetry::Condition;

/// What stands in the way, in one condition. Clones are the same.
#[derive(Clone)]
pub(crate) struct Readiness(Arc<Inner>);

struct Inner {
    condition: Condition,
    troubles: Mutex<Troubles>,
}

struct Troubles {
    index: Option<String>,
    queues: BTreeMap<Kind, String>,
}

impl Readiness {
    /// Waiting for the index; queues are opened when it is there.
    pub(crate) fn new(condition: Condition) -> Self {
        let index = Some("the index has not been read yet".to_owned());
        let troubles = Mutex::new(Troubles { index, queues: BTreeMap::new() });
        Self(Arc::new(Inner { condition, troubles }))
    }

    pub(crate) fn index(&self, trouble: Option<&dyn Display>) {
        self.change(|troubles| troubles.index = trouble.map(ToString::to_string));
    }

    pub(crate) fn queue(&self, kind: &Kind, trouble: Option<&dyn Display>) {
        self.change(|troubles| match trouble {
            Some(trouble) => drop(troubles.queues.insert(kind.clone(), trouble.to_string())),
            None => drop(troubles.queues.remove(kind)),
        });
    }

    fn change(&self, change: impl FnOnce(&mut Troubles)) {
        let mut troubles = self.0.troubles.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut troubles);
        // Under the lock, so that an older state never overtakes a newer one.
        match (&troubles.index, troubles.queues.first_key_value()) {
            (Some(index), _) => self.0.condition.not_ready(index),
            (None, Some((kind, trouble))) => {
                self.0.condition.not_ready(format!("no work of {kind} can be taken from the bus: {trouble}"));
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
        assert_eq!(problems(), "index: no work of pods can be taken from the bus: away");
        readiness.queue(&pods, None);
        assert_eq!(
            problems(),
            "index: no work of secrets can be taken from the bus: the consumer is missing"
        );
        readiness.index(Some(&"rebuilt"));
        assert_eq!(problems(), "index: rebuilt");
        readiness.index(None);
        readiness.queue(&secrets, None);
        assert_eq!(problems(), "");
    }
}
