//! The first half of a job, up to the objects that it creates (`installations.md` 2.2 phase `Init`,
//! `components.md` 4.1).

mod artifact_set;
mod blueprint;
mod component;
mod resolution;
mod schemas;

use groundwork_api::{ComponentVersionOverwrites, Context, DeployItem, Execution, Installation};
use groundwork_blueprint::{
    Components, Excerpt, Filesystem, Imports, RenderError, Rendered, Request, SchemaSource, Supplied,
    aggregate,
};
use groundwork_component::{
    ComponentVersion, OVERWRITE_CONDITION, OverwriteCondition, Overwrites, Repositories, RuleOutcome,
    Substitution,
};
use serde_json::{Value, json};

use crate::conditions::ConditionUpdate;
use crate::failure::Failure;
use crate::gaps::{self, Written};
use crate::imports::{self, ImportedObjects};
use crate::objects;
use crate::validate::validate;
pub use component::findings;
pub use resolution::{OverwriteChange, Resolution, resolve};

use component::Selection;
use schemas::{Closure, ComponentSchemas};

/// Everything that a job reads.
#[derive(Clone, Copy)]
pub struct Inputs<'a> {
    pub installation: &'a Installation,
    /// The Context that the Installation names, if it exists.
    pub context: Option<&'a Context>,
    /// The overwrites that the Context names, if they exist.
    pub overwrites: Option<&'a ComponentVersionOverwrites>,
    /// Objects of the Installation's namespace.
    pub objects: &'a dyn ImportedObjects,
    pub repositories: &'a dyn Repositories,
    /// Files of a blueprint that its author tries, in place of what the Installation names.
    pub blueprint: Option<&'a Filesystem>,
}

impl std::fmt::Debug for Inputs<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inputs")
            .field("installation", &self.installation.metadata.name)
            .finish_non_exhaustive()
    }
}

/// What a job found and would write.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// How the overwrites were applied; absent when none apply.
    pub overwrites: Option<OverwriteReport>,
    /// What became of the Installation's reference; absent when it names no component, or before it was evaluated.
    pub reference: Option<Substitution>,
    /// Conditions to merge into the status, in order.
    pub conditions: Vec<ConditionUpdate>,
    /// Types of conditions that no longer hold and are removed.
    pub obsolete_conditions: Vec<&'static str>,
    pub failure: Option<Problem>,
    pub execution: Option<Execution>,
    pub deploy_items: Vec<DeployItem>,
    /// The values of the blueprint's imports; empty before they have all been found good.
    pub imports: Imports,
    /// What people should know although nothing failed.
    pub warnings: Vec<Warning>,
}

/// Something that did not stop the job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    pub about: Subject,
    pub message: String,
}

/// The object that a warning is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    Installation,
    /// A rule of the overwrites in use, counted from 0.
    OverwriteRule(usize),
}

impl From<String> for Warning {
    fn from(message: String) -> Self {
        Self { about: Subject::Installation, message }
    }
}

/// What became of every rule.
#[derive(Debug, Clone, PartialEq)]
pub struct OverwriteReport {
    pub rules: Overwrites,
    pub substitution: Substitution,
    pub outcomes: Vec<RuleOutcome>,
}

/// A failure with the place in a file that it is about, where there is one.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    pub failure: Failure,
    /// Places in blueprint files, each with the sentence that belongs there.
    pub excerpts: Vec<(String, Excerpt)>,
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        Self { failure, excerpts: Vec::new() }
    }
}

const PREREQUISITES: &str = "InitPrerequisites";
const INIT: &str = "handlePhaseInit";
const CREATE: &str = "CreateImportsAndSubobjects";

/// Runs a job up to the objects that it creates.
///
/// It always answers: a failure is part of the outcome, beside what had been found before it.
pub fn render(inputs: &Inputs<'_>) -> Outcome {
    let mut outcome = Outcome::default();
    if let Err(problem) = run(inputs, &mut outcome) {
        outcome.failure = Some(problem);
    }
    outcome
}

fn run(inputs: &Inputs<'_>, outcome: &mut Outcome) -> Result<(), Problem> {
    let selection = begin(inputs, outcome)?;
    let root = selection.as_ref().map(|selection| selection.root(inputs.repositories)).transpose()?;
    let blueprint = blueprint::resolve(inputs.installation, root.as_ref(), inputs.blueprint)?;
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
    let supplied = load_imports(inputs, outcome)?;
    let substitution = selection.as_ref().map(|selection| &selection.substitution);
    let component_definition = component_definition(inputs.installation, substitution);
    let blueprint_definition =
        serde_json::to_value(&inputs.installation.spec.blueprint).unwrap_or(Value::Null);
    let request = Request {
        blueprint: &blueprint,
        name: inputs.installation.metadata.name.as_deref().unwrap_or_default(),
        namespace: inputs.installation.metadata.namespace.as_deref().unwrap_or_default(),
        supplied: &supplied,
        components: &components,
        schemas: schemas.as_ref().map(|schemas| schemas as &dyn SchemaSource),
        blueprint_definition: &blueprint_definition,
        component_definition: &component_definition,
    };
    let rendered = groundwork_blueprint::render(&request);
    let written = Written {
        installation: inputs.installation,
        context: inputs.context,
        blueprint: Some(&blueprint.definition),
        items: rendered.as_ref().map(|rendered| &rendered.deploy_items[..]).unwrap_or_default(),
    };
    outcome.warnings.extend(gaps::left_out(&written).into_iter().map(Warning::from));
    record(&rendered, outcome);
    let rendered = rendered.map_err(|error| render_problem(&error))?;
    let execution = objects::execution(inputs.installation, rendered.deploy_items);
    outcome.deploy_items = objects::deploy_items(&execution);
    if !outcome.deploy_items.is_empty() {
        outcome.execution = Some(execution);
    }
    outcome.warnings.extend(rendered.warnings.into_iter().map(Warning::from));
    outcome.imports = rendered.imports;
    Ok(())
}

/// The steps before anything is looked up.
fn begin(inputs: &Inputs<'_>, outcome: &mut Outcome) -> Result<Option<Selection>, Problem> {
    let violations = validate(inputs.installation);
    if !violations.is_empty() {
        return Err(Failure::new(PREREQUISITES, "ValidateInstallation", aggregate(&violations)).into());
    }
    let selection = component::select(inputs, outcome)?;
    refuse_signature(inputs.installation)?;
    let written =
        Written { installation: inputs.installation, context: inputs.context, blueprint: None, items: &[] };
    match gaps::refusal(&written) {
        Some(failure) => Err(failure.into()),
        None => Ok(selection),
    }
}

/// A demand that cannot be met must not pass for one that was.
fn refuse_signature(installation: &Installation) -> Result<(), Problem> {
    let Some(verification) = &installation.spec.verification else { return Ok(()) };
    let message = format!(
        "the signature {:?} is not verified: this version cannot verify signatures; remove spec.verification to go on \
         without",
        verification.signature_name
    );
    Err(Failure::new(PREREQUISITES, "VerifySignature", message).into())
}

/// What templates see of the closure.
fn visible_components(selection: &Selection, versions: &[ComponentVersion]) -> Components {
    let descriptors = versions.iter().map(|version| version.descriptor.clone()).collect();
    let context = selection.substitution.effective.repository.clone();
    Components::new(descriptors, selection.overwrites.clone(), context)
}

fn load_imports(inputs: &Inputs<'_>, outcome: &mut Outcome) -> Result<Supplied, Problem> {
    let mut supplied = imports::load(inputs.installation, inputs.objects).map_err(|problems| {
        let message = problems.join("; ");
        outcome.conditions.push(imports_invalid(message.clone()));
        Failure::new("init", "ImportsSatisfied", message)
    })?;
    for (name, mapping) in &inputs.installation.spec.import_data_mappings {
        let value = mapping.as_written().cloned().unwrap_or_default();
        if holds_expression(&value) {
            let cause = format!(
                "importDataMappings.{name} holds a spiff expression, which this version cannot evaluate"
            );
            return Err(Failure::caused_by(INIT, CREATE, (CREATE, "ConstructImports"), cause).into());
        }
        supplied.mapped.insert(name.clone(), value);
    }
    Ok(supplied)
}

/// A mapping without expressions is a literal (`blueprints.md` 3.4).
fn holds_expression(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains("(("),
        Value::Array(items) => items.iter().any(holds_expression),
        Value::Object(members) => members
            .iter()
            .any(|(key, value)| key == "<<" || key == "<<<" || key.contains("((") || holds_expression(value)),
        _ => false,
    }
}

/// The definition as templates see it: what was written, but for the reference, which is the effective one.
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

/// The conditions that tell how far rendering came (`installations.md` 9).
fn record(rendered: &Result<Rendered, RenderError>, outcome: &mut Outcome) {
    let imports_valid =
        || condition("ValidateImports", true, "ImportsValid", "Imports successfully validated".to_owned());
    let update = match rendered {
        Ok(rendered) if rendered.deploy_items.is_empty() => {
            // Nothing is deployed, so what an earlier job said about that is over.
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
        Err(error @ RenderError::Subinstallations(_)) => {
            condition("EnsureSubInstallations", false, "InstallationCreatingFailed", error.to_string())
        }
        Err(error @ (RenderError::DeployExecution(_) | RenderError::DeployItems(_))) => {
            outcome.conditions.push(imports_valid());
            condition("ReconcileExecution", false, "TemplatingFailed", error.to_string())
        }
    };
    outcome.conditions.push(update);
}

fn render_problem(error: &RenderError) -> Problem {
    let step = match error {
        RenderError::Imports(errors) => match errors.first() {
            Some(first) => return imports_problem(first.reason(), error),
            None => "ConstructImports",
        },
        RenderError::Refused(_) | RenderError::ImportExecution(_) => "RenderImportExecutions",
        RenderError::DeployExecution(_) | RenderError::DeployItems(_) => "ReconcileExecution",
        RenderError::Subinstallations(_) => "EnsureSubinstallations",
    };
    let failure = Failure::caused_by(INIT, CREATE, (CREATE, step), error);
    Problem { failure, excerpts: blueprint::template_excerpts(error) }
}

fn imports_problem(reason: &str, error: &RenderError) -> Problem {
    let cause = format!("Op: ConstructImports - Reason: {reason} - Message: {error}");
    Failure::caused_by(INIT, CREATE, (CREATE, "ConstructImports"), cause).into()
}

/// The condition about overwrites is known before anything can fail, and kept when something does.
fn record_overwrites(report: OverwriteReport, outcome: &mut Outcome) {
    let condition = OverwriteCondition::from(&report.substitution);
    let update =
        ConditionUpdate::new(OVERWRITE_CONDITION, condition.status, condition.reason, condition.message);
    outcome.conditions.push(update);
    outcome.overwrites = Some(report);
}

#[cfg(test)]
mod tests;
