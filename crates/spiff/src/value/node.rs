use std::sync::{Arc, OnceLock};

use super::{Template, Value};
use crate::issue::Issue;
use crate::syntax::ast::{Name, Step};

/// A value in a document, with its annotations (`spiff.md` 2.2).
#[derive(Debug, Clone)]
pub struct Node {
    pub(crate) value: Value,
    pub(crate) origin: Origin,
    pub(crate) flags: Flags,
    pub(crate) notes: Option<Box<Notes>>,
}

/// The document and position that a node comes from.
#[derive(Debug, Clone)]
pub(crate) struct Origin {
    /// Name of the document.
    pub(crate) source: Arc<str>,
    /// Line from 1; 0 if the node comes from no text.
    pub(crate) line: u32,
    /// Column in characters from 1; 0 if the node comes from no text.
    pub(crate) column: u32,
}

impl Default for Origin {
    fn default() -> Self {
        static NOWHERE: OnceLock<Arc<str>> = OnceLock::new();
        Self { source: Arc::clone(NOWHERE.get_or_init(|| Arc::from(""))), line: 0, column: 0 }
    }
}

/// Annotations that few nodes have, stored apart so that other nodes stay small.
#[derive(Debug, Clone, Default)]
pub(crate) struct Notes {
    /// Stub path of the subtree. An empty path turns stub lookup off.
    pub(crate) redirect: Option<Vec<Step>>,
    /// Name of the key field of a list.
    pub(crate) key_name: Option<Name>,
    pub(crate) tag: Option<TagMark>,
    pub(crate) issue: Option<Arc<Issue>>,
    /// Path and stub path at which an expression without a value was evaluated.
    pub(crate) path: Option<(Vec<Step>, Vec<Step>)>,
    /// Template of a `dynamic` node, which each node that receives the value instantiates again.
    pub(crate) dynamic: Option<Arc<Template>>,
}

/// The tag of `&tag:NAME`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TagMark {
    pub(crate) name: Name,
    pub(crate) global: bool,
}

impl Node {
    /// Creates a node without annotations that belongs to no document.
    pub fn new(value: Value) -> Self {
        Self { value, origin: Origin::default(), flags: Flags::empty(), notes: None }
    }

    pub(crate) fn at(value: Value, origin: Origin) -> Self {
        Self { value, origin, flags: Flags::empty(), notes: None }
    }

    /// Returns the value without its annotations.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// Reports whether a list entry is an insertion point: a map with the one field `<<` or `<<<`.
    pub(crate) fn is_insertion(&self) -> bool {
        match &self.value {
            Value::Map(map) if map.len() == 1 => {
                map.keys().next().is_some_and(|key| matches!(&**key, "<<" | "<<<"))
            }
            _ => false,
        }
    }

    /// Reports whether the node has the flag, or all of several.
    pub(crate) fn has(&self, flags: Flags) -> bool {
        self.flags.contains(flags)
    }

    /// Reports whether the node has at least one of the flags.
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

    /// Returns the template of a dynamic node, from which each node that receives the value makes
    /// its own instance.
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
    /// The boolean annotations of a node (`spiff.md` 2.2).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub(crate) struct Flags: u16 {
        const TEMPORARY = 1;
        const LOCAL = 1 << 1;
        const INJECT = 1 << 2;
        const STATE = 1 << 3;
        const DEFAULT = 1 << 4;
        const DYNAMIC = 1 << 5;
        /// The node came from a stub by injection, or from a merged map or list.
        const INJECTED = 1 << 6;
        /// The node is inside a default, so stub lookup does not see it.
        const IMPLIED = 1 << 7;
        /// Unkeyed entries of this list are not looked up in stubs.
        const NO_MERGE = 1 << 8;
        /// The node is the result of `merge`, and final.
        const MERGED = 1 << 9;
        /// The node is the result of `prefer`.
        const PREFERRED = 1 << 10;
        const REPLACE = 1 << 11;
        const UNDEFINED = 1 << 12;
        /// Another node, to which this one refers, has failed.
        const FAILED = 1 << 13;
        /// The node itself failed.
        const ERROR = 1 << 14;
        /// A pass has met the function `catch` of the expression, so later passes evaluate it.
        const CAUGHT = 1 << 15;

        /// Flags that markers set, and that stay with a value that overrides another node
        /// (`spiff.md` 10.1).
        const MARKERS = Self::TEMPORARY.bits()
            | Self::LOCAL.bits()
            | Self::INJECT.bits()
            | Self::STATE.bits()
            | Self::DEFAULT.bits()
            | Self::DYNAMIC.bits();
    }
}
