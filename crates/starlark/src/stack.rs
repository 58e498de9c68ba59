//! Stack for recursions.

/// Stack that a level of a recursion may take, and the size of a new piece of stack.
const RED_ZONE: usize = 192 << 10;
const STACK: usize = 2 << 20;

/// Runs a step of a recursion, on another piece of stack if the present one nears its end.
pub(crate) fn deeper<T>(run: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(RED_ZONE, STACK, run)
}
