//! What templates see beside functions: values by name (`blueprints.md` 4.1, 4.2).

use std::cell::OnceCell;
use std::collections::BTreeMap;

use groundwork_gotemplate::{NumberMode, Value as GoValue};
use groundwork_spiff::Value as SpiffValue;
use serde_json::Value;

/// Bindings whose values must not be seen in messages (`blueprints.md` 5.7).
const SENSITIVE: [&str; 6] = ["imports", "values", "state", "deployitems", "dataobjects", "targets"];

/// Named values, shared by the executions of a list: each gets its own copy in the form of its language, so that none sees what another
/// one changed (`blueprints.md` 4.5).
#[derive(Debug, Clone, Default)]
pub(crate) struct Bindings<'a> {
    entries: BTreeMap<&'static str, &'a Value>,
    /// The values of spiff never change, so one copy does for all executions.
    spiff: OnceCell<BTreeMap<&'static str, SpiffValue>>,
}

impl<'a> Bindings<'a> {
    /// Binds a name; what was bound to it before is forgotten.
    pub(crate) fn bind(&mut self, name: &'static str, value: &'a Value) {
        self.entries.insert(name, value);
        self.spiff.take();
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static str, &'a Value)> {
        self.entries.iter().map(|(name, value)| (*name, *value))
    }

    /// The values that must not be seen.
    pub(crate) fn sensitive(&self) -> impl Iterator<Item = &'a Value> {
        self.iter().filter(|(name, _)| is_sensitive(name)).map(|(_, value)| value)
    }

    /// A map that a Go template may change.
    pub(crate) fn to_go(&self, numbers: NumberMode) -> GoValue {
        let map = groundwork_gotemplate::Map::default();
        for (name, value) in self.iter() {
            map.insert(name.into(), GoValue::from_json(value, numbers));
        }
        GoValue::Map(map)
    }

    /// The outer scope of a spiff template.
    pub(crate) fn to_spiff(&self) -> SpiffValue {
        let convert = || {
            let convert = |(name, value): (&'static str, &Value)| (name, SpiffValue::from_bindings(value));
            self.iter().map(convert).collect()
        };
        SpiffValue::map(self.spiff.get_or_init(convert).iter().map(|(name, value)| (*name, value.clone())))
    }
}

pub(crate) fn is_sensitive(name: &str) -> bool {
    SENSITIVE.contains(&name)
}
