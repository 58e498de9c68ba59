//! Kubernetes Events: what a person sees under `kubectl describe`.

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::{Resource, ResourceExt};

use crate::error::ApiError;
use crate::objects::{Objects, Stored};

/// Longest message that the API server takes, in bytes.
const MAX_MESSAGE: usize = 1024;

/// What happened to an object. It must hold no value of an imported object, as conditions must not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectEvent<'a> {
    pub reason: &'a str,
    pub message: &'a str,
    /// Name of the reporting component.
    pub component: &'static str,
    /// What makes this occurrence different from others, such as the id of a job.
    pub occurrence: &'a str,
}

impl ObjectEvent<'_> {
    /// The Event of a type (`Normal` or `Warning`) at an object. Its name follows from its content, so that it is there once.
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
    /// Records a warning. Its name follows from its content, so that repeating it adds nothing.
    ///
    /// # Errors
    ///
    /// It could not be recorded; nothing depends on it.
    pub async fn warn<K: Stored + Resource>(
        &self,
        about: &K,
        warning: &ObjectEvent<'_>,
    ) -> Result<(), ApiError> {
        self.record_event(about, "Warning", warning).await
    }

    /// Records what is as it should be.
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

/// FNV-1a: short, and the same in every build.
fn fingerprint(parts: &[&str]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
