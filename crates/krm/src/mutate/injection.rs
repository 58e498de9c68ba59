//! Config injection (`packagevariants.md` 3.4): copies fields from objects of the cluster into
//! objects of the package.

use std::collections::BTreeMap;

use groundwork_api::InjectionSelector;
use groundwork_yaml::tree::{Content, Node, Pair};
use serde_json::Value;

use super::{Listed, Mutation, MutationError, only};
use crate::file::File;
use crate::ignore::Ignored;
use crate::json;
use crate::kptfile::write_strings;
use crate::package::{KPTFILE, Package, base_name, is_kptfile, is_yaml};

/// Annotation of an object that is an injection point.
const INJECTION: &str = "kpt.dev/config-injection";
/// Annotation with the name of the injected cluster object.
const MARKER: &str = "kpt.dev/injected-resource-name";
/// Annotation that Porch writes in place of [`MARKER`].
const OLD_MARKER: &str = "kpt.dev/injected-resource";
/// Prefix for the types of conditions.
const CONDITION: &str = "config.injection";

/// Injection point.
struct Point {
    file: String,
    document: usize,
    api_version: String,
    kind: String,
    condition: String,
    /// Value of the annotation, which should be `required` or `optional`.
    value: String,
    name: String,
}

/// Result for an injection point.
struct InjectionResult {
    is_injected: bool,
    message: String,
}

pub(super) fn apply(files: &mut Package, mutation: &Mutation<'_>) -> Result<(), MutationError> {
    let mut read = scan(files).map_err(MutationError::Injection)?;
    let points = points(&read);
    check(&points).map_err(MutationError::Injection)?;
    // The kind of the Kptfile is only checked here, so an invalid injection point is reported first
    // (`packagevariants.md` 3.3).
    let kind = files
        .get(KPTFILE)
        .and_then(|text| File::read(text).ok())
        .and_then(|file| Some(file.documents.first()?.root.str_at(&["kind"])? == KPTFILE));
    if kind != Some(true) {
        return Err(MutationError::Pipeline(mutation.lacks(KPTFILE, "kind", KPTFILE)));
    }
    if points.is_empty() {
        return Ok(());
    }
    // The validation has already reported invalid injectors.
    let selectors = mutation.variant.spec.injectors().unwrap_or_default();
    let mut outcomes = Vec::with_capacity(points.len());
    for point in &points {
        let document = read.get_mut(&point.file).and_then(|file| file.documents.get_mut(point.document));
        let Some(document) = document else { continue };
        outcomes.push(fill(&mut document.root, point, &selectors, mutation));
    }
    for (path, file) in &read {
        if !file.is_changed() {
            continue;
        }
        let Some(text) = files.get_mut(path) else { continue };
        *text = match file.documents.as_slice() {
            [document] if path.ends_with(".json") => json::write(&document.root, text),
            _ => file.text(),
        };
    }
    set_conditions(files, &points, &outcomes, mutation)
}

/// Parses all files that may contain injection points.
fn scan(files: &Package) -> Result<BTreeMap<String, File>, String> {
    let ignored = Ignored::of(files);
    let mut read = BTreeMap::new();
    for (path, text) in files {
        let is_read = is_yaml(path) || base_name(path).ends_with(".json") || is_kptfile(path);
        if !is_read || ignored.holds(path) {
            continue;
        }
        let file = File::read(text).map_err(|error| crate::file::unreadable(path, &error))?;
        for document in &file.documents {
            let kind = match document.root.content {
                Content::Mapping(_) => continue,
                Content::Sequence(_) => 2,
                Content::Scalar(_) => 8,
            };
            return Err(format!("{path}: failed to extract objects: unhandled node kind {kind}"));
        }
        read.insert(path.clone(), file);
    }
    Ok(read)
}

fn points(files: &BTreeMap<String, File>) -> Vec<Point> {
    let mut points = Vec::new();
    for (path, file) in files {
        for (index, document) in file.documents.iter().enumerate() {
            let text =
                |path: &[&str]| document.root.at(path).and_then(Node::text).unwrap_or_default().to_owned();
            let (api_version, kind) = (text(&["apiVersion"]), text(&["kind"]));
            let value = document.root.at(&["metadata", "annotations", INJECTION]).and_then(Node::text);
            let Some(value) = value.filter(|_| !api_version.is_empty() && !kind.is_empty()) else { continue };
            let name = text(&["metadata", "name"]);
            points.push(Point {
                file: path.clone(),
                document: index,
                condition: format!("{CONDITION}.{kind}.{name}"),
                api_version,
                kind,
                value: value.to_owned(),
                name,
            });
        }
    }
    points
}

/// Returns the errors that authors of packages have to correct (`packagevariants.md` 3.4.2).
fn check(points: &[Point]) -> Result<(), String> {
    let mut errors = Vec::new();
    let mut first: BTreeMap<&str, &str> = BTreeMap::new();
    for point in points {
        let Point { file, kind, name, value, condition, .. } = point;
        if !matches!(value.as_str(), "required" | "optional") {
            errors.push(format!(
                "{file}: {kind}/{name} has invalid {INJECTION:?} annotation value of {value:?}"
            ));
        }
        if let Some(before) = first.insert(condition, file) {
            errors.push(format!("duplicate injection conditionType {condition:?} ({before} and {file})"));
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(format!("errors in injection points: {}", errors.join(", "))) }
}

/// Fills an injection point if an object is selected for it (`packagevariants.md` 3.4.4 to 3.4.6).
fn fill(
    root: &mut Node,
    point: &Point,
    selectors: &[InjectionSelector],
    mutation: &Mutation<'_>,
) -> InjectionResult {
    let failed = |message: String| InjectionResult { is_injected: false, message };
    let Point { api_version, kind, .. } = point;
    if selectors.is_empty() {
        return failed("no injectors defined".to_owned());
    }
    let objects = match mutation.cluster.list(api_version, kind) {
        Listed::Failed(error) => return failed(error),
        Listed::ClusterScoped => {
            return failed(format!("kind {kind} is cluster-scoped and cannot be injected"));
        }
        Listed::Objects(objects) if objects.is_empty() => {
            return failed(format!("no in-cluster resources of type {api_version}.{kind}"));
        }
        Listed::Objects(objects) => objects,
    };
    let Some((name, object)) = select(point, selectors, &objects) else {
        return failed("no resource matched any injection selector for this injection point".to_owned());
    };
    let field = if api_version == "v1" && kind == "ConfigMap" { "data" } else { "spec" };
    let Some(value) = object.get(field).filter(|value| !value.is_null()) else {
        return failed(format!("field {field:?} not found in resource {name:?}"));
    };
    copy(root, field, value, name);
    InjectionResult { is_injected: true, message: format!("injected resource {name:?} from cluster") }
}

/// Returns the object of the first selector that matches one.
fn select<'a>(
    point: &Point,
    selectors: &'a [InjectionSelector],
    objects: &[&'a Value],
) -> Option<(&'a str, &'a Value)> {
    let (group, version) = point.api_version.split_once('/').unwrap_or(("", &point.api_version));
    let fits = |wanted: &Option<String>, found: &str| wanted.as_deref().is_none_or(|wanted| wanted == found);
    selectors.iter().find_map(|selector| {
        let matches = fits(&selector.group, group)
            && fits(&selector.version, version)
            && fits(&selector.kind, &point.kind);
        let named = |object: &&&Value| {
            object.pointer("/metadata/name").and_then(Value::as_str) == Some(&selector.name)
        };
        let object = objects.iter().find(named).filter(|_| matches)?;
        Some((selector.name.as_str(), *object))
    })
}

/// Copies a field, and writes the name of the cluster object. Equal values are not touched.
fn copy(root: &mut Node, field: &str, value: &Value, name: &str) {
    let mut new = Node::from_json(value);
    let marker = |key: &str| root.str_at(&["metadata", "annotations", key]) == Some(name);
    let is_marked = marker(MARKER) || marker(OLD_MARKER);
    let is_right = root.get(field).is_some_and(|old| old.equals(&new));
    if is_right && is_marked {
        return;
    }
    let Some(mapping) = root.as_mapping_mut() else { return };
    if !is_right {
        match mapping.get_mut(field) {
            Some(old) => {
                keep_comments(old, &mut new);
                *old = new;
            }
            None => mapping.pairs.push(Pair::new(field, new)),
        }
    }
    let annotations = mapping.get_mut("metadata").and_then(|metadata| metadata.get_mut("annotations"));
    if let Some(annotations) = annotations.and_then(Node::as_mapping_mut) {
        annotations.remove(OLD_MARKER);
        match annotations.get_mut(MARKER) {
            Some(old) => old.set_text(name),
            None => annotations.set(MARKER, Node::string(name)),
        }
    }
}

/// Copies the comments of keys that occur in both maps.
fn keep_comments(old: &Node, new: &mut Node) {
    new.comments = old.comments.clone();
    let (Some(old), Some(new)) = (old.as_mapping(), new.as_mapping_mut()) else { return };
    for pair in &mut new.pairs {
        if let Some(before) = old.pair(pair.key.text().unwrap_or_default()) {
            pair.key.comments = before.key.comments.clone();
            keep_comments(&before.value, &mut pair.value);
        }
    }
}

/// Writes gates and conditions of all injection points into the root Kptfile (`packagevariants.md`
/// 3.4.3).
fn set_conditions(
    files: &mut Package,
    points: &[Point],
    outcomes: &[InjectionResult],
    mutation: &Mutation<'_>,
) -> Result<(), MutationError> {
    let Some(text) = files.get_mut(KPTFILE) else { return Ok(()) };
    let mut file = mutation.single(KPTFILE, text).map_err(MutationError::Pipeline)?;
    let Some(document) = only(&mut file) else { return Ok(()) };
    let required =
        points.iter().filter(|point| point.value == "required").map(|point| point.condition.as_str());
    let gates_changed = add_gates(&mut document.root, &required.collect::<Vec<_>>());
    let conditions_changed = put_conditions(&mut document.root, points, outcomes);
    if gates_changed || conditions_changed {
        sort(&mut document.root, ["info", "readinessGates"], "conditionType", true);
        sort(&mut document.root, ["status", "conditions"], "type", false);
        write_strings(&mut document.root);
        *text = file.text();
    }
    Ok(())
}

/// Returns the list at a path, and creates a missing one.
fn list<'a>(root: &'a mut Node, [section, name]: [&str; 2]) -> Option<&'a mut Vec<Node>> {
    let mapping = root.as_mapping_mut()?;
    if mapping.get(section).is_none_or(|found| found.as_mapping().is_none()) {
        mapping.set(section, Node::mapping(Vec::new()));
    }
    let section = mapping.get_mut(section)?.as_mapping_mut()?;
    match section.get_mut(name) {
        Some(found) if found.as_sequence().is_some() => {}
        Some(found) => *found = Node::sequence(Vec::new()),
        // New fields come first, as kpt's tools write them.
        None => section.pairs.insert(0, Pair::new(name, Node::sequence(Vec::new()))),
    }
    Some(&mut section.get_mut(name)?.as_sequence_mut()?.items)
}

fn add_gates(root: &mut Node, required: &[&str]) -> bool {
    let has = |root: &Node, gate: &str| {
        let gates = root.at(&["info", "readinessGates"]).and_then(Node::as_sequence);
        gates.is_some_and(|gates| {
            gates.items.iter().any(|found| found.str_at(&["conditionType"]) == Some(gate))
        })
    };
    let missing: Vec<&&str> = required.iter().filter(|gate| !has(root, gate)).collect();
    if missing.is_empty() {
        return false;
    }
    if let Some(gates) = list(root, ["info", "readinessGates"]) {
        gates.extend(
            missing.iter().map(|gate| Node::mapping(vec![Pair::new("conditionType", Node::string(gate))])),
        );
    }
    true
}

fn put_conditions(root: &mut Node, points: &[Point], outcomes: &[InjectionResult]) -> bool {
    let wanted: Vec<[(&str, &str); 4]> = points
        .iter()
        .zip(outcomes)
        .map(|(point, outcome)| {
            let (status, reason) = if outcome.is_injected {
                ("True", "ConfigInjected")
            } else {
                ("False", "NoResourceSelected")
            };
            [
                ("type", point.condition.as_str()),
                ("status", status),
                ("message", &outcome.message),
                ("reason", reason),
            ]
        })
        .collect();
    let is_right = |found: &Node, wanted: &[(&str, &str); 4]| {
        wanted.iter().all(|(field, text)| found.get(field).and_then(Node::text) == Some(text))
    };
    let existing = root.at(&["status", "conditions"]).and_then(Node::as_sequence);
    let all_right = wanted.iter().all(|wanted| {
        let mut of_type = existing
            .iter()
            .flat_map(|list| &list.items)
            .filter(|found| found.str_at(&["type"]) == Some(wanted[0].1));
        of_type.next().is_some_and(|found| is_right(found, wanted)) && of_type.next().is_none()
    });
    if all_right {
        return false;
    }
    let Some(conditions) = list(root, ["status", "conditions"]) else { return false };
    for wanted in &wanted {
        let is_of_type = |found: &Node| found.str_at(&["type"]) == Some(wanted[0].1);
        let Some(at) = conditions.iter().position(is_of_type) else {
            let pairs = wanted.iter().map(|(field, text)| Pair::new(field, Node::string(text)));
            conditions.push(Node::mapping(pairs.collect()));
            continue;
        };
        let mut index = 0;
        conditions.retain(|found| {
            index += 1;
            index <= at + 1 || !is_of_type(found)
        });
        let Some(condition) = conditions.get_mut(at).and_then(Node::as_mapping_mut) else { continue };
        for (field, text) in wanted {
            match condition.get_mut(field) {
                Some(found) if found.text() == Some(text) => {}
                Some(found) => found.set_text(text),
                None => condition.set(field, Node::string(text)),
            }
        }
    }
    true
}

fn sort(root: &mut Node, path: [&str; 2], key: &str, is_unique: bool) {
    let list =
        root.get_mut(path[0]).and_then(|section| section.get_mut(path[1])).and_then(Node::as_sequence_mut);
    let Some(list) = list else { return };
    let text = |item: &Node| item.get(key).and_then(Node::text).unwrap_or_default().to_owned();
    list.items.sort_by_key(text);
    if is_unique {
        list.items.dedup_by(|next, before| next.equals(before));
    }
}
