//! Kinds whose lists have no resourceVersion, as a Porch server serves them (`packagevariants.md` 6.13): each watch begins with all objects,
//! whatever it is told to begin with.

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

/// What such a watch tells.
#[derive(Debug)]
pub(crate) enum UnversionedEvent {
    Applied(Key, Box<Snapshot>),
    /// The object as it was when it went.
    Deleted(Key, Box<Snapshot>),
    /// The first one comes after all objects that there are.
    Bookmark,
}

/// An event, or why there are no more.
pub(crate) type UnversionedItem = Result<UnversionedEvent, SourceError>;

/// A line of a watch. Bookmarks of other servers need no resourceVersion, so the client's own type is too strict.
#[derive(Deserialize)]
struct Line {
    #[serde(rename = "type")]
    type_: String,
    #[serde(default)]
    object: Value,
}

impl Source {
    /// All objects, a bookmark, and what changes after it. Whole objects are asked for: a version covers their content only, and neither
    /// labels nor the lifecycle, so that another version is made from all that they say.
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
        let opened = opened.map_err(|_| self.failed("watch", "there is no answer".to_owned()))?;
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

/// A version that differs if anything of an object does. It is no number, so nothing compares it.
fn version(metadata: &ObjectMeta, content: &Value) -> Result<String, serde_json::Error> {
    let mut hasher = DefaultHasher::new();
    serde_json::to_string(metadata)?.hash(&mut hasher);
    content.to_string().hash(&mut hasher);
    let served = metadata.resource_version.as_deref().unwrap_or_default();
    Ok(format!("{served}.{:016x}", hasher.finish()))
}
