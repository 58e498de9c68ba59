//! Fate of a revision that its variant no longer wants (`packagevariants.md` 2.9).

use groundwork_api::{Lifecycle, PackageRevision};

use crate::package::{UNNUMBERED, number};

/// Steps to release a revision. Both are done, the withdrawal first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    pub withdrawal: Option<Withdrawal>,
    /// True if the owner reference is removed. With the reference, the garbage collector would
    /// delete the revision together with the variant, without any approval.
    pub orphan: bool,
}

/// Deletion of a revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withdrawal {
    Delete,
    ProposeDeletion,
}

/// Returns true if a deletion policy deletes revisions. An unknown policy deletes none.
pub fn deletes(policy: Option<&str>) -> bool {
    matches!(policy, None | Some("" | "delete"))
}

/// Decides about an owned revision whose variant is being deleted or makes another package now.
///
/// If the policy or the lifecycle is unknown, the revision is kept.
pub fn release(policy: Option<&str>, revision: &PackageRevision, is_variant_deleted: bool) -> Release {
    let kept = Release { withdrawal: None, orphan: true };
    // Porch adopts the heads of branches. Deleting such a revision would remove the package from
    // the branch.
    if !deletes(policy) || number(revision) == UNNUMBERED {
        return kept;
    }
    match revision.spec.lifecycle() {
        None => kept,
        Some(Lifecycle::Draft | Lifecycle::Proposed) => {
            Release { withdrawal: Some(Withdrawal::Delete), orphan: false }
        }
        Some(Lifecycle::Published) => {
            Release { withdrawal: Some(Withdrawal::ProposeDeletion), orphan: is_variant_deleted }
        }
        Some(Lifecycle::DeletionProposed) => Release { withdrawal: None, orphan: is_variant_deleted },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::tests::revision;

    /// V-010, V-040, V-041: every row of the table, for both causes.
    #[test]
    fn every_row() {
        let release_of = |withdrawal, orphan| Release { withdrawal, orphan };
        let deleted = release_of(Some(Withdrawal::Delete), false);
        let orphaned = release_of(None, true);
        let proposed = |orphan| release_of(Some(Withdrawal::ProposeDeletion), orphan);
        for policy in [None, Some(""), Some("delete")] {
            for (lifecycle, number, moved, gone) in [
                ("Draft", 0, deleted, deleted),
                ("Proposed", 0, deleted, deleted),
                ("", 0, deleted, deleted),
                ("Published", 3, proposed(false), proposed(true)),
                ("DeletionProposed", 3, release_of(None, false), orphaned),
                ("Published", -1, orphaned, orphaned),
                ("Final", 3, orphaned, orphaned),
            ] {
                let revision = revision("edge/dns:w", number, lifecycle);
                assert_eq!(release(policy, &revision, false), moved, "{policy:?} {lifecycle}");
                assert_eq!(release(policy, &revision, true), gone, "{policy:?} {lifecycle}");
            }
        }
        for policy in ["orphan", "Delete", "x"] {
            for lifecycle in ["Draft", "Proposed", "Published", "DeletionProposed"] {
                for is_deleted in [false, true] {
                    let revision = revision("edge/dns:w", 3, lifecycle);
                    assert_eq!(
                        release(Some(policy), &revision, is_deleted),
                        orphaned,
                        "{policy} {lifecycle}"
                    );
                }
            }
        }
    }
}
