//! Bindings of templates: values by name (`blueprints.md` 4.1, 4.2).

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::BTreeMap;

use groundwork_gotemplate::{NumberMode, Value as GoValue};
use groundwork_spiff::Value as SpiffValue;
use serde_json::{Map, Value};

/// Bindings whose values must not appear in messages (`blueprints.md` 5.7).
const SENSITIVE: [&str; 6] = ["imports", "values", "state", "deployitems", "dataobjects", "targets"];

/// Value of a name. Imports are a separate variant, so that their map is bound without a copy.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Bound<'a> {
    Value(&'a Value),
    Members(&'a Map<String, Value>),
}

impl<'a> From<&'a Value> for Bound<'a> {
    fn from(value: &'a Value) -> Self {
        Self::Value(value)
    }
}

impl<'a> From<&'a Map<String, Value>> for Bound<'a> {
    fn from(members: &'a Map<String, Value>) -> Self {
        Self::Members(members)
    }
}

impl<'a> Bound<'a> {
    /// Returns the binding as one value.
    pub(crate) fn to_value(self) -> Cow<'a, Value> {
        match self {
            Self::Value(value) => Cow::Borrowed(value),
            Self::Members(members) => Cow::Owned(Value::Object(members.clone())),
        }
    }

    fn to_go(self, numbers: NumberMode) -> GoValue {
        match self {
            Self::Value(value) => GoValue::from_json(value, numbers),
            Self::Members(members) => go_map(
                members.iter().map(|(name, value)| (name.as_str(), GoValue::from_json(value, numbers))),
            ),
        }
    }

    fn to_spiff(self) -> SpiffValue {
        match self {
            Self::Value(value) => SpiffValue::from_bindings(value),
            Self::Members(members) => SpiffValue::map(
                members.iter().map(|(name, value)| (name.as_str(), SpiffValue::from_bindings(value))),
            ),
        }
    }
}

fn go_map<'n>(entries: impl Iterator<Item = (&'n str, GoValue)>) -> GoValue {
    let map = groundwork_gotemplate::Map::default();
    for (name, value) in entries {
        map.insert(name.into(), value);
    }
    GoValue::Map(map)
}

/// Named values that the executions of a list share. Each execution gets its own copy in the form
/// of its language, so that none sees changes by another one (`blueprints.md` 4.5).
#[derive(Debug, Clone, Default)]
pub(crate) struct Bindings<'a> {
    entries: BTreeMap<&'static str, Bound<'a>>,
    /// Copy for Spiff, made once: Spiff never changes its values, so all executions can share the
    /// copy.
    spiff: OnceCell<BTreeMap<&'static str, SpiffValue>>,
}

impl<'a> Bindings<'a> {
    /// Binds a name and replaces an earlier binding.
    pub(crate) fn bind(&mut self, name: &'static str, value: impl Into<Bound<'a>>) {
        self.entries.insert(name, value.into());
        self.spiff.take();
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static str, Bound<'a>)> {
        self.entries.iter().map(|(name, value)| (*name, *value))
    }

    /// Returns a map that a Go template may change.
    pub(crate) fn to_go(&self, numbers: NumberMode) -> GoValue {
        go_map(self.iter().map(|(name, value)| (name, value.to_go(numbers))))
    }

    /// Returns the outer scope of a Spiff template.
    pub(crate) fn to_spiff(&self) -> SpiffValue {
        let convert = || self.iter().map(|(name, value)| (name, value.to_spiff())).collect();
        SpiffValue::map(self.spiff.get_or_init(convert).iter().map(|(name, value)| (*name, value.clone())))
    }
}

pub(crate) fn is_sensitive(name: &str) -> bool {
    SENSITIVE.contains(&name)
}
