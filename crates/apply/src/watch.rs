//! Watches on objects of a cluster, by name or by labels.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::stream::{self, BoxStream, StreamExt as _};
use groundwork_client::answer::{Buffer, Held, Holding};
use groundwork_client::weight::weight;
use groundwork_controller::ApiError;
use http::header::ACCEPT_ENCODING;
use http::{HeaderValue, Method, Response};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde::Deserialize;
use serde_json::Value;

use crate::cluster::{Cluster, ResourceKind, folder_of};
use crate::exchange::OBJECT;

/// Time for which a refused watch is not tried again. A permission that is granted meanwhile takes
/// effect after that.
const UNWATCHABLE_FOR: Duration = Duration::from_secs(60);
/// Number of entries above which expired ones are removed.
const MOST_UNWATCHABLE: usize = 1000;
/// Maximum bytes of all events of one watch. After that the watch ends, and the caller looks at the
/// objects and watches anew.
const MOST_OF_WATCH: usize = 64 << 20;

/// Objects that one watch covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    pub kind: ResourceKind,
    /// Namespace; `None` for all namespaces, and for cluster-scoped kinds.
    pub namespace: Option<String>,
    pub selector: Selector,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Selector {
    Name(String),
    /// Label selector: `key=value,…`.
    Labels(String),
}

/// Event of a watch.
#[derive(Debug, Clone, PartialEq)]
pub enum WatchEvent {
    Applied(Value),
    Deleted(Value),
}

/// Events of a watch. The stream ends when the server ends the watch, or on any error; the
/// connection closes with it.
pub type WatchEvents = BoxStream<'static, WatchEvent>;

/// Refused watches, with the times of the refusals.
#[derive(Debug, Default)]
pub(crate) struct Unwatchable(Mutex<HashMap<String, Instant>>);

impl Unwatchable {
    fn holds(&self, path: &str) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(path).is_some_and(|since| since.elapsed() < UNWATCHABLE_FOR)
    }

    fn note(&self, path: &str) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST_UNWATCHABLE {
            known.retain(|_, since| since.elapsed() < UNWATCHABLE_FOR);
        }
        known.insert(path.to_owned(), Instant::now());
    }
}

impl Cluster {
    /// Watches objects from a resourceVersion on; without one, the existing objects come first. The
    /// server ends the watch after `lifetime`.
    ///
    /// # Errors
    ///
    /// The watch is not possible: a permission is missing, the kind cannot be watched, or the
    /// cluster does not answer. Such a watch is not tried again for a minute, except after
    /// [`ApiError::Unasked`], when the cluster takes no requests at all.
    pub async fn watch(
        &self,
        scope: &Scope,
        version: Option<&str>,
        lifetime: Duration,
    ) -> Result<WatchEvents, ApiError> {
        let path = path_of(scope)?;
        let what = format!("{} to wait for", scope.kind.plural);
        if self.unwatchable.holds(&path) {
            let problem = "the last attempt failed less than a minute ago".to_owned();
            return Err(ApiError::Transient { verb: "watch", object: what, problem });
        }
        let version = version.map(|version| format!("&resourceVersion={version}")).unwrap_or_default();
        let address = format!("{path}&timeoutSeconds={}{version}", lifetime.as_secs());
        let mut request = self.request(Method::GET, &address, "application/json", Vec::new())?;
        // Without `identity`, a compressor would delay events until it has enough of them.
        request.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let answer = self.exchange(request, "watch", &what).await;
        // A server that takes no requests at all has not refused this watch.
        if matches!(&answer, Err(error) if !matches!(error, ApiError::Unasked { .. })) {
            self.unwatchable.note(&path);
        }
        let answer = answer?;
        // The watch continues after the round, so it needs a memory budget of its own.
        let holding = self.for_work().holding;
        let buffer = Buffer::new(OBJECT, &holding).await;
        let buffer = buffer.map_err(|error| self.unread("watch", &what, &error))?;
        Ok(events(answer.response, buffer, holding))
    }
}

fn path_of(scope: &Scope) -> Result<String, ApiError> {
    let is_namespaced = scope.namespace.is_some();
    let folder =
        folder_of(&ResourceKind { is_namespaced, ..scope.kind.clone() }, scope.namespace.as_deref())?;
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("watch", "true");
    match &scope.selector {
        Selector::Name(name) => query.append_pair("fieldSelector", &format!("metadata.name={name}")),
        Selector::Labels(labels) => query.append_pair("labelSelector", labels),
    };
    Ok(format!("{folder}?{}", query.finish()))
}

/// One line of a watch.
#[derive(Deserialize)]
struct Line {
    #[serde(rename = "type")]
    change: String,
    object: Value,
}

/// Answer of a watch, split into lines as they arrive.
struct Lines {
    body: Body,
    buffer: Buffer,
    holding: Arc<Holding>,
    read: usize,
    /// Memory of the last line.
    held: Option<Held>,
}

impl Lines {
    /// Returns the next line; `None` at the end, and when a line or all lines together exceed their
    /// limit.
    async fn next(&mut self) -> Option<Line> {
        self.held = None;
        let mut searched = 0;
        loop {
            let found = self.buffer.bytes().get(searched..)?.iter().position(|byte| *byte == b'\n');
            if let Some(at) = found {
                let line = self.buffer.bytes().get(..searched + at)?;
                self.held = Some(self.holding.take(weight(line)).await.ok()?);
                let line = serde_json::from_slice(line).ok()?;
                self.buffer.skip(searched + at + 1);
                return Some(line);
            }
            searched = self.buffer.bytes().len();
            // A broken connection counts as the end of the answer.
            let frame = self.body.frame().await?.ok()?;
            let Some(piece) = frame.data_ref() else { continue };
            self.read += piece.len();
            if self.read > MOST_OF_WATCH {
                return None;
            }
            self.buffer.push(piece).await.ok()?;
        }
    }
}

fn events(response: Response<Body>, buffer: Buffer, holding: Arc<Holding>) -> WatchEvents {
    let lines = Lines { body: response.into_body(), buffer, holding, read: 0, held: None };
    stream::unfold(lines, async |mut lines| {
        loop {
            let line = lines.next().await?;
            let event = match line.change.as_str() {
                "ADDED" | "MODIFIED" => WatchEvent::Applied(line.object),
                "DELETED" => WatchEvent::Deleted(line.object),
                "BOOKMARK" => continue,
                // An error event, such as for a resourceVersion that is too old.
                _ => return None,
            };
            return Some((event, lines));
        }
    })
    .boxed()
}
