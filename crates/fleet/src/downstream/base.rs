//! Base of a merge: the content that a revision was made from (`packagevariants.md` 2.8).

use groundwork_api::{PackageRevision, Repository, ResourceExt as _};

use super::freshness::upstream_lock;
use crate::error::VariantError;
use crate::git::{is_of_number, is_of_package, normalized};
use crate::package::{Package, commit, given, is_published};

/// First of the three inputs of a merge.
#[derive(Clone, Debug, PartialEq)]
pub enum Base<'a> {
    /// A revision with the content.
    Revision(&'a PackageRevision),
    /// A commit. No revision has the content any more, but git may.
    Commit {
        /// Name of the Repository with that address, if there is one.
        repository: Option<&'a str>,
        url: &'a str,
        directory: &'a str,
        commit: &'a str,
    },
    /// The base is unknown.
    Missing(VariantError),
}

/// Finds the upstream content that a revision was made from, even if the variant has another
/// upstream by now. `revisions` and `repositories` are all of the namespace.
///
/// Refuse a revision that matches only the number of the lock if its commit is known to differ: its
/// tag was moved, and a merge would take the new content for the old.
pub fn base<'a>(
    downstream: &'a PackageRevision,
    revisions: &'a [PackageRevision],
    repositories: &'a [Repository],
) -> Base<'a> {
    let Some(lock) = upstream_lock(downstream) else { return Base::Missing(missing("", downstream)) };
    let url = given(lock.repo.as_ref());
    let is_address = |found: &&Repository| {
        let git = found.spec.git.as_ref();
        url.is_some_and(|url| git.is_some_and(|git| normalized(&git.repo) == normalized(url)))
    };
    let of_package: Vec<&PackageRevision> =
        revisions.iter().filter(|found| is_of_package(lock, found)).collect();
    let locked = given(lock.commit.as_ref());
    let by_commit = of_package.iter().filter(|found| locked.is_some() && commit(found) == locked);
    // Prefer a published revision: the tag of another one may be moved between now and the merge.
    if let Some(found) = by_commit.max_by_key(|found| (is_published(found), is_of_number(lock, found))) {
        return Base::Revision(found);
    }
    let is_registered = |found: &PackageRevision| {
        let name = Package::of(found).repository;
        repositories.iter().filter(is_address).any(|repository| repository.name_any() == name)
    };
    let by_number = of_package.iter().find(|found| {
        let is_undecided = locked.is_none() || commit(found).is_none();
        is_undecided && is_published(found) && is_of_number(lock, found) && is_registered(found)
    });
    if let Some(found) = by_number {
        return Base::Revision(found);
    }
    match (url, locked) {
        (Some(url), Some(commit)) => Base::Commit {
            repository: repositories.iter().find(is_address).and_then(|found| found.metadata.name.as_deref()),
            url,
            directory: given(lock.directory.as_ref()).unwrap_or_default().trim_matches('/'),
            commit,
        },
        _ => Base::Missing(missing(lock.reference.as_deref().unwrap_or_default(), downstream)),
    }
}

fn missing(reference: &str, downstream: &PackageRevision) -> VariantError {
    VariantError::UpgradeBaseMissing { reference: reference.to_owned(), downstream: downstream.name_any() }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::package::tests::{revision, with_status};

    const URL: &str = "https://git.example/catalog.git";

    fn of(place: &str, number: i64, directory: &str, commit: &str) -> PackageRevision {
        let lifecycle = if number == 0 { "Draft" } else { "Published" };
        let lock = json!({"repo": URL, "directory": directory, "commit": commit});
        with_status(revision(place, number, lifecycle), &json!({"selfLock": {"git": lock}}))
    }

    fn found(lock: &Value, repositories: &Value) -> String {
        let downstream = with_status(
            revision("edge/dns:packagevariant-1", 1, "Published"),
            &json!({"upstreamLock": {"git": lock}}),
        );
        let revisions = [
            of("catalog/net/coredns:main", -1, "net/coredns", "c4"),
            of("catalog/net/coredns:stable", -1, "net/coredns", "c4"),
            of("catalog/other:w", 4, "other", "c4"),
            of("catalog/net/coredns:w4", 4, "net/coredns", "c4"),
            of("catalog/net/coredns:w5", 5, "net/coredns", "c5b"),
            revision("catalog/net/coredns:w6", 6, "Published"),
            of("catalog/net/coredns:next", 0, "net/coredns", "d1"),
            of("catalog/net/coredns:v7.0", -1, "net/coredns", "c7"),
            of("catalog/net/dns:main", -1, "net/dns", "c8"),
        ];
        let repositories: Vec<Repository> = serde_json::from_value(repositories.clone()).unwrap();
        match base(&downstream, &revisions, &repositories) {
            Base::Revision(found) => found.name_any(),
            Base::Commit { repository, directory, commit, .. } => {
                format!("{}:{commit}:{directory}", repository.unwrap_or_default())
            }
            Base::Missing(error) => error.to_string(),
        }
    }

    /// The ways to find the base, in their order.
    #[test]
    fn every_way() {
        let catalog = json!([{"metadata": {"name": "catalog"}, "spec": {"git": {"repo": "https://GIT.example/catalog"}}}]);
        let lock = |reference: &str, commit: &str| json!({"repo": URL, "directory": "/net/coredns", "ref": reference, "commit": commit});
        let head =
            |commit: &str| json!({"repo": URL, "directory": "net/dns", "ref": "main", "commit": commit});
        for (what, lock, expected) in [
            ("by commit, of the package", lock("net/coredns/v4", "c4"), "catalog.net.coredns.w4"),
            ("by commit, a Draft", lock("drafts/net/coredns/next", "d1"), "catalog.net.coredns.next"),
            ("by commit, a tag", lock("net/coredns/v7.0", "c7"), "catalog.net.coredns.v7.0"),
            ("by commit, the head of a branch", head("c8"), "catalog.net.dns.main"),
            ("the head of a branch that has moved", head("c7b"), "catalog:c7b:net/dns"),
            ("tagged anew by force", lock("net/coredns/v5", "c5"), "catalog:c5:net/coredns"),
            ("by number, its commit unknown", lock("net/coredns/v6", "c6"), "catalog.net.coredns.w6"),
            ("by number, no commit in the lock", lock("net/coredns/v5", ""), "catalog.net.coredns.w5"),
            ("deleted", lock("net/coredns/v3", "c3"), "catalog:c3:net/coredns"),
            (
                "nothing",
                lock("net/coredns/v3", ""),
                "cannot find the upstream revision \"net/coredns/v3\" that \"edge.dns.packagevariant-1\" was based on",
            ),
        ] {
            assert_eq!(found(&lock, &catalog), expected, "{what}");
        }
        let elsewhere = json!({"repo": "https://x.example/y", "directory": "d", "ref": "v1", "commit": "e1"});
        assert_eq!(found(&elsewhere, &catalog), ":e1:d", "a repository that is not registered");
        let unregistered = lock("net/coredns/v6", "c6");
        assert_eq!(found(&unregistered, &json!([])), ":c6:net/coredns", "numbers need a Repository");
    }
}
