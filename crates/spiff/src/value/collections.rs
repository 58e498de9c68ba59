use std::collections::HashMap;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use groundwork_budget::live_bytes::{Held, OVERHEAD};

use super::{Node, Value};

const RESOLVED: u8 = 1;
const INERT: u8 = 2;
const COMPLETE: u8 = 4;

/// Cached facts about a collection, valid until it is changed.
#[derive(Debug, Default)]
struct Memo {
    bits: AtomicU8,
    /// [`Value::size`] of the collection; 0 until it is first computed.
    size: AtomicU32,
}

impl Memo {
    fn has(&self, bit: u8) -> bool {
        self.bits.load(Ordering::Relaxed) & bit != 0
    }

    fn remember(&self, bit: u8) {
        self.bits.fetch_or(bit, Ordering::Relaxed);
    }

    fn size(&self, of_entries: impl FnOnce() -> u32) -> u32 {
        match self.size.load(Ordering::Relaxed) {
            0 => {
                let size = of_entries().saturating_add(1);
                self.size.store(size, Ordering::Relaxed);
                size
            }
            known => known,
        }
    }
}

impl Clone for Memo {
    fn clone(&self) -> Self {
        Self {
            bits: AtomicU8::new(self.bits.load(Ordering::Relaxed)),
            size: AtomicU32::new(self.size.load(Ordering::Relaxed)),
        }
    }
}

macro_rules! memos {
    () => {
        /// Reports whether the collection is known to be resolved with everything in it (`spiff.md`
        /// 2.3).
        pub(crate) fn known_resolved(&self) -> bool {
            self.memo.has(RESOLVED)
        }

        pub(crate) fn remember_resolved(&self) {
            self.memo.remember(RESOLVED);
        }

        /// Reports whether the collection is known not to change in a flow without stubs.
        pub(crate) fn known_inert(&self) -> bool {
            self.memo.has(INERT)
        }

        pub(crate) fn remember_inert(&self) {
            self.memo.remember(INERT);
        }
    };
}

/// A list of nodes.
#[derive(Debug, Clone, Default)]
pub struct List {
    entries: Vec<Node>,
    nesting: u32,
    memo: Memo,
    keys: OnceLock<KeyIndex>,
    _held: Held,
}

/// Positions of the entries by the text of one key field.
#[derive(Debug, Clone)]
struct KeyIndex {
    key: Arc<str>,
    positions: HashMap<Arc<str>, usize>,
}

impl List {
    pub(crate) fn new(entries: Vec<Node>) -> Self {
        let nesting = 1 + entries.iter().map(|entry| entry.value.nesting()).max().unwrap_or(0);
        let held = Held::new(size_of::<Self>() + OVERHEAD + size_of::<Node>() * entries.len());
        Self { entries, nesting, _held: held, ..Self::default() }
    }

    /// Iterates over the entries in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Node> {
        self.entries.iter()
    }

    /// Iterates over the values of the entries in order.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &Value> + ExactSizeIterator {
        self.entries.iter().map(|entry| &entry.value)
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Reports whether the list has no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the entry at `position`, from 0.
    pub fn get(&self, position: usize) -> Option<&Node> {
        self.entries.get(position)
    }

    pub(crate) fn nesting(&self) -> u32 {
        self.nesting.max(1)
    }

    /// Returns [`Value::size`] of the list.
    pub(crate) fn size(&self) -> u32 {
        self.memo.size(|| self.values().map(Value::size).fold(0, u32::saturating_add))
    }

    /// Reports whether no entry is an insertion point (`spiff.md` 2.3).
    pub(crate) fn is_complete(&self) -> bool {
        self.memo.has(COMPLETE) || {
            let complete = !self.entries.iter().any(Node::is_insertion);
            if complete {
                self.memo.remember(COMPLETE);
            }
            complete
        }
    }

    /// Returns the position of the first map whose field `key` is the string `value`. The second
    /// look-up by the same key uses an index.
    pub(crate) fn position(&self, key: &str, value: &str) -> Option<usize> {
        let index = self.keys.get_or_init(|| self.index(key));
        if &*index.key == key {
            return index.positions.get(value).copied();
        }
        self.entries.iter().position(|entry| key_of(entry, key).is_some_and(|text| &**text == value))
    }

    fn index(&self, key: &str) -> KeyIndex {
        let mut positions = HashMap::with_capacity(self.entries.len());
        for (position, entry) in self.entries.iter().enumerate() {
            if let Some(text) = key_of(entry, key) {
                positions.entry(Arc::clone(text)).or_insert(position);
            }
        }
        KeyIndex { key: Arc::from(key), positions }
    }

    /// Returns the entries for changes, and drops the cached facts. Call `refresh` after the
    /// changes.
    pub(crate) fn entries_mut(&mut self) -> &mut Vec<Node> {
        self.memo = Memo::default();
        self.keys = OnceLock::new();
        &mut self.entries
    }

    /// Updates the nesting after an entry has become `nesting` levels deep.
    pub(crate) fn deepen(&mut self, nesting: u32) {
        self.nesting = self.nesting().max(nesting + 1);
    }

    memos!();
}

fn key_of<'a>(entry: &'a Node, key: &str) -> Option<&'a Arc<str>> {
    let Value::Map(map) = &entry.value else { return None };
    match &map.get(key)?.value {
        Value::String(text) => Some(text),
        _ => None,
    }
}

impl FromIterator<Node> for List {
    fn from_iter<I: IntoIterator<Item = Node>>(entries: I) -> Self {
        Self::new(entries.into_iter().collect())
    }
}

impl<'a> IntoIterator for &'a List {
    type Item = &'a Node;
    type IntoIter = std::slice::Iter<'a, Node>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// A map from text to nodes, in ascending order of its keys.
#[derive(Debug, Clone, Default)]
pub struct Map {
    entries: Vec<(Arc<str>, Node)>,
    nesting: u32,
    memo: Memo,
    held: Held,
}

fn held_by(entries: usize) -> usize {
    size_of::<Map>() + OVERHEAD + size_of::<(Arc<str>, Node)>() * entries
}

impl Map {
    /// Creates a map from entries in any order. Of two equal keys the last one wins.
    pub(crate) fn new(mut entries: Vec<(Arc<str>, Node)>) -> Self {
        if !entries.is_sorted_by(|left, right| left.0 < right.0) {
            entries.sort_by(|left, right| left.0.cmp(&right.0));
            entries.reverse();
            entries.dedup_by(|earlier, later| earlier.0 == later.0);
            entries.reverse();
        }
        let nesting = 1 + entries.iter().map(|(_, node)| node.value.nesting()).max().unwrap_or(0);
        let held = Held::new(held_by(entries.len()));
        Self { entries, nesting, memo: Memo::default(), held }
    }

    /// Returns [`Value::size`] of the map.
    pub(crate) fn size(&self) -> u32 {
        let sizes = self.iter().map(|(_, node)| node.value.size().saturating_add(1));
        self.memo.size(|| sizes.fold(0, u32::saturating_add))
    }

    /// Iterates over the entries in ascending order of their keys.
    pub fn iter(&self) -> std::slice::Iter<'_, (Arc<str>, Node)> {
        self.entries.iter()
    }

    /// Iterates over the keys in ascending order.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &Arc<str>> + ExactSizeIterator {
        self.entries.iter().map(|(key, _)| key)
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Reports whether the map has no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn position(&self, key: &str) -> Result<usize, usize> {
        self.entries.binary_search_by(|(own, _)| (**own).cmp(key))
    }

    /// Returns the node of `key`.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.position(key).ok().map(|position| &self.entries[position].1)
    }

    pub(crate) fn nesting(&self) -> u32 {
        self.nesting.max(1)
    }

    /// Returns the node of `key` for changes, and drops the cached facts.
    pub(crate) fn get_mut(&mut self, key: &str) -> Option<&mut Node> {
        self.memo = Memo::default();
        let position = self.position(key).ok()?;
        Some(&mut self.entries[position].1)
    }

    /// Adds or replaces the node of `key`.
    pub(crate) fn insert(&mut self, key: Arc<str>, node: Node) {
        self.memo = Memo::default();
        self.deepen(node.value.nesting());
        match self.position(&key) {
            Ok(position) => self.entries[position].1 = node,
            Err(position) => {
                self.entries.insert(position, (key, node));
                self.held.set(held_by(self.entries.len()));
            }
        }
    }

    pub(crate) fn remove(&mut self, key: &str) -> Option<Node> {
        self.memo = Memo::default();
        self.position(key).ok().map(|position| self.entries.remove(position).1)
    }

    pub(crate) fn deepen(&mut self, nesting: u32) {
        self.nesting = self.nesting().max(nesting + 1);
    }

    memos!();
}

impl FromIterator<(Arc<str>, Node)> for Map {
    fn from_iter<I: IntoIterator<Item = (Arc<str>, Node)>>(entries: I) -> Self {
        Self::new(entries.into_iter().collect())
    }
}

impl<'a> IntoIterator for &'a Map {
    type Item = &'a (Arc<str>, Node);
    type IntoIter = std::slice::Iter<'a, (Arc<str>, Node)>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_equal_keys_the_last_one_wins() {
        let entries = [("b", 1), ("a", 2), ("b", 3)];
        let map: Map =
            entries.map(|(key, value)| (Arc::from(key), Node::new(Value::Int(value)))).into_iter().collect();
        assert_eq!(map.keys().map(|key| &**key).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(map.get("b").and_then(|node| node.value.as_int()), Some(3));
    }
}
