//! Go strings: shared, immutable bytes that are usually, but not always, UTF-8.

use std::borrow::{Borrow, Cow};
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use groundwork_budget::live_bytes;

/// A Go string. It is cheap to clone, and compares and sorts by bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Str(Arc<[u8]>);

impl Str {
    /// Counts the bytes as live memory; [`Drop`] takes them off again.
    fn new(bytes: Arc<[u8]>) -> Str {
        live_bytes::take(bytes.len() + live_bytes::OVERHEAD);
        Str(bytes)
    }

    /// Returns the text, with invalid UTF-8 replaced by U+FFFD.
    pub fn to_text(&self) -> Cow<'_, str> {
        crate::text::lossy(&self.0)
    }
}

impl Default for Str {
    fn default() -> Str {
        Str::new(Arc::from([]))
    }
}

impl fmt::Debug for Str {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.to_text(), f)
    }
}

impl Deref for Str {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl Borrow<[u8]> for Str {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl From<&str> for Str {
    fn from(text: &str) -> Str {
        Str::new(Arc::from(text.as_bytes()))
    }
}

impl From<String> for Str {
    fn from(text: String) -> Str {
        Str::new(Arc::from(text.into_bytes()))
    }
}

impl From<&[u8]> for Str {
    fn from(bytes: &[u8]) -> Str {
        Str::new(Arc::from(bytes))
    }
}

impl From<Vec<u8>> for Str {
    fn from(bytes: Vec<u8>) -> Str {
        Str::new(Arc::from(bytes))
    }
}

impl From<Arc<[u8]>> for Str {
    /// Wraps bytes. Bytes that other owners share are not counted, because they stay in memory
    /// anyway.
    fn from(bytes: Arc<[u8]>) -> Str {
        if Arc::strong_count(&bytes) == 1 { Str::new(bytes) } else { Str(bytes) }
    }
}

impl Drop for Str {
    fn drop(&mut self) {
        if Arc::strong_count(&self.0) == 1 {
            live_bytes::give_back(self.0.len() + live_bytes::OVERHEAD);
        }
    }
}
