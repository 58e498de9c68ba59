//! The executions of a blueprint (`blueprints.md` 4): inputs, results, errors, and the runner.
//!
//! ```text
//! lists: which executions, with which bindings ──state: one run──> Output ──lists──> items, templates, exports
//!                                                                        └──messages──> warnings, redacted errors
//! ```
//!
//! Decisions about an Installation are made elsewhere.

mod lists;
mod messages;
mod state;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::capabilities::Capabilities;
use crate::components::{Components, UnknownSchemaVersion};
use crate::deploy::DecodeError;
use crate::field::FieldError;
use crate::functions::{HostFunctions, KUBECONFIGS, Kubeconfigs};
use crate::load::Blueprint;
use crate::origin::Origins;
use crate::template::{Engine, ExecutionKind, TemplateError};

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
        let functions = HostFunctions {
            files: Arc::clone(&blueprint.files),
            components: inputs.components.clone(),
            kubeconfigs: Kubeconfigs::new(inputs.capabilities, states.get(KUBECONFIGS).map(String::as_str)),
        };
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
}

#[cfg(test)]
mod tests;
