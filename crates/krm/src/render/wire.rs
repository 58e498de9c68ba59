//! Wire format of functions in other programs (`packagevariants.md` 8.3): one YAML document with
//! all objects.
//!
//! Annotations identify the origin of each object, so that the output can be matched with the
//! input. Parts that the function did not change keep their quotes, form, order and comments,
//! although the function saw only data.

use std::collections::BTreeMap;

use groundwork_api::ResultItem;
use groundwork_yaml::tree::{Content, Kind, Layout, Node, Notation, Pair, compose, write};
use serde_json::Value;

use super::function::clean;
use super::list::{Item, Outcome, ResourceList};
use super::run::shown;
use crate::comments::copy;
use crate::value::{canonical_with_comments, to_json};

const API_VERSION: &str = "config.kubernetes.io/v1";
const KIND: &str = "ResourceList";
/// Annotation with the path, and its older spelling.
const PATH: [&str; 2] = ["internal.config.kubernetes.io/path", "config.kubernetes.io/path"];
const INDEX: [&str; 2] = ["internal.config.kubernetes.io/index", "config.kubernetes.io/index"];
const ID: [&str; 2] = ["internal.config.kubernetes.io/id", "config.k8s.io/id"];
const PACKAGE: &str = "internal.config.kubernetes.io/package-path";
/// Prefix of annotations that are only for tools.
const INTERNAL: &str = "internal.config.kubernetes.io/";

/// Output of a program that ran a function.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// Document on the standard output of the program.
    pub output: Vec<u8>,
    /// Standard error of the program, for users.
    pub log: String,
    pub exit_code: i32,
    /// Limit that the program exceeded, in the words of `packagevariants.md` 8.4; its output is
    /// discarded then.
    pub exceeded: Option<String>,
}

/// Applies a program that reads and writes documents to a list.
///
/// # Errors
/// The error of the program, if it did not run the function.
pub fn on_wire<E>(
    list: &mut ResourceList,
    run: impl FnOnce(String) -> Result<Answer, E>,
) -> Result<Outcome, E> {
    let Answer { output, log, exit_code, exceeded } = run(document(list))?;
    let mut outcome = Outcome { exit_code, stderr: log, error: exceeded, ..Outcome::default() };
    let read = if outcome.error.is_some() { return Ok(outcome) } else { read(&output, &list.items) };
    match read {
        Ok((items, results)) => {
            list.items = items;
            outcome.results = results.into();
        }
        // A failed function may have no output.
        Err(_) if exit_code != 0 => {}
        Err(problem) => outcome.error = Some(not_a_list(&problem)),
    }
    Ok(outcome)
}

/// Applies a function in process that reads and writes trees to a list. Its results are ignored.
///
/// # Errors
/// The error of the function, or the reason why its output is not a list of objects.
pub(crate) fn on_tree(
    list: &mut ResourceList,
    run: impl FnOnce(&Node) -> Result<Node, String>,
) -> Result<(), String> {
    let output = run(&envelope(list))?;
    let (items, _) = take(output, &list.items).map_err(|problem| not_a_list(&problem))?;
    list.items = items;
    Ok(())
}

fn not_a_list(problem: &str) -> String {
    format!("output is not a {KIND}: {problem}")
}

/// Returns the document of a list.
fn document(list: &ResourceList) -> String {
    write(&envelope(list), Layout::default())
}

/// Returns the tree of a list.
fn envelope(list: &ResourceList) -> Node {
    let text = |key: &str, value: &str| Pair::new(key, Node::string(value));
    let items = list.items.iter().map(annotated).collect();
    let mut pairs =
        vec![text("apiVersion", API_VERSION), text("kind", KIND), Pair::new("items", Node::sequence(items))];
    pairs.extend(list.config.as_ref().map(|config| Pair::new("functionConfig", config.clone())));
    Node::mapping(pairs)
}

/// Returns an object with the annotations that identify its origin.
fn annotated(item: &Item) -> Node {
    let mut root = item.root.clone();
    strip(&mut root);
    let mut values = Vec::new();
    values.extend(item.path.iter().flat_map(|path| PATH.map(|name| (name, path.clone()))));
    values.extend(item.place().iter().flat_map(|index| INDEX.map(|name| (name, index.to_string()))));
    values.push((PACKAGE, shown(&item.package).to_owned()));
    values.extend(item.id.iter().flat_map(|id| ID.map(|name| (name, id.to_string()))));
    let empty = || Node::mapping(Vec::new());
    let Some(root_map) = root.as_mapping_mut() else { return root };
    if root_map.get("metadata").is_none_or(|metadata| metadata.as_mapping().is_none()) {
        root_map.set("metadata", empty());
    }
    let Some(metadata) = root_map.get_mut("metadata").and_then(Node::as_mapping_mut) else { return root };
    if metadata.get("annotations").is_none_or(|annotations| annotations.as_mapping().is_none()) {
        metadata.set("annotations", empty());
    }
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Node::as_mapping_mut) {
        annotations.pairs.extend(values.iter().map(|(name, value)| Pair::new(name, Node::string(value))));
    }
    root
}

/// Removes the annotations that identify an object's origin.
fn strip(root: &mut Node) {
    let Some(metadata) = root.get_mut("metadata").and_then(Node::as_mapping_mut) else { return };
    let Some(annotations) = metadata.get_mut("annotations").and_then(Node::as_mapping_mut) else { return };
    let before = annotations.pairs.len();
    annotations.pairs.retain(|pair| {
        let name = pair.name();
        !name.starts_with(INTERNAL) && ![PATH[1], INDEX[1], ID[1]].contains(&name)
    });
    // An annotations map that becomes empty here is removed; one that was empty in the source
    // stays.
    if annotations.pairs.is_empty() && before > 0 {
        metadata.remove("annotations");
    }
}

/// Parses the objects and results of a document.
fn read(output: &[u8], input: &[Item]) -> Result<(Vec<Item>, Vec<ResultItem>), String> {
    let text = std::str::from_utf8(output).map_err(|_| "it is not UTF-8".to_owned())?;
    let tree =
        compose(text).map_err(|error| format!("line {}: {}", error.position().line, error.message()))?;
    take(tree.root.ok_or_else(|| "it is empty".to_owned())?, input)
}

/// Extracts the objects and results of a tree.
fn take(mut root: Node, input: &[Item]) -> Result<(Vec<Item>, Vec<ResultItem>), String> {
    if root.get("kind").and_then(Node::text) != Some(KIND) {
        return Err(format!("its kind is not {KIND}"));
    }
    if root.as_mapping().is_some_and(|root| root.is_flow) {
        unfold(&mut root);
    }
    let results = results(root.get("results"));
    let mut known: BTreeMap<usize, &Item> = input.iter().filter_map(|item| Some((item.id?, item))).collect();
    let mut items = Vec::new();
    if let Some(found) = root.get_mut("items").filter(|items| !items.is_null()) {
        let list = found.as_sequence_mut().ok_or_else(|| "items is not a list".to_owned())?;
        for (at, node) in std::mem::take(&mut list.items).into_iter().enumerate() {
            if node.as_mapping().is_none() {
                return Err(format!("items[{at}] is not an object"));
            }
            items.push(item(node, &mut known));
        }
    }
    Ok((items, results))
}

/// Matches an output object with its input. Each input is matched once; a second copy is a new
/// object.
fn item(mut root: Node, known: &mut BTreeMap<usize, &Item>) -> Item {
    let annotation = |name: &str| {
        let value = root.at(&["metadata", "annotations", name]).filter(|value| !value.is_null());
        value.and_then(Node::text).map(str::to_owned)
    };
    let id = ID.iter().find_map(|name| annotation(name)?.parse().ok());
    let before = id.and_then(|id| known.remove(&id));
    let old_path = before.and_then(|item| item.path.clone());
    let old_index = before.and_then(Item::place).map(|index| index.to_string());
    let path = changed(old_path.as_deref(), PATH.map(annotation));
    let index = changed(old_index.as_deref(), INDEX.map(annotation));
    let path = path.map(|path| if path.starts_with('/') { path } else { clean(&path) });
    strip(&mut root);
    let is_moved = path != old_path || index != old_index;
    let Some(before) = before else {
        return Item { index: index.and_then(|index| index.parse().ok()), ..Item::new(root, path) };
    };
    let mut original = before.root.clone();
    strip(&mut original);
    if original.get("metadata").is_none() && root.get("metadata").is_some_and(is_empty) {
        root.as_mapping_mut().map(|root| root.remove("metadata"));
    }
    let annotations = original.at(&["metadata", "annotations"]).filter(|annotations| is_empty(annotations));
    if let (Some(empty), Some(metadata)) =
        (annotations, root.get_mut("metadata").and_then(Node::as_mapping_mut))
        && metadata.get("annotations").is_none()
    {
        metadata.set("annotations", empty.clone());
    }
    copy(&original, &mut root);
    settle(&original, &mut root);
    let index = index.filter(|_| is_moved).and_then(|index| index.parse().ok());
    Item { root, path, index: index.or(before.index), ..before.clone() }
}

fn is_empty(node: &Node) -> bool {
    node.as_mapping().is_some_and(|mapping| mapping.pairs.is_empty())
}

/// Returns the value of an annotation with two spellings: the one that was changed.
fn changed(old: Option<&str>, [new, legacy]: [Option<String>; 2]) -> Option<String> {
    match (new, legacy) {
        (Some(new), Some(legacy)) => Some(if Some(new.as_str()) == old { legacy } else { new }),
        (new, legacy) => new.or(legacy),
    }
}

/// Restores the quotes, order and comments of the parts that the function did not change.
fn settle(old: &Node, new: &mut Node) {
    if canonical_with_comments(old) == canonical_with_comments(new) {
        *new = old.clone();
        return;
    }
    // Functions written in Go write `1.0` as `1`, and `0644` as `420`.
    if is_same_number(old, new) {
        new.content = old.content.clone();
        new.tag.clone_from(&old.tag);
        return;
    }
    match (&old.content, &mut new.content) {
        (Content::Mapping(old), Content::Mapping(new)) => {
            new.is_flow = old.is_flow;
            for pair in &mut new.pairs {
                if let Some(before) = old.pair(pair.key.text().unwrap_or_default()) {
                    settle(&before.key, &mut pair.key);
                    settle(&before.value, &mut pair.value);
                }
            }
        }
        (Content::Sequence(old), Content::Sequence(new)) => {
            new.is_flow = old.is_flow;
            old.items.iter().zip(&mut new.items).for_each(|(old, new)| settle(old, new));
        }
        _ => {}
    }
}

/// Reports whether two scalars are the same number, of which one is a float or an octal integer of
/// YAML 1.1.
fn is_same_number(old: &Node, new: &Node) -> bool {
    let octal = |node: &Node| {
        let digits = node.text().filter(|_| node.kind() == Kind::Int)?;
        let is_octal = digits.len() > 1 && digits.starts_with('0');
        u32::from_str_radix(digits, 8).ok().filter(|_| is_octal).map(f64::from)
    };
    let number = |node: &Node| match node.kind() {
        Kind::Int | Kind::Float => octal(node).or_else(|| node.text()?.parse().ok()),
        _ => None,
    };
    let is_special = |node: &Node| node.kind() == Kind::Float || octal(node).is_some();
    (is_special(old) || is_special(new)) && number(old).is_some_and(|value| number(new) == Some(value))
}

/// Lays out JSON as block-style YAML.
fn unfold(node: &mut Node) {
    match &mut node.content {
        Content::Mapping(mapping) => {
            mapping.is_flow = false;
            for pair in &mut mapping.pairs {
                unfold(&mut pair.key);
                unfold(&mut pair.value);
            }
        }
        Content::Sequence(sequence) => {
            sequence.is_flow = false;
            sequence.items.iter_mut().for_each(unfold);
        }
        Content::Scalar(scalar) if scalar.notation == Notation::DoubleQuoted => {
            let plain = Node::string(&scalar.text);
            node.content = plain.content;
        }
        Content::Scalar(_) => {}
    }
}

/// Parses results, in all forms that functions write.
fn results(node: Option<&Node>) -> Vec<ResultItem> {
    let list = node.and_then(|node| node.as_sequence().or_else(|| node.get("items")?.as_sequence()));
    list.into_iter().flat_map(|list| &list.items).map(result).collect()
}

fn result(node: &Node) -> ResultItem {
    let mut value = to_json(node);
    if let Some(reference) = value.get_mut("resourceRef").and_then(Value::as_object_mut)
        && let Some(Value::Object(metadata)) = reference.remove("metadata")
    {
        for key in ["name", "namespace"] {
            let given = metadata.get(key).cloned();
            given.map(|given| reference.entry(key).or_insert(given));
        }
    }
    if let Some(field) = value.get_mut("field").and_then(Value::as_object_mut)
        && let Some(suggested) = field.remove("suggestedValue")
    {
        field.entry("proposedValue").or_insert(suggested);
    }
    let text =
        |key: &str| node.get(key).filter(|value| !value.is_null()).and_then(Node::text).map(str::to_owned);
    if let Value::Object(members) = &mut value {
        members.retain(|key, _| !matches!(key.as_str(), "message" | "severity"));
    }
    // Invalid fields are left out, since the message is what matters.
    let rest: ResultItem = serde_json::from_value(value).unwrap_or_default();
    ResultItem { message: text("message"), severity: text("severity"), ..rest }
}

#[cfg(test)]
mod tests;
