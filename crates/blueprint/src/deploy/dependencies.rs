//! Checks of `dependsOn` among deploy items: all names exist, and there are no cycles.

use std::collections::HashMap;

use groundwork_api::DeployItemTemplate;
use serde_json::json;

use crate::field::{FieldError, FieldPath, Violation};

/// Returns an error for each unknown name, at its item, and for each cycle, at the list. Names must
/// be unique.
pub(super) fn errors(items: &[DeployItemTemplate], root: &FieldPath) -> Vec<FieldError> {
    let mut positions: HashMap<&str, usize> = HashMap::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        positions.entry(&item.name).or_insert(index);
    }
    let position = |name: &str| positions.get(name).copied();
    let mut errors: Vec<FieldError> = cycles(items, &position)
        .into_iter()
        .map(|members| {
            FieldError::new(root.clone(), Violation::Invalid(json!(members)), "cycle found in dependencies")
        })
        .collect();
    for (index, item) in items.iter().enumerate() {
        for dependency in item.depends_on.iter().filter(|name| position(name).is_none()) {
            let path = root.index(index).named(&item.name);
            errors.push(FieldError::new(
                path,
                Violation::Invalid(json!(dependency)),
                "depends on undefined deploy item",
            ));
        }
    }
    errors
}

/// Returns each cycle once, its members in visiting order.
fn cycles<'a>(
    items: &'a [DeployItemTemplate],
    position: &dyn Fn(&str) -> Option<usize>,
) -> Vec<Vec<&'a str>> {
    let (done, open) = (vec![false; items.len()], vec![false; items.len()]);
    let mut search = Search { items, position, done, open, cycles: Vec::new() };
    for start in 0..items.len() {
        search.visit(start);
    }
    search.cycles
}

struct Search<'a, 'p> {
    items: &'a [DeployItemTemplate],
    position: &'p dyn Fn(&str) -> Option<usize>,
    done: Vec<bool>,
    /// True for each item on the current path, by the index of the item.
    open: Vec<bool>,
    cycles: Vec<Vec<&'a str>>,
}

impl<'a> Search<'a, '_> {
    /// Searches depth first, without recursion: a chain of dependencies can be as long as the list.
    fn visit(&mut self, start: usize) {
        // Path from the start to the current item. Each entry has the number of dependencies
        // already followed.
        let mut way: Vec<(usize, usize)> = vec![(start, 0)];
        self.open[start] = true;
        while let Some((item, followed)) = way.last().copied() {
            let dependency = self.items[item].depends_on.get(followed);
            if self.done[item] || dependency.is_none() {
                self.done[item] = true;
                self.open[item] = false;
                way.pop();
                continue;
            }
            if let Some(last) = way.last_mut() {
                last.1 += 1;
            }
            let Some(next) = dependency.and_then(|name| (self.position)(name)) else { continue };
            if self.open[next] {
                // The position is searched only for a member of a cycle, which is rare.
                if let Some(begin) = way.iter().position(|(open, _)| *open == next) {
                    let members =
                        way[begin..].iter().map(|(item, _)| self.items[*item].name.as_str()).collect();
                    self.cycles.push(members);
                }
            } else if !self.done[next] {
                self.open[next] = true;
                way.push((next, 0));
            }
        }
    }
}
