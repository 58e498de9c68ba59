//! Blueprints: what they are, whether they are right, and what they give for an Installation.
//!
//! ```text
//! tar / inline tree --filesystem--> Filesystem --load, validate--> Blueprint
//! Supplied (values of the Installation) --imports, schema--> Imports
//! Imports + Components --template--> rendered YAML --deploy--> DeployItemTemplates      render
//! ```
//!
//! The rules are those of the chapter `blueprints.md`. Nothing here does I/O; values and errors come back to
//! the caller, and no error text holds an imported value.

mod components;
mod deploy;
mod field;
mod filesystem;
#[cfg(test)]
mod fixtures;
mod imports;
mod load;
mod redaction;
mod render;
mod schema;
mod template;
#[cfg(test)]
mod testing;
mod validate;

pub use components::{Components, UnknownSchemaVersion};
pub use deploy::{DecodeError, DeployError};
pub use field::{FieldError, FieldPath, Violation, aggregate, exactly_one_of};
pub use filesystem::{ArchiveError, ArchiveLimits, FileInfo, Filesystem, InlineError, PathError};
pub use imports::{ImportError, ImportedTarget, Imports, Supplied, TargetValue};
pub use load::{BLUEPRINT_FILE, Blueprint, LoadError};
pub use render::{ExecutionError, RenderError, Rendered, Request, render};
pub use schema::{ForeignSchema, ReferenceError, SchemaError, SchemaSource};
pub use template::{Excerpt, TemplateError};
