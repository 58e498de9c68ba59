//! Approval policies: annotations by which drafts are published without a person
//! (`packagevariants.md` 6.11). They are those of Nephio's approval controller.

use std::time::Duration;

use groundwork_api::metadata::annotation::UNFINISHED;
use groundwork_api::{Lifecycle, PackageRevision, ResourceExt as _, Time};

use super::rule::RULE;
use super::{is_published, unmet_gates};

/// Annotation with the policy, one of [`INITIAL`] and [`ALWAYS`].
const POLICY: &str = "approval.nephio.org/policy";
/// Annotation with the time between the creation of a draft and its approval, in Go's notation.
const DELAY: &str = "approval.nephio.org/delay";
/// Policy that publishes the first revision of a package only.
const INITIAL: &str = "initial";
/// Policy that publishes every revision.
const ALWAYS: &str = "always";
/// Name of the policy of a draft that has only a rule.
const BY_RULE: &str = "rule";
/// Condition that renderings write.
const RENDERED: &str = "Rendered";

/// Decision about a revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Approval {
    /// The revision is approved by the policy with this name.
    Approve(&'static str),
    /// The delay is not over; the rest of it.
    Wait(Duration),
    /// There is no policy, or its conditions are not met. An event follows when they change.
    None,
    /// An annotation has an invalid value; the text is for users.
    Invalid(String),
}

/// Reports whether a revision has a policy and is not published. Only then the other revisions of
/// its package need to be read, which may be thousands.
pub fn has_policy(revision: &PackageRevision) -> bool {
    let is_open = matches!(revision.spec.lifecycle(), Some(Lifecycle::Draft | Lifecycle::Proposed));
    is_open && [POLICY, RULE].iter().any(|name| revision.annotations().contains_key(*name))
}

/// Decides about a draft or a proposed revision. `of_package` are all revisions of its package. A
/// revision with a [`super::Rule`] is approved only if the rule approves it too.
pub fn approval(revision: &PackageRevision, of_package: &[PackageRevision], now: &Time) -> Approval {
    let annotation = |name: &str| revision.annotations().get(name).map(String::as_str);
    // Its variant has not saved its changes yet.
    let is_unfinished = annotation(UNFINISHED).is_some();
    if !has_policy(revision) || is_unfinished {
        return Approval::None;
    }
    let policy = match annotation(POLICY) {
        Some(INITIAL) => INITIAL,
        Some(ALWAYS) => ALWAYS,
        None => BY_RULE,
        Some(other) => {
            return Approval::Invalid(format!(
                "annotation {POLICY} is {other:?}: it must be {INITIAL:?} or {ALWAYS:?}"
            ));
        }
    };
    let delay = match annotation(DELAY).map(str::parse::<groundwork_api::Duration>) {
        None => Duration::ZERO,
        Some(Ok(delay)) => delay.to_std().unwrap_or_default(),
        Some(Err(error)) => return Approval::Invalid(format!("annotation {DELAY}: {error}")),
    };
    let is_first = !of_package.iter().any(is_published);
    if policy == INITIAL && !is_first || !unmet_gates(revision).is_empty() || is_broken(revision) {
        return Approval::None;
    }
    let age = revision
        .metadata
        .creation_timestamp
        .as_ref()
        .map_or(0, |created| now.0.as_millisecond().saturating_sub(created.0.as_millisecond()));
    let age = Duration::from_millis(u64::try_from(age).unwrap_or_default());
    match delay.checked_sub(age).filter(|rest| !rest.is_zero()) {
        Some(rest) => Approval::Wait(rest),
        None => Approval::Approve(policy),
    }
}

/// Reports whether the functions of the revision have failed.
fn is_broken(revision: &PackageRevision) -> bool {
    let conditions = revision.status.iter().flat_map(|status| status.conditions.iter());
    conditions.into_iter().any(|condition| condition.type_ == RENDERED && condition.status == "False")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::package::tests::{revision, with_status};

    fn decided(annotations: &Value, lifecycle: &str, status: &Value, published: &[i64]) -> Approval {
        let mut draft = with_status(revision("edge/dns:packagevariant-2", 0, lifecycle), status);
        draft.metadata.annotations = serde_json::from_value(annotations.clone()).unwrap();
        draft.metadata.creation_timestamp = Some(time("2026-01-01T00:00:00Z"));
        draft.spec.readiness_gates = serde_json::from_value(json!([{"conditionType": "checked"}])).unwrap();
        let all: Vec<PackageRevision> = published
            .iter()
            .map(|number| revision(&format!("edge/dns:w{number}"), *number, "Published"))
            .chain([draft.clone()])
            .collect();
        approval(&draft, &all, &time("2026-01-01T00:01:00Z"))
    }

    fn time(text: &str) -> Time {
        serde_json::from_value(json!(text)).unwrap()
    }

    /// V-120: policies, their delay and their conditions.
    #[test]
    fn policies() {
        let met = json!({"conditions": [{"type": "checked", "status": "True"}]});
        let initial = json!({"approval.nephio.org/policy": "initial"});
        let always = json!({"approval.nephio.org/policy": "always"});
        let delayed =
            |delay: &str| json!({"approval.nephio.org/policy": "always", "approval.nephio.org/delay": delay});
        let ruled = json!({RULE: "change.isFirst"});
        for (annotations, lifecycle, status, published, expected) in [
            (&ruled, "Draft", &met, &[1][..], Approval::Approve("rule")),
            (&initial, "Draft", &met, &[][..], Approval::Approve("initial")),
            (&initial, "Proposed", &met, &[], Approval::Approve("initial")),
            (&initial, "Draft", &met, &[1], Approval::None),
            (&initial, "Draft", &met, &[-1], Approval::Approve("initial")),
            (&always, "Draft", &met, &[1], Approval::Approve("always")),
            (&always, "Published", &met, &[], Approval::None),
            (&always, "DeletionProposed", &met, &[], Approval::None),
            (&always, "Draft", &json!({}), &[], Approval::None),
            (&json!({}), "Draft", &met, &[], Approval::None),
            (&delayed("90s"), "Draft", &met, &[], Approval::Wait(Duration::from_secs(30))),
            (&delayed("1m"), "Draft", &met, &[], Approval::Approve("always")),
        ] {
            let found = decided(annotations, lifecycle, status, published);
            assert_eq!(found, expected, "{annotations} {lifecycle} {published:?}");
        }
        let broken = json!({"conditions": [
            {"type": "checked", "status": "True"}, {"type": "Rendered", "status": "False"}]});
        assert_eq!(decided(&always, "Draft", &broken, &[]), Approval::None);
    }

    #[test]
    fn invalid_values() {
        let met = json!({"conditions": [{"type": "checked", "status": "True"}]});
        let manual = json!({"approval.nephio.org/policy": "sometimes"});
        assert_eq!(
            decided(&manual, "Draft", &met, &[]),
            Approval::Invalid(
                "annotation approval.nephio.org/policy is \"sometimes\": it must be \"initial\" or \"always\"".to_owned()
            )
        );
        let late = json!({"approval.nephio.org/policy": "always", "approval.nephio.org/delay": "soon"});
        assert!(
            matches!(decided(&late, "Draft", &met, &[]), Approval::Invalid(text) if text.contains("delay"))
        );
        // A published revision no longer has a use for the annotation.
        assert_eq!(decided(&manual, "Published", &met, &[]), Approval::None);
    }
}
