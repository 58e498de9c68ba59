//! Discovery of package revisions from refs (`packagevariants.md` 6.3), and of the traces of
//! incomplete pushes (`packagevariants.md` 6.12).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use gix_hash::ObjectId;
use groundwork_api::Lifecycle;
use groundwork_api::kubernetes::is_dns_subdomain;
use groundwork_krm::{Description, Package};

use crate::git::layout::{Place, package_path, revision_number};
use crate::git::limits::{Look, MAX_ALL_FACTS, MAX_FACTS, shortened};
use crate::git::listing::Listing;
use crate::git::marks::History;
use crate::git::message::{Message, is_creation};
use crate::git::objects::{KPTFILE, Objects, ObjectsError};
use crate::git::remote::RefUpdate;
use crate::git::revision::{Facts, Revision, UNNUMBERED};
use crate::git::search::{Found, Reading};
use crate::git::settings::Settings;
use crate::git::snapshot::{Left, Snapshot};

/// Limit for the commits that are searched for the task of a revision.
const MAX_HISTORY: usize = 10_000;
/// Limit for the commits of the branch that are searched for an incomplete approval. A crash is
/// noticed soon, so few are enough.
const MAX_APPROVALS: usize = 100;

/// Cache of facts about commits, which never change.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// Packages by commit and path.
    places: HashMap<(ObjectId, String), Result<Option<At>, String>>,
    facts: HashMap<(ObjectId, String), OfDirectory>,
    branch: Option<(ObjectId, Found)>,
    /// Unfinished search on the branch.
    search: Option<Reading>,
    /// Reason why the files of a directory must not be served; `None` if they may be.
    refusals: HashMap<ObjectId, Option<String>>,
    history: History,
}

/// Object ID of a package's directory, with its facts or the reason why there are none.
type OfDirectory = (ObjectId, Result<Arc<Facts>, String>);

/// A package in a commit.
#[derive(Debug, Clone)]
struct At {
    directory: ObjectId,
    /// Workspace that the commit names for the package.
    workspace: Option<String>,
}

/// Reads the content of a repository.
///
/// # Errors
/// The clone is damaged, or the look ([`Look`]) was interrupted. An invalid ref only becomes a
/// problem in the snapshot, and does not affect other refs.
pub(crate) fn discover(
    objects: &Objects,
    listing: &Listing,
    settings: &Settings,
    memory: &mut Memory,
    look: &Look,
) -> Result<Snapshot, ObjectsError> {
    let (snapshot, seen, directories, approvals) = Default::default();
    let mut discovery =
        Discovery { objects, settings, memory, look, snapshot, seen, directories, approvals, weight: 0 };
    let places = discovery.places(listing);
    let mut read = 0;
    match discovery.read(&places, &mut read) {
        Ok(()) => {}
        Err(ObjectsError::OutOfTime) => {
            discovery.snapshot.left = Some(Left { read, all: places.len() });
            discovery.snapshot.is_partial = true;
        }
        Err(error) => return Err(error),
    }
    let Discovery { mut snapshot, seen, directories, memory, .. } = discovery;
    if snapshot.left.is_none() {
        // Drop the entries of deleted packages. Only a complete look has seen all packages.
        memory.places.retain(|key, _| seen.contains(key));
        memory.facts.retain(|key, _| seen.contains(key));
        memory.refusals.retain(|directory, _| directories.contains(directory));
    }
    snapshot.marks = memory.history.marks();
    Ok(snapshot)
}

struct Discovery<'a> {
    objects: &'a Objects,
    settings: &'a Settings,
    memory: &'a mut Memory,
    look: &'a Look,
    snapshot: Snapshot,
    /// Keys of the cache that are still used.
    seen: HashSet<(ObjectId, String)>,
    /// Directories of packages.
    directories: HashSet<ObjectId>,
    /// Commits on the branch, by the draft that they approve.
    approvals: Option<HashMap<ObjectId, ObjectId>>,
    /// Size of the facts of all revisions so far, in bytes.
    weight: usize,
}

impl Discovery<'_> {
    /// Returns the refs of the registered directory.
    fn places(&mut self, listing: &Listing) -> Vec<(Place, ObjectId)> {
        let mut places = Vec::new();
        let is_own = |place: &Place| {
            place.path().is_none_or(|path| package_path(&self.settings.directory, path).is_some())
        };
        for (name, found) in &listing.refs {
            match Place::read(name, &self.settings.branch) {
                Ok(Some(place)) if is_own(&place) => places.push((place, found.commit)),
                Ok(_) => {}
                Err(error) => self.snapshot.problem(&error.to_string()),
            }
        }
        for problem in &listing.problems {
            self.snapshot.problem(problem);
        }
        for (name, problem) in &listing.unfetched {
            let Ok(Some(place)) = Place::read(name, &self.settings.branch) else { continue };
            if is_own(&place) {
                self.snapshot.problem(&format!("{}: {problem}", place.short()));
            }
        }
        places
    }

    /// Reads refs by their meaning ([`Place`]), and counts in `read` those that are done.
    fn read(&mut self, places: &[(Place, ObjectId)], read: &mut usize) -> Result<(), ObjectsError> {
        let count = |read: &mut usize, look: &Look| {
            *read += 1;
            look.progress().reading(*read, places.len());
        };
        let branch = places.iter().find(|(place, _)| matches!(place, Place::Branch(_)));
        if let Some((place, commit)) = branch {
            self.snapshot.head = Some(*commit);
            self.attempt(place, |own| own.branch(place, *commit))?;
            count(read, self.look);
        }
        let proposed_for_deletion: BTreeSet<(&str, &str)> = places
            .iter()
            .filter_map(|(place, _)| match place {
                Place::DeletionProposed { path, name } => Some((path.as_str(), name.as_str())),
                _ => None,
            })
            .collect();
        for (place, commit) in places {
            if let Place::Tag { path, name } = place {
                let is_marked = proposed_for_deletion.contains(&(path.as_str(), name.as_str()));
                self.attempt(place, |own| own.tag(place, path, name, *commit, is_marked))?;
                count(read, self.look);
            }
        }
        let both = self.both_kinds(places);
        for (place, commit) in places {
            let (path, workspace, lifecycle) = match place {
                Place::Draft { path, workspace } => (path, workspace, Lifecycle::Draft),
                Place::Proposed { path, workspace } => (path, workspace, Lifecycle::Proposed),
                _ => continue,
            };
            if !both.contains(place) {
                self.attempt(place, |own| own.draft(place, path, workspace, *commit, lifecycle))?;
            }
            count(read, self.look);
        }
        self.dangling_markers(places);
        if let Some((place, commit)) = branch {
            self.memory.history.read(self.objects, *commit, self.look)?;
            if let Some(problem) = self.memory.history.problem() {
                let text = format!("{}: {problem}", place.short());
                self.snapshot.problem(&text);
            }
        }
        Ok(())
    }

    /// Reads one ref. A fault in its objects becomes a problem of this ref alone.
    fn attempt(
        &mut self,
        place: &Place,
        read: impl FnOnce(&mut Self) -> Result<(), ObjectsError>,
    ) -> Result<(), ObjectsError> {
        self.look.goes_on()?;
        match read(self) {
            Err(error) if error.is_of_object() => {
                self.snapshot.is_partial |= matches!(error, ObjectsError::Unreadable { .. });
                self.snapshot.problem(&format!("{}: {error}", place.short()));
                Ok(())
            }
            result => result,
        }
    }

    /// Adds each package on the branch as a placeholder revision.
    fn branch(&mut self, place: &Place, commit: ObjectId) -> Result<(), ObjectsError> {
        let tree = self.objects.commit(commit)?.tree;
        let known = self.memory.branch.take().filter(|(known, _)| *known == tree);
        let found = match known {
            Some((_, found)) => found,
            None => {
                let search = &mut self.memory.search;
                self.objects.packages(tree, &self.settings.directory, search, self.look)?
            }
        };
        // Cache the result first: the rest may run out of time.
        self.memory.branch = Some((tree, found.clone()));
        for problem in &found.problems {
            self.snapshot.problem(&format!("{}: {problem}", place.short()));
        }
        let workspace = self.settings.branch.clone();
        for (path, directory) in &found.packages {
            self.attempt(place, |own| {
                let facts = own.facts(*directory, path, *directory, |_| Ok(Facts::default()));
                let facts = facts.map_err(|error| of_package(path, error))?;
                own.add(place, path, &workspace, UNNUMBERED, Lifecycle::Published, commit, *directory, facts)
            })?;
        }
        Ok(())
    }

    fn tag(
        &mut self,
        place: &Place,
        path: &str,
        name: &str,
        commit: ObjectId,
        is_marked: bool,
    ) -> Result<(), ObjectsError> {
        let Some(At { directory, workspace }) = self.package_at(commit, path)? else { return Ok(()) };
        let number = revision_number(name);
        let facts = self.facts(commit, path, directory, |discovery| {
            let mut facts = Facts::default();
            if let Some(workspace) = &workspace {
                let found = discovery.objects.commit(commit)?;
                // The commit of an approval has the draft as its second parent.
                let start = found.parents.last().copied().unwrap_or(commit);
                discovery.history(start, path, workspace, &mut facts)?;
                facts.published = Some((shortened(&found.author, 1_000), found.time));
            }
            Ok(facts)
        })?;
        let lifecycle = if is_marked { Lifecycle::DeletionProposed } else { Lifecycle::Published };
        // A tag without a number is identified by its own name, since another tag may point to the
        // same commit.
        let workspace = workspace.filter(|_| number > 0).unwrap_or_else(|| name.to_owned());
        self.add(place, path, &workspace, number, lifecycle, commit, directory, facts)
    }

    fn draft(
        &mut self,
        place: &Place,
        path: &str,
        workspace: &str,
        commit: ObjectId,
        lifecycle: Lifecycle,
    ) -> Result<(), ObjectsError> {
        let Some(At { directory, .. }) = self.package_at(commit, path)? else {
            self.snapshot.problem(&format!("{}: {path:?} has no Kptfile", place.short()));
            return Ok(());
        };
        let name = self.name(path, workspace);
        if let Some(published) = self.snapshot.revisions.get(&name) {
            // The approval ended before it deleted the ref of the proposed revision.
            let is_contained = self.objects.commit(published.commit)?.parents.contains(&commit);
            if is_contained {
                self.repair(place, Some(commit), None);
            } else {
                let text = format!(
                    "package revision {name} is published, but also has a {} branch",
                    lifecycle.as_str()
                );
                self.snapshot.problem(&text);
            }
            return Ok(());
        }
        if lifecycle == Lifecycle::Proposed
            && let Some((approval, number)) = self.approval_of(path, workspace, commit)?
        {
            // The approval ended before it created the tag.
            let tag = Place::Tag { path: path.to_owned(), name: format!("v{number}") };
            self.repair(&tag, None, Some(approval));
            self.repair(place, Some(commit), None);
        }
        let facts = self.facts(commit, path, directory, |discovery| {
            let mut facts = Facts::default();
            discovery.history(commit, path, workspace, &mut facts)?;
            Ok(facts)
        })?;
        self.add(place, path, workspace, 0, lifecycle, commit, directory, facts)
    }

    /// Returns the places of workspaces that exist both as draft and as proposed. If both are at
    /// the same commit, the draft is left over from an incomplete push. If not, a user has to
    /// decide.
    fn both_kinds(&mut self, places: &[(Place, ObjectId)]) -> BTreeSet<Place> {
        let mut hidden = BTreeSet::new();
        let by_place: BTreeMap<&Place, ObjectId> =
            places.iter().map(|(place, commit)| (place, *commit)).collect();
        for (draft, commit) in places {
            let Place::Draft { path, workspace } = draft else { continue };
            let proposed = Place::Proposed { path: path.clone(), workspace: workspace.clone() };
            let Some(other) = by_place.get(&proposed) else { continue };
            hidden.insert(draft.clone());
            if other == commit {
                self.repair(draft, Some(*commit), None);
            } else {
                let name = self.name(path, workspace);
                let text = format!("package revision {name} has both a draft and a proposed branch");
                self.snapshot.problem(&text);
                hidden.insert(proposed);
            }
        }
        hidden
    }

    fn dangling_markers(&mut self, places: &[(Place, ObjectId)]) {
        let tags: BTreeSet<&Place> = places.iter().map(|(place, _)| place).collect();
        for (place, commit) in places {
            let Place::DeletionProposed { path, name } = place else { continue };
            if !tags.contains(&Place::Tag { path: path.clone(), name: name.clone() }) {
                self.repair(place, Some(*commit), None);
            }
        }
    }

    fn repair(&mut self, place: &Place, old: Option<ObjectId>, new: Option<ObjectId>) {
        self.snapshot.repairs.push(RefUpdate { reference: place.reference(), old, new });
    }

    /// Returns the commit on the branch that approved a proposed commit, and the number of the
    /// approved revision.
    fn approval_of(
        &mut self,
        path: &str,
        workspace: &str,
        commit: ObjectId,
    ) -> Result<Option<(ObjectId, i64)>, ObjectsError> {
        if self.approvals.is_none() {
            self.approvals = Some(self.last_approvals()?);
        }
        let Some(id) = self.approvals.as_ref().and_then(|all| all.get(&commit)).copied() else {
            return Ok(None);
        };
        let message = Message::read(&self.objects.commit(id)?.message);
        let annotation = message.of(path).filter(|annotation| annotation.workspace_name == workspace);
        let number = annotation.and_then(|annotation| annotation.revision.parse().ok());
        Ok(number.filter(|number| *number > 0).map(|number| (id, number)))
    }

    /// Returns the last commits of the branch that have a second parent, by that parent.
    fn last_approvals(&self) -> Result<HashMap<ObjectId, ObjectId>, ObjectsError> {
        let mut approvals = HashMap::new();
        let mut next = self.snapshot.head;
        for _ in 0..MAX_APPROVALS {
            let Some(id) = next else { break };
            let parents = match self.objects.commit(id) {
                Ok(found) => found.parents,
                Err(error) if error.is_of_object() => break,
                Err(error) => return Err(error),
            };
            if let Some(proposed) = parents.get(1) {
                approvals.entry(*proposed).or_insert(id);
            }
            next = parents.first().copied();
        }
        Ok(approvals)
    }

    /// Returns a package in a commit, from the cache if possible; `None` if it has no Kptfile
    /// there.
    fn package_at(&mut self, commit: ObjectId, path: &str) -> Result<Option<At>, ObjectsError> {
        // A tag may point to an object that is missing here.
        if !self.objects.has(commit) {
            return Ok(None);
        }
        let key = (commit, path.to_owned());
        self.seen.insert(key.clone());
        if let Some(known) = self.memory.places.get(&key) {
            return known.clone().map_err(ObjectsError::Known);
        }
        let found = self.read_package_at(commit, path);
        remember(&mut self.memory.places, key, &found);
        found
    }

    fn read_package_at(&self, commit: ObjectId, path: &str) -> Result<Option<At>, ObjectsError> {
        let found = match self.objects.commit(commit) {
            Ok(found) => found,
            Err(ObjectsError::Undecodable { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let Some(directory) = self.objects.directory(found.tree, path)? else { return Ok(None) };
        if !self.objects.has_kptfile(directory)? {
            return Ok(None);
        }
        let message = Message::read(&found.message);
        let workspace = message.of(path).map(|found| found.workspace_name.clone());
        Ok(Some(At { directory, workspace: workspace.filter(|name| !name.is_empty()) }))
    }

    /// Reads the task and the owner of a revision from its commits, starting with the newest.
    fn history(
        &self,
        start: ObjectId,
        path: &str,
        workspace: &str,
        facts: &mut Facts,
    ) -> Result<(), ObjectsError> {
        let mut next = Some(start);
        for _ in 0..MAX_HISTORY {
            let Some(id) = next else { return Ok(()) };
            self.look.goes_on()?;
            let commit = self.objects.commit(id)?;
            let message = Message::read(&commit.message);
            let Some(annotation) = message.of(path).filter(|found| found.workspace_name == workspace) else {
                return Ok(());
            };
            if let Some(task) = annotation.task.as_ref().filter(|task| is_creation(task)) {
                facts.task = Some(task.clone());
                facts.owner = message.extension.and_then(|extension| extension.owner);
                return Ok(());
            }
            next = commit.parents.first().copied();
        }
        Ok(())
    }

    /// Returns the facts of a commit, from the cache if possible.
    fn facts(
        &mut self,
        key: ObjectId,
        path: &str,
        directory: ObjectId,
        read: impl FnOnce(&Self) -> Result<Facts, ObjectsError>,
    ) -> Result<Arc<Facts>, ObjectsError> {
        let key = (key, path.to_owned());
        self.seen.insert(key.clone());
        let known = self.memory.facts.get(&key).filter(|(known, _)| *known == directory);
        let facts = match known {
            Some((_, known)) => known.clone().map_err(ObjectsError::Known)?,
            None => {
                let facts = read(self).and_then(|facts| self.described(facts, directory)).map(Arc::new);
                let kept = match &facts {
                    Ok(facts) => Some(Ok(Arc::clone(facts))),
                    Err(error) if is_for_good(error) => Some(Err(error.to_string())),
                    Err(_) => None,
                };
                self.memory.facts.extend(kept.map(|kept| (key, (directory, kept))));
                facts?
            }
        };
        self.weight += facts.weight;
        if self.weight > MAX_ALL_FACTS {
            let what = "the data of all Kptfiles and commits of this repository".to_owned();
            return Err(too_long(what, self.weight, MAX_ALL_FACTS));
        }
        Ok(facts)
    }

    /// Adds the content of the Kptfile to facts.
    fn described(&self, mut facts: Facts, directory: ObjectId) -> Result<Facts, ObjectsError> {
        facts.description = describe_kptfile(self.objects.kptfile(directory)?.unwrap_or_default());
        let facts = facts.weighed();
        if facts.weight > MAX_FACTS {
            let what = "the data of the Kptfile and the commit of the revision".to_owned();
            return Err(too_long(what, facts.weight, MAX_FACTS));
        }
        Ok(facts)
    }

    #[expect(clippy::too_many_arguments, reason = "each is a column of the table in 6.3")]
    fn add(
        &mut self,
        place: &Place,
        path: &str,
        workspace: &str,
        number: i64,
        lifecycle: Lifecycle,
        commit: ObjectId,
        directory: ObjectId,
        facts: Arc<Facts>,
    ) -> Result<(), ObjectsError> {
        let Some(package) = package_path(&self.settings.directory, path) else { return Ok(()) };
        let name = self.name(path, workspace);
        if !is_dns_subdomain(&name) {
            let text = format!(
                "{}: {name:?} cannot be the name of a package revision: packages and tags are lower-case letters, digits, \"-\" and \
                 \".\"",
                place.short()
            );
            self.snapshot.problem(&text);
            return Ok(());
        }
        if let Some(error) = &facts.description.error {
            self.snapshot.problem(&format!("{}: package {path:?}: {error}", place.short()));
        }
        if let Some(refusal) = self.refusal(directory)? {
            self.snapshot.problem(&format!("{}: package {path:?}: {refusal}", place.short()));
            return Ok(());
        }
        let revision = Revision {
            name: name.clone(),
            package: package.to_owned(),
            workspace: workspace.to_owned(),
            number,
            lifecycle,
            reference: place.reference(),
            short_reference: place.short(),
            commit,
            directory,
            facts,
        };
        if let Some(other) = self.snapshot.revisions.get(&name) {
            let text = format!(
                "{} and {} both have the name {name}",
                other.short_reference, revision.short_reference
            );
            self.snapshot.problem(&text);
            return Ok(());
        }
        self.snapshot.revisions.insert(name, Arc::new(revision));
        Ok(())
    }

    /// Returns the reason why a package must not be served, from the cache if possible
    /// (`packagevariants.md` 6.15).
    fn refusal(&mut self, directory: ObjectId) -> Result<Option<String>, ObjectsError> {
        self.directories.insert(directory);
        if let Some(known) = self.memory.refusals.get(&directory) {
            return Ok(known.clone());
        }
        let refusal = self.objects.refusal(directory)?;
        self.memory.refusals.insert(directory, refusal.clone());
        Ok(refusal)
    }

    fn name(&self, path: &str, workspace: &str) -> String {
        let package = package_path(&self.settings.directory, path).unwrap_or(path);
        self.settings.place().name(package, workspace)
    }
}

/// Returns the description in a Kptfile.
pub(crate) fn describe_kptfile(text: String) -> Description {
    groundwork_krm::describe(&Package::from([(KPTFILE.to_owned(), text)]))
}

/// Adds the package to an error of its ref.
fn of_package(path: &str, error: ObjectsError) -> ObjectsError {
    if error.is_of_object() { ObjectsError::Known(format!("package {path:?}: {error}")) } else { error }
}

fn too_long(what: String, bytes: usize, allowed: usize) -> ObjectsError {
    let count = |bytes: usize| u64::try_from(bytes).unwrap_or(u64::MAX);
    ObjectsError::TooLong { what, bytes: count(bytes), allowed: count(allowed) }
}

/// Returns true if another look at the same objects would give the same error.
fn is_for_good(error: &ObjectsError) -> bool {
    error.is_of_object() && !matches!(error, ObjectsError::Unreadable { .. })
}

fn remember<K: std::hash::Hash + Eq, T: Clone>(
    memory: &mut HashMap<K, Result<T, String>>,
    key: K,
    found: &Result<T, ObjectsError>,
) {
    let kept = match found {
        Ok(found) => Ok(found.clone()),
        Err(error) if is_for_good(error) => Err(error.to_string()),
        Err(_) => return,
    };
    memory.insert(key, kept);
}
