//! Merge of Kptfiles (`packagevariants.md` 7.6): only some sections are merged, and functions,
//! gates and conditions one by one.

use groundwork_yaml::tree::{Content, Node};

use super::fields::{Fields, KindMismatch, Rules, Sides};
use super::functions::{ID, identify};
use crate::kptfile::write_strings;
use crate::schema::{Key, Keys, Schema};

/// Condition that renderings write.
const RENDERED: &str = "Rendered";
/// Merged sections, in the order in which new ones are added.
const SECTIONS: [&str; 4] = ["info", "pipeline", "inventory", "status"];

/// Merges a Kptfile. With `takes_upstream`, the updated Kptfile's sections about the upstream are
/// used, if it has them.
pub(super) fn merge_kptfile(
    local: &Node,
    original: Option<&Node>,
    updated: Option<&Node>,
    takes_upstream: bool,
    warnings: &mut Vec<String>,
) -> Result<Node, KindMismatch> {
    let mut merged = local.clone();
    let (mut original, mut updated) = (original.map(prepared), updated.map(prepared));
    let orders = identify(&mut merged, &mut original, &mut updated);
    let sides = |merged: &Node, path: &[&str]| -> (Option<Node>, Option<Node>, Option<Node>) {
        let at = |side: Option<&Node>| side.and_then(|root| root.at(path)).cloned();
        (at(Some(merged)), at(original.as_ref()), at(updated.as_ref()))
    };
    let crds = crate::crd::Schemas::new();
    let mut fields = Fields { rules: Rules::Kptfile, crds: &crds, warnings: Vec::new() };
    for path in ["annotations", "labels"].map(|name| ["metadata", name]) {
        let (local, original, updated) = sides(&merged, &path);
        let sides = Sides::new(local.as_ref(), original.as_ref(), updated.as_ref());
        let value = fields.merge(sides, &Schema::Unknown, &path.join("."))?;
        put_in_metadata(&mut merged, path[1], value);
    }
    for section in SECTIONS {
        let (local, original, updated) = sides(&merged, &[section]);
        let sides = Sides::new(local.as_ref(), original.as_ref(), updated.as_ref());
        let value = fields.merge(sides, &Schema::Unknown, section)?;
        put(&mut merged, section, value);
    }
    if let (true, Some(updated)) = (takes_upstream, &updated) {
        take_upstream(&mut merged, updated);
    }
    orders.apply(&mut merged);
    drop_functions_without_program(&mut merged);
    warnings.append(&mut fields.warnings);
    if !merged.equals(local) {
        write_strings(&mut merged);
    }
    Ok(merged)
}

/// Returns the keys of the associative lists of a Kptfile.
pub(super) fn keys(sides: [Option<&Node>; 3], path: &str) -> Option<Keys> {
    let by = |name: &str| Some(Keys::Fields(vec![Key { name: name.to_owned(), default: None }]));
    match path {
        "info.readinessGates" => return by("conditionType"),
        "status.conditions" => return by("type"),
        "pipeline.mutators" | "pipeline.validators" => return by(ID),
        _ => {}
    }
    let is_named = |item: &Node| item.get("name").and_then(Node::text).is_some_and(|name| !name.is_empty());
    let lists =
        sides.into_iter().flatten().filter_map(Node::as_sequence).filter(|list| !list.items.is_empty());
    let mut items = lists.flat_map(|list| &list.items).peekable();
    (items.peek().is_some() && items.all(is_named)).then(|| by("name")).flatten()
}

/// Returns the upstream's Kptfile for a merge, without the fields that renderings write.
fn prepared(root: &Node) -> Node {
    let mut root = root.clone();
    drop_rendering(&mut root);
    root
}

/// Removes the fields that renderings write: a condition, and `status.renderStatus`.
pub(crate) fn drop_rendering(root: &mut Node) {
    let Some(status) = root.get_mut("status").and_then(Node::as_mapping_mut) else { return };
    status.remove("renderStatus");
    let Some(conditions) = status.get_mut("conditions").and_then(Node::as_sequence_mut) else {
        return drop_empty_status(root);
    };
    conditions.items.retain(|condition| condition.str_at(&["type"]) != Some(RENDERED));
    if conditions.items.is_empty() {
        status.remove("conditions");
    }
    drop_empty_status(root);
}

fn drop_empty_status(root: &mut Node) {
    let is_empty =
        root.get("status").and_then(Node::as_mapping).is_some_and(|status| status.pairs.is_empty());
    if let (true, Some(mapping)) = (is_empty, root.as_mapping_mut()) {
        mapping.remove("status");
    }
}

fn functions_of(root: &mut Node) -> impl Iterator<Item = &mut Vec<Node>> {
    let pipeline = root.get_mut("pipeline").and_then(Node::as_mapping_mut);
    let pairs = pipeline.into_iter().flat_map(|pipeline| &mut pipeline.pairs);
    let lists = pairs.filter(|pair| matches!(pair.key.text(), Some("mutators" | "validators")));
    lists.filter_map(|pair| pair.value.as_sequence_mut()).map(|list| &mut list.items)
}

/// Removes functions without an image or program, which would break every later rendering.
fn drop_functions_without_program(root: &mut Node) {
    for functions in functions_of(root) {
        functions.retain(|function| {
            let runs =
                |field: &str| function.get(field).and_then(Node::text).is_some_and(|text| !text.is_empty());
            runs("image") || runs("exec")
        });
    }
    drop_empty_lists(root);
}

/// Removes lists, and a pipeline, that have lost all of their functions.
fn drop_empty_lists(root: &mut Node) {
    let Some(pipeline) = root.get_mut("pipeline").and_then(Node::as_mapping_mut) else { return };
    let before = pipeline.pairs.len();
    pipeline.pairs.retain(|pair| {
        !matches!(&pair.value.content, Content::Sequence(list) if list.items.is_empty() && !list.is_flow)
    });
    let is_empty = pipeline.pairs.is_empty() && before > 0;
    if let (true, Some(mapping)) = (is_empty, root.as_mapping_mut()) {
        mapping.remove("pipeline");
    }
}

fn put_in_metadata(root: &mut Node, name: &str, value: Option<Node>) {
    if root.get("metadata").is_none()
        && let (Some(_), Some(mapping)) = (&value, root.as_mapping_mut())
    {
        mapping.set("metadata", Node::mapping(Vec::new()));
    }
    if let Some(metadata) = root.get_mut("metadata") {
        put(metadata, name, value);
    }
}

fn put(map: &mut Node, name: &str, value: Option<Node>) {
    let Some(mapping) = map.as_mapping_mut() else { return };
    match value {
        Some(value) => mapping.set(name, value),
        None => {
            mapping.remove(name);
        }
    }
}

/// Replaces `upstream` and `upstreamLock`, each as a whole; new ones come after `metadata`.
fn take_upstream(root: &mut Node, updated: &Node) {
    let Some(mapping) = root.as_mapping_mut() else { return };
    let mut at = mapping
        .pairs
        .iter()
        .position(|pair| pair.name() == "metadata")
        .map_or(mapping.pairs.len(), |at| at + 1);
    for name in ["upstream", "upstreamLock"] {
        let known = mapping.pairs.iter().position(|pair| pair.name() == name);
        if let Some(pair) = updated.as_mapping().and_then(|updated| updated.pair(name)) {
            match known.and_then(|known| mapping.pairs.get_mut(known)) {
                Some(own) if own.value.equals(&pair.value) => {}
                Some(own) => own.value = pair.value.clone(),
                None => mapping.pairs.insert(at, pair.clone()),
            }
        }
        at = mapping.pairs.iter().position(|pair| pair.name() == name).map_or(at, |found| found + 1);
    }
}
