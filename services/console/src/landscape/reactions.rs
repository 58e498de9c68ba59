//! Measures how soon the services take up requests and jobs: the time from the event that first
//! shows the request to the event that shows it taken up.

use std::collections::VecDeque;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

/// Number of reactions kept, whatever their age.
const MOST: usize = 4_000;

/// The service that has to take something up.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Taker {
    /// The renderer, which takes up the operation annotations of Installations.
    Renderer,
    /// The deployer of one type, which takes up the jobs of its DeployItems.
    Deployer(Arc<str>),
}

/// A request or job that was taken up, and the time that took.
#[derive(Debug, Clone)]
pub(crate) struct Reaction {
    pub(crate) namespace: Arc<str>,
    pub(crate) taker: Taker,
    pub(crate) at: Timestamp,
    pub(crate) elapsed: SignedDuration,
}

/// The latest reactions, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Reactions(VecDeque<Reaction>);

impl Reactions {
    /// Returns the time since which an object waits, after an event at time `at`. `waited_since` is
    /// the result of the object's event before. If the object waited then and does not wait now,
    /// its wait is recorded as a reaction.
    pub(super) fn take(
        &mut self,
        waited_since: Option<Timestamp>,
        waits: bool,
        at: Timestamp,
        of: impl FnOnce() -> (Arc<str>, Taker),
    ) -> Option<Timestamp> {
        match waited_since {
            since if waits => since.or(Some(at)),
            Some(since) => {
                let (namespace, taker) = of();
                let elapsed = at.duration_since(since).max(SignedDuration::ZERO);
                self.0.push_back(Reaction { namespace, taker, at, elapsed });
                if self.0.len() > MOST {
                    self.0.pop_front();
                }
                None
            }
            None => None,
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Reaction> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reactions_are_told_by_the_times_of_events() {
        let mut reactions = Reactions::default();
        let at = |millis| Timestamp::from_millisecond(millis).unwrap();
        let mut take = |since, waits, millis| {
            reactions.take(since, waits, at(millis), || ("team".into(), Taker::Renderer))
        };
        assert_eq!(take(None, false, 10), None, "nothing was asked");
        let since = take(None, true, 20);
        assert_eq!(since, Some(at(20)));
        assert_eq!(take(since, true, 30), since, "it still waits, for as long as it did");
        assert_eq!(take(since, false, 70), None);
        for millis in 0..2 * i64::try_from(MOST).unwrap() {
            take(Some(at(millis)), false, millis + 1);
        }
        assert_eq!(reactions.0.len(), MOST);
        reactions.0.clear();
        reactions.take(since, false, at(70), || ("team".into(), Taker::Renderer));
        assert_eq!(reactions.iter().next().unwrap().elapsed, SignedDuration::from_millis(50));
    }
}
