//! Fields in which an object differs from its desired state, with their owners from the managed
//! fields.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::object::without_server_fields;

/// Maximum changed fields of one object that a message names; it counts the others.
const MOST_TOLD: usize = 10;

/// A field that differs from its desired value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldChange {
    /// Path such as `.spec.containers[name="web"].image`: names and keys, never a value.
    pub path: String,
    pub kind: FieldChangeKind,
    /// Field manager that has changed the field, if the object shows it.
    pub manager: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FieldChangeKind {
    Changed,
    Removed,
    /// The manifest no longer gives the field, but the object has it.
    Added,
}

/// Returns the fields in which a live object differs from `wanted`. Only fields of its manifest
/// count, because webhooks may change others with each write. `manager` is the field manager that
/// applies the manifest.
pub(crate) fn changes(live: &Value, wanted: &Value, manifest: &Value, manager: &str) -> Vec<FieldChange> {
    let none = Vec::new();
    let entries = live["metadata"]["managedFields"].as_array().unwrap_or(&none);
    // The comparison leaves out the status, so entries of subresources do not count.
    let entries: Vec<Entry<'_>> = entries
        .iter()
        .filter(|entry| entry["subresource"].as_str().is_none_or(str::is_empty))
        .map(Entry::of)
        .collect();
    let trees: Vec<_> =
        entries.iter().enumerate().map(|(index, entry)| Tree { index, fields: entry.fields }).collect();
    let mut walk = Walk { entries: &entries, own: manager, found: Vec::new() };
    let (live, wanted) = (without_server_fields(live), without_server_fields(wanted));
    walk.compare("", Sides { live: Some(&live), wanted: Some(&wanted), given: Some(manifest) }, &trees);
    walk.found
}

/// An entry of `managedFields`: the last write of one manager.
struct Entry<'a> {
    manager: &'a str,
    /// Time in RFC 3339 in UTC, so that the order of the texts is the order of the times.
    time: &'a str,
    fields: &'a Value,
}

impl<'a> Entry<'a> {
    fn of(entry: &'a Value) -> Self {
        let text = |member: &str| entry[member].as_str().unwrap_or_default();
        Self { manager: text("manager"), time: text("time"), fields: &entry["fieldsV1"] }
    }
}

/// Part of an [`Entry`] below one place of the object.
#[derive(Clone, Copy)]
struct Tree<'a> {
    index: usize,
    fields: &'a Value,
}

impl<'a> Tree<'a> {
    /// Returns the part below a member or an element. A leaf owns everything below it.
    fn below(self, name: &str) -> Option<Self> {
        let members = self.fields.as_object()?;
        match members.get(name) {
            Some(fields) => Some(Self { fields, ..self }),
            None => members.is_empty().then_some(self),
        }
    }
}

/// The same place in the live object, in its desired state, and in the manifest.
#[derive(Clone, Copy)]
struct Sides<'v> {
    live: Option<&'v Value>,
    wanted: Option<&'v Value>,
    given: Option<&'v Value>,
}

impl<'v> Sides<'v> {
    fn each(self, part: impl Fn(&'v Value) -> Option<&'v Value>) -> Self {
        Self {
            live: self.live.and_then(&part),
            wanted: self.wanted.and_then(&part),
            given: self.given.and_then(&part),
        }
    }
}

struct Walk<'a> {
    entries: &'a [Entry<'a>],
    own: &'a str,
    found: Vec<FieldChange>,
}

impl<'a> Walk<'a> {
    fn compare(&mut self, path: &str, sides: Sides<'_>, trees: &[Tree<'a>]) {
        match (sides.live, sides.wanted) {
            (live, wanted) if live == wanted || sides.given.is_none() => {}
            (Some(Value::Object(_)), Some(Value::Object(_))) => self.compare_members(path, sides, trees),
            (Some(Value::Array(_)), Some(Value::Array(_))) => match keys_of(trees) {
                Some(keys) => self.compare_elements(path, &keys, sides, trees),
                None => self.tell(path, FieldChangeKind::Changed, trees),
            },
            (None, _) => self.tell(path, FieldChangeKind::Removed, &[]),
            (_, None) => self.tell(path, FieldChangeKind::Added, trees),
            _ => self.tell(path, FieldChangeKind::Changed, trees),
        }
    }

    fn compare_members(&mut self, path: &str, sides: Sides<'_>, trees: &[Tree<'a>]) {
        let names: BTreeSet<&String> =
            sides.given.and_then(Value::as_object).into_iter().flat_map(Map::keys).collect();
        for name in names {
            let below: Vec<_> = trees.iter().filter_map(|tree| tree.below(&format!("f:{name}"))).collect();
            let place = format!("{path}{}", step(name));
            self.compare(&place, sides.each(|value| value.get(name)), &below);
        }
    }

    /// Compares list elements by key. The order of keyed elements is not compared, because
    /// server-side apply keeps it.
    fn compare_elements(&mut self, path: &str, keys: &[String], sides: Sides<'_>, trees: &[Tree<'a>]) {
        let mut all: Vec<Map<String, Value>> = Vec::new();
        for element in [sides.wanted, sides.live].into_iter().flatten().filter_map(Value::as_array).flatten()
        {
            let key = key_of(element, keys);
            if !all.contains(&key) {
                all.push(key);
            }
        }
        for key in all {
            let below = trees.iter().filter_map(|tree| tree.below(&element_name(tree.fields, &key)?));
            let below: Vec<_> = below.collect();
            let place = format!("{path}{}", element_step(&key));
            self.compare(&place, sides.each(|list| element(list, &key)), &below);
        }
    }

    fn tell(&mut self, path: &str, kind: FieldChangeKind, trees: &[Tree<'a>]) {
        let manager = match kind {
            FieldChangeKind::Removed => self.last_other(),
            FieldChangeKind::Changed | FieldChangeKind::Added => self.owner(trees),
        };
        self.found.push(FieldChange { path: path.to_owned(), kind, manager: manager.map(str::to_owned) });
    }

    /// Returns the manager that owns a field. Of several owners it is the last writer other than
    /// our own manager, because a field that both own has the value that both want.
    fn owner(&self, trees: &[Tree<'a>]) -> Option<&'a str> {
        let entries = trees.iter().filter_map(|tree| self.entries.get(tree.index));
        entries.max_by_key(|entry| (entry.manager != self.own, entry.time)).map(|entry| entry.manager)
    }

    /// Returns the only manager that has written since our own one, if there is exactly one: it has
    /// removed the field. A removed field has no owner entry, and a manager without any field left
    /// leaves no trace.
    fn last_other(&self) -> Option<&'a str> {
        let own =
            self.entries.iter().filter(|entry| entry.manager == self.own).map(|entry| entry.time).max()?;
        let later = self.entries.iter().filter(|entry| entry.manager != self.own && entry.time > own);
        let managers: BTreeSet<&str> = later.map(|entry| entry.manager).collect();
        managers.first().copied().filter(|_| managers.len() == 1)
    }
}

/// Formats changes as a clause: which manager has changed which fields.
pub(crate) fn told(changes: &[FieldChange]) -> String {
    let mut groups: Vec<(FieldChangeKind, Option<&str>, Vec<&str>)> = Vec::new();
    for change in changes.iter().take(MOST_TOLD) {
        let (kind, manager) = (change.kind, change.manager.as_deref());
        match groups.iter_mut().find(|group| (group.0, group.1) == (kind, manager)) {
            Some(group) => group.2.push(&change.path),
            None => groups.push((kind, manager, vec![&change.path])),
        }
    }
    let clauses = groups.iter().map(|(kind, manager, paths)| {
        let verb = match kind {
            FieldChangeKind::Changed => "changed",
            FieldChangeKind::Removed => "removed",
            FieldChangeKind::Added => "added",
        };
        match manager {
            Some(manager) => format!("{manager} {verb} {}", paths.join(", ")),
            None => format!("an unknown manager {verb} {}", paths.join(", ")),
        }
    });
    let mut text = clauses.collect::<Vec<_>>().join("; ");
    if changes.len() > MOST_TOLD {
        text.push_str(&format!("; and {} more fields", changes.len() - MOST_TOLD));
    }
    text
}

/// Returns the key members of a list's elements, as the managers have recorded them.
fn keys_of(trees: &[Tree<'_>]) -> Option<Vec<String>> {
    let names = trees.iter().filter_map(|tree| tree.fields.as_object()).flat_map(Map::keys);
    let key = names.filter_map(|name| name.strip_prefix("k:")).next()?;
    let key: Map<String, Value> = serde_json::from_str(key).ok()?;
    Some(key.keys().cloned().collect())
}

/// Returns the element of a list that has a key. A manifest may leave parts of the key to the
/// defaults of the schema.
fn element<'v>(list: &'v Value, key: &Map<String, Value>) -> Option<&'v Value> {
    let has_key = |element: &&Value| {
        key.iter().all(|(name, value)| element.get(name).is_none_or(|found| found == value))
    };
    list.as_array()?.iter().find(has_key)
}

fn key_of(element: &Value, keys: &[String]) -> Map<String, Value> {
    keys.iter().filter_map(|key| Some((key.clone(), element.get(key)?.clone()))).collect()
}

/// Returns the member name of a managed-fields entry that denotes a list element (`k:{…}`). The
/// server chooses the order of the keys in that name.
fn element_name(fields: &Value, key: &Map<String, Value>) -> Option<String> {
    let is_same = |name: &&String| {
        let key_of_name =
            name.strip_prefix("k:").and_then(|text| serde_json::from_str::<Map<_, _>>(text).ok());
        key_of_name.as_ref() == Some(key)
    };
    let members = fields.as_object()?;
    // A leaf without members owns the whole element.
    members.keys().find(is_same).cloned().or_else(|| members.is_empty().then(String::new))
}

fn step(name: &str) -> String {
    let is_plain = !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    if is_plain { format!(".{name}") } else { format!("[{name:?}]") }
}

fn element_step(key: &Map<String, Value>) -> String {
    let parts: Vec<String> = key.iter().map(|(name, value)| format!("{name}={value}")).collect();
    format!("[{}]", parts.join(","))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(manager: &str, time: &str, fields: &Value) -> Value {
        json!({"manager": manager, "operation": "Update", "time": time, "fieldsV1": fields})
    }

    fn told(live: &Value, wanted: &Value) -> Vec<String> {
        told_of(live, wanted, wanted)
    }

    fn told_of(live: &Value, wanted: &Value, given: &Value) -> Vec<String> {
        changes(live, wanted, given, "own")
            .into_iter()
            .map(|change| format!("{} {:?} {}", change.path, change.kind, change.manager.unwrap_or_default()))
            .collect()
    }

    fn live() -> Value {
        let own = json!({"f:spec": {
            "f:paused": {}, "f:replicas": {},
            "f:containers": {"k:{\"name\":\"web\"}": {".": {}, "f:name": {}, "f:image": {}, "f:args": {}}},
        }});
        let edited = json!({
            "f:metadata": {"f:labels": {"f:example.org/a.b": {}}},
            "f:spec": {"f:replicas": {}, "f:containers": {"k:{\"name\":\"web\"}": {"f:image": {}}}},
        });
        json!({
            "metadata": {
                "name": "a", "labels": {"example.org/a.b": "2"}, "resourceVersion": "7",
                "managedFields": [
                    entry("own", "2026-01-01T00:00:00Z", &own),
                    entry("kubectl-edit", "2026-01-01T00:01:00Z", &edited),
                    {"manager": "controller", "operation": "Update", "subresource": "status", "time": "2026-01-01T00:02:00Z",
                     "fieldsV1": {"f:status": {}}},
                ],
            },
            "spec": {"replicas": 5, "containers": [
                {"name": "sidecar", "image": "x"},
                {"name": "web", "image": "b", "args": ["1"]},
            ]},
            "status": {"x": 1},
        })
    }

    #[test]
    fn fields_are_named_with_their_managers() {
        let wanted = json!({
            "metadata": {"name": "a", "labels": {"example.org/a.b": "1"}},
            "spec": {"replicas": 3, "paused": true, "containers": [
                {"name": "sidecar", "image": "x"},
                {"name": "web", "image": "a", "args": ["2"]},
            ]},
        });
        assert_eq!(
            told(&live(), &wanted),
            [
                ".metadata.labels[\"example.org/a.b\"] Changed kubectl-edit",
                ".spec.containers[name=\"web\"].args Changed own",
                ".spec.containers[name=\"web\"].image Changed kubectl-edit",
                ".spec.paused Removed kubectl-edit",
                ".spec.replicas Changed kubectl-edit",
            ]
        );
        assert_eq!(told(&live(), &live()), Vec::<String>::new());
    }

    #[test]
    fn lists_differ_by_element_where_they_have_keys_and_as_a_whole_otherwise() {
        let mut wanted = live();
        wanted["spec"]["containers"].as_array_mut().unwrap().remove(0);
        assert_eq!(told_of(&live(), &wanted, &live()), [".spec.containers[name=\"sidecar\"] Added "]);
        let mut wanted = live();
        wanted["spec"]["containers"].as_array_mut().unwrap().reverse();
        assert_eq!(told(&live(), &wanted), Vec::<String>::new());
        let mut wanted = live();
        wanted["spec"]["containers"][1]["args"] = json!(["2", "1"]);
        assert_eq!(told(&live(), &wanted), [".spec.containers[name=\"web\"].args Changed own"]);
    }

    /// A webhook's counter of writes and a default of the schema are not drift.
    #[test]
    fn fields_that_the_manifest_does_not_give_do_not_count() {
        let mut wanted = live();
        wanted["metadata"]["annotations"] = json!({"writes": "2"});
        wanted["spec"]["containers"][1]["pullPolicy"] = json!("Always");
        wanted["spec"]["replicas"] = json!(3);
        let given = json!({"spec": {"containers": [{"name": "web", "image": "b"}], "replicas": 3}});
        assert_eq!(told_of(&live(), &wanted, &given), [".spec.replicas Changed kubectl-edit"]);
    }

    /// Several managers have written since, so it is unknown which of them removed the field.
    #[test]
    fn a_field_that_is_gone_has_no_owner() {
        let mut live = live();
        let entries = live["metadata"]["managedFields"].as_array_mut().unwrap();
        entries.push(entry("other", "2026-01-01T00:03:00Z", &json!({"f:metadata": {}})));
        let mut wanted = live.clone();
        wanted["spec"]["paused"] = json!(true);
        assert_eq!(told(&live, &wanted), [".spec.paused Removed "]);
    }
}
