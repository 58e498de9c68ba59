//! Template executions: from the source to an output document, which the caller decodes
//! (`blueprints.md` 4 to 6).

pub(crate) mod check;
mod error;
mod go;
mod guard;
mod spiff;

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use groundwork_api::{TemplateExecutor, TemplateType};
use groundwork_budget::Budget;
use groundwork_spiff::{Document, Engine as SpiffEngine};
use groundwork_yaml as yaml;
use serde_json::{Map, Value};

use crate::bindings::Bindings;
use crate::capabilities::Capabilities;
use crate::filesystem::{Filesystem, shown_path};
use crate::functions::{HostFunctions, Kubeconfigs};

pub use error::{Excerpt, TemplateError, TemplateReport};
pub(crate) use spiff::mapping_engine;

use error::{NO_VALUE, RunningTemplate};

/// List of a blueprint that an execution belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ExecutionKind {
    Import,
    Deploy,
    Subinstallation,
    Export,
}

impl ExecutionKind {
    /// Returns the name of the kind in messages.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Import => "import execution",
            Self::Deploy => "deploy execution",
            Self::Subinstallation => "subinstallation execution",
            Self::Export => "export execution",
        }
    }

    /// Returns the prefix of an error about an output of the wrong shape; empty for exports
    /// (`blueprints.md` 5.1 step 6).
    pub(crate) fn decoding(self) -> &'static str {
        match self {
            Self::Export => "",
            Self::Import | Self::Deploy | Self::Subinstallation => {
                "error while decoding templated execution: "
            }
        }
    }

    /// Returns the name of the list in the blueprint file.
    pub(crate) fn list(self) -> &'static str {
        match self {
            Self::Import => "importExecutions",
            Self::Deploy => "deployExecutions",
            Self::Subinstallation => "subinstallationExecutions",
            Self::Export => "exportExecutions",
        }
    }

    /// Returns the key for the stored state of an execution; `None` for imports, which have no
    /// state (`blueprints.md` 4.6).
    pub(crate) fn state_key(self, executor: &str) -> Option<String> {
        let prefix = match self {
            Self::Import => return None,
            Self::Deploy => "deploy",
            Self::Subinstallation => "subinst",
            Self::Export => "export",
        };
        Some(format!("{prefix}{executor}"))
    }
}

/// Cache of a blueprint's parsed templates, which every Installation with this blueprint needs.
#[derive(Debug, Default)]
pub(crate) struct ParsedTemplates {
    go: Arc<go::Parsed>,
    /// Documents by list and index.
    spiff: RwLock<HashMap<(ExecutionKind, usize), Document>>,
}

/// Execution, with the list that it belongs to and its index there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Execution<'a> {
    pub(crate) kind: ExecutionKind,
    /// Index of the execution in its list.
    pub(crate) index: usize,
    pub(crate) executor: &'a TemplateExecutor,
}

/// Engine for the executions of one blueprint.
#[derive(Debug)]
pub(crate) struct Engine<'a> {
    parsed: &'a ParsedTemplates,
    functions: HostFunctions,
    capabilities: &'a Capabilities,
    /// Budget that all executions share.
    budget: Budget,
    /// Spiff engine, created for the first template that needs it.
    spiff: OnceCell<SpiffEngine>,
    show_values: bool,
}

impl<'a> Engine<'a> {
    /// Creates an engine whose functions see the files of the blueprint and the given components.
    pub(crate) fn new(
        parsed: &'a ParsedTemplates,
        functions: HostFunctions,
        capabilities: &'a Capabilities,
        show_values: bool,
    ) -> Self {
        let budget = capabilities.limits.budget();
        Self { parsed, functions, capabilities, budget, spiff: OnceCell::new(), show_values }
    }

    /// Returns an engine for a repetition with other values, which asks no cluster. It has its own
    /// budget but the same deadline.
    pub(crate) fn repeated(&self) -> Self {
        Self::new(self.parsed, self.functions.repeated(), self.capabilities, self.show_values)
    }

    pub(crate) fn kubeconfigs(&self) -> &Kubeconfigs {
        &self.functions.kubeconfigs
    }

    fn spiff(&self) -> &SpiffEngine {
        self.spiff
            .get_or_init(|| spiff::engine(&self.functions, self.capabilities, &self.budget, self.show_values))
    }

    /// Renders one execution and parses the first document of its output; an empty output is an
    /// empty map. `state` is the state that an earlier run has stored.
    ///
    /// # Errors
    ///
    /// See [`TemplateError`].
    pub(crate) fn run(
        &self,
        execution: Execution<'_>,
        bindings: &Bindings<'_>,
        state: Option<&str>,
    ) -> Result<Output, TemplateError> {
        let attempt = self.attempt(execution, bindings, state);
        attempt.map_err(|error| self.withheld(error, execution, bindings, state))
    }

    /// Runs the execution like [`Self::run`], with values in the error.
    fn attempt(
        &self,
        execution: Execution<'_>,
        bindings: &Bindings<'_>,
        state: Option<&str>,
    ) -> Result<Output, TemplateError> {
        let type_name = execution.executor.type_.as_deref().unwrap_or_default();
        let template = Template::of(execution, &self.functions.files)?;
        let mut output = match type_name.parse() {
            Ok(TemplateType::GoTemplate) => self.run_go(execution, &template, bindings, state)?,
            Ok(TemplateType::Spiff) => self.run_spiff(execution, &template, bindings, state)?,
            Err(_) => return Err(TemplateError::UnknownType(type_name.to_owned())),
        };
        output.origin = template.origin.into();
        output.source = match template.source {
            Source::Text(text) => Some(text),
            Source::Structure(_) => None,
        };
        Ok(output)
    }

    fn run_go(
        &self,
        execution: Execution<'_>,
        template: &Template<'_>,
        bindings: &Bindings<'_>,
        state: Option<&str>,
    ) -> Result<Output, TemplateError> {
        let name = &execution.executor.name;
        let Source::Text(source) = &template.source else {
            return Err(TemplateError::NoText { executor: name.clone() });
        };
        let previous = match state {
            Some(text) => yaml::from_str(text).map_err(|error| TemplateError::LoadState {
                executor: name.clone(),
                cause: error.to_string(),
            })?,
            None => Value::Object(Map::new()),
        };
        let mut bindings = bindings.clone();
        if execution.kind != ExecutionKind::Import {
            bindings.bind("state", &previous);
        }
        let place = self.place(execution, template, source, &bindings);
        let host =
            go::Host { functions: &self.functions, capabilities: self.capabilities, budget: &self.budget };
        let output =
            go::render(&self.parsed.go, source, &bindings, host).map_err(|error| place.go_error(&error))?;
        let undecodable =
            |cause: String| TemplateError::Output { kind: execution.kind, executor: name.clone(), cause };
        let text =
            String::from_utf8(output).map_err(|_| undecodable("the output is not UTF-8".to_owned()))?;
        if text.contains(NO_VALUE) {
            return Err(place.no_value(execution.kind.label(), &text));
        }
        // The text is parsed as YAML below: four bytes in the time of a step.
        self.budget.spend(text.len() as u64 / 4).map_err(|error| undecodable(error.to_string()))?;
        let mut output = Output::parse(&text).map_err(|error| match error {
            OutputError::Syntax(error) => place.no_yaml(execution.kind, &error, &text),
            OutputError::NoMap => undecodable(error.to_string()),
        })?;
        output.state = output.get("state").map(yaml::to_string);
        output.text = Some(text);
        Ok(output)
    }

    fn run_spiff(
        &self,
        execution: Execution<'_>,
        template: &Template<'_>,
        bindings: &Bindings<'_>,
        state: Option<&str>,
    ) -> Result<Output, TemplateError> {
        let executor = || execution.executor.name.clone();
        let written = || match &template.source {
            Source::Text(text) => Cow::Borrowed(&**text),
            // A structure is parsed from its JSON text, which is valid YAML, so that its nodes get
            // positions.
            Source::Structure(value) => Cow::Owned(value.to_string()),
        };
        let failed = |error: groundwork_spiff::Error| {
            let source = written();
            self.place(execution, template, &source, bindings).spiff_error(&error)
        };
        let document = self.spiff_document(execution, written).map_err(failed)?;
        let stub = state
            .map(|text| spiff::read_state(self.spiff(), text))
            .transpose()
            .map_err(|error| TemplateError::LoadState { executor: executor(), cause: error.to_string() })?;
        let output = spiff::evaluate(self.spiff(), &document, stub.as_ref(), bindings).map_err(failed)?;
        let decoded = match output.to_read_json() {
            Some(document) => Output::of(document),
            None => Output::parse(&output.to_yaml()),
        };
        let mut decoded = decoded.map_err(|error| TemplateError::Output {
            kind: execution.kind,
            executor: executor(),
            cause: error.to_string(),
        })?;
        decoded.state = match output.root_state() {
            Some(kept) => Some(spiff::write_state(kept)),
            // If the template marks no state any more, the stored state is cleared.
            None => state.is_some().then(|| "{}\n".to_owned()),
        };
        Ok(decoded)
    }

    /// Returns the parsed document. `source` is the text of the template, which is parsed once for
    /// all Installations.
    fn spiff_document<'s>(
        &self,
        execution: Execution<'_>,
        source: impl FnOnce() -> Cow<'s, str>,
    ) -> Result<Document, groundwork_spiff::Error> {
        let key = (execution.kind, execution.index);
        if let Some(known) = self.parsed.spiff.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(known.clone());
        }
        let document = spiff::read(self.spiff(), &source())?;
        self.parsed.spiff.write().unwrap_or_else(PoisonError::into_inner).insert(key, document.clone());
        Ok(document)
    }

    fn place<'p>(
        &self,
        execution: Execution<'p>,
        template: &'p Template<'_>,
        source: &'p str,
        bindings: &'p Bindings<'p>,
    ) -> RunningTemplate<'p> {
        let has_lines = matches!(template.source, Source::Text(_));
        let executor = &execution.executor.name;
        RunningTemplate {
            executor,
            origin: &template.origin,
            source,
            has_lines,
            bindings,
            show_values: self.show_values,
        }
    }
}

/// Template of an execution, with the name of its place in messages.
struct Template<'a> {
    source: Source<'a>,
    origin: String,
}

enum Source<'a> {
    Text(Arc<str>),
    /// Structure in `blueprint.yaml`.
    Structure(&'a Value),
}

impl<'a> Template<'a> {
    fn of(execution: Execution<'a>, files: &Filesystem) -> Result<Self, TemplateError> {
        let executor = execution.executor;
        if let Some(template) = executor.template.get() {
            let origin = format!("{}[{}].template", execution.kind.list(), executor.name);
            let source = match template {
                Value::String(text) => Source::Text(text.as_str().into()),
                structure => Source::Structure(structure),
            };
            return Ok(Self { source, origin });
        }
        let Some(file) = executor.file.as_deref().filter(|file| !file.is_empty()) else {
            return Err(TemplateError::NoTemplate { executor: executor.name.clone() });
        };
        let content = files.read(file).map_err(|cause| TemplateError::File {
            executor: executor.name.clone(),
            file: file.to_owned(),
            cause,
        })?;
        let origin = shown_path(file).to_owned();
        Ok(Self { source: Source::Text(String::from_utf8_lossy(content).into()), origin })
    }
}

/// Limits for YAML that templates read or create. Values take as much memory again as the parsed
/// nodes, so the limit is only a part of a worker process's memory. An Execution that an API server
/// can store is far smaller.
const YAML: yaml::Options = yaml::Options { most_bytes: 96 << 20, ..yaml::Options::DEFAULT };

/// Output of an execution.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Output {
    pub(crate) document: Map<String, Value>,
    /// True if further documents follow, which are ignored.
    pub(crate) several_documents: bool,
    /// State to store for the next run, as YAML; absent if the stored state stays.
    pub(crate) state: Option<String>,
    /// Text of a Go template's output, before it was parsed as YAML.
    pub(crate) text: Option<String>,
    /// File or member that contains the template, with its lines if it has some.
    pub(crate) origin: Arc<str>,
    pub(crate) source: Option<Arc<str>>,
}

/// Error of an output. The text may contain secret values, so the error gives only the position.
#[derive(Debug, thiserror::Error)]
enum OutputError {
    #[error(transparent)]
    Syntax(#[from] yaml::Error),
    #[error("the output of the template is not a YAML map")]
    NoMap,
}

impl Output {
    /// Parses the first document.
    fn parse(text: &str) -> Result<Self, OutputError> {
        let first = yaml::parse_first(text, YAML)?;
        let output = Self::of(first.into_value())?;
        // The text after the first document need not be valid YAML. Most texts have no document
        // markers at all, so the search is rare.
        let has_marks = || text.lines().any(|line| line.starts_with("---") || line.starts_with("..."));
        let several_documents = has_marks() && yaml::has_several_documents(text, YAML);
        Ok(Self { several_documents, ..output })
    }

    /// Creates the output from a parsed document; null is an empty one.
    fn of(document: Value) -> Result<Self, OutputError> {
        match document {
            Value::Null => Ok(Self::default()),
            Value::Object(document) => Ok(Self { document, ..Self::default() }),
            _ => Err(OutputError::NoMap),
        }
    }

    /// Returns a result key: by its exact name, otherwise ignoring case (`blueprints.md` 4.2).
    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        member(&self.document, key)
    }

    /// Removes and returns a result key; null stays in its place.
    pub(crate) fn take(&mut self, key: &str) -> Option<Value> {
        take_member(&mut self.document, key)
    }
}

/// Returns a member by its exact name, otherwise ignoring case.
pub(crate) fn member<'a>(members: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    members
        .get(name)
        .or_else(|| members.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value))
}

/// Removes and returns a member by its exact name, otherwise ignoring case.
pub(crate) fn take_member(members: &mut Map<String, Value>, name: &str) -> Option<Value> {
    if let Some(value) = members.get_mut(name) {
        return Some(value.take());
    }
    let found = members.iter_mut().find(|(key, _)| key.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value.take())
}

#[cfg(test)]
mod tests;
