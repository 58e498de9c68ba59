//! Limits for reading a repository (`packagevariants.md` 6.16). They are needed because every user
//! with push access decides about its content.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::git::objects::ObjectsError;
use crate::git::progress::Progress;

/// Limit for a Kptfile, in bytes.
pub(crate) const MAX_KPTFILE: u64 = 1 << 20;
/// Limit for a commit with its message, in bytes.
pub(crate) const MAX_COMMIT: u64 = 1 << 20;
/// Bytes of a commit message that are kept; annotations must be within them.
pub(crate) const MAX_MESSAGE: usize = 64 << 10;
/// Limit for a tree in bytes: one directory, without the content of its files.
pub(crate) const MAX_TREE: u64 = 8 << 20;
/// Limit in bytes for any object, including the bases of deltas.
pub(crate) const MAX_OBJECT: usize = 64 << 20;
/// Limit for the path of a package, in bytes. Names of revisions begin with the path, and names of
/// Kubernetes objects have this limit.
pub(crate) const MAX_PATH: usize = 253;
/// Limit for the name of a ref, in bytes.
pub(crate) const MAX_REFERENCE: usize = 1_024;
/// Limit for the refs of packages in a repository.
pub(crate) const MAX_REFS: usize = 50_000;
/// Limit for the trees that one search for packages reads; a tree in several places counts once.
pub(crate) const MAX_TREES: usize = 100_000;
/// Limit for the subdirectories in the trees that one search for packages reads.
pub(crate) const MAX_FOLDERS: usize = 200_000;
/// Limit for the directories on paths to packages; a directory counts once for each path.
pub(crate) const MAX_DIRECTORIES: usize = 100_000;
/// Limit for the entries of the trees that one search for packages reads.
pub(crate) const MAX_ENTRIES: usize = 2_000_000;
/// Bytes that are kept of the Kptfile and the commits of one revision.
pub(crate) const MAX_FACTS: usize = 64 << 10;
/// Limit for the kept facts of all revisions of a repository, in bytes.
pub(crate) const MAX_ALL_FACTS: usize = 64 << 20;
/// Limit for the packages whose highest numbers are kept.
pub(crate) const MAX_MARKS: usize = 100_000;
/// Problems of a repository that are kept; further ones are only counted.
pub(crate) const MAX_PROBLEMS: usize = 1_000;

/// Time limit of one look at a repository; the next look continues with the rest.
pub(crate) const LOOK: Duration = Duration::from_secs(20);

/// Signal that ends running work for a repository that was changed or deleted.
#[derive(Debug, Default)]
pub(crate) struct Interrupts(Arc<AtomicU64>);

impl Interrupts {
    pub(crate) fn raise(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns an interrupt for work that begins now; earlier signals do not end it.
    pub(crate) fn watch(&self) -> Interrupt {
        Interrupt { raised: Arc::clone(&self.0), seen: self.0.load(Ordering::Relaxed) }
    }
}

/// Receiver of the signal.
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

/// One look at the content of a repository: a pass over its refs and commits within the time limit
/// [`LOOK`]. The next look continues where this one ends.
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

    /// Checks whether to continue; called before each step that may take long.
    ///
    /// # Errors
    /// The look was interrupted, or its time is up.
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

/// Shortens untrusted text for messages.
pub(crate) fn shortened(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
