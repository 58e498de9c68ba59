//! What an overwrites object would redirect, before it is applied.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use groundwork_component::Reference;
use serde_json::{Value, json};

use super::references::{Told, reference};
use crate::rules;
use crate::terminal::shown;

/// A place in the closure of an Installation that would lead elsewhere. `None` where there is no such place.
#[derive(Debug, PartialEq)]
pub(super) struct Redirected {
    /// Local names from the component on; empty for the component itself.
    pub(super) path: String,
    pub(super) before: Option<Reference>,
    pub(super) after: Option<Reference>,
}

/// The places that differ, in the order of their paths.
pub(super) fn compare(before: &[Told], after: &[Told]) -> Vec<Redirected> {
    let (mut before, after) = (by_path(before), by_path(after));
    let mut differences: BTreeMap<String, Redirected> = BTreeMap::new();
    for (path, reference) in after {
        let former = before.remove(&path);
        if former.as_ref() != Some(&reference) {
            let place = Redirected { path: path.clone(), before: former, after: Some(reference) };
            differences.insert(path, place);
        }
    }
    for (path, reference) in before {
        differences.insert(path.clone(), Redirected { path, before: Some(reference), after: None });
    }
    differences.into_values().collect()
}

/// Effective references by the local names that lead to them. What is told once only counts there.
fn by_path(references: &[Told]) -> BTreeMap<String, Reference> {
    let mut names: Vec<&str> = Vec::new();
    let mut paths = BTreeMap::new();
    for told in references {
        names.truncate(told.depth);
        names.push(&told.name);
        // The component itself has no name.
        let path = names.get(1..).unwrap_or_default().join("/");
        paths.entry(path).or_insert_with(|| told.effective.clone());
    }
    paths
}

/// What becomes of an Installation.
pub(super) fn text(title: &str, differences: &[Redirected]) -> String {
    let mut text = format!("{}\n", shown(title));
    for Redirected { path, before, after } in differences {
        let place = if path.is_empty() { "component" } else { path };
        let what = match (before, after) {
            (Some(before), Some(after)) => {
                format!("{} -> {}", rules::located(before), rules::located(after))
            }
            (None, Some(after)) => format!("new: {}", rules::located(after)),
            (Some(before), None) => format!("no longer used: {}", rules::located(before)),
            (None, None) => continue,
        };
        let _ = writeln!(text, "  {}: {}", shown(place), shown(&what));
    }
    text
}

/// The same for programs.
pub(super) fn json(differences: &[Redirected]) -> Value {
    let one = |place: &Redirected| {
        json!({
            "path": place.path, "before": place.before.as_ref().map(reference),
            "after": place.after.as_ref().map(reference),
        })
    };
    differences.iter().map(one).collect()
}
