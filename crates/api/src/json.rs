//! Types of fields that keep JSON exactly as it was written.
//!
//! Users own their manifests: an object that we read and write again must come back unchanged.
//! Plain `Option`, `Vec` and `BTreeMap` fields lose three differences: an explicit `null` and an
//! absent member, an empty list or map and an absent one, and members that this version does not
//! know. The types here keep these differences, and are read like the plain ones.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// Members of an object that its Rust type does not have.
pub type Extra = serde_json::Map<String, Value>;

/// Field that may be left out when its object is written.
pub trait Absent {
    /// Reports whether the field is left out of the written object.
    fn is_absent(&self) -> bool;
}

impl<T: Absent> Absent for &T {
    fn is_absent(&self) -> bool {
        (**self).is_absent()
    }
}

impl<T> Absent for Option<T> {
    fn is_absent(&self) -> bool {
        self.is_none()
    }
}

impl Absent for Extra {
    fn is_absent(&self) -> bool {
        self.is_empty()
    }
}

/// A required field is always written.
impl Absent for String {
    fn is_absent(&self) -> bool {
        false
    }
}

/// A required field is always written.
impl Absent for i64 {
    fn is_absent(&self) -> bool {
        false
    }
}

/// Optional value of any JSON type.
///
/// [`AnyJson::get`] treats `null` as absent, and writing the value keeps the `null`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AnyJson(Option<Value>);

impl AnyJson {
    /// Returns the value, unless it is absent or `null`.
    pub fn get(&self) -> Option<&Value> {
        self.0.as_ref().filter(|value| !value.is_null())
    }

    /// Returns the value as written, including `null`.
    pub fn as_written(&self) -> Option<&Value> {
        self.0.as_ref()
    }

    /// Returns the value, unless it is absent or `null`.
    pub fn into_value(self) -> Option<Value> {
        self.0.filter(|value| !value.is_null())
    }
}

impl From<Value> for AnyJson {
    fn from(value: Value) -> Self {
        Self(Some(value))
    }
}

impl From<Option<Value>> for AnyJson {
    fn from(value: Option<Value>) -> Self {
        Self(value)
    }
}

impl Absent for AnyJson {
    fn is_absent(&self) -> bool {
        self.0.is_none()
    }
}

impl Serialize for AnyJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for AnyJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(|value| Self(Some(value)))
    }
}

impl JsonSchema for AnyJson {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "AnyJson".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        true.into()
    }
}

/// List that knows whether it was written: `[]` and absent are different, but both read as empty.
///
/// The list dereferences to a slice; [`List::push`] and `extend` make an absent list present.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List<T>(Option<Vec<T>>);

impl<T> List<T> {
    /// Creates an absent list.
    pub const fn absent() -> Self {
        Self(None)
    }

    /// Creates a list that is absent if it is empty.
    pub fn unless_empty(elements: impl IntoIterator<Item = T>) -> Self {
        let elements = Vec::from_iter(elements);
        Self((!elements.is_empty()).then_some(elements))
    }

    /// Appends an element.
    pub fn push(&mut self, element: T) {
        self.to_mut().push(element);
    }

    /// Returns the list for editing, and makes an absent one present.
    pub fn to_mut(&mut self) -> &mut Vec<T> {
        self.0.get_or_insert_default()
    }

    /// Returns the elements if the list is present.
    pub fn written(&self) -> Option<&[T]> {
        self.0.as_deref()
    }

    /// Returns the elements as a vector, empty for an absent list.
    pub fn into_vec(self) -> Vec<T> {
        self.0.unwrap_or_default()
    }
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> Deref for List<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.0.as_deref().unwrap_or_default()
    }
}

impl<T> DerefMut for List<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        self.0.as_deref_mut().unwrap_or_default()
    }
}

impl<T> From<Vec<T>> for List<T> {
    fn from(elements: Vec<T>) -> Self {
        Self(Some(elements))
    }
}

impl<T> FromIterator<T> for List<T> {
    fn from_iter<I: IntoIterator<Item = T>>(elements: I) -> Self {
        Self(Some(elements.into_iter().collect()))
    }
}

impl<T> Extend<T> for List<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, elements: I) {
        self.to_mut().extend(elements);
    }
}

impl<T> IntoIterator for List<T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.into_vec().into_iter()
    }
}

impl<'a, T> IntoIterator for &'a List<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<T> Absent for List<T> {
    fn is_absent(&self) -> bool {
        self.0.is_none()
    }
}

impl<T: Serialize> Serialize for List<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Option::deserialize(deserializer).map(Self)
    }
}

impl<T: JsonSchema> JsonSchema for List<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        Vec::<T>::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Vec::<T>::json_schema(generator)
    }
}

/// Map by name that knows whether it was written: `{}` and absent are different, but both read as
/// empty. Editing it through `DerefMut` makes an absent map present.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map<V: 'static>(Option<BTreeMap<String, V>>);

impl<V> Map<V> {
    const EMPTY: &'static BTreeMap<String, V> = &BTreeMap::new();

    /// Creates an absent map.
    pub const fn absent() -> Self {
        Self(None)
    }

    /// Creates a map that is absent if it is empty.
    pub fn unless_empty(entries: BTreeMap<String, V>) -> Self {
        Self((!entries.is_empty()).then_some(entries))
    }

    /// Returns the entries if the map is present.
    pub fn written(&self) -> Option<&BTreeMap<String, V>> {
        self.0.as_ref()
    }

    /// Returns the entries as a map, empty for an absent one.
    pub fn into_map(self) -> BTreeMap<String, V> {
        self.0.unwrap_or_default()
    }
}

impl<V> Default for Map<V> {
    fn default() -> Self {
        Self(None)
    }
}

impl<V> Deref for Map<V> {
    type Target = BTreeMap<String, V>;

    fn deref(&self) -> &Self::Target {
        self.0.as_ref().unwrap_or(Self::EMPTY)
    }
}

impl<V> DerefMut for Map<V> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.0.get_or_insert_default()
    }
}

impl<V> From<BTreeMap<String, V>> for Map<V> {
    fn from(entries: BTreeMap<String, V>) -> Self {
        Self(Some(entries))
    }
}

impl<K: Into<String>, V> FromIterator<(K, V)> for Map<V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        Self(Some(entries.into_iter().map(|(key, value)| (key.into(), value)).collect()))
    }
}

impl<V> IntoIterator for Map<V> {
    type Item = (String, V);
    type IntoIter = std::collections::btree_map::IntoIter<String, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.into_map().into_iter()
    }
}

impl<'a, V> IntoIterator for &'a Map<V> {
    type Item = (&'a String, &'a V);
    type IntoIter = std::collections::btree_map::Iter<'a, String, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<V> Absent for Map<V> {
    fn is_absent(&self) -> bool {
        self.0.is_none()
    }
}

impl<V: Serialize> Serialize for Map<V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Map<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Option::deserialize(deserializer).map(Self)
    }
}

impl<V: JsonSchema> JsonSchema for Map<V> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        BTreeMap::<String, V>::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        BTreeMap::<String, V>::json_schema(generator)
    }
}

/// Integer or text, as in `revision: 3` and `revision: v3`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum IntOrString {
    /// Written as a number.
    Int(i64),
    /// Written as text.
    String(String),
    /// Any other value, such as a fraction. The code that uses the value reports the error.
    Other(Value),
}

impl std::fmt::Display for IntOrString {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Int(number) => number.fmt(f),
            Self::String(text) => text.fmt(f),
            Self::Other(value) => value.fmt(f),
        }
    }
}

impl From<i64> for IntOrString {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

impl From<&str> for IntOrString {
    fn from(text: &str) -> Self {
        Self::String(text.to_owned())
    }
}

impl JsonSchema for IntOrString {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "IntOrString".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schemars::json_schema!({"x-kubernetes-int-or-string": true})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_and_texts_stay_what_they_are() {
        for text in ["3", "-1", "9223372036854775807", "\"3\"", "\"v3\"", "\"\"", "1.5", "true", "[1]"] {
            let value: IntOrString = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&value).unwrap(), text);
        }
    }

    #[test]
    fn absent_and_empty_differ_and_both_read_as_empty() {
        let (absent, empty) = (List::<i64>::absent(), List::from(Vec::<i64>::new()));
        assert_ne!(absent, empty);
        assert!(absent.is_empty() && empty.is_empty() && absent.is_absent() && !empty.is_absent());
        let mut list = absent;
        list.push(1);
        assert_eq!(list.written(), Some([1].as_slice()));

        let (absent, empty) = (Map::<i64>::absent(), Map::from(BTreeMap::<String, i64>::new()));
        assert_ne!(absent, empty);
        assert!(absent.is_empty() && empty.is_empty() && absent.is_absent() && !empty.is_absent());
        let mut map = absent;
        map.insert("a".to_owned(), 1);
        assert_eq!(map, [("a", 1)].into_iter().collect());
    }

    #[test]
    fn null_is_kept_and_counts_as_absent() {
        let null: AnyJson = serde_json::from_str("null").unwrap();
        assert_eq!((null.get(), null.as_written(), null.is_absent()), (None, Some(&Value::Null), false));
        let absent = AnyJson::default();
        assert_eq!((absent.get(), absent.as_written(), absent.is_absent()), (None, None, true));
        assert_eq!(AnyJson::from(Value::from(false)).into_value(), Some(Value::from(false)));
    }
}
