//! Template executions: source in, text out, typed result by the caller (`blueprints.md` sections 4 and 5).

mod error;
mod functions;
mod oci;
mod resource_key;

use std::sync::Arc;

use groundwork_api::{TemplateExecutor, TemplateType};
use groundwork_gotemplate::{Functions, MissingKey, NumberMode, Options, Template, Value as TemplateValue};
use groundwork_yaml as yaml;
use serde_json::{Map, Value};

use crate::components::Components;
use crate::filesystem::Filesystem;

pub use error::{Excerpt, TemplateError};

/// Every template of the original is called so, and its errors show the name.
const TEMPLATE_NAME: &str = "execution";
/// What an absent value prints.
const NO_VALUE: &str = "<no value>";

/// Which of the lists of a blueprint an execution belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExecutionKind {
    Import,
    Deploy,
}

impl ExecutionKind {
    /// How messages call it.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Import => "import execution",
            Self::Deploy => "deploy execution",
        }
    }

    /// The list in the blueprint file.
    fn list(self) -> &'static str {
        match self {
            Self::Import => "importExecutions",
            Self::Deploy => "deployExecutions",
        }
    }
}

/// Runs the executions of one blueprint.
#[derive(Debug)]
pub(crate) struct Engine {
    functions: Arc<Functions>,
    options: Options,
    files: Arc<Filesystem>,
}

impl Engine {
    /// An engine whose functions see the files of the blueprint and the given components.
    pub(crate) fn new(files: &Filesystem, components: &Components) -> Self {
        let files = Arc::new(files.clone());
        let options =
            Options { missing_key: MissingKey::Zero, numbers: NumberMode::Data, ..Options::default() };
        let functions = Arc::new(functions::all(&files, &Arc::new(components.clone())));
        Self { functions, options, files }
    }

    /// Renders one execution and parses the first document of its output; an empty output is an empty map.
    ///
    /// # Errors
    ///
    /// See [`TemplateError`].
    pub(crate) fn run(
        &self,
        kind: ExecutionKind,
        executor: &TemplateExecutor,
        bindings: &Map<String, Value>,
    ) -> Result<Output, TemplateError> {
        let type_name = executor.type_.as_deref().unwrap_or_default();
        match type_name.parse() {
            Ok(TemplateType::GoTemplate) => {}
            Ok(TemplateType::Spiff) => {
                return Err(TemplateError::SpiffNotSupported { executor: executor.name.clone() });
            }
            Err(_) => return Err(TemplateError::UnknownType(type_name.to_owned())),
        }
        let (source, origin) = self.source(kind, executor)?;
        let output = self.render(&source, &origin, bindings)?;
        let undecodable = |cause: String| TemplateError::Output { executor: executor.name.clone(), cause };
        let text =
            String::from_utf8(output).map_err(|_| undecodable("the output is not UTF-8".to_owned()))?;
        if text.contains(NO_VALUE) {
            return Err(TemplateError::NoValue(error::no_value(kind.label(), &text, &source, bindings)));
        }
        Output::parse(&text).map_err(undecodable)
    }

    fn source(
        &self,
        kind: ExecutionKind,
        executor: &TemplateExecutor,
    ) -> Result<(String, String), TemplateError> {
        if let Some(template) = executor.template.get() {
            let origin = format!("{}[{}].template", kind.list(), executor.name);
            return match template {
                Value::String(text) => Ok((text.clone(), origin)),
                _ => Err(TemplateError::NoText { executor: executor.name.clone() }),
            };
        }
        let Some(file) = executor.file.as_deref().filter(|file| !file.is_empty()) else {
            return Err(TemplateError::NoTemplate { executor: executor.name.clone() });
        };
        let content = self.files.read(file).map_err(|cause| TemplateError::File {
            executor: executor.name.clone(),
            file: file.to_owned(),
            cause,
        })?;
        Ok((
            String::from_utf8_lossy(content).into_owned(),
            file.trim_start_matches("./").trim_start_matches('/').to_owned(),
        ))
    }

    fn render(
        &self,
        source: &str,
        origin: &str,
        bindings: &Map<String, Value>,
    ) -> Result<Vec<u8>, TemplateError> {
        let failed = |message: String, line: usize, column: Option<usize>| TemplateError::GoTemplate {
            report: error::enrich(&message, (line, column.unwrap_or_default()), source, bindings),
            excerpt: Excerpt::new(origin, source, line, column),
            message,
        };
        // Only what happens while the template runs can hold values.
        let template = Template::parse(TEMPLATE_NAME, source, &self.functions, &self.options)
            .map_err(|error| failed(error.to_string(), error.line(), error.column()))?;
        let data = TemplateValue::from_json(&Value::Object(bindings.clone()), self.options.numbers);
        template.render(data).map_err(|error| {
            failed(error::without_values(&error, source, bindings), error.line(), error.column())
        })
    }
}

/// What an execution gave.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Output {
    pub(crate) document: Map<String, Value>,
    /// Further documents follow, which nobody reads.
    pub(crate) several_documents: bool,
}

impl Output {
    /// Reads the first document. The text is made of values that may be secret: the problem tells only the place in
    /// it.
    fn parse(text: &str) -> Result<Self, String> {
        let first = yaml::parse_first(text, yaml::Options::default()).map_err(|error| error.to_string())?;
        let document = match first.to_value() {
            Value::Null => Map::new(),
            Value::Object(members) => members,
            _ => return Err("the output is no YAML map".to_owned()),
        };
        // What follows need not even be YAML.
        let documents = yaml::parse_all(text, yaml::Options::default());
        let several_documents = documents.map_or(true, |documents| documents.len() > 1);
        Ok(Self { document, several_documents })
    }

    /// A result key: exactly so, else without regard to case (`blueprints.md` 4.2).
    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        member(&self.document, key)
    }
}

/// A member by its exact name, else by one that differs in case.
pub(crate) fn member<'a>(members: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    members
        .get(name)
        .or_else(|| members.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value))
}

#[cfg(test)]
mod tests;
