//! Imports in, deploy items out (`blueprints.md` section 0, steps 3, 4 and 7).

use groundwork_api::DeployItemTemplate;
use serde_json::{Map, Value};

use crate::components::{Components, UnknownSchemaVersion};
use crate::deploy::{self, DecodeError, DeployError, RawItem, ScalarText};
use crate::imports::{self, ImportError, Imports, Supplied};
use crate::load::{BLUEPRINT_FILE, Blueprint};
use crate::redaction::Redaction;
use crate::schema::SchemaSource;
use crate::template::{Engine, ExecutionKind, Output, TemplateError};

/// One call of a blueprint.
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
    /// `spec.componentDescriptor` with the effective reference, `{}` without a component (`components.md` 4.9).
    pub component_definition: &'a Value,
}

impl std::fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Request")
            .field("name", &self.name)
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

/// What a blueprint gave for one Installation.
#[derive(Debug, Clone, PartialEq)]
pub struct Rendered {
    pub imports: Imports,
    /// In the order of the deploy executions.
    pub deploy_items: Vec<DeployItemTemplate>,
    /// Oddities of the templates' output.
    pub warnings: Vec<String>,
}

/// Why a blueprint gave nothing.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    #[error("{}", join(.0))]
    Imports(Vec<ImportError>),
    /// IMP-020: what the author's own checks say.
    #[error("import validation failed: {}", .0.join(", "))]
    Refused(Vec<String>),
    /// IMP-021.
    #[error("RenderImportExecutions - unable to template executions: {0}")]
    ImportExecution(ExecutionError),
    #[error("unable to template executions: {0}")]
    DeployExecution(ExecutionError),
    #[error(transparent)]
    DeployItems(#[from] DeployError),
    #[error("blueprint has nested installations ({0}), which this version cannot render")]
    Subinstallations(&'static str),
}

/// Why one execution gave nothing.
#[derive(Debug, thiserror::Error)]
pub enum ExecutionError {
    #[error(transparent)]
    Template(#[from] TemplateError),
    #[error(transparent)]
    Descriptors(#[from] UnknownSchemaVersion),
    #[error(
        "execution {executor:?} sets state, which this version does not keep from one run to the next; remove it"
    )]
    State { executor: String },
    /// TPL-007.
    #[error("error while decoding templated execution: {source} (execution {executor:?})")]
    Decode { executor: String, source: DecodeError },
}

fn join(errors: &[ImportError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Checks the imports and renders the deploy items.
///
/// # Errors
///
/// See [`RenderError`]; nothing is rendered before all imports have been found good.
pub fn render(request: &Request<'_>) -> Result<Rendered, RenderError> {
    let definition = &request.blueprint.definition;
    for (list, empty) in [
        ("subinstallations", definition.subinstallations.is_empty()),
        ("subinstallationExecutions", definition.subinstallation_executions.is_empty()),
    ] {
        if !empty {
            return Err(RenderError::Subinstallations(list));
        }
    }
    let imports = imports::construct(request.blueprint, request.name, request.supplied, request.schemas)
        .map_err(RenderError::Imports)?;
    let bindings = bindings(request).map_err(|error| RenderError::DeployExecution(error.into()))?;
    let engine = Engine::new(&request.blueprint.files, request.components);
    let mut warnings = request.blueprint.warnings.clone();
    // Data imports may only feed the data mappings.
    if request.supplied.mapped.is_empty() {
        warnings.extend(imports::undeclared(&definition.imports, request.supplied));
    }
    let mut renderer = Renderer { request, engine, bindings, imports, warnings };
    renderer.import_executions()?;
    let deploy_items = renderer.deploy_executions()?;
    Ok(Rendered { imports: renderer.imports, deploy_items, warnings: renderer.warnings })
}

/// The bindings that all executions share, without `imports`.
fn bindings(request: &Request<'_>) -> Result<Map<String, Value>, UnknownSchemaVersion> {
    let descriptors = request.components.bindings(&request.blueprint.definition.annotations)?;
    Ok(Map::from_iter([
        ("cd".to_owned(), descriptors.descriptor),
        ("components".to_owned(), descriptors.components),
        ("blueprint".to_owned(), request.blueprint_definition.clone()),
        ("blueprintDef".to_owned(), request.blueprint_definition.clone()),
        ("componentDescriptorDef".to_owned(), request.component_definition.clone()),
    ]))
}

struct Renderer<'a> {
    request: &'a Request<'a>,
    engine: Engine,
    bindings: Map<String, Value>,
    imports: Imports,
    warnings: Vec<String>,
}

impl Renderer<'_> {
    /// Executions that derive further bindings and check the imports; the first that complains ends the row
    /// (`blueprints.md` 4.4).
    fn import_executions(&mut self) -> Result<(), RenderError> {
        let request = self.request;
        for executor in &request.blueprint.definition.import_executions {
            let kind = ExecutionKind::Import;
            let result = self.engine.run(kind, executor, &self.with_imports());
            let output = result.map_err(|error| RenderError::ImportExecution(error.into()))?;
            self.warn_of_further_documents(kind, &executor.name, &output);
            self.warn_of_keys(kind, &executor.name, &output, &["bindings", "errors"]);
            let (bindings, errors) = decode_import_output(&output)
                .map_err(|error| RenderError::ImportExecution(self.decode_error(&executor.name, error)))?;
            for (name, value) in bindings {
                self.imports.bind(&name, value, &request.blueprint.definition.imports);
            }
            if !errors.is_empty() {
                let redaction = self.redaction();
                return Err(RenderError::Refused(
                    errors.iter().map(|error| redaction.apply(error)).collect(),
                ));
            }
        }
        Ok(())
    }

    fn deploy_executions(&mut self) -> Result<Vec<DeployItemTemplate>, RenderError> {
        let request = self.request;
        let mut bindings = self.with_imports();
        bindings.insert("state".to_owned(), Value::Object(Map::new()));
        let mut items: Vec<RawItem> = Vec::new();
        for executor in &request.blueprint.definition.deploy_executions {
            let result = self.engine.run(ExecutionKind::Deploy, executor, &bindings);
            let output = result.map_err(|error| RenderError::DeployExecution(error.into()))?;
            self.warn_of_further_documents(ExecutionKind::Deploy, &executor.name, &output);
            self.look_over(&executor.name, &output)?;
            let decoded = deploy::decode_items(output.get("deployItems").unwrap_or(&Value::Null));
            let decoded = decoded.map_err(|error| self.decode_error(&executor.name, error));
            items.extend(decoded.map_err(RenderError::DeployExecution)?);
        }
        let items = deploy::finish(items, &self.imports.targets, request.namespace)
            .map_err(|error| error.redacted(&self.redaction()))?;
        let negative =
            items.iter().filter(|item| item.timeout.as_ref().is_some_and(|timeout| timeout.as_nanos() < 0));
        let warning = |item: &DeployItemTemplate| {
            self.redaction().apply(&format!("deploy item {:?}: the timeout is negative", item.name))
        };
        let warnings: Vec<String> = negative.map(warning).collect();
        self.warnings.extend(warnings);
        Ok(items)
    }

    fn decode_error(&self, executor: &str, source: DecodeError) -> ExecutionError {
        ExecutionError::Decode { executor: executor.to_owned(), source: source.redacted(&self.redaction()) }
    }

    /// Covers the imports and what import executions made of them.
    fn redaction(&self) -> Redaction {
        let definition = self.request.blueprint.files.read(BLUEPRINT_FILE).unwrap_or_default();
        Redaction::of(self.imports.values.values(), &String::from_utf8_lossy(definition))
    }

    /// Every execution gets a map of its own, so that none sees what another one changed (`blueprints.md` 4.5).
    fn with_imports(&self) -> Map<String, Value> {
        let mut bindings = self.bindings.clone();
        bindings.insert("imports".to_owned(), Value::Object(self.imports.values.clone()));
        bindings
    }

    fn warn_of_further_documents(&mut self, kind: ExecutionKind, executor: &str, output: &Output) {
        if output.several_documents {
            self.warnings.push(format!(
                "{} {executor:?}: only the first YAML document of the output is read",
                kind.label()
            ));
        }
    }

    /// A key that nobody reads is most likely misspelt.
    fn warn_of_keys(&mut self, kind: ExecutionKind, executor: &str, output: &Output, known: &[&str]) {
        const MOST: usize = 5;
        let unknown = output
            .document
            .keys()
            .filter(|key| !known.iter().any(|known| known.eq_ignore_ascii_case(key)))
            .take(MOST);
        let names: Vec<String> = unknown.map(|key| format!("{key:?}")).collect();
        if !names.is_empty() {
            let (kind, names, known) = (kind.label(), names.join(", "), known.join(" and "));
            let message = format!("{kind} {executor:?}: {names} of the output is not read, only {known}");
            self.warnings.push(self.redaction().apply(&message));
        }
    }

    fn look_over(&mut self, executor: &str, output: &Output) -> Result<(), RenderError> {
        let misspelt = !output.document.is_empty()
            && output.get("deployItems").is_none()
            && output.get("state").is_none();
        if misspelt {
            self.warnings.push(format!("deploy execution {executor:?}: the output has no key deployItems"));
        } else {
            self.warn_of_keys(ExecutionKind::Deploy, executor, output, &["deployItems", "state"]);
        }
        let is_empty = |state: &Value| state.is_null() || state.as_object().is_some_and(Map::is_empty);
        if output.get("state").is_some_and(|state| !is_empty(state)) {
            return Err(RenderError::DeployExecution(ExecutionError::State {
                executor: executor.to_owned(),
            }));
        }
        Ok(())
    }
}

fn decode_import_output(output: &Output) -> Result<(Map<String, Value>, Vec<String>), DecodeError> {
    let wrong = |path: String, problem: &str| DecodeError { path, problem: problem.to_owned() };
    let bindings = match output.get("bindings") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(bindings)) => bindings.clone(),
        Some(_) => return Err(wrong("bindings".to_owned(), "a map is expected")),
    };
    let errors = match output.get("errors") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(errors)) => errors
            .iter()
            .enumerate()
            .map(|(index, error)| {
                ScalarText::of(error).ok_or_else(|| wrong(format!("errors[{index}]"), "a text is expected"))
            })
            .collect::<Result<_, _>>()?,
        Some(_) => return Err(wrong("errors".to_owned(), "a list is expected")),
    };
    Ok((bindings, errors))
}

#[cfg(test)]
mod tests;
