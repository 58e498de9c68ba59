//! JSON schemas of imports and exports, and what they refer to outside of themselves (`blueprints.md` 3.7).
//!
//! ```text
//! schema as written --references--> one document without foreign references --groundwork_schema--> Schema
//! ```

mod references;

use groundwork_api::Blueprint;
use groundwork_schema::{Dialect, InvalidSchemaError, Schema};
use serde_json::Value;

use crate::filesystem::Filesystem;

pub use references::{ForeignSchema, ReferenceError, SchemaSource};

/// Why a schema could not be compiled. SCH-001 and SCH-002 for references.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    #[error("error compiling jsonschema: {0}")]
    Reference(#[from] ReferenceError),
    #[error("error compiling jsonschema: {0}")]
    Invalid(#[from] InvalidSchemaError),
}

/// Checks that schemas of a blueprint are schemas (rule G4), without following references.
#[derive(Debug)]
pub(crate) struct Checker<'a> {
    default_dialect: &'a str,
}

impl<'a> Checker<'a> {
    pub(crate) fn new(definition: &'a Blueprint) -> Self {
        Self { default_dialect: default_dialect(definition) }
    }

    pub(crate) fn check(&self, schema: &Value) -> Result<(), InvalidSchemaError> {
        Dialect::of(schema, self.default_dialect)?.check(schema)
    }
}

/// Resolves references and compiles. `source` gives the documents behind `cd://`, if there is a component.
///
/// # Errors
///
/// A reference leads nowhere or in a circle, or the document is no schema.
pub(crate) fn compile(
    schema: &Value,
    definition: &Blueprint,
    files: &Filesystem,
    source: Option<&dyn SchemaSource>,
) -> Result<Schema, SchemaError> {
    let dialect = Dialect::of(schema, default_dialect(definition))?;
    let document = references::resolve(schema, &definition.local_types, files, source)?;
    Ok(Schema::compile(document, dialect)?)
}

fn default_dialect(definition: &Blueprint) -> &str {
    definition.json_schema_version.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests;
