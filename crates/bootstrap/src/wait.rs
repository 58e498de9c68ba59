//! Waits until servers on the network are up.
//!
//! Uses only the standard library, so that the program `groundwork-wait` adds only half a megabyte
//! to an image. `groundwork wait` does TLS and Kubernetes.

mod target;

use std::fmt;
use std::time::{Duration, Instant};

pub use target::{Target, TargetError};

/// Time limit of one attempt.
const ATTEMPT: Duration = Duration::from_secs(2);
/// Pause between two rounds.
const PAUSE: Duration = Duration::from_millis(200);

/// Servers that did not come up in time, with their last answers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not up after {} s: {}", limit.as_secs(), list(missing))]
pub struct NotUp {
    /// Time limit that has passed.
    pub limit: Duration,
    /// Name and last answer of each server.
    pub missing: Vec<(String, String)>,
}

fn list(missing: &[(String, String)]) -> String {
    missing.iter().map(|(name, reason)| format!("{name} ({reason})")).collect::<Vec<_>>().join("; ")
}

/// Asks every 200 ms until all targets are up, and at least once even if `limit` is zero. `ask`
/// returns the reason that a target is not up yet.
///
/// # Errors
/// The targets that were not up in time.
pub fn wait<T: fmt::Display>(
    targets: &[T],
    limit: Duration,
    mut ask: impl FnMut(&T, Duration) -> Result<(), String>,
) -> Result<(), NotUp> {
    let start = Instant::now();
    let mut waiting: Vec<(&T, String)> = targets.iter().map(|target| (target, String::new())).collect();
    loop {
        waiting.retain_mut(|(target, reason)| match ask(target, ATTEMPT) {
            Ok(()) => false,
            Err(why) => {
                *reason = why;
                true
            }
        });
        if waiting.is_empty() {
            return Ok(());
        }
        if start.elapsed() >= limit {
            let missing = waiting.into_iter().map(|(target, reason)| (target.to_string(), reason)).collect();
            return Err(NotUp { limit, missing });
        }
        std::thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_are_missing_are_named_with_what_they_said_last() {
        let mut attempts = 0;
        let outcome = wait(&["late", "never"], Duration::from_millis(300), |target, _| {
            attempts += 1;
            match *target {
                "late" if attempts > 2 => Ok(()),
                _ => Err(format!("attempt {attempts}")),
            }
        });
        let NotUp { missing, .. } = outcome.unwrap_err();
        let [(name, reason)] = missing.as_slice() else { panic!("{missing:?}") };
        assert_eq!(name, "never");
        assert!(reason.starts_with("attempt "), "{reason}");
    }

    #[test]
    fn without_a_limit_everything_is_asked_once() {
        assert!(wait(&["up"], Duration::ZERO, |_, _| Ok(())).is_ok());
        let error = wait(&["down"], Duration::ZERO, |_, _| Err("closed".to_owned())).unwrap_err();
        assert_eq!(error.to_string(), "not up after 0 s: down (closed)");
    }
}
