//! Highest numbers that revisions of packages ever had, read from the history of the branch
//! (`packagevariants.md` 6.12).

use std::collections::HashMap;
use std::sync::Arc;

use gix_hash::ObjectId;

use crate::git::limits::{Look, MAX_MARKS, MAX_PATH};
use crate::git::message::{Annotation, Message};
use crate::git::objects::{Objects, ObjectsError};

/// Highest numbers that a package has used, so that they are not given again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Marks {
    pub revision: i64,
}

/// Numbers of all packages, by their full paths.
pub(crate) type AllMarks = HashMap<String, Marks>;

/// Part of the history that was read. The history may be long: a look that runs out of time leaves
/// the rest to the next one.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// Newest commit that was read.
    head: Option<ObjectId>,
    /// Parts that are still to be read: from a commit back to one that was read before.
    left: Vec<(ObjectId, Option<ObjectId>)>,
    marks: Arc<AllMarks>,
    /// Reason why a part was skipped.
    problem: Option<String>,
}

impl History {
    pub(crate) fn marks(&self) -> Arc<AllMarks> {
        Arc::clone(&self.marks)
    }

    /// Returns the reason why old numbers may be unknown.
    pub(crate) fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// Continues reading, from the current head of the branch.
    ///
    /// # Errors
    /// The look was interrupted or its time is up, or the clone is damaged.
    pub(crate) fn read(
        &mut self,
        objects: &Objects,
        head: ObjectId,
        look: &Look,
    ) -> Result<(), ObjectsError> {
        if self.head != Some(head) {
            self.left.push((head, self.head.replace(head)));
        }
        if self.left.is_empty() {
            return Ok(());
        }
        let mut marks = AllMarks::clone(&self.marks);
        let ended = self.read_left(objects, look, &mut marks);
        self.marks = Arc::new(marks);
        ended
    }

    fn read_left(
        &mut self,
        objects: &Objects,
        look: &Look,
        marks: &mut AllMarks,
    ) -> Result<(), ObjectsError> {
        while let Some((mut next, until)) = self.left.pop() {
            loop {
                let commit = look.goes_on().and_then(|()| objects.commit(next));
                let commit = match commit {
                    Ok(commit) => commit,
                    Err(error) if error.is_of_object() => {
                        self.problem =
                            Some(format!("{error}; revision numbers before this commit are not known"));
                        break;
                    }
                    Err(error) => {
                        self.left.push((next, until));
                        return Err(error);
                    }
                };
                Message::read(&commit.message).annotations.into_iter().for_each(|found| raise(marks, found));
                match commit.parents.first().copied().filter(|parent| Some(*parent) != until) {
                    Some(parent) => next = parent,
                    None => break,
                }
            }
        }
        Ok(())
    }
}

fn raise(marks: &mut AllMarks, annotation: Annotation) {
    let is_known = marks.contains_key(&annotation.package);
    if annotation.package.len() > MAX_PATH || !is_known && marks.len() >= MAX_MARKS {
        return;
    }
    let mark = marks.entry(annotation.package).or_default();
    mark.revision = mark.revision.max(annotation.revision.parse().unwrap_or(0));
}
