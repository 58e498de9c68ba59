//! Converts manifests into objects in the order of application (`installations.md` 7.9).

use std::collections::BTreeSet;

use groundwork_controller::ApiError;
use serde_json::{Map, Value, json};

use crate::cluster::{Cluster, ResourceKind};
use crate::configuration::Manifest;
use crate::error::ApplyError;
use crate::object::{Reference, set_metadata};
use crate::ownership::Owner;

/// Maximum objects of an item.
const MAX_OBJECTS: usize = 5000;
/// Maximum depth of lists within lists.
const MAX_LIST_DEPTH: usize = 8;

/// An object to apply.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub(crate) reference: Reference,
    /// The kind; `None` while the cluster does not know it, because its CRD comes with this very
    /// item.
    pub(crate) kind: Option<ResourceKind>,
    /// The settings of the object; its manifest carries the label of its owner.
    pub(crate) manifest: Manifest,
}

/// CRDs, cluster-scoped objects, namespaced objects. Each group is applied after the one before.
pub(crate) type Groups = [Vec<Member>; 3];

/// Returns every object of the manifests on its own, with lists expanded.
///
/// # Errors
///
/// All problems of the manifests, by position. The texts quote no value.
pub fn expand(manifests: &[Manifest]) -> Result<Vec<Manifest>, Vec<String>> {
    let (mut objects, mut problems) = (Vec::new(), Vec::new());
    for (index, manifest) in manifests.iter().enumerate() {
        let place = format!("manifests[{index}].manifest");
        expand_into(manifest, &manifest.manifest, &place, MAX_LIST_DEPTH, &mut objects, &mut problems);
    }
    if objects.len() > MAX_OBJECTS {
        problems.push(format!("there are more than {MAX_OBJECTS} objects"));
    }
    if problems.is_empty() { Ok(objects) } else { Err(problems) }
}

fn expand_into(
    settings: &Manifest,
    object: &Value,
    place: &str,
    depth: usize,
    objects: &mut Vec<Manifest>,
    problems: &mut Vec<String>,
) {
    let kind = object["kind"].as_str().unwrap_or_default();
    if let (true, Some(items)) = (kind.ends_with("List"), object.get("items")) {
        let none = Vec::new();
        let items = match items {
            Value::Array(items) => items,
            Value::Null => &none,
            _ => return problems.push(format!("{place}.items: must be a list")),
        };
        if depth == 0 {
            return problems.push(format!("{place}: lists are nested too deeply"));
        }
        for (index, item) in items.iter().enumerate() {
            expand_into(settings, item, &format!("{place}.items[{index}]"), depth - 1, objects, problems);
        }
        return;
    }
    if !object.is_object() {
        return problems.push(format!("{place}: must be an object"));
    }
    for (member, path) in
        [("apiVersion", "/apiVersion"), ("kind", "/kind"), ("metadata.name", "/metadata/name")]
    {
        if object.pointer(path).and_then(Value::as_str).is_none_or(str::is_empty) {
            problems.push(format!("{place}.{member}: must be given"));
        }
    }
    objects.push(Manifest { manifest: object.clone(), ..settings.clone() });
}

/// Sorts objects into groups and adds kind, namespace and label to each.
pub(crate) async fn prepare(
    cluster: &Cluster,
    objects: Vec<Manifest>,
    owner: &Owner,
    default_namespace: Option<&str>,
) -> Result<Groups, ApplyError> {
    let coming = coming_kinds(&objects);
    let mut groups: Groups = Default::default();
    let (mut problems, mut unknown) = (Vec::new(), Vec::new());
    let mut seen = BTreeSet::new();
    for mut manifest in objects {
        let reference = Reference::of(&manifest.manifest);
        let kind = cluster.kind(&reference.api_version, &reference.kind).await.map_err(ApplyError::from)?;
        let scope = match &kind {
            Some(kind) => Some(kind.is_namespaced),
            None => coming.iter().find(|coming| coming.is(&reference)).map(|coming| coming.is_namespaced),
        };
        let Some(is_namespaced) = scope else {
            unknown.push(format!("the cluster has no kind {} in {}", reference.kind, reference.api_version));
            continue;
        };
        place(&mut manifest.manifest, is_namespaced, default_namespace);
        set_metadata(&mut manifest.manifest, "labels", owner.label, &owner.item);
        let reference = Reference::of(&manifest.manifest);
        if is_namespaced && reference.namespace.is_none() {
            problems.push(format!("{reference}: metadata.namespace must be given"));
        }
        if !seen.insert((
            reference.group().to_owned(),
            Reference { api_version: String::new(), ..reference.clone() },
        )) {
            problems.push(format!("{reference} is listed more than once"));
        }
        let group = match (reference.kind.as_str(), is_namespaced) {
            ("CustomResourceDefinition", _) => 0,
            (_, false) => 1,
            (_, true) => 2,
        };
        groups[group].push(Member { reference, kind, manifest });
    }
    match (problems.is_empty(), unknown.is_empty()) {
        (true, true) => Ok(groups),
        // An operator of another item may soon install the unknown kinds, so retry.
        (true, false) => Err(ApplyError::Retry(unknown.join("; "))),
        (false, _) => Err(ApplyError::Configuration(problems.join("; "))),
    }
}

fn place(object: &mut Value, is_namespaced: bool, default_namespace: Option<&str>) {
    let Some(Value::Object(metadata)) = object.get_mut("metadata") else { return };
    if !is_namespaced {
        metadata.remove("namespace");
        return;
    }
    let is_given = metadata.get("namespace").and_then(Value::as_str).is_some_and(|name| !name.is_empty());
    if let (false, Some(default)) = (is_given, default_namespace) {
        metadata.insert("namespace".to_owned(), json!(default));
    }
}

/// A kind that a CRD of the same item will define.
struct ComingKind {
    group: String,
    kind: String,
    is_namespaced: bool,
}

impl ComingKind {
    fn is(&self, reference: &Reference) -> bool {
        self.group == reference.group() && self.kind == reference.kind
    }
}

fn coming_kinds(objects: &[Manifest]) -> Vec<ComingKind> {
    let definitions = objects.iter().map(|manifest| &manifest.manifest);
    definitions
        .filter(|object| object["kind"] == "CustomResourceDefinition")
        .map(|object| {
            let text =
                |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
            ComingKind {
                group: text("/spec/group"),
                kind: text("/spec/names/kind"),
                is_namespaced: text("/spec/scope") != "Cluster",
            }
        })
        .collect()
}

/// Returns the kind of a member, which may be known only now that its CRD exists.
pub(crate) async fn kind_of(cluster: &Cluster, member: &Member) -> Result<Option<ResourceKind>, ApiError> {
    match &member.kind {
        Some(kind) => Ok(Some(kind.clone())),
        None => cluster.kind(&member.reference.api_version, &member.reference.kind).await,
    }
}

/// Sets annotations on an object, with their values as texts.
pub(crate) fn annotate(object: &mut Value, annotations: &Map<String, Value>) {
    for (name, value) in annotations {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        set_metadata(object, "annotations", name, &text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(object: Value) -> Manifest {
        Manifest { manifest: object, ..Manifest::default() }
    }

    #[test]
    fn lists_are_taken_apart() {
        let object =
            |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        let list = json!({"apiVersion": "v1", "kind": "List", "items": [object("a"), {"kind": "ConfigMapList", "items": [object("b")]}]});
        let empty = json!({"apiVersion": "v1", "kind": "List", "items": null});
        let found = expand(&[manifest(list), manifest(empty), manifest(object("c"))]).unwrap();
        let names: Vec<_> = found.iter().map(|one| one.manifest["metadata"]["name"].clone()).collect();
        assert_eq!(names, ["a", "b", "c"]);
    }

    #[test]
    fn all_that_is_wrong_is_told() {
        let mut deep = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
        for _ in 0..10 {
            deep = json!({"kind": "List", "items": [deep]});
        }
        let problems = expand(&[
            manifest(json!({"kind": "ConfigMap", "metadata": {}})),
            manifest(json!("secret")),
            manifest(json!({"kind": "List", "items": 7})),
            manifest(deep),
        ])
        .unwrap_err();
        assert_eq!(
            problems[..4],
            [
                "manifests[0].manifest.apiVersion: must be given",
                "manifests[0].manifest.metadata.name: must be given",
                "manifests[1].manifest: must be an object",
                "manifests[2].manifest.items: must be a list",
            ]
        );
        assert!(problems[4].ends_with("lists are nested too deeply"), "{problems:?}");
    }
}
