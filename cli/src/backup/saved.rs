//! Objects in a backup: their kinds and order, and the changes that a restore makes to them.

use std::collections::{BTreeMap, HashMap};

use groundwork_api::metadata::annotation;
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Map, Value, json};

/// Kind of objects in a backup.
#[derive(Debug)]
pub(super) struct SavedKind {
    pub(super) version: &'static str,
    pub(super) kind: &'static str,
    pub(super) plural: &'static str,
    /// False for kinds of Kubernetes. A backup contains only those of their objects that a
    /// landscape names.
    pub(super) is_of_landscape: bool,
    has_status: bool,
}

const fn core(kind: &'static str, plural: &'static str) -> SavedKind {
    SavedKind { version: "v1", kind, plural, is_of_landscape: false, has_status: false }
}

const fn own(kind: &'static str, plural: &'static str, has_status: bool) -> SavedKind {
    let version = "landscaper.gardener.cloud/v1alpha1";
    SavedKind { version, kind, plural, is_of_landscape: true, has_status }
}

/// Kinds in the order in which objects without owners are created. TargetSyncs come last, because
/// they begin to work at once.
pub(super) const KINDS: [SavedKind; 11] = [
    core("Namespace", "namespaces"),
    core("ConfigMap", "configmaps"),
    core("Secret", "secrets"),
    own("ComponentVersionOverwrites", "componentversionoverwrites", false),
    own("Context", "contexts", false),
    own("Target", "targets", false),
    own("DataObject", "dataobjects", false),
    own("Installation", "installations", true),
    own("Execution", "executions", true),
    own("DeployItem", "deployitems", true),
    own("TargetSync", "targetsyncs", true),
];

/// Returns the kind with this name; `None` if a backup has no such objects.
pub(super) fn kind_of(version: &str, kind: &str) -> Option<&'static SavedKind> {
    let group = |version: &str| version.split_once('/').map(|(group, _)| group.to_owned());
    KINDS.iter().find(|known| known.kind == kind && group(known.version) == group(version))
}

impl SavedKind {
    pub(super) fn resource(&self) -> ApiResource {
        let (group, version) = self.version.split_once('/').unwrap_or(("", self.version));
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, self.kind), self.plural)
    }

    pub(super) fn has_status(&self) -> bool {
        self.has_status
    }

    /// Returns a number of objects of this kind, such as `2 Installations`.
    pub(super) fn counted(&self, count: usize) -> String {
        let plural = if count == 1 || self.kind.ends_with('s') { "" } else { "s" };
        format!("{count} {}{plural}", self.kind)
    }
}

/// Reads the objects in a file: JSON lines as `groundwork backup` writes them, or YAML or JSON
/// documents. Lists are split.
///
/// # Errors
///
/// The text is neither. The error has the line.
pub(super) fn read(text: &str) -> Result<Vec<Value>, String> {
    let mut objects = Vec::new();
    if text.trim_start().starts_with('{') {
        for document in serde_json::Deserializer::from_str(text).into_iter::<Value>() {
            add(document.map_err(|error| error.to_string())?, &mut objects);
        }
        return Ok(objects);
    }
    let options = groundwork_yaml::Options::default();
    let documents = groundwork_yaml::parse_all(text, options).map_err(|error| error.to_string())?;
    for document in documents {
        add(document.into_value(), &mut objects);
    }
    Ok(objects)
}

fn add(document: Value, objects: &mut Vec<Value>) {
    match document {
        Value::Object(mut members) => match members.get_mut("items").map(Value::take) {
            Some(Value::Array(items)) => items.into_iter().for_each(|item| add(item, objects)),
            _ => objects.push(Value::Object(members)),
        },
        Value::Null => {}
        other => objects.push(other),
    }
}

/// Returns the UID of an object, if it has one.
pub(super) fn uid(object: &Value) -> Option<&str> {
    object["metadata"]["uid"].as_str()
}

pub(super) fn text<'a>(object: &'a Value, member: &str) -> &'a str {
    object[member].as_str().unwrap_or_default()
}

pub(super) fn metadata<'a>(object: &'a Value, member: &str) -> &'a str {
    text(&object["metadata"], member)
}

/// Returns kind, namespace and name for messages.
pub(super) fn title(object: &Value) -> String {
    let (namespace, name) = (metadata(object, "namespace"), metadata(object, "name"));
    let separator = if namespace.is_empty() { "" } else { "/" };
    format!("{} {namespace}{separator}{name}", text(object, "kind"))
}

fn owners(object: &Value) -> impl Iterator<Item = &Value> {
    object["metadata"]["ownerReferences"].as_array().into_iter().flatten()
}

/// Index of saved objects by what owner references name.
pub(super) struct Owners {
    by_uid: HashMap<String, usize>,
    by_name: HashMap<(String, String, String), usize>,
}

impl Owners {
    pub(super) fn of(objects: &[Value]) -> Self {
        let mut owners = Self { by_uid: HashMap::new(), by_name: HashMap::new() };
        for (index, object) in objects.iter().enumerate() {
            owners.by_uid.extend(uid(object).map(|uid| (uid.to_owned(), index)));
            let part = |member: &str| metadata(object, member).to_owned();
            owners.by_name.insert((text(object, "kind").to_owned(), part("namespace"), part("name")), index);
        }
        owners
    }

    /// Returns the saved object that an owner reference means. A reference with an old UID means
    /// the object of its kind and name.
    pub(super) fn find(&self, reference: &Value, namespace: &str) -> Option<usize> {
        let by_uid = self.by_uid.get(text(reference, "uid"));
        let name =
            || (text(reference, "kind").to_owned(), namespace.to_owned(), text(reference, "name").to_owned());
        by_uid.or_else(|| self.by_name.get(&name())).copied()
    }

    /// Returns the saved owners of an object.
    pub(super) fn of_object(&self, object: &Value) -> Vec<usize> {
        let namespace = metadata(object, "namespace");
        owners(object).filter_map(|reference| self.find(reference, namespace)).collect()
    }
}

/// Returns the indexes of the objects in levels: each after its owners, and within a level in the
/// order of the kinds.
pub(super) fn ordered(objects: &[Value], owners: &Owners) -> Vec<Vec<usize>> {
    let mut depths: Vec<Option<usize>> = vec![None; objects.len()];
    // A chain of owners is short. Objects that own one another would never get a depth.
    for depth in 0..=objects.len() {
        let mut has_new = false;
        for (index, object) in objects.iter().enumerate() {
            if depths[index].is_some() {
                continue;
            }
            let above = owners.of_object(object);
            if above.iter().all(|owner| depths[*owner].is_some_and(|found| found < depth) || *owner == index)
            {
                depths[index] = Some(depth);
                has_new = true;
            }
        }
        if !has_new {
            break;
        }
    }
    let rank = |object: &Value| KINDS.iter().position(|kind| kind.kind == text(object, "kind"));
    let mut levels = BTreeMap::<_, Vec<usize>>::new();
    for (index, object) in objects.iter().enumerate() {
        levels.entry((depths[index].unwrap_or(usize::MAX), rank(object))).or_default().push(index);
    }
    levels.into_values().collect()
}

/// Object to create, and its owner references to objects that are not in the backup.
pub(super) struct Created {
    pub(super) object: Value,
    pub(super) lost: Vec<String>,
}

/// Returns the object to create. `new_uid` returns the UID of a restored owner by its index; an
/// error means that the owner does not exist.
///
/// # Errors
///
/// An owner could not be restored.
pub(super) fn created(
    saved: &Value,
    all: &Owners,
    new_uid: impl Fn(usize) -> Option<String>,
) -> Result<Created, String> {
    let namespace = metadata(saved, "namespace");
    let mut members = Map::new();
    for member in ["name", "namespace", "labels", "annotations", "finalizers"] {
        if let Some(value) = saved["metadata"].get(member).filter(|value| !value.is_null()) {
            members.insert(member.to_owned(), value.clone());
        }
    }
    let (mut references, mut lost) = (Vec::new(), Vec::new());
    for reference in owners(saved) {
        let owner = format!("{} {}", text(reference, "kind"), text(reference, "name"));
        let Some(index) = all.find(reference, namespace) else {
            lost.push(owner);
            continue;
        };
        let uid = new_uid(index).ok_or(format!("its owner, {owner}, could not be restored"))?;
        let mut reference = reference.clone();
        reference["uid"] = Value::from(uid);
        references.push(reference);
    }
    if !references.is_empty() {
        members.insert("ownerReferences".to_owned(), Value::from(references));
    }
    let kind = text(saved, "kind");
    if kind == "Installation" {
        hold(&mut members);
    }
    let mut object = saved.clone();
    object["metadata"] = Value::Object(members);
    if let Some(members) = object.as_object_mut() {
        members.remove("status");
        if kind == "Namespace" {
            members.remove("spec");
        }
    }
    Ok(Created { object, lost })
}

/// Makes the services ignore an Installation until the user releases it. One that was ignored
/// before stays so after the release.
fn hold(metadata: &mut Map<String, Value>) {
    let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
    if annotations[annotation::IGNORE] != "true" {
        annotations[annotation::IGNORE] = json!("true");
        annotations[annotation::HELD] = json!("true");
    }
}

/// Reports whether an object has a job that has not ended.
pub(super) fn is_running(object: &Value) -> bool {
    let status = &object["status"];
    !text(status, "jobID").is_empty() && text(status, "jobID") != text(status, "jobIDFinished")
}

/// Returns the status to write, for an object that was created with the generation `now`; `None`
/// if the backup has none. A job that ran ends as failed: parts of it may be missing in the backup.
pub(super) fn status(saved: &Value, now: i64, time: &str) -> Option<Value> {
    let mut status = saved.get("status").filter(|status| status.is_object())?.clone();
    let before = saved["metadata"]["generation"].as_i64();
    // A spec that no job has seen keeps this state.
    let renewed = |observed: &Value| if observed.as_i64() == before { now } else { now - 1 };
    if status["observedGeneration"].is_i64() {
        status["observedGeneration"] = Value::from(renewed(&status["observedGeneration"]));
    }
    for condition in status["conditions"].as_array_mut().into_iter().flatten() {
        if condition["observedGeneration"].is_i64() {
            condition["observedGeneration"] = Value::from(renewed(&condition["observedGeneration"]));
        }
    }
    if is_running(saved) {
        status["jobIDFinished"] = status["jobID"].clone();
        status["phase"] = json!("Failed");
        status["lastError"] = json!({
            "operation": "Restore", "reason": "Restored", "codes": [],
            "message": "the backup was made while this job ran; start another job",
            "lastTransitionTime": time, "lastUpdateTime": time,
        });
        // These conditions show a running job. The next job writes them anew.
        if let Some(conditions) = status["conditions"].as_array_mut() {
            let shows_job = |condition: &Value| {
                ["Ready", "Reconciling", "Stalled", "Waiting"].contains(&text(condition, "type"))
            };
            conditions.retain(|condition| !shows_job(condition));
        }
    }
    Some(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(kind: &str, name: &str, uid: &str, owner: Option<(&str, &str, &str)>) -> Value {
        let version = if kind == "Secret" { "v1" } else { "landscaper.gardener.cloud/v1alpha1" };
        let mut object = json!({
            "apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": "team", "uid": uid},
        });
        if let Some((kind, name, uid)) = owner {
            let reference =
                json!({"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": true});
            object["metadata"]["ownerReferences"] = json!([reference]);
        }
        object
    }

    #[test]
    fn owners_come_first() {
        let objects = [
            object("DeployItem", "item", "4", Some(("Execution", "app", "3"))),
            object("Secret", "item-export", "5", Some(("DeployItem", "item", "4"))),
            object("Execution", "app", "3", Some(("Installation", "app", "1"))),
            object("Installation", "child", "2", Some(("Installation", "app", "1"))),
            object("Installation", "app", "1", None),
            object("Secret", "login", "6", None),
        ];
        let owners = Owners::of(&objects);
        let names: Vec<Vec<&str>> = ordered(&objects, &owners)
            .iter()
            .map(|level| level.iter().map(|index| metadata(&objects[*index], "name")).collect())
            .collect();
        assert_eq!(
            names,
            [vec!["login"], vec!["app"], vec!["child"], vec!["app"], vec!["item"], vec!["item-export"]]
        );
    }

    #[test]
    fn references_follow_uid_or_name() {
        let objects = [
            object("Installation", "app", "1", None),
            object("Execution", "app", "3", Some(("Installation", "app", "0"))),
            object("DeployItem", "item", "4", Some(("Execution", "gone", "9"))),
        ];
        let owners = Owners::of(&objects);
        let of =
            |index: usize, new: Option<&str>| created(&objects[index], &owners, |_| new.map(str::to_owned));
        let execution = of(1, Some("new")).ok().unwrap();
        assert_eq!(execution.object["metadata"]["ownerReferences"][0]["uid"], "new");
        assert!(execution.object["metadata"].get("uid").is_none());
        assert_eq!(of(1, None).err().unwrap(), "its owner, Installation app, could not be restored");
        let item = of(2, None).ok().unwrap();
        assert_eq!(item.lost, ["Execution gone"]);
        assert!(item.object["metadata"].get("ownerReferences").is_none());
    }

    #[test]
    fn installations_are_held() {
        let mut ignored = object("Installation", "app", "1", None);
        let held = created(&ignored, &Owners::of(&[]), |_| None).ok().unwrap().object;
        assert_eq!(
            held["metadata"]["annotations"],
            json!({(annotation::IGNORE): "true", (annotation::HELD): "true"})
        );
        ignored["metadata"]["annotations"] = json!({(annotation::IGNORE): "true"});
        let kept = created(&ignored, &Owners::of(&[]), |_| None).ok().unwrap().object;
        assert_eq!(kept["metadata"]["annotations"], json!({(annotation::IGNORE): "true"}));
    }

    #[test]
    fn states_of_jobs() {
        let with = |generation: i64, status: Value| json!({"metadata": {"generation": generation}, "status": status});
        let idle = json!({"jobID": "a", "jobIDFinished": "a", "phase": "Succeeded", "observedGeneration": 7});
        let now = status(&with(7, idle.clone()), 1, "").unwrap();
        assert_eq!((&now["observedGeneration"], &now["phase"]), (&json!(1), &json!("Succeeded")));
        assert_eq!(
            status(&with(8, idle), 1, "").unwrap()["observedGeneration"],
            0,
            "the spec has changed since"
        );
        let running = json!({
            "jobID": "b", "jobIDFinished": "a", "phase": "Progressing", "observedGeneration": 7,
            "conditions": [{"type": "Ready", "status": "False"}, {"type": "CreateImports", "status": "True"}],
        });
        let ended = status(&with(7, running), 1, "2026-01-01T00:00:00Z").unwrap();
        assert_eq!((&ended["jobIDFinished"], &ended["phase"]), (&json!("b"), &json!("Failed")));
        assert_eq!(ended["conditions"], json!([{"type": "CreateImports", "status": "True"}]));
        assert_eq!(status(&json!({}), 1, ""), None);
    }

    #[test]
    fn forms_of_files() {
        let lines = "{\"kind\": \"Target\"}\n{\"kind\": \"List\", \"items\": [{\"kind\": \"Context\"}]}\n";
        let kinds = |text: &str| -> Vec<String> {
            let objects = read(text).unwrap();
            objects.iter().map(|object| super::text(object, "kind").to_owned()).collect()
        };
        assert_eq!(kinds(lines), ["Target", "Context"]);
        assert_eq!(kinds("kind: List\nitems:\n- kind: Target\n---\nkind: Context\n"), ["Target", "Context"]);
        assert!(read("{\"kind\": ").unwrap_err().contains("line 1"));
    }
}
