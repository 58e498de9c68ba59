//! How far a repository is read, for people who wait for it (`packagevariants.md` 6.10).

use std::sync::{Arc, Mutex, PoisonError};

/// The work that is done for a repository. Clones share it.
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

    /// The work is over.
    pub(crate) fn rest(&self) {
        self.set(None);
    }

    fn set(&self, stage: Option<Stage>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = stage;
    }

    /// None if nothing is done.
    pub(crate) fn text(&self) -> Option<String> {
        let stage = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        stage.map(|stage| match stage {
            Stage::Asking => "the remote is asked for its refs".to_owned(),
            Stage::Fetching { done, all } => format!("{done} of {all} new refs are fetched"),
            Stage::Reading { done, all } => format!("{done} of {all} refs are read"),
        })
    }
}
