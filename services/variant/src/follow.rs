//! Variants and sets whose spec follows a tag (`packagevariants.md` 12.1). Each move of the tag is
//! an edit of the spec, so that admission policies can veto the move and the history shows it. The
//! controllers see the edit like an edit by a user.

use groundwork_api::{PackageRevision, PackageVariant, PackageVariantSet, ResourceExt, Upstream};
use groundwork_controller::{ApiError, ObjectEvent, Objects, ReconcileError, Stored};
use groundwork_fleet::{FOLLOW_TAG, Follow, follow};
use serde_json::json;

use crate::COMPONENT;
use crate::shared::Shared;

/// Field manager for the revisions that this module writes.
const MANAGER: &str = "groundwork-tag-follower";

/// Kinds whose spec may follow a tag.
pub(crate) trait Follower: Stored + ResourceExt {
    fn upstream(&self) -> Option<&Upstream>;

    /// Reports whether a set owns the spec: the set would undo an edit of its child.
    fn is_child(&self) -> bool;
}

impl Follower for PackageVariant {
    fn upstream(&self) -> Option<&Upstream> {
        self.spec.upstream.as_ref()
    }

    fn is_child(&self) -> bool {
        let owners = self.owner_references().iter();
        owners.filter(|owner| owner.controller == Some(true)).any(|owner| owner.kind == "PackageVariantSet")
    }
}

impl Follower for PackageVariantSet {
    fn upstream(&self) -> Option<&Upstream> {
        self.spec.upstream.as_ref()
    }

    fn is_child(&self) -> bool {
        false
    }
}

/// Returns the tag in the annotation of an object.
pub(crate) fn tag(object: &impl ResourceExt) -> Option<&str> {
    object.annotations().get(FOLLOW_TAG).map(String::as_str)
}

/// Sets the revision of an annotated object to the one that its tag points to, and returns the
/// object as it is after that. If the tag cannot be followed, the object stays unchanged and gets
/// an Event with the reason.
///
/// # Errors
/// The API server does not answer.
pub(crate) async fn followed<K: Follower>(
    shared: &Shared,
    object: K,
    revisions: &[PackageRevision],
    objects: &Objects,
) -> Result<K, ReconcileError> {
    let Some(tag) = tag(&object) else { return Ok(object) };
    if !shared.follows_tags {
        let why = "the service runs without --follow-tags";
        warn(&object, &format!("annotation {FOLLOW_TAG} has no effect: {why}"), objects).await;
        return Ok(object);
    }
    if object.is_child() {
        let why = "the variant belongs to a set; annotate the set";
        warn(&object, &format!("annotation {FOLLOW_TAG} has no effect: {why}"), objects).await;
        return Ok(object);
    }
    match follow(tag, object.upstream(), revisions) {
        Ok(None) => Ok(object),
        Ok(Some(Follow { from, to })) => match write(&object, &to, objects).await {
            Ok(moved) => {
                let message = format!("tag {tag:?} moved from revision {from} to {to}");
                tracing::info!(object = object.name_any(), tag, from, to, "the revision follows the tag");
                note(&moved, &message, objects).await;
                Ok(moved)
            }
            // An admission policy may veto the edit. The object keeps its revision, and its
            // packages are still reconciled.
            Err(error) if error.is_final() || matches!(error, ApiError::Forbidden { .. }) => {
                let message = format!("tag {tag:?} moved from revision {from} to {to}, but {error}");
                warn(&object, &message, objects).await;
                Ok(object)
            }
            Err(error) => Err(error.into()),
        },
        Err(error) => {
            warn(&object, &error.to_string(), objects).await;
            Ok(object)
        }
    }
}

/// Takes ownership of the field from any other manager, as the annotation asks for. The write fails
/// if the object has changed since it was read.
async fn write<K: Follower>(object: &K, revision: &str, objects: &Objects) -> Result<K, ApiError> {
    let spec = json!({"upstream": {"revision": revision}});
    objects.apply_spec(object, MANAGER, spec).await
}

async fn note(object: &impl Follower, message: &str, objects: &Objects) {
    let occurrence = object.resource_version().unwrap_or_default();
    let event = ObjectEvent { reason: "TagMoved", message, component: COMPONENT, occurrence: &occurrence };
    recorded(objects.note(object, &event).await);
}

async fn warn(object: &impl Follower, message: &str, objects: &Objects) {
    let occurrence = object.meta().generation.unwrap_or_default().to_string();
    let event =
        ObjectEvent { reason: "TagNotFollowed", message, component: COMPONENT, occurrence: &occurrence };
    recorded(objects.warn(object, &event).await);
}

fn recorded(answer: Result<(), ApiError>) {
    if let Err(error) = answer {
        tracing::warn!(%error, "an Event could not be recorded");
    }
}
