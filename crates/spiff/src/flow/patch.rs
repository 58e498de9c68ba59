//! Changes of a tree, applied at the end of a pass.

use std::sync::Arc;

use crate::dependencies::{Attention, Dependencies, Place};
use crate::syntax::ast::Step;
use crate::value::{Flags, Node, Value};

#[derive(Debug, Clone)]
pub(super) struct Patch {
    pub(super) place: Place,
    pub(super) change: Change,
}

#[derive(Debug, Clone)]
pub(super) enum Change {
    /// Replaces a node, or adds a field.
    Put(Node),
    /// Drops a field.
    Remove,
    Flags(Flags),
    /// The node stays, but paths below it change.
    Moved,
}

impl Patch {
    /// Returns the number of nodes that the change puts into the document.
    pub(super) fn size(&self) -> u64 {
        match &self.change {
            Change::Put(node) => u64::from(node.value.size()),
            Change::Remove | Change::Flags(_) | Change::Moved => 0,
        }
    }

    /// Marks the places that must be evaluated again because of this change.
    pub(super) fn wake(&self, dependencies: &mut Dependencies) {
        match self.change {
            Change::Put(_) => dependencies.mark(self.place, Attention::Deep),
            // The map that lost a field may get it again from a stub.
            Change::Remove => dependencies.mark(dependencies.parent(self.place), Attention::Own),
            Change::Flags(_) => dependencies.mark(self.place, Attention::Own),
            Change::Moved => return dependencies.mark(self.place, Attention::Deep),
        }
        dependencies.changed(self.place);
    }
}

/// Applies the changes to `node`, which is at `base`.
pub(super) fn apply(node: &mut Node, dependencies: &Dependencies, base: Place, patches: &[Patch]) {
    for patch in patches {
        change(node, &dependencies.steps_below(base, patch.place), &patch.change);
    }
}

fn change(node: &mut Node, steps: &[&Step], made: &Change) {
    let Some((first, rest)) = steps.split_first() else {
        match made {
            Change::Put(new) => *node = new.clone(),
            Change::Flags(flags) => node.flags = *flags,
            Change::Remove => node.flags |= Flags::UNDEFINED,
            Change::Moved => {}
        }
        return;
    };
    match (&mut node.value, first) {
        (Value::Map(map), Step::Field(name)) => {
            let map = Arc::make_mut(map);
            match (made, rest) {
                (Change::Remove, []) => {
                    map.remove(name);
                }
                (Change::Put(new), []) => map.insert(Arc::clone(name), new.clone()),
                _ => {
                    let Some(child) = map.get_mut(name) else { return };
                    change(child, rest, made);
                    let nesting = child.value.nesting();
                    map.deepen(nesting);
                }
            }
        }
        (Value::List(list), Step::Index(index)) => {
            let list = Arc::make_mut(list);
            let Some(child) =
                usize::try_from(*index).ok().and_then(|index| list.entries_mut().get_mut(index))
            else {
                return;
            };
            change(child, rest, made);
            let nesting = child.value.nesting();
            list.deepen(nesting);
        }
        _ => {}
    }
}
