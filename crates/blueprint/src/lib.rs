//! Blueprints: loading, validation, and rendering for an Installation.
//!
//! ```text
//! tar / inline tree --filesystem--> Filesystem --load, validate--> Blueprint
//! Supplied (values of the Installation) --mappings, imports, schema--> Imports
//!
//! render:          Imports + Components --executions, template--> documents
//!                  documents --subinstallations, deploy--> templates, items
//! render_exports:  Imports + values of items and children --executions--> exports
//!                  exports --exports, mappings--> published values
//! ```
//!
//! The rules are those of the chapter `blueprints.md`. The crate does no I/O: values, state and
//! errors are returned to the caller. Error texts never contain an imported value.

mod bindings;
mod capabilities;
mod check;
mod components;
mod deploy;
mod executions;
mod exports;
mod field;
mod filesystem;
#[cfg(test)]
mod fixtures;
mod functions;
mod imports;
mod load;
mod mappings;
mod nulls;
mod origin;
mod redaction;
mod render;
mod schema;
mod subinstallations;
mod template;
#[cfg(test)]
mod testing;
mod validate;

pub use capabilities::{
    Capabilities, Clock, ClusterAccess, ClusterUser, IssuedKubeconfig, KubeconfigIssuer, KubeconfigRequest,
    Randomness,
};
pub use check::{Finding, Severity};
pub use components::{Components, UnknownSchemaVersion};
pub use deploy::{DecodeError, DeployError, TargetReference, UnresolvedItem, resolve_items};
pub use executions::{ExecutionError, ExecutionInputs, Executions, ExportValues, ImportBindings, States};
pub use exports::{ExportError, ExportProblem, ExportRequest, Exports, TargetTemplate, construct_exports};
pub use field::{FieldError, FieldPath, Violation, aggregate, exactly_one_of};
pub use filesystem::{
    ArchiveError, ArchiveLimits, BLUEPRINT_FILE, FileInfo, Filesystem, InlineError, PathError,
};
pub use groundwork_budget::TemplateLimits;
pub use imports::{ImportError, ImportedTarget, Imports, Supplied, TargetValue};
pub use load::{Blueprint, LoadError};
pub use mappings::{MappingError, export_mappings, import_mappings};
pub use origin::{ImportSource, Origin, Origins};
pub use redaction::{REDACTED, other_value, withheld, withhold_values};
pub use render::{RenderError, Rendered, RenderedExports, Request, render, render_exports};
pub use schema::{ForeignSchema, ReferenceError, SchemaError, SchemaSource};
pub use subinstallations::{
    BlueprintRefError, ChildError, ChildMetadata, DecodeTemplateError, DroppedImport, Graph, GraphEdge,
    GraphNode, GraphTree, InvalidTemplates, MultipleExporters, Parent, Removal, RemovalReason, SiblingEdge,
    SiblingError, SiblingGraph, StaticTemplateProblem, StaticTemplatesError, child_object_name,
    decode_template, remove_unsatisfied, validate as validate_subinstallations,
};
pub use template::{Excerpt, ExecutionKind, TemplateError, TemplateReport};
