//! The state of an explanation: the place of the value, the rules that led there, and the members
//! and elements not evaluated yet.

use std::collections::BTreeSet;

use serde_json::Value;

use super::lookup::escaped;

/// A place of the value.
#[derive(Clone, Copy)]
pub(super) struct At<'t> {
    pub(super) value: &'t Value,
    /// JSON pointer of the place, as findings show it.
    pub(super) pointer: &'t str,
    /// The rule that is being applied.
    pub(super) trail: Option<&'t Trail<'t>>,
}

impl<'t> At<'t> {
    /// Returns the place of a member or an element.
    pub(super) fn below<'b>(&self, value: &'b Value, pointer: &'b str) -> At<'b>
    where
        't: 'b,
    {
        At { value, pointer, trail: self.trail }
    }
}

/// Returns the pointer of a member.
pub(super) fn member(pointer: &str, name: &str) -> String {
    format!("{pointer}/{}", escaped(name))
}

/// A rule that is being applied, and the one that led to it.
pub(super) struct Trail<'t> {
    pub(super) schema: &'t Value,
    pub(super) value: &'t Value,
    /// Path of keywords from the schema of the parent rule to this one.
    pub(super) keyword: &'t str,
    pub(super) parent: Option<&'t Trail<'t>>,
}

impl<'t> Trail<'t> {
    fn parents(&self) -> impl Iterator<Item = &'t Trail<'t>> + use<'t> {
        std::iter::successors(self.parent, |trail| trail.parent)
    }

    pub(super) fn depth(&self) -> usize {
        self.parents().count()
    }

    /// Returns the earlier application of the same schema to the same place, if there is one.
    pub(super) fn ring(&self) -> Option<&'t Trail<'t>> {
        let here = self.parents().take_while(|trail| std::ptr::eq(trail.value, self.value));
        here.into_iter().find(|trail| std::ptr::eq(trail.schema, self.schema))
    }

    /// Returns the keywords from the root to here.
    pub(super) fn location(&self) -> String {
        let mut keywords: Vec<&str> = self.parents().map(|trail| trail.keyword).collect();
        keywords.reverse();
        keywords.push(self.keyword);
        keywords.concat()
    }
}

/// Members and elements that no rule has evaluated.
#[derive(Debug, Default)]
pub(super) struct Unevaluated {
    pub(super) names: BTreeSet<String>,
    pub(super) places: BTreeSet<usize>,
}

impl Unevaluated {
    /// Returns all members or elements of a value.
    pub(super) fn of(value: &Value) -> Self {
        match value {
            Value::Object(members) => Self { names: members.keys().cloned().collect(), ..Self::default() },
            Value::Array(items) => Self { places: (0..items.len()).collect(), ..Self::default() },
            _ => Self::default(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty() && self.places.is_empty()
    }

    /// Keeps only the members and elements that another rule has left over, too.
    pub(super) fn keep(&mut self, left: &Self) {
        self.names.retain(|name| left.names.contains(name));
        self.places.retain(|place| left.places.contains(place));
    }
}
