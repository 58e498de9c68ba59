//! Changes of stored objects, as the API server carries them out.

use groundwork_api::{DataObject, DeployItem, Execution, Installation, ResourceExt, Target, Time};
use k8s_openapi::api::core::v1::Secret;

use super::super::{Change, HasJob as _, MetadataPatch};

/// Applies one change as the API server does. Every version-checked write must name the stored
/// version.
pub(super) fn change_one<K: ResourceExt + Clone + StatusOf>(
    stored: Option<K>,
    change: Change<K>,
    version: &str,
    now: &Time,
    life: u32,
) -> Option<K> {
    let check = |stored: &Option<K>, decided: Option<String>| {
        let current = stored.as_ref().expect("what is changed exists").resource_version();
        assert_eq!(decided, current, "the write was decided on an old version");
    };
    let mut object = match change {
        Change::Create(mut object) => {
            if stored.is_some() {
                return stored;
            }
            // The owner of the second life has another UID than that of the first.
            let life = if life == 0 { String::new() } else { life.to_string() };
            object.meta_mut().uid = Some(format!("uid{life}-{}", object.name_any()));
            object.meta_mut().generation = Some(1);
            object
        }
        Change::Ensure(mut object) | Change::Publish(mut object) => {
            object.meta_mut().uid = Some(format!("uid-{}", object.name_any()));
            object
        }
        Change::Replace(mut object) => {
            check(&stored, object.resource_version());
            let generation = object.meta().generation.map(|generation| generation + 1);
            object.meta_mut().generation = generation;
            object
        }
        Change::Status(object) => {
            check(&stored, object.resource_version());
            let mut stored = stored?;
            stored.take_status(object);
            stored
        }
        Change::Metadata(MetadataPatch { resource_version, finalizers, annotations, .. }) => {
            if resource_version.is_some() {
                check(&stored, resource_version);
            }
            let mut stored = stored?;
            if finalizers.is_some() {
                stored.meta_mut().finalizers = finalizers;
            }
            for (name, value) in annotations {
                match value {
                    Some(value) => drop(stored.annotations_mut().insert(name.to_owned(), value)),
                    None => drop(stored.annotations_mut().remove(name)),
                }
            }
            stored
        }
        Change::Delete { .. } => {
            let mut stored = stored?;
            if stored.finalizers().is_empty() {
                return None;
            }
            stored.meta_mut().deletion_timestamp.get_or_insert_with(|| now.clone());
            stored
        }
    };
    object.meta_mut().resource_version = Some(version.to_owned());
    Some(object)
}

/// Removes an object that is being deleted and has no finalizer left.
pub(super) fn collect<K: ResourceExt>(object: Option<K>) -> Option<K> {
    object.filter(|object| object.meta().deletion_timestamp.is_none() || !object.finalizers().is_empty())
}

pub(super) trait StatusOf {
    fn take_status(&mut self, from: Self);
}

macro_rules! with_status {
    ($($kind:ty),*) => {$(
        impl StatusOf for $kind {
            fn take_status(&mut self, from: Self) {
                let is_other = self.job().is_running() && from.job().id != self.job().id;
                assert!(!is_other, "a job that runs is replaced on {}", self.name_any());
                self.status = from.status;
            }
        }
    )*};
}
with_status!(Installation, Execution, DeployItem);

impl StatusOf for DataObject {
    fn take_status(&mut self, _: Self) {}
}

impl StatusOf for Target {
    fn take_status(&mut self, _: Self) {}
}

impl StatusOf for Secret {
    fn take_status(&mut self, _: Self) {}
}
