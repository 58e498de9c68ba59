//! Limits of reading a repository, and when reading ends (`packagevariants.md` 6.16): whoever may push to it decides what is in it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::objects::ObjectsError;
use crate::progress::Progress;

/// Bytes of a Kptfile.
pub(crate) const MAX_KPTFILE: u64 = 1 << 20;
/// Bytes of a commit, with its message.
pub(crate) const MAX_COMMIT: u64 = 1 << 20;
/// Bytes that are kept of the message of a commit; annotations stand within.
pub(crate) const MAX_MESSAGE: usize = 64 << 10;
/// Bytes of a tree: one directory, without what is in its files.
pub(crate) const MAX_TREE: u64 = 8 << 20;
/// Bytes of any object that another one is stored as a difference to, and so of all that is read.
pub(crate) const MAX_OBJECT: usize = 64 << 20;
/// Bytes of the path of a package. The names of revisions begin with it, and objects of a cluster have no longer ones.
pub(crate) const MAX_PATH: usize = 253;
/// Bytes of the name of a ref.
pub(crate) const MAX_REFERENCE: usize = 1_024;
/// Refs of packages in a repository.
pub(crate) const MAX_REFS: usize = 50_000;
/// Trees that one search for packages reads; each once, wherever it lies.
pub(crate) const MAX_TREES: usize = 100_000;
/// Entries of them that are trees.
pub(crate) const MAX_FOLDERS: usize = 200_000;
/// Directories on the way to packages, each as often as a path leads to it.
pub(crate) const MAX_DIRECTORIES: usize = 100_000;
/// Entries of the trees that one search for packages reads.
pub(crate) const MAX_ENTRIES: usize = 2_000_000;
/// Bytes that are kept of what the Kptfile and the commits of one revision say.
pub(crate) const MAX_FACTS: usize = 64 << 10;
/// The same for all revisions of a repository.
pub(crate) const MAX_ALL_FACTS: usize = 64 << 20;
/// Packages of which the highest numbers are kept.
pub(crate) const MAX_MARKS: usize = 100_000;
/// Problems of a repository that are kept; the others are counted.
pub(crate) const MAX_PROBLEMS: usize = 1_000;

/// How long one look at a repository may read; what is left is for the next one.
pub(crate) const LOOK: Duration = Duration::from_secs(20);

/// Ends what is under way for a repository that is gone, or has changed.
#[derive(Debug, Default)]
pub(crate) struct Interrupts(Arc<AtomicU64>);

impl Interrupts {
    pub(crate) fn raise(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// For work that begins now: what was raised before does not end it.
    pub(crate) fn watch(&self) -> Interrupt {
        Interrupt { raised: Arc::clone(&self.0), seen: self.0.load(Ordering::Relaxed) }
    }
}

/// Tells work that nobody wants it any more.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interrupt {
    raised: Arc<AtomicU64>,
    seen: u64,
}

impl Interrupt {
    pub(crate) fn is_raised(&self) -> bool {
        self.raised.load(Ordering::Relaxed) != self.seen
    }
}

/// One look at what a repository holds.
#[derive(Debug)]
pub(crate) struct Look {
    interrupt: Interrupt,
    until: Instant,
    progress: Progress,
}

impl Look {
    pub(crate) fn new(interrupt: Interrupt, longest: Duration, progress: Progress) -> Self {
        Self { interrupt, until: Instant::now() + longest, progress }
    }

    pub(crate) fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Asked before each step that may take a while.
    ///
    /// # Errors
    /// The look is not wanted any more, or its time is over.
    pub(crate) fn goes_on(&self) -> Result<(), ObjectsError> {
        if self.interrupt.is_raised() {
            return Err(ObjectsError::Interrupted);
        }
        if Instant::now() >= self.until {
            return Err(ObjectsError::OutOfTime);
        }
        Ok(())
    }
}

/// A text of strangers as messages show it.
pub(crate) fn shortened(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
