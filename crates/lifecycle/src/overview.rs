//! Tree of an Installation and all objects below it, as users see it (`installations.md` 9).

use std::cmp::Ordering;
use std::collections::BTreeMap;

use groundwork_api::metadata::{annotation, label};
use groundwork_api::{
    DeployItem, Execution, Installation, Kind as _, LastError, ResourceExt, Time, TransitionTimes,
};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::deployer::drift_of;
use crate::names::parent_name;
use crate::phase::Phase;
use crate::protocol::HasJob;
use crate::waits::{
    Around, Beside, Cause, Clock, Found, ITEM, Wait, causes, of_execution, of_installation, of_item,
};

/// Depth at which the tree ends. Blueprints do not nest that deep, but owner references that form a
/// cycle do.
const DEEPEST: usize = 64;

/// Object of the tree.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    /// `Installation`, `Execution` or `DeployItem`.
    pub kind: &'static str,
    pub namespace: String,
    pub name: String,
    /// Name of the object in its blueprint; absent for a root and for an Execution.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// For an Installation, the effective component version `name:version`; for an item, its
    /// deployer type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// Phase in the status; empty before the first job.
    pub phase: String,
    #[serde(rename = "jobID")]
    pub job_id: String,
    /// True while a job runs.
    pub is_running: bool,
    pub is_deleting: bool,
    /// Value of the annotation `operation`: a request that no service has taken up yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requested: Option<String>,
    /// Error of the object, or the wait that its status reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<NodeError>,
    /// Reason for which the object waits; absent if the object is at rest or working.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<Wait>,
    /// For an item: changes of its objects since the last job, from its condition `Drifted`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drift: Option<String>,
    #[serde(skip_serializing_if = "Times::is_empty")]
    pub times: Times,
    /// Children, in the order of their names in the blueprint. An Installation has its Execution,
    /// then its nested Installations. An Execution has its items.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<Node>,
}

/// Content of the `lastError` of an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NodeError {
    pub operation: String,
    pub reason: String,
    pub message: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub codes: Vec<String>,
}

/// Times at which the current or last job reached its stages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Times {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trigger: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub init: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished: Option<Timestamp>,
}

impl Times {
    fn of(times: Option<&TransitionTimes>) -> Self {
        let Some(times) = times else { return Self::default() };
        let time = |time: &Option<Time>| time.as_ref().map(|Time(time)| *time);
        Self {
            trigger: time(&times.trigger_time),
            init: time(&times.init_time),
            wait: time(&times.wait_time),
            finished: time(&times.finished_time),
        }
    }

    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the duration of the job, up to `now` while it runs; `None` if no job has begun.
    pub fn elapsed(&self, now: Timestamp) -> Option<SignedDuration> {
        let begin = self.trigger.or(self.init)?;
        let end = self.finished.filter(|end| *end >= begin).unwrap_or(now);
        Some(end.duration_since(begin).max(SignedDuration::ZERO))
    }
}

impl Node {
    /// Reports whether a job, or a deletion, has ended without success.
    pub fn has_failed(&self) -> bool {
        !self.is_running && matches!(Phase::of(Some(&self.phase)), Phase::Failed | Phase::DeleteFailed)
    }
}

/// Objects of one namespace that form a tree, as last read. Callers add and remove single objects.
#[derive(Debug, Clone, Default)]
pub struct Members {
    installations: BTreeMap<String, Installation>,
    executions: BTreeMap<String, Execution>,
    items: BTreeMap<String, DeployItem>,
}

impl Members {
    pub fn insert_installation(&mut self, installation: Installation) {
        self.installations.insert(installation.name_any(), installation);
    }

    pub fn insert_execution(&mut self, execution: Execution) {
        self.executions.insert(execution.name_any(), execution);
    }

    pub fn insert_item(&mut self, item: DeployItem) {
        self.items.insert(item.name_any(), item);
    }

    /// Adds all objects of `others`.
    pub fn extend(&mut self, others: Self) {
        self.installations.extend(others.installations);
        self.executions.extend(others.executions);
        self.items.extend(others.items);
    }

    /// Removes an object that is gone, by the plural of its kind and its name. The objects below it
    /// are removed by their own events.
    pub fn remove(&mut self, plural: &str, name: &str) {
        match plural {
            Installation::PLURAL => drop(self.installations.remove(name)),
            Execution::PLURAL => drop(self.executions.remove(name)),
            DeployItem::PLURAL => drop(self.items.remove(name)),
            _ => {}
        }
    }

    /// Reports whether the set contains an object, by the plural of its kind and its name.
    pub fn contains(&self, plural: &str, name: &str) -> bool {
        match plural {
            Installation::PLURAL => self.installations.contains_key(name),
            Execution::PLURAL => self.executions.contains_key(name),
            DeployItem::PLURAL => self.items.contains_key(name),
            _ => false,
        }
    }

    pub fn installation(&self, name: &str) -> Option<&Installation> {
        self.installations.get(name)
    }

    /// Returns the tree below an Installation, or `None` if the Installation does not exist.
    pub fn tree(&self, name: &str, clock: &Clock) -> Option<Node> {
        let mut children: BTreeMap<&str, Vec<&Installation>> = BTreeMap::new();
        let mut roots = Vec::new();
        for installation in self.installations.values() {
            match parent_name(installation) {
                Some(parent) => children.entry(parent).or_default().push(installation),
                None => roots.push(installation),
            }
        }
        let mut items: BTreeMap<&str, Vec<&DeployItem>> = BTreeMap::new();
        for item in self.items.values() {
            let execution = item.labels().get(label::MANAGED_BY).map(String::as_str);
            items.entry(execution.unwrap_or_default()).or_default().push(item);
        }
        let families = Families { members: self, roots, children, items, clock };
        self.installations.get(name).map(|installation| families.installation(installation, 0).0)
    }
}

/// Index of objects by parent.
struct Families<'a> {
    members: &'a Members,
    roots: Vec<&'a Installation>,
    children: BTreeMap<&'a str, Vec<&'a Installation>>,
    items: BTreeMap<&'a str, Vec<&'a DeployItem>>,
    clock: &'a Clock,
}

impl Families<'_> {
    /// Returns the node of an Installation, and the causes of waits that the nodes above it repeat.
    fn installation(&self, installation: &Installation, depth: usize) -> (Node, Vec<Cause>) {
        let name = installation.name_any();
        let status = installation.status.as_ref();
        let component = status.and_then(|status| status.component_reference.as_ref());
        let last_error = status.and_then(|status| status.last_error.as_ref());
        let times = status.and_then(|status| status.transition_times.as_ref());
        let mut node = node(installation, Installation::KIND, last_error, times);
        node.template = installation.annotations().get(annotation::SUBINSTALLATION_NAME).cloned();
        node.content =
            component.map(|component| format!("{}:{}", component.component_name, component.version));
        let mut below = Vec::new();
        if depth < DEEPEST {
            let execution = self.members.executions.get(&name).map(|execution| self.execution(execution));
            let children = self.children.get(name.as_str()).into_iter().flatten();
            let mut nested: Vec<_> = children.map(|child| self.installation(child, depth + 1)).collect();
            nested.sort_by(|(one, _), (other, _)| in_order(one, other));
            for (part, causes) in execution.into_iter().chain(nested) {
                node.nodes.push(part);
                below.extend(causes);
            }
        }
        let parent = parent_name(installation);
        let siblings = parent.map_or(Some(&self.roots), |parent| self.children.get(parent));
        let around = Around {
            parent: parent.and_then(|parent| self.members.installations.get(parent)),
            siblings: siblings.map(Vec::as_slice).unwrap_or_default(),
            is_root: parent.is_none(),
        };
        let found = of_installation(installation, around, &below, self.clock);
        told(node, Installation::KIND, found, below)
    }

    fn execution(&self, execution: &Execution) -> (Node, Vec<Cause>) {
        let status = execution.status.as_ref();
        let last_error = status.and_then(|status| status.last_error.as_ref());
        let times = status.and_then(|status| status.transition_times.as_ref());
        let mut node = node(execution, Execution::KIND, last_error, times);
        let items = self.items.get(execution.name_any().as_str()).map(Vec::as_slice).unwrap_or_default();
        let beside = Beside { execution, items };
        let mut parts: Vec<_> = items.iter().map(|item| self.item(item, beside)).collect();
        parts.sort_by(|(one, _), (other, _)| in_order(one, other));
        let mut below = Vec::new();
        for (part, causes) in parts {
            node.nodes.push(part);
            below.extend(causes);
        }
        let found = of_execution(execution, &below, self.clock);
        told(node, Execution::KIND, found, below)
    }

    fn item(&self, item: &DeployItem, beside: Beside<'_>) -> (Node, Vec<Cause>) {
        let status = item.status.as_ref();
        let last_error = status.and_then(|status| status.last_error.as_ref());
        let times = status.and_then(|status| status.transition_times.as_ref());
        let mut node = node(item, DeployItem::KIND, last_error, times);
        node.template = item.labels().get(label::DEPLOY_ITEM_NAME).cloned();
        node.content = Some(item.spec.type_.clone());
        node.drift = drift_of(item).map(str::to_owned);
        told(node, ITEM, of_item(item, beside, self.clock), Vec::new())
    }
}

/// Orders nodes by their names in the blueprint.
fn in_order(one: &Node, other: &Node) -> Ordering {
    (&one.template, &one.name).cmp(&(&other.template, &other.name))
}

/// Adds the wait to a node. Returns the node, and the causes that the nodes above it repeat.
fn told(mut node: Node, kind: &'static str, found: Option<Found>, below: Vec<Cause>) -> (Node, Vec<Cause>) {
    let causes = causes(kind, node.template.as_deref().unwrap_or(&node.name), found.as_ref(), below);
    node.waits_for = found.map(|found| found.wait);
    (node, causes)
}

/// Creates a node from the fields that all kinds share.
fn node(
    object: &impl HasJob,
    kind: &'static str,
    error: Option<&LastError>,
    times: Option<&TransitionTimes>,
) -> Node {
    let job = object.job();
    Node {
        kind,
        namespace: object.namespace().unwrap_or_default(),
        name: object.name_any(),
        template: None,
        content: None,
        phase: object.phase().as_str().to_owned(),
        job_id: job.id.to_owned(),
        is_running: job.is_running(),
        is_deleting: object.is_deleting(),
        requested: object.annotations().get(annotation::OPERATION).cloned(),
        error: error.map(|error| NodeError {
            operation: error.operation.clone(),
            reason: error.reason.clone(),
            message: error.message.clone(),
            codes: error.codes.to_vec(),
        }),
        waits_for: None,
        drift: None,
        times: Times::of(times),
        nodes: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const CLOCK: Clock = Clock { now: Timestamp::UNIX_EPOCH, pickup_timeout: None };

    fn installation(name: &str, parent: Option<(&str, &str)>, status: &Value) -> Installation {
        let mut metadata = json!({"name": name, "namespace": "team"});
        if let Some((parent, template)) = parent {
            metadata["ownerReferences"] = json!([{"apiVersion": "landscaper.gardener.cloud/v1alpha1",
                "kind": "Installation", "name": parent, "uid": "u"}]);
            metadata["annotations"] = json!({annotation::SUBINSTALLATION_NAME: template});
        }
        let object = json!({"apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Installation",
            "metadata": metadata, "spec": {"blueprint": {}}, "status": status});
        serde_json::from_value(object).unwrap()
    }

    fn execution(name: &str) -> Execution {
        let object = json!({"apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Execution",
            "metadata": {"name": name, "namespace": "team"}, "spec": {},
            "status": {"phase": "Progressing", "jobID": "j", "observedGeneration": 1}});
        serde_json::from_value(object).unwrap()
    }

    fn deploy_item(name: &str, execution: &str, template: &str) -> DeployItem {
        let object = json!({"apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "DeployItem",
            "metadata": {"name": name, "namespace": "team",
                "labels": {label::MANAGED_BY: execution, label::DEPLOY_ITEM_NAME: template}},
            "spec": {"type": "landscaper.gardener.cloud/mock"},
            "status": {"phase": "Failed", "jobID": "j", "jobIDFinished": "j", "observedGeneration": 1,
                "lastError": {"operation": "Reconcile", "reason": "Told", "message": "as told"}}});
        serde_json::from_value(object).unwrap()
    }

    fn members() -> Members {
        let mut members = Members::default();
        let status = json!({"phase": "Progressing", "jobID": "j", "jobIDFinished": "i", "observedGeneration": 1,
            "componentReference": {"componentName": "example.org/shop", "version": "v1"},
            "transitionTimes": {"triggerTime": "2026-01-01T00:00:00Z", "initTime": "2026-01-01T00:00:01Z"}});
        members.insert_installation(installation("shop", None, &status));
        members.insert_installation(installation("web-2", Some(("shop", "web")), &Value::Null));
        members.insert_installation(installation("db-1", Some(("shop", "db")), &Value::Null));
        members.insert_installation(installation("leaf-3", Some(("web-2", "leaf")), &Value::Null));
        members.insert_installation(installation("stranger", None, &Value::Null));
        members.insert_execution(execution("shop"));
        members.insert_item(deploy_item("shop-b-x", "shop", "b"));
        members.insert_item(deploy_item("shop-a-y", "shop", "a"));
        members.insert_item(deploy_item("other", "stranger", "a"));
        members
    }

    fn outline(node: &Node) -> String {
        let below: Vec<String> = node.nodes.iter().map(outline).collect();
        let name = node.template.as_deref().unwrap_or(&node.name);
        if below.is_empty() { name.to_owned() } else { format!("{name}({})", below.join(" ")) }
    }

    #[test]
    fn a_tree_has_what_belongs_to_it() {
        let mut members = members();
        let tree = members.tree("shop", &CLOCK).unwrap();
        assert_eq!(outline(&tree), "shop(shop(a b) db web(leaf))");
        assert_eq!((tree.is_running, tree.phase.as_str(), tree.job_id.as_str()), (true, "Progressing", "j"));
        assert_eq!(tree.content.as_deref(), Some("example.org/shop:v1"));
        let item = &tree.nodes[0].nodes[0];
        assert!(item.has_failed() && !tree.has_failed());
        assert_eq!(item.error.as_ref().unwrap().message, "as told");
        assert_eq!(outline(&members.tree("web-2", &CLOCK).unwrap()), "web(leaf)");
        assert_eq!(members.tree("missing", &CLOCK), None);
        assert!(members.contains("deployitems", "other") && !members.contains("deployitems", "shop"));
        members.remove("installations", "web-2");
        members.remove("deployitems", "shop-a-y");
        assert_eq!(outline(&members.tree("shop", &CLOCK).unwrap()), "shop(shop(b) db)");
        members.remove("executions", "shop");
        assert_eq!(outline(&members.tree("shop", &CLOCK).unwrap()), "shop(db)");
    }

    #[test]
    fn owners_in_a_circle_end() {
        let mut members = Members::default();
        members.insert_installation(installation("a", Some(("b", "a")), &Value::Null));
        members.insert_installation(installation("b", Some(("a", "b")), &Value::Null));
        let mut depth = 0;
        let mut node = &members.tree("a", &CLOCK).unwrap();
        while let Some(below) = node.nodes.first() {
            (node, depth) = (below, depth + 1);
        }
        assert_eq!(depth, DEEPEST);
    }

    #[test]
    fn time_counts_from_the_trigger() {
        let at = |second: i64| Some(Timestamp::from_second(second).unwrap());
        let now = Timestamp::from_second(100).unwrap();
        let elapsed = |times: Times| times.elapsed(now).map(|elapsed| elapsed.as_secs());
        assert_eq!(elapsed(Times::default()), None);
        assert_eq!(elapsed(Times { trigger: at(40), ..Times::default() }), Some(60));
        assert_eq!(elapsed(Times { trigger: at(40), finished: at(45), ..Times::default() }), Some(5));
        assert_eq!(elapsed(Times { init: at(120), ..Times::default() }), Some(0), "clocks differ");
    }
}
