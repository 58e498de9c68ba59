//! Keys that wait for a place, and the places: namespaces take turns, and none holds more than its share.

use std::collections::{HashMap, VecDeque};

use crate::reconcile::Key;

/// The number of places, as a multiple of a namespace's share. What some namespaces wait for elsewhere (slow registries, silent Targets)
/// leaves places for others then.
const SHARES: usize = 8;
/// One place of so many is kept for namespaces that hold none.
const RESERVE: usize = 4;

/// The namespace of a key; empty for objects of the cluster, which are together one.
pub(crate) fn namespace_of(key: &Key) -> &str {
    key.namespace.as_deref().unwrap_or_default()
}

/// Places for keys that are handled.
#[derive(Debug)]
pub(crate) struct Places {
    share: usize,
    count: usize,
    taken: usize,
    by_namespace: HashMap<String, usize>,
}

impl Places {
    /// The places for this share of a namespace, which is at least one.
    pub(crate) fn of_share(share: usize) -> Self {
        let share = share.max(1);
        Self { share, count: share.saturating_mul(SHARES), taken: 0, by_namespace: HashMap::new() }
    }

    /// The places that a namespace may hold.
    pub(crate) fn share(&self) -> usize {
        self.share
    }

    fn held_by(&self, namespace: &str) -> usize {
        self.by_namespace.get(namespace).copied().unwrap_or_default()
    }

    /// True if a namespace may have one more place now.
    fn are_free_for(&self, namespace: &str) -> bool {
        match self.held_by(namespace) {
            0 => self.taken < self.count,
            held => held < self.share && self.taken < self.count - self.count / RESERVE,
        }
    }

    /// True if a namespace holds all the places that it may.
    pub(crate) fn is_share_used(&self, namespace: &str) -> bool {
        self.held_by(namespace) >= self.share
    }

    fn take(&mut self, namespace: &str) {
        self.taken += 1;
        match self.by_namespace.get_mut(namespace) {
            Some(held) => *held += 1,
            None => drop(self.by_namespace.insert(namespace.to_owned(), 1)),
        }
    }

    /// The key is not handled any more.
    pub(crate) fn give_back(&mut self, key: &Key) {
        let namespace = namespace_of(key);
        let Some(held) = self.by_namespace.get_mut(namespace) else { return };
        *held -= 1;
        self.taken -= 1;
        if *held == 0 {
            self.by_namespace.remove(namespace);
        }
    }
}

/// Keys that wait, in the order in which they come, by namespace.
#[derive(Debug, Default)]
pub(crate) struct Rota {
    waiting: HashMap<String, VecDeque<Key>>,
    /// The namespaces that have keys, in the order of their turns.
    turns: VecDeque<String>,
}

impl Rota {
    pub(crate) fn push(&mut self, key: Key) {
        let namespace = namespace_of(&key);
        match self.waiting.get_mut(namespace) {
            Some(keys) => keys.push_back(key),
            None => {
                let namespace = namespace.to_owned();
                self.turns.push_back(namespace.clone());
                self.waiting.insert(namespace, VecDeque::from([key]));
            }
        }
    }

    /// The next key of the namespace whose turn it is, among those that may have a place, which it takes. Keys that `is_due` refuses are
    /// dropped.
    pub(crate) fn pop(&mut self, places: &mut Places, is_due: impl Fn(&Key) -> bool) -> Option<Key> {
        if places.taken >= places.count {
            return None;
        }
        let mut index = 0;
        while let Some(namespace) = self.turns.get(index) {
            if !places.are_free_for(namespace) {
                index += 1;
                continue;
            }
            let namespace = self.turns.remove(index)?;
            let keys = self.waiting.get_mut(&namespace)?;
            let due = std::iter::from_fn(|| keys.pop_front()).find(|key| is_due(key));
            if keys.is_empty() {
                self.waiting.remove(&namespace);
            }
            let Some(key) = due else { continue };
            places.take(&namespace);
            if self.waiting.contains_key(&namespace) {
                self.turns.push_back(namespace);
            }
            return Some(key);
        }
        None
    }

    /// The number of namespaces that have keys here.
    pub(crate) fn namespaces(&self) -> usize {
        self.turns.len()
    }

    /// How many keys of the namespace of this one wait.
    pub(crate) fn waiting_beside(&self, key: &Key) -> usize {
        self.waiting.get(namespace_of(key)).map_or(0, VecDeque::len)
    }

    /// The namespaces that have keys here, with their number.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (&str, usize)> {
        self.waiting.iter().map(|(namespace, keys)| (namespace.as_str(), keys.len()))
    }
}

#[cfg(test)]
mod tests {
    use groundwork_bus::Kind;

    use super::*;

    fn key(namespace: &str, name: impl std::fmt::Display) -> Key {
        Key::new(Kind::new("", "things"), Some(namespace), name.to_string())
    }

    fn rota(namespaces: &[(&str, usize)]) -> Rota {
        let mut rota = Rota::default();
        for (namespace, count) in namespaces {
            (0..*count).for_each(|number| rota.push(key(namespace, number)));
        }
        rota
    }

    /// The namespaces of all keys that get a place now.
    fn started(rota: &mut Rota, places: &mut Places) -> Vec<String> {
        let next = || rota.pop(places, |_| true);
        std::iter::from_fn(next).map(|key| key.namespace.unwrap_or_default()).collect()
    }

    #[test]
    fn namespaces_take_turns() {
        let mut places = Places::of_share(8);
        let mut rota = rota(&[("a", 4), ("b", 1), ("c", 2)]);
        assert_eq!(started(&mut rota, &mut places), ["a", "b", "c", "a", "c", "a", "a"]);
        assert_eq!(rota.waiting().count(), 0);
    }

    #[test]
    fn no_namespace_holds_more_than_its_share() {
        let mut places = Places::of_share(4);
        let mut waiting = rota(&[("greedy", 100)]);
        assert_eq!(started(&mut waiting, &mut places).len(), 4);
        assert!(places.is_share_used("greedy") && !places.is_share_used("other"));
        waiting.push(key("other", "late"));
        assert_eq!(started(&mut waiting, &mut places), ["other"]);
        places.give_back(&key("greedy", 0));
        assert_eq!(started(&mut waiting, &mut places), ["greedy"]);
    }

    /// However many keys other namespaces have that wait for what never comes, those that hold nothing get a place at once.
    #[test]
    fn places_are_kept_for_those_who_hold_none() {
        let mut places = Places::of_share(16);
        let mut waiting = Rota::default();
        for namespace in 0..50 {
            (0..20).for_each(|number| waiting.push(key(&format!("hostile-{namespace}"), number)));
        }
        let hostile = started(&mut waiting, &mut places);
        assert_eq!(hostile.len(), 96);
        for namespace in 0..32 {
            waiting.push(key(&format!("good-{namespace}"), 0));
        }
        assert_eq!(started(&mut waiting, &mut places).len(), 32);
    }

    #[test]
    fn a_share_is_at_least_one_place() {
        let mut places = Places::of_share(0);
        let mut waiting = rota(&[("a", 2), ("b", 1)]);
        assert_eq!(started(&mut waiting, &mut places), ["a", "b"]);
        places.give_back(&key("a", 0));
        assert_eq!(started(&mut waiting, &mut places), ["a"]);
    }

    #[test]
    fn keys_that_are_not_due_take_no_place() {
        let mut places = Places::of_share(1);
        let mut waiting = rota(&[("a", 3), ("b", 1)]);
        let next = waiting.pop(&mut places, |key| key.name == "2");
        assert_eq!(next, Some(key("a", 2)));
        assert!(waiting.pop(&mut places, |key| key.name == "2").is_none() && waiting.waiting().count() == 0);
    }
}
