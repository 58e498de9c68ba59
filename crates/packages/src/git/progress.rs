//! Progress of reading a repository, for users who wait for it (`packagevariants.md` 6.10).

use std::sync::{Arc, Mutex, PoisonError};

/// Running work for a repository. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Progress(Arc<Mutex<Option<Stage>>>);

#[derive(Debug, Clone, Copy)]
enum Stage {
    Asking,
    Fetching { done: usize, all: usize },
    Reading { done: usize, all: usize },
}

impl Progress {
    pub(crate) fn asking(&self) {
        self.set(Some(Stage::Asking));
    }

    pub(crate) fn fetching(&self, done: usize, all: usize) {
        self.set(Some(Stage::Fetching { done, all }));
    }

    pub(crate) fn reading(&self, done: usize, all: usize) {
        self.set(Some(Stage::Reading { done, all }));
    }

    /// Marks the work as done.
    pub(crate) fn rest(&self) {
        self.set(None);
    }

    fn set(&self, stage: Option<Stage>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = stage;
    }

    /// Returns the progress as text; `None` if no work is running.
    pub(crate) fn text(&self) -> Option<String> {
        let stage = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        stage.map(|stage| match stage {
            Stage::Asking => "reading the refs of the remote".to_owned(),
            Stage::Fetching { done, all } => format!("{done} of {all} new refs fetched"),
            Stage::Reading { done, all } => format!("{done} of {all} refs read"),
        })
    }
}
