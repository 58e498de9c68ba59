//! Exports whose names belong to existing objects (`installations.md` 4.3).

use groundwork_api::metadata::{annotation, label};
use groundwork_api::{ObjectMeta, OwnerReference};

use crate::names::SOURCE_TYPE_EXPORT;
use crate::names::is_installation;

/// Reason to reject an export: an object of its name belongs to another owner.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Taken {
    #[error(
        "the {kind} {name} cannot be exported: it conflicts with an existing one that the installation {owner} owns; \
         export under another name, or stop that installation from exporting it"
    )]
    ByInstallation { kind: &'static str, name: String, owner: String },
    #[error(
        "the {kind} {name} cannot be exported: an object of this name exists that this installation did not export, \
         and that would be deleted with the installation; export under another name, or set the annotation {}: \
         \"true\" on the object to hand it over",
        annotation::ADOPT
    )]
    ByHand { kind: &'static str, name: String },
}

/// Succeeds if `wanted`, an export, may replace the existing object `found` of the same name.
///
/// # Errors
///
/// The owner of the existing object.
pub fn may_publish(kind: &'static str, found: &ObjectMeta, wanted: &ObjectMeta) -> Result<(), Taken> {
    let ours = wanted.owner_references.as_deref().unwrap_or_default();
    let name = || wanted.name.clone().unwrap_or_default();
    // An owner with our name but another UID is gone: a namespace has one Installation of a name.
    let is_ours = |owner: &OwnerReference| {
        ours.iter().any(|own| own.uid == owner.uid || is_installation(owner) && own.name == owner.name)
    };
    let owners = found.owner_references.as_deref().unwrap_or_default();
    let other = owners.iter().find(|owner| is_installation(owner) && !is_ours(owner));
    if let Some(other) = other {
        return Err(Taken::ByInstallation { kind, name: name(), owner: other.name.clone() });
    }
    let is_adopted = found.annotations.as_ref().and_then(|all| all.get(annotation::ADOPT));
    let is_adopted = is_adopted.is_some_and(|value| value == "true");
    if owners.iter().any(is_ours) || is_adopted || is_former_export(found, wanted) {
        return Ok(());
    }
    Err(Taken::ByHand { kind, name: name() })
}

/// Reports whether an object is an export of the same Installation that has lost its owner, as in a
/// copy of a namespace.
///
/// Landscaper sets the same labels, but abbreviates the scope differently (`installations.md` 4.2).
fn is_former_export(found: &ObjectMeta, wanted: &ObjectMeta) -> bool {
    let of = |metadata: &'_ ObjectMeta, name: &str| metadata.labels.as_ref()?.get(name).cloned();
    let Some(source) = of(found, label::DATA_SOURCE) else { return false };
    let short = wanted.owner_references.iter().flatten().map(|owner| format!("Inst.{}", owner.name));
    let is_source = of(wanted, label::DATA_SOURCE).into_iter().chain(short).any(|own| own == source);
    is_source && of(found, label::DATA_SOURCE_TYPE).is_some_and(|type_| type_ == SOURCE_TYPE_EXPORT)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const API: &str = "landscaper.gardener.cloud/v1alpha1";

    fn owner(kind: &str, name: &str, uid: &str) -> Value {
        json!({"apiVersion": API, "kind": kind, "name": name, "uid": uid})
    }

    fn labels(source: &str, type_: &str) -> Value {
        json!({"data.landscaper.gardener.cloud/source": source, "data.landscaper.gardener.cloud/sourceType": type_})
    }

    /// Returns the error for an object when `shop`, with the UID `1`, exports under its name.
    fn told(found: &Value) -> String {
        let mut wanted = json!({"name": "garden", "namespace": "prod", "ownerReferences": [owner("Installation", "shop", "1")]});
        wanted["labels"] = labels("Installation.prod.shop", "export");
        let metadata = |value: &Value| serde_json::from_value::<ObjectMeta>(value.clone()).unwrap();
        match may_publish("target", &metadata(found), &metadata(&wanted)) {
            Ok(()) => String::new(),
            Err(taken) => taken.to_string(),
        }
    }

    #[test]
    fn exports_of_former_jobs_are_updated() {
        let own = owner("Installation", "shop", "1");
        assert_eq!(told(&json!({"ownerReferences": [own.clone()]})), "");
        assert_eq!(told(&json!({"ownerReferences": [owner("Pod", "p", "7"), own]})), "");
        // The owner of the same name is gone, and the garbage collector has not handled the object
        // yet.
        assert_eq!(told(&json!({"ownerReferences": [owner("Installation", "shop", "0")]})), "");
    }

    /// Objects in a copy of a namespace have no owners. Landscaper writes the second form of the
    /// scope.
    #[test]
    fn exports_that_have_lost_their_owner_are_known_by_their_labels() {
        for source in ["Installation.prod.shop", "Inst.shop"] {
            assert_eq!(told(&json!({"labels": labels(source, "export")})), "", "{source}");
        }
        for (source, type_) in
            [("Installation.prod.shop", "import"), ("Inst.other", "export"), ("Exec.shop", "export")]
        {
            assert!(
                told(&json!({"labels": labels(source, type_)}))
                    .contains("that this installation did not export"),
                "{source}"
            );
        }
    }

    #[test]
    fn what_somebody_else_has_made_is_refused_with_its_name() {
        let by_hand = "the target garden cannot be exported: an object of this name exists that this installation did \
                       not export, and that would be deleted with the installation; export under another name, or set \
                       the annotation landscaper.gardener.cloud/adopt: \"true\" on the object to hand it over";
        assert_eq!(told(&json!({})), by_hand);
        assert_eq!(told(&json!({"ownerReferences": [owner("Pod", "shop", "7")]})), by_hand);
        assert_eq!(told(&json!({"labels": {"landscaper.gardener.cloud/targetsync": "ok"}})), by_hand);
        let other = json!({"ownerReferences": [owner("Installation", "shop", "1"), owner("Installation", "mall", "2")]});
        let taken = "the target garden cannot be exported: it conflicts with an existing one that the installation \
                     mall owns; export under another name, or stop that installation from exporting it";
        assert_eq!(told(&other), taken);
    }

    #[test]
    fn only_the_annotation_of_the_object_hands_it_over() {
        let adopt = |value: &str| json!({"annotations": {"landscaper.gardener.cloud/adopt": value}});
        assert_eq!(told(&adopt("true")), "");
        assert!(told(&adopt("yes")).contains("that this installation did not export"));
        let mut other = adopt("true");
        other["ownerReferences"] = json!([owner("Installation", "mall", "2")]);
        assert!(told(&other).contains("the installation mall owns"), "nobody gives away what is another's");
    }
}
