//! Reasons for the job of a root to run, or to have another result than the last job.

use std::collections::{BTreeMap, BTreeSet};

use groundwork_api::metadata::{annotation, operation};
use groundwork_api::{
    Context, DataObject, Installation, InstallationTemplate, Kind as _, ResourceExt as _, Target,
};
use groundwork_blueprint::SiblingGraph;
use groundwork_component::{GraphEntry, Reference};
use groundwork_lifecycle::{
    DataKind, ImportedNames, Inputs, Interface, ObjectSet, ROOT_SCOPE, Scope, SiblingIndex, assumed_context,
    living_scope, parent_name, resolve,
};

use crate::Environment;
use crate::applied::changed;
use crate::change::{Change, PlannedInstallation, Reason, Redirection, Start};
use crate::compare::{Importers, importers, kind_name};
use crate::component_changes::redirections;
use crate::environment::OfContext;
use crate::landscape::{Key, Landscape};
use crate::world::imported;

/// Reasons to plan a root, and the start of its job.
#[derive(Debug, Clone)]
pub(crate) struct Cause {
    pub(crate) start: Start,
    pub(crate) reasons: Vec<Reason>,
    pub(crate) redirected: Vec<Redirection>,
}

/// Object that a planned job changes.
#[derive(Debug)]
struct Published {
    exporter: String,
}

/// Facts known before the jobs, and the results of the jobs planned so far.
pub(crate) struct Causes<'a> {
    present: &'a Landscape,
    after: &'a Landscape,
    applied: &'a Landscape,
    environment: &'a Environment<'a>,
    siblings: SiblingIndex,
    importers: BTreeMap<String, Importers>,
    /// Imports from applied objects, of roots or of Installations nested in them.
    touched: BTreeMap<Key, Vec<Reason>>,
    /// Contexts that resolve differently, by their own change or by that of their overwrites.
    contexts: BTreeSet<Key>,
    started: BTreeMap<Key, Start>,
    published: BTreeMap<(String, &'static str, String), Published>,
    pub(crate) problems: Vec<String>,
}

impl<'a> Causes<'a> {
    pub(crate) fn new(
        present: &'a Landscape,
        after: &'a Landscape,
        applied: &'a Landscape,
        environment: &'a Environment<'a>,
    ) -> Self {
        let mut siblings = SiblingIndex::default();
        let mut roots: BTreeMap<String, Vec<&Installation>> = BTreeMap::new();
        for ((namespace, name), root) in roots_of(after) {
            let scope = Scope { namespace: namespace.clone(), parent: None };
            siblings.insert(scope, name, Interface::of(&root.spec));
            roots.entry(namespace.clone()).or_default().push(root);
        }
        let importers = roots.into_iter().map(|(namespace, roots)| {
            let names = roots.iter().map(|root| (root.name_any(), *root));
            (namespace, importers(names, ROOT_SCOPE))
        });
        Self {
            importers: importers.collect(),
            touched: touched(present, after, applied),
            contexts: contexts(present, after, applied),
            present,
            after,
            applied,
            environment,
            siblings,
            started: BTreeMap::new(),
            published: BTreeMap::new(),
            problems: Vec::new(),
        }
    }

    /// Returns all roots, each after those whose exports it imports.
    pub(crate) fn roots(&mut self) -> Vec<Key> {
        let mut namespaces: BTreeMap<&str, Vec<(&Key, &Installation)>> = BTreeMap::new();
        for (key, root) in roots_of(self.after) {
            namespaces.entry(&key.0).or_default().push((key, root));
        }
        let mut ordered = Vec::new();
        for (namespace, roots) in namespaces {
            let template = |(_, root): &(&Key, &Installation)| InstallationTemplate {
                name: root.metadata.name.clone(),
                imports: root.spec.imports.clone(),
                exports: root.spec.exports.clone(),
                ..InstallationTemplate::default()
            };
            let templates: Vec<InstallationTemplate> = roots.iter().map(template).collect();
            match SiblingGraph::new(&templates).order() {
                Ok(order) => {
                    ordered.extend(
                        order.into_iter().filter_map(|at| roots.get(at)).map(|(key, _)| (*key).clone()),
                    );
                }
                Err(error) => {
                    self.problems.push(format!("namespace {namespace}: {}", error.of_roots()));
                    ordered.extend(roots.iter().map(|(key, _)| (*key).clone()));
                }
            }
        }
        ordered
    }

    pub(crate) fn importers(&self, namespace: &str) -> &Importers {
        static NOBODY: Importers = Importers::new();
        self.importers.get(namespace).unwrap_or(&NOBODY)
    }

    /// Returns the reasons to plan a root; `None` if there are none. Call it in the order of
    /// [`Causes::roots`].
    pub(crate) fn of(&mut self, key: &Key) -> Option<Cause> {
        let after = self.after.installations.get(key)?;
        let present = self.present.installations.get(key);
        let mut reasons = Vec::new();
        let is_changed = match present {
            None => {
                reasons.push(Reason::New);
                true
            }
            Some(present) if present.spec != after.spec => {
                reasons.push(Reason::SpecChanged);
                true
            }
            Some(_) => false,
        };
        let redirected = self.redirected(key, present, after, is_changed);
        if !redirected.is_empty() {
            reasons.push(Reason::Redirected);
        }
        let asks = |installation: &Installation| {
            installation
                .annotations()
                .get(annotation::OPERATION)
                .is_some_and(|asked| asked == operation::RECONCILE)
        };
        let is_asked = self.applied.installations.get(key).is_some_and(asks);
        if is_asked && !is_changed {
            reasons.push(Reason::Requested);
        }
        // For a new Installation every import is new, so imports are not reported as reasons.
        if present.is_some() {
            reasons.extend(self.touched.remove(key).unwrap_or_default());
            reasons.extend(self.imports_of(key, after));
        }
        let scope = Scope { namespace: key.0.clone(), parent: None };
        let relations = self.siblings.relations(&scope, &key.1, &Interface::of(&after.spec));
        let start_of = |name: &String| self.started.get(&(key.0.clone(), name.clone())).copied();
        let predecessors: Vec<(String, Start)> =
            relations.predecessors.iter().filter_map(|name| Some((name.clone(), start_of(name)?))).collect();
        if present.is_some() && !predecessors.is_empty() {
            let names = predecessors.iter().map(|(name, _)| name.clone()).collect();
            reasons.push(Reason::PredecessorsRun { predecessors: names });
        }
        if reasons.is_empty() {
            return None;
        }
        if after.metadata.deletion_timestamp.is_some() {
            self.problems
                .push(format!("{}/{} is being deleted, so no job runs for the change", key.0, key.1));
            return None;
        }
        let is_set =
            after.annotations().get(annotation::RECONCILE_IF_CHANGED).is_some_and(|value| value == "true");
        let start = if is_asked || is_set && is_changed {
            Start::Now
        } else if predecessors.iter().any(|(_, start)| *start != Start::NextJob) {
            Start::AfterPredecessors
        } else {
            Start::NextJob
        };
        Some(Cause { start, reasons, redirected })
    }

    /// Records the exports that the job of a planned root changes.
    pub(crate) fn ran(&mut self, key: &Key, planned: &PlannedInstallation, start: Start) {
        self.started.insert(key.clone(), start);
        for export in planned.exports.iter().filter(|export| export.change != Change::Unchanged) {
            let place = (key.0.clone(), export.kind, export.name.clone());
            self.published.insert(place, Published { exporter: key.1.clone() });
        }
    }

    fn imports_of(&self, (namespace, name): &Key, installation: &Installation) -> Vec<Reason> {
        let reason = |(import, kind, object): (String, DataKind, String)| {
            let kind = kind_name(kind);
            let published = self.published.get(&(namespace.clone(), kind, object.clone()))?;
            (published.exporter != *name).then(|| Reason::ImportChanged {
                import,
                from: format!("{kind} {object}"),
                exporter: Some(published.exporter.clone()),
            })
        };
        imported(installation, ROOT_SCOPE).into_iter().filter_map(reason).collect()
    }

    /// Returns the references that lead to another version than before; empty for a new
    /// Installation.
    fn redirected(
        &self,
        key: &Key,
        present: Option<&Installation>,
        after: &Installation,
        is_changed: bool,
    ) -> Vec<Redirection> {
        let Some(present) = present else { return Vec::new() };
        let context = (key.0.clone(), after.spec.context().to_owned());
        if !is_changed && !self.contexts.contains(&context) {
            return Vec::new();
        }
        let (before, after) = (self.graph(self.present, present), self.graph(self.after, after));
        redirections(before.iter().map(place), after.iter().map(place))
    }

    fn graph(&self, landscape: &Landscape, installation: &Installation) -> Vec<GraphEntry> {
        let namespace = installation.metadata.namespace.clone().unwrap_or_default();
        let context = landscape.contexts.get(&(namespace.clone(), installation.spec.context().to_owned()));
        let assumed = if context.is_none() { assumed_context(installation) } else { None };
        let overwrites = context.and_then(|context| {
            landscape.overwrites.get(&(namespace.clone(), context.overwrites()?.to_owned()))
        });
        let context = context.or(assumed.as_ref());
        let sources = self.environment.repositories;
        let repositories = OfContext { sources, namespace: &namespace, context };
        let resolution = resolve(&Inputs {
            installation,
            context,
            overwrites,
            objects: &ObjectSet::default(),
            repositories: &repositories,
            blueprint: None,
            capabilities: self.environment.capabilities,
            scope: ROOT_SCOPE,
            states: None,
            cache: None,
            offline: None,
            signatures: None,
        });
        resolution.graph(&repositories)
    }
}

/// Returns depth, local name and effective reference of an entry.
fn place(entry: &GraphEntry) -> (usize, &str, &Reference) {
    (entry.depth, &entry.name, &entry.substitution.effective)
}

fn roots_of(landscape: &Landscape) -> impl Iterator<Item = (&Key, &Installation)> {
    landscape.installations.iter().filter(|(_, installation)| parent_name(installation).is_none())
}

/// Returns the Contexts that change, or whose overwrites change.
fn contexts(present: &Landscape, after: &Landscape, applied: &Landscape) -> BTreeSet<Key> {
    let mut contexts: BTreeSet<Key> =
        changed(&applied.contexts, &present.contexts, &after.contexts).cloned().collect();
    let overwrites: BTreeSet<&Key> =
        changed(&applied.overwrites, &present.overwrites, &after.overwrites).collect();
    let names = |(key, context): (&Key, &Context)| {
        let named = (key.0.clone(), context.overwrites()?.to_owned());
        overwrites.contains(&named).then(|| key.clone())
    };
    contexts.extend(after.contexts.iter().filter_map(names));
    contexts
}

/// Returns imports from changed applied objects, by the root of the importing Installation.
fn touched(present: &Landscape, after: &Landscape, applied: &Landscape) -> BTreeMap<Key, Vec<Reason>> {
    let data: BTreeSet<&Key> =
        changed(&applied.data_objects, &present.data_objects, &after.data_objects).collect();
    let secrets: BTreeSet<&Key> = changed(&applied.secrets, &present.secrets, &after.secrets).collect();
    let maps: BTreeSet<&Key> =
        changed(&applied.config_maps, &present.config_maps, &after.config_maps).collect();
    let mut targets: BTreeSet<&Key> = changed(&applied.targets, &present.targets, &after.targets).collect();
    let is_secret = |((namespace, _), target): &(&Key, &Target)| {
        let reference = target.spec.secret_ref.as_ref();
        reference.is_some_and(|reference| secrets.contains(&(namespace.clone(), reference.name.clone())))
    };
    targets.extend(after.targets.iter().filter(is_secret).map(|(key, _)| key));
    let mut touched: BTreeMap<Key, Vec<Reason>> = BTreeMap::new();
    if [&data, &secrets, &maps, &targets].iter().all(|changed| changed.is_empty()) {
        return touched;
    }
    for (key, installation) in &after.installations {
        let names = ImportedNames::of(installation, &living_scope(installation));
        for (kind, names, changed) in [
            (DataObject::KIND, &names.data_objects, &data),
            (Target::KIND, &names.targets, &targets),
            ("Secret", &names.secrets, &secrets),
            ("ConfigMap", &names.config_maps, &maps),
        ] {
            for name in names.iter().filter(|name| changed.contains(&(key.0.clone(), (*name).clone()))) {
                let reasons = touched.entry(root_of(after, key)).or_default();
                reasons.push(Reason::ImportChanged {
                    import: import_of(installation, kind, name),
                    from: format!("{kind} {name}"),
                    exporter: None,
                });
            }
        }
    }
    touched
}

/// Returns the name of the Installation's import that comes from an object.
fn import_of(installation: &Installation, kind: &str, object: &str) -> String {
    let by_reference = installation.spec.data_imports().iter().find(|import| match kind {
        "Secret" => import.secret_ref.as_ref().is_some_and(|reference| reference.name == object),
        "ConfigMap" => import.config_map_ref.as_ref().is_some_and(|reference| reference.name == object),
        _ => false,
    });
    let by_scope = || {
        let imports = imported(installation, &living_scope(installation)).into_iter();
        imports
            .filter(|(_, of, name)| kind_name(*of) == kind && name == object)
            .map(|(import, ..)| import)
            .next()
    };
    by_reference.map(|import| import.name.clone()).or_else(by_scope).unwrap_or_default()
}

fn root_of(landscape: &Landscape, key: &Key) -> Key {
    let mut root = key.clone();
    // The number of steps is limited, because owner references can form a cycle.
    for _ in 0..landscape.installations.len() {
        match landscape.installations.get(&root).and_then(parent_name) {
            Some(parent) => root.1 = parent.to_owned(),
            None => break,
        }
    }
    root
}
