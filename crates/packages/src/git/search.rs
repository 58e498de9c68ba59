//! Search for packages in a tree (`packagevariants.md` 6.3, 6.16).
//!
//! The same tree may occur in any number of places, and nested trees in an exponential number. So
//! each tree is read once, by its object ID, and only paths that lead to a package or a problem are
//! followed.

use std::collections::{HashMap, HashSet, VecDeque};

use gix_hash::ObjectId;
use gix_object::Tree;

use crate::git::limits::{
    Look, MAX_DIRECTORIES, MAX_ENTRIES, MAX_FOLDERS, MAX_PATH, MAX_PROBLEMS, MAX_TREES, shortened,
};
use crate::git::objects::{MAX_DEPTH, Objects, ObjectsError, kptfile_of};

/// Result of a search.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// Directories of packages, each with its path and its object ID, by path.
    pub(crate) packages: Vec<(String, ObjectId)>,
    /// Reasons why packages may be missing.
    pub(crate) problems: Vec<String>,
}

/// Result of reading one tree, as far as the search needs it.
#[derive(Debug)]
enum Directory {
    Package,
    Plain(Vec<(Box<str>, ObjectId)>),
    Unreadable(String),
}

/// Trees that a search has read. If the time of the look is up first, the next look continues with
/// them.
#[derive(Debug)]
pub(crate) struct Reading {
    start: ObjectId,
    directories: HashMap<ObjectId, Directory>,
    seen: HashSet<ObjectId>,
    open: VecDeque<(ObjectId, usize)>,
    entries: usize,
    folders: usize,
    /// Reason why trees were skipped.
    problem: Option<String>,
}

impl Objects {
    /// Finds the directories of packages in a tree. Directories below a package belong to it
    /// (`packagevariants.md` 6.3).
    ///
    /// # Errors
    /// The start directory cannot be read, or the look ends.
    pub(crate) fn packages(
        &self,
        tree: ObjectId,
        below: &str,
        begun: &mut Option<Reading>,
        look: &Look,
    ) -> Result<Found, ObjectsError> {
        let Some(start) = self.directory(tree, below)? else { return Ok(Found::default()) };
        let mut reading =
            begun.take().filter(|begun| begun.start == start).unwrap_or_else(|| Reading::new(start));
        match reading.go_on(self, look) {
            Ok(()) => Ok(reading.found(below)),
            Err(error) => {
                *begun = Some(reading);
                Err(error)
            }
        }
    }
}

impl Reading {
    fn new(start: ObjectId) -> Self {
        Self {
            start,
            directories: HashMap::new(),
            seen: HashSet::from([start]),
            open: VecDeque::from([(start, 0)]),
            entries: 0,
            folders: 0,
            problem: None,
        }
    }

    /// Returns the directories of packages among the trees that were read.
    fn found(self, below: &str) -> Found {
        let known = self;
        let leading = leading(&known.directories);
        let mut found = Found { packages: Vec::new(), problems: known.problem.into_iter().collect() };
        let mut directories = 0;
        let mut open = VecDeque::from([(below.to_owned(), known.start, 0)]);
        // Breadth first, so that packages near the root are found if there are too many.
        while let Some((path, id, depth)) = open.pop_front() {
            let children = match known.directories.get(&id) {
                Some(Directory::Plain(children)) if depth < MAX_DEPTH => children,
                Some(Directory::Package) => {
                    found.packages.push((path, id));
                    continue;
                }
                Some(Directory::Unreadable(problem)) => {
                    found.problem(format!("directory {:?}: {problem}", shortened(&path, MAX_PATH)));
                    continue;
                }
                Some(Directory::Plain(_)) | None => continue,
            };
            for (name, child) in children.iter().filter(|(_, child)| leading.contains(child)) {
                let path = if path.is_empty() { name.to_string() } else { format!("{path}/{name}") };
                if path.len() > MAX_PATH {
                    let (shown, bytes) = (shortened(&path, MAX_PATH), path.len());
                    found.problem(format!(
                        "directory {shown:?} has a path of {bytes} bytes, more than the allowed {MAX_PATH}"
                    ));
                    continue;
                }
                if directories == MAX_DIRECTORIES {
                    found.problem(format!(
                        "packages lie in more than {MAX_DIRECTORIES} directories; those farthest from the root are left out"
                    ));
                    open.clear();
                    break;
                }
                directories += 1;
                open.push_back((path, *child, depth + 1));
            }
        }
        found.packages.sort();
        found
    }

    /// Reads the remaining trees, each once.
    fn go_on(&mut self, objects: &Objects, look: &Look) -> Result<(), ObjectsError> {
        while let Some((id, depth)) = self.open.front().copied() {
            look.goes_on()?;
            if self.directories.len() == MAX_TREES || self.folders > MAX_FOLDERS || self.entries > MAX_ENTRIES
            {
                self.problem = Some(format!(
                    "the repository has more than {MAX_TREES} directories, or {MAX_ENTRIES} files in them; packages in the \
                     others are left out"
                ));
                break;
            }
            let directory = match objects.tree(id) {
                // The registered directory itself is never a package, since it would have no name.
                Ok(tree) if depth > 0 && kptfile_of(&tree).is_some() => Directory::Package,
                Ok(tree) => self.children(&tree, depth),
                Err(error) if depth == 0 || !error.is_of_object() => return Err(error),
                Err(error) => Directory::Unreadable(error.to_string()),
            };
            self.open.pop_front();
            self.directories.insert(id, directory);
        }
        Ok(())
    }

    fn children(&mut self, tree: &Tree, depth: usize) -> Directory {
        self.entries += tree.entries.len();
        let trees = tree.entries.iter().filter(|entry| entry.mode.is_tree() && entry.filename != ".git");
        // A checkout never contains `.git`, so a package in it is ignored (`packagevariants.md`
        // 6.15).
        let children: Vec<(Box<str>, ObjectId)> = trees
            .filter_map(|entry| Some((groundwork_untrusted::entry(&entry.filename).ok()?.into(), entry.oid)))
            .collect();
        self.folders += children.len();
        if depth < MAX_DEPTH {
            let new = children.iter().map(|(_, child)| *child).filter(|child| self.seen.insert(*child));
            self.open.extend(new.map(|child| (child, depth + 1)));
        }
        Directory::Plain(children)
    }
}

impl Found {
    fn problem(&mut self, text: String) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(text);
        }
    }
}

/// Returns the trees from which a package or a problem can be reached.
fn leading(directories: &HashMap<ObjectId, Directory>) -> HashSet<ObjectId> {
    let mut parents: HashMap<ObjectId, Vec<ObjectId>> = HashMap::new();
    let mut open = Vec::new();
    for (id, directory) in directories {
        match directory {
            Directory::Plain(children) => {
                for (_, child) in children {
                    parents.entry(*child).or_default().push(*id);
                }
            }
            Directory::Package | Directory::Unreadable(_) => open.push(*id),
        }
    }
    let mut leading: HashSet<ObjectId> = open.iter().copied().collect();
    while let Some(id) = open.pop() {
        let above = parents.remove(&id).unwrap_or_default();
        open.extend(above.into_iter().filter(|parent| leading.insert(*parent)));
    }
    leading
}
