//! Changes of the applied objects themselves.

use std::collections::BTreeMap;

use groundwork_api::{
    AnyJson, ComponentVersionOverwrites, Context, DataObject, Installation, Kind as _, Target,
};
use groundwork_blueprint::other_value;
use groundwork_fleet::Field;
use groundwork_lifecycle::Entries;
use serde_json::{Map, Value, json};

use crate::change::{Change, ObjectChange};
use crate::compare::json;
use crate::landscape::{Key, Landscape};
use crate::secrecy::{Proof, shown_differences};

/// Returns the applied objects, each with its changes.
pub(crate) fn changes(
    present: &Landscape,
    after: &Landscape,
    applied: &Landscape,
    show_values: bool,
) -> Vec<ObjectChange> {
    let mut changes = Changes { changes: Vec::new(), show_values };
    let spec = |installation: &Installation| json!({"spec": json(&installation.spec)});
    changes.of(
        Installation::KIND,
        &applied.installations,
        &present.installations,
        &after.installations,
        spec,
    );
    let content = |context: &Context| without_metadata(json(context));
    changes.of(Context::KIND, &applied.contexts, &present.contexts, &after.contexts, content);
    let rules = |overwrites: &ComponentVersionOverwrites| without_metadata(json(overwrites));
    let kind = ComponentVersionOverwrites::KIND;
    changes.of(kind, &applied.overwrites, &present.overwrites, &after.overwrites, rules);
    let data = |object: &DataObject| json!({"data": object.data.get()});
    changes.of(DataObject::KIND, &applied.data_objects, &present.data_objects, &after.data_objects, data);
    let spec = |target: &Target| json!({"spec": json(&target.spec)});
    changes.hidden(Target::KIND, &applied.targets, &present.targets, &after.targets, spec, |target| {
        let mut target = target.clone();
        target.spec.config = AnyJson::from(other_value(target.spec.config.get().unwrap_or(&Value::Null)));
        Some(json!({"spec": json(&target.spec)}))
    });
    let kind = "Secret";
    changes.hidden(kind, &applied.secrets, &present.secrets, &after.secrets, entries, |secret: &Entries| {
        // The names of a Secret's entries are not secret.
        let names = secret.keys().map(|name| (name.clone(), Value::Null));
        Some(json!({"data": names.collect::<Map<_, _>>()}))
    });
    changes.of("ConfigMap", &applied.config_maps, &present.config_maps, &after.config_maps, entries);
    changes.changes
}

/// Returns the keys of applied objects of a kind that change.
pub(crate) fn changed<'a, K: PartialEq>(
    applied: &'a BTreeMap<Key, K>,
    present: &'a BTreeMap<Key, K>,
    after: &'a BTreeMap<Key, K>,
) -> impl Iterator<Item = &'a Key> {
    applied.keys().filter(|key| present.get(*key) != after.get(*key))
}

struct Changes {
    changes: Vec<ObjectChange>,
    show_values: bool,
}

impl Changes {
    fn of<K>(
        &mut self,
        kind: &'static str,
        applied: &BTreeMap<Key, K>,
        present: &BTreeMap<Key, K>,
        after: &BTreeMap<Key, K>,
        content: impl Fn(&K) -> Value,
    ) {
        for key in applied.keys() {
            let old = present.get(key).map(&content);
            let new = after.get(key).map_or(Value::Null, &content);
            let fields = old.as_ref().map_or_else(Vec::new, |old| {
                shown_differences("", (old, Proof::Public), (&new, Proof::Public))
            });
            self.push(kind, key, old.is_none(), fields);
        }
    }

    /// Adds the changes of a kind that may contain secrets. Values that differ after the
    /// substitution of secrets ([`Landscape::disguised`]) are hidden.
    fn hidden<K>(
        &mut self,
        kind: &'static str,
        applied: &BTreeMap<Key, K>,
        present: &BTreeMap<Key, K>,
        after: &BTreeMap<Key, K>,
        content: impl Fn(&K) -> Value,
        disguise: impl Fn(&K) -> Option<Value>,
    ) {
        if self.show_values {
            return self.of(kind, applied, present, after, content);
        }
        for key in applied.keys() {
            let old = present.get(key).map(&content);
            let new = after.get(key).map_or(Value::Null, &content);
            let (old_other, new_other) =
                ([present.get(key).and_then(&disguise)], [after.get(key).and_then(&disguise)]);
            let fields = old.as_ref().map_or_else(Vec::new, |old| {
                shown_differences("", (old, Proof::SameAs(&old_other)), (&new, Proof::SameAs(&new_other)))
            });
            self.push(kind, key, old.is_none(), fields);
        }
    }

    fn push(&mut self, kind: &'static str, (namespace, name): &Key, is_new: bool, fields: Vec<Field>) {
        let change = match (is_new, fields.is_empty()) {
            (true, _) => Change::Created,
            (false, true) => Change::Unchanged,
            (false, false) => Change::Changed,
        };
        let (namespace, name) = (namespace.clone(), name.clone());
        self.changes.push(ObjectChange { kind, namespace, name, change, fields });
    }
}

fn without_metadata(mut object: Value) -> Value {
    if let Some(members) = object.as_object_mut() {
        for member in ["apiVersion", "kind", "metadata", "status"] {
            members.remove(member);
        }
    }
    object
}

fn entries(entries: &Entries) -> Value {
    let entry = |(name, bytes): (&String, &Vec<u8>)| {
        (name.clone(), Value::from(String::from_utf8_lossy(bytes).into_owned()))
    };
    json!({"data": entries.iter().map(entry).collect::<Map<_, _>>()})
}
