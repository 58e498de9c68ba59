//! Where every reference of a closure leads, and which rules had a say in it: for people who ask why.

use std::collections::HashSet;

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
        let mut entries = Vec::new();
        // References still to follow, the next one last.
        let mut open = vec![(0, String::new(), original.clone())];
        while let Some((depth, name, reference)) = open.pop() {
            let (substitution, outcomes) = self.overwrites().explain(&reference);
            let limit = self.limit(depth, seen.len(), entries.len());
            let state = match limit.map_or_else(|| Ok(self.lookup(&substitution.effective)), Err) {
                Err(limit) => GraphState::Limit(limit),
                Ok(Err(error)) => GraphState::Failed(error.to_string()),
                Ok(Ok(version)) if !seen.insert(id(&version)) => GraphState::Repeated,
                Ok(Ok(version)) => {
                    let references: Vec<_> = version.descriptor.references().collect();
                    open.extend(references.into_iter().rev().map(|found| {
                        (depth + 1, found.name, self.reference(&found.component_name, &found.version))
                    }));
                    GraphState::Followed
                }
            };
            let ends = matches!(state, GraphState::Limit(_));
            entries.push(GraphEntry { depth, name, substitution, outcomes, state });
            if ends {
                break;
            }
        }
        entries
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
