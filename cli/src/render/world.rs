//! Objects that Installations can import: those of the input, and those that earlier Installations
//! export.

use std::collections::BTreeMap;

use groundwork_api::{DataObject, Installation, ResourceExt, Target, TargetSource};
use groundwork_blueprint::ExportValues;
use groundwork_lifecycle::{
    Entries, ImportedObjects, ScopedObject, Taken, export_values, is_import_of, may_publish, object_name,
};
use serde_json::{Map, Value};

use crate::inventory::{Inventory, Key, NamespaceObjects, key};
use crate::output::Uids;

/// State of a cluster, as far as it is known offline.
#[derive(Debug)]
pub(super) struct World<'a> {
    pub(super) inventory: &'a Inventory,
    pub(super) uids: Uids,
    data: BTreeMap<Key, DataObject>,
    targets: BTreeMap<Key, Target>,
    /// DataObjects and Targets that an Installation would export with unknown values, each with the
    /// reason.
    unknown: BTreeMap<Key, String>,
}

impl<'a> World<'a> {
    pub(super) fn new(inventory: &'a Inventory, uids: Uids) -> Self {
        Self { inventory, uids, data: BTreeMap::new(), targets: BTreeMap::new(), unknown: BTreeMap::new() }
    }

    pub(super) fn add(&mut self, objects: impl IntoIterator<Item = ScopedObject>) {
        for object in objects {
            match object {
                ScopedObject::Data(object) => drop(self.data.insert(key(&object), object)),
                ScopedObject::Target(target) => drop(self.targets.insert(key(&target), target)),
            }
        }
    }

    /// Marks all exports of the Installation as unknown.
    pub(super) fn add_unknown(&mut self, installation: &Installation, scope: &str, reason: &str) {
        let namespace = installation.namespace().unwrap_or_default();
        let data = installation.spec.data_exports().iter().map(|export| export.data_ref.as_str());
        let targets = installation.spec.target_exports().iter().map(|export| export.target.as_str());
        for name in data.chain(targets) {
            self.unknown.insert((namespace.clone(), object_name(scope, name)), reason.to_owned());
        }
    }

    /// Returns the name of the first import with an unknown value, and the reason.
    pub(super) fn unknown_import(
        &self,
        installation: &Installation,
        scope: &str,
    ) -> Option<(String, String)> {
        let namespace = installation.namespace().unwrap_or_default();
        let unknown = |name: &str| self.unknown.get(&(namespace.clone(), object_name(scope, name)));
        let data = installation.spec.data_imports().iter();
        let data = data.filter_map(|import| Some((&import.name, vec![import.data_ref.as_deref()?])));
        let targets = installation.spec.target_imports().iter().map(|import| {
            let names = match import.source() {
                Ok(TargetSource::Single(name)) => vec![name],
                Ok(TargetSource::List(names)) => names,
                Ok(TargetSource::Map(names)) => names.into_values().collect(),
                Ok(TargetSource::ListRef(_) | TargetSource::MapRef(_)) | Err(_) => Vec::new(),
            };
            (&import.name, names)
        });
        data.chain(targets).find_map(|(import, names)| {
            let reason = names.into_iter().find_map(unknown)?;
            Some((import.clone(), reason.clone()))
        })
    }

    /// Returns the values that export templates of an Installation see.
    pub(super) fn export_values(
        &self,
        installation: &Installation,
        deploy_items: Map<String, Value>,
    ) -> ExportValues {
        let namespace = installation.namespace().unwrap_or_default();
        let data = self.data.iter().filter(|((of, _), _)| *of == namespace).map(|(_, object)| object);
        let targets = self.targets.iter().filter(|((of, _), _)| *of == namespace).map(|(_, target)| target);
        export_values(installation, deploy_items, data, targets)
    }

    /// Returns the first export that would take the name of an object in the input that is not an
    /// export (`installations.md` 4.3).
    pub(super) fn taken(&self, exports: &[ScopedObject]) -> Option<Taken> {
        exports.iter().find_map(|export| {
            let wanted = export.metadata();
            let part = |part: &Option<String>| part.clone().unwrap_or_default();
            let place = (part(&wanted.namespace), part(&wanted.name));
            let found = match export {
                ScopedObject::Data(_) => &self.inventory.data_objects.get(&place)?.object.metadata,
                ScopedObject::Target(_) => &self.inventory.targets.get(&place)?.object.metadata,
            };
            may_publish(export.kind_name(), found, wanted).err()
        })
    }

    /// Returns the objects of one namespace.
    pub(super) fn objects(&self, namespace: &str) -> KnownObjects<'_> {
        KnownObjects {
            world: self,
            read: self.inventory.imported(namespace),
            namespace: namespace.to_owned(),
        }
    }
}

/// Objects of one namespace. Generated objects hide those of the input with the same name, as they
/// would replace them in a cluster.
#[derive(Debug)]
pub(super) struct KnownObjects<'w> {
    world: &'w World<'w>,
    read: NamespaceObjects<'w>,
    namespace: String,
}

impl ImportedObjects for KnownObjects<'_> {
    fn data_object(&self, name: &str) -> Option<DataObject> {
        let made = self.world.data.get(&(self.namespace.clone(), name.to_owned()));
        made.cloned().or_else(|| self.read.data_object(name))
    }

    fn target(&self, name: &str) -> Option<Target> {
        let made = self.world.targets.get(&(self.namespace.clone(), name.to_owned()));
        made.cloned().or_else(|| self.read.target(name))
    }

    fn secret(&self, name: &str) -> Option<Entries> {
        self.read.secret(name)
    }

    fn config_map(&self, name: &str) -> Option<Entries> {
        self.read.config_map(name)
    }

    fn imported_targets(&self, scope: &str, import: &str) -> Vec<Target> {
        let made = self.world.targets.iter().filter(|((of, _), _)| *of == self.namespace);
        made.map(|(_, target)| target).filter(|target| is_import_of(target, scope, import)).cloned().collect()
    }
}
