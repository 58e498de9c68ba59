//! Annotations and finalizers of objects, and patches that change them.

use groundwork_api::ObjectMeta;
use groundwork_api::metadata::FINALIZER;

use crate::write::MetadataPatch;

pub(super) fn annotation<'a>(metadata: &'a ObjectMeta, name: &str) -> Option<&'a str> {
    metadata.annotations.as_ref().and_then(|annotations| annotations.get(name)).map(String::as_str)
}

pub(super) fn is_set(metadata: &ObjectMeta, name: &str) -> bool {
    annotation(metadata, name) == Some("true")
}

pub(super) fn has_finalizer(metadata: &ObjectMeta) -> bool {
    metadata.finalizers.iter().flatten().any(|finalizer| finalizer == FINALIZER)
}

/// Returns the patch that adds our finalizer.
pub(super) fn with_finalizer(metadata: &ObjectMeta) -> MetadataPatch {
    let ours = FINALIZER.to_owned();
    let finalizers = metadata.finalizers.iter().flatten().cloned().chain([ours]).collect();
    MetadataPatch { finalizers: Some(finalizers), ..MetadataPatch::of(metadata) }
}

/// Returns the patch that removes our finalizer.
pub(super) fn without_finalizer(metadata: &ObjectMeta) -> MetadataPatch {
    let others = metadata.finalizers.iter().flatten().filter(|name| *name != FINALIZER);
    MetadataPatch { finalizers: Some(others.cloned().collect()), ..MetadataPatch::of(metadata) }
}
