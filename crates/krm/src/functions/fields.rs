//! Fields by paths such as `spec/template/metadata/labels`; a part that ends with `[]` means every
//! item of a list.

use super::meter::Meter;
use groundwork_yaml::tree::{Content, Kind, Node, Notation, Pair};

/// Keys and values in their order in the file.
pub(super) type Strings = Vec<(String, String)>;

/// Calls a function with every value at a path. With `create`, missing maps on the path are
/// created.
pub(super) fn visit(node: &mut Node, path: &str, create: bool, apply: &mut dyn FnMut(&mut Node)) {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    descend(node, &parts, create, apply);
}

fn descend(node: &mut Node, path: &[&str], create: bool, apply: &mut dyn FnMut(&mut Node)) {
    let Some((first, rest)) = path.split_first() else { return apply(node) };
    if let Some(name) = first.strip_suffix("[]") {
        let list = node.get_mut(name).and_then(Node::as_sequence_mut);
        for item in list.into_iter().flat_map(|list| &mut list.items) {
            descend(item, rest, create, apply);
        }
        return;
    }
    let Some(mapping) = node.as_mapping_mut() else { return };
    match mapping.get_mut(first) {
        Some(found) if create && found.is_null() => found.content = Node::mapping(Vec::new()).content,
        Some(_) => {}
        None if create => mapping.pairs.push(Pair::new(first, Node::mapping(Vec::new()))),
        None => return,
    }
    if let Some(found) = mapping.get_mut(first) {
        descend(found, rest, create, apply);
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
        if !meter.steps(mapping.pairs.len()) {
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
    if text.is_empty() || is_quoted || plain.kind() == Kind::String {
        // An empty text needs quotes too, since it would be null without them.
        node.set_text(text);
    } else {
        node.content = plain.content;
        node.tag = None;
    }
}
