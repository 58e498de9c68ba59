//! What functions take and give (`packagevariants.md` 8.3): objects with the place where they are written.

use groundwork_api::{List, ResourceIdentifier, ResultItem};
use groundwork_yaml::tree::Node;
use serde_json::Value;

use crate::functions::meter::Meter;
use crate::package::{base_name, is_kptfile, join};
use crate::value::to_json;

/// An object of a package.
#[derive(Debug, Clone)]
pub struct Item {
    /// The object with its comments.
    pub root: Node,
    /// Directory of the package that owns it; that of the root package is empty.
    pub package: String,
    /// Path in that package; none for an object that nobody has given a place.
    pub path: Option<String>,
    /// Where it was read.
    pub(super) source: Option<Source>,
    /// By which it is known again; none for objects that functions have made.
    pub(super) id: Option<usize>,
    /// Place among the documents of its file, where a function has said so.
    pub(super) index: Option<usize>,
}

/// A document of a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Source {
    pub(super) file: String,
    pub(super) index: usize,
}

impl Item {
    /// An object that a function has made.
    pub fn new(root: Node, path: Option<String>) -> Self {
        Self { root, package: String::new(), path, source: None, id: None, index: None }
    }

    /// Path from the root package on.
    pub(crate) fn full_path(&self) -> Option<String> {
        self.path.as_deref().map(|path| join(&self.package, path))
    }

    /// Place among the documents of its file; none behind those that are there.
    pub(super) fn place(&self) -> Option<usize> {
        let read = self.source.as_ref().filter(|source| Some(&source.file) == self.full_path().as_ref());
        self.index.or(read.map(|source| source.index))
    }

    /// Whether it says what a package is, and must not go.
    pub fn is_kptfile(&self) -> bool {
        self.path.as_deref().is_some_and(is_kptfile)
    }

    /// Files of kustomize have no names.
    pub(super) fn is_kustomization(&self) -> bool {
        let name = self.path.as_deref().map(base_name).unwrap_or_default();
        matches!(name, "kustomization.yaml" | "kustomization.yml" | "Kustomization")
    }

    /// A text that a path of keys leads to, whatever its type; empty if there is none.
    pub(crate) fn text(&self, path: &[&str]) -> &str {
        self.root.at(path).filter(|node| !node.is_null()).and_then(Node::text).unwrap_or_default()
    }

    /// The object as data.
    pub fn to_value(&self) -> Value {
        to_json(&self.root)
    }

    /// Names the object in results.
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
    /// Whether the items are those that selectors or exclusions have left.
    pub is_selection: bool,
    /// What a function that is built in has used.
    pub(crate) meter: Meter,
}

/// How much a result matters.
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
    /// `functionConfig` as data.
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

    /// Adds a result about an object.
    pub(crate) fn info_of(&mut self, resource: ResourceIdentifier, message: impl Into<String>) {
        self.info(message);
        if let Some(last) = self.results.last_mut() {
            last.resource_ref = Some(resource);
        }
    }
}

/// Messages of the results of severity error.
pub(super) fn errors(results: &[ResultItem]) -> Vec<&str> {
    let errors = results.iter().filter(|result| result.severity.as_deref() == Some(Severity::Error.as_str()));
    errors.map(|result| result.message.as_deref().unwrap_or_default()).collect()
}

/// What a function left behind besides its output.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    pub exit_code: i32,
    pub stderr: String,
    pub results: List<ResultItem>,
    /// Why it fails although it ran to its end or was running: a limit, or output that cannot be read. Says more than the exit code.
    pub error: Option<String>,
}
