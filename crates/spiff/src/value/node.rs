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

/// The annotations that few nodes have, kept apart so that all others stay small.
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
        Self { value, origin: Origin::default(), flags: Flags::empty(), notes: None }
    }

    pub(crate) fn at(value: Value, origin: Origin) -> Self {
        Self { value, origin, flags: Flags::empty(), notes: None }
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

    /// Whether it has the flag, or all of several.
    pub(crate) fn has(&self, flags: Flags) -> bool {
        self.flags.contains(flags)
    }

    /// Whether it has one of the flags at least.
    pub(crate) fn has_any(&self, flags: Flags) -> bool {
        self.flags.intersects(flags)
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

bitflags::bitflags! {
    /// The annotations that a node has or has not (section 2.2).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub(crate) struct Flags: u16 {
        const TEMPORARY = 1;
        const LOCAL = 1 << 1;
        const INJECT = 1 << 2;
        const STATE = 1 << 3;
        const DEFAULT = 1 << 4;
        const DYNAMIC = 1 << 5;
        /// Came from a stub by injection, or from a merged map or list.
        const INJECTED = 1 << 6;
        /// Inside of a default: not seen by stub lookup.
        const IMPLIED = 1 << 7;
        /// Unkeyed entries of this list are not looked up in stubs.
        const NO_MERGE = 1 << 8;
        /// Result of `merge`: final.
        const MERGED = 1 << 9;
        /// Result of `prefer`.
        const PREFERRED = 1 << 10;
        const REPLACE = 1 << 11;
        const UNDEFINED = 1 << 12;
        /// Something that it refers to failed.
        const FAILED = 1 << 13;
        /// Failed by itself.
        const ERROR = 1 << 14;
        /// The function `catch` of its expression has been met: it is evaluated from now on.
        const CAUGHT = 1 << 15;

        /// What markers set and what travels when a node is overridden (section 10.1).
        const MARKERS = Self::TEMPORARY.bits()
            | Self::LOCAL.bits()
            | Self::INJECT.bits()
            | Self::STATE.bits()
            | Self::DEFAULT.bits()
            | Self::DYNAMIC.bits();
    }
}
