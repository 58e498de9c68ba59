//! State of DataObjects and Targets between simulated jobs.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use groundwork_api::metadata::label;
use groundwork_api::{DataObject, Installation, KubeResource, ObjectMeta, Target, TargetSource};
use groundwork_lifecycle::{
    DataKind, Entries, ImportedObjects, ScopedObject, is_import_of, object_name, scope_name,
};

use crate::environment::Reads;
use crate::landscape::{Key, Landscape, is_published, key};

/// Objects of one kind, indexed by their labels.
#[derive(Debug)]
struct Store<K> {
    objects: BTreeMap<Key, K>,
    /// Names of objects by their scope, and by the scope of their exporter. Both may contain names
    /// of removed objects.
    by_context: HashMap<Key, BTreeSet<String>>,
    by_source: HashMap<Key, BTreeSet<String>>,
}

impl<K: KubeResource + Clone> Store<K> {
    fn new(objects: &BTreeMap<Key, K>) -> Self {
        let mut store =
            Self { objects: BTreeMap::new(), by_context: HashMap::new(), by_source: HashMap::new() };
        objects.values().for_each(|object| store.insert(object.clone()));
        store
    }

    fn insert(&mut self, object: K) {
        let (namespace, name) = key(object.meta());
        let labels = object.meta().labels.as_ref();
        for (index, name_of_label) in
            [(&mut self.by_context, label::DATA_CONTEXT), (&mut self.by_source, label::DATA_SOURCE)]
        {
            if let Some(scope) = labels.and_then(|labels| labels.get(name_of_label)) {
                index.entry((namespace.clone(), scope.clone())).or_default().insert(name.clone());
            }
        }
        self.objects.insert((namespace, name), object);
    }

    fn get(&self, namespace: &str, name: &str) -> Option<&K> {
        self.objects.get(&(namespace.to_owned(), name.to_owned()))
    }

    fn in_scope(&self, namespace: &str, scope: &str) -> impl Iterator<Item = &K> {
        let names = self.by_context.get(&(namespace.to_owned(), scope.to_owned()));
        names.into_iter().flatten().filter_map(move |name| self.get(namespace, name))
    }

    fn remove_of(&mut self, namespace: &str, scope: &str) {
        for name in self.by_source.remove(&(namespace.to_owned(), scope.to_owned())).unwrap_or_default() {
            self.objects.remove(&(namespace.to_owned(), name));
        }
    }
}

/// Objects that Installations import.
#[derive(Debug)]
pub(crate) struct World<'a> {
    landscape: &'a Landscape,
    data: Store<DataObject>,
    targets: Store<Target>,
    /// Objects that a simulated job made from inputs without secrets.
    public: BTreeSet<(DataKind, Key)>,
    /// Objects that an Installation will create with unknown values, each with the reason.
    unknown: BTreeMap<(DataKind, Key), String>,
}

impl<'a> World<'a> {
    pub(crate) fn new(landscape: &'a Landscape) -> Self {
        Self {
            landscape,
            data: Store::new(&landscape.data_objects),
            targets: Store::new(&landscape.targets),
            public: BTreeSet::new(),
            unknown: BTreeMap::new(),
        }
    }

    /// Removes copies of imports and exports of the last job, as the start of a job does
    /// (`installations.md` 6.2).
    pub(crate) fn begin(&mut self, installation: &Installation) {
        let (namespace, name) = key(&installation.metadata);
        let scope = scope_name(&namespace, &name);
        self.data.remove_of(&namespace, &scope);
        self.targets.remove_of(&namespace, &scope);
    }

    pub(crate) fn add(&mut self, objects: &[ScopedObject], is_public: bool) {
        for object in objects {
            let place = match object {
                ScopedObject::Data(object) => {
                    self.data.insert(object.clone());
                    (DataKind::Data, key(&object.metadata))
                }
                ScopedObject::Target(target) => {
                    self.targets.insert(target.clone());
                    (DataKind::Target, key(&target.metadata))
                }
            };
            self.unknown.remove(&place);
            if is_public {
                self.public.insert(place);
            } else {
                self.public.remove(&place);
            }
        }
    }

    /// Marks the objects that the Installation publishes in its scope as unknown.
    pub(crate) fn add_unknown(&mut self, installation: &Installation, scope: &str, reason: &str) {
        for (kind, name) in exported(installation, scope) {
            let namespace = installation.metadata.namespace.clone().unwrap_or_default();
            self.unknown.insert((kind, (namespace, name)), reason.to_owned());
        }
    }

    /// Returns the name of the first unknown import of the Installation, with the reason.
    pub(crate) fn unknown_import(
        &self,
        installation: &Installation,
        scope: &str,
    ) -> Option<(String, String)> {
        let namespace = installation.metadata.namespace.clone().unwrap_or_default();
        imported(installation, scope).into_iter().find_map(|(import, kind, name)| {
            let reason = self.unknown.get(&(kind, (namespace.clone(), name)))?;
            Some((import, reason.clone()))
        })
    }

    pub(crate) fn data_object(&self, namespace: &str, name: &str) -> Option<&DataObject> {
        self.data.get(namespace, name)
    }

    pub(crate) fn target(&self, namespace: &str, name: &str) -> Option<&Target> {
        self.targets.get(namespace, name)
    }

    pub(crate) fn in_scope<'w>(
        &'w self,
        namespace: &'w str,
        scope: &'w str,
    ) -> (impl Iterator<Item = &'w DataObject>, impl Iterator<Item = &'w Target>) {
        (self.data.in_scope(namespace, scope), self.targets.in_scope(namespace, scope))
    }

    /// Reports whether the object may contain a secret, because one of its inputs may or its origin
    /// is unknown.
    pub(crate) fn may_be_secret(&self, kind: DataKind, metadata: &ObjectMeta) -> bool {
        let is_public = self.public.contains(&(kind, key(metadata)));
        !is_public && (kind == DataKind::Target || is_published(metadata))
    }

    pub(crate) fn view<'w>(&'w self, namespace: &str, reads: Option<&'w Reads>) -> View<'w> {
        View { world: self, namespace: namespace.to_owned(), has_read_secrets: Cell::new(false), reads }
    }
}

/// Returns kinds and object names of the Installation's exports.
pub(crate) fn exported(installation: &Installation, scope: &str) -> Vec<(DataKind, String)> {
    let data = installation.spec.data_exports().iter().map(|export| (DataKind::Data, &export.data_ref));
    let targets = installation.spec.target_exports().iter().map(|export| (DataKind::Target, &export.target));
    data.chain(targets).map(|(kind, name)| (kind, object_name(scope, name))).collect()
}

/// Returns names of imports, with the objects in their scope that they come from.
pub(crate) fn imported(installation: &Installation, scope: &str) -> Vec<(String, DataKind, String)> {
    let data = installation.spec.data_imports().iter();
    let data = data.filter_map(|import| {
        let name = import.data_ref.as_deref().filter(|name| !name.is_empty())?;
        Some((import.name.clone(), DataKind::Data, object_name(scope, name)))
    });
    let targets = installation.spec.target_imports().iter().flat_map(|import| {
        let names = match import.source() {
            Ok(TargetSource::Single(name)) => vec![name],
            Ok(TargetSource::List(names)) => names,
            Ok(TargetSource::Map(names)) => names.into_values().collect(),
            Ok(TargetSource::ListRef(_) | TargetSource::MapRef(_)) | Err(_) => Vec::new(),
        };
        let object = |name: &str| (import.name.clone(), DataKind::Target, object_name(scope, name));
        names.into_iter().map(object).collect::<Vec<_>>()
    });
    data.chain(targets).collect()
}

/// Objects of one namespace. The view records if an object that may contain secrets was read.
#[derive(Debug)]
pub(crate) struct View<'w> {
    world: &'w World<'w>,
    namespace: String,
    pub(crate) has_read_secrets: Cell<bool>,
    reads: Option<&'w Reads>,
}

impl View<'_> {
    fn note(&self, may_be_secret: bool) {
        self.has_read_secrets.set(self.has_read_secrets.get() || may_be_secret);
    }
}

impl ImportedObjects for View<'_> {
    fn data_object(&self, name: &str) -> Option<DataObject> {
        let object = self.world.data_object(&self.namespace, name)?;
        self.note(self.world.may_be_secret(DataKind::Data, &object.metadata));
        Some(object.clone())
    }

    fn target(&self, name: &str) -> Option<Target> {
        let target = self.world.target(&self.namespace, name)?;
        self.note(self.world.may_be_secret(DataKind::Target, &target.metadata));
        Some(target.clone())
    }

    fn secret(&self, name: &str) -> Option<Entries> {
        self.note(true);
        let key = (self.namespace.clone(), name.to_owned());
        let found = self.world.landscape.secrets.get(&key).cloned();
        if let (None, Some(reads)) = (&found, self.reads) {
            reads.secret(key);
        }
        found
    }

    fn config_map(&self, name: &str) -> Option<Entries> {
        let key = (self.namespace.clone(), name.to_owned());
        let found = self.world.landscape.config_maps.get(&key).cloned();
        if let (None, Some(reads)) = (&found, self.reads) {
            reads.config_map(key);
        }
        found
    }

    fn imported_targets(&self, scope: &str, import: &str) -> Vec<Target> {
        let (_, targets) = self.world.in_scope(&self.namespace, scope);
        let targets: Vec<Target> =
            targets.filter(|target| is_import_of(target, scope, import)).cloned().collect();
        self.note(targets.iter().any(|target| self.world.may_be_secret(DataKind::Target, &target.metadata)));
        targets
    }
}
