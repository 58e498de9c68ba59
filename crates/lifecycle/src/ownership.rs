//! Owners that return under another UID, as after a restored backup (`installations.md` 8.7).

use groundwork_api::{Kind, KubeResource, ObjectMeta, OwnerReference};

/// Relation of an object to an owner that exists now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ownership {
    Own,
    /// The object has no controller, or a controller with the owner's kind and name and another
    /// UID. A namespace has one object of a kind and name, so that controller no longer exists.
    Left,
    /// Another object controls this one.
    Foreign,
}

/// Returns the relation of an object to `owner`, by its owner references.
pub fn ownership<O: Kind + KubeResource>(found: &ObjectMeta, owner: &O) -> Ownership {
    let owner = owner.meta();
    let (uid, name) = (owner.uid.as_deref().unwrap_or_default(), owner.name.as_deref().unwrap_or_default());
    let mut relation = Ownership::Left;
    for controller in found.owner_references.iter().flatten().filter(|one| one.controller == Some(true)) {
        if controller.uid == uid {
            return Ownership::Own;
        }
        if !(is_kind::<O>(controller) && controller.name == name) {
            relation = Ownership::Foreign;
        }
    }
    relation
}

/// Reports whether an owner is of a kind, in any API version.
pub(crate) fn is_kind<O: Kind>(owner: &OwnerReference) -> bool {
    let group = owner.api_version.split_once('/').map(|(group, _)| group);
    owner.kind == O::KIND && group == Some(O::GROUP)
}

/// Makes `wanted` the controllers of an object. References of other kinds of owners stay.
pub(crate) fn take_over(metadata: &mut ObjectMeta, wanted: Option<&[OwnerReference]>) {
    let kept = metadata.owner_references.take().into_iter().flatten();
    let kept = kept.filter(|owner| owner.controller != Some(true));
    let owners: Vec<_> = kept.chain(wanted.into_iter().flatten().cloned()).collect();
    metadata.owner_references = (!owners.is_empty()).then_some(owners);
}

#[cfg(test)]
mod tests {
    use groundwork_api::Execution;
    use serde_json::json;

    use super::*;

    #[test]
    fn relations() {
        let owner: Execution = serde_json::from_value(json!({
            "metadata": {"name": "app", "namespace": "team", "uid": "new"}, "spec": {},
        }))
        .unwrap();
        let reference = |kind: &str, name: &str, uid: &str| json!({"apiVersion": "landscaper.gardener.cloud/v1alpha2", "kind": kind, "name": name, "uid": uid, "controller": true});
        let of = |owners: serde_json::Value| {
            let found: ObjectMeta = serde_json::from_value(json!({"ownerReferences": owners})).unwrap();
            ownership(&found, &owner)
        };
        assert_eq!(of(json!([])), Ownership::Left);
        assert_eq!(of(json!([reference("Execution", "app", "new")])), Ownership::Own);
        assert_eq!(of(json!([reference("Execution", "app", "old")])), Ownership::Left);
        assert_eq!(of(json!([reference("Execution", "other", "old")])), Ownership::Foreign);
        assert_eq!(of(json!([reference("Installation", "app", "old")])), Ownership::Foreign);
        let mut beside = reference("Pod", "p", "7");
        beside["controller"] = json!(false);
        assert_eq!(of(json!([beside])), Ownership::Left, "only controllers count");
    }

    #[test]
    fn other_owners_stay() {
        let reference = |kind: &str, uid: &str, controller: bool| -> OwnerReference {
            serde_json::from_value(
                json!({"apiVersion": "v1", "kind": kind, "name": "n", "uid": uid, "controller": controller}),
            )
            .unwrap()
        };
        let owners = vec![reference("Execution", "old", true), reference("Pod", "p", false)];
        let mut metadata = ObjectMeta { owner_references: Some(owners), ..ObjectMeta::default() };
        take_over(&mut metadata, Some(&[reference("Execution", "new", true)]));
        let uids: Vec<_> = metadata.owner_references.unwrap().into_iter().map(|owner| owner.uid).collect();
        assert_eq!(uids, ["p", "new"]);
    }
}
