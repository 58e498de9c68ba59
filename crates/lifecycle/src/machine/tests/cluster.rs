use std::collections::BTreeMap;
use std::sync::Arc;

use groundwork_api::metadata::FINALIZER;
use groundwork_api::{
    Context, DataObject, DeployItem, DeployerInformation, Execution, Installation, ObjectMeta, ResourceExt,
    Target, Time,
};
use groundwork_blueprint::Capabilities;
use groundwork_component::{Repositories, Repository, RepositoryContext, RepositoryError};
use serde_json::{Map, Value, json};

use super::super::{
    Change, MetadataPatch, Moment, Need, Next, Read, StaleCopy, Tree, Write, next, phase, refused,
};
use crate::deployer::{Exports, Verdict, Work, conclude, work_of};
use crate::imports::{Entries, ImportedObjects};
use crate::job::Inputs;
use crate::prepare::{imports_hash, prepare};

/// An API server with the objects of one namespace, a deployer, and a process that works on one Installation.
pub(super) struct Cluster {
    pub(super) installation: Option<Installation>,
    pub(super) execution: Option<Execution>,
    pub(super) items: BTreeMap<String, DeployItem>,
    pub(super) data_objects: BTreeMap<String, DataObject>,
    pub(super) targets: BTreeMap<String, Target>,
    version: u64,
    seconds: i64,
    jobs: u32,
    /// What was written, in order: kind, verb, and the phase where there is one.
    pub(super) log: Vec<String>,
    /// Verdicts of the deployer by template name; others succeed.
    pub(super) verdicts: BTreeMap<String, &'static str>,
    /// Creations of this kind are refused for ever.
    pub(super) refuses: Option<&'static str>,
    /// Whether the process dies when it renders, and how often it has begun to.
    pub(super) dies_of_rendering: bool,
    pub(super) renderings: usize,
    is_dead: bool,
    /// Nobody works on items.
    pub(super) has_no_deployer: bool,
    /// Templates whose items the deployer worked on, in order; picking up alone is not work.
    pub(super) worked: Vec<String>,
    /// How many steps wrote something.
    pub(super) batches: usize,
    tree: Tree,
}

impl Cluster {
    pub(super) fn new(installation: Value) -> Self {
        let mut installation: Installation = serde_json::from_value(installation).unwrap();
        installation.metadata.uid = Some("installation-uid".to_owned());
        installation.metadata.generation = Some(1);
        installation.metadata.resource_version = Some("1".to_owned());
        Self {
            installation: Some(installation),
            execution: None,
            items: BTreeMap::new(),
            data_objects: BTreeMap::new(),
            targets: BTreeMap::new(),
            version: 1,
            seconds: 0,
            jobs: 0,
            log: Vec::new(),
            verdicts: BTreeMap::new(),
            refuses: None,
            dies_of_rendering: false,
            renderings: 0,
            is_dead: false,
            has_no_deployer: false,
            worked: Vec::new(),
            batches: 0,
            tree: Tree::new("team", "server"),
        }
    }

    // === what users do ===

    pub(super) fn annotate(&mut self, name: &str, value: &str) {
        let version = self.next_version();
        let metadata = &mut self.installation.as_mut().unwrap().metadata;
        metadata.annotations.get_or_insert_default().insert(name.to_owned(), value.to_owned());
        metadata.resource_version = Some(version);
    }

    pub(super) fn change_spec(&mut self, installation: Value) {
        let version = self.next_version();
        let changed: Installation = serde_json::from_value(installation).unwrap();
        let stored = self.installation.as_mut().unwrap();
        stored.spec = changed.spec;
        stored.metadata.generation = stored.metadata.generation.map(|generation| generation + 1);
        stored.metadata.resource_version = Some(version);
    }

    pub(super) fn delete(&mut self) {
        let (version, now) = (self.next_version(), self.now());
        let metadata = &mut self.installation.as_mut().unwrap().metadata;
        metadata.deletion_timestamp = Some(now);
        metadata.resource_version = Some(version);
    }

    pub(super) fn advance(&mut self, seconds: i64) {
        self.seconds += seconds;
    }

    // === what is seen ===

    pub(super) fn phase(&self) -> String {
        let status = self.installation.as_ref().and_then(|installation| installation.status.clone());
        status.unwrap_or_default().phase.unwrap_or_default()
    }

    pub(super) fn error(&self) -> String {
        let status = self.installation.as_ref().unwrap().status.clone().unwrap_or_default();
        status
            .last_error
            .map(|error| format!("{}/{}: {}", error.operation, error.reason, error.message))
            .unwrap_or_default()
    }

    /// Everything, without what differs between two runs that do the same.
    pub(super) fn dump(&self) -> Value {
        let mut dump = json!({
            "installation": self.installation, "execution": self.execution, "items": self.items.values().collect::<Vec<_>>(),
            "dataObjects": self.data_objects, "targets": self.targets,
        });
        strip(&mut dump);
        dump
    }

    pub(super) fn creates(&self) -> usize {
        self.log.iter().filter(|line| line.starts_with("create")).count()
    }

    // === the process ===

    /// Works until nothing happens any more. The process dies after `writes` writes and is started again; `None` lets it live.
    pub(super) fn run(&mut self, mut writes: Option<usize>) {
        for _ in 0..200 {
            let before = self.version;
            self.tree.installation = super::super::Known::Unread;
            self.tree.execution = super::super::Known::Unread;
            self.tree.items = super::super::Items::default();
            self.settle(&mut writes);
            if std::mem::take(&mut self.is_dead) {
                return;
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

    fn settle(&mut self, writes: &mut Option<usize>) {
        for _ in 0..500 {
            self.seconds += 1;
            self.jobs += 1;
            let moment = Moment {
                now: self.now(),
                job_id: format!("job-{}", self.jobs),
                pickup_timeout: Some(jiff::SignedDuration::from_mins(5)),
            };
            match next(&mut self.tree, &moment) {
                Next::Rest => return,
                Next::Read(read) => self.read(&read),
                Next::Prepare if self.dies_of_rendering => {
                    self.renderings += 1;
                    self.is_dead = true;
                    self.tree = Tree::new("team", "server");
                    return;
                }
                Next::Prepare => {
                    let context = Context::default();
                    let installation = self.installation.clone().unwrap();
                    let inputs = Inputs {
                        installation: &installation,
                        context: Some(&context),
                        overwrites: None,
                        objects: &*self,
                        repositories: &NoRepositories,
                        blueprint: None,
                        capabilities: &Capabilities::default(),
                        offline: None,
                    };
                    self.tree.prepared = Some(prepare(&inputs, None));
                }
                Next::HashImports => {
                    let hash = imports_hash(self.installation.as_ref().unwrap(), &*self);
                    self.tree.imports_hash = Some(hash);
                }
                Next::Write(batch) => {
                    assert!((1..=32).contains(&batch.len()), "{}", batch.len());
                    self.batches += 1;
                    for write in batch {
                        if !self.carry_out(write, writes, &moment) {
                            break;
                        }
                    }
                }
            }
        }
        panic!("it goes round in circles:\n{}", self.log.join("\n"));
    }

    /// One write of a step. False when the process died of it.
    fn carry_out(&mut self, write: Write, writes: &mut Option<usize>, moment: &Moment) -> bool {
        if self.is_refused(&write) {
            let ending = Need::of(&write).and_then(|need| refused(&self.tree, need, "it is refused", moment));
            self.write(ending.expect("a refused creation ends the job"));
            return true;
        }
        self.write(write);
        match writes {
            Some(0) => {
                // Killed: all that was known is lost.
                *writes = None;
                self.tree = Tree::new("team", "server");
                false
            }
            Some(left) => {
                *left -= 1;
                true
            }
            None => true,
        }
    }

    fn is_refused(&self, write: &Write) -> bool {
        let kind = match write {
            Write::Execution(Change::Create(_)) => "Execution",
            Write::DeployItem(Change::Create(_)) => "DeployItem",
            Write::DataObject(Change::Ensure(_)) => "DataObject",
            _ => return false,
        };
        self.refuses == Some(kind)
    }

    fn read(&mut self, read: &Read) {
        match read {
            Read::Installation => self.tree.installation = self.installation.clone().into(),
            Read::Execution => self.tree.execution = self.execution.clone().into(),
            Read::ListItems => self.tree.items.set_list(self.items.values().cloned()),
            Read::Items(names) => {
                for name in names {
                    self.tree.items.insert(name.clone(), self.items.get(name).cloned().into());
                }
            }
            Read::Exports(secrets) => {
                let values =
                    secrets.iter().map(|(template, secret)| (template.clone(), json!({"secret": secret})));
                self.tree.exports = Some(values.collect::<Map<_, _>>());
            }
            Read::Target(name) => {
                self.tree.targets.insert(name.clone(), self.targets.contains_key(name));
            }
            Read::StaleCopies => {
                let job = self.installation.as_ref().unwrap().status.clone().unwrap().job_id;
                let is_stale = |metadata: &ObjectMeta| {
                    let labels = metadata.labels.clone().unwrap_or_default();
                    labels
                        .get("data.landscaper.gardener.cloud/context")
                        .is_some_and(|scope| scope.starts_with("Inst"))
                        && labels.get("data.landscaper.gardener.cloud/jobid") != job.as_ref()
                };
                let data = self.data_objects.values().filter(|object| is_stale(&object.metadata));
                let copy = |object: &DataObject| StaleCopy {
                    is_target: false,
                    name: object.name_any(),
                    uid: object.uid().unwrap_or_default(),
                    resource_version: object.resource_version().unwrap_or_default(),
                };
                self.tree.stale_copies = Some(data.map(copy).collect());
            }
        }
    }

    fn write(&mut self, write: Write) {
        let version = self.next_version();
        let now = self.now();
        let log = match write {
            Write::Installation(change) => {
                let line = describe("Installation", self.installation.is_some(), &change, |object| {
                    object.status.as_ref()?.phase.clone()
                });
                let stored = change_one(self.installation.take(), change, &version, &now);
                if let Some(installation) = &stored {
                    self.tree.installation.store(installation.clone());
                }
                self.installation = collect(stored);
                if self.installation.is_none() {
                    self.data_objects.retain(|_, object| object.metadata.owner_references.is_none());
                }
                line
            }
            Write::Execution(change) => {
                let line = describe("Execution", self.execution.is_some(), &change, |object| {
                    object.status.as_ref()?.phase.clone()
                });
                let stored = change_one(self.execution.take(), change, &version, &now);
                if let Some(execution) = &stored {
                    self.tree.execution.store(execution.clone());
                }
                self.execution = collect(stored);
                line
            }
            Write::DeployItem(change) => {
                let line =
                    describe("DeployItem", self.items.contains_key(&change.name()), &change, |object| {
                        object.status.as_ref()?.phase.clone()
                    });
                let name = change.name();
                let stored = change_one(self.items.remove(&name), change, &version, &now);
                if let Some(item) = &stored {
                    self.tree.items.store(item.clone());
                }
                if let Some(item) = collect(stored) {
                    self.items.insert(name, item);
                }
                line
            }
            Write::DataObject(change) => {
                let line = describe("DataObject", false, &change, |_| None);
                let name = change.name();
                if let Some(object) = change_one(self.data_objects.remove(&name), change, &version, &now) {
                    self.data_objects.insert(name, object);
                }
                line
            }
            Write::Target(change) => {
                let line = describe("Target", false, &change, |_| None);
                let name = change.name();
                if let Some(object) = change_one(self.targets.remove(&name), change, &version, &now) {
                    self.targets.insert(name, object);
                }
                line
            }
        };
        self.log.push(log);
    }

    /// One look of the mock deployer at every item.
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
            self.worked.push(template);
            if item.metadata.deletion_timestamp.is_some() && verdict.is_none() {
                self.version += 1;
                self.items.remove(&name);
                continue;
            }
            let is_deleting = item.metadata.deletion_timestamp.is_some();
            let good = if is_deleting { phase::DELETE_FAILED } else { phase::SUCCEEDED };
            let verdict = Verdict {
                phase: verdict.unwrap_or(good).to_owned(),
                error: None,
                provider_status: None,
                exports: Exports::Keep,
            };
            let concluded = conclude(&item, verdict, &now);
            if concluded != self.items[&name] {
                self.store_item(concluded);
            }
        }
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

/// What the API server does with one change. Every version-checked write must be about the stored version.
fn change_one<K: ResourceExt + Clone + StatusOf>(
    stored: Option<K>,
    change: Change<K>,
    version: &str,
    now: &Time,
) -> Option<K> {
    let check = |stored: &Option<K>, decided: Option<String>| {
        let current = stored.as_ref().expect("what is changed exists").resource_version();
        assert_eq!(decided, current, "the write was decided on an old version");
    };
    let mut object = match change {
        Change::Create(mut object) => {
            if stored.is_some() {
                return stored;
            }
            object.meta_mut().uid = Some(format!("uid-{}", object.name_any()));
            object.meta_mut().generation = Some(1);
            object
        }
        Change::Ensure(mut object) => {
            object.meta_mut().uid = Some(format!("uid-{}", object.name_any()));
            object
        }
        Change::Replace(mut object) => {
            check(&stored, object.resource_version());
            let generation = object.meta().generation.map(|generation| generation + 1);
            object.meta_mut().generation = generation;
            object
        }
        Change::Status(object) => {
            check(&stored, object.resource_version());
            let mut stored = stored?;
            stored.take_status(object);
            stored
        }
        Change::Metadata(MetadataPatch { resource_version, finalizers, annotations, .. }) => {
            check(&stored, resource_version);
            let mut stored = stored?;
            if finalizers.is_some() {
                stored.meta_mut().finalizers = finalizers;
            }
            for (name, value) in annotations {
                match value {
                    Some(value) => drop(stored.annotations_mut().insert(name.to_owned(), value)),
                    None => drop(stored.annotations_mut().remove(name)),
                }
            }
            stored
        }
        Change::Delete { .. } => {
            let mut stored = stored?;
            if stored.finalizers().is_empty() {
                return None;
            }
            stored.meta_mut().deletion_timestamp.get_or_insert_with(|| now.clone());
            stored
        }
    };
    object.meta_mut().resource_version = Some(version.to_owned());
    Some(object)
}

/// An object that is being deleted goes with its last finalizer.
fn collect<K: ResourceExt>(object: Option<K>) -> Option<K> {
    object.filter(|object| object.meta().deletion_timestamp.is_none() || !object.finalizers().is_empty())
}

trait StatusOf {
    fn take_status(&mut self, from: Self);
}

macro_rules! with_status {
    ($($kind:ty),*) => {$(
        impl StatusOf for $kind {
            fn take_status(&mut self, from: Self) {
                self.status = from.status;
            }
        }
    )*};
}
with_status!(Installation, Execution, DeployItem);

impl StatusOf for DataObject {
    fn take_status(&mut self, _: Self) {}
}

impl StatusOf for Target {
    fn take_status(&mut self, _: Self) {}
}

fn describe<K>(kind: &str, exists: bool, change: &Change<K>, phase: impl Fn(&K) -> Option<String>) -> String {
    match change {
        Change::Create(_) if exists => format!("find {kind}"),
        Change::Create(_) => format!("create {kind}"),
        Change::Ensure(_) => format!("ensure {kind}"),
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

    fn imported_targets(&self, _: &str, _: &str) -> Vec<Target> {
        Vec::new()
    }
}

struct NoRepositories;

impl Repositories for NoRepositories {
    fn open(&self, context: &RepositoryContext) -> Result<Arc<dyn Repository>, RepositoryError> {
        Err(RepositoryError::NotMapped { context: context.to_json(), map: "nothing".to_owned() })
    }
}
