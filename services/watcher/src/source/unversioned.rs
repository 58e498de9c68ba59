//! Kinds whose lists have no resourceVersion, as a Porch server serves them (`packagevariants.md`
//! 6.13). Each watch starts with all objects, regardless of the resourceVersion in its request.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use futures::stream::BoxStream;
use futures::{AsyncBufReadExt as _, StreamExt as _};
use groundwork_bus::Snapshot;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::WatchParams;
use kube::core::{Request, Status};
use serde::Deserialize;
use serde_json::Value;

use super::{REQUEST_TIMEOUT, Source, SourceError, WATCH_TIMEOUT, key};
use crate::ledger::Key;

/// Event of a watch whose lists have no resourceVersion.
#[derive(Debug)]
pub(crate) enum UnversionedEvent {
    Applied(Key, Box<Snapshot>),
    /// The object is deleted; its last state.
    Deleted(Key, Box<Snapshot>),
    /// A bookmark. The first one follows after all existing objects.
    Bookmark,
}

/// An event, or the reason why the watch ended.
pub(crate) type UnversionedItem = Result<UnversionedEvent, SourceError>;

/// A line of a watch. Servers may send bookmarks without a resourceVersion, which the client's own
/// type rejects.
#[derive(Deserialize)]
struct Line {
    #[serde(rename = "type")]
    type_: String,
    #[serde(default)]
    object: Value,
}

impl Source {
    /// Watches the kind: returns all objects, a bookmark, and later changes. It requests whole
    /// objects, because the server's version covers only their content, not labels or the
    /// lifecycle. A new version is computed from all of these.
    pub(crate) async fn watch_unversioned(&self) -> Result<BoxStream<'static, UnversionedItem>, SourceError> {
        let parameters = WatchParams {
            timeout: u32::try_from(WATCH_TIMEOUT.as_secs()).ok(),
            bookmarks: true,
            ..WatchParams::default()
        };
        let request = Request::new(self.api.resource_url()).watch(&parameters, "");
        let request = request.map_err(|error| self.error("watch", kube::Error::BuildRequest(error)))?;
        let client = self.api.clone().into_client();
        let opened = tokio::time::timeout(REQUEST_TIMEOUT, client.request_stream(request)).await;
        let opened =
            opened.map_err(|_| self.failed("watch", "the API server did not answer in time".to_owned()))?;
        let lines = opened.map_err(|error| self.error("watch", error))?.lines();
        let source = self.clone();
        Ok(lines
            .map(move |line| match line {
                Ok(line) => source.unversioned_item(&line),
                Err(error) => Err(source.error("watch", kube::Error::ReadEvents(error))),
            })
            .boxed())
    }

    fn unversioned_item(&self, line: &str) -> UnversionedItem {
        let unreadable = |error| self.error("watch", kube::Error::SerdeError(error));
        let Line { type_, mut object } = serde_json::from_str(line).map_err(unreadable)?;
        match type_.as_str() {
            "BOOKMARK" => Ok(UnversionedEvent::Bookmark),
            "ADDED" | "MODIFIED" | "DELETED" => {
                let metadata = object.get_mut("metadata").map(Value::take).unwrap_or_default();
                let mut metadata: ObjectMeta = serde_json::from_value(metadata).map_err(unreadable)?;
                metadata.managed_fields = None;
                let key = key(&metadata);
                if type_ == "DELETED" {
                    let snapshot = Snapshot::new(metadata, self.fields, &object);
                    return Ok(UnversionedEvent::Deleted(key, Box::new(snapshot)));
                }
                metadata.resource_version = Some(version(&metadata, &object).map_err(unreadable)?);
                let snapshot = Snapshot::new(metadata, self.fields, &object);
                Ok(UnversionedEvent::Applied(key, Box::new(snapshot)))
            }
            _ => {
                let status: Status = serde_json::from_value(object).map_err(unreadable)?;
                Err(self.error("watch", kube::Error::Api(Box::new(status))))
            }
        }
    }
}

/// Returns a version that changes with any part of an object. It is not a number, so it is never
/// compared by order.
fn version(metadata: &ObjectMeta, content: &Value) -> Result<String, serde_json::Error> {
    let mut hasher = DefaultHasher::new();
    serde_json::to_string(metadata)?.hash(&mut hasher);
    content.to_string().hash(&mut hasher);
    let served = metadata.resource_version.as_deref().unwrap_or_default();
    Ok(format!("{served}.{:016x}", hasher.finish()))
}
