//! What becomes of a revision that its variant lets go (`packagevariants.md` 2.9).

use groundwork_api::{Lifecycle, PackageRevision};

use crate::package::{UNNUMBERED, number};

/// How a revision is let go. Both steps are done, the withdrawal first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    pub withdrawal: Option<Withdrawal>,
    /// The owner reference is removed. Garbage collection would delete the revision otherwise as soon as the variant is gone,
    /// and nobody would have approved that.
    pub orphan: bool,
}

/// How a revision is taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withdrawal {
    Delete,
    ProposeDeletion,
}

/// True if a deletion policy takes revisions back; one that is not known destroys nothing.
pub fn deletes(policy: Option<&str>) -> bool {
    matches!(policy, None | Some("" | "delete"))
}

/// What becomes of an owned revision, because its variant is being deleted or because it makes another package now.
///
/// Where the policy, or the stage of the revision, is none that we know, nothing is destroyed.
pub fn release(policy: Option<&str>, revision: &PackageRevision, is_variant_deleted: bool) -> Release {
    let kept = Release { withdrawal: None, orphan: true };
    // The reference adopts heads of branches; deleting such a one removes the package from the branch.
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
