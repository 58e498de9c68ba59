//! Comparison of a planned job with the objects of the cluster.

use std::collections::{BTreeMap, BTreeSet};

use groundwork_api::metadata::{annotation, label};
use groundwork_api::{
    DataObject, DeployItem, Installation, Kind as _, KubeResource, ObjectMeta, ResourceExt as _, Target,
};
use groundwork_lifecycle::{
    DataKind, ROOT_SCOPE, SOURCE_TYPE_EXPORT, ScopedObject, deploy_items, scope_name,
};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::change::{Change, PlannedExport, PlannedInstallation, PlannedItem};
use crate::landscape::{Below, Key, Landscape, key};
use crate::secrecy::{Proof, shown_differences};
use crate::walk::{Node, Published};
use crate::world::{exported, imported};

/// Results of further walks over the same root, with present objects or substituted secrets. The
/// comparison with them shows which changed values contain no secret and may be shown.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Proofs<'a> {
    /// True if no values are hidden.
    pub(crate) show_values: bool,
    /// Result with the applied objects and substituted secrets.
    pub(crate) disguised: Option<&'a Node>,
    /// Result with the present objects of the cluster.
    pub(crate) before: Option<&'a Node>,
    /// Result with the present objects and substituted secrets.
    pub(crate) before_disguised: Option<&'a Node>,
}

/// Comparison of one root with the cluster.
pub(crate) struct Comparison<'a> {
    pub(crate) present: &'a Landscape,
    pub(crate) below: &'a Below<'a>,
    pub(crate) proofs: Proofs<'a>,
    /// Published objects by namespace and the scope of their exporter.
    pub(crate) published: &'a BTreeMap<Key, Vec<(DataKind, String)>>,
}

impl Comparison<'_> {
    pub(crate) fn installation(&self, node: &Node, siblings: &Importers) -> PlannedInstallation {
        let place = key(&node.installation.metadata);
        let present = self.present.installations.get(&place).filter(|_| node.is_named);
        let spec = |node: &Node| json(&node.installation.spec);
        let fields = present.map_or_else(Vec::new, |present| {
            if node.scope == ROOT_SCOPE {
                // A user has written the spec of a root, so it contains no values that templates
                // took from Secrets.
                return shown_differences(
                    "spec",
                    (&json(&present.spec), Proof::Public),
                    (&spec(node), Proof::Public),
                );
            }
            self.differences("spec", node, Some(&json(&present.spec)), &spec(node), &|node| Some(spec(node)))
        });
        let change = match present {
            None => Change::Created,
            Some(_) if fields.is_empty() => Change::Unchanged,
            Some(_) => Change::Changed,
        };
        let is_known = node.error.is_none() && node.waits_for.is_none();
        let mut nested: Vec<PlannedInstallation> = Vec::new();
        if let Some(first) = node.children.first() {
            let template = |child: &'_ Node| child.path.last().cloned().unwrap_or_default();
            let children = node.children.iter().map(|child| (template(child), &child.installation));
            let siblings = importers(children, &first.scope);
            nested.extend(node.children.iter().map(|child| self.installation(child, &siblings)));
        }
        if present.is_some() {
            let wanted: BTreeSet<&String> =
                node.children.iter().filter_map(|child| child.path.last()).collect();
            for child in self.below.children(&place) {
                let template = child.annotations().get(annotation::SUBINSTALLATION_NAME).cloned();
                if !template.as_ref().is_some_and(|template| wanted.contains(template)) {
                    let change = if is_known { Change::Deleted } else { unfinished(node) };
                    nested.push(self.all_become(child, change, &node.path, template));
                }
            }
        }
        PlannedInstallation {
            namespace: place.0.clone(),
            name: node.is_named.then(|| place.1.clone()),
            path: node.path.clone(),
            change,
            start: None,
            reasons: Vec::new(),
            redirected: Vec::new(),
            fields,
            error: node.error.clone(),
            waits_for: node.waits_for.clone(),
            items: if is_known { self.items(node) } else { self.items_become(&place, unfinished(node)) },
            exports: self.exports(node, siblings),
            nested,
        }
    }

    fn items(&self, node: &Node) -> Vec<PlannedItem> {
        let place = key(&node.installation.metadata);
        let found = if node.is_named { self.below.items(&place) } else { &[] };
        let mut found: BTreeMap<String, &DeployItem> =
            found.iter().map(|item| (template_of(item), *item)).collect();
        let has_uid = node.execution.as_ref().is_some_and(|execution| execution.metadata.uid.is_some());
        let mut items = Vec::new();
        for wanted in node.execution.iter().flat_map(deploy_items) {
            let template = template_of(&wanted);
            let present = found.remove(&template);
            let fields = present.map_or_else(Vec::new, |present| {
                let of_node = |node: &Node| {
                    let item = node
                        .execution
                        .iter()
                        .flat_map(deploy_items)
                        .find(|item| template_of(item) == template);
                    item.map(|item| decided(&item, &item))
                };
                self.differences(
                    "",
                    node,
                    Some(&decided(present, &wanted)),
                    &decided(&wanted, &wanted),
                    &of_node,
                )
            });
            let change = match present {
                None => Change::Created,
                Some(_) if fields.is_empty() => Change::Unchanged,
                Some(_) => Change::Changed,
            };
            let name = present.unwrap_or(&wanted).name_any();
            items.push(PlannedItem {
                name: (present.is_some() || has_uid).then_some(name),
                template,
                type_: wanted.spec.type_,
                change,
                fields,
            });
        }
        items.extend(found.into_values().map(|item| planned_item(item, Change::Deleted)));
        items
    }

    fn items_become(&self, execution: &Key, change: Change) -> Vec<PlannedItem> {
        self.below.items(execution).iter().map(|item| planned_item(item, change)).collect()
    }

    /// Returns an Installation and all Installations below it with the same change, deleted or
    /// unknown.
    fn all_become(
        &self,
        installation: &Installation,
        change: Change,
        parent: &[String],
        template: Option<String>,
    ) -> PlannedInstallation {
        let place = key(&installation.metadata);
        let path: Vec<String> =
            parent.iter().cloned().chain([template.unwrap_or_else(|| place.1.clone())]).collect();
        let exports = self.published_of(&place).iter().map(|(kind, name)| PlannedExport {
            kind: kind_name(*kind),
            name: name.clone(),
            key: name.clone(),
            change,
            fields: Vec::new(),
            reason: None,
            wakes: Vec::new(),
        });
        let nested = self.below.children(&place).iter().map(|child| {
            let template = child.annotations().get(annotation::SUBINSTALLATION_NAME).cloned();
            self.all_become(child, change, &path, template)
        });
        PlannedInstallation {
            namespace: place.0.clone(),
            name: Some(place.1.clone()),
            change,
            start: None,
            reasons: Vec::new(),
            redirected: Vec::new(),
            fields: Vec::new(),
            error: None,
            waits_for: None,
            items: self.items_become(&place, change),
            exports: exports.collect(),
            nested: nested.collect(),
            path,
        }
    }

    fn published_of(&self, (namespace, name): &Key) -> &[(DataKind, String)] {
        let scope = (namespace.clone(), scope_name(namespace, name));
        self.published.get(&scope).map_or(&[], Vec::as_slice)
    }

    /// Returns the changes of the objects that an Installation publishes.
    fn exports(&self, node: &Node, siblings: &Importers) -> Vec<PlannedExport> {
        let place = key(&node.installation.metadata);
        let (known, reason) = match &node.published {
            Published::Known(objects) => (objects, None),
            Published::Unknown(objects, reason) => (objects, Some(reason)),
        };
        let mut exports: Vec<PlannedExport> =
            known.iter().map(|object| self.known_export(node, object)).collect();
        let mut told: BTreeSet<(&str, String)> =
            exports.iter().map(|export| (export.kind, export.name.clone())).collect();
        let keys = keys(&node.installation, &node.scope);
        // A job first deletes the exports of the previous job (`installations.md` 6.2), so a failed
        // job leaves none.
        let gone = if node.error.is_some() { Change::Deleted } else { Change::Unknown };
        let is_present = |kind: DataKind, name: &str| self.present_value(kind, &place.0, name).is_some();
        for (kind, name) in exported(&node.installation, &node.scope) {
            if let Some(reason) = reason.filter(|_| told.insert((kind_name(kind), name.clone())))
                && (gone == Change::Unknown || is_present(kind, &name))
            {
                let key = keys.get(&(kind, name.clone())).cloned().unwrap_or_else(|| name.clone());
                exports.push(PlannedExport {
                    kind: kind_name(kind),
                    name,
                    key,
                    change: gone,
                    fields: Vec::new(),
                    reason: Some(reason.clone()),
                    wakes: Vec::new(),
                });
            }
        }
        let former = if node.is_named { self.published_of(&place) } else { &[] };
        for (kind, name) in former {
            if told.insert((kind_name(*kind), name.clone())) {
                exports.push(PlannedExport {
                    kind: kind_name(*kind),
                    name: name.clone(),
                    key: name.clone(),
                    change: Change::Deleted,
                    fields: Vec::new(),
                    reason: None,
                    wakes: Vec::new(),
                });
            }
        }
        let name = node.path.last();
        for export in &mut exports {
            let importers = siblings.get(&(export.kind, export.name.clone())).into_iter().flatten();
            export.wakes = importers.filter(|importer| Some(*importer) != name).cloned().collect();
        }
        exports
    }

    fn known_export(&self, node: &Node, object: &ScopedObject) -> PlannedExport {
        let (kind, metadata, value) = content(object);
        let (namespace, name) = key(metadata);
        let present = self.present_value(kind, &namespace, &name);
        let of_node = |node: &Node| {
            let (Published::Known(objects) | Published::Unknown(objects, _)) = &node.published;
            let found = objects
                .iter()
                .map(content)
                .find(|(of, metadata, _)| *of == kind && metadata.name.as_deref() == Some(&name));
            found.map(|(.., value)| value)
        };
        let fields = present
            .as_ref()
            .map_or_else(Vec::new, |present| self.differences("", node, Some(present), &value, &of_node));
        PlannedExport {
            kind: kind_name(kind),
            key: metadata
                .labels
                .as_ref()
                .and_then(|labels| labels.get(label::DATA_KEY))
                .cloned()
                .unwrap_or_default(),
            change: match present {
                None => Change::Created,
                Some(_) if fields.is_empty() => Change::Unchanged,
                Some(_) => Change::Changed,
            },
            name,
            fields,
            reason: None,
            wakes: Vec::new(),
        }
    }

    fn present_value(&self, kind: DataKind, namespace: &str, name: &str) -> Option<Value> {
        let place = (namespace.to_owned(), name.to_owned());
        match kind {
            DataKind::Data => self.present.data_objects.get(&place).map(data_value),
            DataKind::Target => self.present.targets.get(&place).map(target_value),
        }
    }

    /// Returns the differences of a part of a node, with secret values hidden.
    fn differences(
        &self,
        path: &str,
        node: &Node,
        old: Option<&Value>,
        new: &Value,
        part: &dyn Fn(&Node) -> Option<Value>,
    ) -> Vec<groundwork_fleet::Field> {
        let old = old.unwrap_or(&Value::Null);
        if old == new {
            return Vec::new();
        }
        let Proofs { disguised, before, before_disguised, .. } = self.proofs;
        let before = before.and_then(|root| root.at(&node.path));
        let new_others = [disguised.and_then(|root| root.at(&node.path)).and_then(part)];
        let before_disguised = before_disguised.and_then(|root| root.at(&node.path));
        let old_others = [before.and_then(part), before_disguised.and_then(part)];
        let is_shown = |may_be_secret: bool| self.proofs.show_values || !may_be_secret;
        let new_proof = if is_shown(node.may_be_secret) { Proof::Public } else { Proof::SameAs(&new_others) };
        // If a rendering with the present objects gives another value than the cluster has, the
        // origin of the old value is unknown, so it is hidden.
        let only_before = [before.and_then(part)];
        let old_proof = match before {
            _ if self.proofs.show_values => Proof::Public,
            Some(before) if !before.may_be_secret => Proof::SameAs(&only_before),
            _ => Proof::SameAs(&old_others),
        };
        shown_differences(path, (old, old_proof), (new, new_proof))
    }
}

/// Returns the change of the objects of an unfinished job: unchanged after a failure, unknown while
/// it waits.
fn unfinished(node: &Node) -> Change {
    if node.error.is_some() { Change::Unchanged } else { Change::Unknown }
}

fn planned_item(item: &DeployItem, change: Change) -> PlannedItem {
    PlannedItem {
        name: Some(item.name_any()),
        template: template_of(item),
        type_: item.spec.type_.clone(),
        change,
        fields: Vec::new(),
    }
}

fn template_of(item: &DeployItem) -> String {
    item.labels().get(label::DEPLOY_ITEM_NAME).cloned().unwrap_or_default()
}

/// Returns the parts of an item that a job sets: its spec, and the labels and annotations of the
/// wanted item (`installations.md` 7.2).
fn decided(item: &DeployItem, wanted: &DeployItem) -> Value {
    let of = |found: &BTreeMap<String, String>, wanted: &BTreeMap<String, String>| -> Value {
        let entries =
            wanted.keys().filter_map(|name| Some((name.clone(), Value::from(found.get(name)?.as_str()))));
        Value::Object(entries.collect::<Map<_, _>>())
    };
    let metadata = Map::from_iter([
        ("annotations".to_owned(), of(item.annotations(), wanted.annotations())),
        ("labels".to_owned(), of(item.labels(), wanted.labels())),
    ]);
    Value::Object(Map::from_iter([
        ("metadata".to_owned(), Value::Object(metadata)),
        ("spec".to_owned(), json(&item.spec)),
    ]))
}

/// Returns the export names of an Installation, by kind and object.
fn keys(installation: &Installation, scope: &str) -> BTreeMap<(DataKind, String), String> {
    let data = installation.spec.data_exports().iter().map(|export| export.data_ref.clone());
    let targets = installation.spec.target_exports().iter().map(|export| export.target.clone());
    exported(installation, scope).into_iter().zip(data.chain(targets)).collect()
}

fn content(object: &ScopedObject) -> (DataKind, &ObjectMeta, Value) {
    match object {
        ScopedObject::Data(object) => (DataKind::Data, object.meta(), data_value(object)),
        ScopedObject::Target(target) => (DataKind::Target, target.meta(), target_value(target)),
    }
}

fn data_value(object: &DataObject) -> Value {
    Value::Object(Map::from_iter([("data".to_owned(), object.data.get().cloned().unwrap_or_default())]))
}

fn target_value(target: &Target) -> Value {
    Value::Object(Map::from_iter([("spec".to_owned(), json(&target.spec))]))
}

pub(crate) fn kind_name(kind: DataKind) -> &'static str {
    match kind {
        DataKind::Data => DataObject::KIND,
        DataKind::Target => Target::KIND,
    }
}

/// Names of the importing Installations, by kind and name of the object.
pub(crate) type Importers = BTreeMap<(&'static str, String), BTreeSet<String>>;

/// Returns the importers among the Installations of one scope, which are given with their names.
pub(crate) fn importers<'i>(
    installations: impl Iterator<Item = (String, &'i Installation)>,
    scope: &str,
) -> Importers {
    let mut importers = Importers::new();
    for (name, installation) in installations {
        for (_, kind, object) in imported(installation, scope) {
            importers.entry((kind_name(kind), object)).or_default().insert(name.clone());
        }
    }
    importers
}

/// Returns the objects that Installations have published, by namespace and the scope of their
/// exporter.
pub(crate) fn published(landscape: &Landscape) -> BTreeMap<Key, Vec<(DataKind, String)>> {
    let mut published: BTreeMap<Key, Vec<(DataKind, String)>> = BTreeMap::new();
    let data = landscape.data_objects.values().map(|object| (DataKind::Data, object.meta()));
    let targets = landscape.targets.values().map(|target| (DataKind::Target, target.meta()));
    for (kind, metadata) in data.chain(targets) {
        let labels = metadata.labels.as_ref();
        let get = |name: &str| labels.and_then(|labels| labels.get(name)).cloned();
        if get(label::DATA_SOURCE_TYPE).as_deref() == Some(SOURCE_TYPE_EXPORT)
            && let Some(source) = get(label::DATA_SOURCE)
        {
            let (namespace, name) = key(metadata);
            published.entry((namespace, source)).or_default().push((kind, name));
        }
    }
    published
}

pub(crate) fn json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}
