//! Content that the store itself has made of a package's upstream (`packagevariants.md` 7.4), read
//! from the commits of its revisions.
//!
//! A file that is still the same was changed by functions and variants only. Merges may delete it
//! with the upstream's.

use gix_hash::ObjectId;
use groundwork_krm::Package;

use crate::git::error::StoreError;
use crate::git::layout::full_path;
use crate::git::message::{Message, is_creation};
use crate::git::repository::GitRepository;
use crate::git::revision::Revision;

/// Revisions of a package that are read, beginning with the newest. Older ones seldom matter, and
/// each costs two reads of the package.
const MAX_REVISIONS: usize = 16;
/// Commits of a draft that are read.
const MAX_COMMITS: usize = 200;

/// Last result of the store in a draft.
struct Made {
    /// Commit with the content, after the functions have run.
    commit: ObjectId,
    before: Before,
}

/// Content that the store started from.
enum Before {
    /// An upstream.
    Upstream,
    /// An earlier commit of the draft.
    Commit(ObjectId),
    /// An earlier revision, by its name.
    Revision(String),
}

impl GitRepository {
    /// Returns the files of a revision as the store itself has made them; `None` if its commits do
    /// not tell.
    ///
    /// A file that people had changed before an upgrade does not count as made by it, although the
    /// upgrade has written the file too: it counts as it was made before the change.
    ///
    /// # Errors
    /// A commit, or the package in it, cannot be read.
    pub(crate) fn made(&self, revision: &Revision) -> Result<Option<Package>, StoreError> {
        let Some(start) = self.start_of(revision)? else { return Ok(None) };
        let mut chain = Vec::new();
        let (mut next, mut workspace) = (Some(start), revision.workspace.clone());
        while let Some(start) = next.filter(|_| chain.len() < MAX_REVISIONS) {
            let Some(found) = self.last_made(start, &revision.package, &workspace)? else { break };
            let before = match &found.before {
                Before::Upstream => None,
                Before::Commit(parent) => Some(*parent),
                Before::Revision(name) => match self.revision(name) {
                    Ok(source) => {
                        workspace.clone_from(&source.workspace);
                        self.start_of(&source)?
                    }
                    // The revision was deleted, so that nobody knows who had changed it.
                    Err(_) => None,
                },
            };
            let is_whole = matches!(found.before, Before::Upstream);
            chain.push((found.commit, before, is_whole));
            next = before;
        }
        let mut made: Option<Package> = None;
        for (commit, before, is_whole) in chain.into_iter().rev() {
            let content = self.texts_at(commit, &revision.package)?;
            made = match before {
                _ if is_whole => Some(content),
                None => None,
                Some(before) => {
                    let before = self.texts_at(before, &revision.package)?;
                    Some(carried(content, &before, &made.unwrap_or_default()))
                }
            };
        }
        Ok(made)
    }

    /// Reports whether the last commit of a draft is the one that its task has made: nobody has
    /// saved the draft since.
    pub fn is_as_its_task_made_it(&self, revision: &Revision) -> bool {
        let path = full_path(&self.settings().directory, &revision.package);
        let Ok(commit) = self.objects().commit(revision.commit) else { return false };
        let message = Message::read(&commit.message);
        message.of(&path).and_then(|found| found.task.as_ref()).is_some_and(is_creation)
    }

    /// Returns the last commit of the draft that became a revision.
    fn start_of(&self, revision: &Revision) -> Result<Option<ObjectId>, StoreError> {
        if revision.number == 0 {
            return Ok(Some(revision.commit));
        }
        // The commit of an approval has the draft as its last parent.
        Ok(self.objects().commit(revision.commit)?.parents.last().copied())
    }

    fn last_made(&self, start: ObjectId, package: &str, workspace: &str) -> Result<Option<Made>, StoreError> {
        let path = full_path(&self.settings().directory, package);
        let (mut next, mut changed) = (Some(start), None);
        for _ in 0..MAX_COMMITS {
            let Some(id) = next else { return Ok(None) };
            let commit = self.objects().commit(id)?;
            let message = Message::read(&commit.message);
            let parent = commit.parents.first().copied();
            if message.annotations.is_empty() {
                // People push commits of their own to a draft.
                (next, changed) = (parent, None);
                continue;
            }
            let Some(annotation) = message.of(&path).filter(|found| found.workspace_name == workspace) else {
                return Ok(None);
            };
            let extension = message.extension.clone().unwrap_or_default();
            let task = annotation.task.as_ref().filter(|task| is_creation(task));
            let before = match (task, extension.updated, parent) {
                (None, Some(_), Some(parent)) => Before::Commit(parent),
                (None, _, _) => {
                    // The store's own changes follow its task at once.
                    changed = extension.made.then_some(id);
                    next = parent;
                    continue;
                }
                (Some(task), _, _) => {
                    let edited = task.edit.as_ref().and_then(|edit| edit.source_ref.as_ref());
                    let upgraded =
                        task.upgrade.as_ref().and_then(|task| task.local_package_revision_ref.as_ref());
                    match (task.type_.as_str(), edited.or(upgraded)) {
                        ("clone", _) => Before::Upstream,
                        (_, Some(source)) => Before::Revision(source.name.clone()),
                        _ => return Ok(None),
                    }
                }
            };
            return Ok(Some(Made { commit: changed.unwrap_or(id), before }));
        }
        Ok(None)
    }

    fn texts_at(&self, commit: ObjectId, package: &str) -> Result<Package, StoreError> {
        let content = self.content_at(&commit.to_string(), package)?;
        Ok(content.map(|content| content.texts).unwrap_or_default())
    }
}

/// Returns the files that the store made of an earlier revision. Those that people had changed in
/// it count as they were made before.
fn carried(content: Package, before: &Package, made: &Package) -> Package {
    let one = |(path, text): (String, String)| match before.get(&path) == made.get(&path) {
        true => Some((path, text)),
        false => made.get(&path).map(|former| (path.clone(), former.clone())),
    };
    content.into_iter().filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_people_had_changed() {
        let package = |files: &[(&str, &str)]| -> Package {
            files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
        };
        let made = package(&[("same", "1"), ("changed", "1"), ("deleted", "1")]);
        let before = package(&[("same", "1"), ("changed", "mine"), ("added", "mine")]);
        let content = package(&[("same", "2"), ("changed", "mine 2"), ("added", "mine"), ("new", "2")]);
        assert_eq!(
            carried(content, &before, &made),
            package(&[("same", "2"), ("changed", "1"), ("new", "2")])
        );
    }
}
