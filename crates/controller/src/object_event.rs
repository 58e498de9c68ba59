//! Kubernetes Events, which users see in `kubectl describe`.

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::{Resource, ResourceExt};

use crate::error::ApiError;
use crate::objects::{Objects, Stored};

/// Longest message that the API server accepts, in bytes.
const MAX_MESSAGE: usize = 1024;

/// An occurrence at an object. Like conditions, it must not contain a value of an imported object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectEvent<'a> {
    pub reason: &'a str,
    pub message: &'a str,
    /// Name of the reporting component.
    pub component: &'static str,
    /// Text that distinguishes this occurrence from others, such as the id of a job.
    pub occurrence: &'a str,
}

impl ObjectEvent<'_> {
    /// Returns the Event of a type (`Normal` or `Warning`) at an object. Its name is derived from
    /// its content, so that repeating it creates no second Event.
    pub fn at(&self, about: ObjectReference, type_: &str) -> Event {
        let now = Time(jiff::Timestamp::now());
        let mut message = self.message.to_owned();
        message.truncate(message.floor_char_boundary(MAX_MESSAGE));
        let uid = about.uid.as_deref().unwrap_or_default();
        let fingerprint = fingerprint(&[uid, self.reason, &message, self.occurrence]);
        let name = format!("{}.{fingerprint:016x}", about.name.as_deref().unwrap_or_default());
        Event {
            metadata: ObjectMeta {
                name: Some(name),
                namespace: about.namespace.clone(),
                ..ObjectMeta::default()
            },
            involved_object: about,
            reason: Some(self.reason.to_owned()),
            message: Some(message),
            type_: Some(type_.to_owned()),
            source: Some(EventSource { component: Some(self.component.to_owned()), host: None }),
            first_timestamp: Some(now.clone()),
            last_timestamp: Some(now),
            count: Some(1),
            ..Event::default()
        }
    }
}

impl Objects {
    /// Records an Event of type `Warning`. Its name is derived from its content, so that repeating
    /// it creates no second Event.
    ///
    /// # Errors
    ///
    /// The Event could not be recorded. Callers may ignore that, since nothing depends on Events.
    pub async fn warn<K: Stored + Resource>(
        &self,
        about: &K,
        warning: &ObjectEvent<'_>,
    ) -> Result<(), ApiError> {
        self.record_event(about, "Warning", warning).await
    }

    /// Records an Event of type `Normal`.
    ///
    /// # Errors
    ///
    /// As [`Objects::warn`].
    pub async fn note<K: Stored + Resource>(
        &self,
        about: &K,
        note: &ObjectEvent<'_>,
    ) -> Result<(), ApiError> {
        self.record_event(about, "Normal", note).await
    }

    async fn record_event<K: Stored + Resource>(
        &self,
        about: &K,
        type_: &str,
        happened: &ObjectEvent<'_>,
    ) -> Result<(), ApiError> {
        let about = ObjectReference {
            api_version: Some(K::api_version(&()).into_owned()),
            kind: Some(K::kind(&()).into_owned()),
            name: Some(about.name_any()),
            namespace: Some(about.namespace().unwrap_or_default()),
            uid: Some(about.uid().unwrap_or_default()),
            resource_version: about.resource_version(),
            ..ObjectReference::default()
        };
        match self.create(&happened.at(about, type_)).await {
            Ok(_) | Err(ApiError::AlreadyExists(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Returns the FNV-1a hash of the parts, which is short and the same in every build.
fn fingerprint(parts: &[&str]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
