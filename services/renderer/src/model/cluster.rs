//! Storage of the model's API server: objects with their versions, and the log of changes up to its
//! compaction.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

/// The only namespace with objects.
pub(super) const NAMESPACE: &str = "team";

/// Error answer: status code and reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal(pub(super) u16, pub(super) &'static str);

const CONFLICT: Refusal = Refusal(409, "Conflict");
const NOT_FOUND: Refusal = Refusal(404, "NotFound");

/// One change of an object, as watches report it.
#[derive(Debug, Clone)]
pub(super) struct Logged {
    pub(super) at: Instant,
    pub(super) version: u64,
    pub(super) plural: String,
    pub(super) type_: &'static str,
    /// Object after the change; for a deletion, the object before it.
    pub(super) object: Arc<Value>,
    /// Process that made the change.
    pub(super) by: String,
}

/// Next event of a watch.
pub(super) enum Next {
    Event(Box<Logged>),
    /// There is no event yet.
    Wait,
    /// The version was compacted.
    Expired,
    /// The server has ended the watch.
    End,
}

#[derive(Debug, Default)]
struct State {
    version: u64,
    uids: u64,
    objects: BTreeMap<(String, String), Arc<Value>>,
    log: Vec<Logged>,
    compacted: u64,
}

/// Objects of a cluster. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct Cluster {
    state: Arc<Mutex<State>>,
    changes: watch::Sender<u64>,
    /// Number of times that all watches were ended.
    endings: watch::Sender<u64>,
}

impl Cluster {
    pub(super) fn new() -> Self {
        let state = Arc::new(Mutex::new(State { version: 10, ..State::default() }));
        Self { state, changes: watch::Sender::new(0), endings: watch::Sender::new(0) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a receiver that wakes on every change.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    pub(super) fn endings(&self) -> u64 {
        *self.endings.borrow()
    }

    pub(super) fn get(&self, plural: &str, name: &str) -> Option<Arc<Value>> {
        self.lock().objects.get(&(plural.to_owned(), name.to_owned())).cloned()
    }

    /// Returns the objects of a kind, with the label if one is given, and the version of the list.
    pub(super) fn list(&self, plural: &str, label: Option<(&str, &str)>) -> (Vec<Arc<Value>>, u64) {
        let state = self.lock();
        let has =
            |object: &Value| label.is_none_or(|(name, value)| object["metadata"]["labels"][name] == value);
        let of_kind = state.objects.iter().filter(|((kind, _), object)| kind == plural && has(object));
        (of_kind.map(|(_, object)| Arc::clone(object)).collect(), state.version)
    }

    pub(super) fn all(&self) -> Vec<(String, Arc<Value>)> {
        let state = self.lock();
        state.objects.iter().map(|((plural, _), object)| (plural.clone(), Arc::clone(object))).collect()
    }

    pub(super) fn log(&self) -> Vec<Logged> {
        self.lock().log.clone()
    }

    /// Returns true if the process wrote this version of an object and the write was not a
    /// deletion.
    pub(super) fn has_written(&self, by: &str, version: &str) -> bool {
        let is_it = |logged: &Logged| logged.version.to_string() == version && logged.type_ != "DELETED";
        self.lock().log.iter().any(|logged| is_it(logged) && logged.by.starts_with(by))
    }

    pub(super) fn create(&self, plural: &str, mut object: Value, by: &str) -> Result<Arc<Value>, Refusal> {
        let mut state = self.lock();
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        if state.objects.contains_key(&(plural.to_owned(), name)) {
            return Err(Refusal(409, "AlreadyExists"));
        }
        state.uids += 1;
        let metadata = &mut object["metadata"];
        metadata["uid"] = json!(format!("00000000-0000-4000-8000-{:012x}", state.uids));
        metadata["generation"] = json!(1);
        metadata["namespace"] = json!(NAMESPACE);
        metadata["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
        Ok(self.store(&mut state, plural, object, "ADDED", by))
    }

    /// Replaces an object, or only its status.
    pub(super) fn replace(
        &self,
        plural: &str,
        mut object: Value,
        is_status: bool,
        by: &str,
    ) -> Result<Arc<Value>, Refusal> {
        let mut state = self.lock();
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let stored = state.objects.get(&(plural.to_owned(), name)).cloned().ok_or(NOT_FOUND)?;
        let version = &object["metadata"]["resourceVersion"];
        if version.is_string() && *version != stored["metadata"]["resourceVersion"] {
            return Err(CONFLICT);
        }
        if is_status {
            let status = object["status"].take();
            object = Value::clone(&stored);
            object["status"] = status;
        } else {
            object["status"] = stored["status"].clone();
            for kept in [
                "uid",
                "namespace",
                "creationTimestamp",
                "deletionTimestamp",
                "generation",
                "resourceVersion",
            ] {
                object["metadata"][kept] = stored["metadata"][kept].clone();
            }
            if object["spec"] != stored["spec"] {
                let generation = stored["metadata"]["generation"].as_u64().unwrap_or_default();
                object["metadata"]["generation"] = json!(generation + 1);
            }
        }
        drop_nulls(&mut object);
        if object == *stored {
            return Ok(stored);
        }
        Ok(self.store(&mut state, plural, object, "MODIFIED", by))
    }

    /// Changes an object without a check of its version.
    pub(super) fn change(
        &self,
        plural: &str,
        name: &str,
        by: &str,
        change: impl FnOnce(&mut Value),
    ) -> Option<Arc<Value>> {
        let mut object = Value::clone(&*self.get(plural, name)?);
        change(&mut object);
        self.replace(plural, object, false, by).ok()
    }

    /// Merges a patch into the metadata.
    pub(super) fn patch(
        &self,
        plural: &str,
        name: &str,
        patch: &Value,
        by: &str,
    ) -> Result<Arc<Value>, Refusal> {
        let mut object = Value::clone(&*self.get(plural, name).ok_or(NOT_FOUND)?);
        let version = &patch["metadata"]["resourceVersion"];
        if version.is_string() && *version != object["metadata"]["resourceVersion"] {
            return Err(CONFLICT);
        }
        merge(&mut object, patch);
        self.replace(plural, object, false, by)
    }

    /// Requests a deletion. Returns the object as long as finalizers keep it.
    pub(super) fn delete(
        &self,
        plural: &str,
        name: &str,
        if_: &Value,
        by: &str,
    ) -> Result<Option<Arc<Value>>, Refusal> {
        let mut state = self.lock();
        let stored = state.objects.get(&(plural.to_owned(), name.to_owned())).cloned().ok_or(NOT_FOUND)?;
        for field in ["uid", "resourceVersion"] {
            if if_[field].is_string() && if_[field] != stored["metadata"][field] {
                return Err(CONFLICT);
            }
        }
        let mut object = Value::clone(&stored);
        if object["metadata"]["deletionTimestamp"].is_string() {
            return Ok(Some(stored));
        }
        object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:01Z");
        let generation = object["metadata"]["generation"].as_u64().unwrap_or_default();
        object["metadata"]["generation"] = json!(generation + 1);
        let stored = self.store(&mut state, plural, object, "MODIFIED", by);
        Ok(has_finalizers(&stored).then_some(stored))
    }

    /// Stores an object, or removes it if it is being deleted and has no finalizers.
    fn store(
        &self,
        state: &mut State,
        plural: &str,
        mut object: Value,
        type_: &'static str,
        by: &str,
    ) -> Arc<Value> {
        state.version += 1;
        let version = state.version;
        object["metadata"]["resourceVersion"] = json!(version.to_string());
        let is_gone = object["metadata"]["deletionTimestamp"].is_string() && !has_finalizers(&object);
        let key = (plural.to_owned(), object["metadata"]["name"].as_str().unwrap_or_default().to_owned());
        let object = Arc::new(object);
        match is_gone {
            true => state.objects.remove(&key),
            false => state.objects.insert(key, Arc::clone(&object)),
        };
        let type_ = if is_gone { "DELETED" } else { type_ };
        let (plural, by) = (plural.to_owned(), by.to_owned());
        state.log.push(Logged {
            at: Instant::now(),
            version,
            plural,
            type_,
            object: Arc::clone(&object),
            by,
        });
        self.changes.send_replace(version);
        object
    }

    /// Returns the next event of a watch after a version.
    pub(super) fn next(&self, plural: &str, after: u64, endings: u64) -> Next {
        let state = self.lock();
        if endings != self.endings() {
            return Next::End;
        }
        if after < state.compacted {
            return Next::Expired;
        }
        let begin = state.log.partition_point(|logged| logged.version <= after);
        let next = state.log[begin..].iter().find(|logged| logged.plural == plural);
        next.map_or(Next::Wait, |logged| Next::Event(Box::new(logged.clone())))
    }

    /// Ends all watches; with `compacts`, the log of changes is dropped too.
    pub(super) fn end_watches(&self, compacts: bool) {
        let mut state = self.lock();
        if compacts {
            state.compacted = state.version;
        }
        self.endings.send_modify(|endings| *endings += 1);
        self.changes.send_replace(state.version);
    }
}

pub(super) fn has_finalizers(object: &Value) -> bool {
    object["metadata"]["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty())
}

/// Removes nulls, which indexing leaves for absent members.
fn drop_nulls(object: &mut Value) {
    for part in [Some("metadata"), None] {
        let part = match part {
            Some(part) => &mut object[part],
            None => &mut *object,
        };
        if let Some(members) = part.as_object_mut() {
            members.retain(|_, member| !member.is_null());
        }
    }
}

/// Merges a patch as RFC 7386 says.
fn merge(object: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else {
        object.clone_from(patch);
        return;
    };
    if !object.is_object() {
        *object = json!({});
    }
    for (name, value) in patch {
        if value.is_null() {
            if let Some(members) = object.as_object_mut() {
                members.remove(name);
            }
        } else {
            merge(&mut object[name], value);
        }
    }
}
