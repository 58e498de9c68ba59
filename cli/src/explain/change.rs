//! Shows which references an overwrites object would redirect, before it is applied.

use std::fmt::Write as _;

use groundwork_component::Reference;
use groundwork_plan::{Redirection, redirections};
use serde_json::{Value, json};

use super::references::{Told, reference};
use crate::rules;
use crate::terminal::shown;

/// Returns the references that differ, in the order of their paths.
pub(super) fn compare(before: &[Told], after: &[Told]) -> Vec<Redirection> {
    fn place(told: &Told) -> (usize, &str, &Reference) {
        (told.depth, &told.name, &told.effective)
    }
    redirections(before.iter().map(place), after.iter().map(place))
}

/// Describes the redirections of an Installation.
pub(super) fn text(title: &str, differences: &[Redirection]) -> String {
    let mut text = format!("{}\n", shown(title));
    for Redirection { path, before, after } in differences {
        let place = if path.is_empty() { "component" } else { path };
        let what = match (before, after) {
            (Some(before), Some(after)) => {
                format!("{} -> {}", rules::located(before), rules::located(after))
            }
            (None, Some(after)) => format!("new: {}", rules::located(after)),
            (Some(before), None) => format!("no longer used: {}", rules::located(before)),
            (None, None) => continue,
        };
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "  {}: {}", shown(place), shown(&what));
    }
    text
}

/// Returns the redirections as JSON.
pub(super) fn json(differences: &[Redirection]) -> Value {
    let one = |place: &Redirection| {
        json!({
            "path": place.path, "before": place.before.as_ref().map(reference),
            "after": place.after.as_ref().map(reference),
        })
    };
    differences.iter().map(one).collect()
}
