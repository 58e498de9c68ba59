//! Watches: streams of changes from a [`crate::Log`].

use std::collections::VecDeque;
use std::time::Duration;

use axum::body::{Body, Bytes};
use futures::stream;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::log::{Change, LAG, Served};
use crate::refusal::Refusal;
use crate::request::Options;
use crate::storage::{Group, Kind, Watch};
use crate::view::View;

/// Interval between bookmarks.
const BOOKMARKS: Duration = Duration::from_secs(60);
/// Time after which a watch ends if the client does not say another.
const TIME: Duration = Duration::from_secs(30 * 60);

/// A watch of one client.
pub(crate) struct Watching {
    pub(crate) watch: Watch,
    pub(crate) kind: &'static Kind,
    pub(crate) group: Group,
    pub(crate) namespace: String,
    pub(crate) options: Options,
    pub(crate) view: View,
    pub(crate) end: CancellationToken,
}

struct Stream {
    watching: Watching,
    /// Version up to which the client has been told everything.
    version: u64,
    /// Lines that are still to be sent.
    lines: VecDeque<Bytes>,
    ends_at: Instant,
    bookmark_at: Instant,
    is_first: bool,
    has_ended: bool,
}

impl Watching {
    /// Returns the body of the answer.
    ///
    /// # Errors
    ///
    /// The version to begin with is too old, or was never reached.
    pub(crate) async fn body(self) -> Result<Body, Refusal> {
        let log = &self.watch.log;
        let asked = self.options.resource_version.unwrap_or_default();
        log.until(asked, LAG).await.map_err(|newest| Refusal::too_new(asked, newest))?;
        let now = Instant::now();
        let ends_at = now + self.options.timeout.unwrap_or(TIME).min(TIME);
        let mut stream = Stream {
            version: asked,
            lines: VecDeque::new(),
            ends_at,
            bookmark_at: now + BOOKMARKS,
            is_first: true,
            has_ended: false,
            watching: self,
        };
        // Without a version, or with version 0, a watch begins with all objects.
        if asked == 0 || stream.watching.options.sends_initial_events {
            stream.begin();
        } else if let Err(expired) = stream.watching.watch.log.since(asked) {
            return Err(Refusal::expired(asked, expired.oldest));
        }
        let lines = stream::unfold(stream, |mut stream| async move {
            let line = stream.next().await?;
            Some((Ok::<_, std::convert::Infallible>(line), stream))
        });
        Ok(Body::from_stream(lines))
    }
}

impl Stream {
    /// Adds all objects.
    fn begin(&mut self) {
        let (objects, version) =
            self.watching.watch.log.list(&self.watching.namespace, &self.watching.watch.selector);
        for object in objects {
            self.tell("ADDED", &object, object.version);
        }
        self.version = version;
        if self.watching.options.sends_initial_events && self.watching.options.allows_bookmarks {
            self.bookmark(json!({"k8s.io/initial-events-end": "true"}));
        }
    }

    /// Returns the next line; `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        let mut newest = self.watching.watch.log.versions();
        loop {
            if let Some(line) = self.lines.pop_front() {
                return Some(line);
            }
            if self.has_ended {
                return None;
            }
            newest.mark_unchanged();
            self.look();
            if !self.lines.is_empty() {
                continue;
            }
            tokio::select! {
                changed = newest.changed() => self.has_ended = changed.is_err(),
                () = sleep_until(self.bookmark_at), if self.watching.options.allows_bookmarks => {
                    self.bookmark_at = Instant::now() + BOOKMARKS;
                    self.bookmark(Value::Null);
                }
                () = sleep_until(self.ends_at) => self.has_ended = true,
                () = self.watching.end.cancelled() => self.has_ended = true,
            }
        }
    }

    /// Adds the changes since the last look.
    fn look(&mut self) {
        let (events, version) = match self.watching.watch.log.since(self.version) {
            Ok(found) => found,
            // The client was too slow, and some changes are gone.
            Err(expired) => {
                let status = Refusal::expired(self.version, expired.oldest).body();
                self.add(&json!({"type": "ERROR", "object": status}));
                self.has_ended = true;
                return;
            }
        };
        for event in events {
            let type_ = match event.seen_by(&self.watching.namespace, &self.watching.watch.selector) {
                Some(Change::Added) => "ADDED",
                Some(Change::Modified) => "MODIFIED",
                Some(Change::Deleted) => "DELETED",
                None => continue,
            };
            self.tell(type_, &event.object, event.version);
        }
        self.version = version;
    }

    fn tell(&mut self, type_: &'static str, object: &Served, version: u64) {
        let Ok(mut object) = serde_json::from_slice::<Value>(&object.json) else { return };
        // The version of a deletion is newer than the last state of the object.
        object["metadata"]["resourceVersion"] = json!(version.to_string());
        let object = self.watching.view.of_change(object, self.watching.kind, self.is_first);
        self.is_first = false;
        self.add(&json!({"type": type_, "object": object}));
    }

    fn bookmark(&mut self, annotations: Value) {
        let Group { name, version } = self.watching.group;
        let mut metadata = json!({"resourceVersion": self.version.to_string(), "creationTimestamp": null});
        if !annotations.is_null() {
            metadata["annotations"] = annotations;
        }
        let object = json!({"kind": self.watching.kind.kind, "apiVersion": format!("{name}/{version}"), "metadata": metadata});
        let object = match self.watching.view {
            View::Table(_) => json!({
                "kind": "Table", "apiVersion": "meta.k8s.io/v1",
                "metadata": {"resourceVersion": self.version.to_string()}, "columnDefinitions": [], "rows": [
                    {"cells": [], "object": {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]}}
                ],
            }),
            view => view.object(object, self.watching.kind),
        };
        self.add(&json!({"type": "BOOKMARK", "object": object}));
    }

    fn add(&mut self, event: &Value) {
        self.lines.push_back(Bytes::from(format!("{event}\n")));
    }
}
