//! Waits of PackageVariants, PackageVariantSets and package revisions, read from their conditions.

use groundwork_api::{Lifecycle, MetaCondition, ObjectMeta, PackageRevision};

use super::{LONGEST_LOOK, Look, Wait, held, time};
use crate::machine::READY;

/// Returns the wait of a PackageVariant or PackageVariantSet. `None` if it is ready.
pub fn of_variant(metadata: &ObjectMeta, conditions: &[MetaCondition]) -> Option<Wait> {
    if metadata.deletion_timestamp.is_some() {
        let since = time(metadata.deletion_timestamp.as_ref());
        let found = held(metadata.finalizers.as_deref().unwrap_or_default(), since)?;
        return Some(found.wait);
    }
    let ready = conditions.iter().find(|condition| condition.type_ == READY);
    let next_look = Some(Look::Within(LONGEST_LOOK));
    match ready {
        Some(ready) if ready.status == "True" => None,
        Some(ready) => Some(Wait {
            what: format!("its condition {READY} ({})", ready.reason),
            since: time(Some(&ready.last_transition_time)),
            next_look,
        }),
        None => {
            let since = time(metadata.creation_timestamp.as_ref());
            Some(Wait { what: "the variant service to take it up".to_owned(), since, next_look })
        }
    }
}

/// Returns the wait of a package revision, with its stage in git. `None` if it is published, or its
/// author still edits it.
pub fn of_revision(revision: &PackageRevision, stage: Option<Lifecycle>) -> Option<Wait> {
    let metadata = &revision.metadata;
    let since = time(metadata.deletion_timestamp.as_ref());
    let wanted = revision.spec.lifecycle();
    let wait = |what: String| Some(Wait { what, since, next_look: None });
    match stage {
        _ if since.is_some() => wait("its store to delete it".to_owned()),
        Some(stage) if wanted.is_some_and(|wanted| wanted != stage) => {
            wait(format!("its store to make it {}", wanted.map(Lifecycle::as_str).unwrap_or_default()))
        }
        Some(Lifecycle::Proposed) => wait("approval or rejection by a user".to_owned()),
        Some(Lifecycle::DeletionProposed) => {
            wait("approval or rejection of its deletion by a user".to_owned())
        }
        Some(Lifecycle::Draft | Lifecycle::Published) | None => None,
    }
}
