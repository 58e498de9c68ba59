use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use groundwork_api::metadata::{FINALIZER, label};
use groundwork_api::{
    Context, DataObject, DeployItem, DeployerInformation, Execution, Installation, ObjectMeta,
    ObjectReference, ResourceExt, Target, Time,
};
use groundwork_blueprint::Capabilities;
use groundwork_component::{Repositories, Repository, RepositoryContext, RepositoryError};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::super::{
    Change, HasJob as _, Known, Moment, Need, Next, Phase, Predecessors, Read, Sibling, StaleCopy, Tree,
    Write, next, refused,
};
use super::store::{change_one, collect};
use crate::data::ScopedObject;
use crate::deployer::{Exports, Verdict, Work, conclude, work_of};
use crate::error::OperationError;
use crate::imports::{Entries, ImportedObjects, is_import_of};
use crate::job::Inputs;
use crate::names::{living_scope, parent_name, scope_name, state_secret_name};
use crate::prepare::{
    OwnNames, OwnScope, UnreadStates, complete, imports_hash, item_exports, prepare, state_of,
};
use crate::reason::Reason;
use crate::siblings::{Interface, Scope, SiblingIndex};
use crate::takeover::may_publish;

/// Name of the Installation in most tests.
const SERVER: &str = "server";

/// API server with the objects of one namespace, a deployer, and a process that handles the
/// Installations.
pub(super) struct Cluster {
    pub(super) installations: BTreeMap<String, Installation>,
    pub(super) executions: BTreeMap<String, Execution>,
    pub(super) items: BTreeMap<String, DeployItem>,
    pub(super) data_objects: BTreeMap<String, DataObject>,
    pub(super) targets: BTreeMap<String, Target>,
    pub(super) secrets: BTreeMap<String, Secret>,
    version: u64,
    seconds: i64,
    jobs: u32,
    /// Number of restores.
    life: u32,
    /// Log of the writes, in order: kind, verb, and the phase if there is one.
    pub(super) log: Vec<String>,
    /// Verdicts of the deployer by template name. All other items succeed.
    pub(super) verdicts: BTreeMap<String, &'static str>,
    /// Kind whose creation always fails.
    pub(super) refuses: Option<&'static str>,
    /// True if the process dies when it renders, with the number of renderings begun.
    pub(super) dies_of_rendering: bool,
    pub(super) renderings: usize,
    is_dead: bool,
    /// True if no deployer works on items.
    pub(super) has_no_deployer: bool,
    /// Templates whose items the deployer worked on, in order. An item that was only picked up is
    /// not listed.
    pub(super) worked: Vec<String>,
    /// Number of steps that wrote an object.
    pub(super) batches: usize,
    trees: BTreeMap<String, Tree>,
}

impl Cluster {
    pub(super) fn new(installation: Value) -> Self {
        let mut cluster = Self {
            installations: BTreeMap::new(),
            executions: BTreeMap::new(),
            items: BTreeMap::new(),
            data_objects: BTreeMap::new(),
            targets: BTreeMap::new(),
            secrets: BTreeMap::new(),
            version: 1,
            seconds: 0,
            jobs: 0,
            life: 0,
            log: Vec::new(),
            verdicts: BTreeMap::new(),
            refuses: None,
            dies_of_rendering: false,
            renderings: 0,
            is_dead: false,
            has_no_deployer: false,
            worked: Vec::new(),
            batches: 0,
            trees: BTreeMap::new(),
        };
        cluster.apply(installation);
        cluster
    }

    // Actions of users.

    /// Creates a root Installation.
    pub(super) fn apply(&mut self, installation: Value) {
        let mut installation: Installation = serde_json::from_value(installation).unwrap();
        let name = installation.name_any();
        installation.metadata.uid = Some(format!("uid-{name}"));
        installation.metadata.generation = Some(1);
        installation.metadata.resource_version = Some(self.next_version());
        self.installations.insert(name, installation);
    }

    pub(super) fn server(&self) -> &Installation {
        &self.installations[SERVER]
    }

    pub(super) fn execution(&self) -> Option<&Execution> {
        self.executions.get(SERVER)
    }

    pub(super) fn execution_mut(&mut self) -> &mut Execution {
        self.executions.get_mut(SERVER).unwrap()
    }

    pub(super) fn annotate(&mut self, name: &str, value: &str) {
        self.annotate_one(SERVER, name, value);
    }

    pub(super) fn annotate_one(&mut self, installation: &str, name: &str, value: &str) {
        let version = self.next_version();
        let metadata = &mut self.installations.get_mut(installation).unwrap().metadata;
        metadata.annotations.get_or_insert_default().insert(name.to_owned(), value.to_owned());
        metadata.resource_version = Some(version);
    }

    pub(super) fn change_spec(&mut self, installation: Value) {
        let version = self.next_version();
        let changed: Installation = serde_json::from_value(installation).unwrap();
        let stored = self.installations.get_mut(&changed.name_any()).unwrap();
        stored.spec = changed.spec;
        stored.metadata.generation = stored.metadata.generation.map(|generation| generation + 1);
        stored.metadata.resource_version = Some(version);
    }

    pub(super) fn delete(&mut self) {
        self.delete_one(SERVER);
    }

    pub(super) fn delete_one(&mut self, installation: &str) {
        let (version, now) = (self.next_version(), self.now());
        let metadata = &mut self.installations.get_mut(installation).unwrap().metadata;
        if metadata.finalizers.iter().flatten().next().is_none() {
            self.installations.remove(installation);
            return;
        }
        metadata.deletion_timestamp.get_or_insert(now);
        metadata.resource_version = Some(version);
    }

    /// Replaces all objects by their copies from a backup: without status and with other UIDs.
    /// Without `has_owners` the copies have no owner references; with it garbage collection takes
    /// those whose owners are gone.
    pub(super) fn restore(&mut self, has_owners: bool) {
        self.trees.clear();
        self.life += 1;
        let now = self.now();
        fn returned<K: ResourceExt>(object: &mut K, now: &Time, has_owners: bool) {
            let name = object.name_any();
            object.meta_mut().uid = Some(format!("back-{name}"));
            object.meta_mut().generation = Some(1);
            if !has_owners {
                object.meta_mut().owner_references = None;
            } else if !object.owner_references().is_empty() {
                object.meta_mut().deletion_timestamp = Some(now.clone());
            }
        }
        for installation in self.installations.values_mut() {
            installation.status = None;
            returned(installation, &now, has_owners);
        }
        for execution in self.executions.values_mut() {
            execution.status = None;
            returned(execution, &now, has_owners);
        }
        for item in self.items.values_mut() {
            item.status = None;
            returned(item, &now, has_owners);
        }
        self.data_objects.values_mut().for_each(|object| returned(object, &now, has_owners));
        self.targets.values_mut().for_each(|target| returned(target, &now, has_owners));
        self.secrets.values_mut().for_each(|secret| returned(secret, &now, has_owners));
        self.data_objects.retain(|_, object| object.metadata.deletion_timestamp.is_none());
        self.targets.retain(|_, target| target.metadata.deletion_timestamp.is_none());
        self.secrets.retain(|_, secret| secret.metadata.deletion_timestamp.is_none());
        self.version += 1;
    }

    /// Reports whether children or items of an Installation never had a job.
    fn has_unstarted(&self, name: &str) -> bool {
        let is_below = |labels: &BTreeMap<String, String>, label: &str| {
            labels.get(label).is_some_and(|above| above == name)
        };
        let mut children = self.installations.values();
        let mut items = self.items.values();
        children.any(|child| is_below(child.labels(), label::ENCOMPASSED_BY) && child.job().id.is_empty())
            || items.any(|item| is_below(item.labels(), label::MANAGED_BY) && item.job().id.is_empty())
    }

    pub(super) fn advance(&mut self, seconds: i64) {
        self.seconds += seconds;
    }

    // Observations.

    pub(super) fn phase(&self) -> String {
        self.phase_of(SERVER)
    }

    pub(super) fn phase_of(&self, installation: &str) -> String {
        self.installations.get(installation).map_or(String::new(), |found| found.phase().into())
    }

    pub(super) fn error(&self) -> String {
        self.error_of(SERVER)
    }

    pub(super) fn error_of(&self, installation: &str) -> String {
        let status = self.installations[installation].status.clone().unwrap_or_default();
        status
            .last_error
            .map(|error| format!("{}/{}: {}", error.operation, error.reason, error.message))
            .unwrap_or_default()
    }

    /// Returns phase, error and log of all objects, for assertion messages.
    pub(super) fn told(&self) -> String {
        let line = |name: &String| format!("{name} {}: {}\n", self.phase_of(name), self.error_of(name));
        self.installations.keys().map(line).collect::<String>() + &self.log.join("\n")
    }

    /// Returns the value of a DataObject, found by its full name or by the end of its name.
    pub(super) fn data(&self, name: &str) -> Option<Value> {
        self.data_objects.get(name)?.data.get().cloned()
    }

    /// Returns the nested Installation created from a template.
    pub(super) fn child(&self, template: &str) -> Option<&Installation> {
        self.installations.values().find(|found| super::super::Child::template(*found) == Some(template))
    }

    /// Returns all objects, without the values that differ between two equal runs.
    pub(super) fn dump(&self) -> Value {
        let mut dump = json!({
            "installations": self.installations, "executions": self.executions, "items": self.items.values().collect::<Vec<_>>(),
            "dataObjects": self.data_objects, "targets": self.targets, "secrets": self.secrets,
        });
        strip(&mut dump);
        dump
    }

    pub(super) fn creates(&self) -> usize {
        self.log.iter().filter(|line| line.starts_with("create")).count()
    }

    // Runs of the process.

    /// Runs until no step is left. The process dies after `writes` writes and is started again;
    /// `None` keeps it alive.
    pub(super) fn run(&mut self, mut writes: Option<usize>) {
        for _ in 0..400 {
            let before = self.version;
            for name in self.names() {
                let mut tree = self.trees.remove(&name).unwrap_or_else(|| Tree::new("team", &name));
                tree.outdate(|_| None);
                tree.has_unstarted = self.has_unstarted(&name);
                tree.looks_for_left = true;
                tree.installation = Known::Unread;
                tree.execution = Known::Unread;
                tree.items = super::super::Items::default();
                tree.children = super::super::Children::default();
                if self.settle(&name, &mut tree, &mut writes) {
                    self.trees.insert(name, tree);
                } else {
                    self.trees.clear();
                }
                if std::mem::take(&mut self.is_dead) {
                    return;
                }
            }
            if !self.has_no_deployer {
                self.deploy();
            }
            if self.version == before {
                return;
            }
        }
        panic!("it never comes to rest:\n{}", self.log.join("\n"));
    }

    /// Returns the names of all Installations, and of those to which Executions and items belong.
    fn names(&self) -> BTreeSet<String> {
        let managed = self.items.values().filter_map(|item| item.labels().get(label::MANAGED_BY));
        self.installations.keys().chain(self.executions.keys()).chain(managed).cloned().collect()
    }

    /// Works on one Installation. Returns false if the process died.
    fn settle(&mut self, name: &str, tree: &mut Tree, writes: &mut Option<usize>) -> bool {
        for _ in 0..500 {
            if let Some(lives) = self.step(name, tree, writes) {
                return lives;
            }
        }
        panic!("it goes round in circles:\n{}", self.log.join("\n"));
    }

    /// Works with the tree of a separate replica, while `goes_on` returns true or until no step is
    /// left.
    pub(super) fn replica(&mut self, name: &str, tree: &mut Tree, goes_on: impl Fn(&Self) -> bool) {
        let version = |part: super::super::Part<'_>| match part {
            super::super::Part::Installation => self.installations.get(name)?.resource_version(),
            super::super::Part::Execution => self.executions.get(name)?.resource_version(),
            super::super::Part::Item(item) => self.items.get(item)?.resource_version(),
            super::super::Part::Child(child) => self.installations.get(child)?.resource_version(),
        };
        tree.outdate(version);
        while goes_on(self) && self.step(name, tree, &mut None).is_none() {}
        tree.goes_on = true;
    }

    /// Executes one step. When no step is left, returns whether the process is alive.
    pub(super) fn step(&mut self, name: &str, tree: &mut Tree, writes: &mut Option<usize>) -> Option<bool> {
        self.seconds += 1;
        self.jobs += 1;
        let moment = Moment {
            now: self.now(),
            job_id: format!("job-{}", self.jobs),
            pickup_timeout: Some(jiff::SignedDuration::from_mins(5)),
        };
        match next(tree, &moment) {
            Next::Rest | Next::Wait => return Some(true),
            Next::Read(read) => self.read(tree, &read),
            Next::Prepare if self.dies_of_rendering => {
                self.renderings += 1;
                self.is_dead = true;
                return Some(false);
            }
            Next::Prepare => {
                let prepared = sent(&self.with_inputs(name, prepare));
                assert!(prepared.is_within("team"));
                assert!(prepared.execution.is_none() || !prepared.is_within("other"));
                tree.prepared = Some(prepared);
            }
            Next::Complete => {
                let own = self.own_scope(tree);
                let own = sent(&own);
                let completion = sent(&self.with_inputs(name, |inputs| complete(inputs, &own)));
                assert!(completion.is_within("team"));
                tree.completion = Some(completion);
            }
            Next::HashImports => {
                let installation = &self.installations[name];
                let scope = living_scope(installation);
                tree.imports_hash = Some(imports_hash(installation, &scope, &*self));
            }
            Next::Write(batch) => {
                assert!((1..=32).contains(&batch.len()), "{}", batch.len());
                self.batches += 1;
                for write in batch {
                    if !self.carry_out(tree, write, writes, &moment) {
                        return Some(false);
                    }
                }
            }
        }
        None
    }

    /// Calls `job` with all its inputs, and a second time if the job keeps state.
    fn with_inputs<T>(&self, name: &str, job: impl Fn(&Inputs<'_>) -> Result<T, UnreadStates>) -> T {
        let context = Context::default();
        let installation = &self.installations[name];
        let scope = living_scope(installation);
        let mut states = None;
        loop {
            let done = job(&Inputs {
                installation,
                context: Some(&context),
                overwrites: None,
                objects: self,
                repositories: &NoRepositories,
                blueprint: None,
                capabilities: &Capabilities::default(),
                scope: &scope,
                states: states.as_ref(),
                cache: None,
                offline: None,
                signatures: None,
            });
            match done {
                Ok(done) => return done,
                Err(UnreadStates(keys)) => {
                    assert!(states.is_none(), "it asks once");
                    let state = |key: String| {
                        let secret = self.secrets.get(&state_secret_name(name, &key))?;
                        Some((key, state_of(secret)?))
                    };
                    states = Some(keys.into_iter().filter_map(state).collect());
                }
            }
        }
    }

    fn own_scope(&self, tree: &Tree) -> OwnScope {
        let installation = tree.installation.get().unwrap();
        let names = OwnNames::of(installation, tree.execution.get(), tree.children.present());
        let holder = names.holder.and_then(|name| self.data_objects.get(&name).cloned());
        let data = names.data_objects.iter().filter_map(|name| self.data_objects.get(name).cloned());
        let targets = names.targets.iter().filter_map(|name| self.targets.get(name).cloned());
        OwnScope {
            deploy_items: item_exports(tree.execution.get(), holder),
            exports: data.map(ScopedObject::Data).chain(targets.map(ScopedObject::Target)).collect(),
        }
    }

    /// Executes one write of a step. Returns false if the process died of it.
    fn carry_out(
        &mut self,
        tree: &mut Tree,
        write: Write,
        writes: &mut Option<usize>,
        moment: &Moment,
    ) -> bool {
        if let Some(cause) = self.is_refused(&write) {
            let ending = Need::of(&write).and_then(|need| refused(tree, need, &cause, moment));
            self.write(tree, ending.expect("a refused creation ends the job"));
            return true;
        }
        self.write(tree, write);
        match writes {
            Some(0) => {
                // The process dies, and all its memory is lost.
                *writes = None;
                false
            }
            Some(left) => {
                *left -= 1;
                true
            }
            None => true,
        }
    }

    /// Returns an error if the test rejects this write.
    fn is_refused(&self, write: &Write) -> Option<String> {
        let kind = match write {
            Write::Execution(Change::Create(_)) => "Execution",
            Write::DeployItem(Change::Create(_)) => "DeployItem",
            Write::DataObject(Change::Ensure(_)) => "DataObject",
            Write::Child(Change::Create(_)) => "Child",
            Write::DataObject(Change::Publish(wanted)) => {
                let found = self.data_objects.get(&wanted.name_any())?;
                return Some(
                    may_publish("data object", &found.metadata, &wanted.metadata).err()?.to_string(),
                );
            }
            _ => return None,
        };
        (self.refuses == Some(kind)).then(|| "it is refused".to_owned())
    }

    fn siblings(&self) -> SiblingIndex {
        let mut index = SiblingIndex::default();
        for (name, installation) in &self.installations {
            index.insert(sibling_scope(installation), name, Interface::of(&installation.spec));
        }
        index
    }

    fn sibling(&self, name: &str) -> Option<Sibling> {
        self.installations.get(name).map(Sibling::of)
    }

    fn read(&self, tree: &mut Tree, read: &Read) {
        let name = tree.name.clone();
        let installation = self.installations.get(&name);
        match read {
            Read::Installation => tree.installation = installation.cloned().into(),
            Read::Parent(parent) => {
                let owners = self.installations[&name].owner_references();
                let uid = owners.iter().find(|owner| owner.name == *parent).map(|owner| owner.uid.as_str());
                let found = self.installations.get(parent).and_then(|found| found.metadata.uid.as_deref());
                tree.has_parent = Some(found.is_some() && found == uid);
            }
            Read::Execution => tree.execution = self.executions.get(&name).cloned().into(),
            Read::ListItems => {
                let is_ours = |item: &&DeployItem| {
                    item.labels().get("execution.landscaper.gardener.cloud/managed-by") == Some(&name)
                };
                tree.items.set_list(self.items.values().filter(is_ours).cloned());
            }
            Read::Items(names) => {
                for name in names {
                    tree.items.insert(name.clone(), self.items.get(name).cloned().into());
                }
            }
            Read::ListChildren => {
                let is_ours = |child: &&Installation| {
                    child.labels().get("landscaper.gardener.cloud/encompassed-by") == Some(&name)
                };
                tree.children.set_list(self.installations.values().filter(is_ours).cloned());
            }
            Read::Children(names) => {
                for name in names {
                    tree.children.insert(name.clone(), self.installations.get(name).cloned().into());
                }
            }
            Read::Exports(secrets) => {
                let value = |secret: &String| {
                    let found = self.secrets.get(secret).and_then(|found| found.data.as_ref()?.get("config"));
                    let found = found.and_then(|bytes| serde_json::from_slice(&bytes.0).ok());
                    found.unwrap_or_else(|| json!({"secret": secret}))
                };
                let values = secrets.iter().map(|(template, secret)| (template.clone(), value(secret)));
                tree.exports = Some(values.collect::<Map<_, _>>());
            }
            Read::Target(name) => {
                tree.targets.insert(name.clone(), self.targets.contains_key(name));
            }
            Read::StaleCopies => {
                let installation = installation.unwrap();
                let job = installation.status.clone().unwrap().job_id;
                let scope = scope_name("team", &name);
                let is_stale = |metadata: &ObjectMeta| {
                    let labels = metadata.labels.clone().unwrap_or_default();
                    labels.get("data.landscaper.gardener.cloud/context") == Some(&scope)
                        && labels.get("data.landscaper.gardener.cloud/jobid") != job.as_ref()
                };
                tree.stale_copies = Some(self.copies(installation, is_stale));
            }
            Read::OwnExports => {
                let is_export = |metadata: &ObjectMeta| {
                    let labels = metadata.labels.clone().unwrap_or_default();
                    labels
                        .get("data.landscaper.gardener.cloud/sourceType")
                        .is_some_and(|kind| kind == "export")
                };
                tree.own_exports = Some(self.copies(installation.unwrap(), is_export));
            }
            Read::Predecessors => {
                let installation = installation.unwrap();
                let interface = Interface::of(&installation.spec);
                let relations = self.siblings().relations(&sibling_scope(installation), &name, &interface);
                tree.predecessors = Some(Predecessors {
                    found: relations.predecessors.iter().filter_map(|name| self.sibling(name)).collect(),
                    ambiguous: relations.ambiguous,
                    cycle: relations.cycle,
                });
            }
            Read::Dependents => {
                tree.dependents = Some(self.siblings().successors_of("team", &name).1.into_iter().collect());
            }
            Read::Successors => {
                let names = self.siblings().successors_of("team", &name).1;
                tree.successors = Some(names.iter().filter_map(|name| self.sibling(name)).collect());
            }
        }
    }

    /// Returns the DataObjects and Targets of an Installation whose metadata match.
    fn copies(&self, owner: &Installation, is_one: impl Fn(&ObjectMeta) -> bool) -> Vec<StaleCopy> {
        let uid = owner.uid().unwrap();
        let is_owned = |metadata: &ObjectMeta| {
            let mut owners = metadata.owner_references.iter().flatten();
            owners.any(|owner| owner.uid == uid) && is_one(metadata)
        };
        let copy = |is_target, metadata: &ObjectMeta| StaleCopy {
            is_target,
            name: metadata.name.clone().unwrap(),
            uid: metadata.uid.clone().unwrap_or_default(),
            resource_version: metadata.resource_version.clone(),
        };
        let data = self.data_objects.values().filter(|object| is_owned(&object.metadata));
        let targets = self.targets.values().filter(|object| is_owned(&object.metadata));
        data.map(|object| copy(false, &object.metadata))
            .chain(targets.map(|object| copy(true, &object.metadata)))
            .collect()
    }

    fn write(&mut self, tree: &mut Tree, write: Write) {
        let version = self.next_version();
        let now = self.now();
        let log = match write {
            Write::Installation(change) => {
                let (line, stored) = self.change_installation("Installation", change, &version, &now);
                if let Some(installation) = stored {
                    tree.installation.store(installation);
                }
                line
            }
            Write::Child(change) => {
                let (line, stored) = self.change_installation("Child", change, &version, &now);
                if let Some(installation) = stored {
                    tree.children.store(installation);
                }
                line
            }
            Write::Sibling(patch) => {
                if self.installations.contains_key(&patch.name) {
                    self.change_installation("Sibling", Change::Metadata(patch), &version, &now).0
                } else {
                    "miss Sibling".to_owned()
                }
            }
            Write::Execution(change) => {
                let name = change.name();
                let line = describe("Execution", self.executions.contains_key(&name), &change, |object| {
                    object.status.as_ref()?.phase.clone()
                });
                let stored = change_one(self.executions.remove(&name), change, &version, &now, self.life);
                if let Some(execution) = &stored {
                    tree.execution.store(execution.clone());
                }
                self.executions.extend(collect(stored).map(|stored| (name, stored)));
                line
            }
            Write::DeployItem(change) => {
                let name = change.name();
                let line = describe("DeployItem", self.items.contains_key(&name), &change, |object| {
                    object.status.as_ref()?.phase.clone()
                });
                let stored = change_one(self.items.remove(&name), change, &version, &now, self.life);
                if let Some(item) = &stored {
                    tree.items.store(item.clone());
                }
                self.items.extend(collect(stored).map(|stored| (name, stored)));
                line
            }
            Write::DataObject(change) => {
                let name = change.name();
                let line = describe("DataObject", false, &change, |_| None);
                let stored = change_one(self.data_objects.remove(&name), change, &version, &now, self.life);
                self.data_objects.extend(stored.map(|stored| (name, stored)));
                line
            }
            Write::Target(change) => {
                let name = change.name();
                let line = describe("Target", false, &change, |_| None);
                let stored = change_one(self.targets.remove(&name), change, &version, &now, self.life);
                self.targets.extend(stored.map(|stored| (name, stored)));
                line
            }
            Write::Secret(change) => {
                let name = change.name();
                let line = describe("Secret", false, &change, |_| None);
                let stored = change_one(self.secrets.remove(&name), change, &version, &now, self.life);
                self.secrets.extend(stored.map(|stored| (name, stored)));
                line
            }
        };
        self.log.push(log);
    }

    /// Changes an Installation. A deleted Installation takes along the objects that it owns and
    /// that no finalizer holds.
    fn change_installation(
        &mut self,
        kind: &str,
        change: Change<Installation>,
        version: &str,
        now: &Time,
    ) -> (String, Option<Installation>) {
        let name = change.name();
        let line = describe(kind, self.installations.contains_key(&name), &change, |object| {
            object.status.as_ref()?.phase.clone()
        });
        let stored = change_one(self.installations.remove(&name), change, version, now, self.life);
        match collect(stored.clone()) {
            Some(kept) => drop(self.installations.insert(name, kept)),
            None => {
                let uid = stored.as_ref().and_then(ResourceExt::uid).unwrap_or_default();
                let is_free = |metadata: &ObjectMeta| {
                    metadata.owner_references.iter().flatten().all(|owner| owner.uid != uid)
                };
                self.data_objects.retain(|_, object| is_free(&object.metadata));
                self.targets.retain(|_, object| is_free(&object.metadata));
                self.secrets.retain(|_, object| is_free(&object.metadata));
            }
        }
        (line, stored)
    }

    /// Runs the mock deployer once for every item.
    fn deploy(&mut self) {
        let deployer = DeployerInformation {
            identity: "id".into(),
            name: "mock".into(),
            version: "1".into(),
            ..DeployerInformation::default()
        };
        for name in self.items.keys().cloned().collect::<Vec<_>>() {
            self.seconds += 1;
            let now = self.now();
            let item = self.items[&name].clone();
            let item = match work_of(&item, &deployer, &now) {
                Work::None => continue,
                Work::PickUp { item, is_done: true } => {
                    self.store_item(*item);
                    continue;
                }
                Work::PickUp { item, is_done: false } => *item,
                Work::Continue => item,
            };
            let template = item.labels()["execution.landscaper.gardener.cloud/name"].clone();
            let verdict = self.verdicts.get(&template).copied();
            let broken = format!("{template} is broken");
            self.worked.push(template);
            if item.metadata.deletion_timestamp.is_some() && verdict.is_none() {
                self.version += 1;
                self.items.remove(&name);
                continue;
            }
            let is_deleting = item.metadata.deletion_timestamp.is_some();
            let good = if is_deleting { Phase::DeleteFailed } else { Phase::Succeeded };
            let is_bad = verdict.is_some_and(|verdict| ["Failed", "DeleteFailed"].contains(&verdict));
            let error = is_bad.then(|| OperationError::child("work", Reason::ForeignObject, broken));
            let verdict = Verdict {
                phase: verdict.unwrap_or(good.as_str()).to_owned(),
                error,
                provider_status: None,
                exports: self.export(&item),
            };
            let concluded = conclude(&item, verdict, &now);
            if concluded != self.items[&name] {
                self.store_item(concluded);
            }
        }
    }

    /// Returns the exports in the configuration of an item.
    fn export(&mut self, item: &DeployItem) -> Exports {
        let Some(values) = item.spec.config.get().and_then(|config| config.get("export")) else {
            return Exports::Keep;
        };
        let name = format!("{}-export", item.name_any());
        let entry = ByteString(values.to_string().into_bytes());
        let secret = Secret { data: Some([("config".to_owned(), entry)].into()), ..Secret::default() };
        self.secrets.insert(name.clone(), secret);
        Exports::In(ObjectReference { name, namespace: None })
    }

    fn store_item(&mut self, mut item: DeployItem) {
        item.metadata.resource_version = Some(self.next_version());
        self.items.insert(item.name_any(), item);
    }

    fn next_version(&mut self) -> String {
        self.version += 1;
        self.version.to_string()
    }

    fn now(&self) -> Time {
        Time(jiff::Timestamp::from_second(1_780_000_000 + self.seconds).unwrap())
    }
}

/// Returns the scope in which an Installation looks for siblings.
fn sibling_scope(installation: &Installation) -> Scope {
    Scope { namespace: "team".to_owned(), parent: parent_name(installation).map(str::to_owned) }
}

fn describe<K>(kind: &str, exists: bool, change: &Change<K>, phase: impl Fn(&K) -> Option<String>) -> String {
    match change {
        Change::Create(_) if exists => format!("find {kind}"),
        Change::Create(_) => format!("create {kind}"),
        Change::Ensure(_) => format!("ensure {kind}"),
        Change::Publish(_) => format!("publish {kind}"),
        Change::Replace(_) => format!("replace {kind}"),
        Change::Status(object) => format!("status {kind} {}", phase(object).unwrap_or_default()),
        Change::Metadata(patch) => {
            let finalizer =
                patch.finalizers.as_ref().map(|finalizers| finalizers.iter().any(|name| name == FINALIZER));
            match finalizer {
                Some(true) => format!("finalizer {kind}"),
                Some(false) => format!("release {kind}"),
                None => format!("annotate {kind}"),
            }
        }
        Change::Delete { .. } => format!("delete {kind}"),
    }
}

/// Removes times, versions and job ids.
fn strip(value: &mut Value) {
    match value {
        Value::Object(members) => {
            let differs = |name: &str| {
                name.to_lowercase().ends_with("time")
                    || name.ends_with("Timestamp")
                    || ["resourceVersion", "jobID", "jobIDFinished", "data.landscaper.gardener.cloud/jobid"]
                        .contains(&name)
            };
            members.retain(|name, _| !differs(name));
            members.values_mut().for_each(strip);
        }
        Value::Array(elements) => elements.iter_mut().for_each(strip),
        _ => {}
    }
}

impl ImportedObjects for Cluster {
    fn data_object(&self, name: &str) -> Option<DataObject> {
        self.data_objects.get(name).cloned()
    }

    fn target(&self, name: &str) -> Option<Target> {
        self.targets.get(name).cloned()
    }

    fn secret(&self, _: &str) -> Option<Entries> {
        None
    }

    fn config_map(&self, _: &str) -> Option<Entries> {
        None
    }

    fn imported_targets(&self, scope: &str, import: &str) -> Vec<Target> {
        self.targets.values().filter(|target| is_import_of(target, scope, import)).cloned().collect()
    }
}

struct NoRepositories;

impl Repositories for NoRepositories {
    fn open(&self, context: &RepositoryContext) -> Result<Arc<dyn Repository>, RepositoryError> {
        Err(RepositoryError::NotMapped { context: context.to_json(), map: "nothing".to_owned() })
    }
}

/// Serializes and parses a value, as between two processes, and checks that it stays equal.
fn sent<T: PartialEq + Serialize + DeserializeOwned>(computed: &T) -> T {
    let text = serde_json::to_string(computed).unwrap();
    let read: T = serde_json::from_str(&text).unwrap();
    assert!(read == *computed, "{text}");
    read
}
