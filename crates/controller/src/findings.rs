//! Findings of rechecks. A recheck is an attempt without an event, made because an object of the
//! key is not at rest. If it writes, its finding is kept here until it is clear whether an event
//! for the key arrives after all.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use groundwork_bus::ObjectId;

use crate::known_versions::Sight;
use crate::reconcile::Key;

/// Time that an event may arrive after a recheck has found its change. A later event counts as
/// lost.
const GRACE: Duration = Duration::from_secs(10);

/// Keys whose last recheck has written an object, and keys that are being rechecked.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    found: HashMap<Key, Finding>,
    /// Events about each key since its recheck began.
    rechecks: HashMap<Key, Vec<(ObjectId, Sight)>>,
}

#[derive(Debug)]
struct Finding {
    at: Instant,
    /// Versions that the recheck has written. Their events confirm only the write itself.
    written: Vec<(ObjectId, String)>,
}

impl Finding {
    /// Reports whether the recheck has caused an event itself. An object that the recheck has
    /// changed may be gone because of that: the recheck removed its last finalizer, or asked for
    /// its deletion.
    fn has_caused(&self, object: &ObjectId, sight: &Sight) -> bool {
        let is_it = |own: &String| sight.alive().is_none_or(|version| own == version);
        self.written.iter().any(|(written, own)| written == object && is_it(own))
    }
}

impl Findings {
    /// Notes that a recheck of a key begins.
    pub(crate) fn begin(&mut self, key: &Key) {
        self.rechecks.insert(key.clone(), Vec::new());
    }

    /// Notes that an attempt has ended and has written these versions. They are findings only if
    /// the attempt was a recheck.
    pub(crate) fn end(&mut self, key: &Key, written: Vec<(ObjectId, String)>, now: Instant) {
        let Some(told) = self.rechecks.remove(key) else { return };
        let finding = Finding { at: now, written };
        let is_told = told.iter().any(|(object, sight)| !finding.has_caused(object, sight));
        if !finding.written.is_empty() && !is_told {
            self.found.insert(key.clone(), finding);
        }
    }

    /// Notes an event about a key. Unless the recheck itself has caused the event, it explains the
    /// finding, which is then dropped.
    pub(crate) fn told(&mut self, key: &Key, object: &ObjectId, sight: &Sight) {
        if let Some(told) = self.rechecks.get_mut(key) {
            told.push((object.clone(), sight.clone()));
        }
        if self.found.get(key).is_some_and(|finding| !finding.has_caused(object, sight)) {
            self.found.remove(key);
        }
    }

    /// Returns the keys for whose findings no event arrived in time.
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

    /// Simulates a recheck that writes one version, while events with these states arrive.
    fn recheck(findings: &mut Findings, name: &str, meanwhile: &[(&str, Sight)], now: Instant) {
        findings.begin(&object(name));
        for (object_name, sight) in meanwhile {
            findings.told(&object(name), &object(object_name), sight);
        }
        findings.end(&object(name), vec![(object(name), "9".to_owned())], now);
    }

    /// An event that arrives between the start and the end of the recheck also explains the
    /// finding.
    #[test]
    fn events_that_come_meanwhile_tell_too() {
        let (mut findings, begin) = (Findings::default(), Instant::now());
        let own = Sight::Alive("9".to_owned());
        recheck(
            &mut findings,
            "told",
            &[("told", own.clone()), ("item", Sight::Gone("8".to_owned()))],
            begin,
        );
        recheck(&mut findings, "lost", &[("lost", own)], begin);
        findings.begin(&object("idle"));
        findings.end(&object("idle"), Vec::new(), begin);
        assert_eq!(findings.take_untold(begin + GRACE), [object("lost")]);
        recheck(&mut findings, "told", &[], begin);
        assert_eq!(
            findings.take_untold(begin + GRACE),
            [object("told")],
            "those of the recheck before count no more"
        );
    }

    #[test]
    fn events_that_are_late_tell_and_own_ones_do_not() {
        let (mut findings, begin) = (Findings::default(), Instant::now());
        for name in ["late", "lost", "gone"] {
            recheck(&mut findings, name, &[], begin);
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
