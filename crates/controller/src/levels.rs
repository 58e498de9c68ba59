//! Objects that are not at rest, and the times at which their keys are rechecked even without an
//! event.
//!
//! An event can be lost: with the last seconds of a server's data, or with a process that took it
//! for known. So keys of objects that are not at rest are rechecked: when the feed is
//! complete, and every [`LONGEST`] from then on. Objects at rest are not tracked.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use groundwork_bus::ObjectId;
use tokio::time::Instant;

use crate::reconcile::Key;

/// Longest time between two rechecks of a key, which are attempts without an event.
pub const LONGEST: Duration = Duration::from_secs(300);
/// Maximum random time by which a recheck comes earlier, drawn anew for each key and each recheck.
/// Without it, all rechecks of one start would stay in step for ever.
const JITTER: Duration = Duration::from_secs(60);

/// The objects of one feed that are not at rest. The caller passes the time, so tests need no
/// clock.
#[derive(Debug, Default)]
pub(crate) struct Levels {
    objects: HashMap<ObjectId, Key>,
    keys: HashMap<Key, Recheck>,
    times: BTreeSet<(Instant, Key)>,
    chance: RandomState,
    rechecks: u64,
}

/// Time of the next recheck of a key.
#[derive(Debug)]
struct Recheck {
    /// Number of objects that the key is responsible for.
    objects: usize,
    at: Instant,
}

impl Levels {
    /// Records the key that is responsible for an object, or `None` for an object that is at rest
    /// or gone. With `is_first`, a key without objects so far is rechecked at once, since its
    /// events may have been long ago. Otherwise its first recheck comes after the normal time.
    pub(crate) fn set(&mut self, object: &ObjectId, key: Option<Key>, is_first: bool, now: Instant) {
        if self.objects.get(object) == key.as_ref() {
            return;
        }
        if let Some(former) = self.objects.remove(object) {
            self.release(&former);
        }
        let Some(key) = key else { return };
        self.objects.insert(object.clone(), key.clone());
        if let Some(recheck) = self.keys.get_mut(&key) {
            recheck.objects += 1;
            return;
        }
        let at = if is_first { now } else { self.next(&key, now) };
        self.keys.insert(key.clone(), Recheck { objects: 1, at });
        self.times.insert((at, key));
    }

    /// Returns a key that is due, and sets its next time.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<Key> {
        let (at, key) = self.times.first().filter(|(at, _)| *at <= now).cloned()?;
        let next = self.next(&key, now);
        self.times.remove(&(at, key.clone()));
        self.times.insert((next, key.clone()));
        if let Some(recheck) = self.keys.get_mut(&key) {
            recheck.at = next;
        }
        Some(key)
    }

    /// Returns the time at which the next key is due for a recheck.
    pub(crate) fn next_time(&self) -> Option<Instant> {
        self.times.first().map(|(at, _)| *at)
    }

    /// Forgets all objects, because the feed starts over and will show them again.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    fn release(&mut self, key: &Key) {
        let Some(recheck) = self.keys.get_mut(key) else { return };
        recheck.objects -= 1;
        if recheck.objects == 0 {
            self.times.remove(&(recheck.at, key.clone()));
            self.keys.remove(key);
        }
    }

    fn next(&mut self, key: &Key, now: Instant) -> Instant {
        self.rechecks = self.rechecks.wrapping_add(1);
        let share =
            f64::from((self.chance.hash_one((key, self.rechecks)) >> 32) as u32) / f64::from(u32::MAX);
        now + LONGEST - JITTER.mul_f64(share)
    }
}

#[cfg(test)]
mod tests {
    use groundwork_bus::Kind;

    use super::*;

    fn object(name: &str) -> ObjectId {
        ObjectId::new(Kind::new("g", "things"), Some("team"), name)
    }

    fn due(levels: &mut Levels, now: Instant) -> Vec<String> {
        std::iter::from_fn(|| levels.take_due(now)).map(|key| key.name).collect()
    }

    #[test]
    fn what_is_not_at_rest_is_rechecked_within_its_time_and_again() {
        let (mut levels, begin) = (Levels::default(), Instant::now());
        levels.set(&object("left"), Some(object("left")), true, begin);
        levels.set(&object("new"), Some(object("new")), false, begin);
        levels.set(&object("idle"), None, true, begin);
        assert_eq!(due(&mut levels, begin), ["left"], "what a process left behind");
        assert_eq!(due(&mut levels, begin + LONGEST - JITTER - Duration::from_secs(1)), Vec::<String>::new());
        for round in 1..4 {
            let mut found = due(&mut levels, begin + LONGEST * round);
            found.sort();
            assert_eq!(found, ["left", "new"], "round {round}");
        }
        assert!(levels.next_time().is_some_and(|at| at <= begin + LONGEST * 4));
    }

    #[test]
    fn a_key_rests_when_all_that_it_sees_to_does() {
        let (mut levels, now) = (Levels::default(), Instant::now());
        for name in ["a", "b"] {
            levels.set(&object(name), Some(object("key")), true, now);
        }
        levels.set(&object("a"), None, false, now);
        assert_eq!(due(&mut levels, now), ["key"]);
        levels.set(&object("b"), Some(object("other")), false, now);
        levels.set(&object("b"), Some(object("other")), false, now);
        assert_eq!(due(&mut levels, now + LONGEST), ["other"]);
        levels.set(&object("b"), None, false, now);
        assert_eq!(levels.next_time(), None);
        levels.set(&object("b"), Some(object("other")), false, now);
        levels.clear();
        assert_eq!(levels.next_time(), None);
    }

    /// Thousands of objects found at one start must not all be rechecked together five minutes
    /// later.
    #[test]
    fn rechecks_are_spread() {
        let (mut levels, begin) = (Levels::default(), Instant::now());
        for index in 0..1000 {
            let id = object(&index.to_string());
            levels.set(&id, Some(id.clone()), true, begin);
        }
        assert_eq!(due(&mut levels, begin).len(), 1000);
        let half = due(&mut levels, begin + LONGEST - JITTER / 2).len();
        assert!((350..650).contains(&half), "{half}");
    }
}
