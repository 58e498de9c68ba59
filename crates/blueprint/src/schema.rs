//! JSON schemas of imports and exports, with their external references (`blueprints.md` 3.7).
//!
//! ```text
//! schema as written --references--> one document without foreign references
//! document --groundwork_schema--> Schema
//! ```

mod references;

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, PoisonError, RwLock};

use groundwork_api::Blueprint as Definition;
use groundwork_schema::{Dialect, InvalidSchemaError, Schema};
use serde_json::Value;

use crate::filesystem::Filesystem;

pub(crate) use references::misread;
pub use references::{ForeignSchema, ReferenceError, SchemaSource};

/// Error of a schema that cannot be compiled: SCH-001 and SCH-002 (`blueprints.md` 10) for
/// references.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    #[error("error compiling jsonschema: {0}")]
    Reference(#[from] ReferenceError),
    #[error("error compiling jsonschema: {0}")]
    Invalid(#[from] InvalidSchemaError),
}

/// Checker of the schemas of a blueprint (`blueprints.md` 1.8, rule G4). It does not follow
/// references.
#[derive(Debug)]
pub(crate) struct Checker<'a> {
    default_dialect: &'a str,
}

impl<'a> Checker<'a> {
    pub(crate) fn new(definition: &'a Definition) -> Self {
        Self { default_dialect: default_dialect(definition) }
    }

    pub(crate) fn check(&self, schema: &Value) -> Result<(), InvalidSchemaError> {
        Dialect::of(schema, self.default_dialect)?.check(schema)
    }

    /// Returns a warning about a valid schema; `None` if there is none.
    pub(crate) fn warning(&self, schema: &Value) -> Option<String> {
        let is_foreign = Dialect::of(schema, self.default_dialect).is_ok_and(Dialect::is_foreign);
        let named = schema.get("$schema").and_then(Value::as_str).filter(|_| is_foreign)?;
        Some(format!(
            "the dialect {named:?} is not known, so the schema is read as one without $schema: name one such as \
             https://json-schema.org/draft/2019-09/schema"
        ))
    }
}

/// Cache of a blueprint's compiled schemas, which every Installation with this blueprint needs.
#[derive(Debug, Default)]
pub(crate) struct CompiledSchemas {
    by_key: RwLock<HashMap<String, Arc<Schema>>>,
    /// Schemas by their text, because many imports share one schema.
    by_text: RwLock<HashMap<String, Arc<Schema>>>,
}

fn known(schemas: &RwLock<HashMap<String, Arc<Schema>>>, name: &str) -> Option<Arc<Schema>> {
    schemas.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
}

fn keep(schemas: &RwLock<HashMap<String, Arc<Schema>>>, name: String, schema: &Arc<Schema>) {
    schemas.write().unwrap_or_else(PoisonError::into_inner).insert(name, Arc::clone(schema));
}

impl CompiledSchemas {
    /// Returns the schema with this key, compiled at most once.
    ///
    /// # Errors
    ///
    /// A reference is dangling or cyclic, or the document is not a schema.
    pub(crate) fn compile(
        &self,
        key: &str,
        schema: &Value,
        definition: &Definition,
        files: &Filesystem,
        source: Option<&dyn SchemaSource>,
    ) -> Result<Arc<Schema>, SchemaError> {
        let Self { by_key, by_text } = self;
        if let Some(schema) = known(by_key, key) {
            return Ok(schema);
        }
        let text = schema.to_string();
        if let Some(schema) = known(by_text, &text) {
            keep(by_key, key.to_owned(), &schema);
            return Ok(schema);
        }
        let (schema, is_of_component) = compile(schema, definition, files, source)?;
        let schema = Arc::new(schema);
        // A schema that includes documents of a component may be another one for the next
        // Installation.
        if !is_of_component {
            keep(by_key, key.to_owned(), &schema);
            keep(by_text, text, &schema);
        }
        Ok(schema)
    }
}

/// Returns the error of a valid schema that cannot be compiled. References to components cannot be
/// checked here and count as valid.
pub(crate) fn compilation_problem(
    schema: &Value,
    definition: &Definition,
    files: &Filesystem,
) -> Option<SchemaError> {
    let source = AnyComponent::default();
    let error = compile(schema, definition, files, Some(&source)).err()?;
    // If the schema refers to a component, the error may come from the placeholder for that
    // component's document, so it is not reported.
    (!source.asked.get()).then_some(error)
}

/// Placeholder for a component that has every schema.
#[derive(Debug, Default, Clone)]
struct AnyComponent {
    asked: Rc<Cell<bool>>,
}

impl SchemaSource for AnyComponent {
    fn schema(&self, _: &str) -> Result<ForeignSchema, String> {
        self.asked.set(true);
        Ok(ForeignSchema { document: Value::Bool(true), owner: Box::new(self.clone()) })
    }

    fn component(&self) -> String {
        String::new()
    }
}

/// Resolves references and compiles the schema. The flag is true if the result is valid for one
/// component only.
fn compile(
    schema: &Value,
    definition: &Definition,
    files: &Filesystem,
    source: Option<&dyn SchemaSource>,
) -> Result<(Schema, bool), SchemaError> {
    let dialect = Dialect::of(schema, default_dialect(definition))?;
    let resolved = references::resolve(schema, &definition.local_types, files, source)?;
    Ok((Schema::compile(resolved.document, dialect)?, resolved.is_of_component))
}

fn default_dialect(definition: &Definition) -> &str {
    definition.json_schema_version.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests;
