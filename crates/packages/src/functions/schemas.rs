//! Schemas of kinds, from a file or folder of the operator; they are never fetched
//! (`packagevariants.md` 8.5).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use groundwork_schema::{Dialect, Formats, Schema};
use serde_json::{Map, Value, json};

/// JSON schema dialect of Kubernetes' schemas.
const DIALECT: &str = "http://json-schema.org/draft-07/schema#";
/// Size limit of a schema file in bytes. The document of a cluster with many kinds has some 10 MiB.
const LARGEST: u64 = 64 << 20;
const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const REFERENCE: &str = "#/definitions/";

/// Reason that schemas cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SchemasError {
    #[error("cannot read {}: {cause}", path.display())]
    Read { path: PathBuf, cause: std::io::Error },
    #[error("{} has more than {} MiB", .0.display(), LARGEST >> 20)]
    TooLarge(PathBuf),
    #[error("{} is not valid JSON: {cause}", path.display())]
    NoJson { path: PathBuf, cause: serde_json::Error },
    #[error(
        "{} has no definitions: the OpenAPI document of a cluster is expected, as `kubectl get --raw /openapi/v2` prints it",
        .0.display()
    )]
    NoDefinitions(PathBuf),
    #[error("the schema of {kind} {api_version} cannot be used: {cause}")]
    Unusable { kind: String, api_version: String, cause: String },
}

/// Schemas of kinds: an OpenAPI document (v2) of a cluster in a file, or a folder with a file for
/// each kind, such as `deployment-apps-v1.json` or `example.org/site_v1.json`.
#[derive(Debug)]
pub struct Schemas {
    source: Source,
    /// Compiled schemas; `None` for a kind without one.
    compiled: Mutex<HashMap<Wanted, Option<Arc<Schema>>>>,
}

/// Kind, apiVersion and strictness.
type Wanted = (String, String, bool);

#[derive(Debug)]
enum Source {
    Folder(PathBuf),
    Document {
        definitions: Map<String, Value>,
        /// Names of definitions by kind and apiVersion.
        kinds: HashMap<(String, String), String>,
    },
}

impl Schemas {
    /// Reads a document, or keeps the path of a folder for later.
    ///
    /// # Errors
    /// The path is neither a folder nor a file with an OpenAPI document.
    pub fn open(path: &Path) -> Result<Self, SchemasError> {
        let found =
            fs::metadata(path).map_err(|cause| SchemasError::Read { path: path.to_owned(), cause })?;
        let source = if found.is_dir() {
            Source::Folder(path.to_owned())
        } else {
            let mut document = read(path)?;
            let Some(Value::Object(definitions)) = document.get_mut("definitions").map(Value::take) else {
                return Err(SchemasError::NoDefinitions(path.to_owned()));
            };
            Source::Document { kinds: kinds(&definitions), definitions }
        };
        Ok(Self { source, compiled: Mutex::default() })
    }

    /// Returns the schema of a kind, if it has one. With `strict`, unknown fields are errors.
    ///
    /// # Errors
    /// The definition cannot be used as a schema.
    pub(crate) fn of(
        &self,
        kind: &str,
        api_version: &str,
        strict: bool,
    ) -> Result<Option<Arc<Schema>>, SchemasError> {
        let key = (kind.to_owned(), api_version.to_owned(), strict);
        if let Some(known) = self.compiled.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(known.clone());
        }
        let found = match &self.source {
            Source::Folder(folder) => of_folder(folder, kind, api_version)?,
            Source::Document { definitions, kinds } => kinds
                .get(&(kind.to_owned(), api_version.to_owned()))
                .map(|name| of_document(definitions, name)),
        };
        let compiled = found.map(|schema| compile(schema, strict, kind, api_version)).transpose()?;
        self.compiled.lock().unwrap_or_else(PoisonError::into_inner).insert(key, compiled.clone());
        Ok(compiled)
    }
}

/// Returns the schema that a CustomResourceDefinition has for a version of its kind.
pub(crate) fn of_definition(
    schema: &Value,
    kind: &str,
    api_version: &str,
    strict: bool,
) -> Result<Arc<Schema>, SchemasError> {
    compile(with_object_fields(schema.clone()), strict, kind, api_version)
}

fn read(path: &Path) -> Result<Value, SchemasError> {
    let unreadable = |cause| SchemasError::Read { path: path.to_owned(), cause };
    if fs::metadata(path).map_err(unreadable)?.len() > LARGEST {
        return Err(SchemasError::TooLarge(path.to_owned()));
    }
    let bytes = fs::read(path).map_err(unreadable)?;
    serde_json::from_slice(&bytes).map_err(|cause| SchemasError::NoJson { path: path.to_owned(), cause })
}

/// Finds the definitions that belong to a kind.
fn kinds(definitions: &Map<String, Value>) -> HashMap<(String, String), String> {
    let mut found = HashMap::new();
    for (name, definition) in definitions {
        let kinds = definition.get("x-kubernetes-group-version-kind").and_then(Value::as_array);
        // A definition with several kinds, such as `DeleteOptions`, is not the schema of one of
        // them.
        let [one] = kinds.map(Vec::as_slice).unwrap_or_default() else { continue };
        let text = |key: &str| one.get(key).and_then(Value::as_str).unwrap_or_default();
        let api_version = match text("group") {
            "" => text("version").to_owned(),
            group => format!("{group}/{}", text("version")),
        };
        found.insert((text("kind").to_owned(), api_version), name.clone());
    }
    found
}

/// Returns a definition with everything that it refers to, and no more: a cluster has hundreds of
/// definitions.
fn of_document(definitions: &Map<String, Value>, name: &str) -> Value {
    let mut reached = BTreeSet::new();
    let mut open = vec![name.to_owned()];
    while let Some(name) = open.pop() {
        if let Some(definition) = definitions.get(&name).filter(|_| !reached.contains(&name)) {
            references(definition, &mut open);
            reached.insert(name);
        }
    }
    let kept: Map<String, Value> = reached
        .into_iter()
        .filter_map(|name| Some((name.clone(), definitions.get(&name)?.clone())))
        .collect();
    json!({"allOf": [{"$ref": format!("{REFERENCE}{name}")}], "definitions": kept})
}

fn references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            if let Some(name) =
                map.get("$ref").and_then(Value::as_str).and_then(|to| to.strip_prefix(REFERENCE))
            {
                found.push(name.to_owned());
            }
            map.values().for_each(|value| references(value, found));
        }
        Value::Array(list) => list.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

/// Reports whether a kind or group is safe as a part of a file name. They come from packages, which
/// could otherwise lead to other files.
fn is_plain(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.')) && !text.contains("..")
}

fn of_folder(folder: &Path, kind: &str, api_version: &str) -> Result<Option<Value>, SchemasError> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    if ![kind, group, version].into_iter().all(is_plain) || kind.is_empty() {
        return Ok(None);
    }
    let kind = kind.to_lowercase();
    let names = match group.split('.').next().filter(|first| !first.is_empty()) {
        None => vec![format!("{kind}-{version}.json")],
        Some(first) => {
            vec![format!("{kind}-{first}-{version}.json"), format!("{group}/{kind}_{version}.json")]
        }
    };
    let place = names.into_iter().map(|name| folder.join(name)).find(|place| place.is_file());
    place.map(|place| read(&place)).transpose()
}

fn compile(
    mut schema: Value,
    strict: bool,
    kind: &str,
    api_version: &str,
) -> Result<Arc<Schema>, SchemasError> {
    let unusable = |cause: String| SchemasError::Unusable {
        kind: kind.to_owned(),
        api_version: api_version.to_owned(),
        cause,
    };
    if let Some(map) = schema.as_object_mut() {
        map.remove("$schema");
        if let Some(quantity) = map.get_mut("definitions").and_then(|all| all.get_mut(QUANTITY)) {
            *quantity = json!({"type": ["string", "number"]});
        }
        for definition in
            map.get_mut("definitions").and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut)
        {
            prepare(definition, strict);
        }
    }
    prepare(&mut schema, strict);
    let dialect = Dialect::of(&Value::Null, DIALECT).map_err(|error| unusable(error.to_string()))?;
    let schema = Schema::compile_with(schema, dialect, Formats::Ignored)
        .map_err(|error| unusable(error.to_string()))?;
    Ok(Arc::new(schema))
}

/// Translates the extensions of Kubernetes in a schema, such as `x-kubernetes-int-or-string`, to
/// keywords of JSON Schema. With `strict`, unknown fields become errors.
fn prepare(schema: &mut Value, strict: bool) {
    let Some(map) = schema.as_object_mut() else { return };
    if is_set(map, "x-kubernetes-int-or-string")
        || map.get("format").is_some_and(|format| format == "int-or-string")
    {
        map.insert("type".to_owned(), json!(["integer", "string"]));
        map.remove("format");
    }
    if is_set(map, "x-kubernetes-embedded-resource") {
        *schema = with_object_fields(schema.take());
    }
    let Some(map) = schema.as_object_mut() else { return };
    let keeps = is_set(map, "x-kubernetes-preserve-unknown-fields");
    if strict && !keeps && map.contains_key("properties") && !map.contains_key("additionalProperties") {
        map.insert("additionalProperties".to_owned(), false.into());
    }
    // Schemas inside of `anyOf` and the like list only some of the fields, so do not forbid others
    // there.
    let properties = map.get_mut("properties").and_then(Value::as_object_mut);
    properties.into_iter().flat_map(Map::values_mut).for_each(|member| prepare(member, strict));
    for member in ["items", "additionalProperties"] {
        if let Some(found) = map.get_mut(member) {
            prepare(found, strict);
        }
    }
}

fn is_set(schema: &Map<String, Value>, name: &str) -> bool {
    schema.get(name) == Some(&Value::Bool(true))
}

/// Adds the fields that every object has, if the schema does not have them.
fn with_object_fields(mut schema: Value) -> Value {
    let text = json!({"type": "string"});
    let fields: BTreeMap<&str, Value> =
        [("apiVersion", text.clone()), ("kind", text), ("metadata", json!({"type": "object"}))].into();
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        for (name, field) in fields {
            if properties.get(name).is_none() {
                properties.insert(name.to_owned(), field);
            }
        }
    }
    schema
}
