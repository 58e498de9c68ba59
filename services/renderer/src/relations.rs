//! What a replica knows of how objects belong together, taken from events: who made what, and which Installations feed one another.
//!
//! It names candidates; whoever decides something reads them. Every replica sees every event here before the index knows it, so that a
//! key which an event wakes finds what came before that event.

use std::collections::{BTreeSet, HashMap, VecDeque};

use groundwork_api::{DeployItem, Installation, Kind as _, view};
use groundwork_bus::{Change, ObjectId, Snapshot};
use groundwork_lifecycle::{Interface, Relations, Scope, SiblingIndex};

/// Objects that are gone and still remembered: the replica that handles a deletion may have seen it long before.
const MOST_GONE: usize = 10_000;

#[derive(Debug, Default)]
pub(crate) struct ObjectRelations {
    siblings: SiblingIndex,
    /// Names of the parents of nested installations, and of the Executions of items.
    owners: HashMap<ObjectId, String>,
    gone: HashMap<ObjectId, Gone>,
    gone_in_order: VecDeque<ObjectId>,
}

/// What was known of an object when it went.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gone {
    pub(crate) owner: Option<String>,
    /// Siblings whose exports it imported, and that may wait for it to go.
    pub(crate) predecessors: BTreeSet<String>,
}

impl ObjectRelations {
    pub(crate) fn observe(&mut self, object: &ObjectId, change: &Change) {
        match (object.kind.plural(), change) {
            (Installation::PLURAL, Change::Applied(snapshot)) => {
                self.forget_gone(object);
                let installation = view::Installation(snapshot);
                let scope = scope(object, snapshot);
                match &scope.parent {
                    Some(parent) => drop(self.owners.insert(object.clone(), parent.clone())),
                    None => drop(self.owners.remove(object)),
                }
                self.siblings.insert(scope, &object.name, Interface::of_view(installation));
            }
            (DeployItem::PLURAL, Change::Applied(snapshot)) => {
                self.forget_gone(object);
                if let Some(execution) = view::DeployItem(snapshot).execution() {
                    self.owners.insert(object.clone(), execution.clone());
                }
            }
            (Installation::PLURAL, Change::Deleted { .. }) => {
                let namespace = object.namespace.as_deref().unwrap_or_default();
                let predecessors = self.siblings.predecessors_of(namespace, &object.name);
                self.siblings.remove(namespace, &object.name);
                self.note_gone(object, predecessors);
            }
            (DeployItem::PLURAL, Change::Deleted { .. }) => self.note_gone(object, BTreeSet::new()),
            _ => {}
        }
    }

    fn note_gone(&mut self, object: &ObjectId, predecessors: BTreeSet<String>) {
        let owner = self.owners.remove(object);
        if owner.is_none() && predecessors.is_empty() {
            return;
        }
        if self.gone.insert(object.clone(), Gone { owner, predecessors }).is_none() {
            self.gone_in_order.push_back(object.clone());
        }
        while self.gone_in_order.len() > MOST_GONE {
            if let Some(oldest) = self.gone_in_order.pop_front() {
                self.gone.remove(&oldest);
            }
        }
    }

    /// One that came back is told of by its own events.
    fn forget_gone(&mut self, object: &ObjectId) {
        if self.gone.remove(object).is_some() {
            self.gone_in_order.retain(|gone| gone != object);
        }
    }

    /// What was known of an object that is gone.
    pub(crate) fn gone(&self, object: &ObjectId) -> Gone {
        self.gone.get(object).cloned().unwrap_or_default()
    }

    /// The name of the parent, or of the Execution.
    pub(crate) fn owner(&self, object: &ObjectId) -> Option<&String> {
        self.owners.get(object)
    }

    /// What the siblings of an Installation with this interface have to do with it.
    pub(crate) fn of(&self, scope: &Scope, name: &str, interface: &Interface) -> Relations {
        self.siblings.relations(scope, name, interface)
    }

    /// Names of the siblings that import what an Installation with this interface exports.
    pub(crate) fn successors(&self, scope: &Scope, name: &str, interface: &Interface) -> BTreeSet<String> {
        self.siblings.successors(scope, name, interface)
    }

    /// The same of one that events have told of.
    pub(crate) fn successors_of(&self, object: &ObjectId) -> BTreeSet<String> {
        self.siblings.successors_of(object.namespace.as_deref().unwrap_or_default(), &object.name).1
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// Where an Installation that an event shows looks for siblings.
fn scope(object: &ObjectId, snapshot: &Snapshot) -> Scope {
    Scope {
        namespace: object.namespace.clone().unwrap_or_default(),
        parent: view::Installation(snapshot).parent().map(|owner| owner.name.clone()),
    }
}

#[cfg(test)]
mod tests {
    use groundwork_api::view::{WATCHED, project};
    use serde_json::{Value, json};

    use super::*;
    use crate::handler::kind;

    fn id(name: &str) -> ObjectId {
        ObjectId::new(kind::<Installation>(), Some("team"), name)
    }

    fn applied(spec: &Value) -> Change {
        let fields = WATCHED.iter().find(|watched| watched.plural == Installation::PLURAL).unwrap().fields;
        Change::Applied(Snapshot { fields: project(fields, &json!({"spec": spec})), ..Snapshot::default() })
    }

    fn deleted() -> Change {
        Change::Deleted { uid: "u".into(), resource_version: "1".into() }
    }

    /// Events and specs tell the same.
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

    #[test]
    fn what_went_is_remembered_for_a_while() {
        let mut relations = ObjectRelations::default();
        relations
            .observe(&id("db"), &applied(&json!({"exports": {"data": [{"name": "a", "dataRef": "a"}]}})));
        relations
            .observe(&id("web"), &applied(&json!({"imports": {"data": [{"name": "a", "dataRef": "a"}]}})));
        assert_eq!(relations.successors_of(&id("db")), ["web".to_owned()].into());
        relations.observe(&id("web"), &deleted());
        assert_eq!(relations.successors_of(&id("db")), BTreeSet::new());
        assert_eq!(relations.gone(&id("web")).predecessors, ["db".to_owned()].into());
        for other in 0..MOST_GONE {
            let name = format!("web{other}");
            relations.observe(
                &id(&name),
                &applied(&json!({"imports": {"data": [{"name": "a", "dataRef": "a"}]}})),
            );
            relations.observe(&id(&name), &deleted());
        }
        assert_eq!((relations.gone.len(), relations.gone_in_order.len()), (MOST_GONE, MOST_GONE));
        assert!(relations.gone(&id("web")).predecessors.is_empty());
    }
}
