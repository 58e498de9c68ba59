//! Plans in worker processes. The worker first returns the namespaces of a plan. Then it computes
//! the plan, and repeats that with more objects until none are missing.

use std::collections::{BTreeMap, BTreeSet};

use groundwork_api::{
    ComponentVersionOverwrites, Context, DataObject, DeployItem, Execution, Installation, KubeResource,
    ResourceExt, Target,
};
use groundwork_grpc::CallEnd;
use groundwork_lifecycle::ObjectSet;
use groundwork_plan::{Key, Landscape, Unread};
use groundwork_proto::renderer::v1::{PlanRequest, PlanResponse};
use groundwork_sandbox::{ANYBODY, Host};
use prost::Message;
use serde::{Deserialize, Serialize};

use super::{CallError, Kind, Progress, Renderers, Task, answered};

/// Contents of namespaces, by their names.
pub(crate) type Namespaces = BTreeMap<String, InNamespace>;

/// All objects of a namespace that a plan reads, and the Secrets and ConfigMaps that it has asked
/// for.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct InNamespace {
    pub(crate) installations: Vec<Installation>,
    pub(crate) executions: Vec<Execution>,
    pub(crate) items: Vec<DeployItem>,
    pub(crate) contexts: Vec<Context>,
    pub(crate) overwrites: Vec<ComponentVersionOverwrites>,
    pub(crate) data_objects: Vec<DataObject>,
    pub(crate) targets: Vec<Target>,
    /// Secrets and ConfigMaps.
    pub(crate) named: ObjectSet,
    /// Requested Secrets and ConfigMaps that do not exist.
    pub(crate) absent: Lacks,
}

/// Secrets and ConfigMaps of one namespace that still have to be read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lacks {
    pub(crate) secrets: BTreeSet<String>,
    pub(crate) config_maps: BTreeSet<String>,
}

/// Answer of a worker that is not a plan yet: it names what the plan needs first.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Unplanned {
    /// The namespaces that the plan has to read.
    Scope(BTreeSet<String>),
    /// Objects, by namespace, without which the plan cannot be computed.
    Lacks(BTreeMap<String, Lacks>),
}

/// Result of a plan in a worker.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum PlanEnd {
    Ended(CallEnd),
    Unplanned(Unplanned),
}

impl InNamespace {
    pub(crate) fn len(&self) -> usize {
        let above = self.installations.len() + self.contexts.len() + self.overwrites.len();
        above + self.executions.len() + self.items.len() + self.data_objects.len() + self.targets.len()
    }

    /// Adds the objects to a landscape in the form that the plan engine uses.
    pub(crate) fn fill(self, namespace: &str, landscape: &mut Landscape) {
        landscape.installations.extend(by_key(namespace, self.installations));
        landscape.executions.extend(by_key(namespace, self.executions));
        landscape.items.extend(by_key(namespace, self.items));
        landscape.contexts.extend(by_key(namespace, self.contexts));
        landscape.overwrites.extend(by_key(namespace, self.overwrites));
        landscape.data_objects.extend(by_key(namespace, self.data_objects));
        landscape.targets.extend(by_key(namespace, self.targets));
        let named = |name: String| (namespace.to_owned(), name);
        let secrets = self.named.secrets.into_iter();
        landscape.secrets.extend(secrets.map(|(name, entries)| (named(name), entries)));
        let maps = self.named.config_maps.into_iter();
        landscape.config_maps.extend(maps.map(|(name, entries)| (named(name), entries)));
    }
}

fn by_key<K: KubeResource>(namespace: &str, objects: Vec<K>) -> impl Iterator<Item = (Key, K)> {
    objects.into_iter().map(move |object| ((namespace.to_owned(), object.name_any()), object))
}

impl Lacks {
    /// Returns the missing objects by namespace, without those that are known not to exist.
    pub(crate) fn of(unread: Unread, absent: &BTreeMap<String, Self>) -> BTreeMap<String, Self> {
        let is_absent = |(namespace, name): &Key, names: fn(&Self) -> &BTreeSet<String>| {
            absent.get(namespace).is_some_and(|absent| names(absent).contains(name))
        };
        let mut lacks: BTreeMap<String, Self> = BTreeMap::new();
        for key in unread.secrets.into_iter().filter(|key| !is_absent(key, |lacks| &lacks.secrets)) {
            lacks.entry(key.0).or_default().secrets.insert(key.1);
        }
        for key in unread.config_maps.into_iter().filter(|key| !is_absent(key, |lacks| &lacks.config_maps)) {
            lacks.entry(key.0).or_default().config_maps.insert(key.1);
        }
        lacks
    }

    pub(crate) fn len(&self) -> usize {
        self.secrets.len() + self.config_maps.len()
    }
}

impl Renderers {
    /// Computes a plan. Without a landscape, returns its namespaces.
    ///
    /// # Errors
    ///
    /// See [`CallError`].
    pub(crate) async fn plan(
        &self,
        landscape: Option<&Namespaces>,
        request: &PlanRequest,
        host: &dyn Host,
    ) -> Result<Progress<PlanResponse, Unplanned>, CallError> {
        let kind = if landscape.is_some() { Kind::Plan } else { Kind::PlanScope };
        let task = Task { landscape, ..Task::of(kind, self.limits, None) };
        let tenant =
            landscape.and_then(|namespaces| namespaces.keys().next()).map_or(ANYBODY, String::as_str);
        let (end, body) = self.ask(tenant, &task, &request.encode_to_vec(), host).await?;
        match end {
            PlanEnd::Ended(end) => answered(end, &body).map(Progress::Done),
            PlanEnd::Unplanned(unplanned) => Ok(Progress::Lacks(unplanned)),
        }
    }
}
