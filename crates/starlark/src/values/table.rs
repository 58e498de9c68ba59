//! Dicts and sets, in the order in which their keys were added.

use std::collections::HashMap;

use super::{Key, Value};

/// Map that keeps the order of its keys. A set has `None` as its values.
#[derive(Debug, Default)]
pub(crate) struct Table {
    places: HashMap<Key, usize>,
    /// Entries in order; removed ones leave a gap until the table is packed.
    entries: Vec<Option<(Value, Value)>>,
    /// Number of loops that go over the table; it must not change meanwhile.
    pub(crate) loops: u32,
}

impl Table {
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    pub(crate) fn get(&self, key: &Key) -> Option<&Value> {
        self.entries.get(*self.places.get(key)?)?.as_ref().map(|(_, value)| value)
    }

    pub(crate) fn contains(&self, key: &Key) -> bool {
        self.places.contains_key(key)
    }

    /// Sets the value of a key, and reports whether the key is new.
    pub(crate) fn insert(&mut self, key: Key, name: Value, value: Value) -> bool {
        if let Some(at) = self.places.get(&key) {
            if let Some(Some(entry)) = self.entries.get_mut(*at) {
                entry.1 = value;
            }
            return false;
        }
        self.places.insert(key, self.entries.len());
        self.entries.push(Some((name, value)));
        true
    }

    pub(crate) fn remove(&mut self, key: &Key) -> Option<(Value, Value)> {
        let at = self.places.remove(key)?;
        let found = self.entries.get_mut(at)?.take();
        while let Some(None) = self.entries.last() {
            self.entries.pop();
        }
        if self.entries.len() > 8 && self.places.len() * 2 < self.entries.len() {
            self.pack();
        }
        found
    }

    /// Removes the gaps.
    fn pack(&mut self) {
        let mut moved = Vec::with_capacity(self.entries.len());
        let mut next = 0;
        for entry in &self.entries {
            moved.push(next);
            next += usize::from(entry.is_some());
        }
        self.entries.retain(Option::is_some);
        for place in self.places.values_mut() {
            *place = moved.get(*place).copied().unwrap_or_default();
        }
    }

    pub(crate) fn clear(&mut self) {
        self.places.clear();
        self.entries.clear();
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (&Value, &Value)> {
        self.entries.iter().flatten().map(|(name, value)| (name, value))
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &Value> {
        self.iter().map(|(name, _)| name)
    }

    /// Returns the first entry at or behind a place, and the place behind it.
    pub(crate) fn next(&self, from: usize) -> Option<(&Value, usize)> {
        let (at, entry) =
            self.entries.iter().enumerate().skip(from).find_map(|(at, entry)| Some((at, entry.as_ref()?)))?;
        Some((&entry.0, at + 1))
    }
}
