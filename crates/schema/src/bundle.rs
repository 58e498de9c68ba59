//! Bundling of a schema and the documents that it refers to into one document (`helm.md` 5, R8).
//!
//! ```text
//! root ──reached──> references, by place
//!      ──address──> a part of the root, a document of the chart, a metaschema, or an error
//! documents ──rewritten──> every reference a pointer into one document, without ids
//! ```
//!
//! References count only in schemas that are applied to a value; other parts may refer to anything.
//! References are followed in the order of their places, those of other documents later. So if
//! several references lead to no document, the same one is reported each time.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};

use groundwork_go::text::quote;
use jsonschema::{Draft, uri};
use serde_json::{Map, Value};

use crate::dialect::{Dialect, draft_of};
use crate::explain::{PLACE, escaped, percent_decoded};
use crate::formats::Formats;
use crate::{InvalidSchemaError, cost, metaschema};

pub(crate) mod positions;
mod upgrade;

use positions::{REFERENCES, version};

/// Largest number of documents to which one schema may lead.
const MOST_DOCUMENTS: usize = 200;
/// Member of the root that contains the other documents, by their addresses.
const HOLDER: &str = "$files";

/// The reason why a schema and its documents cannot be bundled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BundleError {
    /// A reference leads to an address that no document has.
    #[error("schema reference {0} is not allowed")]
    NotHeld(String),
    /// A document is not a schema; the text is that of Helm's library.
    #[error("{0}")]
    NoSchema(String),
    #[error("error in parsing id at {}", quote(.0.as_bytes()))]
    Id(String),
    #[error("json-pointer in {} not found", quote(.0.as_bytes()))]
    Pointer(String),
    #[error("anchor in {} not found in schema {}", quote(.reference.as_bytes()), quote(.document.as_bytes()))]
    Anchor { reference: String, document: String },
    #[error("the schema refers to more than {MOST_DOCUMENTS} other documents")]
    TooMany,
    #[error(transparent)]
    Invalid(#[from] InvalidSchemaError),
}

/// A schema without references to other documents, and the settings for compiling it.
#[derive(Debug, Clone)]
pub struct Bundle {
    pub document: Value,
    pub dialect: Dialect,
    pub formats: Formats,
    /// Warnings about references by URN, which were replaced by a schema that accepts every value.
    pub warnings: Vec<String>,
}

/// Bundles a schema with the documents that it refers to. `default` is the URI of the dialect of
/// documents that do not name one; `find` returns the document with an address, which has no
/// fragment.
///
/// # Errors
///
/// A document is not a schema, or a reference leads to no document; see [`BundleError`].
pub fn bundle(
    root: Value,
    default: &str,
    find: &mut dyn FnMut(&str) -> Option<Value>,
) -> Result<Bundle, BundleError> {
    let default = Dialect::of(&Value::Null, default)?;
    let mut bundler = Bundler::new(find, default, true);
    bundler.add(PLACE.to_owned(), root)?;
    bundler.follow()?;
    bundler.finish()
}

/// Returns a metaschema, bundled with its vocabularies.
pub(crate) fn of_metaschema(root: Value, address: &str, dialect: Dialect) -> Value {
    let mut none = |_: &str| None;
    let mut bundler = Bundler::new(&mut none, dialect, false);
    let added = bundler.add(address.to_owned(), root).and_then(|_| bundler.follow());
    let bundled = added.and_then(|()| bundler.finish());
    bundled.map_or(Value::Bool(true), |bundle| bundle.document)
}

/// A part of a document.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Part {
    document: usize,
    pointer: String,
}

/// A part of a document with an address of its own.
#[derive(Debug, Default)]
struct Resource {
    address: String,
    /// Names of the resource's parts, with their pointers from the document.
    anchors: BTreeMap<String, String>,
    dynamic: BTreeSet<String>,
}

#[derive(Debug)]
struct Document {
    /// Address at which the document was found; its id may be another address.
    address: String,
    value: Value,
    dialect: Dialect,
    /// Resources by their pointers; the root is always one.
    resources: BTreeMap<String, Resource>,
    /// True if a part has an id, even one that is only a name. Such a document is always rewritten,
    /// because the engine refuses some ids that Helm's library accepts.
    has_ids: bool,
}

impl Document {
    fn draft(&self) -> Draft {
        self.dialect.draft()
    }

    /// Returns the resource of a part: the nearest one above it.
    fn resource(&self, pointer: &str) -> Option<(&str, &Resource)> {
        let mut pointer = pointer;
        loop {
            if let Some((at, resource)) = self.resources.get_key_value(pointer) {
                return Some((at, resource));
            }
            pointer = &pointer[..pointer.rfind('/')?];
        }
    }

    fn with_address(&self, address: &str) -> Option<(&str, &Resource)> {
        if self.address == address {
            return self.resource("");
        }
        let mut resources = self.resources.iter();
        resources
            .find(|(_, resource)| resource.address == address)
            .map(|(at, resource)| (at.as_str(), resource))
    }
}

struct Bundler<'f> {
    find: &'f mut dyn FnMut(&str) -> Option<Value>,
    default: Dialect,
    /// True if documents are checked against the metaschema.
    checks: bool,
    documents: Vec<Document>,
    waiting: VecDeque<Part>,
    reached: HashSet<Part>,
    /// Targets of the references, by their places and keywords.
    targets: BTreeMap<(Part, &'static str), Part>,
    warnings: Vec<String>,
}

impl<'f> Bundler<'f> {
    fn new(find: &'f mut dyn FnMut(&str) -> Option<Value>, default: Dialect, checks: bool) -> Self {
        Self {
            find,
            default,
            checks,
            documents: Vec::new(),
            waiting: VecDeque::new(),
            reached: HashSet::new(),
            targets: BTreeMap::new(),
            warnings: Vec::new(),
        }
    }

    /// Adds a document and returns its number.
    fn add(&mut self, address: String, value: Value) -> Result<usize, BundleError> {
        if self.documents.len() > MOST_DOCUMENTS {
            return Err(BundleError::TooMany);
        }
        let declared = value.get("$schema").and_then(Value::as_str);
        let dialect = match declared {
            Some(declared) => {
                draft_of(declared).map(Dialect::of_draft).ok_or(BundleError::NotHeld(declared.to_owned()))?
            }
            None => self.default,
        };
        let number = self.documents.len();
        let resources =
            BTreeMap::from([(String::new(), Resource { address: address.clone(), ..Resource::default() })]);
        let mut document = Document { address, value: Value::Null, dialect, resources, has_ids: false };
        let base = document.address.clone();
        collect(&mut document, &value, "", &base)?;
        if self.checks {
            cost::check_patterns(&value).map_err(|error| InvalidSchemaError(error.to_string()))?;
            if let Some(problem) =
                metaschema::problem(&value, dialect.draft(), &format!("{}#", document.address))
            {
                return Err(BundleError::NoSchema(problem));
            }
        }
        document.value = value;
        self.documents.push(document);
        self.reach(Part { document: number, pointer: String::new() });
        Ok(number)
    }

    fn reach(&mut self, part: Part) {
        if self.reached.insert(part.clone()) {
            self.waiting.push_back(part);
        }
    }

    /// Follows the references of all parts that are reached.
    fn follow(&mut self) -> Result<(), BundleError> {
        while let Some(part) = self.waiting.pop_front() {
            let document = &self.documents[part.document];
            let mut found = Vec::new();
            if let Some(schema) = document.value.pointer(&part.pointer) {
                references(schema, document.draft(), &part.pointer, &mut found);
            }
            for (pointer, keyword, reference) in found {
                let at = Part { document: part.document, pointer };
                let target = self.target(&at, keyword, &reference)?;
                self.targets.insert((at, keyword), target.clone());
                self.reach(target);
            }
        }
        Ok(())
    }

    /// Returns the part to which a reference leads.
    fn target(&mut self, at: &Part, keyword: &str, reference: &str) -> Result<Part, BundleError> {
        let (written, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let base =
            self.documents[at.document].resource(&at.pointer).map(|(_, resource)| resource.address.clone());
        let base = base.unwrap_or_default();
        let not_held = || BundleError::NotHeld(shown(&base, reference));
        let address =
            if written.is_empty() { base.clone() } else { joined(&base, written).ok_or_else(not_held)? };
        let number = match self.holder(at.document, &address) {
            Some(number) => number,
            None => self.load(&address)?.ok_or_else(not_held)?,
        };
        let document = &self.documents[number];
        let (start, resource) = document.with_address(&address).ok_or_else(not_held)?;
        let fragment = percent_decoded(fragment);
        let pointer = if fragment.is_empty() || fragment.starts_with('/') {
            format!("{start}{fragment}")
        } else {
            resource.anchors.get(&fragment).cloned().ok_or_else(|| BundleError::Anchor {
                reference: format!("{address}#{fragment}"),
                document: document.address.clone(),
            })?
        };
        let target = self.dynamic(keyword, &fragment, Part { document: number, pointer });
        self.check_part(&target)?;
        Ok(target)
    }

    /// Returns the document with an address, beginning with the current one.
    fn holder(&self, own: usize, address: &str) -> Option<usize> {
        let has = |number: &usize| self.documents[*number].with_address(address).is_some();
        if has(&own) {
            return Some(own);
        }
        // In other documents only the root is found by its address, not the parts inside.
        self.documents.iter().position(|document| {
            document.address == address
                || document.resources.get("").is_some_and(|resource| resource.address == address)
        })
    }

    fn load(&mut self, address: &str) -> Result<Option<usize>, BundleError> {
        let found = (self.find)(address).or_else(|| metaschema::document(address).cloned());
        let found = found.or_else(|| {
            let is_name = address.starts_with("urn:");
            is_name.then(|| {
                self.warnings.push(format!(
                    "WARNING: unresolved URN reference ignored; using permissive schema: {address}"
                ));
                Value::Bool(true)
            })
        });
        found.map(|value| self.add(address.to_owned(), value)).transpose()
    }

    /// Checks a part that a reference leads to. It may be at a place where the drafts have no
    /// schema, so it was not checked before.
    fn check_part(&mut self, part: &Part) -> Result<(), BundleError> {
        if self.reached.contains(part) {
            return Ok(());
        }
        let document = &self.documents[part.document];
        let place = || format!("{}#{}", document.address, part.pointer);
        let Some(schema) = document.value.pointer(&part.pointer) else {
            return Err(BundleError::Pointer(place()));
        };
        if positions::is_position(&document.value, document.draft(), &part.pointer) {
            return Ok(());
        }
        if self.checks
            && let Some(problem) = metaschema::problem(schema, document.draft(), &place())
        {
            return Err(BundleError::NoSchema(problem));
        }
        let schema = schema.clone();
        let base = document.resource(&part.pointer).map(|(_, resource)| resource.address.clone());
        collect(&mut self.documents[part.document], &schema, &part.pointer, &base.unwrap_or_default())
    }

    /// Resolves `$dynamicRef` and `$recursiveRef`: they lead to the outermost schema that has the
    /// matching anchor. Among several documents the one that was reached first counts as the
    /// outermost.
    fn dynamic(&self, keyword: &str, fragment: &str, target: Part) -> Part {
        let parts = || {
            self.documents.iter().enumerate().flat_map(|(document, known)| {
                known.resources.iter().map(move |(pointer, resource)| (document, known, pointer, resource))
            })
        };
        let found = match keyword {
            "$dynamicRef" => {
                let own = self.documents[target.document].resource(&target.pointer);
                if !own.is_some_and(|(_, own)| own.dynamic.contains(fragment)) {
                    return target;
                }
                parts().find_map(|(document, _, _, resource)| {
                    let pointer =
                        resource.anchors.get(fragment).filter(|_| resource.dynamic.contains(fragment))?;
                    Some(Part { document, pointer: pointer.clone() })
                })
            }
            "$recursiveRef" => {
                let agrees = |document: &Document, pointer: &str| {
                    let part = document.value.pointer(pointer);
                    part.and_then(|part| part.get("$recursiveAnchor")) == Some(&Value::Bool(true))
                };
                if !agrees(&self.documents[target.document], &target.pointer) {
                    return target;
                }
                parts().find_map(|(number, document, pointer, _)| {
                    agrees(document, pointer).then(|| Part { document: number, pointer: pointer.clone() })
                })
            }
            _ => None,
        };
        found.unwrap_or(target)
    }

    /// Returns true if the root needs no rewriting, because the engine itself can follow its
    /// references.
    fn is_plain(&self) -> bool {
        let [root] = &self.documents[..] else { return false };
        !root.has_ids && !has_foreign(&root.value)
    }

    fn finish(mut self) -> Result<Bundle, BundleError> {
        let asserts = self.documents.iter().any(|document| document.dialect.is_before_2019());
        let formats = if asserts { Formats::Helm } else { Formats::Ignored };
        let Some(root) = self.documents.first() else { return Err(BundleError::TooMany) };
        if self.is_plain() {
            let dialect = root.dialect;
            let document = std::mem::take(&mut self.documents[0].value);
            return Ok(Bundle { document, dialect, formats, warnings: self.warnings });
        }
        let newest = self.documents.iter().map(Document::draft).max_by_key(|draft| version(*draft));
        let newest = newest.unwrap_or(Draft::Draft202012);
        self.point();
        let reached = std::mem::take(&mut self.reached);
        let mut reached: Vec<Part> = reached.into_iter().collect();
        reached.sort();
        for (number, document) in self.documents.iter_mut().enumerate() {
            let own = || reached.iter().filter(|part| part.document == number);
            let is_reached = |pointer: &str| own().any(|part| part.pointer.starts_with(pointer));
            upgrade::drop_unknown(&mut document.value, document.dialect.draft(), newest, &is_reached);
        }
        for part in reached {
            let document = &mut self.documents[part.document];
            let (draft, drops_formats) = (document.draft(), asserts && !document.dialect.is_before_2019());
            let Some(schema) = document.value.pointer_mut(&part.pointer) else { continue };
            positions::change(schema, draft, &mut |members| {
                unname(members, draft);
                if drops_formats {
                    members.remove("format");
                }
                upgrade::upgrade(members, draft, newest);
            });
        }
        let mut documents = self.documents.into_iter();
        let mut root = documents.next().map_or(Value::Null, |document| document.value);
        drop_foreign(&mut root);
        if let Value::Object(members) = &mut root {
            let held = documents.map(|mut document| {
                drop_foreign(&mut document.value);
                (document.address, document.value)
            });
            let held: Map<String, Value> = held.collect();
            if !held.is_empty() {
                members.insert(HOLDER.to_owned(), Value::Object(held));
            }
        }
        Ok(Bundle { document: root, dialect: Dialect::of_draft(newest), formats, warnings: self.warnings })
    }

    /// Turns each followed reference into a pointer into the one document, and removes the others.
    fn point(&mut self) {
        for number in 0..self.documents.len() {
            let draft = self.documents[number].draft();
            let mut reached: Vec<&Part> =
                self.reached.iter().filter(|part| part.document == number).collect();
            reached.sort();
            for part in reached {
                if let Some(schema) = self.documents[number].value.pointer_mut(&part.pointer) {
                    positions::change(schema, draft, &mut |members| {
                        for (keyword, _) in REFERENCES {
                            if members.get(keyword).is_some_and(Value::is_string) {
                                members.remove(keyword);
                            }
                        }
                    });
                }
            }
        }
        for ((at, keyword), target) in &self.targets {
            let pointer = match target.document {
                0 => target.pointer.clone(),
                number => {
                    format!("/{HOLDER}/{}{}", escaped(&self.documents[number].address), target.pointer)
                }
            };
            let reference = Value::String(format!("#{}", encoded(&pointer)));
            let schema = self.documents[at.document].value.pointer_mut(&at.pointer);
            let Some(Value::Object(members)) = schema else { continue };
            if *keyword == "$ref" || !members.contains_key("$ref") {
                members.insert("$ref".to_owned(), reference);
            } else if let Value::Array(rules) =
                members.entry("allOf").or_insert_with(|| Value::Array(Vec::new()))
            {
                rules.push(Value::Object(Map::from_iter([("$ref".to_owned(), reference)])));
            }
        }
    }
}

/// Records the addresses and names of parts of a document, from one of its schemas on.
fn collect(document: &mut Document, schema: &Value, pointer: &str, base: &str) -> Result<(), BundleError> {
    let draft = document.draft();
    let Value::Object(members) = schema else { return Ok(()) };
    let is_old = version(draft) < 2019;
    let keyword = if draft == Draft::Draft4 { "id" } else { "$id" };
    let id =
        members.get(keyword).and_then(Value::as_str).filter(|_| !(is_old && members.contains_key("$ref")));
    let mut base = base.to_owned();
    if let Some(id) = id {
        document.has_ids = true;
        let (address, name) = id.split_once('#').unwrap_or((id, ""));
        if !address.is_empty() {
            let place = || BundleError::Id(format!("{}#{pointer}", document.address));
            base = joined(&base, address).ok_or_else(place)?;
            let resource = Resource { address: base.clone(), ..Resource::default() };
            document.resources.insert(pointer.to_owned(), resource);
        }
        if is_old && !name.is_empty() && !name.starts_with('/') {
            name_part(document, pointer, name, false);
        }
    }
    for (keyword, since, is_dynamic) in [("$anchor", 2019, false), ("$dynamicAnchor", 2020, true)] {
        if let Some(name) = members.get(keyword).and_then(Value::as_str).filter(|_| version(draft) >= since) {
            name_part(document, pointer, name, is_dynamic);
        }
    }
    for (end, below) in positions::below(schema, draft, false) {
        collect(document, below, &format!("{pointer}{end}"), &base)?;
    }
    Ok(())
}

fn name_part(document: &mut Document, pointer: &str, name: &str, is_dynamic: bool) {
    let owner = document.resource(pointer).map(|(at, _)| at.to_owned()).unwrap_or_default();
    if let Some(resource) = document.resources.get_mut(&owner) {
        resource.anchors.entry(name.to_owned()).or_insert_with(|| pointer.to_owned());
        if is_dynamic {
            resource.dynamic.insert(name.to_owned());
        }
    }
}

/// Collects the references of a schema and of the schemas that it applies, with their places.
fn references(schema: &Value, draft: Draft, pointer: &str, found: &mut Vec<(String, &'static str, String)>) {
    for (keyword, _) in REFERENCES.into_iter().filter(|(_, since)| *since <= version(draft)) {
        if let Some(reference) = schema.get(keyword).and_then(Value::as_str) {
            found.push((pointer.to_owned(), keyword, reference.to_owned()));
        }
    }
    for (end, below) in positions::below(schema, draft, true) {
        references(below, draft, &format!("{pointer}{end}"), found);
    }
}

/// Returns true if any reference leads to an address, even one that is not reached, because the
/// engine looks up every address that it finds.
fn has_foreign(value: &Value) -> bool {
    match value {
        Value::Object(members) => {
            members.iter().any(|(keyword, rule)| is_foreign(keyword, rule) || has_foreign(rule))
        }
        Value::Array(items) => items.iter().any(has_foreign),
        _ => false,
    }
}

/// Returns true if a reference must be rewritten. Pointers with characters that the engine refuses
/// there count, too.
fn is_foreign(keyword: &str, rule: &Value) -> bool {
    let is_reference = REFERENCES.iter().any(|(name, _)| *name == keyword);
    let fragment = rule.as_str().map(|reference| reference.strip_prefix('#'));
    is_reference
        && fragment.is_some_and(|fragment| {
            fragment.is_none_or(|fragment| !fragment.bytes().all(|byte| is_plain(byte) || byte == b'%'))
        })
}

/// Removes references that are not followed. Data in `enum` and `const` is not changed.
fn drop_foreign(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|keyword, rule| !is_foreign(keyword, rule));
            let rules =
                members.iter_mut().filter(|(keyword, _)| !matches!(keyword.as_str(), "enum" | "const"));
            rules.for_each(|(_, rule)| drop_foreign(rule));
        }
        Value::Array(items) => items.iter_mut().for_each(drop_foreign),
        _ => {}
    }
}

/// Removes the keywords that give a schema an address or a name, since all references are pointers.
fn unname(members: &mut Map<String, Value>, draft: Draft) {
    let id = if draft == Draft::Draft4 { "id" } else { "$id" };
    for keyword in [id, "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$schema"] {
        if members.get(keyword).is_some_and(|value| value.is_string() || value.is_boolean()) {
            members.remove(keyword);
        }
    }
}

/// Returns the document, and the pointer in it, from which a part of the bundle comes. `pointer` is
/// the pointer of the part in the bundle.
pub(crate) fn origin(pointer: &str) -> String {
    let held = pointer.strip_prefix('/').and_then(|rest| rest.strip_prefix(HOLDER)?.strip_prefix('/'));
    match held {
        Some(held) => {
            let (name, rest) = held.split_at(held.find('/').unwrap_or(held.len()));
            format!("{}#{rest}", name.replace("~1", "/").replace("~0", "~"))
        }
        None => format!("{PLACE}#{pointer}"),
    }
}

/// Returns a reference as messages show it: resolved against the address of an id, or as it is
/// written.
fn shown(base: &str, reference: &str) -> String {
    let (written, fragment) = reference.split_once('#').map_or((reference, None), |(a, b)| (a, Some(b)));
    let address = if base.starts_with("file:") { None } else { joined(base, written) };
    match (address, fragment) {
        (Some(address), Some(fragment)) if !written.contains(':') => format!("{address}#{fragment}"),
        (Some(address), None) if !written.contains(':') => address,
        _ => reference.to_owned(),
    }
}

/// Resolves a reference against an address. Returns it in the normal form of addresses, or `None`
/// if one of them is not an address.
pub fn joined(base: &str, reference: &str) -> Option<String> {
    let base = uri::from_str(base).ok()?;
    let joined = uri::resolve_against(&base.borrow(), reference).ok()?;
    Some(joined.as_str().to_owned())
}

/// Escapes a pointer for the fragment of a reference.
fn encoded(pointer: &str) -> String {
    pointer.bytes().fold(String::with_capacity(pointer.len()), |mut out, byte| {
        if is_plain(byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
        out
    })
}

/// Returns true for a byte that needs no escape in a fragment.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"/~-._!$&'()*+,;=:@".contains(&byte)
}

#[cfg(test)]
mod tests;
