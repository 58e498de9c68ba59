//! Which changes of a revision are allowed, and to whom (`packagevariants.md` 2.13, 6.2, 6.5, 6.14).

use groundwork_api::{Lifecycle, PackageRevision, ResourceExt as _};

/// How somebody asks for a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Actor {
    /// By an update of the object.
    Anybody,
    /// With the permission for `packagerevisions/approval`.
    Approver,
}

/// What a change of the lifecycle does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transition {
    /// It is there already.
    None,
    Propose,
    Reject,
    Approve,
    ProposeDeletion,
    RejectDeletion,
}

/// What a deletion does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// Of a Draft or a proposed revision: its branch goes.
    Branch,
    /// Of a revision whose deletion was proposed: its tag and the marker go, the content of the branch stays.
    Tag,
    /// Of the head of a branch: a commit removes the package.
    Content,
}

/// Why a change is refused. The texts are those of the original (6.5).
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

/// What becomes of a revision whose lifecycle somebody wants to change. Gates are asked for by [`approvable`].
///
/// # Errors
/// The change is none that there is, or is not for this actor.
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

/// What becomes of a revision that somebody wants to delete; `is_placeholder` says that it is the head of its branch.
///
/// # Errors
/// It is published, or the deletion is not for this actor.
pub fn deletion(lifecycle: Lifecycle, is_placeholder: bool, actor: Actor) -> Result<Deletion, Refusal> {
    match lifecycle {
        _ if is_placeholder => Ok(Deletion::Content),
        Lifecycle::Draft | Lifecycle::Proposed => Ok(Deletion::Branch),
        Lifecycle::Published => Err(Refusal::DeletionNotProposed),
        Lifecycle::DeletionProposed if actor == Actor::Approver => Ok(Deletion::Tag),
        Lifecycle::DeletionProposed => Err(Refusal::DeletionNotAllowed),
    }
}

/// Whether a revision may begin its life so.
///
/// # Errors
/// It would not be a Draft.
pub fn check_new_lifecycle(lifecycle: Option<Lifecycle>) -> Result<(), Refusal> {
    if lifecycle == Some(Lifecycle::Draft) { Ok(()) } else { Err(Refusal::CreatedAs) }
}

/// Whether labels, annotations and gates of a package may be changed through its revision (6.14).
///
/// # Errors
/// The revision is no Draft.
pub fn check_spec_change(lifecycle: Lifecycle) -> Result<(), Refusal> {
    if lifecycle == Lifecycle::Draft { Ok(()) } else { Err(Refusal::SpecIsFixed) }
}

/// Whether the files of a revision may be changed (1.6).
///
/// # Errors
/// The revision is no Draft.
pub fn check_content_change(lifecycle: Lifecycle) -> Result<(), Refusal> {
    if lifecycle == Lifecycle::Draft { Ok(()) } else { Err(Refusal::ContentIsFixed(lifecycle)) }
}

/// Whether a write is based on what is there (6.2).
///
/// # Errors
/// It names no version, or another one.
pub fn check_version(expected: Option<&str>, actual: &str) -> Result<(), Refusal> {
    match expected.filter(|version| !version.is_empty()) {
        None => Err(Refusal::NoVersion),
        Some(expected) if expected == actual => Ok(()),
        Some(_) => Err(Refusal::Conflict),
    }
}

/// The gates of a revision that are shut, each once (2.13): those whose condition is missing or anything but `True`.
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

/// Whether the gates of a revision let it be published. They are asked for in repositories for deployments only.
///
/// # Errors
/// Gates are shut.
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
