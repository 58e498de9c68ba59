//! Renders Installations from the roots to the leaves, in the order in which a cluster could run
//! them. Exports of each are imports of the next.

use std::collections::BTreeMap;

use groundwork_api::{Installation, InstallationTemplate, ResourceExt};
use groundwork_blueprint::{Capabilities, SiblingGraph};
use groundwork_lifecycle::{
    Inputs, JobError, JobOutcome, Offline, OperationError, ROOT_SCOPE, Reason, SignatureCheck,
    SignaturePolicy, assumed_context, deploy_items, export, export_objects, import_copies, render,
    scope_name,
};
use groundwork_registry::RepositoryMap;
use serde_json::{Map, Value};

use super::overrides::{ItemExports, StateFile};
use super::report;
use super::world::World;
use crate::diagnostic::Diagnostic;
use crate::inventory::{Inventory, Loaded, key};
use crate::rendering::{Published, Rendering};
use crate::wall;

/// Levels of nested installations; without a limit, a component that refers to itself would never
/// end.
const DEEPEST: usize = 32;
/// Job id of generated objects, empty because no job of a cluster made them.
const NO_JOB: &str = "";
/// Operation in which exports are written.
const COMPLETING: &str = "handlePhaseCompleting";

/// Renders all Installations of an input.
pub(super) struct Runner<'a> {
    pub(super) world: World<'a>,
    pub(super) repositories: &'a RepositoryMap,
    pub(super) capabilities: Capabilities,
    /// Values for data imports of roots.
    pub(super) given: BTreeMap<String, Value>,
    pub(super) items: ItemExports,
    pub(super) states: StateFile,
    pub(super) show_values: bool,
    pub(super) diagnostics: Vec<Diagnostic>,
}

/// Installation of the tree.
pub(super) struct Node<'n> {
    pub(super) installation: Installation,
    pub(super) scope: String,
    pub(super) path: Vec<String>,
    /// Document of its root, to which messages point.
    pub(super) root: &'n Loaded<Installation>,
}

impl Node<'_> {
    pub(super) fn is_root(&self) -> bool {
        self.path.len() == 1
    }

    /// Returns the scope that the Installation opens for its children.
    fn own_scope(&self) -> String {
        let metadata = &self.installation.metadata;
        let part = |part: &Option<String>| part.clone().unwrap_or_default();
        scope_name(&part(&metadata.namespace), &part(&metadata.name))
    }
}

impl<'a> Runner<'a> {
    /// Renders all roots of all namespaces, each after the roots whose exports it imports.
    pub(super) fn run(&mut self) -> Vec<Rendering> {
        let inventory: &'a Inventory = self.world.inventory;
        let mut namespaces: BTreeMap<&str, Vec<&Loaded<Installation>>> = BTreeMap::new();
        for ((namespace, _), loaded) in &inventory.installations {
            namespaces.entry(namespace).or_default().push(loaded);
        }
        let mut renderings = Vec::new();
        for roots in namespaces.into_values() {
            for root in self.in_order(&roots) {
                let mut installation = root.object.clone();
                self.name_by_uid(&mut installation);
                let path = vec![installation.name_any()];
                let node = Node { installation, scope: ROOT_SCOPE.to_owned(), path, root };
                renderings.push(self.render(&node));
            }
        }
        renderings
    }

    /// Orders roots by their exports and imports, as siblings are ordered.
    fn in_order<'n>(&mut self, roots: &[&'n Loaded<Installation>]) -> Vec<&'n Loaded<Installation>> {
        let template = |root: &&Loaded<Installation>| InstallationTemplate {
            name: root.object.metadata.name.clone(),
            imports: root.object.spec.imports.clone(),
            exports: root.object.spec.exports.clone(),
            ..InstallationTemplate::default()
        };
        let templates: Vec<InstallationTemplate> = roots.iter().map(template).collect();
        let order = SiblingGraph::new(&templates).order();
        let order = order.map(|order| order.into_iter().filter_map(|at| roots.get(at).copied()).collect());
        order.unwrap_or_else(|error| {
            let diagnostic = Diagnostic::error(error.of_roots());
            self.diagnostics.push(match roots.first() {
                Some(root) => diagnostic.at(&root.document.source, root.document.node.position),
                None => diagnostic,
            });
            Vec::new()
        })
    }

    fn render(&mut self, node: &Node<'_>) -> Rendering {
        let mut rendering = Rendering {
            installation: node.installation.clone(),
            path: node.path.clone(),
            outcome: JobOutcome::default(),
            waits_for: None,
            published: Published::Nothing,
            children: Vec::new(),
        };
        if let Some((import, reason)) = self.world.unknown_import(&node.installation, &node.scope) {
            let reason = format!("the import {import:?} is not known: {reason}");
            self.world.add_unknown(&node.installation, &node.scope, &reason);
            rendering.waits_for = Some(reason);
            return rendering;
        }
        rendering.outcome = if node.path.len() > DEEPEST {
            too_deep()
        } else {
            let states = self.states.of(&node.installation);
            self.with_inputs(node, &states, render)
        };
        self.keep_states(node, rendering.outcome.states.clone());
        self.name_items_by_uid(&mut rendering.outcome);
        report::rendered(node, &rendering.outcome, self.world.inventory, &mut self.diagnostics);
        if rendering.outcome.error.is_some() {
            let reason = format!("{} failed", rendering.title());
            self.world.add_unknown(&node.installation, &node.scope, &reason);
            return rendering;
        }
        self.world.add(import_copies(&node.installation, NO_JOB, &rendering.outcome.imports));
        let children: Vec<Node<'_>> = rendering
            .outcome
            .children
            .iter()
            .map(|child| {
                let mut installation = child.installation.clone();
                self.name_by_uid(&mut installation);
                let path = node.path.iter().chain([&child.template]).cloned().collect();
                Node { installation, scope: node.own_scope(), path, root: node.root }
            })
            .collect();
        rendering.children = children.iter().map(|child| self.render(child)).collect();
        rendering.published = self.publish(node, &rendering);
        rendering
    }

    /// Sets the UID of an Installation that the cluster has already, since names of nested objects
    /// derive from the UID.
    fn name_by_uid(&self, installation: &mut Installation) {
        if let Some(uid) = self.world.uids.installations.get(&key(installation)) {
            installation.metadata.uid = Some(uid.clone());
        }
    }

    /// Sets the UID of an Execution that the cluster has already, and renames its items by it.
    fn name_items_by_uid(&self, outcome: &mut JobOutcome) {
        let Some(execution) = &mut outcome.execution else { return };
        if let Some(uid) = self.world.uids.executions.get(&key(execution)) {
            execution.metadata.uid = Some(uid.clone());
            outcome.deploy_items = deploy_items(execution);
        }
    }

    /// Publishes the exports of a finished Installation, as far as they can be known.
    fn publish(&mut self, node: &Node<'_>, rendering: &Rendering) -> Published {
        let failed = rendering.children.iter().find(|child| child.has_failed());
        if let Some(failed) = failed {
            let reason = format!("{} failed", failed.title());
            self.world.add_unknown(&node.installation, &node.scope, &reason);
            return Published::Unknown(reason);
        }
        let (items, unknown_items) = self.item_exports(rendering);
        let values = self.world.export_values(&node.installation, items);
        let states = self.states.of(&node.installation);
        let outcome = self.with_inputs(node, &states, |inputs| export(inputs, |_| values));
        self.keep_states(node, outcome.states.clone());
        // A value that is missing here may come from a deployer.
        let unknown = unknown_items.first().map(|item| {
            format!(
                "only the deployer of deploy item {item} knows its exports; give them with --exports FILE"
            )
        });
        let unknown = unknown.or_else(|| {
            rendering.children.iter().find_map(|child| match (&child.waits_for, &child.published) {
                (Some(reason), _) | (None, Published::Unknown(reason)) => Some(reason.clone()),
                _ => None,
            })
        });
        match (outcome.error, unknown) {
            (Some(_), Some(reason)) => {
                self.world.add_unknown(&node.installation, &node.scope, &reason);
                Published::Unknown(reason)
            }
            (Some(error), None) => self.fail(node, rendering, error),
            (None, unknown) => {
                report::warnings(node, &outcome.warnings, &mut self.diagnostics);
                if outcome.exports.declared.is_empty() {
                    return Published::Nothing;
                }
                let objects = export_objects(&node.installation, &node.scope, NO_JOB, &outcome.exports);
                if let Some(taken) = self.world.taken(&objects) {
                    let error =
                        OperationError::new(COMPLETING, Reason::CreateOrUpdateExports, taken.to_string());
                    return self.fail(node, rendering, error.into());
                }
                if let Some(reason) = unknown {
                    let message =
                        format!("the exports were rendered without a value that is not known: {reason}");
                    report::warnings(node, &[message.into()], &mut self.diagnostics);
                }
                self.world.add(objects.clone());
                Published::Objects { exports: outcome.exports, objects, origins: outcome.origins }
            }
        }
    }

    fn fail(&mut self, node: &Node<'_>, rendering: &Rendering, error: JobError) -> Published {
        report::failed(node, &error, &mut self.diagnostics);
        let reason = format!("{} failed", rendering.title());
        self.world.add_unknown(&node.installation, &node.scope, &reason);
        Published::Failed(error)
    }

    /// Returns the exports of the items by item name, null where they are not known, and the paths
    /// of the items with unknown exports.
    fn item_exports(&self, rendering: &Rendering) -> (Map<String, Value>, Vec<String>) {
        let templates =
            rendering.outcome.execution.as_ref().and_then(|execution| execution.spec.templates().ok());
        let (mut values, mut unknown) = (Map::new(), Vec::new());
        for item in templates.iter().flat_map(|templates| templates.iter()) {
            let value = self.items.of(&rendering.path, item).unwrap_or_else(|| {
                unknown.push(format!("{}/{}", rendering.path.join("/"), item.name));
                Value::Null
            });
            values.insert(item.name.clone(), value);
        }
        (values, unknown)
    }

    fn keep_states(&mut self, node: &Node<'_>, states: groundwork_blueprint::States) {
        if self.states.keep(&node.installation, states) {
            let message = "the state of executions is lost when this command ends; --state FILE keeps it for the next \
                           run";
            report::warnings(node, &[message.to_owned().into()], &mut self.diagnostics);
        }
    }

    /// Calls `work` with all inputs that a job of the Installation reads.
    fn with_inputs<T>(
        &mut self,
        node: &Node<'_>,
        states: &groundwork_blueprint::States,
        job: impl FnOnce(&Inputs<'_>) -> T,
    ) -> T {
        let installation = &node.installation;
        let namespace = installation.namespace().unwrap_or_default();
        let in_namespace = |name: &str| (namespace.clone(), name.to_owned());
        let inventory = self.world.inventory;
        let context = inventory.contexts.get(&in_namespace(installation.spec.context()));
        let overwrites = context
            .and_then(|context| context.object.overwrites())
            .and_then(|name| inventory.overwrites.get(&in_namespace(name)));
        let assumed = if context.is_none() { assumed_context(installation) } else { None };
        let nothing = BTreeMap::new();
        let objects = self.world.objects(&namespace);
        let inputs = Inputs {
            installation,
            context: context.map(|context| &context.object).or(assumed.as_ref()),
            overwrites: overwrites.map(|overwrites| &overwrites.object),
            objects: &objects,
            repositories: self.repositories,
            blueprint: None,
            capabilities: &self.capabilities,
            scope: &node.scope,
            states: Some(states),
            cache: None,
            offline: Some(Offline {
                given: if node.is_root() { &self.given } else { &nothing },
                show_values: self.show_values,
            }),
            signatures: Some(SignatureCheck {
                policy: SignaturePolicy::default(),
                now: jiff::Timestamp::now().as_second(),
            }),
        };
        wall::evaluate(|| job(&inputs))
    }
}

fn too_deep() -> JobOutcome {
    let message = format!(
        "nested installations are more than {DEEPEST} levels deep; check whether a blueprint contains itself"
    );
    let error = OperationError::new("handlePhaseInit", Reason::EnsureSubinstallations, message);
    JobOutcome { error: Some(error.into()), ..JobOutcome::default() }
}
