//! Count of the bytes of live values on this thread.
//!
//! Values are created and dropped on the thread that evaluates, so one plain counter per thread is
//! enough. Shared content counts once, and dropped values are subtracted. An evaluation compares
//! the counter with its start. If this thread drops a value that another thread has created, the
//! counter becomes too low. Only values that outlive evaluations, such as parsed templates, come
//! from other threads.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
}

/// Bytes that are counted for an allocation besides its content.
pub const OVERHEAD: usize = 32;

/// Returns the bytes that are live now. Only differences have a meaning.
#[inline]
pub fn now() -> isize {
    HELD.get()
}

/// Returns the growth of live bytes since an earlier result of [`now`].
#[inline]
pub fn since(since: isize) -> usize {
    usize::try_from(HELD.get().wrapping_sub(since)).unwrap_or(0)
}

/// Adds bytes to the count.
#[inline]
pub fn take(bytes: usize) {
    HELD.set(HELD.get().wrapping_add(bytes.cast_signed()));
}

/// Subtracts bytes from the count.
#[inline]
pub fn give_back(bytes: usize) {
    HELD.set(HELD.get().wrapping_sub(bytes.cast_signed()));
}

/// Bytes that count as live until this is dropped. A clone counts the same number again.
#[derive(Debug, Default)]
pub struct Held(AtomicUsize);

impl Held {
    /// Counts this many bytes.
    #[inline]
    pub fn new(bytes: usize) -> Self {
        take(bytes);
        Self(AtomicUsize::new(bytes))
    }

    fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Counts this many bytes more.
    #[inline]
    pub fn add(&self, bytes: usize) {
        self.set(self.bytes().saturating_add(bytes));
    }

    /// Replaces the number of counted bytes.
    #[inline]
    pub fn set(&self, bytes: usize) {
        // The separate load and store lose no update: values are shared between threads only while
        // they do not change.
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
