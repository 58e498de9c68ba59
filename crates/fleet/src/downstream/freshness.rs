//! Check whether a revision is made from the revision that the upstream resolves to now
//! (`packagevariants.md` 2.8).

use groundwork_api::{GitLock, Lifecycle, PackageRevision, ResourceExt as _};

use crate::git::{draft_of, is_of_number, is_of_package, ref_number, same_tree};
use crate::package::{Package, UNNUMBERED, given, number, self_lock, workspace};

/// Relation of a revision to its upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Freshness {
    Current,
    /// The relation is unknown, so the revision stays as it is. Either it has no lock and cannot be
    /// merged, or its upstream is a branch of a Porch server. The text is for users.
    Unknown(String),
    /// The revision needs an upgrade or a downgrade.
    Outdated,
}

/// Returns the upstream lock of a revision.
pub(super) fn upstream_lock(revision: &PackageRevision) -> Option<&GitLock> {
    let lock = revision.status.as_ref()?.upstream_lock.as_ref()?.git.as_ref()?;
    given(lock.reference.as_ref()).map(|_| lock)
}

/// Reports whether the last clone or upgrade of a revision took the content of `upstream`. Deleting
/// `upstream` would then remove the base of the next merge, unless git still has the commit. The
/// head of a branch is never the local side of a merge, so it needs no base.
pub fn derives_from(revision: &PackageRevision, upstream: &PackageRevision) -> bool {
    if revision.spec.revision == Some(-1) {
        return false;
    }
    let Some(lock) = upstream_lock(revision).filter(|lock| is_of_package(lock, upstream)) else {
        return false;
    };
    let own = self_lock(upstream);
    let is_ref = own.is_some_and(|own| given(own.reference.as_ref()) == given(lock.reference.as_ref()));
    is_ref || is_same_commit(lock, own) == Some(true)
}

/// Reports whether a revision was made from any revision of the same package as `upstream`.
pub fn is_made_of(revision: &PackageRevision, upstream: &PackageRevision) -> bool {
    upstream_lock(revision).is_some_and(|lock| is_of_package(lock, upstream))
}

/// Compares a revision with the current upstream of its variant.
pub fn freshness(downstream: &PackageRevision, upstream: &PackageRevision) -> Freshness {
    let Some(lock) = upstream_lock(downstream) else {
        return Freshness::Unknown(format!(
            "downstream {:?} has no upstream lock; upstream changes cannot be applied",
            downstream.name_any()
        ));
    };
    let own = self_lock(upstream);
    let reference = given(lock.reference.as_ref()).unwrap_or_default();
    if is_unseen_head(lock, upstream) {
        return Freshness::Unknown(format!(
            "upstream {:?} is the head of a branch, and the package server does not show whether the package has changed there; \
             name a published revision to follow it",
            upstream.name_any()
        ));
    }
    let is_current = is_of_package(lock, upstream)
        && match draft_of(reference) {
            // An unknown commit does not make a revision outdated: the variant would make a new
            // draft on every reconcile.
            Some(draft) => is_that_draft(draft, upstream) && is_same_commit(lock, own) != Some(false),
            None => is_that_revision(lock, upstream),
        };
    if is_current { Freshness::Current } else { Freshness::Outdated }
}

/// Returns a text for users about a revision that is current although it was made from another tag
/// than the upstream's, because both tags have the same content.
pub fn equal_content(downstream: &PackageRevision, upstream: &PackageRevision) -> Option<String> {
    let made_of = given(upstream_lock(downstream)?.reference.as_ref())?;
    let own = given(self_lock(upstream)?.reference.as_ref())?;
    (made_of != own && draft_of(made_of).is_none() && draft_of(own).is_none()).then(|| {
        format!(
            "{own:?} has the same content as {made_of:?}, of which {:?} was made, so its Kptfile goes on to name {made_of:?}",
            downstream.name_any()
        )
    })
}

/// Reports whether the lock names the head of the upstream's branch at another commit, and the
/// trees cannot be compared. Every package on a branch moves its head, so the commit alone does not
/// show a change of this package.
fn is_unseen_head(lock: &GitLock, upstream: &PackageRevision) -> bool {
    let Some(own) = self_lock(upstream) else { return false };
    number(upstream) == UNNUMBERED
        && lock.reference.as_deref() == Some(workspace(upstream))
        && is_of_package(lock, upstream)
        && is_same_commit(lock, Some(own)) == Some(false)
        && same_tree(lock, own).is_none()
}

/// Reports whether the lock names this draft. A draft that has been proposed since still counts;
/// one that was published does not.
fn is_that_draft(draft: &str, upstream: &PackageRevision) -> bool {
    let is_open = matches!(upstream.spec.lifecycle(), Some(Lifecycle::Draft | Lifecycle::Proposed));
    let own = self_lock(upstream).and_then(|own| own.reference.as_deref()).and_then(draft_of);
    let is_named = || draft == format!("{}/{}", Package::of(upstream).path, workspace(upstream));
    is_open && own.map_or_else(is_named, |own| own == draft)
}

/// Compares commits, and their trees if the commits differ. So a tag that was moved by force is
/// noticed, and a new commit with the same content is ignored.
fn is_that_revision(lock: &GitLock, upstream: &PackageRevision) -> bool {
    let reference = lock.reference.as_deref().unwrap_or_default();
    let own = self_lock(upstream);
    let is_unnumbered = ref_number(reference) == UNNUMBERED || number(upstream) == UNNUMBERED;
    let is_number = is_of_number(lock, upstream);
    if !is_unnumbered && !is_number {
        return false;
    }
    match (is_same_commit(lock, own), own) {
        (Some(false), Some(own)) => same_tree(lock, own) == Some(true),
        (Some(is_same), _) => is_same,
        // Without commits only the names are left, as in Porch.
        (None, Some(own)) if is_unnumbered => own.reference.as_deref() == Some(reference),
        (None, _) => is_number && !is_unnumbered,
    }
}

/// Compares two commits; `None` if one of them is unknown.
fn is_same_commit(lock: &GitLock, own: Option<&GitLock>) -> Option<bool> {
    Some(given(lock.commit.as_ref())? == given(own?.commit.as_ref())?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::package::tests::{revision, with_status};

    const URL: &str = "https://git.example/catalog.git";

    fn lock(reference: &str, commit: &str) -> Value {
        json!({"repo": URL, "directory": "net/coredns", "ref": reference, "commit": commit})
    }

    #[test]
    fn equal_contents_of_two_tags() {
        let upstream = |reference: &str| {
            let lock = json!({"selfLock": {"git": {"ref": reference}}});
            with_status(revision("catalog/net/coredns:v3.0.0", -1, "Published"), &lock)
        };
        let made = downstream(&lock("net/coredns/v2.0.0", "c2"));
        assert_eq!(equal_content(&made, &upstream("net/coredns/v2.0.0")), None);
        assert_eq!(equal_content(&made, &upstream("drafts/net/coredns/w")), None);
        assert_eq!(
            equal_content(&made, &upstream("net/coredns/v3.0.0")).as_deref(),
            Some(
                "\"net/coredns/v3.0.0\" has the same content as \"net/coredns/v2.0.0\", of which \
                 \"edge.dns.packagevariant-1\" was made, so its Kptfile goes on to name \"net/coredns/v2.0.0\""
            )
        );
    }

    fn downstream(lock: &Value) -> PackageRevision {
        let status = json!({"upstreamLock": {"type": "git", "git": lock}});
        with_status(revision("edge/dns:packagevariant-1", 1, "Published"), &status)
    }

    fn upstream(number: i64, lifecycle: &str, lock: &Value) -> PackageRevision {
        let status = json!({"selfLock": {"type": "git", "git": lock}});
        with_status(revision("catalog/net/coredns:ws", number, lifecycle), &status)
    }

    /// Checks a lock. Commits c4 and c4b have the same tree.
    fn is_current(lock: &Value, upstream: &PackageRevision) -> bool {
        let tree = |lock: &mut GitLock| {
            let commit = lock.commit.clone().filter(|commit| !commit.is_empty());
            lock.tree = commit.map(|commit| commit.trim_end_matches('b').to_owned());
        };
        let (mut downstream, mut upstream) = (downstream(lock), upstream.clone());
        for status in [&mut downstream, &mut upstream].into_iter().filter_map(|found| found.status.as_mut()) {
            for locator in [&mut status.upstream_lock, &mut status.self_lock].into_iter().flatten() {
                locator.git.as_mut().map(tree);
            }
        }
        freshness(&downstream, &upstream) == Freshness::Current
    }

    /// V-028, V-029, V-110: the rules in their order.
    #[test]
    fn every_rule() {
        let four = |commit| upstream(4, "Published", &lock("net/coredns/v4", commit));
        let five = upstream(5, "Published", &lock("net/coredns/v5", "c5"));
        let was = lock("net/coredns/v4", "c4");
        for (what, lock, upstream, expected) in [
            ("the same", was.clone(), four("c4"), true),
            ("one that is proposed for deletion", was.clone(), upstream(4, "DeletionProposed", &was), true),
            ("another number", was.clone(), five.clone(), false),
            ("a lower number", lock("net/coredns/v5", "c5"), four("c4"), false),
            ("another number of the same commit", was.clone(), upstream(5, "Published", &was), false),
            ("tagged anew, other content", was.clone(), four("c9"), false),
            ("tagged anew, same content", was.clone(), four("c4b"), true),
            ("a lock without commit", lock("net/coredns/v4", ""), four("c4"), true),
            ("a lock without commit, another number", lock("net/coredns/v4", ""), five, false),
            ("an upstream without commit", was.clone(), four(""), true),
            (
                "an unnumbered one by its commit",
                lock("net/coredns/v4.0.0", "c4"),
                upstream(-1, "Published", &lock("net/coredns/v4.0.0", "c4")),
                true,
            ),
            (
                "an unnumbered one that moved",
                lock("net/coredns/v4.0.0", "c4"),
                upstream(-1, "Published", &lock("net/coredns/v4.0.0", "c5")),
                false,
            ),
            ("what got a number since", lock("net/coredns/stable", "c4"), four("c4"), true),
            (
                "unnumbered ones without commits",
                lock("net/coredns/beta", ""),
                upstream(-1, "Published", &lock("net/coredns/stable", "c4")),
                false,
            ),
        ] {
            assert_eq!(is_current(&lock, &upstream), expected, "{what}");
        }
    }

    #[test]
    fn drafts_as_upstream() {
        let was = lock("drafts/net/coredns/ws", "d1");
        for (what, upstream, expected) in [
            ("the same Draft", upstream(0, "Draft", &was), true),
            ("the Draft, changed", upstream(0, "Draft", &lock("drafts/net/coredns/ws", "d2")), false),
            ("the Draft, proposed", upstream(0, "Proposed", &lock("proposed/net/coredns/ws", "d1")), true),
            ("a Draft that does not say where it is", revision("catalog/net/coredns:ws", 0, "Draft"), true),
            ("another one of these", revision("catalog/net/coredns:other", 0, "Draft"), false),
            ("another Draft", upstream(0, "Draft", &lock("drafts/net/coredns/other", "d1")), false),
            ("the Draft, published", upstream(5, "Published", &lock("net/coredns/v5", "d1")), false),
        ] {
            assert_eq!(is_current(&was, &upstream), expected, "{what}");
        }
        let published = lock("net/coredns/v4", "c4");
        assert!(!is_current(&published, &upstream(0, "Draft", &was)), "a Draft after a published one");
    }

    #[test]
    fn another_package_is_another_upstream() {
        let upstream = upstream(4, "Published", &lock("net/coredns/v4", "c4"));
        for (member, value, expected) in [
            ("repo", "https://GIT.example/catalog/", true),
            ("repo", "https://git.example/other", false),
            ("directory", "/net/coredns", true),
            ("directory", "net/other", false),
        ] {
            let mut lock = lock("net/coredns/v4", "c4");
            lock[member] = json!(value);
            assert_eq!(is_current(&lock, &upstream), expected, "{member} {value}");
        }
        // The Repository has a directory of its own, and only one of the two forms contains it.
        let mut below = lock("catalog/net/coredns/v4", "c4");
        below["directory"] = json!("catalog/net/coredns");
        assert!(is_current(&lock("catalog/net/coredns/v4", "c4"), &self::upstream(4, "Published", &below)));
    }

    #[test]
    fn without_a_lock_nothing_can_be_done() {
        let message = "downstream \"edge.dns.packagevariant-1\" has no upstream lock; upstream changes cannot be applied";
        let upstream = upstream(4, "Published", &lock("net/coredns/v4", "c4"));
        let without = Freshness::Unknown(message.to_owned());
        let plain = revision("edge/dns:packagevariant-1", 1, "Published");
        for downstream in [
            downstream(&lock("", "c4")),
            with_status(plain.clone(), &json!({"upstreamLock": {}})),
            with_status(plain.clone(), &json!({})),
            plain,
        ] {
            assert_eq!(freshness(&downstream, &upstream), without);
        }
    }

    /// The head of a branch: the tree decides, and without access to git the head is not followed.
    #[test]
    fn heads_of_branches() {
        let locked = lock("main", "c4");
        let head = |commit: &str| {
            let status = json!({"selfLock": {"type": "git", "git": lock("main", commit)}});
            with_status(revision("catalog/net/coredns:main", -1, "Published"), &status)
        };
        assert!(is_current(&locked, &head("c4")));
        assert!(is_current(&locked, &head("c4b")), "another package of the branch has changed");
        assert!(!is_current(&locked, &head("c5")));
        let blind = |head: &PackageRevision| freshness(&downstream(&locked), head);
        assert_eq!(blind(&head("c4")), Freshness::Current);
        assert!(matches!(blind(&head("c5")), Freshness::Unknown(note) if note.contains("head of a branch")));
        let tag = upstream(-1, "Published", &lock("net/coredns/v4.0.0", "c5"));
        let by_tag = downstream(&lock("net/coredns/v4.0.0", "c4"));
        assert_eq!(freshness(&by_tag, &tag), Freshness::Outdated, "a moved tag is followed");
    }

    #[test]
    fn origins() {
        let four = upstream(4, "Published", &lock("net/coredns/v4", "c4"));
        for (what, lock, exactly, at_all) in [
            ("its ref", lock("net/coredns/v4", "c9"), true, true),
            ("its commit", lock("drafts/net/coredns/ws", "c4"), true, true),
            ("another revision", lock("net/coredns/v5", "c5"), false, true),
            (
                "another package",
                json!({"repo": URL, "directory": "net/dns", "ref": "net/dns/v4"}),
                false,
                false,
            ),
        ] {
            let found = downstream(&lock);
            assert_eq!((derives_from(&found, &four), is_made_of(&found, &four)), (exactly, at_all), "{what}");
        }
        let mut head = downstream(&lock("net/coredns/v4", "c4"));
        head.spec.revision = Some(-1);
        assert!(!derives_from(&head, &four) && is_made_of(&head, &four), "a head needs no base");
        assert!(!is_made_of(&revision("edge/dns:w", 1, "Published"), &four));
    }

    /// Generates upstreams of all kinds, as stores return them: with all, some or none of the
    /// location known.
    fn upstreams() -> impl Strategy<Value = PackageRevision> {
        let kind = prop_oneof![
            (1i64..30).prop_map(|number| (number, "Published", format!("net/coredns/v{number}"))),
            (1i64..30).prop_map(|number| (number, "DeletionProposed", format!("net/coredns/{number}"))),
            "(stable|v4[.]0[.]0|r2)".prop_map(|tag| (-1, "Published", format!("net/coredns/{tag}"))),
            Just((0, "Draft", "drafts/net/coredns/ws".to_owned())),
            Just((0, "Proposed", "proposed/net/coredns/ws".to_owned())),
        ];
        let place = (
            proptest::option::of("https://(git|GIT)[.]example/c([.]git)?/?"),
            proptest::option::of("(catalog/)?net/coredns"),
            proptest::option::of("[a-c]{2}"),
        );
        (kind, place, any::<bool>()).prop_map(|((number, lifecycle, reference), place, is_told)| {
            let (repo, directory, commit) = place;
            let lock = json!({"repo": repo, "directory": directory, "ref": reference, "commit": commit});
            let lock = if is_told { lock } else { json!({"ref": reference}) };
            upstream(number, lifecycle, &lock)
        })
    }

    /// Returns the lock that a store writes when it clones or upgrades (`packagevariants.md` 6.6).
    fn written_lock(upstream: &PackageRevision) -> Value {
        let own = self_lock(upstream).cloned().unwrap_or_default();
        let repo = own.repo.map_or_else(
            || URL.to_owned(),
            |url| {
                let url = url.trim_end_matches('/');
                format!("{}.git", url.strip_suffix(".git").unwrap_or(url))
            },
        );
        json!({"repo": repo, "directory": "net/coredns", "ref": own.reference, "commit": own.commit})
    }

    proptest! {
        /// V-117: a revision that was just made from an upstream is current.
        #[test]
        fn an_upgrade_settles_it(upstream in upstreams()) {
            let downstream = downstream(&written_lock(&upstream));
            prop_assert_eq!(freshness(&downstream, &upstream), Freshness::Current);
        }
    }
}
