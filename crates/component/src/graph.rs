//! Where every reference of a closure leads, and which rules had a say in it: for people who ask why.

use std::collections::{HashMap, HashSet};

use crate::overwrite::{RuleOutcome, Substitution};
use crate::reference::Reference;
use crate::resolve::{ComponentVersion, Resolver};

/// Entries that are told of one component; whoever reads them has had enough long before.
const MOST_ENTRIES: usize = 50_000;

/// One reference of the graph, and what became of it.
#[derive(Debug, Clone)]
pub struct GraphEntry {
    /// References from the root on: 0 for the root itself.
    pub depth: usize,
    /// The local name in the descriptor that holds the reference; empty for the root.
    pub name: String,
    pub substitution: Substitution,
    /// What became of every rule, in the order of the rules.
    pub outcomes: Vec<RuleOutcome>,
    pub state: GraphState,
}

/// How far a reference was followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GraphState {
    /// The entries below it follow, one level deeper.
    Followed,
    /// This version is in the list already, with everything below it.
    Repeated,
    /// There is no such version, or it cannot be read: a sentence that says why.
    Failed(String),
    /// The limit that ends the list here.
    Limit(String),
}

impl Resolver<'_> {
    /// The root and everything that it refers to, depth first in the order of the references.
    ///
    /// Unlike [`Resolver::closure`] it goes on where a version cannot be had, and names a version at each reference to it.
    pub fn graph(&self, original: &Reference) -> Vec<GraphEntry> {
        let mut seen = HashSet::new();
        // What became of a reference: most versions are referred to from many places.
        let mut looked_up: HashMap<(String, String, bool), GraphState> = HashMap::new();
        let mut entries = Vec::new();
        // References still to follow, the next one last.
        let mut open = vec![(0, String::new(), original.clone())];
        while let Some((depth, name, reference)) = open.pop() {
            let (substitution, outcomes) = self.overwrites().explain(&reference);
            let limit = self.limit(depth, seen.len(), entries.len());
            // The root alone may have another repository.
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

    /// Looks a version up, and hands it over if it has not been seen.
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
