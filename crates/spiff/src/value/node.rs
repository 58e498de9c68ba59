use std::fmt;
use std::sync::{Arc, OnceLock};

use super::{Template, Value};
use crate::issue::Issue;
use crate::syntax::ast::{Name, Step};

/// A value in a document, with its annotations (section 2.2).
#[derive(Debug, Clone)]
pub struct Node {
    pub(crate) value: Value,
    pub(crate) origin: Origin,
    pub(crate) flags: Flags,
    pub(crate) notes: Option<Box<Notes>>,
}

/// Which document a node comes from, and where it stands there.
#[derive(Debug, Clone)]
pub(crate) struct Origin {
    /// Name of the document.
    pub(crate) source: Arc<str>,
    /// From 1; 0 if the node stands in no text.
    pub(crate) line: u32,
    /// From 1, in characters; 0 if the node stands in no text.
    pub(crate) column: u32,
}

impl Default for Origin {
    fn default() -> Self {
        static NOWHERE: OnceLock<Arc<str>> = OnceLock::new();
        Self { source: Arc::clone(NOWHERE.get_or_init(|| Arc::from(""))), line: 0, column: 0 }
    }
}

/// The rarer annotations.
#[derive(Debug, Clone, Default)]
pub(crate) struct Notes {
    /// Stub path of the subtree; empty: no stub lookup at all.
    pub(crate) redirect: Option<Vec<Step>>,
    /// Name of the key field of a list.
    pub(crate) key_name: Option<Name>,
    pub(crate) tag: Option<TagMark>,
    pub(crate) issue: Option<Arc<Issue>>,
    /// Path and stub path that an expression without value was evaluated at.
    pub(crate) path: Option<(Vec<Step>, Vec<Step>)>,
    /// What a `dynamic` node is instantiated from again.
    pub(crate) dynamic: Option<Arc<Template>>,
}

/// `&tag:NAME`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TagMark {
    pub(crate) name: Name,
    pub(crate) global: bool,
}

impl Node {
    /// A node without annotations that stands in no document.
    pub fn new(value: Value) -> Self {
        Self { value, origin: Origin::default(), flags: Flags::NONE, notes: None }
    }

    pub(crate) fn at(value: Value, origin: Origin) -> Self {
        Self { value, origin, flags: Flags::NONE, notes: None }
    }

    /// The value without its annotations.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// Whether a list entry is an insertion point: a map with the one field `<<` or `<<<`.
    pub(crate) fn is_insertion(&self) -> bool {
        match &self.value {
            Value::Map(map) if map.len() == 1 => {
                map.keys().next().is_some_and(|key| matches!(&**key, "<<" | "<<<"))
            }
            _ => false,
        }
    }

    pub(crate) fn has(&self, flag: Flags) -> bool {
        self.flags.contains(flag)
    }

    pub(crate) fn redirect(&self) -> Option<&[Step]> {
        self.notes.as_ref()?.redirect.as_deref()
    }

    pub(crate) fn key_name(&self) -> Option<&Name> {
        self.notes.as_ref()?.key_name.as_ref()
    }

    pub(crate) fn tag(&self) -> Option<&TagMark> {
        self.notes.as_ref()?.tag.as_ref()
    }

    /// What the value is an instance of, and is made from again where the node arrives.
    pub(crate) fn dynamic(&self) -> Option<&Arc<Template>> {
        self.notes.as_ref()?.dynamic.as_ref()
    }

    pub(crate) fn issue(&self) -> Option<&Arc<Issue>> {
        self.notes.as_ref()?.issue.as_ref()
    }

    pub(crate) fn notes_mut(&mut self) -> &mut Notes {
        self.notes.get_or_insert_default()
    }
}

/// A set of the yes-or-no annotations.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Flags(u16);

impl Flags {
    pub(crate) const NONE: Self = Self(0);
    pub(crate) const TEMPORARY: Self = Self(1);
    pub(crate) const LOCAL: Self = Self(1 << 1);
    pub(crate) const INJECT: Self = Self(1 << 2);
    pub(crate) const STATE: Self = Self(1 << 3);
    pub(crate) const DEFAULT: Self = Self(1 << 4);
    pub(crate) const DYNAMIC: Self = Self(1 << 5);
    /// Came from a stub by injection, or from a merged map or list.
    pub(crate) const INJECTED: Self = Self(1 << 6);
    /// Inside of a default: not seen by stub lookup.
    pub(crate) const IMPLIED: Self = Self(1 << 7);
    /// Unkeyed entries of this list are not looked up in stubs.
    pub(crate) const NO_MERGE: Self = Self(1 << 8);
    /// Result of `merge`: final.
    pub(crate) const MERGED: Self = Self(1 << 9);
    /// Result of `prefer`.
    pub(crate) const PREFERRED: Self = Self(1 << 10);
    pub(crate) const REPLACE: Self = Self(1 << 11);
    pub(crate) const UNDEFINED: Self = Self(1 << 12);
    /// Something that it refers to failed.
    pub(crate) const FAILED: Self = Self(1 << 13);
    /// Failed by itself.
    pub(crate) const ERROR: Self = Self(1 << 14);

    /// The function `catch` of its expression has been met: it is evaluated from now on.
    pub(crate) const CAUGHT: Self = Self(1 << 15);

    /// What markers set and what travels when a node is overridden (section 10.1).
    pub(crate) const MARKERS: Self = Self(0b11_1111);

    pub(crate) const fn contains(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(crate) const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub(crate) const fn only(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Flags({:#b})", self.0)
    }
}
