//! From refs to package revisions (`packagevariants.md` 6.3), and what a crash of a push may have left (6.12).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use gix_hash::ObjectId;
use groundwork_api::Lifecycle;
use groundwork_krm::{Description, Package};
use groundwork_kubernetes::is_dns_subdomain;

use crate::clone::Refs;
use crate::layout::{Place, full_path, package_path, revision_number};
use crate::message::{Message, is_creation};
use crate::objects::{CommitFacts, KPTFILE, Objects, ObjectsError};
use crate::remote::RefUpdate;
use crate::revision::{Facts, Revision, UNNUMBERED};
use crate::settings::Settings;

/// Commits that are looked at for the task that made a revision.
const MAX_HISTORY: usize = 10_000;

/// What a repository holds.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// By the names of their objects.
    pub revisions: BTreeMap<String, Arc<Revision>>,
    /// The head of the branch, if there is one.
    pub head: Option<ObjectId>,
    /// What is wrong with refs, for people.
    pub problems: Vec<String>,
    /// What would clear away the rest of a push that ended half way.
    pub repairs: Vec<RefUpdate>,
    /// Highest numbers that were ever given to revisions of a package, by its whole path.
    pub marks: Arc<HashMap<String, Marks>>,
}

/// Numbers that are not given twice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Marks {
    pub revision: i64,
    pub workspace: u32,
}

/// What was read of commits before: they never change.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    facts: HashMap<(ObjectId, String), (ObjectId, Arc<Facts>)>,
    branch: Option<(ObjectId, Vec<(String, ObjectId)>)>,
    /// Why files of a directory may not be handed out; `None` if they may.
    refusals: HashMap<ObjectId, Option<String>>,
    /// The head that marks were read from.
    marked: Option<ObjectId>,
    marks: Arc<HashMap<String, Marks>>,
}

/// Reads what a repository holds.
///
/// # Errors
/// The clone is damaged. A ref that makes no sense is a problem in the snapshot, and hides nothing else.
pub(crate) fn discover(
    objects: &Objects,
    refs: &Refs,
    settings: &Settings,
    memory: &mut Memory,
) -> Result<Snapshot, ObjectsError> {
    let (snapshot, seen, directories) = Default::default();
    let mut discovery = Discovery { objects, settings, memory, snapshot, seen, directories };
    let places = discovery.places(refs);
    let branch = places.iter().find(|(place, _)| matches!(place, Place::Branch(_)));
    if let Some((place, commit)) = branch {
        discovery.snapshot.head = Some(*commit);
        discovery.branch(place, *commit)?;
        discovery.marks(*commit)?;
    }
    let proposed_for_deletion: BTreeSet<(&str, &str)> = places
        .iter()
        .filter_map(|(place, _)| match place {
            Place::DeletionProposed { path, name } => Some((path.as_str(), name.as_str())),
            _ => None,
        })
        .collect();
    for (place, commit) in &places {
        if let Place::Tag { path, name } = place {
            let is_marked = proposed_for_deletion.contains(&(path.as_str(), name.as_str()));
            discovery.tag(place, path, name, *commit, is_marked)?;
        }
    }
    let both = discovery.both_kinds(&places);
    for (place, commit) in &places {
        match place {
            Place::Draft { path, workspace } if !both.contains(place) => {
                discovery.draft(place, path, workspace, *commit, Lifecycle::Draft)?;
            }
            Place::Proposed { path, workspace } if !both.contains(place) => {
                discovery.draft(place, path, workspace, *commit, Lifecycle::Proposed)?;
            }
            _ => {}
        }
    }
    discovery.dangling_markers(&places);
    let Discovery { mut snapshot, seen, directories, memory, .. } = discovery;
    // What is gone is not kept for ever.
    memory.facts.retain(|key, _| seen.contains_key(key));
    memory.refusals.retain(|directory, _| directories.contains(directory));
    snapshot.marks = Arc::clone(&memory.marks);
    Ok(snapshot)
}

struct Discovery<'a> {
    objects: &'a Objects,
    settings: &'a Settings,
    memory: &'a mut Memory,
    snapshot: Snapshot,
    seen: HashMap<(ObjectId, String), ()>,
    /// Directories of packages.
    directories: HashSet<ObjectId>,
}

impl Discovery<'_> {
    /// Refs that concern the directory that is registered.
    fn places(&mut self, refs: &Refs) -> Vec<(Place, ObjectId)> {
        let mut places = Vec::new();
        for (name, found) in refs {
            match Place::read(name, &self.settings.branch) {
                Ok(Some(place)) => {
                    let path = place.path();
                    if path.is_none_or(|path| package_path(&self.settings.directory, path).is_some()) {
                        places.push((place, found.commit));
                    }
                }
                Ok(None) => {}
                Err(error) => self.snapshot.problems.push(error.to_string()),
            }
        }
        places
    }

    /// Each package on the branch is a revision that moves.
    fn branch(&mut self, place: &Place, commit: ObjectId) -> Result<(), ObjectsError> {
        let tree = self.objects.commit(commit)?.tree;
        let known = self.memory.branch.take().filter(|(known, _)| *known == tree);
        let packages = match known {
            Some((_, packages)) => packages,
            None => self.objects.packages(tree, &self.settings.directory)?,
        };
        for (path, directory) in &packages {
            let facts = self.facts(*directory, path, *directory, |_| Ok(Facts::default()))?;
            let workspace = self.settings.branch.clone();
            self.add(place, path, &workspace, UNNUMBERED, Lifecycle::Published, commit, *directory, facts)?;
        }
        self.memory.branch = Some((tree, packages));
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
        let Some((found, directory)) = self.package_at(commit, path)? else { return Ok(()) };
        let message = Message::read(&found.message);
        let annotation = message.of(path);
        let workspace = annotation.map(|found| found.workspace_name.clone()).filter(|name| !name.is_empty());
        let number = revision_number(name);
        let facts = self.facts(commit, path, directory, |discovery| {
            let mut facts = Facts::default();
            if let (Some(annotation), Some(_)) = (annotation, &workspace) {
                // The commit of an approval has the draft as its second parent.
                let start = found.parents.last().copied().unwrap_or(commit);
                discovery.history(start, path, &annotation.workspace_name, &mut facts)?;
                facts.published = Some((found.author.clone(), found.time));
            }
            Ok(facts)
        })?;
        let lifecycle = if is_marked { Lifecycle::DeletionProposed } else { Lifecycle::Published };
        // A tag that numbers nothing is called by its own name, since another tag may stand at the same commit.
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
        let Some((_, directory)) = self.package_at(commit, path)? else {
            self.snapshot.problems.push(format!("{}: there is no Kptfile in {path:?}", place.short()));
            return Ok(());
        };
        let name = self.name(path, workspace);
        if let Some(published) = self.snapshot.revisions.get(&name) {
            // An approval that ended before the ref of the proposed revision was gone.
            let is_contained = self.objects.commit(published.commit)?.parents.contains(&commit);
            if is_contained {
                self.repair(place, Some(commit), None);
            } else {
                let text = format!(
                    "package revision {name} is published, and has another {} branch",
                    lifecycle.as_str()
                );
                self.snapshot.problems.push(text);
            }
            return Ok(());
        }
        if lifecycle == Lifecycle::Proposed
            && let Some((approval, number)) = self.approval_of(path, workspace, commit)?
        {
            // An approval that ended before its tag was there.
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

    /// Workspaces that are drafts and proposed at once. At one commit the draft is what a push has left; at two, people must say.
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
                self.snapshot.problems.push(text);
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

    /// The commit on the branch that approved a proposed commit, and the number that it gave.
    fn approval_of(
        &self,
        path: &str,
        workspace: &str,
        commit: ObjectId,
    ) -> Result<Option<(ObjectId, i64)>, ObjectsError> {
        let mut next = self.snapshot.head;
        // A crash is noticed soon after it: further back there is nothing to find.
        for _ in 0..100 {
            let Some(id) = next else { return Ok(None) };
            let found = self.objects.commit(id)?;
            if found.parents.get(1) == Some(&commit) {
                let message = Message::read(&found.message);
                let annotation = message.of(path).filter(|annotation| annotation.workspace_name == workspace);
                let number = annotation.and_then(|annotation| annotation.revision.parse().ok());
                return Ok(number.filter(|number| *number > 0).map(|number| (id, number)));
            }
            next = found.parents.first().copied();
        }
        Ok(None)
    }

    /// The commit, and the directory of a package in it; `None` if it has no Kptfile there.
    fn package_at(
        &self,
        commit: ObjectId,
        path: &str,
    ) -> Result<Option<(CommitFacts, ObjectId)>, ObjectsError> {
        // A tag may point at anything.
        let Ok(found) = self.objects.commit(commit) else { return Ok(None) };
        let Some(directory) = self.objects.directory(found.tree, path)? else { return Ok(None) };
        let has_kptfile = self.objects.kptfile(directory)?.is_some();
        Ok(has_kptfile.then_some((found, directory)))
    }

    /// How a revision came about and whose it is, from the newest commit back.
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

    /// Facts of a commit, remembered.
    fn facts(
        &mut self,
        key: ObjectId,
        path: &str,
        directory: ObjectId,
        read: impl FnOnce(&Self) -> Result<Facts, ObjectsError>,
    ) -> Result<Arc<Facts>, ObjectsError> {
        let key = (key, path.to_owned());
        self.seen.insert(key.clone(), ());
        if let Some((_, facts)) = self.memory.facts.get(&key).filter(|(known, _)| *known == directory) {
            return Ok(Arc::clone(facts));
        }
        let mut facts = read(self)?;
        facts.description = describe_kptfile(self.objects.kptfile(directory)?.unwrap_or_default());
        let facts = Arc::new(facts);
        self.memory.facts.insert(key, (directory, Arc::clone(&facts)));
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
            self.snapshot.problems.push(text);
            return Ok(());
        }
        if let Some(refusal) = self.refusal(directory)? {
            self.snapshot.problems.push(format!("{}: package {path:?}: {refusal}", place.short()));
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
            let text =
                format!("{} and {} are both called {name}", other.short_reference, revision.short_reference);
            self.snapshot.problems.push(text);
            return Ok(());
        }
        self.snapshot.revisions.insert(name, Arc::new(revision));
        Ok(())
    }

    /// Why nothing of a package may be handed out, remembered (6.15).
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

    /// Numbers that approvals have given, so that no number is given twice even if its tag is gone (6.12).
    fn marks(&mut self, head: ObjectId) -> Result<(), ObjectsError> {
        if self.memory.marked == Some(head) {
            return Ok(());
        }
        let mut marks = HashMap::clone(&self.memory.marks);
        let mut next = Some(head);
        while let Some(id) = next.filter(|id| self.memory.marked != Some(*id)) {
            let commit = self.objects.commit(id)?;
            for annotation in Message::read(&commit.message).annotations {
                let mark: &mut Marks = marks.entry(annotation.package).or_default();
                mark.revision = mark.revision.max(annotation.revision.parse().unwrap_or(0));
                mark.workspace = mark.workspace.max(workspace_number(&annotation.workspace_name));
            }
            next = commit.parents.first().copied();
        }
        self.memory.marks = Arc::new(marks);
        self.memory.marked = Some(head);
        Ok(())
    }
}

/// What a Kptfile says.
pub(crate) fn describe_kptfile(text: String) -> Description {
    groundwork_krm::describe(&Package::from([(KPTFILE.to_owned(), text)]))
}

/// The number of a workspace that we named.
fn workspace_number(workspace: &str) -> u32 {
    workspace.strip_prefix("packagevariant-").and_then(|number| number.parse().ok()).unwrap_or_default()
}

/// Numbers that were given to revisions of a package; those of live revisions are in the listing.
impl Snapshot {
    pub fn marks_of(&self, directory: &str, package: &str) -> Marks {
        self.marks.get(&full_path(directory, package)).copied().unwrap_or_default()
    }
}
