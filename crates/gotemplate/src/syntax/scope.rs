//! Scopes of variables while parsing.

use super::tree::{ROOT_SLOT, Slot};
use crate::value::Str;

/// The variables of one template body.
///
/// There are two lists, because Go's check of names at parse time is looser than their resolution
/// at execution (`gotemplate.md` 3): a name stays *known* to the end of its control structure, also
/// in the else branch, and an assignment makes a name known. Only *live* declarations have a slot.
#[derive(Debug)]
pub(super) struct Scope {
    known: Vec<Str>,
    live: Vec<Str>,
    slots: usize,
}

/// A state of the scope, to return to when a control structure ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    known: usize,
    live: usize,
}

impl Scope {
    pub(super) fn new() -> Scope {
        let root = Str::from("$");
        Scope { known: vec![root.clone()], live: vec![root], slots: ROOT_SLOT as usize + 1 }
    }

    pub(super) fn mark(&self) -> Mark {
        Mark { known: self.known.len(), live: self.live.len() }
    }

    /// Leaves a control structure.
    pub(super) fn leave(&mut self, mark: Mark) {
        self.known.truncate(mark.known);
        self.live.truncate(mark.live);
    }

    /// Leaves one branch of a control structure. Its declarations end, but their names stay known.
    pub(super) fn leave_branch(&mut self, mark: Mark) {
        self.live.truncate(mark.live);
    }

    pub(super) fn make_known(&mut self, name: Str) {
        self.known.push(name);
    }

    pub(super) fn is_known(&self, name: &[u8]) -> bool {
        self.known.iter().any(|known| **known == *name)
    }

    /// Gives a new declaration its slot.
    pub(super) fn declare(&mut self, name: Str) -> Slot {
        self.live.push(name);
        self.slots = self.slots.max(self.live.len());
        u32::try_from(self.live.len() - 1).ok()
    }

    /// Returns the slot of the innermost live declaration.
    pub(super) fn resolve(&self, name: &[u8]) -> Slot {
        let at = self.live.iter().rposition(|live| **live == *name)?;
        u32::try_from(at).ok()
    }

    /// Returns the number of slots that the frame needs.
    pub(super) fn slots(&self) -> u32 {
        u32::try_from(self.slots).unwrap_or(u32::MAX)
    }
}
