//! Index of imports and exports among the Installations of one scope (`installations.md` 5.1, 5.2,
//! 5.5).
//!
//! ```text
//! spec ──> Interface ──insert──> SiblingIndex ──> predecessors, successors, exporters, cycles
//! ```
//!
//! With an index, the cost of one Installation does not grow with the number of its siblings.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use groundwork_api::{InstallationSpec, TargetSource, view};

/// Kind of an imported or exported value. Data and Targets have separate names, so an equal name
/// does not connect them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DataKind {
    Data,
    Target,
}

/// Name of a value in a scope.
pub type DataName = (DataKind, String);

/// Imports and exports of an Installation that involve siblings.
///
/// Names that begin with `#`, Secrets, ConfigMaps, and lists and maps that the parent passes on
/// never come from siblings (`installations.md` 5.2).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interface {
    pub exports: BTreeSet<DataName>,
    pub imports: BTreeSet<DataName>,
}

impl Interface {
    /// Reads the interface from a spec, including the declarations under `optimization`
    /// (`installations.md` 5.1): an Installation without exports to siblings has no successors, one
    /// without imports from siblings no predecessors.
    pub fn of(spec: &InstallationSpec) -> Self {
        let promise = |is_made: fn(&groundwork_api::Optimization) -> Option<bool>| {
            spec.optimization.as_ref().and_then(is_made) == Some(true)
        };
        let mut interface = Self::default();
        if !promise(|optimization| optimization.has_no_sibling_exports) {
            let data = spec.data_exports().iter().map(|export| (DataKind::Data, export.data_ref.clone()));
            let targets =
                spec.target_exports().iter().map(|export| (DataKind::Target, export.target.clone()));
            interface.exports.extend(data.chain(targets));
        }
        if !promise(|optimization| optimization.has_no_sibling_imports) {
            let data = spec.data_imports().iter().filter_map(|import| import.data_ref.as_deref());
            let data = data.map(|name| (DataKind::Data, name));
            let targets = spec.target_imports().iter().flat_map(|import| match import.source() {
                Ok(TargetSource::Single(name)) => vec![name],
                Ok(TargetSource::List(names)) => names,
                Ok(TargetSource::Map(names)) => names.into_values().collect(),
                Ok(TargetSource::ListRef(_) | TargetSource::MapRef(_)) | Err(_) => Vec::new(),
            });
            let imports = data.chain(targets.map(|name| (DataKind::Target, name)));
            let imports = imports.filter(|(_, name)| !name.is_empty() && !name.starts_with('#'));
            interface.imports.extend(imports.map(|(kind, name)| (kind, name.to_owned())));
        }
        interface
    }

    /// Reads the same interface as [`Interface::of`] from the view of an Installation that an event
    /// contains.
    pub fn of_view(installation: view::Installation<'_>) -> Self {
        let name = |kind| move |name: &str| -> DataName { (kind, name.to_owned()) };
        let mut interface = Self::default();
        if !installation.has_no_sibling_exports() {
            interface.exports.extend(installation.exported_data().map(name(DataKind::Data)));
            interface.exports.extend(installation.exported_targets().map(name(DataKind::Target)));
        }
        if !installation.has_no_sibling_imports() {
            interface.imports.extend(installation.imported_data().map(name(DataKind::Data)));
            interface.imports.extend(installation.imported_targets().map(name(DataKind::Target)));
        }
        interface
    }

    fn is_empty(&self) -> bool {
        self.exports.is_empty() && self.imports.is_empty()
    }
}

/// Set of sibling Installations: the roots of a namespace, or the children of one parent.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope {
    pub namespace: String,
    /// Name of the parent; absent for roots.
    pub parent: Option<String>,
}

/// Relations of one Installation to its siblings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Relations {
    /// Names of the siblings whose exports the Installation imports, sorted.
    pub predecessors: BTreeSet<String>,
    /// Imported names that several siblings export, with the names of those siblings.
    pub ambiguous: BTreeMap<DataName, BTreeSet<String>>,
    /// Members of a cycle with this Installation. Each member depends on the next. The list begins
    /// with the smallest member and repeats it at the end.
    pub cycle: Option<Vec<String>>,
}

/// Interfaces of many Installations, indexed by imported and exported names.
#[derive(Debug, Default)]
pub struct SiblingIndex {
    members: HashMap<(String, String), Member>,
    scopes: HashMap<Scope, ScopeIndex>,
}

#[derive(Debug)]
struct Member {
    scope: Scope,
    interface: Interface,
}

#[derive(Debug, Default)]
struct ScopeIndex {
    exporters: HashMap<DataName, BTreeSet<String>>,
    importers: HashMap<DataName, BTreeSet<String>>,
}

/// Largest number of Installations visited in the search for a cycle, which bounds its time.
const MOST_VISITED: usize = 10_000;

impl SiblingIndex {
    /// Adds or replaces the interface of an Installation.
    pub fn insert(&mut self, scope: Scope, name: &str, interface: Interface) {
        let key = (scope.namespace.clone(), name.to_owned());
        if self.members.get(&key).is_some_and(|member| member.scope == scope && member.interface == interface)
        {
            return;
        }
        self.remove(&scope.namespace, name);
        if interface.is_empty() {
            return;
        }
        let index = self.scopes.entry(scope.clone()).or_default();
        for export in &interface.exports {
            index.exporters.entry(export.clone()).or_default().insert(name.to_owned());
        }
        for import in &interface.imports {
            index.importers.entry(import.clone()).or_default().insert(name.to_owned());
        }
        self.members.insert(key, Member { scope, interface });
    }

    /// Removes an Installation.
    pub fn remove(&mut self, namespace: &str, name: &str) {
        let Some(member) = self.members.remove(&(namespace.to_owned(), name.to_owned())) else { return };
        let Some(index) = self.scopes.get_mut(&member.scope) else { return };
        for (names, by_name) in [
            (&member.interface.exports, &mut index.exporters),
            (&member.interface.imports, &mut index.importers),
        ] {
            for data in names {
                if let Some(found) = by_name.get_mut(data) {
                    found.remove(name);
                    if found.is_empty() {
                        by_name.remove(data);
                    }
                }
            }
        }
        if index.exporters.is_empty() && index.importers.is_empty() {
            self.scopes.remove(&member.scope);
        }
    }

    /// Removes all Installations.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Returns the relations of an Installation with this interface to its siblings.
    pub fn relations(&self, scope: &Scope, name: &str, interface: &Interface) -> Relations {
        let mut relations = Relations::default();
        let Some(index) = self.scopes.get(scope) else { return relations };
        for import in &interface.imports {
            let exporters: BTreeSet<String> = index
                .exporters
                .get(import)
                .into_iter()
                .flatten()
                .filter(|exporter| *exporter != name)
                .cloned()
                .collect();
            if exporters.len() > 1 {
                relations.ambiguous.insert(import.clone(), exporters.clone());
            }
            relations.predecessors.extend(exporters);
        }
        // An Installation without successors is not part of a cycle, and most have none, so the
        // search is rare.
        if !self.successors(scope, name, interface).is_empty() {
            relations.cycle = self.cycle(scope, name, &relations.predecessors);
        }
        relations
    }

    /// Returns the names of the siblings that import exports of an Installation with this
    /// interface, sorted.
    pub fn successors(&self, scope: &Scope, name: &str, interface: &Interface) -> BTreeSet<String> {
        let Some(index) = self.scopes.get(scope) else { return BTreeSet::new() };
        let importers = interface.exports.iter().filter_map(|export| index.importers.get(export)).flatten();
        importers.filter(|importer| *importer != name).cloned().collect()
    }

    /// Returns the successors, as [`SiblingIndex::successors`] does, of an Installation in the
    /// index.
    pub fn successors_of(&self, namespace: &str, name: &str) -> (Option<&Scope>, BTreeSet<String>) {
        match self.members.get(&(namespace.to_owned(), name.to_owned())) {
            Some(member) => (Some(&member.scope), self.successors(&member.scope, name, &member.interface)),
            None => (None, BTreeSet::new()),
        }
    }

    /// Returns the names of the siblings whose exports an Installation in the index imports,
    /// sorted.
    pub fn predecessors_of(&self, namespace: &str, name: &str) -> BTreeSet<String> {
        let Some(member) = self.members.get(&(namespace.to_owned(), name.to_owned())) else {
            return BTreeSet::new();
        };
        self.direct_predecessors(&member.scope, name, &member.interface)
    }

    fn direct_predecessors(&self, scope: &Scope, name: &str, interface: &Interface) -> BTreeSet<String> {
        let Some(index) = self.scopes.get(scope) else { return BTreeSet::new() };
        let exporters = interface.imports.iter().filter_map(|import| index.exporters.get(import)).flatten();
        exporters.filter(|exporter| *exporter != name).cloned().collect()
    }

    /// Returns the shortest path from an Installation over predecessors back to itself. The search
    /// is breadth first and follows names in order, so that the result is reproducible.
    fn cycle(&self, scope: &Scope, name: &str, first: &BTreeSet<String>) -> Option<Vec<String>> {
        let mut came_from: HashMap<String, Option<String>> = HashMap::new();
        let mut queue = std::collections::VecDeque::new();
        for predecessor in first {
            came_from.insert(predecessor.clone(), None);
            queue.push_back(predecessor.clone());
        }
        while let Some(current) = queue.pop_front() {
            if came_from.len() > MOST_VISITED {
                return None;
            }
            for next in self.predecessors_of(&scope.namespace, &current) {
                if next == name {
                    return Some(closed(walk_back(&came_from, current), name));
                }
                if !came_from.contains_key(&next) {
                    came_from.insert(next.clone(), Some(current.clone()));
                    queue.push_back(next);
                }
            }
        }
        None
    }
}

/// Returns the path that led to a member, first to last.
fn walk_back(came_from: &HashMap<String, Option<String>>, last: String) -> Vec<String> {
    let mut way = vec![last];
    while let Some(Some(before)) = way.last().and_then(|member| came_from.get(member)) {
        way.push(before.clone());
    }
    way.reverse();
    way
}

/// Returns the cycle through a member and the path over its predecessors. The cycle begins with the
/// smallest member and repeats it at the end.
fn closed(way: Vec<String>, name: &str) -> Vec<String> {
    let mut cycle: Vec<String> = std::iter::once(name.to_owned()).chain(way).collect();
    let smallest = cycle.iter().enumerate().min_by_key(|(_, member)| *member).map_or(0, |(at, _)| at);
    cycle.rotate_left(smallest);
    cycle.extend(cycle.first().cloned());
    cycle
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn scope() -> Scope {
        Scope { namespace: "team".to_owned(), parent: None }
    }

    /// Parses `name: imports > exports`. A leading `@` marks a Target.
    fn index(members: &[&str]) -> SiblingIndex {
        let mut index = SiblingIndex::default();
        for member in members {
            let (name, interface) = parse(member);
            index.insert(scope(), &name, interface);
        }
        index
    }

    fn parse(member: &str) -> (String, Interface) {
        let (name, rest) = member.split_once(": ").unwrap();
        let (imports, exports) = rest.split_once('>').unwrap();
        let names = |text: &str| {
            let name = |name: &str| match name.strip_prefix('@') {
                Some(name) => (DataKind::Target, name.to_owned()),
                None => (DataKind::Data, name.to_owned()),
            };
            text.split_whitespace().map(name).collect()
        };
        (name.to_owned(), Interface { imports: names(imports), exports: names(exports) })
    }

    fn relations(members: &[&str], of: usize) -> Relations {
        let (name, interface) = parse(members[of]);
        index(members).relations(&scope(), &name, &interface)
    }

    #[test]
    fn edges_follow_from_names_of_one_kind() {
        let members = ["db: > access @cluster", "web: access @x >", "job: @cluster > access2", "own: a > a"];
        let names =
            |of: usize| relations(&members, of).predecessors.into_iter().collect::<Vec<_>>().join(" ");
        assert_eq!(
            (names(0), names(1), names(2), names(3)),
            (String::new(), "db".into(), "db".into(), String::new())
        );
        let index = index(&members);
        let (_, successors) = index.successors_of("team", "db");
        assert_eq!(successors.into_iter().collect::<Vec<_>>(), ["job", "web"]);
        assert_eq!(index.successors_of("other", "db"), (None, BTreeSet::new()));
    }

    #[test]
    fn what_goes_away_is_forgotten() {
        let mut index = index(&["db: > a", "web: a >"]);
        index.remove("team", "db");
        let (name, interface) = parse("web: a >");
        assert_eq!(index.relations(&scope(), &name, &interface), Relations::default());
        index.insert(scope(), "db", parse("db: > b").1);
        index.insert(scope(), "web", parse("web: b >").1);
        assert_eq!(index.predecessors_of("team", "web").into_iter().collect::<Vec<_>>(), ["db"]);
        index.insert(scope(), "web", Interface::default());
        index.remove("team", "db");
        assert!(index.members.is_empty() && index.scopes.is_empty());
    }

    /// `installations.md` 5.2: several exporters of a name are listed with that name.
    #[test]
    fn several_exporters() {
        let found = relations(&["a: > x", "b: > x", "c: x >"], 2);
        let (name, exporters) = found.ambiguous.first_key_value().unwrap();
        assert_eq!(name, &(DataKind::Data, "x".to_owned()));
        assert_eq!(exporters.iter().cloned().collect::<Vec<_>>(), ["a", "b"]);
    }

    /// `installations.md` 5.5: each member depends on the next one, and the list begins with the
    /// smallest member.
    #[test]
    fn cycles() {
        let members = ["c: e > c", "e: d > e", "d: c > d", "f: c >"];
        for of in 0..3 {
            assert_eq!(relations(&members, of).cycle.unwrap().join(" "), "c e d c");
        }
        assert_eq!(relations(&members, 3).cycle, None, "it only depends on one");
        assert_eq!(relations(&["a: b > a", "b: a > b"], 1).cycle.unwrap().join(" "), "a b a");
    }

    #[test]
    fn interfaces_of_specs() {
        let spec = |optimization| -> InstallationSpec {
            serde_json::from_value(json!({
                "blueprint": {},
                "imports": {
                    "data": [
                        {"name": "a", "dataRef": "x"}, {"name": "b", "dataRef": "#y"}, {"name": "c", "secretRef": {"name": "s"}},
                    ],
                    "targets": [
                        {"name": "d", "target": "t"}, {"name": "e", "targets": ["u", "v"]}, {"name": "f", "targetMap": {"k": "w"}},
                        {"name": "g", "targetListRef": "l"}, {"name": "h", "targetMapRef": "m"},
                    ],
                },
                "exports": {"data": [{"name": "i", "dataRef": "z"}], "targets": [{"name": "j", "target": "t2"}]},
                "optimization": optimization,
            }))
            .unwrap()
        };
        let shown = |names: &BTreeSet<DataName>| {
            names.iter().map(|(_, name)| name.as_str()).collect::<Vec<_>>().join(" ")
        };
        let interface = Interface::of(&spec(json!({})));
        assert_eq!(
            (shown(&interface.imports), shown(&interface.exports)),
            ("x t u v w".into(), "z t2".into())
        );
        let promised =
            Interface::of(&spec(json!({"hasNoSiblingImports": true, "hasNoSiblingExports": true})));
        assert_eq!(promised, Interface::default());
    }
}
