//! Objects as files of a folder, and what differs from them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anstyle::{AnsiColor, Style};
use groundwork_yaml as yaml;
use serde_json::Value;
use similar::{ChangeTag, TextDiff};

use crate::diagnostic::Diagnostic;
use crate::terminal::shown;

const ADDED: Style = AnsiColor::Green.on_default();
const REMOVED: Style = AnsiColor::Red.on_default();
const TITLE: Style = Style::new().bold();
/// Unchanged lines around a change.
const CONTEXT: usize = 3;

/// Kind, namespace and name.
type Id = (String, String, String);

/// Writes each object to a file of its own: `NAMESPACE/KIND-NAME.yaml`. Files of former runs stay.
pub(super) fn write(folder: &Path, objects: &[Value]) -> Result<String, Diagnostic> {
    for object in objects {
        let (kind, namespace, name) = id(object);
        let folder = folder.join(&namespace);
        let file = folder.join(format!("{}-{name}.yaml", kind.to_lowercase()));
        fs::create_dir_all(&folder)
            .and_then(|()| fs::write(&file, yaml::to_string(object)))
            .map_err(|error| Diagnostic::error(format!("cannot write {}: {error}", file.display())))?;
    }
    Ok(format!("{} objects written to {}\n", objects.len(), folder.display()))
}

/// What the objects are other than those in the files of a folder; empty if nothing is.
pub(super) fn diff(folder: &Path, objects: &[Value]) -> Result<String, Diagnostic> {
    let mut former = BTreeMap::new();
    read(folder, &mut former)?;
    let mut text = String::new();
    let now: BTreeMap<Id, String> = objects.iter().map(|object| (id(object), comparable(object))).collect();
    for (id, after) in &now {
        let before = former.remove(id).unwrap_or_default();
        show(&mut text, id, &before, after);
    }
    for (id, before) in &former {
        show(&mut text, id, before, "");
    }
    Ok(text)
}

fn read(folder: &Path, objects: &mut BTreeMap<Id, String>) -> Result<(), Diagnostic> {
    let failed = |path: &Path, error: &dyn std::fmt::Display| {
        Diagnostic::error(format!("cannot read {}: {error}", path.display()))
    };
    let entries = fs::read_dir(folder).map_err(|error| failed(folder, &error))?;
    for entry in entries {
        let path = entry.map_err(|error| failed(folder, &error))?.path();
        if path.is_dir() {
            read(&path, objects)?;
        } else if path.extension().is_some_and(|ending| ending == "yaml" || ending == "yml") {
            let text = fs::read_to_string(&path).map_err(|error| failed(&path, &error))?;
            let documents =
                yaml::parse_all(&text, yaml::Options::default()).map_err(|error| failed(&path, &error))?;
            let values = documents.iter().map(yaml::Node::to_value).filter(Value::is_object);
            objects.extend(values.map(|value| (id(&value), comparable(&value))));
        }
    }
    Ok(())
}

fn id(object: &Value) -> Id {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    (text("/kind"), text("/metadata/namespace"), text("/metadata/name"))
}

/// The object without its status, whose times are never the same.
fn comparable(object: &Value) -> String {
    let mut object = object.clone();
    if let Some(members) = object.as_object_mut() {
        members.remove("status");
    }
    yaml::to_string(&object)
}

fn show(text: &mut String, (kind, namespace, name): &Id, before: &str, after: &str) {
    if before == after {
        return;
    }
    let what = match (before.is_empty(), after.is_empty()) {
        (true, _) => "added",
        (_, true) => "removed",
        _ => "changed",
    };
    let _ = writeln!(text, "{TITLE}{kind} {}/{}{TITLE:#} {what}", shown(namespace), shown(name));
    let diff = TextDiff::from_lines(before, after);
    for group in diff.grouped_ops(CONTEXT) {
        for change in group.iter().flat_map(|operation| diff.iter_changes(operation)) {
            let line = shown(change.value().trim_end_matches('\n'));
            let _ = match change.tag() {
                ChangeTag::Equal => writeln!(text, "    {line}"),
                ChangeTag::Insert => writeln!(text, "  {ADDED}+ {line}{ADDED:#}"),
                ChangeTag::Delete => writeln!(text, "  {REMOVED}- {line}{REMOVED:#}"),
            };
        }
    }
}
