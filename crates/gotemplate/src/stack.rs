//! The guard that keeps every recursion of the engine off the end of the native stack.

/// Left on the current stack when a fresh segment is taken; above the largest frame of an unoptimised build.
const RED_ZONE: usize = 256 * 1024;
const SEGMENT: usize = 2 * 1024 * 1024;

/// Runs one level of a recursion, on a fresh stack segment when the current one is nearly used up. Depth limits bound
/// the number of levels; this bounds what a level may cost, whatever thread and build it runs on.
pub(crate) fn guarded<T>(level: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(RED_ZONE, SEGMENT, level)
}
