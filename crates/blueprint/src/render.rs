//! Rendering of a blueprint: from imports to nested Installations, deploy items and exports
//! (`blueprints.md` 0, steps 3, 4, 6, 7 and 9).

use groundwork_api::{DeployItemTemplate, InstallationTemplate};
use serde_json::{Map, Value};

use crate::capabilities::Capabilities;
use crate::components::Components;
use crate::deploy::{self, DeployError};
use crate::executions::{ExecutionError, ExecutionInputs, Executions, ExportValues, States};
use crate::filesystem::BLUEPRINT_FILE;
use crate::filesystem::shown_path;
use crate::imports::{self, ImportError, Imports, Supplied};
use crate::load::Blueprint;
use crate::origin::{Origin, Origins};
use crate::schema::SchemaSource;
use crate::subinstallations::{
    DroppedImport, InvalidTemplates, Removal, SiblingError, SiblingGraph, remove_unsatisfied,
    validate as validate_subinstallations,
};

/// Inputs of one rendering.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    pub blueprint: &'a Blueprint,
    /// Name and namespace of the Installation.
    pub name: &'a str,
    pub namespace: &'a str,
    pub supplied: &'a Supplied,
    pub components: &'a Components,
    /// Documents behind `cd://` schema references.
    pub schemas: Option<&'a dyn SchemaSource>,
    /// `spec.blueprint` of the Installation.
    pub blueprint_definition: &'a Value,
    /// `spec.componentDescriptor` with the effective reference, `{}` without a component
    /// (`components.md` 4.9).
    pub component_definition: &'a Value,
    pub capabilities: &'a Capabilities,
    /// Permits values of imports in messages.
    pub show_values: bool,
}

impl std::fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Request")
            .field("name", &self.name)
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

/// Result of rendering a blueprint for one Installation.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rendered {
    pub imports: Imports,
    /// Templates of nested Installations, without imports that have no value.
    pub subinstallations: Vec<InstallationTemplate>,
    /// Order of `subinstallations` by index: each comes after those whose exports it imports.
    pub order: Vec<usize>,
    /// Imports of nested Installations that were left out, with the reason.
    pub dropped: Vec<DroppedImport>,
    /// Deploy items in the order of the deploy executions.
    pub deploy_items: Vec<DeployItemTemplate>,
    /// Warnings about the templates' output.
    pub warnings: Vec<String>,
    pub origins: Origins,
}

/// Result of the export executions for one Installation.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RenderedExports {
    /// Exports, neither filtered nor checked.
    pub exports: Map<String, Value>,
    /// Warnings about the templates' output.
    pub warnings: Vec<String>,
    pub origins: Origins,
}

/// Error of a rendering.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    #[error("{}", join(.0))]
    Imports(Vec<ImportError>),
    /// Error IMP-020 (`blueprints.md` 10): messages of the author's own checks.
    #[error("import validation failed: {}", .0.join(", "))]
    Refused(Vec<String>),
    /// Error IMP-021 (`blueprints.md` 10): an import execution fails.
    #[error("RenderImportExecutions - unable to template executions: {0}")]
    ImportExecution(ExecutionError),
    #[error("unable to template executions: {0}")]
    DeployExecution(ExecutionError),
    #[error(transparent)]
    DeployItems(#[from] DeployError),
    /// Error SUB-001 (`blueprints.md` 10): a subinstallation execution fails.
    #[error("unable to get installation templates of blueprint: unable to template subinstallations: {0}")]
    SubinstallationExecution(ExecutionError),
    /// Errors SUB-001 to SUB-003 (`blueprints.md` 10): static templates, and all templates
    /// together.
    #[error("{message}")]
    Subinstallations { reason: &'static str, message: String, is_cycle: bool },
    #[error("unable to template executions: {0}")]
    ExportExecution(ExecutionError),
}

fn join(errors: &[ImportError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Checks the imports, and renders nested Installations and deploy items.
///
/// `states` contains the states of earlier renderings for this Installation. It receives the states
/// to store, even if a later step fails (`blueprints.md` 4.6).
///
/// # Errors
///
/// See [`RenderError`]. Rendering starts only after all imports are validated.
pub fn render(request: &Request<'_>, states: &mut States) -> Result<Rendered, RenderError> {
    let (mut executions, imports) = begin(request, states)?;
    let rendered = render_objects(request, &mut executions, imports);
    *states = executions.states;
    rendered
}

fn render_objects(
    request: &Request<'_>,
    executions: &mut Executions<'_>,
    imports: Imports,
) -> Result<Rendered, RenderError> {
    let (removal, order) = subinstallations(request, executions, &imports)?;
    let deploy_items = deploy_items(request, executions, &imports)?;
    Ok(Rendered {
        imports,
        subinstallations: removal.templates,
        order,
        dropped: removal.dropped,
        deploy_items,
        warnings: std::mem::take(&mut executions.warnings),
        origins: std::mem::take(&mut executions.origins),
    })
}

/// Checks the imports again, as before rendering, and runs the export executions (`blueprints.md`
/// 0, step 9).
///
/// `states` is used as in [`render`]. The function calls `values` for the contents of the
/// Installation's own scope, because these may depend on its imports.
///
/// # Errors
///
/// See [`RenderError`].
pub fn render_exports(
    request: &Request<'_>,
    values: impl FnOnce(&Imports) -> ExportValues,
    states: &mut States,
) -> Result<RenderedExports, RenderError> {
    let (mut executions, imports) = begin(request, states)?;
    let values = values(&imports);
    let exports = executions.exports(&imports.values, &values).map_err(RenderError::ExportExecution);
    *states = executions.states;
    Ok(RenderedExports { exports: exports?, warnings: executions.warnings, origins: executions.origins })
}

/// Runs the steps before the first template of a child, deploy item or export: values, checks,
/// import executions.
fn begin<'a>(request: &Request<'a>, states: &States) -> Result<(Executions<'a>, Imports), RenderError> {
    let blueprint = request.blueprint;
    let definition = &blueprint.definition;
    let mut imports = imports::construct(blueprint, request.name, request.supplied, request.schemas)
        .map_err(RenderError::Imports)?;
    let inputs = ExecutionInputs {
        blueprint,
        components: request.components,
        blueprint_definition: Some(request.blueprint_definition),
        component_definition: Some(request.component_definition),
        capabilities: request.capabilities,
        show_values: request.show_values,
    };
    let mut executions = Executions::new(inputs, states.clone()).map_err(RenderError::DeployExecution)?;
    executions.warnings.clone_from(&blueprint.warnings);
    // With data mappings, an import may exist only as their input, so undeclared names give no
    // warning.
    if request.supplied.mapped.is_empty() {
        executions.warnings.extend(imports::undeclared(&definition.imports, request.supplied));
    }
    let gathered = executions.import(&imports.values).map_err(RenderError::ImportExecution)?;
    if !gathered.errors.is_empty() {
        let errors = executions.withhold(gathered.errors, &imports.values, |again, imports| {
            again.import(imports).ok().map(|gathered| gathered.errors)
        });
        return Err(RenderError::Refused(errors));
    }
    for (name, value) in gathered.bindings {
        imports.bind(&name, value, &definition.imports);
    }
    Ok((executions, imports))
}

/// Returns the templates of nested Installations, rendered ones first, and the order in which they
/// can run (`blueprints.md` 9.1 to 9.3, 9.6).
fn subinstallations(
    request: &Request<'_>,
    executions: &mut Executions<'_>,
    imports: &Imports,
) -> Result<(Removal, Vec<usize>), RenderError> {
    let outcome = subinstallations_of(request, executions, &imports.values);
    outcome.map_err(|error| match error {
        RenderError::Subinstallations { reason, message, is_cycle } => {
            // Names in rendered templates may be values of imports, so the message is redacted.
            let again = |again: &mut Executions<'_>, imports: &Map<String, Value>| match subinstallations_of(
                request, again, imports,
            )
            .err()?
            {
                RenderError::Subinstallations { reason: other, message, .. } => {
                    (other == reason).then_some(message)
                }
                _ => None,
            };
            let message = executions.withhold(message, &imports.values, again);
            RenderError::Subinstallations { reason, message, is_cycle }
        }
        other => other,
    })
}

/// Returns the result of [`subinstallations`], with values in the error message.
fn subinstallations_of(
    request: &Request<'_>,
    executions: &mut Executions<'_>,
    imports: &Map<String, Value>,
) -> Result<(Removal, Vec<usize>), RenderError> {
    let definition = &request.blueprint.definition;
    let mut templates =
        executions.subinstallations(imports).map_err(RenderError::SubinstallationExecution)?;
    let invalid = |message: String, is_cycle: bool| RenderError::Subinstallations {
        reason: "ValidateSubInstallations",
        message,
        is_cycle,
    };
    templates.extend(request.blueprint.static_templates().map_err(|error| {
        RenderError::Subinstallations {
            reason: "GetInstallationTemplates",
            message: format!("unable to get installation templates of blueprint: {error}"),
            is_cycle: false,
        }
    })?);
    executions.origins.subinstallations.extend(static_origins(request.blueprint));
    let removal = remove_unsatisfied(&templates, definition, imports);
    let findings = validate_subinstallations(&removal.templates, definition, imports);
    if !findings.is_empty() {
        return Err(invalid(InvalidTemplates { findings }.to_string(), false));
    }
    let order = SiblingGraph::new(&removal.templates).order();
    let order = order.map_err(|error| invalid(error.to_string(), matches!(error, SiblingError::Cycle(_))))?;
    Ok((removal, order))
}

/// Returns the origins of the static templates.
fn static_origins(blueprint: &Blueprint) -> impl Iterator<Item = Origin> {
    blueprint.definition.subinstallations.iter().enumerate().map(|(index, entry)| {
        let file = entry.file.clone().filter(|file| !file.is_empty());
        let file = file.as_deref().map_or(BLUEPRINT_FILE, shown_path);
        Origin::of_entry(&format!("subinstallations[{index}]"), file)
    })
}

fn deploy_items(
    request: &Request<'_>,
    executions: &mut Executions<'_>,
    imports: &Imports,
) -> Result<Vec<DeployItemTemplate>, RenderError> {
    let items = executions.deploy(&imports.values).map_err(RenderError::DeployExecution)?;
    let resolve = |items| deploy::resolve_items(items, &imports.targets, request.namespace);
    let items = resolve(items).map_err(|error| {
        let again = |again: &mut Executions<'_>, imports: &Map<String, Value>| {
            resolve(again.deploy(imports).ok()?).err()
        };
        executions.withhold(error, &imports.values, again)
    })?;
    let warnings = negative_timeouts(items.iter());
    if !warnings.is_empty() {
        let again = |again: &mut Executions<'_>, imports: &Map<String, Value>| {
            let items = again.deploy(imports).ok()?;
            Some(negative_timeouts(items.iter().map(|item| &item.template)))
        };
        let warnings = executions.withhold(warnings, &imports.values, again);
        executions.warnings.extend(warnings);
    }
    Ok(items)
}

fn negative_timeouts<'i>(items: impl Iterator<Item = &'i DeployItemTemplate>) -> Vec<String> {
    let negative = items.filter(|item| item.timeout.as_ref().is_some_and(|timeout| timeout.as_nanos() < 0));
    negative.map(|item| format!("deploy item {:?}: the timeout is negative", item.name)).collect()
}

#[cfg(test)]
mod tests;
