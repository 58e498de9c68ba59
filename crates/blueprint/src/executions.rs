//! The four lists of executions of a blueprint (`blueprints.md` 4): their inputs, the meaning of
//! their output, and the state kept between runs.
//!
//! Decisions about an Installation are made elsewhere.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use groundwork_api::{InstallationTemplate, List, TemplateExecutor};
use serde_json::{Map, Value, json};

use crate::bindings::Bindings;
use crate::capabilities::Capabilities;
use crate::components::{Components, UnknownSchemaVersion};
use crate::deploy::{self, DecodeError, ScalarText, UnresolvedItem};
use crate::field::{FieldError, FieldPath, Violation};
use crate::functions::HostFunctions;
use crate::load::Blueprint;
use crate::origin::{Origins, Place};
use crate::redaction::{Guard, REDACTED, Texts};
use crate::subinstallations::decode_template;
use crate::template::{Engine, Execution, ExecutionKind, Output, TemplateError};

/// Stored states of executions by key (`blueprints.md` 4.6), as YAML texts.
pub type States = BTreeMap<String, String>;

/// Inputs that all executions of one rendering share.
#[derive(Debug, Clone, Copy)]
pub struct ExecutionInputs<'a> {
    pub blueprint: &'a Blueprint,
    pub components: &'a Components,
    /// `spec.blueprint` of the Installation; absent without an Installation.
    pub blueprint_definition: Option<&'a Value>,
    /// `spec.componentDescriptor` with the effective reference, `{}` without a component
    /// (`components.md` 4.9); absent without an Installation.
    pub component_definition: Option<&'a Value>,
    pub capabilities: &'a Capabilities,
    /// Permits values of bindings in messages.
    pub show_values: bool,
}

/// Results of a job that export executions see.
#[derive(Debug, Clone, PartialEq)]
pub struct ExportValues {
    /// Exports of the deployers, by item name; null for an item without exports.
    pub deploy_items: Value,
    /// DataObjects in the scope of the Installation, by key.
    pub data_objects: Value,
    /// Targets in the scope of the Installation, by key, as whole objects.
    pub targets: Value,
}

impl Default for ExportValues {
    fn default() -> Self {
        Self { deploy_items: json!({}), data_objects: json!({}), targets: json!({}) }
    }
}

/// Results of import executions.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ImportBindings {
    /// Added or replaced names, with their last values.
    pub bindings: Map<String, Value>,
    /// Errors from the author's own checks, values included. After the first execution with errors,
    /// no further one runs.
    pub errors: Vec<String>,
}

/// Error of one execution.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ExecutionError {
    #[error(transparent)]
    Template(#[from] TemplateError),
    #[error(transparent)]
    Descriptors(#[from] UnknownSchemaVersion),
    /// Error TPL-008 (`blueprints.md` 10): the state cannot be stored.
    #[error("unable to store state: {0}")]
    StoreState(FieldError),
    /// Error TPL-007 (`blueprints.md` 10): the output cannot be decoded.
    #[error("{}{source} (execution {executor:?})", kind.decoding())]
    Decode { kind: ExecutionKind, executor: String, source: DecodeError },
}

impl ExecutionError {
    /// Returns the problem alone, without lines of the template, input and name of the execution.
    pub fn words(&self) -> String {
        match self {
            Self::Template(error) => error.words(),
            Self::Decode { kind, source, .. } => format!("{}{source}", kind.decoding()),
            Self::Descriptors(_) | Self::StoreState(_) => self.to_string(),
        }
    }
}

impl Blueprint {
    /// Returns the keys of states that the executions may have stored (`blueprints.md` 4.6), each
    /// once. If no file of the blueprint contains the word `state`, the list is empty, so that
    /// callers skip the lookup.
    pub fn state_keys(&self) -> Vec<String> {
        if !self.mentions_state {
            return Vec::new();
        }
        let definition = &self.definition;
        let lists = [
            (ExecutionKind::Deploy, &definition.deploy_executions),
            (ExecutionKind::Subinstallation, &definition.subinstallation_executions),
            (ExecutionKind::Export, &definition.export_executions),
        ];
        let keys = |(kind, executors): (ExecutionKind, &List<TemplateExecutor>)| {
            executors.iter().filter_map(move |executor| kind.state_key(&executor.name)).collect::<Vec<_>>()
        };
        let keys: BTreeSet<String> = lists.into_iter().flat_map(keys).collect();
        keys.into_iter().collect()
    }
}

/// Runner for the executions of a blueprint, list by list.
#[derive(Debug)]
pub struct Executions<'a> {
    inputs: ExecutionInputs<'a>,
    engine: Engine<'a>,
    /// Bindings that all executions share.
    standard: Arc<[(&'static str, Value)]>,
    /// States as stored by the executions so far.
    pub states: States,
    /// Warnings about templates and their output.
    pub warnings: Vec<String>,
    /// Output text of each Go template, in order.
    pub texts: Vec<String>,
    /// Origins of the rendered objects.
    pub origins: Origins,
}

impl<'a> Executions<'a> {
    /// Creates the runner.
    ///
    /// # Errors
    ///
    /// The blueprint requests descriptors in an unknown format.
    pub fn new(inputs: ExecutionInputs<'a>, states: States) -> Result<Self, ExecutionError> {
        let blueprint = inputs.blueprint;
        let descriptors = inputs.components.bindings(&blueprint.definition.annotations)?;
        let functions =
            HostFunctions { files: Arc::clone(&blueprint.files), components: inputs.components.clone() };
        let engine =
            Engine::new(&blueprint.cache.templates, functions, inputs.capabilities, inputs.show_values);
        let mut standard = vec![("cd", descriptors.descriptor), ("components", descriptors.components)];
        if let Some(definition) = inputs.blueprint_definition {
            // `blueprint` is the old name, which existing blueprints use.
            standard.push(("blueprint", definition.clone()));
            standard.push(("blueprintDef", definition.clone()));
        }
        if let Some(definition) = inputs.component_definition {
            standard.push(("componentDescriptorDef", definition.clone()));
        }
        Ok(Self {
            inputs,
            engine,
            standard: standard.into(),
            states,
            warnings: Vec::new(),
            texts: Vec::new(),
            origins: Origins::default(),
        })
    }

    /// Runs the import executions, which add bindings and check the imports. The first one that
    /// reports errors ends the list (`blueprints.md` 4.4).
    ///
    /// # Errors
    ///
    /// An execution fails. Errors that its checks report are part of the result instead.
    pub fn import(&mut self, imports: &Map<String, Value>) -> Result<ImportBindings, ExecutionError> {
        let mut gathered = ImportBindings::default();
        if self.inputs.blueprint.definition.import_executions.is_empty() {
            return Ok(gathered);
        }
        let standard = Arc::clone(&self.standard);
        let mut imports = Cow::Borrowed(imports);
        for execution in list(ExecutionKind::Import, &self.inputs.blueprint.definition.import_executions) {
            let bound = bindings(&standard, &imports);
            let mut output = self.run(execution, &bound)?;
            self.warn_of_keys(execution, &bound, &output, &["bindings", "errors"]);
            let decode = |output: &mut Output| decode_import_output(output);
            let decoded = decode(&mut output);
            let (bindings, errors) =
                decoded.map_err(|error| self.decode_error(execution, &bound, error, decode))?;
            if !bindings.is_empty() {
                imports.to_mut().extend(bindings.clone());
            }
            gathered.bindings.extend(bindings);
            if !errors.is_empty() {
                gathered.errors = errors;
                break;
            }
        }
        Ok(gathered)
    }

    /// Returns the deploy items of all deploy executions, in order, with unresolved targets.
    ///
    /// # Errors
    ///
    /// An execution fails.
    pub fn deploy(&mut self, imports: &Map<String, Value>) -> Result<Vec<UnresolvedItem>, ExecutionError> {
        let mut items = Vec::new();
        if self.inputs.blueprint.definition.deploy_executions.is_empty() {
            return Ok(items);
        }
        let standard = Arc::clone(&self.standard);
        let bindings = bindings(&standard, imports);
        for execution in list(ExecutionKind::Deploy, &self.inputs.blueprint.definition.deploy_executions) {
            let mut output = self.run_with_state(execution, &bindings)?;
            self.look_over(execution, &bindings, &output, "deployItems");
            let before = items.len();
            let decode = |output: &mut Output| {
                deploy::decode_items(output.take("deployItems").unwrap_or_default(), before)
            };
            let decoded = decode(&mut output)
                .map_err(|error| self.decode_error(execution, &bindings, error, decode))?;
            let place = place(execution, &output, "deployItems");
            let origins = decoded.iter().map(|item| place.origin(&item.template.name));
            self.origins.deploy_items.extend(origins);
            items.extend(decoded);
        }
        Ok(items)
    }

    /// Returns the templates of nested Installations from all subinstallation executions, in order,
    /// as rendered.
    ///
    /// # Errors
    ///
    /// An execution fails.
    pub fn subinstallations(
        &mut self,
        imports: &Map<String, Value>,
    ) -> Result<Vec<InstallationTemplate>, ExecutionError> {
        let mut templates = Vec::new();
        let executors = &self.inputs.blueprint.definition.subinstallation_executions;
        if executors.is_empty() {
            return Ok(templates);
        }
        let standard = Arc::clone(&self.standard);
        let bindings = bindings(&standard, imports);
        for execution in list(ExecutionKind::Subinstallation, executors) {
            let mut output = self.run_with_state(execution, &bindings)?;
            self.look_over(execution, &bindings, &output, "subinstallations");
            let before = templates.len();
            let decode = |output: &mut Output| decode_templates(output.get("subinstallations"), before);
            let decoded = decode(&mut output)
                .map_err(|error| self.decode_error(execution, &bindings, error, decode))?;
            let place = place(execution, &output, "subinstallations");
            let origins = decoded.iter().map(|template| place.origin(template.name()));
            self.origins.subinstallations.extend(origins);
            templates.extend(decoded);
        }
        Ok(templates)
    }

    /// Returns the exports of all export executions. Later ones are merged into earlier ones
    /// (`blueprints.md` 8.2). They are neither filtered nor checked.
    ///
    /// # Errors
    ///
    /// An execution fails.
    pub fn exports(
        &mut self,
        imports: &Map<String, Value>,
        values: &ExportValues,
    ) -> Result<Map<String, Value>, ExecutionError> {
        let mut merged = Map::new();
        let executors = &self.inputs.blueprint.definition.export_executions;
        if executors.is_empty() {
            return Ok(merged);
        }
        // Old binding, which existing blueprints still read.
        let all = json!({
            "deployitems": values.deploy_items, "dataobjects": values.data_objects, "targets": values.targets,
        });
        let standard = Arc::clone(&self.standard);
        let mut bindings = bindings(&standard, imports);
        for (name, value) in [
            ("deployitems", &values.deploy_items),
            ("dataobjects", &values.data_objects),
            ("targets", &values.targets),
            ("values", &all),
        ] {
            bindings.bind(name, value);
        }
        for execution in list(ExecutionKind::Export, executors) {
            let mut output = self.run_with_state(execution, &bindings)?;
            self.look_over(execution, &bindings, &output, "exports");
            match output.take("exports") {
                None | Some(Value::Null) => {}
                Some(Value::Object(exports)) => {
                    let place = place(execution, &output, "exports");
                    let origins = exports.keys().map(|name| (name.clone(), place.origin_of_member(name)));
                    self.origins.exports.extend(origins);
                    merge(&mut merged, exports);
                }
                Some(_) => {
                    let source = DecodeError::new("exports", "a map is expected");
                    let executor = execution.executor.name.clone();
                    return Err(ExecutionError::Decode { kind: execution.kind, executor, source });
                }
            }
        }
        Ok(merged)
    }

    fn run(&mut self, execution: Execution<'_>, bindings: &Bindings<'_>) -> Result<Output, ExecutionError> {
        let mut output = self.engine.run(execution, bindings, self.state(execution))?;
        self.texts.extend(output.text.take());
        if output.several_documents {
            let (kind, executor) = (execution.kind.label(), &execution.executor.name);
            self.warnings
                .push(format!("{kind} {executor:?}: only the first YAML document of the output is read"));
        }
        Ok(output)
    }

    /// Returns the stored state of an execution.
    fn state(&self, execution: Execution<'_>) -> Option<&str> {
        let key = execution.kind.state_key(&execution.executor.name)?;
        self.states.get(&key).map(String::as_str)
    }

    /// Runs an execution and stores its state before the output is decoded, so that a later failure
    /// does not revert the state.
    fn run_with_state(
        &mut self,
        execution: Execution<'_>,
        bindings: &Bindings<'_>,
    ) -> Result<Output, ExecutionError> {
        let output = self.run(execution, bindings)?;
        let key = execution.kind.state_key(&execution.executor.name);
        if let (Some(key), Some(state)) = (key, &output.state) {
            self.refuse_shared_state(execution)?;
            self.states.insert(key, state.clone());
        }
        Ok(output)
    }

    /// Rejects executions without a name if they would share one state (`blueprints.md` 1.8).
    fn refuse_shared_state(&self, execution: Execution<'_>) -> Result<(), ExecutionError> {
        let executors = executors(self.inputs.blueprint, execution.kind);
        let nameless = executors.iter().filter(|executor| executor.name.is_empty()).count();
        if !execution.executor.name.is_empty() || nameless < 2 {
            return Ok(());
        }
        let path = FieldPath::root(execution.kind.list()).index(execution.index);
        let detail = "several executions have no name, so that they would share their state; give them names";
        let violation = Violation::Duplicate(json!("duplicated executor name"));
        Err(ExecutionError::StoreState(FieldError::new(path, violation, detail)))
    }

    /// Creates a redacted decoding error. `decode` is the function that failed.
    fn decode_error<T>(
        &self,
        execution: Execution<'_>,
        bindings: &Bindings<'_>,
        source: DecodeError,
        decode: impl Fn(&mut Output) -> Result<T, DecodeError>,
    ) -> ExecutionError {
        let executor = execution.executor.name.clone();
        let state = self.state(execution);
        let Some(guard) = self.engine.guard(execution, bindings, state) else {
            return ExecutionError::Decode { kind: execution.kind, executor, source };
        };
        let others = self.engine.run_with_others(execution, bindings, state, &guard);
        let others = others.into_iter().map(|output| decode(&mut output.ok()?).err()).collect();
        ExecutionError::Decode { kind: execution.kind, executor, source: guard.withhold(source, others) }
    }

    /// Redacts parts of a message or error that depend on the imports. `again` produces the same
    /// message in a run with other imports.
    pub(crate) fn withhold<T: Texts>(
        &self,
        message: T,
        imports: &Map<String, Value>,
        again: impl Fn(&mut Self, &Map<String, Value>) -> Option<T>,
    ) -> T {
        if self.inputs.show_values {
            return message;
        }
        let values: Vec<&Value> = imports.values().collect();
        let public = self.standard.iter().map(|(_, value)| Cow::Owned(value.to_string())).collect();
        let guard = Guard::new(&values, Some(&self.inputs.blueprint.files), public);
        let run = |others: Map<String, Value>| {
            let mut executions = Self::new(self.inputs, self.states.clone()).ok()?;
            again(&mut executions, &others)
        };
        let others = guard.others(imports).into_iter().map(run).collect();
        guard.withhold(message, others)
    }

    /// Warns if the output lacks the expected key or has unknown ones.
    fn look_over(
        &mut self,
        execution: Execution<'_>,
        bindings: &Bindings<'_>,
        output: &Output,
        key: &'static str,
    ) {
        let misspelt =
            !output.document.is_empty() && output.get(key).is_none() && output.get("state").is_none();
        if misspelt {
            let (kind, executor) = (execution.kind.label(), &execution.executor.name);
            self.warnings.push(format!("{kind} {executor:?}: the output has no key {key}"));
        } else {
            self.warn_of_keys(execution, bindings, output, &[key, "state"]);
        }
    }

    /// Warns about unknown keys, which are most likely misspelt. Spiff templates are exempt,
    /// because they use further nodes as helpers.
    fn warn_of_keys(
        &mut self,
        execution: Execution<'_>,
        bindings: &Bindings<'_>,
        output: &Output,
        known: &[&str],
    ) {
        const MOST: usize = 5;
        if execution.executor.type_.as_deref() == Some("Spiff") {
            return;
        }
        let unknown = output
            .document
            .keys()
            .filter(|key| !known.iter().any(|known| known.eq_ignore_ascii_case(key)))
            .take(MOST);
        let names: Vec<&str> = unknown.map(String::as_str).collect();
        if names.is_empty() {
            return;
        }
        // A key that the template does not contain literally was rendered from a value, so it is
        // redacted.
        let guard = self.engine.guard(execution, bindings, self.state(execution));
        let is_shown = |name: &str| guard.as_ref().is_none_or(|guard| guard.is_written(name));
        let shown = |name: &str| format!("{:?}", if is_shown(name) { name } else { REDACTED });
        let names: Vec<String> = names.into_iter().map(shown).collect();
        let (kind, executor) = (execution.kind.label(), &execution.executor.name);
        let (names, known) = (names.join(", "), known.join(" and "));
        let message = format!("{kind} {executor:?}: {names} of the output is not read, only {known}");
        self.warnings.push(message);
    }
}

fn executors(blueprint: &Blueprint, kind: ExecutionKind) -> &[TemplateExecutor] {
    let definition = &blueprint.definition;
    match kind {
        ExecutionKind::Import => &definition.import_executions,
        ExecutionKind::Deploy => &definition.deploy_executions,
        ExecutionKind::Subinstallation => &definition.subinstallation_executions,
        ExecutionKind::Export => &definition.export_executions,
    }
}

/// Returns the shared bindings and the imports.
fn bindings<'v>(standard: &'v [(&'static str, Value)], imports: &'v Map<String, Value>) -> Bindings<'v> {
    let mut bindings = Bindings::default();
    for (name, value) in standard {
        bindings.bind(name, value);
    }
    bindings.bind("imports", imports);
    bindings
}

fn list(kind: ExecutionKind, executors: &[TemplateExecutor]) -> impl Iterator<Item = Execution<'_>> {
    executors.iter().enumerate().map(move |(index, executor)| Execution { kind, index, executor })
}

/// Returns the origin of elements in a list or map of the output.
fn place(execution: Execution<'_>, output: &Output, member: &'static str) -> Place {
    let entry = format!("{}[{}]", execution.kind.list(), execution.executor.name);
    Place { entry: entry.into(), file: output.origin.clone(), source: output.source.clone(), member }
}

fn decode_import_output(output: &mut Output) -> Result<(Map<String, Value>, Vec<String>), DecodeError> {
    let bindings = match output.take("bindings") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(bindings)) => bindings,
        Some(_) => return Err(DecodeError::new("bindings", "a map is expected")),
    };
    let errors = match output.get("errors") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(errors)) => errors
            .iter()
            .enumerate()
            .map(|(index, error)| {
                let wrong = || DecodeError::new(&format!("errors[{index}]"), "a text is expected");
                ScalarText::of(error).ok_or_else(wrong)
            })
            .collect::<Result<_, _>>()?,
        Some(_) => return Err(DecodeError::new("errors", "a list is expected")),
    };
    Ok((bindings, errors))
}

/// Decodes the rendered list. `before` templates of earlier executions precede it.
fn decode_templates(list: Option<&Value>, before: usize) -> Result<Vec<InstallationTemplate>, DecodeError> {
    match list {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(templates)) if before + templates.len() > deploy::MOST_ENTRIES => {
            Err(deploy::too_many("subinstallations", before + templates.len()))
        }
        Some(Value::Array(templates)) => templates
            .iter()
            .enumerate()
            .map(|(index, template)| {
                decode_template(before + index, template)
                    .map_err(|error| DecodeError::new("subinstallations", error.to_string()))
            })
            .collect(),
        Some(_) => Err(DecodeError::new("subinstallations", "a list is expected")),
    }
}

/// Merges maps key by key and replaces any other value (`blueprints.md` 8.2).
fn merge(into: &mut Map<String, Value>, later: Map<String, Value>) {
    for (key, value) in later {
        match (into.get_mut(&key), value) {
            (Some(Value::Object(former)), Value::Object(value)) => merge(former, value),
            (_, value) => drop(into.insert(key, value)),
        }
    }
}

#[cfg(test)]
mod tests;
