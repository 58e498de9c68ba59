//! Everything that a job computes before it writes: the rendering, the copies of the imports, their fingerprints; at the end the exports.

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
use crate::job::{Child, Inputs, Warning, export, render};
use crate::machine::{Change, Write};
use crate::names::{object_name, scope_name};
use crate::objects;
use crate::sources;

/// The result of rendering for one job, as far as the job goes on with it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Prepared {
    /// Generation of the spec that was rendered.
    pub generation: i64,
    pub job_id: String,
    pub error: Option<OperationError>,
    pub warnings: Vec<Warning>,
    /// Conditions to merge into the status, in order.
    pub(crate) conditions: Vec<ConditionUpdate>,
    /// Types of conditions that no longer hold.
    pub(crate) obsolete_conditions: Vec<Cow<'static, str>>,
    /// So that each comes after those whose exports it imports.
    pub(crate) children: Vec<Nested>,
    pub(crate) execution: Option<Execution>,
    /// Whether there is anything to render, check or map when the job completes.
    pub(crate) has_exports: bool,
    /// For `status.imports`.
    pub imports: Vec<ImportStatus>,
    /// The Installation imports something.
    pub has_imports: bool,
    /// Hash over all imports (`installations.md` 5.4).
    pub imports_hash: String,
    /// States of executions that changed, and copies of the imports in the own scope; the former also if rendering failed
    /// (`blueprints.md` 4.6).
    pub(crate) products: Vec<Product>,
    /// Where the blueprint says what is made, for people ([`sources`]).
    pub sources: Vec<String>,
}

/// A nested installation, by the name of its template.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Nested {
    pub(crate) template: String,
    pub(crate) installation: Installation,
}

/// The exports of one job, rendered when everything below has finished.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Completion {
    pub generation: i64,
    pub job_id: String,
    pub error: Option<OperationError>,
    pub warnings: Vec<Warning>,
    /// Hash over all imports as they were now.
    pub imports_hash: String,
    /// States of executions that changed, then exports.
    pub(crate) products: Vec<Product>,
    pub(crate) has_exports: bool,
}

/// An object that keeps what was computed.
#[allow(clippy::large_enum_variant, reason = "few are held at a time")]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Product {
    /// What an execution keeps from one job to the next.
    State(Secret),
    /// Of an import, in the own scope.
    Copy(ScopedObject),
    /// In the scope of the siblings.
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

/// Executions may have stored states under these keys, and nobody has looked: read them and call again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnreadStates(pub Vec<String>);

/// What lies in the own scope of an Installation, beside the copies of its imports.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct OwnScope {
    /// What the items export, by their names.
    pub deploy_items: Map<String, Value>,
    /// What the nested installations export.
    pub exports: Vec<ScopedObject>,
}

/// Names of the objects that export executions see in the own scope of an Installation, beside the copies of its imports.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OwnNames {
    /// The DataObject with the exports of the items, if they export anything.
    pub holder: Option<String>,
    pub data_objects: BTreeSet<String>,
    pub targets: BTreeSet<String>,
}

impl OwnNames {
    /// What the Execution has collected, and what the nested installations publish.
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

/// What the items of an Execution export, by name: null where an item exports nothing, nothing at all without an Execution (6.1).
pub fn item_exports(execution: Option<&Execution>, holder: Option<DataObject>) -> Map<String, Value> {
    if let Some(Value::Object(values)) = holder.and_then(|holder| holder.data.into_value()) {
        return values;
    }
    let templates = execution.and_then(|execution| execution.spec.templates().ok());
    let names = templates.iter().flat_map(|templates| templates.iter());
    names.map(|template| (template.name.clone(), Value::Null)).collect()
}

/// Renders for the job that the Installation has.
///
/// # Errors
///
/// See [`UnreadStates`]; everything else is part of the outcome.
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

/// Renders, checks and maps what the Installation exports at the end of its job (`installations.md` 6.1).
///
/// # Errors
///
/// See [`UnreadStates`]; everything else is part of the answer.
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
    let mut products = changed_states(installation, inputs.states, &outcome.states);
    let exports = data::export_objects(installation, inputs.scope, &job_id, &outcome.exports);
    let has_exports = !exports.is_empty();
    if outcome.error.is_none() {
        products.extend(exports.into_iter().map(Product::Export));
    }
    Ok(Completion {
        generation: installation.metadata.generation.unwrap_or_default(),
        imports_hash: imports_hash(installation, inputs.scope, inputs.objects),
        error: outcome.error.map(|error| error.cause),
        warnings: outcome.warnings,
        job_id,
        products,
        has_exports,
    })
}

fn job_id(installation: &Installation) -> String {
    installation.status.as_ref().and_then(|status| status.job_id.clone()).unwrap_or_default()
}

/// The Secrets whose state is another one than before.
fn changed_states(installation: &Installation, before: Option<&States>, now: &States) -> Vec<Product> {
    let changed =
        now.iter().filter(|(key, state)| before.and_then(|before| before.get(*key)) != Some(*state));
    changed.map(|(key, state)| Product::State(objects::state_secret(installation, key, state))).collect()
}

/// The state that a Secret keeps; `None` if there is none in it.
pub fn state_of(secret: &Secret) -> Option<String> {
    let entry = secret.data.as_ref()?.get(objects::STATE_ENTRY)?;
    String::from_utf8(entry.0.clone()).ok()
}

impl Prepared {
    /// A job that came to its end before anything was rendered.
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

    /// Whether everything that it would write lies in this namespace. A job makes nothing elsewhere; who has it from another process can see
    /// that nothing else has come back.
    pub fn is_within(&self, namespace: &str) -> bool {
        let children = self.children.iter().map(|child| child.installation.metadata.namespace.as_deref());
        let execution = self.execution.iter().map(|execution| execution.metadata.namespace.as_deref());
        let products = self.products.iter().map(Product::namespace);
        children.chain(execution).chain(products).all(|found| found == Some(namespace))
    }
}

impl Completion {
    /// A job that came to its end before its exports were rendered.
    pub fn failed(installation: &Installation, error: OperationError) -> Self {
        Self {
            generation: installation.metadata.generation.unwrap_or_default(),
            job_id: job_id(installation),
            error: Some(error),
            warnings: Vec::new(),
            imports_hash: String::new(),
            products: Vec::new(),
            has_exports: false,
        }
    }

    /// As [`Prepared::is_within`].
    pub fn is_within(&self, namespace: &str) -> bool {
        self.products.iter().all(|product| product.namespace() == Some(namespace))
    }
}

/// The hash over all imports as they are now.
pub fn imports_hash(installation: &Installation, scope: &str, objects: &dyn ImportedObjects) -> String {
    data::fingerprints(installation, scope, objects).1
}
