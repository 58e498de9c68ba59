//! Objects of a Porch server, kept as they were read. A `PUT` deletes each member that it leaves
//! out, so members that this version does not know must be kept (`packagevariants.md` 1.6, 6.13).

use std::collections::BTreeMap;

use groundwork_api::metadata::annotation;
use groundwork_api::{
    Lifecycle, OwnerReference, PackageRevision, PackageRevisionResources, RenderStatus, UpgradeTask,
};
use serde_json::{Map, Value, json};

/// A PackageRevision with all members that the server returned.
#[derive(Debug, Clone, PartialEq)]
pub struct Revision {
    pub(crate) raw: Value,
    object: PackageRevision,
}

impl Revision {
    /// Parses a revision.
    ///
    /// # Errors
    /// The value is not a PackageRevision.
    pub fn new(raw: Value) -> Result<Self, serde_json::Error> {
        let mut object: PackageRevision = serde_json::from_value(raw.clone())?;
        // Porch serves an empty object instead of a missing lock.
        if let Some(status) = &mut object.status {
            for lock in [&mut status.upstream_lock, &mut status.self_lock] {
                *lock = lock.take().filter(|lock| lock.git.is_some());
            }
        }
        Ok(Self { raw, object })
    }

    /// Returns the typed object, as decisions use it.
    pub fn object(&self) -> &PackageRevision {
        &self.object
    }

    /// Returns the JSON with all members.
    pub fn as_json(&self) -> &Value {
        &self.raw
    }

    /// Returns the typed object, without unknown members.
    pub fn into_object(self) -> PackageRevision {
        self.object
    }

    /// Returns the version of the content, which covers neither labels nor the lifecycle.
    pub fn version(&self) -> &str {
        self.text("/metadata/resourceVersion")
    }

    pub fn name(&self) -> &str {
        self.text("/metadata/name")
    }

    pub(crate) fn namespace(&self) -> &str {
        self.text("/metadata/namespace")
    }

    fn text(&self, path: &str) -> &str {
        self.raw.pointer(path).and_then(Value::as_str).unwrap_or_default()
    }

    /// Reports whether the revision has an owner with this UID.
    pub fn is_owned_by(&self, uid: &str) -> bool {
        let owners = self.object.metadata.owner_references.iter().flatten();
        !uid.is_empty() && owners.into_iter().any(|owner| owner.uid == uid)
    }

    /// Sets the lifecycle.
    #[must_use]
    pub fn with_lifecycle(mut self, lifecycle: Lifecycle) -> Self {
        set(&mut self.raw, "spec", "lifecycle", json!(lifecycle.as_str()));
        self.object.spec.lifecycle = Some(lifecycle.as_str().to_owned());
        self
    }

    /// Replaces labels, annotations and owners.
    ///
    /// # Errors
    /// An owner cannot be written as JSON.
    pub fn with_metadata(
        mut self,
        labels: &BTreeMap<String, String>,
        annotations: &BTreeMap<String, String>,
        owners: &[OwnerReference],
    ) -> Result<Self, serde_json::Error> {
        let owners = serde_json::to_value(owners)?;
        for (member, value, is_empty) in [
            ("labels", json!(labels), labels.is_empty()),
            ("annotations", json!(annotations), annotations.is_empty()),
            ("ownerReferences", owners.clone(), owners.as_array().is_none_or(Vec::is_empty)),
        ] {
            if is_empty {
                remove(&mut self.raw, "metadata", member);
            } else {
                set(&mut self.raw, "metadata", member, value);
            }
        }
        Self::new(self.raw)
    }
}

/// Files of a revision with all members that the server returned.
#[derive(Debug, Clone, PartialEq)]
pub struct Resources {
    pub(crate) raw: Value,
    object: PackageRevisionResources,
    has_files: bool,
}

impl Resources {
    /// Parses the files of a revision.
    ///
    /// # Errors
    /// The value is not a PackageRevisionResources.
    pub fn new(raw: Value) -> Result<Self, serde_json::Error> {
        let has_files = raw.pointer("/spec/resources").is_some_and(Value::is_object);
        let object = serde_json::from_value(raw.clone())?;
        Ok(Self { raw, object, has_files })
    }

    /// Returns the texts by their paths; `None` if the object has no map of files.
    pub fn files(&self) -> Option<BTreeMap<String, String>> {
        let files = self.object.spec.resources.iter();
        self.has_files.then(|| files.map(|(path, text)| (path.clone(), text.clone())).collect())
    }

    /// Replaces all files, and keeps the version that was read.
    #[must_use]
    pub fn with_files(mut self, files: &BTreeMap<String, String>) -> Self {
        set(&mut self.raw, "spec", "resources", json!(files));
        self
    }

    /// Asks the next save for an upgrade of the draft (`packagevariants.md` 6.14).
    ///
    /// # Errors
    /// The task cannot be written as JSON.
    pub fn with_upgrade(self, task: &UpgradeTask) -> Result<Self, serde_json::Error> {
        let task = serde_json::to_string(task)?;
        Ok(self.annotated(annotation::UPGRADE, &task))
    }

    /// Says that the next save finishes a new draft (`packagevariants.md` 6.14).
    #[must_use]
    pub fn finishing(self) -> Self {
        self.annotated(annotation::UNFINISHED, "true")
    }

    fn annotated(mut self, name: &str, value: &str) -> Self {
        let annotations = self.raw.pointer("/metadata/annotations").and_then(Value::as_object);
        let mut annotations = annotations.cloned().unwrap_or_default();
        annotations.insert(name.to_owned(), json!(value));
        set(&mut self.raw, "metadata", "annotations", Value::Object(annotations));
        self
    }

    /// Returns the results of the package's functions, which only the answer to a save contains.
    pub fn render_status(&self) -> Option<&RenderStatus> {
        self.object.status.as_ref()?.render_status.as_ref()
    }

    /// Returns the version of the files.
    pub fn version(&self) -> &str {
        self.raw.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or_default()
    }

    pub(crate) fn place(&self) -> (&str, &str) {
        let text = |path: &str| self.raw.pointer(path).and_then(Value::as_str).unwrap_or_default();
        (text("/metadata/namespace"), text("/metadata/name"))
    }
}

fn set(raw: &mut Value, part: &str, member: &str, value: Value) {
    let Some(object) = raw.as_object_mut() else { return };
    let part = object.entry(part).or_insert_with(|| Value::Object(Map::new()));
    if let Some(part) = part.as_object_mut() {
        part.insert(member.to_owned(), value);
    }
}

fn remove(raw: &mut Value, part: &str, member: &str) {
    if let Some(part) = raw.get_mut(part).and_then(Value::as_object_mut) {
        part.remove(member);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn revision() -> Value {
        json!({
            "apiVersion": "porch.kpt.dev/v1alpha1", "kind": "PackageRevision",
            "metadata": {"name": "edge.dns.w", "namespace": "fleet", "resourceVersion": "6f1c", "creationTimestamp": null,
                "labels": {"tier": "edge"}, "novel": 1},
            "spec": {"packageName": "dns", "repository": "edge", "workspaceName": "w", "novel": {"a": [1]}},
            "status": {"upstreamLock": {}, "selfLock": {"type": "git", "git": {"commit": "6f1c"}}, "novel": true},
            "novel": "kept",
        })
    }

    /// A `PUT` deletes each member that it leaves out, so unknown members are kept
    /// (`packagevariants.md` 6.13).
    #[test]
    fn what_is_not_known_is_kept() {
        let read = Revision::new(revision()).unwrap();
        let mut expected = revision();
        expected["spec"]["lifecycle"] = json!("DeletionProposed");
        assert_eq!(read.clone().with_lifecycle(Lifecycle::DeletionProposed).raw, expected);
        let owner =
            OwnerReference { name: "dns".to_owned(), uid: "u".to_owned(), ..OwnerReference::default() };
        let annotations = [("a".to_owned(), "b".to_owned())].into();
        let changed = read.with_metadata(&BTreeMap::new(), &annotations, &[owner]).unwrap();
        let mut expected = revision();
        expected["metadata"]["annotations"] = json!({"a": "b"});
        expected["metadata"].as_object_mut().unwrap().remove("labels");
        expected["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "", "kind": "", "name": "dns", "uid": "u"}]);
        assert_eq!(changed.raw, expected);
        assert!(changed.is_owned_by("u") && !changed.is_owned_by("v") && !changed.is_owned_by(""));
    }

    /// Absent members, and locks without a location (`packagevariants.md` 1.6).
    #[test]
    fn what_is_absent_has_a_meaning() {
        let read = Revision::new(revision()).unwrap();
        let status = read.object().status.as_ref().unwrap();
        assert!(status.upstream_lock.is_none() && status.self_lock.is_some());
        assert_eq!(read.object().spec.lifecycle(), Some(Lifecycle::Draft));
        assert_eq!((read.name(), read.version()), ("edge.dns.w", "6f1c"));
    }

    #[test]
    fn files_are_replaced_whole() {
        let raw = json!({
            "metadata": {"name": "edge.dns.w", "namespace": "fleet", "resourceVersion": "6f1c"},
            "spec": {"packageName": "dns", "resources": {"Kptfile": "a", "b": "c"}, "novel": 1},
            "status": {"renderStatus": {"error": "", "result": {"exitCode": 0}}},
        });
        let read = Resources::new(raw.clone()).unwrap();
        assert_eq!(read.files().unwrap().len(), 2);
        assert_eq!(read.render_status().unwrap().error.as_deref(), Some(""));
        let saved = read.with_files(&[("Kptfile".to_owned(), "b".to_owned())].into());
        let mut expected = raw;
        expected["spec"]["resources"] = json!({"Kptfile": "b"});
        assert_eq!(saved.raw, expected);
        let none = Resources::new(json!({"metadata": {"name": "x"}, "spec": {}})).unwrap();
        assert_eq!(none.files(), None);
    }
}
