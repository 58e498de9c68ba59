//! Bytes that the values of engines hold on this thread.
//!
//! Values are made and dropped on the thread that evaluates, so a plain count a thread is enough: what shares its content counts
//! once, and what is dropped is given back. An evaluation compares the count with what it was when it began. A value that another
//! thread has made and that is dropped here makes the count too low; only what outlives evaluations, such as parsed templates,
//! comes from other threads.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
}

/// What is counted for a piece of memory besides its content.
pub const OVERHEAD: usize = 32;

/// Bytes that are held now; only differences mean something.
#[inline]
pub fn now() -> isize {
    HELD.get()
}

/// Bytes that are held more than at the time `since`, of which [`now`] gave the count.
#[inline]
pub fn since(since: isize) -> usize {
    usize::try_from(HELD.get().wrapping_sub(since)).unwrap_or(0)
}

/// So many bytes more are held.
#[inline]
pub fn take(bytes: usize) {
    HELD.set(HELD.get().wrapping_add(bytes.cast_signed()));
}

/// So many bytes are held no longer.
#[inline]
pub fn give_back(bytes: usize) {
    HELD.set(HELD.get().wrapping_sub(bytes.cast_signed()));
}

/// Bytes that are held as long as this is there. A clone holds as many again.
#[derive(Debug, Default)]
pub struct Held(AtomicUsize);

impl Held {
    /// Holds so many bytes.
    #[inline]
    pub fn new(bytes: usize) -> Self {
        take(bytes);
        Self(AtomicUsize::new(bytes))
    }

    fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Holds so many bytes more.
    #[inline]
    pub fn add(&self, bytes: usize) {
        self.set(self.bytes().saturating_add(bytes));
    }

    /// Holds so many bytes from now on.
    #[inline]
    pub fn set(&self, bytes: usize) {
        // Nobody else changes what it changes: values are shared between threads only where they stay as they are.
        give_back(self.bytes());
        self.0.store(bytes, Ordering::Relaxed);
        take(bytes);
    }
}

impl Clone for Held {
    fn clone(&self) -> Self {
        Self::new(self.bytes())
    }
}

impl Drop for Held {
    #[inline]
    fn drop(&mut self) {
        give_back(*self.0.get_mut());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_is_given_back() {
        let start = now();
        let one = Held::new(10);
        let two = one.clone();
        assert_eq!(since(start), 20);
        two.set(3);
        assert_eq!(since(start), 13);
        drop((one, two));
        assert_eq!(since(start), 0);
    }
}
