//! Variants and sets whose spec follows a tag (`packagevariants.md` 12.1): each move is an edit of the spec, for policies to veto and for history
//! to show. The controllers see the edit as they see those of people.

use groundwork_api::{PackageRevision, PackageVariant, PackageVariantSet, Repository, ResourceExt, Upstream};
use groundwork_bus::ObjectId;
use groundwork_controller::{ApiError, ObjectEvent, Objects, ReconcileError, Stored};
use groundwork_fleet::{FOLLOW_TAG, Follow, FollowError, Git, follow};
use serde_json::json;

use crate::COMPONENT;
use crate::handler::{Shared, kind};
use crate::packages::Backend;

/// Field manager of the revisions that are written here.
const MANAGER: &str = "groundwork-tag-follower";

/// What may follow a tag.
pub(crate) trait Follower: Stored + ResourceExt {
    fn upstream(&self) -> Option<&Upstream>;

    /// Whether something else writes the spec: the set of a variant would undo the edit.
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

/// The tag that an object is annotated with.
pub(crate) fn tag(object: &impl ResourceExt) -> Option<&str> {
    object.annotations().get(FOLLOW_TAG).map(String::as_str)
}

/// Moves the revision of an annotated object to where its tag leads; the object as it is then. What is in the way is told as an Event, and the
/// object stays as it is.
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
    match target(shared, &object, tag, revisions, objects).await {
        Ok(None) => Ok(object),
        Ok(Some(Follow { from, to })) => match write(&object, &to, objects).await {
            Ok(moved) => {
                let message = format!("tag {tag:?} leads from revision {from} to {to}");
                tracing::info!(object = object.name_any(), tag, from, to, "the revision follows the tag");
                note(&moved, &message, objects).await;
                Ok(moved)
            }
            // Policies may veto the edit; what is made of the revision that stays goes on.
            Err(error) if error.is_final() || matches!(error, ApiError::Forbidden { .. }) => {
                let message = format!("tag {tag:?} leads from revision {from} to {to}, but {error}");
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

/// Where the tag leads, as far as git can be asked. That a repository cannot be used is told where its packages are worked on.
async fn target<K: Follower>(
    shared: &Shared,
    object: &K,
    tag: &str,
    revisions: &[PackageRevision],
    objects: &Objects,
) -> Result<Option<Follow>, FollowError> {
    let upstream = object.upstream();
    let text = |text: Option<&String>| text.cloned().unwrap_or_default();
    let repo = text(upstream.and_then(|upstream| upstream.repo.as_ref()));
    let package = text(upstream.and_then(|upstream| upstream.package.as_ref()));
    let namespace = object.namespace().unwrap_or_default();
    if let Some(store) = shared.packages.as_ref().and_then(Backend::git) {
        let key = ObjectId::new(kind::<Repository>(), Some(&namespace), repo);
        if let Ok(repository) = store.repository(&key, objects).await {
            let decide = |git: &Git<'_>| follow(tag, upstream, revisions, git);
            return store.with_git(&namespace, &package, &repository, decide);
        }
    }
    follow(tag, upstream, revisions, &Git::UNKNOWN)
}

/// Takes the field over, whoever has written it: that is what the annotation asks for. Of another version than the one that was looked at
/// nothing is written.
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
