//! Computations of a job before its writes: the rendering, the copies of imports with their
//! fingerprints, and at the end the exports.

use std::borrow::Cow;
use std::collections::BTreeSet;

use groundwork_api::{DataObject, Execution, ImportStatus, Installation};
use groundwork_blueprint::States;
use k8s_openapi::api::core::v1::Secret;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::conditions::ConditionUpdate;
use crate::data::{self, ScopedObject};
use crate::error::OperationError;
use crate::imports::ImportedObjects;
use crate::job::{Child, Inputs, Warning, export, render, valueless};
use crate::names::{object_name, scope_name};
use crate::objects;
use crate::sources;
use crate::write::{Change, Write};

/// Condition about the exports of a blueprint. Landscaper declares it, and never writes it.
pub(crate) const VALIDATE_EXPORT: &str = "ValidateExport";

/// Result of the rendering for one job, reduced to the parts that the job needs later.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Prepared {
    /// Generation of the rendered spec.
    pub generation: i64,
    pub job_id: String,
    pub error: Option<OperationError>,
    pub warnings: Vec<Warning>,
    /// Conditions to merge into the status, in order.
    pub(crate) conditions: Vec<ConditionUpdate>,
    /// Types of conditions that no longer apply.
    pub(crate) obsolete_conditions: Vec<Cow<'static, str>>,
    /// Nested Installations, each after those whose exports it imports.
    pub(crate) children: Vec<Nested>,
    pub(crate) execution: Option<Execution>,
    /// True if the end of the job has exports to render, check or map.
    pub(crate) has_exports: bool,
    /// Entries for `status.imports`.
    pub imports: Vec<ImportStatus>,
    /// True if the Installation has imports.
    pub has_imports: bool,
    /// Hash over all imports (`installations.md` 5.4).
    pub imports_hash: String,
    /// Changed states of executions, and copies of the imports in the Installation's own scope. The
    /// states are set even if rendering failed (`blueprints.md` 4.6).
    pub(crate) products: Vec<Product>,
    /// Places in the blueprint where the objects come from, as sentences for users ([`sources`]).
    pub sources: Vec<String>,
}

/// Nested Installation, with the name of its template.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Nested {
    pub(crate) template: String,
    pub(crate) installation: Installation,
}

/// Exports of one job, rendered after all objects below have finished.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Completion {
    pub generation: i64,
    pub job_id: String,
    pub error: Option<OperationError>,
    pub warnings: Vec<Warning>,
    /// Hash over all imports at the time of this rendering.
    pub imports_hash: String,
    /// Condition about exports that the blueprint declares and that have no value; absent if all
    /// have one.
    pub(crate) valueless_exports: Option<ConditionUpdate>,
    /// Changed states of executions, then exports.
    pub(crate) products: Vec<Product>,
}

/// Object that stores a computed value.
#[allow(clippy::large_enum_variant, reason = "few are held at a time")]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Product {
    /// State that an execution keeps from one job to the next.
    State(Secret),
    /// Copy of an import, in the Installation's own scope.
    Copy(ScopedObject),
    /// Export, in the scope of the siblings.
    Export(ScopedObject),
}

impl Product {
    pub(crate) fn to_write(&self) -> Write {
        match self {
            Self::State(secret) => Write::Secret(Change::Ensure(secret.clone())),
            Self::Copy(copy) => copy.clone().into(),
            Self::Export(ScopedObject::Data(object)) => Write::DataObject(Change::Publish(object.clone())),
            Self::Export(ScopedObject::Target(target)) => Write::Target(Change::Publish(target.clone())),
        }
    }

    fn namespace(&self) -> Option<&str> {
        let metadata = match self {
            Self::State(secret) => &secret.metadata,
            Self::Copy(ScopedObject::Data(object)) | Self::Export(ScopedObject::Data(object)) => {
                &object.metadata
            }
            Self::Copy(ScopedObject::Target(target)) | Self::Export(ScopedObject::Target(target)) => {
                &target.metadata
            }
        };
        metadata.namespace.as_deref()
    }
}

/// Keys under which executions may have stored states. The caller must read these states and call
/// again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnreadStates(pub Vec<String>);

/// Values in the own scope of an Installation, beside the copies of its imports.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct OwnScope {
    /// Exports of the items, by item name.
    pub deploy_items: Map<String, Value>,
    /// Exports of the nested Installations.
    pub exports: Vec<ScopedObject>,
}

/// Names of the objects that export executions see in the own scope of an Installation, beside the
/// copies of its imports.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OwnNames {
    /// Name of the DataObject with the exports of the items, if they have any.
    pub holder: Option<String>,
    pub data_objects: BTreeSet<String>,
    pub targets: BTreeSet<String>,
}

impl OwnNames {
    /// Returns the names of the DataObject that the Execution has collected, and of the exports of
    /// the nested Installations.
    pub fn of<'a>(
        installation: &Installation,
        execution: Option<&Execution>,
        children: impl Iterator<Item = &'a Installation>,
    ) -> Self {
        let part = |part: &Option<String>| part.clone().unwrap_or_default();
        let scope = scope_name(&part(&installation.metadata.namespace), &part(&installation.metadata.name));
        let holder = execution.and_then(|execution| execution.status.as_ref()?.export_ref.as_ref());
        let mut names = Self { holder: holder.map(|holder| holder.name.clone()), ..Self::default() };
        for child in children {
            let data = child.spec.data_exports().iter().map(|export| object_name(&scope, &export.data_ref));
            names.data_objects.extend(data);
            let targets = child.spec.target_exports().iter();
            names.targets.extend(targets.map(|export| object_name(&scope, &export.target)));
        }
        names
    }
}

/// Returns the exports of an Execution's items by name: null for an item without exports, and an
/// empty map without an Execution (`installations.md` 6.1).
pub fn item_exports(execution: Option<&Execution>, holder: Option<DataObject>) -> Map<String, Value> {
    if let Some(Value::Object(values)) = holder.and_then(|holder| holder.data.into_value()) {
        return values;
    }
    let templates = execution.and_then(|execution| execution.spec.templates().ok());
    let names = templates.iter().flat_map(|templates| templates.iter());
    names.map(|template| (template.name.clone(), Value::Null)).collect()
}

/// Renders for the current job of the Installation.
///
/// # Errors
///
/// [`UnreadStates`] if states are missing. Every other error is part of the result.
pub fn prepare(inputs: &Inputs<'_>) -> Result<Prepared, UnreadStates> {
    let installation = inputs.installation;
    let mut outcome = render(inputs);
    if !outcome.unread_states.is_empty() {
        return Err(UnreadStates(std::mem::take(&mut outcome.unread_states)));
    }
    let (imports, imports_hash) = data::fingerprints(installation, inputs.scope, inputs.objects);
    let job_id = job_id(installation);
    let mut products = changed_states(installation, inputs.states, &outcome.states);
    if outcome.error.is_none() {
        let copies = data::import_copies(installation, &job_id, &outcome.imports);
        products.extend(copies.into_iter().map(Product::Copy));
    }
    let sources = sources::sentences(&outcome);
    let nested = |child: Child| Nested { template: child.template, installation: child.installation };
    Ok(Prepared {
        generation: installation.metadata.generation.unwrap_or_default(),
        job_id,
        error: outcome.error.map(|error| error.cause),
        warnings: outcome.warnings,
        conditions: outcome.conditions,
        obsolete_conditions: outcome.obsolete_conditions.into_iter().map(Cow::from).collect(),
        children: outcome.children.into_iter().map(nested).collect(),
        execution: outcome.execution,
        has_exports: outcome.has_exports,
        has_imports: !imports.is_empty(),
        imports,
        imports_hash,
        products,
        sources,
    })
}

/// Renders, checks and maps the exports of the Installation at the end of its job
/// (`installations.md` 6.1).
///
/// # Errors
///
/// [`UnreadStates`] if states are missing. Every other error is part of the result.
pub fn complete(inputs: &Inputs<'_>, own: &OwnScope) -> Result<Completion, UnreadStates> {
    let installation = inputs.installation;
    let job_id = job_id(installation);
    let outcome = export(inputs, |imports| {
        let copies = data::import_copies(installation, &job_id, imports);
        data::values_of(installation, own.deploy_items.clone(), copies.iter().chain(&own.exports))
    });
    if !outcome.unread_states.is_empty() {
        return Err(UnreadStates(outcome.unread_states));
    }
    let valueless_exports = valueless(&outcome.exports)
        .map(|message| ConditionUpdate::new(VALIDATE_EXPORT, false, "ExportsWithoutValue", message));
    let mut products = changed_states(installation, inputs.states, &outcome.states);
    let exports = data::export_objects(installation, inputs.scope, &job_id, &outcome.exports);
    if outcome.error.is_none() {
        products.extend(exports.into_iter().map(Product::Export));
    }
    Ok(Completion {
        generation: installation.metadata.generation.unwrap_or_default(),
        imports_hash: imports_hash(installation, inputs.scope, inputs.objects),
        error: outcome.error.map(|error| error.cause),
        warnings: outcome.warnings,
        valueless_exports,
        job_id,
        products,
    })
}

fn job_id(installation: &Installation) -> String {
    installation.status.as_ref().and_then(|status| status.job_id.clone()).unwrap_or_default()
}

/// Returns the Secrets with changed states.
fn changed_states(installation: &Installation, before: Option<&States>, now: &States) -> Vec<Product> {
    let changed =
        now.iter().filter(|(key, state)| before.and_then(|before| before.get(*key)) != Some(*state));
    changed.map(|(key, state)| Product::State(objects::state_secret(installation, key, state))).collect()
}

/// Adds unchanged states, so that their Secrets are written with the Installation as owner.
fn take_over_states(products: &mut Vec<Product>, installation: &Installation, left: &States) {
    for (key, state) in left {
        let secret = objects::state_secret(installation, key, state);
        let is_same = |product: &Product| matches!(product, Product::State(other) if other.metadata.name == secret.metadata.name);
        if !products.iter().any(is_same) {
            products.insert(0, Product::State(secret));
        }
    }
}

/// Returns the state in a Secret, or `None` if the Secret has none.
pub fn state_of(secret: &Secret) -> Option<String> {
    let entry = secret.data.as_ref()?.get(objects::STATE_ENTRY)?;
    String::from_utf8(entry.0.clone()).ok()
}

impl Prepared {
    /// Creates the result of a job that ended before rendering.
    pub fn failed(installation: &Installation, error: OperationError) -> Self {
        Self {
            generation: installation.metadata.generation.unwrap_or_default(),
            job_id: job_id(installation),
            error: Some(error),
            warnings: Vec::new(),
            conditions: Vec::new(),
            obsolete_conditions: Vec::new(),
            children: Vec::new(),
            execution: None,
            has_exports: false,
            imports: Vec::new(),
            has_imports: false,
            imports_hash: String::new(),
            products: Vec::new(),
            sources: Vec::new(),
        }
    }

    /// Adds the Secrets of states that have lost their owner, with this Installation as owner.
    pub fn take_over_states(&mut self, installation: &Installation, left: &States) {
        take_over_states(&mut self.products, installation, left);
    }

    /// Reports whether all objects to write are in this namespace. A job writes to no other
    /// namespace, so a caller can check a result that it received from another process.
    pub fn is_within(&self, namespace: &str) -> bool {
        let children = self.children.iter().map(|child| child.installation.metadata.namespace.as_deref());
        let execution = self.execution.iter().map(|execution| execution.metadata.namespace.as_deref());
        let products = self.products.iter().map(Product::namespace);
        children.chain(execution).chain(products).all(|found| found == Some(namespace))
    }
}

impl Completion {
    /// Creates the result of a job that ended before its exports were rendered.
    pub fn failed(installation: &Installation, error: OperationError) -> Self {
        Self {
            generation: installation.metadata.generation.unwrap_or_default(),
            job_id: job_id(installation),
            error: Some(error),
            warnings: Vec::new(),
            imports_hash: String::new(),
            valueless_exports: None,
            products: Vec::new(),
        }
    }

    /// Does the same as [`Prepared::take_over_states`].
    pub fn take_over_states(&mut self, installation: &Installation, left: &States) {
        take_over_states(&mut self.products, installation, left);
    }

    /// Reports the same as [`Prepared::is_within`].
    pub fn is_within(&self, namespace: &str) -> bool {
        self.products.iter().all(|product| product.namespace() == Some(namespace))
    }
}

/// Returns the current hash over all imports.
pub fn imports_hash(installation: &Installation, scope: &str, objects: &dyn ImportedObjects) -> String {
    data::fingerprints(installation, scope, objects).1
}
