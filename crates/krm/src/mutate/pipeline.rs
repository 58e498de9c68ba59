//! Functions of the variant in the Kptfile (`packagevariants.md` 3.3).

use groundwork_api::{Function, Pipeline, ResourceExt as _, Selector};
use groundwork_yaml::tree::{Content, Kind, Node, Pair};

use super::{Mutation, only};
use crate::kptfile::{write_strings, write_strings_of_function};
use crate::package::{KPTFILE, Package};

/// Prefix for the names of variants' functions.
const PREFIX: &str = "PackageVariant";

pub(super) fn apply(files: &mut Package, mutation: &Mutation<'_>) -> Result<(), String> {
    let text = files.get_mut(KPTFILE).ok_or_else(|| mutation.not_found(KPTFILE))?;
    let mut file = mutation.single(KPTFILE, text)?;
    let Some(document) = only(&mut file) else { return Ok(()) };
    let before = document.root.clone();
    edit(&mut document.root, &mutation.variant.name_any(), mutation.variant.spec.pipeline.as_ref())?;
    if document.root.equals(&before) {
        return Ok(());
    }
    write_strings(&mut document.root);
    *text = file.text();
    Ok(())
}

fn wrong_type(path: &str) -> String {
    format!(
        "Resource(apiVersion=, kind=Kptfile) has unmatched field type \"struct {{}}\" in fieldpath {path}"
    )
}

fn edit(root: &mut Node, variant: &str, pipeline: Option<&Pipeline>) -> Result<(), String> {
    let Some(root) = root.as_mapping_mut() else { return Ok(()) };
    let found = root.get("pipeline");
    let was_there = found.is_some();
    let mut edited = match found {
        Some(found) if matches!(found.content, Content::Mapping(_)) => found.clone(),
        Some(found) if !found.is_null() => return Err(wrong_type(".pipeline")),
        _ => Node::mapping(Vec::new()),
    };
    let lists = [
        ("mutators", pipeline.map(|pipeline| &pipeline.mutators)),
        ("validators", pipeline.map(|pipeline| &pipeline.validators)),
    ];
    for (name, functions) in lists {
        let functions = functions.map(|list| &**list).unwrap_or_default();
        edit_list(&mut edited, name, variant, functions)?;
    }
    let is_empty = edited.get("mutators").is_none() && edited.get("validators").is_none();
    if is_empty {
        root.remove("pipeline");
    } else if was_there {
        root.set("pipeline", edited);
    } else {
        root.pairs.push(Pair::new("pipeline", edited));
    }
    Ok(())
}

fn edit_list(pipeline: &mut Node, name: &str, variant: &str, functions: &[Function]) -> Result<(), String> {
    let Some(mapping) = pipeline.as_mapping_mut() else { return Ok(()) };
    let path = format!(".pipeline.{name}");
    let existing: Vec<Node> = match mapping.get(name) {
        None => Vec::new(),
        Some(found) if found.is_null() => Vec::new(),
        Some(found) => found.as_sequence().ok_or_else(|| wrong_type(&path))?.items.clone(),
    };
    if existing.iter().any(|entry| entry.as_mapping().is_none()) {
        return Err(wrong_type(&path));
    }
    let (mut ours, mut kept) = (Vec::new(), Vec::new());
    for entry in existing {
        match entry.get("name") {
            Some(name) if name.kind() != Kind::String && !name.is_null() => {
                return Err("could not retrieve field name: Resource(apiVersion=, kind=) has unmatched field type \"string\" in \
                            fieldpath .name"
                    .to_owned());
            }
            Some(name) if is_owned(name.text().unwrap_or_default(), variant) => ours.push(entry),
            _ => kept.push(entry),
        }
    }
    let mut items: Vec<Node> = Vec::new();
    for (index, function) in functions.iter().enumerate() {
        let name = format!("{PREFIX}.{variant}.{}.{index}", function.name.as_deref().unwrap_or_default());
        let new = function_node(function, &name);
        // Unchanged functions keep their comments.
        let same = ours.iter().find(|entry| {
            let mut entry = (*entry).clone();
            write_strings_of_function(&mut entry);
            entry.equals(&new)
        });
        items.push(same.cloned().unwrap_or(new));
    }
    items.append(&mut kept);
    if items.is_empty() {
        mapping.remove(name);
        return Ok(());
    }
    match mapping.get_mut(name).and_then(Node::as_sequence_mut) {
        Some(list) => list.items = items,
        None => mapping.set(name, Node::sequence(items)),
    }
    Ok(())
}

/// Reports whether a function belongs to a variant, which is only visible in its name.
fn is_owned(name: &str, variant: &str) -> bool {
    let rest = name.strip_prefix(PREFIX).and_then(|rest| rest.strip_prefix('.'));
    let rest = rest.and_then(|rest| rest.strip_prefix(variant)).and_then(|rest| rest.strip_prefix('.'));
    let Some((function, index)) = rest.and_then(|rest| rest.rsplit_once('.')) else { return false };
    let is_number =
        !index.is_empty() && index.bytes().all(|byte| byte.is_ascii_digit()) && index.parse::<i64>().is_ok();
    is_number && !function.contains('.')
}

/// Returns the entry of a function, with its fields in the order of kpt's tools.
fn function_node(function: &Function, name: &str) -> Node {
    let text = |field: &str, value: &Option<String>| Some(Pair::new(field, Node::string(value.as_deref()?)));
    let mut pairs = vec![Pair::new("name", Node::string(name))];
    pairs.extend(text("image", &function.image));
    let mut rest: Vec<Pair> = Vec::new();
    if !function.config_map.is_empty() {
        rest.push(Pair::new("configMap", string_map(&function.config_map)));
    }
    for (field, value) in
        [("configPath", &function.config_path), ("exec", &function.exec), ("tag", &function.tag)]
    {
        rest.extend(text(field, value));
    }
    for (field, selectors) in [("exclude", &function.exclude), ("selectors", &function.selectors)] {
        if !selectors.is_empty() {
            rest.push(Pair::new(field, Node::sequence(selectors.iter().map(selector_node).collect())));
        }
    }
    rest.sort_by(|left, right| left.name().cmp(right.name()));
    pairs.append(&mut rest);
    Node::mapping(pairs)
}

fn selector_node(selector: &Selector) -> Node {
    let texts = [
        ("name", &selector.name),
        ("namespace", &selector.namespace),
        ("apiVersion", &selector.api_version),
        ("kind", &selector.kind),
    ];
    let mut pairs: Vec<Pair> = texts
        .into_iter()
        .filter_map(|(field, value)| Some(Pair::new(field, Node::string(value.as_deref()?))))
        .collect();
    for (field, map) in [("labels", &selector.labels), ("annotations", &selector.annotations)] {
        if !map.is_empty() {
            pairs.push(Pair::new(field, string_map(map)));
        }
    }
    Node::mapping(pairs)
}

fn string_map(map: &std::collections::BTreeMap<String, String>) -> Node {
    Node::mapping(map.iter().map(|(key, value)| Pair::new(key, Node::string(value))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test vectors of `packagevariants.md` 3.3.
    #[test]
    fn whose_function_it_is() {
        for (name, expected) in [
            ("PackageVariant.my-pv.fn.0", true),
            ("PackageVariant.my-pv..0", true),
            ("PackageVariant.my-pv.fn.007", true),
            ("PackageVariant.my-pv.fn.-2", false),
            ("PackageVariant.my-pv.fn.9223372036854775808", false),
            ("PackageVariant.my-pv.fn.", false),
            ("PackageVariant.my-pv.fn.a", false),
            ("PackageVariant.other.fn.0", false),
            ("PackageVariant.my-pv.fn.x.0", false),
            ("my-pv.fn.0", false),
            ("", false),
        ] {
            assert_eq!(is_owned(name, "my-pv"), expected, "{name}");
        }
        assert!(is_owned("PackageVariant.my.pv.fn.0", "my.pv"));
    }
}
