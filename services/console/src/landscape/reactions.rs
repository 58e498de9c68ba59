//! How soon the services take up what is asked of them: from the event that shows it asked to the one that shows it taken up.

use std::collections::VecDeque;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

/// Reactions that are kept, whatever their age.
const MOST: usize = 4_000;

/// Who is to take something up.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Taker {
    /// Requests to Installations, by annotation.
    Renderer,
    /// Jobs of items, by the type of the items.
    Deployer(Arc<str>),
}

/// Something that was taken up.
#[derive(Debug, Clone)]
pub(crate) struct Reaction {
    pub(crate) namespace: Arc<str>,
    pub(crate) taker: Taker,
    pub(crate) at: Timestamp,
    pub(crate) elapsed: SignedDuration,
}

/// The last reactions, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Reactions(VecDeque<Reaction>);

impl Reactions {
    /// Since when an object waits, as an event at a time shows it that was seen to wait since an earlier one. What has ended to wait is a reaction.
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
