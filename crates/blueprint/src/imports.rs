//! Conversion of the values that an Installation supplies to the imports that templates see
//! (`blueprints.md` 3.3 to 3.7).

use std::collections::{BTreeMap, BTreeSet};

use groundwork_api::{FieldType, ImportDefinition, ObjectReference};
use groundwork_spiff::Value as SpiffValue;
use serde_json::{Map, Value};

use crate::load::Blueprint;
use crate::origin::ImportSource;
use crate::schema::{SchemaError, SchemaSource};

/// Target object that an Installation imports.
#[derive(Debug, Clone, PartialEq)]
pub struct ImportedTarget {
    /// Imported object, which deploy items refer to.
    pub reference: ObjectReference,
    /// Whole object as JSON, as templates see it.
    pub object: Value,
}

/// Target import of an Installation.
#[derive(Debug, Clone, PartialEq)]
pub enum TargetValue {
    Single(ImportedTarget),
    List(Vec<ImportedTarget>),
    Map(BTreeMap<String, ImportedTarget>),
}

impl TargetValue {
    fn to_spiff(&self) -> SpiffValue {
        let object = |target: &ImportedTarget| SpiffValue::from_bindings(&target.object);
        match self {
            Self::Single(target) => object(target),
            Self::List(targets) => SpiffValue::list(targets.iter().map(object)),
            Self::Map(targets) => {
                SpiffValue::map(targets.iter().map(|(key, target)| (key.as_str(), object(target))))
            }
        }
    }

    /// Returns the value that templates see: an object, a list or a map of objects (`blueprints.md`
    /// 3.5).
    pub fn to_value(&self) -> Value {
        match self {
            Self::Single(target) => target.object.clone(),
            Self::List(targets) => targets.iter().map(|target| target.object.clone()).collect(),
            Self::Map(targets) => Value::Object(
                targets.iter().map(|(key, target)| (key.clone(), target.object.clone())).collect(),
            ),
        }
    }
}

/// All values that an Installation supplies, by the names of its own imports.
#[derive(Debug, Clone, Default)]
pub struct Supplied {
    pub data: BTreeMap<String, Value>,
    pub targets: BTreeMap<String, TargetValue>,
    /// Results of `importDataMappings`, by the names of blueprint imports. They take precedence
    /// over `data`.
    pub mapped: BTreeMap<String, Value>,
}

impl Supplied {
    /// Returns all imports of the Installation by name, as data mappings see them (`blueprints.md`
    /// 3.4).
    pub(crate) fn by_name(&self) -> Map<String, Value> {
        let data = self.data.iter().map(|(name, value)| (name.clone(), value.clone()));
        let targets = self.targets.iter().map(|(name, target)| (name.clone(), target.to_value()));
        data.chain(targets).collect()
    }

    /// Returns the same values for Spiff.
    pub(crate) fn to_spiff(&self) -> SpiffValue {
        let data = self.data.iter().map(|(name, value)| (name.as_str(), SpiffValue::from_bindings(value)));
        let targets = self.targets.iter().map(|(name, target)| (name.as_str(), target.to_spiff()));
        SpiffValue::map(data.chain(targets))
    }
}

/// Imports of a blueprint that have a value, with the source of each.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Imports {
    /// Values that templates see under `imports`, including conditional imports, all on one level.
    pub values: Map<String, Value>,
    /// Target imports among the values, which deploy items can refer to.
    pub targets: BTreeMap<String, TargetValue>,
    /// Names that import executions have added and no import declares. They are visible to
    /// templates only (`blueprints.md` 3.8).
    pub added: BTreeSet<String>,
    /// Source of each value.
    pub sources: BTreeMap<String, ImportSource>,
}

impl Imports {
    /// Adds a binding of an import execution, or replaces a value, even that of a Target.
    pub(crate) fn bind(&mut self, name: &str, value: Value, definitions: &[ImportDefinition]) {
        match find(definitions, name).map(|definition| definition.type_.as_deref()) {
            None => drop(self.added.insert(name.to_owned())),
            Some(type_name) => match type_name.and_then(|type_name| target_value(type_name, &value)) {
                Some(target) => drop(self.targets.insert(name.to_owned(), target)),
                // A value that is no longer a Target cannot be referred to.
                None => drop(self.targets.remove(name)),
            },
        }
        self.values.insert(name.to_owned(), value);
        self.sources.insert(name.to_owned(), ImportSource::Execution);
    }
}

impl Blueprint {
    /// Reports whether an import of this name exists, nested ones included.
    pub fn declares_import(&self, name: &str) -> bool {
        find(&self.definition.imports, name).is_some()
    }
}

fn find<'a>(definitions: &'a [ImportDefinition], name: &str) -> Option<&'a ImportDefinition> {
    let found = definitions.iter().find(|definition| definition.name == name);
    found.or_else(|| definitions.iter().find_map(|definition| find(&definition.imports, name)))
}

/// Converts Target objects to the form of an import of this type.
fn target_value(type_name: &str, value: &Value) -> Option<TargetValue> {
    let target = |object: &Value| {
        let text = |name: &str| object.pointer(name).and_then(Value::as_str).map(str::to_owned);
        let reference =
            ObjectReference { name: text("/metadata/name")?, namespace: text("/metadata/namespace") };
        Some(ImportedTarget { reference, object: object.clone() })
    };
    match type_name.parse().ok()? {
        FieldType::Data => None,
        FieldType::Target => target(value).map(TargetValue::Single),
        FieldType::TargetList => {
            value.as_array()?.iter().map(target).collect::<Option<_>>().map(TargetValue::List)
        }
        FieldType::TargetMap => {
            let entry = |(key, object): (&String, &Value)| Some((key.clone(), target(object)?));
            value.as_object()?.iter().map(entry).collect::<Option<_>>().map(TargetValue::Map)
        }
    }
}

/// Returns warnings about supplied names that the blueprint does not import, most likely misspelt
/// ones.
pub(crate) fn undeclared(definitions: &[ImportDefinition], supplied: &Supplied) -> Vec<String> {
    let data = supplied.data.keys().map(|name| ("data import", name));
    let targets = supplied.targets.keys().map(|name| ("target import", name));
    let mapped = supplied.mapped.keys().map(|name| ("import data mapping", name));
    let unknown = data.chain(targets).chain(mapped).filter(|(_, name)| find(definitions, name).is_none());
    unknown
        .map(|(kind, name)| format!("{kind} {name:?}: the blueprint declares no import of this name"))
        .collect()
}

/// Error of an import. Texts name the import and its type, never its value.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// Error IMP-011 (`blueprints.md` 10): a required import is missing.
    #[error("blueprint defines import {name:?} of type {type_name}, which is not satisfied")]
    NotSatisfied { name: String, type_name: FieldType },
    /// Error IMP-013 (`blueprints.md` 10): a value does not match its schema.
    #[error("{path}: imported datatype does not have the expected schema: {}", join(violations))]
    Schema { path: String, violations: Vec<groundwork_schema::Violation> },
    /// Error IMP-013 (`blueprints.md` 10): the schema cannot be compiled.
    #[error("{path}: validator creation failed: {source}")]
    Compile { path: String, source: SchemaError },
    /// Error IMP-014 (`blueprints.md` 10): a Target has the wrong type.
    #[error("{path}: {problem}")]
    Target { path: String, problem: String },
}

impl ImportError {
    /// Returns the reason under which Landscaper reports the error (`blueprints.md` 10).
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotSatisfied { .. } => "ImportNotFound",
            Self::Schema { .. } | Self::Compile { .. } | Self::Target { .. } => "SchemaValidationFailed",
        }
    }
}

fn join(violations: &[groundwork_schema::Violation]) -> String {
    violations.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Selects a value for every import of the blueprint and checks it.
///
/// # Errors
///
/// All imports that are missing or invalid.
pub(crate) fn construct(
    blueprint: &Blueprint,
    installation: &str,
    supplied: &Supplied,
    schemas: Option<&dyn SchemaSource>,
) -> Result<Imports, Vec<ImportError>> {
    let mut constructor =
        Constructor { blueprint, supplied, schemas, imports: Imports::default(), errors: Vec::new() };
    constructor.imports(&blueprint.definition.imports, installation);
    if constructor.errors.is_empty() { Ok(constructor.imports) } else { Err(constructor.errors) }
}

struct Constructor<'a> {
    blueprint: &'a Blueprint,
    supplied: &'a Supplied,
    schemas: Option<&'a dyn SchemaSource>,
    imports: Imports,
    errors: Vec<ImportError>,
}

impl Constructor<'_> {
    fn imports(&mut self, definitions: &[ImportDefinition], path: &str) {
        for definition in definitions {
            let path = format!("{path}.{}", definition.name);
            let type_name = definition.type_.as_deref().and_then(|name| name.parse::<FieldType>().ok());
            // Validation has rejected any other type.
            let Some(type_name) = type_name else { continue };
            let satisfied = match type_name {
                FieldType::Data => self.data(definition, &path),
                FieldType::Target | FieldType::TargetList | FieldType::TargetMap => {
                    self.target(definition, type_name, &path)
                }
            };
            if satisfied {
                // Conditional imports exist only if their owner is satisfied (`blueprints.md` 3.6).
                self.imports(&definition.imports, &path);
            } else if definition.required != Some(false) {
                self.errors.push(ImportError::NotSatisfied { name: definition.name.clone(), type_name });
            }
        }
    }

    fn data(&mut self, definition: &ImportDefinition, path: &str) -> bool {
        let name = &definition.name;
        let default = if definition.required == Some(false) { definition.default_value() } else { None };
        let sources = [
            (self.supplied.mapped.get(name), ImportSource::Mapping),
            (self.supplied.data.get(name), ImportSource::Installation),
            (default, ImportSource::Default),
        ];
        let found = sources.into_iter().find_map(|(value, source)| Some((value?, source)));
        let Some((value, source)) = found else { return false };
        self.imports.sources.insert(name.clone(), source);
        if let Some(schema) = definition.schema() {
            // Names are unique over the whole tree, so the insertion never replaces another import.
            self.check_schema((name, schema), value, path);
        }
        self.imports.values.insert(name.clone(), value.clone());
        true
    }

    fn check_schema(&mut self, (name, schema): (&str, &Value), value: &Value, path: &str) {
        match self.blueprint.compiled_schema(&format!("imports.{name}"), schema, self.schemas) {
            Err(source) => self.errors.push(ImportError::Compile { path: path.to_owned(), source }),
            Ok(schema) => {
                let violations = schema.violations(value);
                if !violations.is_empty() {
                    self.errors.push(ImportError::Schema { path: path.to_owned(), violations });
                }
            }
        }
    }

    fn target(&mut self, definition: &ImportDefinition, type_name: FieldType, path: &str) -> bool {
        let Some(value) = self.supplied.targets.get(&definition.name) else { return false };
        let same_form = match value {
            TargetValue::Single(_) => type_name == FieldType::Target,
            TargetValue::List(_) => type_name == FieldType::TargetList,
            TargetValue::Map(_) => type_name == FieldType::TargetMap,
        };
        if !same_form {
            return false;
        }
        let expected = definition.target_type.as_deref().unwrap_or_default();
        for problem in target_problems(value, expected) {
            self.errors.push(ImportError::Target { path: path.to_owned(), problem });
        }
        self.imports.values.insert(definition.name.clone(), value.to_value());
        self.imports.targets.insert(definition.name.clone(), value.clone());
        self.imports.sources.insert(definition.name.clone(), ImportSource::Installation);
        true
    }
}

/// Returns the error texts of `blueprints.md` 3.5.
fn target_problems(value: &TargetValue, expected: &str) -> Vec<String> {
    let actual = |target: &ImportedTarget| {
        target.object.pointer("/spec/type").and_then(Value::as_str).map(str::to_owned)
    };
    let element = |position: String, kind: &str, target: &ImportedTarget| match actual(target) {
        None => Some(format!(
            "element at position {position} of the imported {kind} does not match the expected target template schema"
        )),
        Some(actual) if actual != expected => Some(format!(
            "type of the element at position {position} of the imported {kind} is {actual} but expected {expected}"
        )),
        Some(_) => None,
    };
    match value {
        TargetValue::Single(target) => match actual(target) {
            None => vec!["imported target does not match the expected target template schema".to_owned()],
            Some(actual) if actual != expected => {
                vec![format!("imported target type is {actual} but expected {expected}")]
            }
            Some(_) => Vec::new(),
        },
        TargetValue::List(targets) => targets
            .iter()
            .enumerate()
            .filter_map(|(index, target)| element(index.to_string(), "targetlist", target))
            .collect(),
        TargetValue::Map(targets) => {
            targets.iter().filter_map(|(key, target)| element(key.clone(), "targetmap", target)).collect()
        }
    }
}

#[cfg(test)]
mod tests;
