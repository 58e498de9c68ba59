//! Rules for changes of a revision, and the rights that they need (`packagevariants.md` 2.13, 6.2,
//! 6.5, 6.14).

use groundwork_api::{Lifecycle, PackageRevision, ResourceExt as _};

/// Right with which a change is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Actor {
    /// Right to update the object.
    Anybody,
    /// Right to update `packagerevisions/approval`.
    Approver,
}

/// Effect of a change of the lifecycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transition {
    /// The revision has this lifecycle already.
    None,
    Propose,
    Reject,
    Approve,
    ProposeDeletion,
    RejectDeletion,
}

/// Effect of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// Deletes the branch of a Draft or Proposed revision.
    Branch,
    /// Deletes the tag and the deletion marker of a revision whose deletion was proposed; the
    /// content of the branch stays.
    Tag,
    /// Removes the package from the head of a branch by a commit.
    Content,
}

/// Reason why a change is refused. The texts are those of Porch (`packagevariants.md` 6.5).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("value can be only created as Draft")]
    CreatedAs,
    #[error("package with {} lifecycle value can only be updated to {to}", .from.as_str())]
    Lifecycle { from: Lifecycle, to: &'static str },
    #[error(
        "cannot approve package with {} lifecycle value; only Proposed packages can be approved", .0.as_str()
    )]
    NotProposed(Lifecycle),
    #[error("approval needs update on packagerevisions/approval")]
    ApprovalNotAllowed,
    #[error("cannot approve {name:?}: readiness gates not met: {}", .gates.join(", "))]
    GatesNotMet { name: String, gates: Vec<String> },
    #[error(
        "published PackageRevisions must be proposed for deletion by setting spec.lifecycle to 'DeletionProposed' prior to \
         deletion"
    )]
    DeletionNotProposed,
    #[error("deletion needs update on packagerevisions/approval")]
    DeletionNotAllowed,
    #[error("spec can only update package with lifecycle value one of Draft,Proposed")]
    SpecIsFixed,
    #[error("cannot update a package revision with lifecycle value {:?}; package must be Draft", .0.as_str())]
    ContentIsFixed(Lifecycle),
    #[error("resourceVersion must be specified for an update")]
    NoVersion,
    #[error("the object has been modified; please apply your changes to the latest version and try again")]
    Conflict,
}

/// Returns the effect of a change of the lifecycle. The caller checks readiness gates with
/// [`approvable`].
///
/// # Errors
/// The change does not exist, or the actor may not make it.
pub fn transition(from: Lifecycle, to: Lifecycle, actor: Actor) -> Result<Transition, Refusal> {
    use Lifecycle::{DeletionProposed, Draft, Proposed, Published};
    let only = |to| Err(Refusal::Lifecycle { from, to });
    match (from, to) {
        (from, to) if from == to => Ok(Transition::None),
        (Draft, Proposed) => Ok(Transition::Propose),
        (Proposed, Draft) => Ok(Transition::Reject),
        (Proposed, Published) if actor == Actor::Approver => Ok(Transition::Approve),
        (Published, DeletionProposed) => Ok(Transition::ProposeDeletion),
        (DeletionProposed, Published) => Ok(Transition::RejectDeletion),
        (Proposed, Published) => Err(Refusal::ApprovalNotAllowed),
        (Draft, Published) if actor == Actor::Approver => Err(Refusal::NotProposed(from)),
        (Draft, _) => only("'Proposed'"),
        (Proposed, _) => only("'Draft' or 'Published'"),
        (Published, _) => only("'ProposeDeletion'"),
        (DeletionProposed, _) => only("'Published'"),
    }
}

/// Returns the effect of a deletion; `is_placeholder` is true for the head of a branch.
///
/// # Errors
/// The revision is published, or the actor may not delete it.
pub fn deletion(lifecycle: Lifecycle, is_placeholder: bool, actor: Actor) -> Result<Deletion, Refusal> {
    match lifecycle {
        _ if is_placeholder => Ok(Deletion::Content),
        Lifecycle::Draft | Lifecycle::Proposed => Ok(Deletion::Branch),
        Lifecycle::Published => Err(Refusal::DeletionNotProposed),
        Lifecycle::DeletionProposed if actor == Actor::Approver => Ok(Deletion::Tag),
        Lifecycle::DeletionProposed => Err(Refusal::DeletionNotAllowed),
    }
}

/// Checks the lifecycle of a new revision.
///
/// # Errors
/// The lifecycle is not Draft.
pub fn check_new_lifecycle(lifecycle: Option<Lifecycle>) -> Result<(), Refusal> {
    if lifecycle == Some(Lifecycle::Draft) { Ok(()) } else { Err(Refusal::CreatedAs) }
}

/// Checks whether labels, annotations and gates of a package may be changed through its revision
/// (`packagevariants.md` 6.14).
///
/// # Errors
/// The revision is not a Draft.
pub fn check_spec_change(lifecycle: Lifecycle) -> Result<(), Refusal> {
    if lifecycle == Lifecycle::Draft { Ok(()) } else { Err(Refusal::SpecIsFixed) }
}

/// Checks whether the files of a revision may be changed (`packagevariants.md` 1.6).
///
/// # Errors
/// The revision is not a Draft.
pub fn check_content_change(lifecycle: Lifecycle) -> Result<(), Refusal> {
    if lifecycle == Lifecycle::Draft { Ok(()) } else { Err(Refusal::ContentIsFixed(lifecycle)) }
}

/// Checks that a write is based on the current version (`packagevariants.md` 6.2).
///
/// # Errors
/// The write names no version, or another one.
pub fn check_version(expected: Option<&str>, actual: &str) -> Result<(), Refusal> {
    match expected.filter(|version| !version.is_empty()) {
        None => Err(Refusal::NoVersion),
        Some(expected) if expected == actual => Ok(()),
        Some(_) => Err(Refusal::Conflict),
    }
}

/// Returns the readiness gates whose condition is missing or not `True`, each once
/// (`packagevariants.md` 2.13).
pub fn unmet_gates(revision: &PackageRevision) -> Vec<&str> {
    let conditions = revision.status.as_ref().map(|status| &*status.conditions).unwrap_or_default();
    let mut unmet: Vec<&str> = Vec::new();
    for gate in revision.spec.readiness_gates.iter().filter_map(|gate| gate.condition_type.as_deref()) {
        let mut found = conditions.iter().filter(|condition| condition.type_ == gate).peekable();
        let is_met = found.peek().is_some() && found.all(|condition| condition.status == "True");
        if !is_met && !unmet.contains(&gate) {
            unmet.push(gate);
        }
    }
    unmet
}

/// Checks that the readiness gates allow a revision to be published. Callers only check this in
/// deployment repositories.
///
/// # Errors
/// A gate is not met.
pub fn approvable(revision: &PackageRevision) -> Result<(), Refusal> {
    let is_deployed = revision.status.as_ref().and_then(|status| status.deployment) == Some(true);
    let gates = unmet_gates(revision);
    if !is_deployed || gates.is_empty() {
        return Ok(());
    }
    let gates = gates.into_iter().map(str::to_owned).collect();
    Err(Refusal::GatesNotMet { name: revision.name_any(), gates })
}

#[cfg(test)]
mod tests {
    use Actor::{Anybody, Approver};
    use Lifecycle::{DeletionProposed, Draft, Proposed, Published};
    use serde_json::{Value, json};

    use super::*;
    use crate::package::tests::{revision, with_status};

    const ONLY_PROPOSED: &str = "package with Draft lifecycle value can only be updated to 'Proposed'";
    const ONLY_BACK: &str =
        "package with Proposed lifecycle value can only be updated to 'Draft' or 'Published'";
    const ONLY_DELETION: &str =
        "package with Published lifecycle value can only be updated to 'ProposeDeletion'";
    const ONLY_PUBLISHED: &str =
        "package with DeletionProposed lifecycle value can only be updated to 'Published'";
    const NOT_PROPOSED: &str =
        "cannot approve package with Draft lifecycle value; only Proposed packages can be approved";
    const NO_APPROVAL: &str = "approval needs update on packagerevisions/approval";

    /// V-009, V-031: every pair of lifecycles, for both actors.
    #[test]
    fn every_transition() {
        for (from, to, anybody, approver) in [
            (Draft, Draft, Ok(Transition::None), Ok(Transition::None)),
            (Draft, Proposed, Ok(Transition::Propose), Ok(Transition::Propose)),
            (Draft, Published, Err(ONLY_PROPOSED), Err(NOT_PROPOSED)),
            (Draft, DeletionProposed, Err(ONLY_PROPOSED), Err(ONLY_PROPOSED)),
            (Proposed, Draft, Ok(Transition::Reject), Ok(Transition::Reject)),
            (Proposed, Proposed, Ok(Transition::None), Ok(Transition::None)),
            (Proposed, Published, Err(NO_APPROVAL), Ok(Transition::Approve)),
            (Proposed, DeletionProposed, Err(ONLY_BACK), Err(ONLY_BACK)),
            (Published, Draft, Err(ONLY_DELETION), Err(ONLY_DELETION)),
            (Published, Proposed, Err(ONLY_DELETION), Err(ONLY_DELETION)),
            (Published, Published, Ok(Transition::None), Ok(Transition::None)),
            (Published, DeletionProposed, Ok(Transition::ProposeDeletion), Ok(Transition::ProposeDeletion)),
            (DeletionProposed, Draft, Err(ONLY_PUBLISHED), Err(ONLY_PUBLISHED)),
            (DeletionProposed, Proposed, Err(ONLY_PUBLISHED), Err(ONLY_PUBLISHED)),
            (DeletionProposed, Published, Ok(Transition::RejectDeletion), Ok(Transition::RejectDeletion)),
            (DeletionProposed, DeletionProposed, Ok(Transition::None), Ok(Transition::None)),
        ] {
            for (actor, expected) in [(Anybody, anybody), (Approver, approver)] {
                let found = transition(from, to, actor).map_err(|refusal| refusal.to_string());
                assert_eq!(found, expected.map_err(str::to_owned), "{from:?} {to:?} {actor:?}");
            }
        }
    }

    #[test]
    fn deletions() {
        let refused = "published PackageRevisions must be proposed for deletion by setting spec.lifecycle to \
                       'DeletionProposed' prior to deletion";
        let not_allowed = "deletion needs update on packagerevisions/approval";
        for (lifecycle, is_placeholder, actor, expected) in [
            (Draft, false, Anybody, Ok(Deletion::Branch)),
            (Proposed, false, Anybody, Ok(Deletion::Branch)),
            (Published, false, Approver, Err(refused)),
            (DeletionProposed, false, Approver, Ok(Deletion::Tag)),
            (DeletionProposed, false, Anybody, Err(not_allowed)),
            (Published, true, Anybody, Ok(Deletion::Content)),
        ] {
            let found = deletion(lifecycle, is_placeholder, actor).map_err(|refusal| refusal.to_string());
            assert_eq!(found, expected.map_err(str::to_owned), "{lifecycle:?} {is_placeholder} {actor:?}");
        }
    }

    #[test]
    fn other_changes() {
        let text =
            |result: Result<(), Refusal>| result.map_or_else(|refusal| refusal.to_string(), |()| "ok".into());
        assert_eq!(text(check_new_lifecycle(Some(Draft))), "ok");
        assert_eq!(text(check_new_lifecycle(Some(Published))), "value can be only created as Draft");
        assert_eq!(text(check_spec_change(Draft)), "ok");
        assert_eq!(
            text(check_spec_change(Published)),
            "spec can only update package with lifecycle value one of Draft,Proposed"
        );
        assert_eq!(text(check_content_change(Draft)), "ok");
        assert_eq!(
            text(check_content_change(Proposed)),
            "cannot update a package revision with lifecycle value \"Proposed\"; package must be Draft"
        );
        assert_eq!(text(check_version(Some("a"), "a")), "ok");
        assert_eq!(text(check_version(Some(""), "a")), "resourceVersion must be specified for an update");
        assert_eq!(
            text(check_version(Some("b"), "a")),
            "the object has been modified; please apply your changes to the latest version and try again"
        );
    }

    fn gated(gates: &[&str], status: &Value) -> PackageRevision {
        let mut revision = with_status(revision("edge/dns:w", 0, "Proposed"), status);
        let gates = gates.iter().map(|gate| json!({"conditionType": gate})).collect();
        revision.spec.readiness_gates = serde_json::from_value(Value::Array(gates)).unwrap();
        revision
    }

    #[test]
    fn gates_keep_deployments_from_being_published() {
        let conditions = json!([
            {"type": "open", "status": "True"}, {"type": "shut", "status": "False"},
            {"type": "lower", "status": "true"}, {"type": "twice", "status": "True"}, {"type": "twice", "status": "False"},
        ]);
        let gates = ["open", "shut", "missing", "lower", "twice", "shut"];
        let deployed = gated(&gates, &json!({"deployment": true, "conditions": conditions}));
        assert_eq!(unmet_gates(&deployed), ["shut", "missing", "lower", "twice"]);
        assert_eq!(
            approvable(&deployed).unwrap_err().to_string(),
            "cannot approve \"edge.dns.w\": readiness gates not met: shut, missing, lower, twice"
        );
        assert_eq!(approvable(&gated(&gates, &json!({"conditions": conditions}))), Ok(()));
        assert_eq!(
            approvable(&gated(&["open"], &json!({"deployment": true, "conditions": conditions}))),
            Ok(())
        );
        assert_eq!(unmet_gates(&revision("edge/dns:w", 0, "Draft")), [""; 0]);
    }
}
