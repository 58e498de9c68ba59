//! Tags that the spec of a variant or a set follows (`packagevariants.md` 12.1).

pub use groundwork_api::metadata::annotation::FOLLOW_TAG;
use groundwork_api::{IntOrString, PackageRevision, Upstream};

use crate::package::{Repositories, UNNUMBERED, number};
use crate::revision::{Revision, fixed_revision, revision, written};
use crate::upstream::{Unresolved, find};

/// Move of the spec to the revision that a tag points to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Follow {
    /// Revision in the spec.
    pub from: String,
    /// Revision to write.
    pub to: String,
}

/// Reason why a tag is not followed. The spec stays unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FollowError {
    #[error("annotation {FOLLOW_TAG} has no effect: {0:?} is not a valid tag name")]
    NoTag(String),
    /// The spec names a tag, a branch or a workspace instead of a number, or it names no package.
    #[error("annotation {FOLLOW_TAG} has no effect: spec.upstream needs a package and a revision number")]
    NotFixed,
    #[error(transparent)]
    Unresolved(#[from] Unresolved),
    #[error("tag {tag:?} of package {package:?} points to a revision without a number")]
    Unnumbered { package: String, tag: String },
}

/// Returns the move that a tag asks for; `None` if the spec has that revision already.
///
/// # Errors
/// See [`FollowError`].
pub fn follow(
    tag: &str,
    upstream: Option<&Upstream>,
    revisions: &[PackageRevision],
) -> Result<Option<Follow>, FollowError> {
    let workspace = |upstream: &Upstream| upstream.workspace_name.clone().unwrap_or_default();
    let fixed = upstream.and_then(|upstream| {
        Some((upstream, fixed_revision(upstream.revision.as_ref(), &workspace(upstream))?))
    });
    let (upstream, current) = fixed.ok_or(FollowError::NotFixed)?;
    let name = IntOrString::String(tag.to_owned());
    if !matches!(revision(&name), Some(Revision::Tag(_) | Revision::Latest)) {
        return Err(FollowError::NoTag(tag.to_owned()));
    }
    let tagged = Upstream { revision: Some(name), ..upstream.clone() };
    let found = number(find(&tagged, revisions, Repositories::default())?.revision);
    if found <= 0 || found == UNNUMBERED {
        let package = upstream.package.clone().unwrap_or_default();
        return Err(FollowError::Unnumbered { package, tag: tag.to_owned() });
    }
    let follow = Follow { from: written(upstream), to: format!("v{found}") };
    Ok((found != current).then_some(follow))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn revisions() -> Vec<PackageRevision> {
        let revision = |workspace: &str, number: i64, lifecycle: &str, commit: &str| {
            json!({
                "metadata": {"name": format!("r.p.{workspace}")},
                "spec": {"repository": "r", "packageName": "p", "workspaceName": workspace, "revision": number, "lifecycle": lifecycle},
                "status": {"selfLock": {"type": "git", "git": {"repo": "g", "directory": "p", "commit": commit}}},
            })
        };
        let all = [
            revision("w1", 1, "Published", "a"),
            revision("w2", 2, "Published", "b"),
            revision("stable", -1, "Published", "b"),
            revision("odd", -1, "Published", "x"),
        ];
        serde_json::from_value(Value::from(all.to_vec())).unwrap()
    }

    fn followed(tag: &str, upstream: Value) -> Result<Option<(String, String)>, String> {
        let upstream: Upstream = serde_json::from_value(upstream).unwrap();
        let follow = follow(tag, Some(&upstream), &revisions());
        follow.map(|follow| follow.map(|Follow { from, to }| (from, to))).map_err(|error| error.to_string())
    }

    /// V-177: the number that a tag resolves to replaces the number in the spec.
    #[test]
    fn tags_lead_to_numbers() {
        let at = |revision: Value| json!({"repo": "r", "package": "p", "revision": revision});
        let moved = |from: &str| Ok(Some((from.to_owned(), "v2".to_owned())));
        assert_eq!(followed("stable", at(json!("v1"))), moved("v1"));
        assert_eq!(followed("stable", at(json!(1))), moved("1"));
        assert_eq!(followed("latest", at(json!("v1"))), moved("v1"));
        assert_eq!(followed("stable", at(json!("v2"))), Ok(None));
        let ignored = "annotation groundwork/follow-tag has no effect: ";
        for (tag, upstream, expected) in [
            ("odd", at(json!("v1")), "tag \"odd\" of package \"p\" points to a revision without a number"),
            ("gone", at(json!("v1")), "floating tag \"gone\" not found for package \"p\" in repo \"r\""),
        ] {
            assert_eq!(followed(tag, upstream).unwrap_err(), expected);
        }
        for (tag, upstream) in [
            ("v2", at(json!("v1"))),
            ("", at(json!("v1"))),
            ("stable", at(json!("stable"))),
            ("stable", json!({"repo": "r", "package": "p", "workspaceName": "w1"})),
            ("stable", json!({"packageRevisionSet": "base"})),
        ] {
            let error = followed(tag, upstream.clone()).unwrap_err();
            assert!(error.starts_with(ignored), "{tag} {upstream}: {error}");
        }
        assert_eq!(follow("stable", None, &[]), Err(FollowError::NotFixed));
    }
}
