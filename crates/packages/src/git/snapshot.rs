//! Content of a repository, as one look (`limits::Look`) has found it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use gix_hash::ObjectId;

use crate::git::layout::full_path;
use crate::git::limits::{MAX_PROBLEMS, MAX_REFERENCE, shortened};
use crate::git::marks::{AllMarks, Marks};
use crate::git::remote::RefUpdate;
use crate::git::revision::Revision;
use crate::git::settings::Settings;

/// The content of a repository.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Revisions by the names of their objects.
    pub revisions: BTreeMap<String, Arc<Revision>>,
    /// Head of the branch, if it exists.
    pub head: Option<ObjectId>,
    /// Problems with refs, for users.
    pub problems: Vec<String>,
    /// Number of problems that are not in `problems`.
    pub more_problems: usize,
    /// Progress of a look whose time was up; the next look continues.
    pub left: Option<Left>,
    /// True if a part could not be read: a revision that is missing here may exist.
    pub is_partial: bool,
    /// Updates that repair the traces of incomplete pushes.
    pub repairs: Vec<RefUpdate>,
    /// Highest numbers that revisions of a package ever had, by its full path.
    pub marks: Arc<AllMarks>,
    /// Latest revisions, computed on demand.
    latest: OnceLock<BTreeSet<String>>,
}

/// Progress of a look whose time was up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Left {
    /// Refs that were read.
    pub read: usize,
    /// Refs of the repository in total.
    pub all: usize,
}

impl Snapshot {
    /// Returns the numbers that revisions of a package had. Numbers of existing revisions are in
    /// `revisions`.
    pub fn marks_of(&self, directory: &str, package: &str) -> Marks {
        self.marks.get(&full_path(directory, package)).copied().unwrap_or_default()
    }

    /// Returns the names of the latest revisions of all packages.
    pub fn latest(&self, settings: &Settings) -> &BTreeSet<String> {
        self.latest.get_or_init(|| {
            let place = settings.place();
            let objects: Vec<_> = self.revisions.values().map(|revision| revision.object(&place)).collect();
            groundwork_fleet::latest(&objects)
                .into_values()
                .map(groundwork_api::ResourceExt::name_any)
                .collect()
        })
    }

    pub(crate) fn problem(&mut self, text: &str) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(shortened(text, 2 * MAX_REFERENCE));
        } else {
            self.more_problems += 1;
        }
    }
}
