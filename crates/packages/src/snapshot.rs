//! The content of a repository, as one look has found it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use gix_hash::ObjectId;

use crate::layout::full_path;
use crate::limits::{MAX_PROBLEMS, MAX_REFERENCE, shortened};
use crate::marks::{AllMarks, Marks};
use crate::remote::RefUpdate;
use crate::revision::Revision;
use crate::settings::Settings;

/// The content of a repository.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// By the names of their objects.
    pub revisions: BTreeMap<String, Arc<Revision>>,
    /// The head of the branch, if there is one.
    pub head: Option<ObjectId>,
    /// Problems with refs, for people.
    pub problems: Vec<String>,
    /// How many more problems there are.
    pub more_problems: usize,
    /// The refs that one look had no time for; the next one goes on.
    pub left: Option<Left>,
    /// True if something could not be read now that was there before: what is not in the listing may be in the repository.
    pub is_partial: bool,
    /// Updates that would clear away the rest of a push that ended half way.
    pub repairs: Vec<RefUpdate>,
    /// Highest numbers that were ever given to revisions of a package, by its whole path.
    pub marks: Arc<AllMarks>,
    /// Made when it is asked for.
    latest: OnceLock<BTreeSet<String>>,
}

/// How far a look has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Left {
    /// Refs that were read.
    pub read: usize,
    /// Refs that there are.
    pub all: usize,
}

impl Snapshot {
    /// Numbers that were given to revisions of a package; those of live revisions are in the listing.
    pub fn marks_of(&self, directory: &str, package: &str) -> Marks {
        self.marks.get(&full_path(directory, package)).copied().unwrap_or_default()
    }

    /// Names of the latest revisions of all packages.
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
