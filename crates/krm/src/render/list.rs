//! Input and output of functions (`packagevariants.md` 8.3): objects with their place in the files.

use groundwork_api::{List, ResourceIdentifier, ResultField, ResultFile, ResultItem};
use groundwork_yaml::tree::Node;
use serde_json::Value;

use super::image::Triple;
use crate::functions::meter::Meter;
use crate::package::{base_name, is_kptfile, join};
use crate::value::to_json;

/// Object of a package.
#[derive(Debug, Clone)]
pub struct Item {
    /// The object with its comments.
    pub root: Node,
    /// Directory of the package that owns the object; empty for the root package.
    pub package: String,
    /// Path in that package; `None` for an object without a place.
    pub path: Option<String>,
    /// Document from which the object was read.
    pub(super) source: Option<Source>,
    /// Number that identifies the object across functions; `None` for objects that functions have
    /// created.
    pub(crate) id: Option<usize>,
    /// Position in its file, if a function has set it.
    pub(super) index: Option<usize>,
}

/// Document of a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Source {
    pub(super) file: String,
    pub(super) index: usize,
}

impl Item {
    /// Creates an object, as a function does.
    pub fn new(root: Node, path: Option<String>) -> Self {
        Self { root, package: String::new(), path, source: None, id: None, index: None }
    }

    /// Returns the path from the root package.
    pub(crate) fn full_path(&self) -> Option<String> {
        self.path.as_deref().map(|path| join(&self.package, path))
    }

    /// Returns the position in its file; `None` means after the present documents.
    pub(super) fn place(&self) -> Option<usize> {
        let read = self.source.as_ref().filter(|source| Some(&source.file) == self.full_path().as_ref());
        self.index.or(read.map(|source| source.index))
    }

    /// Reports whether the object is a Kptfile, which must not be deleted.
    pub fn is_kptfile(&self) -> bool {
        self.path.as_deref().is_some_and(is_kptfile)
    }

    /// Reports whether the object is a kustomization, which has no name.
    pub(super) fn is_kustomization(&self) -> bool {
        let name = self.path.as_deref().map(base_name).unwrap_or_default();
        matches!(name, "kustomization.yaml" | "kustomization.yml" | "Kustomization")
    }

    /// Returns the text at a path of keys, whatever its type; empty if it is missing.
    pub(crate) fn text(&self, path: &[&str]) -> &str {
        self.root.at(path).filter(|node| !node.is_null()).and_then(Node::text).unwrap_or_default()
    }

    /// Returns the object as JSON.
    pub fn to_value(&self) -> Value {
        to_json(&self.root)
    }

    /// Returns the identifier of the object for results.
    pub fn reference(&self) -> ResourceIdentifier {
        let text = |path: &[&str]| Some(self.text(path).to_owned()).filter(|text| !text.is_empty());
        ResourceIdentifier {
            api_version: text(&["apiVersion"]),
            kind: text(&["kind"]),
            name: text(&["metadata", "name"]),
            namespace: text(&["metadata", "namespace"]),
            ..ResourceIdentifier::default()
        }
    }
}

/// Input and output of a function.
#[derive(Debug, Clone, Default)]
pub struct ResourceList {
    pub items: Vec<Item>,
    /// Directory of the package whose function runs.
    pub package: String,
    /// `functionConfig`.
    pub config: Option<Node>,
    pub results: Vec<ResultItem>,
    /// True if selectors or exclusions have reduced the items.
    pub is_selection: bool,
    /// First version after those that the tag of the function's image allows; `None` for the
    /// latest version.
    pub(crate) version_end: Option<Triple>,
    /// Text that a built-in function has printed, for users.
    pub(crate) printed: String,
    /// Usage of a built-in function.
    pub(crate) meter: Meter,
}

/// Severity of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Severity {
    Error,
    Warning,
    Info,
}

impl Severity {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Info => "info",
        }
    }
}

impl ResourceList {
    /// Returns `functionConfig` as JSON.
    pub fn config_value(&self) -> Option<Value> {
        self.config.as_ref().map(to_json)
    }

    /// Adds a result.
    pub(crate) fn say(&mut self, severity: Severity, message: impl Into<String>) {
        self.results.push(ResultItem {
            message: Some(message.into()),
            severity: Some(severity.as_str().to_owned()),
            ..ResultItem::default()
        });
    }

    pub(crate) fn info(&mut self, message: impl Into<String>) {
        self.say(Severity::Info, message);
    }

    /// Adds a result about a field, with the file of its object.
    pub(crate) fn info_at(&mut self, file: Option<String>, field: String, message: impl Into<String>) {
        self.info(message);
        if let Some(last) = self.results.last_mut() {
            last.field = Some(ResultField { path: Some(field), ..ResultField::default() });
            last.file = file.map(|path| ResultFile { path: Some(path), ..ResultFile::default() });
        }
    }

    /// Adds a result about an object.
    pub(crate) fn info_of(&mut self, resource: ResourceIdentifier, message: impl Into<String>) {
        self.info(message);
        if let Some(last) = self.results.last_mut() {
            last.resource_ref = Some(resource);
        }
    }
}

/// Joins a path of keys and `[0]` for items: `spec.containers[0].image`.
pub(crate) fn joined(path: &[String]) -> String {
    let mut text = String::new();
    for part in path {
        if !text.is_empty() && !part.starts_with('[') {
            text.push('.');
        }
        text.push_str(part);
    }
    text
}

/// Returns the messages of the results with severity error.
pub(super) fn errors(results: &[ResultItem]) -> Vec<&str> {
    let errors = results.iter().filter(|result| result.severity.as_deref() == Some(Severity::Error.as_str()));
    errors.map(|result| result.message.as_deref().unwrap_or_default()).collect()
}

/// Result of a function besides its items.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    pub exit_code: i32,
    pub stderr: String,
    pub results: List<ResultItem>,
    /// Reason of a failure that the exit code does not show: an exceeded limit, or invalid output.
    pub error: Option<String>,
}
