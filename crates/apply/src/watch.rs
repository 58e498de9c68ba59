//! Watches on objects of a cluster: those of one name, or those with labels.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::stream::{self, BoxStream, StreamExt as _};
use groundwork_controller::ApiError;
use http::header::ACCEPT_ENCODING;
use http::{HeaderValue, Method, Response};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde::Deserialize;
use serde_json::Value;

use crate::cluster::{Cluster, ResourceKind, folder_of};

/// How long a watch that could not be had is not tried again; a right that is granted meanwhile is noticed after that.
const UNWATCHABLE_FOR: Duration = Duration::from_secs(60);
/// Beyond so many of these those that are over are forgotten.
const MOST_UNWATCHABLE: usize = 1000;
/// Bytes of one event. An object has at most 3 MiB; whoever sends more is no API server.
const LONGEST_EVENT: usize = 16 << 20;

/// What one watch shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    pub kind: ResourceKind,
    /// `None` for all namespaces, and for kinds without.
    pub namespace: Option<String>,
    pub selector: Selector,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Selector {
    Name(String),
    /// `key=value,…`
    Labels(String),
}

/// What a watch tells.
#[derive(Debug, Clone, PartialEq)]
pub enum WatchEvent {
    Applied(Value),
    Deleted(Value),
}

/// Ends when the server ends it, or when something is wrong with it; the connection ends with it.
pub type WatchEvents = BoxStream<'static, WatchEvent>;

/// Watches that could not be had, and since when.
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
    /// Watches objects from behind a resourceVersion on; without one, what is there comes first. The server ends the watch after `lifetime`.
    ///
    /// # Errors
    ///
    /// It cannot be had: a right is missing, the kind cannot be watched, or the cluster does not answer. It is not tried again for a minute,
    /// but for a cluster that takes no requests now ([`ApiError::Unasked`]).
    pub async fn watch(
        &self,
        scope: &Scope,
        version: Option<&str>,
        lifetime: Duration,
    ) -> Result<WatchEvents, ApiError> {
        let path = path_of(scope)?;
        let what = format!("{} to wait for", scope.kind.plural);
        if self.unwatchable.holds(&path) {
            let problem = "it could not be watched a moment ago".to_owned();
            return Err(ApiError::Transient { verb: "watch", object: what, problem });
        }
        let version = version.map(|version| format!("&resourceVersion={version}")).unwrap_or_default();
        let address = format!("{path}&timeoutSeconds={}{version}", lifetime.as_secs());
        let mut request = self.request(Method::GET, &address, "application/json", Vec::new())?;
        // Events come as they are, and not when a compressor has enough of them.
        request.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let answer = self.exchange(request, "watch", &what).await;
        // A server that takes no request at all says nothing of this one.
        if matches!(&answer, Err(error) if !matches!(error, ApiError::Unasked { .. })) {
            self.unwatchable.note(&path);
        }
        answer.map(events)
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

/// An answer, read as far as it is known.
struct Lines {
    frames: BoxStream<'static, Vec<u8>>,
    rest: Vec<u8>,
}

impl Lines {
    /// The next line; `None` at the end, and when a line has no end.
    async fn next(&mut self) -> Option<Vec<u8>> {
        let mut searched = 0;
        loop {
            if let Some(at) = self.rest[searched..].iter().position(|byte| *byte == b'\n') {
                let line = self.rest.drain(..=searched + at).collect();
                return Some(line);
            }
            searched = self.rest.len();
            if searched > LONGEST_EVENT {
                return None;
            }
            self.rest.extend_from_slice(&self.frames.next().await?);
        }
    }
}

fn events(response: Response<Body>) -> WatchEvents {
    let frames = response.into_body().into_data_stream();
    // An answer that breaks off has ended.
    let frames = frames
        .take_while(|frame| std::future::ready(frame.is_ok()))
        .filter_map(async |frame| frame.ok().map(|bytes| bytes.to_vec()));
    let lines = Lines { frames: frames.boxed(), rest: Vec::new() };
    stream::unfold(lines, async |mut lines| {
        loop {
            let line = serde_json::from_slice::<Line>(&lines.next().await?).ok()?;
            let event = match line.change.as_str() {
                "ADDED" | "MODIFIED" => WatchEvent::Applied(line.object),
                "DELETED" => WatchEvent::Deleted(line.object),
                "BOOKMARK" => continue,
                // An error, as that the resourceVersion is too old.
                _ => return None,
            };
            return Some((event, lines));
        }
    })
    .boxed()
}
