//! The first half of a job, up to the objects that it creates (`installations.md` 2.2 phase `Init`,
//! `components.md` 4.1).

mod artifact_set;
mod blueprint;
mod component;
mod resolution;
mod schemas;
mod signature;

use std::collections::BTreeMap;

use groundwork_api::{
    ComponentVersionOverwrites, Context, DeployItem, ErrorCode, Execution, Installation,
    InstallationTemplate, ResourceExt as _, item_type,
};
use groundwork_blueprint::{
    Blueprint, Capabilities, ChildError, Components, DroppedImport, Excerpt, ExportRequest, ExportValues,
    Exports, Filesystem, Imports, Origin, Origins, Parent, RenderError, Rendered, Request, SchemaSource,
    States, Supplied, aggregate, construct_exports, import_mappings,
};
use groundwork_component::{
    ComponentVersion, OVERWRITE_CONDITION, OverwriteCondition, Overwrites, Repositories, RuleOutcome,
    Substitution,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::conditions::ConditionUpdate;
use crate::error::OperationError;
use crate::imports::{self, ImportedObjects};
use crate::names::ROOT_SCOPE;
use crate::objects;
use crate::reason::Reason;
use crate::validate::validate_as;
pub use blueprint::{BlueprintCache, BlueprintDigest};
pub use component::findings;
pub use resolution::{OverwriteChange, Resolution, resolve};
pub use signature::{SignatureCheck, SignaturePolicy, signature_secrets};

use component::Selection;
use schemas::{Closure, ComponentSchemas};

/// Inputs of a job.
#[derive(Clone, Copy)]
pub struct Inputs<'a> {
    pub installation: &'a Installation,
    /// Context that the Installation names, if it exists.
    pub context: Option<&'a Context>,
    /// Overwrites that the Context names, if they exist.
    pub overwrites: Option<&'a ComponentVersionOverwrites>,
    /// Objects of the Installation's namespace.
    pub objects: &'a dyn ImportedObjects,
    pub repositories: &'a dyn Repositories,
    /// Files of a blueprint that an author tries out. They replace the blueprint that the
    /// Installation names.
    pub blueprint: Option<&'a Filesystem>,
    /// External systems that templates may access.
    pub capabilities: &'a Capabilities,
    /// Scope that contains the Installation; [`ROOT_SCOPE`] for a root.
    pub scope: &'a str,
    /// States that executions have stored in earlier jobs; absent before the caller has read them,
    /// see [`JobOutcome::unread_states`].
    pub states: Option<&'a States>,
    /// Cache of loaded blueprints.
    pub cache: Option<&'a dyn BlueprintCache>,
    /// Inputs of a caller without a cluster.
    pub offline: Option<Offline<'a>>,
    /// Settings of the signature check; `None` if the resolver has checked signatures already.
    pub signatures: Option<SignatureCheck>,
}

/// Inputs of a caller without a cluster, beside the objects.
#[derive(Debug, Clone, Copy)]
pub struct Offline<'a> {
    /// Values that replace data imports.
    pub given: &'a BTreeMap<String, Value>,
    /// Permits values of imports in messages.
    pub show_values: bool,
}

impl std::fmt::Debug for Inputs<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inputs")
            .field("installation", &self.installation.metadata.name)
            .finish_non_exhaustive()
    }
}

/// Findings of a job, and the objects that it would write.
#[derive(Debug, Clone, Default)]
pub struct JobOutcome {
    /// Results of the overwrite rules; absent if no overwrites apply.
    pub overwrites: Option<OverwriteReport>,
    /// Original and effective reference of the Installation; absent if it names no component, or
    /// before its evaluation.
    pub reference: Option<Substitution>,
    /// Conditions to merge into the status, in order.
    pub conditions: Vec<ConditionUpdate>,
    /// Types of conditions that no longer apply and are removed.
    pub obsolete_conditions: Vec<&'static str>,
    pub error: Option<JobError>,
    /// Nested Installations, each after those whose exports it imports.
    pub children: Vec<Child>,
    /// Imports that were removed from nested Installations, because an import of the parent has no
    /// value.
    pub dropped: Vec<DroppedImport>,
    pub execution: Option<Execution>,
    pub deploy_items: Vec<DeployItem>,
    /// Values of the blueprint's imports; empty until all of them are validated.
    pub imports: Imports,
    /// All states that executions store.
    pub states: States,
    /// Keys of states that executions may have stored earlier. If there are any, rendering was
    /// skipped: the caller reads these states and calls again.
    pub unread_states: Vec<String>,
    /// True if the end of the job has exports to render, check or map.
    pub has_exports: bool,
    /// Places in the blueprint that items and nested Installations come from.
    pub origins: Origins,
    /// Findings that users should see although the job has not failed.
    pub warnings: Vec<Warning>,
}

/// Nested Installation of a job's outcome.
#[derive(Debug, Clone, PartialEq)]
pub struct Child {
    /// Name of the template.
    pub template: String,
    pub origin: Origin,
    pub installation: Installation,
}

/// Exports of an Installation whose own work is done.
#[derive(Debug, Default)]
pub struct ExportOutcome {
    pub exports: Exports,
    pub origins: Origins,
    /// All states that executions store.
    pub states: States,
    /// States to read before the exports can be rendered; see [`JobOutcome::unread_states`].
    pub unread_states: Vec<String>,
    pub error: Option<JobError>,
    pub warnings: Vec<Warning>,
}

/// Finding that did not stop the job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    pub about: Subject,
    pub message: String,
}

/// Object that a warning is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Subject {
    Installation,
    /// Index of a rule in the overwrites, counted from 0.
    OverwriteRule(usize),
}

impl From<String> for Warning {
    fn from(message: String) -> Self {
        Self { about: Subject::Installation, message }
    }
}

/// Results of all overwrite rules.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OverwriteReport {
    pub rules: Overwrites,
    pub substitution: Substitution,
    pub outcomes: Vec<RuleOutcome>,
}

/// Error of a job, with the places in files that it is about, if there are any.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{cause}")]
pub struct JobError {
    /// Error for the status.
    pub cause: OperationError,
    /// Places in blueprint files, each with the message for that place.
    pub excerpts: Vec<(String, Excerpt)>,
}

impl From<OperationError> for JobError {
    fn from(cause: OperationError) -> Self {
        Self { cause, excerpts: Vec::new() }
    }
}

const PREREQUISITES: &str = "InitPrerequisites";
const INIT: &str = "handlePhaseInit";
const CREATE: &str = "CreateImportsAndSubobjects";
const EXPORT: &str = "handlePhaseCompleting";

/// Runs a job up to the objects that it creates.
///
/// Always returns an outcome: an error is part of it, beside the findings made before the error.
pub fn render(inputs: &Inputs<'_>) -> JobOutcome {
    let mut outcome = JobOutcome::default();
    if let Err(error) = run(inputs, &mut outcome) {
        outcome.error = Some(error);
    }
    outcome
}

fn run(inputs: &Inputs<'_>, outcome: &mut JobOutcome) -> Result<(), JobError> {
    let material = Material::gather(inputs, outcome)?;
    match inputs.states {
        Some(states) => outcome.states = states.clone(),
        None => outcome.unread_states = material.blueprint.state_keys(),
    }
    if !outcome.unread_states.is_empty() {
        return Ok(());
    }
    outcome.has_exports = exports_something(inputs.installation, &material.blueprint);
    let supplied = load_imports(inputs, &material.blueprint, outcome)?;
    let rendered = groundwork_blueprint::render(&material.request(inputs, &supplied), &mut outcome.states);
    record(&rendered, outcome);
    let rendered = rendered.map_err(|error| render_error(&error))?;
    outcome.children = material.children(inputs.installation, &rendered)?;
    outcome.dropped = rendered.dropped;
    let execution = objects::execution(inputs.installation, rendered.deploy_items);
    outcome.deploy_items = objects::deploy_items(&execution);
    if !outcome.deploy_items.is_empty() {
        outcome.execution = Some(execution);
    }
    outcome.warnings.extend(rendered.warnings.into_iter().map(Warning::from));
    let unserved = outcome.deploy_items.iter().filter_map(unserved).map(Warning::from);
    outcome.warnings.extend(unserved.collect::<Vec<_>>());
    outcome.imports = rendered.imports;
    outcome.origins = rendered.origins;
    Ok(())
}

/// Returns a warning about an item that no deployer of Groundwork handles.
fn unserved(item: &DeployItem) -> Option<String> {
    let (name, type_name) = (item.name_any(), item.spec.type_.as_str());
    item_type::is_unserved(type_name).then(|| {
        format!(
            "the item {name:?} has the type {type_name:?}, which no deployer of Groundwork handles: without a deployer of your \
             own for it, the item fails with PickupTimeout"
        )
    })
}

/// Reports whether an Installation has exports, or its blueprint declares some.
fn exports_something(installation: &Installation, blueprint: &Blueprint) -> bool {
    let (spec, definition) = (&installation.spec, &blueprint.definition);
    !spec.data_exports().is_empty()
        || !spec.target_exports().is_empty()
        || !definition.exports.is_empty()
        || !definition.export_executions.is_empty()
}

/// Renders, checks and maps the exports of an Installation. Always returns an outcome, as
/// [`render`] does. The function calls `values` for the values that export executions see beside
/// the imports.
pub fn export(inputs: &Inputs<'_>, values: impl FnOnce(&Imports) -> ExportValues) -> ExportOutcome {
    let mut outcome = ExportOutcome::default();
    if let Err(error) = run_exports(inputs, values, &mut outcome) {
        outcome.error = Some(error);
    }
    outcome
}

fn run_exports(
    inputs: &Inputs<'_>,
    values: impl FnOnce(&Imports) -> ExportValues,
    outcome: &mut ExportOutcome,
) -> Result<(), JobError> {
    // Warnings of this second pass are dropped: the first rendering has reported them.
    let mut rendering = JobOutcome::default();
    let material = Material::gather(inputs, &mut rendering)?;
    match inputs.states {
        Some(states) => outcome.states = states.clone(),
        None => outcome.unread_states = material.blueprint.state_keys(),
    }
    if !outcome.unread_states.is_empty() {
        return Ok(());
    }
    let supplied = load_imports(inputs, &material.blueprint, &mut rendering)?;
    let request = material.request(inputs, &supplied);
    let rendered = groundwork_blueprint::render_exports(&request, values, &mut outcome.states);
    let rendered = rendered.map_err(|error| JobError {
        cause: OperationError::caused_by(
            EXPORT,
            Reason::ConstructExports,
            (EXPORT, &Reason::ConstructExports),
            &error,
        ),
        excerpts: blueprint::template_excerpts(&error),
    })?;
    outcome.origins = rendered.origins;
    let spec = &inputs.installation.spec;
    let request = ExportRequest {
        blueprint: &material.blueprint,
        installation: request.name,
        schemas: request.schemas,
        data: spec.data_exports(),
        targets: spec.target_exports(),
        mappings: &spec.export_data_mappings,
        limits: inputs.capabilities.limits,
    };
    outcome.exports = construct_exports(&request, rendered.exports).map_err(|errors| {
        let cause = errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        OperationError::caused_by(
            EXPORT,
            Reason::ConstructExports,
            (EXPORT, &Reason::ConstructExports),
            cause,
        )
    })?;
    outcome.warnings.extend(valueless(&outcome.exports).map(Warning::from));
    // An undeclared name may contain a secret value, if a template built the name from it. The
    // warning therefore lists only declared names.
    let dropped = outcome.exports.undeclared.len();
    if dropped > 0 {
        let declared: Vec<&str> =
            material.blueprint.definition.exports.iter().map(|export| export.name.as_str()).collect();
        outcome.warnings.push(Warning::from(format!(
            "{dropped} exports are dropped because the blueprint does not declare them; it declares ({})",
            declared.join(", ")
        )));
    }
    Ok(())
}

/// Returns a sentence about declared exports without a value that the Installation does not ask
/// for.
pub(crate) fn valueless(exports: &Exports) -> Option<String> {
    (!exports.unmade.is_empty()).then(|| {
        format!(
            "the blueprint declares exports that have no value, and the Installation does not ask for them: {}",
            exports.unmade.join(", ")
        )
    })
}

/// Inputs of the templates of an Installation.
struct Material {
    selection: Option<Selection>,
    blueprint: Blueprint,
    components: Components,
    schemas: Option<ComponentSchemas>,
    component_definition: Value,
    blueprint_definition: Value,
}

impl Material {
    fn gather(inputs: &Inputs<'_>, outcome: &mut JobOutcome) -> Result<Self, JobError> {
        let selection = begin(inputs, outcome)?;
        if let (Some(check), Some(selection)) = (inputs.signatures, &selection) {
            signature::verify(check, inputs, selection, inputs.repositories)?;
        }
        let root = selection.as_ref().map(|selection| selection.root(inputs.repositories)).transpose()?;
        let blueprint =
            blueprint::resolve(inputs.installation, root.as_ref(), inputs.blueprint, inputs.cache)?;
        let mut components = Components::default();
        let mut schemas = None;
        if let (Some(selection), Some(root)) = (&selection, &root) {
            let versions = selection.closure(inputs.repositories, root)?;
            components = visible_components(selection, &versions);
            schemas = ComponentSchemas::of_root(Closure {
                versions,
                overwrites: selection.overwrites.clone(),
                root: selection.substitution.effective.clone(),
            });
        }
        let substitution = selection.as_ref().map(|selection| &selection.substitution);
        Ok(Self {
            component_definition: component_definition(inputs.installation, substitution),
            blueprint_definition: serde_json::to_value(&inputs.installation.spec.blueprint)
                .unwrap_or(Value::Null),
            selection,
            blueprint,
            components,
            schemas,
        })
    }

    fn request<'a>(&'a self, inputs: &Inputs<'a>, supplied: &'a Supplied) -> Request<'a> {
        Request {
            blueprint: &self.blueprint,
            name: inputs.installation.metadata.name.as_deref().unwrap_or_default(),
            namespace: inputs.installation.metadata.namespace.as_deref().unwrap_or_default(),
            supplied,
            components: &self.components,
            schemas: self.schemas.as_ref().map(|schemas| schemas as &dyn SchemaSource),
            blueprint_definition: &self.blueprint_definition,
            component_definition: &self.component_definition,
            capabilities: inputs.capabilities,
            show_values: inputs.offline.is_some_and(|offline| offline.show_values),
        }
    }

    /// Returns the objects of nested Installations (`blueprints.md` 9.4, 9.5), in the order in
    /// which they can run.
    fn children(&self, installation: &Installation, rendered: &Rendered) -> Result<Vec<Child>, JobError> {
        let effective = self.selection.as_ref().map(|selection| &selection.substitution.effective);
        let failed = |template: &str, error: ChildError| {
            let cause = format!("unable to create installation for {template}: {error}");
            JobError::from(OperationError::caused_by(
                INIT,
                Reason::CreateImportsAndSubobjects,
                (CREATE, &Reason::CreateOrUpdateInstallation),
                cause,
            ))
        };
        let parent = Parent::new(installation, effective, &self.components)
            .map_err(|error| failed(installation.metadata.name.as_deref().unwrap_or_default(), error))?;
        let templates = rendered.order.iter().filter_map(|position| {
            let origin = rendered.origins.subinstallations.get(*position).cloned().unwrap_or_default();
            Some((rendered.subinstallations.get(*position)?, origin))
        });
        let child = |(template, origin): (&InstallationTemplate, Origin)| {
            let spec = parent.child_spec(template).map_err(|error| failed(template.name(), error))?;
            let metadata = parent.child_metadata(template);
            let installation = objects::subinstallation(installation, template.name(), metadata, spec);
            Ok(Child { template: template.name().to_owned(), origin, installation })
        };
        templates.map(child).collect()
    }
}

/// Runs the steps of a job that come before the first lookup of a component.
fn begin(inputs: &Inputs<'_>, outcome: &mut JobOutcome) -> Result<Option<Selection>, JobError> {
    let violations = validate_as(inputs.installation, inputs.scope == ROOT_SCOPE);
    if !violations.is_empty() {
        return Err(
            OperationError::new(PREREQUISITES, Reason::ValidateInstallation, aggregate(&violations)).into()
        );
    }
    component::select(inputs, outcome)
}

/// Returns the part of the closure that templates see.
fn visible_components(selection: &Selection, versions: &[ComponentVersion]) -> Components {
    let context = selection.substitution.effective.repository.clone();
    Components::new(versions.to_vec(), selection.overwrites.clone(), context)
}

fn load_imports(
    inputs: &Inputs<'_>,
    blueprint: &Blueprint,
    outcome: &mut JobOutcome,
) -> Result<Supplied, JobError> {
    let mut given = inputs.offline.map_or(BTreeMap::new(), |offline| offline.given.clone());
    let is_imported = |name: &str| {
        let mut imports = inputs.installation.spec.data_imports().iter();
        blueprint.declares_import(name) || imports.any(|import| import.name == name)
    };
    given.retain(|name, _| is_imported(name));
    let mut warnings = Vec::new();
    let loaded = imports::load(inputs.installation, inputs.scope, inputs.objects, &given, &mut warnings);
    outcome.warnings.extend(warnings.into_iter().map(Warning::from));
    let mut supplied = loaded.map_err(|problems| {
        let message = problems.join("; ");
        outcome.conditions.push(imports_invalid(message.clone()));
        OperationError::new("init", Reason::ImportsSatisfied, message)
    })?;
    let null = Value::Null;
    let mappings = &inputs.installation.spec.import_data_mappings;
    let mappings =
        mappings.iter().map(|(name, mapping)| (name.as_str(), mapping.as_written().unwrap_or(&null)));
    let name = inputs.installation.metadata.name.as_deref().unwrap_or_default();
    supplied.mapped =
        import_mappings(name, mappings, &supplied, inputs.capabilities.limits).map_err(|error| {
            OperationError::caused_by(
                INIT,
                Reason::CreateImportsAndSubobjects,
                (CREATE, &Reason::ConstructImports),
                error,
            )
        })?;
    Ok(supplied)
}

/// Returns the component definition as templates see it: the definition as written, with the
/// effective reference.
fn component_definition(installation: &Installation, substitution: Option<&Substitution>) -> Value {
    let Some(definition) = &installation.spec.component_descriptor else { return json!({}) };
    match (&definition.reference, substitution) {
        (Some(_), Some(substitution)) => {
            let effective = &substitution.effective;
            let mut reference = json!({"componentName": effective.name, "version": effective.version});
            if let Some(repository) = &effective.repository {
                reference["repositoryContext"] = repository.as_value().clone();
            }
            json!({"ref": reference})
        }
        _ => serde_json::to_value(definition).unwrap_or_else(|_| json!({})),
    }
}

fn condition(type_name: &'static str, status: bool, reason: &str, message: String) -> ConditionUpdate {
    ConditionUpdate::new(type_name, status, reason, message)
}

fn imports_invalid(message: String) -> ConditionUpdate {
    condition("ValidateImports", false, "ImportValidationFailed", message)
}

/// Records the conditions that show the progress of rendering (`installations.md` 9).
fn record(rendered: &Result<Rendered, RenderError>, outcome: &mut JobOutcome) {
    let imports_valid =
        || condition("ValidateImports", true, "ImportsValid", "Imports successfully validated".to_owned());
    let update = match rendered {
        Ok(rendered) if rendered.deploy_items.is_empty() => {
            // The job deploys no items, so a condition of an earlier job about the Execution is
            // obsolete.
            outcome.obsolete_conditions.push("ReconcileExecution");
            imports_valid()
        }
        Ok(_) => {
            outcome.conditions.push(imports_valid());
            let message = "Deploy items successfully rendered".to_owned();
            condition("ReconcileExecution", true, "ExecutionDeployed", message)
        }
        Err(RenderError::Imports(errors)) => {
            imports_invalid(errors.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
        }
        Err(RenderError::Refused(errors)) => imports_invalid(errors.join(", ")),
        Err(RenderError::ImportExecution(_)) => imports_invalid("Unable to template executions".to_owned()),
        Err(error @ (RenderError::SubinstallationExecution(_) | RenderError::Subinstallations { .. })) => {
            outcome.conditions.push(imports_valid());
            condition("EnsureSubInstallations", false, "InstallationCreatingFailed", error.to_string())
        }
        Err(RenderError::ExportExecution(_)) => return,
        Err(error @ (RenderError::DeployExecution(_) | RenderError::DeployItems(_))) => {
            outcome.conditions.push(imports_valid());
            condition("ReconcileExecution", false, "TemplatingFailed", error.to_string())
        }
    };
    outcome.conditions.push(update);
}

fn render_error(error: &RenderError) -> JobError {
    let step = match error {
        RenderError::Imports(errors) => match errors.first() {
            Some(first) => return imports_error(first.reason(), error),
            None => Reason::ConstructImports,
        },
        RenderError::Refused(_) | RenderError::ImportExecution(_) => Reason::RenderImportExecutions,
        RenderError::DeployExecution(_) | RenderError::DeployItems(_) => Reason::ReconcileExecution,
        RenderError::SubinstallationExecution(_) | RenderError::Subinstallations { .. } => {
            Reason::EnsureSubinstallations
        }
        RenderError::ExportExecution(_) => Reason::RenderExportExecutions,
    };
    let mut cause =
        OperationError::caused_by(INIT, Reason::CreateImportsAndSubobjects, (CREATE, &step), error);
    if matches!(error, RenderError::Subinstallations { is_cycle: true, .. }) {
        cause.codes = vec![ErrorCode::CyclicDependencies];
    }
    JobError { cause, excerpts: blueprint::template_excerpts(error) }
}

fn imports_error(reason: &str, error: &RenderError) -> JobError {
    let cause = format!("Op: ConstructImports - Reason: {reason} - Message: {error}");
    OperationError::caused_by(
        INIT,
        Reason::CreateImportsAndSubobjects,
        (CREATE, &Reason::ConstructImports),
        cause,
    )
    .into()
}

/// Records the condition about overwrites before any later step can fail, so that a failed job
/// keeps it.
fn record_overwrites(report: OverwriteReport, outcome: &mut JobOutcome) {
    let condition = OverwriteCondition::from(&report.substitution);
    let update =
        ConditionUpdate::new(OVERWRITE_CONDITION, condition.status, condition.reason, condition.message);
    outcome.conditions.push(update);
    outcome.overwrites = Some(report);
}

#[cfg(test)]
mod tests;
