//! Findings of looks that no event asked for, until it is clear whether an event tells of them after all.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use groundwork_bus::ObjectId;

use crate::known_versions::Sight;
use crate::reconcile::Key;

/// A look may be a moment ahead of an event that is on its way. One that takes longer is taken for lost.
const GRACE: Duration = Duration::from_secs(10);

/// Keys whose last look has written something.
#[derive(Debug, Default)]
pub(crate) struct Findings(HashMap<Key, Finding>);

#[derive(Debug)]
struct Finding {
    at: Instant,
    /// The versions that the look has written: their events tell nothing but that.
    written: Vec<(ObjectId, String)>,
}

impl Findings {
    /// A look that no event asked for has written these versions.
    pub(crate) fn add(&mut self, key: Key, written: Vec<(ObjectId, String)>, now: Instant) {
        self.0.insert(key, Finding { at: now, written });
    }

    /// An event concerns a key. Unless the look itself has caused it, it tells what the look has found.
    pub(crate) fn told(&mut self, key: &Key, object: &ObjectId, sight: &Sight) {
        let Some(finding) = self.0.get(key) else { return };
        // An object that the look has changed may be gone by that: a finalizer was its last one, or a deletion was asked for.
        let is_own = finding
            .written
            .iter()
            .any(|(written, own)| written == object && sight.alive().is_none_or(|version| own == version));
        if !is_own {
            self.0.remove(key);
        }
    }

    /// The keys of which no event has told in time.
    pub(crate) fn take_untold(&mut self, now: Instant) -> Vec<Key> {
        self.0.extract_if(|_, finding| now.duration_since(finding.at) >= GRACE).map(|(key, _)| key).collect()
    }
}

#[cfg(test)]
mod tests {
    use groundwork_bus::Kind;

    use super::*;

    fn object(name: &str) -> ObjectId {
        ObjectId::new(Kind::new("g", "things"), Some("team"), name)
    }

    #[test]
    fn events_that_are_late_tell_and_own_ones_do_not() {
        let (mut findings, begin) = (Findings::default(), Instant::now());
        for name in ["late", "lost", "gone"] {
            findings.add(object(name), vec![(object(name), "9".to_owned())], begin);
        }
        for name in ["late", "lost", "gone"] {
            findings.told(&object(name), &object(name), &Sight::Alive("9".to_owned()));
        }
        findings.told(&object("late"), &object("item"), &Sight::Alive("8".to_owned()));
        findings.told(&object("lost"), &object("lost"), &Sight::Gone("9".to_owned()));
        findings.told(&object("gone"), &object("item"), &Sight::Gone("8".to_owned()));
        assert_eq!(findings.take_untold(begin + GRACE / 2), Vec::<Key>::new());
        assert_eq!(findings.take_untold(begin + GRACE), [object("lost")]);
        assert_eq!(findings.take_untold(begin + GRACE), Vec::<Key>::new());
    }
}
