//! Findings of looks that no event asked for, until it is clear whether an event tells of them after all.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use groundwork_bus::ObjectId;

use crate::known_versions::Sight;
use crate::reconcile::Key;

/// A look may be a moment ahead of an event that is on its way. One that takes longer is taken for lost.
const GRACE: Duration = Duration::from_secs(10);

/// Keys whose last look has written something, and those that are being looked at.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    found: HashMap<Key, Finding>,
    /// The events of each since the look began.
    looks: HashMap<Key, Vec<(ObjectId, Sight)>>,
}

#[derive(Debug)]
struct Finding {
    at: Instant,
    /// The versions that the look has written: their events tell nothing but that.
    written: Vec<(ObjectId, String)>,
}

impl Finding {
    /// True if the look has caused an event itself. An object that it has changed may be gone by that: a finalizer was its last one, or
    /// a deletion was asked for.
    fn has_caused(&self, object: &ObjectId, sight: &Sight) -> bool {
        let is_it = |own: &String| sight.alive().is_none_or(|version| own == version);
        self.written.iter().any(|(written, own)| written == object && is_it(own))
    }
}

impl Findings {
    /// A look that no event asked for begins.
    pub(crate) fn begin(&mut self, key: &Key) {
        self.looks.insert(key.clone(), Vec::new());
    }

    /// An attempt has ended, and has written these versions. If it was no look they were asked for.
    pub(crate) fn end(&mut self, key: &Key, written: Vec<(ObjectId, String)>, now: Instant) {
        let Some(told) = self.looks.remove(key) else { return };
        let finding = Finding { at: now, written };
        let is_told = told.iter().any(|(object, sight)| !finding.has_caused(object, sight));
        if !finding.written.is_empty() && !is_told {
            self.found.insert(key.clone(), finding);
        }
    }

    /// An event concerns a key. Unless the look itself has caused it, it tells what the look has found.
    pub(crate) fn told(&mut self, key: &Key, object: &ObjectId, sight: &Sight) {
        if let Some(told) = self.looks.get_mut(key) {
            told.push((object.clone(), sight.clone()));
        }
        if self.found.get(key).is_some_and(|finding| !finding.has_caused(object, sight)) {
            self.found.remove(key);
        }
    }

    /// The keys of which no event has told in time.
    pub(crate) fn take_untold(&mut self, now: Instant) -> Vec<Key> {
        let untold = |_: &Key, finding: &mut Finding| now.duration_since(finding.at) >= GRACE;
        self.found.extract_if(untold).map(|(key, _)| key).collect()
    }
}

#[cfg(test)]
mod tests {
    use groundwork_bus::Kind;

    use super::*;

    fn object(name: &str) -> ObjectId {
        ObjectId::new(Kind::new("g", "things"), Some("team"), name)
    }

    /// A look that writes one version, while events tell of these states.
    fn look(findings: &mut Findings, name: &str, meanwhile: &[(&str, Sight)], now: Instant) {
        findings.begin(&object(name));
        for (object_name, sight) in meanwhile {
            findings.told(&object(name), &object(object_name), sight);
        }
        findings.end(&object(name), vec![(object(name), "9".to_owned())], now);
    }

    /// The event is on its way when the look begins, and is there before it ends.
    #[test]
    fn events_that_come_meanwhile_tell_too() {
        let (mut findings, begin) = (Findings::default(), Instant::now());
        let own = Sight::Alive("9".to_owned());
        look(&mut findings, "told", &[("told", own.clone()), ("item", Sight::Gone("8".to_owned()))], begin);
        look(&mut findings, "lost", &[("lost", own)], begin);
        findings.begin(&object("idle"));
        findings.end(&object("idle"), Vec::new(), begin);
        assert_eq!(findings.take_untold(begin + GRACE), [object("lost")]);
        look(&mut findings, "told", &[], begin);
        assert_eq!(
            findings.take_untold(begin + GRACE),
            [object("told")],
            "those of the look before count no more"
        );
    }

    #[test]
    fn events_that_are_late_tell_and_own_ones_do_not() {
        let (mut findings, begin) = (Findings::default(), Instant::now());
        for name in ["late", "lost", "gone"] {
            look(&mut findings, name, &[], begin);
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
