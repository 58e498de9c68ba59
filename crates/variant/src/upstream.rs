//! Which package revision an upstream stands for (`packagevariants.md` 2.5, 5.2, 5.3).

use std::cmp::Reverse;

use groundwork_api::{Lifecycle, PackageRevision, ResourceExt as _, Upstream};

use crate::revision::{Revision, revision, written};

/// Names of the tags that point at a published revision, separated by commas.
const FLOATING_TAGS: &str = "groundwork/floating-tags";
/// Number of what is not numbered: the head of a branch, tags.
const UNNUMBERED: i64 = -1;

/// Why an upstream stands for nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unresolved {
    /// No revision of that number or workspace.
    #[error("could not find upstream package revision '{package}/{revision}' in repo '{repo}'")]
    NotFound { repo: String, package: String, revision: String },
    /// No tag of that name.
    #[error("floating tag {tag:?} not found for package {package:?} in repo {repo:?}")]
    Tag { repo: String, package: String, tag: String },
}

/// The package revision that an upstream stands for, among those of its namespace.
///
/// # Errors
/// There is none.
pub fn resolve<'a>(
    upstream: &Upstream,
    revisions: &'a [PackageRevision],
) -> Result<&'a PackageRevision, Unresolved> {
    let (repo, package) = (upstream.repo.as_deref(), upstream.package.as_deref());
    let of_package: Vec<&PackageRevision> = revisions
        .iter()
        .filter(|found| {
            found.spec.repository.as_deref() == repo && found.spec.package_name.as_deref() == package
        })
        .collect();
    let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
    let not_found =
        || Unresolved::NotFound { repo: text(repo), package: text(package), revision: written(upstream) };
    if let Some(workspace) = upstream.workspace_name.as_deref().filter(|name| !name.is_empty()) {
        return in_workspace(&of_package, workspace).ok_or_else(not_found);
    }
    match upstream.revision.as_ref().and_then(revision) {
        None => Err(not_found()),
        Some(Revision::Number(number)) => published(&of_package)
            .into_iter()
            .find(|found| found.spec.revision == Some(number))
            .ok_or_else(not_found),
        Some(Revision::Latest) => published(&of_package).into_iter().next().ok_or_else(not_found),
        Some(Revision::Head) => unnumbered(&of_package, "main").ok_or_else(not_found),
        Some(Revision::Tag(tag)) => tagged(&of_package, &tag).ok_or_else(|| Unresolved::Tag {
            repo: text(repo),
            package: text(package),
            tag,
        }),
    }
}

fn in_workspace<'a>(revisions: &[&'a PackageRevision], workspace: &str) -> Option<&'a PackageRevision> {
    revisions.iter().find(|found| found.spec.workspace_name.as_deref() == Some(workspace)).copied()
}

fn unnumbered<'a>(revisions: &[&'a PackageRevision], workspace: &str) -> Option<&'a PackageRevision> {
    in_workspace(revisions, workspace).filter(|found| found.spec.revision == Some(UNNUMBERED))
}

/// Published revisions, the highest first. One whose deletion is proposed is still published.
fn published<'a>(revisions: &[&'a PackageRevision]) -> Vec<&'a PackageRevision> {
    let is_published = |found: &&&PackageRevision| {
        let lifecycle = found.spec.lifecycle();
        matches!(lifecycle, Some(Lifecycle::Published | Lifecycle::DeletionProposed))
            && found.spec.revision.is_some_and(|number| number >= 1)
    };
    let mut published: Vec<_> = revisions.iter().filter(is_published).copied().collect();
    published.sort_by_key(|found| Reverse(found.spec.revision));
    published
}

/// A store shows a tag as a revision without a number; where nothing does, an annotation of a published revision may.
fn tagged<'a>(revisions: &[&'a PackageRevision], tag: &str) -> Option<&'a PackageRevision> {
    let published = published(revisions);
    let Some(carrier) = unnumbered(revisions, tag) else {
        return published.into_iter().find(|found| {
            let tags = found.annotations().get(FLOATING_TAGS);
            tags.is_some_and(|tags| tags.split(',').any(|name| name.trim() == tag))
        });
    };
    let commit = commit(carrier);
    let numbered = published.into_iter().find(|found| commit.is_some() && self::commit(found) == commit);
    Some(numbered.unwrap_or(carrier))
}

fn commit(revision: &PackageRevision) -> Option<&str> {
    revision.status.as_ref()?.self_lock.as_ref()?.git.as_ref()?.commit.as_deref()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(name: &str, number: i64, workspace: &str, lifecycle: &str, commit: &str) -> PackageRevision {
        serde_json::from_value(json!({
            "metadata": {"name": name},
            "spec": {"packageName": "p", "repository": "r", "revision": number, "workspaceName": workspace,
                "lifecycle": lifecycle},
            "status": {"selfLock": {"git": {"commit": commit}}},
        }))
        .unwrap()
    }

    fn check(upstream: &Value, expected: Result<&str, &str>) {
        let mut revisions = vec![
            of("one", 1, "w1", "Published", "c1"),
            of("three", 3, "w3", "DeletionProposed", "c3"),
            of("two", 2, "w2", "Published", "c2"),
            of("draft", 0, "w4", "Draft", "c4"),
            of("head", -1, "main", "Published", "c9"),
            of("stable", -1, "stable", "Published", "c2"),
            of("hand", -1, "v4.0.0", "Published", "c8"),
        ];
        revisions[0].annotations_mut().insert(FLOATING_TAGS.to_owned(), "beta, alpha".to_owned());
        let mut read: Upstream = serde_json::from_value(upstream.clone()).unwrap();
        read.repo.get_or_insert("r".to_owned());
        read.package = Some("p".to_owned());
        let found = resolve(&read, &revisions)
            .map(groundwork_api::ResourceExt::name_any)
            .map_err(|error| error.to_string());
        assert_eq!(found.as_deref().map_err(String::as_str), expected, "{upstream}");
    }

    #[test]
    fn numbers_workspaces_and_tags() {
        check(&json!({"revision": "v2"}), Ok("two"));
        check(&json!({"revision": 3}), Ok("three"));
        check(&json!({"revision": "latest"}), Ok("three"));
        check(&json!({"revision": "main"}), Ok("head"));
        check(&json!({"revision": 9, "workspaceName": "w4"}), Ok("draft"));
        check(&json!({"revision": "stable"}), Ok("two"));
        check(&json!({"revision": "v4.0.0"}), Ok("hand"));
        check(&json!({"revision": "alpha"}), Ok("one"));
        let missing = "could not find upstream package revision 'p/v4' in repo 'r'";
        check(&json!({"revision": "v4"}), Err(missing));
        check(
            &json!({"workspaceName": "w4", "repo": "other"}),
            Err("could not find upstream package revision 'p/w4' in repo 'other'"),
        );
        check(
            &json!({"revision": "gamma"}),
            Err("floating tag \"gamma\" not found for package \"p\" in repo \"r\""),
        );
    }
}
