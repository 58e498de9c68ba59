//! Texts about plans, shared by all programs that show them.

use std::fmt;

use crate::change::{Change, Plan, Reason, Start};

impl Change {
    /// All changes, in the order of the summary.
    pub const ALL: [Self; 5] = [Self::Created, Self::Changed, Self::Deleted, Self::Unchanged, Self::Unknown];

    /// Returns a one-character mark for the change.
    pub const fn mark(self) -> &'static str {
        match self {
            Self::Created => "+",
            Self::Changed => "~",
            Self::Deleted => "-",
            Self::Unchanged => "=",
            Self::Unknown => "?",
        }
    }

    /// Returns one word for the change.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Changed => "changed",
            Self::Deleted => "deleted",
            Self::Unchanged => "unchanged",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Start {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Now => "a job runs",
            Self::AfterPredecessors => "a job runs after those of the Installations that it imports from",
            Self::NextJob => "with its next job, which this change does not request",
        })
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::New => f.write_str("it is new"),
            Self::SpecChanged => f.write_str("its spec changes"),
            Self::Requested => f.write_str("a job is requested"),
            Self::Redirected => f.write_str("its components resolve to other versions"),
            Self::ImportChanged { import, from, exporter: Some(exporter) } => {
                write!(f, "its import {import} changes ({from} of {exporter})")
            }
            Self::ImportChanged { import, from, exporter: None } => {
                write!(f, "its import {import} changes ({from})")
            }
            Self::PredecessorsRun { predecessors } => {
                write!(f, "it imports from Installations whose jobs run: {}", predecessors.join(", "))
            }
        }
    }
}

impl Plan {
    /// Returns a one-line summary with the number of changes of each kind.
    pub fn summary(&self) -> String {
        let all = self.all();
        let items = |change: Change| {
            all.iter().flat_map(|planned| &planned.items).filter(move |item| item.change == change).count()
        };
        let exports = |change: Change| {
            all.iter()
                .flat_map(|planned| &planned.exports)
                .filter(move |export| export.change == change)
                .count()
        };
        let starts =
            |start: Start| self.installations.iter().filter(|planned| planned.start == Some(start)).count();
        format!(
            "jobs: {} now, {} after others, {} on request; items: {}; exports: {}",
            starts(Start::Now),
            starts(Start::AfterPredecessors),
            starts(Start::NextJob),
            counts(items),
            counts(exports),
        )
    }
}

fn counts(count: impl Fn(Change) -> usize) -> String {
    let of = |change: Change| {
        Some(count(change)).filter(|count| *count > 0).map(|count| format!("{count} {}", change.as_str()))
    };
    let words: Vec<String> = Change::ALL.into_iter().filter_map(of).collect();
    if words.is_empty() { "none".to_owned() } else { words.join(", ") }
}
