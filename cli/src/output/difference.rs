//! Differences between existing objects and rendered ones.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use groundwork_api::metadata::{annotation, label};
use groundwork_api::{DEFAULT_CONTEXT, Installation, Kind as _};
use groundwork_yaml as yaml;
use serde_json::Value;
use similar::{ChangeTag, TextDiff};

use crate::terminal::shown;

const ADDED: Style = AnsiColor::Green.on_default();
const REMOVED: Style = AnsiColor::Red.on_default();
const TITLE: Style = Style::new().bold();
/// Unchanged lines around a change.
const CONTEXT: usize = 3;
/// Members of the metadata that are compared.
const METADATA: [&str; 4] = ["name", "namespace", "labels", "annotations"];
/// Labels and annotations that are not compared: they request or describe a job, or belong to
/// kubectl.
const MARKS: [&str; 7] = [
    annotation::OPERATION,
    annotation::RECONCILE_REASON,
    annotation::RECONCILE_TIME,
    annotation::RECONCILE_IF_CHANGED,
    annotation::TOUCH,
    label::DATA_JOB_ID,
    "kubectl.kubernetes.io/last-applied-configuration",
];

/// Kind, namespace and name.
pub(crate) type ObjectId = (String, String, String);

/// Returns the differences as text; empty if there are none.
pub(super) fn of(former: &[Value], objects: &[Value]) -> String {
    let by_id = |objects: &[Value]| -> BTreeMap<ObjectId, String> {
        objects.iter().map(|object| (id(object), comparable(object))).collect()
    };
    let mut former = by_id(former);
    let mut text = String::new();
    for (id, after) in &by_id(objects) {
        let before = former.remove(id).unwrap_or_default();
        show(&mut text, id, &before, after);
    }
    for (id, before) in &former {
        show(&mut text, id, before, "");
    }
    text
}

/// Returns kind, namespace and name of an object.
pub(crate) fn id(object: &Value) -> ObjectId {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    (text("/kind"), text("/metadata/namespace"), text("/metadata/name"))
}

/// Returns the part of an object that users and jobs control: without status, fields that the API
/// server writes, and labels and annotations that request or describe jobs.
fn comparable(object: &Value) -> String {
    let mut object = object.clone();
    if let Some(members) = object.as_object_mut() {
        members.remove("status");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|member, _| METADATA.contains(&member.as_str()));
        for member in ["labels", "annotations"] {
            if let Some(entries) = metadata.get_mut(member).and_then(Value::as_object_mut) {
                entries.retain(|name, _| !MARKS.contains(&name.as_str()));
                if entries.is_empty() {
                    metadata.remove(member);
                }
            }
        }
    }
    // The CRD has this default, so the API server fills it in.
    if object["kind"] == Installation::KIND
        && let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut)
    {
        spec.entry("context").or_insert_with(|| DEFAULT_CONTEXT.into());
    }
    yaml::to_string(&object)
}

fn show(text: &mut String, (kind, namespace, name): &ObjectId, before: &str, after: &str) {
    if before == after {
        return;
    }
    let what = match (before.is_empty(), after.is_empty()) {
        (true, _) => "added",
        (_, true) => "removed",
        _ => "changed",
    };
    // Writing to a `String` cannot fail.
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
