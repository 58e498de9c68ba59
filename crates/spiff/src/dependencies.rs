//! Record of the nodes of a document that the next pass has to evaluate.
//!
//! spiff++ flows the whole document in each pass. A node's outcome depends on itself and on the
//! parts of the previous pass's tree that it read. As long as neither changed, evaluating it again
//! cannot change the outcome. So a node that is not final yet *waits* at each place that it read,
//! and a change at a place wakes the nodes that wait there, above and below it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::syntax::ast::Step;

/// A path in the tree of one document, as a number. Fields are steps by name, list entries by
/// position.
pub(crate) type Place = u32;

pub(crate) const ROOT: Place = 0;
const NOWHERE: Place = u32::MAX;

/// The part of a node that the next pass has to evaluate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Attention {
    None,
    /// Only the marked nodes below the node.
    Below,
    /// The node itself, and marked nodes below it.
    Own,
    /// The node with everything below it, because it is new.
    Deep,
}

#[derive(Debug)]
struct TrackedPlace {
    parent: Place,
    step: Step,
    first_child: Place,
    next_sibling: Place,
    /// The pass to which `attention` and `marked` belong.
    pass: u32,
    attention: Attention,
    /// Children that need any attention.
    marked: Vec<Place>,
    /// Places whose nodes must be evaluated again when this place changes.
    waiting: Vec<Place>,
}

impl TrackedPlace {
    fn new(parent: Place, step: Step, next_sibling: Place) -> Self {
        let attention = Attention::None;
        let (marked, waiting) = (Vec::new(), Vec::new());
        Self { parent, step, first_child: NOWHERE, next_sibling, pass: 0, attention, marked, waiting }
    }
}

#[derive(Debug)]
pub(crate) struct Dependencies {
    tracked: Vec<TrackedPlace>,
    children: HashMap<(Place, Step), Place, foldhash::fast::RandomState>,
    /// Number of the running pass. Marks are made for the next one.
    pass: u32,
}

impl Dependencies {
    /// Creates the record of a document that is new as a whole.
    pub(crate) fn new() -> Self {
        let mut root = TrackedPlace::new(NOWHERE, Step::Index(0), NOWHERE);
        root.attention = Attention::Deep;
        root.pass = 1;
        Self { tracked: vec![root], children: HashMap::default(), pass: 0 }
    }

    /// Begins a pass. The marks of the pass before become current. Older marks expire: no walk of
    /// that pass reached their places.
    pub(crate) fn begin_pass(&mut self) {
        self.pass += 1;
    }

    pub(crate) fn is_first_pass(&self) -> bool {
        self.pass <= 1
    }

    fn tracked(&self, place: Place) -> &TrackedPlace {
        &self.tracked[place as usize]
    }

    fn shade_mut(&mut self, place: Place) -> &mut TrackedPlace {
        &mut self.tracked[place as usize]
    }

    /// Returns the place `step` below `place`.
    pub(crate) fn child(&mut self, place: Place, step: &Step) -> Place {
        let next = Place::try_from(self.tracked.len()).unwrap_or(NOWHERE);
        match self.children.entry((place, step.clone())) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(free) => {
                free.insert(next);
                let sibling = self.tracked[place as usize].first_child;
                self.tracked[place as usize].first_child = next;
                self.tracked.push(TrackedPlace::new(place, step.clone(), sibling));
                next
            }
        }
    }

    /// Returns the steps from the root to `place`.
    pub(crate) fn steps(&self, place: Place) -> Vec<&Step> {
        self.steps_below(ROOT, place)
    }

    /// Returns the steps from `base` to `place`, which is at or below it.
    pub(crate) fn steps_below(&self, base: Place, place: Place) -> Vec<&Step> {
        let mut steps = Vec::new();
        let mut at = place;
        while at != base && at != ROOT {
            let tracked = self.tracked(at);
            steps.push(&tracked.step);
            at = tracked.parent;
        }
        steps.reverse();
        steps
    }

    pub(crate) fn step(&self, place: Place) -> &Step {
        &self.tracked(place).step
    }

    /// Returns the parent of `place`; the root is its own parent.
    pub(crate) fn parent(&self, place: Place) -> Place {
        if place == ROOT { ROOT } else { self.tracked(place).parent }
    }

    /// Returns the attention that `place` needs, and clears it.
    pub(crate) fn take(&mut self, place: Place) -> Attention {
        let pass = self.pass;
        let tracked = self.shade_mut(place);
        let attention = std::mem::replace(&mut tracked.attention, Attention::None);
        if tracked.pass == pass { attention } else { Attention::None }
    }

    /// Returns the children of `place` that need attention, in the order of their steps, and clears
    /// the marks.
    pub(crate) fn take_marked(&mut self, place: Place) -> Vec<Place> {
        if self.tracked(place).pass != self.pass {
            return Vec::new();
        }
        let mut marked = std::mem::take(&mut self.shade_mut(place).marked);
        marked.sort_by(|left, right| self.tracked(*left).step.cmp(&self.tracked(*right).step));
        marked
    }

    /// Makes the next pass give `place` at least this attention.
    pub(crate) fn mark(&mut self, place: Place, attention: Attention) {
        let mut at = place;
        let mut wanted = attention;
        let next = self.pass + 1;
        loop {
            let tracked = self.shade_of_pass(at, next);
            let known = tracked.attention;
            tracked.attention = known.max(wanted);
            let parent = tracked.parent;
            // A place with any attention has marked its ancestors already.
            if known != Attention::None || parent == NOWHERE {
                return;
            }
            self.shade_of_pass(parent, next).marked.push(at);
            at = parent;
            wanted = Attention::Below;
        }
    }

    fn shade_of_pass(&mut self, place: Place, pass: u32) -> &mut TrackedPlace {
        let tracked = self.shade_mut(place);
        if tracked.pass != pass {
            tracked.pass = pass;
            tracked.attention = Attention::None;
            tracked.marked.clear();
        }
        tracked
    }

    /// Makes `waiting` wait for a change at `place`.
    pub(crate) fn wait(&mut self, place: Place, waiting: Place) {
        let list = &mut self.shade_mut(place).waiting;
        if list.last() != Some(&waiting) {
            list.push(waiting);
        }
    }

    /// Wakes all places that wait for a change at `place`, above it or below it.
    pub(crate) fn changed(&mut self, place: Place) {
        let mut at = self.tracked(place).parent;
        while at != NOWHERE {
            self.wake(at);
            at = self.tracked(at).parent;
        }
        let mut below = vec![place];
        while let Some(at) = below.pop() {
            self.wake(at);
            let mut child = self.tracked(at).first_child;
            while child != NOWHERE {
                below.push(child);
                child = self.tracked(child).next_sibling;
            }
        }
    }

    fn wake(&mut self, place: Place) {
        for waiting in std::mem::take(&mut self.shade_mut(place).waiting) {
            self.mark(waiting, Attention::Own);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn field(name: &str) -> Step {
        Step::Field(Arc::from(name))
    }

    #[test]
    fn a_change_wakes_who_waits_above_and_below() {
        let mut dependencies = Dependencies::new();
        dependencies.begin_pass();
        assert_eq!(dependencies.take(ROOT), Attention::Deep);
        let a = dependencies.child(ROOT, &field("a"));
        let b = dependencies.child(a, &field("b"));
        let c = dependencies.child(b, &field("c"));
        let [x, y, z] = ["x", "y", "z"].map(|name| dependencies.child(ROOT, &field(name)));
        dependencies.wait(a, x);
        dependencies.wait(c, y);
        let elsewhere = dependencies.child(a, &field("d"));
        dependencies.wait(elsewhere, z);
        dependencies.changed(b);
        dependencies.begin_pass();
        assert_eq!(dependencies.take(ROOT), Attention::Below);
        assert_eq!(dependencies.take_marked(ROOT), [x, y]);
        assert_eq!(dependencies.take(x), Attention::Own);
        assert_eq!(dependencies.take(z), Attention::None);
        dependencies.changed(b);
        dependencies.begin_pass();
        assert_eq!(dependencies.take(ROOT), Attention::None, "who was woken waits no longer");
    }
}
