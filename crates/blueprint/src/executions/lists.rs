//! The four lists: their order, the bindings of each, and the meaning of its output
//! (`blueprints.md` 4.2 to 4.5).

use std::borrow::Cow;
use std::sync::Arc;

use groundwork_api::{InstallationTemplate, TemplateExecutor};
use serde_json::{Map, Value, json};

use super::{ExecutionError, Executions, ExportValues, ImportBindings};
use crate::bindings::Bindings;
use crate::deploy::{self, DecodeError, ScalarText, UnresolvedItem};
use crate::origin::OutputOrigin;
use crate::subinstallations::decode_template;
use crate::template::{Execution, ExecutionKind, Output};

impl Executions<'_> {
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
fn place(execution: Execution<'_>, output: &Output, member: &'static str) -> OutputOrigin {
    let entry = format!("{}[{}]", execution.kind.list(), execution.executor.name);
    OutputOrigin { entry: entry.into(), file: output.origin.clone(), source: output.source.clone(), member }
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
