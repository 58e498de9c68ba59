//! The guard that keeps every recursion of the engine from overflowing the native stack.

/// Bytes that must be free on the current stack, or a fresh segment is taken. Larger than the
/// largest frame of an unoptimised build.
const RED_ZONE: usize = 256 * 1024;
const SEGMENT: usize = 2 * 1024 * 1024;

/// Runs one level of a recursion, on a fresh stack segment if the current one is nearly used up.
/// Depth limits bound the number of levels; this guard makes room for each of them on every thread
/// and in every build.
pub(crate) fn guarded<T>(level: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(RED_ZONE, SEGMENT, level)
}
