//! Schedule for reading a repository (`packagevariants.md` 1.4, 6.10).

use std::time::Duration;

use groundwork_api::{Repository, Time};
use groundwork_go::cron::Cron;
use jiff::Timestamp;

/// Interval of syncs for repositories without a schedule. Pushes of this store are known at once
/// and do not wait for it.
const POLL: Duration = Duration::from_secs(60);

/// Schedule from `spec.sync`, as of now.
#[derive(Debug, PartialEq)]
pub(super) struct Schedule {
    /// Pause before the next sync, unless a change comes first.
    pub(super) pause: Duration,
    /// Value for `status.nextFullSyncTime`. `None` without a schedule by the user, since the time
    /// would change every minute.
    pub(super) next: Option<Time>,
    /// Value for `status.observedRunOnceAt`: the requested single sync that this sync fulfils.
    pub(super) run_once: Option<Time>,
    /// Reason why the schedule cannot be followed.
    pub(super) problem: Option<String>,
}

impl Schedule {
    pub(super) fn of(repository: &Repository, now: Timestamp) -> Self {
        let sync = repository.spec.sync.clone().unwrap_or_default();
        let (scheduled, problem) = match sync.schedule.as_deref().filter(|text| !text.trim().is_empty()) {
            None => (None, None),
            Some(text) => match due(text, now) {
                Ok(next) => (Some(next), None),
                Err(problem) => {
                    let rest = "the repository is read once a minute";
                    (None, Some(format!("spec.sync.schedule: {text:?}: {problem}; {rest}")))
                }
            },
        };
        let before = repository.status.as_ref().and_then(|status| status.observed_run_once_at.clone());
        let (once, run_once) = match sync.run_once_at {
            Some(Time(at)) if at > now => (Some(at), before),
            done => (None, done),
        };
        let asked = scheduled.into_iter().chain(once).min();
        // A requested single sync comes in addition to the regular ones.
        let next = scheduled.unwrap_or_else(|| now.saturating_add(POLL).unwrap_or(Timestamp::MAX));
        let next = once.map_or(next, |once| once.min(next));
        let pause = Duration::try_from(next.duration_since(now)).unwrap_or_default();
        // At least one second: a clock that is a little behind would otherwise sync twice.
        Self { pause: pause.max(Duration::from_secs(1)), next: asked.map(Time), run_once, problem }
    }
}

fn due(expression: &str, now: Timestamp) -> Result<Timestamp, String> {
    let cron: Cron = expression.parse()?;
    cron.next_after(now).ok_or_else(|| "no such time comes within five years".to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn schedule(sync: &Value, observed: Option<&str>) -> Schedule {
        let object = json!({
            "metadata": {"name": "edge"},
            "spec": {"type": "git", "sync": sync},
            "status": {"observedRunOnceAt": observed},
        });
        let now = "2026-01-01T02:00:30Z".parse().unwrap();
        Schedule::of(&serde_json::from_value(object).unwrap(), now)
    }

    fn expected(pause: u64, next: Option<&str>, run_once: Option<&str>) -> Schedule {
        let time = |text: &str| Time(text.parse().unwrap());
        Schedule {
            pause: Duration::from_secs(pause),
            next: next.map(time),
            run_once: run_once.map(time),
            problem: None,
        }
    }

    #[test]
    fn wishes() {
        let (past, future) = ("2026-01-01T02:00:00Z", "2026-01-01T02:00:40Z");
        for (sync, observed, expected) in [
            (json!(null), None, expected(60, None, None)),
            (
                json!({"schedule": "30 2 * * *"}),
                None,
                expected(29 * 60 + 30, Some("2026-01-01T02:30:00Z"), None),
            ),
            (json!({"runOnceAt": past}), None, expected(60, None, Some(past))),
            (json!({"runOnceAt": future}), Some(past), expected(10, Some(future), Some(past))),
            (json!({"runOnceAt": future, "schedule": "@daily"}), None, expected(10, Some(future), None)),
            (
                json!({"runOnceAt": past, "schedule": "@hourly"}),
                None,
                expected(3570, Some("2026-01-01T03:00:00Z"), Some(past)),
            ),
        ] {
            assert_eq!(schedule(&sync, observed), expected, "{sync}");
        }
    }

    #[test]
    fn what_cannot_be_followed_is_told() {
        for (text, problem) in [
            (
                "daily",
                "spec.sync.schedule: \"daily\": five fields are expected (minute, hour, day of month, month, day of week), found 1; the repository is read once a minute",
            ),
            (
                "0 0 30 2 *",
                "spec.sync.schedule: \"0 0 30 2 *\": no such time comes within five years; the repository is read once a minute",
            ),
        ] {
            let found = schedule(&json!({"schedule": text}), None);
            assert_eq!(found.problem.as_deref(), Some(problem));
            assert_eq!(found.pause, POLL);
        }
    }
}
