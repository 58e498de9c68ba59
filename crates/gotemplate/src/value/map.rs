//! Maps: shared mutable references with sorted keys (`gotemplate.md` 1.1 and 1.4).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use groundwork_budget::live_bytes::{Held, OVERHEAD};

use super::{NamedType, Str, Value, release};

/// The Go value type of a map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MapValues {
    /// `map[string]interface {}`.
    #[default]
    Any,
    /// `map[string]string`.
    String,
    /// `map[string][]uint8`.
    Bytes,
}

impl MapValues {
    /// Returns the value of a missing key.
    pub(crate) fn zero(self) -> Value {
        match self {
            MapValues::Any => Value::Nil,
            MapValues::String => Value::str(""),
            MapValues::Bytes => Value::Bytes(Str::default()),
        }
    }
}

/// A Go map with string keys. Clones share the entries; iteration is in byte order of the keys.
#[derive(Clone, Debug, Default)]
pub struct Map {
    data: Rc<MapData>,
    named: Option<&'static NamedType>,
}

#[derive(Debug, Default)]
struct MapData {
    values: MapValues,
    nil: bool,
    entries: RefCell<BTreeMap<Str, Value>>,
    held: Held,
}

/// Bytes of an entry in its map. The factor 2 is for the free slots of the nodes.
pub(crate) const ENTRY_BYTES: usize = 2 * size_of::<(Str, Value)>();

fn held_by(entries: usize) -> usize {
    // The first entry makes the map allocate room for ten more.
    OVERHEAD + if entries == 0 { 0 } else { 10 * size_of::<(Str, Value)>() + ENTRY_BYTES * entries }
}

impl Map {
    /// Creates an empty `map[string]string`.
    pub fn of_strings() -> Map {
        Map::with(MapValues::String, false, BTreeMap::new())
    }

    /// Creates a nil `map[string]string`.
    pub fn nil_of_strings() -> Map {
        Map::with(MapValues::String, true, BTreeMap::new())
    }

    /// Creates a nil `map[string]interface {}`: it reads as empty and cannot be written.
    pub fn nil() -> Map {
        Map::with(MapValues::Any, true, BTreeMap::new())
    }

    fn with(values: MapValues, nil: bool, entries: BTreeMap<Str, Value>) -> Map {
        let held = Held::new(held_by(entries.len()));
        Map { data: Rc::new(MapData { values, nil, entries: RefCell::new(entries), held }), named: None }
    }

    /// Creates a map of bytes from its entries.
    pub fn of_bytes(entries: impl IntoIterator<Item = (Str, Str)>) -> Map {
        let entries = entries.into_iter().map(|(key, bytes)| (key, Value::Bytes(bytes)));
        Map::with(MapValues::Bytes, false, entries.collect())
    }

    /// Returns an empty map of the same type, without its name.
    pub(crate) fn empty_alike(&self) -> Map {
        Map::with(self.data.values, false, BTreeMap::new())
    }

    /// Returns the same map as a value of a named type.
    #[must_use]
    pub fn named(&self, named: &'static NamedType) -> Map {
        Map { data: Rc::clone(&self.data), named: Some(named) }
    }

    /// Returns the same map without its named type.
    #[must_use]
    pub fn plain(&self) -> Map {
        Map { data: Rc::clone(&self.data), named: None }
    }

    /// Returns the named type, if the map has one.
    pub fn named_type(&self) -> Option<&'static NamedType> {
        self.named
    }

    pub fn values_type(&self) -> MapValues {
        self.data.values
    }

    pub fn type_name(&self) -> &'static str {
        match (self.named, self.data.values) {
            (Some(named), _) => named.name,
            (None, MapValues::Any) => "map[string]interface {}",
            (None, MapValues::String) => "map[string]string",
            (None, MapValues::Bytes) => "map[string][]uint8",
        }
    }

    pub fn is_nil(&self) -> bool {
        self.data.nil
    }

    pub fn len(&self) -> usize {
        self.data.entries.borrow().len()
    }

    pub fn is_empty(&self) -> bool {
        self.data.entries.borrow().is_empty()
    }

    /// Returns the value under a key, if there is one.
    pub fn get(&self, key: &[u8]) -> Option<Value> {
        self.data.entries.borrow().get(key).cloned()
    }

    pub fn contains_key(&self, key: &[u8]) -> bool {
        self.data.entries.borrow().contains_key(key)
    }

    /// Sets a key. The change is visible through every clone of this map.
    pub fn insert(&self, key: Str, value: Value) {
        // The old value is dropped after the borrow ends, because its drop may run code of the host
        // that uses this map.
        let mut entries = self.data.entries.borrow_mut();
        let _old = entries.insert(key, value);
        self.data.held.set(held_by(entries.len()));
        drop(entries);
    }

    /// Removes a key. The change is visible through every clone of this map.
    pub fn remove(&self, key: &[u8]) -> Option<Value> {
        let mut entries = self.data.entries.borrow_mut();
        let removed = entries.remove(key);
        self.data.held.set(held_by(entries.len()));
        removed
    }

    /// Returns a snapshot of the keys, sorted by bytes.
    pub fn keys(&self) -> Vec<Str> {
        self.data.entries.borrow().keys().cloned().collect()
    }

    /// Returns a snapshot of the entries, sorted by the bytes of their keys.
    pub fn entries(&self) -> Vec<(Str, Value)> {
        self.data.entries.borrow().iter().map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    /// Reports whether both are the same map, not only equal ones.
    pub fn is_same(&self, other: &Map) -> bool {
        Rc::ptr_eq(&self.data, &other.data)
    }

    /// Returns the identity of the map, for sets of visited maps. It is valid while the map is
    /// alive.
    pub(crate) fn address(&self) -> usize {
        Rc::as_ptr(&self.data).cast::<u8>() as usize
    }

    pub(super) fn take_values(self, into: &mut Vec<Value>) {
        if let Some(mut data) = Rc::into_inner(self.data) {
            into.extend(std::mem::take(data.entries.get_mut()).into_values());
        }
    }
}

impl Drop for MapData {
    fn drop(&mut self) {
        let entries = self.entries.get_mut();
        if entries.values().any(Value::is_container) {
            release(std::mem::take(entries).into_values().collect());
        }
    }
}

impl FromIterator<(Str, Value)> for Map {
    fn from_iter<I: IntoIterator<Item = (Str, Value)>>(iter: I) -> Map {
        Map::with(MapValues::Any, false, iter.into_iter().collect())
    }
}
