//! Simulation of Installations' jobs down to the leaves, without deployers.

use groundwork_api::metadata::annotation;
use groundwork_api::{DeployItemTemplate, Execution, Installation, ResourceExt as _};
use groundwork_blueprint::{Exports, States, other_value};
use groundwork_lifecycle::deployer::MOCK_TYPE;
use groundwork_lifecycle::machine::Phase;
use groundwork_lifecycle::{
    DataKind, Inputs, JobOutcome, ROOT_SCOPE, ScopedObject, Taken, TypeChange, assumed_context, deploy_items,
    export, export_objects, export_values, import_copies, item_exports, may_publish, refused_types, render,
    scope_name, state_of, state_secret_name,
};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Map, Value};

use crate::Environment;
use crate::blueprints::Blueprints;
use crate::environment::OfContext;
use crate::landscape::{Below, Key, Landscape, key};
use crate::world::World;

/// Largest nesting depth. A component that refers to itself would nest without end.
const DEEPEST: usize = 32;
/// Empty job id, because the simulated objects belong to no job of a cluster.
const NO_JOB: &str = "";

/// Export of an item.
enum ItemExport {
    Known(Value),
    /// Only the deployer knows the value. The two values are placeholders: a result that is equal
    /// with both does not depend on the export.
    Unknown([Value; 2]),
}

/// Exports of an Installation.
#[derive(Debug, Clone)]
pub(crate) enum Published {
    Known(Vec<ScopedObject>),
    /// Known exports, and the reason why others are unknown.
    Unknown(Vec<ScopedObject>, String),
}

/// Installation after its job.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) installation: Installation,
    /// True if the name is final. The name of an Installation nested in a new one depends on a UID
    /// that is not assigned yet.
    pub(crate) is_named: bool,
    /// Name of the root, followed by the templates that lead to this Installation.
    pub(crate) path: Vec<String>,
    pub(crate) scope: String,
    /// Error of its job.
    pub(crate) error: Option<String>,
    /// Reason why the result of its job is unknown.
    pub(crate) waits_for: Option<String>,
    pub(crate) execution: Option<Execution>,
    pub(crate) published: Published,
    /// True if an input may have been secret.
    pub(crate) may_be_secret: bool,
    pub(crate) children: Vec<Node>,
}

impl Node {
    pub(crate) fn has_failed(&self) -> bool {
        self.error.is_some() || self.children.iter().any(Self::has_failed)
    }

    /// Returns the node and all nodes below.
    pub(crate) fn all(&self) -> Vec<&Self> {
        let mut all = vec![self];
        all.extend(self.children.iter().flat_map(Self::all));
        all
    }

    pub(crate) fn at(&self, path: &[String]) -> Option<&Self> {
        self.all().into_iter().find(|node| node.path == path)
    }

    pub(crate) fn templates(&self) -> Vec<DeployItemTemplate> {
        let templates = self.execution.as_ref().and_then(|execution| execution.spec.templates().ok());
        templates.map(|templates| templates.to_vec()).unwrap_or_default()
    }
}

/// Inputs that all walks share.
pub(crate) struct Walks<'a> {
    /// Objects of the cluster.
    pub(crate) present: &'a Landscape,
    pub(crate) below: &'a Below<'a>,
    pub(crate) environment: &'a Environment<'a>,
    pub(crate) blueprints: &'a Blueprints,
}

impl<'a> Walks<'a> {
    pub(crate) fn on(&'a self, landscape: &'a Landscape) -> Walk<'a> {
        Walk { common: self, landscape, world: World::new(landscape), is_disguised: false }
    }
}

/// Runs the jobs of root Installations on one landscape, one after the other.
pub(crate) struct Walk<'a> {
    common: &'a Walks<'a>,
    landscape: &'a Landscape,
    world: World<'a>,
    /// True if values are substituted, so that no item equals the one in the cluster.
    is_disguised: bool,
}

/// Position of an Installation in the tree.
struct TreePosition {
    installation: Installation,
    is_named: bool,
    path: Vec<String>,
    scope: String,
}

impl<'a> Walk<'a> {
    /// Marks the landscape as one with substituted values.
    pub(crate) fn disguised(self) -> Self {
        Self { is_disguised: true, ..self }
    }

    pub(crate) fn root(&mut self, root: &Installation) -> Node {
        self.visit(TreePosition {
            installation: root.clone(),
            is_named: true,
            path: vec![root.name_any()],
            scope: ROOT_SCOPE.to_owned(),
        })
    }

    fn visit(&mut self, place: TreePosition) -> Node {
        let TreePosition { installation, is_named, path, scope } = place;
        let waits_for = self.world.unknown_import(&installation, &scope);
        let mut node = Node {
            is_named,
            path,
            error: None,
            waits_for: waits_for
                .map(|(import, reason)| format!("the import {import:?} is not known: {reason}")),
            execution: None,
            published: Published::Known(Vec::new()),
            may_be_secret: false,
            children: Vec::new(),
            installation,
            scope,
        };
        if let Some(reason) = node.waits_for.clone() {
            self.unpublished(&mut node, reason);
            return node;
        }
        if node.path.len() > DEEPEST {
            node.error = Some(format!(
                "nested installations are more than {DEEPEST} levels deep; check whether a blueprint contains itself"
            ));
            self.unpublished(&mut node, "its job fails".to_owned());
            return node;
        }
        self.world.begin(&node.installation);
        let outcome = self.render(&mut node);
        if let Some(error) = &outcome.error {
            node.error = Some(error.to_string());
            let reason = format!("the job of {} fails", title(&node));
            self.unpublished(&mut node, reason);
            return node;
        }
        node.execution = outcome.execution;
        self.identify(&mut node);
        let copies = import_copies(&node.installation, NO_JOB, &outcome.imports);
        self.world.add(&copies, !node.may_be_secret);
        let parent = key(&node.installation.metadata);
        for child in outcome.children {
            let place = self.child(&node, &parent, &child.template, child.installation);
            let child = self.visit(place);
            node.children.push(child);
        }
        if let Some(error) = self.refused_types(&node) {
            node.error = Some(error);
            let reason = format!("the job of {} fails", title(&node));
            self.unpublished(&mut node, reason);
            return node;
        }
        self.publish(&mut node, &outcome.states);
        node
    }

    /// Places a nested Installation under its existing or future name.
    fn child(
        &self,
        node: &Node,
        parent: &Key,
        template: &str,
        mut installation: Installation,
    ) -> TreePosition {
        let present = self.common.below.children(parent).iter().find(|child| {
            child.annotations().get(annotation::SUBINSTALLATION_NAME).is_some_and(|of| of == template)
        });
        if let Some(present) = present.filter(|_| node.is_named) {
            installation.metadata.name.clone_from(&present.metadata.name);
            installation.metadata.uid.clone_from(&present.metadata.uid);
        }
        let is_named = node.is_named && node.installation.metadata.uid.is_some();
        let path = node.path.iter().cloned().chain([template.to_owned()]).collect();
        let (namespace, name) = parent;
        TreePosition { installation, is_named, path, scope: scope_name(namespace, name) }
    }

    /// Names the items of an existing Execution by its UID.
    fn identify(&self, node: &mut Node) {
        let Some(execution) = &mut node.execution else { return };
        if let Some(present) =
            self.common.present.executions.get(&key(&execution.metadata)).filter(|_| node.is_named)
        {
            execution.metadata.uid.clone_from(&present.metadata.uid);
        }
    }

    /// Returns the error of an Execution that fails before its first write (`installations.md`
    /// 1.3).
    fn refused_types(&self, node: &Node) -> Option<String> {
        let place = key(&node.execution.as_ref()?.metadata);
        let present = if node.is_named { self.common.below.items(&place) } else { &[] };
        let templates = node.templates();
        refused_types(templates.iter().filter_map(|template| {
            let item = present.iter().find(|item| is_of(item, &template.name))?;
            let is_here = item.metadata.deletion_timestamp.is_none();
            TypeChange::new(&template.name, &item.spec.type_, &template.type_).filter(|_| is_here)
        }))
    }

    fn render(&self, node: &mut Node) -> JobOutcome {
        let first = self.with_inputs(node, None, render);
        if first.unread_states.is_empty() {
            return first;
        }
        let states = self.states(&node.installation, &first.unread_states);
        node.may_be_secret |= !states.is_empty();
        self.with_inputs(node, Some(&states), render)
    }

    /// Returns the stored states of executions.
    fn states(&self, installation: &Installation, keys: &[String]) -> States {
        let (namespace, name) = key(&installation.metadata);
        let state = |of: &String| {
            let secret = (namespace.clone(), state_secret_name(&name, of));
            let entries = self.landscape.secrets.get(&secret);
            if let (None, Some(reads)) = (entries, self.common.environment.reads) {
                reads.secret(secret.clone());
            }
            let entries = entries?;
            let data = entries.iter().map(|(entry, bytes)| (entry.clone(), ByteString(bytes.clone())));
            let secret = Secret { data: Some(data.collect()), ..Secret::default() };
            Some((of.clone(), state_of(&secret)?))
        };
        keys.iter().filter_map(state).collect()
    }

    fn with_inputs<T>(
        &self,
        node: &mut Node,
        states: Option<&States>,
        job: impl FnOnce(&Inputs<'_>) -> T,
    ) -> T {
        let installation = &node.installation;
        let (namespace, _) = key(&installation.metadata);
        let context =
            self.landscape.contexts.get(&(namespace.clone(), installation.spec.context().to_owned()));
        let assumed = if context.is_none() { assumed_context(installation) } else { None };
        let overwrites = context.and_then(|context| {
            self.landscape.overwrites.get(&(namespace.clone(), context.overwrites()?.to_owned()))
        });
        let context = context.or(assumed.as_ref());
        let Environment { repositories: sources, reads, .. } = *self.common.environment;
        let objects = self.world.view(&namespace, reads);
        let done = job(&Inputs {
            installation,
            context,
            overwrites,
            objects: &objects,
            repositories: &OfContext { sources, namespace: &namespace, context },
            blueprint: None,
            capabilities: self.common.environment.capabilities,
            scope: &node.scope,
            states,
            cache: Some(self.common.blueprints),
            offline: None,
            signatures: self.common.environment.signatures,
        });
        node.may_be_secret |= objects.has_read_secrets.get();
        done
    }

    fn unpublished(&mut self, node: &mut Node, reason: String) {
        self.world.add_unknown(&node.installation, &node.scope, &reason);
        node.published = Published::Unknown(Vec::new(), reason);
    }

    /// Publishes the known exports of an Installation whose work is done.
    fn publish(&mut self, node: &mut Node, states: &States) {
        if let Some(failed) = node.children.iter().find(|child| child.has_failed()) {
            let reason = format!("the job of {} fails", title(failed));
            return self.unpublished(node, reason);
        }
        let below = node.children.iter().find_map(|child| match &child.published {
            Published::Unknown(_, reason) => Some(reason.clone()),
            Published::Known(_) => child.waits_for.clone(),
        });
        let (values, unknown) = self.item_values(node);
        // A value that is missing here comes from a nested Installation, or does not exist.
        let given = |which: usize| -> Map<String, Value> {
            let value = |value: &ItemExport| match value {
                ItemExport::Known(value) => value.clone(),
                ItemExport::Unknown(values) => values[which].clone(),
            };
            values.iter().map(|(name, of)| (name.clone(), value(of))).collect()
        };
        let first = self.export(node, states, given(0));
        let reason = below.or(unknown.clone());
        let (known, error) = match (first, &reason) {
            (Ok(exports), None) => (exports, None),
            (Err(error), None) => (Exports::default(), Some(error)),
            // If only items have unknown exports, a second run with other placeholders shows the
            // exports that do not depend on them.
            (Ok(exports), Some(_)) if unknown == reason => {
                let second = self.export(node, states, given(1)).unwrap_or_default();
                (common(exports, &second), None)
            }
            (_, Some(_)) => (Exports::default(), None),
        };
        if let Some(error) = error {
            node.error = Some(error);
            let reason = format!("the job of {} fails", title(node));
            return self.unpublished(node, reason);
        }
        let objects = export_objects(&node.installation, &node.scope, NO_JOB, &known);
        if let Some(taken) = self.taken(&objects) {
            node.error = Some(taken.to_string());
            let reason = format!("the job of {} fails", title(node));
            return self.unpublished(node, reason);
        }
        if let Some(reason) = reason {
            self.world.add_unknown(&node.installation, &node.scope, &reason);
            self.world.add(&objects, !node.may_be_secret);
            node.published = Published::Unknown(objects, reason);
        } else {
            self.world.add(&objects, !node.may_be_secret);
            node.published = Published::Known(objects);
        }
    }

    /// Returns the error of the first export whose name belongs to another object
    /// (`installations.md` 4.3).
    fn taken(&self, exports: &[ScopedObject]) -> Option<Taken> {
        exports.iter().find_map(|export| {
            let (wanted, landscape) = (export.metadata(), self.landscape);
            let found = match export {
                ScopedObject::Data(_) => &landscape.data_objects.get(&key(wanted))?.metadata,
                ScopedObject::Target(_) => &landscape.targets.get(&key(wanted))?.metadata,
            };
            may_publish(export.kind_name(), found, wanted).err()
        })
    }

    fn export(&self, node: &mut Node, states: &States, items: Map<String, Value>) -> Result<Exports, String> {
        let installation = node.installation.clone();
        let (namespace, name) = key(&installation.metadata);
        let scope = scope_name(&namespace, &name);
        let (data, targets) = self.world.in_scope(&namespace, &scope);
        let values = export_values(&installation, items, data, targets);
        let (data, targets) = self.world.in_scope(&namespace, &scope);
        let mut may_be_secret = data
            .map(|object| self.world.may_be_secret(DataKind::Data, &object.metadata))
            .chain(targets.map(|target| self.world.may_be_secret(DataKind::Target, &target.metadata)));
        node.may_be_secret |= may_be_secret.any(|secret| secret);
        let outcome = self.with_inputs(node, Some(states), |inputs| export(inputs, |_| values));
        match outcome.error {
            Some(error) => Err(error.to_string()),
            None => Ok(outcome.exports),
        }
    }

    /// Returns the export of each item, and the reason if only a deployer knows some of them.
    fn item_values(&self, node: &mut Node) -> (Vec<(String, ItemExport)>, Option<String>) {
        let mut reason = None;
        let mut values = Vec::new();
        for template in node.templates() {
            let value = match template.type_ == MOCK_TYPE {
                true => mock_export(&template),
                false => self.last_export(node, &template),
            };
            if matches!(value, ItemExport::Unknown(_)) && reason.is_none() {
                reason = Some(format!(
                    "the exports of item {} of {} are known only after its deployer has run",
                    template.name,
                    title(node)
                ));
            }
            values.push((template.name, value));
        }
        (values, reason)
    }

    /// Returns the last export of an item if neither the item nor its Target changes.
    fn last_export(&self, node: &mut Node, template: &DeployItemTemplate) -> ItemExport {
        let found = node.execution.as_ref().and_then(|execution| {
            let place = key(&execution.metadata);
            let wanted = deploy_items(execution).into_iter().find(|item| is_of(item, &template.name))?;
            let found = self.common.below.items(&place).iter().find(|item| is_of(item, &template.name))?;
            Some((self.common.present.executions.get(&place)?, found.spec == wanted.spec))
        });
        let Some((present, is_same)) = found else {
            return ItemExport::Unknown([Value::Null, Value::Bool(true)]);
        };
        let (namespace, _) = key(&present.metadata);
        let holder = present.status.as_ref().and_then(|status| status.export_ref.as_ref());
        let holder = holder.and_then(|holder| self.world.data_object(&namespace, &holder.name)).cloned();
        node.may_be_secret |= holder.is_some();
        let last = item_exports(Some(present), holder).remove(&template.name).unwrap_or_default();
        if self.is_disguised || is_same && self.is_same_target(&namespace, template) {
            return ItemExport::Known(last);
        }
        // The placeholders have the shape of the last value, because templates may access its
        // members.
        match other_value(&last) {
            other if other == last => ItemExport::Unknown([Value::Null, Value::Bool(true)]),
            other => ItemExport::Unknown([last, other]),
        }
    }

    fn is_same_target(&self, namespace: &str, template: &DeployItemTemplate) -> bool {
        template.target.as_ref().is_none_or(|target| {
            let place = (namespace.to_owned(), target.name.clone());
            let spec = |landscape: &'a Landscape| landscape.targets.get(&place).map(|target| &target.spec);
            spec(self.landscape) == spec(self.common.present)
        })
    }
}

fn is_of(item: &groundwork_api::DeployItem, template: &str) -> bool {
    let name = item.labels().get(groundwork_api::metadata::label::DEPLOY_ITEM_NAME);
    name.is_some_and(|name| name == template)
}

/// Returns the export in the configuration of a mock item, unless the item is configured to fail
/// (`installations.md` 7.8).
fn mock_export(template: &DeployItemTemplate) -> ItemExport {
    let config = template.config.get().and_then(Value::as_object);
    let member = |name: &str| config.and_then(|config| config.get(name));
    let phase = member("phase").or_else(|| member("initialPhase")).and_then(Value::as_str);
    if phase.is_some_and(|phase| !phase.is_empty() && phase != Phase::Succeeded.as_str()) {
        return ItemExport::Unknown([Value::Null, Value::Bool(true)]);
    }
    ItemExport::Known(member("export").cloned().unwrap_or_default())
}

/// Returns the exports that are equal in both.
fn common(mut exports: Exports, other: &Exports) -> Exports {
    exports.data.retain(|name, value| other.data.get(name) == Some(value));
    exports.targets.retain(|name, target| other.targets.get(name) == Some(target));
    exports
}

pub(crate) fn title(node: &Node) -> String {
    let namespace = node.installation.metadata.namespace.as_deref().unwrap_or_default();
    format!("{namespace}/{}", node.path.join("/"))
}
