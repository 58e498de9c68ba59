//! Order of the children by their dependencies (`blueprints.md` 9.6, `installations.md` 5.2).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::fmt;

use groundwork_api::InstallationTemplate;

use super::cycle::shortest_cycle;
use super::wiring::{self, Exporters, Kind};

/// Dependency of one child on the exports of another.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SiblingEdge {
    /// Index of the importing template.
    pub from: usize,
    /// Index of the exporting template. It equals `from` if no other child exports the name that a
    /// child imports from itself.
    pub to: usize,
    /// Names of data for this edge, sorted.
    pub data: BTreeSet<String>,
    /// Names of Targets for this edge, sorted.
    pub targets: BTreeSet<String>,
}

/// Children of one parent, with the edges between them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SiblingGraph {
    names: Vec<String>,
    /// Edges ordered by `from` and `to`.
    edges: Vec<SiblingEdge>,
    multiple: MultipleExporters,
}

/// Names that several children export.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MultipleExporters {
    /// Exporters in the order of the templates, by the name of the data.
    pub data: BTreeMap<String, Vec<String>>,
    /// Exporters of Targets, in the same form.
    pub targets: BTreeMap<String, Vec<String>>,
}

/// Error SUB-003 (`blueprints.md` 10), reason `ValidateSubInstallations`: the children cannot be
/// ordered. A cycle has the code `ERR_CYCLIC_DEPENDENCIES` (`installations.md` 5.5).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SiblingError {
    #[error("{0}")]
    MultipleExporters(MultipleExporters),
    /// Members of the cycle, the first one repeated at the end.
    #[error("the subinstallations have a cycle: {}", chain(.0))]
    Cycle(Vec<String>),
}

impl SiblingError {
    /// Returns the text for roots, which are siblings but not nested Installations.
    pub fn of_roots(&self) -> String {
        match self {
            Self::MultipleExporters(exporters) => exporters.text("installations"),
            Self::Cycle(members) => format!("the installations have a cycle: {}", chain(members)),
        }
    }
}

fn chain(members: &[String]) -> String {
    members.join(" -{depends_on}-> ")
}

impl fmt::Display for MultipleExporters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text("nested installations"))
    }
}

impl MultipleExporters {
    /// Formats the error. `exporting` is the noun for the exporters.
    fn text(&self, exporting: &str) -> String {
        let mut text = format!("the following exports are exported by multiple {exporting}:");
        for (kind, exports) in [("data", &self.data), ("target", &self.targets)] {
            if !exports.is_empty() {
                text += &format!("\n  {kind} exports:");
            }
            for (name, exporters) in exports {
                text += &format!("\n    '{name}' is exported by [{}]", exporters.join(", "));
            }
        }
        text
    }

    fn is_empty(&self) -> bool {
        self.data.is_empty() && self.targets.is_empty()
    }
}

impl SiblingGraph {
    /// Compares imports and exports of the templates by name. Lists and maps that the parent passes
    /// on create no edges.
    ///
    /// A name with several exporters creates an edge to the first one only: the graph is rejected
    /// anyway, and the number of all pairs could be too large. `optimization` affects only
    /// services, not this graph.
    pub fn new(templates: &[InstallationTemplate]) -> Self {
        let names = templates.iter().enumerate().map(|(index, template)| match template.name() {
            "" => format!("[{index}]"),
            name => name.to_owned(),
        });
        let names: Vec<String> = names.collect();
        let exporters = Exporters::new(templates);
        let mut edges: BTreeMap<(usize, usize), SiblingEdge> = BTreeMap::new();
        for (from, template) in templates.iter().enumerate() {
            for source in wiring::imports(template).flat_map(|import| import.sources) {
                let Some(kind) = source.form.sibling_kind() else { continue };
                let exporter = exporters.other(kind, source.name, from);
                let itself = || exporters.of(kind, source.name).first().copied();
                let Some(to) = exporter.or_else(itself) else { continue };
                let edge = edges.entry((from, to)).or_insert_with(|| SiblingEdge {
                    from,
                    to,
                    ..SiblingEdge::default()
                });
                let names = match kind {
                    Kind::Data => &mut edge.data,
                    Kind::Target => &mut edge.targets,
                };
                names.insert(source.name.to_owned());
            }
        }
        let named = |children: &[usize]| children.iter().map(|child| names[*child].clone()).collect();
        let repeated = |kind| {
            let exports = exporters.repeated(kind);
            exports.map(|(name, children)| (name.to_owned(), named(children))).collect()
        };
        let multiple = MultipleExporters { data: repeated(Kind::Data), targets: repeated(Kind::Target) };
        Self { names, edges: edges.into_values().collect(), multiple }
    }

    /// Returns the edges, ordered by importer and exporter.
    pub fn edges(&self) -> &[SiblingEdge] {
        &self.edges
    }

    /// Returns the names that several children export, if there are any.
    pub fn multiple_exporters(&self) -> Option<&MultipleExporters> {
        Some(&self.multiple).filter(|multiple| !multiple.is_empty())
    }

    /// Returns the members of one shortest cycle. It begins with the smallest member, which is
    /// repeated at the end.
    pub fn shortest_cycle(&self) -> Option<Vec<String>> {
        // The search compares numbers, so the children are numbered in the order of their names.
        let mut by_name: Vec<usize> = (0..self.names.len()).collect();
        by_name.sort_by_key(|child| (&self.names[*child], *child));
        let mut rank = vec![0; self.names.len()];
        for (position, child) in by_name.iter().enumerate() {
            rank[*child] = position;
        }
        let mut successors = vec![Vec::new(); self.names.len()];
        for edge in &self.edges {
            successors[rank[edge.from]].push(rank[edge.to]);
        }
        successors.iter_mut().for_each(|targets| targets.sort_unstable());
        let cycle = shortest_cycle(&successors)?;
        let closed = cycle.iter().chain(cycle.first());
        Some(closed.map(|position| self.names[by_name[*position]].clone()).collect())
    }

    /// Returns the indexes of the templates, each after those that it depends on, otherwise in
    /// their own order.
    ///
    /// # Errors
    ///
    /// Several children export one name, or there is a cycle.
    pub fn order(&self) -> Result<Vec<usize>, SiblingError> {
        if let Some(multiple) = self.multiple_exporters() {
            return Err(SiblingError::MultipleExporters(multiple.clone()));
        }
        let mut waiting_for = vec![0_usize; self.names.len()];
        let mut importers = vec![Vec::new(); self.names.len()];
        for edge in &self.edges {
            waiting_for[edge.from] += 1;
            importers[edge.to].push(edge.from);
        }
        let ready = (0..self.names.len()).filter(|child| waiting_for[*child] == 0);
        let mut ready: BinaryHeap<Reverse<usize>> = ready.map(Reverse).collect();
        let mut order = Vec::with_capacity(self.names.len());
        while let Some(Reverse(child)) = ready.pop() {
            order.push(child);
            for importer in &importers[child] {
                waiting_for[*importer] -= 1;
                if waiting_for[*importer] == 0 {
                    ready.push(Reverse(*importer));
                }
            }
        }
        if order.len() == self.names.len() {
            return Ok(order);
        }
        // The remaining children depend on themselves, directly or through others.
        Err(SiblingError::Cycle(self.shortest_cycle().unwrap_or_default()))
    }
}
