//! `local://`, `blueprint://` and `cd://` references in schemas (`blueprints.md` 3.7).
//!
//! Each referenced document is embedded once under `$defs` of the root. References inside it are
//! rewritten, so that pointers like `#/definitions/x` keep pointing into the document that contains
//! them.

use std::collections::{BTreeMap, BTreeSet};

use groundwork_api::Map as ApiMap;
use serde_json::{Map, Value, json};

use crate::filesystem::Filesystem;

/// Key for embedded documents, which an author is unlikely to use.
const EMBEDDED: &str = "groundwork-embedded";
/// Largest nesting depth of a schema.
const DEEPEST: usize = 200;

/// Keywords kept beside a reference: they contain no constraints, but targets of references. All
/// other ones are discarded.
const BESIDE_REFERENCE: [&str; 4] = ["$defs", "definitions", "$id", "$schema"];

/// Provider of the schema documents behind `cd://` references.
pub trait SchemaSource {
    /// Returns the document that `uri` (without fragment) leads to, from the view of the source's
    /// component.
    ///
    /// # Errors
    ///
    /// The reason as a sentence.
    fn schema(&self, uri: &str) -> Result<ForeignSchema, String>;

    /// Returns the component of this source, as `name:version`.
    fn component(&self) -> String;
}

/// Schema of another component.
pub struct ForeignSchema {
    pub document: Value,
    /// Component that owns the document. References inside are relative to it.
    pub owner: Box<dyn SchemaSource>,
}

impl std::fmt::Debug for ForeignSchema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ForeignSchema").field("owner", &self.owner.component()).finish_non_exhaustive()
    }
}

/// Error of a reference.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    #[error("error resolving reference at {path}.$ref: {problem}")]
    At { path: String, problem: String },
    #[error("invalid reference value at {path}.$ref: expected string, got {found}")]
    NoText { path: String, found: String },
    #[error("the schema is nested deeper than {DEEPEST} levels")]
    TooDeep,
}

/// Schema with every foreign document embedded.
pub(super) struct Resolved {
    pub(super) document: Value,
    /// True if the schema contains a document of a component, so that the result is valid for that
    /// component alone.
    pub(super) is_of_component: bool,
}

/// Embeds every foreign document.
pub(super) fn resolve(
    schema: &Value,
    local_types: &ApiMap<Value>,
    files: &Filesystem,
    source: Option<&dyn SchemaSource>,
) -> Result<Resolved, ReferenceError> {
    let mut resolver = Resolver { embedded: Map::new(), known: BTreeMap::new(), is_of_component: false };
    let names = part_names(schema);
    let place = DocumentContext { blueprint: Some((local_types, files)), source, base: String::new(), names };
    let root = resolver.walk(schema, &place, "", &mut Vec::new(), 0)?;
    let is_of_component = resolver.is_of_component;
    let Value::Object(mut root) = root else { return Ok(Resolved { document: root, is_of_component }) };
    if resolver.embedded.is_empty() {
        return Ok(Resolved { document: Value::Object(root), is_of_component });
    }
    // Older drafts ignore keywords beside a reference, including the embedded documents, so the
    // reference is moved into `allOf`.
    if let Some(reference) = root.remove("$ref") {
        root.insert("allOf".to_owned(), json!([{"$ref": reference}]));
    }
    let definitions = root.entry("$defs").or_insert_with(|| json!({}));
    if let Value::Object(definitions) = definitions {
        definitions.insert(EMBEDDED.to_owned(), json!({"$defs": resolver.embedded}));
    }
    Ok(Resolved { document: Value::Object(root), is_of_component })
}

/// Context of a document: the sources that its references can see, and the meaning of `#`.
struct DocumentContext<'a> {
    /// Absent inside documents of other components.
    blueprint: Option<(&'a ApiMap<Value>, &'a Filesystem)>,
    source: Option<&'a dyn SchemaSource>,
    /// JSON pointer of the embedded document, empty for the root.
    base: String,
    /// Names of the document's parts, to which fragments without a slash may lead.
    names: BTreeSet<String>,
}

impl DocumentContext<'_> {
    /// Returns a key that distinguishes equal references of different components.
    fn identity(&self, uri: &str) -> String {
        match self.source {
            Some(source) => format!("{}::{uri}", source.component()),
            None => uri.to_owned(),
        }
    }
}

struct Resolver {
    embedded: Map<String, Value>,
    /// Pointers of embedded documents by their identity.
    known: BTreeMap<String, String>,
    is_of_component: bool,
}

impl Resolver {
    fn walk(
        &mut self,
        value: &Value,
        place: &DocumentContext<'_>,
        path: &str,
        open: &mut Vec<String>,
        depth: usize,
    ) -> Result<Value, ReferenceError> {
        if depth > DEEPEST {
            return Err(ReferenceError::TooDeep);
        }
        match value {
            Value::Object(members) => match members.get("$ref") {
                Some(Value::String(reference)) => {
                    let target = self.reference(reference, place, path, open, depth)?;
                    let mut replaced = Map::from_iter([("$ref".to_owned(), Value::from(target))]);
                    for member in
                        BESIDE_REFERENCE.into_iter().filter_map(|member| members.get_key_value(member))
                    {
                        let path = format!("{path}.{}", member.0);
                        replaced
                            .insert(member.0.clone(), self.walk(member.1, place, &path, open, depth + 1)?);
                    }
                    Ok(Value::Object(replaced))
                }
                Some(other) => {
                    Err(ReferenceError::NoText { path: path.to_owned(), found: type_name(other).to_owned() })
                }
                None => {
                    let walk = |(key, value): (&String, &Value)| {
                        Ok((key.clone(), self.walk(value, place, &format!("{path}.{key}"), open, depth + 1)?))
                    };
                    members.iter().map(walk).collect::<Result<Map<_, _>, _>>().map(Value::Object)
                }
            },
            Value::Array(items) => {
                let walk = |(index, item): (usize, &Value)| {
                    self.walk(item, place, &format!("{path}[{index}]"), open, depth + 1)
                };
                items.iter().enumerate().map(walk).collect::<Result<_, _>>().map(Value::Array)
            }
            scalar => Ok(scalar.clone()),
        }
    }

    /// Returns the replacement for a reference.
    fn reference(
        &mut self,
        reference: &str,
        place: &DocumentContext<'_>,
        path: &str,
        open: &mut Vec<String>,
        depth: usize,
    ) -> Result<String, ReferenceError> {
        let at = |problem: String| ReferenceError::At { path: path.to_owned(), problem };
        let (uri, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        if uri.is_empty() && is_whole(fragment, &place.names) {
            return Ok(format!("#{}", place.base));
        }
        if uri.is_empty() && !place.base.is_empty() && fragment.starts_with('/') {
            return Ok(format!("#{}{fragment}", place.base));
        }
        if !["local://", "blueprint://", "cd://"].iter().any(|scheme| uri.starts_with(scheme)) {
            return Ok(reference.to_owned());
        }
        let identity = place.identity(reference);
        if open.contains(&identity) {
            return Err(at(match place.source {
                Some(source) => format!(
                    "cyclic references detected: reference {reference:?} from component {} is part of a cycle",
                    source.component()
                ),
                None => format!("cyclic references detected: reference {reference:?} is part of a cycle"),
            }));
        }
        open.push(identity);
        let pointer = self.embed(uri, place, path, open, depth)?;
        open.pop();
        let fragment = fragment.trim_matches('/');
        check_fragment(&self.embedded, &pointer, fragment).map_err(at)?;
        let root = format!("#/$defs/{EMBEDDED}/$defs/{pointer}");
        Ok(if fragment.is_empty() { root } else { format!("{root}/{fragment}") })
    }

    /// Embeds the document behind a URI, unless it is embedded already, and returns its key.
    fn embed(
        &mut self,
        uri: &str,
        place: &DocumentContext<'_>,
        path: &str,
        open: &mut Vec<String>,
        depth: usize,
    ) -> Result<String, ReferenceError> {
        let identity = place.identity(uri);
        if let Some(key) = self.known.get(&identity) {
            return Ok(key.clone());
        }
        let at = |problem: String| ReferenceError::At { path: path.to_owned(), problem };
        let key = format!("d{}-{}", self.known.len(), open.len());
        let base = format!("/$defs/{EMBEDDED}/$defs/{key}");
        let document = if uri.starts_with("cd://") {
            let source = place
                .source
                .ok_or_else(|| at("no component descriptor defined to resolve the ref".into()))?;
            self.is_of_component = true;
            let foreign = source
                .schema(uri)
                .map_err(|problem| at(format!("unable to fetch jsonschema for '{uri}': {problem}")))?;
            let names = part_names(&foreign.document);
            let inner = DocumentContext { blueprint: None, source: Some(&*foreign.owner), base, names };
            self.walk(&foreign.document, &inner, path, open, depth + 1)?
        } else {
            let document = own_document(uri, place).map_err(at)?;
            let names = part_names(&document);
            let inner = DocumentContext { blueprint: place.blueprint, source: place.source, base, names };
            self.walk(&document, &inner, path, open, depth + 1)?
        };
        self.embedded.insert(key.clone(), without_identity(document));
        self.known.insert(identity, key.clone());
        Ok(key)
    }
}

/// Reports whether a fragment means the whole document. The older validator reads a fragment in
/// this way if it does not begin with a slash and is not the name of a part, such as
/// `definitions/x`.
fn is_whole(fragment: &str, names: &BTreeSet<String>) -> bool {
    fragment.is_empty() || !fragment.starts_with('/') && !names.contains(fragment)
}

/// Returns the names of parts of a document: `$anchor`, and ids that are only a fragment.
fn part_names(schema: &Value) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut open = vec![schema];
    while let Some(value) = open.pop() {
        match value {
            Value::Object(members) => {
                let text = |keyword: &str| members.get(keyword).and_then(Value::as_str);
                let ids = ["$id", "id"].into_iter().filter_map(text).filter_map(|id| id.strip_prefix('#'));
                let anchors = ["$anchor", "$dynamicAnchor"].into_iter().filter_map(text);
                names.extend(ids.chain(anchors).map(str::to_owned));
                open.extend(members.values());
            }
            Value::Array(items) => open.extend(items),
            _ => {}
        }
    }
    names
}

/// Returns the references of a schema that mean the whole schema, although their fragments look
/// like paths in it, each once.
pub(crate) fn misread(schema: &Value) -> BTreeSet<String> {
    let names = part_names(schema);
    let mut found = BTreeSet::new();
    let mut open = vec![schema];
    while let Some(value) = open.pop() {
        match value {
            Value::Object(members) => {
                let reference = members.get("$ref").and_then(Value::as_str);
                let fragment = reference.and_then(|reference| reference.strip_prefix('#'));
                if let Some(fragment) = fragment.filter(|fragment| !fragment.is_empty())
                    && is_whole(fragment, &names)
                {
                    found.insert(fragment.to_owned());
                }
                open.extend(members.values());
            }
            Value::Array(items) => open.extend(items),
            _ => {}
        }
    }
    found
}

/// Returns a document of the blueprint itself.
fn own_document(uri: &str, place: &DocumentContext<'_>) -> Result<Value, String> {
    if let Some(name) = uri.strip_prefix("local://") {
        let (local_types, _) =
            place.blueprint.ok_or_else(|| format!("type {name} is not defined in local types"))?;
        if name.contains('/') {
            return Err("a path is not supported for local resources".to_owned());
        }
        return local_types
            .get(name)
            .cloned()
            .ok_or_else(|| format!("type {name} is not defined in local types"));
    }
    let path = uri.strip_prefix("blueprint://").unwrap_or(uri);
    let (_, files) = place.blueprint.ok_or("no filesystem defined to read a local schema")?;
    let content =
        files.read(path).map_err(|error| format!("unable to read local schema from {path}: {error}"))?;
    let text = String::from_utf8_lossy(content);
    groundwork_yaml::from_str(&text)
        .map_err(|error| format!("unable to read local schema from {path}: {error}"))
}

/// Removes the id of an embedded document. With an id, pointers into the root would be resolved
/// against the document.
fn without_identity(mut document: Value) -> Value {
    if let Value::Object(members) = &mut document {
        for member in ["$id", "$schema"] {
            members.remove(member);
        }
        if members.get("id").is_some_and(Value::is_string) {
            members.remove("id");
        }
    }
    document
}

fn check_fragment(embedded: &Map<String, Value>, key: &str, fragment: &str) -> Result<(), String> {
    let mut here = embedded.get(key).unwrap_or(&Value::Null);
    let mut walked = String::new();
    for step in fragment.split('/').filter(|step| !step.is_empty()) {
        let Value::Object(members) = here else {
            return Err(format!("unable to resolve fragment {fragment}: element at {walked:?} is no object"));
        };
        let name = step.replace("~1", "/").replace("~0", "~");
        here = members.get(&name).ok_or_else(|| {
            format!(
                "error resolving fragment {fragment}: element at {walked:?} doesn't have a field {name:?}"
            )
        })?;
        walked = if walked.is_empty() { name } else { format!("{walked}/{name}") };
    }
    Ok(())
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
