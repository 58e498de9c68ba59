//! Execution of the steps that the state machine asks for: reads into the tree, and writes of its
//! objects.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::StreamExt as _;
use groundwork_api::metadata::label;
use groundwork_api::{
    DataObject, DeployItem, ErrorCode, Execution, Installation, Kind as _, KubeResource, LastError,
    ObjectMeta, ResourceExt, Target, view,
};
use groundwork_bus::{Index, Kind, ObjectId};
use groundwork_controller::{ApiError, Metadata, ObjectEvent, Objects, Scribe, Stored};
use groundwork_lifecycle::machine::{
    Change, HasJob as _, Known, MetadataPatch, Need, Predecessors, Read, Sibling, StaleCopy, Tree, Write,
};
use groundwork_lifecycle::{
    DataName, Interface, Ownership, Reason, SOURCE_TYPE_EXPORT, Scope, Taken, living_scope, may_publish,
    object_name, ownership, parent_name, scope_name,
};
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Map, Value};

use crate::handler::{Installations, installation_key};
use crate::narration::Planned;
use crate::write_error::WriteError;
use crate::{job_log, narration};

/// Entry of an export Secret with the values.
const EXPORT_ENTRY: &str = "config";

/// Reader for the objects that steps need.
pub(crate) struct Reader<'a> {
    pub(crate) objects: &'a Objects,
    pub(crate) index: &'a Index,
    pub(crate) installations: &'a Installations,
}

impl Reader<'_> {
    /// Reads the objects of a step into the tree.
    pub(crate) async fn read(&self, tree: &mut Tree, read: Read) -> Result<(), ApiError> {
        let (namespace, name, objects) = (tree.namespace.clone(), tree.name.clone(), self.objects);
        match read {
            Read::Installation => {
                tree.installation = objects.get::<Installation>(&namespace, &name).await?.into();
            }
            Read::Parent(parent) => tree.has_parent = Some(self.has_parent(tree, &parent).await?),
            Read::Execution => tree.execution = objects.get::<Execution>(&namespace, &name).await?.into(),
            Read::ListItems => {
                let labels = format!("{}={name}", label::MANAGED_BY);
                let owner = tree.execution.get();
                let items = objects.list::<DeployItem>(&namespace, &labels).await?;
                tree.items.set_list(items.into_iter().filter(|item| !is_of_another(item, owner)));
            }
            Read::Items(names) => {
                for (name, item) in self.read_all(&namespace, names).await? {
                    tree.items.insert(name, item.into());
                }
            }
            Read::ListChildren => {
                let labels = format!("{}={name}", label::ENCOMPASSED_BY);
                let owner = tree.installation.get();
                let children = objects.list::<Installation>(&namespace, &labels).await?;
                tree.children.set_list(children.into_iter().filter(|child| !is_of_another(child, owner)));
            }
            Read::Children(names) => {
                for (name, child) in self.read_all(&namespace, names).await? {
                    tree.children.insert(name, child.into());
                }
            }
            Read::Exports(secrets) => {
                let mut exports = Map::new();
                for (template, secret) in secrets {
                    exports.insert(template, export_values(objects, &namespace, &secret).await?);
                }
                tree.exports = Some(exports);
            }
            Read::Target(target) => {
                let exists = objects.get::<Target>(&namespace, &target).await?.is_some();
                tree.targets.insert(target, exists);
            }
            Read::StaleCopies => tree.stale_copies = Some(self.stale_copies(tree).await?),
            Read::OwnExports => tree.own_exports = Some(self.own_exports(tree).await?),
            Read::Predecessors => tree.predecessors = Some(self.predecessors(tree).await?),
            Read::Dependents => {
                tree.dependents = Some(self.successors(tree).into_iter().collect());
            }
            Read::Successors => {
                let names = self.successors(tree).into_iter().collect();
                let found = self.read_all::<Installation>(&namespace, names).await?;
                let found = found.into_iter().filter_map(|(_, found)| found);
                tree.successors = Some(found.map(|found| Sibling::of(&found)).collect());
            }
        }
        Ok(())
    }

    /// Returns true if the owner of the Installation exists. An owner in the index needs no
    /// request, since its deletion wakes the Installation.
    async fn has_parent(&self, tree: &Tree, parent: &str) -> Result<bool, ApiError> {
        let owners = tree.installation.get().map(ResourceExt::owner_references).unwrap_or_default();
        let uid = owners.iter().find(|owner| owner.name == parent).map(|owner| owner.uid.as_str());
        let known = self.index.get(&installation_key(&tree.namespace, parent));
        if known.is_some_and(|known| Some(known.uid.as_str()) == uid) {
            return Ok(true);
        }
        let found = metadata::<Installation>(self.objects, &tree.namespace, parent).await?;
        Ok(found.is_some_and(|found| found.uid.as_deref() == uid))
    }

    /// Reads objects by name and returns them in the same order.
    async fn read_all<K: Stored>(
        &self,
        namespace: &str,
        names: Vec<String>,
    ) -> Result<Vec<(String, Option<K>)>, ApiError> {
        let reads = names.iter().map(|name| self.objects.get::<K>(namespace, name));
        let found = futures::future::try_join_all(reads).await?;
        Ok(names.into_iter().zip(found).collect())
    }

    /// Returns the copies of imports from an earlier job. The index names them and may lag behind,
    /// so each is read, and is deleted only in the version that was read.
    async fn stale_copies(&self, tree: &Tree) -> Result<Vec<StaleCopy>, ApiError> {
        let Some(installation) = tree.installation.get() else { return Ok(Vec::new()) };
        let job = installation.job().id;
        let scope = scope_name(&tree.namespace, &tree.name);
        let is_stale = |labels: &BTreeMap<String, String>| {
            labels.get(label::DATA_CONTEXT) == Some(&scope)
                && labels.get(label::DATA_JOB_ID).is_some_and(|written| written != job)
        };
        let mut copies = Vec::new();
        for id in self.index.owned_by(installation.metadata.uid.as_deref().unwrap_or_default()) {
            if !self.index.get(&id).is_some_and(|snapshot| is_stale(&snapshot.labels)) {
                continue;
            }
            let found = self.metadata(tree, &id).await?;
            let found = found.filter(|found| found.labels.as_ref().is_some_and(is_stale));
            copies.extend(found.map(|found| StaleCopy {
                is_target: id.kind.plural() == Target::PLURAL,
                name: id.name,
                uid: found.uid.unwrap_or_default(),
                resource_version: Some(found.resource_version.unwrap_or_default()),
            }));
        }
        Ok(copies)
    }

    /// Returns the objects that the Installation has exported: those in the index, and those named
    /// by the spec, since the index may lag behind. The UID identifies an object, in case another
    /// one gets its name.
    async fn own_exports(&self, tree: &Tree) -> Result<Vec<StaleCopy>, ApiError> {
        let Some(installation) = tree.installation.get() else { return Ok(Vec::new()) };
        let own = installation.metadata.uid.clone().unwrap_or_default();
        let mut exports = BTreeMap::new();
        for id in self.index.owned_by(&own) {
            let Some(snapshot) = self.index.get(&id) else { continue };
            if view::Data(&snapshot).source_type() == SOURCE_TYPE_EXPORT {
                exports.insert(id, snapshot.uid);
            }
        }
        let scope = living_scope(installation);
        let namespace = Some(tree.namespace.as_str());
        let data = installation.spec.data_exports().iter();
        let data = data.map(|export| (Kind::of::<DataObject>(), object_name(&scope, &export.data_ref)));
        let targets = installation.spec.target_exports().iter();
        let targets = targets.map(|export| (Kind::of::<Target>(), object_name(&scope, &export.target)));
        for (kind, name) in data.chain(targets) {
            let id = ObjectId::new(kind, namespace, name);
            if exports.contains_key(&id) {
                continue;
            }
            let Some(found) = self.metadata(tree, &id).await? else { continue };
            if found.owner_references.iter().flatten().any(|owner| owner.uid == own) {
                exports.insert(id, found.uid.unwrap_or_default());
            }
        }
        let copy = |(id, uid): (ObjectId, String)| StaleCopy {
            is_target: id.kind.plural() == Target::PLURAL,
            name: id.name,
            uid,
            resource_version: None,
        };
        Ok(exports.into_iter().map(copy).collect())
    }

    async fn metadata(&self, tree: &Tree, id: &ObjectId) -> Result<Option<ObjectMeta>, ApiError> {
        if id.kind.plural() == Target::PLURAL {
            metadata::<Target>(self.objects, &tree.namespace, &id.name).await
        } else {
            metadata::<DataObject>(self.objects, &tree.namespace, &id.name).await
        }
    }

    /// Reads the siblings whose exports the Installation imports.
    async fn predecessors(&self, tree: &Tree) -> Result<Predecessors, ApiError> {
        let Some(installation) = tree.installation.get() else { return Ok(Predecessors::default()) };
        match parent_name(installation) {
            None => self.root_predecessors(tree, installation).await,
            Some(parent) => self.child_predecessors(tree, installation, parent).await,
        }
    }

    /// Returns the predecessors of a root Installation. Events name the candidates: once the
    /// Installation's own event has arrived, all earlier events have arrived too.
    async fn root_predecessors(
        &self,
        tree: &Tree,
        installation: &Installation,
    ) -> Result<Predecessors, ApiError> {
        let id = ObjectId::new(Kind::of::<Installation>(), Some(tree.namespace.as_str()), tree.name.as_str());
        // Wait for the event of the version that requested the job. Later versions are writes of
        // the job itself, whose events need not have arrived.
        let version = tree.asked_in.clone().or_else(|| installation.resource_version()).unwrap_or_default();
        if tokio::time::timeout(MOST_LAG, self.index.knows(&id, &version)).await.is_err() {
            return Err(ApiError::Transient {
                verb: "follow",
                object: id.to_string(),
                problem: "no event has reported it for a while".to_owned(),
            });
        }
        let scope = Scope { namespace: tree.namespace.clone(), parent: None };
        let interface = Interface::of(&installation.spec);
        let relations = self.installations.relations().of(&scope, &tree.name, &interface);
        let names = relations.predecessors.into_iter().collect();
        let found = self.read_all::<Installation>(&tree.namespace, names).await?;
        let found =
            found.into_iter().filter_map(|(_, found)| found).filter(|found| parent_name(found).is_none());
        Ok(Predecessors {
            found: found.map(|found| Sibling::of(&found)).collect(),
            ambiguous: relations.ambiguous,
            cycle: relations.cycle,
        })
    }

    /// Returns the predecessors of a nested installation, among all children that the parent names.
    /// If the index shows a child with the current job, that is the version that the parent wrote
    /// for this job; other children are read.
    async fn child_predecessors(
        &self,
        tree: &Tree,
        installation: &Installation,
        parent: &str,
    ) -> Result<Predecessors, ApiError> {
        let Some(parent) = self.objects.get::<Installation>(&tree.namespace, parent).await? else {
            return Ok(Predecessors::default());
        };
        let job = installation.job().id;
        let cache = parent.status.as_ref().and_then(|status| status.sub_inst_cache.as_ref());
        let names = cache.into_iter().flat_map(|cache| cache.active_subs.iter());
        let names = names.map(|pair| &pair.object_name).filter(|name| **name != tree.name);
        let imports = Interface::of(&installation.spec).imports;
        let feeds = |exports: &BTreeSet<DataName>| exports.iter().any(|export| imports.contains(export));
        let mut wanted = Vec::new();
        for name in names {
            let id = ObjectId::new(Kind::of::<Installation>(), Some(tree.namespace.as_str()), name.as_str());
            let known = self.index.get(&id);
            let known = known.filter(|snapshot| view::Installation(snapshot).job_id() == job);
            let is_known_stranger = known
                .is_some_and(|snapshot| !feeds(&Interface::of_view(view::Installation(&snapshot)).exports));
            if !is_known_stranger {
                wanted.push(name.clone());
            }
        }
        let found = self.read_all::<Installation>(&tree.namespace, wanted).await?;
        let found = found.into_iter().filter_map(|(_, found)| found);
        let found = found.filter(|sibling| feeds(&Interface::of(&sibling.spec).exports));
        Ok(Predecessors {
            found: found.map(|found| Sibling::of(&found)).collect(),
            ..Predecessors::default()
        })
    }

    /// Returns the names of the siblings that import the Installation's exports, as far as events
    /// have shown them.
    fn successors(&self, tree: &Tree) -> BTreeSet<String> {
        let Some(installation) = tree.installation.get() else { return BTreeSet::new() };
        let parent = parent_name(installation).map(str::to_owned);
        let scope = Scope { namespace: tree.namespace.clone(), parent };
        let interface = Interface::of(&installation.spec);
        self.installations.relations().successors(&scope, &tree.name, &interface)
    }
}

/// Returns true if another object than `owner` controls an object. Labels contain only names, which
/// any user can write.
fn is_of_another<K: Stored, O: groundwork_api::Kind + KubeResource>(object: &K, owner: Option<&O>) -> bool {
    owner.is_some_and(|owner| ownership(object.meta(), owner) == Ownership::Foreign)
}

/// Longest wait for an event; after it the attempt is repeated.
const MOST_LAG: Duration = Duration::from_secs(5);

async fn export_values(objects: &Objects, namespace: &str, name: &str) -> Result<Value, ApiError> {
    let object = format!("secrets {namespace}/{name}");
    let secret = objects.get::<Secret>(namespace, name).await?.ok_or(ApiError::NotFound(object.clone()))?;
    let entry = secret.data.as_ref().and_then(|data| data.get(EXPORT_ENTRY));
    let invalid = |causes: &str| ApiError::Invalid { object: object.clone(), causes: causes.to_owned() };
    let bytes = entry.ok_or_else(|| invalid("it has no entry \"config\""))?;
    // Drop the decoder's message, since it quotes the value.
    serde_json::from_slice(&bytes.0).map_err(|_| invalid("its entry \"config\" is not JSON"))
}

async fn metadata<K: Stored>(
    objects: &Objects,
    namespace: &str,
    name: &str,
) -> Result<Option<ObjectMeta>, ApiError> {
    Ok(objects.get::<K>(namespace, name).await?.map(|object| object.meta().clone()))
}

/// Writes that run at the same time.
const MAX_PARALLEL_WRITES: usize = 8;

/// State that writes need.
#[derive(Clone, Copy)]
pub(crate) struct Writer<'a> {
    pub(crate) objects: &'a Objects,
    /// Index of existing objects with their versions. Every write that relies on it carries the
    /// version.
    pub(crate) index: &'a Index,
}

/// Carries out independent writes, and puts the stored objects into the tree. Returns the writes
/// that failed.
pub(crate) async fn write_all(
    tree: &mut Tree,
    writes: Vec<Write>,
    writer: Writer<'_>,
    scribe: &mut Scribe<'_>,
) -> Vec<(Option<Need>, WriteError)> {
    let namespace = tree.namespace.clone();
    let running = job_log::running_job(tree);
    let errors = Errors {
        installation: tree.installation.get().and_then(installation_error).cloned(),
        execution: tree.execution.get().and_then(execution_error).cloned(),
    };
    let writes: Vec<_> = writes.into_iter().map(|write| (Planned::of(&write, tree, scribe), write)).collect();
    let requests = writes.into_iter().map(|(planned, write)| {
        let (namespace, errors) = (&namespace, &errors);
        async move { (Need::of(&write), planned, write_one(write, namespace, errors, writer).await) }
    });
    let mut answers = futures::stream::iter(requests).buffer_unordered(MAX_PARALLEL_WRITES);
    let mut failed = Vec::new();
    while let Some((need, planned, answer)) = answers.next().await {
        match answer {
            Ok(stored) => {
                let version = stored.version();
                update_tree(tree, stored);
                narration::tell_job(scribe, tree);
                planned.tell(scribe, Ok(version));
            }
            Err(error) => {
                planned.tell(scribe, Err(&error));
                failed.push((need, error));
            }
        }
    }
    job_log::log_end(running, tree);
    failed
}

/// Errors in the statuses before a write.
struct Errors {
    installation: Option<LastError>,
    execution: Option<LastError>,
}

/// Object after a write; `None` if it was deleted.
enum Written {
    Installation(Option<Box<Installation>>),
    Child(String, Option<Box<Installation>>),
    Execution(Option<Box<Execution>>),
    Item(String, Option<Box<DeployItem>>),
    /// Object that the tree does not contain: its version, or `None` if it was deleted.
    Other(Option<String>),
}

impl Written {
    fn version(&self) -> Option<String> {
        match self {
            Self::Installation(object) | Self::Child(_, object) => object.as_ref()?.resource_version(),
            Self::Execution(object) => object.as_ref()?.resource_version(),
            Self::Item(_, object) => object.as_ref()?.resource_version(),
            Self::Other(version) => version.clone(),
        }
    }
}

/// Returns the version of an object that the tree does not contain.
fn other<K: Stored>(stored: Option<K>) -> Written {
    Written::Other(stored.and_then(|object| object.resource_version()))
}

async fn write_one(
    write: Write,
    namespace: &str,
    errors: &Errors,
    writer: Writer<'_>,
) -> Result<Written, WriteError> {
    Ok(match write {
        Write::Installation(change) => {
            let stored = apply(change, namespace, writer).await?;
            let error = stored.as_ref().and_then(installation_error);
            warn(stored.as_ref(), error, errors.installation.as_ref(), writer.objects).await;
            Written::Installation(stored.map(Box::new))
        }
        Write::Child(change) => {
            let name = change.name();
            Written::Child(name, apply(change, namespace, writer).await?.map(Box::new))
        }
        Write::Sibling(patch) => {
            let name = patch.name.clone();
            match apply::<Installation>(Change::Metadata(patch), namespace, writer).await {
                // A broken dependent must not block this Installation, so the failed trigger is
                // only logged.
                Err(error) if error.is_final() => {
                    tracing::warn!(installation = name, %error, "a dependent could not be triggered");
                    Written::Other(None)
                }
                answer => other(answer?),
            }
        }
        Write::Secret(change) => other(apply(change, namespace, writer).await?),
        Write::Execution(change) => {
            let stored = apply(change, namespace, writer).await?;
            let error = stored.as_ref().and_then(execution_error);
            warn(stored.as_ref(), error, errors.execution.as_ref(), writer.objects).await;
            Written::Execution(stored.map(Box::new))
        }
        Write::DeployItem(change) => {
            let name = change.name();
            let stored: Option<DeployItem> = apply(change, namespace, writer).await?;
            // Send an Event only for errors that the core writes into an item. The deployer sends
            // Events for its own errors.
            let error = stored.as_ref().and_then(|item| item.status.as_ref()?.last_error.as_ref());
            let is_ours =
                error.is_some_and(|error| CORE_REASONS.iter().any(|reason| reason.as_str() == error.reason));
            warn(stored.as_ref(), error.filter(|_| is_ours), None, writer.objects).await;
            Written::Item(name, stored.map(Box::new))
        }
        Write::DataObject(change) => other(apply(change, namespace, writer).await?),
        Write::Target(change) => other(apply(change, namespace, writer).await?),
    })
}

fn update_tree(tree: &mut Tree, stored: Written) {
    match stored {
        Written::Installation(Some(object)) => tree.installation.store(*object),
        Written::Installation(None) => tree.installation = Known::Absent,
        Written::Child(_, Some(child)) => tree.children.store(*child),
        Written::Child(name, None) => tree.children.insert(name, Known::Absent),
        Written::Execution(Some(object)) => tree.execution.store(*object),
        Written::Execution(None) => tree.execution = Known::Absent,
        Written::Item(_, Some(item)) => tree.items.store(*item),
        Written::Item(name, None) => tree.items.insert(name, Known::Absent),
        Written::Other(_) => {}
    }
}

/// Reasons with which the core ends the items of deployers.
const CORE_REASONS: [Reason; 2] = [Reason::PickupTimeout, Reason::InterruptOperation];

/// Carries out a write and returns the stored object; `None` if it was deleted.
async fn apply<K: Stored>(
    change: Change<K>,
    namespace: &str,
    writer: Writer<'_>,
) -> Result<Option<K>, WriteError> {
    let objects = writer.objects;
    let answer = match change {
        Change::Create(object) => match objects.create(&object).await {
            // The object exists from an earlier attempt whose answer was lost, or from another
            // writer. The next step checks it.
            Err(ApiError::AlreadyExists(_)) => objects.get::<K>(namespace, &object.name_any()).await,
            answer => answer.map(Some),
        },
        Change::Ensure(object) => return ensure(object, namespace, writer, |_| Ok(())).await.map(Some),
        Change::Publish(object) => {
            let wanted = object.meta().clone();
            let may_take = |found: &K| may_publish(kind_name::<K>(), found.meta(), &wanted);
            return ensure(object, namespace, writer, may_take).await.map(Some);
        }
        Change::Replace(object) => objects.replace(&object).await.map(Some),
        Change::Status(object) => objects.replace_status(&object).await.map(Some),
        Change::Metadata(patch) => {
            let MetadataPatch { name, resource_version, finalizers, annotations } = patch;
            let annotations = annotations.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
            let change = Metadata { resource_version, finalizers, annotations };
            match objects.patch_metadata::<K>(namespace, &name, &change).await {
                Err(ApiError::NotFound(_)) => Ok(None),
                answer => answer.map(Some),
            }
        }
        Change::Delete { name, uid, resource_version } => {
            objects.delete::<K>(namespace, &name, uid.as_deref(), resource_version.as_deref()).await
        }
    };
    Ok(answer?)
}

/// Returns the name of an export's kind for messages.
fn kind_name<K: Stored>() -> &'static str {
    if K::plural(&()) == Target::PLURAL { "target" } else { "data object" }
}

/// Creates an object, or replaces the present one. If the index shows the object with the wanted
/// owner, that version is replaced without a read; after a conflict it is read.
async fn ensure<K: Stored>(
    mut object: K,
    namespace: &str,
    writer: Writer<'_>,
    may_take: impl FnOnce(&K) -> Result<(), Taken>,
) -> Result<K, WriteError> {
    let Writer { objects, index } = writer;
    if let Some(version) = version_of_ours(&object, namespace, index) {
        object.meta_mut().resource_version = Some(version);
        match objects.replace(&object).await {
            Err(ApiError::Conflict(_) | ApiError::NotFound(_)) => object.meta_mut().resource_version = None,
            answer => return Ok(answer?),
        }
    }
    match objects.create(&object).await {
        Err(ApiError::AlreadyExists(text)) => {
            let found = objects.get::<K>(namespace, &object.name_any()).await?;
            let found = found.ok_or(ApiError::Conflict(text))?;
            may_take(&found)?;
            // An unchanged object is not written, so that its watchers are not woken.
            let has_content = has_content(&found, &object);
            if has_content && found.owner_references() == object.owner_references() {
                return Ok(found);
            }
            object.meta_mut().resource_version = found.resource_version();
            match objects.replace(&object).await {
                // Some clusters allow an owner reference only to clients that may delete the
                // object. The renderer may not delete Secrets, so after a restore it leaves them
                // without an owner.
                Err(error @ ApiError::Forbidden { .. }) if has_content => {
                    tracing::warn!(%error, object = %object.name_any(), "the object stays without an owner");
                    Ok(found)
                }
                answer => Ok(answer?),
            }
        }
        answer => Ok(answer?),
    }
}

/// Returns the version of the object in the index, if it has the wanted owners and is not being
/// deleted.
fn version_of_ours<K: Stored>(wanted: &K, namespace: &str, index: &Index) -> Option<String> {
    let kind = Kind::new(K::group(&()).into_owned(), K::plural(&()).into_owned());
    let snapshot = index.get(&ObjectId::new(kind, Some(namespace), wanted.name_any()))?;
    let owners = wanted.owner_references();
    let is_ours = !owners.is_empty()
        && owners.iter().all(|owner| snapshot.owner_references.iter().any(|found| found.uid == owner.uid));
    (is_ours && !snapshot.is_deleting()).then(|| snapshot.resource_version.clone())
}

/// Reports whether an object is already as wanted, apart from its owners and from fields that the
/// API server and other writers add.
fn has_content<K: Stored>(found: &K, wanted: &K) -> bool {
    let (Ok(mut found), Ok(mut wanted)) = (serde_json::to_value(found), serde_json::to_value(wanted)) else {
        return false;
    };
    let contains = |member: &str| {
        let all = found["metadata"][member].as_object();
        let some = wanted["metadata"][member].as_object();
        some.into_iter().flatten().all(|(name, value)| all.is_some_and(|all| all.get(name) == Some(value)))
    };
    // An export of a root must not have a label with a scope. If the object has one, it was written
    // for another use.
    let scope = |object: &Value| object["metadata"]["labels"][label::DATA_CONTEXT].clone();
    let same_scope = scope(&found) == scope(&wanted);
    let is_same = contains("labels") && contains("annotations") && same_scope;
    found["metadata"].take();
    wanted["metadata"].take();
    // The API server adds the type of a Secret.
    if let (Some(members), None) = (found.as_object_mut(), wanted.get("type")) {
        members.remove("type");
    }
    is_same && found == wanted
}

fn installation_error(installation: &Installation) -> Option<&LastError> {
    installation.status.as_ref()?.last_error.as_ref()
}

fn execution_error(execution: &Execution) -> Option<&LastError> {
    execution.status.as_ref()?.last_error.as_ref()
}

/// Sends a Kubernetes Event for an error that the status shows for the first time
/// (`installations.md` 9).
async fn warn<K: Stored>(
    about: Option<&K>,
    error: Option<&LastError>,
    before: Option<&LastError>,
    objects: &Objects,
) {
    let (Some(about), Some(error)) = (about, error) else { return };
    let is_info = error.codes.iter().any(|code| code == ErrorCode::ForInfoOnly.as_str());
    if is_info
        || before.is_some_and(|before| before.reason == error.reason && before.message == error.message)
    {
        return;
    }
    let time = error.last_update_time.as_ref().map(|time| time.0.to_string()).unwrap_or_default();
    let report = ObjectEvent {
        reason: &error.reason,
        message: &error.message,
        component: "Landscaper",
        occurrence: &time,
    };
    if let Err(error) = objects.warn(about, &report).await {
        tracing::warn!(%error, "an Event could not be recorded");
    }
}
