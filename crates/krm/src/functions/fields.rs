//! Fields by paths such as `spec/template/metadata/labels`; a part that ends with `[]` means every
//! item of a list.

use super::meter::Meter;
use groundwork_yaml::tree::{Content, Kind, Node, Notation, Pair};

/// Keys and values in their order in the file.
pub(super) type Strings = Vec<(String, String)>;

/// Calls a function with every map at a path. With `create`, missing maps on the path are created.
pub(super) fn visit(node: &mut Node, path: &str, create: bool, apply: &mut dyn FnMut(&mut Node)) {
    let map: fn() -> Node = || Node::mapping(Vec::new());
    descend(node, &split(path), create.then_some(map), apply);
}

/// Calls a function with every scalar at a path. With `create`, a missing scalar is created as
/// null.
///
/// # Errors
/// The path leads to a list or a map.
pub(super) fn visit_scalars(
    node: &mut Node,
    path: &str,
    create: bool,
    apply: &mut dyn FnMut(&mut Node),
) -> Result<(), String> {
    let null: fn() -> Node = || Node::plain("null");
    let mut are_scalars = true;
    descend(node, &split(path), create.then_some(null), &mut |node| match node.content {
        Content::Scalar(_) => apply(node),
        _ => are_scalars = false,
    });
    are_scalars
        .then_some(())
        .ok_or_else(|| format!("the field `{path}` is a list or a map, and cannot be set to a text"))
}

/// Splits a path at its slashes. A slash after a backslash belongs to a name.
fn split(path: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut chars = path.chars().peekable();
    while let Some(c) = chars.next() {
        let last = parts.len() - 1;
        match c {
            '\\' if chars.peek() == Some(&'/') => parts[last].extend(chars.next()),
            '/' => parts.push(String::new()),
            _ => parts[last].push(c),
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// Calls a function with every value at a path; `new` makes a missing one.
fn descend(node: &mut Node, path: &[String], new: Option<fn() -> Node>, apply: &mut dyn FnMut(&mut Node)) {
    let Some((first, rest)) = path.split_first() else { return apply(node) };
    if let Some(list) = node.as_sequence_mut() {
        // As in kustomize, a path goes on in every item, whether or not it has `[]`.
        for item in &mut list.items {
            descend(item, path, new, apply);
        }
        return;
    }
    let Some(mapping) = node.as_mapping_mut() else { return };
    if let Some(name) = first.strip_suffix("[]") {
        let list = mapping.get_mut(name).and_then(Node::as_sequence_mut);
        for item in list.into_iter().flat_map(|list| &mut list.items) {
            descend(item, rest, new, apply);
        }
        return;
    }
    if let Some(new) = new {
        let missing = || if rest.is_empty() { new() } else { Node::mapping(Vec::new()) };
        match mapping.get_mut(first) {
            Some(found) if found.is_null() => found.content = missing().content,
            Some(_) => {}
            None => mapping.pairs.push(Pair::new(first, missing())),
        }
    }
    if let Some(found) = mapping.get_mut(first) {
        descend(found, rest, new, apply);
    }
}

/// Returns the path of the pod template in a kind.
pub(super) fn template(group: &str, kind: &str) -> Option<&'static str> {
    match (kind, group) {
        ("Deployment" | "ReplicaSet" | "DaemonSet", _)
        | ("StatefulSet", "apps")
        | ("Job", "batch")
        | ("ReplicationController", "") => Some("spec/template"),
        ("CronJob", "batch") => Some("spec/jobTemplate/spec/template"),
        _ => None,
    }
}

/// Sets pairs of strings in a map: all of them, or only those whose keys exist. Returns how many of
/// the pairs the map contains afterwards, including those that needed no change.
pub(super) fn set_strings(map: &mut Node, values: &[(String, String)], create: bool, meter: &Meter) -> usize {
    let Some(mapping) = map.as_mapping_mut() else { return 0 };
    let mut count = 0;
    for (key, value) in values {
        if !meter.parts(mapping.pairs.len()) {
            break;
        }
        match mapping.get_mut(key) {
            Some(found) if found.as_str() == Some(value) => {}
            Some(found) if meter.bytes(value.len()) => found.set_text(value),
            None if create && meter.bytes(key.len() + value.len()) => {
                mapping.pairs.push(Pair::new(key, Node::string(value)));
            }
            Some(_) | None => continue,
        }
        count += 1;
    }
    count
}

/// Returns the pairs of a map of scalars.
pub(super) fn pairs(map: Option<&Node>) -> Strings {
    let pairs = map.and_then(Node::as_mapping).into_iter().flat_map(|map| &map.pairs);
    let text = |node: &Node| {
        let text = node.text()?;
        Some(if node.is_null() { String::new() } else { text.to_owned() })
    };
    pairs.filter_map(|pair| Some((pair.name().to_owned(), text(&pair.value)?))).collect()
}

/// Sets the text of a scalar. A quoted scalar stays quoted; otherwise the type follows from the
/// text.
pub(super) fn set_inferred(node: &mut Node, text: &str) {
    let is_quoted = matches!(
        &node.content,
        Content::Scalar(scalar) if matches!(scalar.notation, Notation::SingleQuoted | Notation::DoubleQuoted)
    );
    if node.text() == Some(text) && (is_quoted || !text.is_empty()) {
        return;
    }
    let plain = Node::plain(text);
    // Kubernetes reads YAML 1.1, where `on` and `off` without quotes are booleans. A field that was
    // one stays one.
    let stays_switch =
        !is_quoted && node.tag.is_none() && node.text().is_some_and(is_switch) && is_switch(text);
    if stays_switch {
        node.content = plain.content;
    } else if text.is_empty() || is_quoted || plain.kind() == Kind::String {
        // An empty text needs quotes too, since it would be null without them.
        node.set_text(text);
    } else {
        node.content = plain.content;
        node.tag = None;
    }
}

/// Reports whether a plain scalar is a boolean of YAML 1.1.
fn is_switch(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let is_cased = text == lower || text == lower.to_ascii_uppercase() || {
        let mut chars = text.chars();
        chars.next().is_some_and(|c| c.is_ascii_uppercase()) && chars.all(|c| c.is_ascii_lowercase())
    };
    is_cased && matches!(lower.as_str(), "on" | "off" | "yes" | "no" | "true" | "false")
}
