//! Relations between objects that a replica has learned from events: owners, and Installations that
//! import from one another.
//!
//! The relations only name candidates; code that decides something reads the objects. Every replica
//! sees each event here before the index applies it, so the reconcile of a key finds all earlier
//! events here.

use std::collections::{BTreeSet, HashMap};

use groundwork_api::metadata::label;
use groundwork_api::{DeployItem, Installation, Kind as _, view};
use groundwork_bus::{Change, Kind, ObjectId, Snapshot};
use groundwork_lifecycle::{Interface, Relations, Scope, SiblingIndex};

#[derive(Debug, Default)]
pub(crate) struct ObjectRelations {
    siblings: SiblingIndex,
    /// Names of the parents of nested installations.
    parents: HashMap<ObjectId, String>,
    /// Nested Installations and items that never had a job, by the key of the Installation above.
    unstarted: HashMap<ObjectId, BTreeSet<ObjectId>>,
}

impl ObjectRelations {
    pub(crate) fn observe(&mut self, object: &ObjectId, change: &Change) {
        self.observe_start(object, change);
        if object.kind.plural() != Installation::PLURAL {
            return;
        }
        match change {
            Change::Applied(snapshot) => {
                let scope = scope(object, snapshot);
                match &scope.parent {
                    Some(parent) => drop(self.parents.insert(object.clone(), parent.clone())),
                    None => drop(self.parents.remove(object)),
                }
                let interface = Interface::of_view(view::Installation(snapshot));
                self.siblings.insert(scope, &object.name, interface);
            }
            Change::Deleted(_) => {
                self.parents.remove(object);
                self.siblings.remove(object.namespace.as_deref().unwrap_or_default(), &object.name);
            }
        }
    }

    /// Notes whether an object below an Installation never had a job. Labels name the Installation
    /// above, since objects from a backup may have lost their owner references.
    fn observe_start(&mut self, object: &ObjectId, change: &Change) {
        let snapshot = change.snapshot();
        let (above, has_job) = match object.kind.plural() {
            Installation::PLURAL => {
                let job = view::Installation(snapshot).job();
                (snapshot.labels.get(label::ENCOMPASSED_BY), !job.id.is_empty())
            }
            DeployItem::PLURAL => {
                let item = view::DeployItem(snapshot);
                (item.execution(), !item.job().id.is_empty())
            }
            _ => return,
        };
        let Some(above) = above else { return };
        // An Execution has the name of its Installation.
        let above = ObjectId::new(Kind::of::<Installation>(), object.namespace.as_deref(), above.as_str());
        if matches!(change, Change::Applied(_)) && !has_job {
            self.unstarted.entry(above).or_default().insert(object.clone());
        } else if let Some(objects) = self.unstarted.get_mut(&above) {
            objects.remove(object);
            if objects.is_empty() {
                self.unstarted.remove(&above);
            }
        }
    }

    /// Returns true if there are objects below an Installation that never had a job.
    pub(crate) fn has_unstarted(&self, installation: &ObjectId) -> bool {
        self.unstarted.contains_key(installation)
    }

    /// Returns true if an Installation is nested in the one with this name.
    pub(crate) fn is_child(&self, object: &ObjectId, parent: &str) -> bool {
        self.parents.get(object).is_some_and(|found| found == parent)
    }

    /// Returns the names of the siblings whose exports an Installation imports, or imported before
    /// its deletion.
    pub(crate) fn predecessors_of(&self, object: &ObjectId, snapshot: &Snapshot) -> BTreeSet<String> {
        let interface = Interface::of_view(view::Installation(snapshot));
        self.of(&scope(object, snapshot), &object.name, &interface).predecessors
    }

    /// Returns the relations of an Installation with this interface to its siblings.
    pub(crate) fn of(&self, scope: &Scope, name: &str, interface: &Interface) -> Relations {
        self.siblings.relations(scope, name, interface)
    }

    /// Returns the names of the siblings that import the exports of an Installation with this
    /// interface.
    pub(crate) fn successors(&self, scope: &Scope, name: &str, interface: &Interface) -> BTreeSet<String> {
        self.siblings.successors(scope, name, interface)
    }

    /// Returns the names of the siblings that import the exports of an Installation known from
    /// events.
    pub(crate) fn successors_of(&self, object: &ObjectId) -> BTreeSet<String> {
        self.siblings.successors_of(object.namespace.as_deref().unwrap_or_default(), &object.name).1
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// Returns the name of the parent of a nested Installation, or of the Execution of an item.
pub(crate) fn owner(object: &ObjectId, snapshot: &Snapshot) -> Option<String> {
    match object.kind.plural() {
        Installation::PLURAL => view::Installation(snapshot).parent().map(|owner| owner.name.clone()),
        DeployItem::PLURAL => view::DeployItem(snapshot).execution().cloned(),
        _ => None,
    }
}

/// Returns the scope in which the Installation of an event looks for siblings.
fn scope(object: &ObjectId, snapshot: &Snapshot) -> Scope {
    Scope { namespace: object.namespace.clone().unwrap_or_default(), parent: owner(object, snapshot) }
}

#[cfg(test)]
mod tests {
    use groundwork_api::view::{WATCHED, project};
    use serde_json::{Value, json};

    use super::*;

    fn id(name: &str) -> ObjectId {
        ObjectId::new(Kind::of::<Installation>(), Some("team"), name)
    }

    fn applied(spec: &Value) -> Change {
        let fields = WATCHED.iter().find(|watched| watched.plural == Installation::PLURAL).unwrap().fields;
        Change::Applied(Snapshot { fields: project(fields, &json!({"spec": spec})), ..Snapshot::default() })
    }

    /// The interface taken from an event equals the one taken from the spec.
    #[test]
    fn interfaces_of_events() {
        let spec = json!({
            "blueprint": {},
            "imports": {
                "data": [{"name": "a", "dataRef": "x"}, {"name": "b", "dataRef": "#y"}, {"name": "c", "secretRef": {"name": "s"}}],
                "targets": [
                    {"name": "d", "target": "t"}, {"name": "e", "targets": ["u", "v"]}, {"name": "f", "targetMap": {"k": "w"}},
                    {"name": "g", "targetListRef": "l"}, {"name": "h", "targetMapRef": "m"},
                    {"name": "i", "targets": [{"k": "p"}, {"l": "q"}]},
                ],
            },
            "exports": {"data": [{"name": "j", "dataRef": "z"}], "targets": [{"name": "k", "target": "t2"}]},
        });
        for optimization in [json!({}), json!({"hasNoSiblingImports": true, "hasNoSiblingExports": true})] {
            let mut spec = spec.clone();
            spec["optimization"] = optimization;
            let Change::Applied(snapshot) = applied(&spec) else { panic!() };
            let of_event = Interface::of_view(view::Installation(&snapshot));
            assert_eq!(of_event, Interface::of(&serde_json::from_value(spec).unwrap()));
        }
    }

    /// The replica that handles a deletion may have no earlier event of the object, so the
    /// tombstone must name the related objects.
    #[test]
    fn what_went_names_whom_it_concerns() {
        let mut relations = ObjectRelations::default();
        let (exports, imports) = (
            applied(&json!({"exports": {"data": [{"name": "a", "dataRef": "a"}]}})),
            applied(&json!({"imports": {"data": [{"name": "a", "dataRef": "a"}]}})),
        );
        relations.observe(&id("db"), &exports);
        let gone = Change::Deleted(imports.snapshot().clone());
        relations.observe(&id("web"), &gone);
        assert_eq!(relations.predecessors_of(&id("web"), gone.snapshot()), ["db".to_owned()].into());
        relations.observe(&id("web"), &imports);
        assert_eq!(relations.successors_of(&id("db")), ["web".to_owned()].into());
        relations.observe(&id("web"), &gone);
        assert_eq!(relations.successors_of(&id("db")), BTreeSet::new());
    }
}
