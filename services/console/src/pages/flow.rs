//! Graph of the data that Installations pass to each other, drawn on the server (`installations.md`
//! 5.1).

use std::collections::{BTreeMap, HashMap};

use groundwork_lifecycle::{DataKind, DataName};
use maud::{Markup, html};
use serde::Serialize;

use super::parts::{installation_link, installation_path};
use crate::landscape::{Content, NamespacedName, State};

/// Number of boxes in a graph. A larger graph cannot be read.
const MOST_BOXES: usize = 120;
const WIDTH: usize = 210;
const HEIGHT: usize = 44;
const GAP_X: usize = 70;
const GAP_Y: usize = 18;
/// Characters of a name that fit into a box.
const LONGEST_NAME: usize = 26;

/// Installations of one scope, and the data that flows between them.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Graph {
    boxes: Vec<GraphBox>,
    flows: Vec<Flow>,
    /// Number of Installations beyond `MOST_BOXES`.
    #[serde(rename = "leftOut")]
    left_out: usize,
}

#[derive(Debug, Serialize)]
struct GraphBox {
    place: NamespacedName,
    state: State,
    phase: &'static str,
    /// Column, to the right of all Installations that feed this one.
    #[serde(skip)]
    column: usize,
    #[serde(skip)]
    line: usize,
}

/// Names that one Installation exports and another imports.
#[derive(Debug, Serialize)]
struct Flow {
    from: NamespacedName,
    to: NamespacedName,
    names: Vec<String>,
    #[serde(skip)]
    ends: (usize, usize),
}

/// Returns the name of an import or export as pages show it.
pub(crate) fn shown((kind, name): &DataName) -> String {
    match kind {
        DataKind::Data => name.clone(),
        DataKind::Target => format!("{name} (Target)"),
    }
}

impl Graph {
    /// Builds the graph of Installations of one scope.
    pub(crate) fn among(content: &Content, places: &[NamespacedName]) -> Self {
        let known: Vec<_> = places
            .iter()
            .filter_map(|place| content.installations.get(place).map(|row| (place, row)))
            .collect();
        let left_out = known.len().saturating_sub(MOST_BOXES);
        let known = &known[..known.len() - left_out];
        let mut exporters: HashMap<&DataName, Vec<usize>> = HashMap::new();
        for (index, (_, row)) in known.iter().enumerate() {
            for name in &row.interface.exports {
                exporters.entry(name).or_default().push(index);
            }
        }
        let mut names: BTreeMap<(usize, usize), Vec<String>> = BTreeMap::new();
        for (to, (_, row)) in known.iter().enumerate() {
            for name in &row.interface.imports {
                for from in exporters.get(name).into_iter().flatten().filter(|from| **from != to) {
                    names.entry((*from, to)).or_default().push(shown(name));
                }
            }
        }
        let columns = columns(known.len(), names.keys().copied());
        let mut lines = BTreeMap::new();
        let boxes = known.iter().zip(columns).map(|((place, row), column)| {
            let next: &mut usize = lines.entry(column).or_default();
            let line = *next;
            *next += 1;
            let (state, phase) = (row.job.state, row.job.phase.as_str());
            GraphBox { place: (*place).clone(), state, phase, column, line }
        });
        let boxes = boxes.collect();
        let flow = |(ends, names): ((usize, usize), _)| {
            let place = |index: usize| known[index].0.clone();
            Flow { from: place(ends.0), to: place(ends.1), names, ends }
        };
        Self { boxes, flows: names.into_iter().map(flow).collect(), left_out }
    }

    /// Reports whether any data flows.
    pub(crate) fn has_flows(&self) -> bool {
        !self.flows.is_empty()
    }

    /// Renders the picture, and the same as a list for screen readers.
    pub(crate) fn markup(&self, label: &str) -> Markup {
        let columns = self.boxes.iter().map(|shown| shown.column + 1).max().unwrap_or_default();
        let lines = self.boxes.iter().map(|shown| shown.line + 1).max().unwrap_or_default();
        let (width, height) = (columns * (WIDTH + GAP_X), lines * (HEIGHT + GAP_Y));
        let corner =
            |shown: &GraphBox| (shown.column * (WIDTH + GAP_X) + 4, shown.line * (HEIGHT + GAP_Y) + 4);
        let curve = |flow: &Flow| {
            let ((x1, y1), (x2, y2)) = (corner(&self.boxes[flow.ends.0]), corner(&self.boxes[flow.ends.1]));
            let (x1, y1, y2) = (x1 + WIDTH, y1 + HEIGHT / 2, y2 + HEIGHT / 2);
            let bend = GAP_X / 2;
            // The curve leaves to the right and enters from the left, so that a flow back to an
            // earlier column, in a circle, bends around the boxes.
            format!("M {x1} {y1} C {} {y1} {} {y2} {x2} {y2}", x1 + bend, x2.saturating_sub(bend))
        };
        html! {
            div class="wide" tabindex="0" role="region" aria-label=(label) {
                svg class="flow" role="group" aria-label=(label) width=(width) height=(height) viewBox={ "0 0 " (width) " " (height) } {
                    @for flow in &self.flows {
                        path class="arrow" d=(curve(flow)) { title { (flow.names.join(", ")) } }
                    }
                    @for shown in &self.boxes {
                        @let (x, y) = corner(shown);
                        a href=(installation_path(&shown.place)) {
                            title { (shown.place) " " (shown.phase) }
                            rect class={ "box " (shown.state.as_str()) } x=(x) y=(y) width=(WIDTH) height=(HEIGHT) rx="6" {}
                            text x=(x + 10) y=(y + 18) { (short(&shown.place.name)) }
                            text class="small" x=(x + 10) y=(y + 35) { (shown.phase) }
                        }
                    }
                }
            }
            details {
                summary { "As text" }
                ul class="rows" {
                    @for flow in &self.flows {
                        li { (installation_link(&flow.from)) " gives " (flow.names.join(", ")) " to " (installation_link(&flow.to)) }
                    }
                }
            }
            @if self.left_out > 0 { p { (self.left_out) " more Installations are not shown in the picture." } }
        }
    }
}

fn short(name: &str) -> String {
    if name.chars().count() <= LONGEST_NAME {
        return name.to_owned();
    }
    name.chars().take(LONGEST_NAME - 1).chain(['…']).collect()
}

/// Returns the column of each Installation: one after the last of those that feed it. Installations
/// in a circle never become ready, so they keep the last column computed for them.
fn columns(count: usize, flows: impl Iterator<Item = (usize, usize)> + Clone) -> Vec<usize> {
    let mut columns = vec![0; count];
    let mut waits_for = vec![0_usize; count];
    let mut feeds: Vec<Vec<usize>> = vec![Vec::new(); count];
    for (from, to) in flows {
        waits_for[to] += 1;
        feeds[from].push(to);
    }
    let mut ready: Vec<usize> = (0..count).filter(|index| waits_for[*index] == 0).collect();
    while let Some(from) = ready.pop() {
        for to in &feeds[from] {
            columns[*to] = columns[*to].max(columns[from] + 1);
            waits_for[*to] -= 1;
            if waits_for[*to] == 0 {
                ready.push(*to);
            }
        }
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_behind_what_feeds_them() {
        let diamond = [(0, 1), (0, 2), (1, 3), (2, 3), (0, 3)];
        assert_eq!(columns(5, diamond.into_iter()), [0, 1, 1, 2, 0]);
        let circle = [(0, 1), (1, 0), (1, 2)];
        assert_eq!(columns(3, circle.into_iter()), [0, 0, 0], "a circle ends");
    }

    #[test]
    fn long_names_are_cut() {
        assert_eq!(short("short"), "short");
        assert_eq!(short(&"ü".repeat(40)).chars().count(), LONGEST_NAME);
    }
}
