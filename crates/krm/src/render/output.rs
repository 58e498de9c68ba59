//! Result of a rendering (`packagevariants.md` 8.2, afterwards): files, and the status in the root
//! Kptfile.

use std::collections::{BTreeMap, BTreeSet};

use groundwork_api::{FunctionResult, ResultItem};
use groundwork_yaml::tree::{Content, Layout, Node, Pair, write as write_node};

use super::input::Files;
use super::list::{Item, Severity};
use crate::creation::section;
use crate::file::{Document, File};
use crate::json;
use crate::kptfile::write_strings;
use crate::package::{KPTFILE, Package};
use crate::value::assign;

/// Type of the condition, and of the gate that a deferred rendering adds.
const RENDERED: &str = "Rendered";

/// Result of one function.
#[derive(Debug, Clone)]
pub(super) struct Step {
    /// Name of the function in messages.
    pub(super) label: String,
    pub(super) name: Option<String>,
    pub(super) result: FunctionResult,
    /// Reason why the function did not run.
    pub(super) error: Option<String>,
}

#[derive(Debug, Default)]
pub(super) struct Steps {
    /// True if any package has a function.
    pub(super) has_functions: bool,
    pub(super) mutations: Vec<Step>,
    pub(super) validations: Vec<Step>,
}

/// Reports whether an annotation of the root Kptfile is `true`.
pub(super) fn root_annotation(files: &Package, name: &str) -> bool {
    let Some(Ok(file)) = files.get(KPTFILE).map(|text| File::read(text)) else { return false };
    let root = file.documents.first().map(|document| &document.root);
    root.and_then(|root| root.at(&["metadata", "annotations", name])).and_then(Node::text) == Some("true")
}

/// Reports whether partial results are saved after a failure.
pub(super) fn saves_failures(files: &Package) -> bool {
    root_annotation(files, "kpt.dev/save-on-render-failure")
}

/// Writes items to their places. With `removes`, files without any item left are deleted.
pub(super) fn write(
    files: &Package,
    read: &Files,
    items: Vec<Item>,
    removes: bool,
) -> Result<Package, String> {
    let mut places: BTreeMap<String, Vec<Item>> = BTreeMap::new();
    for item in items {
        places.entry(item.full_path().unwrap_or_default()).or_default().push(item);
    }
    let mut written = files.clone();
    for (path, items) in &mut places {
        // New objects come after the present ones.
        items.sort_by_key(|item| item.place().unwrap_or(usize::MAX));
        let mut taken = BTreeSet::new();
        for at in items.iter().filter_map(Item::place) {
            if !taken.insert(at) {
                return Err(format!("resource at path \"{path}\" and index \"{at}\" already exists"));
            }
        }
        if files.contains_key(path) && !read.contains_key(path) {
            return Err(format!(
                "resource at path \"{path}\" would replace a file that does not contain resources"
            ));
        }
        let text = text(path, items, files.get(path), read)?;
        written.insert(path.clone(), text);
    }
    if removes {
        let is_gone = |path: &str| {
            read.get(path).is_some_and(|file| !file.documents.is_empty()) && !places.contains_key(path)
        };
        written.retain(|path, _| !is_gone(path));
    }
    Ok(written)
}

fn text(path: &str, items: &[Item], old: Option<&String>, read: &Files) -> Result<String, String> {
    let unreadable = |error: crate::ReadError| format!("{path}: {error}");
    let known = |item: &Item| read.get(&item.source.as_ref()?.file);
    // New objects are laid out first, as a file of their own.
    let mut made: Vec<File> = Vec::new();
    for item in items.iter().filter(|item| known(item).is_none()) {
        made.push(File::read(&write_node(&item.root, Layout::default())).map_err(unreadable)?);
    }
    let mut made = made.iter();
    let mut documents: Vec<(Document, &File)> = Vec::with_capacity(items.len());
    for item in items {
        let file = known(item).or_else(|| made.next());
        let index = item.source.as_ref().map_or(0, |source| source.index);
        let found = file.and_then(|file| Some((file.documents.get(index)?.clone(), file)));
        let (mut document, file) = found.ok_or_else(|| format!("{path}: an object is empty"))?;
        document.root = item.root.clone();
        documents.push((document, file));
    }
    if let ([(document, file)], true) = (documents.as_slice(), path.ends_with(".json")) {
        let is_same = file.with(&[(document, file)]) == file.text();
        let form = old.map_or("{\n}\n", String::as_str);
        return Ok(match old {
            Some(old) if is_same => old.clone(),
            _ => json::write(&document.root, form),
        });
    }
    let base = match read.get(path) {
        Some(file) => file.clone(),
        None => File::read("").map_err(unreadable)?,
    };
    let documents: Vec<(&Document, &File)> =
        documents.iter().map(|(document, file)| (document, *file)).collect();
    Ok(base.with(&documents))
}

/// Writes the result of the rendering into the root Kptfile.
pub(super) fn set_status(files: &mut Package, outcome: Result<(), &str>, steps: &Steps) {
    let condition = match outcome {
        Ok(()) => condition("True", "RenderSuccess", None),
        Err(message) => condition("False", "RenderFailed", Some(message)),
    };
    edit(files, |root| {
        let Some(status) = section(root, "status", &[]) else { return };
        put_condition(status, condition);
        let Some(status) = status.as_mapping_mut() else { return };
        if !steps.has_functions {
            status.remove("renderStatus");
            return;
        }
        let new = render_status(steps);
        match status.get_mut("renderStatus") {
            Some(old) => assign(old, &new),
            None => status.pairs.push(Pair::new("renderStatus", new)),
        }
    });
}

/// Writes a condition and a gate: the rendering waits for a runner of a missing function, and the
/// package cannot be published until then.
pub(super) fn defer(files: &mut Package, cause: &str) {
    edit(files, |root| {
        if let Some(status) = section(root, "status", &[]) {
            put_condition(status, condition("False", "FunctionUnavailable", Some(cause)));
        }
        let Some(info) = section(root, "info", &["metadata", "upstream", "upstreamLock"]) else { return };
        let Some(info) = info.as_mapping_mut() else { return };
        let gate = || Node::mapping(vec![Pair::new("conditionType", Node::string(RENDERED))]);
        match info.get_mut("readinessGates") {
            Some(Node { content: Content::Sequence(gates), .. }) => {
                if !gates.items.iter().any(|gate| gate.str_at(&["conditionType"]) == Some(RENDERED)) {
                    gates.items.push(gate());
                }
            }
            Some(other) => other.content = Node::sequence(vec![gate()]).content,
            None => info.pairs.push(Pair::new("readinessGates", Node::sequence(vec![gate()]))),
        }
    });
}

fn edit(files: &mut Package, edit: impl FnOnce(&mut Node)) {
    let Some(text) = files.get_mut(KPTFILE) else { return };
    let Ok(mut file) = File::read(text) else { return };
    let Some(document) = file.documents.first_mut() else { return };
    let before = document.root.clone();
    edit(&mut document.root);
    if !document.root.equals(&before) {
        write_strings(&mut document.root);
        *text = file.text();
    }
}

fn condition(status: &str, reason: &str, message: Option<&str>) -> Node {
    let text = |key: &str, value: &str| Pair::new(key, Node::string(value));
    let mut pairs = vec![text("type", RENDERED), text("status", status), text("reason", reason)];
    pairs.extend(message.map(|message| text("message", message)));
    Node::mapping(pairs)
}

/// Appends the condition and removes older ones. An equal condition at the end stays unchanged.
fn put_condition(status: &mut Node, condition: Node) {
    let Some(status) = status.as_mapping_mut() else { return };
    match status.get_mut("conditions") {
        Some(Node { content: Content::Sequence(list), .. }) => {
            let last = list.items.last().filter(|last| last.equals(&condition)).cloned();
            list.items.retain(|found| found.str_at(&["type"]) != Some(RENDERED));
            list.items.push(last.unwrap_or(condition));
        }
        Some(other) => other.content = Node::sequence(vec![condition]).content,
        None => status.pairs.push(Pair::new("conditions", Node::sequence(vec![condition]))),
    }
}

fn render_status(steps: &Steps) -> Node {
    let mut pairs = Vec::new();
    for (name, list) in [("mutationSteps", &steps.mutations), ("validationSteps", &steps.validations)] {
        if !list.is_empty() {
            pairs.push(Pair::new(name, Node::sequence(list.iter().map(step).collect())));
        }
    }
    let all = steps.mutations.iter().chain(&steps.validations);
    let summary: Vec<String> = all
        .filter_map(|step| {
            let exit_code = step.result.exit_code.filter(|exit_code| *exit_code != 0);
            match (&step.error, exit_code) {
                (Some(error), _) => Some(format!("{}: {error}", step.label)),
                (None, Some(exit_code)) => Some(format!("{}: exit code {exit_code}", step.label)),
                (None, None) => None,
            }
        })
        .collect();
    if !summary.is_empty() {
        pairs.push(Pair::new("errorSummary", Node::string(&summary.join("\n"))));
    }
    Node::mapping(pairs)
}

fn step(step: &Step) -> Node {
    let FunctionResult { image, exec, stderr, exit_code, results, .. } = &step.result;
    let text =
        |key: &str, value: &Option<String>| value.as_deref().map(|value| Pair::new(key, Node::string(value)));
    let mut pairs = Vec::new();
    pairs.extend(text("name", &step.name));
    pairs.extend(text("image", image));
    pairs.extend(text("exec", exec));
    pairs.push(Pair::new("exitCode", Node::plain(&exit_code.unwrap_or_default().to_string())));
    pairs.extend(text("stderr", stderr));
    pairs.extend(text("executionError", &step.error));
    let is_error = |item: &&ResultItem| item.severity.as_deref() == Some(Severity::Error.as_str());
    let errors: Vec<Node> = results.iter().filter(is_error).map(result).collect();
    let results: Vec<Node> = results.iter().map(result).collect();
    for (name, list) in [("results", results), ("errorResults", errors)] {
        if !list.is_empty() {
            pairs.push(Pair::new(name, Node::sequence(list)));
        }
    }
    Node::mapping(pairs)
}

fn result(item: &ResultItem) -> Node {
    let mut pairs = Vec::new();
    for (key, value) in [("message", &item.message), ("severity", &item.severity)] {
        pairs.extend(value.as_deref().map(|value| Pair::new(key, Node::string(value))));
    }
    let rest = serde_json::to_value(item).unwrap_or_default();
    for key in ["resourceRef", "field", "file"] {
        pairs.extend(rest.get(key).map(|value| Pair::new(key, Node::from_json(value))));
    }
    Node::mapping(pairs)
}
