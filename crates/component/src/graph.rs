//! Graph of all references of a closure, with the rules that changed each of them, for display.

use std::collections::{HashMap, HashSet};

use crate::overwrite::{RuleOutcome, Substitution};
use crate::reference::Reference;
use crate::resolve::{ComponentVersion, Resolver};

/// Largest number of entries, which bounds memory and output.
const MOST_ENTRIES: usize = 50_000;

/// Reference of the graph, with its resolution.
#[derive(Debug, Clone)]
pub struct GraphEntry {
    /// Number of references from the root; 0 for the root itself.
    pub depth: usize,
    /// Local name in the descriptor that contains the reference; empty for the root.
    pub name: String,
    pub substitution: Substitution,
    /// Result of each rule, in the order of the rules.
    pub outcomes: Vec<RuleOutcome>,
    pub state: GraphState,
}

/// Result of following a reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GraphState {
    /// The entries of the version's references follow, one level deeper.
    Followed,
    /// The version and all entries below it are already in the list.
    Repeated,
    /// The version is missing or cannot be read. The text gives the reason.
    Failed(String),
    /// Limit that ends the list here.
    Limit(String),
}

impl Resolver<'_> {
    /// Returns the root and all versions that it refers to, depth first in the order of the
    /// references.
    ///
    /// Unlike [`Resolver::closure`], the function continues after an error, and lists a version at
    /// each reference to it.
    pub fn graph(&self, original: &Reference) -> Vec<GraphEntry> {
        let mut seen = HashSet::new();
        // Results by reference: most versions are referenced from many places, and each is looked
        // up once.
        let mut looked_up: HashMap<(String, String, bool), GraphState> = HashMap::new();
        let mut entries = Vec::new();
        // Stack of references still to follow, the next one last.
        let mut open = vec![(0, String::new(), original.clone())];
        while let Some((depth, name, reference)) = open.pop() {
            let (substitution, outcomes) = self.overwrites().explain(&reference);
            let limit = self.limit(depth, seen.len(), entries.len());
            // The root may have another repository than a reference with the same name and version,
            // so it has a separate key.
            let key = (reference.name.clone(), reference.version.clone(), depth == 0);
            let state = match (limit, looked_up.get(&key)) {
                (Some(limit), _) => GraphState::Limit(limit),
                (None, Some(GraphState::Followed)) => GraphState::Repeated,
                (None, Some(known)) => known.clone(),
                (None, None) => self.look_up(&substitution.effective, &mut seen, |version| {
                    let references: Vec<_> = version.descriptor.references().collect();
                    open.extend(references.into_iter().rev().map(|found| {
                        (depth + 1, found.name, self.reference(&found.component_name, &found.version))
                    }));
                }),
            };
            looked_up.entry(key).or_insert_with(|| state.clone());
            let ends = matches!(state, GraphState::Limit(_));
            entries.push(GraphEntry { depth, name, substitution, outcomes, state });
            if ends {
                break;
            }
        }
        entries
    }

    /// Looks a version up, and passes it to `follow` if it is new.
    fn look_up(
        &self,
        effective: &Reference,
        seen: &mut HashSet<(String, String)>,
        follow: impl FnOnce(ComponentVersion),
    ) -> GraphState {
        match self.lookup(effective) {
            Err(error) => GraphState::Failed(error.to_string()),
            Ok(version) if !seen.insert(id(&version)) => GraphState::Repeated,
            Ok(version) => {
                follow(version);
                GraphState::Followed
            }
        }
    }

    fn limit(&self, depth: usize, versions: usize, entries: usize) -> Option<String> {
        let limits = self.limits();
        if versions >= limits.versions {
            Some(format!("{} component versions", limits.versions))
        } else if depth > limits.depth {
            Some(format!("a depth of {}", limits.depth))
        } else if entries >= MOST_ENTRIES {
            Some(format!("{MOST_ENTRIES} references"))
        } else {
            None
        }
    }
}

fn id(version: &ComponentVersion) -> (String, String) {
    (version.descriptor.name().to_owned(), version.descriptor.version().to_owned())
}
